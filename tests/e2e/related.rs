//! Counters beside who is late, and counters of two runs.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

use crate::{
    diff::conforms,
    harness::{Report, best_of_five, folder, needs_root, run, sbt_with},
};

const COUNTERS: &str = "page-faults,context-switches,task-clock";

/// A program of the set of faults.
fn built(folder: &Path, source: &str) -> PathBuf {
    let path = folder.join(source.replace('.', "-"));
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("faults")
        .join(source);
    let status = Command::new("gcc")
        .args(["-O2", "-g", "-pthread", "-o"])
        .args([&path, &source])
        .status()
        .unwrap();
    assert!(status.success());
    path
}

fn reported(folder: &Path, name: &str, program: &Path, arguments: &[&str]) -> (PathBuf, Report) {
    let json = folder.join(name);
    let mut command = sbt_with(&["run", "-q", "-e", COUNTERS, "--json", "--output"]);
    command.arg(&json).arg("--").arg(program).args(arguments);
    run(command).expect(0);
    let report = Report::read(&json);
    (json, report)
}

/// The correlation of a counter at the only site.
fn related<'a>(report: &'a Report, counter: &str) -> &'a Value {
    let all = report.0["sites"][0]["related"].as_array().unwrap();
    let found = all.iter().find(|it| it["counter"] == counter);
    found.unwrap_or_else(|| panic!("no {counter}: {report}"))
}

fn texts(report: &Report) -> String {
    let all = report.0["verdicts"].as_array().into_iter().flatten();
    let texts = all.map(|verdict| verdict["text"].as_str().unwrap());
    texts.collect::<Vec<_>>().join("\n")
}

const SAID: &str = "Who is late ";

#[test]
fn who_is_late_for_page_faults_has_more_of_them() {
    needs_root!(alone);
    let folder = folder();
    let program = built(folder.path(), "fresh_pages.c");
    best_of_five(|| {
        let (_, report) = reported(folder.path(), "fresh.json", &program, &[]);
        let texts = texts(&report);
        // Whatever else the machine does: nothing but page faults may be told.
        let others = texts
            .replace("Who is late has more page-faults,", "")
            .replace(
                "Who is late at worker fresh_pages.c:38 has more page-faults,",
                "",
            );
        assert!(!others.contains(SAID), "{texts}");
        assert_eq!(related(&report, "task-clock")["made_by_lateness"], true);
        let faults = related(&report, "page-faults");
        assert_eq!(faults["made_by_lateness"], false);
        let correlation = faults["correlation"].as_f64().unwrap();
        if correlation >= 0.7 && texts.contains(SAID) {
            Ok(())
        } else {
            Err(format!("{correlation}: {texts}"))
        }
    });
}

#[test]
fn page_faults_that_all_have_explain_nobody() {
    needs_root!(alone);
    let folder = folder();
    let program = built(folder.path(), "even_pages.c");
    let (_, report) = reported(folder.path(), "even.json", &program, &[]);
    let faults = related(&report, "page-faults");
    let correlation = faults["correlation"].as_f64().unwrap_or(0.0);
    assert!(correlation.abs() < 0.7, "{faults}");
    assert!(!texts(&report).contains(SAID), "{}", texts(&report));
}

#[test]
fn rates_of_counters_are_compared() {
    needs_root!();
    let folder = folder();
    let program = built(folder.path(), "fresh_pages.c");
    let (before, _) = reported(folder.path(), "before.json", &program, &["4"]);
    let (after, _) = reported(folder.path(), "after.json", &program, &["12"]);
    let diff = |options: &[&str]| {
        let mut command = sbt_with(&["diff"]);
        command.args(options).args([&before, &after]);
        command.env("LC_ALL", "C.UTF-8").env("COLUMNS", "200");
        run(command).expect(0)
    };
    let all: Value = serde_json::from_slice(&diff(&["--json"]).stdout).unwrap();
    conforms(&all, "diff.schema.json");
    for counters in [&all["counters"], &all["sites"][0]["counters"]] {
        let named = |name: &str| {
            let all = counters.as_array().unwrap();
            all.iter().find(|it| it["name"] == name).unwrap()
        };
        let faults = named("page-faults");
        let sum = faults["sum"]["change_pct"].as_f64().unwrap();
        // 1 to 4 MiB each time, and three times as much.
        assert!((190.0..=201.0).contains(&sum), "{faults}");
        assert_eq!(faults["rate"]["per"], "cpu-second");
        let rate = |when: &str| faults["rate"][when].as_f64().unwrap();
        assert!(rate("after") > 1.2 * rate("before"), "{faults}");
        // Time has no rate by itself.
        let clock = named("task-clock");
        assert_eq!(clock["rate"]["per"], Value::Null);
        assert_eq!(clock["rate"]["before"], Value::Null);
    }
    let text = String::from_utf8(diff(&[]).stdout).unwrap();
    let line = text.lines().find(|line| line.starts_with("page-faults: "));
    let line = line.unwrap_or_else(|| panic!("{text}"));
    assert!(line.contains(" per second of CPU time (+"), "{text}");
    assert!(line.contains("; in all "), "{text}");
}
