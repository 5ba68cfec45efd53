//! `sbt scale --vary`: a real program with several values of its parameters.

use std::{fs, path::Path, process::Command};

use serde_json::Value;

use crate::{
    diff::conforms,
    harness::{best_of_five, folder, needs_root, run, sbt_with},
    programs::{Build, program},
};

/// `sbt scale` in a folder.
fn sweep(folder: &Path, options: &[&str], program: &[&str]) -> Command {
    let mut command = sbt_with(&["scale", "--repeat=1"]);
    command.args(options).arg("--").args(program);
    command
        .current_dir(folder)
        .env("LC_ALL", "C.UTF-8")
        .env_remove("OMP_NUM_THREADS");
    command
}

/// Runs `sbt scale` with its table as JSON, which conforms to its schema. Returns the table and the
/// program's output.
#[track_caller]
fn table(folder: &Path, options: &[&str], program: &[&str]) -> (Value, String) {
    let options = [&["--json", "--output=sweep.json"], options].concat();
    let finished = run(sweep(folder, &options, program)).expect(0);
    let text = fs::read_to_string(folder.join("sweep.json")).unwrap();
    let all =
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}\n{finished}"));
    conforms(&all, "sweep.schema.json");
    (all, finished.out())
}

/// Copies the program under another name.
fn version(folder: &Path, name: &str) {
    fs::copy(program("scales.c"), folder.join(name)).unwrap();
}

fn rows(all: &Value) -> &[Value] {
    all["rows"].as_array().unwrap()
}

/// `version rounds threads`.
fn called(row: &Value) -> String {
    let of = |name: &str| row["parameters"][name].as_str().unwrap_or("-");
    format!("{} {} {}", of("version"), of("rounds"), row["threads"])
}

#[test]
fn versions_sizes_and_threads_are_compared_with_the_serial_version() {
    needs_root!(alone);
    let folder = folder();
    version(folder.path(), "serial");
    version(folder.path(), "parallel");
    best_of_five(|| {
        let options = [
            "-n",
            "2,4",
            "--vary=version=./serial,./parallel",
            "--vary=rounds=20,40",
            "--serial=version=./serial",
            "-e",
            "page-faults",
        ];
        let command = [
            "{version}",
            "threads={n}",
            "rounds={rounds}",
            "even=40000",
            "serial=0",
            "locked=0",
        ];
        let (all, out) = table(folder.path(), &options, &command);
        assert_eq!(
            out,
            "threads 1\nthreads 1\nthreads 2\nthreads 4\nthreads 2\nthreads 4\n"
        );
        let names: Vec<String> = rows(&all).iter().map(called).collect();
        assert_eq!(
            names,
            [
                "./serial 20 1",
                "./serial 40 1",
                "./parallel 20 2",
                "./parallel 20 4",
                "./parallel 40 2",
                "./parallel 40 4",
            ]
        );
        assert_eq!(rows(&all)[1]["speedup"], 1.0, "{all:#}");
        assert_eq!(all["counters"][0]["per"], "cpu_second", "{all:#}");
        assert!(rows(&all)[3]["rates"]["page-faults"].is_f64(), "{all:#}");
        let combination = &all["combinations"][3];
        assert_eq!(combination["parameters"]["rounds"], "40", "{all:#}");
        assert_eq!(combination["scaling"]["command"][2], "rounds=40", "{all:#}");
        let figure = |row: usize, name: &str| rows(&all)[row][name].as_f64().unwrap();
        let found = (
            (1.5..2.1).contains(&figure(4, "speedup")),
            (2.4..4.1).contains(&figure(5, "speedup")),
            (0.6..1.03).contains(&figure(5, "scaling_efficiency")),
            figure(1, "wall_ns") > figure(0, "wall_ns") * 1.5,
            (0.0..20.0).contains(&figure(5, "idle_pct")),
        );
        if found == (true, true, true, true, true) {
            return Ok(());
        }
        Err(format!("{found:?}: {all:#}"))
    });
}

#[test]
fn values_reach_the_environment_and_need_no_number_of_threads() {
    needs_root!();
    let folder = folder();
    version(folder.path(), "scales");
    let options = ["--vary=rounds=2,3", "--env", "SCALES_THREADS={rounds}"];
    let command = ["./scales", "rounds={rounds}"];
    let (all, out) = table(folder.path(), &options, &command);
    assert_eq!(out, "threads 2\nthreads 3\n");
    for row in rows(&all) {
        assert!(row["threads"].is_null(), "{all:#}");
        assert!(row["speedup"].is_null(), "{all:#}");
        assert!(row["scaling_efficiency"].is_null(), "{all:#}");
        assert!(row["wall_ns"].as_u64() > Some(0), "{all:#}");
    }
    assert_eq!(rows(&all)[1]["seen_threads"], 3, "{all:#}");
}

#[test]
fn the_table_and_the_page_are_for_people() {
    needs_root!();
    let folder = folder();
    let versions: [(&str, &[&str]); 2] = [("serial", &["-DSERIAL"]), ("cyclic", &["-DCYCLIC"])];
    for (name, flags) in versions {
        let built = Build::of("lu.c").flags(flags).path();
        fs::copy(built, folder.path().join(name)).unwrap();
    }
    let options = [
        "-n",
        "1,2",
        "--vary=version=serial,cyclic",
        "--vary=size=64,96",
        "--serial=version=serial",
        "--html=page.html",
        "-e",
        "page-faults",
    ];
    let command = ["./{version}", "{size}", "{n}"];
    let finished = run(sweep(folder.path(), &options, &command)).expect(0);
    let text = &finished.stderr;
    for words in [
        "ALL RUNS, speed-up against serial (1 thread), same size\nversion  size  threads  time ",
        "\nserial     64        1 ",
        "\ncyclic     96        2 ",
        "COUNTERS per second of CPU time",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{line}\n{text}");
    }
    // All versions find the same for a size.
    let found: Vec<String> = finished.out().lines().map(str::to_owned).collect();
    assert_eq!([&found[0], &found[1]], [&found[3], &found[5]], "{found:?}");
    let page = fs::read_to_string(folder.path().join("page.html")).unwrap();
    assert!(
        page.contains("<td>cyclic</td><td>96</td><td>2</td>"),
        "{page}"
    );
}

#[test]
fn a_run_that_fails_is_named_with_its_values() {
    needs_root!();
    let folder = folder();
    version(folder.path(), "scales");
    let options = ["-n", "1,2", "--vary=rounds=5,10"];
    let command = ["./scales", "rounds={rounds}", "threads={n}", "fail=2"];
    let finished = run(sweep(folder.path(), &options, &command)).expect(3);
    let last = finished.stderr.lines().last().unwrap();
    assert!(
        last.ends_with("ended with exit status 3 with rounds=5, 2 threads, run 1 of 1"),
        "{finished}"
    );
    assert!(finished.stderr.contains("only 1 of 4 runs"), "{finished}");
}

#[test]
fn what_cannot_be_varied_is_said_before_anything_runs() {
    crate::harness::needs_nothing!();
    let folder = folder();
    version(folder.path(), "scales");
    let cases: [(&[&str], &[&str], &str); 8] = [
        (&["--vary=size=1,2"], &["rounds=3"], "write {size} where"),
        (&["--vary=n=1,2"], &["threads={n}"], "-n 1,2"),
        (&["--vary=a=1", "--vary=a=2"], &["{a}"], "--vary a=A,B,C"),
        (&["--vary=a=1,1"], &["{a}"], "1 is given twice"),
        (&["--vary=a=1,2"], &["{a}", "{n}"], "-n 1,2,4"),
        (&["--vary=a=1,2", "-n", "1,2"], &["{a}"], "{n}"),
        (&["--vary=a=1,2", "--serial=a=3"], &["{a}"], "a=3,1,2"),
        (&[], &["rounds=3"], "--threads"),
    ];
    for (options, arguments, words) in cases {
        let command = [&["./scales"], arguments].concat();
        let finished = run(sweep(folder.path(), options, &command)).expect(2);
        assert!(finished.stderr.contains(words), "{words}: {finished}");
        assert_eq!(finished.out(), "", "nothing ran");
    }
}
