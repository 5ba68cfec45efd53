//! Rules applied to made-up reports: what holds, what is broken, what cannot be measured.

mod baseline;
mod part;
mod unknown;

use std::time::Duration;

use super::{
    CheckReport, CheckRules, Measure, Outcome, Rule, Status, judge,
    samples::{report, site, uneven},
};
use crate::{
    report::{
        Figure, IncompleteKind, IncompleteReport, Report, ThinnedReport, TrendReport, Withheld,
        WithheldReason, WithheldReport, schema,
    },
    samples::hung,
};

const MS: u64 = 1_000_000;
const S: u64 = 1_000_000_000;

fn asked(measure: Measure, text: &str) -> CheckRules {
    CheckRules {
        rules: vec![Rule::parse(measure, text).unwrap()],
        ..CheckRules::default()
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
    assert_eq!((check.exit_status, check.result), (5, Status::Lost));
    outcome.text.unwrap()
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
    assert!(why.contains("abandoned: 3 of 3"), "{why}");
}

#[test]
fn something_was_measured_at_all() {
    let mut report = uneven();
    let lost = CheckRules {
        max_lost: Some(100.0),
        ..CheckRules::default()
    };
    let check = judge(&report, &lost, None);
    assert_eq!(check.exit_status, 0, "{check:#?}");
    report.episodes = 0;
    let check = judge(&report, &lost, None);
    assert_eq!(check.exit_status, 1, "{check:#?}");
    assert_eq!(check.outcomes[0].rule, "min-episodes");
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
    bad.run.exit_status = Some(143);
    bad.run.wall_ns *= 3;
    bad.run.hang = hung().report.run.hang;
    bad.run.hang.as_mut().unwrap().lasted_ns = 31 * S;
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
    report.run.exit_status = Some(134);
    let failed = check(&report);
    assert_eq!((failed.exit_status, failed.result), (4, Status::Failed));
    assert_eq!(failed.program_status, Some(134));
    let text = failed.outcomes[0].text.as_deref();
    assert_eq!(
        text,
        Some("signal 6 ended the program, unless the program chose this exit status itself")
    );
    // For a process that sbt attached to, it is unknown how it ended.
    (report.run.exit_status, report.run.started) = (None, Some(false));
    assert_eq!(check(&report).exit_status, 5);
}

#[test]
fn the_schema_in_the_documents_is_that_of_the_code() {
    schema::is_that_of::<CheckReport>("check.schema.json");
}
