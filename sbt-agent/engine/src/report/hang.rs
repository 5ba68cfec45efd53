//! A hang in a report: where no thread goes on, which threads are missing, and why.

use serde::{Deserialize, Serialize};

use super::{
    BarrierKind, BlockedOnKind, HangCause, HangKind, HangThreadState, LookOutcome, SCHEMA, Word,
};

/// Threads that stand still, or that wait for a long time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct HangReport {
    /// Whether the waiting threads will ever go on.
    pub kind: HangKind,
    /// The cause; null if the cause is none of those that have a name.
    pub because: Option<HangCause>,
    /// A sentence: which thread is missing where, what it does, and what follows from that.
    pub text: String,
    /// The barrier at which threads wait; null if they wait only for locks, or for each other in
    /// another way.
    pub barrier: Option<HangBarrierReport>,
    /// From where threads wait at the barrier, in the notation of reports.
    pub site: Option<String>,
    /// Number of threads that the barrier waits for; null if it is unknown.
    pub participants: Option<u32>,
    /// The threads that have arrived, in order of arrival if that is known. Without a barrier: the
    /// threads that wait.
    pub arrived: Vec<HangThreadReport>,
    /// The threads that are missing, or may be missing (see `certain`), the most likely first.
    /// Ended threads are included if they were seen before.
    pub missing: Vec<HangThreadReport>,
    /// Number of missing threads; null if it is unknown.
    pub missing_count: Option<u32>,
    /// Whether the threads in `missing` are known to be the missing ones: they came to this barrier
    /// before, or no other threads are left. If false, they are likely because of what they do.
    pub certain: bool,
    /// All other threads.
    pub others: Vec<HangThreadReport>,
    /// Threads that wait for each other in a circle: each waits for the next, and the last for the
    /// first. Null if there is no circle.
    pub cycle: Option<Vec<HangLinkReport>>,
    /// A drawing of who waits for whom: one line for each path that leads to the cause.
    pub chain: Vec<String>,
    /// Other barriers at which threads wait at the same time.
    pub also: Vec<HangAlsoReport>,
    /// Number of looks; null if it is unknown.
    pub looks: Option<u32>,
    /// Time from the first look to the last.
    pub looked_ns: u64,
    /// Time since the last arrival at the barrier or departure from it; null if the barrier was not
    /// watched.
    pub still_ns: Option<u64>,
    /// Parts of the target that could not be seen, and other remarks for the user.
    pub notes: Vec<String>,
}

/// The barrier of a hang.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct HangBarrierReport {
    /// The id of the barrier in `barriers`; null in `sbt hang`.
    pub id: Option<u32>,
    /// The kind of the barrier, as in `barriers`.
    pub kind: BarrierKind,
    /// Address of the object in the process, hexadecimal.
    pub address: String,
    /// The process of the barrier; if several processes share the barrier, one of them.
    pub process: u32,
    /// Whether threads of several processes may meet at the barrier.
    pub shared: bool,
    /// Number of threads that have arrived, read from the barrier's memory or else counted while
    /// watching; null if neither is known.
    pub arrived: Option<u32>,
}

/// Identifies a thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct HangWho {
    /// The id of the thread in `threads`; null if it is not listed there, and in `sbt hang`.
    pub thread: Option<u32>,
    /// The thread id in sbt's process namespace.
    pub tid: u32,
    /// The process of the thread; null if it is no longer known.
    pub process: Option<u32>,
    /// The name of the thread in sentences, with the thread id if other threads have the same name; of the
    /// first thread of a rank of MPI `rank 1 (lu 4242)`, where sentences say `rank 1`.
    pub name: String,
}

/// The state of a thread during a hang.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct HangThreadReport {
    /// The thread.
    #[serde(flatten)]
    pub who: HangWho,
    /// The thread's activity, as one of few states.
    pub state: HangThreadState,
    /// The thread's activity in words: `waits for the mutex 0x55… that worker-1 holds`.
    pub does: String,
    /// Where the thread is in the program: `function file:line`; null if that is unknown.
    #[serde(rename = "where")]
    pub at: Option<String>,
    /// Other places where the thread was seen running, written like `where`.
    pub also_at: Vec<String>,
    /// All calls that the thread is in, the innermost first, written like `where`.
    pub stack: Vec<String>,
    /// Those calls of `stack` that are the program's own and not a library's: views show them first.
    #[serde(skip)]
    pub own: Vec<String>,
    /// CPU time that the thread used while it was looked at, as a percentage of one CPU; null if it
    /// is unknown.
    pub cpu_pct: Option<f64>,
    /// The object that the thread sleeps for; null if it does not sleep.
    pub blocked_on: Option<BlockedOn>,
    /// How long the thread has been in the barrier; null if that is unknown.
    pub waiting_ns: Option<u64>,
}

/// An object that a thread sleeps for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct BlockedOn {
    /// The kind of object or event.
    pub kind: BlockedOnKind,
    /// Address of the object, hexadecimal; null if there is no object.
    pub address: Option<String>,
    /// The thread that holds the object, or whose end is awaited; null if there is none or it is
    /// unknown.
    pub holder: Option<HangWho>,
    /// Whether the holder has ended.
    pub holder_gone: bool,
    /// For a system call: its name, and what it waits for if known: `read pipe:[4242]`.
    pub call: Option<String>,
    /// Whether the wait ends by itself after some time; null if that is unknown.
    pub timed: Option<bool>,
}

/// A step in a circle of threads that wait for each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct HangLinkReport {
    /// The waiting thread.
    #[serde(flatten)]
    pub who: HangWho,
    /// The object that the thread waits for: the next thread in the circle holds it, or is missing
    /// there.
    pub blocked_on: BlockedOn,
}

/// Another barrier at which threads wait at the same time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct HangAlsoReport {
    /// The barrier.
    #[serde(flatten)]
    pub barrier: HangBarrierReport,
    /// From where threads wait at the barrier, in the notation of reports.
    pub site: Option<String>,
    /// Number of threads that the barrier waits for; null if it is unknown.
    pub participants: Option<u32>,
    /// Number of threads that wait at the barrier.
    pub waiting: u32,
    /// A sentence, as in the `text` of the hang.
    pub text: String,
}

/// The output of `sbt hang`: a look at one process. Times are integers in nanoseconds. `null` means
/// unknown, never 0. Fields may be added.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(title = "sbt hang"))]
pub struct LookReport {
    /// Version of these fields, as in reports.
    pub schema: u32,
    /// Version of sbt.
    #[serde(deserialize_with = "super::word::read")]
    pub version: Word,
    /// The process, as numbered in sbt's process namespace.
    pub pid: u32,
    /// Number of looks; null if it is unknown.
    pub looks: Option<u32>,
    /// Time from the first look to the last.
    pub looked_ns: u64,
    /// The finding in a sentence: the hang, or that there is none.
    pub text: String,
    /// The finding in a word; null in outputs of older versions.
    #[serde(default)]
    pub outcome: Option<LookOutcome>,
    /// The hang that was found; null if there is none.
    pub hang: Option<HangReport>,
    /// All threads.
    pub threads: Vec<HangThreadReport>,
    /// Parts of the target that could not be seen, and how to see them.
    pub notes: Vec<String>,
}

impl LookReport {
    /// An empty report, with the versions of this build.
    pub fn new(pid: u32) -> Self {
        Self {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION"),
            pid,
            looks: None,
            looked_ns: 0,
            text: String::new(),
            outcome: None,
            hang: None,
            threads: Vec::new(),
            notes: Vec::new(),
        }
    }
}
