//! In a terminal, without the live screen: Ctrl-C reaches everybody, once.

use crate::{
    attach::Patient,
    harness::{Report, folder, needs_root, pause, sbt},
    programs::program,
    tty::{CTRL_C, Terminal},
};

#[test]
fn ctrl_c_reaches_the_program_once() {
    needs_root!();
    let interrupts = program("interrupts.c");
    let terminal = Terminal::start(
        sbt(),
        &["run", "--no-tui", "--", interrupts.to_str().unwrap()],
    );
    terminal.wait_for("ready");
    terminal.press(CTRL_C);
    let (status, shown) = terminal.finish();
    assert_eq!(status, Some(11), "{shown}");
    assert!(shown.contains("No barrier was seen"), "{shown}");
}

#[test]
fn ctrl_c_ends_the_program_and_the_report_is_shown() {
    needs_root!();
    let truth = program("truth.c");
    let arguments = [
        "run",
        "--no-tui",
        "--",
        truth.to_str().unwrap(),
        "rounds=100000",
        "base=1000",
    ];
    let terminal = Terminal::start(sbt(), &arguments);
    terminal.wait_for("ready");
    pause(300);
    terminal.press(CTRL_C);
    let (status, shown) = terminal.finish();
    assert_eq!(status, Some(130), "{shown}");
    assert!(shown.contains("meet truth.c:"), "{shown}");
    assert!(shown.contains("ended by signal 2"), "{shown}");
}

#[test]
fn a_program_that_ignores_ctrl_c_goes_on() {
    needs_root!();
    let truth = program("truth.c");
    let arguments = [
        "run",
        "--no-tui",
        "--",
        truth.to_str().unwrap(),
        "rounds=1500",
        "base=1000",
        "ignore=2",
        "status=6",
    ];
    let terminal = Terminal::start(sbt(), &arguments);
    terminal.wait_for("ready");
    pause(200);
    terminal.press(CTRL_C);
    let (status, shown) = terminal.finish();
    assert_eq!(status, Some(6), "{shown}");
    assert!(shown.contains("done 6000"), "{shown}");
    assert!(shown.contains("meet truth.c:"), "{shown}");
}

#[test]
fn ctrl_c_detaches() {
    needs_root!();
    let patient = Patient::start(&["threads=3", "rounds=2500", "base=2000", "skew=300"]);
    let pid = patient.target.pid().to_string();
    let terminal = Terminal::start(sbt(), &["attach", "--no-tui", &pid]);
    pause(1500);
    terminal.press(CTRL_C);
    let (status, shown) = terminal.finish();
    assert_eq!(status, Some(0), "{shown}");
    assert!(shown.contains("meet truth.c:"), "{shown}");
    assert!(shown.contains("still running"), "{shown}");
    patient.ended_untouched(7500);
}

#[test]
fn a_terminal_that_goes_away() {
    needs_root!();
    let folder = folder();
    let json = folder.path().join("report.json");
    let truth = program("truth.c");
    let arguments = [
        "run",
        "--no-tui",
        "--json",
        "--output",
        json.to_str().unwrap(),
        "--",
        truth.to_str().unwrap(),
        "rounds=100000",
        "base=1000",
    ];
    let mut terminal = Terminal::start(sbt(), &arguments);
    terminal.wait_for("ready");
    pause(300);
    terminal.hang_up();
    assert_eq!(terminal.wait().code(), Some(128 + libc::SIGHUP));
    assert!(Report::read(&json).number("episodes") > 10);
}
