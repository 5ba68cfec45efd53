//! Barriers made of atomics and futexes.

use crate::{
    harness::{Report, needs_root, number, watch_with},
    programs::{Build, line, program},
};

/// The report on a program that must succeed.
#[track_caller]
fn watch(options: &[&str], program: &std::path::Path, arguments: &[&str]) -> Report {
    let (finished, report) = watch_with(options, program, arguments);
    finished.expect(0);
    report
}

/// Watches a program with the default number of threads and rounds, in which each thread but the
/// last waits. Without `all=1` the other threads may be quicker, and the thread makes no system
/// call then.
#[track_caller]
fn watch_all_wait(program: &std::path::Path, arguments: &[&str]) -> Report {
    let arguments = [arguments, &["all=1"]].concat();
    let (finished, report) = watch_with(&["--futex=on"], program, &arguments);
    assert_eq!(finished.expect(0).out().trim(), "waits 300 wakes 100");
    report
}

fn has_note(report: &Report) -> bool {
    report.is_noted("futexes were watched")
}

/// From where threads wait at such a barrier.
fn waits_at(report: &Report, line: u32) -> bool {
    let place = format!("futexbarrier.c:{line}");
    let sites = report.sites();
    !sites.is_empty()
        && sites.iter().all(|site| {
            let lists = [&site["places"], &site["callers"]];
            lists.iter().any(|list| {
                let mut texts = list.as_array().unwrap().iter();
                texts.any(|text| text.as_str().unwrap().ends_with(&place))
            })
        })
}

#[test]
fn ones_own_by_the_c_library_is_counted_exactly() {
    needs_root!();
    let report = watch_all_wait(&program("futexbarrier.c"), &["rounds=100", "load=1000"]);
    report.is_exactly(400, 100);
    assert_eq!(report.list("barriers").len(), 1, "{report}");
    let barrier = &report.list("barriers")[0];
    assert_eq!(barrier["kind"], "futex");
    assert_eq!(number(barrier, "participants"), 4);
    assert_eq!(report.sites()[0]["kind"], "futex");
    let wait = line("futexbarrier.c", "SITE call wait");
    assert!(waits_at(&report, wait), "{report}");
    assert!(has_note(&report), "{report}");
}

#[test]
fn ones_own_by_the_instruction_is_counted_exactly() {
    needs_root!();
    for flags in [&[][..], &["-O0"]] {
        let report = watch_all_wait(
            &Build::of("futexbarrier.c").flags(flags).path(),
            &["how=inline", "rounds=100", "load=1000"],
        );
        report.is_exactly(400, 100);
        assert_eq!(report.list("barriers").len(), 1, "{report}");
    }
}

/// All system calls of futexes are made by one function: its callers tell.
#[test]
fn ones_own_by_a_shared_function_is_counted_exactly() {
    needs_root!();
    for how in ["wrapper", "wrappers"] {
        let how_option = format!("how={how}");
        let report = watch_all_wait(
            &program("futexbarrier.c"),
            &[&how_option, "rounds=100", "load=1000"],
        );
        report.is_exactly(400, 100);
        assert_eq!(report.list("barriers").len(), 1, "{report}");
        let barrier = &report.list("barriers")[0];
        assert_eq!(number(barrier, "participants"), 4);
        if how == "wrapper" {
            let wait = line("futexbarrier.c", "SITE wrapper wait");
            assert!(waits_at(&report, wait), "{report}");
        }
    }
    // The other one always comes last: only the code tells.
    let arguments = [
        "how=wrapper",
        "threads=2",
        "rounds=200",
        "load=300",
        "slow=1",
    ];
    let (finished, report) = watch_with(&["--futex=on"], &program("futexbarrier.c"), &arguments);
    finished.expect(0);
    assert_eq!(report.list("barriers").len(), 1, "{report}");
    assert_eq!(report.list("barriers")[0]["recognised"]["by_code"], true);
}

/// The callers of the function that waits and wakes are unknown: there, two threads at a barrier
/// look like two threads that take turns.
#[test]
fn what_cannot_be_told_behind_a_shared_function_is_asked_about() {
    needs_root!();
    let flags = &["-static", "-fno-asynchronous-unwind-tables"];
    let path = Build::of("futexbarrier.c").flags(flags).path();
    let arguments = ["how=wrapper", "threads=2", "rounds=200", "load=500"];
    let report = watch(&["--futex=on"], &path, &arguments);
    let is_asked = report.is_noted("--barrier") && report.is_noted("threads wait for each other");
    assert!(report.number("episodes") == 200 || is_asked, "{report}");
    let options = ["--barrier=wait_by_wrapper:1"];
    watch(&options, &path, &arguments).is_exactly(400, 200);
}

#[test]
fn off_shows_nothing() {
    needs_root!();
    let report = watch(
        &["--futex=off"],
        &program("futexbarrier.c"),
        &["rounds=600", "load=1000"],
    );
    assert_eq!(report.sites().len(), 0, "{report}");
    assert!(!has_note(&report), "{report}");
}

#[test]
fn auto_finds_it_while_nothing_else_is_there() {
    needs_root!();
    let report = watch(
        &[],
        &program("futexbarrier.c"),
        &["rounds=1000", "load=1000"],
    );
    let episodes = number(&report.0, "episodes");
    // The first quarter of a second is not watched, nor a moment for the decision.
    assert!((500..1000).contains(&episodes), "{report}");
    assert!(has_note(&report), "{report}");
    assert_eq!(report.list("barriers")[0]["kind"], "futex");
}

#[test]
fn auto_leaves_a_program_alone_that_shows_its_barriers() {
    needs_root!();
    let arguments = ["rounds=300", "load=1000", "hold=2"];
    let report = watch(&[], &program("condbarrier.c"), &arguments);
    report.is_exactly(1200, 300);
    assert!(!has_note(&report), "{report}");
}

#[test]
fn what_known_barriers_and_locks_are_made_of_does_not_count() {
    needs_root!();
    // Futexes of glibc, of a condition variable, of Rust and of GNU OpenMP.
    let report = watch(&["--futex=on"], &program("crowd.c"), &[]);
    assert!(report.number("episodes") > 0, "{report}");
    for barrier in report.list("barriers") {
        assert_eq!(barrier["kind"], "pthread", "{report}");
    }
    let report = watch(
        &["--futex=on"],
        &program("condbarrier.c"),
        &["rounds=100", "threads=4"],
    );
    report.is_exactly(400, 100);
    assert_eq!(report.list("barriers").len(), 1, "{report}");
    assert_eq!(report.list("barriers")[0]["kind"], "condvar");
    let rust = Build::of("rustbarrier.rs").compiler("rustc").path();
    let report = watch(&["--futex=on"], &rust, &[]);
    assert!(report.number("episodes") > 0, "{report}");
    for barrier in report.list("barriers") {
        assert_eq!(barrier["kind"], "rust", "{report}");
    }
    let team = Build::of("openmp.c").flags(&["-fopenmp"]).path();
    let plain = watch(&["--futex=off"], &team, &[]);
    let watched = watch(&["--futex=on"], &team, &[]);
    for key in ["arrivals", "episodes"] {
        assert_eq!(plain.0[key], watched.0[key], "{watched}");
    }
}
