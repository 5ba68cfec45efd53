//! Programs that sleep without a barrier, and teams that cannot meet.

use super::*;
use crate::{
    event::Kind,
    hang::{
        asleep_as,
        names::Names,
        report,
        scene::{Language, ProcessSeen, Section, ThreadId},
    },
    report::LookOutcome,
};

const CHILD: u32 = 200;

fn reads(processes: &[u32]) -> Doing {
    Doing::Waiting(WaitFor::Data {
        call: "read".into(),
        what: "pipe:[7]".into(),
        processes: processes.to_vec(),
    })
}

/// The kind and the sentence of a program that sleeps.
pub(super) fn asleep(seen: &Seen) -> (HangKind, String) {
    let found = asleep_as(&seen.0, &Names::default()).expect("it sleeps");
    (found.kind, found.text)
}

fn alone(doing: Doing) -> Seen {
    let mut seen = Seen(Scene {
        looks: 5,
        looked_ns: 200 * MS,
        processes: vec![process(PROCESS)],
        ..Scene::default()
    });
    seen.thread(0, "main", doing, "main a.c:9");
    seen
}

#[test]
fn what_waits_for_the_outside_is_no_hang() {
    let seen = alone(call("accept", "socket:[7]"));
    assert_eq!(judge(&seen.0), None);
    let (kind, text) = asleep(&seen);
    assert_eq!(kind, HangKind::Outside);
    assert_eq!(
        text,
        "the program waits for something outside of it: main waits in accept() for socket:[7], in \
         main() a.c:9"
    );
    // Threads that one of the others lets in.
    let mut seen = Seen::new();
    seen.worker(1, call("accept", "socket:[7]"), "listen a.c:4")
        .worker(2, condvar(), "serve a.c:8");
    assert_eq!(asleep(&seen).0, HangKind::Outside);
    // A thread that does something is not asleep.
    seen.worker(3, Doing::Running, "compute a.c:20");
    assert_eq!(asleep_as(&seen.0, &Names::default()), None);
}

#[test]
fn a_request_that_only_the_program_can_end_waits_for_nothing_outside() {
    let mut seen = alone(call("io_uring_enter", ""));
    assert_eq!(asleep(&seen).0, HangKind::Outside);
    seen.0.threads[0].own_request = true;
    let (kind, text) = asleep(&seen);
    assert_eq!(kind, HangKind::Unclear);
    assert!(
        text.starts_with("all threads sleep, and whether anything will wake them is not known"),
        "{text}"
    );
}

#[test]
fn without_a_handler_no_signal_wakes_whom_others_wait_for() {
    let mut seen = alone(call("pause", ""));
    seen.worker(1, condvar(), "take a.c:4");
    assert_eq!(judge(&seen.0), None, "a handler may wake it");
    assert_eq!(asleep(&seen).0, HangKind::Outside);
    seen.0.processes[0].handles_none = true;
    seen.is(
        HangKind::Stuck,
        Some(HangCause::NobodyWakes),
        "worker-1 waits for the condition variable 0x5000, in take() a.c:4, and no thread of the process \
         is left that could wake it; main waits in pause(), in main() a.c:9, and the process handles no \
         signal",
    );
    // A signal that is taken by waiting for it needs no handler.
    seen.of(0).doing = call("rt_sigtimedwait", "");
    assert_eq!(judge(&seen.0), None);
    // Another thread may let the worker go on, or wait for a guest.
    seen.of(0).doing = call("pause", "");
    seen.worker(2, call("accept", "socket:[7]"), "listen a.c:7");
    assert_eq!(judge(&seen.0), None);
    let (kind, text) = asleep(&seen);
    assert_eq!(kind, HangKind::Outside);
    assert!(text.contains("worker-2 waits in accept()"), "{text}");
    seen.of(2).doing = Doing::Running;
    assert_eq!(judge(&seen.0), None);
}

#[test]
fn who_waits_for_a_signal_keeps_its_locks() {
    let mut seen = alone(call("rt_sigsuspend", ""));
    seen.worker(1, mutex(0x5000, 0), "take a.c:4");
    seen.0.processes[0].handles_none = true;
    seen.is(
        HangKind::Never,
        Some(HangCause::NobodyWakes),
        "worker-1 waits for the mutex 0x5000 that main holds, which waits in rt_sigsuspend(), in main() \
         a.c:9, and the process handles no signal",
    );
}

#[test]
fn a_program_that_only_waits_to_be_ended_is_no_hang() {
    let mut seen = alone(joins(1));
    seen.worker(1, call("pause", ""), "idle a.c:4");
    seen.0.processes[0].handles_none = true;
    assert_eq!(judge(&seen.0), None);
    let (kind, text) = asleep(&seen);
    assert_eq!(kind, HangKind::Outside);
    assert_eq!(
        text,
        "the program waits for something outside of it: worker-1 waits in pause(), in idle() a.c:4, until \
         a signal ends the process"
    );
}

#[test]
fn who_waits_for_the_next_parallel_region_is_no_victim() {
    let mut seen = alone(reads(&[PROCESS]));
    let futex = Doing::Waiting(WaitFor::Futex {
        address: 0x5000,
        shared: false,
    });
    let libraries = ["/usr/lib/libgomp.so.1", "/x.libs/libgomp-a34b3233.so.1.0.0"];
    for (number, library) in [1, 2].into_iter().zip(libraries) {
        seen.thread(number, "pool", futex.clone(), "*gomp_thread_start");
        seen.of(number).stack[0].binary = library.into();
    }
    let hang = judge(&seen.0).unwrap();
    let text = "main waits in read() for pipe:[7], in main() a.c:9, and only its own process holds the \
                other end, where no thread goes on";
    assert_eq!(hang.text, text);
    assert_eq!(hang.others[0].does, "waits for the next parallel region");
    // The region goes on.
    seen.of(0).stack = stack("fetch a.c:4 < *GOMP_parallel < main a.c:9");
    let text = seen.hang().text;
    assert!(
        text.contains("no thread is left that could wake pool"),
        "{text}"
    );
    seen.of(0).stack = stack("fetch a.c:4");
    seen.of(0).is_whole = false;
    let text = seen.hang().text;
    assert!(
        text.contains("no thread is left that could wake pool"),
        "{text}"
    );
}

#[test]
fn timers_and_tasks_may_wake_whom_no_thread_wakes() {
    let mut seen = alone(condvar());
    assert_eq!(
        judge(&seen.0).unwrap().because,
        Some(HangCause::NobodyWakes)
    );
    seen.0.processes[0].has_timers = true;
    assert_eq!(judge(&seen.0), None);
    assert_eq!(asleep(&seen).0, HangKind::Unclear);
    seen.0.processes[0].has_timers = false;
    seen.0.processes[0].has_tasks = true;
    assert_eq!(judge(&seen.0), None);
}

#[test]
fn locks_of_python_are_told_as_such() {
    let semaphore = Doing::Waiting(WaitFor::Semaphore {
        address: 0x5000,
        shared: false,
    });
    let calls =
        "PyThread_acquire_lock_timed thread_pthread.h:497 < acquire_timed _threadmodule.c:98";
    let mut seen = alone(semaphore);
    seen.of(0).stack = stack(calls);
    seen.0.processes[0].language = Some(Language::Python);
    let hang = judge(&seen.0).unwrap();
    assert_eq!(hang.because, Some(HangCause::NobodyWakes));
    assert_eq!(
        hang.text,
        "main waits for a lock of Python (0x5000), and no thread of the process is left that could wake \
         it; `py-spy dump --pid 100` prints the functions of Python that each thread is in"
    );
    // The interpreter itself is waited for elsewhere.
    seen.of(0).stack = stack("*take_gil ceval_gil.h:260 < main a.c:9");
    let text = judge(&seen.0).unwrap().text;
    assert!(text.contains("waits for the semaphore 0x5000"), "{text}");
}

#[test]
fn java_tells_who_holds_its_locks() {
    let helper = "*os::PlatformMonitor::wait < *GangWorker::run < *thread_native_entry";
    let mut seen = alone(joins(1));
    seen.thread(1, "java", condvar(), "")
        .thread(2, "GC Thread#0", condvar(), helper)
        .thread(
            3,
            "order",
            condvar(),
            "*park < *ObjectMonitor::enter(JavaThread*)",
        );
    seen.of(3).is_whole = false;
    let of_java = |calls: &str| {
        let mut calls = stack(calls);
        for call in &mut calls {
            call.binary = "libjvm.so".into();
        }
        calls
    };
    seen.of(3).stack = of_java("*park < *ObjectMonitor::enter(JavaThread*)");
    seen.0.processes[0].language = Some(Language::Java);
    seen.0.processes[0].has_timers = true;
    let found = report(&seen.0, PROCESS);
    assert_eq!(found.outcome, Some(LookOutcome::Unknown));
    assert!(
        found
            .text
            .contains("not known: order waits to enter a monitor of Java"),
        "{}",
        found.text
    );
    assert!(
        found.text.ends_with(
            "; `jstack 100` prints for which lock each thread of Java waits and which thread holds it, \
             and so does the program itself after `kill -QUIT 100`"
        ),
        "{}",
        found.text
    );
    // The program's threads stand before those of its virtual machine.
    assert_eq!(
        names(&found.threads),
        ["main", "java", "order", "GC Thread#0"]
    );
    seen.of(2).stack = stack("run GangWorker.cpp:3");
    seen.of(2).stack[0].binary = "libjvm.so".into();
    assert_eq!(names(&report(&seen.0, PROCESS).threads)[3], "GC Thread#0");
    let calls = "*park < *ObjectMonitor::enter(JavaThread*) < *ObjectMonitor::wait(long)";
    seen.of(3).stack = of_java(calls);
    let text = report(&seen.0, PROCESS).text;
    assert!(!text.contains("monitor"), "{text}");
    // A virtual machine looks for the monitor now and then, by itself.
    let calls = "*park < *ObjectMonitor::EnterI(JavaThread*)";
    seen.of(3).stack = of_java(calls);
    seen.of(3).timed = true;
    for slept in [true, false] {
        (seen.of(3).slept, seen.of(3).ran_ns) = (slept, Some(0));
        let found = report(&seen.0, PROCESS);
        assert_eq!(found.outcome, Some(LookOutcome::Unknown), "{}", found.text);
        assert!(
            found
                .text
                .contains("order waits to enter a monitor of Java"),
            "{}",
            found.text
        );
        let order = found
            .threads
            .iter()
            .find(|thread| thread.who.name == "order");
        let on = order.unwrap().blocked_on.as_ref().unwrap();
        assert_eq!(on.timed, Some(false));
    }
    // A function of the program may have that name.
    seen.of(3).stack = stack(calls);
    let text = report(&seen.0, PROCESS).text;
    assert!(!text.contains("monitor"), "{text}");
    // A program that waits for the outside needs no advice.
    let mut seen = alone(call("accept", "socket:[7]"));
    seen.0.processes[0].language = Some(Language::Java);
    let found = report(&seen.0, PROCESS);
    assert_eq!(found.outcome, Some(LookOutcome::Outside));
    assert!(!found.text.contains("jstack"), "{}", found.text);
}

#[test]
fn memory_that_known_processes_share_is_changed_by_none_of_them() {
    let child = Doing::Waiting(WaitFor::Child { process: None });
    let semaphore = Doing::Waiting(WaitFor::Semaphore {
        address: 0x5000,
        shared: true,
    });
    let mut seen = family(child, semaphore);
    assert_eq!(judge(&seen.0), None, "others may share it");
    seen.0.threads[1].sharers = Some(vec![PROCESS, CHILD]);
    let hang = judge(&seen.0).unwrap();
    assert_eq!(hang.because, Some(HangCause::NobodyWakes));
    assert!(
        hang.text.contains("waits for the semaphore 0x5000")
            && hang
                .text
                .contains("no thread of the processes that share it is left that could wake it"),
        "{}",
        hang.text
    );
    assert!(!hang.text.contains("end of its child"), "{}", hang.text);
    // A process that shares the memory was not looked at, or does something.
    seen.0.threads[1].sharers = Some(vec![PROCESS, CHILD, CHILD + 1]);
    assert_eq!(judge(&seen.0), None);
    seen.0.threads[1].sharers = Some(vec![PROCESS, CHILD]);
    seen.0.processes[0].has_timers = true;
    assert_eq!(judge(&seen.0), None);
}

#[test]
fn a_pipe_is_as_good_as_who_holds_its_other_end() {
    let hang = judge(&alone(reads(&[PROCESS])).0).expect("nobody writes");
    assert_eq!(
        (hang.kind, hang.because),
        (HangKind::Stuck, Some(HangCause::NobodyWakes))
    );
    assert!(
        hang.text
            .ends_with("only its own process holds the other end, where no thread goes on"),
        "{}",
        hang.text
    );
    // The other end is in a process that was not looked at.
    assert_eq!(judge(&alone(reads(&[77])).0), None);
    // Another thread of the process will write.
    let mut seen = alone(reads(&[PROCESS]));
    seen.thread(1, "writer", Doing::Running, "compute a.c:20");
    assert_eq!(judge(&seen.0), None);
}

#[test]
fn a_child_that_writes_to_a_parent_that_waits_for_its_end() {
    let child = Doing::Waiting(WaitFor::Child {
        process: Some(CHILD),
    });
    let semaphore = Doing::Waiting(WaitFor::Semaphore {
        address: 0x5000,
        shared: false,
    });
    // Both processes hold the end to read from, as with a queue of Python's multiprocessing.
    let mut seen = family(child, semaphore);
    let writes = Doing::Waiting(WaitFor::Data {
        call: "write".into(),
        what: "pipe:[7]".into(),
        processes: vec![PROCESS, CHILD],
    });
    seen.thread(2, "feeder", writes, "feed a.c:30");
    seen.of(2).id.process = CHILD;
    assert_eq!(
        seen.hang().text,
        "feeder waits in write() for pipe:[7], in feed() a.c:30, and none of the processes that hold the \
         other end goes on: main waits for the end of its child process 200, to which feeder belongs; no \
         thread is left that could wake child, which waits for the semaphore 0x5000, in serve() a.c:20"
    );
}

/// A parent and its child.
pub(super) fn family(parent: Doing, child: Doing) -> Seen {
    let mut seen = alone(parent);
    seen.thread(1, "child", child, "serve a.c:20");
    seen.of(1).id = ThreadId {
        process: CHILD,
        thread: CHILD,
    };
    seen.0.processes.push(ProcessSeen {
        parent: Some(PROCESS),
        forked: true,
        ..process(CHILD)
    });
    seen
}

#[test]
fn processes_that_read_from_each_other() {
    let hang = judge(&family(reads(&[CHILD]), reads(&[PROCESS])).0).expect("neither writes");
    assert_eq!(
        (hang.kind, hang.because),
        (HangKind::Never, Some(HangCause::Cycle)),
        "{}",
        hang.text
    );
    // A child that sleeps for some time goes on, and its parent with it.
    let any = Doing::Waiting(WaitFor::Child { process: None });
    let seen = family(any, call("nanosleep", "5 s"));
    assert_eq!(judge(&seen.0), None);
    assert_eq!(asleep(&seen).0, HangKind::Outside);
}

#[test]
fn a_lock_that_was_held_at_the_fork_is_held_by_nobody_there() {
    let waits = Doing::Waiting(WaitFor::Child {
        process: Some(CHILD),
    });
    let hang = judge(&family(waits, held(0xa0, Holder::Gone { thread: 177 })).0).unwrap();
    assert_eq!(hang.because, Some(HangCause::HolderGone));
    assert_eq!(
        hang.text,
        "child waits in serve() a.c:20 for the mutex 0xa0, which thread 177 held when this process was \
         forked (it exists only in the parent), and nobody will unlock it; process 200 was forked from \
         process 100, of which it has only the thread that called fork()"
    );
    assert_eq!(
        hang.chain[0],
        "child → mutex 0xa0 held by thread 177, which exists only in the parent"
    );
}

fn team(seen: &mut Seen, count: u32, waiting: &[u32]) {
    seen.barrier(count, 40, waiting);
    seen.0.barriers[0].kind = Kind::Gomp;
    seen.0.barriers[0].arrived = None;
    for number in waiting {
        seen.of(*number).stack =
            stack("*GOMP_barrier < meet a.c:5 < main._omp_fn.0 a.c:11 < *gomp_thread_start");
    }
}

#[test]
fn a_team_exists_only_in_the_parent() {
    let mut seen = alone(condvar());
    seen.0.threads.clear();
    team(&mut seen, 4, &[1]);
    // Without a fork, a thread has ended.
    assert_ne!(seen.hang().because, Some(HangCause::ForkedTeam));
    seen.0.processes[0].forked = true;
    seen.0.processes[0].parent = Some(99);
    let hang = seen.hang();
    assert_eq!(
        (hang.kind, hang.because),
        (HangKind::Never, Some(HangCause::ForkedTeam))
    );
    assert!(
        hang.text.contains("exists only in the parent"),
        "{}",
        hang.text
    );
    assert!(
        hang.text.contains("was forked from process 99"),
        "{}",
        hang.text
    );
}

#[test]
fn a_team_whose_threads_stand_at_different_barriers() {
    let mut seen = Seen::new();
    team(&mut seen, 3, &[1, 2, 3]);
    assert_ne!(seen.hang().because, Some(HangCause::Apart), "all at one");
    for number in [2, 3] {
        seen.of(number).stack = stack("*gomp_team_barrier_wait_final < *gomp_thread_start");
    }
    let hang = seen.is(
        HangKind::Never,
        Some(HangCause::Apart),
        "the threads of one team wait at different barriers, and none of these can complete: \
         worker-1 waits at the barrier at a.c:5; worker-2 and worker-3 wait at the end of the \
         parallel region",
    );
    assert_eq!(hang.missing.len(), 0);
    // In LLVM's runtime the threads that have passed the end wait for the next region already.
    let mut seen = Seen::new();
    team(&mut seen, 3, &[1]);
    seen.worker(2, condvar(), "").worker(3, condvar(), "");
    seen.0.barriers[0].past_end = vec![id(2), id(3)];
    assert_eq!(seen.hang().because, Some(HangCause::Apart));
    seen.restless(&[3]);
    assert_ne!(seen.hang().because, Some(HangCause::Apart));
}

#[test]
fn sections_have_names_of_their_own() {
    let waits = |section, name: Option<&str>| {
        let doing = Doing::Waiting(WaitFor::Section {
            address: 0xa0,
            section,
            name: name.map(Into::into),
        });
        judge(&alone(doing).0).unwrap().text
    };
    let text = waits(Section::Critical, Some("log"));
    assert!(
        text.contains("waits for the critical section log"),
        "{text}"
    );
    let text = waits(Section::Ordered, None);
    assert!(text.contains("its turn in an ordered section"), "{text}");
}

#[test]
fn a_launcher_that_waits_for_a_signal_waits_for_its_child() {
    let mut seen = Seen(Scene {
        looks: 5,
        looked_ns: 200 * MS,
        ..Scene::default()
    });
    seen.thread(0, "timeout", call("rt_sigsuspend", ""), "main t.c:5");
    seen.thread(CHILD - PROCESS, "child", condvar(), "take a.c:12");
    seen.0.threads[1].id.process = CHILD;
    let of = |pid, parent| ProcessSeen {
        parent,
        has_timers: true,
        ..process(pid)
    };
    seen.0.processes = vec![of(PROCESS, None), of(CHILD, Some(PROCESS))];
    let told = report(&seen.0, PROCESS);
    assert_eq!(told.outcome, Some(LookOutcome::Unknown), "{}", told.text);
    assert!(
        told.text.contains("not known: child waits"),
        "{}",
        told.text
    );
    seen.0.processes[1].parent = None;
    let told = report(&seen.0, PROCESS);
    assert_eq!(told.outcome, Some(LookOutcome::Outside), "{}", told.text);
}

#[test]
fn a_handler_may_post_a_semaphore_and_write_into_a_pipe_of_its_own() {
    let semaphore = Doing::Waiting(WaitFor::Semaphore {
        address: 0x5000,
        shared: false,
    });
    for doing in [semaphore, reads(&[PROCESS])] {
        let mut seen = alone(doing);
        let hang = judge(&seen.0).expect("nobody is left");
        assert_eq!(hang.because, Some(HangCause::NobodyWakes));
        // Languages handle SIGINT for themselves.
        seen.0.processes[0].has_handlers = true;
        assert!(judge(&seen.0).is_some());
        seen.0.processes[0].may_be_told = true;
        assert_eq!(judge(&seen.0), None);
        let (kind, text) = asleep(&seen);
        assert_eq!(kind, HangKind::Unclear);
        let why = "a handler of a signal may wake it";
        assert!(text.ends_with(why), "{text}");
    }
    // Nobody may lock or signal in a handler (signal-safety(7)).
    let mut seen = alone(condvar());
    seen.0.processes[0].may_be_told = true;
    assert!(judge(&seen.0).is_some());
}
