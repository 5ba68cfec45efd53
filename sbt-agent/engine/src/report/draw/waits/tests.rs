use super::*;
use crate::{
    looks::{Birth, CodePlace, FoundWait, Glimpse, Tally, sums::FoundSleep},
    report::WaitKind,
    samples,
};

fn who(thread: u32) -> ThreadId {
    ThreadId { process: 7, thread }
}

fn at(function: &str, line: u32) -> CodePlace {
    CodePlace {
        function: Some(function.into()),
        file: Some("/src/queue.c".into()),
        line: Some(line),
        binary: "queue".into(),
        offset: 0,
    }
}

fn wait(kind: Kind, object: u64, stack: &[CodePlace]) -> Wait {
    Wait {
        process: 7,
        kind,
        call: Some("call".into()),
        what: None,
        object: Some(object),
        awaits: None,
        stack: stack.to_vec(),
        in_library: false,
    }
}

/// Looks at which each of these threads was in its wait, as often as the list is long.
fn looked(all: &[(u32, Option<Wait>)], times: u64) -> Tally {
    let mut tally = Tally::default();
    for look in 1..=times {
        tally.look(look * 1000);
        for (thread, wait) in all {
            let wait = wait.clone().and_then(|wait| tally.number(wait));
            let seen = Glimpse {
                time_ns: look * 1000,
                ran_ns: Some(0),
                ready_ns: Some(0),
                asleep: wait.is_some(),
                wait,
            };
            tally.thread(who(*thread), Birth::default(), seen);
        }
    }
    tally
}

#[test]
fn places_are_lines_and_threads_that_only_wait_for_ends_do_not_count() {
    let end = Wait {
        awaits: Some(who(8)),
        ..wait(Kind::Join, 0, &[at("main", 9)])
    };
    let one = wait(Kind::Mutex, 16, &[at("get", 20), at("stage", 30)]);
    let two = wait(Kind::Mutex, 32, &[at("get", 20), at("other", 31)]);
    let mut tally = looked(
        &[
            (7, Some(end)),
            (8, Some(one.clone())),
            (9, Some(two)),
            (10, None),
        ],
        10,
    );
    let number = tally.number(one).unwrap();
    tally.holds(number, who(10), None);
    let report = report(&tally.found(1, None), &samples::empty().report);
    assert_eq!((report.looks, report.thread_looks), (10, 30));
    let labels: Vec<&str> = report
        .threads
        .iter()
        .map(|thread| thread.label.as_str())
        .collect();
    assert_eq!(labels, ["T0", "T1", "T2", "T3"]);
    let [get, main] = report.places.as_slice() else {
        panic!("{report:?}");
    };
    assert_eq!(
        (get.looks, get.objects, get.place.as_str()),
        (20, 2, "get queue.c:20")
    );
    assert!((get.share_pct - 66.7).abs() < 0.1, "{get:?}");
    assert_eq!(get.callers, ["other queue.c:31", "stage queue.c:30"]);
    assert_eq!(get.holders[0].label, "T3");
    assert_eq!(
        get.called(),
        "2 mutexes locked at get queue.c:20 from other queue.c:31 and stage queue.c:30"
    );
    assert_eq!(main.called(), "the end of T1 at main queue.c:9");
    let mut many = main.clone();
    many.awaited = (1..=8).map(|id| format!("T{id}")).collect();
    assert_eq!(
        many.called(),
        "the end of T1, T2, T3, T4, T5 and 3 others at main queue.c:9"
    );
    assert!(main.share_pct.abs() < f64::EPSILON, "{main:?}");
}

#[test]
fn a_lock_that_processes_share_is_one() {
    let of = |process| Wait {
        process,
        ..wait(Kind::Mutex, 16, &[at("get", 20)])
    };
    let mut found = looked(&[(7, Some(of(1))), (8, Some(of(2)))], 10).found(1, None);
    let called = |found: &Found| {
        let drawn = report(found, &samples::empty().report);
        drawn.places[0].called()
    };
    // After a fork both have one at that address.
    assert_eq!(called(&found), "2 mutexes locked at get queue.c:20");
    found.waits[0].sleeps = vec![FoundSleep {
        who: who(7),
        times: 1,
        total_ns: 10,
        max_ns: 10,
        wakers: vec![(
            ThreadId {
                process: 2,
                thread: 8,
            },
            10,
        )],
    }];
    assert_eq!(called(&found), "the mutex locked at get queue.c:20");
}

#[test]
fn the_words_of_a_condition_variable_or_a_lock_are_one_object() {
    let words = |kind: Kind, all: &[u64]| {
        let waits = all.iter().map(|word| wait(kind, *word, &[at("get", 20)]));
        let threads: Vec<(u32, Option<Wait>)> = (7..).zip(waits.map(Some)).collect();
        let report = report(
            &looked(&threads, 10).found(1, None),
            &samples::empty().report,
        );
        report.places[0].objects
    };
    assert_eq!(words(Kind::Condvar, &[0x1028, 0x102c]), 1);
    assert_eq!(words(Kind::Condvar, &[0x1000, 0x1028, 0x102c]), 1);
    assert_eq!(words(Kind::Condvar, &[0x1028, 0x102c, 0x1058, 0x105c]), 2);
    assert_eq!(words(Kind::RwLock, &[0x1000, 0x1008, 0x100c]), 1);
    // The second word of one lock and the first of the next.
    assert_eq!(words(Kind::RwLock, &[0x100c, 0x1038]), 2);
    assert_eq!(words(Kind::Mutex, &[0x1000, 0x1004]), 2);
}

#[test]
fn sleep_that_no_look_saw_belongs_to_a_threads_life() {
    let tally = looked(&[(7, None)], 3);
    let mut found = tally.found(1, None);
    found.waits.push(FoundWait {
        wait: wait(Kind::Mutex, 16, &[at("get", 20)]),
        threads: Vec::new(),
        holders: Vec::new(),
        sleeps: vec![FoundSleep {
            who: who(7),
            times: 1,
            total_ns: 9000,
            max_ns: 9000,
            wakers: Vec::new(),
        }],
        wakers: Vec::new(),
    });
    let drawn = |found: &Found| report(found, &samples::empty().report);
    let thread = &drawn(&found).threads[0];
    assert_eq!((thread.watched_ns, thread.blocked_ns), (9000, Some(9000)));
    // What the kernel has not seen asleep may be time on a CPU that it has not counted yet.
    found.waits.clear();
    assert_eq!(drawn(&found).threads[0].blocked_ns, Some(3000));
    found.sums = Some(Summed {
        watched_ns: 9000,
        span_ns: 9000,
        unplaced_ns: 20,
        ..Summed::default()
    });
    let looks = (found.threads[0].looks, found.threads[0].asleep);
    found.threads[0].asleep = 0;
    assert_eq!(drawn(&found).threads[0].blocked_ns, Some(20));
    // A sleep that began before sbt came is in no sum; the looks saw it.
    (found.threads[0].looks, found.threads[0].asleep) = (10, 10);
    assert_eq!(drawn(&found).threads[0].blocked_ns, Some(3000));
    (found.threads[0].looks, found.threads[0].asleep) = looks;
}

#[test]
fn who_woke_whom_is_told_with_the_place_of_the_longest_sleep() {
    let mut found = looked(&[(7, None), (8, None), (9, None)], 100).found(1, None);
    let slept = |at: &CodePlace, of: &[(u32, u32, u64)]| FoundWait {
        wait: wait(Kind::Condvar, 16, std::slice::from_ref(at)),
        threads: Vec::new(),
        holders: Vec::new(),
        sleeps: of
            .iter()
            .map(|(waiter, waker, ns)| FoundSleep {
                who: who(*waiter),
                times: 1,
                total_ns: *ns,
                max_ns: *ns,
                wakers: vec![(who(*waker), *ns)],
            })
            .collect(),
        wakers: Vec::new(),
    };
    found.waits = vec![
        slept(&at("get", 20), &[(7, 8, 50_000), (9, 8, 20_000)]),
        slept(&at("put", 31), &[(7, 8, 10_000), (7, 9, 5000)]),
    ];
    let drawn = report(&found, &samples::empty().report);
    let pairs: Vec<_> = drawn
        .pairs
        .iter()
        .map(|pair| (pair.waiter.as_str(), pair.waker.as_str(), pair.slept_ns))
        .collect();
    assert_eq!(
        pairs,
        [
            ("T0", "T1", 60_000),
            ("T2", "T1", 20_000),
            ("T0", "T2", 5000)
        ]
    );
    assert_eq!(drawn.pairs[0].at, "a condition variable at get queue.c:20");
    assert!((drawn.pairs[0].share_pct - 60.0).abs() < 1.0, "{drawn:?}");
}

#[test]
fn waits_inside_of_a_barrier_are_no_part_of_the_work() {
    let sample = samples::imbalanced().report;
    let place = &sample.sites[0].places[0];
    let line = place
        .split(' ')
        .find_map(|word| word.split_once(':'))
        .unwrap();
    let inside = CodePlace {
        file: Some(format!("/src/{}", line.0)),
        line: line.1.parse().ok(),
        ..CodePlace::default()
    };
    let within = wait(Kind::Mutex, 16, &[at("enter", 5), inside.clone()]);
    let outside = wait(Kind::Mutex, 16, &[at("enter", 5)]);
    let tally = looked(&[(8, Some(within)), (9, Some(outside))], 3);
    let mut of_own_code = sample.clone();
    of_own_code.sites[0].kind = BarrierKind::Condvar;
    let drawn = report(&tally.found(1, None), &of_own_code);
    let is_inside: Vec<bool> = drawn.places.iter().map(|place| place.in_barrier).collect();
    assert_eq!(is_inside, [false, true]);
    assert_eq!(drawn.in_the_work().count(), 1);
    // The line of a library's barrier may call other functions too, which may sleep.
    let drawn = report(&tally.found(1, None), &sample);
    let looks = drawn.in_the_work().map(|place| place.looks);
    assert_eq!(looks.sum::<u64>(), 6);
    let mut sleeps = wait(Kind::Sleep, 0, std::slice::from_ref(&inside));
    sleeps.call = Some("usleep".into());
    let mut waits = wait(Kind::Futex, 0, &[inside]);
    waits.call = Some("pthread_barrier_wait".into());
    let mut naps = sleeps.clone();
    let tally = looked(&[(8, Some(sleeps)), (9, Some(waits))], 3);
    let drawn = report(&tally.found(1, None), &sample);
    let work: Vec<WaitKind> = drawn.in_the_work().map(|place| place.kind).collect();
    assert_eq!(work, [WaitKind::Sleep]);
    // The barrier of libc++ sleeps.
    let mut of_cplusplus = sample;
    of_cplusplus.sites[0].kind = BarrierKind::Std;
    assert_eq!(
        report(&tally.found(1, None), &of_cplusplus)
            .in_the_work()
            .count(),
        1
    );
    for (call, work) in [("nanosleep", 1), ("std::__1::barrier::arrive_and_wait", 0)] {
        naps.call = Some(call.into());
        let tally = looked(&[(8, Some(naps.clone()))], 3);
        let drawn = report(&tally.found(1, None), &of_cplusplus);
        assert_eq!(drawn.in_the_work().count(), work, "{call}");
    }
}
