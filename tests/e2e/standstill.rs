//! Hangs while they are watched: which threads are missing, and when the hang is over.

use std::{fs, process::Command};

use serde_json::Value;

use crate::{
    harness::{
        LIMIT, Report, command, eventually, folder, needs_root, pause, run, sbt_with, start,
    },
    programs::{Build, line, program},
    screen::run_of,
    tty::{Terminal, USUAL, sbt_for_tty},
};

/// `sbt run` of a program, with its report as JSON in a file.
fn watched(options: &[&str], path: &std::path::Path, arguments: &[&str], json: &str) -> Command {
    let mut command = sbt_with(&["run", "--json", "--output", json]);
    command.args(options).arg("--").arg(path).args(arguments);
    command
}

/// Runs it to its end.
#[track_caller]
fn report(options: &[&str], path: &std::path::Path, arguments: &[&str], status: i32) -> Report {
    let folder = folder();
    let json = folder.path().join("report.json");
    run(watched(options, path, arguments, json.to_str().unwrap())).expect(status);
    Report::read(&json)
}

fn names(threads: &Value) -> Vec<&str> {
    let mut names: Vec<&str> = threads
        .as_array()
        .unwrap()
        .iter()
        .map(|thread| thread["name"].as_str().unwrap())
        .collect();
    names.sort_unstable();
    names
}

/// The second thread is missing at the barrier of `standstill`, and the others are there.
#[track_caller]
fn second_is_missing(report: &Report) -> &Value {
    let hang = &report.0["hang"];
    assert_eq!(names(&hang["missing"]), ["T1 worker-1"], "{report}");
    assert_eq!(
        names(&hang["arrived"]),
        ["T0 worker-0", "T2 worker-2"],
        "{report}"
    );
    assert_eq!(hang["participants"], 3, "{report}");
    assert_eq!(hang["certain"], true, "{report}");
    assert_eq!(hang["missing"][0]["thread"], 1, "{report}");
    let meet = format!("work standstill.c:{}", line("standstill.c", "SITE meet"));
    assert_eq!(hang["site"], meet, "{report}");
    let barrier = report.list("barriers").iter();
    let mut barrier = barrier.filter(|barrier| barrier["id"] == hang["barrier"]["id"]);
    assert_eq!(barrier.next().unwrap()["participants"], 3, "{report}");
    hang
}

#[test]
fn who_waits_for_something_else_is_told_while_it_hangs() {
    needs_root!();
    let path = program("standstill.c");
    let mut command = sbt_with(&["run", "--hang-time=1", "--"]);
    command
        .arg(&path)
        .args(["how=read", "for=0", "watchdog=4000"]);
    let mut target = start(command);
    let told = eventually(LIMIT, || {
        let lines = target.err();
        lines
            .lines()
            .find(|line| line.starts_with("sbt: hang: "))
            .map(str::to_owned)
    });
    let told = told.expect("no line tells of the hang");
    assert!(told.contains("worker-1") && told.contains("read"), "{told}");
    assert!(target.is_running(), "told afterwards only");
    // The program's own watchdog ends it, and the report has it all the same.
    let finished = target.finish().expect(3);
    assert!(finished.stderr.contains("\nHANG for "), "{finished}");
    assert_eq!(
        finished.stderr.matches("sbt: hang: ").count(),
        1,
        "{finished}"
    );
    assert!(!finished.stderr.contains("the hang is over"), "{finished}");
}

#[test]
fn a_hang_is_in_the_report_of_a_program_that_gives_up() {
    needs_root!();
    let arguments = ["how=read", "for=0", "watchdog=3000"];
    let report = report(&["--hang-time=1"], &program("standstill.c"), &arguments, 3);
    let hang = second_is_missing(&report);
    assert_eq!(hang["outcome"], "lasts", "{report}");
    assert!(
        ["stuck", "never"].iter().any(|kind| hang["kind"] == *kind),
        "{report}"
    );
    let missing = &hang["missing"][0];
    assert_eq!(missing["blocked_on"]["kind"], "call", "{report}");
    let at = format!(
        "wait_for_byte standstill.c:{}",
        line("standstill.c", "SITE read")
    );
    assert_eq!(missing["where"], at, "{report}");
    assert!(hang["lasted_ns"].as_u64() > Some(2_500_000_000), "{report}");
}

#[test]
fn a_hang_may_resolve_itself() {
    needs_root!();
    let arguments = ["how=read", "for=3000"];
    let report = report(&["--hang-time=1"], &program("standstill.c"), &arguments, 0);
    let hang = second_is_missing(&report);
    assert_eq!(hang["outcome"], "over", "{report}");
    let lasted = hang["lasted_ns"].as_u64().unwrap();
    assert!((2_500_000_000..4_500_000_000).contains(&lasted), "{report}");
    assert_eq!(report.number("episodes"), 6, "{report}");
    assert_eq!(report.number("incomplete_episodes"), 0, "{report}");
}

#[test]
fn who_computes_for_long_is_slow() {
    needs_root!();
    let path = program("standstill.c");
    let mut command = sbt_with(&["run", "--hang-time=1", "--"]);
    command.arg(&path).args(["how=compute", "for=3000"]);
    let finished = run(command).expect(0);
    assert!(
        !finished.stderr.to_lowercase().contains("hang"),
        "{finished}"
    );
    // sbt reports the standstill as long as it lasts, with its true kind.
    let arguments = ["how=compute", "for=9000", "watchdog=3000"];
    let report = report(&["--hang-time=1"], &path, &arguments, 3);
    let hang = second_is_missing(&report);
    assert!(
        ["slow", "unclear"].iter().any(|kind| hang["kind"] == *kind),
        "{report}"
    );
    assert_eq!(hang["missing"][0]["state"], "running", "{report}");
}

#[test]
fn nobody_looks_if_nobody_wants_it() {
    needs_root!();
    let arguments = ["how=read", "for=0", "watchdog=2500"];
    let path = program("standstill.c");
    for options in [["--hang-time=off"], ["--hang-time=10"]] {
        let report = report(&options, &path, &arguments, 3);
        assert_eq!(report.0["hang"], Value::Null, "{report}");
        // The missing thread is known from the events alone.
        let open = &report.list("unfinished")[0];
        assert_eq!(open["missing"], serde_json::json!([1]), "{report}");
    }
}

#[test]
fn an_interrupt_leaves_the_report_with_the_hang() {
    needs_root!();
    let folder = folder();
    let json = folder.path().join("report.json");
    let arguments = ["how=read", "for=0"];
    let path = program("standstill.c");
    let options = ["--hang-time=1", "--watch=nothing_of_that_name"];
    let target = start(watched(&options, &path, &arguments, json.to_str().unwrap()));
    let told = eventually(LIMIT, || target.err().contains("sbt: hang: ").then_some(()));
    assert!(told.is_some(), "{}", target.err());
    target.signal_all(libc::SIGINT);
    let finished = target.finish();
    assert!(!finished.status.success(), "{finished}");
    assert_eq!(second_is_missing(&Report::read(&json))["outcome"], "lasts");
}

#[test]
fn a_team_that_waits_for_its_next_region_does_not_hang() {
    needs_root!();
    let gnu = Build::of("regions.c").flags(&["-fopenmp"]);
    // Between two regions the first thread is alone for twice as long as is allowed.
    let does_not_hang = |build: Build, departures: &str| {
        let options = ["--hang-time=1", departures];
        let arguments = ["rounds=2", "serial=2000000", "tail=2000000"];
        let report = report(&options, &build.path(), &arguments, 0);
        assert_eq!(report.0["hang"], Value::Null, "{report}");
        assert_eq!(report.number("episodes"), 2, "{report}");
    };
    // At the same time: they sleep.
    std::thread::scope(|scope| {
        for build in [gnu, gnu.compiler("clang")] {
            for departures in ["--departures=on", "--departures=off"] {
                scope.spawn(move || does_not_hang(build, departures));
            }
        }
    });
}

#[test]
fn a_task_that_does_not_end_keeps_those_that_have_all_come() {
    needs_root!();
    let gnu = Build::of("openmp_hangs.c").flags(&["-fopenmp"]);
    let hangs = |build: Build, policy: &str| {
        let folder = folder();
        let json = folder.path().join("report.json");
        let options = ["--hang-time=1"];
        let path = build.path();
        let mut command = watched(&options, &path, &["task", "5"], json.to_str().unwrap());
        command.env("OMP_WAIT_POLICY", policy);
        run(command).expect(0);
        let report = Report::read(&json);
        let hang = &report.0["hang"];
        assert_eq!(hang["outcome"], "over", "{report}");
        assert_eq!(hang["kind"], "stuck", "{report}");
        let missing = hang["missing"].as_array().unwrap();
        assert_eq!(missing.len(), 1, "{report}");
        assert!(missing[0].to_string().contains("fetch"), "{report}");
        assert_eq!(hang["arrived"].as_array().unwrap().len(), 3, "{report}");
        let site = line("openmp_hangs.c", "SITE task");
        let text = hang["text"].as_str().unwrap();
        assert!(text.contains(&format!("openmp_hangs.c:{site}")), "{report}");
    };
    // At the same time: they sleep.
    std::thread::scope(|scope| {
        for build in [gnu, gnu.compiler("clang")] {
            for policy in ["passive", "active"] {
                scope.spawn(move || hangs(build, policy));
            }
        }
    });
}

#[test]
fn the_screen_shows_a_hang_by_itself() {
    needs_root!();
    let command = run_of(
        &["--hang-time=1"],
        "standstill.c",
        &["how=read", "for=6000", "rounds=3000"],
    );
    let terminal = Terminal::spawn(command, USUAL);
    terminal.sees("! HANG for ");
    terminal.sees("!Hang");
    terminal.sees("worker-1 is missing");
    terminal.press("!");
    terminal.sees("wait_for_byte standstill.c:");
    // The hang resolves itself, and the program ends.
    terminal.sees("A HANG, over after ");
    terminal.leave_at_end();
    terminal.leaves(
        0,
        &[
            "sbt: hang: ",
            "sbt: the hang is over",
            "A HANG, over after ",
        ],
    );
}

#[test]
fn the_demo_shows_one() {
    needs_root!();
    let terminal = Terminal::spawn(
        sbt_for_tty(&["demo", "deadlock", "--threads=4", "--scale=0.1"]),
        USUAL,
    );
    terminal.sees("! HANG for ");
    terminal.press("!");
    terminal.sees("worker-2");
    terminal.sees("has ended");
    // There is time to read it: without the screen the program would end by now.
    pause(7000);
    terminal.sees("! HANG for ");
    terminal.press("\x03");
    terminal.leaves(130, &["HANG for ", "worker-2"]);
}

#[test]
fn the_time_may_stand_in_the_file() {
    needs_root!();
    let folder = folder();
    fs::write(folder.path().join("sbt.toml"), "hang-time = 1\n").unwrap();
    let path = program("standstill.c");
    let mut command = sbt_with(&["run", "-v", "--"]);
    command.arg(&path).args(["how=read", "for=3000"]);
    command.current_dir(folder.path());
    let finished = run(command).expect(0);
    let setting = finished
        .stderr
        .lines()
        .find(|line| line.contains("hang-time"));
    assert!(setting.unwrap().contains("1s"), "{finished}");
    assert!(
        finished.stderr.contains("sbt: the hang is over after "),
        "{finished}"
    );
}

#[test]
fn what_hung_before_we_came_is_found_too() {
    needs_root!();
    let target = start(command(program("standstill.c"), &["how=read", "for=0"]));
    pause(500);
    let pid = target.pid().to_string();
    let options = ["attach", "--hang-time=1", "--duration=4", "--json", &pid];
    let finished = run(sbt_with(&options)).expect(0);
    let report = Report(serde_json::from_str(&finished.out()).unwrap());
    let hang = &report.0["hang"];
    assert_eq!(hang["outcome"], "lasts", "{report}");
    assert_eq!(hang["participants"], 3, "{report}");
    assert!(
        hang["text"].as_str().unwrap().contains("worker-1"),
        "{report}"
    );
}

#[test]
fn a_process_that_sleeps_does_not_hang() {
    needs_root!();
    let gnu = Build::of("regions.c").flags(&["-fopenmp"]);
    // Its threads are kept for a region that begins much later.
    let arguments = ["rounds=2", "serial=0", "tail=30000000"];
    for path in [gnu.path(), gnu.compiler("clang").path()] {
        let target = start(command(&path, &arguments));
        pause(500);
        let pid = target.pid().to_string();
        let options = ["attach", "--hang-time=1", "--duration=3", "--json", &pid];
        let finished = run(sbt_with(&options)).expect(0);
        let report: Value = serde_json::from_str(&finished.out()).unwrap();
        assert_eq!(report["hang"], Value::Null, "{report:#}");
    }
}
