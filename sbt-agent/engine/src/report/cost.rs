//! The cost of watching, in a report.

use serde::{Deserialize, Serialize};

use super::ProbeKind;

/// The cost of watching.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct OwnCost {
    /// Number of probe hits: the sum over `by_kind`.
    pub events: u64,
    /// Mean CPU time that a probe hit cost the thread that hit it. Null if the cost was not
    /// measured or no probe was hit.
    pub ns_per_event: Option<u64>,
    /// The cost of all hits as a percentage of the time of all threads together; null if it is
    /// unknown.
    pub share_pct: Option<f64>,
    /// The cost of each kind of probe that was hit.
    pub by_kind: Vec<KindCost>,
    /// Additional cost of a hit where the kernel single-steps the probed instruction; null if it
    /// was not measured.
    pub ns_per_step: Option<u64>,
    /// Number of single-stepped hits.
    pub stepped: u64,
    /// Additional cost of each function that was walked to find callers; null if it was not
    /// measured.
    pub ns_per_walk: Option<u64>,
    /// Number of functions that were walked, beyond the direct callers.
    pub walked: u64,
    /// Why the costs are unknown; null if they are known.
    pub unknown_because: Option<String>,
    /// The largest percentage of its time that the busiest thread was allowed to pay (`--budget`);
    /// null without a limit.
    pub budget_pct: Option<f64>,
    /// How watching was reduced to stay within `budget_pct`; null if it was not reduced.
    pub thinned: Option<ThinnedReport>,
    /// CPU time of sbt itself, including its start and the reading of debug information. The cost
    /// of probes to the target is not part of it.
    pub cpu_ns: u64,
}

/// The cost of one kind of probe.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct KindCost {
    /// The kind of probe.
    pub kind: ProbeKind,
    /// Number of hits.
    pub events: u64,
    /// Cost of one hit on an instruction that the kernel emulates; null if it was not measured.
    pub ns_each: Option<u64>,
}

/// How probes were switched off for spans of time because they would have cost too much.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ThinnedReport {
    /// The time at which the first such span began, since the start of watching.
    pub since_ns: u64,
    /// Total time for which probes were off.
    pub off_ns: u64,
    /// Percentage of the whole time for which probes were on.
    pub observed_pct: f64,
    /// Number of arrivals that probes saw. The other arrivals are known from the barriers' own
    /// counts.
    pub arrivals_seen: u64,
    /// Whether `arrivals` is exact: the barriers number their rounds, and no event was lost.
    pub arrivals_exact: bool,
}

/// Figures without the cost of watching, in virtual time: each thread's clock minus the cost that
/// the thread has paid, and episodes recomputed with these clocks. These figures are never mixed
/// with measured ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CompensatedReport {
    /// How long the run would have taken; null for a site.
    pub wall_ns: Option<u64>,
    /// Number of recomputed episodes: those whose phase has a known beginning.
    pub episodes: u64,
    /// Sum of the phase times of these episodes, each from the previous release to the last
    /// arrival.
    pub phase_ns: u64,
    /// Mean phase time; null if no episode was recomputed.
    pub phase_mean_ns: Option<u64>,
    /// Waiting for others, summed over all threads.
    pub idle_ns: u64,
    /// From the previous release to the arrival, summed over all threads. As where departures are
    /// not watched, this includes the time that a thread takes to leave the barrier.
    pub work_ns: u64,
}
