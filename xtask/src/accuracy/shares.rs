//! Part two: threads that work for a known share of their time.

use std::fmt::Write as _;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::Section;
use super::lab::{Lab, Program};
use super::load::{Shares, seen, truth};
use crate::bench::figures::deviation;

const RUNS: usize = 10;
const PERIOD_US: u32 = 5_000;
const ROUNDS: u32 = 50;

/// A run counts if the program had its intended load within this many percentage points; otherwise
/// other programs used the CPUs.
const NEAR: f64 = 5.0;
/// Runs of a load at most.
const TRIES: u32 = 40;
const PAUSE: Duration = Duration::from_secs(1);

/// Bars in percentage points, from the validation that this one repeats.
const WORST: f64 = 5.0;
const DEVIATION: f64 = 2.0;

/// One share of one thread in one run, per cent.
#[derive(Clone, Copy)]
struct Point {
    truth: f64,
    seen: f64,
}

/// Measures loads from 10 to 100 per cent.
pub fn measure(lab: &Lab) -> Result<Section> {
    let program = lab.build("bench/accuracy-load.c")?;
    let mut section = Section::default();
    writeln!(
        section.text,
        "\n## Threads of known load\n\n\
         The two threads of [accuracy-load.c](../bench/accuracy-load.c) spin until their own CPU \
         clock has used a share of a period of {} ms. Then the first thread sleeps until the \
         period is over, and the second thread waits for it at the barrier. There are {ROUNDS} \
         periods in a run, and {RUNS} runs for each load. A run is repeated if a thread missed its \
         load by more than {NEAR} points by its own clock: something disturbed it.\n\n\
         *Running* is `running_ns / (work_ns + idle_ns)` of each thread, compared with \
         `CLOCK_THREAD_CPUTIME_ID` in the program; *idle* is `idle_ns / (work_ns + idle_ns)`. sbt \
         stamps a departure before the program reads its CPU clock, so its shares of running are a \
         little higher. Deviations are in percentage points. Bars: no deviation above {WORST}, \
         standard deviation at most {DEVIATION}.\n\n\
         | load | running, mean | by sbt | worst | deviation | idle of the second, mean | by sbt | \
         worst | deviation | |\n|---|---|---|---|---|---|---|---|---|---|",
        PERIOD_US / 1000,
    )?;
    for load in (10..=100).step_by(10) {
        eprintln!("measuring: load of {load} %");
        let (mut running, mut idle) = (Vec::new(), Vec::new());
        for _ in 0..RUNS {
            let threads = run_undisturbed(lab, &program, load)?;
            running.extend(threads.map(|(truth, seen)| point(truth, seen, Shares::running)));
            idle.push(point(threads[1].0, threads[1].1, Shares::idle));
        }
        let fails = fails(&running) || fails(&idle);
        writeln!(
            section.text,
            "| {load} % | {} | {} | {} |",
            row(&running),
            row(&idle),
            if fails { "**FAIL**" } else { "PASS" }
        )?;
        if fails {
            section.missed.push(format!(
                "load of {load} %: {}; {}",
                row(&running),
                row(&idle)
            ));
        }
    }
    Ok(section)
}

/// Repeats a run until both threads had the intended load.
fn run_undisturbed(lab: &Lab, program: &Program, load: u32) -> Result<[(Shares, Shares); 2]> {
    for _ in 0..TRIES {
        let threads = run(lab, program, load)?;
        let is_near = |shares: Shares| (shares.running() - f64::from(load)).abs() <= NEAR;
        if threads.iter().all(|(truth, _)| is_near(*truth)) {
            return Ok(threads);
        }
        eprintln!("disturbed: once more");
        thread::sleep(PAUSE);
    }
    bail!("others use the CPUs: in {TRIES} runs the load of {load} % was not reached; stop them")
}

/// Both threads' shares, by the program's account and by sbt's.
fn run(lab: &Lab, program: &Program, load: u32) -> Result<[(Shares, Shares); 2]> {
    let arguments = [
        format!("load={load}"),
        format!("period={PERIOD_US}"),
        format!("rounds={ROUNDS}"),
    ];
    let (log, report) = lab.reported(&[], program, &arguments)?;
    let seen = seen(&report)?;
    let both = truth(&log)?
        .into_iter()
        .map(|(tid, shares)| Some((shares, *seen.get(&tid)?)))
        .collect::<Option<Vec<_>>>()
        .context("sbt did not see all threads")?;
    both.try_into()
        .ok()
        .context("the program did not have two threads")
}

fn point(truth: Shares, seen: Shares, share: fn(Shares) -> f64) -> Point {
    Point {
        truth: share(truth),
        seen: share(seen),
    }
}

fn deviations(points: &[Point]) -> Vec<f64> {
    points
        .iter()
        .map(|point| point.seen - point.truth)
        .collect()
}

/// The deviation farthest from 0.
fn worst(points: &[Point]) -> f64 {
    deviations(points)
        .into_iter()
        .max_by(|a, b| a.abs().total_cmp(&b.abs()))
        .unwrap_or(0.0)
}

fn fails(points: &[Point]) -> bool {
    worst(points).abs() > WORST || deviation(&deviations(points)) > DEVIATION
}

fn row(points: &[Point]) -> String {
    let mean = |of: fn(&Point) -> f64| points.iter().map(of).sum::<f64>() / points.len() as f64;
    format!(
        "{:.2} % | {:.2} % | {:+.3} | {:.3}",
        mean(|point| point.truth),
        mean(|point| point.seen),
        worst(points),
        deviation(&deviations(points))
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_deviation_keeps_its_sign() {
        let points = [(50.0, 50.1), (50.0, 49.6)].map(|(truth, seen)| Point { truth, seen });
        assert!((worst(&points) + 0.4).abs() < 1e-9);
        assert!(!fails(&points));
        assert_eq!(row(&points), "50.00 % | 49.85 % | -0.400 | 0.250");
        let far = [Point {
            truth: 50.0,
            seen: 55.1,
        }];
        assert!(fails(&far));
    }
}
