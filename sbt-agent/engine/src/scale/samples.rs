//! Made-up series of runs with a known scaling.

use std::collections::BTreeMap;

use super::{Run, Scaling, scaling};
use crate::{
    report::{PhaseReport, StatReport, VerdictKind, VerdictReport},
    samples,
};

const MS: u64 = 1_000_000;

/// A run in which at each site (line, ns) 100 phases of this length end, and `rest_ns` follows.
pub fn run(threads: u32, phases: &[(u32, u64)], rest_ns: u64) -> Run {
    let mut report = samples::calm().report;
    let site = report.sites[0].clone();
    report.run.cpus = Some(64);
    report.run.ended = true;
    report.run.exit_status = Some(0);
    report.threads.truncate(threads as usize);
    report.verdicts = Some(Vec::new());
    report.sites = (0..)
        .zip(phases)
        .map(|(id, (line, _))| {
            let mut site = site.clone();
            site.id = id;
            site.places = vec![format!("solve lu.c:{line}")];
            site
        })
        .collect();
    let last = u32::try_from(phases.len()).unwrap() - 1;
    let stat = |ns: u64| StatReport {
        count: 100,
        sum: 100 * ns,
        min: ns,
        mean: ns,
        max: ns,
        stddev: 0,
        p50: ns,
        p95: ns,
        p99: ns,
    };
    let phase = report.phases[0].clone();
    report.phases = (0..)
        .zip(phases)
        .map(|(id, (_, ns))| PhaseReport {
            from: Some(if id == 0 { last } else { id - 1 }),
            to: id,
            episodes: 100,
            phase_ns: Some(stat(*ns)),
            ..phase.clone()
        })
        .collect();
    report.run.wall_ns = phases.iter().map(|(_, ns)| 100 * ns).sum::<u64>() + rest_ns;
    Run { threads, report }
}

/// Runs of a program with one phase that scales and one that is serial.
pub fn half_serial() -> Vec<Run> {
    let of = |n: u32| run(n, &[(10, 8 * MS / u64::from(n)), (20, 4 * MS)], 10 * MS);
    [4, 1, 2, 1].into_iter().map(of).collect()
}

/// Runs as of [`half_serial`], with a verdict on each phase and one on the whole run.
pub fn half_serial_with_verdicts() -> Vec<Run> {
    let verdict = |site, kind, text: &str| VerdictReport {
        kind,
        site,
        thread: None,
        text: text.into(),
        evidence: BTreeMap::new(),
    };
    let mut runs = half_serial();
    for run in &mut runs {
        run.report.verdicts = Some(vec![
            verdict(Some(0), VerdictKind::PersistentStraggler, "another"),
            verdict(Some(1), VerdictKind::SerialPhase, "one thread works"),
            verdict(None, VerdictKind::MoreThreadsThanCpus, "too many"),
        ]);
    }
    runs
}

/// The table of a series.
pub fn of(runs: &[Run]) -> Scaling {
    scaling(vec!["./lu".into(), "-t{n}".into()], runs, Vec::new()).unwrap()
}
