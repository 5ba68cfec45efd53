//! Contended locks, by kind, with times.

use serde_json::Value;

use crate::{
    harness::{Report, needs_root, number, watch_with},
    programs::{line, program},
};

/// The program's own figures of a lock: number of waits, their total, and the longest, ns.
pub fn logged(out: &str, name: &str) -> [u64; 3] {
    let line = out.lines().find(|line| line.starts_with(name)).unwrap();
    let words: Vec<&str> = line.split(' ').collect();
    [2, 4, 6].map(|at| words[at].parse().unwrap())
}

/// The lock of a kind that was waited for from a line.
#[track_caller]
pub fn lock<'a>(report: &'a Report, kind: &str, line: u32) -> &'a Value {
    let mut locks = report.list("locks").iter();
    locks
        .find(|lock| lock["kind"] == kind && lock["line"] == line)
        .unwrap_or_else(|| panic!("no {kind} at line {line} in {report}"))
}

#[test]
fn contended_locks_are_counted_with_their_times() {
    needs_root!(alone);
    let (finished, report) = watch_with(
        &["--futex=on"],
        &program("locks.c"),
        &["rounds=50", "threads=3", "hold=10"],
    );
    let out = finished.expect(0).out();
    for name in ["mutex", "rwlock", "semaphore"] {
        let [waits, total_ns, max_ns] = logged(&out, name);
        let lock = lock(&report, name, line("locks.c", &format!("SITE {name}")));
        // The first thread takes the lock before the others come. A thread that is woken and finds
        // the lock taken again sleeps once more; a thread that comes late does not sleep.
        let seen = number(lock, "waits");
        assert!(
            (waits * 9 / 10..=waits * 3).contains(&seen),
            "{out}{report}"
        );
        // Without the way into the kernel and back.
        let ns = number(lock, "total_ns");
        assert!(
            (total_ns * 9 / 10..=total_ns).contains(&ns),
            "{out}{report}"
        );
        assert!(number(lock, "max_ns") <= max_ns, "{out}{report}");
        assert!(number(lock, "max_ns") >= 5_000_000, "{out}{report}");
        assert_eq!(number(lock, "waiters_max"), 3, "{report}");
        assert_eq!(lock["mean_ns"], ns / seen);
        assert_eq!(lock["function"], format!("take_{name}"));
    }
    // Neither the barriers of the program nor its ends of threads are locks.
    assert_eq!(report.list("locks").len(), 3, "{report}");
}

/// The ways out of the C library are known before the program runs: to learn them takes longer than
/// each of these locks is in use.
#[test]
fn a_lock_that_is_in_use_for_a_short_time_is_told() {
    needs_root!();
    let arguments = ["rounds=3", "threads=3", "hold=2"];
    let (finished, report) = watch_with(&["--futex=on"], &program("locks.c"), &arguments);
    finished.expect(0);
    for name in ["mutex", "rwlock", "semaphore"] {
        let lock = lock(&report, name, line("locks.c", &format!("SITE {name}")));
        assert_eq!(lock["function"], format!("take_{name}"));
    }
}

#[test]
fn nobody_looked_is_not_none() {
    needs_root!();
    let (_, report) = watch_with(&["--futex=off"], &program("locks.c"), &["rounds=2"]);
    assert_eq!(report.0["locks"], Value::Null, "{report}");
    let (_, report) = watch_with(&["--futex=on"], &program("truth.c"), &["rounds=5"]);
    assert_eq!(report.list("locks").len(), 0, "{report}");
}

#[test]
fn locks_of_children_are_counted_in_each() {
    needs_root!(alone);
    let inner = program("locks.c");
    let one = format!("{} how=mutex threads=2 hold=5", inner.display());
    let (finished, report) = watch_with(
        &["--futex=on"],
        "/bin/sh".as_ref(),
        &["-c", &format!("{one} rounds=80 & {one} rounds=160; wait")],
    );
    let out = finished.expect(0).out();
    let waits = |line: &str| line.split(' ').nth(2).unwrap().parse::<u64>().unwrap();
    let waits: u64 = out.lines().map(waits).sum();
    assert_eq!(waits, 2 * (80 + 160), "{out}");
    // Both have ended, and have taken it from the same line: they are one if the way
    // to it was known as far.
    let locks = report.list("locks");
    assert!((1..=2).contains(&locks.len()), "{report}");
    for lock in locks {
        assert_eq!(lock["kind"], "mutex", "{report}");
        assert_eq!(lock["line"], line("locks.c", "SITE mutex"), "{report}");
        assert_eq!(number(lock, "waiters_max"), 2, "{report}");
    }
    let seen: u64 = locks.iter().map(|lock| number(lock, "waits")).sum();
    assert!(
        (waits * 9 / 10..=waits * 3).contains(&seen),
        "{out}{report}"
    );
}
