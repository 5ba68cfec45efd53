//! What looks like a fault and is not known to be one: work in barriers, stops, sleep of some threads.

use super::*;
use crate::report::{
    BarrierKind, MachineReport, SchedulingReport, StandsReport, TaskReport, sound,
};

/// The report on a program whose barriers are those of GNU OpenMP.
fn of_openmp(program: &mut Program) -> Report {
    let mut report = program.report();
    for site in &mut report.sites {
        site.kind = BarrierKind::Gomp;
    }
    (report.verdicts, report.no_verdict_because) = (None, None);
    with(sound(report))
}

/// Two threads that make tasks of OpenMP, and execute these in the barrier.
fn of_tasks(has_tasks: Option<bool>, spins: u64) -> Report {
    let mut program = Program::new(2);
    program.alone_ns = Some(10 * US);
    program.release_ns = 9 * MS;
    program.spins = spins;
    program.facts.run.openmp_tasks = has_tasks;
    program.rounds(30, |_| vec![[5 * US, 0, 0]; 2]);
    of_openmp(&mut program)
}

#[test]
fn threads_that_execute_tasks_in_a_barrier_do_not_wait_there() {
    for (has_tasks, spins) in [(None, 90), (Some(true), 90), (Some(true), 40)] {
        let report = of_tasks(has_tasks, spins);
        let because = report.no_verdict_because.unwrap_or_default();
        assert!(because.contains("execute tasks"), "{because} {has_tasks:?}");
        assert!(report.efficiency.is_none());
    }
    // Threads that sleep meanwhile have nothing to do, nor have those of a program without tasks.
    for (has_tasks, spins) in [(Some(true), 0), (Some(false), 90)] {
        let because = of_tasks(has_tasks, spins)
            .no_verdict_because
            .unwrap_or_default();
        assert!(because.contains("waiting at barriers"), "{because}");
    }
}

#[test]
fn beside_a_thread_that_makes_tasks_others_may_work_in_the_barrier() {
    let single = |has_tasks| {
        let mut program = Program::new(2);
        program.alone_ns = Some(US);
        program.spins = 100;
        program.facts.run.openmp_tasks = Some(has_tasks);
        program.rounds(30, |_| vec![runs(9), [US, 0, 0]]);
        of_openmp(&mut program)
    };
    let serial = single(false).verdicts.unwrap_or_default();
    assert_eq!(serial[0].kind, VerdictKind::SerialPhase);
    let report = single(true);
    assert_eq!(report.verdicts, None);
    assert!(
        report
            .no_verdict_because
            .is_some_and(|text| text.contains("execute tasks"))
    );
}

#[test]
fn after_one_episode_nobody_is_said_to_wait_where_tasks_are_executed() {
    let report = |has_tasks| {
        let mut program = Program::new(2);
        program.alone_ns = Some(US);
        program.spins = 100;
        program.facts.run.openmp_tasks = Some(has_tasks);
        program.meet(0, &[runs(9), [US, 0, 0]]);
        of_openmp(&mut program)
    };
    assert!(report(true).worked_in_barriers_pct().is_some());
    assert_eq!(report(false).worked_in_barriers_pct(), None);
}

#[test]
fn a_stopped_program_does_not_sleep() {
    let mut program = Program::new(2);
    program.rounds(30, |_| vec![[4 * MS, 0, 4 * MS]; 2]);
    assert_eq!(program.kinds(), [VerdictKind::AsleepInTheWork]);
    program.facts.run.scheduling = Some(SchedulingReport {
        stopped: StandsReport {
            times: 3,
            total_ns: 115 * MS,
            at_most_ns: 130 * MS,
        },
        ..SchedulingReport::default()
    });
    assert_eq!(program.kinds(), [VerdictKind::ProgramStopped]);
}

#[test]
fn a_thread_that_sbt_stops_does_not_sleep() {
    let mut program = Program::new(2);
    program.rounds(30, |_| vec![[4 * MS, 0, MS]; 2]);
    program.facts.run.backend = "ptrace".into();
    let because = program.none();
    assert!(
        because.ends_with("20 % asleep in the work, or stopped by sbt"),
        "{because}"
    );
    let mut report = program.report();
    report.waits = Some(crate::samples::imbalanced().report.waits.unwrap());
    let kinds = judge(&report).unwrap();
    let mut kinds = kinds.iter().map(|verdict| verdict.kind);
    assert!(kinds.any(|kind| kind == VerdictKind::AsleepInTheWork));
}

#[test]
fn threads_of_which_one_works_are_not_all_asleep() {
    let mut program = Program::new(3);
    program.rounds(30, |_| vec![runs(8), [MS, 0, 7 * MS], [MS, 0, 7 * MS + US]]);
    let because = program.none();
    assert!(because.contains("asleep in the work"), "{because}");
}

#[test]
fn threads_of_openmp_that_spin_on_one_cpu_have_no_known_work() {
    let task = |tid: u32| TaskReport {
        tid,
        pid: 1,
        name: "w".into(),
        cpus: "0".into(),
        nice: 0,
        policy: crate::report::Policy::Normal,
        looked_ns: 1000 * MS,
        running_ns: Some(500 * MS),
        ready_ns: Some(500 * MS),
        system_ns: None,
        minor_faults: None,
    };
    let bound = |spins: u64| {
        let mut program = Program::new(2);
        program.alone_ns = Some(US);
        program.spins = spins;
        program.facts.run.cpus = Some(2);
        program.facts.run.scheduling = Some(SchedulingReport {
            tasks: vec![task(1), task(2)],
            first_cpus: "0-1".into(),
            ..SchedulingReport::default()
        });
        program.rounds(30, |_| vec![[4 * MS, 4 * MS, 0], [500 * US, 0, 0]]);
        let verdicts = of_openmp(&mut program).verdicts.unwrap_or_default();
        let kinds = verdicts.iter().map(|verdict| verdict.kind);
        kinds.collect::<Vec<_>>()
    };
    assert_eq!(bound(80), [VerdictKind::BoundToFewCpus]);
    assert_eq!(bound(0).len(), 2);
}

#[test]
fn a_thread_that_mostly_works_alone_is_told_although_cpus_lack() {
    let mut program = Program::new(2);
    program.facts.run.cpus = Some(2);
    // In a few rounds another thread is the one that works: the least work says nothing.
    program.rounds(60, |round| {
        let worker = usize::from(round % 10 == 0);
        let ready = if round % 3 == 0 { 6 * MS } else { 0 };
        but(2, worker, [9 * MS, ready, 0], [US, 0, 0])
    });
    assert_eq!(program.kinds(), [VerdictKind::SerialPhase]);
}

#[test]
fn a_main_thread_that_works_while_there_is_no_other_takes_no_cpu() {
    let task = |tid: u32, running: u64, ready: u64| TaskReport {
        tid,
        pid: 1,
        name: "w".into(),
        cpus: "0-1".into(),
        nice: 0,
        policy: crate::report::Policy::Normal,
        looked_ns: 1000 * MS,
        running_ns: Some(running * MS),
        ready_ns: Some(ready * MS),
        system_ns: None,
        minor_faults: None,
    };
    let kinds = |alone_ms: u64| {
        let mut program = Program::new(2);
        program.facts.run.cpus = Some(2);
        program.facts.run.pid = 77;
        program.facts.run.first_thread = Some(crate::report::FirstThreadReport {
            after: Some(crate::report::AloneReport {
                wall_ns: alone_ms * MS,
                running_ns: alone_ms * MS,
            }),
            ..crate::report::FirstThreadReport::default()
        });
        program.facts.run.scheduling = Some(SchedulingReport {
            tasks: vec![
                task(1, 400, 400),
                task(2, 400, 400),
                TaskReport {
                    pid: 77,
                    ..task(77, 300, 100)
                },
            ],
            first_cpus: "0-1".into(),
            ..SchedulingReport::default()
        });
        program.rounds(60, |round| but(2, round % 2, [4 * MS, 4 * MS, 0], runs(4)));
        program.kinds()
    };
    assert!(kinds(0).contains(&VerdictKind::OwnThreadsTakeCpus));
    assert!(!kinds(290).contains(&VerdictKind::OwnThreadsTakeCpus));
}

#[test]
fn equal_work_that_takes_longer_at_times_is_nobodys_fault() {
    // The same work takes 4 ms or 8 ms, for one thread more often than for the other.
    let takes = |round: usize, often: usize| runs(if round * 7 % 10 < often { 8 } else { 4 });
    let mut program = Program::new(2);
    program.rounds(100, |round| vec![takes(round + 3, 2), takes(round, 7)]);
    let because = program.none();
    assert!(because.contains("waiting at barriers"), "{because}");
    // Nor if one of them never has the shortest time: its memory may be further away all along.
    let mostly_short = |round: usize| runs([4, 4, 5, 4, 8, 4, 5, 4, 4, 5][round % 10]);
    let mut program = Program::new(2);
    program.rounds(100, |round| vec![mostly_short(round), [5_800 * US, 0, 0]]);
    let because = program.none();
    assert!(because.contains("waiting at barriers"), "{because}");
    // Whoever usually works longer than the others ever do is told, although the work varies as much.
    let varies = |round: usize| 4 + (round % 7) as u64 / 2;
    let more = |round: usize| runs(varies(round) * 9 / 5);
    let mut program = Program::new(2);
    program.rounds(100, |round| vec![runs(varies(round + 3)), more(round)]);
    assert_eq!(program.kinds(), [VerdictKind::PersistentStraggler]);
    // Or whose least work takes half as long again.
    let often = |round: usize| if round % 10 < 2 { 9 } else { varies(round) };
    let more = |round: usize| runs(varies(round) * 8 / 5);
    let mut program = Program::new(2);
    program.rounds(100, |round| vec![runs(often(round + 3)), more(round)]);
    assert_eq!(program.kinds(), [VerdictKind::PersistentStraggler]);
    // And so is a thread that has more to do in some phases, where equal work takes equally long.
    let mut program = Program::new(2);
    program.rounds(100, |round| vec![runs(4), takes(round, 5)]);
    assert_eq!(program.kinds(), [VerdictKind::PersistentStraggler]);
}

#[test]
fn a_cpu_that_is_slower_for_a_while_is_no_dynamic_imbalance() {
    let late = |last_us: u64| {
        let mut program = Program::new(2);
        program.rounds(100, |round| {
            but(2, round / 10 % 2, [last_us * US, 0, 0], runs(7))
        });
        program
    };
    assert_eq!(late(12_000).kinds(), [VerdictKind::RotatingStraggler]);
    let because = late(9_800).none();
    assert!(because.contains("waiting at barriers"), "{because}");
}

#[test]
fn a_little_sleep_for_an_unknown_reason_is_nobodys_fault() {
    let slept = |us: u64| {
        let mut program = Program::new(2);
        let late = |round: usize| but(2, round % 2, [10 * MS, 0, us * US], runs(10));
        program.rounds(60, late);
        program
    };
    assert_eq!(slept(3_000).kinds(), [VerdictKind::StragglerBlocked]);
    let because = slept(900).none();
    assert!(because.contains("waiting at barriers"), "{because}");
}

#[test]
fn what_a_hypervisor_took_is_no_sleep() {
    let with = |stolen_ms: u64, work: &dyn Fn(usize) -> Vec<Work>| {
        let mut program = Program::new(2);
        program.facts.run.scheduling = Some(SchedulingReport {
            machine: Some(MachineReport {
                online: "0-1".into(),
                looked_ns: 1_000 * MS,
                busy_ns: 0,
                target_ns: 0,
                own_ns: 0,
                stolen_ns: stolen_ms * MS,
                processes: None,
            }),
            ..SchedulingReport::default()
        });
        program.rounds(30, work);
        program
    };
    let all = |_: usize| vec![[4 * MS, 0, MS]; 2];
    assert_eq!(with(0, &all).kinds(), [VerdictKind::AsleepInTheWork]);
    let because = with(60, &all).none();
    assert!(
        because.contains("without the CPU that the hypervisor took"),
        "{because}"
    );
    let last = |round: usize| but(2, round % 2, [10 * MS, 0, 3 * MS], runs(10));
    assert_eq!(with(0, &last).kinds(), [VerdictKind::StragglerBlocked]);
    let because = with(100, &last).none();
    assert!(because.contains("waiting at barriers"), "{because}");
}

#[test]
fn of_a_program_that_hung_for_most_of_the_time_nothing_else_is_told() {
    let mut program = Program::new(3);
    program.rounds(40, |_| but(3, 1, runs(8), runs(4)));
    let mut judged = |lasted_ns: u64, in_it: usize| {
        let mut report = program.report();
        let hung = crate::samples::hung().report.run.hang;
        report.run.hang = hung.map(|mut hung| {
            hung.found.arrived.truncate(in_it);
            hung.found.missing.clear();
            StandstillReport { lasted_ns, ..hung }
        });
        judge(&report).map(|verdicts| verdicts[0].kind)
    };
    let told = Ok(VerdictKind::PersistentStraggler);
    assert_eq!(judged(1_000 * MS, 2), Err(HUNG.into()));
    assert_eq!(judged(MS, 2), told, "for a moment");
    assert_eq!(judged(1_000 * MS, 1), told, "the others go on");
}
