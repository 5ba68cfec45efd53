//! A report and rules → what came of each.

use std::time::Duration;

use super::{
    Amount, Asked, CheckReport, Measure, Outcome, Rule, Status, baseline,
    measure::{self, Measured},
    sites::{Subject, meant},
};
use crate::report::{Figure, Report, SiteReport, StandstillReport};

/// Events that may be lost where nobody says how many, per cent: as much as leaves means
/// and shares as they are.
const DEFAULT_LOST: f64 = 1.0;

/// Sites at which threads lose less of the wall time, per cent, need not be even.
const LITTLE: f64 = 1.0;

/// By how much longer something may take than before where nobody says, per cent.
const DEFAULT_TOLERANCE: f64 = 10.0;

/// Sites that are named where another was not found, at most.
const NAMED: usize = 8;

/// Judges a report. `before`: what [`Asked::baseline`] names.
pub fn judge(report: &Report, asked: &Asked, before: Option<&Report>) -> CheckReport {
    let mut outcomes = Vec::new();
    outcomes.extend(program(report));
    outcomes.extend(hang(report, asked.no_hang));
    outcomes.push(lost(report, asked.max_lost));
    let of_run = |rule: &Rule| rule.measure == Measure::Episodes && rule.site.is_none();
    if !asked.rules.iter().any(of_run) {
        // Something was measured at all.
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
        outcomes.extend(baseline::outcomes(before, report, tolerance_pct));
    }
    CheckReport::new(report, outcomes)
}

/// Whether the program has failed, if that is known.
fn program(report: &Report) -> Option<Outcome> {
    let status = report.exit_status?;
    let text = match status {
        0 => None,
        129..=192 => Some(format!("signal {} ended it", status - 128)),
        _ => Some("the program has failed".into()),
    };
    let outcome = Outcome {
        status: Status::Failed,
        ..Outcome::of_run("program", "status", Figure::Whole(0))
    };
    Some(Outcome {
        text,
        ..outcome.found(Amount::Count(status.into()))
    })
}

/// Whether it hung for so long; without a limit, if it did so at its end.
fn hang(report: &Report, limit: Option<Duration>) -> Option<Outcome> {
    let ns = |limit: Duration| u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
    let looked_ns = report.hang_time_ns;
    let limit_ns = limit.map(ns);
    let outcome = |limit_ns| Outcome {
        status: Status::Hangs,
        ..Outcome::of_run("no-hang", "ns", Figure::Whole(limit_ns))
    };
    let found = report.hang.as_ref();
    let hangs = |it: &&StandstillReport| match limit_ns {
        Some(limit_ns) => it.is_too_long(limit_ns),
        None => it.is_alarming(),
    };
    if let Some(hang) = found.filter(hangs) {
        return Some(Outcome {
            is_measured: true,
            site: hang.found.site.clone(),
            measured: Some(Figure::Whole(hang.lasted_ns)),
            text: Some(hang.found.text.clone()),
            ..outcome(limit_ns.or(looked_ns).unwrap_or(0))
        });
    }
    let limit_ns = limit_ns?;
    let outcome = Outcome {
        status: Status::Broken,
        ..outcome(limit_ns)
    };
    Some(match looked_ns {
        Some(looked_ns) if looked_ns <= limit_ns => Outcome {
            holds: true,
            status: Status::Holds,
            is_measured: true,
            ..outcome
        },
        Some(_) => outcome.unknown(
            "only what stood still for longer was looked at; record with a shorter --hang-time",
        ),
        None => outcome.unknown("nobody looked for hangs; record without --hang-time off"),
    })
}

/// How much was lost of what happened.
fn lost(report: &Report, limit: Option<f64>) -> Outcome {
    let limit = limit.unwrap_or(DEFAULT_LOST);
    let (lost, seen) = (report.lost_events, report.own_cost.events);
    let all = lost.saturating_add(seen);
    // Where nothing has happened nothing was lost; that it should have is another rule.
    let share = if all == 0 {
        0.0
    } else {
        lost as f64 / all as f64 * 100.0
    };
    let outcome = Outcome {
        status: Status::Lost,
        ..Outcome::of_run("max-lost", "pct", Figure::Real(limit))
    };
    let outcome = outcome.found(Amount::Percent(share));
    let text = format!("{lost} of {all} events found no room: too few were seen to judge");
    Outcome {
        text: (!outcome.holds).then_some(text),
        ..outcome
    }
}

/// A limit, at each site that it is for.
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
    let judged = subjects.into_iter().map(|subject| match subject {
        Subject::Site(site) => {
            let found = measure::of_site(rule.measure, site, report);
            let outcome = settle(outcome.clone().at(site), found);
            if rule.site.is_none() && rule.measure.is_of_waiting() {
                let_off(outcome, site)
            } else {
                outcome
            }
        }
        Subject::Phase(phase) => {
            let outcome = Outcome {
                site: Some(phase.name.clone()),
                ..outcome.clone()
            };
            settle(outcome, measure::of_phase(rule.measure, phase))
        }
    });
    judged.collect()
}

/// A rule for all sites is not broken where waiting costs next to nothing, such as at a
/// barrier that is used once, when all begin. Whoever means that site names it.
fn let_off(outcome: Outcome, site: &SiteReport) -> Outcome {
    let lost_pct = site.lost_wall_pct.unwrap_or(100.0);
    if outcome.holds || !outcome.is_measured || lost_pct >= LITTLE {
        return outcome;
    }
    Outcome {
        holds: true,
        status: Status::Holds,
        text: Some(format!(
            "more than the limit, but threads lose only {lost_pct:.2} % of the wall time there"
        )),
        ..outcome
    }
}

fn settle(outcome: Outcome, found: Result<Measured, String>) -> Outcome {
    match found {
        Ok(measured) => Outcome {
            mean_ns: measured.mean_ns,
            ..outcome.found(measured.amount)
        },
        Err(why) => outcome.unknown(why),
    }
}

/// Why there are too few episodes, as far as that is known.
fn too_few(report: &Report) -> Option<String> {
    if let Some(because) = &report.none_found_because {
        return Some(because.clone());
    }
    let none = report.episodes == 0 && report.incomplete_episodes == 0;
    let children = report.had_children == Some(true) && !report.children;
    if none && children {
        return Some("the program started processes of its own, which were not watched".into());
    }
    none.then(|| "no barrier was used".into())
}

/// No site is meant.
fn nowhere(report: &Report, rule: &Rule, outcome: Outcome) -> Outcome {
    let all: Vec<String> = report.sites.iter().map(SiteReport::called).collect();
    let sites = match all.len() {
        0 => match too_few(report) {
            Some(why) => format!("there are none: {why}"),
            None => "there are none".into(),
        },
        1..=NAMED => format!("sites are: {}", all.join(", ")),
        more => format!(
            "sites are: {}, and {} more",
            all[..NAMED].join(", "),
            more - NAMED
        ),
    };
    let Some(site) = &rule.site else {
        return outcome.unknown(format!("sites are meant, and {sites}"));
    };
    let site = site.to_string();
    let text = format!("no site matches {site}; {sites}");
    Outcome {
        site: Some(site),
        ..outcome.unknown(text)
    }
}
