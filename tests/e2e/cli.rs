//! The command line, and the answers to mistakes.

use std::{fs, os::unix::fs::PermissionsExt as _};

use crate::{
    harness::{command, folder, needs_root, run, sbt, sbt_with, watch},
    programs::program,
};

#[test]
fn help_lists_the_commands() {
    crate::harness::needs_nothing!();
    for arguments in [["--help"].as_slice(), &["-h"]] {
        let finished = run(sbt_with(arguments)).expect(0);
        for command in ["run", "attach", "demo", "doctor"] {
            let listed = finished
                .out()
                .lines()
                .any(|line| line.trim_start().starts_with(&format!("{command} ")));
            assert!(listed, "{command} in {finished}");
        }
        assert!(!finished.out().contains("__demo"), "{finished}");
        assert_eq!(finished.stderr, "");
    }
    for command in ["run", "attach", "demo"] {
        let finished = run(sbt_with(&[command, "--help"])).expect(0);
        for option in [
            "--json",
            "--output",
            "--duration",
            "--departures",
            "--quiet",
        ] {
            assert!(finished.out().contains(option), "{option} in {finished}");
        }
    }
}

#[test]
fn the_version_is_one_line() {
    crate::harness::needs_nothing!();
    let finished = run(sbt_with(&["--version"])).expect(0);
    assert!(finished.out().starts_with("sbt 0."), "{finished}");
    assert_eq!(finished.out().lines().count(), 1);
}

#[test]
fn usage_errors_have_status_2() {
    crate::harness::needs_nothing!();
    for arguments in [
        [].as_slice(),
        &["nonsense"],
        &["--nonsense"],
        &["run"],
        &["run", "--"],
        &["attach"],
        &["attach", "0"],
        &["attach", "-1"],
        &["attach", "self"],
        &["attach", "1", "2"],
        &["attach", "99999999999999999999"],
        &["run", "--duration", "0", "--", "true"],
        &["run", "--duration", "soon", "--", "true"],
        &["run", "--departures", "perhaps", "--", "true"],
        &["demo", "-t", "1"],
        &["demo", "-t", "many"],
    ] {
        let finished = run(sbt_with(arguments));
        assert_eq!(finished.status.code(), Some(2), "{arguments:?}: {finished}");
        assert_eq!(finished.out(), "", "{arguments:?}");
        assert!(
            finished.stderr.contains("--help"),
            "{arguments:?}: {finished}"
        );
    }
}

#[test]
fn a_mistyped_option_is_no_program() {
    crate::harness::needs_nothing!();
    for arguments in [
        ["run", "--nonsense", "true"],
        ["run", "-x", "true"],
        ["run", "--jsno", "true"],
    ] {
        let finished = run(sbt_with(&arguments));
        assert_eq!(finished.status.code(), Some(2), "{arguments:?}: {finished}");
        assert!(finished.stderr.contains(arguments[1]), "{finished}");
    }
}

#[test]
fn json_needs_a_place_to_go() {
    crate::harness::needs_nothing!();
    let folder = folder();
    let mark = folder.path().join("started");
    let mut command = sbt_with(&["run", "--json", "--", "touch"]);
    command.arg(&mark);
    let finished = run(command).expect(2);
    assert!(finished.one_line().contains("--output"), "{finished}");
    assert!(!mark.exists());
}

#[test]
fn too_few_files_are_told_before_anything_starts() {
    crate::harness::needs_nothing!();
    let script = "ulimit -n 64 && exec \"$1\" run -- echo started";
    let mut command = command("sh", &["-c", script, "sh"]);
    command.arg(sbt());
    let finished = run(command).expect(125);
    assert!(finished.one_line().contains("ulimit -n 128"), "{finished}");
    assert_eq!(finished.out(), "");
}

#[test]
fn a_report_that_cannot_be_written_is_known_beforehand() {
    crate::harness::needs_nothing!();
    let folder = folder();
    let mark = folder.path().join("started");
    for output in ["/no/such/folder/report", "/tmp", "/proc/version/x", ""] {
        let mut command = sbt_with(&["run", "--output", output, "--", "touch"]);
        command.arg(&mark);
        let finished = run(command);
        assert!(
            matches!(finished.status.code(), Some(2 | 125)),
            "{output}: {finished}"
        );
        assert!(!mark.exists(), "{output}: the program was started");
        assert_eq!(finished.out(), "");
    }
}

#[test]
fn the_program_is_no_place_for_the_report() {
    crate::harness::needs_nothing!();
    let folder = folder();
    let path = folder.path().join("truth");
    let link = folder.path().join("link");
    fs::copy(program("truth.c"), &path).unwrap();
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let whole = fs::read(&path).unwrap();
    for output in [&path, &link] {
        let mut command = sbt_with(&["run", "--output"]);
        command.arg(output).arg("--").arg(&path);
        let finished = run(command).expect(125);
        assert!(
            finished
                .one_line()
                .contains("it is the program to be watched"),
            "{finished}"
        );
        assert_eq!(finished.out(), "");
    }
    assert!(fs::read(&path).unwrap() == whole);
}

#[test]
fn mistakes_are_told_without_numbers_and_without_wrong_advice() {
    crate::harness::needs_nothing!();
    let finished = run(sbt_with(&[
        "run",
        "--output",
        "/no/such/folder/r",
        "--",
        "true",
    ]));
    assert_eq!(
        finished.expect(125).one_line().trim_end(),
        "sbt: cannot write /no/such/folder/r: No such file or directory"
    );
    for (arguments, words) in [
        (
            ["run", "--duration", "-1s", "true"].as_slice(),
            "expected a time such as 10s",
        ),
        (
            &["run", "--warn-time", "-1", "true"],
            "expected a time such as 1000",
        ),
        (&["attach", "-1"], "expected the number of a process"),
    ] {
        let finished = run(sbt_with(arguments)).expect(2);
        assert!(finished.stderr.contains(words), "{finished}");
        assert!(!finished.stderr.contains("-- -1"), "{finished}");
    }
}

#[test]
fn an_empty_name_is_told_as_that() {
    needs_root!();
    let finished = run(sbt_with(&["run", "--", ""])).expect(127);
    assert_eq!(
        finished.one_line(),
        "sbt: the name of the program is empty\n"
    );
}

#[test]
fn a_failure_leaves_an_old_report_as_it_is() {
    needs_root!();
    let folder = folder();
    let path = folder.path().join("report");
    fs::write(&path, "old").unwrap();
    let mut command = sbt_with(&["run", "--output"]);
    command.arg(&path).args(["--", "/no/such/program"]);
    run(command).expect(127);
    assert_eq!(fs::read_to_string(&path).unwrap(), "old");
}

#[test]
fn hostile_names_cannot_reach_the_terminal() {
    needs_root!();
    let folder = folder();
    let name = "evil\x1b[31m\u{202e}\nname";
    let path = folder.path().join(name);
    fs::copy(program("truth.c"), &path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = sbt_with(&["run", "--"]);
    command.arg(&path).args(["rounds=10", "\x1b]0;title\x07"]);
    let finished = run(command).expect(0);
    assert!(!finished.stderr.contains('\x1b'), "{:?}", finished.stderr);
    assert!(!finished.stderr.contains('\x07'), "{:?}", finished.stderr);
    assert!(
        !finished.stderr.contains('\u{202e}'),
        "{:?}",
        finished.stderr
    );

    // In an error, too.
    let finished = run(sbt_with(&["run", "--", "no\x1b[31m\nsuch"])).expect(127);
    assert!(
        !finished.one_line().contains('\x1b'),
        "{:?}",
        finished.stderr
    );
}

#[test]
fn the_json_report_has_its_fields() {
    needs_root!();
    let report = watch(&program("truth.c"), &["threads=3", "rounds=50", "skew=100"]);
    let fields = |value: &serde_json::Value, expected: &[&str]| {
        let object = value.as_object().unwrap();
        for field in expected {
            assert!(object.contains_key(*field), "{field} in {value:#}");
        }
    };
    fields(
        &report.0,
        &[
            "schema",
            "version",
            "backend",
            "command",
            "pid",
            "wall_ns",
            "exit_status",
            "arrivals",
            "episodes",
            "incomplete_episodes",
            "lost_events",
            "threads",
            "barriers",
            "sites",
            "phases",
            "own_cost",
            "notes",
        ],
    );
    assert_eq!(report.number("schema"), 1);
    assert_eq!(report.0["backend"], "ebpf");
    assert_eq!(report.0["notes"], serde_json::json!([]), "{report}");
    let command = report.0["command"].as_array().unwrap();
    assert_eq!(command.len(), 4);
    assert_eq!(command[1], "threads=3");
    let site = &report.sites()[0];
    fields(
        site,
        &[
            "id",
            "function",
            "file",
            "line",
            "binary",
            "offset",
            "callers",
            "kind",
            "episodes",
            "lost_ns",
            "gain_ns",
            "imbalance_pct",
            "phase_ns",
            "barrier_ns",
            "idle_ns",
            "release_ns",
            "work_ns",
            "straggler",
            "threads",
        ],
    );
    for sums in ["phase_ns", "barrier_ns", "idle_ns", "release_ns", "work_ns"] {
        fields(
            &site[sums],
            &["sum", "min", "mean", "max", "stddev", "p50", "p95", "p99"],
        );
        let of = |field: &str| site[sums][field].as_u64().unwrap();
        assert!(
            of("min") <= of("mean") && of("mean") <= of("max"),
            "{site:#}"
        );
    }
    assert!(report.number("wall_ns") > 5_000_000);
}
