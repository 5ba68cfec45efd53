//! Notes on what makes the figures of a series doubtful.

use super::{AtCount, PhaseScaling, counts::threads_of};
use crate::{report::Report, words::since};

/// Length of a run, ns, below which it shows what sbt itself does at its start: sbt reads the
/// program's files and measures the cost of its probes, on CPUs that the program might use.
const SHORT_NS: u64 = 1_000_000_000;
/// Largest number of phases that a note names.
const MOST: usize = 3;
/// A speed-up up to this factor above the ideal may be chance.
const MARGIN: f64 = 1.05;

/// Notes on the runs with one number of threads.
pub fn of_runs(at: &AtCount, runs: &[&Report]) -> Vec<String> {
    let mut notes = Vec::new();
    let with = threads_of(at.threads);
    if at.seen_threads > 0 && at.seen_threads != u64::from(at.threads) {
        let seen = at.seen_threads;
        notes.push(format!(
            "told to use {with}, the program had {seen} at its barriers"
        ));
    }
    let hangs = runs.iter().filter_map(|run| run.run.hang.as_ref());
    if let Some(hang) = hangs
        .filter(|hang| hang.is_hang())
        .max_by_key(|hang| hang.lasted_ns)
    {
        let lasted = since(hang.lasted_ns);
        notes.push(format!(
            "with {with}, a run hung for {lasted}: {}",
            hang.found.text
        ));
    }
    if runs.iter().any(|run| run.lost_events > 0) {
        notes.push(format!(
            "with {with}, events were lost: the efficiency is unknown, and the times of phases are \
             those of the other runs"
        ));
    }
    if runs.iter().any(|run| run.estimated) {
        notes.push(format!(
            "with {with}, the probes were switched off for part of the run, to stay within the budget: \
             times of phases do not cover all episodes (--budget off watches everything)"
        ));
    }
    notes
}

/// A note that the machine has fewer CPUs than threads.
pub fn of_cpus(counts: &[AtCount], cpus: Option<u32>) -> Option<String> {
    let (most, cpus) = (counts.last()?.threads, cpus?);
    let s = if cpus == 1 { "" } else { "s" };
    (most > cpus).then(|| {
        format!(
            "{} share {cpus} CPU{s}: more threads than CPUs make nothing faster",
            threads_of(most)
        )
    })
}

/// A note that runs are short compared with what sbt does at their start.
pub fn of_length(counts: &[AtCount]) -> Option<String> {
    let shortest = is_short(counts)?;
    Some(of_short(
        shortest,
        &format!("with {}", threads_of(shortest.threads)),
    ))
}

/// The shortest run, if it is short compared with what sbt does at its start.
pub fn is_short(counts: &[AtCount]) -> Option<&AtCount> {
    let shortest = counts.iter().min_by_key(|at| at.wall_ns)?;
    (shortest.wall_ns < SHORT_NS).then_some(shortest)
}

/// The note on a short run. `which`: how it differs from others.
pub fn of_short(shortest: &AtCount, which: &str) -> String {
    format!(
        "the runs are short ({} {which}): at each start sbt itself uses the CPUs for some tenths \
         of a second, which may distort these figures; give the program work for a second or more",
        since(shortest.wall_ns),
    )
}

/// A note that something is faster than its threads can make it, even in the slowest run compared
/// with the fastest run with fewer threads. `phases` come with their names.
pub fn of_ideal(counts: &[AtCount], phases: &[(String, &PhaseScaling)]) -> Option<String> {
    let (first, last) = (counts.first()?, counts.last()?);
    let is_above = |(threads, min_ns): (u32, u64), (more, max_ns): (u32, u64)| {
        more > threads
            && max_ns > 0
            && min_ns as f64 / max_ns as f64 > f64::from(more) / f64::from(threads) * MARGIN
    };
    let is_phase_above = |phase: &PhaseScaling| {
        let base = phase.at.iter().find(|at| at.sum_ns.is_some())?;
        let last = phase.at.last()?;
        let (min_ns, max_ns) = (base.min_sum_ns?, last.max_sum_ns?);
        is_above((base.threads, min_ns), (last.threads, max_ns)).then_some(last.speedup?)
    };
    let above = |speedup: Option<f64>, base: u32| {
        let ideal = f64::from(last.threads) / f64::from(base);
        format!("{:.2} of {ideal:.2}", speedup.unwrap_or(0.0))
    };
    let mut found = Vec::new();
    if is_above(
        (first.threads, first.min_wall_ns),
        (last.threads, last.max_wall_ns),
    ) {
        let speedup = above(last.speedup, first.threads);
        found.push(format!("the whole run ({speedup})"));
    }
    // The time outside of all phases may be next to nothing.
    let named = phases.iter().filter(|(_, phase)| phase.to.is_some());
    found.extend(named.filter_map(|(name, phase)| {
        let speedup = above(Some(is_phase_above(phase)?), phase.base_threads?);
        Some(format!("{name} ({speedup})"))
    }));
    let more = found.len().saturating_sub(MOST);
    found.truncate(MOST);
    if more > 0 {
        found.push(format!("{more} more"));
    }
    (!found.is_empty()).then(|| {
        format!(
            "faster with {} than more threads can explain: {}; each thread may have had more \
             cache, or something disturbed the runs with fewer threads",
            threads_of(last.threads),
            found.join(", ")
        )
    })
}
