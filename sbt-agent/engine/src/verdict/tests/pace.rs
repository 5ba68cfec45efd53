//! Programs without barriers in which one thread sets the pace.

use super::{says, with};
use crate::report::{
    Report, VerdictKind, VerdictReport, WaitKind,
    waits::{
        LookedThreadReport, LooksReport, PairReport, WaitPlaceReport, WaitThreadReport, WakerReport,
    },
};

const MS: u64 = 1_000_000;

/// A program without barriers that runs for a second.
pub(super) fn run() -> Report {
    let mut report = crate::samples::empty().report;
    report.run.wall_ns = 1000 * MS;
    report
}

pub(super) fn judged(report: Report) -> Vec<VerdictReport> {
    with(report).verdicts.unwrap_or_default()
}

pub(in crate::verdict) fn thread(
    tid: u32,
    name: &str,
    running: u64,
    ready: u64,
) -> LookedThreadReport {
    LookedThreadReport {
        thread: None,
        label: format!("T{tid}"),
        tid,
        pid: 7,
        name: name.into(),
        looks: 100,
        asleep_looks: 100 - (running + ready) / 10,
        alone_looks: 0,
        watched_ns: 1000 * MS,
        running_ns: Some(running * MS),
        ready_ns: Some(ready * MS),
        blocked_ns: Some((1000 - running - ready) * MS),
    }
}

pub(super) fn queue(share_pct: f64, slept: &[(u32, u64)], woken: &[(u32, u64)]) -> WaitPlaceReport {
    let all: u64 = slept.iter().map(|(_, ms)| ms * MS).sum();
    WaitPlaceReport {
        kind: WaitKind::Condvar,
        call: Some("pthread_cond_wait".into()),
        what: None,
        place: "next video.c:31".into(),
        function: Some("next".into()),
        file: Some("video.c".into()),
        line: Some(31),
        callers: Vec::new(),
        in_library: false,
        in_barrier: false,
        looks: 100,
        share_pct,
        sleeps: Some(500),
        slept_ns: Some(all),
        threads: slept
            .iter()
            .map(|(tid, ms)| WaitThreadReport {
                label: format!("T{tid}"),
                tid: *tid,
                looks: 70,
                share_pct: 70.0,
                slept_ns: Some(ms * MS),
            })
            .collect(),
        objects: 1,
        object: None,
        awaited: Vec::new(),
        holders: Vec::new(),
        wakers: woken
            .iter()
            .map(|(tid, ms)| WakerReport {
                label: format!("T{tid}"),
                tid: *tid,
                woken_ns: ms * MS,
            })
            .collect(),
    }
}

fn pipeline(threads: Vec<LookedThreadReport>, place: WaitPlaceReport) -> Vec<VerdictReport> {
    let mut report = run();
    report.waits = Some(LooksReport {
        looks: 100,
        span_ns: 1000 * MS,
        thread_looks: 300,
        threads,
        places: vec![place],
        ..LooksReport::default()
    });
    judged(report)
}

#[test]
fn a_stage_that_works_all_the_time_sets_the_pace() {
    let stages = |ready| {
        vec![
            thread(1, "decode", 240, 0),
            thread(2, "denoise", 970 - ready, ready),
            thread(3, "encode", 250, 0),
        ]
    };
    let slept = [(1, 740), (3, 730)];
    let place = queue(49.0, &slept, &[(2, 1400), (3, 20)]);
    let [verdict] = &pipeline(stages(0), place.clone())[..] else {
        panic!();
    };
    assert_eq!(verdict.kind, VerdictKind::Bottleneck);
    says(
        verdict,
        &[
            "T2 denoise is on a CPU for 97 % of its time, and the 2 others sleep for 74 % of theirs, \
             mostly until it wakes them (a condition variable at next video.c:31)",
        ],
    );
    let busy = &pipeline(stages(400), place.clone())[0];
    says(
        busy,
        &["on a CPU for 57 % of its time, ready without one for 40 %, and"],
    );
    // Without the kernel's sums nobody knows who wakes them.
    let unknown = &pipeline(stages(0), queue(49.0, &slept, &[]))[0];
    says(unknown, &["sleep for 74 % of theirs (a condition"]);
    // The sleepers do not wait for the busy thread, which does something else.
    let other = queue(49.0, &slept, &[(1, 700), (3, 690), (2, 9)]);
    assert_eq!(pipeline(stages(0), other), []);
}

#[test]
fn a_thread_that_sleeps_for_a_disk_sets_the_pace_of_those_that_it_wakes() {
    let run = |call: &str, workers: u64, woken: &[(u32, u64)]| {
        let mut report = self::run();
        let mut pause = queue(45.0, &[(1, 960)], &[]);
        pause.kind = if call == "fsync" {
            WaitKind::Io
        } else {
            WaitKind::Sleep
        };
        pause.call = Some(call.into());
        pause.place = "store log.c:20".into();
        report.waits = Some(LooksReport {
            looks: 100,
            span_ns: 1000 * MS,
            thread_looks: 300,
            threads: vec![
                thread(1, "fetch", 20, 0),
                thread(2, "use", workers, 0),
                thread(3, "use", workers, 0),
            ],
            places: vec![queue(40.0, &[(2, 850), (3, 850)], woken), pause],
            ..LooksReport::default()
        });
        judged(report)
    };
    let found = run("fsync", 90, &[(1, 1600), (2, 20)]);
    assert_eq!(found[0].kind, VerdictKind::Bottleneck);
    says(
        &found[0],
        &[
            "T1 fetch sleeps for 96 % of its time in fsync called from store log.c:20, and the 2 others \
             sleep for 85 % of theirs, mostly until it wakes them (a condition variable at next \
             video.c:31)",
        ],
    );
    assert_eq!(run("fsync", 20, &[(1, 1600)]), [], "nobody has much to do");
    assert_eq!(
        run("fsync", 90, &[(2, 900), (3, 700)]),
        [],
        "others wake them"
    );
    assert_eq!(run("fsync", 90, &[]), [], "who wakes them is not known");
    let paced = run("usleep", 90, &[(1, 1600), (2, 20)]);
    assert_eq!(paced, [], "work may come at that rate");
}

#[test]
fn no_thread_sets_the_pace_where_two_work_or_the_other_only_helps() {
    let place = |share| queue(share, &[(1, 740)], &[(2, 740)]);
    let two = vec![
        thread(1, "a", 240, 0),
        thread(2, "b", 970, 0),
        thread(3, "c", 900, 0),
    ];
    assert_eq!(pipeline(two, place(25.0)), []);
    let log = vec![thread(1, "log", 1, 0), thread(2, "main", 970, 0)];
    assert_eq!(pipeline(log, place(50.0)), []);
    let little = vec![thread(1, "a", 700, 0), thread(2, "b", 970, 0)];
    assert_eq!(pipeline(little, queue(5.0, &[(1, 100)], &[(2, 100)])), []);
}

#[test]
fn where_nothing_stands_out_that_is_said() {
    let mut report = run();
    let looks = |threads: u64| LooksReport {
        looks: 100,
        threads: (0..threads).map(|_| thread(1, "a", 500, 0)).collect(),
        ..LooksReport::default()
    };
    let because = |report: Report| with(report).no_verdict_because.unwrap();
    report.waits = Some(looks(1));
    assert!(because(report.clone()).contains("no complete episode"));
    report.waits = Some(looks(2));
    assert!(because(report.clone()).contains("by looks at the threads nothing stood out"));
    for thread in &mut report.waits.as_mut().unwrap().threads {
        thread.ready_ns = thread.running_ns;
    }
    let lacks = "ready without a CPU for 50 % of the time in which they wanted one";
    for (cpus, cause) in [
        (2, "; what takes the CPU is not known"),
        (
            1,
            ": they want 2.0 CPUs at a time, and share 1 CPU. More threads would not help",
        ),
    ] {
        report.run.cpus = Some(cpus);
        let text = because(report.clone());
        assert!(text.contains(&format!("{lacks}{cause}")), "{text}");
    }
}

/// Eighty threads, of which two live at a time.
#[test]
fn threads_that_live_one_after_the_other_do_not_share_the_cpus() {
    let mut report = run();
    report.run.cpus = Some(2);
    let brief = |tid| {
        let mut thread = thread(tid, "brief", 0, 0);
        (thread.watched_ns, thread.running_ns, thread.ready_ns) =
            (25 * MS, Some(12 * MS), Some(12 * MS));
        thread
    };
    report.waits = Some(LooksReport {
        looks: 100,
        span_ns: 1000 * MS,
        threads: (1..=80).map(brief).collect(),
        ..LooksReport::default()
    });
    let text = with(report).no_verdict_because.unwrap();
    assert!(text.contains("what takes the CPU is not known"), "{text}");
    assert!(!text.contains("share"), "{text}");
}

#[test]
fn cpus_are_not_said_to_lack_where_threads_hardly_want_one() {
    let because = |threads: Vec<LookedThreadReport>, cpus| {
        let mut report = run();
        report.run.cpus = Some(cpus);
        report.waits = Some(LooksReport {
            looks: 100,
            threads,
            ..LooksReport::default()
        });
        with(report).no_verdict_because.unwrap()
    };
    let nothing = "nothing stood out";
    // Idle: 3 ms without a CPU in a second, 1 ms on one.
    let idle = (1..=4).map(|tid| thread(tid, "idle", 1, 3)).collect();
    assert!(because(idle, 1).contains(nothing));
    // Threads that wait in turns: each wants a fifth of a CPU.
    let turns: Vec<_> = (1..=4).map(|tid| thread(tid, "turn", 100, 100)).collect();
    let text = because(turns, 2);
    assert!(!text.contains("share"), "{text}");
    // A thread that only yields its CPU is not busy.
    let yields = vec![thread(1, "yields", 10, 900), thread(2, "works", 900, 10)];
    assert!(because(yields, 1).contains(nothing));
}

#[test]
fn a_thread_that_is_alone_for_long_is_a_serial_part() {
    let with = |alone: u64, others: u64, ran| {
        let mut main = thread(1, "octree", ran, 0);
        main.alone_looks = alone;
        let mut worker = thread(2, "octree", 400, 0);
        worker.looks = others;
        worker.watched_ns = worker.watched_ns / 100 * others;
        let mut join = queue(10.0, &[(1, 300)], &[]);
        (join.kind, join.place) = (WaitKind::Join, "main octree.cpp:62".into());
        let mut report = run();
        report.waits = Some(LooksReport {
            looks: 100,
            thread_looks: 100 + others,
            threads: vec![main, worker],
            places: vec![join],
            ..LooksReport::default()
        });
        judged(report)
    };
    let run = |alone, others| with(alone, others, 600);
    let found = run(48, 52);
    assert_eq!(found[0].kind, VerdictKind::SerialPart);
    assert_eq!(
        found[0].text,
        "serial part: T1 octree works as the only thread for 48 % of the run (48 of 100 looks), before \
         it makes others or after it has joined them at main octree.cpp:62. Divide what it does \
         then among threads, or do it beside their work."
    );
    let mut starved = thread(1, "octree", 90, 800);
    (starved.alone_looks, starved.looks) = (48, 100);
    let mut report = self::run();
    report.waits = Some(LooksReport {
        looks: 100,
        thread_looks: 152,
        threads: vec![starved, thread(2, "octree", 400, 0)],
        ..LooksReport::default()
    });
    assert!(
        judged(report)
            .iter()
            .all(|found| found.kind != VerdictKind::SerialPart),
        "it mostly lacks a CPU"
    );
    let idle = with(48, 52, 20);
    assert_eq!(
        idle,
        [],
        "it hardly works: looks were frequent while it was alone"
    );
    // The last worker, while the main thread waits for its end.
    let last_of = |other_looks, lived_pct| {
        let mut main = thread(1, "pool", 1, 0);
        main.looks = 100;
        let mut last = thread(2, "pool", 1000, 0);
        last.alone_looks = 40;
        let mut first = thread(3, "pool", 600, 0);
        first.looks = other_looks;
        first.watched_ns = first.watched_ns / 100 * lived_pct;
        let mut join = queue(10.0, &[(1, 1000)], &[]);
        (join.kind, join.place) = (WaitKind::Join, "finish pool.rs:44".into());
        join.threads[0].looks = 100;
        let mut report = self::run();
        report.waits = Some(LooksReport {
            looks: 100,
            thread_looks: 200 + other_looks,
            threads: vec![main, last, first],
            places: vec![join],
            ..LooksReport::default()
        });
        judged(report)
    };
    let last = |other_looks| last_of(other_looks, other_looks);
    let found = last(60);
    assert_eq!(found[0].kind, VerdictKind::SerialPart);
    assert!(
        found[0].text.starts_with(
            "serial part: T2 pool works as the only thread for 40 % of the run (40 of 100 looks), \
             while others have ended or wait for threads to end (at finish pool.rs:44). "
        ),
        "{found:?}"
    );
    assert_eq!(last(1), [], "it has one worker");
    // Looks are rare while threads work.
    let mut few = last_of(1, 60);
    assert_eq!(few.remove(0).kind, VerdictKind::SerialPart);
    assert_eq!(run(19, 81), [], "every program begins with one thread");
    assert_eq!(run(99, 1), [], "it has hardly any threads");
}

/// Losses of a few percent each: none is a verdict, and all together are no reason to say that nothing was found.
#[test]
fn small_losses_are_told_instead_of_nothing() {
    let because = |ready: [u64; 2], places: Vec<WaitPlaceReport>, pairs: Vec<PairReport>| {
        let mut report = run();
        report.run.cpus = Some(2);
        report.waits = Some(LooksReport {
            looks: 100,
            span_ns: 1000 * MS,
            threads: vec![
                thread(1, "a", 500, ready[0]),
                thread(2, "b", 500, ready[1]),
                thread(3, "idle", 1, 900),
            ],
            places,
            pairs,
            ..LooksReport::default()
        });
        with(report).no_verdict_because.unwrap()
    };
    let pair = |kind, waker_tid| PairReport {
        waiter: "T1 a".into(),
        waiter_tid: 1,
        waker: "T2 b".into(),
        waker_tid,
        slept_ns: 120 * MS,
        share_pct: 12.0,
        kind,
        at: "next video.c:31".into(),
    };
    let place = |kind, in_barrier| {
        // The third thread is not busy.
        let mut place = queue(2.7, &[(1, 40), (2, 40), (3, 900)], &[]);
        (place.kind, place.in_barrier) = (kind, in_barrier);
        for row in &mut place.threads {
            row.share_pct = row.slept_ns.unwrap() as f64 / (10 * MS) as f64;
        }
        place
    };
    let nothing = |text: String| assert!(text.contains("nothing stood out"), "{text}");
    nothing(because([10, 10], Vec::new(), Vec::new()));
    assert_eq!(
        because([60, 60], Vec::new(), Vec::new()),
        "no barrier was seen, and no cause was found, but the busy threads were ready without a CPU for 11 % of \
         the time in which they wanted one (what takes the CPU is not known). See what takes the CPU (--states \
         full)"
    );
    assert_eq!(
        because(
            [12, 12],
            vec![place(WaitKind::Mutex, false)],
            vec![pair(WaitKind::Condvar, 2)]
        ),
        "no barrier was seen, and no cause was found, but the busy threads were ready without a CPU for 2 % of \
         the time in which they wanted one (what takes the CPU is not known), waited 4 % of their time for \
         locks, and waited 6 % of their time for each other; see below what each of them waits for"
    );
    let spins = because([0; 2], vec![place(WaitKind::Spin, false)], Vec::new());
    assert!(
        spins.contains("the busy threads spun for 4 % of their time; see"),
        "{spins}"
    );
    // The end of a thread, a runtime's dock and a thread that does not work are no loss.
    nothing(because(
        [0; 2],
        vec![place(WaitKind::Mutex, true)],
        Vec::new(),
    ));
    for (kind, waker) in [
        (WaitKind::Join, 2),
        (WaitKind::Barrier, 2),
        (WaitKind::Condvar, 3),
    ] {
        nothing(because([0; 2], Vec::new(), vec![pair(kind, waker)]));
    }
}
