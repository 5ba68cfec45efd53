//! Tests of the text and the page about a sweep.

use super::{sweep_html, table::Style, text};
use sbt_engine::{
    report::{CounterUnit, counters::CounterReport},
    scale::{
        Done, Sweep,
        counts::Counts,
        samples::run,
        sweep,
        vary::{Plan, parameter, setting},
    },
};

const MS: u64 = 1_000_000;

const PLAIN: Style = Style {
    width: 80,
    color: false,
    unicode: true,
};

fn told(vary: &[&str], counts: Option<&[u32]>, serial: Option<&str>) -> Sweep {
    let plan = Plan {
        parameters: vary.iter().map(|text| parameter(text).unwrap()).collect(),
        counts: counts.map(|counts| Counts(counts.to_vec())),
        serial: serial.map(|text| setting(text).unwrap()),
    };
    let events = ["cache-misses", "L1-dcache-load-misses", "instructions"];
    let jobs = plan.jobs();
    let twice = jobs.iter().enumerate().chain(jobs.iter().enumerate());
    let runs = twice.map(|(job, of)| {
        let threads = of.threads.unwrap_or(1);
        let phases = [(10, 8 * MS / u64::from(threads)), (20, 4 * MS)];
        let mut report = run(threads, &phases, 10 * MS).report;
        report.counters = events
            .map(|name| CounterReport {
                name: name.into(),
                unit: CounterUnit::Count,
                total: Some(4000),
                work: Some(4000),
                unknown: 0,
                counted_pct: None,
            })
            .into();
        Done { job, report }
    });
    let runs = runs.collect();
    sweep(&plan, &["{v}".into(), "{n}".into()], runs, Vec::new()).unwrap()
}

#[test]
fn versions_sizes_and_threads_are_a_table_that_fits() {
    let all = told(
        &["version=./serial,./lu1d", "size=16,32"],
        Some(&[1, 2]),
        Some("version=./serial"),
    );
    let text = text::sweep(&all, PLAIN);
    for words in [
        "ALL RUNS, speed-up against ./serial (1 thread), same size\nversion   size  threads  time",
        "\n./serial    16        1     1210    0 %      1.00      1.00     ?",
        "\n./lu1d      32        2      810    0 %      1.49      0.75     ?",
        "▶ version=./lu1d size=16: ",
        "COUNTERS per 1000 instructions, in the work of all threads\n",
        "COUNTERS per second of CPU time, in the work of all threads\n",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{line}\n{text}");
    }
    let page = sweep_html::page(&all);
    assert!(
        page.contains("<td>./lu1d</td><td>32</td><td>2</td>"),
        "{page}"
    );
}

#[test]
fn long_values_have_a_line_of_their_own() {
    let long = "version=./a/very/long/path/to/the/first,./a/very/long/path/to/the/second";
    let all = told(&[long, "size=16,32"], Some(&[1, 2]), None);
    let text = text::sweep(&all, PLAIN);
    let cell = "\nversion=./a/very/long/path/to/the/second size=32\n";
    assert!(text.contains(cell), "{text}");
    assert!(
        text.contains("against the fewest threads, same version and size"),
        "{text}"
    );
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{line}\n{text}");
    }
}

#[test]
fn without_numbers_of_threads_only_times_are_told() {
    let text = text::sweep(&told(&["size=16,32"], None, None), PLAIN);
    assert!(
        !text.contains("speed-up") && !text.contains("threads  "),
        "{text}"
    );
    assert!(
        text.contains("\nALL RUNS\nsize  time ms  range  idle  balance\n16  "),
        "{text}"
    );
}

#[test]
fn values_drive_neither_a_terminal_nor_a_page() {
    let hostile = "v=<script>alert(1)</script>,\u{1b}[2J,é";
    let all = told(&[hostile], Some(&[1]), Some("v=é"));
    let page = sweep_html::page(&all);
    assert!(
        !page.contains("<script") && !page.contains('\u{1b}'),
        "{page}"
    );
    let ascii = Style {
        unicode: false,
        ..PLAIN
    };
    // Values stay as the user typed them.
    let text = text::sweep(&all, ascii).replace(['\n', 'é'], "");
    assert!(
        !text.contains(char::is_control) && text.is_ascii(),
        "{text:?}"
    );
}
