//! The part of a run that counts: `--start-at`, `--start-after` and `--stop-at`.

use crate::{
    harness::{Finished, Report, folder, needs_root, number, run, sbt_with, watch_with},
    programs::{line, program},
};

/// The time in a line that the program prints, ns.
fn said(finished: &Finished, what: &str) -> u64 {
    let out = finished.out();
    let mut lines = out.lines();
    let time = lines.find_map(|line| line.strip_prefix(what)?.trim().parse().ok());
    time.unwrap_or_else(|| panic!("no `{what}` in {out}"))
}

fn window(options: &[&str], arguments: &[&str]) -> (Finished, Report) {
    let (finished, report) = watch_with(options, &program("window.c"), arguments);
    (finished.expect(0), report)
}

#[test]
fn what_lies_between_two_marks_counts() {
    needs_root!();
    for backend in ["--backend=ebpf", "--backend=ptrace"] {
        let options = [backend, "--start-at=solve", "--stop-at=finish"];
        let (finished, report) = window(&options, &["setup=300", "main=100", "end=300"]);
        // The other thread may arrive for the first round before the first thread begins.
        assert_eq!(report.number("episodes"), 100, "{report}");
        let window = &report.0["window"];
        assert_eq!(window["from"], "solve");
        assert_eq!(window["until"], "finish");
        assert_eq!(window["has_begun"], true);
        assert_eq!(window["has_ended"], true);
        // The program reads its clock just behind the marks, unless it loses its CPU there. What must
        // not count takes 1.2 s.
        let truth = said(&finished, "finish") - said(&finished, "solve");
        let slack = 200_000_000;
        let wall = report.number("wall_ns");
        assert!(wall.abs_diff(truth) < slack, "{wall} {truth}: {report}");
        // In all other parts the second thread is late. It may wait for the next part already.
        let sites = report.sites().iter();
        let site = sites.max_by_key(|site| number(site, "episodes")).unwrap();
        assert_eq!(number(&site["straggler"], "thread"), 0, "{report}");
    }
}

#[test]
fn the_rest_of_the_run_counts_from_a_line_on() {
    needs_root!();
    let at = line("window.c", "LINE finish");
    let start = format!("--start-at=window.c:{at}=the end");
    let folder = folder();
    let file = folder.path().join("run.sbt");
    let record = format!("--record={}", file.display());
    let (_, report) = window(&[&start, &record], &[]);
    assert_eq!(report.number("episodes"), 10, "{report}");
    let marks = report.list("marks");
    assert_eq!(marks[0]["name"], "the end");
    assert_eq!(number(&marks[0], "hits"), 1, "{report}");
    // A recording tells the same.
    let mut again = sbt_with(&["report"]);
    again.arg(&file);
    let text = run(again).expect(0).out();
    assert!(text.contains("counted from `the end`"), "{text}");
    assert!(text.contains("10 episodes"), "{text}");
    assert!(!text.contains("40 episodes"), "{text}");
}

/// A name of a mark serves too; the part ends at the first pass after its beginning.
#[test]
fn the_first_pass_of_each_mark_decides() {
    needs_root!();
    let options = ["--mark=solve=main", "--start-at=main", "--stop-at=finish"];
    let (_, report) = window(&options, &["parts=3", "setup=0"]);
    assert_eq!(report.number("episodes"), 20, "{report}");
    assert_eq!(report.list("marks").len(), 2, "{report}");
}

#[test]
fn what_never_begins_counts_nothing_and_says_why() {
    needs_root!();
    for (option, why) in [
        (
            "--start-at=never",
            "nothing was counted: no thread was seen to pass `never` (--start-at)",
        ),
        (
            "--start-after=20",
            "nothing was counted: the run was over before 20s (--start-after)",
        ),
    ] {
        let (_, report) = window(&[option], &[]);
        assert_eq!(report.number("episodes"), 0, "{report}");
        assert_eq!(report.number("arrivals"), 0, "{report}");
        assert_eq!(report.0["window"]["has_begun"], false);
        assert_eq!(report.sites().len(), 0, "{report}");
        let mut text = sbt_with(&["run", option, "--"]);
        text.arg(program("window.c"));
        let said = run(text).expect(0).stderr;
        assert!(said.contains(why), "{said}");
        assert!(!said.contains("No barrier"), "{said}");
        let mut check = sbt_with(&["check", option, "--max-imbalance=50%", "--"]);
        check.arg(program("window.c"));
        let said = run(check).expect(1).stderr;
        assert!(said.contains(why), "{said}");
    }
}

#[test]
fn counting_begins_after_a_time() {
    needs_root!();
    // 1000 rounds of 2 ms, and more on a busy machine.
    let (_, report) = window(&["--start-after=500ms"], &["main=1000"]);
    let after = number(&report.0["window"], "after_ns");
    assert_eq!(after, 500_000_000, "{report}");
    let episodes = report.number("episodes");
    assert!(episodes > 0 && episodes < 1040, "{report}");
}

#[test]
fn two_beginnings_are_one_too_many() {
    let options = ["run", "--start-at=solve", "--start-after=1", "--", "true"];
    let finished = run(sbt_with(&options)).expect(2);
    assert!(finished.stderr.contains("--start-after"), "{finished}");
}
