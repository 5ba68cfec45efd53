//! Quantities that are unknown, because too little was seen or too much was lost.

use super::*;

/// Withholds the efficiency for a reason.
fn withheld(report: &mut Report, reason: WithheldReason, because: &str) {
    report.efficiency = None;
    let efficiency = Withheld::Efficiency;
    report.withheld = vec![WithheldReport::new(efficiency, reason, because.into())];
}

#[test]
fn a_rule_on_what_is_withheld_neither_holds_nor_is_broken() {
    let mut report = uneven();
    withheld(
        &mut report,
        WithheldReason::EventsLost,
        "3 of 9 events were lost",
    );
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
    for reason in [
        WithheldReason::Unseen,
        WithheldReason::Cut,
        WithheldReason::Incomplete,
    ] {
        withheld(&mut report, reason, "because");
        let why = lost(&report, Measure::Efficiency, "0");
        assert!(why.ends_with("because"), "{why}");
    }
    // If shares are withheld, nothing is judged at sites.
    let shares = WithheldReport::new(Withheld::Shares, WithheldReason::Contradiction, "no".into());
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
        "cannot be measured: no site matches lu.c:691; the sites are: factor lu.c:690, solve \
        lu.c:700"
    );
    let many = (0..20).map(|id| site(id, "f", 100 + id)).collect();
    let why = unknown(&report(many), Measure::Idle, "g:100%");
    assert!(why.ends_with("f lu.c:107, and 12 more"), "{why}");

    let mut nothing = report(sites());
    nothing.sites.clear();
    nothing.episodes = 0;
    nothing.run.none_found_because = Some("it has no symbols".into());
    for (measure, text) in [
        (Measure::Imbalance, "100%"),
        (Measure::Idle, "factor:100%"),
        (Measure::BarrierTime, "1000h"),
    ] {
        let why = unknown(&nothing, measure, text);
        assert!(why.contains("it has no symbols"), "{why}");
    }
    let none = "no complete episode was seen";
    withheld(&mut nothing, WithheldReason::NoEpisode, none);
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
            "no episode has two threads",
        ),
        (
            Measure::Idle,
            of(|site| site.threads[1].work_ns = None),
            "the start of work is unknown",
        ),
        (
            Measure::Phase,
            of(|site| site.phase_ns = None),
            "the end of the previous episode is unknown",
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
        why.contains("no complete episode was seen there (incomplete: 3)"),
        "{why}"
    );
    let none = of(|site| (site.episodes, site.incomplete) = (0, 0));
    unknown(&none, Measure::Phase, "factor=1h");
    let apart = of(|site| site.threads[0].episodes += 1);
    let why = unknown(&apart, Measure::LoadBalance, "factor:0");
    assert!(why.contains("do not take part"), "{why}");
}

#[test]
fn of_a_run_seen_in_part_little_is_known() {
    let mut it = site(0, "factor", 690);
    it.estimated = true;
    it.episodes = 99;
    it.phase_ns.as_mut().unwrap().count = 99;
    let mut report = report(vec![it]);
    report.estimated = true;
    let because = "the probes were on for 37 % of the run; --budget off watches everything";
    withheld(&mut report, WithheldReason::Unseen, because);
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
    assert!(why.contains("only 99 whole phases"), "{why}");
    report.estimated = false;
    assert!(only(&report, Measure::Phase, "step=1h").holds);
    report.conceptual_phases[0].abandoned = 100;
    let why = lost(&report, Measure::Phase, "step=1h");
    assert!(why.contains("abandoned: 100 of 199"), "{why}");
}

#[test]
fn too_much_that_is_lost_says_that_nothing_can_be_judged() {
    let mut report = uneven();
    (report.lost_events, report.own_cost.events) = (10, 990);
    let with = |max_lost| CheckRules {
        max_lost,
        ..asked(Measure::Idle, "0%")
    };
    // By default, 1 % may be lost.
    assert_eq!(judge(&report, &with(None), None).exit_status, 1);
    let check = judge(&report, &with(Some(0.9)), None);
    assert_eq!((check.exit_status, check.result), (5, Status::Lost));
    assert_eq!(check.outcomes[0].measured, Some(Figure::Real(1.0)));
    report.lost_events = 11;
    assert_eq!(judge(&report, &with(None), None).exit_status, 5);
}

#[test]
fn what_stops_before_the_programs_end_does_not_tell_how_it_ended() {
    let of = |change: fn(&mut Report)| {
        let mut report = uneven();
        report.run.exit_status = None;
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
        (|report| (report.run.ended, report.run.started) = (false, Some(true))) as fn(&mut Report),
        |report| (report.run.ended, report.run.started) = (false, None),
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
            |report| report.run.started = Some(false)
        } else {
            |report| (report.run.ended, report.run.started) = (false, Some(false))
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
