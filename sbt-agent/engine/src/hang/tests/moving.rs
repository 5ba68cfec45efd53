//! What takes long, and what cannot be distinguished from it.

use super::*;

fn late(doing: Doing) -> Seen {
    let mut seen = Seen::new();
    seen.barrier(4, 40, &[1, 2, 4])
        .worker(3, doing, "solve hangs.c:77");
    seen
}

#[test]
fn who_moves_is_slow() {
    let mut seen = late(Doing::Running);
    seen.moves(3, "pivot hangs.c:20 < solve hangs.c:80");
    let hang = seen.hang();
    assert_eq!(hang.kind, HangKind::Slow);
    assert!(
        hang.text
            .starts_with("slow, not stuck: worker-3 is missing"),
        "{}",
        hang.text
    );
    assert_eq!(
        hang.missing[0].also_at,
        ["pivot hangs.c:20", "solve hangs.c:80"]
    );
}

#[test]
fn who_runs_at_one_place_may_be_either() {
    let mut seen = late(Doing::Running);
    seen.is(
        HangKind::Unclear,
        None,
        "worker-3 is missing at the barrier at hangs.c:40 (3 of 4 are there): it runs in solve() \
         hangs.c:77 (at each of 5 looks, 99 % of a CPU in 200 ms): slow, or a loop without end; a \
         look cannot tell which",
    );
    // Moving between two lines of one small loop is no progress.
    seen.moves(3, "solve hangs.c:78");
    assert_eq!(seen.hang().kind, HangKind::Unclear);
    // Where the thread is may be unknown.
    seen.0.looks = 0;
    seen.of(3).stack.clear();
    seen.of(3).also_at.clear();
    seen.of(3).ran_ns = None;
    assert!(
        seen.hang().text.contains("there): it runs"),
        "{}",
        seen.hang().text
    );
}

#[test]
fn input_that_does_not_come() {
    let mut seen = late(call("read", "pipe:[4242]"));
    let hang = seen.is(
        HangKind::Outside,
        None,
        "worker-3 is missing at the barrier at hangs.c:40 (3 of 4 are there): it waits in read() \
         for pipe:[4242], in solve() hangs.c:77",
    );
    let on = hang.missing[0].blocked_on.as_ref().unwrap();
    assert_eq!(
        (on.kind, on.call.as_deref()),
        (BlockedOnKind::Call, Some("read pipe:[4242]"))
    );
    // A thread that uses some CPU time moves.
    seen.of(3).ran_ns = Some(20 * MS);
    assert_eq!(seen.hang().kind, HangKind::Slow);
}

#[test]
fn who_was_stopped() {
    late(Doing::Stopped).is(
        HangKind::Outside,
        None,
        "worker-3 is missing at the barrier at hangs.c:40 (3 of 4 are there): it was stopped by a \
         signal, in solve() hangs.c:77",
    );
    let hang = late(Doing::Traced { by: 4711 }).hang();
    assert!(
        hang.text.contains("it is held by process 4711"),
        "{}",
        hang.text
    );
}

#[test]
fn who_sleeps_for_some_time_comes_then() {
    let hang = late(call("clock_nanosleep", "5 s")).hang();
    assert_eq!(hang.kind, HangKind::Slow);
    assert!(
        hang.text.contains("it sleeps in clock_nanosleep() (5 s)"),
        "{}",
        hang.text
    );
}

#[test]
fn a_barrier_that_lets_go_is_none() {
    let mut seen = Seen::new();
    seen.barrier(3, 40, &[1, 2, 3]);
    seen.of(2).doing = Doing::Running;
    assert_eq!(judge(&seen.restless(&[2]).0), None);
}

#[test]
fn who_leaves_the_round_before_is_not_there() {
    let mut seen = Seen::new();
    seen.barrier(3, 40, &[1, 2, 3]);
    seen.0.barriers[0].arrived = Some(1);
    seen.of(2).doing = Doing::Running;
    seen.of(3).doing = Doing::Running;
    let hang = seen.hang();
    assert_eq!(names(&hang.arrived), ["worker-1"]);
    assert_eq!(hang.kind, HangKind::Unclear);
    assert!(!hang.text.contains("never"));
}

#[test]
fn nothing_is_said_of_programs_that_do_their_work() {
    let mut seen = Seen::new();
    seen.of(0).doing = call("epoll_wait", "");
    seen.worker(1, Doing::Running, "solve hangs.c:60")
        .worker(2, mutex(0xa0, 1), "solve hangs.c:61")
        .worker(3, condvar(), "next hangs.c:62");
    assert_eq!(judge(&seen.0), None);
    let report = report(&seen.0, PROCESS);
    assert_eq!(
        report.text,
        "no thread waits at a barrier that is known here, and no circle of waits was found (threads: \
         1 running, 3 asleep or stopped); whether those asleep will be woken is not known"
    );
    assert_eq!(report.threads.len(), 4);
    assert_eq!(judge(&Scene::default()), None);
}

#[test]
fn a_team_that_waits_for_a_part_that_one_thread_works_alone() {
    let mut seen = Seen::new();
    seen.of(0).doing = Doing::Running;
    seen.of(0).ran_ns = Some(190 * MS);
    seen.barrier(4, 40, &[1, 2, 3]).moves(0, "input hangs.c:10");
    assert_eq!(seen.hang().kind, HangKind::Slow);
}
