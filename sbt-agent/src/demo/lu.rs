//! LU factorisation, with two ways of giving the rows to the threads.
//!
//! Right-looking, without pivoting (the matrix is diagonally dominant), a panel of pivot rows at a
//! time: one thread factors the panel, then all update their rows below it. Finished rows need no
//! more work. With rows in blocks the first threads have soon finished all of theirs and idle,
//! while the owner of the last rows works to the end; dealt round robin, the rows that remain are
//! always spread evenly. Nothing else differs.

use std::ops::Range;

use anyhow::{Result, ensure};

use super::barrier::Barrier;
use super::rounds::{Rounds, Size};
use super::shared::Shared;
use super::{random, say, scaled, team};

/// Rows and columns of one matrix,
const N: usize = 3200;
/// and of one of many, which are factored one after the other.
const N_OF_MANY: usize = 1024;
/// Rows factored per step: enough for the serial phase to be longer than a context switch.
const PANEL: usize = 16;
/// Relative to the largest elements, which are about `n`.
const TOLERANCE: f64 = 1e-12;

/// The rows that each thread owns.
#[derive(Clone, Copy)]
pub enum Layout {
    /// Contiguous blocks.
    Block,
    /// Row `i` belongs to thread `i` modulo the number of threads.
    Cyclic,
}

struct Lu {
    n: usize,
    threads: usize,
    layout: Layout,
    /// Row by row; in the end U, and below its diagonal L without its unit diagonal.
    matrix: Shared<f64>,
    barrier: Barrier,
}

/// Factors a matrix and checks the product of the factors; gives the check's outcome.
pub fn run(layout: Layout, threads: usize, size: Size) -> Result<String> {
    let (n, matrices) = match size {
        Size::Scale(scale) => (scaled(N, scale.cbrt(), 2 * PANEL), Rounds::of(1)),
        Size::Time(time) => (N_OF_MANY, Rounds::during(time)),
    };
    let how = match layout {
        Layout::Block => "in blocks",
        Layout::Cyclic => "round robin",
    };
    let times = match size {
        Size::Scale(_) => String::new(),
        Size::Time(_) => format!("{}, ", matrices.told("matrices")),
    };
    say(&format!(
        "LU factorisation, {n} x {n}, {times}{threads} threads, rows {how}"
    ))?;
    Lu::new(n, threads, layout)?.factor(&matrices)
}

impl Lu {
    fn new(n: usize, threads: usize, layout: Layout) -> Result<Self> {
        Ok(Self {
            n,
            threads,
            layout,
            matrix: Shared::new(n * n, 0.0),
            barrier: Barrier::new(threads)?,
        })
    }

    fn factor(mut self, matrices: &Rounds) -> Result<String> {
        team::run("lu", self.threads, |me| {
            for _ in matrices.by(me) {
                self.fill_rows(me);
                for first in (0..self.n).step_by(PANEL) {
                    let panel = first..self.n.min(first + PANEL);
                    self.factor_pivot(me, panel.clone());
                    self.update_rows(me, panel);
                }
            }
        })?;
        check(self.n, self.matrix.as_slice())
    }

    #[inline(never)]
    fn fill_rows(&self, me: usize) {
        for row in self.owned(me, 0) {
            // SAFETY: a thread's own row.
            let cells = unsafe { self.matrix.write(self.row(row)) };
            for (column, cell) in cells.iter_mut().enumerate() {
                *cell = original(self.n, row, column);
            }
        }
        self.barrier.wait();
    }

    /// One thread factors the rows of the panel.
    #[inline(never)]
    fn factor_pivot(&self, me: usize, panel: Range<usize>) {
        if self.factors(me, panel.start) {
            for row in panel.clone() {
                for pivot in panel.start..row {
                    self.eliminate(row, pivot);
                }
            }
        }
        self.barrier.wait();
    }

    /// Everybody applies the panel to its own rows below.
    #[inline(never)]
    fn update_rows(&self, me: usize, panel: Range<usize>) {
        for row in self.owned(me, panel.end) {
            for pivot in panel.clone() {
                self.eliminate(row, pivot);
            }
        }
        self.barrier.wait();
    }

    /// Subtracts from `row` the multiple of the `pivot` row that clears its column, and keeps the
    /// multiplier there.
    fn eliminate(&self, row: usize, pivot: usize) {
        // SAFETY: a row is written by its owner or, within the panel, by the one thread that
        // factors it while all others wait; pivot rows are not written while they are applied.
        let (cells, above) = unsafe {
            (
                self.matrix.write(self.row(row)),
                self.matrix.read(self.row(pivot)),
            )
        };
        let (cells, above) = (&mut cells[pivot..], &above[pivot..]);
        let factor = cells[0] / above[0];
        cells[0] = factor;
        for (cell, pivot_cell) in cells[1..].iter_mut().zip(&above[1..]) {
            *cell -= factor * pivot_cell;
        }
    }

    /// The rows of `me` from row `from` on.
    fn owned(&self, me: usize, from: usize) -> impl Iterator<Item = usize> {
        let (rows, step) = match self.layout {
            Layout::Block => {
                let block = team::part(self.n, self.threads, me);
                (block.start.max(from)..block.end, 1)
            }
            Layout::Cyclic => {
                let past = (from + self.threads - me) % self.threads;
                let start = from + (self.threads - past) % self.threads;
                (start..self.n, self.threads)
            }
        };
        rows.step_by(step)
    }

    /// Whether `me` factors the panel that begins at `first`.
    fn factors(&self, me: usize, first: usize) -> bool {
        match self.layout {
            Layout::Block => team::part(self.n, self.threads, me).contains(&first),
            Layout::Cyclic => first / PANEL % self.threads == me,
        }
    }

    fn row(&self, row: usize) -> Range<usize> {
        row * self.n..(row + 1) * self.n
    }
}

/// Compares eight rows of the product of L and U, given in one matrix row by row, with those of the
/// original; gives the outcome.
pub fn check(n: usize, lu: &[f64]) -> Result<String> {
    let mut worst = 0.0_f64;
    for row in (0..8).map(|sample| sample * (n - 1) / 7) {
        let (lower, upper) = lu[row * n..(row + 1) * n].split_at(row);
        let mut product: Vec<f64> = vec![0.0; row];
        product.extend_from_slice(upper);
        for (k, factor) in lower.iter().enumerate() {
            for column in k..n {
                product[column] += factor * lu[k * n + column];
            }
        }
        for (column, value) in product.iter().enumerate() {
            worst = worst.max((value - original(n, row, column)).abs());
        }
    }
    let error = worst / n as f64;
    ensure!(
        error < TOLERANCE,
        "A - LU is {error:.1e} relative to n, more than rounding"
    );
    Ok(format!("A - LU is {error:.1e} relative to n"))
}

/// The matrix to be factored: noise, with a diagonal that outweighs its row.
pub fn original(n: usize, row: usize, column: usize) -> f64 {
    let diagonal = if row == column { n as f64 } else { 0.0 };
    diagonal + random::centred((row * n + column) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_layouts_factor_at_any_number_of_threads() {
        for layout in [Layout::Block, Layout::Cyclic] {
            for threads in [1, 2, 3, 5] {
                let lu = Lu::new(75, threads, layout).unwrap();
                lu.factor(&Rounds::of(2)).unwrap();
            }
        }
    }

    #[test]
    fn every_row_has_one_owner() {
        for layout in [Layout::Block, Layout::Cyclic] {
            let lu = Lu::new(50, 4, layout).unwrap();
            for from in 0..50 {
                let mut rows: Vec<usize> = (0..4).flat_map(|me| lu.owned(me, from)).collect();
                rows.sort_unstable();
                assert_eq!(rows, (from..50).collect::<Vec<_>>());
            }
        }
    }
}
