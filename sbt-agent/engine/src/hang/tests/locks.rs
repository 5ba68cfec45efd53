//! Threads that wait for each other without a barrier, or for something that no thread will do.

use super::*;

#[test]
fn two_locks_in_opposite_order() {
    let mut seen = Seen::new();
    seen.worker(1, mutex(0xa0, 2), "left hangs.c:50")
        .worker(2, mutex(0xb0, 1), "right hangs.c:55");
    let hang = seen.is(
        HangKind::Never,
        Some(HangCause::Cycle),
        "worker-1 waits for the mutex 0xa0 that worker-2 holds, which waits for the mutex 0xb0 \
         that worker-1 holds: they wait for each other for ever",
    );
    assert_eq!(hang.barrier, None);
    assert_eq!(hang.cycle.unwrap().len(), 2);
    assert_eq!(
        hang.chain[0],
        "worker-1 → mutex 0xa0 held by worker-2 → mutex 0xb0 held by worker-1"
    );
    seen.of(2).doing = Doing::Running;
    assert_eq!(judge(&seen.0), None, "its holder runs");
}

#[test]
fn locks_in_variables_are_named() {
    let mut seen = Seen::new();
    seen.worker(1, mutex(0xa0, 2), "left hangs.c:50")
        .worker(2, mutex(0xb8, 1), "right hangs.c:55");
    let variable = |process, address, name: &str, offset| VariableSeen {
        process,
        address,
        name: name.into(),
        offset,
    };
    seen.0.variables = vec![
        variable(PROCESS + 1, 0xa0, "of_another_process", 0),
        variable(PROCESS, 0xa0, "totals_lock", 0),
        variable(PROCESS, 0xb8, "queue\u{1b}", 24),
    ];
    let hang = seen.is(
        HangKind::Never,
        Some(HangCause::Cycle),
        "worker-1 waits for the mutex totals_lock (0xa0) that worker-2 holds, which waits for the mutex \
         in queue? (0xb8) that worker-1 holds: they wait for each other for ever",
    );
    assert_eq!(
        hang.chain[0],
        "worker-1 → mutex totals_lock (0xa0) held by worker-2 → mutex in queue? (0xb8) held by \
         worker-1"
    );
}

#[test]
fn words_in_variables_are_named() {
    for (offset, expected) in [
        (0, "waits for ready (0xc0) to change"),
        (8, "waits for a word in ready (0xc0) to change"),
    ] {
        let mut seen = Seen::new();
        let futex = Doing::Waiting(WaitFor::Futex {
            address: 0xc0,
            shared: false,
        });
        seen.worker(1, futex, "left hangs.c:50");
        seen.0.variables = vec![VariableSeen {
            process: PROCESS,
            address: 0xc0,
            name: "ready".into(),
            offset,
        }];
        let hang = seen.hang();
        let expected = format!("worker-1 {expected}, in left() hangs.c:50");
        assert!(hang.text.starts_with(&expected), "{}", hang.text);
    }
}

#[test]
fn who_gives_a_lock_up_after_some_time_does_not_wait_for_ever() {
    let mut seen = Seen::new();
    seen.worker(1, mutex(0xa0, 2), "left hangs.c:50")
        .worker(2, mutex(0xb0, 1), "right hangs.c:55");
    seen.of(2).timed = true;
    assert_eq!(judge(&seen.0), None);
    // The thread may come when its wait is over.
    seen.barrier(3, 40, &[3]);
    let hang = seen.hang();
    assert_eq!((hang.kind, hang.because), (HangKind::Slow, None));
    let it = hang
        .missing
        .iter()
        .find(|thread| thread.who.name == "worker-2");
    let it = it.unwrap();
    assert_eq!(it.blocked_on.as_ref().unwrap().timed, Some(true));
    assert!(
        it.does.ends_with("that worker-1 holds, for a limited time"),
        "{it:#?}"
    );
}

#[test]
fn a_lock_that_is_held_by_whoever_waits_for_it() {
    let mut seen = Seen::new();
    seen.worker(1, mutex(0xa0, 1), "again hangs.c:50");
    seen.is(
        HangKind::Never,
        Some(HangCause::OwnLock),
        "worker-1 waits for the mutex 0xa0 that it holds itself, in again() hangs.c:50, for ever",
    );
    // At a barrier, all other threads wait for this one.
    seen.barrier(3, 40, &[2, 3]);
    seen.is(
        HangKind::Never,
        Some(HangCause::OwnLock),
        "worker-1 is missing at the barrier at hangs.c:40 (2 of 3 are there): it waits for the \
         mutex 0xa0 that it holds itself, in again() hangs.c:50, for ever",
    );
}

#[test]
fn a_lock_whose_holder_has_ended() {
    let gone = held(0xa0, Holder::Gone { thread: 177 });
    let mut seen = Seen::new();
    seen.barrier(3, 40, &[2, 3])
        .worker(1, gone, "update hangs.c:52");
    let hang = seen.is(
        HangKind::Never,
        Some(HangCause::HolderGone),
        "worker-1 is missing at the barrier at hangs.c:40 (2 of 3 are there): it waits in \
         update() hangs.c:52 for the mutex 0xa0, whose holder (thread 177) has ended without \
         letting go, and nobody will unlock it",
    );
    assert_eq!(
        hang.chain,
        ["worker-1 → mutex 0xa0 held by thread 177, which has ended"]
    );
    let Doing::Waiting(WaitFor::Mutex {
        kind: Some(kind), ..
    }) = &mut seen.of(1).doing
    else {
        panic!();
    };
    // A robust mutex tells its next holder.
    kind.robust = true;
    assert_ne!(seen.hang().kind, HangKind::Never);
}

#[test]
fn a_lock_taken_again_in_the_handler_of_a_signal() {
    let mut seen = Seen::new();
    seen.worker(
        1,
        held(0x9000, Holder::Thread(id(1))),
        "log a.c:7 < on_alarm a.c:20 < count a.c:30",
    );
    seen.of(1).stack[2].after_signal = true;
    seen.is(
        HangKind::Never,
        Some(HangCause::OwnLock),
        "worker-1 waits for the mutex 0x9000 that it holds itself, in log() a.c:7, for ever; it does so \
         in the handler of a signal, which has interrupted count() a.c:30",
    );
}

#[test]
fn each_that_nobody_wakes_is_told_with_its_own_wait() {
    let mut seen = Seen::new();
    seen.worker(1, condvar(), "put a.c:44")
        .worker(2, held(0x9000, Holder::Unknown), "count a.c:50")
        .worker(3, condvar(), "put a.c:44");
    seen.is(
        HangKind::Stuck,
        Some(HangCause::NobodyWakes),
        "worker-1 waits for the condition variable 0x5000, in put() a.c:44, and no thread of the \
         process is left that could wake it; the same is true of worker-3; and of worker-2, which waits \
         for the mutex 0x9000, in count() a.c:50",
    );
}

#[test]
fn the_thread_for_which_the_first_one_waits_is_told_first() {
    let mut seen = Seen::new();
    seen.0.threads[0].doing = joins(2);
    seen.worker(1, condvar(), "idle a.c:20")
        .worker(2, condvar(), "put a.c:44");
    seen.is(
        HangKind::Stuck,
        Some(HangCause::NobodyWakes),
        "worker-2 waits for the condition variable 0x5000, in put() a.c:44, and no thread of the \
         process is left that could wake it; the same is true of worker-1, which waits for the \
         condition variable 0x5000, in idle() a.c:20",
    );
}

#[test]
fn nobody_is_left_to_wake_anybody() {
    let mut seen = Seen::new();
    seen.worker(1, condvar(), "wait_all hangs.c:44")
        .worker(2, condvar(), "wait_all hangs.c:44");
    seen.is(
        HangKind::Stuck,
        Some(HangCause::NobodyWakes),
        "worker-1 waits for the condition variable 0x5000, in wait_all() hangs.c:44, and no thread \
         of the process is left that could wake it; the same is true of worker-2",
    );
    seen.worker(3, Doing::Running, "produce hangs.c:60");
    assert_eq!(judge(&seen.0), None);
    seen.of(3).doing = call("read", "standard input");
    assert_eq!(judge(&seen.0), None);
    seen.of(3).doing = condvar();
    seen.of(3).timed = true;
    assert_eq!(judge(&seen.0), None, "it wakes by itself");
}

#[test]
fn a_missed_broadcast_of_a_barrier_that_was_watched() {
    let mut seen = Seen::new();
    seen.barrier(4, 40, &[1, 2, 4])
        .worker(3, condvar(), "take hangs.c:71")
        .watched(17, &[1, 2, 3, 4]);
    seen.0.barriers[0].kind = Kind::Condvar;
    seen.is(
        HangKind::Stuck,
        Some(HangCause::NobodyWakes),
        "worker-3 is missing at the barrier at meet hangs.c:40 (3 of 4 are there, for 12.0 s now): \
         it waits for the condition variable 0x5000, in take() hangs.c:71, and no thread is left \
         that could wake it",
    );
}

#[test]
fn writers_and_ends_of_threads_close_circles_too() {
    let mut seen = Seen::new();
    let lock = WaitFor::RwLock {
        address: 0xc0,
        writes: Some(false),
        writer: Holder::Thread(id(2)),
        readers: Some(0),
    };
    seen.worker(1, Doing::Waiting(lock), "look hangs.c:50")
        .worker(2, joins(1), "stop hangs.c:55");
    let hang = seen.is(
        HangKind::Never,
        Some(HangCause::Cycle),
        "worker-1 waits for the read-write lock 0xc0 to read that worker-2 holds, which waits for \
         the end of worker-1: they wait for each other for ever",
    );
    assert_eq!(
        hang.chain[0],
        "worker-1 → read-write lock 0xc0 held by worker-2 → end of worker-1"
    );
}
