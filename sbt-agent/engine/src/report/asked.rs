//! The parts of a report that the user asked for: conceptual phases, marks, limits and single
//! episodes.

use serde::{Deserialize, Serialize};

use super::{EfficiencyReport, StatReport, TrendReport, counters::Counts};

/// A conceptual phase: from one barrier to another, whatever lies between the two.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ConceptualReport {
    /// The name of the phase.
    pub name: String,
    /// Where the phase begins, as the user wrote it.
    pub from: String,
    /// Where the phase ends, as the user wrote it.
    pub to: String,
    /// Wall time, one value for each pass; null if no pass was completed. Teams that pass the phase
    /// side by side count separately.
    pub phase_ns: Option<StatReport>,
    /// Whether a pass had begun but not ended when its threads ended or watching stopped. Such a
    /// pass counts in no other field.
    pub unfinished: bool,
    /// Number of passes that were begun and given up, because an episode of their threads was
    /// incomplete, events of these threads were lost, or watching was interrupted. They count in no
    /// other field.
    pub abandoned: u64,
    /// Complete episodes inside the phase in which its threads took part, including the episode
    /// that ends the phase. An episode that two teams share counts for each team.
    pub episodes: u64,
    /// Work inside the phase, summed over the threads that began it.
    pub work_ns: u64,
    /// Time that these threads waited for others inside the phase.
    pub idle_ns: u64,
    /// The efficiency of the threads inside the phase, computed as for the run, with `phase_ns` in
    /// place of the wall time. Null if the threads were not always the same, or part of their work
    /// is unknown.
    pub efficiency: Option<EfficiencyReport>,
    /// Values of the requested counters during `work_ns`.
    #[serde(default)]
    pub counters: Counts,
    /// How the phase changed over the run. Here `episodes` counts passes of the phase, and
    /// `barrier_ns` is 0.
    pub trend: Vec<TrendReport>,
    /// The sums of each thread.
    pub threads: Vec<ConceptualThreadReport>,
}

/// The sums of one thread in a conceptual phase.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ConceptualThreadReport {
    /// The id of the thread.
    pub thread: u32,
    /// The thread's work.
    pub work_ns: u64,
    /// The thread's waiting for others.
    pub idle_ns: u64,
    /// Values of the requested counters during the thread's work.
    #[serde(default)]
    pub counters: Counts,
}

/// A mark: a place that threads pass.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MarkReport {
    /// The number of the mark.
    pub id: u32,
    /// The name of the mark.
    pub name: String,
    /// Where the mark is, as the user wrote it.
    pub at: String,
    /// The number of times that threads passed the mark; null if there was no room to watch it.
    pub hits: Option<u64>,
    /// The number of times that each thread passed the mark.
    pub threads: Vec<MarkThreadReport>,
}

/// The number of times that one thread passed a mark.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MarkThreadReport {
    /// The id of the thread.
    pub thread: u32,
    /// Number of passes.
    pub hits: u64,
}

/// The interval between a thread's passing one mark and its passing the next.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct IntervalReport {
    /// The mark at the beginning.
    pub from: u32,
    /// The mark at the end.
    pub to: u32,
    /// Wall time, one value for each passage.
    pub time_ns: Option<StatReport>,
    /// The part of `time_ns` spent on a CPU.
    pub running_ns: Option<u64>,
    /// The part of `time_ns` spent runnable without a CPU.
    pub ready_ns: Option<u64>,
    /// The part of `time_ns` spent neither on a CPU nor runnable.
    pub blocked_ns: Option<u64>,
    /// Values of the counters during the passages of all threads.
    pub counters: Counts,
    /// The passages of each thread.
    pub threads: Vec<IntervalThreadReport>,
}

/// One thread's passages from one mark to another.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct IntervalThreadReport {
    /// The id of the thread.
    pub thread: u32,
    /// Number of passages.
    pub count: u64,
    /// Sum of the wall times of these passages.
    pub time_ns: u64,
    /// Values of the requested counters during these passages.
    #[serde(default)]
    pub counters: Counts,
}

/// A site whose barrier time exceeded the limit.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WarningReport {
    /// The id of the site.
    pub site: u32,
    /// Number of episodes above the limit.
    pub episodes: u64,
    /// The longest barrier time at the site.
    pub worst_ns: u64,
    /// The limit.
    pub limit_ns: u64,
}

/// An episode that was watched one by one (`--watch`, `--watch-all`).
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WatchedReport {
    /// The id of the site.
    pub site: u32,
    /// Number of episodes completed at the site before this one.
    pub index: u64,
    /// The number of the phase that ends with it among those of all sites, from 1; 0 in reports of older
    /// versions.
    #[serde(default)]
    pub number: u64,
    /// Time of the first arrival, since the start of watching.
    pub first_ns: u64,
    /// Time of the last arrival, since the start of watching.
    pub last_ns: u64,
    /// From the last arrival of the previous episode to the last arrival of this one.
    pub phase_ns: Option<u64>,
    /// The site of the previous episode; null if no participant came from another episode, or if
    /// that is unknown.
    pub from: Option<u32>,
    /// From the first to the last arrival.
    pub barrier_ns: u64,
    /// The arrivals, in their order.
    pub arrivals: Vec<ArrivalReport>,
}

/// A thread's arrival in a watched episode.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ArrivalReport {
    /// The id of the thread.
    pub thread: u32,
    /// Time since the previous arrival; 0 for the first arrival.
    pub gap_ns: u64,
    /// From this arrival to the last arrival.
    pub idle_ns: u64,
    /// From the last arrival to the departure of this thread.
    pub release_ns: Option<u64>,
    /// The thread's work before this arrival.
    pub work_ns: Option<u64>,
    /// Time of the arrival, since the start of watching.
    pub since_start_ns: u64,
    /// Values of the counters during `work_ns`; empty if the user asked for no counters.
    pub counters: Counts,
}
