//! Rules applied to made-up reports: what holds, what is broken, what cannot be measured.

use std::time::Duration;

use super::{
    Asked, CheckReport, Measure, Outcome, Rule, Status, judge,
    samples::{report, site, uneven},
};
use crate::{
    report::{
        Figure, IncompleteKind, IncompleteReport, Reason, Report, ThinnedReport, TrendReport,
        Withheld, WithheldReport, schema,
    },
    samples::hung,
};

const MS: u64 = 1_000_000;
const S: u64 = 1_000_000_000;

fn asked(measure: Measure, text: &str) -> Asked {
    Asked {
        rules: vec![Rule::parse(measure, text).unwrap()],
        ..Asked::default()
    }
}

/// The outcomes of one rule, without those that are always checked.
#[track_caller]
fn outcomes(report: &Report, measure: Measure, text: &str) -> Vec<Outcome> {
    let check = judge(report, &asked(measure, text), None);
    let is_named = asked(measure, text).rules[0].site.is_some();
    // The rule that something was measured is checked beside a rule for a site.
    let mine =
        |outcome: &Outcome| outcome.rule == measure.name() && (!is_named || outcome.site.is_some());
    check.outcomes.into_iter().filter(mine).collect()
}

#[track_caller]
fn only(report: &Report, measure: Measure, text: &str) -> Outcome {
    let mut all = outcomes(report, measure, text);
    assert_eq!(all.len(), 1, "{all:#?}");
    all.remove(0)
}

#[test]
fn a_limit_holds_or_is_broken_by_what_was_measured() {
    let report = uneven();
    for (measure, holds, breaks, expected) in [
        (Measure::Imbalance, "60%", "59.9%", Figure::Real(60.0)),
        // 2 of 6 seconds.
        (
            Measure::Idle,
            "690:33.4%",
            "690:33.3%",
            Figure::Real(100.0 / 3.0),
        ),
        // 4 s minus 0.2 s, of 6 s.
        (
            Measure::Efficiency,
            "factor:0.63",
            "factor:0.64",
            Figure::Real(3.8 / 6.0),
        ),
        (Measure::Efficiency, "0.66", "0.67", Figure::Real(0.66)),
        (
            Measure::LoadBalance,
            "lu.c:690:0.66",
            "lu.c:690:0.67",
            Figure::Real(2.0 / 3.0),
        ),
        (Measure::LoadBalance, "0.67", "0.68", Figure::Real(0.67)),
        (Measure::BarrierTime, "25ms", "24ms", Figure::Whole(25 * MS)),
        (
            Measure::Phase,
            "factor=25ms",
            "factor=24ms",
            Figure::Whole(25 * MS),
        ),
        (Measure::Episodes, "100", "101", Figure::Whole(100)),
        (
            Measure::Episodes,
            "factor:100",
            "factor:101",
            Figure::Whole(100),
        ),
    ] {
        for (text, expect) in [(holds, true), (breaks, false)] {
            let outcome = only(&report, measure, text);
            assert_eq!(outcome.holds, expect, "{text}: {outcome:#?}");
            assert!(outcome.is_measured, "{text}");
            let close = match (outcome.measured.unwrap(), expected) {
                (Figure::Real(is), Figure::Real(should)) => (is - should).abs() < 1e-9,
                (is, should) => is == should,
            };
            assert!(close, "{text}: {outcome:#?}");
            let check = judge(&report, &asked(measure, text), None);
            assert_eq!(check.exit_status, u8::from(!expect), "{text}");
        }
    }
    let outcome = only(&report, Measure::Phase, "1s");
    assert_eq!(outcome.mean_ns, Some(20 * MS));
    assert_eq!(outcome.site.as_deref(), Some("factor lu.c:690"));
    assert_eq!(
        (outcome.file.as_deref(), outcome.line),
        (Some("lu.c"), Some(690))
    );
}

#[test]
fn a_limit_for_all_sites_is_judged_at_each() {
    let report = report(vec![site(0, "factor", 690), site(1, "solve", 700)]);
    let all = outcomes(&report, Measure::Phase, "1000h");
    let sites: Vec<_> = all
        .iter()
        .filter_map(|outcome| outcome.site.as_deref())
        .collect();
    assert_eq!(sites, ["factor lu.c:690", "solve lu.c:700"]);
    assert!(all.iter().all(|outcome| outcome.holds));
}

#[test]
fn a_rule_for_all_sites_does_not_mind_where_hardly_any_time_is_lost() {
    let mut begin = site(0, "begin", 7);
    begin.imbalance_pct = Some(99.0);
    begin.lost_wall_pct = Some(0.99);
    let mut report = report(vec![begin]);
    let outcome = only(&report, Measure::Imbalance, "50%");
    assert!(outcome.holds, "{outcome:#?}");
    assert!(outcome.text.unwrap().contains("only 0.99 %"));
    assert!(!only(&report, Measure::Imbalance, "begin:50%").holds);
    report.sites[0].lost_wall_pct = Some(1.0);
    assert!(!only(&report, Measure::Imbalance, "50%").holds);
    report.sites[0].lost_wall_pct = None;
    assert!(!only(&report, Measure::Imbalance, "50%").holds);
    // An unknown figure at such a site stays unknown.
    report.sites[0].lost_wall_pct = Some(0.1);
    report.sites[0].imbalance_pct = None;
    unknown(&report, Measure::Imbalance, "50%");
}

/// The reason why a rule could not be measured.
#[track_caller]
fn unknown(report: &Report, measure: Measure, text: &str) -> String {
    let outcome = only(report, measure, text);
    assert!(!outcome.holds && !outcome.is_measured, "{outcome:#?}");
    assert_eq!(outcome.measured, None);
    let check = judge(report, &asked(measure, text), None);
    assert_eq!(check.exit_status, 1);
    outcome.text.unwrap()
}

/// The reason why too much was lost or unseen to judge a rule.
#[track_caller]
fn lost(report: &Report, measure: Measure, text: &str) -> String {
    let outcome = only(report, measure, text);
    assert!(!outcome.holds && !outcome.is_measured, "{outcome:#?}");
    assert_eq!(outcome.measured, None);
    assert_eq!(outcome.status, Status::Lost);
    let check = judge(report, &asked(measure, text), None);
    assert_eq!((check.exit_status, check.result), (5, "lost"));
    outcome.text.unwrap()
}

/// Withholds the efficiency for a reason.
fn withheld(report: &mut Report, reason: Reason, because: &str) {
    report.efficiency = None;
    let efficiency = Withheld::Efficiency;
    report.withheld = vec![WithheldReport::new(efficiency, reason, because.into())];
}

#[test]
fn a_rule_on_what_is_withheld_neither_holds_nor_is_broken() {
    let mut report = uneven();
    withheld(&mut report, Reason::EventsLost, "3 of 9 events were lost");
    for (measure, limit) in [
        (Measure::Efficiency, "0"),
        (Measure::LoadBalance, "0"),
        (Measure::Efficiency, "step:0"),
    ] {
        report.conceptual_phases[0].efficiency = None;
        let stat = report.sites[0].phase_ns.clone();
        report.conceptual_phases[0].phase_ns = stat;
        let why = lost(&report, measure, limit);
        assert_eq!(why, "cannot be measured: 3 of 9 events were lost");
    }
    // Rules that do not depend on it are judged.
    assert!(only(&report, Measure::Idle, "factor:100%").holds);
    for reason in [Reason::Unseen, Reason::Cut, Reason::Incomplete] {
        withheld(&mut report, reason, "because");
        let why = lost(&report, Measure::Efficiency, "0");
        assert!(why.ends_with("because"), "{why}");
    }
    // If shares are withheld, nothing is judged at sites.
    let shares = WithheldReport::new(Withheld::Shares, Reason::Contradiction, "no".into());
    report.withheld.push(shares);
    for measure in [Measure::Idle, Measure::Imbalance, Measure::LoadBalance] {
        let limit = if measure == Measure::LoadBalance {
            "factor:0"
        } else {
            "factor:100%"
        };
        assert!(lost(&report, measure, limit).ends_with("no"));
    }
    assert!(only(&report, Measure::Episodes, "factor:1").holds);
}

#[test]
fn what_cannot_be_measured_does_not_hold() {
    let sites = || vec![site(0, "factor", 690), site(1, "solve", 700)];
    let why = unknown(&report(sites()), Measure::Idle, "lu.c:691:100%");
    assert_eq!(
        why,
        "cannot be measured: no site matches lu.c:691; sites are: factor lu.c:690, solve lu.c:700"
    );
    let many = (0..20).map(|id| site(id, "f", 100 + id)).collect();
    let why = unknown(&report(many), Measure::Idle, "g:100%");
    assert!(why.ends_with("f lu.c:107, and 12 more"), "{why}");

    let mut nothing = report(sites());
    nothing.sites.clear();
    nothing.episodes = 0;
    nothing.none_found_because = Some("it has no symbols".into());
    for (measure, text) in [
        (Measure::Imbalance, "100%"),
        (Measure::Idle, "factor:100%"),
        (Measure::BarrierTime, "1000h"),
    ] {
        let why = unknown(&nothing, measure, text);
        assert!(why.contains("it has no symbols"), "{why}");
    }
    let none = "no complete episode was seen";
    withheld(&mut nothing, Reason::NoEpisode, none);
    let why = unknown(&nothing, Measure::Efficiency, "0");
    assert!(why.contains("no complete episode"), "{why}");
    // The number of episodes is known: there are none.
    let none = only(&nothing, Measure::Episodes, "1");
    assert!(!none.holds && none.is_measured, "{none:#?}");
    assert_eq!(none.text.as_deref(), Some("it has no symbols"));

    let of = |change: fn(&mut crate::report::SiteReport)| {
        let mut it = site(0, "factor", 690);
        change(&mut it);
        report(vec![it])
    };
    for (measure, report, words) in [
        (
            Measure::Imbalance,
            of(|site| site.imbalance_pct = None),
            "never two threads",
        ),
        (
            Measure::Idle,
            of(|site| site.threads[1].work_ns = None),
            "the start of work is unknown",
        ),
        (
            Measure::Phase,
            of(|site| site.phase_ns = None),
            "is it known",
        ),
    ] {
        let limit = if measure == Measure::Phase {
            "factor=1h"
        } else {
            "factor:100%"
        };
        let why = unknown(&report, measure, limit);
        assert!(why.contains(words), "{why}");
    }
    let none = of(|site| (site.episodes, site.incomplete) = (0, 3));
    let why = lost(&none, Measure::Phase, "factor=1h");
    assert!(
        why.contains("no complete episode was seen there, and 3 incomplete"),
        "{why}"
    );
    let none = of(|site| (site.episodes, site.incomplete) = (0, 0));
    unknown(&none, Measure::Phase, "factor=1h");
    let apart = of(|site| site.threads[0].episodes += 1);
    let why = unknown(&apart, Measure::LoadBalance, "factor:0");
    assert!(why.contains("do not all take part"), "{why}");
}

#[test]
fn of_a_run_seen_in_part_little_is_known() {
    let mut it = site(0, "factor", 690);
    it.estimated = true;
    it.episodes = 99;
    it.phase_ns.as_mut().unwrap().count = 99;
    let mut report = report(vec![it]);
    report.estimated = true;
    let because = "the probes were on for 37 % of the run; --budget off watches all";
    withheld(&mut report, Reason::Unseen, because);
    report.own_cost.thinned = Some(ThinnedReport {
        since_ns: 0,
        off_ns: 1,
        observed_pct: 37.4,
        arrivals_seen: 99,
        arrivals_exact: true,
    });
    for (measure, text) in [
        (Measure::Phase, "factor=1h"),
        (Measure::Imbalance, "100%"),
        (Measure::Efficiency, "0"),
    ] {
        let why = lost(&report, measure, text);
        assert!(
            why.contains("37 % of the run") && why.contains("--budget off"),
            "{why}"
        );
    }
    // At least this many episodes were seen.
    assert!(only(&report, Measure::Episodes, "factor:99").holds);
    report.sites[0].episodes = 100;
    assert!(only(&report, Measure::Imbalance, "100%").holds);
    // This rule counts phases, of which there may be fewer.
    let why = lost(&report, Measure::Phase, "factor=1h");
    assert!(why.contains("only 99 phases"), "{why}");
    report.sites[0].phase_ns.as_mut().unwrap().count = 100;
    assert!(only(&report, Measure::Phase, "factor=1h").holds);
}

#[test]
fn a_phase_from_barrier_to_barrier_is_meant_by_its_name() {
    let mut report = report(vec![site(0, "factor", 690)]);
    report.conceptual_phases[0].phase_ns = report.sites[0].phase_ns.clone();
    report.conceptual_phases[0].phase_ns.as_mut().unwrap().p95 = 3 * MS;
    assert!(only(&report, Measure::Phase, "step=3ms").holds);
    assert!(!only(&report, Measure::Phase, "step=2ms").holds);
    let why = unknown(&report, Measure::BarrierTime, "step:1h");
    assert!(why.contains("no barrier time"), "{why}");
    report.conceptual_phases[0].phase_ns = None;
    report.conceptual_phases[0].abandoned = 0;
    let why = unknown(&report, Measure::Phase, "step=1h");
    assert!(why.contains("never came to an end"), "{why}");
    report.conceptual_phases[0].abandoned = 3;
    let why = lost(&report, Measure::Phase, "step=1h");
    assert!(why.contains("given up: 3 of 3"), "{why}");
}

#[test]
fn of_what_was_mostly_given_up_or_unwatched_too_little_is_known() {
    let mut report = report(vec![site(0, "factor", 690)]);
    report.estimated = true;
    report.own_cost.thinned = None;
    let mut stat = report.sites[0].phase_ns.clone().unwrap();
    stat.count = 99;
    let at = &mut report.conceptual_phases[0];
    at.phase_ns = Some(stat);
    at.abandoned = 0;
    let why = lost(&report, Measure::Phase, "step=1h");
    assert!(why.contains("only 99 whole ones"), "{why}");
    report.estimated = false;
    assert!(only(&report, Measure::Phase, "step=1h").holds);
    report.conceptual_phases[0].abandoned = 100;
    let why = lost(&report, Measure::Phase, "step=1h");
    assert!(why.contains("given up: 100 of 199"), "{why}");
}

#[test]
fn something_was_measured_at_all() {
    let mut report = uneven();
    let lost = Asked {
        max_lost: Some(100.0),
        ..Asked::default()
    };
    let check = judge(&report, &lost, None);
    assert_eq!(check.exit_status, 0, "{check:#?}");
    report.episodes = 0;
    let check = judge(&report, &lost, None);
    assert_eq!(check.exit_status, 1, "{check:#?}");
    assert_eq!(check.outcomes[0].rule, "min-episodes");
}

#[test]
fn too_much_that_is_lost_says_that_nothing_can_be_judged() {
    let mut report = uneven();
    (report.lost_events, report.own_cost.events) = (10, 990);
    let with = |max_lost| Asked {
        max_lost,
        ..asked(Measure::Idle, "0%")
    };
    // By default, 1 % may be lost.
    assert_eq!(judge(&report, &with(None), None).exit_status, 1);
    let check = judge(&report, &with(Some(0.9)), None);
    assert_eq!((check.exit_status, check.result), (5, "lost"));
    assert_eq!(check.outcomes[0].measured, Some(Figure::Real(1.0)));
    report.lost_events = 11;
    assert_eq!(judge(&report, &with(None), None).exit_status, 5);
}

#[test]
fn what_stops_before_the_programs_end_does_not_tell_how_it_ended() {
    let of = |change: fn(&mut Report)| {
        let mut report = uneven();
        report.exit_status = None;
        change(&mut report);
        let check = judge(&report, &asked(Measure::Episodes, "1"), None);
        let mut outcomes = check.outcomes.into_iter();
        (
            outcomes.find(|outcome| outcome.rule == "program"),
            check.exit_status,
        )
    };
    // The recording breaks off, also if an older sbt wrote it.
    for change in [
        (|report| (report.ended, report.started) = (false, Some(true))) as fn(&mut Report),
        |report| (report.ended, report.started) = (false, None),
    ] {
        let (outcome, status) = of(change);
        let outcome = outcome.unwrap();
        assert!(!outcome.holds && !outcome.is_measured, "{outcome:#?}");
        assert!(
            outcome
                .text
                .unwrap()
                .contains("stops before the program's end")
        );
        assert_eq!(status, 1);
    }
    // A process that sbt attached to: its exit status is unknown.
    for ended in [true, false] {
        let (outcome, status) = of(if ended {
            |report| report.started = Some(false)
        } else {
            |report| (report.ended, report.started) = (false, Some(false))
        });
        assert_eq!((outcome, status), (None, 0));
    }
}

#[test]
fn little_that_is_lost_at_many_sites_is_much() {
    let small = |id: u32, lost_pct| {
        let mut it = site(id, "f", 100 + id);
        (it.imbalance_pct, it.lost_wall_pct) = (Some(99.0), Some(lost_pct));
        it
    };
    let of = |lost: &[f64]| {
        let sites = (0..).zip(lost).map(|(id, lost)| small(id, *lost));
        let outcomes = outcomes(&report(sites.collect()), Measure::Imbalance, "50%");
        let mut held: Vec<bool> = vec![false; lost.len()];
        for outcome in outcomes {
            held[outcome.line.unwrap() as usize - 100] = outcome.holds;
        }
        held
    };
    assert_eq!(of(&[0.4, 0.3]), [true, true]);
    // The smallest sites first, as long as they are small together.
    assert_eq!(of(&[0.8, 0.5, 0.1]), [false, true, true]);
    let many = of(&[0.82; 120]);
    assert_eq!(many.iter().filter(|holds| **holds).count(), 1);
    assert_eq!(of(&[1.0]), [false]);
    // Sites within the limit do not count.
    let mut within = small(0, 50.0);
    within.imbalance_pct = Some(10.0);
    let all = outcomes(
        &report(vec![within, small(1, 0.9)]),
        Measure::Imbalance,
        "50%",
    );
    assert!(all.iter().all(|outcome| outcome.holds), "{all:#?}");
}

#[test]
fn where_most_episodes_are_incomplete_the_few_others_tell_nothing() {
    let mut it = site(0, "factor", 690);
    (it.episodes, it.incomplete) = (10, 1_000_000);
    let mut report = report(vec![it]);
    let why = lost(&report, Measure::Phase, "factor=1h");
    assert!(why.contains("1000000 of 1000010"), "{why}");
    report.sites[0].incomplete = 10;
    assert!(only(&report, Measure::Phase, "factor=1h").holds);
}

#[test]
fn cases_are_called_the_same_whatever_is_measured() {
    let cases = |report: &Report, before: &Report| {
        let mut asked = asked(Measure::Idle, "factor:50%");
        asked
            .rules
            .push(Rule::parse(Measure::Imbalance, "50%").unwrap());
        asked.no_hang = Some(Duration::from_secs(30));
        let check = judge(report, &asked, Some(before));
        let mut cases: Vec<String> = check
            .outcomes
            .into_iter()
            .map(|outcome| outcome.case)
            .collect();
        cases.sort_unstable();
        cases
    };
    let good = uneven();
    let mut bad = uneven();
    bad.exit_status = Some(143);
    bad.wall_ns *= 3;
    bad.hang = hung().report.hang;
    bad.hang.as_mut().unwrap().lasted_ns = 31 * S;
    bad.sites[0].imbalance_pct = Some(99.0);
    bad.sites[0].phase_ns.as_mut().unwrap().mean *= 3;
    let expected = [
        "baseline +10 %",
        "baseline +10 % at factor lu.c:690",
        "max-idle 50 % at factor",
        "max-imbalance 50 % at factor lu.c:690",
        "max-lost 1 %",
        "min-episodes 1",
        "no-hang 30 s",
        "program ends well",
    ];
    assert_eq!(cases(&good, &good), expected);
    assert_eq!(cases(&bad, &good), expected);
    assert_eq!(cases(&good, &bad), expected);
}

#[test]
fn a_program_that_fails_is_told_before_what_was_lost() {
    let mut report = uneven();
    report.lost_events = 1_000_000;
    let check = |report: &Report| judge(report, &asked(Measure::Idle, "0%"), None);
    assert_eq!(check(&report).exit_status, 5);
    report.exit_status = Some(134);
    let failed = check(&report);
    assert_eq!((failed.exit_status, failed.result), (4, "failed"));
    assert_eq!(failed.program_status, Some(134));
    let text = failed.outcomes[0].text.as_deref();
    assert_eq!(
        text,
        Some("signal 6 ended it, unless it chose this status itself")
    );
    // For a process that sbt attached to, it is unknown how it ended.
    (report.exit_status, report.started) = (None, Some(false));
    assert_eq!(check(&report).exit_status, 5);
}

/// The outcomes of the comparison, by site.
fn compared(before: &Report, after: &Report, tolerance: Option<f64>) -> Vec<Outcome> {
    let asked = Asked {
        tolerance,
        ..asked(Measure::Episodes, "1")
    };
    let check = judge(after, &asked, Some(before));
    let mine = check.outcomes.into_iter();
    mine.filter(|outcome| outcome.rule == "baseline").collect()
}

/// Gives the first site this many episodes, alternately longer and shorter than the mean.
fn course(report: &mut Report, count: u64, mean: u64, off: u64) {
    let site = &mut report.sites[0];
    let stat = site.phase_ns.as_mut().unwrap();
    (stat.mean, stat.stddev, stat.count) = (mean, off, count);
    let bucket = |at: u64| TrendReport {
        episodes: 1,
        until_ns: at,
        phase_ns: Some(if at.is_multiple_of(2) {
            mean - off
        } else {
            mean + off
        }),
        barrier_ns: 0,
        idle_ns: 0,
        mean_busy: None,
    };
    site.trend = (0..count).map(bucket).collect();
}

#[test]
fn what_takes_longer_than_before_is_told_beyond_tolerance_and_noise() {
    let before = uneven();
    let all = compared(&before, &before.clone(), None);
    assert_eq!(all.len(), 2, "{all:#?}");
    assert!(
        all.iter()
            .all(|outcome| outcome.holds && outcome.is_measured)
    );

    let mut after = before.clone();
    let mut before = before;
    course(&mut before, 100, 20 * MS, MS);
    course(&mut after, 100, 24 * MS, MS);
    let site = |before: &Report, after: &Report, tolerance| {
        let all = compared(before, after, tolerance);
        all.into_iter()
            .find(|outcome| outcome.site.is_some())
            .unwrap()
    };
    let slower = site(&before, &after, None);
    assert!(!slower.holds && slower.is_measured, "{slower:#?}");
    assert_eq!(slower.limit, Figure::Whole(22 * MS));
    assert!(site(&before, &after, Some(20.0)).holds);
    // The change is as large as the differences between episodes: the site may have become slower,
    // or not.
    for count in [8, 100] {
        course(&mut before, count, 20 * MS, 20 * MS);
        course(&mut after, count, 24 * MS, 20 * MS);
        let noisy = site(&before, &after, None);
        assert!(!noisy.holds && !noisy.is_measured, "{noisy:#?}");
        let text = noisy.text.unwrap();
        assert!(
            text.contains("could be chance") && text.contains("more episodes"),
            "{text}"
        );
        assert!(site(&before, &after, Some(20.0)).holds);
    }
    // A few episodes tell nothing.
    course(&mut after, 3, 24 * MS, MS);
    let few = site(&before, &after, None);
    assert!(!few.holds && !few.is_measured, "{few:#?}");
    assert!(few.text.unwrap().contains("too few"));

    after.wall_ns = before.wall_ns * 2;
    let whole = compared(&before, &after, None).remove(0);
    assert!(!whole.holds && whole.site.is_none(), "{whole:#?}");
    after.ended = false;
    let whole = compared(&before, &after, None).remove(0);
    assert!(whole.text.unwrap().contains("not watched to its end"));
}

#[test]
fn sites_that_only_one_run_has_are_named_and_none_in_common_is_no_comparison() {
    let before = report(vec![site(0, "factor", 690), site(1, "old", 700)]);
    let after = report(vec![site(0, "factor", 690), site(1, "new", 900)]);
    let all = compared(&before, &after, None);
    let whole = all.iter().find(|outcome| outcome.site.is_none()).unwrap();
    let text = whole.text.as_ref().unwrap();
    assert!(
        text.contains("of the baseline only: old lu.c:700"),
        "{text}"
    );
    assert!(text.contains("not in the baseline: new lu.c:900"), "{text}");
    let mut other = after.clone();
    other.sites.clear();
    let all = compared(&before, &other, None);
    let none = all.iter().find(|outcome| !outcome.holds).unwrap();
    assert!(
        none.text
            .as_ref()
            .unwrap()
            .contains("no site of the baseline"),
        "{none:#?}"
    );
}

#[test]
fn the_schema_in_the_documents_is_that_of_the_code() {
    schema::is_that_of::<CheckReport>("check.schema.json");
}

/// A run whose end is missing.
fn cut() -> Report {
    let mut report = uneven();
    (report.exit_status, report.ended) = (None, false);
    report.break_off(vec![IncompleteReport {
        kind: IncompleteKind::NoEnd,
        text: "the recording has no end".into(),
    }]);
    crate::report::sound(report)
}

#[test]
fn a_part_of_a_run_is_judged_only_if_asked() {
    let with = |allow_incomplete| Asked {
        allow_incomplete,
        ..asked(Measure::Episodes, "1")
    };
    let check = judge(&cut(), &with(false), None);
    assert_eq!((check.exit_status, check.result), (5, "lost"), "{check:#?}");
    let text = check.outcomes[0].text.as_deref().unwrap();
    assert!(
        text.contains("the recording has no end; --allow-incomplete"),
        "{text}"
    );
    // How the program ended is unknown and not judged; what cannot be measured is still lost.
    let check = judge(&cut(), &with(true), None);
    assert_eq!(check.exit_status, 0, "{check:#?}");
    assert!(
        check
            .outcomes
            .iter()
            .any(|outcome| outcome.rule == "complete" && outcome.holds)
    );
    let efficiency = Asked {
        allow_incomplete: true,
        ..asked(Measure::Efficiency, "0.1")
    };
    let check = judge(&cut(), &efficiency, None);
    assert_eq!(check.exit_status, 5, "{check:#?}");
    let text = check.outcomes[0].text.as_deref();
    assert_eq!(
        text,
        Some("cannot be measured: the recording is not complete")
    );
    // The rule is not shown for a complete run.
    let check = judge(&uneven(), &with(false), None);
    assert!(
        check
            .outcomes
            .iter()
            .all(|outcome| outcome.rule != "complete")
    );
}

#[test]
fn a_part_of_a_run_is_compared_with_only_if_asked() {
    for (before, after) in [(cut(), uneven()), (uneven(), cut())] {
        let with = |allow_incomplete| Asked {
            allow_incomplete,
            ..asked(Measure::Episodes, "1")
        };
        let check = judge(&after, &with(false), Some(&before));
        assert_eq!(check.exit_status, 5, "{check:#?}");
        let check = judge(&after, &with(true), Some(&before));
        assert_eq!(check.exit_status, 0, "{check:#?}");
        // Its sites are compared, and its wall time is not.
        let mut baselines = check
            .outcomes
            .iter()
            .filter(|outcome| outcome.rule == "baseline");
        assert!(
            baselines.all(|outcome| outcome.site.is_some()),
            "{check:#?}"
        );
    }
}
