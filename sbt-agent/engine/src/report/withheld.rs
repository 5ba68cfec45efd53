//! Figures that a report withholds, and why.

use serde::{Deserialize, Serialize};

/// A figure that is null because it cannot be known, or because it contradicted other figures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WithheldReport {
    /// The withheld figure.
    pub figure: Withheld,
    /// The kind of reason.
    pub reason: Reason,
    /// The reason as a part of a sentence.
    pub because: String,
}

/// The figures that can be withheld.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Withheld {
    /// `efficiency` of the run and of conceptual phases, including the speed-up.
    Efficiency,
    /// Shares of thread time and of wall time, and the verdicts that follow from them.
    Shares,
    /// `own_cost.share_pct`.
    OwnCost,
    /// `compensated` of the run and of sites: the cost of lost probe hits is unknown.
    Compensated,
    /// A figure that only a newer sbt knows.
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
    /// The recording breaks off.
    Cut,
    /// No complete episode was seen.
    NoEpisode,
    /// Too many episodes are incomplete.
    Incomplete,
    /// Too little is known of the threads' work.
    WorkUnknown,
    /// The figures of the report contradict each other.
    Contradiction,
    /// A reason that only a newer sbt knows.
    #[serde(other)]
    Other,
}
