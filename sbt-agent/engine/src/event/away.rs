//! Stays of a thread away from its CPU, with their reasons.

use serde::{Deserialize, Serialize};

/// The reason for which a thread sleeps in the kernel, as far as its system call tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Reason {
    /// A futex: mutexes, condition variables, joins.
    Futex,
    /// Files and disks.
    File,
    /// A page of memory that had to be fetched or waited for.
    Fault,
    /// A sleep that the thread asked for.
    Sleep,
    /// One of several descriptors: poll, select, epoll.
    Poll,
    /// A pipe, socket, terminal or other stream.
    Stream,
    /// The end of another process.
    Child,
    /// Mappings of memory, which other threads may be changing.
    Memory,
    /// The thread was stopped by a signal or a debugger.
    Stopped,
    /// Something else, or unknown.
    Other,
}

impl Reason {
    /// All reasons, in the order of their numbers.
    pub const ALL: [Self; 10] = [
        Self::Futex,
        Self::File,
        Self::Fault,
        Self::Sleep,
        Self::Poll,
        Self::Stream,
        Self::Child,
        Self::Memory,
        Self::Stopped,
        Self::Other,
    ];
}

/// Why a thread left its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LeftCpu {
    /// The thread was preempted: it could have gone on.
    Ready,
    /// The thread went to sleep.
    Asleep(Reason),
}

/// The time from a thread's leaving a CPU to its coming back to one. The thread may sleep first;
/// after that it is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Away {
    /// The time at which the thread left, ns; `None` if that was not seen.
    pub from_ns: Option<u64>,
    /// The time at which the thread came back, ns.
    pub until_ns: u64,
    /// How long the thread was ready, ns.
    pub ready_ns: u64,
    /// Why the thread left.
    pub why: LeftCpu,
    /// Whether all earlier such times of this thread were reported.
    pub seamless: bool,
}

/// The kind of task that took a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Taker {
    /// Another process.
    Other,
    /// Another thread of the target.
    Own,
    /// A kernel thread.
    Kernel,
    /// Nothing: the CPU was idle, and the thread was not allowed to run.
    Nobody,
}

/// Time that a task took on a CPU while a thread was ready.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Taken {
    /// The kind of task.
    pub by: Taker,
    /// The process of the task, as the kernel numbers it.
    pub process: u32,
    /// Its name in the kernel, not yet made safe to print.
    pub name: Box<str>,
    /// How long the task ran, ns.
    pub ns: u64,
}
