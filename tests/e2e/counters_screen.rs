//! Counters on the live screen, and counters by thread in lines about single episodes and phases.

use crate::{
    harness::{needs_root, number, run, sbt_with, watch_with},
    programs::{line, program},
    screen::run_of,
    tty::{CTRL_C, Terminal},
};

/// Pages that one thread touches in each round, and who.
const PAGES: u64 = 50;
const WHO: &str = "T2";

fn site(mark: &str) -> String {
    format!("faults.c:{}", line("faults.c", mark))
}

/// The figures of the row of a table that begins with these words, by its columns of text.
fn row(screen: &str, begin: &str) -> Option<Vec<String>> {
    let line = screen.lines().find(|line| {
        let line = line.trim_start_matches([' ', '▸']);
        line.starts_with(begin)
    })?;
    let cells = line.split("  ").map(|cell| cell.trim().to_owned());
    Some(cells.filter(|cell| !cell.is_empty()).collect())
}

/// Whether a cell is the number of pages: a mean is rounded.
fn is_pages(cell: &str) -> bool {
    let number = cell.replace(' ', "").parse::<f64>();
    number.is_ok_and(|number| (number - PAGES as f64).abs() < 1.0)
}

/// Whether one thread's row has a cell with the number of pages, and none of the others has.
fn stands_out(screen: &str) -> bool {
    let has = |thread: &str| {
        let mine = screen
            .lines()
            .filter(|line| line.starts_with(&format!(" {thread} ")));
        let mut cells = mine.flat_map(|line| line.split("  "));
        cells.any(|cell| is_pages(cell.trim()))
    };
    let all = ["T0", "T1", WHO, "T3"];
    all.into_iter().all(|thread| has(thread) == (thread == WHO))
}

/// The number in a column, which stands to the right, and in the row of a thread.
fn under(screen: &str, title: &str, thread: &str) -> Option<u64> {
    let (titles, rows) = screen.split_once(title)?;
    let end = titles.lines().last()?.chars().count() + title.chars().count();
    let is_mine = |line: &&str| line.trim_start_matches([' ', '▸']).starts_with(thread);
    let row: String = rows.lines().find(is_mine)?.chars().take(end).collect();
    row.rsplit("  ").next()?.replace(' ', "").parse().ok()
}

/// One thread touches new pages in one of two phases: on which tab you look, it is seen.
#[test]
fn a_thread_that_touches_pages_stands_out() {
    needs_root!();
    for size in [(80, 24), (60, 15), (120, 40), (200, 60)] {
        let options = ["-e", "page-faults"];
        let terminal = Terminal::spawn(run_of(&options, "faults.c", &["rounds=1000000"]), size);
        terminal.shows_screen_with("moving");
        terminal.wait_until("the faults at one site", |screen| {
            let screen = screen.contents();
            let has = |mark| row(&screen, &format!("work {}", site(mark)));
            let is_there =
                |mark| has(mark).is_some_and(|cells| cells.iter().any(|cell| is_pages(cell)));
            is_there("SITE faults") && !is_there("SITE calm")
        });
        // Which site is on top changes.
        terminal.press(&format!("/{}\r", site("SITE faults")));
        terminal.sees(&format!("barriers with \"{}\"", site("SITE faults")));
        terminal.press("\r");
        terminal.wait_until("the thread's faults at the site", |screen| {
            stands_out(&screen.contents()) || size == (60, 15)
        });
        terminal.press("\x1b");
        terminal.sees("barriers with");
        terminal.press("4");
        terminal.wait_until("the faults of one phase", |screen| {
            let screen = screen.contents();
            let of_phase = |screen: &str| {
                row(screen, "work").is_some_and(|cells| cells.iter().any(|cell| is_pages(cell)))
            };
            screen.contains("page-faults") && of_phase(&screen)
        });
        terminal.press("2");
        terminal.wait_until("the sums of one thread", |screen| {
            let screen = screen.contents();
            let faults = |thread| under(&screen, "page-faults", thread);
            faults(WHO) > Some(PAGES * 20) && faults("T1") < Some(PAGES)
        });
        terminal.press(CTRL_C);
        let _whatever = terminal.finish_screen();
    }
}

/// More counters than there is room for.
#[test]
fn columns_scroll_sideways() {
    needs_root!();
    let terminal = Terminal::spawn(
        run_of(&["-e", "free"], "faults.c", &["rounds=1000000"]),
        (80, 24),
    );
    terminal.shows_screen_with("columns 1-");
    terminal.sees_no("cpu-migrations/s");
    for _ in 0..20 {
        terminal.press("\x1b[C");
    }
    terminal.sees("cpu-migrations/s");
    terminal.sees_no("columns 1-");
    for _ in 0..20 {
        terminal.press("\x1b[D");
    }
    terminal.sees("columns 1-");
    terminal.press(CTRL_C);
    let _whatever = terminal.finish_screen();
}

/// From a program without counters to one with counters, and back.
#[test]
fn counters_are_chosen_while_the_program_runs() {
    needs_root!();
    let terminal = Terminal::spawn(run_of(&[], "faults.c", &["rounds=1000000"]), (100, 30));
    terminal.shows_screen_with("moving");
    terminal.sees_no("page-faults");
    terminal.press("e");
    terminal.sees("[ ] page-faults");
    // What there is not is there, too, with the reason.
    terminal.press("xyzzy");
    terminal.sees("no counter has this text in its name");
    // What follows an escape at once would be one key with it.
    let escape = |text: &str| {
        terminal.press("\x1b");
        terminal.sees_no(&format!("with \"{text}\""));
    };
    escape("xyzzy");
    for name in ["page-faults", "alignment-faults"] {
        terminal.press(name);
        terminal.sees(&format!("[ ] {name}"));
        terminal.press(" ");
        terminal.sees(&format!("[x] {name}"));
        escape(name);
    }
    terminal.press("\r");
    terminal.sees("counted from now on: alignment-faults, page-faults");
    terminal.wait_until("the faults at one site", |screen| {
        let screen = screen.contents();
        let cells = |mark: &str| row(&screen, &format!("work {}", site(mark)));
        let is_there =
            |mark: &str| cells(mark).is_some_and(|cells| cells.iter().any(|cell| is_pages(cell)));
        is_there("SITE faults") && !is_there("SITE calm")
    });
    // A perf event that this program never causes is 0, and known.
    terminal.press("2");
    terminal.wait_until("alignment faults, of which there are none", |screen| {
        row(&screen.contents(), "T1").is_some_and(|cells| cells.iter().any(|cell| cell == "0"))
    });
    terminal.press("e");
    terminal.sees("[x] page-faults");
    terminal.press("page-faults");
    terminal.sees("counters with \"page-faults\"");
    terminal.press(" \r");
    terminal.sees("counted from now on: alignment-faults");
    terminal.press("6");
    terminal.sees("page-faults was switched on while the program ran: it is counted only from");
    terminal.sees("page-faults was switched off while the program ran: it is counted only until");
    terminal.press(CTRL_C);
    let (_status, told) = terminal.finish_screen();
    assert!(told.contains("COUNTERS, in the work"), "{told}");
}

/// A thread's counts before one barrier, before all, and in all its work.
#[test]
fn sums_of_threads_and_sites_are_the_totals() {
    needs_root!();
    let phase = format!(
        "--phase=both={}..{}",
        site("SITE calm"),
        site("SITE faults")
    );
    let options = ["-e", "free", &phase];
    let arguments = ["rounds=40", "base=200"];
    let (finished, report) = watch_with(&options, &program("faults.c"), &arguments);
    finished.expect(0);
    let phase = &report.list("conceptual_phases")[0];
    let of_threads: Vec<u64> = phase["threads"]
        .as_array()
        .unwrap()
        .iter()
        .map(|thread| number(&thread["counters"], "page-faults"))
        .collect();
    let all = number(&phase["counters"], "page-faults");
    assert_eq!(of_threads.iter().sum::<u64>(), all, "{report}");
    // Each span ends with a phase in which the pages are touched.
    let spans = number(&phase["phase_ns"], "count");
    assert!(
        (PAGES * spans..=PAGES * spans + 8).contains(&of_threads[2]),
        "{report}"
    );
    assert!(of_threads[1] < 8, "{report}");
}

#[test]
fn watched_episodes_tell_what_each_thread_counted() {
    needs_root!();
    let watch = format!("--watch={}", site("SITE faults"));
    let mut command = sbt_with(&["run", "-e", "page-faults", "--color", "never", &watch, "--"]);
    command
        .arg(program("faults.c"))
        .args(["rounds=10", "base=200"]);
    let finished = run(command).expect(0);
    let lines = finished
        .stderr
        .lines()
        .filter(|line| line.starts_with("       T"));
    let (mut mine, mut others) = (0, 0);
    for line in lines {
        let (_, faults) = line
            .split_once("  page-faults ")
            .unwrap_or_else(|| panic!("{line}"));
        let faults: u64 = faults.trim().parse().unwrap_or_else(|_| panic!("{line}"));
        if line.contains(WHO) {
            mine += 1;
            assert!((PAGES..PAGES + 8).contains(&faults), "{line}");
        } else {
            others += 1;
            assert!(faults < 8, "{line}");
        }
    }
    assert_eq!((mine, others), (10, 30), "{finished}");
}
