//! The live screen in a terminal, as a user sees and uses it.

use std::{fs, path::Path, process::Command};

use crate::{
    harness::{LIMIT, Started, command, eventually, folder, is_alive, kill, needs_root, start},
    programs::{line, program},
    tty::{CTRL_BRACKET, ESC, Size, Terminal, USUAL, in_order, sbt_for_tty},
};

/// `sbt run` of a program of these tests, called as from its own folder.
pub fn run_of(options: &[&str], source: &'static str, arguments: &[&str]) -> Command {
    let path = program(source);
    let name = format!("./{}", path.file_name().unwrap().display());
    let mut command = sbt_for_tty(&["run"]);
    command.args(options).arg("--").arg(name).args(arguments);
    command.current_dir(path.parent().unwrap());
    command
}

/// `sbt run` of `talks` with the live screen, when there is something to see.
pub fn open(arguments: &[&str]) -> Terminal {
    let terminal = Terminal::spawn(run_of(&[], "talks.c", arguments), USUAL);
    terminal.shows_screen_with("moving");
    terminal
}

/// Opens the screen with `sbt attach`.
pub fn open_on(target: &Started) -> Terminal {
    let terminal = Terminal::spawn(sbt_for_tty(&["attach", &target.pid().to_string()]), USUAL);
    terminal.shows_screen_with("moving");
    terminal
}

/// Where `talks` waits.
pub fn site(mark: &str) -> String {
    format!("work talks.c:{}", line("talks.c", mark))
}

/// `talks` without sbt.
pub struct Talks(pub Started);

impl Talks {
    pub fn start() -> Self {
        let mut target = start(command(program("talks.c"), &[] as &[&str]));
        target.wait_for("ready");
        Self(target)
    }

    /// The number of rounds that the program has done, and the code of its barrier function.
    #[track_caller]
    pub fn tells(&self) -> (u64, String) {
        let codes = |out: &str| out.matches("\ncode ").count();
        let before = codes(&self.0.out());
        self.0.signal(libc::SIGUSR1);
        let told = || Some(self.0.out()).filter(|out| codes(out) > before && out.ends_with('\n'));
        let out = eventually(LIMIT, told).unwrap();
        let (rounds, code) = out.rsplit_once("\ncode ").unwrap();
        let rounds = rounds.rsplit_once("rounds ").unwrap().1;
        (rounds.parse().unwrap(), code.trim().to_owned())
    }

    /// Waits until it has done so many rounds more.
    #[track_caller]
    pub fn goes_on(&self, more: u64) {
        let (before, _) = self.tells();
        let on = eventually(LIMIT, || (self.tells().0 >= before + more).then_some(()));
        assert!(on.is_some(), "the program stands still");
    }
}

#[test]
fn shows_what_there_is_at_every_size() {
    needs_root!();
    for size in [USUAL, (60, 15), (200, 60)] as [Size; 3] {
        let terminal = Terminal::spawn(run_of(&[], "talks.c", &[]), size);
        for text in [
            "moving",
            "./talks",
            "3 threads",
            &site("SITE first"),
            &site("SITE second"),
            "T0 talks",
            "T2 talks",
            "T2 talks comes last in",
            // In a narrow one no more of it.
            if size == (60, 15) {
                "1Barr"
            } else {
                "Barriers"
            },
            "Help",
            "q leave",
        ] {
            terminal.sees(text);
        }
        assert!(terminal.has_screen(), "at {size:?}");
        assert!(terminal.look(vt100::Screen::hide_cursor), "at {size:?}");
        terminal.press("i");
        terminal.press("end 7\r");
        terminal.leave_at_end();
        let after = terminal.leaves(7, &["ready", "end 7\nyou said end 7\n", "exit status 7"]);
        in_order(&after, &["BARRIERS", &site("SITE first"), "THREADS"]);
    }
}

#[test]
fn joins_a_program_that_runs() {
    needs_root!();
    let talks = Talks::start();
    let terminal = open_on(&talks.0);
    terminal.sees(&site("SITE first"));
    terminal.sees("T2 talks");
    terminal.press("5");
    terminal.sees("The program's output does not pass through sbt");
    terminal.press("i");
    terminal.sees("the program keeps its own terminal and keyboard");
    terminal.press("q");
    terminal.leaves(0, &["still running", "BARRIERS", &site("SITE first")]);
    assert!(is_alive(talks.0.pid()));
}

/// A text that only this tab shows, in their order.
const TABS: [(&str, &str); 10] = [
    ("Barriers", "barriers: where thread time is lost"),
    ("Threads", "threads: who works, and who waits"),
    ("Timeline", "a character, as it happens"),
    ("Phases", "phases, longest total time first"),
    ("Output", "output of the program"),
    ("Log", "events come from ebpf"),
    ("Waits", "where threads sleep or spin"),
    ("Parallel", "normalised processor time by"),
    ("Path", "critical path: whose work takes the time, by"),
    ("Help", "1-0, Tab, Shift-Tab"),
];

#[test]
fn every_tab_by_number_by_tab_and_by_mouse() {
    needs_root!();
    let terminal = open(&[]);
    let only = |shown: usize| {
        let what = format!("{} alone", TABS[shown].0);
        terminal.wait_until(&what, |screen| {
            let contents = screen.contents();
            (0..)
                .zip(TABS)
                .all(|(tab, (_, text))| contents.contains(text) == (tab == shown))
        });
    };
    for tab in [1, 6, 2, 7, 9, 5, 8, 3, 4, 0] {
        terminal.press(&((tab + 1) % 10).to_string());
        only(tab);
    }
    for tab in [1, 2, 3, 4, 5, 6, 7, 8, 9, 0] {
        terminal.press("\t");
        only(tab);
    }
    for tab in [9, 8, 7] {
        terminal.press("\x1b[Z");
        only(tab);
    }
    for tab in [3, 0, 7, 9] {
        terminal.click(&format!("{}{}", (tab + 1) % 10, TABS[tab].0));
        only(tab);
    }
    terminal.press("1");
    only(0);
    for help in ["?", "h", "\x1bOP"] {
        terminal.press(help);
        only(9);
        terminal.press("1");
        only(0);
    }
}

#[test]
fn parallelism_and_path_by_all_that_there_is() {
    needs_root!();
    let terminal = open(&[]);
    terminal.sees("efficiency ");
    terminal.press("8");
    terminal.sees("time by the number of busy threads");
    terminal.sees("processor time by phase");
    for what in ["site", "thread", "function"] {
        terminal.press("\x1b[C");
        terminal.sees(&format!("processor time by {what}"));
    }
    terminal.sees("Not sampled: --sample");
    terminal.press("\x1b[D");
    terminal.sees("T0 talks");
    terminal.press("\r");
    terminal.sees("by site");
    terminal.press(ESC);
    terminal.sees("Enter details");
    terminal.press("9");
    terminal.sees("if work were balanced");
    terminal.press("\r");
    terminal.sees("perfect balance");
    terminal.press(ESC);
    terminal.sees("Enter details");
    terminal.press("\x1b[C");
    terminal.sees("critical path: whose work takes the time, by thread");
    terminal.press("1");
}

#[test]
fn details_of_a_site_open_and_close() {
    needs_root!();
    let terminal = open(&[]);
    terminal.sees(&site("SITE second"));
    terminal.press("\r");
    terminal.sees("who comes last");
    terminal.sees("Esc back");
    terminal.press(ESC);
    terminal.sees_no("who comes last");
    terminal.sees("Enter details");
    // The worst is on top; the other one is below.
    let title = |mark| format!("── {} ──", site(mark));
    terminal.sees(&title("SITE first"));
    terminal.press("j");
    terminal.sees(&title("SITE second"));
    terminal.press("\x1b[A");
    terminal.sees(&title("SITE first"));
    // One click selects, another one opens.
    terminal.click(&format!("  {}", site("SITE second")));
    terminal.sees(&title("SITE second"));
    terminal.click(&format!("▸ {}", site("SITE second")));
    terminal.sees("who comes last");
}

#[test]
fn rows_are_sorted_and_filtered() {
    needs_root!();
    let terminal = open(&[]);
    terminal.sees("▼lost");
    terminal.press("s");
    terminal.sees("▼wall");
    terminal.press("S");
    terminal.sees("▲wall");
    // From worst on top to worst below.
    let (first, second) = (site("SITE first"), site("SITE second"));
    terminal.wait_until("the other way round", |screen| {
        let contents = screen.contents();
        let at = |text| contents.find(&format!(" {text}  "));
        at(&second).is_some() && at(&second) < at(&first)
    });
    terminal.click("episodes  ");
    terminal.sees("▼episodes");
    terminal.press("/");
    terminal.sees("contains:");
    terminal.press(second.split_once(' ').unwrap().1);
    terminal.sees_no(&format!("{first}  "));
    terminal.press("\r");
    terminal.sees_no("contains:");
    terminal.press("/");
    terminal.press("x\r");
    terminal.sees("no site contains");
    terminal.press(ESC);
    terminal.sees_no("no site contains");
    terminal.sees(&format!("{first}  "));
    terminal.press("3/");
    terminal.sees("nothing to filter on this tab");
}

#[test]
fn the_display_stands_still_while_paused() {
    needs_root!();
    let terminal = open(&[]);
    terminal.press("4");
    terminal.sees("phases, longest total time first");
    let body = |screen: &vt100::Screen| screen.rows(0, 80).skip(3).take(20).collect::<Vec<_>>();
    let clock = |screen: &vt100::Screen| seconds(&screen.contents());
    terminal.press("p");
    terminal.sees("PAUSED");
    let (still, then) = terminal.look(|screen| (body(screen), clock(screen)));
    terminal.wait_until("a second later", |screen| clock(screen) > then + 10);
    terminal.sees("moving");
    assert_eq!(terminal.look(body), still);
    terminal.press("p");
    terminal.sees_no("PAUSED");
    terminal.wait_until("moving again", |screen| body(screen) != still);
}

/// The clock of the screen, tenths of seconds.
pub fn seconds(contents: &str) -> u64 {
    let is_clock = |word: &&str| word.contains(':') && word.contains('.');
    let line = contents.lines().next().unwrap_or_default();
    let clock = line.split_whitespace().find(is_clock).unwrap_or("0:0.0");
    let digits = |text: &str| text.parse::<u64>().unwrap_or(0);
    let (minutes, rest) = clock.split_once(':').unwrap_or_default();
    digits(minutes) * 600 + digits(&rest.replace('.', ""))
}

#[test]
fn probes_go_off_and_on_again() {
    needs_root!();
    let talks = Talks::start();
    let (_, clean) = talks.tells();
    let terminal = open_on(&talks.0);
    assert_ne!(talks.tells().1, clean, "a probe would be seen");
    terminal.press(" ");
    terminal.sees("not watching for");
    assert_eq!(talks.tells().1, clean);
    let counted = || {
        let contents = terminal.contents();
        let line = contents.lines().next().unwrap().to_owned();
        let (before, _) = line.split_once(" episodes").unwrap();
        before.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()
    };
    let before = counted();
    talks.goes_on(100);
    assert_eq!(counted(), before);
    assert_eq!(talks.tells().1, clean);
    terminal.press(" ");
    terminal.sees("moving");
    assert_ne!(talks.tells().1, clean);
    talks.goes_on(100);
    // The longest pieces of time.
    terminal.press("3--");
    terminal.wait_until("with a gap", |screen| {
        let contents = screen.contents();
        let mut lane = contents
            .lines()
            .filter(|line| line.starts_with(" T0 talks"));
        lane.any(|line| line.contains('/'))
    });
    terminal.press("6");
    terminal.sees("not watched for");
    terminal.press("q");
    terminal.leaves(0, &["still running", "the probes were off for"]);
    assert_eq!(talks.tells().1, clean);
}

#[test]
fn probes_go_off_while_threads_come_and_go() {
    needs_root!();
    let target = start(command(program("comeandgo.c"), &["waves=1000000"]));
    let terminal = open_on(&target);
    terminal.press(" ");
    terminal.sees("not watching for");
    terminal.press("q");
    terminal.leaves(0, &["the probes were off for"]);
}

#[test]
fn left_while_the_probes_are_off() {
    needs_root!();
    let talks = Talks::start();
    let (_, clean) = talks.tells();
    let terminal = open_on(&talks.0);
    terminal.press(" ");
    terminal.sees("not watching for");
    terminal.press("q");
    terminal.leaves(0, &["BARRIERS", "the probes were off for"]);
    talks.goes_on(10);
    assert_eq!(talks.tells().1, clean);
}

#[test]
fn sums_begin_anew() {
    needs_root!();
    let terminal = open(&[]);
    terminal.press("2");
    let work = |screen: &vt100::Screen| {
        let contents = screen.contents();
        let row = contents.lines().find(|line| line.contains("T0 talks"))?;
        let mut words = row.split_whitespace().skip_while(|word| *word != "talks");
        words.nth(1)?.parse::<u64>().ok()
    };
    // The unit is the unit of the largest time: ms, as long as no thread has worked for 10 s.
    terminal.wait_until("a second of work", |screen| {
        screen.contents().contains("work ms") && work(screen) > Some(1000)
    });
    terminal.press("r");
    terminal.sees("all totals are reset");
    terminal.wait_until("less work", |screen| work(screen) < Some(1000));
    terminal.sees("moving");
}

/// `sbt run` of `talks` in a folder of the test's own.
fn open_in(folder: &Path) -> Terminal {
    let mut command = sbt_for_tty(&["run", "--"]);
    command.arg(program("talks.c")).current_dir(folder);
    let terminal = Terminal::spawn(command, USUAL);
    terminal.shows_screen_with("moving");
    terminal.sees(&site("SITE second"));
    terminal
}

#[test]
fn reports_are_saved_and_never_overwritten() {
    needs_root!();
    let folder = folder();
    let terminal = open_in(folder.path());
    let files = || {
        let names = fs::read_dir(folder.path()).unwrap();
        let mut names: Vec<_> = names.map(|entry| entry.unwrap().path()).collect();
        names.sort();
        names
    };
    terminal.press("w");
    terminal.sees("saved in sbt-");
    let first = files();
    assert_eq!(first.len(), 1, "{first:?}");
    let report = fs::read_to_string(&first[0]).unwrap();
    in_order(&report, &["BARRIERS", &site("SITE first"), "THREADS"]);
    assert!(!report.contains('\x1b'), "{report}");
    terminal.press("w");
    terminal.sees("-2.txt");
    assert_eq!(files().len(), 2, "{:?}", files());
    assert_eq!(fs::read_to_string(&first[0]).unwrap(), report);
}

#[test]
fn a_site_gets_a_name_for_good() {
    needs_root!();
    let folder = folder();
    let file = folder.path().join("sbt.toml");
    let before = "# ours\n[names]\n# elsewhere\n\"lu.c:1\" = \"other\" # kept\n";
    fs::write(&file, before).unwrap();
    let terminal = open_in(folder.path());
    terminal.sees(&format!("▸ {}", site("SITE first")));
    terminal.press("n");
    terminal.sees(&format!("name of {}", site("SITE first")));
    assert!(!terminal.look(vt100::Screen::hide_cursor), "one types");
    terminal.press("LU \"factor\" é\r");
    terminal.sees("is now named LU \"factor\" é, saved in");
    terminal.sees("▸ LU \"factor\" é ");
    assert!(fs::read_to_string(&file).unwrap().starts_with(before));
    // Given up, and empty: nothing changes.
    let after = fs::read_to_string(&file).unwrap();
    terminal.press("njunk");
    terminal.sees("junk");
    terminal.press(ESC);
    terminal.sees_no("name of");
    terminal.press("n\r");
    terminal.sees_no("name of");
    assert_eq!(fs::read_to_string(&file).unwrap(), after);
    terminal.press("i");
    terminal.press("end 0\r");
    terminal.leave_at_end();
    let (status, report) = terminal.finish_screen();
    assert_eq!(status, Some(0), "{report}");
    in_order(
        &report,
        &["BARRIERS", "LU \"factor\" é", &site("SITE second")],
    );
    // The next run knows it.
    let terminal = open_in(folder.path());
    terminal.sees("▸ LU \"factor\" é ");
}

#[test]
fn the_program_gets_the_keyboard_and_gives_it_back() {
    needs_root!();
    let terminal = open(&[]);
    terminal.press("i");
    terminal.sees("THE PROGRAM HAS THE KEYBOARD");
    terminal.press("hello q\r");
    terminal.sees("you said hello q");
    terminal.press(CTRL_BRACKET);
    terminal.sees_no("THE PROGRAM HAS THE KEYBOARD");
    terminal.press("1");
    terminal.sees(TABS[0].1);
    terminal.press("i");
    terminal.press("again\r");
    terminal.sees("you said again");
    // Twice, and not as a part of another key.
    for _ in 0..2 {
        terminal.press(ESC);
        crate::harness::pause(400);
    }
    terminal.sees_no("THE PROGRAM HAS THE KEYBOARD");
    terminal.press("2");
    terminal.sees(TABS[1].1);
    terminal.press("i");
    // Pasted, as terminals do it.
    terminal.press("\x1b[200~end 3\x1b[201~\r");
    terminal.leave_at_end();
    let (status, after) = terminal.finish_screen();
    assert_eq!(status, Some(3), "{after}");
    let said: Vec<&str> = after
        .lines()
        .filter(|line| line.starts_with("you said"))
        .collect();
    assert_eq!(
        said,
        ["you said hello q", "you said again", "you said end 3"]
    );
}

#[test]
fn lines_of_the_program_and_of_sbt_stand_in_the_order_of_time() {
    needs_root!();
    let watch = run_of(&["--watch-all"], "prints.c", &[]);
    let terminal = Terminal::spawn(watch, (120, 40));
    terminal.shows_screen_with("moving");
    terminal.press("5");
    terminal.sees("output, with lines of sbt");
    terminal.sees("after 4");
    terminal.sees(", episode 4: ");
    let shown = terminal.look(vt100::Screen::contents);
    let order: Vec<String> = (1..=4)
        .flat_map(|round| {
            let episode = format!(", episode {round}: ");
            [format!("before {round}"), episode, format!("after {round}")]
        })
        .collect();
    in_order(
        &shown,
        &order.iter().map(String::as_str).collect::<Vec<_>>(),
    );
    terminal.leave_at_end();
    let (status, after) = terminal.finish_screen();
    assert_eq!(status, Some(0), "{after}");
    assert!(after.contains("before 4\nafter 4\n"), "{after}");
}

#[test]
fn no_key_is_lost() {
    needs_root!();
    let terminal = open(&[]);
    // Each key comes with a change of the size.
    for (key, tab, size) in [("2", 1, (81, 24)), ("4", 3, (82, 24)), ("1", 0, (83, 24))] {
        kill(terminal.pid(), libc::SIGSTOP);
        terminal.press(key);
        terminal.resize(size);
        kill(terminal.pid(), libc::SIGCONT);
        terminal.sees(TABS[tab].1);
    }
    // More than is read at a time: lines of 89 bytes.
    terminal.press("i");
    let text = "0123456789".repeat(8);
    let lines: Vec<String> = (0..30)
        .map(|number| format!("{number:08} {text}"))
        .collect();
    terminal.press(&format!("{}\rend 0\r", lines.join("\r")));
    terminal.leave_at_end();
    let (status, after) = terminal.finish_screen();
    assert_eq!(status, Some(0), "{after}");
    // The echo of the next line comes in between.
    let said = after.split("you said ").skip(1);
    let said: Vec<&str> = said.filter_map(|text| text.lines().next()).collect();
    assert_eq!(said[..lines.len()], lines);
}
