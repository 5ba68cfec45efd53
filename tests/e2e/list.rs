//! `sbt list PROG`, `sbt list PID`: what could be watched.

use std::{
    fs,
    process::{Command, Stdio},
};

use crate::{
    harness::{Finished, LIMIT, eventually, run, sbt_with},
    programs::{Build, program},
};

fn listed(of: &str) -> Finished {
    let finished = run(sbt_with(&["list", of])).expect(0);
    assert_eq!(finished.stderr, "");
    finished
}

#[test]
fn a_program_s_barriers_have_kinds_and_callers() {
    crate::harness::needs_nothing!();
    let pthread = program("barriers.c");
    let path = pthread.to_string_lossy();
    let finished = listed(&path);
    let text = finished.out();
    let mut lines = text.lines();
    let found =
        lines.find(|line| line.contains(" pthread ") && line.contains("pthread_barrier_wait"));
    assert!(
        found.is_some_and(|line| line.contains("libc")),
        "{finished}"
    );
    let callers = lines.next().unwrap_or_default();
    assert!(
        callers.contains("called from") && callers.contains(&*path),
        "{finished}"
    );

    let openmp = Build::of("openmp.c").flags(&["-fopenmp"]).path();
    let finished = listed(&openmp.to_string_lossy());
    assert!(
        finished.out().contains(" gomp ") && finished.out().contains("libgomp"),
        "{finished}"
    );

    // A function of the program's own that only sounds like it is not said to be one.
    let own = program("condbarrier.c");
    let finished = listed(&own.to_string_lossy());
    let text = finished.out();
    let (sure, perhaps) = text.split_once("--barrier").unwrap();
    assert!(!sure.contains(" barrier_wait in"), "{finished}");
    assert!(perhaps.contains("barrier_wait_late"), "{finished}");
}

#[test]
fn so_do_those_of_a_process() {
    crate::harness::needs_nothing!();
    let mut sleeping = Command::new("sleep")
        .arg("60")
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    // It has been executed, and its libraries come one after the other.
    let maps = format!("/proc/{}/maps", sleeping.id());
    let is_there = || fs::read_to_string(&maps).is_ok_and(|maps| maps.contains("/libc.so"));
    eventually(LIMIT, || is_there().then_some(()));
    let finished = run(sbt_with(&["list", &sleeping.id().to_string()]));
    let _ended = sleeping.kill();
    let _reaped = sleeping.wait();
    assert!(
        finished.out().contains("pthread_barrier_wait"),
        "{finished}"
    );
    assert!(!finished.out().contains("[vdso]"), "{finished}");
}

#[test]
fn what_is_not_there_is_said() {
    crate::harness::needs_nothing!();
    let finished = run(sbt_with(&["list", "/nonexistent/program"])).expect(1);
    assert!(
        finished.stderr.contains("no program /nonexistent/program"),
        "{finished}"
    );
    let finished = run(sbt_with(&["list", "4194303"])).expect(1);
    assert!(finished.stderr.contains("no process 4194303"), "{finished}");
}
