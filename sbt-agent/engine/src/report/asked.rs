//! What a report says of what the user asked for: phases and marks of their own,
//! limits, and episodes one by one.

use serde::{Deserialize, Serialize};

use super::{EfficiencyReport, StatReport, TrendReport, counters::Counts};

/// A conceptual phase: from one barrier to another, whatever lies between.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ConceptualReport {
    /// Its name.
    pub name: String,
    /// Where it begins, as written.
    pub from: String,
    /// Where it ends, as written.
    pub to: String,
    /// Wall time, one value each time; null if it never came to an end. Teams
    /// that pass it side by side count each for itself.
    pub phase_ns: Option<StatReport>,
    /// Whether one had begun and not ended when its threads or the watching did;
    /// that part does not count.
    pub unfinished: bool,
    /// How many were begun and given up, because an episode of their threads was
    /// incomplete, events of these were lost, or watching was interrupted: they
    /// count in nothing else.
    pub abandoned: u64,
    /// Complete episodes in which its threads took part inside, with that which
    /// ends it. An episode that two teams share counts for each.
    pub episodes: u64,
    /// Work inside of the threads that began it.
    pub work_ns: u64,
    /// Their waiting inside.
    pub idle_ns: u64,
    /// How well its threads were used inside: as that of the run, with the time of
    /// `phase_ns` in the place of the wall time. Null if it was not always the same
    /// threads, or not all of their work is known.
    pub efficiency: Option<EfficiencyReport>,
    /// What counters that were asked for said of `work_ns`.
    #[serde(default)]
    pub counters: Counts,
    /// How it changed over the run: `episodes` counts its own passes,
    /// `barrier_ns` is 0.
    pub trend: Vec<TrendReport>,
    /// By thread.
    pub threads: Vec<ConceptualThreadReport>,
}

/// What one thread did in a conceptual phase.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ConceptualThreadReport {
    /// Which.
    pub thread: u32,
    /// Its work.
    pub work_ns: u64,
    /// Its waiting for others.
    pub idle_ns: u64,
    /// What counters said of its work.
    #[serde(default)]
    pub counters: Counts,
}

/// A place that threads pass.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MarkReport {
    /// Its number.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// Where it is, as written.
    pub at: String,
    /// How often it was passed; null if there was no room to watch it.
    pub hits: Option<u64>,
    /// By thread.
    pub threads: Vec<MarkThreadReport>,
}

/// How often one thread passed a mark.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MarkThreadReport {
    /// Which.
    pub thread: u32,
    /// How often.
    pub hits: u64,
}

/// From a thread's passing one mark to its passing the next.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct IntervalReport {
    /// The mark at its beginning.
    pub from: u32,
    /// The mark at its end.
    pub to: u32,
    /// Wall time, one value each time.
    pub time_ns: Option<StatReport>,
    /// Of it, on a CPU.
    pub running_ns: Option<u64>,
    /// Of it, runnable without a CPU.
    pub ready_ns: Option<u64>,
    /// Of it, neither.
    pub blocked_ns: Option<u64>,
    /// What counters said of it, of all threads together.
    pub counters: Counts,
    /// By thread.
    pub threads: Vec<IntervalThreadReport>,
}

/// One thread's passages from one mark to another.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct IntervalThreadReport {
    /// Which.
    pub thread: u32,
    /// How often.
    pub count: u64,
    /// Their sum.
    pub time_ns: u64,
    /// What counters that were asked for said of it.
    #[serde(default)]
    pub counters: Counts,
}

/// A site whose barrier time exceeded the limit.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WarningReport {
    /// Which.
    pub site: u32,
    /// How often.
    pub episodes: u64,
    /// The longest barrier time.
    pub worst_ns: u64,
    /// The limit.
    pub limit_ns: u64,
}

/// A watched episode.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WatchedReport {
    /// Where.
    pub site: u32,
    /// How many were completed there before.
    pub index: u64,
    /// First arrival, since the start of watching.
    pub first_ns: u64,
    /// Last arrival, likewise.
    pub last_ns: u64,
    /// From the last arrival of the episode before to the last of this.
    pub phase_ns: Option<u64>,
    /// The site of the episode before; null if no participant came from one, or
    /// if that is unknown.
    pub from: Option<u32>,
    /// From first to last arrival.
    pub barrier_ns: u64,
    /// In order of arrival.
    pub arrivals: Vec<ArrivalReport>,
}

/// A thread's arrival in a watched episode.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ArrivalReport {
    /// Who.
    pub thread: u32,
    /// Since the arrival before it; 0 for the first.
    pub gap_ns: u64,
    /// Until the last arrival.
    pub idle_ns: u64,
    /// From the last arrival to its departure.
    pub release_ns: Option<u64>,
    /// Its work before.
    pub work_ns: Option<u64>,
    /// When it arrived, since the start of watching.
    pub since_start_ns: u64,
    /// What counters said of that work; empty if none were asked for.
    pub counters: Counts,
}
