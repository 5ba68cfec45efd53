//! Rules for CI: what a run must not exceed, and whether it did. Pure: a report and rules
//! in, an outcome for each rule and site out.
//!
//! What cannot be measured is broken, and says why: a rule that nobody could check must
//! not look like one that holds.

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
pub use rule::{Amount, Asked, Measure, Rule};
