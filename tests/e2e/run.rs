//! `sbt run`: counts are exact, and sites, barriers and participants right.

use std::{collections::BTreeSet, path::Path};

use serde_json::{Value, json};

use crate::{
    harness::{Report, needs_root, number, watch, watch_with},
    programs::{Build, line, program},
};

fn participants(report: &Report) -> Vec<u64> {
    let mut counts: Vec<_> = report
        .list("barriers")
        .iter()
        .map(|barrier| number(barrier, "participants"))
        .collect();
    counts.sort_unstable();
    counts
}

#[track_caller]
fn is_called(site: &Value, function: &str, file: &str, line: u32) {
    assert_eq!(site["function"], function, "{site:#}");
    assert_eq!(site["line"], line, "{site:#}");
    let path = site["file"].as_str().unwrap_or("");
    assert!(
        path.ends_with(&format!("tests/programs/{file}")),
        "{site:#}"
    );
}

#[test]
fn a_simple_loop() {
    needs_root!();
    // Steps that are longer than who sleeps is late.
    let arguments = ["threads=4", "rounds=250", "skew=1000"];
    let report = watch(&program("truth.c"), &arguments);
    report.is_exactly(1000, 250);
    assert_eq!(report.sites().len(), 1);
    is_called(
        &report.sites()[0],
        "meet",
        "truth.c",
        line("truth.c", "SITE meet"),
    );
    assert_eq!(report.sites()[0]["kind"], "pthread");
    assert_eq!(participants(&report), [4]);
    assert_eq!(report.threads().len(), 4);
    for thread in report.threads() {
        assert_eq!(number(thread, "arrivals"), 250);
        assert_eq!(number(thread, "episodes"), 250);
    }
    // Thread 0 has no load and thread 3 the most.
    let idle: Vec<_> = report
        .threads()
        .iter()
        .map(|thread| number(thread, "idle_ns"))
        .collect();
    assert!(idle[0] > idle[3], "{report}");
    assert_eq!(report.sites()[0]["straggler"]["thread"], 3, "{report}");
}

#[test]
fn each_way_to_watch_departures() {
    needs_root!();
    for (option, watched) in [
        ("--departures=on", json!(true)),
        ("--departures=off", json!(false)),
        ("--departures=auto", json!(true)),
    ] {
        let arguments = ["threads=3", "rounds=100", "skew=50"];
        let (_, report) = watch_with(&[option], &program("truth.c"), &arguments);
        report.is_exactly(300, 100);
        assert_eq!(report.0["departures"], watched);
        let release = &report.threads()[0]["release_ns"];
        assert_eq!(release.is_null(), watched == false, "{report}");
    }
}

#[test]
fn rounds_without_any_work_between() {
    needs_root!();
    for option in ["--departures=on", "--departures=off", "--departures=auto"] {
        let (_, report) = watch_with(
            &[option],
            &program("truth.c"),
            &["threads=4", "rounds=20000"],
        );
        report.is_exactly(80_000, 20_000);
    }
}

#[test]
fn barriers_behind_functions_of_the_programs_own() {
    needs_root!();
    let report = watch(&program("wrapper.c"), &["rounds=60"]);
    report.is_exactly(3 * 4 * 60, 4 * 60);
    // The phases end with the call, which becomes a jump: it returns to their caller.
    for mark in ["CALL first", "CALL second"] {
        let site = report.site_at(line("wrapper.c", mark));
        is_called(site, "work", "wrapper.c", line("wrapper.c", mark));
        assert_eq!(number(site, "episodes"), 60);
    }
    // An inlined function is named by the function into which it is inlined.
    for (mark, function) in [
        ("CALL third", "third_phase"),
        ("CALL fourth", "fourth_phase"),
    ] {
        let site = report.site_at(line("wrapper.c", mark));
        is_called(site, function, "wrapper.c", line("wrapper.c", mark));
        assert_eq!(number(site, "episodes"), 60);
    }
    assert_eq!(report.sites().len(), 4);
    assert_eq!(participants(&report), [3]);
}

#[test]
fn several_barriers_in_turn() {
    needs_root!();
    let report = watch(&program("barriers.c"), &["rounds=70"]);
    report.is_exactly(3 * 7 * 70, 7 * 70);
    assert_eq!(participants(&report), [3; 7]);
    for barrier in report.list("barriers") {
        assert_eq!(number(barrier, "episodes"), 70);
    }
    for (mark, barriers) in [("one", 1), ("two", 1), ("three", 1), ("many", 4)] {
        let site = report.site_at(line("barriers.c", &format!("SITE {mark}")));
        assert_eq!(site["function"], "work");
        assert_eq!(number(site, "episodes"), 70 * barriers);
        assert_eq!(site["barriers"].as_array().unwrap().len() as u64, barriers);
    }
    assert_eq!(report.sites().len(), 4);
    // From the start, one → two → three → many → many, many → one.
    assert_eq!(report.list("phases").len(), 6, "{report}");
}

#[test]
fn two_teams_at_once() {
    needs_root!();
    let report = watch(&program("teams.c"), &["rounds=40"]);
    report.is_exactly(40 * (3 * 5 + 2 * 7 + 5), 40 * (5 + 7 + 1));
    assert_eq!(participants(&report), [2, 3, 5]);
    for (mark, episodes, threads) in [("a", 200, 3), ("b", 280, 2), ("everyone", 40, 5)] {
        let site = report.site_at(line("teams.c", &format!("SITE {mark}")));
        assert_eq!(number(site, "episodes"), episodes);
        assert_eq!(site["threads"].as_array().unwrap().len(), threads);
    }
}

#[test]
fn a_barrier_made_again_with_other_counts() {
    needs_root!();
    let report = watch(&program("recount.c"), &["rounds=90"]);
    // Counts 2, 3, 4 in turn, twice each; four threads before and after.
    report.is_exactly(30 * 2 * (2 + 3 + 4) + 90 * 2 * 4, 90 * 4);
    let site = report.site_at(line("recount.c", "SITE changing"));
    assert_eq!(number(site, "episodes"), 180);
    assert_eq!(report.list("barriers").len(), 2);
}

#[test]
fn a_program_that_is_given_to_its_loader() {
    needs_root!();
    let sites = |report: &Report| {
        let sites = report.sites().iter();
        let all = sites.map(|site| (site["places"].to_string(), number(site, "episodes")));
        all.collect::<BTreeSet<_>>()
    };
    for (loader, build) in [
        // The barrier is in a library that only the loader knows.
        (
            "/lib64/ld-linux-x86-64.so.2",
            Build::of("openmp.c").flags(&["-fopenmp"]),
        ),
        (
            "/lib/ld-musl-x86_64.so.1",
            Build::of("barriers.c").compiler("musl-gcc"),
        ),
    ] {
        let program = build.path();
        let direct = watch(&program, &[]);
        let given = watch(Path::new(loader), &[program.to_str().unwrap()]);
        assert!(!sites(&direct).is_empty(), "{direct}");
        assert_eq!(sites(&given), sites(&direct), "{given}");
        assert_eq!(given.list("notes"), direct.list("notes"), "{given}");
    }
}

#[test]
fn threads_that_come_and_go() {
    needs_root!();
    let report = watch(
        &program("comeandgo.c"),
        &["waves=150", "threads=4", "rounds=5"],
    );
    report.is_exactly(150 * 4 * 5, 150 * 5);
    let threads: u64 = report
        .threads()
        .iter()
        .map(|thread| number(thread, "threads"))
        .sum();
    assert_eq!(threads, 600);
    // One after the other: all phases together cannot take longer than the run.
    let phases: u64 = report
        .list("phases")
        .iter()
        .map(|phase| number(&phase["phase_ns"], "sum"))
        .sum();
    let wall = report.number("wall_ns");
    assert!(
        phases <= wall,
        "phases of {phases} ns in {wall} ns: {report}"
    );
    for thread in report.threads() {
        assert_eq!(number(thread, "arrivals"), 5);
        assert_eq!(thread["ended"], true);
    }
}

#[test]
fn many_threads_at_one_barrier() {
    needs_root!();
    let report = watch(&program("truth.c"), &["threads=256", "rounds=20"]);
    report.is_exactly(256 * 20, 20);
    assert_eq!(report.threads().len(), 256);
    assert_eq!(participants(&report), [256]);
}

#[test]
fn one_participant() {
    needs_root!();
    let report = watch(&program("truth.c"), &["threads=1", "rounds=500"]);
    report.is_exactly(500, 500);
    assert_eq!(participants(&report), [1]);
    assert_eq!(number(&report.threads()[0], "idle_ns"), 0);
    assert_eq!(number(&report.threads()[0], "last"), 500);
}

#[test]
fn a_site_in_cplusplus_has_its_readable_name() {
    needs_root!();
    let report = watch(
        &crate::programs::Build::of("methods.cpp")
            .compiler("g++")
            .path(),
        &["rounds=50"],
    );
    report.is_exactly(150, 50);
    let site = report.site_at(line("methods.cpp", "SITE method"));
    let function = site["function"].as_str().unwrap();
    assert!(
        function.starts_with("simulation::Cell::exchange"),
        "{function}"
    );
}

#[test]
fn no_barrier_at_all_is_no_error() {
    needs_root!();
    let (finished, report) = watch_with(&[], "/bin/true".as_ref(), &[]);
    finished.expect(0);
    report.is_exactly(0, 0);
    let finished = crate::harness::run(crate::harness::sbt_with(&["run", "--", "/bin/true"]));
    assert!(
        finished.stderr.contains("No barrier was seen"),
        "{finished}"
    );
    assert!(
        finished.stderr.contains("pthread_barrier_wait"),
        "{finished}"
    );
}

#[test]
fn more_threads_than_have_rows_of_their_own() {
    needs_root!();
    let report = watch(
        &program("comeandgo.c"),
        &["waves=2000", "threads=4", "rounds=5"],
    );
    report.is_exactly(2000 * 4 * 5, 2000 * 5);
    assert!(report.threads().len() <= 4096);
}

#[test]
fn a_thousand_threads() {
    needs_root!();
    let report = watch(&program("truth.c"), &["threads=1000", "rounds=5"]);
    report.is_exactly(5000, 5);
}

#[test]
fn more_threads_than_the_barrier_takes() {
    needs_root!();
    for option in ["--departures=on", "--departures=off"] {
        let (finished, report) = watch_with(&[option], &program("crowd.c"), &["arrivals=6000"]);
        finished.expect(0);
        // Threads overtake each other between the probe and the barrier's own
        // count: how many episodes there were is exact, but after which of them
        // a phase began is not always known.
        let seen = ["arrivals", "episodes", "incomplete_episodes", "lost_events"]
            .map(|field| report.number(field));
        assert_eq!(seen, [6000, 2000, 0, 0], "{option}: {report}");
        assert_eq!(participants(&report), [3]);
    }
}

#[test]
fn more_barriers_than_are_kept() {
    needs_root!();
    let report = watch(&program("fresh.c"), &["objects=6000"]);
    let seen = ["arrivals", "episodes", "incomplete_episodes", "lost_events"]
        .map(|field| report.number(field));
    assert_eq!(seen, [24_000, 12_000, 0, 0], "{report}");
}

#[test]
fn a_relative_path() {
    needs_root!();
    let path = program("truth.c");
    let mut command = crate::harness::sbt_with(&["run", "--", "./truth", "rounds=10"]);
    command.current_dir(path.parent().unwrap());
    let finished = crate::harness::run(command).expect(0);
    assert!(finished.stderr.contains("10 episodes"), "{finished}");
    assert!(finished.stderr.contains("meet truth.c:"), "{finished}");
}
