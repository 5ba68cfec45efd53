//! What a report says of a hang: where nobody goes on, who is missing, and why.

use serde::{Deserialize, Serialize};

use super::Word;

use super::SCHEMA;

/// Threads that stand still, or that wait long.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct HangReport {
    /// `never`: nobody can go on any more, `because` of what it says. `stuck`: nobody who
    /// is missing did anything while it was looked at; something else may wake them.
    /// `unclear`: it cannot be told. Who is missing uses a CPU, always at one place, and
    /// that is slow, or a loop without end; or threads went on while they were looked at.
    /// `slow`: who is missing moves, or will by itself: no hang.
    #[serde(deserialize_with = "super::word::read")]
    pub kind: Word,
    /// Why. `cycle`: threads wait for each other in a circle. `own-lock`: a thread waits
    /// for a lock that it holds itself. `holder-gone`: the holder of a lock has ended.
    /// `fewer-alive`: not enough threads are left for the barrier's count.
    /// `count-too-large`: never have so many threads been there as it waits for.
    /// `member-gone`: a thread that used to come has ended. `waits-twice`: a thread is in
    /// the barrier twice. `too-many`: more threads have come than it waits for.
    /// `nobody-wakes`: all that could wake the threads that sleep sleep themselves. Null
    /// if it is none of these.
    #[serde(deserialize_with = "super::word::read_any")]
    pub because: Option<Word>,
    /// A sentence: who is missing where, what that thread does, and what comes of it.
    pub text: String,
    /// Where threads wait; null if they wait for locks alone, or for each other otherwise.
    pub barrier: Option<HangBarrierReport>,
    /// From where its threads wait there, as reports write it.
    pub site: Option<String>,
    /// How many it waits for; null if that is not known.
    pub participants: Option<u32>,
    /// Who is there, in the order of arrival if that is known. Without a barrier: who
    /// waits.
    pub arrived: Vec<HangThreadReport>,
    /// Who is missing, or may be: see `certain`. Threads that have ended are among them
    /// if they were seen before. The most likely first.
    pub missing: Vec<HangThreadReport>,
    /// How many are missing; null if that is not known.
    pub missing_count: Option<u32>,
    /// Whether those of `missing` are it: they were there before, or no others are left.
    /// If not, it is what they do that makes it likely.
    pub certain: bool,
    /// All other threads.
    pub others: Vec<HangThreadReport>,
    /// Threads that wait for each other in a circle, each for the next and the last for the
    /// first; null if there are none.
    pub cycle: Option<Vec<HangLinkReport>>,
    /// Who waits for whom, drawn: a line for each way on which one comes to the cause.
    pub chain: Vec<String>,
    /// Other barriers at which threads wait at the same time.
    pub also: Vec<HangAlsoReport>,
    /// How often was looked; null if that is not known.
    pub looks: Option<u32>,
    /// From the first of these looks to the last.
    pub looked_ns: u64,
    /// Since when nobody has come to the barrier or left it; null if nobody watched.
    pub still_ns: Option<u64>,
    /// What could not be seen, and what else the user should know.
    pub notes: Vec<String>,
}

/// The barrier of a hang.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct HangBarrierReport {
    /// As in `barriers`; null in `sbt hang`.
    pub id: Option<u32>,
    /// As in `barriers`.
    #[serde(deserialize_with = "super::word::read")]
    pub kind: Word,
    /// Of the object in the process, hexadecimal.
    pub address: String,
    /// The process: of those that share it, one.
    pub process: u32,
    /// Threads of several processes may meet there.
    pub shared: bool,
    /// How many have come: as its own memory has it, else as was seen while it was
    /// watched; null if neither is known.
    pub arrived: Option<u32>,
}

/// Which thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct HangWho {
    /// Its id as in `threads`; null if it is not there, and in `sbt hang`.
    pub thread: Option<u32>,
    /// Its thread id in sbt's process namespace.
    pub tid: u32,
    /// Its process; null if that is not known any more.
    pub process: Option<u32>,
    /// What sentences call it: its name, with the thread id if others have that name too.
    pub name: String,
}

/// What a thread does, in a hang.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct HangThreadReport {
    /// Which.
    #[serde(flatten)]
    pub who: HangWho,
    /// `running`, on a CPU or ready for one; `waiting`, see `blocked_on`; `stopped` by a
    /// signal; `traced`, held by a debugger; `ended`; `unknown`.
    #[serde(deserialize_with = "super::word::read")]
    pub state: Word,
    /// In words: `waits for the mutex 0x55… that worker-1 holds`.
    pub does: String,
    /// Where in the program it is: `function file:line`; null if that is not known.
    #[serde(rename = "where")]
    pub at: Option<String>,
    /// Where else it was seen running, likewise.
    pub also_at: Vec<String>,
    /// All calls that it is in, the innermost first, likewise.
    pub stack: Vec<String>,
    /// CPU time that it used while it was looked at, of one CPU; null if not known.
    pub cpu_pct: Option<f64>,
    /// What it sleeps for; null if it does not sleep.
    pub blocked_on: Option<BlockedOn>,
    /// How long it has been in the barrier; null if that is not known.
    pub waiting_ns: Option<u64>,
}

/// What a thread sleeps for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct BlockedOn {
    /// `barrier`, `mutex`, `rwlock`, `semaphore`, `condvar`, `join` (the end of another
    /// thread), `child` (that of another process), `futex` (nothing more is known), `call`
    /// (another system call).
    #[serde(deserialize_with = "super::word::read")]
    pub kind: Word,
    /// Of the object, hexadecimal; null where there is none.
    pub address: Option<String>,
    /// Who holds it, or who is to end; null if that is nobody or not known.
    pub holder: Option<HangWho>,
    /// The holder has ended.
    pub holder_gone: bool,
    /// Of a system call: its name, and for what, if known: `read pipe:[4242]`.
    pub call: Option<String>,
    /// The wait ends by itself after some time; null if that is not known.
    pub timed: Option<bool>,
}

/// A step in a circle of threads that wait for each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct HangLinkReport {
    /// Who waits.
    #[serde(flatten)]
    pub who: HangWho,
    /// For what: the next one holds it, or is missing there.
    pub blocked_on: BlockedOn,
}

/// Another barrier at which threads wait at the same time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct HangAlsoReport {
    /// Which.
    #[serde(flatten)]
    pub barrier: HangBarrierReport,
    /// From where its threads wait there, as reports write it.
    pub site: Option<String>,
    /// How many it waits for; null if that is not known.
    pub participants: Option<u32>,
    /// How many wait there.
    pub waiting: u32,
    /// A sentence, as for the first.
    pub text: String,
}

/// What `sbt hang` prints: a look at one process. Times are integers of nanoseconds.
/// `null` is unknown, never 0. Fields may be added.
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
    /// How often was looked; null if that is not known.
    pub looks: Option<u32>,
    /// From the first look to the last.
    pub looked_ns: u64,
    /// The finding in a sentence: that of `hang`, or that there is none.
    pub text: String,
    /// What stands still; null if nothing does.
    pub hang: Option<HangReport>,
    /// All threads.
    pub threads: Vec<HangThreadReport>,
    /// What could not be seen, and what would help.
    pub notes: Vec<String>,
}

impl LookReport {
    /// With the versions of this build.
    pub fn new(pid: u32) -> Self {
        Self {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION"),
            pid,
            looks: None,
            looked_ns: 0,
            text: String::new(),
            hang: None,
            threads: Vec::new(),
            notes: Vec::new(),
        }
    }
}
