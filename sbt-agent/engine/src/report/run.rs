//! What a report takes from the session, beside the model.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{
    FunctionReport, IncompleteReport, SamplingReport, StandstillReport, WithheldReport, locks, spin,
};
use crate::{
    choices::States,
    counters::Plan,
    model::{cost::Tariff, ids::SiteId, told::Told},
};

/// What the session knows and the model does not.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Run {
    /// The name of the source, and how it works.
    pub backend: String,
    /// See [`crate::source::Source::method`].
    pub method: String,
    /// The target's command line.
    pub command: Vec<String>,
    /// Its process id.
    pub pid: u32,
    /// When watching began, `CLOCK_MONOTONIC` ns: of a program that sbt started, its first exec.
    pub start_ns: u64,
    /// The same moment, ns since 1970.
    pub start_unix_ns: u64,
    /// For how long it was watched, ns: until its last thread ended, or until sbt left it.
    pub wall_ns: u64,
    /// Whether it had ended by then.
    pub ended: bool,
    /// How it ended; `None` if it had not, or if we did not start it.
    pub exit_status: Option<u8>,
    /// Whether it had children and waited for one, if that is known.
    pub had_children: Option<bool>,
    /// Whether its children were watched too.
    pub children: bool,
    /// CPUs that the target may run on.
    pub cpus: Option<u32>,
    /// Why no barrier could be found.
    pub none_found_because: Option<String>,
    /// Events lost, wherever.
    pub lost: u64,
    /// Whether departures were watched: at the end, and all the time.
    pub departures: Option<bool>,
    /// Names of sites, by [`SiteId`].
    pub names: Vec<Option<String>>,
    /// Name, beginning and end of each conceptual phase, as written.
    pub conceptual: Vec<[String; 3]>,
    /// Name and place of each mark, as written.
    pub marks: Vec<[String; 2]>,
    /// Those of them, by their numbers, that were not watched everywhere or all the time.
    #[serde(default)]
    pub unseen_marks: BTreeSet<u8>,
    /// By site: how often its barrier time was above the limit, the longest
    /// and the limit, ns.
    pub warnings: Vec<(SiteId, u64, u64, u64)>,
    /// Episodes that were asked for one by one.
    pub watched: Option<Vec<Told>>,
    /// How many came before those.
    pub watched_omitted: u64,
    /// What is missing in the recording that was read; told by nobody who watches.
    #[serde(skip)]
    pub incomplete: Vec<IncompleteReport>,
    /// Figures that cannot be known from what was read, and why.
    #[serde(default)]
    pub withheld: Vec<WithheldReport>,
    /// What the user should know.
    pub notes: Vec<String>,
    /// Locks, if anybody looked.
    pub locks: Option<Vec<locks::Found>>,
    /// Samples of where threads were, if any were taken.
    pub sampled: Option<(SamplingReport, Vec<FunctionReport>)>,
    /// Folded stacks of the samples, a line each; known at the end only.
    pub folded: Option<Vec<String>>,
    /// What may be barriers that spin, if anybody looked.
    pub spins: Option<Vec<spin::Found>>,
    /// What stands still, or stood.
    pub hang: Option<StandstillReport>,
    /// After how long that is looked at, ns; `None` if it is not.
    pub hang_time_ns: Option<u64>,
    /// The longest time in which a barrier may have stood still unseen, ns; `None` if nobody
    /// looked.
    pub hang_unwatched_ns: Option<u64>,
    /// Whether we started it, and did not join it; `None` if an older sbt did not say.
    pub started: Option<bool>,
    /// Processes that were watched and went on without the target; `None` before its end.
    pub left_processes: Option<u64>,
    /// Counters that were asked for, in the order of readings.
    pub counters: Plan,
    /// How closely was looked at what threads do.
    pub states: States,
    /// What probes cost, if that is known,
    pub tariff: Option<Tariff>,
    /// and why not.
    pub cost_unknown_because: Option<String>,
    /// How much of its time the busiest thread may pay, percent.
    pub budget_pct: Option<f64>,
    /// Since when the probes were on for spans only (`CLOCK_MONOTONIC` ns), and for how
    /// long they were off, ns.
    pub thinned: Option<(u64, u64)>,
    /// CPU time that sbt itself used, ns.
    pub own_cpu_ns: u64,
}
