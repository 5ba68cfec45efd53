//! One program at several numbers of threads: how much faster it gets, which phase stops getting
//! faster, and why.
//!
//! [`scaling`] is a pure function from reports to a table.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::{
    compare::{Ends, matching},
    report::{PhaseReport, Report, SiteReport, counters::Counts},
};

pub mod counts;
mod doubt;
mod limit;
mod rates;
#[cfg(any(test, feature = "samples"))]
#[allow(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    clippy::new_without_default,
    clippy::must_use_candidate,
    reason = "for tests alone"
)]
pub mod samples;
mod sweep;
#[cfg(test)]
mod sweep_tests;
mod table;
#[cfg(test)]
mod tests;
pub mod vary;

pub use limit::GOOD;
pub use rates::{Per, RatedCounter};
pub use sweep::{Done, OfCombination, Row, Sweep, sweep};
pub use table::{AtCount, CounterName, Limit, PhaseAt, PhaseScaling, Run, SCHEMA, Scaling};

/// Makes the table. `command` is as the user typed it; `runs` may be in any order; `notes` are
/// further remarks for the user. `None` without runs.
pub fn scaling(command: Vec<String>, runs: &[Run], mut notes: Vec<String>) -> Option<Scaling> {
    let threads: BTreeSet<u32> = runs.iter().map(|run| run.threads).collect();
    let by_count: Vec<Vec<&Report>> = threads
        .iter()
        .map(|threads| {
            let mine = runs.iter().filter(|run| run.threads == *threads);
            mine.map(|run| &run.report).collect()
        })
        .collect();
    let reference = typical(by_count.last()?)?;
    let mut counts: Vec<AtCount> = threads
        .iter()
        .zip(&by_count)
        .filter_map(|(n, of)| at_count(*n, of))
        .collect();
    compare_wall_times(&mut counts);
    for (at, of) in counts.iter().zip(&by_count) {
        notes.extend(doubt::of_runs(at, of));
    }
    notes.extend(doubt::of_cpus(&counts, reference.run.cpus));
    notes.extend(doubt::of_length(&counts));
    let mut phases = phases(reference, &threads, &by_count);
    let rest = outside(&threads, &by_count, &phases);
    phases.extend(rest);
    for phase in &mut phases {
        compare_times(phase);
    }
    share_losses(&mut phases);
    phases.sort_by_key(|phase| std::cmp::Reverse(phase.lost_ns));
    let names = phase_names(&phases, "→");
    let called: Vec<_> = names.into_iter().zip(&phases).collect();
    notes.extend(doubt::of_ideal(&counts, &called));
    Some(Scaling {
        schema: SCHEMA,
        version: env!("CARGO_PKG_VERSION"),
        command,
        cpus: reference.run.cpus,
        limit: limit::limit(&counts, &phases, reference),
        counts,
        phases,
        counters: counters(reference),
        verdicts: reference.verdicts.clone(),
        notes,
    })
}

/// The run with the median time; of the middle two, the faster one.
fn typical<'a>(runs: &[&'a Report]) -> Option<&'a Report> {
    let mut runs = runs.to_vec();
    runs.sort_by_key(|run| run.run.wall_ns);
    runs.get(runs.len().checked_sub(1)? / 2).copied()
}

fn at_count(threads: u32, runs: &[&Report]) -> Option<AtCount> {
    let walls = || runs.iter().map(|run| run.run.wall_ns);
    let efficiencies = |f: fn(&crate::report::EfficiencyReport) -> f64| {
        let known: Option<Vec<f64>> = runs
            .iter()
            .map(|run| run.efficiency.as_ref().map(f))
            .collect();
        median_of_real(known?.into_iter())
    };
    let seen = typical(runs)?.threads.iter().map(|thread| thread.threads);
    Some(AtCount {
        threads,
        seen_threads: seen.sum(),
        runs: u32::try_from(runs.len()).ok()?,
        wall_ns: median(walls())?,
        min_wall_ns: walls().min()?,
        max_wall_ns: walls().max()?,
        speedup: None,
        scaling_efficiency: None,
        parallel_efficiency: efficiencies(|known| known.parallel),
        load_balance: efficiencies(|known| known.load_balance),
        counters: medians(runs.iter().map(|run| {
            let counters = run.counters.iter();
            counters
                .map(|counter| (counter.name.clone(), counter.total))
                .collect()
        })),
    })
}

fn compare_wall_times(counts: &mut [AtCount]) {
    let Some((least, base_ns)) = counts.first().map(|at| (at.threads, at.wall_ns)) else {
        return;
    };
    for at in counts {
        at.speedup = ratio(base_ns, at.wall_ns);
        let ideal = f64::from(at.threads) / f64::from(least);
        at.scaling_efficiency = at.speedup.map(|speedup| speedup / ideal);
    }
}

fn ratio(of: u64, by: u64) -> Option<f64> {
    (by > 0).then(|| of as f64 / by as f64)
}

fn counters(report: &Report) -> Vec<CounterName> {
    let counters = report.counters.iter();
    let name = |counter: &crate::report::counters::CounterReport| CounterName {
        name: counter.name.clone(),
        unit: counter.unit,
    };
    counters.map(name).collect()
}

/// The phases of the reference run, which has the largest number of threads, with the same phases
/// in the other runs.
fn phases(
    reference: &Report,
    threads: &BTreeSet<u32>,
    by_count: &[Vec<&Report>],
) -> Vec<PhaseScaling> {
    let found: Vec<Vec<HashMap<Ends, &PhaseReport>>> = by_count
        .iter()
        .map(|runs| {
            // In a run that lost events, the total times of phases are unknown.
            let whole = runs.iter().filter(|run| run.lost_events == 0);
            whole.map(|run| by_ends(run, reference)).collect()
        })
        .collect();
    let name = |id: u32| {
        reference
            .site(id)
            .map(SiteReport::called)
            .unwrap_or_default()
    };
    let one = |phase: &PhaseReport| {
        let ends = Ends {
            from: phase.from,
            to: phase.to,
        };
        let at = threads.iter().zip(&found).map(|(threads, runs)| {
            let same: Vec<&PhaseReport> = runs
                .iter()
                .filter_map(|run| run.get(&ends).copied())
                .collect();
            phase_at(*threads, &same)
        });
        PhaseScaling {
            from: phase.from.map(name),
            to: Some(name(phase.to)),
            base_threads: None,
            at: at.collect(),
            lost_ns: None,
            lost_pct: None,
        }
    };
    reference.phases.iter().map(one).collect()
}

/// A run's phases, by the ids that the reference run gives to their sites.
fn by_ends<'a>(run: &'a Report, reference: &Report) -> HashMap<Ends, &'a PhaseReport> {
    let same: HashMap<u32, u32> = matching::sites_of_one_program(run, reference)
        .into_iter()
        .map(|pair| (pair.before.id, pair.after.id))
        .collect();
    let phases = run.phases.iter();
    phases
        .filter_map(|phase| {
            let from = match phase.from {
                Some(from) => Some(*same.get(&from)?),
                None => None,
            };
            let to = *same.get(&phase.to)?;
            Some((Ends { from, to }, phase))
        })
        .collect()
}

fn phase_at(threads: u32, same: &[&PhaseReport]) -> PhaseAt {
    let stats = || same.iter().filter_map(|phase| phase.phase_ns.as_ref());
    PhaseAt {
        threads,
        episodes: median(same.iter().map(|phase| phase.episodes)),
        mean_ns: median(stats().map(|stat| stat.mean)),
        sum_ns: median(stats().map(|stat| stat.sum)),
        min_sum_ns: stats().map(|stat| stat.sum).min(),
        max_sum_ns: stats().map(|stat| stat.sum).max(),
        speedup: None,
        counters: medians(same.iter().map(|phase| phase.counters.clone())),
    }
}

/// The wall time outside of `phases`, which are all phases. `None` if no barrier was met, or if the
/// time is unknown because phases of several teams overlap.
fn outside(
    threads: &BTreeSet<u32>,
    by_count: &[Vec<&Report>],
    phases: &[PhaseScaling],
) -> Option<PhaseScaling> {
    let outside = |run: &&Report| {
        let stats = run
            .phases
            .iter()
            .filter_map(|phase| phase.phase_ns.as_ref());
        let inside = stats.fold(0_u64, |sum, stat| sum.saturating_add(stat.sum));
        (!run.estimated && run.lost_events == 0)
            .then(|| run.run.wall_ns.checked_sub(inside))
            .flatten()
    };
    let mut at = Vec::new();
    for ((index, threads), runs) in threads.iter().enumerate().zip(by_count) {
        let times: Option<Vec<u64>> = runs.iter().map(outside).collect();
        let times = times?;
        let is_known = has_all_phases(phases, index);
        let known = |time: Option<u64>| time.filter(|_| is_known);
        at.push(PhaseAt {
            threads: *threads,
            min_sum_ns: known(times.iter().min().copied()),
            max_sum_ns: known(times.iter().max().copied()),
            sum_ns: known(median(times)),
            ..PhaseAt::default()
        });
    }
    (!phases.is_empty()).then_some(PhaseScaling {
        from: None,
        to: None,
        base_threads: None,
        at,
        lost_ns: None,
        lost_pct: None,
    })
}

/// Whether phases that take nearly all of the time exist at a number of threads. OpenMP has no
/// barriers for one thread. What it does then is outside of all phases, and cannot be compared with
/// the time outside of phases at other numbers.
fn has_all_phases(phases: &[PhaseScaling], index: usize) -> bool {
    const NEARLY: f64 = 0.95;
    let time = |phase: &&PhaseScaling| phase.at.last().and_then(|at| at.sum_ns).unwrap_or(0) as f64;
    let there = phases
        .iter()
        .filter(|phase| phase.at[index].episodes.is_some());
    let there: f64 = there.map(|phase| time(&phase)).sum();
    let all: f64 = phases.iter().map(|phase| time(&phase)).sum();
    there >= all * NEARLY
}

/// Fills in the speed-ups of a phase, and its loss at the largest number of threads.
fn compare_times(phase: &mut PhaseScaling) {
    let base = phase
        .at
        .iter()
        .find_map(|at| Some((at.threads, at.sum_ns?)));
    let Some((base_threads, base_ns)) = base else {
        return;
    };
    phase.base_threads = Some(base_threads);
    // A phase that does not exist with fewer threads, as with one thread of OpenMP, is compared with
    // nothing there: that it got no faster is not known.
    let is_first = phase.at.first().map(|at| at.threads) == Some(base_threads);
    for at in &mut phase.at {
        let is_compared = is_first || at.threads > base_threads;
        at.speedup = at
            .sum_ns
            .filter(|_| is_compared)
            .and_then(|ns| ratio(base_ns, ns));
    }
    let last = phase.at.last().filter(|last| last.threads > base_threads);
    phase.lost_ns = last.and_then(|last| {
        let ideal = u128::from(base_ns) * u128::from(base_threads) / u128::from(last.threads);
        Some(last.sum_ns?.saturating_sub(u64::try_from(ideal).ok()?))
    });
}

/// The names of phases: the site that ends the phase. If the site is reached in several ways, or
/// from a thread's start, the site at the beginning is named too.
pub fn phase_names(all: &[PhaseScaling], arrow: &str) -> Vec<String> {
    let several = |phase: &PhaseScaling| {
        let same = all.iter().filter(|other| other.to == phase.to);
        same.filter(|other| other.from.is_some()).count() > 1
    };
    let name = |phase: &PhaseScaling| match (&phase.from, &phase.to) {
        (_, None) => "outside of all phases".into(),
        (None, Some(to)) => format!("start {arrow} {to}"),
        (Some(from), Some(to)) if several(phase) => format!("{from} {arrow} {to}"),
        (Some(_), Some(to)) => to.clone(),
    };
    all.iter().map(name).collect()
}

fn share_losses(phases: &mut [PhaseScaling]) {
    let all: u64 = phases
        .iter()
        .filter_map(|phase| phase.lost_ns)
        .fold(0, u64::saturating_add);
    for phase in phases {
        let share = |ns| (all > 0).then(|| ns as f64 / all as f64 * 100.0);
        phase.lost_pct = phase.lost_ns.and_then(share);
    }
}

/// The median; of an even number of values, the mean of the middle two.
fn median(values: impl IntoIterator<Item = u64>) -> Option<u64> {
    let mut values: Vec<u64> = values.into_iter().collect();
    values.sort_unstable();
    let upper = *values.get(values.len() / 2)?;
    let lower = values[(values.len() - 1) / 2];
    Some(lower.midpoint(upper))
}

fn median_of_real(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    Some(f64::midpoint(values[(values.len() - 1) / 2], upper))
}

/// Medians of counters, by name; unknown if the value of any run is unknown.
fn medians(runs: impl Iterator<Item = Counts>) -> Counts {
    let mut all: BTreeMap<String, Vec<Option<u64>>> = BTreeMap::new();
    for (name, value) in runs.flatten() {
        all.entry(name).or_default().push(value);
    }
    let median = |values: Vec<Option<u64>>| {
        let known: Option<Vec<u64>> = values.into_iter().collect();
        median(known?)
    };
    all.into_iter()
        .map(|(name, values)| (name, median(values)))
        .collect()
}
