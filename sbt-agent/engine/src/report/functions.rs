//! The sampled functions in a report.

use serde::{Deserialize, Serialize};

use super::BusyReport;

/// Samples of the code that threads executed while on a CPU (`--sample`).
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SamplingReport {
    /// Requested number of samples for each second of a thread's run time.
    pub hz: u32,
    /// Samples taken: the sum of `working`, `waiting` and `outside`.
    pub samples: u64,
    /// Samples taken between barriers, in phases that are fully known. `functions` is made of
    /// these.
    pub working: u64,
    /// Samples taken in a barrier: spinning, or on the way in or out.
    pub waiting: u64,
    /// Samples taken in no known phase: before the first episode, after the last, in incomplete
    /// episodes, and in threads that take part in no barrier.
    pub outside: u64,
    /// Samples that found no room, or that could not be read.
    pub lost: u64,
    /// The part of `samples` whose callers could not be followed to the beginning of the thread.
    /// Their outermost function is `[truncated]`.
    pub truncated: u64,
    /// The part of `working` whose chain of functions is not listed because there were too many
    /// chains. Their function is `[other]`.
    pub other: u64,
    /// Normalised processor time of all functions: the sum of their `self_npt_ns`.
    pub npt_ns: u64,
    /// Normalised processor time during which threads slept in the kernel between barriers. No
    /// function contains this time. Null if it is unknown.
    pub blocked_npt_ns: Option<u64>,
}

/// A function in which threads were sampled between barriers, with its callees.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FunctionReport {
    /// The number of the function, which stays the same during a run.
    pub id: u32,
    /// The demangled name; for a function without a name, its file and the address there.
    pub function: String,
    /// The source file, if known.
    pub file: Option<String>,
    /// File name of the program or library that contains the function.
    pub binary: String,
    /// Samples in the function and its callees.
    pub samples: u64,
    /// Samples in the function itself.
    pub self_samples: u64,
    /// `samples` as a percentage of `working`: the function's share of the processor time.
    pub cpu_pct: f64,
    /// Normalised processor time (Quartz): the time spent in the function and its callees, each
    /// moment divided by the number of busy threads.
    pub npt_ns: u64,
    /// Normalised processor time spent in the function itself.
    pub self_npt_ns: u64,
    /// `npt_ns` as a percentage of the normalised processor time of all functions.
    pub npt_pct: f64,
    /// Time of all threads in the function by the number of busy threads. `npt_ns` is the sum of
    /// these times, each divided by its number of busy threads.
    pub times: Vec<BusyReport>,
    /// Percentage of the critical path, which is the work of the last thread to arrive in each
    /// episode, that lies in the function and its callees. Null if there is no critical path.
    pub path_pct: Option<f64>,
    /// As `path_pct`, with each moment weighted by 1 plus the number of threads that do not work.
    pub weighted_path_pct: Option<f64>,
    /// The callers of the function, by descending `npt_ns`; at most 16.
    pub callers: Vec<CallerReport>,
}

/// A caller of a sampled function.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CallerReport {
    /// The name of the caller; null if the thread began with the called function, or if the caller
    /// is unknown.
    pub function: Option<String>,
    /// The part of the called function's `npt_ns` that came from this caller.
    pub npt_ns: u64,
    /// The called function's samples that came from this caller.
    pub samples: u64,
}
