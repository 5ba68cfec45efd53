//! Causes of a lack of CPUs, stops and page faults in programs without barriers.

use super::{
    lack::{S, machine, of, task},
    *,
};
use crate::report::{
    QuotaReport, SchedulingReport, StandsReport, UsedReport, WaitKind, waits::LooksReport,
};

/// What is said of a program without barriers that used so many ms as user and in the kernel, with so
/// many page faults.
fn judged_without_barriers(
    scheduling: SchedulingReport,
    used: [u64; 3],
) -> Result<Vec<VerdictReport>, String> {
    judge(&without_barriers(scheduling, used))
}

fn without_barriers(
    scheduling: SchedulingReport,
    [user_ms, system_ms, minor_faults]: [u64; 3],
) -> Report {
    let mut program = Program::new(2);
    program.facts.run.cpus = Some(2);
    program.facts.run.scheduling = Some(scheduling);
    let mut report = program.report();
    report.sites.clear();
    report.run.wall_ns = S;
    report.run.used = Some(UsedReport {
        user_ns: user_ms * MS,
        system_ns: system_ms * MS,
        minor_faults,
        major_faults: 0,
        fault_ns: Some(1_000),
    });
    report
}

#[test]
fn stops_and_page_faults_are_told_without_barriers() {
    let free = || of(vec![task(1, "0-1", [90, 0]), task(2, "0-1", [90, 0])]);
    let faults = judged_without_barriers(free(), [900, 800, 600_000]).unwrap();
    assert_eq!(faults[0].kind, VerdictKind::PageFaults);
    says(
        &faults[0],
        &["the kernel takes 800 ms of 1.70 s CPU time, 47 %"],
    );
    assert_eq!(faults[0].thread, None);
    // Little time, as that of a start, or other work of the kernel.
    for used in [
        [100, 200, 150_000],
        [1_000, 400, 300_000],
        [900, 800, 6_000],
    ] {
        assert!(judged_without_barriers(free(), used).is_err());
    }
    let mut stopped = free();
    stopped.stopped = StandsReport {
        times: 1,
        total_ns: 400 * MS,
        at_most_ns: 450 * MS,
    };
    let stopped = judged_without_barriers(stopped, [900, 10, 100]).unwrap();
    assert_eq!(stopped[0].kind, VerdictKind::ProgramStopped);
}

#[test]
fn causes_of_a_lack_of_cpus_are_told_without_barriers() {
    let judged = |scheduling: SchedulingReport| judged_without_barriers(scheduling, [0; 3]);
    // The first thread, which waits in a join, is not busy.
    let tasks = |cpus: &str, ready| {
        let busy = |tid| task(tid, cpus, [60, ready]);
        of(vec![task(100, "0-1", [0, 0]), busy(1), busy(2)])
    };
    let with = |ready, machine| SchedulingReport {
        machine: Some(machine),
        ..tasks("0-1", ready)
    };
    let found = judged(with(30, machine(200, 120, 5))).unwrap();
    assert_eq!(found[0].kind, VerdictKind::OthersTakeCpus);
    says(
        &found[0],
        &[
            "its busy threads are ready without a CPU for 30 % of their time",
            "among them `cc1` (pid 77)",
            "or give it CPUs of its own.",
        ],
    );
    let mut starved = of(vec![
        task(1, "0-1", [95, 2]),
        task(2, "0-1", [95, 2]),
        task(3, "0-1", [2, 97]),
    ]);
    starved.tasks[2].nice = 15;
    let waits_for = |tid: u32, kind| {
        let mut report = without_barriers(starved.clone(), [0; 3]);
        let mut place = super::pace::queue(20.0, &[(tid, 700)], &[]);
        place.kind = kind;
        report.waits = Some(LooksReport {
            places: vec![place],
            ..LooksReport::default()
        });
        judge(&report)
    };
    let found = waits_for(1, WaitKind::Io).unwrap();
    assert_eq!(found[0].kind, VerdictKind::LowPriority);
    says(
        &found[0],
        &[
            "has nice value 15",
            "ready without a CPU for 97 % of its time",
            "If others wait for what it does",
        ],
    );
    // A thread that nobody waits for may be meant to give way.
    assert!(waits_for(1, WaitKind::Join).is_err());
    assert!(waits_for(3, WaitKind::Io).is_err());
    starved.tasks[2].nice = 0;
    assert!(judged(starved).is_err(), "the same priority");
    let found = judged(tasks("0", 30)).unwrap();
    assert_eq!(found[0].kind, VerdictKind::BoundToFewCpus);
    let mut throttled = tasks("0-1", 30);
    throttled.quotas = vec![QuotaReport {
        group: "/user/job".into(),
        cpus: 0.5,
        period_ns: 100 * MS,
        periods: 5,
        throttled_periods: 4,
        throttled_ns: 300 * MS,
    }];
    let found = judged(throttled).unwrap();
    assert_eq!(found[0].kind, VerdictKind::CpuQuota);
    // Little lack, sbt itself, and more threads than CPUs are no cause outside of it.
    for scheduling in [
        with(8, machine(200, 120, 5)),
        with(30, machine(200, 120, 75)),
        tasks("0-1", 30),
    ] {
        assert!(judged(scheduling).is_err());
    }
}
