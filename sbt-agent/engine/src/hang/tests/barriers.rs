//! Barriers that cannot complete.

use super::*;

#[test]
fn a_lock_held_across_the_barrier() {
    let mut seen = Seen::new();
    seen.barrier(4, 40, &[1, 3, 4])
        .worker(2, mutex(0x5581, 1), "update hangs.c:52");
    let hang = seen.is(
        HangKind::Never,
        Some(HangCause::Cycle),
        "worker-2 is missing at the barrier at hangs.c:40 (3 of 4 are there): it waits for the \
         mutex 0x5581 that worker-1 holds, which waits at this barrier: they wait for each other \
         for ever",
    );
    assert!(hang.certain);
    assert_eq!(names(&hang.arrived), ["worker-1", "worker-3", "worker-4"]);
    assert_eq!(names(&hang.missing), ["worker-2"]);
    assert_eq!(names(&hang.others), ["main"]);
    assert_eq!(
        hang.chain,
        ["worker-2 → mutex 0x5581 held by worker-1 → barrier at hangs.c:40 → worker-2"]
    );
    let cycle = hang.cycle.unwrap();
    let kinds: Vec<_> = cycle
        .iter()
        .map(|link| (link.who.tid, link.blocked_on.kind))
        .collect();
    assert_eq!(
        kinds,
        [(102, BlockedOnKind::Mutex), (101, BlockedOnKind::Barrier)]
    );
    let on = hang.missing[0].blocked_on.as_ref().unwrap();
    assert_eq!(on.address.as_deref(), Some("0x5581"));
    assert_eq!(on.holder.as_ref().unwrap().tid, 101);
    assert_eq!(hang.missing[0].at.as_deref(), Some("update hangs.c:52"));
}

#[test]
fn a_lock_whose_holder_works_is_no_deadlock() {
    let mut seen = Seen::new();
    seen.barrier(4, 40, &[3, 4])
        .worker(2, mutex(0x5581, 1), "update hangs.c:52")
        .worker(1, Doing::Running, "solve hangs.c:60")
        .moves(1, "solve hangs.c:75");
    let hang = seen.is(
        HangKind::Slow,
        None,
        "slow, not stuck: worker-1 is missing at the barrier at hangs.c:40 (2 of 4 are there): it \
         runs in solve() hangs.c:60, before in solve() hangs.c:75 (99 % of a CPU in 200 ms); \
         worker-2 is missing too",
    );
    assert_eq!(hang.cycle, None);
    assert_eq!(
        hang.chain,
        [
            "worker-2 → mutex 0x5581 held by worker-1, which runs in solve() hangs.c:60, before in \
             solve() hangs.c:75 (99 % of a CPU in 200 ms)"
        ]
    );
}

#[test]
fn a_thread_that_left_before_anybody_watched() {
    let mut seen = Seen::new();
    seen.barrier(4, 40, &[1, 2, 4]);
    let hang = seen.is(
        HangKind::Never,
        Some(HangCause::FewerAlive),
        "the barrier at hangs.c:40 can never complete: it waits for 4 threads, 3 are there, and no \
         other can come (main waits for the end of worker-1, which waits at this barrier): a \
         thread has ended without coming, or the count is too large",
    );
    assert_eq!(hang.missing, []);
    assert_eq!(hang.missing_count, Some(1));
    assert_eq!(
        hang.chain,
        ["main → end of worker-1 → barrier at hangs.c:40 → nobody is left"]
    );
}

/// In a region of OpenMP, threads that have worked wait in the runtime, and the thread that began
/// the region waits at its line.
#[test]
fn who_is_in_the_code_of_a_region_is_missing_at_its_end() {
    for region in ["phase._omp_fn.0", ".omp_outlined.", "phase.omp_outlined"] {
        let mut seen = Seen::new();
        seen.barrier(4, 8, &[1, 2, 3]);
        let barrier = seen.0.barriers.last_mut().unwrap();
        barrier.kind = Kind::Gomp;
        for number in [2, 3] {
            seen.of(number).stack = stack("*gomp_team_barrier_wait < *gomp_thread_start");
        }
        seen.thread(
            4,
            "worker-4",
            call("pause", ""),
            &format!("{region} hangs.c:9"),
        );
        let hang = seen.hang();
        assert_eq!(names(&hang.missing), ["worker-4"], "{region}: {hang:?}");
        assert!(
            hang.text.contains("at the barrier at hangs.c:8 ("),
            "{}",
            hang.text
        );
        assert!(
            !hang.notes.iter().any(|note| note.contains("different")),
            "{hang:?}"
        );
    }
}

#[test]
fn a_helper_that_could_come_takes_the_certainty_away() {
    let mut seen = Seen::new();
    seen.barrier(4, 40, &[1, 2, 4]).thread(
        9,
        "watchdog",
        call("clock_nanosleep", "1 s"),
        "watch hangs.c:12",
    );
    let hang = seen.is(
        HangKind::Unclear,
        None,
        "1 of 4 threads is missing at the barrier at hangs.c:40: either watchdog, which sleeps in \
         clock_nanosleep() (1 s), is to come, or a thread has ended without coming, or the count \
         is too large",
    );
    assert!(!hang.certain);
    // A signal may tell it to come.
    seen.of(9).doing = call("pause", "");
    let hang = seen.hang();
    assert_eq!((hang.kind, hang.because), (HangKind::Unclear, None));
    assert!(
        hang.text
            .contains("either watchdog, which waits in pause(), is to come"),
        "{}",
        hang.text
    );
}

#[test]
fn without_a_handler_nobody_comes_out_of_a_wait_for_signals() {
    let mut seen = Seen::new();
    seen.barrier(4, 40, &[1, 2, 4])
        .worker(3, call("pause", ""), "idle hangs.c:50");
    seen.0.processes.push(process(PROCESS));
    assert_eq!(seen.hang().kind, HangKind::Unclear);
    seen.0.processes[0].handles_none = true;
    seen.is(
        HangKind::Never,
        Some(HangCause::NobodyWakes),
        "worker-3 is missing at the barrier at hangs.c:40 (3 of 4 are there): it waits in pause(), in \
         idle() hangs.c:50, and the process handles no signal",
    );
    // The first thread may have other things to do than to come.
    seen.0.threads.pop();
    seen.of(0).doing = call("pause", "");
    seen.is(
        HangKind::Never,
        Some(HangCause::FewerAlive),
        "the barrier at hangs.c:40 can never complete: it waits for 4 threads, 3 are there, and no other \
         can come (main waits in pause(), in main() hangs.c:90, and the process handles no signal): main \
         is to come, or a thread has ended without coming, or the count is too large",
    );
}

#[test]
fn a_team_of_openmp_has_as_many_threads_as_its_runtime_says() {
    for kind in [Kind::Gomp, Kind::Kmp] {
        let mut seen = Seen::new();
        seen.barrier(4, 40, &[1, 2, 4]);
        let mut lives = process(PROCESS);
        lives.has_lost_threads = Some(false);
        for is_known in [false, true] {
            seen.0.barriers[0].kind = kind;
            let ended = if is_known {
                seen.0.processes.push(lives);
                "which thread of the team is missing is not known"
            } else {
                "a thread has ended without coming"
            };
            let text = format!(
                "the barrier at hangs.c:40 can never complete: it waits for 4 threads, 3 are there, and \
                 no other can come (main waits for the end of worker-1, which waits at this barrier): \
                 {ended}"
            );
            seen.is(HangKind::Never, Some(HangCause::FewerAlive), &text);
            let sleep = call("clock_nanosleep", "1 s");
            seen.thread(9, "watchdog", sleep, "watch hangs.c:12");
            let text = seen.hang().text;
            let or = if is_known {
                "another thread of the team is"
            } else {
                ended
            };
            assert!(text.ends_with(&format!("is to come, or {or}")), "{text}");
            seen.0.threads.pop();
        }
        // Threads that never came while sbt watched do not make the count too large.
        seen.watched(9, &[1, 2, 4]);
        let text = seen.hang().text;
        assert!(!text.contains("count"), "{text}");
    }
}

#[test]
fn who_waits_for_the_end_of_one_that_waits_for_it() {
    let mut seen = Seen::new();
    seen.of(0).doing = call("pause", "");
    seen.barrier(2, 40, &[1])
        .thread(2, "joiner", joins(1), "finish hangs.c:66");
    seen.is(
        HangKind::Stuck,
        Some(HangCause::Cycle),
        "probably joiner is missing at the barrier at hangs.c:40 (1 of 2 is there): it waits for \
         the end of worker-1, which waits at this barrier: they wait for each other",
    );
}

#[test]
fn barriers_of_one_place_are_told_apart() {
    let mut seen = Seen::new();
    seen.barrier(2, 40, &[1]).barrier(2, 40, &[2]);
    let hang = seen.is(
        HangKind::Never,
        Some(HangCause::Cycle),
        "worker-2 is missing at the barrier 0x7000 at hangs.c:40 (1 of 2 is there): it waits at the \
         barrier 0x7100 at hangs.c:40 (1 of 2 is there), where worker-1 is missing, which waits at \
         this barrier: they wait for each other for ever",
    );
    assert_eq!(
        hang.also[0].text,
        "the barrier 0x7100 at hangs.c:40 (1 of 2 is there) is part of the same circle"
    );
}

#[test]
fn a_main_thread_that_still_starts_threads_may_start_the_missing_ones() {
    let mut seen = Seen::new();
    seen.of(0).doing = Doing::Running;
    seen.of(0).ran_ns = Some(190 * MS);
    seen.moves(0, "prepare hangs.c:20").barrier(4, 40, &[1, 2]);
    seen.is(
        HangKind::Slow,
        None,
        "slow, not stuck: probably main is missing at the barrier at hangs.c:40 (2 of 4 are \
         there): it runs in main() hangs.c:90, before in prepare() hangs.c:20 (95 % of a CPU in \
         200 ms); 1 more has not begun or has ended",
    );
}

#[test]
fn who_used_to_come_and_has_ended() {
    let mut seen = Seen::new();
    seen.barrier(4, 40, &[1, 2, 4]).watched(17, &[1, 2, 3, 4]);
    let hang = seen.is(
        HangKind::Never,
        Some(HangCause::MemberGone),
        "worker-3 is missing at the barrier at meet hangs.c:40 (3 of 4 are there, for 12.0 s now): \
         it has ended, after it came here from meet hangs.c:40 before, so the barrier can never complete",
    );
    assert!(hang.certain);
    assert_eq!(hang.still_ns, Some(12_000 * MS));
    assert_eq!(names(&hang.missing), ["worker-3"]);
    assert_eq!(hang.missing[0].state, HangThreadState::Ended);
    // The thread that has been there longest comes first.
    assert_eq!(names(&hang.arrived), ["worker-4", "worker-2", "worker-1"]);
}

#[test]
fn functions_without_a_name_of_their_own_are_not_the_same_everywhere() {
    let sleeps = call("clock_nanosleep", "1 s");
    let because = |begins: &str| {
        let mut seen = Seen::new();
        seen.barrier(4, 40, &[1, 2, 4]).watched(17, &[1, 2, 3, 4]);
        for number in [1, 2, 4] {
            let calls = "meet a.rs:40 < {closure#0} a.rs:20 < begin a.rs:9";
            seen.of(number).stack = stack(calls);
        }
        let calls = format!("watch a.rs:12 < {begins}");
        seen.thread(9, "watchdog", sleeps.clone(), &calls);
        seen.hang().because
    };
    assert_eq!(because("{closure#0} a.rs:56"), Some(HangCause::MemberGone));
    assert_eq!(because("begin b.rs:9"), Some(HangCause::MemberGone));
    // This thread may have taken the place of the one that has gone.
    assert_ne!(because("begin a.rs:9"), Some(HangCause::MemberGone));
}

#[test]
fn who_comes_once_too_often() {
    let mut seen = Seen::new();
    seen.barrier(4, 40, &[1]).watched(17, &[1, 2, 3, 4]);
    let hang = seen.hang();
    assert_eq!(
        (hang.kind, hang.because),
        (HangKind::Never, Some(HangCause::MemberGone))
    );
    assert!(
        hang.text.contains(
            "they have ended, after they came here before; or worker-1 came once too often"
        ),
        "{}",
        hang.text
    );
}

#[test]
fn threads_of_earlier_phases_that_have_ended_are_not_missing() {
    let mut seen = Seen::new();
    seen.barrier(4, 40, &[11, 12, 13])
        .worker(14, call("read", "pipe:[7]"), "load hangs.c:70")
        .watched(17, &[1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 13]);
    let hang = seen.hang();
    assert_eq!(names(&hang.missing), ["worker-14"]);
    assert_eq!(hang.kind, HangKind::Outside);
}

#[test]
fn a_count_that_never_was_reached() {
    let mut seen = Seen::new();
    seen.barrier(5, 40, &[1, 2, 3, 4]).watched(0, &[1, 2, 3, 4]);
    seen.is(
        HangKind::Never,
        Some(HangCause::CountTooLarge),
        "the barrier at meet hangs.c:40 can never complete: it waits for 5 threads, 4 are there, \
         for 12.0 s now, and no other can come (main waits for the end of worker-1, which waits at \
         this barrier): no more than 4 have ever come there: the count is too large, or a thread \
         ended before it came",
    );
}

#[test]
fn if_no_thread_has_ended_the_count_is_too_large() {
    let mut seen = Seen::new();
    seen.barrier(4, 40, &[1, 2, 4]);
    seen.0.processes.push(process(PROCESS));
    let text = |seen: &Seen| seen.hang().text;
    assert!(
        text(&seen).contains(": a thread has ended"),
        "it is not known"
    );
    seen.0.processes[0].has_lost_threads = Some(true);
    assert!(text(&seen).contains(": a thread has ended"), "one has");
    seen.0.processes[0].has_lost_threads = Some(false);
    seen.is(
        HangKind::Never,
        Some(HangCause::FewerAlive),
        "the barrier at hangs.c:40 can never complete: it waits for 4 threads, 3 are there, and no \
         other can come (main waits for the end of worker-1, which waits at this barrier): the count \
         is too large: no thread of the process has ended",
    );
    seen.watched(0, &[1, 2, 4]);
    let past = text(&seen);
    assert!(
        past.ends_with(
            "no more than 3 have ever come there, and no thread of the process has ended: the count is \
             too large"
        ),
        "{past}"
    );
    seen.thread(9, "watchdog", call("clock_nanosleep", "1 s"), "watch a.c:7");
    let text = text(&seen);
    assert!(
        text.ends_with("(1 s), is to come, or the count is too large"),
        "{text}"
    );
    // The first thread of a process may end before the others.
    seen.of(0).doing = Doing::Ended;
    let text = seen.hang().text;
    assert!(text.contains("or a thread has ended"), "{text}");
}

#[test]
fn a_thread_in_the_function_from_which_others_came_is_to_come() {
    let mut seen = Seen::new();
    seen.barrier(3, 40, &[1, 2]).watched(0, &[1, 2]);
    seen.worker(
        3,
        call("clock_nanosleep", "9 s"),
        "*sleep < meet hangs.c:38",
    );
    // The stacks of the others are hidden, and events tell from where they came.
    for number in [1, 2] {
        seen.of(number).stack = stack("*syscall");
        seen.of(number).is_whole = false;
    }
    seen.is(
        HangKind::Slow,
        None,
        "slow, not stuck: worker-3 is missing at the barrier at meet hangs.c:40 (2 of 3 are there, for \
         12.0 s now): it sleeps in clock_nanosleep() (9 s), in meet() hangs.c:38",
    );
    seen.of(3).stack = stack("*sleep < watch hangs.c:9");
    let text = seen.hang().text;
    assert!(text.contains("either worker-3"), "{text}");
}

#[test]
fn two_barriers_in_opposite_order() {
    let mut seen = Seen::new();
    seen.barrier(2, 40, &[1]).barrier(2, 60, &[2]);
    let hang = seen.is(
        HangKind::Never,
        Some(HangCause::Cycle),
        "worker-2 is missing at the barrier at hangs.c:40 (1 of 2 is there): it waits at the \
         barrier at hangs.c:60 (1 of 2 is there), where worker-1 is missing, which waits at this \
         barrier: they wait for each other for ever",
    );
    assert_eq!(
        hang.chain,
        ["worker-2 → barrier at hangs.c:60 → worker-1 → barrier at hangs.c:40 → worker-2"]
    );
    assert_eq!(hang.also.len(), 1);
    assert_eq!(hang.also[0].site.as_deref(), Some("hangs.c:60"));
}

#[test]
fn the_cause_is_at_another_barrier() {
    let mut seen = Seen::new();
    seen.worker(4, call("read", "standard input"), "load hangs.c:70")
        .barrier(3, 40, &[1, 2])
        .barrier(2, 60, &[3])
        .watched(9, &[3, 4]);
    seen.0.barriers.swap(0, 1);
    for (number, at) in [(1, 1), (2, 1), (3, 0)] {
        seen.of(number).doing = Doing::Waiting(WaitFor::Barrier(at));
    }
    seen.watched(9, &[1, 2, 3]);
    let hang = seen.hang();
    assert_eq!(names(&hang.arrived), ["worker-3"]);
    assert!(
        hang.text.starts_with("worker-4 is missing"),
        "{}",
        hang.text
    );
    let also = &hang.also[0];
    assert_eq!(also.waiting, 2);
    assert!(also.text.starts_with("worker-3 is missing"), "{also:?}");
    assert!(also.text.contains("where worker-4 is missing"), "{also:?}");
}

#[test]
fn a_child_that_was_killed() {
    let shared = |workers: &[u32]| {
        let mut seen = Seen(Scene::default());
        seen.0.barriers.push(BarrierSeen {
            process: 200,
            address: 0x7000,
            kind: Kind::Pthread,
            participants: Some(3),
            arrived: Some(2),
            waiting: Vec::new(),
            past_end: Vec::new(),
            at_end: None,
            shared: true,
            past: None,
        });
        seen.thread(
            0,
            "hangs",
            Doing::Waiting(WaitFor::Child { process: None }),
            "main hangs.c:99",
        );
        for process in workers {
            let this = ThreadId {
                process: *process,
                thread: *process,
            };
            seen.thread(
                1,
                "hangs",
                Doing::Waiting(WaitFor::Barrier(0)),
                "child hangs.c:40 < main hangs.c:95",
            );
            seen.0.threads.last_mut().unwrap().id = this;
            seen.0.barriers[0].waiting.push(this);
        }
        seen
    };
    let mut seen = shared(&[200, 201]);
    let hang = seen.hang();
    assert_eq!(hang.because, Some(HangCause::FewerAlive));
    assert!(
        hang.text.contains("a process has ended without coming"),
        "{}",
        hang.text
    );
    // The parent may start another process.
    assert_eq!(hang.kind, HangKind::Stuck);
    let gone = ThreadId {
        process: 202,
        thread: 202,
    };
    let members = [200, 201, 202].map(|process| Member {
        id: ThreadId {
            process,
            thread: process,
        },
        name: "hangs".into(),
        arrived_ns_ago: (process != gone.process).then_some(5_000 * MS),
        site: None,
        ended: process == gone.process,
    });
    seen.0.barriers[0].past = Some(Past {
        episodes: 3,
        members: members.into(),
        still_ns: 5_000 * MS,
        unsure: false,
    });
    seen.is(
        HangKind::Never,
        Some(HangCause::MemberGone),
        "hangs 202 is missing at the barrier at hangs.c:40 (2 of 3 are there, for 5.00 s now): it \
         has ended with its process 202, so the barrier can never complete",
    );
}

#[test]
fn one_thread_waits_twice() {
    let mut seen = Seen::new();
    seen.barrier(2, 40, &[1]);
    seen.of(1).stack = stack("handler hangs.c:15 < !*pthread_barrier_wait < worker hangs.c:40");
    seen.is(
        HangKind::Never,
        Some(HangCause::WaitsTwice),
        "worker-1 waits twice at the barrier at hangs.c:15 (1 of 2 is there), once within a signal \
         handler or the like: it cannot come for another thread",
    );
}

#[test]
fn more_threads_than_it_waits_for() {
    let mut seen = Seen::new();
    seen.barrier(2, 40, &[1, 2, 3]);
    let hang = seen.hang();
    assert_eq!(
        (hang.kind, hang.because),
        (HangKind::Stuck, Some(HangCause::TooMany))
    );
    assert!(
        hang.text
            .starts_with("3 threads wait at the barrier at hangs.c:40, which waits for 2")
    );
}

#[test]
fn several_that_are_missing_are_counted() {
    let mut seen = Seen::new();
    seen.barrier(6, 40, &[1])
        .worker(2, call("read", "pipe:[7]"), "load hangs.c:70");
    for number in 3..=6 {
        seen.worker(number, mutex(0x5581, 2), "update hangs.c:52");
    }
    let hang = seen.is(
        HangKind::Outside,
        None,
        "worker-2 is missing at the barrier at hangs.c:40 (1 of 6 is there): it waits in read() \
         for pipe:[7], in load() hangs.c:70; worker-3, worker-4 and 2 more are missing too",
    );
    assert_eq!(hang.chain.len(), 1, "{:?}", hang.chain);
}

#[test]
fn of_several_that_may_be_missing_none_is_accused() {
    let mut seen = Seen::new();
    seen.barrier(3, 40, &[1, 2])
        .worker(3, call("read", "pipe:[7]"), "load hangs.c:70")
        .worker(4, call("read", "pipe:[8]"), "load hangs.c:70");
    let hang = seen.hang();
    assert!(
        hang.text
            .starts_with("1 of worker-3 and worker-4 is missing at"),
        "{}",
        hang.text
    );
    assert!(!hang.certain);
    // A thread of another kind is a guess.
    let mut seen = Seen::new();
    seen.barrier(3, 40, &[1, 2])
        .thread(9, "loader", call("read", "pipe:[7]"), "load hangs.c:70");
    let hang = seen.hang();
    assert!(
        hang.text.starts_with("probably loader is missing"),
        "{}",
        hang.text
    );
}
