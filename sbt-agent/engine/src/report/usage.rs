//! What a report says of how well the threads were used.

use serde::{Deserialize, Serialize};

/// The efficiencies of POP over the whole run: shares of 1, of which 0.8 passes for
/// good. `parallel` is `load_balance` × `serialisation` × `transfer`.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct EfficiencyReport {
    /// Useful work of all threads / (`threads` × wall time). Useful is work for which the
    /// thread had a CPU, or needed none.
    pub parallel: f64,
    /// Mean / most useful work of a thread: small if one has more than the others over the
    /// whole run.
    pub load_balance: f64,
    /// Most useful work of a thread / `path_ns`: small if now one, now another thread has
    /// more, and at serial parts.
    pub serialisation: f64,
    /// `path_ns` / wall time: what getting going again after barriers, and a lack of CPUs,
    /// leave.
    pub transfer: f64,
    /// Of the threads' work, not runnable without a CPU; null if that is unknown.
    pub cpu_availability: Option<f64>,
    /// Useful work of all threads / wall time.
    pub speedup: f64,
    /// Useful work of all threads / the rest of their time; null if there is no rest.
    pub granularity: Option<f64>,
    /// Threads that took part in barriers at the same time, at most. Those that come one
    /// after the other take each other's place.
    pub threads: u32,
    /// The longest path through the phases: how long the run would take with the same work
    /// and barriers that take no time.
    pub path_ns: u64,
}

impl EfficiencyReport {
    /// Useful work of all threads, ns, in a run of `wall_ns`.
    pub fn useful_ns(&self, wall_ns: u64) -> f64 {
        // If the program has executed another, the efficiencies are those of the latter alone.
        let their_wall_ns = if self.transfer > 0.0 {
            self.path_ns as f64 / self.transfer
        } else {
            wall_ns as f64
        };
        self.speedup * their_wall_ns
    }
}

/// How many threads were busy at a time: between barriers, and not waiting in one. Of each
/// episode's members alone.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ParallelismReport {
    /// Time in which at least one was: the normalised processor time (Quartz).
    pub busy_ns: u64,
    /// How many were on average, in that time.
    pub mean_busy: f64,
    /// Wall time by how many were, where any time is; above 64, up to so many.
    pub times: Vec<BusyReport>,
}

/// Wall time with so many busy threads.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct BusyReport {
    /// How many.
    pub busy: u32,
    /// How long.
    pub ns: u64,
}

/// Wall time that would be saved at a site if things were otherwise, as far as the work
/// stays the same. That of perfect balance is the site's `gain_ns`.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WhatIfReport {
    /// If whoever comes last took 10 % less time for its work, and nobody else.
    pub straggler_10_pct_faster_ns: u64,
    /// 25 %.
    pub straggler_25_pct_faster_ns: u64,
    /// 50 %.
    pub straggler_50_pct_faster_ns: u64,
    /// If all could go on the moment the last has come; null if departures were not
    /// watched.
    pub no_release_ns: Option<u64>,
}
