//! What a report says of the cost of watching.

use serde::{Deserialize, Serialize};

use super::Word;

/// What watching cost.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct OwnCost {
    /// Hits of probes: the sum over `by_kind`.
    pub events: u64,
    /// What a hit of a probe cost the thread that hit it, CPU time, in the mean of all
    /// hits; null if that was not measured or nothing was hit.
    pub ns_per_event: Option<u64>,
    /// All that, of the time of all threads together; likewise.
    pub share_pct: Option<f64>,
    /// By kind of probe, those that were hit.
    pub by_kind: Vec<KindCost>,
    /// What more a hit cost where the kernel single-steps the probed instruction; null
    /// if it was not measured.
    pub ns_per_step: Option<u64>,
    /// How many hits were such.
    pub stepped: u64,
    /// What more each function cost that was walked to find callers; likewise.
    pub ns_per_walk: Option<u64>,
    /// How many were walked, beyond those called directly.
    pub walked: u64,
    /// Why the costs are not known; null if they are.
    pub unknown_because: Option<String>,
    /// How much of its time the busiest thread was to pay at most (`--budget`); null if
    /// there was no limit.
    pub budget_pct: Option<f64>,
    /// How less was watched for that; null if all was.
    pub thinned: Option<ThinnedReport>,
    /// CPU time of sbt itself, with its start and the reading of debug
    /// information; apart from what probes cost the target.
    pub cpu_ns: u64,
}

/// What a kind of probe cost.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct KindCost {
    /// `arrival` (of functions that wait), `team-arrival` (OpenMP, C++, Rust), `call`
    /// and `call-end` (named with `--barrier`, and MPI), `departure` (return probes),
    /// `condvar`, `mark`, or `region` (where a parallel region of OpenMP begins).
    #[serde(deserialize_with = "super::word::read")]
    pub kind: Word,
    /// How often it was hit.
    pub events: u64,
    /// What one hit costs, on an instruction that the kernel emulates; null if it was not
    /// measured.
    pub ns_each: Option<u64>,
}

/// Spans of time in which the probes were off, since they would have cost too much.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ThinnedReport {
    /// When that began, since watching did.
    pub since_ns: u64,
    /// For how long they were off, all together.
    pub off_ns: u64,
    /// How much of the whole time they were on.
    pub observed_pct: f64,
    /// How many arrivals were seen; the rest is what barriers have counted themselves.
    pub arrivals_seen: u64,
    /// Whether `arrivals` are all that there were: the barriers number their rounds, and
    /// nothing was lost.
    pub arrivals_exact: bool,
}

/// Figures without the cost of watching, by virtual time: each thread's clock less what
/// it has paid, and episodes recomputed with that. Never mixed with the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CompensatedReport {
    /// How long the run would have taken; null of a site.
    pub wall_ns: Option<u64>,
    /// Episodes that were recomputed: those of which all beginnings are known.
    pub episodes: u64,
    /// Of them, from the last arrival of the one before to the last of this: the sum.
    pub phase_ns: u64,
    /// The mean; null if there are none.
    pub phase_mean_ns: Option<u64>,
    /// Waiting for others, of all threads together.
    pub idle_ns: u64,
    /// From the release before to the arrival, of all threads together: with the time to
    /// get going, as where departures are not watched.
    pub work_ns: u64,
}
