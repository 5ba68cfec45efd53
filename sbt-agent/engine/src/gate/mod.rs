//! Rules for CI: limits that a run must keep, and whether it did. Pure functions from a report and
//! rules to an outcome for each rule and site.
//!
//! A rule that cannot be measured counts as broken, with the reason: it must not look as if it
//! held.

mod baseline;
mod complete;
mod hang;
mod judge;
mod measure;
mod outcome;
pub mod rule;
#[cfg(any(test, feature = "samples"))]
#[allow(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    clippy::new_without_default,
    clippy::must_use_candidate,
    reason = "for tests alone"
)]
pub mod samples;
mod sites;
#[cfg(test)]
mod tests;

pub use judge::judge;
pub use outcome::{CheckReport, Outcome, Status};
pub use rule::{Amount, CheckRules, Measure, Rule, RuleName, Unit};
