//! The end of the live screen, in every way: the terminal is as before, and the program goes on
//! undisturbed.

use std::{fs, process::Command};

use crate::{
    attach::{Patient, clean_code},
    harness::{LIMIT, eventually, folder, is_alive, kill, needs_root, pause, sbt},
    programs::program,
    screen::{Talks, open, open_on, run_of, seconds, site},
    tty::{
        CTRL_BRACKET, CTRL_C, CTRL_Z, Terminal, USUAL, after_screen, children, for_tty, in_order,
        program_of, sbt_for_tty,
    },
};

#[test]
fn q_leaves_and_the_program_goes_on_at_the_real_terminal() {
    needs_root!();
    let terminal = open(&[]);
    terminal.press("i");
    terminal.press("print 2\r");
    terminal.sees("line 2");
    terminal.press(CTRL_BRACKET);
    terminal.sees_no("THE PROGRAM HAS THE KEYBOARD");
    terminal.press("q");
    terminal.wait_for("still running");
    terminal.wait_for("lost 0 events");
    terminal.press("print 3\r");
    terminal.wait_for("line 3");
    terminal.press("end 5\r");
    let parts = [
        "ready\nprint 2\nyou said print 2\nline 1\nline 2\n",
        "still running",
        "BARRIERS",
        &site("SITE first"),
        "lost 0 events",
        "print 3\nyou said print 3\nline 1\nline 2\nline 3\n",
        "end 5\nyou said end 5\n",
    ];
    terminal.leaves(5, &parts);
}

/// `interrupts`, when it counts.
fn open_interrupts(arguments: &[&str]) -> Terminal {
    let terminal = Terminal::spawn(run_of(&[], "interrupts.c", arguments), USUAL);
    terminal.shows_screen_with("no episode yet");
    terminal.press("5");
    terminal.sees("ready");
    terminal
}

#[test]
fn ctrl_c_after_leaving_is_the_programs_alone() {
    needs_root!();
    let terminal = open_interrupts(&[]);
    terminal.press("q");
    terminal.wait_for("No barrier was seen");
    terminal.press(CTRL_C);
    terminal.leaves(11, &[]);
}

/// `truth`, and `sbt attach` to it when there is something to see.
fn open_on_patient() -> (Patient, Terminal) {
    let patient = Patient::start(&["threads=3", "rounds=1500", "base=2000", "skew=300"]);
    let terminal = open_on(&patient.target);
    (patient, terminal)
}

#[test]
fn d_leaves_a_program_that_was_joined() {
    needs_root!();
    let (patient, terminal) = open_on_patient();
    terminal.sees("meet truth.c:");
    terminal.press("d");
    terminal.leaves(0, &["still running", "meet truth.c:"]);
    assert!(is_alive(patient.target.pid()));
    patient.ended_untouched(4500);
}

#[test]
fn ctrl_c_reaches_the_program_once() {
    needs_root!();
    let terminal = open_interrupts(&[]);
    terminal.press(CTRL_C);
    terminal.leaves(11, &["ready", "No barrier was seen"]);
}

#[test]
fn ctrl_c_ends_the_program_and_the_report_is_shown() {
    needs_root!();
    let terminal = open(&[]);
    terminal.press(CTRL_C);
    terminal.leaves(130, &["ready", "ended by signal 2", &site("SITE first")]);
}

#[test]
fn ctrl_c_leaves_a_program_that_was_joined() {
    needs_root!();
    let (patient, terminal) = open_on_patient();
    terminal.press(CTRL_C);
    terminal.leaves(0, &["still running", "meet truth.c:"]);
    patient.ended_untouched(4500);
}

#[test]
fn signals_restore_the_terminal_and_reach_the_program() {
    needs_root!();
    for signal in [libc::SIGTERM, libc::SIGHUP, libc::SIGINT, libc::SIGQUIT] {
        let terminal = open(&[]);
        kill(terminal.pid(), signal);
        terminal.leaves(
            128 + signal,
            &["ready", "ended by signal", &site("SITE first")],
        );
    }
}

#[test]
fn a_program_that_takes_a_moment_to_end() {
    needs_root!();
    let mut command = sbt_for_tty(&["run", "--", "sh", "-c"]);
    command.arg("trap 'sleep 0.1; exit 3' TERM; echo ready; while :; do sleep 0.01; done");
    let terminal = Terminal::spawn(command, USUAL);
    terminal.shows_screen_with("no episode yet");
    terminal.press("5");
    terminal.sees("ready");
    kill(terminal.pid(), libc::SIGTERM);
    terminal.leaves(3, &["ready", "exit status 3"]);
}

#[test]
fn signals_end_the_watching_of_a_program_that_was_joined() {
    needs_root!();
    let talks = Talks::start();
    let (_, clean) = talks.tells();
    for signal in [libc::SIGTERM, libc::SIGHUP] {
        let terminal = open_on(&talks.0);
        kill(terminal.pid(), signal);
        terminal.leaves(0, &["still running", &site("SITE first")]);
        talks.goes_on(10);
        assert_eq!(talks.tells().1, clean);
    }
}

#[test]
fn killed_while_open() {
    needs_root!();
    let (patient, mut terminal) = open_on_patient();
    kill(terminal.pid(), libc::SIGKILL);
    terminal.wait();
    patient.ended_untouched(4500);

    let folder = folder();
    let until = format!("until={}", folder.path().join("now").display());
    let arguments = ["threads=3", "rounds=1000", "base=2000", "skew=300", &until];
    let mut terminal = Terminal::spawn(run_of(&[], "truth.c", &arguments), USUAL);
    terminal.shows_screen_with("moving");
    let program = program_of(terminal.pid().cast_unsigned());
    kill(terminal.pid(), libc::SIGKILL);
    terminal.wait();
    assert!(is_alive(program));
    // Whoever stays with it gives the terminal back.
    let restored = eventually(LIMIT, || terminal.is_restored().then_some(()));
    assert!(restored.is_some(), "not restored: {}", terminal.shown());
    fs::write(folder.path().join("now"), "").unwrap();
    // What it writes from then on is to be seen.
    terminal.wait_for(&clean_code());
    terminal.wait_for("done 3000");
    let gone = eventually(LIMIT, || (!is_alive(program)).then_some(()));
    assert!(gone.is_some(), "the program does not end");
}

#[test]
fn a_program_that_dies() {
    needs_root!();
    for signal in [libc::SIGSEGV, libc::SIGKILL] {
        let terminal = open(&[]);
        kill(
            program_of(terminal.pid().cast_unsigned()).cast_signed(),
            signal,
        );
        let dead = format!("ended by signal {signal}");
        terminal.leave_at_end();
        terminal.leaves(128 + signal, &["ready", &dead, &site("SITE first")]);
    }
    let talks = Talks::start();
    let terminal = open_on(&talks.0);
    talks.0.signal(libc::SIGKILL);
    terminal.leave_at_end();
    terminal.leaves(0, &["ended", &site("SITE first")]);
}

#[test]
fn a_program_that_ends() {
    needs_root!();
    let arguments = ["rounds=1500", "base=2000", "status=6"];
    let terminal = Terminal::spawn(run_of(&[], "truth.c", &arguments), USUAL);
    terminal.shows_screen_with("moving");
    terminal.leave_at_end();
    let after = terminal.leaves(6, &["done 6000\n", "exit status 6", "meet truth.c:"]);
    assert!(after.starts_with("ready\ncode "), "{after}");
}

#[test]
fn a_program_that_ends_at_once() {
    needs_root!();
    for (script, expected) in [("", 0), ("echo one; echo two >&2", 0), ("exit 9", 9)] {
        let mut command = sbt_for_tty(&["run", "--", "sh", "-c"]);
        command.arg(script);
        let terminal = Terminal::spawn(command, USUAL);
        terminal.leave_at_end();
        let (status, shown) = terminal.finish();
        assert_eq!(status, Some(expected), "{shown}");
        let after = after_screen(&shown);
        if script.starts_with("echo") {
            assert!(after.starts_with("one\ntwo\n"), "{after}");
        }
        in_order(&after, &["No barrier was seen"]);
    }
    for (name, expected) in [("./not-there", 127), ("/etc/passwd", 126)] {
        let command = sbt_for_tty(&["run", "--", name]);
        let (status, shown) = Terminal::spawn(command, USUAL).finish();
        assert_eq!(status, Some(expected), "{shown}");
        assert!(shown.contains(&format!("sbt: {name}: ")), "{shown}");
    }
}

#[test]
fn a_window_that_is_closed() {
    needs_root!();
    let mut terminal = open(&[]);
    let program = program_of(terminal.pid().cast_unsigned());
    terminal.hang_up();
    assert_eq!(terminal.wait().code(), Some(128 + libc::SIGHUP));
    assert!(!is_alive(program));

    let (patient, mut terminal) = open_on_patient();
    terminal.hang_up();
    assert_eq!(terminal.wait().code(), Some(0));
    patient.ended_untouched(4500);
}

/// A shell with job control, in which `$SBT` is sbt and `$TALKS` the program.
fn shell() -> Terminal {
    let mut command = for_tty(Command::new("bash"));
    command
        .args(["--norc", "--noprofile", "--noediting", "-i"])
        .env("SBT", sbt())
        .env("TALKS", program("talks.c"))
        .env("PS1", "$ ")
        .env_remove("PROMPT_COMMAND");
    let terminal = Terminal::spawn(command, USUAL);
    terminal.sees("$ ");
    terminal
}

/// The state of a process: one letter.
fn state(pid: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

#[track_caller]
pub fn becomes(pid: u32, states: &str) {
    let is = |state: Option<char>| state.is_some_and(|state| states.contains(state));
    let found = eventually(LIMIT, || is(state(pid)).then_some(()));
    assert!(found.is_some(), "{pid} is {:?}, not {states}", state(pid));
}

/// Waits until the shell has the terminal, as it was before.
#[track_caller]
pub fn is_at_the_prompt(terminal: &Terminal) {
    let back = eventually(LIMIT, || terminal.is_restored().then_some(()));
    assert!(back.is_some(), "not restored:\n{}", terminal.shown());
    terminal.press("echo the answer is $((40 + 2))\r");
    terminal.sees("the answer is 42");
}

/// `sbt run` of `talks` in a shell, when there is something to see; the number of
/// its process.
pub fn runs_in_shell() -> (Terminal, u32) {
    let terminal = shell();
    terminal.press("\"$SBT\" run -- \"$TALKS\"\r");
    terminal.shows_screen_with("moving");
    let sbt = children(terminal.pid().cast_unsigned())[0];
    (terminal, sbt)
}

/// Stops sbt from its screen.
#[track_caller]
pub fn stop(terminal: &Terminal) {
    terminal.press(CTRL_Z);
    terminal.wait_until("left", |screen| !screen.alternate_screen());
    is_at_the_prompt(terminal);
}

/// Brings it back.
#[track_caller]
fn resume(terminal: &Terminal) {
    terminal.press("fg\r");
    terminal.shows_screen_with("moving");
}

#[test]
fn ctrl_z_stops_and_fg_goes_on() {
    needs_root!();
    let (terminal, sbt) = runs_in_shell();
    let program = program_of(sbt);
    for _ in 0..3 {
        let before = seconds(&terminal.contents());
        stop(&terminal);
        terminal.wait_for("Stopped");
        becomes(sbt, "T");
        becomes(program, "T");
        resume(&terminal);
        becomes(program, "SR");
        terminal.wait_until("later", |screen| seconds(&screen.contents()) > before + 5);
    }
    terminal.press("i");
    terminal.press("end 4\r");
    terminal.leave_at_end();
    terminal.wait_for("sbt used");
    is_at_the_prompt(&terminal);
    terminal.press("clear; echo status $?\r");
    terminal.press("exit\r");
    let (_, shown) = terminal.finish();
    in_order(&after_screen(&shown), &["you said end 4", "exit status 4"]);
}

#[test]
fn ctrl_z_leaves_a_program_that_was_joined_alone() {
    needs_root!();
    let talks = Talks::start();
    let (_, clean) = talks.tells();
    let terminal = shell();
    terminal.press(&format!("\"$SBT\" attach {}\r", talks.0.pid()));
    terminal.shows_screen_with("moving");
    let sbt = children(terminal.pid().cast_unsigned())[0];
    stop(&terminal);
    becomes(sbt, "T");
    talks.goes_on(100);
    assert_eq!(talks.tells().1, clean);
    resume(&terminal);
    let watched = eventually(LIMIT, || (talks.tells().1 != clean).then_some(()));
    assert!(watched.is_some(), "not watched again");
    terminal.press("q");
    terminal.wait_for("sbt used");
    is_at_the_prompt(&terminal);
    assert_eq!(talks.tells().1, clean);
}

#[test]
fn in_the_background_the_shell_keeps_the_terminal() {
    needs_root!();
    let (terminal, sbt) = runs_in_shell();
    let program = program_of(sbt);
    stop(&terminal);
    terminal.press("bg\r");
    becomes(program, "SR");
    // The screen does not come back by itself.
    pause(1500);
    is_at_the_prompt(&terminal);
    resume(&terminal);
    terminal.press("i");
    terminal.press("end 4\r");
    terminal.leave_at_end();
    terminal.wait_for("exit status 4");
    is_at_the_prompt(&terminal);
}

#[test]
fn stopped_from_elsewhere() {
    needs_root!();
    let (terminal, sbt) = runs_in_shell();
    kill(sbt.cast_signed(), libc::SIGTSTP);
    becomes(sbt, "T");
    is_at_the_prompt(&terminal);
    resume(&terminal);
}

#[test]
fn in_the_background_there_is_no_screen() {
    needs_root!();
    let terminal = shell();
    let command = "\"$SBT\" run -- sh -c 'echo one; sleep 0.3; echo two' < /dev/null & wait $!; \
                   echo status $?, $(jobs -s | wc -l) stopped\r";
    terminal.press(command);
    terminal.wait_for("status 0, 0 stopped");
    let shown = terminal.shown();
    in_order(&shown, &["one", "two", "No barrier was seen", "status 0"]);
    assert!(!shown.contains("\x1b[?1049h"), "{shown}");
    is_at_the_prompt(&terminal);
}

#[test]
fn a_program_that_is_moved_to_the_background_after_leaving() {
    needs_root!();
    let (terminal, _) = runs_in_shell();
    terminal.press("q");
    terminal.wait_for("sbt used");
    pause(100);
    terminal.press(CTRL_Z);
    terminal.wait_for("Stopped");
    is_at_the_prompt(&terminal);
    terminal.press("fg\r");
    terminal.press("hello\r");
    terminal.wait_for("you said hello");
    terminal.press("end 3\r");
    is_at_the_prompt(&terminal);
}
