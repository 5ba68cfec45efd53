//! Facts that a report takes from the session.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{
    FunctionReport, IncompleteReport, JobReport, MomentReport, SamplingReport, SchedulingReport,
    StandstillReport, WindowReport, WithheldReport, locks, spin,
};
use crate::{
    choices::States,
    counters::Plan,
    looks,
    model::{cost::Tariff, ids::SiteId, told::ToldEpisode},
    origin::Origin,
};

/// The facts of a run that a report tells as the session knows them.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Run {
    /// Where the events came from: `ebpf`, `inject`, `perf` or `ptrace`.
    pub backend: String,
    /// How the source works: `uprobe_multi`, or `perf uprobes` before Linux 6.6; `breakpoints of
    /// the processor` with `perf`; `breakpoints` with `ptrace`.
    pub method: String,
    /// The target's command line; `["sbt","demo",NAME]` for a demo.
    pub command: Vec<String>,
    /// The process id of the target in sbt's process namespace.
    pub pid: u32,
    /// The time at which watching began, by `CLOCK_MONOTONIC`. For a program that sbt started, this
    /// is its first exec.
    pub start_ns: u64,
    /// The time at which watching began, in ns since 1970 (UTC).
    pub start_unix_ns: u64,
    /// How long the target was watched: until its last thread ended, or until sbt detached.
    pub wall_ns: u64,
    /// The part of the run that the figures are about, if not the whole run; then `start_ns` and
    /// `wall_ns` are those of the part.
    #[serde(default)]
    pub window: Option<WindowReport>,
    /// The recordings of which the report is made, if these are several: those of the ranks of a job.
    #[serde(default)]
    pub job: Option<JobReport>,
    /// The moments that were marked with `sbt ctl PID mark NAME`, in order.
    #[serde(default)]
    pub moments: Vec<MomentReport>,
    /// Whether the target had ended when the report was made.
    pub ended: bool,
    /// Exit status of the target, 0 to 255, or 128 + N if signal N ended it. Null if the target had
    /// not ended when the report was made, or if sbt did not start it.
    pub exit_status: Option<u8>,
    /// Whether sbt told the target to end, since it had stood still for too long.
    #[serde(default)]
    pub ended_by_sbt: bool,
    /// Whether sbt started the target instead of attaching to it; null if the report was made by a
    /// version of sbt that did not say.
    pub started: Option<bool>,
    /// Number of watched processes that went on when watching ended; null before that.
    pub left_processes: Option<u64>,
    /// Whether processes that the target started were watched too.
    pub children: bool,
    /// Number of CPUs that all threads of the target together may run on, as last known; null if it
    /// could not be determined.
    pub cpus: Option<u32>,
    /// The use of CPUs as the kernel tells it: quotas, stops, threads with their CPUs and
    /// priorities, other processes. Null in reports of older versions.
    pub scheduling: Option<SchedulingReport>,
    /// Whether departures were watched: true for all the time, false for never, null for a part of
    /// the time.
    pub departures: Option<bool>,
    /// Whether the target started processes, watched or not, and waited for one of them; null if
    /// that could not be determined.
    pub had_children: Option<bool>,
    /// The first thread's time as the only thread of the target; null if that was not seen to the
    /// end.
    #[serde(default)]
    pub first_thread: Option<FirstThreadReport>,
    /// The target's use of resources, without processes that it started; null until it has ended,
    /// and if the kernel did not tell.
    #[serde(default)]
    pub used: Option<UsedReport>,
    /// Whether the processor has counters, as for `-e instructions`; null if that was not looked at.
    #[serde(default)]
    pub hardware_counters: Option<bool>,
    /// Whether the program uses tasks of OpenMP, which threads execute in barriers; null if that was
    /// not looked at.
    #[serde(default)]
    pub openmp_tasks: Option<bool>,
    /// Why no barrier could be found; null if barriers were found, or if sbt knows no reason.
    /// `notes` contains the sentence too.
    pub none_found_because: Option<String>,
    /// A barrier at which no thread went on for longer than `--hang-time`: which threads were
    /// missing, and what they did. This is the present hang, or else the longest one that is
    /// `over`. A barrier that is only `slow` (see `kind`) is reported as long as that lasts. Null
    /// if there was no hang.
    pub hang: Option<StandstillReport>,
    /// How long threads had to stand still at a barrier before sbt looked at them (`--hang-time`);
    /// null if sbt did not look for hangs.
    pub hang_time_ns: Option<u64>,
    /// The longest time for which a barrier may have stood still unseen because probes were off; 0
    /// if they never were; null if sbt did not look for hangs.
    pub hang_unwatched_ns: Option<u64>,
}

impl Run {
    /// Whether BPF programs in the kernel have watched.
    pub fn is_by_ebpf(&self) -> bool {
        self.backend == "ebpf"
    }

    /// Whether each hit stopped the thread for a moment, which the kernel counts as sleep.
    pub fn has_stopped_threads(&self) -> bool {
        self.backend == "ptrace"
    }
}

/// The time of a program's first thread while there was no other thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FirstThreadReport {
    /// Before the first other thread began; null if that was not seen.
    pub before: Option<AloneReport>,
    /// After all others had ended and before the next one began; null if that did not happen.
    pub between: Option<AloneReport>,
    /// After all others had ended; null if they did not.
    pub after: Option<AloneReport>,
}

/// A time in which the first thread was the only one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AloneReport {
    /// Length of the time.
    pub wall_ns: u64,
    /// For how long the thread was on a CPU meanwhile, at least.
    pub running_ns: u64,
}

/// CPU time and page faults of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct UsedReport {
    /// CPU time in the program, in steps of the kernel's clock (10 ms as a rule).
    pub user_ns: u64,
    /// CPU time in the kernel, in the same steps. This includes what watching cost.
    pub system_ns: u64,
    /// Page faults that needed no disk.
    pub minor_faults: u64,
    /// Page faults that waited for a disk.
    pub major_faults: u64,
    /// What it costs on this machine, at least, to touch a page for the first time, ns, as sbt
    /// measured it after the program; null if it did not.
    #[serde(default)]
    pub fault_ns: Option<u64>,
}

impl From<[u64; 4]> for UsedReport {
    /// Makes a report of the four figures in the order of the fields.
    fn from([user_ns, system_ns, minor_faults, major_faults]: [u64; 4]) -> Self {
        Self {
            user_ns,
            system_ns,
            minor_faults,
            major_faults,
            fault_ns: None,
        }
    }
}

/// Facts that the session knows and the model does not. A recording keeps this.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Facts {
    /// Facts that a report repeats unchanged.
    #[serde(flatten)]
    pub run: Run,
    /// Where the recording was made; `None` in recordings of older versions.
    #[serde(default)]
    pub origin: Option<Origin>,
    /// Number of events lost anywhere.
    pub lost: u64,
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
    /// Gaps in the recording that was read; empty while watching.
    #[serde(skip)]
    pub incomplete: Vec<IncompleteReport>,
    /// Figures that cannot be known from what was read, and why.
    #[serde(default)]
    pub withheld: Vec<WithheldReport>,
    /// Remarks for the user.
    pub notes: Vec<String>,
    /// Locks that threads waited for; `None` if futexes were not watched.
    pub locks: Option<Vec<locks::FoundLock>>,
    /// The findings of looks at sleeping threads; `None` if sbt did not look.
    #[serde(default)]
    pub waits: Option<looks::Found>,
    /// Samples of the code that threads executed; `None` without sampling.
    pub sampled: Option<(SamplingReport, Vec<FunctionReport>)>,
    /// Folded stacks of the samples, one line each; known only at the end.
    pub folded: Option<Vec<String>>,
    /// Loops that may be barriers; `None` if sbt did not look for them.
    pub spins: Option<Vec<spin::FoundLoop>>,
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
