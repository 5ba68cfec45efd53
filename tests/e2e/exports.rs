//! `sbt report --html`, `--perfetto`, `--csv` and the like, of real recordings.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

use crate::{
    harness::{Finished, folder, needs_root, run, sbt_with},
    programs::{Build, program},
};

fn record(options: &[&str], program: &Path, arguments: &[&str], file: &Path) {
    let (file, program) = (file.to_string_lossy(), program.to_string_lossy());
    let mut all = vec!["run", "-q", "-o", &file];
    all.extend(options);
    all.extend(["--", &program]);
    all.extend(arguments);
    run(sbt_with(&all)).expect(0);
}

fn report(file: &Path, options: &[&str]) -> Finished {
    let file = file.to_string_lossy();
    let mut all = vec!["report", &file];
    all.extend(options);
    run(sbt_with(&all))
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Titles, and cells of the rows by them; none of the names here needs quotes.
fn table(path: &Path) -> Vec<std::collections::BTreeMap<String, String>> {
    let text = fs::read_to_string(path).unwrap();
    let mut lines = text.split_terminator("\r\n");
    let titles: Vec<&str> = lines.next().unwrap().split(',').collect();
    lines
        .map(|line| {
            let cells = line.split(',').map(str::to_owned);
            titles
                .iter()
                .map(|it| (*it).to_owned())
                .zip(cells)
                .collect()
        })
        .collect()
}

#[test]
fn a_run_becomes_files_for_other_programs() {
    needs_root!();
    let folder = folder();
    let at = |name: &str| -> PathBuf { folder.path().join(name) };
    let file = at("run.sbt");
    let truth = program("truth.c");
    let arguments = ["threads=3", "rounds=400", "base=500", "skew=300"];
    let counted = ["-e", "page-faults", "--departures=on", "--budget=off"];
    record(&counted, &truth, &arguments, &file);
    let (page, trace, sites, episodes) = (at("a.html"), at("a.trace"), at("a.csv"), at("b.csv"));
    let all = ["--html", "--perfetto", "--csv", "--csv-episodes"];
    let paths = [&page, &trace, &sites, &episodes].map(|path| text(path));
    let options: Vec<&str> = all
        .into_iter()
        .zip(&paths)
        .flat_map(|(a, b)| [a, b])
        .collect();
    let finished = report(&file, &options).expect(0);
    assert_eq!(
        (finished.out().as_str(), finished.stderr.as_str()),
        ("", "")
    );

    // The tables say what the report says.
    let json: Value = serde_json::from_str(&report(&file, &["--json"]).expect(0).out()).unwrap();
    let rows = table(&sites);
    let sum = |rows: &[std::collections::BTreeMap<String, String>], title: &str| -> u64 {
        rows.iter()
            .map(|row| row[title].parse::<u64>().unwrap())
            .sum()
    };
    let lost: u64 = json["sites"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["lost_ns"].as_u64().unwrap())
        .sum();
    assert_eq!(sum(&rows, "idle_ns"), lost);
    let arrivals = table(&episodes);
    assert_eq!(sum(&arrivals, "idle_ns"), lost);
    let complete = json["episodes"].as_u64().unwrap();
    assert_eq!(arrivals.len() as u64, complete * 3, "{json}");
    let first = arrivals.iter().filter(|row| row["order"] == "1").count();
    assert_eq!(first as u64, complete);
    assert!(rows[0].contains_key("page-faults"));

    let html = fs::read_to_string(&page).unwrap();
    assert!(html.starts_with("<!DOCTYPE html>"));
    assert!(html.contains("truth.c:"), "sites have their lines");
    let data = html.split("id=\"tl-data\">").nth(1).unwrap();
    let data: Value = serde_json::from_str(data.split("</script>").next().unwrap()).unwrap();
    assert_eq!(
        data["threads"].as_array().unwrap().len(),
        json["threads"].as_array().unwrap().len()
    );
    assert_eq!(data["episodes"].as_array().unwrap().len() as u64, complete);
    assert!(fs::metadata(&trace).unwrap().len() > 20_000);

    // With the report as well where that is asked for.
    let both = report(&file, &["--csv", &text(&sites), "--json"]).expect(0);
    let again: Value = serde_json::from_str(&both.out()).unwrap();
    assert_eq!(again["episodes"], json["episodes"]);
    assert_eq!(table(&sites).len(), rows.len());
}

#[test]
fn stacks_of_a_recording_are_those_that_the_run_wrote() {
    needs_root!();
    let folder = folder();
    let (file, live, later) = (
        folder.path().join("run.sbt"),
        folder.path().join("live"),
        folder.path().join("later"),
    );
    let sampled = Build::of("sampled.c").path();
    record(
        &["--sample", "500", "--folded", &text(&live)],
        &sampled,
        &[],
        &file,
    );
    report(&file, &["--folded", &text(&later)]).expect(0);
    let stacks = fs::read_to_string(&live).unwrap();
    assert!(stacks.lines().count() > 2, "{stacks}");
    assert_eq!(fs::read_to_string(&later).unwrap(), stacks);
    // Without samples there are none.
    record(&[], &program("barriers.c"), &[], &file);
    let none = report(&file, &["--folded", &text(&later)]).expect(1);
    assert!(none.stderr.contains("--sample 200"), "{none}");
    assert_eq!(fs::read_to_string(&later).unwrap(), stacks, "as it was");
}

#[test]
fn a_report_says_what_it_does_not_hold() {
    needs_root!();
    let folder = folder();
    let json = folder.path().join("run.json");
    let barriers = program("barriers.c");
    let (json_text, program_text) = (text(&json), text(&barriers));
    let live = ["run", "--json", "--output", &json_text, "--", &program_text];
    run(sbt_with(&live)).expect(0);
    let page = folder.path().join("a.html");
    report(&json, &["--html", &text(&page)]).expect(0);
    assert!(
        fs::read_to_string(&page)
            .unwrap()
            .contains("There is no timeline")
    );
    let trace = folder.path().join("a.trace");
    let refused = report(&json, &["--perfetto", &text(&trace)]).expect(1);
    let words = "--perfetto needs a recording";
    assert!(refused.stderr.contains(words), "{refused}");
    assert_eq!(refused.stderr.lines().count(), 1);
    assert!(!trace.exists());
    let over = report(&json, &["--csv", &json_text]).expect(1);
    assert!(over.stderr.contains("the input file"), "{over}");
}

#[test]
fn nothing_is_written_over_what_is_read_or_twice_to_one_file() {
    crate::harness::needs_nothing!();
    let folder = folder();
    let at = |name: &str| text(&folder.path().join(name));
    for name in ["a", "b"] {
        fs::write(at(name), name).unwrap();
    }
    fs::hard_link(at("a"), at("also-a")).unwrap();
    let (a, b, also_a, new) = (&at("a"), &at("b"), &at("also-a"), &at("new"));
    let over = "the input file";
    let twice = "name the same file";
    let cases: [(&[&str], &str, i32); 10] = [
        (&["report", a, "--json", "--output", a], over, 1),
        (&["report", a, "--csv", also_a], over, 1),
        (&["report", a, "--csv", new, "--output", new], twice, 1),
        (&["diff", a, b, "--output", a], over, 1),
        (&["diff", b, a, "--output", also_a], over, 1),
        (&["check", "--max-idle=9%", "--junit", also_a, a], over, 125),
        (
            &["check", "--baseline", a, "--output", also_a, b],
            "the baseline",
            125,
        ),
        (
            &["check", "--max-idle=9%", "--junit", new, "--output", new, a],
            twice,
            125,
        ),
        (
            &[
                "check",
                "--max-idle=9%",
                "--sample=9",
                "--folded",
                new,
                "--junit",
                new,
                "--",
                "true",
            ],
            twice,
            125,
        ),
        (
            &["run", "-o", new, "--output", new, "--", "true"],
            twice,
            125,
        ),
    ];
    for (arguments, words, status) in cases {
        let finished = run(sbt_with(arguments)).expect(status);
        assert!(
            finished.one_line().contains(words),
            "{arguments:?}: {finished}"
        );
        for name in ["a", "b"] {
            assert_eq!(fs::read_to_string(at(name)).unwrap(), name, "{arguments:?}");
        }
        assert!(!Path::new(new).exists(), "{arguments:?}");
    }
    // The settings are read as well.
    fs::write(at("sbt.toml"), "").unwrap();
    let mut command = sbt_with(&["run", "--output", "sbt.toml", "--", "true"]);
    command.current_dir(folder.path());
    let finished = run(command).expect(125);
    assert!(finished.one_line().contains("settings"), "{finished}");
}

#[test]
fn files_under_sudo_belong_to_whoever_called_it() {
    needs_root!();
    let folder = folder();
    let file = folder.path().join("run.sbt");
    record(&[], &program("barriers.c"), &[], &file);
    let page = folder.path().join("a.html");
    let arguments = ["report", &text(&file), "--html", &text(&page)];
    let mut command: Command = sbt_with(&arguments);
    command.envs([
        ("SUDO_UID", "65534"),
        ("SUDO_GID", "65534"),
        ("SUDO_USER", "nobody"),
    ]);
    run(command).expect(0);
    let owner = fs::metadata(&page).unwrap();
    assert_eq!((owner.uid(), owner.gid()), (65534, 65534));
    // What others have there stays theirs.
    std::os::unix::fs::chown(&page, Some(1), Some(1)).unwrap();
    run(sbt_with(&arguments)).expect(0);
    assert_eq!(fs::metadata(&page).unwrap().uid(), 1);
}
