//! Snapshots for tests of views: programs with made-up figures.

mod parts;

use std::sync::Arc;

mod counted;
mod hang;
mod sleeps;
mod usage;

pub use counted::counted;
pub use hang::{hostile_hang, hung, over, slow};

use crate::{
    choices::States,
    live::{
        Doing, Histogram, Lane, Lanes, Output, PACE_STEP_NS, Piece, Playing, Replaying, Snapshot,
        Speed, TimedLine, Watching,
    },
    report::{
        ConceptualReport, EachReport, Figure, IntervalReport, LockReportKind, MarkReport,
        MarkThreadReport, OwnCost, PhaseReport, Report, Run, SCHEMA, SiteReport, SiteThreadReport,
        StatReport, StatesReport, StragglerReport, ThreadReport, ThreadTimeReport, TrendReport,
        UnfinishedReport, VerdictKind, VerdictReport, WaitsReport, WhatIfReport, Withheld,
        WithheldReason, WithheldReport,
        counters::{Counted, Counts},
        locks::LockReport,
    },
};
use parts::{lock, program, site, stat};

const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;

const fn line(at_ns: u64, text: String) -> TimedLine {
    TimedLine { at_ns, text }
}

/// A snapshot in which nothing has been seen yet.
pub fn empty() -> Snapshot {
    Snapshot {
        report: Report {
            run: Run {
                backend: "ebpf".into(),
                method: "uprobe_multi".into(),
                command: ["./lu", "-n", "2048", "-t", "4"].map(String::from).into(),
                pid: 4242,
                exit_status: None,
                hang: None,
                hang_time_ns: Some(10 * S),
                hang_unwatched_ns: Some(0),
                started: Some(true),
                left_processes: None,
                departures: Some(true),
                had_children: Some(false),
                children: false,
                cpus: Some(8),
                ..Run::default()
            },
            schema: SCHEMA,
            version: "0.1.0",
            arrivals: 0,
            episodes: 0,
            incomplete_episodes: 0,
            lost_events: 0,
            fixed_work_shortest_ns: None,
            thread_time: ThreadTimeReport {
                total_ns: 0,
                work_ns: 0,
                idle_ns: 0,
                release_ns: None,
                between_ns: Some(0),
                work_pct: None,
                idle_pct: None,
                release_pct: None,
                between_pct: None,
                waits: WaitsReport::default(),
                unfinished_ns: 0,
            },
            threads: Vec::new(),
            barriers: Vec::new(),
            sites: Vec::new(),
            phases: Vec::new(),
            conceptual_phases: Vec::new(),
            marks: Vec::new(),
            intervals: Vec::new(),
            counters: Vec::new(),
            warnings: Vec::new(),
            watched: None,
            locks: None,
            waits: None,
            spin_suspects: None,
            watched_omitted: 0,
            unfinished: Vec::new(),
            efficiency: None,
            parallelism: None,
            sampling: None,
            functions: None,
            withheld: Vec::new(),
            verdicts: None,
            no_verdict_because: None,
            own_cost: OwnCost {
                events: 0,
                ns_per_event: None,
                share_pct: None,
                by_kind: Vec::new(),
                ns_per_step: None,
                stepped: 0,
                ns_per_walk: None,
                walked: 0,
                unknown_because: None,
                budget_pct: Some(2.0),
                thinned: None,
                cpu_ns: 0,
            },
            states: StatesReport::new(States::Light, None),
            estimated: false,
            compensated: None,
            processes: Vec::new(),
            incomplete: Vec::new(),
            notes: Vec::new(),
        },
        now_ns: 400 * MS,
        doing: Vec::new(),
        histograms: Vec::new(),
        counters: Vec::new(),
        offers: None,
        lanes: Lanes::default(),
        pace: Vec::new(),
        watching: Watching::On,
        gaps: Vec::new(),
        own_share_pct: None,
        output: None,
        told: Arc::default(),
        notice: None,
        replay: None,
    }
}

/// One thread's part in an episode of a site, ns: work, idle, release, and the percentage of
/// episodes in which it is last.
type Share = (u64, u64, u64, u64);

/// Four threads with the same work.
pub fn calm() -> Snapshot {
    let even = |work: u64| -> Vec<Share> {
        vec![
            (work, 40_000, 3_000, 22),
            (work + 10_000, 30_000, 3_100, 25),
            (work + 20_000, 20_000, 2_900, 28),
            (work + 15_000, 25_000, 3_000, 25),
        ]
    };
    program(
        4,
        vec![
            site(0, "factor_diagonal", 690, 1024, &even(4 * MS)),
            site(1, "update_rows", 715, 1024, &even(6 * MS)),
            site(2, "init", 402, 1, &even(MS)),
        ],
    )
}

/// [`calm`] in a recording, with the position and the state of the replay.
pub fn replayed(at_ns: u64, motion: Playing) -> Snapshot {
    Snapshot {
        replay: Some(Replaying {
            at_ns,
            of_ns: Some(12_400 * MS),
            speed: Speed::Power(2),
            motion,
        }),
        output: None,
        own_share_pct: None,
        told: Arc::default(),
        ..imbalanced()
    }
}

/// Four threads, the last of which has most of the work.
pub fn imbalanced() -> Snapshot {
    let uneven: Vec<Share> = vec![
        (4 * MS, 8 * MS, 3_000, 5),
        (6 * MS, 6 * MS, 3_100, 10),
        (9 * MS, 3 * MS, 2_900, 20),
        (12 * MS, 400_000, 3_000, 65),
    ];
    let serial: Vec<Share> = vec![
        (2 * MS, 0, 2_000, 100),
        (10_000, 1_990_000, 3_100, 0),
        (10_000, 1_990_000, 2_900, 0),
        (10_000, 1_990_000, 3_000, 0),
    ];
    let even: Vec<Share> = vec![(MS, 20_000, 3_000, 25); 4];
    let mut snapshot = program(
        4,
        vec![
            site(0, "factor_diagonal", 690, 512, &serial),
            site(1, "update_rows", 715, 512, &uneven),
            site(2, "swap", 731, 512, &even),
        ],
    );
    snapshot.report.sites[1].name = Some("diagonal".into());
    snapshot.report.verdicts = Some(vec![VerdictReport {
        kind: VerdictKind::PersistentStraggler,
        site: Some(1),
        thread: Some(3),
        text: "static imbalance at update_rows lu.c:715: T3 worker comes last in 65 % of 512 \
               episodes, working 1.9 times as long as the others; the wait is 18 % of thread \
               time, up to 2.18 s of 12.4 s wall time: give it less of the work"
            .into(),
        evidence: [("share_pct", Figure::Real(18.0))].into(),
    }]);
    phases_and_marks(&mut snapshot.report);
    usage::fill(&mut snapshot.report);
    snapshot.report.waits = Some(sleeps::looks());
    snapshot.report.locks = Some(vec![
        lock(
            "0x7f2c00401040",
            LockReportKind::Mutex,
            Some(("push", 88)),
            512,
            Some(4243),
        ),
        lock(
            "0x7f2c00401080",
            LockReportKind::RwLock,
            Some(("lookup", 131)),
            40,
            None,
        ),
        lock("0x7f2c004010c0", LockReportKind::Semaphore, None, 3, None),
    ]);
    snapshot.output = Some(Arc::new(Output {
        lines: (0..60)
            .map(|at| line(at * S / 12, format!("step {at}: residual {}e-6", 900 - at)))
            .collect(),
        bytes: 1_260,
    }));
    snapshot.told = Arc::new((0..5).map(|at| {
        let text = format!(
            "sbt: 00:0{at}.120 update_rows lu.c:715 #{at}: phase 12.1 ms, barrier 8.20 ms, last T3"
        );
        line(at * S, text)
    }).collect());
    snapshot
}

fn phases_and_marks(report: &mut Report) {
    report.conceptual_phases = vec![ConceptualReport {
        counters: Counts::new(),
        name: "elimination".into(),
        from: "factor_diagonal".into(),
        to: "swap".into(),
        phase_ns: Some(stat(512, 15 * MS)),
        unfinished: true,
        abandoned: 2,
        episodes: 1536,
        work_ns: 30 * S,
        idle_ns: 12 * S,
        efficiency: None,
        trend: Vec::new(),
        threads: Vec::new(),
    }];
    report.marks = ["read", "written"]
        .into_iter()
        .zip(0..)
        .map(|(name, id)| MarkReport {
            id,
            name: name.into(),
            at: format!("io.c:{}", 10 + id),
            hits: Some(12_345),
            threads: vec![MarkThreadReport {
                thread: 0,
                hits: 12_345,
            }],
        })
        .collect();
    report.intervals = vec![IntervalReport {
        from: 0,
        to: 1,
        time_ns: Some(stat(12_345, 80_000)),
        running_ns: Some(700 * MS),
        ready_ns: None,
        blocked_ns: None,
        counters: Counts::default(),
        threads: Vec::new(),
    }];
}

/// 64 threads, one of which is late.
pub fn many_threads() -> Snapshot {
    let shares = |late: usize| -> Vec<Share> {
        (0..64_u64)
            .map(|at| {
                let is_late = at == late as u64;
                let work = 2 * MS + at * 20_000 + u64::from(is_late) * 3 * MS;
                let idle = 6 * MS - work.min(6 * MS);
                (work, idle, 4_000, if is_late { 40 } else { 1 })
            })
            .collect()
    };
    program(
        64,
        vec![
            site(0, "exchange", 210, 1500, &shares(17)),
            site(1, "relax", 233, 1500, &shares(42)),
        ],
    )
}

/// A hundred sites with long names.
pub fn many_sites() -> Snapshot {
    let sites = (0..100_u32).map(|id| {
        let idle = u64::from(id * 7919 % 100) * 100_000 + 50_000;
        let shares: Vec<Share> = vec![
            (2 * MS, idle, 3_000, 10),
            (2 * MS + idle, 0, 3_000, 90),
            (2 * MS, idle, 3_000, 0),
        ];
        let function = format!("hydro::solver::Stage<{id}>::advance_all_the_cells");
        site(id, &function, 100 + id, 40 + u64::from(id), &shares)
    });
    program(3, sites.collect())
}

/// A run that lost events.
pub fn lossy() -> Snapshot {
    let mut snapshot = calm();
    let report = &mut snapshot.report;
    report.lost_events = 12_345;
    report.withheld = vec![WithheldReport::new(
        Withheld::Efficiency,
        WithheldReason::EventsLost,
        "12345 of 99999 events were lost (12 %)".into(),
    )];
    report.incomplete_episodes = 87;
    report.sites[0].incomplete = 87;
    report.sites[0].phase_ns = None;
    report.sites[0].release_ns = None;
    report.sites[0].waits = WaitsReport::default();
    for thread in &mut report.sites[0].threads {
        thread.release_ns = None;
        thread.waits = WaitsReport::default();
        thread.work_ns = None;
    }
    for thread in &mut report.threads {
        thread.running_ns = None;
        thread.ready_ns = None;
        thread.blocked_ns = None;
        thread.release_ns = None;
        thread.waits = WaitsReport::default();
    }
    report.run.departures = None;
    report.notes = vec!["the thread's stacks could not be read: callers are unknown".into()];
    snapshot.own_share_pct = None;
    snapshot.gaps = vec![(12 * S + 100 * MS, 12 * S + 200 * MS)];
    for lane in &mut snapshot.lanes.lanes {
        let empty = lane.pieces.len() - 60;
        lane.pieces[empty - 20..empty].fill(Piece::default());
    }
    snapshot
}

/// A run in which all threads but one have waited for 40 s.
pub fn hanging() -> Snapshot {
    let mut snapshot = imbalanced();
    let began = snapshot.now_ns;
    snapshot.now_ns += 40 * S;
    snapshot.report.run.wall_ns = snapshot.now_ns;
    let steps = usize::try_from(40 * S / PACE_STEP_NS).unwrap();
    snapshot.pace.extend(vec![0; steps]);
    for (id, doing) in snapshot.doing.iter_mut().enumerate() {
        *doing = if id == 3 {
            Doing::Working { since_ns: began }
        } else {
            Doing::Waiting {
                since_ns: began + id as u64 * MS,
                at: "update_rows lu.c:715".into(),
            }
        };
    }
    snapshot.report.unfinished = vec![UnfinishedReport {
        barrier: 0,
        site: 1,
        participants: Some(4),
        arrived: vec![0, 1, 2],
        missing: vec![3],
        waiting_ns: 40 * S,
        idle_ns: 120 * S,
    }];
    let full = u32::try_from(snapshot.lanes.piece_ns).unwrap();
    for lane in &mut snapshot.lanes.lanes {
        let mut piece = Piece::default();
        if lane.thread == 3 {
            piece.work = full;
        } else {
            piece.idle = full;
        }
        lane.pieces.fill(piece);
    }
    snapshot.lanes.end_ns = snapshot.now_ns;
    snapshot
}

/// A run whose program has ended.
pub fn ended() -> Snapshot {
    let mut snapshot = imbalanced();
    snapshot.watching = Watching::Ended {
        status: Some(139),
        ran_ns: snapshot.report.run.wall_ns,
    };
    snapshot.doing.fill(Doing::Ended);
    snapshot.report.run.ended = true;
    snapshot.report.run.exit_status = Some(139);
    snapshot.output = None;
    snapshot
}

/// A run in which all figures that can be unknown are unknown, and names are hostile.
pub fn hostile() -> Snapshot {
    let mut snapshot = lossy();
    let report = &mut snapshot.report;
    report.verdicts = Some(vec![VerdictReport {
        kind: VerdictKind::NoProblem,
        site: None,
        thread: None,
        text: "漢\x1b[2J\u{202e}µ ".repeat(60),
        evidence: [].into(),
    }]);
    report.run.command = vec!["./漢字\x1b[2J\u{202e}プログラム".repeat(20)];
    let names = [
        "漢字漢字漢字漢字",
        "a\x1b[31mb\n\t",
        "",
        "é\u{301}\u{200b}👩‍👩‍👧 team",
    ];
    for (thread, name) in report.threads.iter_mut().zip(names) {
        thread.name = name.into();
        thread.work_ns = None;
        thread.episodes = 0;
    }
    for site in &mut report.sites {
        site.places = vec!["x\x07".repeat(300), "漢".repeat(200)];
        site.callers = vec!["\x1b]0;title\x07".into()];
        site.straggler = None;
        site.imbalance_pct = None;
        site.barrier_ns = None;
        site.trend.clear();
    }
    report.notes = vec!["\x1b[2J".repeat(50)];
    snapshot.doing = vec![Doing::Unknown; 4];
    snapshot.histograms.clear();
    snapshot.pace.clear();
    snapshot.told = Arc::new(vec![line(0, "\x1b[2J\u{202e}漢".repeat(100))]);
    snapshot.output = Some(Arc::new(Output {
        lines: vec![line(0, "漢\x1b".repeat(200))],
        bytes: 3,
    }));
    snapshot.notice = Some((1, "\x1b[2J".into()));
    snapshot.report.sites[0].name = Some("名\x1b[2J".into());
    snapshot
}
