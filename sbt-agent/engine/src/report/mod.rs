//! What was found, as data: the one structure that the text and the JSON view
//! are drawn from. What was not measured is `None`, never 0.
//!
//! The comments of the fields are their documentation: the JSON Schema in
//! docs/report.schema.json is made of them. Times are integer nanoseconds.

use serde::{Deserialize, Serialize};

use counters::{CounterReport, Counts};
use locks::LockReport;
use spin::SpinReport;

mod asked;
mod cost;
pub mod counters;
mod draw;
mod functions;
mod hang;
mod identities;
mod incomplete;
mod kinds;
pub mod locks;
pub mod order;
pub mod place_names;
mod run;
#[cfg(test)]
pub(crate) mod schema;
mod sites;
mod sound;
pub mod spin;
mod standstill;
mod states;
mod usage;
mod verdict;
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
pub use kinds::VerdictKind;
pub use run::Run;
pub use sites::{
    BarrierStragglerReport, EachReport, LateReport, LateTimesReport, PhaseReport, SiteReport,
    SiteThreadReport, StatReport, StragglerReport, TrendReport,
};
pub use sound::{WORTH, lost_pct, sound};
pub use standstill::{StandstillReport, is_hang};
pub use states::{AwayReport, BlockedReport, LateAwayReport, StatesReport, TakerReport};
pub use usage::{BusyReport, EfficiencyReport, ParallelismReport, WhatIfReport};
pub use verdict::{Figure, VerdictReport};
pub use withheld::{Reason, Withheld, WithheldReport};
pub use word::Word;

/// Version of the JSON fields.
pub const SCHEMA: u32 = 1;

/// A report of `sbt`: where the threads of a parallel program waited for each
/// other. Times are integers of nanoseconds and end in `_ns`, shares are per
/// cent and end in `_pct`. `null` is unknown or not measured, never 0. Threads,
/// barriers and sites refer to each other by `id`. Fields may be added.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(title = "sbt report"))]
pub struct Report {
    /// Version of these fields: 1. It changes if one is removed or comes to
    /// mean something else.
    pub schema: u32,
    /// Version of sbt.
    #[serde(deserialize_with = "word::read")]
    pub version: Word,
    /// Where the events came from: `ebpf`, `perf` or `ptrace`.
    pub backend: String,
    /// How: `uprobe_multi`, or `perf uprobes` before Linux 6.6; `breakpoints of the processor`
    /// with `perf`, `breakpoints` with `ptrace`.
    pub method: String,
    /// The target's command line; `["sbt","demo",NAME]` for a demo.
    pub command: Vec<String>,
    /// The target, as numbered in sbt's process namespace.
    pub pid: u32,
    /// When watching began, `CLOCK_MONOTONIC`: of a program that sbt started, its first exec.
    pub start_ns: u64,
    /// When that was by the clock on the wall, ns since 1970 (UTC).
    pub start_unix_ns: u64,
    /// How long it was watched: until its last thread ended, or until sbt left it.
    pub wall_ns: u64,
    /// Whether the target had ended when the report was made.
    pub ended: bool,
    /// 0 to 255, 128 + N if signal N ended it; null if it had not ended when the
    /// report was made, or if sbt did not start it.
    pub exit_status: Option<u8>,
    /// Whether sbt started the target, and did not join it when it ran; null if the sbt that
    /// made the report was too old to say.
    pub started: Option<bool>,
    /// Processes that were watched and went on when watching ended; null before that.
    pub left_processes: Option<u64>,
    /// Arrivals, of all episodes. Where `estimated`, those that barriers have counted
    /// while the probes were off are among them.
    pub arrivals: u64,
    /// Complete episodes.
    pub episodes: u64,
    /// Others: begun before sbt came, cut short, or spoilt by a loss.
    pub incomplete_episodes: u64,
    /// Records that found no room in the kernel, or could not be read. Exact, as the kernel
    /// counts them; if there are any, the numbers of arrivals and episodes are the least that
    /// there were.
    pub lost_events: u64,
    /// Where the time of all threads together went.
    pub thread_time: ThreadTimeReport,
    /// Those that arrived at a barrier or passed a mark, in the order of their
    /// birth.
    pub threads: Vec<ThreadReport>,
    /// Whose threads they are. Of several, their `label` tells which is whose.
    pub processes: Vec<ProcessReport>,
    /// Whether processes that the target started were watched too.
    pub children: bool,
    /// CPUs that the target may run on, all its threads together, as last known; null if
    /// that could not be asked.
    pub cpus: Option<u32>,
    /// In the order of first sight. Of more than 4096, those that were silent
    /// longest are no longer listed; the totals contain them.
    pub barriers: Vec<BarrierReport>,
    /// Most `lost_ns` first.
    pub sites: Vec<SiteReport>,
    /// What lies between two consecutive episodes, by the sites at both ends.
    pub phases: Vec<PhaseReport>,
    /// Those asked for by `--phase`, in that order.
    pub conceptual_phases: Vec<ConceptualReport>,
    /// Those asked for by `--mark`, in that order.
    pub marks: Vec<MarkReport>,
    /// From a thread's passing one mark to its passing the next.
    pub intervals: Vec<IntervalReport>,
    /// Locks for which threads have waited in the kernel, while the system calls of
    /// futexes were watched; the most time first. Null if they never were: see
    /// `--futex`.
    pub locks: Option<Vec<LockReport>>,
    /// Loops in which threads were seen to wait while no barrier was hit: perhaps
    /// barriers that only spin, which are not recognised; most samples first. Null if
    /// nobody looked.
    pub spin_suspects: Option<Vec<SpinReport>>,
    /// Counters that were asked for (`--events`), in that order.
    pub counters: Vec<CounterReport>,
    /// Sites with barrier times above the limit of `--warn-time`.
    pub warnings: Vec<WarningReport>,
    /// With `--watch` or `--watch-all`: episodes one by one, the last 10 000 at
    /// most, and of many threads fewer. Null without.
    pub watched: Option<Vec<WatchedReport>>,
    /// Watched episodes that came before those listed.
    pub watched_omitted: u64,
    /// Episodes that had arrivals but had not ended.
    pub unfinished: Vec<UnfinishedReport>,
    /// How well the threads were used; null where too little was seen: no episode, more
    /// than a tenth as many incomplete as complete ones, watching interrupted, or events
    /// lost; and where a recording is cut. `withheld` says which.
    pub efficiency: Option<EfficiencyReport>,
    /// Figures of this report that are null because too little was seen to know them, or
    /// because they contradicted others.
    #[serde(default)]
    pub withheld: Vec<WithheldReport>,
    /// Over all episodes; null if of none all beginnings were seen.
    pub parallelism: Option<ParallelismReport>,
    /// Samples of where threads were; null without `--sample`.
    pub sampling: Option<SamplingReport>,
    /// Functions by normalised processor time, the most first; 1000 at most. Null without
    /// `--sample`.
    pub functions: Option<Vec<FunctionReport>>,
    /// Why threads waited for each other, what explains most of their time first; one
    /// at most for a site, and 5 in all. `no-problem` alone if nothing is wrong. Null
    /// if that cannot be said: see `no_verdict_because`.
    pub verdicts: Option<Vec<VerdictReport>>,
    /// Why there are no verdicts; null if there are.
    pub no_verdict_because: Option<String>,
    /// A barrier at which nobody went on for longer than `--hang-time`: who was missing, and
    /// what that thread did. The present one; or else the longest that there was, which is
    /// `over`. Also what is only `slow`, as long as that lasts: see `kind`. Null if there was
    /// none.
    pub hang: Option<StandstillReport>,
    /// For how long threads had to stand still at a barrier to be looked at (`--hang-time`);
    /// null if nobody looked.
    pub hang_time_ns: Option<u64>,
    /// The longest time in which a barrier may have stood still unseen, since the probes were
    /// off; 0 if they never were; null if nobody looked for hangs.
    pub hang_unwatched_ns: Option<u64>,
    /// What watching cost.
    pub own_cost: OwnCost,
    /// How closely was looked at what threads do between barriers (`--states`).
    pub states: StatesReport,
    /// The probes were on for spans of time only, since they would have cost too much:
    /// episodes, times and shares are those of what was seen. How much that was says
    /// `own_cost.thinned`.
    pub estimated: bool,
    /// What would have been without that cost; null if it is not known.
    pub compensated: Option<CompensatedReport>,
    /// Whether departures were watched: all the time, never, or (null) in part.
    pub departures: Option<bool>,
    /// Whether the target started processes of its own, watched or not, and waited for one of them; null if that could not be asked.
    pub had_children: Option<bool>,
    /// Why no barrier could be found; null if some were, or if none is known to
    /// be hidden. Also among `notes`.
    pub none_found_because: Option<String>,
    /// What is missing in the recording that the report was made of; empty if nothing is. The
    /// sentences are among `notes` too.
    #[serde(default)]
    pub incomplete: Vec<IncompleteReport>,
    /// What the user should know.
    pub notes: Vec<String>,
}

/// Where the time of all threads together went, as far as it was seen.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ThreadTimeReport {
    /// Work, idle, release and between together.
    pub total_ns: u64,
    /// Between barriers; where departures were not watched, with the release.
    pub work_ns: u64,
    /// Waiting for the last to arrive.
    pub idle_ns: u64,
    /// Getting going again: from the last arrival to the own departure. Null if
    /// departures were not watched; if they were in part, of that part.
    pub release_ns: Option<u64>,
    /// Kept waiting by a runtime of OpenMP until the next parallel region began, or until
    /// the thread's end; null if departures were not watched, and with them where regions
    /// begin: then it is in the work.
    pub between_ns: Option<u64>,
    /// `work_ns` of `total_ns`; null if that is 0.
    pub work_pct: Option<f64>,
    /// `idle_ns` of `total_ns`.
    pub idle_pct: Option<f64>,
    /// `release_ns` of `total_ns`.
    pub release_pct: Option<f64>,
    /// `between_ns` of `total_ns`.
    pub between_pct: Option<f64>,
    /// How that was waited.
    #[serde(flatten)]
    pub waits: WaitsReport,
    /// Apart from that: waiting in the episodes of `unfinished`.
    pub unfinished_ns: u64,
}

/// How threads waited in barriers: of those waits whose departure was seen.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WaitsReport {
    /// Of idle and release, on a CPU: spinning in the barrier, or tasks of OpenMP; null
    /// if no departure was seen.
    pub spinning_ns: Option<u64>,
    /// Of idle and release, asleep in the kernel; likewise. The rest was ready for a CPU.
    pub asleep_ns: Option<u64>,
    /// `spinning_ns` of the waits of which it is known.
    pub spinning_pct: Option<f64>,
    /// `asleep_ns` of them.
    pub asleep_pct: Option<f64>,
}

/// A process with threads in the report.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ProcessReport {
    /// How labels call it: its rank, if each process has one of its own, else which it
    /// is in the order of birth, from 0.
    pub id: u32,
    /// Its number in sbt's process namespace; 0 if it has none there.
    pub pid: u32,
    /// Which rank of a parallel program (MPI) it is; null if its environment does not
    /// say.
    pub rank: Option<u32>,
}

/// A thread.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ThreadReport {
    /// T0, T1, … of the text report.
    pub id: u32,
    /// How the text report calls it: `T3`; of several processes `1.3`, the process
    /// and which of its threads.
    pub label: String,
    /// Thread id in sbt's process namespace.
    pub tid: u32,
    /// Its process, likewise.
    pub pid: u32,
    /// The kernel's name of the thread.
    pub name: String,
    /// How many threads share this entry: more than 1 only in the last of 4096.
    pub threads: u64,
    /// Whether its end was seen.
    pub ended: bool,
    /// At all barriers.
    pub arrivals: u64,
    /// Complete episodes it took part in.
    pub episodes: u64,
    /// How often it came last in them.
    pub last: u64,
    /// Between barriers, and from its last departure to its end.
    pub work_ns: Option<u64>,
    /// Waiting for the last to arrive.
    pub idle_ns: u64,
    /// From the last arrival to its own departure.
    pub release_ns: Option<u64>,
    /// Kept waiting by a runtime of OpenMP between parallel regions; null as above.
    pub between_ns: Option<u64>,
    /// When its last work ended, since the start of watching: its last arrival, or its end
    /// if it was on a CPU for half of the time until then. Null if it did not come to a
    /// barrier.
    pub worked_until_ns: Option<u64>,
    /// Of `work_ns`, on a CPU.
    pub running_ns: Option<u64>,
    /// Of `work_ns`, runnable without a CPU.
    pub ready_ns: Option<u64>,
    /// Of `work_ns`, neither: asleep in the kernel.
    pub blocked_ns: Option<u64>,
    /// Of `running_ns`, before its first barrier.
    #[serde(default)]
    pub begin_running_ns: Option<u64>,
    /// Of `blocked_ns`, before its first barrier: a thread that waits until there is work.
    #[serde(default)]
    pub begin_blocked_ns: Option<u64>,
    /// Of `blocked_ns`, after its last barrier: a thread that waits for the end of others.
    #[serde(default)]
    pub end_blocked_ns: Option<u64>,
    /// What it did in `work_ns` while it was on no CPU; null without `--states full`, and
    /// if it is known of none of its work.
    pub away: Option<AwayReport>,
    /// Its work before it came last, while which the others waited.
    pub path_ns: u64,
    /// `path_ns` of that of all threads; null if there is none.
    pub path_pct: Option<f64>,
    /// The same, each moment counted as often as threads did not work, and once more.
    pub weighted_path_pct: Option<f64>,
    /// Normalised processor time (Quartz): its work, each moment divided by the number of
    /// threads that were busy then.
    pub npt_ns: u64,
    /// What probes have cost it, CPU time; null if that was not measured.
    pub own_cost_ns: Option<u64>,
    /// What counters said of its work.
    pub counters: Counts,
    /// How that was waited.
    #[serde(flatten)]
    pub waits: WaitsReport,
}

/// A barrier object.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct BarrierReport {
    /// Its number.
    pub id: u32,
    /// How it was recognised: `pthread`; `gomp` for GNU OpenMP, `kmp` for LLVM's;
    /// `std::barrier` of C++; `rust` for its `Barrier`; `mpi` for a communicator;
    /// `condvar` for one made of a condition variable; `futex` for one made of a
    /// futex; `user` for `--barrier`.
    #[serde(deserialize_with = "word::read")]
    pub kind: Word,
    /// The evidence that it is a barrier, where the program does not call it so;
    /// else null.
    pub recognised: Option<RecognisedReport>,
    /// Of the object in the target, hexadecimal.
    pub address: String,
    /// As last known.
    pub participants: Option<u32>,
    /// Complete ones.
    pub episodes: u64,
}

/// What something was recognised as a barrier by.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RecognisedReport {
    /// Rounds in which each member came once and the last one woke the others.
    pub rounds: u64,
    /// Threads that took part in the last of them.
    pub members: u32,
    /// Each thread that woke the others had waited there in another round.
    pub waker_was_member: bool,
    /// In the code one test decides between waiting and waking, as barriers do;
    /// false if that is not so or not known.
    pub by_code: bool,
}

/// An episode that had arrivals but had not ended when watching did.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct UnfinishedReport {
    /// Its barrier.
    pub barrier: u32,
    /// Where its threads wait.
    pub site: u32,
    /// How many it waits for in all.
    pub participants: Option<u32>,
    /// Who was there, in the order of arrival.
    pub arrived: Vec<u32>,
    /// Who took part in this barrier's last complete episode and was not there.
    pub missing: Vec<u32>,
    /// Since the first of `arrived`.
    pub waiting_ns: u64,
    /// Waiting of all that were there.
    pub idle_ns: u64,
}

impl Report {
    /// The part of the wall time in which barriers were watched, ns: sums over sites are of
    /// what happened in it.
    pub fn seen_ns(&self) -> u64 {
        let off_ns = self.own_cost.thinned.map_or(0, |thinned| thinned.off_ns);
        self.wall_ns.saturating_sub(off_ns)
    }

    /// What to call that.
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

    /// How the text report calls a thread.
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
