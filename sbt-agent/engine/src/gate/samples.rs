//! Reports for tests of checks.

use crate::{
    report::{EfficiencyReport, Report, SiteReport},
    samples::imbalanced,
};

/// A site with this number, in a function at a line of `lu.c`.
pub fn site(id: u32, function: &str, line: u32) -> SiteReport {
    SiteReport {
        id,
        function: Some(function.into()),
        line: Some(line),
        places: vec![format!("{function} lu.c:{line}")],
        callers: Vec::new(),
        ..report(Vec::new()).sites[0].clone()
    }
}

/// A program of four threads that has ended well, with these sites; if there are none, with those
/// of the sample. Its conceptual phase is called `step`.
pub fn report(sites: Vec<SiteReport>) -> Report {
    let mut report = imbalanced().report;
    report.run.ended = true;
    report.run.exit_status = Some(0);
    report.own_cost.events = 10_000;
    for phase in &mut report.conceptual_phases {
        phase.name = "step".into();
    }
    if !sites.is_empty() {
        report.sites = sites;
    }
    report
}

const MS: u64 = 1_000_000;

/// Two threads: one works 30 ms in each of 100 episodes, the other 10 ms.
pub fn uneven() -> Report {
    let mut it = site(7, "factor", 690);
    it.threads.truncate(2);
    it.episodes = 100;
    it.imbalance_pct = Some(60.0);
    for (thread, ms) in it.threads.iter_mut().zip([10, 30]) {
        thread.episodes = 100;
        thread.work_ns = Some(ms * 100 * MS);
        thread.ready_ns = Some(100 * MS);
        thread.idle_ns = (30 - ms) * 100 * MS;
        thread.release_ns = Some(0);
    }
    for stat in [&mut it.barrier_ns, &mut it.phase_ns].into_iter().flatten() {
        (stat.mean, stat.p95) = (20 * MS, 25 * MS);
    }
    let mut report = report(vec![it]);
    report.episodes = 100;
    report.efficiency = Some(EfficiencyReport {
        parallel: 0.66,
        load_balance: 0.67,
        serialisation: 1.0,
        transfer: 0.99,
        cpu_availability: None,
        speedup: 1.33,
        granularity: None,
        threads: 2,
        path_ns: 3_000 * MS,
    });
    report
}
