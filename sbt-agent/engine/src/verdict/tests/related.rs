//! Which counter goes with who is late.

use super::*;
use crate::report::{RelatedReport, StragglerPattern, UsedReport};

/// A program in which now one thread has twice the work, now another, with one counter.
fn uneven(name: &str, rounds: usize, counted: fn(u32, u64) -> Option<u64>) -> Report {
    let mut program = Program::new(4);
    let counters = counters::commas(name).unwrap().0;
    let counters = counters.into_iter().map(|one| (one, Source::Event(0)));
    program.facts.counters = Plan(counters.collect());
    program.counted = Some(counted);
    let late = |round: usize| (round * 7 + round / 3) % 4;
    program.rounds(rounds, |round| but(4, late(round), runs(8), runs(4)));
    program.report()
}

/// One for each µs that the thread has lived: more for whoever works for longer.
#[allow(clippy::unnecessary_wraps, reason = "counts may be missing")]
fn with_work(_: u32, time_ns: u64) -> Option<u64> {
    Some(time_ns / US)
}

fn text(report: &Report) -> String {
    let verdicts = report.verdicts.as_ref().unwrap();
    assert_eq!(verdicts[0].kind, VerdictKind::RotatingStraggler);
    verdicts[0].text.clone()
}

/// The correlations at the site with most episodes.
fn related(report: &Report) -> &[RelatedReport] {
    let site = report.sites.iter().max_by_key(|site| site.episodes);
    &site.unwrap().related
}

const SAID: &str = "Who is late has more";

#[test]
fn who_is_late_has_more_of_it() {
    let report = uneven("page-faults", 60, with_work);
    let text = text(&report);
    assert!(
        text.contains(
            "Who is late has more page-faults, 8000 before each barrier to the others' 4000: \
             correlation 1.00 over 60 episodes."
        ),
        "{text}"
    );
    let evidence = &report.verdicts.as_ref().unwrap()[0].evidence;
    assert_eq!(evidence["correlation_episodes"], Figure::Whole(60));
    let it = &related(&report)[0];
    assert!(
        it.correlation > Some(0.999) && !it.made_by_lateness,
        "{it:?}"
    );
    assert!(it.effective_episodes > Some(59.0), "{it:?}");
    assert_eq!(it.late_ns, Some(4 * MS));
}

#[test]
fn what_lateness_makes_explains_nothing() {
    for name in ["task-clock", "context-switches", "cycles", "msr/tsc/"] {
        let report = uneven(name, 60, with_work);
        assert!(!text(&report).contains(SAID), "{name}");
        let it = &related(&report)[0];
        assert!(
            it.correlation > Some(0.999) && it.made_by_lateness,
            "{it:?}"
        );
    }
}

#[test]
fn few_episodes_even_counts_and_small_differences_explain_nothing() {
    assert!(text(&uneven("page-faults", 20, with_work)).contains(SAID));
    assert!(!text(&uneven("page-faults", 19, with_work)).contains(SAID));
    let even: fn(u32, u64) -> Option<u64> = |_, _| Some(7);
    let report = uneven("page-faults", 60, even);
    assert!(!text(&report).contains(SAID));
    let it = &related(&report)[0];
    assert_eq!((it.correlation, it.effective_episodes), (None, None));
    // Two page faults more do not take 4 ms.
    let rare: fn(u32, u64) -> Option<u64> = |_, time_ns| Some(time_ns / (2 * MS));
    let report = uneven("page-faults", 60, rare);
    assert!(related(&report)[0].correlation > Some(0.7));
    assert!(!text(&report).contains(SAID));
    // Nor is it known.
    let report = uneven("page-faults", 60, |_, _| None);
    assert!(!text(&report).contains(SAID));
    assert_eq!(related(&report)[0].episodes, 0);
}

/// A counter with these figures at all sites.
fn counter(name: &str, correlation: f64, (last, others): (f64, f64)) -> RelatedReport {
    RelatedReport {
        counter: name.into(),
        episodes: 412,
        correlation: Some(correlation),
        effective_episodes: Some(200.0),
        made_by_lateness: false,
        last: Some(last),
        others: Some(others),
        late_ns: Some(4 * MS),
    }
}

fn judged(of: &[RelatedReport]) -> String {
    let mut report = uneven("page-faults", 60, with_work);
    for site in &mut report.sites {
        site.related = of.to_vec();
    }
    report.verdicts = Some(judge(&report).unwrap());
    text(&report)
}

#[test]
fn all_counters_are_ranked_and_a_weak_one_is_not_told() {
    let faults = counter("page-faults", 0.93, (4_000.0, 20.0));
    let minor = counter("minor-faults", 0.93, (4_000.0, 20.0));
    let instructions = counter("instructions", 0.12, (1e6, 1e6));
    let said = judged(&[faults.clone(), minor, instructions]);
    assert!(
        said.ends_with(
            "Who is late has more page-faults, 4000 before each barrier to the others' 20.0: \
             correlation 0.93 over 412 episodes (instructions 0.12)."
        ),
        "{said}"
    );
    let misses = |last| counter("cache-misses", 0.97, (last, 20.0));
    assert!(judged(&[misses(40_000.0), faults.clone()]).contains("more cache-misses"));
    // So few misses take no 4 ms.
    assert!(judged(&[misses(400.0), faults.clone()]).contains("more page-faults"));
    let weak = RelatedReport {
        correlation: Some(0.69),
        ..faults.clone()
    };
    assert!(!judged(&[weak]).contains(SAID));
    // A few long episodes make the correlation.
    let odd = RelatedReport {
        effective_episodes: Some(4.0),
        ..faults.clone()
    };
    assert!(!judged(&[odd]).contains(SAID));
    let fewer = RelatedReport {
        last: Some(2.0),
        ..faults
    };
    assert!(!judged(&[fewer]).contains(SAID));
}

#[test]
fn work_must_grow_with_the_time_to_explain_it() {
    assert!(judged(&[counter("instructions", 0.9, (2e6, 1e6))]).contains("more instructions"));
    assert!(!judged(&[counter("instructions", 0.9, (1.2e6, 1e6))]).contains(SAID));
    assert!(!judged(&[counter("branches", 0.9, (1e6, 1e6))]).contains(SAID));
}

#[test]
fn page_faults_of_the_run_are_told_with_who_is_late_for_them() {
    let mut report = uneven("page-faults", 60, with_work);
    let used = UsedReport {
        user_ns: 400 * MS,
        system_ns: 400 * MS,
        minor_faults: 400_000,
        major_faults: 0,
        fault_ns: Some(1_000),
    };
    report.run.used = Some(used);
    let of = |report: &Report, kind: VerdictKind| {
        let all = judge(report).unwrap();
        all.into_iter().find(|it| it.kind == kind).unwrap().text
    };
    let faults = |report: &Report| of(report, VerdictKind::PageFaults);
    // The verdict on the site tells it.
    assert!(!faults(&report).contains("Who is late"));
    assert!(of(&report, VerdictKind::RotatingStraggler).contains(SAID));
    // On a busy machine there is none.
    report.sites.iter_mut().for_each(|site| {
        site.straggler.as_mut().unwrap().pattern = StragglerPattern::None;
    });
    let told = faults(&report);
    assert!(
        told.contains("Who is late at step a.c:40 has more page-faults, 8000 before"),
        "{told}"
    );
    for site in &mut report.sites {
        // Another counter goes better with it.
        site.related = vec![counter("instructions", 0.99, (2e6, 1e6))];
    }
    let told = faults(&report);
    assert!(!told.contains("Who is late"), "{told}");
}
