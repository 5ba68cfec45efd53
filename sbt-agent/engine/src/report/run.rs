//! What a report takes from the session.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{
    FunctionReport, IncompleteReport, SamplingReport, StandstillReport, WithheldReport, locks, spin,
};
use crate::{
    choices::States,
    counters::Plan,
    model::{cost::Tariff, ids::SiteId, told::ToldEpisode},
};

/// What the session knows and the model does not.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Run {
    /// The name of the source.
    pub backend: String,
    /// How the source works.
    pub method: String,
    /// The target's command line.
    pub command: Vec<String>,
    /// The process id of the target.
    pub pid: u32,
    /// When watching began, `CLOCK_MONOTONIC` ns. For a program that sbt started, this is its first
    /// exec.
    pub start_ns: u64,
    /// When watching began, ns since 1970.
    pub start_unix_ns: u64,
    /// How long the target was watched, ns: until its last thread ended, or until sbt detached.
    pub wall_ns: u64,
    /// Whether the target had ended by then.
    pub ended: bool,
    /// Exit status of the target; `None` if it had not ended, or if sbt did not start it.
    pub exit_status: Option<u8>,
    /// Whether the target had children and waited for one; `None` if that is unknown.
    pub had_children: Option<bool>,
    /// Whether children of the target were watched too.
    pub children: bool,
    /// Number of CPUs that the target may run on.
    pub cpus: Option<u32>,
    /// Why no barrier could be found.
    pub none_found_because: Option<String>,
    /// Number of events lost anywhere.
    pub lost: u64,
    /// Whether departures were watched: `Some` if always or never, `None` if for a part of the
    /// time.
    pub departures: Option<bool>,
    /// Names of sites, indexed by [`SiteId`].
    pub names: Vec<Option<String>>,
    /// Name, beginning and end of each conceptual phase, as the user wrote them.
    pub conceptual: Vec<[String; 3]>,
    /// Name and place of each mark, as the user wrote them.
    pub marks: Vec<[String; 2]>,
    /// Numbers of the marks that were not watched everywhere or all the time.
    #[serde(default)]
    pub unseen_marks: BTreeSet<u8>,
    /// Sites with barrier times above the limit: how many, the longest, and the limit, ns.
    pub warnings: Vec<(SiteId, u64, u64, u64)>,
    /// Episodes that the user asked for one by one.
    pub watched: Option<Vec<ToldEpisode>>,
    /// Number of such episodes before those in `watched`.
    pub watched_omitted: u64,
    /// What is missing in the recording that was read; empty while watching.
    #[serde(skip)]
    pub incomplete: Vec<IncompleteReport>,
    /// Figures that cannot be known from what was read, and why.
    #[serde(default)]
    pub withheld: Vec<WithheldReport>,
    /// Remarks for the user.
    pub notes: Vec<String>,
    /// Locks that threads waited for; `None` if futexes were not watched.
    pub locks: Option<Vec<locks::FoundLock>>,
    /// Samples of the code that threads executed; `None` without sampling.
    pub sampled: Option<(SamplingReport, Vec<FunctionReport>)>,
    /// Folded stacks of the samples, one line each; known only at the end.
    pub folded: Option<Vec<String>>,
    /// Loops that may be barriers; `None` if sbt did not look for them.
    pub spins: Option<Vec<spin::FoundLoop>>,
    /// The present or past hang.
    pub hang: Option<StandstillReport>,
    /// How long threads have to stand still before sbt looks at them, ns; `None` if it does not
    /// look.
    pub hang_time_ns: Option<u64>,
    /// The longest time for which a barrier may have stood still unseen, ns; `None` if sbt did not
    /// look for hangs.
    pub hang_unwatched_ns: Option<u64>,
    /// Whether sbt started the target instead of attaching to it; `None` if an older sbt did not
    /// say.
    pub started: Option<bool>,
    /// Number of watched processes that went on without the target; `None` before its end.
    pub left_processes: Option<u64>,
    /// The requested counters, in the order of readings.
    pub counters: Plan,
    /// How closely threads are watched between barriers.
    pub states: States,
    /// The cost of probes, if known.
    pub tariff: Option<Tariff>,
    /// Why the cost of probes is unknown.
    pub cost_unknown_because: Option<String>,
    /// The largest share of its time that the busiest thread may pay, percent.
    pub budget_pct: Option<f64>,
    /// Since when the probes were on for spans of time only (`CLOCK_MONOTONIC` ns), and for how
    /// long they were off in all, ns.
    pub thinned: Option<(u64, u64)>,
    /// CPU time that sbt itself used, ns.
    pub own_cpu_ns: u64,
}
