//! Threads that wait for each other in other ways than at a barrier: of the runtimes of six
//! languages and of OpenMP, and made by hand. No barrier may be told of any.
//!
//! The programs are in `programs/lookalikes`. Each is watched with default options and with all
//! system calls of futexes, and what was recorded is read again. Barriers that are made in the
//! same way and have to be found are in `futex.rs`, `condvars.rs`, `conditions.rs`,
//! `language.rs` and `openmp.rs`.

use std::{fs, path::Path, process::Command};

use crate::{
    harness::{Report, folder, needs_root, run, sbt_with},
    programs::{Build, execute, program, source},
};

/// The arguments of a program that each are a look-alike.
type Table = &'static [&'static [&'static str]];

/// One function makes all system calls of futexes.
const BY_ONE_WRAPPER: Table = &[
    &["what=events", "rounds=6000"],
    &["what=events", "how=inline", "rounds=6000"],
    &["what=roles", "rounds=6000"],
    &["what=ring", "rounds=4000"],
    &["what=ring", "threads=4", "how=inline", "rounds=3000"],
    &["what=turns", "threads=2", "rounds=6000"],
    &["what=turns", "threads=3", "rounds=4000"],
    &["what=turns", "threads=4", "how=inline", "rounds=3000"],
    &["what=doze", "rounds=6000"],
];
const BY_ONE_WRAPPER_TOO: Table = &[
    &["what=stock", "rounds=6000"],
    &["what=parts", "rounds=12000"],
    &["what=slot", "rounds=6000"],
    &["what=mutex", "rounds=3000"],
    &["what=mutex", "threads=2", "rounds=4000"],
    &["what=herd", "rounds=3000"],
    &["what=semaphore", "rounds=4000"],
    &["what=operation", "rounds=4000"],
    &["what=operation", "threads=2", "how=inline", "rounds=6000"],
    &["what=rwlock", "rounds=4000"],
    &["what=dock", "rounds=4000"],
    &["what=meet", "threads=2", "rounds=3000"],
    &["what=meet", "how=inline", "rounds=2000"],
    &["what=future", "rounds=8000"],
    &["what=timed", "rounds=3000"],
];

const BY_CONDITIONS: Table = &[
    &["what=parts", "rounds=6000"],
    &["what=count", "rounds=6000"],
    &["what=doze", "rounds=4000"],
];

const OF_CPP: Table = &[
    &["atomic", "4000"],
    &["atomics", "3000"],
    &["semaphore", "4000"],
    &["counting", "3000"],
    &["future", "12000"],
    &["condition", "3000"],
    &["mutex", "3000"],
    &["shared", "3000"],
    &["latch", "8000"],
];

const OF_RUST: Table = &[
    &["channel", "9000"],
    &["rendezvous", "12000"],
    &["park", "9000"],
    &["mutex", "8000"],
    &["rwlock", "8000"],
    &["condvar", "6000"],
    &["scope", "12000"],
];

const OF_GO: Table = &[
    &["channel", "8000"],
    &["ring", "5000"],
    &["threads", "6000"],
    &["group", "5000"],
    &["mutex", "5000"],
    &["cond", "4000"],
    &["rwmutex", "6000"],
    &["collect", "1500"],
    &["select", "8000"],
];

const OF_JAVA: Table = &[
    &["park", "5000"],
    &["monitor", "5000"],
    &["synchronous", "5000"],
    &["lock", "3000"],
    &["pool", "5000"],
];

const OF_PYTHON: Table = &[
    &["lock", "5000"],
    &["condition", "5000"],
    &["queue", "5000"],
    &["semaphore", "8000"],
    &["pool", "5000"],
    &["event", "5000"],
];

/// Nothing is taken for a barrier, and no verdict blames a thread or a place.
#[track_caller]
fn has_none(report: &Report, what: &str) {
    assert_eq!(report.list("barriers").len(), 0, "{what}: {report}");
    assert_eq!(report.sites().len(), 0, "{what}: {report}");
    assert_eq!(report.number("episodes"), 0, "{what}: {report}");
    // There are none where no barrier was found, or some on the whole run.
    for verdict in report.0["verdicts"].as_array().into_iter().flatten() {
        assert!(verdict["site"].is_null(), "{what}: {report}");
        assert!(verdict["thread"].is_null(), "{what}: {report}");
    }
}

#[track_caller]
fn stays_silent(program: &Path, before: &[&str], table: Table) {
    let folder = folder();
    let [json, recording] = ["report.json", "recording.sbt"].map(|name| folder.path().join(name));
    for arguments in table {
        for options in [&[][..], &["--futex=on"]] {
            let what = format!("{} {arguments:?} {options:?}", program.display());
            let _ = fs::remove_file(&recording);
            let mut command = sbt_with(&["run", "--json", "--output"]);
            command
                .env("SBT_BUDGET", "off")
                .arg(&json)
                .arg("-o")
                .arg(&recording)
                .args(options)
                .arg("--")
                .arg(program)
                .args(before)
                .args(*arguments);
            let finished = run(command).expect(0);
            assert_eq!(finished.stderr, "", "{what}");
            has_none(&Report::read(&json), &what);
            let mut command = sbt_with(&["report", "--json", "--output"]);
            command.arg(&json).arg(&recording);
            run(command).expect(0);
            has_none(&Report::read(&json), &format!("{what}, recorded"));
        }
    }
}

const FUTEX: Build = Build::of("lookalikes/futex.c");

#[test]
fn hand_overs_by_one_wrapper_are_no_barriers() {
    needs_root!();
    stays_silent(&FUTEX.path(), &[], BY_ONE_WRAPPER);
}

#[test]
fn locks_and_queues_by_one_wrapper_are_no_barriers() {
    needs_root!();
    stays_silent(&FUTEX.path(), &[], BY_ONE_WRAPPER_TOO);
}

/// Other builds of the programs that were most easily taken for barriers.
#[test]
fn other_builds_of_them_are_no_barriers() {
    needs_root!();
    let table: Table = &[
        &["what=events", "how=inline", "rounds=4000"],
        &["what=roles", "how=inline", "rounds=4000"],
        &["what=parts", "how=inline", "rounds=8000"],
        &["what=doze", "rounds=4000"],
    ];
    let static_flags = &["-static", "-fno-asynchronous-unwind-tables"];
    for build in [
        FUTEX.flags(&["-O0"]),
        FUTEX.flags(&["-O3", "-g0"]),
        FUTEX.flags(static_flags),
        FUTEX.stripped(),
    ] {
        stays_silent(&build.path(), &[], table);
    }
}

#[test]
fn hand_overs_by_conditions_are_no_barriers() {
    needs_root!();
    stays_silent(&program("lookalikes/conditions.c"), &[], BY_CONDITIONS);
}

#[test]
fn what_cpp_has_beside_barriers_is_none() {
    needs_root!();
    let build = Build::of("lookalikes/waits.cpp").compiler("g++");
    stays_silent(&build.flags(&["-std=c++20"]).path(), &[], OF_CPP);
}

#[test]
fn what_rust_has_beside_barriers_is_none() {
    needs_root!();
    let build = Build::of("lookalikes/waits.rs").compiler("rustc");
    stays_silent(&build.flags(&["--edition=2021"]).path(), &[], OF_RUST);
}

#[test]
fn what_go_does_is_no_barrier() {
    needs_root!();
    let build = Build::of("lookalikes/waits.go").compiler("go");
    stays_silent(&build.path(), &[], OF_GO);
    let stripped = build.flags(&["-ldflags=-s -w"]);
    stays_silent(&stripped.path(), &[], &OF_GO[..3]);
}

#[test]
fn what_java_does_is_no_barrier() {
    needs_root!();
    let classes = Path::new(env!("CARGO_TARGET_TMPDIR")).join("programs/lookalikes-java");
    let mut command = Command::new("javac");
    command
        .arg("-d")
        .arg(&classes)
        .arg(source("lookalikes/Waits.java"));
    execute(command);
    let classes = classes.to_str().unwrap();
    stays_silent(Path::new("java"), &["-cp", classes, "Waits"], OF_JAVA);
}

#[test]
fn what_python_does_is_no_barrier() {
    needs_root!();
    let script = source("lookalikes/waits.py");
    let python = Path::new("/usr/bin/python3");
    stays_silent(python, &[script.to_str().unwrap()], OF_PYTHON);
}

/// The end of the region is a barrier of the runtime, and the only one.
#[test]
fn locks_of_openmp_are_no_barriers() {
    needs_root!();
    let flags = &["-fopenmp"];
    for build in [
        Build::of("lookalikes/openmp.c").flags(flags),
        Build::of("lookalikes/openmp.c")
            .compiler("clang")
            .flags(flags),
    ] {
        for kind in ["critical", "lock", "ordered", "tasks"] {
            for options in [&[][..], &["--futex=on"]] {
                let (finished, report) =
                    crate::harness::watch_with(options, &build.path(), &[kind]);
                finished.expect(0);
                let kinds = report
                    .list("barriers")
                    .iter()
                    .map(|barrier| &barrier["kind"]);
                for found in kinds {
                    let is_runtimes = found == "gomp" || found == "kmp";
                    assert!(is_runtimes, "{kind} {options:?}: {report}");
                }
                assert_eq!(report.number("episodes"), 1, "{kind} {options:?}: {report}");
            }
        }
    }
}
