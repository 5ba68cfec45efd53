//! Matrix product in two phases, several rounds, with two ways of giving the rows to the threads.
//!
//! Every round fills both operands anew, the right one transposed so that the product runs along
//! rows of both, then multiplies. All rows cost the same. Shared out evenly, there is nothing wrong
//! with the program. Dealt out in tiles that are too large, one thread gets a tile more than the
//! others.

use std::ops::Range;

use anyhow::{Result, ensure};

use super::barrier::Barrier;
use super::rounds::{Rounds, Size};
use super::shared::Shared;
use super::{random, say, scaled, team};

const ROUNDS: usize = 48;
/// Rows of the right operand that are used together, so that they stay in the cache.
const STRIP: usize = 32;
const LANES: usize = 8;
/// Relative to n, which bounds the elements of the check vectors within a factor of 2.
const TOLERANCE: f64 = 1e-12;

/// The rows that each thread owns.
#[derive(Clone, Copy)]
pub enum Deal {
    /// As many as the others, one after the other.
    Even,
    /// In tiles, dealt round robin: their number is that of the threads and one more.
    Tiles,
}

struct Matmul {
    n: usize,
    threads: usize,
    deal: Deal,
    left: Shared<f64>,
    /// The right operand's columns, one after the other.
    right: Shared<f64>,
    product: Shared<f64>,
    barrier: Barrier,
}

/// Multiplies and checks the last product; gives the check's outcome.
pub fn run(deal: Deal, threads: usize, size: Size) -> Result<String> {
    let n = scaled(960, size.factor().cbrt(), 8);
    let rounds = size.rounds(ROUNDS);
    let how = match deal {
        Deal::Even => "shared out evenly",
        Deal::Tiles => "dealt in tiles",
    };
    say(&format!(
        "matrix product, {n} x {n}, {}, {threads} threads, rows {how}",
        rounds.told("rounds")
    ))?;
    let error = Matmul::new(n, threads, deal)?.multiply_all(&rounds)?;
    ensure!(
        error < TOLERANCE,
        "C x - A (B x) is {error:.1e} relative to n, more than rounding"
    );
    Ok(format!("C x - A (B x) is {error:.1e} relative to n"))
}

impl Matmul {
    fn new(n: usize, threads: usize, deal: Deal) -> Result<Self> {
        Ok(Self {
            n,
            threads,
            deal,
            left: Shared::new(n * n, 0.0),
            right: Shared::new(n * n, 0.0),
            product: Shared::new(n * n, 0.0),
            barrier: Barrier::new(threads)?,
        })
    }

    fn multiply_all(mut self, rounds: &Rounds) -> Result<f64> {
        team::run("matmul", self.threads, |me| {
            for round in rounds.by(me) {
                self.fill_operands(me, round);
                self.multiply(me);
            }
        })?;
        Ok(self.error())
    }

    #[inline(never)]
    fn fill_operands(&self, me: usize, round: usize) {
        let seed = (2 * round * self.n * self.n) as u64;
        for mine in self.owned(me) {
            // SAFETY: a thread fills its own rows only, and nobody reads any before the barrier.
            let (left, right) = unsafe {
                (
                    self.left.write(mine.clone()),
                    self.right.write(mine.clone()),
                )
            };
            for ((left, right), cell) in left.iter_mut().zip(right).zip(mine) {
                *left = random::centred(seed + 2 * cell as u64);
                *right = random::centred(seed + 2 * cell as u64 + 1);
            }
        }
        self.barrier.wait();
    }

    #[inline(never)]
    fn multiply(&self, me: usize) {
        let n = self.n;
        for mine in self.owned(me) {
            // SAFETY: the operands were filled before the barrier and are only read in this phase;
            // a thread writes its own rows of the product, which nobody reads.
            let (left, right, product) = unsafe {
                (
                    self.left.read(mine.clone()),
                    self.right.read(0..n * n),
                    self.product.write(mine),
                )
            };
            for (strip, columns) in right.chunks(STRIP * n).enumerate() {
                let rows = left.chunks_exact(n).zip(product.chunks_exact_mut(n));
                for (row, out) in rows {
                    let out = &mut out[strip * STRIP..];
                    for (cell, column) in out.iter_mut().zip(columns.chunks_exact(n)) {
                        *cell = dot(row, column);
                    }
                }
            }
        }
        self.barrier.wait();
    }

    /// The elements of a thread's rows, in contiguous ranges.
    fn owned(&self, me: usize) -> impl Iterator<Item = Range<usize>> {
        let parts = match self.deal {
            Deal::Even => self.threads,
            Deal::Tiles => self.threads + 1,
        };
        (me..parts).step_by(self.threads).map(move |part| {
            let rows = team::part(self.n, parts, part);
            rows.start * self.n..rows.end * self.n
        })
    }

    /// Freivalds' check: largest element of C x - A (B x) for x of random signs, divided by n.
    fn error(&mut self) -> f64 {
        let n = self.n;
        let signs: Vec<f64> = (0..n as u64).map(|i| random::centred(i).signum()).collect();
        let mut right_x = vec![0.0; n];
        for (column, sign) in self.right.as_slice().chunks_exact(n).zip(&signs) {
            for (sum, cell) in right_x.iter_mut().zip(column) {
                *sum += sign * cell;
            }
        }
        let rows = self.left.as_slice().chunks_exact(n);
        let worst = rows
            .zip(self.product.as_slice().chunks_exact(n))
            .map(|(left, product)| (dot(product, &signs) - dot(left, &right_x)).abs())
            .fold(0.0, f64::max);
        worst / n as f64
    }
}

/// Scalar product, with independent partial sums that the compiler can keep in vector registers.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let (a_lanes, a_rest) = a.as_chunks::<LANES>();
    let (b_lanes, b_rest) = b.as_chunks::<LANES>();
    let mut sums = [0.0; LANES];
    for (a, b) in a_lanes.iter().zip(b_lanes) {
        for lane in 0..LANES {
            sums[lane] += a[lane] * b[lane];
        }
    }
    let rest: f64 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    sums.iter().sum::<f64>() + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_product_passes_its_check() {
        for deal in [Deal::Even, Deal::Tiles] {
            for threads in [1, 3, 4, 7] {
                let matmul = Matmul::new(67, threads, deal).unwrap();
                let error = matmul.multiply_all(&Rounds::of(2)).unwrap();
                assert!(error < TOLERANCE, "{error}");
            }
        }
    }

    #[test]
    fn a_wrong_element_fails_the_check() {
        let mut matmul = Matmul::new(20, 1, Deal::Even).unwrap();
        matmul.fill_operands(0, 0);
        matmul.multiply(0);
        // SAFETY: there is only this thread.
        unsafe { matmul.product.set(33, 100.0) };
        assert!(matmul.error() > 1.0);
    }

    #[test]
    fn tiles_give_the_first_of_four_twice_as_many_rows() {
        let rows = |deal: Deal| -> Vec<usize> {
            let matmul = Matmul::new(60, 4, deal).unwrap();
            let rows = |me| matmul.owned(me).map(|cells| cells.len() / 60).sum();
            (0..4).map(rows).collect()
        };
        assert_eq!(rows(Deal::Even), [15; 4]);
        assert_eq!(rows(Deal::Tiles), [24, 12, 12, 12]);
    }
}
