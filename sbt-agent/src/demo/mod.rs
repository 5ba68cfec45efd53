//! The built-in programs of `sbt demo`: parallel programs whose barriers behave in a known way.
//!
//! A monitor is best learnt on programs whose faults are known beforehand. The programs are the
//! case studies of the literature (matrix product, LU with two distributions, LU in blocks, radix
//! sort, ocean, water) with real algorithms and real `pthread_barrier_wait` calls, and a program
//! that hangs. Most come as a pair, one program with a fault and one without, that differ in one
//! thing only; docs/case-studies.md discusses them. `sbt` starts itself as the target, so that the
//! programs are watched from outside like any other process. Each program checks its own result,
//! which would reveal a monitor that disturbs its target.
//!
//! All programs are SPMD: every thread, including the main thread (number 0), calls the same phase
//! functions in the same order, and every phase ends with a barrier wait inside its function. A
//! report shows the name of this function as the site.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may fail that way"))]

pub mod barrier;
mod deadlock;
mod grid;
mod lu;
mod lu_blocks;
mod matmul;
mod molecules;
mod ocean;
mod radix;
mod random;
mod rounds;
mod shared;
mod team;
mod water;

pub use rounds::Size;

use std::io::Write;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

/// Name of the program that hangs.
pub const DEADLOCK: &str = "deadlock";

/// Time after which a monitor may report a hang; the program that hangs lasts long enough for this.
pub const HANG_TIME: Duration = Duration::from_secs(2);

/// Default running time of a program: long enough to read the live screen while it changes.
pub const TIME: Duration = Duration::from_millis(8500);

/// Names of the programs, each with one line about what a report will show.
pub const NAMES: &[(&str, &str)] = &[
    (
        "lu-block",
        "LU, rows in blocks: the first threads run out of work, and the last thread is the \
         straggler",
    ),
    (
        "lu-cyclic",
        "LU, rows dealt round robin: as lu-block, but with even work",
    ),
    (
        "lu-serial",
        "LU in square blocks: while one thread factors the panel, all others wait",
    ),
    (
        "lu-parallel",
        "the same with all but the first block of the panel shared out",
    ),
    (
        "matmul",
        "matrix product in two phases: even work, no problem to find",
    ),
    (
        "matmul-tiles",
        "the same in tiles that do not go evenly into the threads",
    ),
    (
        "radix",
        "radix sort with a tree sum: first half of the threads, in the end one, have work",
    ),
    (
        "radix-flat",
        "the same with a sum in which all threads have work",
    ),
    (
        "ocean",
        "red-black relaxation on a grid: even sweeps and a serial residual sum",
    ),
    (
        "water",
        "molecular dynamics, triangular pair loop: the last thread has the most work",
    ),
    (
        "water-folded",
        "the same with the triangle folded: every thread has as many pairs",
    ),
    (
        DEADLOCK,
        "a worker leaves early, and the others wait for it for ever (ends by itself: on the live \
         screen after a minute)",
    ),
];

/// Runs the program `name` with `threads` threads, including the calling thread.
///
/// `size` is the amount of work: a scale of 1 takes some seconds on two CPUs. Prints one line with
/// the problem's size at the start, and one with the outcome of the check at the end. Fails if
/// there is no such program or its result is wrong. `deadlock` does not return: it ends the process
/// with status 1, after a minute if `patient`.
pub fn run(name: &str, threads: usize, size: Size, patient: bool) -> Result<()> {
    ensure!(threads > 0, "a program needs at least one thread");
    let scale = size.factor();
    ensure!(
        scale.is_finite() && scale > 0.0,
        "the scale must be above 0, not {scale}"
    );
    let start = Instant::now();
    let verdict = match name {
        "lu-block" => lu::run(lu::Layout::Block, threads, size),
        "lu-cyclic" => lu::run(lu::Layout::Cyclic, threads, size),
        "lu-serial" => lu_blocks::run(lu_blocks::Panel::Serial, threads, size),
        "lu-parallel" => lu_blocks::run(lu_blocks::Panel::Shared, threads, size),
        "matmul" => matmul::run(matmul::Deal::Even, threads, size),
        "matmul-tiles" => matmul::run(matmul::Deal::Tiles, threads, size),
        "radix" => radix::run(radix::Sum::Tree, threads, size),
        "radix-flat" => radix::run(radix::Sum::Flat, threads, size),
        "ocean" => ocean::run(threads, size),
        "water" => water::run(water::Deal::Block, threads, size),
        "water-folded" => water::run(water::Deal::Folded, threads, size),
        DEADLOCK => deadlock::run(threads, size, patient),
        _ => return check(name),
    }
    .with_context(|| format!("demo {name}"))?;
    say(&format!(
        "{name}: {verdict}, OK, {:.2} s",
        start.elapsed().as_secs_f64()
    ))
}

/// Checks that there is a program of this name. The error lists all programs.
pub fn check(name: &str) -> Result<()> {
    if NAMES.iter().any(|(known, _)| *known == name) {
        return Ok(());
    }
    let known: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
    bail!(
        "no demo is called \"{name}\"; there are: {}",
        known.join(", ")
    );
}

/// Prints one line at once. Unlike with `println!`, a closed pipe is an error and not a panic.
fn say(line: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")
        .and_then(|()| out.flush())
        .context("cannot write to standard output")
}

/// `base` times `factor`, but at least `least`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a size, positive by the check in `run`; a float cast saturates"
)]
fn scaled(base: usize, factor: f64, least: usize) -> usize {
    ((base as f64 * factor) as usize).max(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_runs_and_checks_its_result() {
        for (name, _) in NAMES.iter().filter(|(name, _)| *name != "deadlock") {
            run(name, 3, Size::Scale(1e-4), false).unwrap();
        }
    }

    #[test]
    fn every_name_runs_for_a_time() {
        let time = Duration::from_millis(300);
        for (name, _) in NAMES.iter().filter(|(name, _)| *name != DEADLOCK) {
            let begin = Instant::now();
            run(name, 3, Size::Time(time), false).unwrap();
            assert!(begin.elapsed() >= time, "{name}");
        }
    }

    #[test]
    fn an_unknown_name_is_told_the_known_ones() {
        let error = run("lu", 4, Size::Scale(1.0), false)
            .unwrap_err()
            .to_string();
        assert!(error.contains("lu-block, lu-cyclic"), "{error}");
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(run("matmul", 0, Size::Scale(1.0), false).is_err());
        assert!(run("matmul", 1, Size::Scale(0.0), false).is_err());
        assert!(run("matmul", 1, Size::Scale(f64::NAN), false).is_err());
    }
}
