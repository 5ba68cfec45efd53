//! One program at several numbers of threads, as data. The comments of the fields are their
//! documentation, as in [`crate::report`].

use serde::Serialize;

use crate::report::{CounterUnit, Report, VerdictReport, Word, counters::Counts};

/// Version of the JSON fields.
pub const SCHEMA: u32 = 1;

/// A run of the program to its end.
#[derive(Clone, Debug)]
pub struct Run {
    /// The number of threads that the program was told to use.
    pub threads: u32,
    /// The report on the run.
    pub report: Report,
}

/// One program at several numbers of threads. Times are integers in nanoseconds and end in `_ns`;
/// shares are in percent and end in `_pct`. If there are several runs with a number of threads,
/// figures are medians. `null` means unknown or not measured, never 0. Fields may be added.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(title = "sbt scale"))]
pub struct Scaling {
    /// Version of these fields: 1. It changes if a field is removed or changes its meaning.
    pub schema: u32,
    /// Version of sbt.
    pub version: Word,
    /// The command line, with `{n}` where the number of threads was inserted.
    pub command: Vec<String>,
    /// Number of CPUs that the program could run on; null if it could not be determined.
    pub cpus: Option<u32>,
    /// The whole runs, by ascending number of threads.
    pub counts: Vec<AtCount>,
    /// The times between two barriers, by descending loss of time against the ideal.
    pub phases: Vec<PhaseScaling>,
    /// The requested counters.
    pub counters: Vec<CounterName>,
    /// The obstacle to scaling; null if the program scales, if there is only one number of threads,
    /// or if the obstacle is unknown.
    pub limit: Option<Limit>,
    /// Why threads waited at the largest number of threads; null if there can be no verdict.
    pub verdicts: Option<Vec<VerdictReport>>,
    /// Remarks for the user.
    pub notes: Vec<String>,
}

/// A requested counter.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CounterName {
    /// The name, as perf spells it.
    pub name: String,
    /// The unit of the values: `ns`, or `count` for a number of events.
    pub unit: CounterUnit,
}

/// The whole run at a number of threads.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AtCount {
    /// The number of threads that the program was told to use.
    pub threads: u32,
    /// Number of threads that came to a barrier, in the run with the median time.
    pub seen_threads: u64,
    /// Number of runs that went to their end.
    pub runs: u32,
    /// Time from the program's start to its end.
    pub wall_ns: u64,
    /// The time of the fastest run.
    pub min_wall_ns: u64,
    /// The time of the slowest run.
    pub max_wall_ns: u64,
    /// How many times faster the program is than with the smallest number of threads.
    pub speedup: Option<f64>,
    /// `speedup` divided by the ideal speed-up, which is the ratio of the numbers of threads.
    pub scaling_efficiency: Option<f64>,
    /// Useful work as a fraction of what the threads could have done, as `efficiency.parallel` of a
    /// report; null if it is unknown in any of the runs.
    pub parallel_efficiency: Option<f64>,
    /// The balance of work, as `efficiency.load_balance` of a report; null if it is unknown in any
    /// of the runs.
    pub load_balance: Option<f64>,
    /// Totals of the counters for all threads.
    pub counters: Counts,
}

/// The time between two consecutive episodes, by the sites at both ends.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PhaseScaling {
    /// The name of the site at its beginning, as in the run with the largest number of threads;
    /// null for a thread's start.
    pub from: Option<String>,
    /// The site that ends the phase. Null for time outside of all phases: after the last barrier,
    /// and in phases that could not be counted.
    pub to: Option<String>,
    /// The smallest number of threads with a known time; speed-ups are relative to it.
    pub base_threads: Option<u32>,
    /// The phase at each number of threads, in the order of `counts`.
    pub at: Vec<PhaseAt>,
    /// At the largest number of threads, additional time of all passes compared with the ideal; 0
    /// if there is none, null if it is unknown.
    pub lost_ns: Option<u64>,
    /// `lost_ns` as a percentage of what all phases lose.
    pub lost_pct: Option<f64>,
}

/// A phase at a number of threads.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PhaseAt {
    /// The number of threads that the program was told to use.
    pub threads: u32,
    /// Number of times that the phase was passed; null if it was not.
    pub episodes: Option<u64>,
    /// Mean time of a pass, ns.
    pub mean_ns: Option<u64>,
    /// Total time of all passes.
    pub sum_ns: Option<u64>,
    /// `sum_ns` of the run in which it was smallest.
    pub min_sum_ns: Option<u64>,
    /// `sum_ns` of the run in which it was largest.
    pub max_sum_ns: Option<u64>,
    /// `sum_ns` at `base_threads` divided by `sum_ns`; null at `base_threads` itself if the phase does
    /// not exist at the smallest number of threads.
    pub speedup: Option<f64>,
    /// Values of the counters during work in the phase, summed over all threads.
    pub counters: Counts,
}

/// The phase that loses most time with the largest number of threads.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Limit {
    /// The site at its beginning; null for a thread's start.
    pub from: Option<String>,
    /// The site that ends the phase; null for time outside of all phases.
    pub to: Option<String>,
    /// The number of threads up to which the phase got faster; null if it never did.
    pub scales_to: Option<u32>,
    /// The time that the phase loses against the ideal.
    pub lost_ns: u64,
    /// `lost_ns` as a percentage of what all phases lose.
    pub lost_pct: Option<f64>,
    /// The causes, as far as known: the verdicts on this phase's site, and those on the whole run.
    pub why: Vec<VerdictReport>,
}
