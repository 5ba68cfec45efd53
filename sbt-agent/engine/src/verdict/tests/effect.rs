//! The effect comes before the pattern: what mending would save, and what a cause explains.

use super::*;
use crate::report::{AloneReport, BarrierKind, FirstThreadReport, ThinnedReport, UsedReport};

#[test]
fn half_of_the_last_places_of_two_is_chance() {
    // In many episodes 52 % are more than half beyond doubt, and nothing all the same.
    let mut program = Program::new(2);
    program.rounds(20_000, |round| {
        let last = usize::from(round % 25 < 13);
        but(2, last, [150 * US, 0, 0], [100 * US, 0, 0])
    });
    let report = program.report();
    assert_eq!(
        report.sites[0].straggler.as_ref().unwrap().pattern,
        "persistent"
    );
    let verdicts = report.verdicts.unwrap();
    assert_eq!(verdicts[0].kind, VerdictKind::RotatingStraggler);
    assert_eq!(verdicts[0].thread, None);
}

#[test]
fn no_more_is_saved_than_the_cpus_allow() {
    let saves_ms = |cpus| {
        let mut program = Program::new(3);
        program.facts.run.cpus = Some(cpus);
        // Two of the threads share a CPU.
        program.rounds(20, |_| but(3, 2, runs(6), [2 * MS, 2 * MS, 0]));
        let verdicts = program.report().verdicts.unwrap();
        let is_of_work =
            |verdict: &&VerdictReport| verdict.kind == VerdictKind::PersistentStraggler;
        match verdicts.iter().find(is_of_work).unwrap().evidence["gain_ns"] {
            Figure::Whole(ns) => ns / MS,
            Figure::Real(_) => unreachable!(),
        }
    };
    // In each phase two threads wait for 2 ms, and 10 ms of work take 5 ms on two CPUs.
    assert_eq!(saves_ms(3), 20 * 4 / 3);
    assert_eq!(saves_ms(2), 20);
    // On one CPU the work takes as long as it does now, and who has more of it is told all the same.
    assert_eq!(saves_ms(1), 0);
}

#[test]
fn what_may_be_a_wait_in_the_dock_is_no_dynamic_imbalance() {
    let mut program = Program::new(4);
    let late = |round: usize| (round * 7 + round / 3) % 4;
    program.rounds(60, |round| {
        but(4, late(round), [2700 * US, 0, 0], [600 * US, 0, 0])
    });
    let with = program.report();
    let is_told = |kind, release_ns| {
        let mut report = with.clone();
        report.sites[0].kind = kind;
        let release = report.sites[0].release_ns.as_mut().unwrap();
        release.sum = release.count * release_ns;
        let verdicts = judge(&report).unwrap_or_default();
        verdicts
            .iter()
            .any(|verdict| verdict.kind == VerdictKind::RotatingStraggler)
    };
    assert!(is_told(BarrierKind::Pthread, 1500 * US));
    assert!(is_told(BarrierKind::Gomp, 50 * US));
    assert!(!is_told(BarrierKind::Gomp, 1500 * US));
}

#[test]
fn who_is_late_by_far_now_and_then_is_named_though_both_come_last_as_often() {
    let run = |seldom: Work| {
        let mut program = Program::new(2);
        program.rounds(400, |round| {
            let last = if round % 25 == 0 {
                seldom
            } else {
                [220 * US, 0, 0]
            };
            let who = if round % 25 == 0 { 0 } else { round % 2 };
            but(2, who, last, [200 * US, 0, 0])
        });
        program
    };
    let verdict = run(runs(10)).only(VerdictKind::PersistentStraggler);
    assert_eq!(verdict.thread, Some(0));
    says(
        &verdict,
        &[
            "imbalance at step a.c:40: 9",
            "% of the wait is for T0 w, which comes last in 52 % of 400 episodes",
            "in a phase on average (by the clock at most ",
            " in 95 % of them, and 10.0 ms in the longest)",
            "Look for what it does now and then",
        ],
    );
    let kinds = run([260 * US, 0, 0]).kinds();
    assert!(
        !kinds.contains(&VerdictKind::PersistentStraggler),
        "{kinds:?}"
    );
}

#[test]
fn a_thread_is_blamed_for_its_work_in_all_of_its_episodes() {
    // The thread comes last in three of four episodes, by a little; in the others it has nothing
    // to do, and on the whole it works less than the others.
    let mut program = Program::new(4);
    program.rounds(80, |round| {
        let own = if round % 4 == 0 { US } else { 11 * MS };
        but(4, 2, [own, 0, 0], runs(10))
    });
    let report = program.report();
    let blames = |verdict: &VerdictReport| verdict.thread == Some(2);
    let verdicts = report.verdicts.unwrap_or_default();
    assert!(!verdicts.iter().any(blames), "{verdicts:#?}");
}

#[test]
fn a_cause_is_told_with_what_it_explains() {
    // The last sleeps a little, and above all has no CPU.
    let mut program = Program::new(4);
    program.rounds(60, |round| but(4, round % 4, [4 * MS, 5 * MS, MS], runs(4)));
    let verdict = program.only(VerdictKind::StragglerLostItsCpu);
    let share = verdict.evidence["share_pct"];
    // 15 of 18 ms of waiting in 40 ms of thread time.
    assert!(
        matches!(share, Figure::Real(share) if (36.0..39.0).contains(&share)),
        "{verdict:?}"
    );
}

#[test]
fn the_program_s_own_fault_comes_before_a_want_of_cpus() {
    let work = |round: usize| {
        let mut all = but(4, 3, runs(8), runs(4));
        all[round % 3] = [4 * MS, 9 * MS, 0];
        all
    };
    let mut program = Program::new(4);
    program.meet(1, &[runs(1); 4]);
    for round in 0..40 {
        program.meet(0, &work(round));
        program.meet(2, &but(4, 1, runs(5), runs(3)));
    }
    let report = program.report();
    let verdicts = report.verdicts.unwrap();
    assert_eq!(verdicts[0].kind, VerdictKind::PersistentStraggler);
    assert_eq!(verdicts[0].thread, Some(1));
    let last = verdicts.last().unwrap();
    assert_eq!(last.kind, VerdictKind::StragglerLostItsCpu, "{verdicts:#?}");
}

#[test]
fn an_imbalance_that_grows_is_told_as_growing() {
    let mut program = Program::new(4);
    program.rounds(80, |round| {
        but(4, 3, [(4 + round as u64 / 8) * MS, 0, 0], runs(4))
    });
    let verdict = program.only(VerdictKind::GrowingImbalance);
    assert_eq!(verdict.thread, Some(3));
    says(
        &verdict,
        &[
            "growing imbalance at step a.c:40: the threads wait",
            "for T3 w in the first quarter",
        ],
    );
    // One whose share of the time hardly can grow any more.
    let mut program = Program::new(4);
    program.rounds(80, |round| {
        but(4, 3, [(10 + round as u64 / 8) * MS, 0, 0], runs(4))
    });
    assert_eq!(program.kinds(), [VerdictKind::GrowingImbalance]);
    // One that stays the same is not.
    let mut program = Program::new(4);
    program.rounds(80, |_| but(4, 3, runs(8), runs(4)));
    assert_eq!(program.kinds(), [VerdictKind::PersistentStraggler]);
}

#[test]
fn a_straggler_that_works_longer_in_few_phases_is_told_so() {
    let mut program = Program::new(2);
    program.rounds(400, |round| {
        let last = if round % 18 == 0 { runs(30) } else { runs(1) };
        but(2, 1, last, runs(1))
    });
    let verdict = program.only(VerdictKind::PersistentStraggler);
    says(
        &verdict,
        &[
            "(by the clock at most 1",
            " ms in half of them, and 30.0 ms in the longest)",
        ],
    );
}

#[test]
fn a_main_thread_that_meets_nobody_may_be_the_serial_part() {
    let report = |first_thread: FirstThreadReport| {
        let mut report = Program::new(4).rounds(20, |_| vec![runs(10); 4]).report();
        report.run.ended = true;
        report.run.wall_ns += 100 * MS;
        report.run.first_thread = Some(first_thread);
        report.verdicts = None;
        judge(&report)
    };
    let alone = |running_ns| {
        Some(AloneReport {
            wall_ns: 100 * MS,
            running_ns,
        })
    };
    let found = report(FirstThreadReport {
        after: alone(90 * MS),
        ..FirstThreadReport::default()
    });
    let verdict = &found.unwrap()[0];
    assert_eq!(verdict.kind, VerdictKind::SerialEnd);
    says(
        verdict,
        &["serial end: the main thread works alone for 90.0 ms after the other threads have ended"],
    );
    let found = report(FirstThreadReport {
        between: alone(90 * MS),
        ..FirstThreadReport::default()
    });
    assert_eq!(found.unwrap()[0].kind, VerdictKind::SerialPart);
    // A main thread that sleeps until the others have ended is no loss.
    let found = report(FirstThreadReport {
        after: alone(MS),
        ..FirstThreadReport::default()
    });
    let is_serial = |verdict: &VerdictReport| verdict.kind == VerdictKind::SerialEnd;
    assert!(!found.is_ok_and(|found| found.iter().any(is_serial)));
}

#[test]
fn page_faults_are_a_problem_of_all_threads() {
    let mut report = Program::new(4).rounds(20, |_| vec![runs(10); 4]).report();
    let used = |system_ns, minor_faults| UsedReport {
        user_ns: 400 * MS,
        system_ns,
        minor_faults,
        major_faults: 0,
        fault_ns: None,
    };
    report.run.used = Some(used(400 * MS, 400_000));
    let verdict = &judge(&report).unwrap()[0];
    assert_eq!(verdict.kind, VerdictKind::PageFaults);
    says(
        verdict,
        &["takes 400 ms of 800 ms CPU time, 50 %", "400000"],
    );
    // Something else takes the kernel's time, or it takes little.
    for other in [used(400 * MS, 1_000), used(40 * MS, 400_000)] {
        report.run.used = Some(other);
        let kinds = judge(&report).unwrap();
        assert_eq!(kinds[0].kind, VerdictKind::NoProblem);
    }
    // Measured on this machine, the same number explains much or little.
    for (fault_ns, explains) in [(2_000, true), (500, false)] {
        report.run.used = Some(UsedReport {
            fault_ns: Some(fault_ns),
            ..used(400 * MS, 80_000)
        });
        let found = judge(&report).unwrap()[0].kind == VerdictKind::PageFaults;
        assert_eq!(found, explains, "{fault_ns}");
    }
}

#[test]
fn with_probes_that_are_off_for_a_while_there_are_no_more_threads() {
    let mut program = Program::new(2);
    program.facts.run.cpus = Some(2);
    program.rounds(1000, |round| {
        but(2, round % 2, [3 * US, 0, 0], [2 * US, 0, 0])
    });
    let mut report = program.report();
    // A fifth of the run was seen, and the threads' own times are those of the whole run.
    report.own_cost.thinned = Some(ThinnedReport {
        since_ns: 0,
        off_ns: report.run.wall_ns / 5 * 4,
        observed_pct: 20.0,
        arrivals_seen: 400,
        arrivals_exact: true,
    });
    for thread in &mut report.threads {
        thread.ready_ns = Some(thread.work_ns.unwrap() / 4);
    }
    let verdicts = judge(&report).unwrap_or_default();
    assert_eq!(
        verdicts[0].kind,
        VerdictKind::PhaseTooShort,
        "{verdicts:#?}"
    );
}

#[test]
fn between_arrive_and_wait_threads_may_work() {
    let mut program = Program::new(2);
    program.rounds(20, |_| but(2, 1, runs(9), [300 * US, 0, 0]));
    let mut report = program.report();
    for site in &mut report.sites {
        site.kind = BarrierKind::Std;
        site.release_ns = None;
    }
    let verdict = &judge(&report).unwrap()[0];
    assert_eq!(verdict.kind, VerdictKind::PersistentStraggler);
    says(verdict, &["the threads wait at most 4"]);
}
