//! The barriers of the languages' own libraries: counts are exact, sites are
//! the program's lines.

use std::process::Command;

use crate::{
    harness::{
        Report, attach, best_of_five, kill, needs_root, number, pause, start, watch, watch_with,
    },
    programs::{Build, line},
};

/// Both sites of a program with two, each of so many episodes.
#[track_caller]
fn has_two_sites(report: &Report, source: &str, kind: &str, episodes: u64) {
    assert_eq!(report.list("barriers").len(), 1, "{report}");
    assert_eq!(report.list("barriers")[0]["kind"], kind, "{report}");
    for mark in ["SITE first", "SITE second"] {
        let site = report.site_at(line(source, mark));
        assert_eq!(number(site, "episodes"), episodes, "{mark}: {report}");
    }
}

#[test]
fn std_barrier_of_libstdcxx() {
    needs_root!();
    for flags in [
        &["-std=c++20", "-O0"][..],
        &["-std=c++20", "-O1"],
        &["-std=c++20", "-O2"],
        &["-std=c++20", "-O3"],
    ] {
        let build = Build::of("stdbarrier.cpp").compiler("g++").flags(flags);
        let report = watch(&build.path(), &["rounds=100"]);
        report.is_exactly(800, 200);
        has_two_sites(&report, "stdbarrier.cpp", "std::barrier", 100);
        assert_eq!(number(&report.list("barriers")[0], "participants"), 4);
    }
}

#[test]
fn where_it_lies_does_not_matter() {
    needs_root!();
    let build = Build::of("stdbarrier.cpp")
        .compiler("g++")
        .flags(&["-std=c++20"]);
    for place in ["local", "heap", "completion"] {
        let (_, report) = watch_with(
            &[],
            &build.path(),
            &["rounds=50", &format!("where={place}")],
        );
        report.is_exactly(400, 100);
        has_two_sites(&report, "stdbarrier.cpp", "std::barrier", 50);
    }
    let report = watch(&build.path(), &["rounds=50", "where=global"]);
    report.is_exactly(200, 50);
    let site = report.site_at(line("stdbarrier.cpp", "SITE global"));
    assert_eq!(number(site, "episodes"), 50);
    assert_eq!(number(&report.list("barriers")[0], "participants"), 4);
}

#[test]
fn std_barrier_of_a_stripped_program() {
    needs_root!();
    let build = Build::of("stdbarrier.cpp")
        .compiler("g++")
        .flags(&["-std=c++20"])
        .stripped();
    let report = watch(&build.path(), &["rounds=100"]);
    report.is_exactly(800, 200);
    assert_eq!(report.sites().len(), 2, "{report}");
}

#[test]
fn work_between_arriving_and_waiting_is_no_waiting() {
    needs_root!();
    // With -O3 one of the arrivals has the barrier in its own frame.
    for flags in [
        &["-std=c++20", "-O1"][..],
        &["-std=c++20", "-O2"],
        &["-std=c++20", "-O3"],
    ] {
        let build = Build::of("splitbarrier.cpp").compiler("g++").flags(flags);
        best_of_five(|| {
            let (finished, report) = watch_with(&[], &build.path(), &[]);
            report.is_exactly(200, 100);
            let out = finished.expect(0).out();
            let own = out.lines().map(|line| line.parse().unwrap());
            let own: Vec<f64> = own.collect();
            // On a loaded machine the first may come late, and then waits for nobody.
            if own[0] < 50e6 {
                return Err(format!("the first waits for the second: {own:?}"));
            }
            // A thread tells once or twice that it waits.
            let kinds = report.0["own_cost"]["by_kind"].as_array().unwrap();
            let told = kinds.iter().find(|kind| kind["kind"] == "mark").unwrap();
            assert!((200..=400).contains(&number(told, "events")), "{report}");
            for (thread, own) in report.threads().iter().zip(&own) {
                let idle = number(thread, "idle_ns") as f64;
                // A thread may lose its CPU between its own look at the clock and the probe's.
                let near = (idle - own).abs() < 0.05 * own + 5e6;
                near.then_some(())
                    .ok_or_else(|| format!("{idle} instead of {own} ns: {report}"))?;
            }
            Ok(())
        });
    }
}

#[test]
fn who_leaves_for_good_counts_no_more() {
    needs_root!();
    let build = Build::of("stdbarrier.cpp")
        .compiler("g++")
        .flags(&["-std=c++20"]);
    let report = watch(&build.path(), &["threads=3", "rounds=20", "drop=1"]);
    // 10 rounds of three; in the one after, the third drops out at the second.
    report.is_exactly(11 * 6 + 9 * 4, 40);
}

#[test]
fn std_barrier_of_libcxx() {
    needs_root!();
    for flags in [
        &["-std=c++20", "-stdlib=libc++", "-O2"][..],
        &["-std=c++20", "-stdlib=libc++", "-O0"],
    ] {
        let build = Build::of("stdbarrier.cpp").compiler("clang++").flags(flags);
        let report = watch(&build.path(), &["rounds=100"]);
        report.is_exactly(800, 200);
        has_two_sites(&report, "stdbarrier.cpp", "std::barrier", 100);
        let barrier = &report.list("barriers")[0];
        assert_eq!(number(barrier, "participants"), 4);
    }
}

#[test]
fn rusts_barrier() {
    needs_root!();
    let build = Build::of("rustbarrier.rs").compiler("rustc");
    let report = watch(&build.path(), &["4", "100", "20"]);
    report.is_exactly(800, 200);
    has_two_sites(&report, "rustbarrier.rs", "rust", 100);
    assert_eq!(number(&report.list("barriers")[0], "participants"), 4);
}

#[test]
fn joining_one_that_runs() {
    needs_root!();
    let build = Build::of("stdbarrier.cpp")
        .compiler("g++")
        .flags(&["-std=c++20"]);
    let mut command = Command::new(build.path());
    command.args(["rounds=100000", "load=50"]);
    let program = start(command);
    pause(300);
    let report = attach(program.pid(), &["--duration", "1s"]).report();
    assert!(report.number("episodes") > 100, "{report}");
    // The one under way, and what looks like two until all have come again: the
    // barrier has no number of its round to tell.
    assert!(report.number("incomplete_episodes") <= 4, "{report}");
    kill(program.pid().cast_signed(), libc::SIGKILL);
}

#[test]
fn a_slow_thread_is_named() {
    needs_root!(alone);
    let build = Build::of("stdbarrier.cpp")
        .compiler("g++")
        .flags(&["-std=c++20"]);
    best_of_five(|| {
        let report = watch(
            &build.path(),
            &["threads=2", "rounds=100", "load=300", "slow=1"],
        );
        report.is_exactly(400, 200);
        let site = report.site_at(line("stdbarrier.cpp", "SITE first"));
        let threads = site["threads"].as_array().unwrap();
        let last = threads.iter().map(|thread| number(thread, "last")).max();
        if last > Some(80) {
            Ok(())
        } else {
            Err(format!("{last:?} of 100 in {report}"))
        }
    });
}
