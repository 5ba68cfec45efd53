//! Threads that spin while they wait, that lack a CPU, or that sleep and wake again and again.

use super::{memory::known, *};
use crate::{
    hang::{asleep_as, names::Names, report, scene::ProcessSeen},
    report::LookOutcome,
};

/// A program of these threads, the first of which is its main thread.
pub(super) fn of(threads: &[(Doing, &str)]) -> Seen {
    let mut seen = Seen(Scene {
        looks: 5,
        looked_ns: 200 * MS,
        ..Scene::default()
    });
    for (number, (doing, calls)) in (0..).zip(threads) {
        let name = if number == 0 { "main" } else { "worker" };
        seen.thread(number, &format!("{name}-{number}"), doing.clone(), calls);
    }
    seen
}

const CRITICAL: &str = "*sched_yield < *__kmpc_critical_with_hint < add a.c:9 < main a.c:20";

#[test]
fn threads_that_spin_at_locks_are_told_by_the_lock() {
    let lock = "*__kmp_wait_4 < *omp_set_lock < take a.c:5";
    let mut seen = of(&[
        (Doing::Running, CRITICAL),
        (Doing::Running, CRITICAL),
        (Doing::Running, lock),
    ]);
    assert_eq!(judge(&seen.0), None);
    let found = asleep_as(&seen.0, &Names::default()).expect("all spin");
    assert_eq!(found.kind, HangKind::Unclear);
    assert_eq!(
        found.text,
        "worker-2 waits for an OpenMP lock, in take() a.c:5; main-0 and worker-1 wait for a critical \
         section, in add() a.c:9: no thread that was looked at does anything else"
    );
    // A thread that is elsewhere may let them go on.
    seen.of(2).stack = stack("compute a.c:50");
    assert_eq!(asleep_as(&seen.0, &Names::default()), None);
    seen.of(2).stack = stack(lock);
    seen.moves(2, "compute a.c:50");
    assert_eq!(asleep_as(&seen.0, &Names::default()), None);
}

#[test]
fn who_sleeps_while_others_spin_at_a_lock_is_told() {
    let semaphore = Doing::Waiting(WaitFor::Semaphore {
        address: 0x5000,
        shared: false,
    });
    let seen = of(&[
        (semaphore, "*sem_wait < emit a.c:7 < main a.c:20"),
        (Doing::Running, CRITICAL),
    ]);
    let found = asleep_as(&seen.0, &Names::default()).expect("nobody works");
    assert_eq!(
        found.text,
        "worker-1 waits for a critical section, in add() a.c:9; main-0 waits for the semaphore 0x5000, \
         in emit() a.c:7"
    );
}

#[test]
fn who_sleeps_while_others_want_a_lock_comes_first() {
    let seen = of(&[
        (Doing::Running, CRITICAL),
        (call("clock_nanosleep", "9 s"), "keep a.c:6"),
        (joins(1), "wait a.c:7"),
    ]);
    assert_eq!(
        asleep_as(&seen.0, &Names::default()).unwrap().text,
        "worker-1 sleeps in clock_nanosleep() (9 s), in keep() a.c:6; main-0 waits for a critical section, \
         in add() a.c:9; worker-2 waits for the end of worker-1, in wait() a.c:7"
    );
}

#[test]
fn threads_that_get_a_lock_again_and_again_do_not_hang() {
    let mut seen = of(&[(Doing::Running, CRITICAL), (Doing::Running, CRITICAL)]);
    assert!(asleep_as(&seen.0, &Names::default()).is_some());
    seen.of(0).went_on = true;
    assert_eq!(asleep_as(&seen.0, &Names::default()), None);
    let found = report(&seen.0, 1);
    assert_eq!(found.outcome, Some(LookOutcome::Moves));
    assert_eq!(
        found.text,
        "no hang was found: main-0 waits for a critical section, in add() a.c:9 (at each of 5 looks, \
         but it had gone on between them, 99 % of a CPU in 200 ms)"
    );
    // For code of the program's own, only the places tell whether a thread goes on.
    let mut seen = of(&[(Doing::Running, "spin a.c:9 < main a.c:20")]);
    seen.of(0).went_on = true;
    let text = report(&seen.0, 1).text;
    assert!(text.ends_with("a look cannot tell which"), "{text}");
}

#[test]
fn a_thread_that_spins_at_a_lock_is_not_said_to_run() {
    let mut seen = Seen::new();
    seen.barrier(2, 40, &[1]);
    seen.worker(2, Doing::Running, "*pthread_spin_lock < take hangs.c:9");
    let text = seen.hang().text;
    assert!(
        text.contains("it waits for a spin lock, in take() hangs.c:9 (at each of 5 looks"),
        "{text}"
    );
    assert!(
        text.ends_with("whether worker-2 comes is not known"),
        "{text}"
    );
}

#[test]
fn who_has_no_cpu_is_told_so() {
    let mut seen = Seen::new();
    seen.barrier(2, 40, &[1]);
    seen.worker(2, Doing::Running, "compute hangs.c:9");
    let text = seen.hang().text;
    assert!(text.contains("it runs in compute()"), "{text}");
    seen.of(2).ran_ns = Some(2 * MS);
    seen.of(2).ready_ns = Some(198 * MS);
    let text = seen.hang().text;
    assert!(
        text.ends_with(
            "it is ready to run in compute() hangs.c:9 (at each of 5 looks, only 1 % of a CPU in \
             200 ms): it gets hardly any CPU time"
        ),
        "{text}"
    );
    seen.0.throttled = true;
    let text = seen.hang().text;
    assert!(
        text.ends_with(": the CPU quota of its control group is used up most of the time"),
        "{text}"
    );
}

#[test]
fn the_main_thread_is_told_where_nothing_is_found() {
    let seen = of(&[(joins(1), "main a.c:30"), (Doing::Running, "spin a.c:7")]);
    let text = report(&seen.0, PROCESS).text;
    assert!(
        text.starts_with("main-0 waits for the end of worker-1, which runs in spin() a.c:7"),
        "{text}"
    );
    assert!(text.ends_with("a look cannot tell which"), "{text}");
    let mut seen = of(&[(Doing::Running, "spin a.c:7")]);
    seen.moves(0, "solve a.c:90");
    let text = report(&seen.0, PROCESS).text;
    assert!(text.starts_with("no hang was found: main-0 runs"), "{text}");
}

#[test]
fn a_loop_of_short_sleeps_waits_for_nothing_that_is_known() {
    let mut seen = of(&[(call("clock_nanosleep", "1 ms"), "poll a.c:7")]);
    let text = |seen: &Seen| {
        let found = asleep_as(&seen.0, &Names::default());
        found.expect("it sleeps").text
    };
    assert!(text(&seen).starts_with("the program waits for something outside"));
    seen.restless(&[0]);
    assert_eq!(
        text(&seen),
        "the program sleeps and wakes again and again: main-0 sleeps in clock_nanosleep() (1 ms), in \
         poll() a.c:7; what it looks for in between is not known"
    );
}

#[test]
fn a_frozen_program_waits_for_the_outside() {
    let mut seen = Seen::new();
    seen.barrier(2, 40, &[1]);
    seen.worker(2, Doing::Frozen, "compute hangs.c:9");
    let hang = seen.hang();
    assert_eq!(hang.kind, HangKind::Outside);
    assert!(
        hang.text
            .contains("worker-2 is missing at the barrier at hangs.c:40 (1 of 2 is there): it is frozen by its control group"),
        "{}",
        hang.text
    );
}

#[test]
fn a_thread_that_needs_the_lock_of_a_sleeper_is_told() {
    let seen = of(&[
        (joins(1), "main a.c:30"),
        (condvar(), "take a.c:12"),
        (mutex(0xa0, 1), "put a.c:20"),
    ]);
    let text = seen.hang().text;
    assert_eq!(
        text,
        "worker-1 waits for the condition variable 0x5000, in take() a.c:12, and no thread of the \
         process is left that could wake it; worker-2 waits for the mutex 0xa0 that worker-1 holds, in \
         put() a.c:20"
    );
}

#[test]
fn the_memory_of_a_team_tells_who_is_at_its_end() {
    // The barrier inside of the region is called by a jump: no call of the region is left.
    let mut seen = of(&[]);
    seen.barrier(4, 40, &[1, 2, 3, 4]);
    let barrier = &mut seen.0.barriers[0];
    barrier.kind = Kind::Gomp;
    barrier.arrived = None;
    barrier.at_end = Some(2);
    seen.of(1).stack = stack("*futex_wait < *gomp_team_end < *GOMP_parallel < main a.c:6");
    for (number, offset) in [(2, 0x100), (3, 0x110), (4, 0x100)] {
        seen.of(number).stack = stack("*gomp_thread_start");
        seen.of(number).stack[0].offset = offset;
    }
    let hang = seen.hang();
    assert_eq!(hang.because, Some(HangCause::Apart));
    assert!(
        hang.text.ends_with(
            "worker-2 and worker-4 wait at a barrier inside of the parallel region; worker-1 and \
             worker-3 wait at the end of the parallel region that begins at a.c:6"
        ),
        "{}",
        hang.text
    );
    // The first thread has called that barrier by a jump, too: then the other two are at the end.
    let end = seen.of(1).stack.clone();
    seen.of(1).stack = stack("*futex_wait < *GOMP_parallel < main a.c:6");
    let text = seen.hang().text;
    assert!(
        text.ends_with(
            "worker-1 and worker-3 wait at a barrier inside of the parallel region; worker-2 and \
             worker-4 wait at the end of the parallel region"
        ),
        "{text}"
    );
    seen.of(1).stack = end;
    // Two at each place: which are where is not known.
    seen.of(4).stack[0].offset = 0x120;
    let text = seen.hang().text;
    assert!(
        text.ends_with("2 at a barrier inside of the parallel region, 2 at its end"),
        "{text}"
    );
}

#[test]
fn only_who_began_a_region_waits_for_its_end_at_a_line() {
    let mut seen = of(&[(Doing::Waiting(WaitFor::Barrier(0)), "")]);
    seen.barrier(3, 40, &[1, 2]).watched(9, &[0, 1, 2]);
    let barrier = &mut seen.0.barriers[0];
    barrier.kind = Kind::Gomp;
    barrier.arrived = None;
    barrier.at_end = Some(2);
    barrier.waiting.push(id(0));
    let members = &mut barrier.past.as_mut().unwrap().members;
    let sites = ["main a.c:6", "meet a.c:3", "libgomp.so.1.0.0+0x1e2f0"];
    for (member, site) in members.iter_mut().zip(sites) {
        member.site = Some(site.into());
    }
    for number in 0..3 {
        // Probes hide the callers.
        seen.of(number).stack = stack("*gomp_team_barrier_wait");
        seen.of(number).is_whole = false;
    }
    let text = seen.hang().text;
    assert!(
        text.ends_with(
            "worker-1 waits at the barrier at meet a.c:3; main-0 and worker-2 wait at the end of the \
             parallel region"
        ),
        "{text}"
    );
    // Of a team that another thread has begun, that is not known.
    seen.0.barriers[0].participants = Some(2);
    seen.0.barriers[0].at_end = Some(1);
    seen.0.barriers[0].waiting.pop();
    seen.of(0).doing = joins(1);
    let text = seen.hang().text;
    assert!(
        text.ends_with("1 at a barrier inside of the parallel region, 1 at its end"),
        "{text}"
    );
}

#[test]
fn a_main_thread_that_waits_for_its_child_comes_afterwards() {
    let mut seen = of(&[]);
    let waits = Doing::Waiting(WaitFor::Child {
        process: Some(PROCESS + 50),
    });
    seen.thread(0, "main", waits, "main hangs.c:90");
    seen.barrier(2, 40, &[1]);
    seen.thread(50, "child", Doing::Running, "compute hangs.c:9");
    seen.of(50).id.process = PROCESS + 50;
    let hang = seen.hang();
    assert_eq!(hang.kind, HangKind::Unclear);
    assert!(
        hang.text.contains(
            "probably main is missing at the barrier at hangs.c:40 (1 of 2 is there): it waits for the \
             end of its child process 150, which runs in compute()"
        ),
        "{}",
        hang.text
    );
}

#[test]
fn locks_of_files_lead_to_who_has_them() {
    let locks = |process: u32| {
        Doing::Waiting(WaitFor::Data {
            call: "flock".into(),
            what: format!("/tmp/{process}"),
            processes: vec![process],
        })
    };
    let mut seen = of(&[
        (locks(PROCESS + 1), "main a.c:9"),
        (locks(PROCESS), "other a.c:20"),
    ]);
    seen.of(1).id.process = PROCESS + 1;
    let hang = seen.hang();
    assert_eq!(
        hang.text,
        "main-0 waits in flock(), in main() a.c:9, for /tmp/101 that worker-1 has locked, which waits \
         in flock() for /tmp/100 that main-0 has locked: they wait for each other for ever"
    );
    assert_eq!(
        hang.chain[0],
        "main-0 → /tmp/101 locked by worker-1 → /tmp/100 locked by main-0"
    );
}

#[test]
fn ranks_that_have_ended_are_told() {
    let barrier = "*poll < *PMPI_Barrier < main a.c:9";
    let mut seen = of(&[(Doing::Running, barrier), (Doing::Running, barrier)]);
    seen.of(1).id.process = PROCESS + 1;
    for (number, process) in [(0, PROCESS), (2, PROCESS + 1)] {
        seen.0.processes.push(ProcessSeen {
            process,
            rank: Some(number),
            ranks: Some((3, true)),
            ..known(&[]).0.processes[0]
        });
    }
    let text = |seen: &Seen| report(&seen.0, PROCESS).text;
    assert_eq!(
        text(&seen),
        "rank 1 has ended; rank 0 and rank 2 wait in MPI_Barrier(), called in main() a.c:9: no rank \
         that was looked at computes"
    );
    // The third rank may run on another machine.
    for process in &mut seen.0.processes {
        process.ranks = Some((3, false));
    }
    assert!(text(&seen).starts_with("rank 0 and rank 2 wait"));
}

#[test]
fn sections_of_clang_are_told_by_their_names() {
    let mut seen = of(&[(Doing::Running, CRITICAL)]);
    seen.of(0).stack[2].enters = Some("totals".into());
    let text = report(&seen.0, PROCESS).text;
    assert!(
        text.starts_with("main-0 waits for the critical section totals, in add() a.c:9"),
        "{text}"
    );
}
