//! Programs whose files give privileges: who watches as an ordinary user may keep the program
//! from them, and then it is said.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, chown},
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    harness::{Report, command, needs_root, run, sbt, sbt_with},
    privilege::{Open, as_nobody},
    programs::program,
};

/// The program, with bits of its mode that give it privileges, or capabilities.
fn giving(open: &Open, bits: u32, capabilities: &str) -> PathBuf {
    let gains = open.copy(&program("gains.c"));
    chown(&gains, Some(0), Some(0)).unwrap();
    fs::set_permissions(&gains, fs::Permissions::from_mode(0o755 | bits)).unwrap();
    if !capabilities.is_empty() {
        let mut setcap = command("setcap", &[capabilities]);
        setcap.arg(&gains);
        run(setcap).expect(0);
    }
    gains
}

/// Standard output, standard error and the report.
fn watched(
    mut sbt: Command,
    backend: &str,
    json: &Path,
    what: &[&Path],
) -> (String, String, Report) {
    sbt.args(["run", "--budget=off", "--backend", backend, "--json"]);
    sbt.arg("--output").arg(json).arg("--").args(what);
    let finished = run(sbt).expect(4);
    (finished.out(), finished.stderr, Report::read(json))
}

const LOST: &str = "without the privileges that its file gives";

const NONE: &str = "user 65534 group 65534 reads 0\n";

#[test]
fn a_program_that_is_kept_from_its_privileges_is_told_at_once() {
    needs_root!(alone);
    for (bits, capabilities, alone, word) in [
        (
            0o4000,
            "",
            "user 0 group 65534 reads 1\n",
            "user root (set-user-id)",
        ),
        (
            0o2000,
            "",
            "user 65534 group 0 reads 0\n",
            "group root (set-group-id)",
        ),
        (
            0,
            "cap_dac_read_search+ep",
            "user 65534 group 65534 reads 1\n",
            "capabilities of its file",
        ),
        (0, "", NONE, ""),
    ] {
        let open = Open::new();
        let (none, json) = (open.copy(sbt()), open.path("report.json"));
        let gains = giving(&open, bits, capabilities);
        assert_eq!(run(as_nobody(&gains)).expect(4).out(), alone);
        for backend in ["auto", "ptrace", "perf"] {
            let (out, err, report) = watched(as_nobody(&none), backend, &json, &[&gains]);
            assert_eq!(out, NONE, "{backend}");
            let told = err.lines().find(|line| line.contains(LOST));
            assert_eq!(told.is_some(), !word.is_empty(), "{backend}: {err}");
            if let Some(told) = told {
                assert!(told.contains(word) && told.contains("sudo"), "{told}");
            }
            assert_eq!(report.is_noted(LOST), !word.is_empty(), "{report}");
            report.is_exactly(100, 50);
        }
    }
}

#[test]
fn one_that_another_program_executes_is_noted() {
    needs_root!(breakpoints);
    let open = Open::new();
    let (none, json) = (open.copy(sbt()), open.path("report.json"));
    let gains = giving(&open, 0o4000, "");
    let (out, err, report) = watched(as_nobody(&none), "ptrace", &json, &["env".as_ref(), &gains]);
    assert_eq!(out, NONE);
    assert_eq!(err, "");
    assert!(report.is_noted("set-user-id"), "{report}");
    report.is_exactly(100, 50);
}

#[test]
fn who_does_not_trace_or_might_look_at_all_takes_nothing_away() {
    needs_root!(alone);
    let open = Open::new();
    let (two, json) = (open.capable("cap_bpf,cap_perfmon+ep"), open.path("a.json"));
    let gains = giving(&open, 0o4000, "");
    let alone = "user 0 group 65534 reads 1\n";
    let (out, err, report) = watched(as_nobody(&two), "ebpf", &json, &[&gains]);
    assert_eq!((out.as_str(), err.as_str()), (alone, ""));
    report.is_exactly(100, 50);
    fs::remove_file(&json).unwrap();
    for backend in ["auto", "ptrace", "perf"] {
        let mut sudo = sbt_with(&[""; 0]);
        sudo.env("SUDO_UID", "65534").env("SUDO_GID", "65534");
        let (out, err, report) = watched(sudo, backend, &json, &[&gains]);
        assert_eq!((out.as_str(), err.as_str()), (alone, ""), "{backend}");
        report.is_exactly(100, 50);
        // The running time is known although the kernel ended the perf events in between.
        let threads = report.threads();
        let told = threads.iter().filter(|it| it["running_ns"].is_number());
        assert_eq!((threads.len(), told.count()), (2, 2), "{report}");
    }
}

/// The process is not followed from its first moment, and may have begun.
#[test]
fn perf_sees_what_another_process_executes_under_sudo() {
    needs_root!(alone);
    let open = Open::new();
    let json = open.path("report.json");
    let gains = giving(&open, 0o4000, "");
    let mut sudo = sbt_with(&[""; 0]);
    sudo.env("SUDO_UID", "65534").env("SUDO_GID", "65534");
    let script = format!("{} rounds=3000; exit $?", gains.display());
    let what = ["sh", "-c", &script].map(Path::new);
    let (out, _, report) = watched(sudo, "perf", &json, &what);
    assert_eq!(out, "user 0 group 65534 reads 1\n");
    assert!(report.number("arrivals") > 3000, "{report}");
}
