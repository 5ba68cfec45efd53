//! The flight recorder: `--keep` with `--save-when`.

use std::{fs, path::Path, process::Command};

use crate::{
    harness::{LIMIT, Report, eventually, folder, needs_root, number, pause, run, sbt_with, start},
    programs::{line, program},
};

fn recorder(folder: &Path, rule: &str) -> Command {
    let file = folder.join("run.sbt");
    let mut sbt = sbt_with(&[
        "run",
        "--keep=400ms",
        "--budget=off",
        "--hang-time=1",
        "--no-warnings",
    ]);
    sbt.arg("--save-when").arg(rule).arg("-o").arg(file);
    sbt
}

/// The phase times of the episodes in a recording, in order, ns.
fn phases(file: &Path) -> Vec<u64> {
    let csv = file.with_extension("csv");
    let mut export = sbt_with(&["report", "--csv-episodes"]);
    export.arg(&csv).arg(file);
    run(export).expect(0);
    let text = fs::read_to_string(&csv).unwrap();
    let mut rows = text.lines().map(|row| row.split(',').collect::<Vec<_>>());
    let names = rows.next().unwrap();
    let column = |name: &str| names.iter().position(|column| *column == name).unwrap();
    let (phase, order) = (column("phase_ns"), column("order"));
    let first = rows.filter(|row| row[order] == "1");
    first.filter_map(|row| row[phase].parse().ok()).collect()
}

#[test]
fn what_came_before_a_rare_episode_is_saved_each_time() {
    needs_root!();
    let folder = folder();
    let rule = format!("phase spikes.c:{} > 55ms", line("spikes.c", "SITE meet"));
    // A file of an earlier run stays.
    fs::write(folder.path().join("run-1.sbt"), "mine").unwrap();
    let json = folder.path().join("report.json");
    let mut sbt = recorder(folder.path(), &rule);
    sbt.args(["--json", "--output"]).arg(&json);
    run({
        sbt.arg("--").arg(program("spikes.c"));
        sbt
    })
    .expect(0);
    let report = Report::read(&json);
    assert_eq!(report.number("episodes"), 1500, "{report}");
    let notes: Vec<&str> = report.notes().collect();
    let of = |name: &str| {
        let mut found = notes.iter();
        let saved = format!("saved in {name}");
        found.any(|note| note.starts_with("phase at ") && note.ends_with(&saved))
    };
    assert!(of("run-2.sbt") && of("run-3.sbt"), "{report}");
    assert_eq!(
        fs::read_to_string(folder.path().join("run-1.sbt")).unwrap(),
        "mine"
    );
    // On a busy machine a round may be late by itself.
    for name in ["run-2.sbt", "run-3.sbt"] {
        let file = folder.path().join(name);
        let phases = phases(&file);
        let bad = phases.iter().rposition(|phase| *phase > 55_000_000);
        let bad = bad.unwrap_or_else(|| panic!("{name}: {phases:?}"));
        assert!(bad >= 5, "{name}: {bad} episodes before it");
        assert!(phases.len() - bad < 400, "{name}: it is among the last");
        let mut again = sbt_with(&["report", "--json"]);
        again.arg(&file);
        let report: serde_json::Value = serde_json::from_str(&run(again).expect(0).out()).unwrap();
        assert!(number(&report, "episodes") >= 300, "{report}");
        assert_eq!(report["incomplete"], serde_json::json!([]), "{report}");
    }
}

#[test]
fn a_hang_is_saved_once() {
    needs_root!();
    let folder = folder();
    let mut sbt = recorder(folder.path(), "hang");
    sbt.arg("--").arg(program("hangs.c")).arg("order");
    let sbt = start(sbt);
    let saved = folder.path().join("run-1.sbt");
    let is_there = || fs::metadata(&saved).is_ok_and(|file| file.len() > 0);
    assert!(eventually(LIMIT, || is_there().then_some(())).is_some());
    // Long enough for more looks, and for more saves.
    pause(2500);
    sbt.signal(libc::SIGTERM);
    let finished = sbt.finish();
    assert!(
        finished.stderr.contains("threads hang: saved in run-1.sbt"),
        "{finished}"
    );
    assert!(!folder.path().join("run-2.sbt").exists(), "{finished}");
}

#[test]
fn what_is_no_rule_is_refused() {
    let refused = |options: &[&str]| {
        let mut all = vec!["run"];
        all.extend(options);
        all.extend(["--", "true"]);
        run(sbt_with(&all)).expect(2).stderr
    };
    let said = refused(&["--keep=1", "-o", "/dev/null", "--save-when=phase > 50"]);
    assert!(said.contains("has no unit"), "{said}");
    let said = refused(&["--save-when=hang"]);
    assert!(said.contains("--keep"), "{said}");
}
