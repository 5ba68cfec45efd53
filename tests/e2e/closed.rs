//! Programs that forbid others to read their memory, watched by breakpoints as an ordinary user:
//! forked children have copies of the breakpoints, and must survive them.

use crate::{
    harness::{Finished, Report, needs_root, number, run, sbt},
    privilege::{Open, as_nobody},
    programs::{Build, line, program},
};

/// Runs it as nobody, by breakpoints.
fn watched(options: &[&str], arguments: &[&str]) -> (Finished, Report) {
    let open = Open::new();
    let (sbt, closed) = (open.copy(sbt()), open.copy(&program("closed.c")));
    let json = open.path("report.json");
    let mut command = as_nobody(&sbt);
    command.args(["run", "--backend=ptrace", "--budget=off", "--json"]);
    command.args(options).arg("--output").arg(&json).arg("--");
    command.arg(closed).args(arguments);
    let finished = run(command).expect(4);
    (finished, Report::read(&json))
}

#[test]
fn children_of_one_that_forbids_a_look_live_and_are_watched() {
    needs_root!(breakpoints);
    let said = "child 0 0\nended 600\n";
    let (finished, report) = watched(&[], &["dumpable=0", "children=3"]);
    // The processes forbid access as before.
    assert_eq!(finished.out(), said.repeat(3) + "own 0\n");
    // Two teams of the program, and one team of each child.
    report.is_exactly(2 * 50 * 5, 50 * 5);
    let site = report.site_at(line("closed.c", "SITE closed"));
    assert_eq!(number(site, "episodes"), 250, "{report}");
    // The user does not want to watch children.
    let (finished, report) = watched(&["--no-children"], &["dumpable=0", "children=3"]);
    assert_eq!(finished.out(), said.repeat(3) + "own 0\n");
    report.is_exactly(2 * 50 * 2, 50 * 2);
    // And they who do not forbid it stay open.
    let (finished, _) = watched(&[], &["dumpable=1"]);
    assert_eq!(finished.out(), "child 1 1\nended 600\nown 1\n");
}

#[test]
fn probes_that_go_off_and_on_come_back_to_one_that_forbids_a_look() {
    needs_root!(alone);
    let open = Open::new();
    let (sbt, closed) = (open.copy(sbt()), open.copy(&program("closed.c")));
    let json = open.path("report.json");
    let mut command = as_nobody(&sbt);
    // Far above the budget, so that they go off soon.
    command.args([
        "run",
        "--backend=ptrace",
        "--budget=0.5",
        "--json",
        "--output",
    ]);
    command.arg(&json).arg("--").arg(closed);
    command.args(["close_at=1000", "dumpable=0", "children=0", "rounds=12000"]);
    let finished = run(command).expect(4);
    assert_eq!(finished.out(), "own 0\n");
    let report = Report::read(&json);
    // The last rounds give their number, which is the number of all rounds.
    assert_eq!(report.number("arrivals"), 2 * 12_000, "{report}");
    assert_eq!(report.sites()[0]["line"], line("closed.c", "SITE closed"));
    assert!(report.is_noted("PR_SET_DUMPABLE"), "{report}");
}

#[test]
fn what_cannot_be_helped_is_said_when_it_happens() {
    needs_root!(breakpoints);
    // A filter might kill a process that makes a system call for sbt.
    let (finished, report) = watched(&[], &["dumpable=0", "filter=1"]);
    assert_eq!(finished.out(), "ended 5\nown 0\n");
    assert!(report.is_noted("filters its system calls"), "{report}");
    let (finished, report) = watched(&[], &["untraced=1"]);
    assert_eq!(finished.out(), "ended 5\nown 1\n");
    assert!(report.is_noted("CLONE_UNTRACED"), "{report}");
}

/// Where a library lay that is gone, anything may lie, which nobody can look for.
#[test]
fn what_lies_where_a_library_was_is_left_alone() {
    needs_root!(breakpoints);
    let open = Open::new();
    let (sbt, unloaded) = (open.copy(sbt()), open.copy(&program("unloaded.c")));
    let plugin = Build::of("plugin.c").flags(&["-shared", "-fPIC"]).path();
    let plugin = open.copy(&plugin);
    let named = format!("--barrier={}!plugin_run", plugin.display());
    let library = format!("library={}", plugin.display());
    for option in ["dumpable=0", "dumpable=1"] {
        let json = open.path(option);
        let mut command = as_nobody(&sbt);
        command.args(["run", "--backend=ptrace", "--budget=off", "--departures=on"]);
        command.args([&named, "--json", "--output"]);
        command.arg(&json).arg("--").arg(&unloaded);
        command.args([&library, option]);
        let finished = run(command).expect(4);
        assert_eq!(finished.out(), "loaded 1 changed 0\n", "{option}");
        // There were breakpoints.
        let report = Report::read(&json);
        let site = report.site_at(line("plugin.c", "SITE plugin"));
        assert_eq!(number(site, "episodes"), 50, "{report}");
        let is_closed = report.is_noted("PR_SET_DUMPABLE");
        assert_eq!(is_closed, option == "dumpable=0", "{report}");
    }
}

/// The kernel does not say then whose memory it is.
#[test]
fn breakpoints_stay_where_a_child_borrows_the_memory() {
    needs_root!(breakpoints);
    for option in ["dumpable=0", "dumpable=1"] {
        for children in ["--children", "--no-children"] {
            let arguments = [option, "borrows=1", "children=0"];
            let (finished, report) = watched(&[children], &arguments);
            let own = &option[9..];
            assert_eq!(finished.out(), format!("borrowed 0\nown {own}\n"));
            report.is_exactly(2 * 50 * 2, 50 * 2);
        }
    }
}

#[test]
fn who_is_killed_before_it_begins_is_let_end() {
    needs_root!(breakpoints);
    let open = Open::new();
    let (sbt, stillborn) = (open.copy(sbt()), open.copy(&program("stillborn.c")));
    for option in ["dumpable=0", "dumpable=1"] {
        for children in ["--children", "--no-children"] {
            let json = open.path("report.json");
            let mut command = as_nobody(&sbt);
            command.args(["run", "--backend=ptrace", "--budget=off", children]);
            command.args(["--json", "--output"]).arg(&json).arg("--");
            command.arg(&stillborn).args([option, "children=300"]);
            let finished = run(command).expect(3);
            assert_eq!(finished.out(), "killed 300\n", "{option} {children}");
            let report = Report::read(&json);
            report.is_exactly(602, 301);
            assert!(!report.is_noted("filters its system calls"), "{report}");
        }
    }
}
