//! Judges a report by rules: an outcome for each rule.

use super::{
    Amount, CheckReport, CheckRules, Measure, Outcome, Rule, RuleName, Status, Unit, baseline,
    complete, hang,
    measure::{self, Measured, Unknown},
    sites::{Subject, meant},
};
use crate::report::{Figure, HangOutcome, Report, SiteReport};

/// Percentage of events that may be lost by default: this little hardly changes means and shares.
const DEFAULT_LOST: f64 = 1.0;

/// Sites where threads lose less than this percentage of the wall time, all such sites together,
/// may be uneven.
const LITTLE: f64 = 1.0;

/// Percentage by which something may take longer than in the baseline by default.
const DEFAULT_TOLERANCE: f64 = 10.0;

/// Largest number of sites that are listed if no site matches a rule.
const NAMED: usize = 8;

/// Judges a report. `before` is the baseline, if the user gave one.
pub fn judge(report: &Report, asked: &CheckRules, before: Option<&Report>) -> CheckReport {
    let mut outcomes = Vec::new();
    let allow = asked.allow_incomplete;
    outcomes.extend(complete::outcome(report, false, allow));
    // A recording without an end does not say how the program ended.
    let is_missing = !report.is_complete() && report.run.exit_status.is_none();
    let hang = hang::outcome(report, asked.no_hang, asked.strict_hang);
    let stood = stood_to_the_end(report, asked);
    // sbt ends a program of which it is not known whether it hangs. A launcher whose ranks are ended gives
    // a status of its own.
    let is_ended = hang
        .as_ref()
        .is_some_and(|hang| hang.status == Status::Lost)
        && match report.run.exit_status {
            Some(137 | 143) => true,
            Some(status) => stood && status != 0,
            None => false,
        };
    let is_untold = allow && is_missing || is_ended;
    if !is_untold {
        outcomes.extend(program(report, stood));
    }
    outcomes.extend(hang);
    outcomes.push(lost(report, asked.max_lost));
    let of_run = |rule: &Rule| rule.measure == Measure::Episodes && rule.site.is_none();
    // Whether a program hangs is known without a barrier.
    let only_hangs = asked.rules.is_empty() && asked.no_hang.is_some();
    if !only_hangs && !asked.rules.iter().any(of_run) {
        // By default, at least one episode must have been measured.
        let rule = Rule {
            measure: Measure::Episodes,
            site: None,
            limit: Amount::Count(1),
        };
        outcomes.extend(limit(report, &rule));
    }
    let limits = asked.rules.iter();
    outcomes.extend(limits.flat_map(|rule| limit(report, rule)));
    if let Some(before) = before {
        let tolerance_pct = asked.tolerance.unwrap_or(DEFAULT_TOLERANCE);
        outcomes.extend(complete::outcome(before, true, allow));
        outcomes.extend(baseline::outcomes(before, report, tolerance_pct));
    }
    CheckReport::new(report, outcomes)
}

/// Whether the program stood still until it ended, for longer than the limit.
fn stood_to_the_end(report: &Report, asked: &CheckRules) -> bool {
    let limit_ns = asked
        .no_hang
        .and_then(|limit| u64::try_from(limit.as_nanos()).ok());
    let hang = report.run.hang.as_ref();
    hang.zip(limit_ns).is_some_and(|(hang, limit_ns)| {
        hang.outcome == HangOutcome::Lasts && hang.is_too_long(limit_ns)
    })
}

/// Whether the program has failed; `None` for a process that sbt attached to, since its exit status
/// is told to its parent only. `stood`: the program stood still until it ended.
fn program(report: &Report, stood: bool) -> Option<Outcome> {
    let outcome = Outcome::of_run(RuleName::Program, Unit::Status, Figure::Whole(0))
        .called("program ends well");
    let Some(status) = report.run.exit_status else {
        // An older sbt did not say whether it attached.
        let is_joined = !report.run.started.unwrap_or(!report.run.ended);
        return (!is_joined).then(|| {
            outcome.unknown(if report.run.ended {
                "the exit status of the program is unknown"
            } else {
                "the report or recording stops before the program's end"
            })
        });
    };
    let text = match status {
        0 => None,
        143 | 137 if stood => Some(format!(
            "signal {}{} ended the program, which did not go on",
            status - 128,
            if report.run.ended_by_sbt {
                " of sbt"
            } else {
                ""
            }
        )),
        // The end came just as sbt had told it to end.
        143 | 137 if report.run.ended_by_sbt => {
            let outcome = Outcome {
                status: Status::Lost,
                ..outcome
            };
            return Some(outcome.unknown("sbt ended it, since it stood still for too long"));
        }
        // As in a shell, a signal and such an exit status look the same.
        129..=192 => Some(format!(
            "signal {} ended the program, unless the program chose this exit status itself",
            status - 128
        )),
        _ if stood => Some(format!(
            "the program did not go on, and ended with status {status} when it was told to end"
        )),
        _ => Some("the program has failed".into()),
    };
    let outcome = Outcome {
        status: Status::Failed,
        ..outcome
    };
    Some(Outcome {
        text,
        ..outcome.found(Amount::Count(status.into()))
    })
}

/// The share of lost events against its limit.
fn lost(report: &Report, limit: Option<f64>) -> Outcome {
    let limit = limit.unwrap_or(DEFAULT_LOST);
    let (lost, seen) = (report.lost_events, report.own_cost.events);
    let all = lost.saturating_add(seen);
    // If there were no events, none was lost. That there should be some is another rule.
    let share = if all == 0 {
        0.0
    } else {
        lost as f64 / all as f64 * 100.0
    };
    let outcome = Outcome {
        status: Status::Lost,
        ..Outcome::of_run(RuleName::MaxLost, Unit::Pct, Figure::Real(limit))
    };
    let outcome = outcome.found(Amount::Percent(share));
    let text = format!("{lost} of {all} events were lost: sbt saw too few to judge the run");
    Outcome {
        text: (!outcome.holds).then_some(text),
        ..outcome
    }
}

/// A limit, with an outcome for each site that it applies to.
fn limit(report: &Report, rule: &Rule) -> Vec<Outcome> {
    let outcome = Outcome::of_rule(rule);
    if rule.site.is_none() && rule.measure.is_of_the_run() {
        let found = measure::of_run(rule.measure, report);
        let outcome = settle(outcome, found);
        let why = (!outcome.holds).then(|| too_few(report)).flatten();
        return vec![Outcome {
            text: outcome.text.clone().or(why),
            ..outcome
        }];
    }
    let subjects = meant(report, rule.site.as_ref());
    if subjects.is_empty() {
        return vec![nowhere(report, rule, outcome)];
    }
    let is_one = rule.site.is_some() && subjects.len() == 1;
    let named = |name: &str| {
        if is_one {
            outcome.clone()
        } else {
            outcome.clone().one_of(name)
        }
    };
    let mut sites = Vec::new();
    let judged = subjects.into_iter().map(|subject| match subject {
        Subject::Site(site) => {
            sites.push(site);
            let found = measure::of_site(rule.measure, site, report);
            settle(named(&site.called()).at(site), found)
        }
        Subject::Phase(phase) => {
            let outcome = Outcome {
                site: Some(phase.name.clone()),
                ..named(&phase.name)
            };
            settle(outcome, measure::of_phase(rule.measure, phase, report))
        }
    });
    let judged: Vec<Outcome> = judged.collect();
    if rule.site.is_none() && rule.measure.is_of_waiting() {
        // A rule without a site name applies to sites only.
        return let_off(judged, &sites);
    }
    judged
}

/// A rule for all sites is not broken where waiting costs next to nothing, such as at a barrier
/// that is used once when the program starts, as long as all such sites together cost next to
/// nothing. A rule that names a site always applies.
fn let_off(mut outcomes: Vec<Outcome>, sites: &[&SiteReport]) -> Vec<Outcome> {
    let broken = (0..).zip(outcomes.iter().zip(sites));
    let mut small: Vec<(f64, usize)> = broken
        .filter(|(_, (outcome, _))| !outcome.holds && outcome.is_measured)
        .filter_map(|(at, (_, site))| Some((site.lost_wall_pct?, at)))
        .collect();
    small.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut sum_pct = 0.0;
    for (lost_pct, at) in small {
        sum_pct += lost_pct;
        let outcome = &mut outcomes[at];
        if sum_pct >= LITTLE {
            let with_others = format!(
                "threads lose only {lost_pct:.2} % of the wall time there, but {sum_pct:.2} % \
                together with smaller sites beyond the limit"
            );
            outcome.text = (lost_pct < LITTLE).then_some(with_others);
            continue;
        }
        outcome.holds = true;
        outcome.status = Status::Holds;
        outcome.text = Some(format!(
            "more than the limit, but threads lose only {lost_pct:.2} % of the wall time there"
        ));
    }
    outcomes
}

fn settle(outcome: Outcome, found: Result<Measured, Unknown>) -> Outcome {
    match found {
        Ok(measured) => Outcome {
            mean_ns: measured.mean_ns,
            ..outcome.found(measured.amount)
        },
        Err(Unknown::Absent(why)) => outcome.unknown(why),
        Err(Unknown::Lost(why)) => outcome.lost(why),
    }
}

/// Why there are too few episodes, as far as known.
fn too_few(report: &Report) -> Option<String> {
    if let Some(why) = report.why_nothing_counts() {
        return Some(why);
    }
    if let Some(because) = &report.run.none_found_because {
        return Some(because.clone());
    }
    let none = report.episodes == 0 && report.incomplete_episodes == 0;
    let children = report.run.had_children == Some(true) && !report.run.children;
    if none && children {
        return Some("the program started processes of its own, which were not watched".into());
    }
    let lost = report.lost_events;
    none.then(|| match lost {
        0 if report.is_complete() => "no barrier was seen".into(),
        0 => "no barrier was seen in the recorded part".into(),
        // Lost events may have been at a barrier.
        _ => format!("no barrier was seen, but {lost} events were lost"),
    })
}

/// The outcome of a rule that matches no site.
fn nowhere(report: &Report, rule: &Rule, outcome: Outcome) -> Outcome {
    let all: Vec<String> = report.sites.iter().map(SiteReport::called).collect();
    let sites = match all.len() {
        0 => match too_few(report) {
            Some(why) => format!("there are no sites: {why}"),
            None => "there are no sites".into(),
        },
        1..=NAMED => format!("the sites are: {}", all.join(", ")),
        more => format!(
            "the sites are: {}, and {} more",
            all[..NAMED].join(", "),
            more - NAMED
        ),
    };
    let Some(site) = &rule.site else {
        return outcome.unknown(format!("the rule is about sites, and {sites}"));
    };
    let site = site.to_string();
    let text = format!("no site matches {site}; {sites}");
    Outcome {
        site: Some(site),
        ..outcome.unknown(text)
    }
}
