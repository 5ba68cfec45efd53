//! LU factorisation in square blocks, with two ways of factoring the panel.
//!
//! The three phases of SPLASH's blocked LU. The first is serial: the owner of the block on the
//! diagonal factors it, and the others wait. In the second the blocks beside it are solved with its
//! factors, in the third the square that remains is updated. The blocks below the diagonal belong
//! to the same matrix column, the panel, and many a program leaves all of it to the first phase and
//! its one thread. They need not be there: they depend on the diagonal block alone and can be shared
//! out with those right of it. Nothing else differs.
//!
//! As in SPLASH the blocks lie one after the other in memory, each of them row by row. Several
//! matrices are factored one after the other.

use std::ops::Range;

use anyhow::Result;

use super::barrier::Barrier;
use super::rounds::{Rounds, Size};
use super::shared::Shared;
use super::{lu, say, team};

const MATRICES: usize = 130;
/// Blocks along each side.
const BLOCKS: usize = 8;
/// Rows and columns of a block.
const SIZE: usize = 128;
/// Pivot rows that are applied together, so that the row they are applied to is read less often.
const LANES: usize = 4;

/// The threads that solve the blocks below the diagonal.
#[derive(Clone, Copy, PartialEq)]
pub enum Panel {
    /// The diagonal block's owner, in the first phase.
    Serial,
    /// Everybody, in the second.
    Shared,
}

struct LuBlocks {
    blocks: usize,
    size: usize,
    threads: usize,
    panel: Panel,
    /// Block by block; in the end U, and below its diagonal L without its unit diagonal.
    matrix: Shared<f64>,
    barrier: Barrier,
}

/// Factors some matrices and checks the last product of factors; gives the check's outcome.
pub fn run(panel: Panel, threads: usize, size: Size) -> Result<String> {
    let matrices = size.scaled_rounds(MATRICES);
    let how = match panel {
        Panel::Serial => "serial",
        Panel::Shared => "shared",
    };
    let n = BLOCKS * SIZE;
    say(&format!(
        "LU factorisation in blocks, {n} x {n}, {}, {threads} threads, panel {how}",
        matrices.told("matrices")
    ))?;
    LuBlocks::new(BLOCKS, SIZE, threads, panel)?.factor(&matrices)
}

impl LuBlocks {
    fn new(blocks: usize, size: usize, threads: usize, panel: Panel) -> Result<Self> {
        Ok(Self {
            blocks,
            size,
            threads,
            panel,
            matrix: Shared::new((blocks * size).pow(2), 0.0),
            barrier: Barrier::new(threads)?,
        })
    }

    fn factor(mut self, matrices: &Rounds) -> Result<String> {
        team::run("lu", self.threads, |me| {
            for _ in matrices.by(me) {
                self.fill_blocks(me);
                for step in 0..self.blocks {
                    self.factor_panel(me, step);
                    if step + 1 < self.blocks {
                        self.solve_perimeter(me, step);
                        self.update_interior(me, step);
                    }
                }
            }
        })?;
        let rows = self.by_rows();
        lu::check(self.blocks * self.size, &rows)
    }

    #[inline(never)]
    fn fill_blocks(&self, me: usize) {
        let (n, size) = (self.blocks * self.size, self.size);
        for index in (me..self.blocks.pow(2)).step_by(self.threads) {
            let (row, column) = (index / self.blocks * size, index % self.blocks * size);
            // SAFETY: a thread fills its own blocks only, and nobody reads any before the barrier.
            let block = unsafe { self.matrix.write(self.block(index)) };
            for (cell, value) in block.iter_mut().enumerate() {
                *value = lu::original(n, row + cell / size, column + cell % size);
            }
        }
        self.barrier.wait();
    }

    /// One thread factors the block on the diagonal, or all of the panel.
    #[inline(never)]
    fn factor_panel(&self, me: usize, step: usize) {
        if self.owner(step) == me {
            // SAFETY: the others wait meanwhile.
            let diagonal = unsafe { self.matrix.write(self.at(step, step)) };
            factor(diagonal, self.size);
            if self.panel == Panel::Serial {
                for row in step + 1..self.blocks {
                    // SAFETY: as above, and it is another block.
                    let block = unsafe { self.matrix.write(self.at(row, step)) };
                    solve_below(block, diagonal, self.size);
                }
            }
        }
        self.barrier.wait();
    }

    /// Everybody solves blocks right of the diagonal and, unless that is done, below it.
    #[inline(never)]
    fn solve_perimeter(&self, me: usize, step: usize) {
        // SAFETY: the diagonal block is only read in this phase.
        let diagonal = unsafe { self.matrix.read(self.at(step, step)) };
        let rest = step + 1..self.blocks;
        let right = rest.clone().map(|column| (step, column));
        let below = rest.map(|row| (row, step));
        let below = below.take(match self.panel {
            Panel::Serial => 0,
            Panel::Shared => self.blocks,
        });
        for (row, column) in right.chain(below).skip(me).step_by(self.threads) {
            // SAFETY: each of these blocks is used by one thread in this phase.
            let block = unsafe { self.matrix.write(self.at(row, column)) };
            if row == step {
                solve_right(block, diagonal, self.size);
            } else {
                solve_below(block, diagonal, self.size);
            }
        }
        self.barrier.wait();
    }

    /// Everybody updates blocks of the square that remains.
    #[inline(never)]
    fn update_interior(&self, me: usize, step: usize) {
        let rest = step + 1..self.blocks;
        let blocks = rest
            .clone()
            .flat_map(|row| rest.clone().map(move |column| (row, column)));
        for (row, column) in blocks.skip(me).step_by(self.threads) {
            // SAFETY: the perimeter is only read in this phase, and each block of the interior is
            // used by one thread.
            let (block, left, above) = unsafe {
                (
                    self.matrix.write(self.at(row, column)),
                    self.matrix.read(self.at(row, step)),
                    self.matrix.read(self.at(step, column)),
                )
            };
            update(block, left, above, self.size);
        }
        self.barrier.wait();
    }

    /// The thread that factors a diagonal block: the threads form a grid, as square as can be, that
    /// is laid over the blocks again and again.
    fn owner(&self, step: usize) -> usize {
        let rows = (1..=self.threads.isqrt())
            .rev()
            .find(|rows| self.threads.is_multiple_of(*rows))
            .unwrap_or(1);
        let columns = self.threads / rows;
        step % rows * columns + step % columns
    }

    /// The cells of the block in this row and column of blocks.
    fn at(&self, row: usize, column: usize) -> Range<usize> {
        self.block(row * self.blocks + column)
    }

    fn block(&self, index: usize) -> Range<usize> {
        let cells = self.size.pow(2);
        index * cells..(index + 1) * cells
    }

    /// The matrix row by row.
    fn by_rows(&mut self) -> Vec<f64> {
        let (blocks, size) = (self.blocks, self.size);
        let cells = self.matrix.as_slice();
        let mut rows = Vec::with_capacity(cells.len());
        for row in 0..blocks * size {
            for column in 0..blocks {
                let first = ((row / size * blocks + column) * size + row % size) * size;
                rows.extend_from_slice(&cells[first..first + size]);
            }
        }
        rows
    }
}

/// L and U of a block, in its place.
fn factor(block: &mut [f64], size: usize) {
    for row in 1..size {
        let (above, rest) = block.split_at_mut(row * size);
        eliminate(&mut rest[..size], above, size);
    }
}

/// A block below the diagonal times the inverse of the diagonal's U.
fn solve_below(block: &mut [f64], diagonal: &[f64], size: usize) {
    for row in block.chunks_exact_mut(size) {
        eliminate(row, diagonal, size);
    }
}

/// Subtracts multiples of some rows of an upper triangle from `row`, so that its first cells become
/// 0, and keeps the multipliers there.
fn eliminate(row: &mut [f64], pivots: &[f64], size: usize) {
    for (column, pivot) in pivots.chunks_exact(size).enumerate() {
        let factor = row[column] / pivot[column];
        row[column] = factor;
        for (cell, above) in row[column + 1..].iter_mut().zip(&pivot[column + 1..]) {
            *cell -= factor * above;
        }
    }
}

/// The inverse of the diagonal's L times a block right of the diagonal.
fn solve_right(block: &mut [f64], diagonal: &[f64], size: usize) {
    for (row, factors) in diagonal.chunks_exact(size).enumerate() {
        let (above, rest) = block.split_at_mut(row * size);
        subtract(&mut rest[..size], &factors[..row], above);
    }
}

/// Subtracts the product of two blocks from a third.
fn update(block: &mut [f64], left: &[f64], above: &[f64], size: usize) {
    for (row, factors) in block.chunks_exact_mut(size).zip(left.chunks_exact(size)) {
        subtract(row, factors, above);
    }
}

/// Subtracts from `row` as many rows as there are factors, each times its factor.
fn subtract(row: &mut [f64], factors: &[f64], rows: &[f64]) {
    let size = row.len();
    let (together, single) = factors.as_chunks::<LANES>();
    let (many, one) = rows.split_at(together.len() * LANES * size);
    for ([a, b, c, d], rows) in together.iter().zip(many.chunks_exact(LANES * size)) {
        let (first, rest) = rows.split_at(size);
        let (second, rest) = rest.split_at(size);
        let (third, fourth) = rest.split_at(size);
        let pairs = first.iter().zip(second).zip(third.iter().zip(fourth));
        for (cell, ((w, x), (y, z))) in row.iter_mut().zip(pairs) {
            *cell -= (a * w + b * x) + (c * y + d * z);
        }
    }
    for (factor, above) in single.iter().zip(one.chunks_exact(size)) {
        for (cell, value) in row.iter_mut().zip(above) {
            *cell -= factor * value;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_factors_pass_the_check_either_way() {
        for panel in [Panel::Serial, Panel::Shared] {
            for (blocks, size, threads) in [(1, 9, 2), (4, 16, 1), (5, 13, 3), (3, 7, 4)] {
                let lu = LuBlocks::new(blocks, size, threads, panel).unwrap();
                lu.factor(&Rounds::of(2)).unwrap();
            }
        }
    }

    #[test]
    fn a_block_left_out_fails_the_check() {
        let mut lu = LuBlocks::new(2, 8, 1, Panel::Serial).unwrap();
        lu.fill_blocks(0);
        lu.factor_panel(0, 0);
        lu.solve_perimeter(0, 0);
        // Left out: update_interior.
        let rows = lu.by_rows();
        assert!(lu::check(16, &rows).is_err());
    }

    #[test]
    fn the_diagonal_belongs_to_a_few() {
        let owners = |threads| -> Vec<usize> {
            let lu = LuBlocks::new(4, 2, threads, Panel::Serial).unwrap();
            (0..4).map(|step| lu.owner(step)).collect()
        };
        assert_eq!(owners(4), [0, 3, 0, 3]);
        assert_eq!(owners(2), [0, 1, 0, 1]);
        assert_eq!(owners(1), [0; 4]);
        assert_eq!(owners(6), [0, 4, 2, 3]);
    }
}
