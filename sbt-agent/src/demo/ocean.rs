//! Diffusion on a grid in implicit time steps, solved by red-black relaxation.
//!
//! The shape of SPLASH's ocean: each thread has a band of rows and needs its neighbours' edges, and
//! several barriers separate the parts of a time step. Every few sweeps one thread alone
//! computes the residual that decides whether to go on: a loop that somebody forgot to make
//! parallel.
//!
//! The step is Crank and Nicolson's: (1 + cL) u' = (1 - cL) u with L u = 4 u - (sum of the four
//! neighbours), written for the increment d = u' - u: (1 + cL) d = -2c L u. A sine wave is an
//! eigenvector of L, so the exact result is known: each step multiplies it by
//! (1 - c lambda) / (1 + c lambda).

use std::f64::consts::PI;

use anyhow::{Result, ensure};

use super::barrier::Barrier;
use super::grid::{self, BLACK, Field, RED};
use super::rounds::{Rounds, Size};
use super::shared::Shared;
use super::{say, team};

/// Cells per side, edges included; even.
const SIDE: usize = 2048;
const STEPS: usize = 20;
/// c = D dt / (2 h^2)
const C: f64 = 2.0;
/// Pairs of sweeps from one residual to the next.
const CHECK_EVERY: usize = 4;
/// Pairs of sweeps after which a step counts as not converging.
const MOST_SWEEPS: usize = 200;
/// Of the residual's norm against that of the right-hand side.
const TOLERANCE: f64 = 1e-8;

struct Ocean {
    side: usize,
    threads: usize,
    height: Field,
    increment: Field,
    right_side: Field,
    /// Relative residual: the one number that all threads decide by.
    residual: Shared<f64>,
    barrier: Barrier,
}

/// Runs the time steps and compares with the exact result; gives the check's outcome.
pub fn run(threads: usize, size: Size) -> Result<String> {
    let steps = size.scaled_rounds(STEPS);
    say(&format!(
        "ocean, {SIDE} x {SIDE} cells, {}, {threads} threads",
        steps.told("time steps")
    ))?;
    let error = Ocean::new(SIDE, threads)?.simulate(&steps)?;
    ensure!(
        error < TOLERANCE * (steps.done() + 1) as f64,
        "{error:.1e} off the exact result"
    );
    Ok(format!("{error:.1e} off the exact result"))
}

impl Ocean {
    fn new(side: usize, threads: usize) -> Result<Self> {
        Ok(Self {
            side,
            threads,
            height: Field::new(side),
            increment: Field::new(side),
            right_side: Field::new(side),
            residual: Shared::new(1, 0.0),
            barrier: Barrier::new(threads)?,
        })
    }

    /// Largest error against the exact result; it is an error if a step does not converge.
    fn simulate(mut self, steps: &Rounds) -> Result<f64> {
        team::run("ocean", self.threads, |me| {
            self.fill_grid(me);
            for _ in steps.by(me) {
                if !self.time_step(me) {
                    return;
                }
            }
        })?;
        let residual = self.residual.as_slice()[0];
        ensure!(
            residual < TOLERANCE,
            "no convergence: the residual is still {residual:.1e}"
        );
        Ok(self.error(steps.done()))
    }

    /// Whether it converged; all threads get the same answer.
    fn time_step(&self, me: usize) -> bool {
        self.laplacian(me);
        for sweep in 1..=MOST_SWEEPS {
            self.sweep_red(me);
            self.sweep_black(me);
            if sweep % CHECK_EVERY == 0 && self.sum_residual(me) < TOLERANCE {
                self.apply(me);
                return true;
            }
        }
        false
    }

    #[inline(never)]
    fn fill_grid(&self, me: usize) {
        let (rows, columns) = self.waves();
        for (row, color) in self.mine(me) {
            // SAFETY: a thread's own rows.
            let cells = unsafe { self.height.write(color, row) };
            for (cell, column) in cells.iter_mut().zip(self.height.columns(color, row)) {
                *cell = rows[row] * columns[column];
            }
        }
        self.barrier.wait();
    }

    #[inline(never)]
    fn laplacian(&self, me: usize) {
        for (row, color) in self.mine(me) {
            // SAFETY: the height is only read in this phase; the right side's rows are our own.
            let (target, height, around) = unsafe {
                (
                    self.right_side.write(color, row),
                    self.height.read(color, row),
                    self.height.around(color, row),
                )
            };
            for ((target, height), sum) in target.iter_mut().zip(height).zip(around.sums()) {
                *target = 2.0 * C * (sum - 4.0 * height);
            }
        }
        self.barrier.wait();
    }

    #[inline(never)]
    fn sweep_red(&self, me: usize) {
        self.relax(me, RED);
        self.barrier.wait();
    }

    #[inline(never)]
    fn sweep_black(&self, me: usize) {
        self.relax(me, BLACK);
        self.barrier.wait();
    }

    /// One over-relaxation of `me`'s cells of one colour, from their neighbours of the other.
    fn relax(&self, me: usize, color: usize) {
        let scale = 1.0 + 4.0 * C;
        // Young's optimum for the spectral radius of Jacobi's iteration, here without the edges.
        let radius = 4.0 * C / scale;
        let omega = 2.0 / (1.0 + (1.0 - radius * radius).sqrt());
        for (row, _) in self.mine(me).filter(|(_, of)| *of == color) {
            // SAFETY: cells of this colour are used by their owner only in this phase, and
            // those of the other and the right side are only read.
            let (cells, right_side, around) = unsafe {
                (
                    self.increment.write(color, row),
                    self.right_side.read(color, row),
                    self.increment.around(color, row),
                )
            };
            for ((cell, right_side), sum) in cells.iter_mut().zip(right_side).zip(around.sums()) {
                *cell += omega * ((right_side + C * sum) / scale - *cell);
            }
        }
    }

    /// One thread computes the residual of the whole grid; all get it.
    #[inline(never)]
    fn sum_residual(&self, me: usize) -> f64 {
        if me == 0 {
            let relative = self.relative_residual();
            // SAFETY: the others read it after the barrier below only, and before the next one.
            unsafe { self.residual.set(0, relative) };
        }
        self.barrier.wait();
        // SAFETY: written again at the earliest after the barrier of the next sweep.
        unsafe { self.residual.read(0..1)[0] }
    }

    /// Norm of the residual over that of the right-hand side; for one thread while others wait.
    #[inline(never)]
    fn relative_residual(&self) -> f64 {
        let (mut rest, mut whole) = (0.0, 0.0);
        for (row, color) in grid::with_colors(1..self.side - 1) {
            // SAFETY: nobody writes either field in the phase of the residual.
            let (increment, right_side, around) = unsafe {
                (
                    self.increment.read(color, row),
                    self.right_side.read(color, row),
                    self.increment.around(color, row),
                )
            };
            for ((increment, right_side), sum) in
                increment.iter().zip(right_side).zip(around.sums())
            {
                let residual = right_side + C * sum - (1.0 + 4.0 * C) * increment;
                rest += residual * residual;
                whole += right_side * right_side;
            }
        }
        (rest / whole).sqrt()
    }

    #[inline(never)]
    fn apply(&self, me: usize) {
        for (row, color) in self.mine(me) {
            // SAFETY: a thread's own rows, and the increment is only read in this phase.
            let (height, increment) = unsafe {
                (
                    self.height.write(color, row),
                    self.increment.read(color, row),
                )
            };
            for (height, increment) in height.iter_mut().zip(increment) {
                *height += increment;
            }
        }
        self.barrier.wait();
    }

    /// The rows of `me`'s band, once per colour.
    fn mine(&self, me: usize) -> impl Iterator<Item = (usize, usize)> {
        let band = team::part(self.side - 2, self.threads, me);
        grid::with_colors(band.start + 1..band.end + 1)
    }

    /// Half waves from edge to edge, along the rows and along the columns.
    fn modes(&self) -> (f64, f64) {
        ((self.side / 32 + 1) as f64, (self.side / 24 + 1) as f64)
    }

    /// The initial height of row i and column j is the i-th of the first times the j-th of the
    /// second.
    fn waves(&self) -> (Vec<f64>, Vec<f64>) {
        let length = (self.side - 1) as f64;
        let wave = |mode: f64| {
            let sine = |i: usize| (mode * PI * i as f64 / length).sin();
            (0..self.side).map(sine).collect()
        };
        let (along_rows, along_columns) = self.modes();
        (wave(along_rows), wave(along_columns))
    }

    fn error(&mut self, steps: usize) -> f64 {
        let length = (self.side - 1) as f64;
        let cosine = |mode: f64| (mode * PI / length).cos();
        let (along_rows, along_columns) = self.modes();
        let lambda = 4.0 - 2.0 * cosine(along_rows) - 2.0 * cosine(along_columns);
        let factor = (0..steps).fold(1.0, |f, _| f * (1.0 - C * lambda) / (1.0 + C * lambda));
        let (rows, columns) = self.waves();
        self.height
            .values()
            .map(|(row, column, height)| (height - factor * rows[row] * columns[column]).abs())
            .fold(0.0, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wave_decays_as_it_should() {
        for threads in [1, 3, 4] {
            let ocean = Ocean::new(50, threads).unwrap();
            let error = ocean.simulate(&Rounds::of(5)).unwrap();
            assert!(error < 6.0 * TOLERANCE, "{error}");
        }
    }

    #[test]
    fn more_threads_than_rows() {
        let ocean = Ocean::new(6, 7).unwrap();
        let error = ocean.simulate(&Rounds::of(2)).unwrap();
        assert!(error < 3.0 * TOLERANCE, "{error}");
    }
}
