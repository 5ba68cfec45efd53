//! If more than a little thread time is lost in any known way, there is no verdict `no-problem`;
//! the reason gives the share and the way.

use super::*;
use crate::report::{BarrierKind, ThinnedReport};

/// A report on even work, with a change.
fn even(change: impl Fn(&mut Report)) -> Report {
    let mut report = Program::new(4).rounds(20, |_| vec![runs(10); 4]).report();
    assert_eq!(
        report.verdicts.as_ref().unwrap()[0].kind,
        VerdictKind::NoProblem
    );
    change(&mut report);
    report
}

#[track_caller]
fn refuses(report: &Report, words: &[&str]) {
    let because = judge(report).unwrap_err();
    for word in words {
        assert!(because.contains(word), "{word:?} in {because}");
    }
}

/// Percentage of the time of all threads, as ns for each of the four.
fn share_ns(report: &Report, pct: u64) -> u64 {
    report.run.wall_ns * pct / 100
}

#[test]
fn asleep_in_the_work() {
    let mut program = Program::new(4);
    program.rounds(20, |_| vec![[7 * MS, 0, 3 * MS]; 4]);
    says(
        &program.only(VerdictKind::AsleepInTheWork),
        &[
            "each thread sleeps for at least 29 % of its time between its first barrier and its last",
        ],
    );
    // Less is no verdict, and not denied either.
    let mut program = Program::new(4);
    program.rounds(20, |_| vec![[9_600 * US, 0, 400 * US]; 4]);
    let because = program.none();
    assert_eq!(
        because,
        "4 % of thread time was lost, and no cause was found: 4 % asleep in the work"
    );
    // A thread that sleeps longer than the others: the sleep of all is that of the others.
    let mut program = Program::new(3);
    program.rounds(20, |_| vec![[0, 0, 5 * MS], [0, 0, 5 * MS], [0, 0, 9 * MS]]);
    let verdicts = judge(&program.report()).unwrap();
    let equal = verdicts
        .iter()
        .find(|told| told.kind == VerdictKind::AsleepInTheWork);
    says(
        equal.unwrap(),
        &["each thread sleeps for at least 55 % of its time"],
    );
    let mut program = Program::new(3);
    program.rounds(20, |_| vec![[0, 0, MS], [0, 0, 6 * MS], [0, 0, 11 * MS]]);
    let verdicts = judge(&program.report()).unwrap();
    assert!(
        verdicts
            .iter()
            .all(|told| told.kind != VerdictKind::AsleepInTheWork)
    );
    // A little sleep is no problem.
    let mut program = Program::new(4);
    program.rounds(20, |_| vec![[9_900 * US, 0, 100 * US]; 4]);
    program.only(VerdictKind::NoProblem);
}

#[test]
fn without_a_cpu() {
    let mut program = Program::new(4);
    program.rounds(20, |_| vec![[9 * MS, MS, 0]; 4]);
    let because = program.none();
    assert!(because.contains("10 % without a CPU"), "{because}");
}

#[test]
fn several_ways_at_once_are_added_and_told_what_is_most_first() {
    let mut program = Program::new(4);
    program.rounds(20, |_| vec![[9_300 * US, 250 * US, 450 * US]; 4]);
    let because = program.none();
    assert!(
        because.ends_with(": 4 % asleep in the work, 2 % without a CPU"),
        "{because}"
    );
    // Each loss is small, but together they are not.
    let mut program = Program::new(4);
    program.rounds(20, |_| vec![[9_760 * US, 120 * US, 120 * US]; 4]);
    let because = program.none();
    assert!(because.starts_with("3 % of"), "{because}");
}

#[test]
fn between_parallel_regions() {
    // Threads also wait in the regions, as long as nothing else is found.
    let mut program = Program::new(4);
    program.alone_ns = Some(500 * US);
    program.rounds(20, |_| vec![runs(10); 4]);
    let report = program.report();
    let lost = super::super::unaccounted::of(&report).unwrap();
    assert!((3.0..5.0).contains(&lost.pct()), "{lost:?}");
    assert!(lost.sentence().contains("between parallel regions"));
    // How long threads waited between regions may be unknown.
    let partly = |departures| {
        let mut report = report.clone();
        report.run.departures = departures;
        for site in &mut report.sites {
            site.kind = BarrierKind::Gomp;
        }
        super::super::unaccounted::of(&report).unwrap_err()
    };
    for departures in [Some(false), None] {
        let because = partly(departures);
        assert!(because.contains("--departures on"), "{because}");
    }
}

#[test]
fn before_the_first_barrier_and_after_the_last() {
    let mut program = Program::new(4);
    program.meet(0, &but(4, 0, runs(20), [100 * US, 0, 0]));
    for _ in 0..60 {
        program.meet(0, &[runs(10); 4]);
    }
    assert!(program.none().contains("% of thread time"));
    // Threads had not begun yet, or had ended.
    let report = even(|report| {
        report.run.wall_ns += share_ns(report, 5);
        let it = report.efficiency.as_mut().unwrap();
        // The same work in a longer run.
        for share in [&mut it.parallel, &mut it.transfer, &mut it.speedup] {
            *share /= 1.05;
        }
    });
    refuses(&report, &["before the first barrier or after the last"]);
    let report = Report {
        incomplete_episodes: 1,
        ..report
    };
    refuses(&report, &["or in incomplete episodes"]);
}

#[test]
fn in_episodes_that_did_not_end() {
    let report = even(|report| {
        report.thread_time.unfinished_ns = share_ns(report, 12);
    });
    refuses(&report, &["in episodes that did not end"]);
}

#[test]
fn what_was_not_seen() {
    let mut report = even(|_| {});
    report.lost_events = 1;
    report.own_cost.events = 1000;
    let report = crate::report::sound(report);
    refuses(&report, &["1 events were lost"]);
    let mut report = even(|_| {});
    report.estimated = true;
    report.own_cost.thinned = Some(ThinnedReport {
        since_ns: 0,
        off_ns: 7,
        observed_pct: 96.0,
        arrivals_seen: 1,
        arrivals_exact: true,
    });
    let report = crate::report::sound(report);
    refuses(&report, &["96 % of the run", "--budget off"]);
    // With many lost events, there is no verdict at all.
    let mut program = Program::new(4);
    program.rounds(20, |_| but(4, 2, runs(9), runs(1)));
    program.facts.lost = 1_000_000;
    let because = program.none();
    assert!(because.contains("events were lost"), "{because}");
}

#[test]
fn a_first_thread_that_waits_for_the_end_of_others_loses_nothing() {
    let slept = |thread: usize| {
        even(|report| {
            // The thread takes part, and sleeps after its last barrier.
            let thread = &mut report.threads[thread];
            let ns = thread.work_ns.unwrap() / 2;
            thread.running_ns = Some(ns);
            thread.blocked_ns = Some(ns);
            thread.end_blocked_ns = Some(ns);
        })
    };
    assert_eq!(judge(&slept(0)).unwrap()[0].kind, VerdictKind::NoProblem);
    refuses(&slept(1), &["asleep after the last barrier"]);
}

#[test]
fn threads_that_wait_for_work_lose_nothing_before_there_is_any() {
    let docked = |main_ran: bool| {
        even(|report| {
            let ns = report.threads[1].work_ns.unwrap() / 2;
            for thread in &mut report.threads[1..] {
                thread.running_ns = Some(ns);
                thread.blocked_ns = Some(ns);
                thread.begin_blocked_ns = Some(ns);
                thread.begin_running_ns = Some(0);
            }
            report.threads[0].begin_running_ns = Some(if main_ran { ns } else { 0 });
        })
    };
    assert_eq!(
        judge(&docked(false)).unwrap()[0].kind,
        VerdictKind::NoProblem
    );
    refuses(&docked(true), &["asleep before the first barrier"]);
    // It is unknown what a main thread without barriers did in the meantime.
    let mut report = docked(false);
    report.threads[0].tid = 7;
    refuses(&report, &["asleep before the first barrier"]);
}

#[test]
fn an_older_report_does_not_deny_either() {
    let asleep = even(|report| {
        for thread in &mut report.threads {
            thread.blocked_ns = thread.work_ns;
            thread.running_ns = Some(0);
        }
    });
    let report = again(asleep);
    assert_eq!(report.verdicts, None);
    let because = report.no_verdict_because.unwrap();
    assert!(because.contains("asleep in the work"), "{because}");
    let report = again(even(|_| {}));
    assert_eq!(report.verdicts.unwrap()[0].kind, VerdictKind::NoProblem);
}
