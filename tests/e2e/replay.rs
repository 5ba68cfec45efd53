//! `sbt replay FILE`: a recording in the live screen, for anybody.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use tempfile::TempDir;

use crate::{
    harness::{folder, kill, needs_root, run, sbt, sbt_with},
    look::{as_nobody, open},
    programs::{line, program},
    record::recorded,
    tty::{CTRL_C, ESC, Terminal, USUAL, for_tty},
};

/// Wide enough that the table has the number of episodes.
const WIDE: (u16, u16) = (200, 60);

/// A recording, and a program that everybody may execute.
struct Recorded {
    folder: TempDir,
    sbt: PathBuf,
    file: PathBuf,
}

impl Recorded {
    /// Of `truth`, of some rounds of 4 ms.
    fn new(options: &[&str], rounds: u32) -> Self {
        let folder = folder();
        let sbt = open(folder.path(), sbt());
        let file = folder.path().join("run.sbt");
        let rounds = format!("rounds={rounds}");
        let arguments = ["threads=3", &rounds, "base=4000", "skew=500"];
        recorded(options, &program("truth.c"), &arguments, &file);
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        Self { folder, sbt, file }
    }

    /// A command of an ordinary user.
    fn command(&self, arguments: &[&str], file: &Path) -> Command {
        let mut command = as_nobody(&self.sbt);
        command.args(arguments).arg(file);
        command.current_dir(self.folder.path());
        for_tty(command)
    }

    fn replay(&self, options: &[&str]) -> Terminal {
        self.replay_of(options, &self.file)
    }

    fn replay_of(&self, options: &[&str], file: &Path) -> Terminal {
        let mut arguments = vec!["replay"];
        arguments.extend(options);
        let terminal = Terminal::spawn(self.command(&arguments, file), WIDE);
        terminal.shows_screen_with("replay · ");
        terminal
    }

    /// The output of `sbt report` for a file.
    fn reported(&self, file: &Path) -> String {
        let out = self.folder.path().join("report.txt");
        let _not_there = fs::remove_file(&out);
        let out_text = out.to_string_lossy();
        run(self.command(&["report", "--output", &out_text], file)).expect(0);
        fs::read_to_string(out).unwrap()
    }

    /// The reports that were saved.
    fn saved(&self) -> Vec<String> {
        let files = fs::read_dir(self.folder.path()).unwrap();
        let files = files.map(|file| file.unwrap().path());
        let is_saved = |path: &PathBuf| {
            let name = path.file_name().unwrap().to_string_lossy();
            name.starts_with("sbt-") && name.ends_with(".txt")
        };
        let files = files.filter(is_saved);
        files
            .map(|path| fs::read_to_string(path).unwrap())
            .collect()
    }
}

fn site() -> String {
    format!("meet truth.c:{}", line("truth.c", "SITE meet"))
}

/// The episodes in the table's only row; 0 without one.
fn episodes(screen: &vt100::Screen) -> u64 {
    let row = screen
        .rows(0, WIDE.0)
        .find_map(|row| Some(row.split_once("▸ ")?.1.to_owned()));
    let cells = row.as_deref().and_then(|row| row.split_once("truth.c:"));
    let number = cells.and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse().ok());
    number.unwrap_or(0)
}

#[test]
fn pause_step_and_end_without_any_privilege() {
    needs_root!();
    let recorded = Recorded::new(&[], 300);
    let terminal = recorded.replay(&["--speed", "1/4"]);
    terminal.sees("×1/4");
    terminal.press(" ");
    terminal.sees("· paused");
    terminal.press("g.");
    terminal.wait_until("one episode", |screen| episodes(screen) == 1);
    terminal.press("..");
    terminal.wait_until("three episodes", |screen| episodes(screen) == 3);
    terminal.press("+++++");
    terminal.sees("×8");
    terminal.press("[");
    terminal.sees("×4");
    assert_eq!(terminal.look(episodes), 3, "it stands still");
    terminal.press("G");
    terminal.sees("at the end");
    terminal.sees("ended, status 0");
    terminal.wait_until("all episodes", |screen| episodes(screen) == 300);
    terminal.sees(&site());
    // What is shown then is what `sbt report` says.
    terminal.press("w");
    terminal.sees("saved in ");
    assert_eq!(recorded.saved(), [recorded.reported(&recorded.file)]);
    // And once more from the beginning.
    terminal.press("g ");
    terminal.sees("· paused");
    terminal.wait_until("a beginning", |screen| episodes(screen) < 300);
    terminal.press("q");
    assert_eq!(terminal.finish().0, Some(0));
}

#[test]
fn keys_of_a_program_that_runs_say_that_there_is_none() {
    needs_root!();
    let recorded = Recorded::new(&[], 20);
    let terminal = recorded.replay(&["--speed=max"]);
    terminal.sees("at the end");
    for (key, text) in [
        ("d", "no program to detach from"),
        ("r", "totals of a recording cannot be reset"),
        ("n", "a recording has fixed names"),
        ("i", "no program that reads keys"),
        (" ", "this is the end"),
        (".", "this is the end"),
    ] {
        terminal.press(key);
        terminal.sees(text);
    }
    terminal.press("0");
    terminal.sees("keys while a recording is played");
    terminal.press(ESC);
    terminal.press("5");
    terminal.sees("does not contain the output");
    terminal.press(CTRL_C);
    assert_eq!(terminal.finish().0, Some(0));
}

#[test]
fn signals_give_the_terminal_back() {
    needs_root!();
    let recorded = Recorded::new(&[], 20);
    for signal in [libc::SIGTERM, libc::SIGHUP, libc::SIGINT] {
        let terminal = recorded.replay(&["--speed=1/16"]);
        kill(terminal.pid(), signal);
        assert_eq!(terminal.finish().0, Some(0), "signal {signal}");
    }
}

#[test]
fn what_is_damaged_is_shown_as_far_as_it_goes() {
    needs_root!();
    let recorded = Recorded::new(&[], 300);
    let whole = fs::read(&recorded.file).unwrap();
    let cut = recorded.folder.path().join("cut.sbt");
    fs::write(&cut, &whole[..whole.len() * 2 / 3]).unwrap();
    let terminal = recorded.replay_of(&["--speed=max"], &cut);
    terminal.sees("at the end");
    terminal.sees("the recording has no end");
    terminal.wait_until("episodes", |screen| (10..300).contains(&episodes(screen)));
    terminal.press("w");
    terminal.sees("saved in ");
    assert_eq!(recorded.saved(), [recorded.reported(&cut)]);
    terminal.press("q");
    assert_eq!(terminal.finish().0, Some(0));
}

#[test]
fn of_a_bounded_recording_the_last_seconds_are_shown() {
    needs_root!();
    let kept = Recorded::new(&["--keep=500ms"], 800);
    let terminal = kept.replay(&["--speed=max"]);
    terminal.sees("at the end");
    // The head of a screen comes before its rows.
    let is_a_part = |screen: &_| (60..600).contains(&episodes(screen));
    terminal.wait_until("a part of 800 episodes", is_a_part);
    terminal.press("6");
    terminal.sees("recording does not contain");
    terminal.press("q");
    assert_eq!(terminal.finish().0, Some(0));

    let statistics = Recorded::new(&["--stats-only"], 20);
    let finished = run(sbt_with(&["replay", &statistics.file.to_string_lossy()])).expect(1);
    let text = finished.one_line();
    assert!(text.contains("`sbt report` shows the statistics"), "{text}");
}

#[test]
fn what_cannot_be_shown_is_told_in_one_line() {
    let folder = folder();
    let file = folder.path().join("text");
    fs::write(&file, "something else\n").unwrap();
    let finished = run(sbt_with(&["replay", &file.to_string_lossy()])).expect(1);
    let text = finished.one_line();
    assert!(text.contains("is not a recording of sbt"), "{text}");
    let mut command = for_tty(sbt_with(&["replay"]));
    command.arg(&file);
    let (status, shown) = Terminal::spawn(command, USUAL).finish();
    assert_eq!(status, Some(1));
    assert!(shown.contains("is not a recording of sbt"), "{shown}");
    let finished = run(sbt_with(&["replay", "--speed=3", "run.sbt"])).expect(2);
    assert!(finished.stderr.contains("1/16"), "{finished}");

    needs_root!();
    let recorded = Recorded::new(&[], 20);
    let finished = run(sbt_with(&["replay", &recorded.file.to_string_lossy()])).expect(1);
    let text = finished.one_line();
    assert!(
        text.contains("no terminal") && text.contains("`sbt report "),
        "{text}"
    );
}
