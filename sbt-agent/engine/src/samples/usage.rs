//! Made-up figures on how well threads were used, which agree with each other.

use super::{MS, S};
use crate::report::{
    BusyReport, CallerReport, EfficiencyReport, FunctionReport, ParallelismReport, Report,
    SamplingReport, WhatIfReport,
};

/// Parallelism from the times with one busy thread, two, and so on, ns.
fn busy(times: &[u64]) -> ParallelismReport {
    let all = || (1..).zip(times).filter(|(_, ns)| **ns > 0);
    let busy_ns = times.iter().sum();
    let threads: u64 = all().map(|(busy, ns)| busy * ns).sum();
    ParallelismReport {
        busy_ns,
        mean_busy: threads as f64 / busy_ns as f64,
        times: all()
            .map(|(busy, ns)| BusyReport {
                busy: u32::try_from(busy).unwrap(),
                ns: *ns,
            })
            .collect(),
    }
}

/// The time in ns, each moment weighted by 1 plus the number of idle threads, of four.
fn weight(times: &ParallelismReport) -> f64 {
    let times = times.times.iter();
    times
        .map(|time| f64::from(5 - time.busy) * time.ns as f64)
        .sum()
}

/// A function of four threads: its name, samples in all and in itself, and times with one to four
/// busy threads, ns.
fn function(id: u32, name: &str, samples: (u64, u64), times: [u64; 4]) -> FunctionReport {
    let npt_ns = (1..).zip(times).map(|(busy, ns)| ns / busy).sum::<u64>();
    let time = |(busy, ns)| BusyReport { busy, ns };
    FunctionReport {
        id,
        function: name.into(),
        file: Some("lu.c".into()),
        binary: "lu".into(),
        samples: samples.0,
        self_samples: samples.1,
        cpu_pct: samples.0 as f64 / 48.0,
        npt_ns,
        self_npt_ns: npt_ns * samples.1 / samples.0,
        npt_pct: npt_ns as f64 / 120_000_000.0,
        times: (1..).zip(times).map(time).collect(),
        path_pct: Some(npt_ns as f64 / 130_000_000.0),
        weighted_path_pct: Some(npt_ns as f64 / 100_000_000.0),
        callers: vec![
            CallerReport {
                function: Some("SlaveStart".into()),
                npt_ns: npt_ns / 4 * 3,
                samples: samples.0 / 4 * 3,
            },
            CallerReport {
                function: None,
                npt_ns: npt_ns / 4,
                samples: samples.0 / 4,
            },
        ],
    }
}

/// Fills in figures for a report with three sites, four threads and 12 s.
pub fn fill(report: &mut Report) {
    let times: [&[u64]; 3] = [
        &[970 * MS, 10 * MS, 5 * MS, 5 * MS],
        &[1_500 * MS, 1_500 * MS, 1_000 * MS, 4_000 * MS],
        &[0, 0, 30 * MS, 480 * MS],
    ];
    let whole: [u64; 4] = std::array::from_fn(|at| times.iter().map(|site| site[at]).sum());
    report.parallelism = Some(busy(&whole));
    for site in &mut report.sites {
        let times = busy(times[site.id as usize]);
        let path = times.busy_ns;
        let all: u64 = whole.iter().sum();
        site.path_ns = path;
        site.path_pct = Some(path as f64 / all as f64 * 100.0);
        site.weighted_path_pct = Some(weight(&times) / weight(&busy(&whole)) * 100.0);
        site.what_if = WhatIfReport {
            straggler_10_pct_faster_ns: path / 10,
            straggler_25_pct_faster_ns: path / 5,
            straggler_50_pct_faster_ns: path / 4,
            no_release_ns: Some(path / 1000),
        };
        let shares = [10, 15, 25, 50];
        for (thread, share) in site.threads.iter_mut().zip(shares) {
            thread.npt_ns = path * share / 100;
            thread.path_ns = thread.npt_ns;
        }
        for phase in &mut report.phases {
            if phase.to == site.id {
                phase.parallelism = Some(times.clone());
            }
        }
        site.parallelism = Some(times);
    }
    for thread in &mut report.threads {
        let mine = report.sites.iter().flat_map(|site| &site.threads);
        let mine = mine.filter(|row| row.thread == thread.id);
        thread.npt_ns = mine.map(|row| row.npt_ns).sum();
        thread.path_ns = thread.npt_ns;
        let all: u64 = whole.iter().sum();
        thread.path_pct = Some(thread.npt_ns as f64 / all as f64 * 100.0);
        thread.weighted_path_pct = thread.path_pct.map(|pct| 0.8 * pct + 5.0);
    }
    report.efficiency = Some(EfficiencyReport {
        parallel: 0.71,
        load_balance: 0.78,
        serialisation: 0.93,
        transfer: 0.98,
        cpu_availability: Some(1.0),
        speedup: 2.8,
        granularity: Some(2.4),
        threads: 4,
        path_ns: 12 * S,
    });
    report.sampling = Some(SamplingReport {
        hz: 200,
        samples: 6_300,
        working: 4_800,
        waiting: 1_300,
        outside: 200,
        npt_ns: 12 * S,
        blocked_npt_ns: Some(90 * MS),
        ..SamplingReport::default()
    });
    report.functions = Some(vec![
        function(
            7,
            "SlaveStart",
            (4_800, 12),
            [2_400 * MS, 3 * S, 3 * S, 18 * S],
        ),
        function(
            6,
            "OneSolve",
            (4_700, 400),
            [2_300 * MS, 3 * S, 3 * S, 17 * S],
        ),
        function(5, "daxpy", (3_900, 3_900), [500 * MS, 2 * S, 3 * S, 17 * S]),
        function(4, "print_row", (190, 190), [1_900 * MS, 0, 0, 0]),
    ]);
}
