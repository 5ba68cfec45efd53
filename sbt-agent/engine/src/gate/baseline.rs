//! A run against an earlier one: what takes longer, by more than is tolerated and by more than
//! chance. If it may be either, the result is unknown.

use super::{
    Amount, Outcome, RuleName, Unit,
    measure::{self, Unknown},
};
use crate::{
    compare::{Change, Comparison, compare, tolerated},
    report::{Figure, Report},
};

const NAME: RuleName = RuleName::Baseline;

/// Outcomes for the whole run and for each site that both runs have.
pub fn outcomes(before: &Report, after: &Report, tolerance_pct: f64) -> Vec<Outcome> {
    let comparison = compare(before, after);
    let mut outcomes = Vec::new();
    // Wall times of incomplete runs cannot be compared.
    if before.is_complete() && after.is_complete() {
        outcomes.push(whole(before, after, &comparison, tolerance_pct));
    }
    for site in &comparison.sites {
        let outcome = of(&site.phase_ns, tolerance_pct).one_of(&site.name);
        let outcome = match after.site(site.after) {
            Some(at) => outcome.at(at),
            None => outcome,
        };
        let sides = [
            (before, site.before, "of the baseline "),
            (after, site.after, ""),
        ];
        let too_few = sides.into_iter().find_map(|(report, id, which)| {
            match measure::has_enough_phases(report.site(id)?, report).err()? {
                Unknown::Absent(why) | Unknown::Lost(why) => Some(format!("{which}{why}")),
            }
        });
        outcomes.push(match too_few {
            Some(why) => outcome.lost(why),
            None => outcome,
        });
    }
    if comparison.sites.is_empty() {
        let none = Outcome::of_run(NAME, Unit::Count, Figure::Whole(1));
        let none = none.called(format!("{NAME} sites in common"));
        let none = Outcome {
            is_upper: false,
            ..none
        };
        outcomes.push(none.unknown("the baseline and this run have no site in common"));
    }
    outcomes
}

/// The outcome with its limit. Its name contains the tolerance, since the limit in ns differs from
/// run to run.
fn rule(before_ns: u64, tolerance_pct: f64) -> Outcome {
    let limit_ns = tolerated(before_ns, tolerance_pct);
    Outcome::of_run(NAME, Unit::Ns, Figure::Whole(limit_ns))
        .called(format!("{NAME} +{tolerance_pct} %"))
}

/// The whole run: a single value, whose noise is unknown.
fn whole(before: &Report, after: &Report, comparison: &Comparison, tolerance_pct: f64) -> Outcome {
    let outcome = rule(before.run.wall_ns, tolerance_pct);
    let part = [(before, "the baseline"), (after, "this run")];
    let part = part.into_iter().find(|(report, _)| !report.run.ended);
    if let Some((_, which)) = part {
        return outcome.unknown(format!("{which} was not watched to its end"));
    }
    let mut notes = comparison.notes.clone();
    for (alone, which) in [
        (&comparison.only_before, "sites only in the baseline"),
        (&comparison.only_after, "sites not in the baseline"),
    ] {
        let sites = alone.iter().filter(|entry| entry.what == "site");
        let names: Vec<&str> = sites.map(|entry| entry.name.as_str()).collect();
        if !names.is_empty() {
            notes.push(format!("{which}: {}", names.join(", ")));
        }
    }
    Outcome {
        text: (!notes.is_empty()).then(|| notes.join("; ")),
        ..outcome.found(Amount::Time(after.run.wall_ns))
    }
}

/// A site, judged by its mean phase time.
fn of(phase: &Change, tolerance_pct: f64) -> Outcome {
    let before_ns = phase.before.unwrap_or(0);
    let outcome = rule(before_ns, tolerance_pct);
    let (Some(after_ns), Some(pct)) = (phase.after, phase.change_pct) else {
        return outcome.unknown("the phase time is unknown in at least one of the two runs");
    };
    let found = outcome.clone().found(Amount::Time(after_ns));
    match phase.beyond_noise {
        _ if found.holds => found,
        Some(true) => Outcome {
            text: Some(format!("{pct:.0} % slower than the baseline")),
            ..found
        },
        // The slowdown may be as large as stated, or chance.
        Some(false) => Outcome {
            measured: found.measured,
            ..outcome.unknown(format!(
                "{pct:.0} % slower than the baseline, but {} may be chance; let both runs have \
                 more episodes, or tolerate more",
                phase
                    .noise_pct
                    .map_or_else(|| "as much".into(), |noise| format!("{noise:.0} %"))
            ))
        },
        None => Outcome {
            measured: found.measured,
            ..outcome.unknown(format!(
                "{pct:.0} % slower than the baseline, which may be chance: the episodes are too \
                 few or too strongly correlated; let both runs have more episodes"
            ))
        },
    }
}
