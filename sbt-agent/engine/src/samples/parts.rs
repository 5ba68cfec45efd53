//! The parts that snapshots are made of.

use super::{
    Counted, Counts, Doing, EachReport, Histogram, Lane, Lanes, LockReport, MS, PhaseReport, Piece,
    S, Share, SiteReport, SiteThreadReport, Snapshot, StatReport, StragglerReport, ThreadReport,
    ThreadTimeReport, TrendReport, WaitsReport, WhatIfReport, empty,
};
use crate::report::{BarrierKind, LockReportKind, StragglerPattern, StragglerSequence};

/// A distribution around a mean, ns.
pub(super) fn stat(count: u64, mean: u64) -> StatReport {
    StatReport {
        count,
        sum: count * mean,
        min: mean / 2,
        mean,
        max: mean * 3,
        stddev: mean / 4,
        p50: mean * 15 / 16,
        p95: mean * 3 / 2,
        p99: mean * 2,
    }
}

/// Waits of which 2 % are spent spinning.
pub(super) fn waits(spinning_ns: u64) -> WaitsReport {
    WaitsReport {
        spinning_ns: Some(spinning_ns),
        asleep_ns: Some(49 * spinning_ns),
        spinning_pct: Some(2.0),
        asleep_pct: Some(98.0),
    }
}

/// The parts of the threads at a site.
fn threads_of(episodes: u64, shares: &[Share]) -> impl Iterator<Item = SiteThreadReport> {
    shares
        .iter()
        .enumerate()
        .map(move |(at, share)| SiteThreadReport {
            thread: u32::try_from(at).unwrap(),
            episodes,
            work_ns: Some(share.0 * episodes),
            idle_ns: share.1 * episodes,
            release_ns: Some(share.2 * episodes),
            waits: waits(share.1 * episodes / 50),
            running_ns: Some(share.0 * episodes),
            ready_ns: Some(0),
            blocked_ns: Some(0),
            alone_ns: Some(0),
            path_ns: 0,
            npt_ns: 0,
            last: share.3 * episodes / 100,
            kept_ns: None,
            later: None,
            each: EachReport {
                work_ns: Some(stat(episodes, share.0)),
                idle_ns: Some(stat(episodes, share.1)),
                release_ns: Some(stat(episodes, share.2)),
            },
            counters: Counts::new(),
            counted: Counted::new(),
        })
}

/// A site with this number of episodes.
pub(super) fn site(
    id: u32,
    function: &str,
    line: u32,
    episodes: u64,
    shares: &[Share],
) -> SiteReport {
    let n = shares.len() as u64;
    let sum = |f: fn(&Share) -> u64| shares.iter().map(f).sum::<u64>();
    let most = |f: fn(&Share) -> u64| shares.iter().map(f).max().unwrap_or(0);
    let (work, idle, release) = (sum(|s| s.0), sum(|s| s.1), sum(|s| s.2));
    let (max_work, barrier) = (most(|s| s.0), most(|s| s.1));
    let last = shares.iter().enumerate().max_by_key(|(_, share)| share.3);
    let (straggler, share) = last.map_or((0, 0), |(at, share)| (at, share.3));
    let threads = threads_of(episodes, shares);
    let trend = (0..40).map(|at| TrendReport {
        episodes: episodes / 40,
        until_ns: 300 * MS * (at + 1),
        phase_ns: Some(max_work + max_work * (at % 7) / 20 + max_work * at / 80),
        barrier_ns: barrier,
        idle_ns: idle + idle * at / 40,
        mean_busy: Some(2.6),
    });
    SiteReport {
        id,
        name: None,
        function: Some(function.into()),
        file: Some("lu.c".into()),
        line: Some(line),
        binary: "lu".into(),
        offset: format!("{:#x}", 0x1000 + line),
        function_offset: Some("0x1f".into()),
        wrappers: Vec::new(),
        callers: vec!["SlaveStart lu.c:402".into()],
        places: vec![format!("{function} lu.c:{line}")],
        barriers: vec![0],
        kind: BarrierKind::Pthread,
        episodes,
        incomplete: 0,
        lost_ns: idle * episodes,
        waits: waits(idle * episodes / 50),
        lost_wall_pct: Some((idle * episodes) as f64 / (n * 124 * S / 10) as f64 * 100.0),
        gain_ns: (max_work - work / n) * episodes,
        what_if: WhatIfReport::default(),
        alone_ns: Some(0),
        alone_ready_ns: Some(0),
        alone_blocked_ns: Some(0),
        between_ns: Some(0),
        path_ns: 0,
        path_pct: None,
        weighted_path_pct: None,
        parallelism: None,
        imbalance_pct: Some((1.0 - (work / n) as f64 / max_work as f64) * 100.0),
        phase_ns: Some(stat(episodes, max_work)),
        barrier_ns: Some(stat(episodes, barrier)),
        idle_ns: Some(stat(episodes * n, idle / n)),
        release_ns: Some(stat(episodes * n, release / n)),
        work_ns: Some(stat(episodes * n, work / n)),
        estimated: false,
        tells_waits: false,
        compensated: None,
        counters: Counts::new(),
        counted: Counted::new(),
        derived: Vec::new(),
        straggler: Some(StragglerReport {
            pattern: match share {
                50.. => StragglerPattern::Persistent,
                20..50 => StragglerPattern::Alternating,
                _ => StragglerPattern::Rotating,
            },
            sequence: StragglerSequence::None,
            thread: u32::try_from(straggler).unwrap(),
            share_pct: share as f64,
            longest_run: 17,
            repeats: episodes - episodes / 3,
            changes: episodes / 3,
            unknown_pct: 0.0,
            mean_lead_ns: barrier / 5,
            late: None,
        }),
        straggler_by_barrier: Vec::new(),
        related: Vec::new(),
        trend: trend.collect(),
        threads: threads.collect(),
    }
}

/// The row of a thread, with its sums at these sites.
fn thread(id: u32, sites: &[SiteReport]) -> ThreadReport {
    let sum = |f: &dyn Fn(&SiteThreadReport) -> u64| {
        let mine = sites.iter().flat_map(|site| &site.threads);
        mine.filter(|thread| thread.thread == id)
            .map(f)
            .sum::<u64>()
    };
    let work = sum(&|thread| thread.work_ns.unwrap());
    ThreadReport {
        id,
        label: format!("T{id}"),
        tid: 4242 + id,
        pid: 4242,
        name: if id == 0 { "lu" } else { "worker" }.into(),
        threads: 1,
        ended: false,
        arrivals: sum(&|thread| thread.episodes),
        episodes: sum(&|thread| thread.episodes),
        last: sum(&|thread| thread.last),
        work_ns: Some(work),
        idle_ns: sum(&|thread| thread.idle_ns),
        release_ns: Some(sum(&|thread| thread.release_ns.unwrap())),
        running_ns: Some(work / 10 * 9),
        ready_ns: Some(work / 100),
        blocked_ns: Some(work / 100 * 9),
        begin_running_ns: None,
        begin_blocked_ns: None,
        end_blocked_ns: None,
        between_ns: Some(0),
        worked_until_ns: None,
        away: None,
        path_ns: 0,
        path_pct: None,
        weighted_path_pct: None,
        npt_ns: 0,
        own_cost_ns: Some(work / 4000),
        fixed_work_ns: None,
        fixed_work_least_ns: None,
        fixed_work_times: 0,
        counters: Counts::new(),
        waits: waits(sum(&|thread| thread.waits.spinning_ns.unwrap())),
    }
}

/// A program with this number of threads and these sites, 12 s after its start.
pub(super) fn program(threads: u32, sites: Vec<SiteReport>) -> Snapshot {
    let mut snapshot = empty();
    snapshot.now_ns = 12 * S + 440 * MS;
    let report = &mut snapshot.report;
    report.run.wall_ns = snapshot.now_ns;
    report.threads = (0..threads).map(|id| thread(id, &sites)).collect();
    let (work, idle) = report.threads.iter().fold((0, 0), |(work, idle), thread| {
        (work + thread.work_ns.unwrap(), idle + thread.idle_ns)
    });
    report.own_cost.share_pct = Some(0.03);
    report.thread_time = ThreadTimeReport {
        total_ns: work + idle,
        work_ns: work,
        idle_ns: idle,
        release_ns: Some(0),
        between_ns: Some(0),
        between_pct: Some(0.0),
        work_pct: Some(work as f64 / (work + idle) as f64 * 100.0),
        idle_pct: Some(idle as f64 / (work + idle) as f64 * 100.0),
        release_pct: Some(0.0),
        waits: waits(idle / 50),
        unfinished_ns: 0,
    };
    report.episodes = sites.iter().map(|site| site.episodes).sum();
    report.phases = sites
        .iter()
        .map(|site| PhaseReport {
            from: Some((site.id + 1) % u32::try_from(sites.len()).unwrap()),
            to: site.id,
            episodes: site.episodes,
            phase_ns: site.phase_ns.clone(),
            barrier_sum_ns: site.barrier_ns.as_ref().map(|stat| stat.sum),
            work_ns: site.work_ns.clone(),
            parallelism: None,
            counters: Counts::new(),
            counted: Counted::new(),
        })
        .collect();
    snapshot.histograms = sites.iter().map(histogram).collect();
    report.sites = sites;
    report
        .sites
        .sort_by_key(|site| std::cmp::Reverse(site.lost_ns));
    snapshot.pace = (0..25).map(|at| 500 + at * 37 % 290).collect();
    snapshot.own_share_pct = Some(0.031);
    snapshot.doing = (0..threads)
        .map(|id| match id % 4 {
            3 => Doing::Working {
                since_ns: snapshot.now_ns - 3 * MS,
            },
            _ => Doing::Waiting {
                since_ns: snapshot.now_ns - u64::from(id) * MS,
                at: snapshot.report.sites[0].places[0].clone(),
            },
        })
        .collect();
    snapshot.lanes = lanes(threads, snapshot.now_ns);
    snapshot
}

pub(super) fn histogram(site: &SiteReport) -> Histogram {
    let mean = site.barrier_ns.as_ref().unwrap().mean;
    let base = mean.next_power_of_two() / 8;
    let shares = [2, 11, 35, 40, 9, 0, 3];
    let range = |(at, share): (u32, u64)| (base << at, share * site.episodes / 100);
    Histogram((0..).zip(shares).map(range).collect())
}

/// Lanes of threads, each of which works longer than the previous one, until all go on.
pub(super) fn lanes(threads: u32, end_ns: u64) -> Lanes {
    const PIECE: u64 = 1_048_576;
    let lane = |thread: u32| {
        let working = 8 + 12 * thread / threads.max(2);
        let piece = |at: u32| {
            let full = u32::try_from(PIECE).unwrap();
            let mut piece = Piece::default();
            match at % 21 {
                0 => piece.release = full,
                part if part == working / 2 && thread == 1 => piece.blocked = full,
                part if part == working / 3 && thread == 2 => piece.ready = full,
                part if part <= working => piece.work = full,
                _ => piece.idle = full,
            }
            piece
        };
        Lane {
            thread,
            pieces: (0..400).map(piece).collect(),
        }
    };
    Lanes {
        piece_ns: PIECE,
        end_ns,
        lanes: (0..threads.min(256)).map(lane).collect(),
    }
}

pub(super) fn lock(
    address: &str,
    kind: LockReportKind,
    place: Option<(&str, u32)>,
    waits: u64,
    holder: Option<u32>,
) -> LockReport {
    LockReport {
        address: address.into(),
        pid: Some(4242),
        kind,
        site: place.map(|(function, line)| format!("{function} lu.c:{line}")),
        function: place.map(|(function, _)| function.into()),
        file: place.map(|_| "lu.c".into()),
        line: place.map(|(_, line)| line),
        waits,
        total_ns: waits * 30_000,
        max_ns: 90_000,
        mean_ns: Some(30_000),
        waiters_max: 3,
        holder,
    }
}
