//! Judgements at their limits: which of several threads counts, and which finding comes first.

use super::*;

/// A scene in which two of three threads have arrived; `others` are further threads.
fn two_of_three(others: &[(u32, Doing)]) -> Seen {
    let mut seen = Seen::new();
    seen.barrier(3, 40, &[1, 2]);
    for (number, doing) in others {
        seen.worker(*number, doing.clone(), "load hangs.c:70");
    }
    seen
}

#[test]
fn of_more_than_are_missing_the_best_off_may_be_enough() {
    let reads = || call("read", "pipe:[7]");
    let mut seen = two_of_three(&[(3, Doing::Running), (4, reads())]);
    seen.moves(3, "other hangs.c:20");
    assert_eq!(seen.hang().kind, HangKind::Slow);
    // Both are needed, so the worse one counts.
    seen.0.barriers[0].participants = Some(4);
    let hang = seen.hang();
    assert_eq!(
        (hang.kind, hang.missing_count),
        (HangKind::Outside, Some(2))
    );
    assert_eq!(names(&hang.missing), ["worker-4", "worker-3"]);
    assert!(
        hang.text.starts_with("worker-4 is missing"),
        "{}",
        hang.text
    );
    let one = two_of_three(&[(3, reads()), (4, reads())]).hang();
    assert_eq!((one.kind, one.missing_count), (HangKind::Outside, Some(1)));
}

#[test]
fn who_only_sleeps_for_a_time_may_still_come() {
    let hang = two_of_three(&[]).hang();
    assert_eq!(
        (hang.kind, hang.because),
        (HangKind::Never, Some(HangCause::FewerAlive))
    );
    let helper = |doing| {
        let mut seen = two_of_three(&[]);
        seen.thread(9, "helper", doing, "serve hangs.c:7");
        seen.hang()
    };
    let hang = helper(call("clock_nanosleep", "5 s"));
    assert_eq!((hang.kind, hang.because), (HangKind::Unclear, None));
    // It may wait for an order to come, or for a signal, or for a child.
    let child = Doing::Waiting(WaitFor::Child { process: None });
    for doing in [call("epoll_wait", ""), call("rt_sigtimedwait", ""), child] {
        let hang = helper(doing);
        assert_eq!((hang.kind, hang.because), (HangKind::Unclear, None));
        assert!(hang.text.contains("either helper"), "{}", hang.text);
    }
}

#[test]
fn a_barrier_that_all_have_reached_is_told_with_the_right_reason() {
    let of = |count: u32| {
        let mut seen = Seen::new();
        seen.barrier(count, 40, &[1, 2, 3]);
        seen
    };
    assert_eq!(of(3).hang().because, None);
    assert_eq!(of(3).hang().missing_count, Some(0));
    assert_eq!(of(2).hang().because, Some(HangCause::TooMany));
    assert_eq!(of(2).hang().missing_count, Some(0));
    // By its own count, all threads have arrived; one of them was not seen.
    let mut seen = of(4);
    seen.0.barriers[0].arrived = Some(4);
    assert_eq!(judge(&seen.0), None);
}

#[test]
fn a_count_that_was_reached_before_is_not_too_large() {
    let of = |members: &[u32]| {
        let mut seen = Seen::new();
        seen.barrier(3, 40, &[1, 2]).watched(0, members);
        seen.hang().because
    };
    assert_eq!(of(&[1, 2]), Some(HangCause::CountTooLarge));
    assert_eq!(of(&[1, 2, 3]), Some(HangCause::FewerAlive));
}

#[test]
fn the_worst_barrier_comes_first_then_that_at_which_most_wait() {
    let mut seen = Seen::new();
    seen.barrier(3, 40, &[1, 2]);
    seen.barrier(9, 50, &[3, 4, 5, 6]);
    // Neither can ever complete; more threads wait at the second.
    let hang = seen.hang();
    assert_eq!(hang.participants, Some(9), "{}", hang.text);
    assert_eq!(hang.also.len(), 1);
    assert_eq!(
        (hang.also[0].participants, hang.also[0].waiting),
        (Some(3), 2)
    );
    // A running thread may come to both; at the first, a missing thread stands still for a lock.
    let mut seen = Seen::new();
    seen.barrier(4, 40, &[1, 2])
        .worker(3, mutex(0x5581, 1), "update hangs.c:52");
    seen.barrier(2, 50, &[4])
        .worker(5, Doing::Running, "solve hangs.c:60")
        .moves(5, "solve hangs.c:75");
    let hang = seen.hang();
    assert_eq!((hang.kind, hang.participants), (HangKind::Stuck, Some(4)));
    let others: Vec<_> = hang.also.iter().map(|other| other.participants).collect();
    assert_eq!(others, [Some(2)]);
    // The second barrier is in no circle with the first.
    let text = &hang.also[0].text;
    assert!(text.contains("worker-5 runs in solve()"), "{text}");
}

#[test]
fn a_barrier_comes_before_locks_of_the_same_grade() {
    let mut seen = Seen::new();
    seen.barrier(3, 40, &[1, 2])
        .worker(3, mutex(0xa0, 4), "take hangs.c:52")
        .worker(4, mutex(0xb0, 3), "take hangs.c:53");
    let hang = seen.hang();
    assert_eq!(hang.kind, HangKind::Never);
    assert!(hang.barrier.is_some(), "{}", hang.text);
    assert_eq!(hang.participants, Some(3));
}

#[test]
fn of_locks_those_in_the_circle_are_named_and_their_root_first() {
    let mut seen = Seen::new();
    seen.worker(1, mutex(0xa0, 3), "take hangs.c:51")
        .worker(2, mutex(0xa0, 3), "take hangs.c:51")
        .worker(3, mutex(0xb0, 4), "take hangs.c:52")
        .worker(4, mutex(0xc0, 3), "take hangs.c:53")
        .worker(5, call("read", "pipe:[7]"), "load hangs.c:70");
    let hang = seen.hang();
    assert_eq!(
        (hang.kind, hang.because),
        (HangKind::Never, Some(HangCause::Cycle))
    );
    assert_eq!(
        hang.barrier
            .as_ref()
            .map(|barrier| barrier.address.as_str()),
        None
    );
    assert_eq!(names(&hang.arrived)[0], "worker-3");
    let mut waiting = names(&hang.arrived);
    waiting.sort_unstable();
    // The main thread waits for the end of worker-1, so it hangs too.
    assert_eq!(
        waiting,
        ["main", "worker-1", "worker-2", "worker-3", "worker-4"]
    );
    assert_eq!(names(&hang.others), ["worker-5"]);
    assert_eq!((hang.missing.len(), hang.missing_count), (0, None));
}

#[test]
fn one_thread_alone_is_woken_by_nobody_where_memory_is_its_own() {
    let alone = |doing| {
        let mut seen = Seen(Scene {
            looks: 2,
            looked_ns: 200 * MS,
            ..Scene::default()
        });
        seen.thread(0, "main", doing, "main hangs.c:90");
        judge(&seen.0)
    };
    let hang = alone(condvar()).expect("no other thread may write there");
    assert_eq!(hang.because, Some(HangCause::NobodyWakes));
    let shared = WaitFor::Condvar {
        address: 0x5000,
        shared: true,
    };
    assert_eq!(alone(Doing::Waiting(shared)), None);
    let hang = alone(mutex(0xa0, 0)).expect("it holds that lock itself");
    assert_eq!(
        (hang.kind, hang.because),
        (HangKind::Never, Some(HangCause::OwnLock))
    );
    assert_eq!(hang.looks, Some(2));
}

#[test]
fn without_a_count_nobody_is_known_to_be_missing() {
    let of = |count: Option<u32>| {
        let mut seen = Seen::new();
        seen.barrier(3, 40, &[1, 2]);
        seen.0.barriers[0].participants = count;
        // A thread of a library, which might come but is unlikely to.
        seen.thread(9, "helper", Doing::Running, "*helper");
        let hang = seen.hang();
        (hang.kind, hang.because)
    };
    assert_eq!(of(None), (HangKind::Unclear, None));
    assert_eq!(of(Some(3)), (HangKind::Stuck, Some(HangCause::FewerAlive)));
}

#[test]
fn of_several_that_nobody_wakes_the_one_for_which_the_first_thread_waits_leads() {
    let mut seen = Seen::new();
    // The main thread waits for worker-1, which waits for worker-3.
    seen.worker(1, mutex(0xa0, 3), "take hangs.c:51")
        .worker(2, condvar(), "wait_all hangs.c:44")
        .worker(3, condvar(), "wait_all hangs.c:44");
    let hang = seen.hang();
    assert_eq!(
        (hang.kind, hang.because),
        (HangKind::Stuck, Some(HangCause::NobodyWakes))
    );
    assert_eq!(names(&hang.arrived), ["worker-3", "worker-2"]);
    assert!(hang.text.starts_with("worker-3 waits"), "{}", hang.text);
}

#[test]
fn what_stands_still_for_another_reason_is_told_apart() {
    let mut seen = Seen::new();
    seen.worker(1, mutex(0xa0, 2), "take hangs.c:51")
        .worker(2, mutex(0xb0, 1), "take hangs.c:52")
        .worker(3, mutex(0xc0, 3), "again hangs.c:60");
    let hang = seen.hang();
    assert_eq!(
        (hang.kind, hang.because),
        (HangKind::Never, Some(HangCause::Cycle))
    );
    assert!(!names(&hang.arrived).contains(&"worker-3"), "{}", hang.text);
    assert_eq!(names(&hang.others), ["worker-3"]);
}
