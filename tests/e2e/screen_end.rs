//! The live screen when the program has ended: it stays until a key is pressed, and what comes
//! after it is as ever.

use std::{
    fs,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use crate::{
    harness::{
        LIMIT, Report, eventually, folder, is_alive, kill, needs_root, pause, run, sbt_with,
    },
    screen::{Talks, open, open_on, run_of, site},
    screen_leave::{becomes, is_at_the_prompt, runs_in_shell, stop},
    tty::{CTRL_C, ESC, Terminal, USUAL, in_order, program_of, sbt_for_tty},
};

/// `sbt run` of a short program that ends with 7, when the screen says so.
fn ended(options: &[&str]) -> Terminal {
    let arguments = ["rounds=100", "base=1000", "status=7"];
    let terminal = Terminal::spawn(run_of(options, "truth.c", &arguments), USUAL);
    terminal.shows_screen_with("program ended, status 7, ");
    terminal
}

/// The lines behind the screen of [`ended`].
const AFTER: [&str; 3] = ["done 400\n", "exit status 7", "meet truth.c:"];

#[test]
fn any_key_leaves_but_those_that_look_around() {
    needs_root!();
    for key in ["q", "\r", " ", "x", ESC, CTRL_C] {
        let terminal = ended(&[]);
        terminal.sees("q or any other key: leave");
        for (tab, text) in [
            ("2", "threads: who works, and who waits"),
            ("\t", "now"),
            ("5", "done 400"),
            ("?", "1-0, Tab, Shift-Tab"),
            ("\x1b[B", "1-0, Tab, Shift-Tab"),
            ("1", "▼lost"),
            ("s", "▼wall"),
        ] {
            terminal.press(tab);
            terminal.sees(text);
        }
        terminal.press("/");
        terminal.sees("contains:");
        // Here it is a letter.
        terminal.press("q");
        terminal.sees("no site contains");
        terminal.press(ESC);
        terminal.sees_no("no site contains");
        // What is open is closed first.
        terminal.click("▸ meet");
        terminal.sees("who comes last");
        terminal.press(ESC);
        terminal.sees_no("who comes last");
        assert!(terminal.has_screen());
        terminal.press(key);
        terminal.leaves(7, &AFTER);
    }
}

#[test]
fn the_program_and_its_recording_are_released_meanwhile() {
    needs_root!();
    let folder = folder();
    let file = folder.path().join("run.sbt");
    let options = ["-o", file.to_str().unwrap()];
    let command = run_of(&options, "talks.c", &[]);
    let terminal = Terminal::spawn(command, USUAL);
    terminal.shows_screen_with("moving");
    let program = program_of(terminal.pid().cast_unsigned());
    terminal.press("i");
    terminal.press("end 3\r");
    terminal.shows_screen_with("program ended, status 3, ");
    let gone = eventually(LIMIT, || (!is_alive(program)).then_some(()));
    assert!(gone.is_some(), "the program is still there, or a zombie");
    // The recording is closed by a thread of its own.
    let told = || {
        let report = run(sbt_with(&["report".as_ref(), file.as_os_str()])).expect(0);
        Some(report.out()).filter(|text| !text.contains("NOT COMPLETE"))
    };
    let report = eventually(LIMIT, told).expect("the recording is closed");
    in_order(&report, &["exit status 3", "BARRIERS"]);
    assert!(terminal.has_screen());
    terminal.press("q");
    terminal.leaves(3, &["you said end 3", "exit status 3"]);
}

#[test]
fn the_time_is_that_of_the_program() {
    needs_root!();
    let folder = folder();
    let json = folder.path().join("report.json");
    let json = json.to_str().unwrap();
    let begin = Instant::now();
    let terminal = ended(&["--tui", "--json", "--output", json]);
    let until_then = begin.elapsed();
    let first = || terminal.look(|screen| screen.rows(0, 80).next().unwrap_or_default());
    let written = terminal.rests();
    let said = first();
    let frame = terminal.contents();
    pause(2500);
    // Nothing is drawn where nothing happens.
    assert_eq!(terminal.written(), written, "{}", terminal.contents());
    assert_eq!(terminal.contents(), frame);
    terminal.press("q");
    terminal.finish();
    let wall_ns = Report::read(Path::new(json)).number("wall_ns");
    assert!(Duration::from_nanos(wall_ns) <= until_then, "{wall_ns} ns");
    // Rounded, as in the report.
    let tenths = (wall_ns + 50_000_000) / 100_000_000;
    let time = format!("status 7, {}.{} s ", tenths / 10, tenths % 10);
    assert!(said.contains(&time), "{time}: {said}");
}

#[test]
fn next_to_no_cpu_is_used_meanwhile() {
    needs_root!();
    let terminal = ended(&[]);
    let used = || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", terminal.pid())).unwrap();
        let fields = stat.rsplit_once(") ").unwrap().1.split(' ');
        let ticks = fields
            .skip(11)
            .take(2)
            .map(|ticks| ticks.parse::<u64>().unwrap());
        ticks.sum::<u64>()
    };
    let before = used();
    pause(3000);
    // Hundredths of a second.
    let ticks = used() - before;
    assert!(ticks <= 3, "{ticks} ticks in 3 s");
    terminal.press("q");
    terminal.leaves(7, &AFTER);
}

#[test]
fn with_the_option_the_screen_leaves_with_the_program() {
    needs_root!();
    let folder = folder();
    fs::write(folder.path().join("sbt.toml"), "exit-with-program = true\n").unwrap();
    let of = |options: &[&str]| run_of(options, "truth.c", &["rounds=100", "status=7"]);
    let option = of(&["--exit-with-program"]);
    let mut variable = of(&[]);
    variable.env("SBT_EXIT_WITH_PROGRAM", "1");
    let mut file = sbt_for_tty(&["run", "--"]);
    file.arg(crate::programs::program("truth.c"));
    file.args(["rounds=100", "status=7"])
        .current_dir(folder.path());
    for command in [option, variable, file] {
        Terminal::spawn(command, USUAL).leaves(7, &AFTER);
    }
    let talks = Talks::start();
    let mut command = sbt_for_tty(&["attach", "--exit-with-program"]);
    command.arg(talks.0.pid().to_string());
    let terminal = Terminal::spawn(command, USUAL);
    terminal.shows_screen_with("moving");
    talks.0.signal(libc::SIGKILL);
    terminal.leaves(0, &["ended", &site("SITE first")]);
}

#[test]
fn signals_leave_with_the_programs_status() {
    needs_root!();
    for signal in [libc::SIGTERM, libc::SIGHUP, libc::SIGINT, libc::SIGQUIT] {
        let terminal = ended(&[]);
        kill(terminal.pid(), signal);
        terminal.leaves(7, &AFTER);
    }
}

#[test]
fn a_window_that_is_closed_leaves() {
    needs_root!();
    let mut terminal = ended(&[]);
    terminal.hang_up();
    assert_eq!(terminal.wait().code(), Some(7));
}

#[test]
fn the_signal_that_ended_the_program_has_its_name() {
    needs_root!();
    let terminal = open(&[]);
    let program = program_of(terminal.pid().cast_unsigned());
    kill(program.cast_signed(), libc::SIGKILL);
    terminal.shows_screen_with("program ended by signal 9 (SIGKILL), ");
    terminal.press("q");
    terminal.leaves(128 + libc::SIGKILL, &["ended by signal 9", "BARRIERS"]);
}

#[test]
fn the_end_of_a_program_that_was_joined_stays_too() {
    needs_root!();
    let talks = Talks::start();
    let terminal = open_on(&talks.0);
    talks.0.signal(libc::SIGKILL);
    terminal.shows_screen_with("program ended, watched for ");
    terminal.press("2");
    terminal.sees("has ended");
    terminal.press("q");
    terminal.leaves(0, &["ended", &site("SITE first")]);
}

/// A shell that leaves a process behind, which writes when `now` is there.
fn leaves_one_behind(now: &Path) -> Command {
    let mut command = sbt_for_tty(&["run", "--", "sh", "-c"]);
    command
        .arg("(while [ ! -e \"$0\" ]; do sleep 0.05; done; echo later) & echo first; exit 3")
        .arg(now);
    command
}

#[test]
fn what_others_write_on_is_shown() {
    needs_root!();
    let folder = folder();
    let now = folder.path().join("now");
    let terminal = Terminal::spawn(leaves_one_behind(&now), USUAL);
    terminal.shows_screen_with("program ended, status 3, ");
    terminal.press("5");
    terminal.sees("first");
    fs::write(&now, "").unwrap();
    terminal.sees("later");
    terminal.press("q");
    terminal.leaves(3, &["first\nlater\n", "exit status 3"]);
}

#[test]
fn ctrl_z_stops_and_fg_shows_the_end_again() {
    needs_root!();
    let (terminal, sbt) = runs_in_shell();
    terminal.press("i");
    terminal.press("end 4\r");
    terminal.shows_screen_with("program ended, status 4, ");
    let time = |screen: &vt100::Screen| screen.rows(0, 80).next().unwrap_or_default();
    terminal.rests();
    let before = terminal.look(time);
    for _ in 0..2 {
        stop(&terminal);
        terminal.wait_for("Stopped");
        becomes(sbt, "T");
        terminal.press("fg\r");
        terminal.shows_screen_with("program ended, status 4, ");
        terminal.wait_until("as before", |screen| time(screen) == before);
    }
    terminal.press("q");
    terminal.wait_for("sbt used");
    is_at_the_prompt(&terminal);
    terminal.press("clear; echo status $?\r");
    terminal.press("exit\r");
    let (_, shown) = terminal.finish();
    in_order(&shown, &["you said end 4", "exit status 4"]);
}

#[test]
fn killed_while_the_end_is_shown() {
    needs_root!();
    let mut terminal = ended(&[]);
    kill(terminal.pid(), libc::SIGKILL);
    terminal.wait();
    // The keeper of the program's terminal gives ours back.
    let restored = eventually(LIMIT, || terminal.is_restored().then_some(()));
    assert!(restored.is_some(), "not restored: {}", terminal.shown());
}
