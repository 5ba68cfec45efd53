//! Barriers in which threads sleep on after the last one has come.

use std::cmp::Reverse;

use super::{MS, Program, pace::queue, says};
use crate::{
    report::{
        BarrierKind, Report, SchedulingReport, StandsReport, VerdictKind, Withheld, sound,
        waits::LooksReport,
    },
    verdict::judge,
};

const ROUNDS: usize = 40;

fn kinds(report: &Report) -> Vec<VerdictKind> {
    let verdicts = judge(report).unwrap_or_default();
    verdicts.iter().map(|verdict| verdict.kind).collect()
}

/// Two threads work for 3 ms in each phase, and sleep for `asleep_ms` after a barrier that does not
/// tell when they leave it. `in_barrier`: whether that is known to be in the barrier.
fn report(asleep_ms: u64, in_barrier: bool) -> Report {
    let mut program = Program::new(2);
    program.facts.run.departures = Some(false);
    program.rounds(ROUNDS, |_| vec![[3 * MS, 0, asleep_ms * MS]; 2]);
    let mut report = program.report();
    report.sites.sort_by_key(|site| Reverse(site.episodes));
    let site = &mut report.sites[0];
    site.kind = BarrierKind::Std;
    site.release_ns = None;
    let all_ms = asleep_ms * ROUNDS as u64;
    let mut place = queue(50.0, &[(1, all_ms), (2, all_ms)], &[]);
    place.place.clone_from(&site.places[0]);
    place.in_barrier = in_barrier;
    report.waits = Some(LooksReport {
        looks: 100,
        thread_looks: 200,
        places: vec![place],
        ..LooksReport::default()
    });
    report
}

#[test]
fn threads_that_sleep_on_in_the_barrier_wait_for_what_the_last_one_does() {
    let report_of_long = report(5, true);
    assert_eq!(kinds(&report_of_long), [VerdictKind::SerialInBarrier]);
    says(
        &judge(&report_of_long).unwrap()[0],
        &[
            "the other sleeps there for at least 10.0 ms more on average, 62 % of thread time",
            "The last thread may execute the barrier's completion function before it releases the other. Do \
             less in that function",
        ],
    );
    // Sleep in the barrier is no work.
    let judged = sound(report_of_long);
    let because = &judged.why_withheld(Withheld::Efficiency).unwrap().because;
    assert!(
        because.contains("slept in barriers after the last one had come"),
        "{because}"
    );
    assert_eq!(report(0, true).slept_after_the_last_pct(), None);
    // Who calls that function works longer by it.
    let mut program = Program::new(2);
    program.rounds(ROUNDS, |round| {
        super::but(2, round % 2, super::runs(8), super::runs(3))
    });
    let mut uneven = program.report();
    let text = |report: &Report| judge(report).unwrap()[0].text.clone();
    let completion = "a completion function of the barrier counts for the thread that calls it";
    assert!(!text(&uneven).contains(completion));
    for site in &mut uneven.sites {
        (site.kind, site.release_ns) = (BarrierKind::Std, None);
    }
    assert!(text(&uneven).contains(completion), "{}", text(&uneven));
    // Unless the others sleep in the barrier meanwhile, so that it may be nothing else.
    uneven.waits.clone_from(&report(5, true).waits);
    let place = &mut uneven.waits.as_mut().unwrap().places[0];
    place.place.clone_from(&uneven.sites[0].places[0]);
    place.slept_ns = Some(uneven.sites[0].lost_ns + ROUNDS as u64 * 6 * MS);
    assert_eq!(kinds(&uneven), [VerdictKind::SerialInBarrier]);
    let mut other = report(5, true);
    other.sites[0].kind = BarrierKind::Condvar;
    says(
        &judge(&other).unwrap()[0],
        &["The last thread may do something before it releases the other. Let it do less"],
    );
    // The kernel's sums are of incomplete episodes as well.
    let mut torn = report(5, true);
    torn.sites[0].incomplete = 1;
    assert_eq!(torn.slept_after_the_last_pct(), None);
    // The model knows when they leave.
    let mut told = report(5, true);
    let site = &mut told.sites[0];
    site.release_ns.clone_from(&site.idle_ns);
    assert!(!kinds(&told).contains(&VerdictKind::SerialInBarrier));
}

#[test]
fn threads_that_sleep_elsewhere_or_briefly_do_not() {
    let elsewhere = kinds(&report(5, false));
    assert!(
        !elsewhere.contains(&VerdictKind::SerialInBarrier),
        "{elsewhere:?}"
    );
    assert!(
        elsewhere.contains(&VerdictKind::AsleepInTheWork),
        "{elsewhere:?}"
    );
    let report = report(0, true);
    assert!(!kinds(&report).contains(&VerdictKind::SerialInBarrier));
}

#[test]
fn a_program_that_is_frozen_does_not_sleep_on_in_a_barrier() {
    let mut frozen = report(5, true);
    // Of 40 times 10 ms after the last has come, only a little remains.
    let stood = |at_most_ns| StandsReport {
        times: 1,
        total_ns: at_most_ns,
        at_most_ns,
    };
    frozen.run.scheduling = Some(SchedulingReport {
        frozen: stood(100 * MS),
        ..SchedulingReport::default()
    });
    let told = |report: &Report| kinds(report).contains(&VerdictKind::SerialInBarrier);
    assert!(told(&frozen));
    frozen.run.scheduling.as_mut().unwrap().frozen = stood(195 * MS);
    assert!(!told(&frozen));
}
