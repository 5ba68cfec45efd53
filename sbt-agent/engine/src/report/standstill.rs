//! A hang that was watched, in a report: the finding as in `sbt hang`, and how long the hang
//! lasted.

use serde::{Deserialize, Serialize};

use super::{HangKind, HangOutcome, HangReport};

/// Threads that stood still for longer than `--hang-time`, as the last look found them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct StandstillReport {
    /// The finding.
    #[serde(flatten)]
    pub found: HangReport,
    /// Time from the last arrival until threads came or ran again, or until watching ended.
    pub lasted_ns: u64,
    /// The end of the hang.
    pub outcome: HangOutcome,
}

impl StandstillReport {
    /// Whether no thread goes on, as opposed to merely being slow.
    pub fn is_hang(&self) -> bool {
        is_hang(&self.found)
    }

    /// Whether no thread went on for longer than `limit_ns`. For an `unclear` finding, which may be
    /// merely slow, the limit is twice as long.
    pub fn is_too_long(&self, limit_ns: u64) -> bool {
        let limit_ns = match self.found.kind {
            HangKind::Unclear => limit_ns.saturating_mul(2),
            _ if self.is_hang() => limit_ns,
            _ => return false,
        };
        self.lasted_ns >= limit_ns
    }

    /// Whether the hang still lasts.
    pub fn is_alarming(&self) -> bool {
        self.is_hang() && self.outcome == HangOutcome::Lasts
    }
}

/// Whether the finding is a hang, as far as sbt can tell. A thread that always uses a CPU at one
/// place may simply have much to do there, and is not counted as one.
pub fn is_hang(found: &HangReport) -> bool {
    matches!(found.kind, HangKind::Never | HangKind::Stuck)
}
