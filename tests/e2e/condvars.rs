//! Barriers made of a condition variable are recognised, exactly; other uses are
//! not taken for one.

use std::path::Path;

use serde_json::Value;

use crate::{
    harness::{
        Report, attach, best_of_five, folder, needs_root, number, pause, run, sbt_with, start,
        watch, watch_with,
    },
    programs::{Build, line, program},
};

/// The lines of a site's places.
fn lines(site: &Value) -> Vec<u32> {
    let places = site["places"].as_array().unwrap().iter();
    let mut lines: Vec<u32> = places
        .map(|place| {
            let text = place.as_str().unwrap();
            text.rsplit(':').next().unwrap().parse().unwrap()
        })
        .collect();
    lines.sort_unstable();
    lines
}

/// The marked lines of a program.
fn marked(source: &str, marks: &[&str]) -> Vec<u32> {
    let mut lines: Vec<u32> = marks.iter().map(|mark| line(source, mark)).collect();
    lines.sort_unstable();
    lines
}

#[track_caller]
fn is_recognised(report: &Report, barriers: usize, rounds: u64, members: u64) {
    assert_eq!(report.list("barriers").len(), barriers, "{report}");
    for barrier in report.list("barriers") {
        assert_eq!(barrier["kind"], "condvar", "{report}");
        let by = &barrier["recognised"];
        assert_eq!(number(by, "rounds"), rounds, "{report}");
        assert_eq!(number(by, "members"), members, "{report}");
        assert_eq!(by["by_code"], true, "{report}");
    }
}

#[test]
fn macros_of_parmacs() {
    needs_root!();
    for threads in [2, 4, 8] {
        let report = watch(
            &program("parmacs.c"),
            &[&format!("threads={threads}"), "rounds=100", "base=50"],
        );
        report.is_exactly(200 * threads, 200);
        is_recognised(&report, 2, 100, threads);
        assert_eq!(report.sites().len(), 2, "{report}");
        let one = report.site_at(line("parmacs.c", "SITE macro"));
        assert_eq!(number(one, "episodes"), 100);
        let other = report.sites().iter().find(|site| *site != one).unwrap();
        assert_eq!(
            lines(other),
            marked("parmacs.c", &["SITE wait", "SITE broadcast"])
        );
        assert_eq!(other["function"], "slave");
    }
}

#[test]
fn a_lasting_straggler_never_waits() {
    needs_root!(alone);
    for flags in [&[][..], &["-O0"], &["-g0"], &["-O3", "-g0"]] {
        let build = Build::of("parmacs.c").flags(flags);
        let arguments = ["rounds=100", "slow=2", "load=2000", "barriers=1"];
        best_of_five(|| {
            let report = watch(&build.path(), &arguments);
            report.is_exactly(400, 100);
            let last: Vec<u64> = report.threads().iter().map(|t| number(t, "last")).collect();
            // Once in a while another thread gets no CPU.
            let is_it = last[2] > 90;
            is_it
                .then_some(())
                .ok_or_else(|| format!("{last:?} in {report}"))
        });
    }
}

#[test]
fn stragglers_in_turn() {
    needs_root!();
    let arguments = ["rounds=100", "turn=1", "load=1000", "barriers=1"];
    for loads in ["sleep=1", "sleep=0"] {
        let report = watch(&program("parmacs.c"), &[&arguments[..], &[loads]].concat());
        report.is_exactly(400, 100);
        assert_eq!(report.sites()[0]["kind"], "condvar");
    }
}

/// A thread that comes before all others have left is kept out, and let in at the same condition
/// variable.
#[test]
fn those_of_parsec() {
    needs_root!();
    for flags in [&[][..], &["-O0"], &["-O3", "-g0"]] {
        let build = Build::of("parsec.c").flags(flags);
        for threads in [2, 4] {
            best_of_five(|| {
                let report = watch(&build.path(), &[&format!("threads={threads}")]);
                report.is_exactly(200 * threads, 200);
                is_recognised(&report, 1, 200, threads);
                let last = report.threads().iter().map(|it| number(it, "last"));
                let last: Vec<u64> = last.collect();
                // Another one may be kept from running for once.
                (last[0] + last[last.len() - 1] > 180)
                    .then_some(())
                    .ok_or_else(|| format!("{last:?}: {report}"))
            });
        }
    }
    let report = watch(&program("parsec.c"), &[]);
    let marks = marked("parsec.c", &["SITE wait", "SITE broadcast"]);
    assert_eq!(lines(&report.sites()[0]), marks, "{report}");
}

/// A barrier of PARSEC whose threads spin before they wait: the arrivals that are seen count, and
/// episodes without all arrivals are incomplete.
#[test]
fn those_of_parsec_that_spin_first() {
    needs_root!();
    for flags in [&[][..], &["-O0"]] {
        let program = Build::of("parsec.c").flags(flags).path();
        best_of_five(|| {
            let report = watch(&program, &["spin=5000"]);
            is_mostly_complete(&report)
        });
    }
}

fn is_mostly_complete(report: &Report) -> Result<(), String> {
    let barriers = report.list("barriers").len();
    if barriers != 1 {
        return Err(format!("{barriers} barriers: {report}"));
    }
    let [complete, incomplete] =
        ["episodes", "incomplete_episodes"].map(|name| report.number(name));
    // No episode is invented, and none has fewer threads.
    assert!(complete + incomplete <= 201, "{report}");
    assert_eq!(report.list("barriers")[0]["participants"], 4, "{report}");
    (complete >= 150)
        .then_some(())
        .ok_or_else(|| format!("{complete} complete: {report}"))
}

#[test]
fn functions_of_ones_own() {
    needs_root!();
    is_one_barrier("plain", &["SITE plain wait", "SITE plain broadcast"]);
    is_one_barrier("late", &["SITE late wait", "SITE call"]);
    is_one_barrier("tail", &["SITE tail wait", "SITE tail call"]);
    is_one_barrier("signal", &["SITE signal wait", "SITE signal signal"]);
}

/// A barrier whose threads wait a millisecond at a time and look again is recognised if the threads
/// have CPUs.
#[test]
fn one_that_is_polled() {
    needs_root!(alone);
    best_of_five(|| {
        let report = condbarrier("timed");
        if report.list("barriers").is_empty() {
            return Err("taken for something else".into());
        }
        let marks = ["SITE timed wait", "SITE timed broadcast"];
        is_that_barrier(&report, "timed", &marks);
        Ok(())
    });
}

/// A thread that gives up waiting just when it is woken hands the wake on: the C library then wakes
/// another thread. No thread has called for that wake, which is no part of a round.
#[test]
fn one_that_is_polled_all_the_time() {
    needs_root!(alone);
    for flags in [&[][..], &["-static"]] {
        let program = Build::of("condbarrier.c").flags(flags).path();
        let mut arguments = vec!["how=timed", "threads=5", "rounds=3000", "load=0"];
        arguments.push("patience=5");
        best_of_five(|| {
            let report = watch(&program, &arguments);
            // No arrival is invented.
            assert!(report.number("arrivals") <= 15_000, "{report}");
            assert!(report.number("episodes") <= 3000, "{report}");
            // The barrier may be taken for something else at first.
            if report.number("arrivals") < 15_000 {
                return Err(format!("not all were seen: {report}"));
            }
            report.is_exactly(15_000, 3000);
            Ok(())
        });
    }
}

fn is_one_barrier(how: &str, marks: &[&str]) {
    is_that_barrier(&condbarrier(how), how, marks);
}

/// Five threads, 80 times, one of them late.
fn condbarrier(how: &str) -> Report {
    let way = format!("how={how}");
    let arguments = [
        way.as_str(),
        "threads=5",
        "rounds=80",
        "slow=1",
        "load=3000",
    ];
    watch(&program("condbarrier.c"), &arguments)
}

fn is_that_barrier(report: &Report, how: &str, marks: &[&str]) {
    report.is_exactly(400, 80);
    is_recognised(report, 1, 80, 5);
    assert_eq!(report.sites().len(), 1, "{how}: {report}");
    assert_eq!(
        lines(&report.sites()[0]),
        marked("condbarrier.c", marks),
        "{how}"
    );
    // When they leave is not seen.
    assert!(report.threads()[0]["release_ns"].is_null(), "{report}");
}

#[test]
fn two_threads() {
    needs_root!();
    for how in ["how=plain", "how=signal"] {
        let report = watch(&program("condbarrier.c"), &[how, "threads=2", "rounds=300"]);
        report.is_exactly(600, 300);
    }
}

#[test]
fn without_any_work_between() {
    needs_root!();
    let report = watch(&program("condbarrier.c"), &["rounds=5000", "load=0"]);
    report.is_exactly(20_000, 5000);
}

#[test]
fn teams_of_changing_size_beside_other_barriers() {
    needs_root!();
    let arguments = ["threads=5", "stages=4", "rounds=30", "slow=0", "load=500"];
    let report = watch(&program("condbarrier.c"), &arguments);
    let mine: u64 = (2..=5).map(|threads| threads * 30).sum();
    report.is_exactly(mine + 4 * 2 * 5, 4 * 30 + 4 * 2);
    let kinds: Vec<&Value> = report.list("barriers").iter().map(|b| &b["kind"]).collect();
    assert_eq!(kinds.len(), 2);
    assert!(kinds.contains(&&Value::from("pthread")));
}

#[test]
fn few_and_slow_rounds() {
    needs_root!();
    let report = watch(&program("condbarrier.c"), &["rounds=2", "hold=400"]);
    report.is_exactly(8, 2);
    let report = watch(&program("condbarrier.c"), &["rounds=1"]);
    report.is_exactly(0, 0);
}

#[test]
fn other_builds() {
    needs_root!();
    let both = &["how=plain", "how=tail"][..];
    for (build, hows) in [
        (Build::of("condbarrier.c").flags(&["-static"]), both),
        (
            Build::of("condbarrier.c")
                .compiler("musl-gcc")
                .flags(&["-static"]),
            both,
        ),
        (Build::of("condbarrier.c").compiler("clang"), both),
        (
            Build::of("condbarrier.c")
                .compiler("clang")
                .flags(&["-static"]),
            both,
        ),
        (
            Build::of("condbarrier.c").flags(&["-fcf-protection=full", "-fno-plt"]),
            &["how=plain", "how=late", "how=tail"],
        ),
    ] {
        for how in hows {
            let arguments = [how, "rounds=60", "slow=3", "load=1000"];
            let report = watch(&build.path(), &arguments);
            report.is_exactly(240, 60);
        }
    }
}

#[test]
fn in_cplusplus() {
    needs_root!();
    let build = Build::of("condbarrier.cpp").compiler("g++");
    let report = watch(&build.path(), &["rounds=100"]);
    report.is_exactly(300, 100);
    is_recognised(&report, 1, 100, 3);
    let site = &report.sites()[0];
    let marks = ["SITE wait", "SITE notify"];
    assert_eq!(lines(site), marked("condbarrier.cpp", &marks), "{report}");
}

/// Ways to build a program of C++.
const BY_GCC: [(&str, &[&str]); 4] = [
    ("g++", &["-O0"]),
    ("g++", &["-O1"]),
    ("g++", &["-O2"]),
    ("g++", &["-O3", "-static"]),
];

#[test]
fn turns_of_cplusplus() {
    needs_root!();
    let by_clang: [(&str, &[&str]); 2] = [
        ("clang++", &["-O2", "-std=c++17"]),
        ("clang++", &["-O2", "-std=c++17", "-stdlib=libc++"]),
    ];
    for (compiler, options) in BY_GCC.into_iter().chain(by_clang) {
        let build = Build::of("condturns.cpp").compiler(compiler).flags(options);
        for how in ["how=wait", "how=retry", "how=shared"] {
            // Seen from the code that is a barrier whose threads do nothing between: docs/limits.md.
            if how == "how=retry" && options == ["-O0"] {
                continue;
            }
            let report = watch(&build.path(), &[how]);
            assert_eq!(report.number("episodes"), 0, "{how} {options:?}: {report}");
        }
    }
}

/// Its wait is a template of the library, or inlined into the loop of a thread, and a lock that
/// is released only if it is held makes ways of what nobody goes.
#[test]
fn in_cplusplus_however_it_was_built() {
    needs_root!();
    let by_clang: [(&str, &[&str]); 2] = [("clang++", &["-O0"]), ("clang++", &["-O2"])];
    for (compiler, options) in BY_GCC.into_iter().chain(by_clang) {
        let build = Build::of("condbarrier.cpp")
            .compiler(compiler)
            .flags(options);
        let report = watch(&build.path(), &["rounds=100", "turns=1"]);
        report.is_exactly(300, 100);
        is_recognised(&report, 1, 100, 3);
    }
}

#[test]
fn from_the_middle() {
    needs_root!();
    let arguments = ["rounds=1000", "slow=0", "load=3000"];
    let target = start(crate::harness::command(
        program("condbarrier.c"),
        &arguments,
    ));
    pause(300);
    let report = attach(target.pid(), &["--duration", "1s"]).report();
    report.is_consistent();
    let episodes = report.number("episodes");
    assert!((20..=400).contains(&episodes), "{report}");
    assert!(report.number("incomplete_episodes") <= 2, "{report}");
    assert_eq!(number(&report.list("barriers")[0], "participants"), 4);
}

#[test]
fn who_is_missing_in_the_end() {
    needs_root!();
    let arguments = ["rounds=20", "slow=2", "hang=1"];
    let (_, report) = watch_with(&[], &program("condbarrier.c"), &arguments);
    assert_eq!(report.number("episodes"), 19);
    let open = &report.list("unfinished")[0];
    assert_eq!(open["arrived"].as_array().unwrap().len(), 3, "{report}");
    assert_eq!(open["missing"].as_array().unwrap().len(), 1, "{report}");
}

#[track_caller]
pub fn stays_silent(program: &Path, arguments: &[&str]) {
    let folder = folder();
    let json = folder.path().join("report.json");
    let mut command = sbt_with(&["run", "--json", "--output"]);
    command.arg(&json).arg("--").arg(program).args(arguments);
    // Some of them talk.
    let finished = run(command);
    assert!(finished.status.success(), "{finished}");
    let report = Report::read(&json);
    report.is_exactly(0, 0);
    assert_eq!(report.list("barriers").len(), 0, "{arguments:?}: {report}");
}

#[test]
fn what_is_no_barrier() {
    needs_root!();
    // At the same time: they mostly sleep.
    let kinds = [&[][..], &["-g0", "-O3"], &["-O0"], &["-g0", "-s"]];
    std::thread::scope(|scope| {
        for flags in kinds {
            scope.spawn(|| no_kind_of_it_is_a_barrier(flags));
        }
    });
}

fn no_kind_of_it_is_a_barrier(flags: &'static [&'static str]) {
    let program = Build::of("notbarriers.c").flags(flags).path();
    for what in [
        "queue",
        "lazy",
        "handoff",
        "pool",
        "readers",
        "ticker",
        "semaphore",
        "lock",
        "future",
        "latch",
        "pipeline",
        "turns",
        "pingpong",
        "sleeper",
    ] {
        let what = format!("what={what}");
        for threads in ["threads=2", "threads=4"] {
            stays_silent(&program, &[&what, threads]);
        }
    }
}

#[test]
fn queues_of_cplusplus() {
    needs_root!();
    let program = Build::of("condqueue.cpp").compiler("g++").path();
    for threads in ["threads=1", "threads=4"] {
        stays_silent(&program, &[threads]);
    }
}
