//! The live screen on terminals of every kind, with programs of every kind.

use std::fs;

use vt100::Screen;

use crate::{
    harness::{LIMIT, command, eventually, folder, kill, needs_root, run, sbt, sbt_with},
    programs::program,
    screen::{Talks, open, open_on, run_of, seconds, site},
    tty::{CTRL_BRACKET, CTRL_C, Size, Terminal, USUAL, for_tty, in_order, sbt_for_tty},
};

/// The bytes that begin a screen.
const ENTER: &str = "\x1b[?1049h";
/// The bytes at the end of every frame as long as nobody types.
const FRAME: &str = "\x1b[?25l";

#[test]
fn follows_the_size_of_the_window() {
    needs_root!();
    let terminal = open(&[]);
    // Alternating larger and smaller, on a tab of each kind.
    for (tab, size) in [
        ("1", (120, 40)),
        ("2", (60, 15)),
        ("3", (200, 60)),
        ("4", (61, 16)),
        ("8", (80, 24)),
        ("9", (61, 16)),
        ("0", (80, 24)),
    ] as [(&str, Size); 7]
    {
        terminal.press(tab);
        terminal.resize(size);
        terminal.wait_until(&format!("of size {size:?}"), |screen| {
            let last = screen.rows(0, size.0).last().unwrap_or_default();
            last.contains("? help") && screen.contents().contains("moving")
        });
    }
    for size in [(59, 24), (80, 14), (30, 8), (20, 3)] as [Size; 4] {
        terminal.resize(size);
        terminal.wait_until(&format!("of size {size:?}"), |screen| {
            let words = screen.contents().replace(['\n', ' '], "");
            let text = format!("makethewindowlarger:atleast60×15,now{}×{}", size.0, size.1);
            words.starts_with(&text[..25]) && (size.1 < 8 || words == text)
        });
    }
    terminal.resize((1, 1));
    terminal.resize(USUAL);
    terminal.press("1");
    terminal.shows_screen_with(&site("SITE second"));
    terminal.sees("q leave");
    terminal.press("i");
    terminal.press("end 0\r");
    terminal.leave_at_end();
    assert_eq!(terminal.finish_screen().0, Some(0));
}

#[test]
fn the_program_is_told_the_size_that_it_has() {
    needs_root!();
    let mut command = sbt_for_tty(&["run", "--", "sh", "-c"]);
    command.arg("trap 'stty size' WINCH; echo set; while :; do sleep 0.05; done");
    let terminal = Terminal::spawn(command, USUAL);
    terminal.sees("no episode yet");
    terminal.press("5");
    terminal.sees("set");
    terminal.resize((120, 40));
    terminal.sees("35 120");
    terminal.press("q");
    terminal.wait_for("No barrier was seen");
    // Now it has all of it.
    terminal.wait_for("40 120");
    terminal.resize(USUAL);
    terminal.wait_for("24 80");
    terminal.press(CTRL_C);
    terminal.leaves(130, &["35 120", "40 120", "24 80"]);
}

#[test]
fn a_terminal_without_a_size() {
    needs_root!();
    // Nothing can be seen on it.
    let command = run_of(&["--exit-with-program"], "talks.c", &[]);
    let terminal = Terminal::spawn(command, (0, 0));
    terminal.wait_for(ENTER);
    terminal.press("i");
    terminal.press("end 8\r");
    assert_eq!(terminal.finish_screen().0, Some(8));
}

/// Runs `talks` for a moment and returns the bytes of the screen.
fn drawn(variables: &[(&str, &str)], options: &[&str], name: &str) -> String {
    let mut command = run_of(options, "talks.c", &[&format!("name={name}")]);
    command.envs(variables.iter().copied());
    let terminal = Terminal::spawn(command, USUAL);
    terminal.shows_screen_with("moving");
    for (tab, text) in [
        ("2", "idle"),
        ("3", "now"),
        ("8", "average"),
        ("9", "critical path"),
        ("0", "1-0, Tab"),
        ("5", "ready"),
    ] {
        terminal.press(tab);
        terminal.sees(text);
    }
    terminal.press("i");
    terminal.press("\u{6f22}\r");
    terminal.sees("you said");
    terminal.press("end 0\r");
    terminal.leave_at_end();
    let (status, shown) = terminal.finish();
    assert_eq!(status, Some(0), "{shown}");
    shown.rsplit_once("\x1b[?1049l").unwrap().0.to_owned()
}

/// Whether a text sets any colour.
fn is_coloured(text: &str) -> bool {
    text.split("\x1b[").skip(1).any(|sequence| {
        let numbers = sequence.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';');
        let (numbers, end) = sequence.split_at(sequence.len() - numbers.len());
        let colour =
            |number: &str| matches!(number.parse(), Ok(30..=38 | 40..=48 | 90..=97 | 100..=107));
        end.starts_with('m') && numbers.split(';').any(colour)
    })
}

#[test]
fn colours_only_where_wanted() {
    needs_root!();
    assert!(is_coloured(&drawn(&[], &[], "a")));
    assert!(is_coloured(&drawn(&[("NO_COLOR", "")], &[], "a")));
    assert!(!is_coloured(&drawn(&[("NO_COLOR", "1")], &[], "a")));
    assert!(!is_coloured(&drawn(&[], &["--color=never"], "a")));
}

#[test]
fn ascii_where_the_terminal_knows_no_more() {
    needs_root!();
    assert!(!drawn(&[], &[], "a").is_ascii());
    for variables in [
        &[("LANG", "C")],
        &[("LC_ALL", "C")],
        &[("LC_CTYPE", "POSIX")],
    ] {
        let shown = drawn(variables, &[], "\u{6f22}\u{5b57}é");
        let other = shown.chars().find(|c| !c.is_ascii());
        assert_eq!(other, None, "with {variables:?}");
    }
}

#[test]
fn no_screen_where_none_is_wanted() {
    needs_root!();
    let folder = folder();
    let file = folder.path().join("report.json");
    let cases: [(&str, &[&str]); 6] = [
        ("dumb", &[]),
        ("", &[]),
        ("xterm", &["--no-tui"]),
        ("xterm", &["--tui", "--no-tui"]),
        ("xterm", &["-q"]),
        ("xterm", &["--json", "--output", file.to_str().unwrap()]),
    ];
    for (term, options) in cases {
        let mut command = run_of(options, "truth.c", &["rounds=10"]);
        command.env("TERM", term);
        let (status, shown) = Terminal::spawn(command, USUAL).finish();
        assert_eq!(status, Some(0), "{shown}");
        assert!(!shown.contains(ENTER), "{term} {options:?}: {shown}");
        assert!(shown.contains("done 40"), "{term} {options:?}: {shown}");
    }
    let mut shell = for_tty(command(
        "sh",
        &["-c", "\"$0\" run -- \"$1\" rounds=10 | cat"],
    ));
    shell.arg(sbt()).arg(program("truth.c"));
    let (status, shown) = Terminal::spawn(shell, USUAL).finish();
    assert_eq!(status, Some(0), "{shown}");
    assert!(!shown.contains(ENTER), "{shown}");
    assert!(shown.contains("meet truth.c:"), "{shown}");
}

#[test]
fn a_screen_that_cannot_be_had_is_refused() {
    needs_root!();
    let finished = run(sbt_with(&["run", "--tui", "--", "echo", "never"])).expect(125);
    assert!(
        finished
            .one_line()
            .contains("no terminal for the live screen")
    );
    assert_eq!(finished.out(), "");
    let mut command = run_of(&["--tui"], "truth.c", &["rounds=10"]);
    command.env("TERM", "dumb");
    let (status, shown) = Terminal::spawn(command, USUAL).finish();
    assert_eq!(status, Some(125), "{shown}");
    assert!(shown.contains("no terminal for the live screen"), "{shown}");
}

#[test]
fn a_screen_while_output_goes_to_a_file() {
    needs_root!();
    let folder = folder();
    let out = folder.path().join("out");
    let script = "exec \"$0\" run --tui -- \"$1\" > \"$2\"";
    let mut shell = for_tty(command("sh", &["-c", script]));
    shell.arg(sbt()).arg(program("talks.c")).arg(&out);
    let terminal = Terminal::spawn(shell, USUAL);
    terminal.shows_screen_with("moving");
    terminal.press("i");
    terminal.press("hello\r");
    let said = || fs::read_to_string(&out).unwrap().contains("you said hello");
    assert!(eventually(LIMIT, || said().then_some(())).is_some());
    terminal.press("end 2\r");
    terminal.leave_at_end();
    let after = terminal.leaves(2, &["exit status 2", "BARRIERS"]);
    assert!(!after.contains("you said"), "{after}");
}

/// Where in its row the lane of a thread begins.
fn lane(screen: &Screen, thread: &str) -> Option<u16> {
    let (rows, columns) = screen.size();
    let text = |row, column| screen.cell(row, column).map_or("", vt100::Cell::contents);
    let is_its = |row: &u16| {
        screen
            .rows(0, columns)
            .nth(usize::from(*row))
            .is_some_and(|line| line.starts_with(&format!(" {thread} ")))
    };
    let row = (3..rows).find(is_its)?;
    (0..columns).find(|column| matches!(text(row, *column), "█" | "░" | "▁" | "▒" | "▓"))
}

#[test]
fn names_of_threads_do_not_break_the_frame() {
    needs_root!();
    let names = [
        "\x1b]0;pwn\x07\x1b[2J",
        "\u{6f22}\u{5b57}\u{6f22}\u{5b57}",
        "a\tb\rc\nd",
        "\u{202e}abc\u{301}",
        "\u{ff}\u{200b}x",
    ];
    for name in names {
        let terminal = open(&[&format!("name={name}")]);
        terminal.press("3");
        let columns = |screen: &Screen| ["T0", "T1", "T2"].map(|thread| lane(screen, thread));
        terminal.wait_until(&format!("three lanes with {name:?}"), |screen| {
            let columns = columns(screen);
            columns[0].is_some() && columns.iter().all(|column| *column == columns[0])
        });
        // Drawn anew as a whole it is the same.
        let rows = |screen: &Screen| {
            let rows: Vec<String> = screen.rows(0, 80).collect();
            [2, 13, 22, 23].map(|row| rows[row].trim_end().to_owned())
        };
        terminal.press("p");
        terminal.sees("PAUSED");
        // The last row of the same frame.
        terminal.sees("p go on");
        let before = terminal.look(rows);
        terminal.resize((81, 24));
        terminal.resize(USUAL);
        terminal.wait_until("drawn anew", |screen| rows(screen) == before);
        terminal.press("p2");
        terminal.sees("T1 ");
        terminal.press("1");
        terminal.sees("Enter details");
        let (status, shown) = {
            terminal.press("i");
            terminal.press("end 0\r");
            terminal.leave_at_end();
            terminal.finish()
        };
        assert_eq!(status, Some(0), "{shown}");
        for bad in ["\x1b]0;", "\x1b[2Jx", "\x07", "\u{202e}"] {
            assert!(!shown.contains(bad), "{bad:?} in {shown}");
        }
    }
}

#[test]
fn much_output_with_escape_sequences() {
    needs_root!();
    let mut command = sbt_for_tty(&["run", "--", "sh", "-c"]);
    let script = "printf '\\033[2J\\033[9;9H\\033[31mred\\033[0m\\033[?1000l\\033[?1004l\\n'; \
                  yes 0123456789 | head -n 900000; echo the end; exec \"$0\"";
    command.arg(script).arg(program("talks.c"));
    let terminal = Terminal::spawn(command, USUAL);
    terminal.shows_screen_with("moving");
    terminal.press("5");
    terminal.sees("the end");
    terminal.sees("ready");
    terminal.sees("10 800 0");
    assert!(terminal.has_screen());
    terminal.press("g");
    terminal.sees("End: follow new output");
    terminal.press("G");
    terminal.sees("the end");
    terminal.press("i");
    terminal.press("end 0\r");
    terminal.leave_at_end();
    let (status, after) = terminal.finish_screen();
    assert_eq!(status, Some(0), "{}", after.len());
    assert!(after.starts_with("\x1b[2J\x1b[9;9H\x1b[31mred\x1b[0m"));
    assert_eq!(after.matches("\n0123456789\n").count(), 450_000);
    in_order(
        &after,
        &[
            "\n0123456789\nthe end\nready\n",
            "exit status 0",
            "BARRIERS",
        ],
    );
}

#[test]
fn a_silent_program_costs_few_frames() {
    needs_root!();
    let terminal = open(&[]);
    terminal.press("i");
    terminal.press("rest\r");
    terminal.press(CTRL_BRACKET);
    terminal.press("1");
    terminal.sees("no episode for");
    // Over so many tenths of a second by the clock of the screen: frames, bytes.
    let cost = |tenths: u64| {
        let clock = || terminal.look(|screen| seconds(&screen.contents()));
        let (frames, bytes) = (terminal.shown().matches(FRAME).count(), terminal.written());
        let end = clock() + tenths;
        terminal.wait_until("later", |screen| seconds(&screen.contents()) >= end);
        (
            terminal.shown().matches(FRAME).count() - frames,
            terminal.written() - bytes,
        )
    };
    let (frames, bytes) = cost(30);
    assert!(frames <= 8, "{frames} frames for 3 steps of the clock");
    assert!(bytes <= 2_000, "{bytes} bytes for {frames} frames");
    // The user looks elsewhere.
    terminal.press("\x1b[O");
    let _last = cost(10);
    let (frames, _) = cost(30);
    assert!(frames <= 8, "{frames} frames for nobody");
}

#[test]
fn a_terminal_that_takes_nothing_holds_nobody_up() {
    needs_root!();
    let talks = Talks::start();
    let (_, clean) = talks.tells();
    let terminal = open_on(&talks.0);
    terminal.stall(true);
    for size in [(200, 60), (190, 50), (200, 60), (190, 50)] {
        terminal.resize(size);
        talks.goes_on(50);
    }
    kill(terminal.pid(), libc::SIGTERM);
    let off = eventually(LIMIT, || (talks.tells().1 == clean).then_some(()));
    assert!(off.is_some(), "the probes stay");
    terminal.stall(false);
    assert_eq!(terminal.finish().0, Some(0));
}

#[test]
fn the_demo_is_shown_by_its_name() {
    needs_root!();
    let command = sbt_for_tty(&["demo", "lu-block"]);
    let terminal = Terminal::spawn(command, (120, 40));
    terminal.shows_screen_with("sbt demo lu-block");
    terminal.sees("lu.rs:");
    terminal.press(CTRL_C);
    assert_eq!(terminal.finish_screen().0, Some(130));
}
