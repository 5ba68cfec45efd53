//! The findings as data: the one structure from which the text and the JSON view are drawn. What
//! was not measured is `None`, never 0.
//!
//! The comments of the fields are their documentation: the JSON Schema in docs/report.schema.json
//! is made from them. Times are integers in nanoseconds.

use serde::{Deserialize, Serialize};

use counters::{CounterReport, Counts};
use locks::LockReport;
use spin::SpinReport;
use waits::LooksReport;

use crate::looks::FEW;

mod arriving;
mod asked;
pub mod by_name;
mod completion;
mod cost;
pub mod counters;
mod draw;
pub mod elsewhere;
mod functions;
mod hang;
mod identities;
mod incomplete;
mod job;
pub(crate) mod kinds;
pub mod locks;
pub mod order;
pub mod place_names;
mod related;
mod run;
pub mod scheduling;
#[cfg(test)]
pub(crate) mod schema;
mod sites;
mod sound;
pub mod spin;
mod standstill;
mod states;
mod tasks;
mod usage;
mod verdict;
pub mod waits;
mod window;
mod withheld;
mod word;

pub use asked::{
    ArrivalReport, ConceptualReport, ConceptualThreadReport, IntervalReport, IntervalThreadReport,
    MarkReport, MarkThreadReport, WarningReport, WatchedReport,
};
pub use cost::{CompensatedReport, KindCost, OwnCost, ThinnedReport};
pub use draw::functions::{folded, functions};
pub use functions::{CallerReport, FunctionReport, SamplingReport};
pub use hang::{
    BlockedOn, HangAlsoReport, HangBarrierReport, HangLinkReport, HangReport, HangThreadReport,
    HangWho, LookReport,
};
pub use incomplete::IncompleteReport;
pub use job::{ClocksReport, HostReport, JobReport};
pub use kinds::{
    BarrierKind, BlockedReason, CounterUnit, IncompleteKind, LockReportKind, ProbeKind, SpinKind,
    StatesLevel, StragglerPattern, StragglerSequence, TakerKind, VerdictKind, WaitKind,
    hang::{BlockedOnKind, HangCause, HangKind, HangOutcome, HangThreadState, LookOutcome},
};
pub use related::RelatedReport;
pub use run::{AloneReport, Facts, FirstThreadReport, Run, UsedReport};
pub use scheduling::{
    ForeignReport, MachineReport, Policy, QuotaReport, SchedulingReport, StandsReport, TaskReport,
};
pub use sites::{
    BarrierStragglerReport, EachReport, LateReport, LateTimesReport, LaterReport, PhaseReport,
    SiteReport, SiteThreadReport, StatReport, StragglerReport, TrendReport,
};
pub use sound::{WORTH, lost_pct, sound};
pub use standstill::{StandstillReport, is_hang};
pub use states::{AwayReport, BlockedReport, LateAwayReport, StatesReport, TakerReport};
pub use usage::{BusyReport, EfficiencyReport, ParallelismReport, WhatIfReport};
pub use verdict::{Figure, VerdictReport};
pub use window::{MomentReport, WindowReport};
pub use withheld::{Withheld, WithheldReason, WithheldReport};
pub use word::Word;

/// Version of the JSON fields.
pub const SCHEMA: u32 = 1;

/// A report of `sbt`: where the threads of a parallel program waited for each other. Times are
/// integers in nanoseconds and end in `_ns`; shares are in percent and end in `_pct`. `null` means
/// unknown or not measured, never 0. Threads, barriers and sites refer to each other by `id`.
/// Fields may be added.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(title = "sbt report"))]
pub struct Report {
    /// Version of these fields: 1. It changes if a field is removed or changes its meaning.
    pub schema: u32,
    /// Version of sbt.
    #[serde(deserialize_with = "word::read")]
    pub version: Word,
    /// How the target was watched.
    #[serde(flatten)]
    pub run: Run,
    /// Arrivals in all episodes. If `estimated` is true, this includes arrivals that the barriers
    /// counted while the probes were off.
    pub arrivals: u64,
    /// Number of complete episodes.
    pub episodes: u64,
    /// Number of incomplete episodes: begun before sbt attached, cut short, or damaged by lost
    /// events.
    pub incomplete_episodes: u64,
    /// Records that found no room in the kernel, or could not be read. The number is exact, as the
    /// kernel counts these records. If any were lost, the numbers of arrivals and episodes are
    /// lower bounds.
    pub lost_events: u64,
    /// The shortest time for which a fixed piece of work kept a CPU, as in `fixed_work_ns` of the threads;
    /// null if that was not measured.
    #[serde(default)]
    pub fixed_work_shortest_ns: Option<u32>,
    /// Where the time of all threads together went.
    pub thread_time: ThreadTimeReport,
    /// The threads that arrived at a barrier or passed a mark, in order of their creation.
    pub threads: Vec<ThreadReport>,
    /// The processes of the threads. If there are several, the `label` of a thread names its
    /// process.
    pub processes: Vec<ProcessReport>,
    /// The barriers, in the order in which they were first seen. Beyond 4096 barriers, those that
    /// were inactive for longest are no longer listed; the totals contain them.
    pub barriers: Vec<BarrierReport>,
    /// The sites, by descending `lost_ns`.
    pub sites: Vec<SiteReport>,
    /// The times between two consecutive episodes, by the sites at both ends.
    pub phases: Vec<PhaseReport>,
    /// The phases requested with `--phase`, in that order.
    pub conceptual_phases: Vec<ConceptualReport>,
    /// The marks requested with `--mark`, in that order.
    pub marks: Vec<MarkReport>,
    /// The intervals between a thread's passing one mark and its passing the next.
    pub intervals: Vec<IntervalReport>,
    /// Locks that threads waited for in the kernel while futex system calls were watched, by
    /// descending time. Null if these were never watched: see `--futex`.
    pub locks: Option<Vec<LockReport>>,
    /// Where threads slept and for what, by looks at them from outside; null with `--waits off`, and
    /// if sbt could not look.
    #[serde(default)]
    pub waits: Option<LooksReport>,
    /// Loops in which threads were seen waiting, by descending number of samples, and where no barrier
    /// was seen loops that are barriers by their code. They may be barriers that only spin, which sbt does
    /// not count. Null if sbt did not look for such loops.
    pub spin_suspects: Option<Vec<SpinReport>>,
    /// The counters requested with `--events`, in that order.
    pub counters: Vec<CounterReport>,
    /// Sites with barrier times above the limit of `--warn-time`.
    pub warnings: Vec<WarningReport>,
    /// With `--watch` or `--watch-all`: single episodes, the last 10 000 at most, and fewer if
    /// there are many threads. Null without these options.
    pub watched: Option<Vec<WatchedReport>>,
    /// Number of watched episodes before those listed.
    pub watched_omitted: u64,
    /// Episodes that had arrivals but had not ended.
    pub unfinished: Vec<UnfinishedReport>,
    /// The efficiency of the threads. Null if too little was seen: no episode, more than a tenth as
    /// many incomplete as complete episodes, interrupted watching, lost events, or a recording that
    /// breaks off. `withheld` gives the reason.
    pub efficiency: Option<EfficiencyReport>,
    /// Figures of this report that are null because too little was seen to know them, or because
    /// they contradicted other figures.
    #[serde(default)]
    pub withheld: Vec<WithheldReport>,
    /// The number of busy threads over all episodes; null if there is no episode in which the
    /// beginning of all work was seen.
    pub parallelism: Option<ParallelismReport>,
    /// Samples of the code that threads executed; null without `--sample`.
    pub sampling: Option<SamplingReport>,
    /// Functions by descending normalised processor time, at most 1000. Null without `--sample`.
    pub functions: Option<Vec<FunctionReport>>,
    /// Why threads waited for each other, starting with what explains most of their waiting; at
    /// most one verdict for a site, and at most 5 in all. `no-problem` alone if nothing is wrong.
    /// Null if there can be no verdict: see `no_verdict_because`.
    pub verdicts: Option<Vec<VerdictReport>>,
    /// Why there are no verdicts; null if there are verdicts.
    pub no_verdict_because: Option<String>,
    /// The cost of watching.
    pub own_cost: OwnCost,
    /// How closely sbt watched what threads do between barriers (`--states`).
    pub states: StatesReport,
    /// Whether probes were on for spans of time only, because they would have cost too much.
    /// Episodes, times and shares are then those of the watched spans; `own_cost.thinned` tells how
    /// much was watched.
    pub estimated: bool,
    /// The figures as they would be without the cost of watching; null if that is unknown.
    pub compensated: Option<CompensatedReport>,
    /// Gaps in the recording that the report was made from; empty if the recording is complete.
    /// `notes` contains these sentences too.
    #[serde(default)]
    pub incomplete: Vec<IncompleteReport>,
    /// Remarks for the user.
    pub notes: Vec<String>,
}

/// Where the time of all threads together went, as far as it was seen.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ThreadTimeReport {
    /// Sum of work, idle, release and between.
    pub total_ns: u64,
    /// Time between barriers; where departures were not watched, this includes the release.
    pub work_ns: u64,
    /// Waiting for the last thread to arrive.
    pub idle_ns: u64,
    /// Leaving the barrier: from the last arrival to the thread's own departure. Null if departures
    /// were not watched; if they were watched for a part of the time, the sum of that part.
    pub release_ns: Option<u64>,
    /// Time for which an OpenMP runtime kept threads waiting until the next parallel region began
    /// or the thread ended. Null if departures and beginnings of regions were not watched;
    /// `work_ns` then includes it.
    pub between_ns: Option<u64>,
    /// `work_ns` as a percentage of `total_ns`; null if `total_ns` is 0.
    pub work_pct: Option<f64>,
    /// `idle_ns` as a percentage of `total_ns`.
    pub idle_pct: Option<f64>,
    /// `release_ns` as a percentage of `total_ns`.
    pub release_pct: Option<f64>,
    /// `between_ns` as a percentage of `total_ns`.
    pub between_pct: Option<f64>,
    /// How threads waited during idle and release.
    #[serde(flatten)]
    pub waits: WaitsReport,
    /// Waiting in the episodes of `unfinished`, which is not part of `total_ns`.
    pub unfinished_ns: u64,
}

/// How threads waited in barriers, for the waits whose departure was seen.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WaitsReport {
    /// The part of idle and release spent on a CPU: spinning in the barrier, or executing OpenMP
    /// tasks. Null if no departure was seen.
    pub spinning_ns: Option<u64>,
    /// The part of idle and release spent asleep in the kernel; null if no departure was seen. The
    /// rest was spent ready for a CPU.
    pub asleep_ns: Option<u64>,
    /// `spinning_ns` as a percentage of the waits whose departure was seen.
    pub spinning_pct: Option<f64>,
    /// `asleep_ns` as a percentage of the waits whose departure was seen.
    pub asleep_pct: Option<f64>,
}

/// A process with threads in the report.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ProcessReport {
    /// The process in thread labels: its rank if each process has a different rank, else its
    /// position in order of creation, from 0.
    pub id: u32,
    /// The process id in sbt's process namespace; 0 if the process has none there.
    pub pid: u32,
    /// The rank in a parallel program (MPI); null if the environment of the process does not
    /// contain it.
    pub rank: Option<u32>,
    /// The machine of the process: its place in `job.hosts`. Null if the report is of one recording.
    #[serde(default)]
    pub host: Option<u32>,
}

/// A thread in a report.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ThreadReport {
    /// The N of T0, T1, … in the text report.
    pub id: u32,
    /// The name of the thread in the text report: `T3`, or with several processes `1.3`, which is
    /// the process and the number of the thread in it.
    pub label: String,
    /// The thread id in sbt's process namespace.
    pub tid: u32,
    /// The process id in sbt's process namespace.
    pub pid: u32,
    /// The name of the thread in the kernel.
    pub name: String,
    /// Number of threads that share this entry: more than 1 only in the last of 4096 entries.
    pub threads: u64,
    /// Whether the end of the thread was seen.
    pub ended: bool,
    /// Arrivals at all barriers.
    pub arrivals: u64,
    /// Complete episodes in which the thread took part.
    pub episodes: u64,
    /// Number of these episodes in which the thread arrived last.
    pub last: u64,
    /// Time between barriers, and from the last departure to the end of the thread.
    pub work_ns: Option<u64>,
    /// Waiting for the last thread to arrive.
    pub idle_ns: u64,
    /// From the last arrival to this thread's departure.
    pub release_ns: Option<u64>,
    /// Time for which an OpenMP runtime kept the thread waiting between parallel regions; null as
    /// in `thread_time`.
    pub between_ns: Option<u64>,
    /// The time at which the thread's last work ended, since the start of watching: its last
    /// arrival, or its end if it spent half of the time until then on a CPU. Null if the thread
    /// never came to a barrier.
    pub worked_until_ns: Option<u64>,
    /// The part of `work_ns` spent on a CPU.
    pub running_ns: Option<u64>,
    /// The part of `work_ns` spent runnable without a CPU.
    pub ready_ns: Option<u64>,
    /// The part of `work_ns` spent asleep in the kernel.
    pub blocked_ns: Option<u64>,
    /// The part of `running_ns` before the thread's first barrier.
    #[serde(default)]
    pub begin_running_ns: Option<u64>,
    /// The part of `blocked_ns` before the thread's first barrier: the thread waits until there is
    /// work.
    #[serde(default)]
    pub begin_blocked_ns: Option<u64>,
    /// The part of `blocked_ns` after the thread's last barrier: the thread waits for the end of
    /// others.
    #[serde(default)]
    pub end_blocked_ns: Option<u64>,
    /// The thread's time off its CPU during `work_ns`. Null without `--states full`, and if that is
    /// unknown for all of its work.
    pub away: Option<AwayReport>,
    /// The thread's work in the episodes in which it arrived last: the other threads waited
    /// meanwhile.
    pub path_ns: u64,
    /// `path_ns` as a percentage of the `path_ns` of all threads; null if those are 0.
    pub path_pct: Option<f64>,
    /// As `path_pct`, with each moment weighted by 1 plus the number of threads that do not work.
    pub weighted_path_pct: Option<f64>,
    /// Normalised processor time (Quartz): the thread's work, each moment divided by the number of
    /// busy threads.
    pub npt_ns: u64,
    /// CPU time that probes cost the thread; null if it was not measured.
    pub own_cost_ns: Option<u64>,
    /// Mean time for which a fixed piece of work kept the thread's CPU just before arrivals, without the longest
    /// of these times if there are several: the longer, the slower the CPU was. Null if that was not measured.
    #[serde(default)]
    pub fixed_work_ns: Option<f64>,
    /// The shortest of these times; null if it is not known.
    #[serde(default)]
    pub fixed_work_least_ns: Option<u32>,
    /// The number of times that this was measured.
    #[serde(default)]
    pub fixed_work_times: u64,
    /// Values of the counters during the thread's work.
    pub counters: Counts,
    /// How the thread waited during idle and release.
    #[serde(flatten)]
    pub waits: WaitsReport,
}

/// A barrier object.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct BarrierReport {
    /// The number of the barrier.
    pub id: u32,
    /// How the barrier was recognised.
    pub kind: BarrierKind,
    /// The evidence that it is a barrier; null if the program itself calls it a barrier.
    pub recognised: Option<RecognisedReport>,
    /// Address of the object in the target, hexadecimal.
    pub address: String,
    /// Number of participants, as last known.
    pub participants: Option<u32>,
    /// Number of complete episodes.
    pub episodes: u64,
}

/// The evidence by which something was recognised as a barrier.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RecognisedReport {
    /// Number of rounds in which each member came once and the last one woke the others.
    pub rounds: u64,
    /// Number of threads that took part in the last of these rounds.
    pub members: u32,
    /// Whether each thread that woke the others had waited there in another round.
    pub waker_was_member: bool,
    /// Whether one test in the code decides between waiting and waking, as in barriers; false if
    /// there is no such test or it is unknown.
    pub by_code: bool,
}

/// An episode that had arrivals but had not ended when watching ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct UnfinishedReport {
    /// The id of the barrier.
    pub barrier: u32,
    /// The id of the site where threads wait.
    pub site: u32,
    /// Total number of threads that the barrier waits for.
    pub participants: Option<u32>,
    /// The threads that had arrived, in order of arrival.
    pub arrived: Vec<u32>,
    /// The threads that took part in the barrier's last complete episode and had not arrived.
    pub missing: Vec<u32>,
    /// Time since the first arrival.
    pub waiting_ns: u64,
    /// Waiting of all threads in `arrived`.
    pub idle_ns: u64,
}

impl Report {
    /// The part of the wall time in which barriers were watched, ns. Sums over sites cover this
    /// time.
    pub fn seen_ns(&self) -> u64 {
        let off_ns = self.own_cost.thinned.map_or(0, |thinned| thinned.off_ns);
        self.run.wall_ns.saturating_sub(off_ns)
    }

    /// Whether the program has no barrier, and sbt has looked often enough at several threads of it, or
    /// knows enough sleeps of them, to tell something else.
    pub fn has_looks_without_barriers(&self) -> bool {
        /// Fewer sleeps may be those of a start.
        const MANY: u64 = 100;
        let looks = self.waits.as_ref().filter(|_| self.sites.is_empty());
        looks.is_some_and(|looks| {
            let is_summed = looks.sums.is_some_and(|sums| sums.sleeps >= MANY);
            (looks.looks >= FEW || is_summed) && looks.threads.len() > 1
        })
    }

    /// The name of the time that [`Self::seen_ns`] returns.
    pub const fn seen_called(&self) -> &'static str {
        match self.own_cost.thinned {
            Some(_) => "watched time",
            None => "wall time",
        }
    }

    /// A thread by its id.
    pub fn thread(&self, id: u32) -> Option<&ThreadReport> {
        self.threads.iter().find(|thread| thread.id == id)
    }

    /// The name of a thread in the text report.
    pub fn label(&self, id: u32) -> String {
        self.thread(id)
            .map_or_else(|| format!("T{id}"), |thread| thread.label.clone())
    }

    /// A site by its id.
    pub fn site(&self, id: u32) -> Option<&SiteReport> {
        self.sites.iter().find(|site| site.id == id)
    }

    /// A barrier by its id.
    pub fn barrier(&self, id: u32) -> Option<&BarrierReport> {
        self.barriers.iter().find(|barrier| barrier.id == id)
    }
}
