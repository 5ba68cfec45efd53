//! `sbt diff`: two runs of real programs side by side.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

use crate::{
    harness::{Finished, best_of_five, folder, needs_root, run, sbt_with},
    programs::{line, program},
};

/// Arguments for a program whose episodes are long enough to be told from noise.
const ARGUMENTS: [&str; 3] = ["threads=3", "rounds=60", "even=6000"];

/// Records a run with further arguments.
#[track_caller]
fn record(folder: &Path, name: &str, program: &Path, more: &[&str]) -> PathBuf {
    let file = folder.join(name);
    let mut command = sbt_with(&["run", "-q", "-o"]);
    command.arg(&file).arg("--").arg(program);
    command.args(ARGUMENTS).args(more);
    run(command).expect(0);
    file
}

fn diff(options: &[&str], before: &Path, after: &Path) -> Finished {
    let mut command = sbt_with(&["diff"]);
    command
        .args(options)
        .arg(before)
        .arg(after)
        .env("LC_ALL", "C.UTF-8");
    run(command)
}

/// The comparison as JSON, which conforms to its schema.
#[track_caller]
fn compared(before: &Path, after: &Path) -> Value {
    let finished = diff(&["--json"], before, after).expect(0);
    assert_eq!(finished.stderr, "", "{finished}");
    let all: Value = serde_json::from_slice(&finished.stdout).unwrap();
    conforms(&all, "diff.schema.json");
    all
}

/// Fails unless a value is as a schema of the documents wants it.
#[track_caller]
pub fn conforms(value: &Value, schema: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../docs")
        .join(schema);
    let text = fs::read_to_string(path).unwrap();
    let schema = jsonschema::validator_for(&serde_json::from_str(&text).unwrap()).unwrap();
    let errors: Vec<_> = schema
        .iter_errors(value)
        .map(|error| format!("{}: {error}", error.instance_path))
        .collect();
    assert!(errors.is_empty(), "against the schema: {errors:#?}");
}

fn called(mark: &str) -> String {
    format!("work scales.c:{}", line("scales.c", mark))
}

fn list<'a>(all: &'a Value, field: &str) -> &'a [Value] {
    all[field].as_array().unwrap()
}

#[test]
fn a_program_run_twice_has_not_changed() {
    needs_root!(alone);
    let folder = folder();
    let scales = program("scales.c");
    best_of_five(|| {
        let before = record(folder.path(), "before.sbt", &scales, &[]);
        let after = record(folder.path(), "after.sbt", &scales, &[]);
        let all = compared(&before, &after);
        assert_eq!(list(&all, "sites").len(), 3, "{all:#}");
        for field in ["notes", "only_before", "only_after"] {
            assert!(list(&all, field).is_empty(), "{all:#}");
        }
        let changed = |it: &&Value| it["phase_ns"]["beyond_noise"] == true;
        let changed: Vec<_> = list(&all, "sites").iter().filter(changed).collect();
        let finished = diff(&["--tolerance=50%"], &before, &after);
        if changed.is_empty() && finished.code() == 0 {
            return Ok(());
        }
        Err(format!("{changed:#?}\n{finished}"))
    });
}

#[test]
fn the_phase_that_became_slower_is_named() {
    needs_root!(alone);
    let folder = folder();
    let scales = program("scales.c");
    let mut recorded = None;
    // Where others take the CPUs for a while, episodes may tell too little of each other.
    best_of_five(|| {
        let before = record(folder.path(), "before.sbt", &scales, &["serial=1000"]);
        let after = record(folder.path(), "after.sbt", &scales, &["serial=4000"]);
        let all = compared(&before, &after);
        if list(&all, "sites")[0]["phase_ns"]["beyond_noise"] != true {
            return Err(format!("{all:#}"));
        }
        recorded = Some((before, after, all));
        Ok(())
    });
    let (before, after, all) = recorded.unwrap();
    let worst = &list(&all, "sites")[0];
    assert_eq!(worst["name"], called("SITE serial"), "{all:#}");
    assert_eq!(worst["episodes"]["after"], 60, "{all:#}");
    let phase = &list(&all, "phases")[0];
    assert_eq!(phase["from"], called("SITE even"), "{all:#}");
    assert_eq!(phase["to"], called("SITE serial"), "{all:#}");
    assert_eq!(list(&all, "notes").len(), 1, "the commands differ: {all:#}");

    // Without `--tolerance` the status is 0.
    let finished = diff(&[], &before, &after).expect(0);
    let text = finished.out();
    assert!(
        text.contains(&format!("▶ slower: {}: ", called("SITE serial"))),
        "{text}"
    );
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{line}\n{text}");
    }
    diff(&["--tolerance=50%"], &before, &after).expect(1);
    diff(&["--tolerance=2000%"], &before, &after).expect(0);
    // The other way round it became faster.
    let finished = diff(&["--tolerance=50%"], &after, &before).expect(0);
    assert!(
        finished.out().contains("▶ faster: work scales.c:"),
        "{finished}"
    );
}

/// The same program with five additional lines at its top.
fn moved(folder: &Path) -> PathBuf {
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs");
    let text = fs::read_to_string(programs.join("scales.c")).unwrap();
    let source = folder.join("scales.c");
    fs::write(&source, format!("//\n//\n//\n//\n//\n{text}")).unwrap();
    let path = folder.join("scales");
    let status = Command::new("gcc")
        .args(["-O2", "-g", "-pthread", "-I"])
        .arg(&programs)
        .arg("-o")
        .arg(&path)
        .arg(&source)
        .status()
        .unwrap();
    assert!(status.success());
    path
}

#[test]
fn sites_are_found_again_where_lines_have_moved() {
    needs_root!();
    let folder = folder();
    let before = record(folder.path(), "before.sbt", &program("scales.c"), &[]);
    let after = record(folder.path(), "after.sbt", &moved(folder.path()), &[]);
    let all = compared(&before, &after);
    assert_eq!(list(&all, "sites").len(), 3, "{all:#}");
    for mark in ["SITE even", "SITE serial", "SITE locked"] {
        let site = list(&all, "sites")
            .iter()
            .find(|site| site["name_before"] == called(mark));
        let name = format!("work scales.c:{}", line("scales.c", mark) + 5);
        assert_eq!(site.unwrap()["name"], name, "{all:#}");
    }
    for field in ["only_before", "only_after"] {
        assert!(list(&all, field).is_empty(), "{all:#}");
    }
    let text = diff(&[], &before, &after).expect(0).out();
    assert!(
        text.contains(&format!("(was {})", called("SITE even"))),
        "{text}"
    );
}

#[test]
fn reports_in_json_and_recordings_are_read_alike() {
    needs_root!();
    let folder = folder();
    let recording = record(folder.path(), "run.sbt", &program("scales.c"), &[]);
    let json = folder.path().join("run.json");
    let mut command = sbt_with(&["report", "--json", "--output"]);
    command.arg(&json).arg(&recording);
    run(command).expect(0);
    let all = compared(&recording, &json);
    for site in list(&all, "sites") {
        assert_eq!(site["phase_ns"]["change_pct"], 0.0, "{all:#}");
    }
    // To a file as well.
    let file = folder.path().join("diff.json");
    let option = format!("--output={}", file.display());
    let finished = diff(&["--json", &option], &json, &recording).expect(0);
    assert_eq!(finished.out(), "");
    let written: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    assert_eq!(written["sites"], all["sites"]);
}

#[test]
fn what_is_no_run_is_one_line() {
    crate::harness::needs_nothing!();
    let folder = folder();
    let file = folder.path().join("x.json");
    fs::write(&file, "{\"schema\": 1}").unwrap();
    for (before, after) in [
        ("/nowhere", "/nowhere"),
        (file.to_str().unwrap(), "/dev/null"),
    ] {
        let finished = diff(&[], Path::new(before), Path::new(after)).expect(1);
        finished.one_line();
        assert_eq!(finished.out(), "");
    }
    for wrong in ["--tolerance=soon", "--tolerance=-1"] {
        let finished = diff(&[wrong], &file, &file).expect(2);
        assert!(finished.stderr.contains("10%"), "{finished}");
    }
}
