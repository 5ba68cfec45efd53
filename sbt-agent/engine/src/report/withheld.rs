//! Figures that a report does not give, and why.

use serde::{Deserialize, Serialize};

/// A figure that is null because it cannot be known, or because it contradicted others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WithheldReport {
    /// Which figure.
    pub figure: Withheld,
    /// Why, as a word.
    pub reason: Reason,
    /// Why, in words.
    pub because: String,
}

/// What can be withheld.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Withheld {
    /// `efficiency` of the run and of the phases from barrier to barrier, with the speed-up.
    Efficiency,
    /// Shares of thread time and of wall time, and the verdicts that are made of them.
    Shares,
    /// `own_cost.share_pct`.
    OwnCost,
    /// `compensated`, of the run and of sites: what the lost hits of probes cost is unknown.
    Compensated,
    /// A figure of a newer sbt.
    #[serde(other)]
    Other,
}

/// Why a figure is withheld.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// Events were lost.
    EventsLost,
    /// The probes were off for a part of the run.
    Unseen,
    /// The recording has no end.
    Cut,
    /// No complete episode was seen.
    NoEpisode,
    /// Too many episodes are incomplete.
    Incomplete,
    /// Of the threads' work too little is known.
    WorkUnknown,
    /// The figures of the report contradict each other.
    Contradiction,
    /// A reason of a newer sbt.
    #[serde(other)]
    Other,
}
