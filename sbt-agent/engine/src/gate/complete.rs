//! Whether a recording is complete: the missing part may be what breaks a rule.

use super::{Outcome, RuleName, Status, Unit};
use crate::report::{Figure, Report};

/// The rule's name.
const NAME: RuleName = RuleName::Complete;

/// The outcome if something is missing; `None` if nothing is. `is_baseline`: whether the report is
/// the baseline. `allow`: whether an incomplete report is judged all the same.
pub fn outcome(report: &Report, is_baseline: bool, allow: bool) -> Option<Outcome> {
    let missing = report.incomplete.first()?;
    let limit = Figure::Whole(0);
    let outcome = Outcome::of_run(NAME, Unit::Count, limit).called(if is_baseline {
        "complete baseline"
    } else {
        NAME.name()
    });
    let whose = if is_baseline { "of the baseline: " } else { "" };
    let advice = if allow {
        "the part that is there is judged, because of --allow-incomplete"
    } else {
        "--allow-incomplete judges the part that is there"
    };
    Some(Outcome {
        holds: allow,
        status: if allow { Status::Holds } else { Status::Lost },
        is_measured: true,
        measured: Some(Figure::Whole(report.incomplete.len() as u64)),
        text: Some(format!("{whose}{}; {advice}", missing.text)),
        ..outcome
    })
}
