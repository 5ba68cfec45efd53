//! Of programs with exactly one fault sbt says which: here with options, or with several settings.
//! `faults.rs` has a program for each fault.

use serde_json::{Value, json};

use crate::{
    harness::{Report, best_of_five, folder, needs_root, number, run, sbt_with, watch, watch_with},
    programs::{Build, program},
};

/// The report on a program with a fault.
fn report_with(options: &[&str], fault: &str) -> Report {
    let fault = format!("fault={fault}");
    let (finished, report) = watch_with(options, &program("verdicts.c"), &[&fault]);
    finished.expect(0);
    report
}

/// The verdicts' kinds in their order.
fn kinds(report: &Report) -> Vec<&str> {
    let verdicts = report.verdicts().iter();
    verdicts.map(|it| it["kind"].as_str().unwrap()).collect()
}

/// The only verdict, if it is of this kind.
fn only(report: &Report, kind: &str) -> Result<Value, String> {
    // Threads that sleep in their work, so as to need no CPU, are told beside the fault.
    let beside = "asleep-in-the-work";
    let others: Vec<_> = report
        .verdicts()
        .iter()
        .filter(|verdict| verdict["kind"] != beside)
        .collect();
    if let [only] = others.as_slice()
        && only["kind"] == kind
    {
        Ok((*only).clone())
    } else {
        Err(format!("{kind}: {:#}", report.0["verdicts"]))
    }
}

/// Fails unless the only verdict on a fault is this one, in one of five attempts: on
/// a busy machine a thread may be late for other reasons.
#[track_caller]
fn is_found(options: &[&str], fault: &str, kind: &str, check: impl Fn(&Value)) {
    best_of_five(|| {
        let report = report_with(options, fault);
        let verdict = only(&report, kind)?;
        check(&verdict);
        Ok(())
    });
}

/// Whether a verdict's sentence has these words.
#[track_caller]
fn says(verdict: &Value, words: &[&str]) {
    let text = verdict["text"].as_str().unwrap();
    for word in words {
        assert!(text.contains(word), "{word:?} in {text}");
    }
}

/// One thread works between parallel regions: that is said where it is known, and never that all is
/// well.
#[test]
fn time_between_regions_is_not_denied() {
    needs_root!();
    let openmp = Build::of("serial_between.c").flags(&["-fopenmp"]).path();
    for departures in ["--departures=auto", "--departures=on", "--departures=off"] {
        let folder = folder();
        let json = folder.path().join("report.json");
        let mut command = sbt_with(&["run", departures, "--json", "--output"]);
        command.env("OMP_NUM_THREADS", "2");
        command.arg(&json).arg("--").arg(&openmp);
        run(command).expect(0);
        let report = Report::read(&json);
        let kinds = kinds(&report);
        assert!(!kinds.contains(&"no-problem"), "{report}");
        let because = report.0["no_verdict_because"].as_str().unwrap_or_default();
        assert!(
            !kinds.is_empty() || because.contains("between parallel regions"),
            "{report}"
        );
    }
}

#[test]
fn too_few_cpus_are_found() {
    needs_root!(alone);
    let threads = 3 * std::thread::available_parallelism().unwrap().get();
    let of_fault = |options: &[&str], fault: &str| {
        let arguments = [format!("fault={fault}"), format!("threads={threads}")];
        let arguments = arguments.each_ref().map(String::as_str);
        let (finished, report) = watch_with(options, &program("verdicts.c"), &arguments);
        finished.expect(0);
        report
    };
    best_of_five(|| {
        let verdict = only(&of_fault(&[], "cpu"), "more-threads-than-cpus")?;
        assert_eq!(verdict["evidence"]["threads"], threads, "{verdict}");
        assert_eq!(verdict["site"], Value::Null, "{verdict}");
        Ok(())
    });
    best_of_five(|| {
        let report = of_fault(&["--barrier", "spin_wait"], "spin");
        let found = kinds(&report);
        let kind = "spinning-while-others-lack-cpus";
        if found.first() == Some(&kind) && !found.contains(&"more-threads-than-cpus") {
            Ok(())
        } else {
            Err(format!("{:#}", report.0["verdicts"]))
        }
    });
}

#[test]
fn a_thread_whose_cpu_is_taken_is_found() {
    needs_root!(alone);
    is_found(&[], "stolen", "low-priority", |verdict| {
        assert_eq!(verdict["thread"], 1, "{verdict}");
        says(
            verdict,
            &[
                "T1 verdicts has nice value 0",
                "has scheduling class SCHED_FIFO",
            ],
        );
    });
}

#[test]
fn a_lock_that_all_wait_for_is_named() {
    needs_root!(alone);
    is_found(&[], "lock", "lock-contention", |verdict| {
        says(verdict, &["for the mutex locked at take verdicts.c:"]);
    });
    let options = ["--futex=on", "--waits=off"];
    is_found(&options, "lock", "straggler-blocked", |verdict| {
        says(verdict, &["probably for the mutex of take verdicts.c:"]);
    });
}

#[test]
fn phases_that_are_too_short_are_found() {
    needs_root!(alone);
    for departures in ["--departures=auto", "--departures=on", "--departures=off"] {
        is_found(&[departures], "short", "phase-too-short", |verdict| {
            assert!(
                number(&verdict["evidence"], "phase_ns") < 200_000,
                "{verdict}"
            );
        });
    }
}

#[test]
fn of_too_few_episodes_it_is_not_said_that_all_is_well() {
    needs_root!();
    let report = watch(&program("verdicts.c"), &["fault=healthy", "rounds=2"]);
    // On a busy machine a thread may be late for other reasons, and that is said.
    assert!(!kinds(&report).contains(&"no-problem"), "{report}");
    if report.0["verdicts"].is_null() {
        let because = "3 complete episodes: too few to tell";
        assert_eq!(report.0["no_verdict_because"], json!(because), "{report}");
    }
}

#[test]
fn cpus_of_the_target_are_counted_where_it_may_run() {
    needs_root!();
    let bound = |mask: &str| {
        let program = program("truth.c");
        let arguments = [mask, program.to_str().unwrap(), "rounds=100", "base=10000"];
        watch(std::path::Path::new("/usr/bin/taskset"), &arguments)
    };
    // The program binds itself after it was started.
    assert_eq!(bound("1").0["cpus"], 1);
    let all = std::thread::available_parallelism().unwrap().get();
    assert_eq!(report_with(&[], "start").0["cpus"], all);
}

/// The verdicts on a demo with as many threads as can run at once: of more it depends
/// on the order in which they get a CPU who comes last.
fn of_demo(name: &str) -> Report {
    let folder = folder();
    let json = folder.path().join("report.json");
    let cpus = std::thread::available_parallelism().unwrap().get();
    let threads = cpus.clamp(2, 4).to_string();
    let mut command = sbt_with(&["demo", name, "--scale", "0.3", "--threads", &threads]);
    command.args(["--json", "--output"]).arg(&json);
    run(command).expect(0);
    Report::read(&json)
}

#[test]
fn the_faults_of_the_demos_are_named() {
    needs_root!(alone);
    for (demo, kind, function) in [
        ("lu-block", "persistent-straggler", "update_rows"),
        ("water", "straggler-at-many-sites", "potential_energy"),
        ("matmul-tiles", "persistent-straggler", "multiply"),
    ] {
        best_of_five(|| {
            let report = of_demo(demo);
            let verdicts = report.verdicts();
            let found = verdicts.iter().any(|verdict| {
                let text = verdict["text"].as_str().unwrap();
                verdict["kind"] == kind && text.contains(function)
            });
            found.then_some(()).ok_or(format!("{demo}: {verdicts:#?}"))
        });
    }
}
