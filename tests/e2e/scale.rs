//! `sbt scale`: real programs at several numbers of threads.

use std::{fs, path::Path, process::Command};

use serde_json::Value;

use crate::{
    diff::conforms,
    harness::{LIMIT, best_of_five, eventually, folder, needs_root, run, sbt_with, start},
    programs::{Build, line, program},
    tty::{CTRL_C, Terminal, USUAL, for_tty},
};

/// `sbt scale` of a program.
fn scale(options: &[&str], program: &Path, arguments: &[&str]) -> Command {
    let mut command = sbt_with(&["scale"]);
    command.args(options).arg("--").arg(program).args(arguments);
    command
        .env("LC_ALL", "C.UTF-8")
        .env_remove("OMP_NUM_THREADS");
    command
}

/// Runs `sbt scale` with its table as JSON, which conforms to its schema. Returns the table and the
/// program's output.
#[track_caller]
fn table(options: &[&str], program: &Path, arguments: &[&str], status: i32) -> (Value, String) {
    let folder = folder();
    let file = folder.path().join("scale.json");
    let output = format!("--output={}", file.display());
    let options = [&["--json", &output], options].concat();
    let finished = run(scale(&options, program, arguments)).expect(status);
    let text = fs::read_to_string(&file).unwrap();
    let all =
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}\n{finished}"));
    conforms(&all, "scale.schema.json");
    (all, finished.out())
}

fn list<'a>(all: &'a Value, field: &str) -> &'a [Value] {
    all[field].as_array().unwrap()
}

fn called(mark: &str) -> String {
    format!("work scales.c:{}", line("scales.c", mark))
}

/// The phase that ends at a site, not from the start.
#[track_caller]
fn phase<'a>(all: &'a Value, mark: &str) -> &'a Value {
    let mut phases = list(all, "phases").iter();
    let name = called(mark);
    let found =
        phases.find(|it| it["to"] == *name && (mark == "SITE even" || !it["from"].is_null()));
    found.unwrap_or_else(|| panic!("no {name} in {all:#}"))
}

fn last_speedup(phase: &Value) -> f64 {
    phase["at"].as_array().unwrap().last().unwrap()["speedup"]
        .as_f64()
        .unwrap()
}

#[test]
fn the_phase_that_stops_scaling_is_named() {
    needs_root!(alone);
    best_of_five(|| {
        let options = ["-n", "1,2,4", "--repeat=2"];
        let arguments = [
            "threads={n}",
            "rounds=30",
            "even=8000",
            "serial=3000",
            "locked=400",
        ];
        let (all, out) = table(&options, &program("scales.c"), &arguments, 0);
        let told = |n: u32| out.matches(&format!("threads {n}\n")).count();
        assert_eq!([told(1), told(2), told(4)], [2; 3], "{out}");
        let counts: Vec<_> = list(&all, "counts")
            .iter()
            .map(|at| {
                [&at["threads"], &at["runs"], &at["seen_threads"]].map(|it| it.as_u64().unwrap())
            })
            .collect();
        assert_eq!(counts, [[1, 2, 1], [2, 2, 2], [4, 2, 4]], "{all:#}");
        assert_eq!(all["counts"][0]["speedup"], 1.0, "{all:#}");
        assert_eq!(all["command"][1], "threads={n}", "{all:#}");
        let serial = phase(&all, "SITE serial");
        assert_eq!(serial["at"][2]["episodes"], 30, "{all:#}");
        let found = (
            last_speedup(phase(&all, "SITE locked")) < 2.0,
            last_speedup(serial) < 1.5,
            all["limit"]["to"] == called("SITE serial"),
            all["limit"]["scales_to"].is_null(),
            all["counts"][2]["speedup"].as_f64() > Some(1.3),
        );
        if found == (true, true, true, true, true) {
            return Ok(());
        }
        Err(format!("{found:?}: {all:#}"))
    });
}

#[test]
fn the_text_and_the_page_tell_it_to_people() {
    needs_root!();
    let folder = folder();
    let page = folder.path().join("scale.html");
    let html = format!("--html={}", page.display());
    let options = ["-n", "1,2", "--repeat=1", "-e", "page-faults", &html];
    let arguments = ["threads={n}", "rounds=10"];
    let finished = run(scale(&options, &program("scales.c"), &arguments)).expect(0);
    assert_eq!(finished.out(), "threads 1\nthreads 2\n");
    let text = &finished.stderr;
    for words in [
        "sbt scale · ",
        "SPEED-UP",
        "▶ ",
        "PHASES, ",
        "COUNTER page-faults",
        "whole run",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    for line in text.lines().skip(1) {
        assert!(line.chars().count() <= 80, "{line}\n{text}");
    }
    let page = fs::read_to_string(page).unwrap();
    assert!(
        page.starts_with("<!doctype html>") && page.contains("<svg"),
        "{page}"
    );
    assert!(page.contains(&called("SITE serial")), "{page}");

    let mut plain = scale(
        &["-n", "1,2", "--repeat=1"],
        &program("scales.c"),
        &arguments,
    );
    plain.env("LC_ALL", "C");
    let text = run(plain).expect(0).stderr;
    let text: String = text.lines().skip(1).collect();
    assert!(text.is_ascii(), "{text}");
}

#[test]
fn the_number_goes_into_the_environment_too() {
    needs_root!();
    let scales = program("scales.c");
    let options = ["-n", "2,3", "--repeat=1", "--env", "SCALES_THREADS={n}"];
    let (all, out) = table(&options, &scales, &["rounds=3"], 0);
    assert_eq!(out, "threads 2\nthreads 3\n");
    assert_eq!(all["counts"][1]["seen_threads"], 3, "{all:#}");
    // OpenMP has a variable for the number of threads, so no `{n}` is needed.
    let openmp = Build::of("scales_openmp.c").flags(&["-fopenmp"]).path();
    let (all, _) = table(&["-n", "1,3", "--repeat=1"], &openmp, &[], 0);
    assert_eq!(all["counts"][1]["seen_threads"], 3, "{all:#}");
    assert_eq!(all["counts"].as_array().unwrap().len(), 2, "{all:#}");
}

#[test]
fn one_thread_without_barriers_still_has_its_time() {
    needs_root!();
    let arguments = ["threads={n}", "rounds=5", "skip=1"];
    let (all, _) = table(
        &["-n", "1,2", "--repeat=1"],
        &program("scales.c"),
        &arguments,
        0,
    );
    assert!(all["counts"][0]["wall_ns"].as_u64() > Some(0), "{all:#}");
    assert!(all["counts"][0]["parallel_efficiency"].is_null(), "{all:#}");
    let phase = phase(&all, "SITE serial");
    assert_eq!(phase["base_threads"], 2, "{all:#}");
    assert!(phase["at"][0]["episodes"].is_null(), "{all:#}");
}

#[test]
fn a_program_that_fails_ends_the_series() {
    needs_root!();
    let arguments = ["threads={n}", "rounds=3", "fail=2"];
    let command = scale(
        &["-n", "1,2,3", "--repeat=2"],
        &program("scales.c"),
        &arguments,
    );
    let finished = run(command).expect(3);
    let last = finished.stderr.lines().last().unwrap();
    assert!(
        last.ends_with(" ended with exit status 3 with 2 threads, run 1 of 2"),
        "{finished}"
    );
    assert!(finished.stderr.contains("only 1 of 6 runs"), "{finished}");
    assert_eq!(finished.out(), "threads 1\nthreads 2\n");

    let folder = tempfile::tempdir().unwrap();
    let file = |name| folder.path().join(name).display().to_string();
    let (page, json) = (file("page.html"), file("scaling.json"));
    let options = ["-n", "1", "--html", &page, "--json", "--output", &json];
    let arguments = ["threads={n}", "rounds=3", "fail=1"];
    run(scale(&options, &program("scales.c"), &arguments)).expect(3);
    let left = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, 0, "empty files are left");

    let finished = run(scale(&["-n", "1"], Path::new("/nowhere/{n}"), &[])).expect(127);
    finished.one_line();
}

#[test]
fn an_interrupt_ends_everything_with_what_there_is() {
    needs_root!();
    let arguments = ["threads={n}", "rounds=3", "until=2"];
    let options = ["-n", "1,2", "--repeat=1", "--hang-time=100ms"];
    let mut started = start(scale(&options, &program("scales.c"), &arguments));
    started.wait_for("threads 2");
    // The program is at no barrier: only its time tells that it hangs.
    let line = "sbt: 2 threads, run 1 of 1: still running";
    let told = eventually(LIMIT, || started.err().contains(line).then_some(()));
    assert!(told.is_some(), "{}", started.err());
    started.signal(libc::SIGTERM);
    let finished = started.finish().expect(128 + libc::SIGTERM);
    assert!(finished.stderr.contains("only 1 of 2 runs"), "{finished}");
    assert!(
        finished
            .stderr
            .ends_with("sbt: interrupted in the run with 2 threads, run 1 of 1\n"),
        "{finished}"
    );

    // From a terminal it comes to all of them.
    let command = for_tty(scale(&options, &program("scales.c"), &arguments));
    let terminal = Terminal::spawn(command, USUAL);
    terminal.wait_for("threads 2");
    terminal.press(CTRL_C);
    let (status, shown) = terminal.finish();
    assert_eq!(status, Some(128 + libc::SIGINT), "{shown}");
    assert!(shown.contains("1 thread, run 1 of 1: "), "{shown}");
    assert!(shown.contains("only 1 of 2 runs"), "{shown}");
}

#[test]
fn each_run_goes_to_its_end_whatever_the_settings_say() {
    needs_root!();
    let folder = folder();
    let settings = "duration = \"20ms\"\nsample = 100\n";
    fs::write(folder.path().join("sbt.toml"), settings).unwrap();
    let options = ["-n", "1,2", "--repeat=1"];
    let arguments = ["threads={n}", "rounds=20"];
    let mut command = scale(&options, &program("scales.c"), &arguments);
    command.current_dir(folder.path());
    let finished = run(command).expect(0);
    let text = &finished.stderr;
    assert!(text.contains("duration 20ms of sbt.toml:1"), "{finished}");
    // The site has as many episodes as rounds.
    let name = called("SITE serial");
    assert!(text.contains(&name), "{name}: {finished}");
}

#[test]
fn a_run_that_hangs_says_which_one_it_is() {
    needs_root!();
    let options = ["-n", "2", "--repeat=1", "--hang-time=300ms"];
    let hangs = program("hangs.c");
    let started = start(scale(&options, &hangs, &["lock", "{n}"]));
    let line = "sbt: 2 threads, run 1 of 1: hang: ";
    let told = eventually(LIMIT, || started.err().contains(line).then_some(()));
    assert!(told.is_some(), "{}", started.err());
    started.signal(libc::SIGTERM);
    let finished = started.finish().expect(128 + libc::SIGTERM);
    assert!(
        finished
            .stderr
            .contains("interrupted in the run with 2 threads"),
        "{finished}"
    );
}

#[test]
fn what_cannot_be_is_said_before_anything_runs() {
    crate::harness::needs_nothing!();
    let scales = program("scales.c");
    let placed: &[&str] = &["threads={n}"];
    let cases: [(&[&str], &[&str], &str, i32); 7] = [
        (&["-n", "1,2"], &[], "{n}", 2),
        (&["-n", "1,2", "--env", "A=2"], &[], "{n}", 2),
        (&["-n", "1,2", "-o", "/tmp/x"], placed, "sbt run -o FILE", 2),
        (&["-n", "1,2", "--duration=1s"], placed, "--duration", 2),
        (&["-n", "1,2", "--json"], placed, "--output FILE", 2),
        (&["-n", "1", "--html=/nowhere/x"], placed, "/nowhere/x", 125),
        (
            &["-n", "1", "--html=/tmp/sbt-x", "--output=/tmp/sbt-x"],
            placed,
            "the same file",
            125,
        ),
    ];
    for (options, arguments, words, status) in cases {
        let finished = run(scale(options, &scales, arguments)).expect(status);
        assert!(finished.one_line().contains(words), "{finished}");
        assert_eq!(finished.out(), "", "nothing ran");
    }
    for wrong in [
        ["-n", "0"],
        ["-n", "1,1"],
        ["-n", "many"],
        ["--repeat", "0"],
    ] {
        let finished = run(scale(&wrong, &scales, &["threads={n}"])).expect(2);
        assert_eq!(finished.out(), "", "{finished}");
    }
}
