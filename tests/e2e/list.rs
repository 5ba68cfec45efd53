//! `sbt list PROG`, `sbt list PID`: what could be watched.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, chown},
    path::Path,
    process::{Command, Stdio},
};

use crate::{
    harness::{Finished, LIMIT, command, eventually, folder, needs_root, run, sbt, sbt_with},
    privilege::{Open, as_nobody},
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
    // The program has been executed, and its libraries are mapped one after the other.
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
        finished
            .stderr
            .contains("no executable program /nonexistent/program"),
        "{finished}"
    );
    let finished = run(sbt_with(&["list", "4194303"])).expect(1);
    assert!(finished.stderr.contains("no process 4194303"), "{finished}");
}

/// A program whose dynamic linker leaves a mark beside itself when it is executed.
fn with_marking_linker(folder: &Path) -> std::path::PathBuf {
    let linker = folder.join("ld-linux-x86-64.so.2");
    fs::write(&linker, "#!/bin/sh\n>\"$0.ran\"\n").unwrap();
    fs::set_permissions(&linker, fs::Permissions::from_mode(0o755)).unwrap();
    let (source, program) = (folder.join("a.c"), folder.join("a"));
    fs::write(&source, "int main(void) { return 0; }").unwrap();
    let option = format!("-Wl,--dynamic-linker={}", linker.display());
    let mut gcc = command("gcc", &[&option]);
    gcc.arg(&source).arg("-o").arg(&program);
    run(gcc).expect(0);
    program
}

#[test]
fn nothing_of_a_program_is_executed() {
    crate::harness::needs_nothing!();
    let folder = folder();
    let program = with_marking_linker(folder.path());
    let of = program.to_str().unwrap();
    listed(of);
    let scale = ["scale", "--threads=1", "--repeat=1", "--", of];
    let _fails = run(sbt_with(&scale));
    assert!(!folder.path().join("ld-linux-x86-64.so.2.ran").exists());
}

/// Root executes no file of a user, and a user no file of another user.
#[test]
fn nothing_of_another_user_s_program_is_executed() {
    needs_root!();
    for (owner, reader) in [(65534, 0), (12345, 0), (0, 65534), (12345, 65534)] {
        let open = Open::new();
        let program = with_marking_linker(&open.path(""));
        let sbt = open.copy(sbt());
        for file in ["a", "ld-linux-x86-64.so.2"] {
            chown(open.path(file), Some(owner), Some(owner)).unwrap();
        }
        let mut command = match reader {
            0 => command(&sbt, &[""; 0]),
            _ => as_nobody(&sbt),
        };
        command.arg("list").arg(&program);
        let finished = run(command).expect(0);
        assert!(
            finished.out().contains("pthread_barrier_wait"),
            "{finished}"
        );
        let mark = open.path("ld-linux-x86-64.so.2.ran");
        assert!(!mark.exists(), "{owner} {reader}");
    }
}

/// The kernel does not start a program whose linker is a text; sbt executes that neither.
#[test]
fn run_executes_no_linker_itself() {
    needs_root!();
    let folder = folder();
    let program = with_marking_linker(folder.path());
    let finished = run(sbt_with(&["run", "--", program.to_str().unwrap()]));
    let ran = folder.path().join("ld-linux-x86-64.so.2.ran");
    assert!(!ran.exists(), "{finished}");
    assert_eq!(finished.code(), 126, "{finished}");
}
