//! Threads that went on while they were looked at: nothing may be reported that requires all
//! observations to be from one moment. And threads of processes that nobody looked at.

use super::*;

/// A lock is held across the barrier: see `a_lock_held_across_the_barrier`.
fn across() -> Seen {
    let mut seen = Seen::new();
    seen.barrier(4, 40, &[1, 3, 4])
        .worker(2, mutex(0x5581, 1), "update hangs.c:52");
    seen
}

#[test]
fn one_that_has_its_lock_by_now_is_in_no_circle() {
    let mut seen = Seen::new();
    seen.worker(1, mutex(0xa0, 1), "again hangs.c:50");
    assert_eq!(seen.hang().because, Some(HangCause::OwnLock));
    assert_eq!(judge(&seen.restless(&[1]).0), None);
    seen.barrier(3, 40, &[2, 3]);
    let hang = seen.hang();
    assert_eq!(
        (hang.kind, hang.because),
        (HangKind::Slow, None),
        "{}",
        hang.text
    );
    assert_eq!(hang.cycle, None);
}

#[test]
fn locks_that_went_from_hand_to_hand_are_no_circle() {
    for restless in [1, 2] {
        let mut seen = Seen::new();
        seen.worker(1, mutex(0xa0, 2), "left hangs.c:50").worker(
            2,
            mutex(0xb0, 1),
            "right hangs.c:55",
        );
        assert_eq!(seen.hang().because, Some(HangCause::Cycle));
        assert_eq!(judge(&seen.restless(&[restless]).0), None);
    }
}

#[test]
fn a_barrier_that_may_have_opened_closes_no_circle() {
    assert_eq!(across().hang().kind, HangKind::Never);
    for (restless, kind) in [
        (1, HangKind::Unclear),
        (2, HangKind::Slow),
        (3, HangKind::Unclear),
    ] {
        let mut seen = across();
        let hang = seen.restless(&[restless]).hang();
        assert_eq!((hang.kind, hang.because), (kind, None), "{}", hang.text);
        assert!(!hang.text.contains("each other"), "{}", hang.text);
        assert_eq!(hang.cycle, None);
        assert_eq!(
            hang.chain,
            ["worker-2 → mutex 0x5581 held by worker-1 → barrier at hangs.c:40"]
        );
    }
}

#[test]
fn who_was_seen_to_come_and_not_to_leave_is_there() {
    let mut seen = across();
    seen.watched(17, &[1, 2, 3, 4]).restless(&[1, 3, 4]);
    seen.of(1).doing = Doing::Running;
    assert_eq!(seen.hang().because, Some(HangCause::Cycle));
    // The finding is unclear if events are missing.
    seen.0.barriers[0].past.as_mut().unwrap().unsure = true;
    let hang = seen.hang();
    assert_eq!((hang.kind, hang.because), (HangKind::Unclear, None));
}

#[test]
fn rounds_that_follow_each_other_are_not_all_there() {
    for count in [2, 3] {
        let mut seen = Seen::new();
        seen.barrier(count, 40, &[1, 2, 3]);
        assert_eq!(seen.hang().kind, HangKind::Stuck);
        assert_eq!(judge(&seen.restless(&[3]).0), None);
    }
}

#[test]
fn too_few_are_left_only_if_those_that_are_there_stay() {
    let mut seen = Seen::new();
    seen.barrier(4, 40, &[1, 2, 4]).restless(&[4]);
    let hang = seen.is(
        HangKind::Unclear,
        None,
        "threads wait at the barrier at hangs.c:40 (3 of 4 are there): who is missing there is not \
         known",
    );
    assert_eq!(hang.missing, []);
    // A thread that could come may have moved.
    let mut seen = Seen::new();
    seen.barrier(4, 40, &[1, 2, 4]).restless(&[0]);
    let hang = seen.hang();
    assert_eq!(
        (hang.kind, hang.because),
        (HangKind::Stuck, Some(HangCause::FewerAlive))
    );
}

#[test]
fn a_count_that_is_not_known_is_not_made_up() {
    let mut seen = Seen::new();
    seen.barrier(4, 40, &[1, 2, 4]);
    seen.0.barriers[0].participants = None;
    seen.0.barriers[0].arrived = None;
    seen.0.barriers[0].kind = Kind::Std;
    let hang = seen.is(
        HangKind::Never,
        Some(HangCause::FewerAlive),
        "the barrier at hangs.c:40 can never complete: 3 are there, how many it waits for is not \
         known, and no other can come (main waits for the end of worker-1, which waits at this \
         barrier): a thread has ended without coming, or the count is too large",
    );
    assert_eq!((hang.participants, hang.missing_count), (None, None));
    let hang = seen.restless(&[2]).hang();
    assert_eq!((hang.kind, hang.because), (HangKind::Unclear, None));
}

#[test]
fn a_holder_that_has_ended_since_may_have_let_go() {
    let gone = held(0xa0, Holder::Gone { thread: 177 });
    let mut seen = Seen::new();
    seen.worker(1, gone, "update hangs.c:52");
    assert_eq!(seen.hang().because, Some(HangCause::HolderGone));
    assert_eq!(judge(&seen.restless(&[1]).0), None);
    seen.barrier(3, 40, &[2, 3]);
    let hang = seen.hang();
    assert_eq!(
        (hang.kind, hang.because),
        (HangKind::Slow, None),
        "{}",
        hang.text
    );
}

#[test]
fn one_that_is_awake_may_wake_the_others() {
    let mut seen = Seen::new();
    seen.worker(1, condvar(), "wait_all hangs.c:44")
        .worker(2, condvar(), "wait_all hangs.c:44");
    assert_eq!(seen.hang().because, Some(HangCause::NobodyWakes));
    assert_eq!(judge(&seen.restless(&[2]).0), None);
}

#[test]
fn another_process_may_wake_who_waits_for_what_it_shares() {
    for shared in [false, true] {
        for wait in [
            WaitFor::Semaphore {
                address: 0x5000,
                shared,
            },
            WaitFor::Condvar {
                address: 0x5000,
                shared,
            },
            WaitFor::Futex {
                address: 0x5000,
                shared,
            },
        ] {
            let mut seen = Seen::new();
            seen.worker(1, Doing::Waiting(wait.clone()), "serve hangs.c:44");
            let found = judge(&seen.0);
            assert_eq!(found.is_none(), shared, "{wait:?}");
            seen.barrier(3, 40, &[2, 3]);
            let hang = seen.hang();
            let found = if shared {
                (HangKind::Unclear, None)
            } else {
                (HangKind::Stuck, Some(HangCause::NobodyWakes))
            };
            assert_eq!((hang.kind, hang.because), found, "{wait:?}");
        }
    }
}

#[test]
fn who_may_be_woken_by_a_thread_that_goes_on_may_come() {
    let mut seen = Seen::new();
    seen.barrier(3, 40, &[1, 2])
        .worker(3, condvar(), "load hangs.c:44");
    let hang = seen.hang();
    assert_eq!(
        (hang.kind, hang.because),
        (HangKind::Stuck, Some(HangCause::NobodyWakes))
    );
    seen.thread(9, "helper", Doing::Running, "helper hangs.c:70");
    let hang = seen.hang();
    assert_eq!((hang.kind, hang.because), (HangKind::Unclear, None));
    let tail = ": helper runs in helper() hangs.c:70 (at each of 5 looks, 99 % of a CPU in 200 ms), and may \
        wake it; whether worker-3 comes is not known";
    assert!(hang.text.ends_with(tail), "{}", hang.text);
    // A thread that spins in a call of a runtime waits itself: the helper alone may wake another.
    seen.thread(
        8,
        "turn",
        Doing::Running,
        "*__kmpc_ordered < helper hangs.c:9",
    );
    seen.0.threads.rotate_right(1);
    assert!(seen.hang().text.ends_with(tail), "{}", seen.hang().text);
    seen.of(9).stack = stack("*__kmpc_ordered < helper hangs.c:70");
    let text = seen.hang().text;
    assert!(!text.contains("may wake it"), "{text}");
    // The lock of a file is held by another process, which sbt does not know.
    let mut seen = Seen::new();
    seen.barrier(3, 40, &[1, 2])
        .worker(3, call("flock", "a.lock"), "load hangs.c:44");
    assert_eq!(seen.hang().kind, HangKind::Unclear);
}

#[test]
fn those_that_spin_unwatched_accuse_only_who_is_known_to_be_missing() {
    let mut seen = Seen::new();
    seen.barrier(3, 40, &[1, 2])
        .worker(3, call("read", "pipe:[7]"), "load hangs.c:70")
        .restless(&[1, 2]);
    let hang = seen.hang();
    assert_eq!((hang.kind, hang.certain), (HangKind::Outside, true));
    let mut seen = Seen::new();
    seen.barrier(3, 40, &[1, 2])
        .thread(9, "loader", call("read", "pipe:[7]"), "load hangs.c:70");
    assert_eq!(seen.hang().kind, HangKind::Outside);
    let hang = seen.restless(&[1]).hang();
    assert_eq!(hang.kind, HangKind::Unclear);
    assert!(
        hang.text.ends_with("whether loader comes is not known"),
        "{}",
        hang.text
    );
}

#[test]
fn who_slept_only_between_is_slow() {
    let mut seen = Seen::new();
    seen.barrier(3, 40, &[1, 2])
        .worker(3, call("read", "pipe:[7]"), "load hangs.c:70");
    assert_eq!(seen.hang().kind, HangKind::Outside);
    assert_eq!(seen.restless(&[3]).hang().kind, HangKind::Slow);
}

/// Threads of two processes wait at a shared barrier, and one thread does not come.
fn shared(count: u32) -> Seen {
    let mut seen = Seen::new();
    seen.barrier(count, 40, &[1, 2])
        .worker(3, mutex(0x5581, 1), "update hangs.c:52");
    seen.0.barriers[0].shared = true;
    let other = ThreadId {
        process: 200,
        thread: 200,
    };
    seen.of(2).id = other;
    seen.0.barriers[0].waiting[1] = other;
    seen
}

#[test]
fn of_processes_that_nobody_looked_at_others_may_come() {
    let hang = shared(3).hang();
    assert_eq!(
        (hang.kind, hang.because),
        (HangKind::Never, Some(HangCause::Cycle))
    );
    assert!(hang.certain);
    let mut seen = shared(3);
    seen.0.partial = true;
    let hang = seen.hang();
    assert_eq!(
        (hang.kind, hang.certain),
        (HangKind::Stuck, false),
        "{}",
        hang.text
    );
    // With too few threads, it is unknown which are missing.
    let mut seen = shared(4);
    seen.0.threads.retain(|thread| thread.id != id(3));
    assert_eq!(seen.hang().because, Some(HangCause::FewerAlive));
    seen.0.partial = true;
    let hang = seen.hang();
    assert_eq!(
        (hang.kind, hang.because),
        (HangKind::Unclear, None),
        "{}",
        hang.text
    );
    // It is also unknown if only one process was looked at.
    seen.0.partial = false;
    seen.0.threads.retain(|thread| thread.id.process == PROCESS);
    let hang = seen.hang();
    assert_eq!(
        (hang.kind, hang.because),
        (HangKind::Unclear, None),
        "{}",
        hang.text
    );
}

#[test]
fn who_was_interrupted_elsewhere_does_not_wait_twice() {
    let mut seen = Seen::new();
    seen.barrier(2, 40, &[1]);
    let waits = seen.of(1).doing.clone();
    let twice = "handler hangs.c:15 < !*pthread_barrier_wait < worker hangs.c:40";
    for (doing, calls, is_twice) in [
        (waits.clone(), twice, true),
        // The thread may have only begun to wait.
        (Doing::Running, twice, false),
        // There was no signal.
        (
            waits.clone(),
            "again hangs.c:15 < *pthread_barrier_wait < worker hangs.c:40",
            false,
        ),
        // The signal came at another place.
        (
            waits,
            "*pthread_barrier_wait < handler hangs.c:15 < !worker hangs.c:40",
            false,
        ),
    ] {
        seen.of(1).doing = doing;
        seen.of(1).stack = stack(calls);
        let because = seen.hang().because;
        assert_eq!(because == Some(HangCause::WaitsTwice), is_twice, "{calls}");
    }
    seen.of(1).stack = stack(twice);
    seen.of(1).doing = Doing::Waiting(WaitFor::Barrier(0));
    assert_ne!(
        seen.restless(&[1]).hang().because,
        Some(HangCause::WaitsTwice)
    );
}
