//! What a report says of the functions that threads were sampled in.

use serde::{Deserialize, Serialize};

use super::BusyReport;

/// Samples of where threads were while on a CPU (`--sample`).
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SamplingReport {
    /// How many a second of a thread's run time were asked for.
    pub hz: u32,
    /// Samples taken: `working`, `waiting` and `outside` together.
    pub samples: u64,
    /// Of them, of threads between barriers, in phases of which all is known: what
    /// `functions` is made of.
    pub working: u64,
    /// Of threads that were in a barrier: spinning, or on their way in or out.
    pub waiting: u64,
    /// Of no such phase: before the first episode, after the last, of incomplete ones, and
    /// of threads that take part in no barrier.
    pub outside: u64,
    /// Samples that found no room, or could not be read.
    pub lost: u64,
    /// Of `samples`, those whose callers could not be followed to the beginning of the
    /// thread: their outermost function is marked as `[truncated]`.
    pub truncated: u64,
    /// Of `working`, those in chains of functions that were too many to be kept apart:
    /// `[other]`.
    pub other: u64,
    /// Normalised processor time of all functions: the sum of their `self_npt_ns`.
    pub npt_ns: u64,
    /// The same of the time in which threads slept in the kernel between barriers, which
    /// belongs to no function here; null if that is unknown.
    pub blocked_npt_ns: Option<u64>,
}

/// A function that threads were seen in between barriers, with what it has called.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FunctionReport {
    /// Its number, which stays the same in a run.
    pub id: u32,
    /// Its name, demangled; where there is none, its file and address there.
    pub function: String,
    /// Its source file, if known.
    pub file: Option<String>,
    /// File name of the program or library that it is in.
    pub binary: String,
    /// Samples in it and in what it has called.
    pub samples: u64,
    /// Samples in itself.
    pub self_samples: u64,
    /// `samples` of all that count: its share of the processor time.
    pub cpu_pct: f64,
    /// Normalised processor time (Quartz): the time spent in it and in what it has called,
    /// each moment divided by the number of busy threads.
    pub npt_ns: u64,
    /// The same without what it has called.
    pub self_npt_ns: u64,
    /// `npt_ns` of that of all functions.
    pub npt_pct: f64,
    /// Time of all threads in it by how many were busy: `npt_ns` is the sum of each
    /// divided by its number.
    pub times: Vec<BusyReport>,
    /// Its part of the critical path: in the work of whoever came last; null if there is
    /// none.
    pub path_pct: Option<f64>,
    /// The same, each moment counted as often as threads did not work, and once more.
    pub weighted_path_pct: Option<f64>,
    /// Who has called it, most `npt_ns` first; 16 at most.
    pub callers: Vec<CallerReport>,
}

/// A function that has called another.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CallerReport {
    /// Its name; null where the thread began, or the caller is unknown.
    pub function: Option<String>,
    /// Of the called function's `npt_ns`.
    pub npt_ns: u64,
    /// Its samples there.
    pub samples: u64,
}
