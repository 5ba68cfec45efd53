//! A sample program with counters.

use super::{MS, Report, S, Snapshot, imbalanced};
use crate::{
    live::{CounterFigure, CounterFigures},
    report::{
        CounterUnit, RelatedReport,
        counters::{CountedReport, CounterReport, derived},
    },
};

/// A counter: its name, its unit, its share of counted time, and its count for each ms of work of
/// each thread; `None` if this machine does not have it.
type Sample = (&'static str, CounterUnit, Option<f64>, Option<[u64; 4]>);

const COUNTERS: [Sample; 5] = [
    ("page-faults", CounterUnit::Count, None, Some([0, 0, 0, 40])),
    (
        "task-clock",
        CounterUnit::Ns,
        None,
        Some([990_000, 998_000, 1_000_000, 1_000_000]),
    ),
    (
        "instructions",
        CounterUnit::Count,
        Some(100.0),
        Some([3_100_000, 3_000_000, 2_900_000, 900_000]),
    ),
    (
        "cycles",
        CounterUnit::Count,
        Some(47.0),
        Some([2_900_000, 2_900_000, 2_900_000, 2_900_000]),
    ),
    ("LLC-loads", CounterUnit::Count, None, None),
];

/// How a counter goes with lateness.
fn correlation(name: &str) -> Option<f64> {
    match name {
        "page-faults" => Some(0.93),
        "task-clock" => Some(0.99),
        "instructions" => Some(-0.71),
        "cycles" => Some(0.04),
        _ => None,
    }
}

/// Four threads, the last of which has page faults while it works.
pub fn counted() -> Snapshot {
    let mut snapshot = imbalanced();
    for (name, unit, counted_pct, each) in COUNTERS {
        let figures = figures(&mut snapshot.report, name, each);
        let work = figures.threads.iter().map(|figure| figure.sum).sum();
        snapshot.report.counters.push(CounterReport {
            name: name.into(),
            unit,
            total: work,
            work,
            unknown: 0,
            counted_pct,
        });
        snapshot.counters.push(figures);
    }
    for site in &mut snapshot.report.sites {
        site.derived = derived(&site.counters);
    }
    snapshot
}

/// The values of a counter, which are added to the report too.
fn figures(report: &mut Report, name: &str, each: Option<[u64; 4]>) -> CounterFigures {
    let wall_s = report.run.wall_ns as f64 / S as f64;
    let figure = |sum: Option<u64>, phases: u64| CounterFigure {
        sum,
        per_phase: sum.map(|sum| sum as f64 / phases as f64),
        per_second: sum.map(|sum| sum as f64 / wall_s),
    };
    let mut all = CounterFigures {
        is_chosen: true,
        ..CounterFigures::default()
    };
    let mut of_threads = [each.map(|_| 0); 4];
    let counted = |intervals: u64| CountedReport {
        known: each.map_or(0, |_| intervals),
        intervals,
    };
    for site in &mut report.sites {
        let mut mine = Vec::new();
        for (at, thread) in site.threads.iter_mut().enumerate() {
            let sum = each.map(|each| each[at] * thread.work_ns.unwrap_or(0) / MS);
            thread.counters.insert(name.into(), sum);
            thread.counted.insert(name.into(), counted(thread.episodes));
            of_threads[at] = of_threads[at].zip(sum).map(|(all, sum)| all + sum);
            mine.push(figure(sum, thread.episodes));
        }
        let sum = mine.iter().map(|figure| figure.sum).sum();
        site.counters.insert(name.into(), sum);
        site.related.push(RelatedReport {
            counter: name.into(),
            episodes: site.episodes,
            correlation: correlation(name),
            effective_episodes: correlation(name).map(|_| site.episodes as f64),
            made_by_lateness: name == "task-clock",
            last: None,
            others: None,
            late_ns: None,
        });
        site.counted.insert(name.into(), counted(4 * site.episodes));
        all.sites.push(figure(sum, site.episodes));
        all.site_threads.push(mine);
    }
    for (thread, sum) in report.threads.iter_mut().zip(of_threads) {
        thread.counters.insert(name.into(), sum);
        all.threads.push(figure(sum, thread.episodes));
    }
    for phase in &mut report.phases {
        let to = report.sites.iter().position(|site| site.id == phase.to);
        let sum = to.and_then(|to| all.sites[to].sum);
        phase.counters.insert(name.into(), sum);
        phase
            .counted
            .insert(name.into(), counted(4 * phase.episodes));
        all.phases.push(figure(sum, phase.episodes));
    }
    let known = each.map(|_| 0);
    for phase in &mut report.conceptual_phases {
        phase.counters.insert(name.into(), known);
        all.conceptual.push(figure(known, 1));
    }
    for interval in &mut report.intervals {
        interval.counters.insert(name.into(), known);
        all.intervals.push(figure(known, 1));
    }
    all
}
