//! How counters go with lateness, in a report.

use serde::{Deserialize, Serialize};

/// How a counter goes with who is late at a site, over the episodes that followed another one and in
/// which the counter is known of all threads. Episodes before which one thread worked alone for a
/// hundredth of the phase or longer are left out: its counts include that work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RelatedReport {
    /// The name of the counter.
    pub counter: String,
    /// Number of these episodes.
    pub episodes: u64,
    /// Pearson's correlation, -1 to 1, of two deviations from the mean of the episode's threads: that
    /// of a thread's arrival, and that of its count. It is no proof of a cause. Null if the counts, or
    /// the arrivals, do not differ.
    pub correlation: Option<f64>,
    /// From how many episodes of equal weight the correlation comes: 1 if a single one makes it. Null
    /// without a correlation.
    pub effective_episodes: Option<f64>,
    /// Whether lateness itself makes what is counted: time on a CPU and cycles, switches, moves between
    /// CPUs. Such a counter says nothing of the reason.
    pub made_by_lateness: bool,
    /// Mean count of the last thread.
    pub last: Option<f64>,
    /// Mean count of the other threads.
    pub others: Option<f64>,
    /// Mean time by which the last thread came later than the others on average.
    pub late_ns: Option<u64>,
}
