//! Many processes, and several at the same time.

use std::path::Path;

use crate::{
    harness::{Report, needs_root, number, watch, watch_with},
    programs::program,
};

const SHELL: &str = "/bin/sh";

/// The report on a shell's commands.
#[track_caller]
fn watch_shell(options: &[&str], commands: &str) -> Report {
    let (finished, report) = watch_with(options, Path::new(SHELL), &["-c", commands]);
    finished.expect(0);
    report
}

#[test]
fn barriers_at_one_address_are_those_of_each_process() {
    needs_root!();
    let report = watch(
        &program("family.c"),
        &["children=4", "threads=3", "rounds=40"],
    );
    report.is_exactly(4 * 3 * 40, 4 * 40);
    let barriers = report.list("barriers");
    assert_eq!(barriers.len(), 4, "{report}");
    for barrier in barriers {
        assert_eq!(barrier["kind"], "condvar", "{report}");
        assert_eq!(number(barrier, "participants"), 3, "{report}");
        assert_eq!(number(barrier, "episodes"), 40, "{report}");
    }
    assert_eq!(report.sites().len(), 1, "{report}");
    assert_eq!(number(&report.sites()[0], "episodes"), 4 * 40, "{report}");
}

#[test]
fn generations_of_processes_are_all_seen() {
    needs_root!();
    let report = watch(
        &program("family.c"),
        &["waves=100", "children=2", "threads=2", "rounds=10", "us=0"],
    );
    report.is_exactly(100 * 2 * 2 * 10, 100 * 2 * 10);
    assert_eq!(report.list("barriers").len(), 200, "{report}");
    assert_eq!(report.sites().len(), 1, "{report}");
}

#[test]
fn programs_that_come_and_go_beside_a_barrier_change_nothing() {
    needs_root!();
    let inner = program("condbarrier.c");
    let inner = inner.display();
    // Five times, so that many a program is executed in the first rounds.
    let report = watch_shell(
        &[],
        &format!(
            "while :; do /bin/true; done & \
             for i in 1 2 3 4 5; do {inner} rounds=30 load=1000; done; kill $!; wait; true"
        ),
    );
    report.is_exactly(5 * 4 * 30, 5 * 30);
    assert_eq!(report.list("barriers").len(), 5, "{report}");
}

#[test]
fn a_barrier_of_futexes_is_found_behind_a_wrapper() {
    needs_root!();
    let inner = program("futexbarrier.c");
    let report = watch_shell(
        &[],
        &format!("{} rounds=1000 load=1000; true", inner.display()),
    );
    let episodes = number(&report.0, "episodes");
    assert!((500..1000).contains(&episodes), "{report}");
    assert_eq!(report.list("barriers")[0]["kind"], "futex", "{report}");
}
