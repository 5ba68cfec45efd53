//! What a thread did while it was on no CPU.

use serde::{Deserialize, Serialize};

/// What threads sleep for in the kernel, as far as it can be told from the system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Reason {
    /// A futex: mutexes, condition variables, joins.
    Futex,
    /// Files and disks.
    File,
    /// A page of memory that had to be fetched or waited for.
    Fault,
    /// It was told to sleep.
    Sleep,
    /// One of several descriptors: poll, select, epoll.
    Poll,
    /// A pipe, socket, terminal or other stream.
    Stream,
    /// The end of another process.
    Child,
    /// Mappings of memory, which others change too.
    Memory,
    /// It was stopped by a signal or a debugger.
    Stopped,
    /// Something else, or nobody has seen it.
    Other,
}

impl Reason {
    /// All of them, in the order of their numbers.
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

    /// In JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Futex => "futex",
            Self::File => "file",
            Self::Fault => "page-fault",
            Self::Sleep => "sleep",
            Self::Poll => "poll",
            Self::Stream => "stream",
            Self::Child => "child",
            Self::Memory => "memory",
            Self::Stopped => "stopped",
            Self::Other => "other",
        }
    }

    /// After `blocked in`, in words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Futex => "a futex (lock)",
            Self::File => "file I/O",
            Self::Fault => "page faults",
            Self::Sleep => "sleep (nanosleep)",
            Self::Poll => "poll, select or epoll",
            Self::Stream => "a pipe or socket",
            Self::Child => "wait (for a child process)",
            Self::Memory => "mapping memory",
            Self::Stopped => "being stopped (signal or debugger)",
            Self::Other => "something else",
        }
    }
}

/// Why a thread left its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Why {
    /// Not of its own will: it could have gone on.
    Ready,
    /// It slept.
    Asleep(Reason),
}

/// From a thread's leaving a CPU to its coming back to one. First it sleeps, if it does;
/// then it is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Away {
    /// When it left, ns; `None` if nobody has seen that.
    pub from_ns: Option<u64>,
    /// When it came back, ns.
    pub until_ns: u64,
    /// For how long it was ready, ns.
    pub ready_ns: u64,
    /// Why it left.
    pub why: Why,
    /// No such time of this thread before this one is missing.
    pub seamless: bool,
}

/// What kind of task took a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Taker {
    /// Another process.
    Other,
    /// Another thread of the target.
    Own,
    /// One of the kernel's own.
    Kernel,
    /// Nobody: the CPU was idle, and the thread not allowed to run.
    Nobody,
}

impl Taker {
    /// In JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Other => "process",
            Self::Own => "own",
            Self::Kernel => "kernel",
            Self::Nobody => "idle",
        }
    }
}

/// A CPU taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Taken {
    /// By what.
    pub by: Taker,
    /// Its process, as the kernel numbers it.
    pub process: u32,
    /// Its name in the kernel, not yet made safe to print.
    pub name: Box<str>,
    /// For how long, ns.
    pub ns: u64,
}
