//! What a report says of a hang that was watched: what `sbt hang` says, and how long it
//! lasted.

use serde::{Deserialize, Serialize};

use super::Word;

use super::HangReport;

/// Threads that stood still for longer than `--hang-time`, as the last look found them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct StandstillReport {
    /// What was found.
    #[serde(flatten)]
    pub found: HangReport,
    /// From the last arrival until threads came or ran again, or as long as it was watched.
    pub lasted_ns: u64,
    /// `lasts`: still so when the report was made, or when the target ended. `over`: threads
    /// came, or ran again. `unknown`: it was no longer watched, since the probes went off
    /// or the recording breaks off.
    #[serde(deserialize_with = "super::word::read")]
    pub outcome: Word,
}

impl StandstillReport {
    /// Whether nobody goes on: it is not merely slow.
    pub fn is_hang(&self) -> bool {
        is_hang(&self.found)
    }

    /// Whether nobody went on for longer than a limit, ns. Of what may as well be slow, such
    /// as who uses a CPU at one place, twice as long.
    pub fn is_too_long(&self, limit_ns: u64) -> bool {
        let limit_ns = match self.found.kind {
            "unclear" => limit_ns.saturating_mul(2),
            _ if self.is_hang() => limit_ns,
            _ => return false,
        };
        self.lasted_ns >= limit_ns
    }

    /// Whether that is so now.
    pub fn is_alarming(&self) -> bool {
        self.is_hang() && self.outcome == "lasts"
    }
}

/// Whether what was found is a hang, as far as one can tell. Who always uses a CPU at one
/// place may as well have much to do there.
pub fn is_hang(found: &HangReport) -> bool {
    matches!(found.kind, "never" | "stuck")
}
