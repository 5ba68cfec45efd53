//! The recordings of a job, and how their clocks were aligned.

use serde::{Deserialize, Serialize};

/// The recordings of which a report of a job is made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct JobReport {
    /// Number of recordings.
    pub recordings: u32,
    /// Number of ranks of the job as its launcher has told it; null if it did not.
    pub ranks: Option<u32>,
    /// The ranks of which there is no recording.
    pub missing_ranks: Vec<u32>,
    /// The machines of the job. The report's times are those of the first machine.
    pub hosts: Vec<HostReport>,
    /// How the clocks of the machines were aligned; null if all recordings have one clock.
    pub clocks: Option<ClocksReport>,
}

/// A machine of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct HostReport {
    /// The name of the machine.
    pub name: String,
    /// Number of recordings made there.
    pub recordings: u32,
    /// What was added to the machine's times to get times of the first machine, when its last rank came to
    /// the first collective that was seen on both.
    pub offset_ns: i64,
    /// By how much the offset grows, in ns for each second; 0 if a constant offset fits all
    /// collectives.
    pub drift_ns_per_s: f64,
}

/// How the clocks of several machines were aligned: no rank leaves a collective before the last rank
/// has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ClocksReport {
    /// Number of collectives by which the clocks were aligned; for more than two machines the
    /// smallest such number.
    pub collectives: u64,
    /// The largest error between the clock of the first machine and that of another one. Between ranks
    /// of different machines, a shorter wait does not tell which rank came first; between two others
    /// than the first machine the error may be twice as large.
    pub uncertainty_ns: u64,
}
