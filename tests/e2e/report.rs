//! The text report on real programs.

use std::path::Path;

use serde_json::json;

use crate::{
    harness::{
        Finished, attach, best_of_five, command, needs_root, number, pause, run, sbt_with, start,
        watch,
    },
    programs::{line, program},
};

pub fn text_of(options: &[&str], program: &Path, arguments: &[&str]) -> String {
    let mut command = sbt_with(&["run"]);
    command.args(options).arg("--").arg(program).args(arguments);
    // The locale is the same on every machine.
    command.env("LC_ALL", "C.UTF-8");
    let Finished { stderr, .. } = run(command).expect(0);
    for line in stderr.lines().skip(1) {
        assert!(line.chars().count() <= 80, "{line}\n{stderr}");
    }
    stderr
}

#[test]
fn the_headline_tells_where_all_thread_time_went() {
    needs_root!();
    let arguments = ["threads=4", "rounds=40", "base=500", "skew=500"];
    let text = text_of(&[], &program("truth.c"), &arguments);
    let headline: Vec<&str> = text.lines().skip(2).take(2).collect();
    assert!(
        headline[0].starts_with("of ") && headline[0].contains(" thread time: "),
        "{text}"
    );
    assert!(
        headline[0].ends_with(" waiting for the last thread,"),
        "{text}"
    );
    assert!(headline[1].contains("resuming afterwards, "), "{text}");
    assert!(headline[1].ends_with(" work"), "{text}");
    let text = text_of(&["--departures=off"], &program("truth.c"), &arguments);
    assert!(text.contains("\n? resuming afterwards, "), "{text}");
}

#[test]
fn a_straggler_among_many_threads_is_shown() {
    needs_root!(alone);
    let arguments = ["threads=64", "rounds=10", "base=1000", "skew=300"];
    best_of_five(|| {
        let text = text_of(&[], &program("truth.c"), &arguments);
        assert_eq!(
            text.matches("and 40 threads more: work ").count(),
            2,
            "{text}"
        );
        // Where others are late instead it has no row.
        let row = text.lines().find(|line| line.starts_with("  T63 truth  "));
        let last = row.and_then(|row| row.split_whitespace().last()?.parse::<u32>().ok());
        last.filter(|last| *last > 5).map(drop).ok_or(text)
    });
}

#[test]
fn threads_without_rows_of_their_own_are_counted_but_blamed_for_nothing() {
    needs_root!();
    let arguments = ["waves=1500", "threads=4", "rounds=2"];
    let text = text_of(&["--budget=off"], &program("comeandgo.c"), &arguments);
    assert!(
        text.contains(" 6000 threads, 1 barrier, 3000 episodes\n"),
        "{text}"
    );
    assert!(text.contains("which one is unknown"), "{text}");
    assert!(text.contains("further threads"), "{text}");
    let report = watch(&program("comeandgo.c"), &arguments);
    let shared = report.threads().last().unwrap();
    assert!(number(shared, "threads") > 1900, "{report}");
    let straggler = &report.sites()[0]["straggler"];
    assert_ne!(straggler["thread"], shared["id"], "{straggler}");
    assert!(
        straggler["unknown_pct"].as_f64() > Some(20.0),
        "{straggler}"
    );
}

#[test]
fn barriers_used_from_one_line_have_stragglers_of_their_own() {
    needs_root!();
    let report = watch(&program("arrays.c"), &[]);
    report.is_exactly(3 * 2 * 40, 3 * 40);
    let site = report.site_at(line("arrays.c", "SITE team"));
    assert_eq!(site["straggler"]["pattern"], "persistent", "{site:#}");
    let by_barrier = site["straggler_by_barrier"].as_array().unwrap();
    let mut stragglers: Vec<u64> = by_barrier.iter().map(|at| number(at, "thread")).collect();
    stragglers.sort_unstable();
    assert_eq!(stragglers, [0, 3, 4], "{site:#}");
    let text = text_of(&[], &program("arrays.c"), &[]);
    assert!(
        text.contains("  3 barriers are used from here; their stragglers differ, one to each:\n"),
        "{text}"
    );
}

#[test]
fn detaching_in_the_middle_raises_no_alarm() {
    needs_root!();
    let truth = program("truth.c");
    let arguments = ["threads=3", "rounds=2000", "base=1000", "skew=5000"];
    let mut target = start(command(&truth, &arguments));
    target.wait_for("ready");
    pause(100);
    let mut command = sbt_with(&["attach", "--duration=500ms"]);
    command.arg(target.pid().to_string());
    let finished = run(command).expect(0);
    assert!(!finished.stderr.contains("STILL WAITING"), "{finished}");
    let report = attach(target.pid(), &["--duration=300ms"]).report();
    for open in report.list("unfinished") {
        // 0 of a thread whose arrival was the last that was seen.
        assert!(
            number(open, "idle_ns") >= number(open, "waiting_ns"),
            "{open:#}"
        );
    }
}

#[test]
fn the_nearest_line_is_the_fewest_lines_away() {
    needs_root!();
    let at = line("truth.c", "SITE meet");
    // No site is near by spelling.
    let name = format!("--name=truth.c:{}=A", at + 1000);
    let text = text_of(&[&name], &program("truth.c"), &["rounds=3"]);
    let text: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        text.contains(&format!("the nearest is truth.c:{at}")),
        "{text}"
    );
}

#[test]
fn the_header_can_be_typed_again() {
    needs_root!();
    let text = text_of(&[], "/bin/echo".as_ref(), &["a b", "it's", ""]);
    assert!(
        text.contains(r"/bin/echo 'a b' 'it'\''s' '' · pid"),
        "{text}"
    );
}

#[test]
fn without_barriers_children_are_told_of() {
    needs_root!();
    let shell: &Path = "/bin/sh".as_ref();
    let text = text_of(&["--no-children"], shell, &["-c", "/bin/true; /bin/true"]);
    let text: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        text.contains("The program started other processes,"),
        "{text}"
    );
    let text = text_of(&[], "/bin/true".as_ref(), &[]);
    assert!(!text.contains("started other processes"), "{text}");
    let report = watch("/bin/true".as_ref(), &[]);
    assert_eq!(report.0["had_children"], json!(false));
    assert_eq!(report.0["none_found_because"], json!(null));
}
