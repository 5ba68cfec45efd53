//! Sleeps that are longer because something stopped the threads from outside.

use super::*;
use crate::report::{QuotaReport, SchedulingReport, StandsReport};
use crate::verdict::tests::{Program, runs};

/// What a stop or a freeze of the program, or a quota, does to the times of sleeps.
fn stopped(stood_ns: u64, frozen_ns: u64, throttled_ns: u64) -> SchedulingReport {
    let stands = |at_most_ns| StandsReport {
        times: 1,
        total_ns: at_most_ns,
        at_most_ns,
    };
    SchedulingReport {
        stopped: stands(stood_ns),
        frozen: stands(frozen_ns),
        quotas: vec![QuotaReport {
            group: "/job".into(),
            cpus: 1.0,
            period_ns: 100_000_000,
            periods: 10,
            throttled_periods: 9,
            throttled_ns,
        }],
        ..SchedulingReport::default()
    }
}

/// The kinds of the verdicts on a place at which each of two threads slept for 500 ms of a second.
fn told_of(kind: WaitKind, scheduling: SchedulingReport) -> Vec<VerdictKind> {
    let mut place = place(kind, 100, 200);
    (place.sleeps, place.slept_ns) = (Some(100), Some(1_000_000_000));
    let row = |tid| WaitThreadReport {
        label: format!("T{tid}"),
        tid,
        looks: 50,
        share_pct: 50.0,
        slept_ns: Some(500_000_000),
    };
    place.threads = vec![row(1), row(2)];
    let waker = |tid| WakerReport {
        label: format!("T{tid}"),
        tid,
        woken_ns: 500_000_000,
    };
    place.wakers = vec![waker(1), waker(2)];
    let mut report = crate::samples::imbalanced().report;
    report.waits = run(vec![place]).waits;
    report.waits.as_mut().unwrap().span_ns = 1_000_000_000;
    report.run.wall_ns = 1_000_000_000;
    report.run.scheduling = Some(scheduling);
    let found = of_the_run(&report);
    found.iter().map(|verdict| verdict.kind).collect()
}

#[test]
fn who_stands_from_outside_does_not_sleep() {
    let none: [VerdictKind; 0] = [];
    let (asleep, lock) = (VerdictKind::AsleepInTheWork, VerdictKind::LockContention);
    for (kind, expected) in [
        (WaitKind::Fault, vec![asleep]),
        (WaitKind::Sleep, vec![asleep]),
        (WaitKind::Io, vec![asleep]),
        (WaitKind::Condvar, vec![asleep]),
        (WaitKind::Mutex, vec![lock]),
        (WaitKind::Semaphore, vec![lock]),
    ] {
        let told = |scheduling| told_of(kind, scheduling);
        assert_eq!(told(stopped(0, 0, 0)), expected, "{kind:?}");
        assert_eq!(told(stopped(0, 490_000_000, 0)), none, "{kind:?} frozen");
        assert_eq!(told(stopped(490_000_000, 0, 0)), none, "{kind:?} stopped");
        // First stopped, then frozen: the times add up.
        let both = stopped(245_000_000, 245_000_000, 0);
        assert_eq!(told(both), none, "{kind:?} stopped and frozen");
        // Much remains.
        let little = stopped(0, 100_000_000, 0);
        assert_eq!(told(little), expected, "{kind:?} frozen for a short time");
        // The time ends a pause, whatever a quota does.
        let throttled = told(stopped(0, 0, 490_000_000));
        if kind == WaitKind::Sleep {
            assert_eq!(throttled, expected);
        } else {
            assert_eq!(throttled, none, "{kind:?} throttled");
        }
    }
}

#[test]
fn where_the_last_thread_stood_is_not_where_it_slept() {
    let mut meets = crate::samples::imbalanced().report;
    let mut fault = place(WaitKind::Fault, 40, 200);
    fault.threads[0].tid = meets.thread(1).unwrap().tid;
    meets.waits = run(vec![fault]).waits;
    meets.waits.as_mut().unwrap().span_ns = 1_000_000_000;
    let told = |report: &Report| of_the_last(report, &report.sites[0], Some(1), 0.0).is_some();
    meets.run.scheduling = Some(stopped(0, 150_000_000, 0));
    assert!(told(&meets), "400 ms asleep");
    meets.run.scheduling = Some(stopped(0, 250_000_000, 0));
    assert!(!told(&meets));
}

#[test]
fn a_last_thread_that_was_frozen_was_not_asleep() {
    let mut program = Program::new(2);
    let mut meets = program.rounds(40, |_| vec![runs(3), runs(8)]).report();
    let is_of_rounds = |site: &&mut SiteReport| site.episodes == 40;
    let site = meets.sites.iter_mut().find(is_of_rounds).unwrap();
    let last = site.straggler.as_mut().unwrap();
    last.late.as_mut().unwrap().last.blocked_ns = None;
    let (id, site) = (last.thread, site.clone());
    let tid = meets.thread(id).unwrap().tid;
    let mut io = place(WaitKind::Io, 80, 200);
    io.threads[0].tid = tid;
    meets.waits = run(vec![io]).waits;
    let waits = meets.waits.as_mut().unwrap();
    waits.span_ns = 1_000_000_000;
    waits.threads = vec![crate::verdict::tests::pace::thread(tid, "w", 200, 0)];
    let mut told = |frozen_ns| {
        meets.run.scheduling = Some(stopped(0, frozen_ns, 0));
        straggler(&meets, &site).is_some()
    };
    assert!(told(0));
    assert!(told(200_000_000), "asleep at 60 of 100 looks");
    assert!(!told(350_000_000), "asleep at 45 of 100 looks");
}
