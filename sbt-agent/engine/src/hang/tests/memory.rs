//! Threads that go round in a loop until memory changes, and who may change it.

use super::{spinning::of, *};
use crate::{
    hang::{asleep_as, names::Names, report, spinning_as},
    report::LookOutcome,
};

/// The thread spins until a word changes.
fn awaits(shared: bool, naps: bool) -> Doing {
    Doing::Waiting(WaitFor::Memory {
        address: Some(0x4010),
        name: Some("ready".into()),
        shared,
        naps,
        is_endless: false,
    })
}

/// The thread goes round in a loop that nothing ends.
fn loops() -> Doing {
    Doing::Waiting(WaitFor::Memory {
        address: None,
        name: None,
        shared: false,
        naps: true,
        is_endless: true,
    })
}

#[test]
fn who_goes_round_without_end_waits_for_nothing_and_comes_to_no_barrier() {
    let mut seen = Seen::new();
    seen.barrier(3, 40, &[1, 2]);
    seen.thread(3, "worker-3", loops(), "*usleep < show hangs.c:90");
    let hang = seen.hang();
    assert!(
        hang.text.starts_with(
            "the barrier at hangs.c:40 can never complete: it waits for 3 threads, 2 are there, and no \
             other can come"
        ),
        "{}",
        hang.text
    );
    let shown = hang
        .others
        .iter()
        .find(|other| other.who.tid == id(3).thread);
    assert_eq!(
        shown.map(|shown| &shown.does[..]),
        Some("spins in an endless loop, and sleeps in each turn")
    );
    let seen = known(&[(loops(), "*usleep < main hangs.c:90")]);
    assert_eq!(
        report(&seen.0, PROCESS).text,
        "every thread either waits or spins: main-0 spins in an endless loop, \
         and sleeps in each turn, in main() hangs.c:90"
    );
}

/// A program of these threads whose process is known.
pub(super) fn known(threads: &[(Doing, &str)]) -> Seen {
    let mut seen = of(threads);
    seen.0.processes.push(process(PROCESS));
    seen
}

#[test]
fn beside_locks_whose_holders_are_unknown_a_sleep_is_no_wait_for_the_outside() {
    let sleeps = |name: &str| call(name, "1 s");
    let text = |idle: Doing, timed: bool| {
        let mut seen = known(&[
            (joins(1), "main a.c:30"),
            (
                held(0x4000, Holder::Unknown),
                "*pthread_mutex_lock < one a.c:7",
            ),
            (
                held(0x4040, Holder::Unknown),
                "*pthread_mutex_lock < two a.c:9",
            ),
            (idle, "heart a.c:18"),
        ]);
        seen.of(3).timed = timed;
        let found = report(&seen.0, PROCESS);
        (found.outcome, found.text)
    };
    let (outcome, told) = text(sleeps("nanosleep"), true);
    assert_eq!(outcome, Some(LookOutcome::Unknown));
    assert!(
        told.starts_with(
            "all threads sleep, and whether anything will wake them is not known: worker-1 waits for the \
             mutex 0x4000, in one() a.c:7: it is not recorded who holds it"
        ),
        "{told}"
    );
    // A thread that waits for a client may hold the lock for which the others of its pool wait.
    let (outcome, _) = text(call("accept", "socket:[7]"), false);
    assert_eq!(outcome, Some(LookOutcome::Outside));
}

#[test]
fn who_is_woken_for_a_moment_does_not_change_what_the_program_waits_for() {
    let mut seen = known(&[
        (call("rt_sigtimedwait", ""), "main a.c:30"),
        (call("clock_nanosleep", "2 s"), "sample a.c:18"),
        (condvar(), "*pthread_cond_wait < take a.c:7"),
    ]);
    let told = |seen: &Seen| {
        let found = report(&seen.0, PROCESS);
        (found.outcome, found.text)
    };
    let asleep = told(&seen);
    assert_eq!(asleep.0, Some(LookOutcome::Outside));
    assert_eq!(
        asleep.1,
        "the program waits for something outside of it: main-0 waits in rt_sigtimedwait(), in main() \
         a.c:30; 1 more thread waits for the outside too"
    );
    // The sample was taken between the looks, and woke the other thread.
    seen.restless(&[1, 2]);
    assert_eq!(told(&seen), asleep);
    // Nobody outside is waited for: then the threads go on, as they have been seen to do.
    seen.of(0).doing = joins(2);
    let (outcome, text) = told(&seen);
    assert_eq!(outcome, Some(LookOutcome::Moves));
    assert_eq!(
        text,
        "no hang was found: worker-2 waits for the condition variable 0x5000, in take() a.c:7, and was \
         awake between the looks; whether those that slept throughout will be woken is not known"
    );
}

#[test]
fn whether_a_thread_wakes_others_after_a_sleep_is_not_known() {
    let mut seen = known(&[
        (joins(1), "main a.c:30"),
        (condvar(), "*pthread_cond_wait < take a.c:7"),
        (call("clock_nanosleep", "1 s"), "heart a.c:18"),
    ]);
    let told = |seen: &Seen| {
        let found = report(&seen.0, PROCESS);
        (found.outcome, found.text)
    };
    let (outcome, text) = told(&seen);
    assert_eq!(outcome, Some(LookOutcome::Unknown));
    assert_eq!(
        text,
        "all threads sleep, and whether anything will wake them is not known: worker-1 waits for the \
         condition variable 0x5000, in take() a.c:7; worker-2 sleeps in clock_nanosleep() (1 s), in \
         heart() a.c:18, and what it does after that is not known"
    );
    // The thread that sleeps woke between the looks.
    seen.restless(&[2]);
    let (outcome, text) = told(&seen);
    assert_eq!(outcome, Some(LookOutcome::Unknown));
    assert!(
        text.starts_with(
            "all threads sleep nearly all the time, and whether anything will wake those that wait is not \
             known: worker-1"
        ),
        "{text}"
    );
    // While the program was watched, the thread that waits was woken.
    seen.of(1).ran_lately = true;
    assert_eq!(told(&seen).0, Some(LookOutcome::Outside));
    seen.of(1).ran_lately = false;
    // The thread that waits gives up by itself, or waits for a lock that the sleeping thread holds, which
    // goes on after its sleep.
    seen.of(1).timed = true;
    assert_eq!(told(&seen).0, Some(LookOutcome::Outside));
    seen.of(1).timed = false;
    seen.of(1).doing = mutex(0xa0, 2);
    assert_eq!(told(&seen).0, Some(LookOutcome::Outside));
    // The thread belongs to a library, for example to a pool that the program did not make.
    seen.of(1).doing = condvar();
    seen.of(1).stack = stack("*pthread_cond_wait < *g_thread_pool_run");
    assert_eq!(told(&seen).0, Some(LookOutcome::Outside));
}

#[test]
fn threads_of_a_runtime_that_wake_each_other_tell_nothing_of_its_tasks() {
    let futex = Doing::Waiting(WaitFor::Futex {
        address: 0x9000,
        shared: false,
    });
    let mut seen = known(&[
        (call("epoll_pwait", ""), "runtime.epollwait a.s:7"),
        (futex, "runtime.futex a.s:9"),
    ]);
    seen.restless(&[0, 1]);
    assert_eq!(
        asleep_as(&seen.0, &Names::default()),
        None,
        "one wakes the other"
    );
    for process in &mut seen.0.processes {
        process.has_tasks = true;
    }
    let found = asleep_as(&seen.0, &Names::default()).expect("they do next to nothing");
    assert_eq!(found.kind, HangKind::Unclear);
    assert!(
        found.text.contains("which goroutines wait"),
        "{}",
        found.text
    );
    // A task computes.
    seen.of(1).ran_ns = Some(20 * MS);
    assert_eq!(asleep_as(&seen.0, &Names::default()), None);
}

#[test]
fn a_flag_that_nobody_is_left_to_set_is_a_hang() {
    let mut seen = known(&[
        (joins(1), "main a.c:30"),
        (awaits(false, false), "work a.c:7"),
        (awaits(false, false), "work a.c:7"),
    ]);
    seen.of(1).ran_ns = Some(198 * MS);
    let hang = seen.hang();
    assert_eq!(hang.kind, HangKind::Stuck);
    assert_eq!(
        hang.text,
        "worker-1 spins until ready (0x4010) changes, in work() a.c:7, and no thread of \
         the process is left that could change it; the same is true of worker-2"
    );
}

#[test]
fn who_may_change_the_memory_otherwise_is_told() {
    let mut seen = known(&[(awaits(false, true), "work a.c:7")]);
    let text = |seen: &Seen| report(&seen.0, PROCESS).text;
    assert_eq!(
        text(&seen),
        "main-0 looks again and again, and sleeps in between, until ready (0x4010) changes, in work() \
         a.c:7, and no thread of the process is left that could change it"
    );
    seen.0.processes[0].has_handlers = true;
    assert_eq!(judge(&seen.0), None);
    assert_eq!(
        text(&seen),
        "the program waits for something outside of it: main-0 looks again and again, and sleeps in \
         between, until ready (0x4010) changes, as a handler of a signal may do, in work() a.c:7"
    );
    seen.of(0).doing = awaits(false, false);
    assert_eq!(
        text(&seen),
        "no thread does anything but wait, and whether anything will end that is not known: main-0 \
         spins until ready (0x4010) changes, in work() a.c:7: a handler of a signal may \
         change it"
    );
    seen.0.processes[0].has_handlers = false;
    seen.of(0).doing = awaits(true, false);
    let report = report(&seen.0, PROCESS);
    assert_eq!(report.outcome, Some(LookOutcome::Unknown));
    assert!(
        report.text.ends_with("another process may change it"),
        "{}",
        report.text
    );
}

#[test]
fn a_thread_that_runs_or_waits_for_the_outside_may_change_memory() {
    let spins = (awaits(false, false), "work a.c:7");
    let mut seen = known(&[spins.clone(), (Doing::Running, "main a.c:30")]);
    seen.of(0).ran_ns = Some(198 * MS);
    assert_eq!(judge(&seen.0), None);
    assert_eq!(asleep_as(&seen.0, &Names::default()), None);
    assert_eq!(spinning_as(&seen.0, &Names::default()), None);
    let text = report(&seen.0, PROCESS).text;
    assert!(
        text.starts_with(
            "main-0 spins until ready (0x4010) changes, in work() a.c:7; worker-1 runs in \
             main() a.c:30"
        ),
        "{text}"
    );
    let seen = known(&[(call("accept", "socket:[7]"), "main a.c:30"), spins]);
    let report = report(&seen.0, PROCESS);
    assert_eq!(report.outcome, Some(LookOutcome::Outside));
}

#[test]
fn a_thread_that_spins_is_missing_at_a_barrier() {
    let mut seen = Seen::new();
    seen.0.processes = known(&[]).0.processes;
    seen.barrier(2, 40, &[1]);
    seen.worker(2, awaits(false, false), "take hangs.c:9");
    let hang = seen.hang();
    assert_eq!(hang.kind, HangKind::Stuck);
    assert!(
        hang.text.contains(
            "worker-2 is missing at the barrier at hangs.c:40 (1 of 2 is there): it spins until \
             ready (0x4010) changes, in take() hangs.c:9, and no thread is left that could change it"
        ),
        "{}",
        hang.text
    );
}
