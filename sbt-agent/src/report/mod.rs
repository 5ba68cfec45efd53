//! What was found, as data: the one structure that the text and the JSON view
//! are drawn from. What was not measured is `None`, never 0.
//!
//! The comments of the fields are their documentation: the JSON Schema in
//! docs/report.schema.json is made of them. Times are integer nanoseconds.

use serde::Serialize;

use locks::LockReport;
use spin::SpinReport;

mod draw;
pub mod locks;
pub mod order;
pub mod place_names;
#[cfg(test)]
mod schema;
pub mod spin;

pub use draw::Run;

/// Version of the JSON fields.
pub const SCHEMA: u32 = 1;

/// A report of `sbt`: where the threads of a parallel program waited for each
/// other. Times are integers of nanoseconds and end in `_ns`, shares are per
/// cent and end in `_pct`. `null` is unknown or not measured, never 0. Threads,
/// barriers and sites refer to each other by `id`. Fields may be added.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(title = "sbt report"))]
pub struct Report {
    /// Version of these fields: 1. It changes if one is removed or comes to
    /// mean something else.
    pub schema: u32,
    /// Version of sbt.
    pub version: &'static str,
    /// Where the events came from: `ebpf`.
    pub backend: String,
    /// How: `uprobe_multi`, or `perf uprobes` before Linux 6.6.
    pub method: String,
    /// The target's command line; `["sbt","demo",NAME]` for a demo.
    pub command: Vec<String>,
    /// The target, as numbered in sbt's process namespace.
    pub pid: u32,
    /// When watching began, `CLOCK_MONOTONIC`.
    pub start_ns: u64,
    /// When that was by the clock on the wall, ns since 1970 (UTC).
    pub start_unix_ns: u64,
    /// How long it was watched.
    pub wall_ns: u64,
    /// Whether the target had ended when the report was made.
    pub ended: bool,
    /// 0 to 255, 128 + N if signal N ended it; null if it had not ended when the
    /// report was made, or if sbt did not start it.
    pub exit_status: Option<u8>,
    /// Arrivals seen, of all episodes.
    pub arrivals: u64,
    /// Complete episodes.
    pub episodes: u64,
    /// Others: begun before sbt came, cut short, or spoilt by a loss.
    pub incomplete_episodes: u64,
    /// Records that found no room in the kernel, or could not be read.
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
    /// Sites with barrier times above the limit of `--warn-time`.
    pub warnings: Vec<WarningReport>,
    /// With `--watch` or `--watch-all`: episodes one by one, the last 10 000 at
    /// most, and of many threads fewer. Null without.
    pub watched: Option<Vec<WatchedReport>>,
    /// Watched episodes that came before those listed.
    pub watched_omitted: u64,
    /// Episodes that had arrivals but had not ended.
    pub unfinished: Vec<UnfinishedReport>,
    /// Not computed by this version.
    pub efficiency: Option<()>,
    /// Not computed by this version.
    pub verdicts: Option<()>,
    /// Not computed by this version.
    pub hang: Option<()>,
    /// What watching cost.
    pub own_cost: OwnCost,
    /// Whether departures were watched: all the time, never, or (null) in part.
    pub departures: Option<bool>,
    /// Whether the target started processes of its own, watched or not, and waited for one of them; null if that could not be asked.
    pub had_children: Option<bool>,
    /// Why no barrier could be found; null if some were, or if none is known to
    /// be hidden. Also among `notes`.
    pub none_found_because: Option<String>,
    /// What the user should know.
    pub notes: Vec<String>,
}

/// Where the time of all threads together went, as far as it was seen.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ThreadTimeReport {
    /// Work, idle and release together.
    pub total_ns: u64,
    /// Between barriers; where departures were not watched, with the release.
    pub work_ns: u64,
    /// Waiting for the last to arrive.
    pub idle_ns: u64,
    /// Getting going again: from the last arrival to the own departure. Null if
    /// departures were not watched; if they were in part, of that part.
    pub release_ns: Option<u64>,
    /// `work_ns` of `total_ns`; null if that is 0.
    pub work_pct: Option<f64>,
    /// `idle_ns` of `total_ns`.
    pub idle_pct: Option<f64>,
    /// `release_ns` of `total_ns`.
    pub release_pct: Option<f64>,
    /// Apart from that: waiting in the episodes of `unfinished`.
    pub unfinished_ns: u64,
}

/// A process with threads in the report.
#[derive(Clone, Copy, Debug, Serialize)]
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
#[derive(Clone, Debug, Serialize)]
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
    /// Of `work_ns`, on a CPU.
    pub running_ns: Option<u64>,
    /// Of `work_ns`, runnable without a CPU.
    pub ready_ns: Option<u64>,
    /// Of `work_ns`, neither: asleep in the kernel.
    pub blocked_ns: Option<u64>,
    /// Not measured by this version.
    pub spinning_ns: Option<u64>,
}

/// A barrier object.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct BarrierReport {
    /// Its number.
    pub id: u32,
    /// How it was recognised: `pthread`; `gomp` for GNU OpenMP, `kmp` for LLVM's;
    /// `std::barrier` of C++; `rust` for its `Barrier`; `mpi` for a communicator;
    /// `condvar` for one made of a condition variable; `futex` for one made of a
    /// futex; `user` for `--barrier`.
    pub kind: &'static str,
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
#[derive(Clone, Copy, Debug, Serialize)]
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

/// A site: from where a barrier is called.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SiteReport {
    /// Its number.
    pub id: u32,
    /// The user's name for it, if any.
    pub name: Option<String>,
    /// Of the site's first place, as far as debug information and symbols tell.
    pub function: Option<String>,
    /// Source file of that place.
    pub file: Option<String>,
    /// Line in it.
    pub line: Option<u32>,
    /// File name of the program or library with that function; `?` if unknown.
    pub binary: String,
    /// Return address of the first call seen from there, in that file's own
    /// numbering (as `nm` prints it), hexadecimal.
    pub offset: String,
    /// What the first place's function was inlined into or, as far as it was
    /// looked for, called from, without the functions of the language's own
    /// library.
    pub callers: Vec<String>,
    /// All places, each as `function file:line` as far as known, else
    /// `binary+0xoffset`, with `from` a caller where only that tells it from
    /// another; several where the threads call from different lines.
    pub places: Vec<String>,
    /// Barriers used from here; at most 64 are named.
    pub barriers: Vec<u32>,
    /// Of its barriers.
    pub kind: &'static str,
    /// Complete episodes.
    pub episodes: u64,
    /// Others.
    pub incomplete: u64,
    /// Sum of idle over threads and episodes: what the ranking goes by.
    pub lost_ns: u64,
    /// `lost_ns` of the wall time of the threads that are here at a time; null
    /// without complete episodes.
    pub lost_wall_pct: Option<f64>,
    /// Wall time that perfect balance would save.
    pub gain_ns: u64,
    /// 0: even, 100: one thread does it all.
    pub imbalance_pct: Option<f64>,
    /// From the last arrival of the episode before to the last of this: one
    /// value an episode.
    pub phase_ns: Option<StatReport>,
    /// From first to last arrival: one value an episode.
    pub barrier_ns: Option<StatReport>,
    /// Waiting for others: one value a thread and episode.
    pub idle_ns: Option<StatReport>,
    /// From the last arrival to the departure: one value a thread and episode.
    pub release_ns: Option<StatReport>,
    /// From the departure before to the arrival: one value a thread and episode.
    pub work_ns: Option<StatReport>,
    /// Who comes last; null without complete episodes, or if it is not known of
    /// any.
    pub straggler: Option<StragglerReport>,
    /// Who comes last by barrier, if there are several: of the first 64, most
    /// `lost_ns` first.
    pub straggler_by_barrier: Vec<BarrierStragglerReport>,
    /// How the site changed over the run: consecutive episodes in at most 128
    /// buckets of equal numbers (the last may hold fewer).
    pub trend: Vec<TrendReport>,
    /// By thread.
    pub threads: Vec<SiteThreadReport>,
}

/// Statistics of a stream of durations, ns.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct StatReport {
    /// How many values.
    pub count: u64,
    /// Their sum.
    pub sum: u64,
    /// The least.
    pub min: u64,
    /// The mean.
    pub mean: u64,
    /// The greatest.
    pub max: u64,
    /// The standard deviation.
    pub stddev: u64,
    /// The median, within 1/16.
    pub p50: u64,
    /// What 95 % do not exceed, within 1/16.
    pub p95: u64,
    /// What 99 % do not exceed, within 1/16.
    pub p99: u64,
}

/// Who comes last at a site.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct StragglerReport {
    /// `persistent`: one thread more often than all others together;
    /// `alternating`: a few, at most half of all, or two that take turns;
    /// `rotating`: any of them, at random or in turns;
    /// `none`: too few episodes or too little waiting to tell, or it is not known
    /// who came last. If several barriers are used from here and most episodes
    /// show the same at each, it is that.
    pub pattern: &'static str,
    /// How they follow each other. `turns`: `repeats` are less than half as
    /// frequent as by chance; `stretches`: `changes` are; `none`: neither, or too
    /// few episodes to tell.
    pub sequence: &'static str,
    /// Who came last most often, of those with an entry of their own.
    pub thread: u32,
    /// In how many of the episodes.
    pub share_pct: f64,
    /// In how many it was one of the threads that share an entry.
    pub unknown_pct: f64,
    /// Most episodes in a row with the same straggler, whoever it was.
    pub longest_run: u64,
    /// How often a thread that had come last did so in its next episode here as
    /// well.
    pub repeats: u64,
    /// How often it did not.
    pub changes: u64,
    /// By how much the last came after the one before it, mean.
    pub mean_lead_ns: u64,
}

/// Who comes last at one of a site's barriers.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct BarrierStragglerReport {
    /// Which; null if it is no longer listed.
    pub barrier: Option<u32>,
    /// Its complete episodes at this site.
    pub episodes: u64,
    /// Sum of idle in them.
    pub lost_ns: u64,
    /// As of the site.
    pub pattern: &'static str,
    /// Who came last most often; null if that is not known of any.
    pub thread: Option<u32>,
    /// In how many of the episodes.
    pub share_pct: f64,
}

/// Some consecutive episodes.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TrendReport {
    /// How many.
    pub episodes: u64,
    /// When the last of them had all its arrivals, since the start of watching.
    pub until_ns: u64,
    /// Mean phase time.
    pub phase_ns: Option<u64>,
    /// Mean barrier time.
    pub barrier_ns: u64,
    /// Mean idle time of all threads together.
    pub idle_ns: u64,
}

/// What one thread did at one site.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SiteThreadReport {
    /// Which.
    pub thread: u32,
    /// Complete episodes.
    pub episodes: u64,
    /// In the phases that ended here.
    pub work_ns: Option<u64>,
    /// Waiting for others.
    pub idle_ns: u64,
    /// From the last arrival to its departure.
    pub release_ns: Option<u64>,
    /// Of `work_ns`, on a CPU.
    pub running_ns: Option<u64>,
    /// Of `work_ns`, runnable without a CPU.
    pub ready_ns: Option<u64>,
    /// Of `work_ns`, neither.
    pub blocked_ns: Option<u64>,
    /// How often it came last.
    pub last: u64,
    /// The same work, idle and release times one by one.
    pub each: EachReport,
    /// Not measured by this version.
    pub counters: Option<()>,
}

/// A thread's times at a site: one value an episode.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct EachReport {
    /// Its work.
    pub work_ns: Option<StatReport>,
    /// Its waiting.
    pub idle_ns: Option<StatReport>,
    /// Its release latency.
    pub release_ns: Option<StatReport>,
}

/// What lies between two consecutive episodes.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PhaseReport {
    /// The site before; null if no participant came from one.
    pub from: Option<u32>,
    /// The site that ends it.
    pub to: u32,
    /// How often.
    pub episodes: u64,
    /// Wall time.
    pub phase_ns: Option<StatReport>,
    /// Of each thread.
    pub work_ns: Option<StatReport>,
}

/// A conceptual phase: from one barrier to another, whatever lies between.
#[derive(Clone, Debug, Serialize)]
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
    /// How it changed over the run: `episodes` counts its own passes,
    /// `barrier_ns` is 0.
    pub trend: Vec<TrendReport>,
    /// By thread.
    pub threads: Vec<ConceptualThreadReport>,
}

/// What one thread did in a conceptual phase.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ConceptualThreadReport {
    /// Which.
    pub thread: u32,
    /// Its work.
    pub work_ns: u64,
    /// Its waiting for others.
    pub idle_ns: u64,
}

/// A place that threads pass.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MarkReport {
    /// Its number.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// Where it is, as written.
    pub at: String,
    /// How often it was passed.
    pub hits: u64,
    /// By thread.
    pub threads: Vec<MarkThreadReport>,
}

/// How often one thread passed a mark.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MarkThreadReport {
    /// Which.
    pub thread: u32,
    /// How often.
    pub hits: u64,
}

/// From a thread's passing one mark to its passing the next.
#[derive(Clone, Debug, Serialize)]
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
    /// By thread.
    pub threads: Vec<IntervalThreadReport>,
}

/// One thread's passages from one mark to another.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct IntervalThreadReport {
    /// Which.
    pub thread: u32,
    /// How often.
    pub count: u64,
    /// Their sum.
    pub time_ns: u64,
}

/// A site whose barrier time exceeded the limit.
#[derive(Clone, Debug, Serialize)]
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
#[derive(Clone, Debug, Serialize)]
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
#[derive(Clone, Debug, Serialize)]
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
    /// Not measured by this version.
    pub counters: Option<()>,
}

/// An episode that had arrivals but had not ended when watching did.
#[derive(Clone, Debug, Serialize)]
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

/// What watching cost.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct OwnCost {
    /// Arrivals, departures and marks seen.
    pub events: u64,
    /// Not measured by this version.
    pub ns_per_event: Option<u64>,
    /// Not measured by this version.
    pub share_pct: Option<f64>,
    /// CPU time of sbt itself, with its start and the reading of debug
    /// information; apart from what probes cost the target.
    pub cpu_ns: u64,
}

impl Report {
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
