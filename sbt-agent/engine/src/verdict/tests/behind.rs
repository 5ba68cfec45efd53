//! Programs without barriers whose threads wait for one, through others.

use super::{
    pace::{judged, queue, run, thread},
    says, with,
};
use crate::report::{
    Report, VerdictKind, VerdictReport, WaitKind,
    waits::{LookedThreadReport, LooksReport, PairReport, SumsReport, WaitPlaceReport},
};

const MS: u64 = 1_000_000;

fn pair(waiter: u32, waker: u32, ms: u64) -> PairReport {
    PairReport {
        waiter: format!("T{waiter}"),
        waiter_tid: waiter,
        waker: format!("T{waker}"),
        waker_tid: waker,
        slept_ns: ms * MS,
        share_pct: ms as f64 / 10.0,
        kind: WaitKind::Condvar,
        at: "a condition variable at put queue.c:9".into(),
    }
}

/// A stage that sleeps in its work.
fn nap(slept: &[(u32, u64)]) -> WaitPlaceReport {
    WaitPlaceReport {
        kind: WaitKind::Sleep,
        call: Some("nanosleep".into()),
        place: "work queue.c:20".into(),
        ..queue(40.0, slept, &[])
    }
}

fn told(
    threads: Vec<LookedThreadReport>,
    places: Vec<WaitPlaceReport>,
    pairs: Vec<PairReport>,
) -> Vec<VerdictReport> {
    let mut report = run();
    let sums = SumsReport {
        watched_ns: 1000 * MS,
        span_ns: 1000 * MS,
        sleeps: 400,
        unplaced_ns: 0,
        missed: 0,
    };
    report.waits = Some(LooksReport {
        looks: 100,
        span_ns: 1000 * MS,
        thread_looks: 400,
        threads,
        places,
        pairs,
        sums: Some(sums),
        ..LooksReport::default()
    });
    judged(report)
}

/// Four stages, of which the third is the slowest: the first two wait until the next takes something,
/// the last until something comes.
fn stages() -> Vec<LookedThreadReport> {
    (1..=4).map(|tid| thread(tid, "stage", 10, 0)).collect()
}

#[test]
fn the_slowest_stage_is_found_through_those_that_wait_for_it() {
    let naps = nap(&[(1, 300), (2, 400), (3, 950), (4, 820)]);
    let pairs = vec![
        pair(1, 2, 690),
        pair(2, 3, 590),
        pair(4, 3, 160),
        pair(3, 2, 20),
    ];
    let all = told(stages(), vec![naps.clone()], pairs.clone());
    let [verdict] = all.as_slice() else {
        panic!("{all:?}");
    };
    assert_eq!(verdict.kind, VerdictKind::Bottleneck);
    says(
        verdict,
        &[
            "T3 stage sleeps for 95 % of its time in nanosleep called from work queue.c:20, and 3 \
             others wait for it, or for each other behind it, for 48 % of theirs. Sleep less there, if it need not be.",
        ],
    );
    // Work may just come at the rate of a thread behind which all others are.
    let source = vec![
        pair(1, 3, 690),
        pair(2, 3, 590),
        pair(4, 3, 160),
        pair(3, 2, 5),
    ];
    assert_eq!(told(stages(), vec![naps.clone()], source), []);
    // The thread need not have waited if others wait for it before and behind.
    assert_eq!(
        told(stages(), vec![naps.clone()], pairs[..3].to_vec()).len(),
        1
    );
    // A thread that waits for the end of all others does no work, and does not count.
    let mut joins = pair(9, 1, 1000);
    joins.kind = WaitKind::Join;
    let with_main = [pairs, vec![joins]].concat();
    assert_eq!(told(stages(), vec![naps], with_main).len(), 1);
}

#[test]
fn a_stage_that_works_is_found_unless_another_works_as_long() {
    let mut threads = stages();
    threads[2] = thread(3, "encode", 900, 50);
    threads[3] = thread(4, "write", 600, 90);
    let pairs = vec![pair(1, 2, 690), pair(2, 3, 590), pair(4, 3, 160)];
    let all = told(threads.clone(), Vec::new(), pairs.clone());
    says(
        &all[0],
        &[
            "T3 encode is on a CPU for 90 % of its time, is ready without a CPU for 5 %, and 3 others",
            "divide it among more threads",
        ],
    );
    // Two workers, for one of which the others happened to wait.
    threads[3] = thread(4, "encode", 600, 200);
    assert_eq!(told(threads, Vec::new(), pairs), []);
}

#[test]
fn nobody_sets_the_pace_if_waits_end_at_several_threads_or_outside() {
    let naps = || vec![nap(&[(3, 950), (4, 950)])];
    // Half of the waits are for each.
    let even = vec![pair(1, 3, 600), pair(2, 4, 600)];
    assert_eq!(told(stages(), naps(), even), []);
    // Two threads that wait for each other in turns.
    let turns = vec![pair(1, 2, 500), pair(2, 1, 480)];
    assert_eq!(told(stages(), naps(), turns), []);
    // Two that are asleep for equally long.
    let alike = vec![
        pair(1, 3, 700),
        pair(2, 3, 690),
        pair(4, 3, 90),
        pair(1, 4, 20),
    ];
    assert_eq!(told(stages(), naps(), alike), []);
    // The last waits for something that is not of the program.
    let outside = vec![pair(1, 3, 700), pair(2, 3, 700)];
    assert_eq!(told(stages(), vec![nap(&[(1, 200)])], outside), []);
    // The other threads hardly wait.
    let little = vec![pair(1, 3, 90), pair(2, 3, 80)];
    assert_eq!(told(stages(), naps(), little), []);
}

#[test]
fn a_lack_of_cpus_is_no_work_of_those_who_wait() {
    // Three take turns at a queue that the first fills, and lack a CPU for a part of their time.
    let threads = vec![
        thread(1, "parse", 700, 280),
        thread(2, "index", 90, 130),
        thread(3, "index", 90, 130),
        thread(4, "index", 90, 130),
    ];
    let pairs = vec![
        pair(2, 3, 290),
        pair(2, 4, 270),
        pair(2, 1, 220),
        pair(3, 2, 300),
        pair(3, 4, 300),
        pair(3, 1, 200),
        pair(4, 2, 330),
        pair(4, 3, 250),
        pair(4, 1, 210),
    ];
    let all = told(threads, Vec::new(), pairs);
    says(&all[0], &["T1 parse is on a CPU for 70 % of its time"]);
}

#[test]
fn threads_that_never_got_work_wait_for_nobody() {
    let threads = || {
        let mut all = vec![thread(1, "main", 870, 130)];
        all.extend((2..=4).map(|tid| thread(tid, "helper", 0, 0)));
        all
    };
    let pairs: Vec<_> = (2..=4).map(|tid| pair(tid, 1, 1000)).collect();
    let waits = |sleeps| WaitPlaceReport {
        sleeps: Some(sleeps),
        ..queue(75.0, &[(2, 1000), (3, 1000), (4, 1000)], &[(1, 3000)])
    };
    // Each thread was woken once, at the end.
    assert_eq!(told(threads(), vec![waits(3)], pairs.clone()), []);
    assert_eq!(told(threads(), vec![waits(300)], pairs).len(), 1);
}

#[test]
fn two_threads_that_wait_for_each_other_work_in_turns() {
    let turns = |running, share| {
        let threads = vec![
            thread(1, "physics", running, 70),
            thread(2, "render", running, 50),
        ];
        told(
            threads,
            Vec::new(),
            vec![pair(1, 2, share), pair(2, 1, share)],
        )
    };
    let found = turns(450, 450);
    assert_eq!(found[0].kind, VerdictKind::WorkInTurns);
    assert_eq!(
        found[0].text,
        "work in turns: T1 physics and T2 render work one after the other: they wait 45 % and 45 % of \
         their time for each other, in a condition variable at put queue.c:9, and use 0.90 CPUs \
         together. Let one go on while the other works, if what they hand over allows that."
    );
    assert_eq!(turns(700, 250), [], "they work beside each other");
    assert_eq!(turns(100, 450), [], "they have little to do");
    let third = vec![
        pair(1, 2, 450),
        pair(1, 3, 150),
        pair(2, 1, 450),
        pair(2, 3, 150),
        pair(3, 1, 150),
    ];
    let threads = vec![
        thread(1, "physics", 450, 70),
        thread(2, "render", 450, 50),
        thread(3, "sound", 100, 50),
    ];
    let found = told(threads, Vec::new(), third);
    assert_eq!(found, [], "three threads may want one thing");
}

#[test]
fn where_no_cause_is_known_the_longest_wait_is_told() {
    let mut report = run();
    let sums = |sleeps| SumsReport {
        watched_ns: 1000 * MS,
        span_ns: 1000 * MS,
        sleeps,
        unplaced_ns: 0,
        missed: 0,
    };
    report.waits = Some(LooksReport {
        looks: 2,
        threads: vec![
            thread(1, "slow", 600, 0),
            thread(2, "fast", 300, 0),
            thread(3, "gc", 5, 0),
        ],
        pairs: vec![pair(2, 1, 650), pair(3, 1, 990)],
        sums: Some(sums(400)),
        ..LooksReport::default()
    });
    let because = |report: Report| with(report).no_verdict_because.unwrap();
    assert_eq!(
        because(report.clone()),
        "no barrier was seen, and why threads wait is not known; of the threads that also work, T2 fast \
         waits longest: 65 % of its time until T1 slow wakes it, in a condition variable at put queue.c:9"
    );
    // A start has some sleeps.
    report.waits.as_mut().unwrap().sums = Some(sums(20));
    assert!(because(report).contains("no complete episode"));
}

#[test]
fn whoever_hardly_wakes_anybody_sets_no_pace_either() {
    let threads = vec![
        thread(1, "main", 20, 20),
        thread(2, "reader", 60, 40),
        thread(3, "reader", 60, 40),
        thread(4, "writer", 960, 35),
    ];
    let pairs = vec![pair(2, 4, 890), pair(3, 4, 880), pair(2, 1, 2)];
    let found = told(threads, Vec::new(), pairs);
    says(&found[0], &["T4 writer is on a CPU for 96 % of its time"]);
}
