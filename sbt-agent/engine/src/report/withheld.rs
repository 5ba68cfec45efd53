//! Figures that a report withholds, and why.

use serde::{Deserialize, Serialize};

use super::kinds::kinds;

/// A figure that is null because it cannot be known, or because it contradicted other figures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WithheldReport {
    /// The withheld figure.
    pub figure: Withheld,
    /// The kind of reason.
    pub reason: WithheldReason,
    /// The reason as a part of a sentence.
    pub because: String,
}

kinds! {
    /// The figures that can be withheld.
    pub enum Withheld {
        /// `efficiency` of the run and of conceptual phases, including the speed-up.
        Efficiency = "efficiency",
        /// Shares of thread time and of wall time, and the verdicts that follow from them.
        Shares = "shares",
        /// `own_cost.share_pct`.
        OwnCost = "own-cost",
        /// `compensated` of the run and of sites: the cost of lost probe hits is unknown.
        Compensated = "compensated",
    }
}

kinds! {
    /// Why a figure is withheld.
    pub enum WithheldReason {
        /// Events were lost.
        EventsLost = "events-lost",
        /// The probes were off for a part of the run.
        Unseen = "unseen",
        /// The recording breaks off.
        Cut = "cut",
        /// No complete episode was seen.
        NoEpisode = "no-episode",
        /// Too many episodes are incomplete.
        Incomplete = "incomplete",
        /// Too little is known of the threads' work.
        WorkUnknown = "work-unknown",
        /// The figures of the report contradict each other.
        Contradiction = "contradiction",
    }
}
