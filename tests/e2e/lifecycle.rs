//! Programs that end, begin and change in unusual ways.

use std::{fs, path::Path, process::Command};

use serde_json::Value;

use crate::{
    attach::plugin,
    harness::{
        LIMIT, Report, attach, command, eventually, folder, kill, needs_root, number, pause, run,
        sbt, sbt_with, start, watch, watch_with,
    },
    programs::{line, program},
    tty::children,
};

#[test]
fn exit_from_inside_while_others_wait() {
    needs_root!();
    for option in ["--departures=on", "--departures=off"] {
        let (finished, report) = watch_with(&[option], &program("exit_inside.c"), &["rounds=20"]);
        finished.expect(3);
        assert_eq!(report.number("exit_status"), 3);
        assert_eq!(report.number("arrivals"), 83);
        assert_eq!(report.number("episodes"), 20);
        assert_eq!(report.number("incomplete_episodes"), 1);
        let open = &report.list("unfinished")[0];
        assert_eq!(open["participants"], 4);
        assert_eq!(open["arrived"].as_array().unwrap().len(), 3, "{report}");
        assert_eq!(open["missing"], serde_json::json!([0]), "{report}");
        // Workers and main call from different lines: one site.
        let (worker, main) = ("SITE worker", "SITE main");
        let places = &report.sites()[0]["places"];
        for mark in [worker, main] {
            let end = format!("exit_inside.c:{}", line("exit_inside.c", mark));
            let found = places.as_array().unwrap().iter();
            assert!(
                found
                    .filter_map(|place| place.as_str())
                    .any(|place| place.ends_with(&end)),
                "{report}"
            );
        }
    }
}

#[test]
fn a_crash_while_others_wait() {
    needs_root!();
    let (finished, report) = watch_with(&[], &program("exit_inside.c"), &["rounds=20", "crash=1"]);
    finished.expect(128 + libc::SIGSEGV);
    assert_eq!(report.number("exit_status"), 139);
    assert_eq!(report.number("arrivals"), 83);
    assert_eq!(report.number("episodes"), 20);
    assert_eq!(report.number("incomplete_episodes"), 1);
}

#[test]
fn killed_while_running() {
    needs_root!();
    let folder = folder();
    let json = folder.path().join("report.json");
    let mut command = sbt_with(&["run", "--json", "--output"]);
    command
        .arg(&json)
        .arg("--")
        .arg(program("exit_inside.c"))
        .args(["rounds=20", "lone=1"]);
    let mut sbt = start(command);
    sbt.wait_for("ready");
    let children = format!("/proc/{0}/task/{0}/children", sbt.pid());
    let child = std::fs::read_to_string(children).unwrap();
    kill(child.trim().parse().unwrap(), libc::SIGKILL);
    sbt.finish().expect(128 + libc::SIGKILL);
    let report = Report::read(&json);
    assert_eq!(report.number("exit_status"), 137);
    assert_eq!(report.number("episodes"), 20);
    assert_eq!(report.number("incomplete_episodes"), 1);
}

#[test]
fn executes_another_program() {
    needs_root!();
    let truth = program("truth.c");
    let truth = truth.to_str().unwrap();
    // The program lives long enough to be watched.
    let arguments = [truth, "threads=3", "rounds=100", "base=500"];
    let report = watch(&program("exec.c"), &arguments);
    report.is_exactly(20 + 300, 10 + 100);
    let before = report.site_at(line("exec.c", "SITE before"));
    assert_eq!(number(before, "episodes"), 10);
    assert_eq!(before["function"], "work");
    let after = report.site_at(line("truth.c", "SITE meet"));
    assert_eq!(number(after, "episodes"), 100);
    assert_eq!(after["function"], "meet");
    assert_eq!(report.list("barriers").len(), 2, "{report}");
}

/// The kernel gives it the first one's place, to which the probes were bound.
#[test]
fn another_thread_executes_a_program() {
    needs_root!();
    let truth = program("truth.c");
    let arguments = [
        truth.to_str().unwrap(),
        "threads=3",
        "rounds=200",
        "base=3000",
    ];
    let report = watch(&program("exec_other.c"), &arguments);
    let site = report.site_at(line("truth.c", "SITE meet"));
    // Its probes can only come after its start.
    assert!(number(site, "episodes") >= 100, "{report}");
    assert!(report.is_noted("other than the first executed"), "{report}");
}

#[test]
fn executes_a_static_program() {
    needs_root!();
    let fixed = crate::programs::Build::of("truth.c")
        .flags(&["-static"])
        .path();
    let report = watch(
        &program("exec.c"),
        &[
            fixed.to_str().unwrap(),
            "threads=3",
            "rounds=200",
            "base=3000",
        ],
    );
    let site = report.site_at(line("truth.c", "SITE meet"));
    // Its probes can only come after its start.
    assert!(number(site, "episodes") >= 100, "{report}");
    assert_eq!(
        number(report.site_at(line("exec.c", "SITE before")), "episodes"),
        10
    );
}

#[test]
fn a_shell_script_that_executes_the_program() {
    needs_root!();
    let folder = folder();
    let script = folder.path().join("start.sh");
    let text = format!("#!/bin/sh\nexec {} \"$@\"\n", program("truth.c").display());
    std::fs::write(&script, text).unwrap();
    run(command("chmod", &["755".as_ref(), script.as_os_str()])).expect(0);
    let report = watch(&script, &["threads=3", "rounds=100"]);
    report.is_exactly(300, 100);
    assert_eq!(report.sites()[0]["function"], "meet");
    // Found by PATH, too.
    let mut command = sbt_with(&["run", "--", "start.sh", "rounds=10"]);
    let path = std::env::var("PATH").unwrap();
    command.env("PATH", format!("{}:{path}", folder.path().display()));
    let finished = run(command).expect(0);
    assert!(finished.stderr.contains("10 episodes"), "{finished}");
}

#[test]
fn forks_and_both_go_on() {
    needs_root!();
    for option in ["--departures=on", "--departures=off"] {
        let (finished, report) = watch_with(&[option], &program("forks.c"), &["rounds=50"]);
        let finished = finished.expect(0);
        assert!(finished.out().contains("child 5"), "{finished}");
        // Each has the barrier at the same address, and it is not the same one.
        report.is_exactly((2 + 3 + 4) * 50, 3 * 50);
        assert_eq!(report.list("processes").len(), 2, "{report}");
    }
    for option in ["--departures=on", "--departures=off"] {
        let options = [option, "--no-children"];
        let (finished, report) = watch_with(&options, &program("forks.c"), &["rounds=50"]);
        finished.expect(0);
        report.is_exactly(2 * 50 + 4 * 50, 50 + 50);
    }
}

#[test]
fn loads_a_library_with_the_barrier() {
    needs_root!();
    let report = watch(
        &program("dlopen.c"),
        &[&plugin(), "hold=100000", "threads=3", "rounds=50"],
    );
    report.is_exactly(150, 50);
    let site = report.site_at(line("plugin.c", "SITE plugin"));
    assert_eq!(site["function"], "plugin_loop");
}

#[test]
fn the_first_thread_leaves() {
    needs_root!(alone);
    for option in ["--departures=on", "--departures=off"] {
        let (finished, report) = watch_with(&[option], &program("leader.c"), &["rounds=200"]);
        finished.expect(4);
        report.is_exactly(600, 200);
    }
}

#[test]
fn the_first_thread_leaves_and_another_sbt_comes_and_goes() {
    needs_root!(alone);
    let folder = folder();
    let json = folder.path().join("report.json");
    let mut command = sbt_with(&["run", "--json", "--output"]);
    command
        .arg(&json)
        .arg("--")
        .arg(program("leader.c"))
        .arg("rounds=900");
    let mut sbt = start(command);
    sbt.wait_for("ready");
    pause(300);
    // The kernel then looks again at who wants which probe.
    watch(&program("truth.c"), &["threads=2", "rounds=2"]);
    sbt.finish().expect(4);
    Report::read(&json).is_exactly(2700, 900);
}

#[test]
fn threads_that_end_with_the_first_do_not_go_on_without_it() {
    needs_root!(alone);
    // The other processes are late, since this process takes the CPU that they may use.
    let mut others = Command::new("sh");
    others.args([
        "-c",
        "taskset -p -c 0 $$ && echo ready || exit 1; while :; do :; done",
    ]);
    let mut others = start(others);
    others.wait_for("ready");
    for raised in ["raise=0", "raise=0", "raise=6"] {
        let (_, report) = watch_with(&[], &program("laggards.c"), &[raised]);
        report.is_exactly(9 * 21, 21);
        assert_eq!(report.list("notes"), &[] as &[Value], "{report}");
    }
}

#[test]
fn stops_being_watched_before_its_end() {
    needs_root!();
    let folder = folder();
    let json = folder.path().join("report.json");
    let mut command = sbt_with(&["run", "--duration=300ms", "--json", "--output"]);
    command.arg(&json).arg("--").arg(program("truth.c"));
    command.args(["threads=3", "rounds=500", "base=2000", "status=7"]);
    let mut sbt = start(command);
    sbt.wait_for("ready");
    let finished = sbt.finish().expect(7);
    assert!(finished.out().contains("done 1500"), "{finished}");
    let report = Report::read(&json);
    assert!(report.number("episodes") > 10, "{report}");
    assert!(report.number("arrivals") < 1500, "{report}");
    assert!(report.0["exit_status"].is_null(), "{report}");
}

#[test]
fn who_waits_for_a_program_that_goes_on_is_told_so() {
    needs_root!();
    let told = "sbt waits for its end, and Ctrl-C interrupts it\n";
    for (seconds, is_told) in [("1", false), ("9", true)] {
        let mut command = sbt_with(&["run", "--no-tui", "--duration=100ms", "--"]);
        command.args(["sleep", seconds]);
        let finished = run(command).expect(0);
        assert_eq!(finished.stderr.contains(told), is_told, "{finished}");
    }
}

#[test]
fn watched_by_two_from_within() {
    needs_root!();
    // sbt under sbt: the inner one is no program with barriers.
    let folder = folder();
    let json = folder.path().join("inner.json");
    let mut command = sbt_with(&["run", "-q", "--"]);
    command
        .arg(sbt())
        .args(["run", "--json", "--output"])
        .arg(&json)
        .arg("--")
        .arg(program("truth.c"))
        .args(["threads=3", "rounds=100", "status=9"]);
    run(command).expect(9);
    Report::read(&json).is_exactly(300, 100);
}

/// Whether a process has a file in its memory.
fn reads(process: u32, file: &std::path::Path) -> bool {
    let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).unwrap_or_default();
    maps.contains(file.to_str().unwrap())
}

#[test]
fn killed_while_its_symbols_are_read() {
    needs_root!();
    let program = program("manysymbols.c");
    for wait in [0, 1, 5, 20, 50] {
        let mut target = start(command(&program, &[] as &[&str]));
        target.wait_for("ready");
        let attached = attach(target.pid(), &[]);
        let sbt = attached.sbt.pid();
        eventually(LIMIT, || reads(sbt, &program).then_some(())).unwrap();
        pause(wait);
        target.signal(libc::SIGKILL);
        target.finish();
        // sbt had begun to watch, or says what happened to the process.
        let finished = attached.sbt.finish();
        if finished.status.success() {
            assert_eq!(finished.stderr, "", "{finished}");
            Report::read(&attached.folder.path().join("report.json"));
        } else {
            let finished = finished.expect(125);
            let line = finished.one_line();
            assert!(line.contains("ended"), "{line}");
        }
    }
}

/// From its first moment on a program is ended by what ends sbt, which then reports.
#[test]
fn sbt_is_told_to_end_while_the_program_is_loaded() {
    needs_root!(alone);
    let folder = folder();
    let json = folder.path().join("report.json");
    for backend in ["ebpf", "inject", "perf", "ptrace"] {
        println!("{backend}");
        for _ in 0..8 {
            let mut command = sbt_with(&["run", "-q", "--json", "--backend", backend, "--output"]);
            command.arg(&json).arg("--").arg(program("truth.c"));
            command.arg("hold=20000000");
            let sbt = start(command);
            let begun = |pid: &u32| {
                let name = fs::read_to_string(format!("/proc/{pid}/comm"));
                name.is_ok_and(|name| name == "truth\n")
            };
            let target = eventually(LIMIT, || children(sbt.pid()).into_iter().find(begun));
            let target = target.expect("it has begun");
            sbt.signal(libc::SIGTERM);
            sbt.finish().expect(128 + libc::SIGTERM);
            assert!(!Path::new(&format!("/proc/{target}")).exists());
            let report = Report::read(&json);
            assert_eq!(report.number("exit_status"), 143, "{report}");
            fs::remove_file(&json).unwrap();
        }
    }
}
