//! What was seen of processes that stand still. Data only; nothing is judged here.

use crate::{
    event::Kind,
    java::{JAVA, waits_for_monitor},
};

pub use crate::event::ThreadId;

/// What several looks at one or more processes, a moment apart, have shown.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scene {
    /// All threads that exist, those of the first process first.
    pub threads: Vec<ThreadSeen>,
    /// The barriers at which threads wait.
    pub barriers: Vec<BarrierSeen>,
    /// Number of looks; 0 if unknown.
    pub looks: u32,
    /// Time from the first look to the last, ns.
    pub looked_ns: u64,
    /// Sentences: what could not be seen, and what would help to see it.
    pub notes: Vec<String>,
    /// Whether there are processes that should have been looked at and were not.
    pub partial: bool,
    /// Number of threads whose callers are hidden by return probes on the function that they are
    /// in.
    pub hidden: u32,
    /// Whether the CPU quota of the control group in which the only process runs was used up in most
    /// periods meanwhile, so that the kernel stopped its threads.
    pub throttled: bool,
    /// The processes that were looked at. A process that is not listed here is an unknown one.
    pub processes: Vec<ProcessSeen>,
    /// The variables in which the objects lie for which threads wait, as far as known.
    pub variables: Vec<VariableSeen>,
}

/// A variable of a program, in which an object lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VariableSeen {
    /// The process id.
    pub process: u32,
    /// Address of the object.
    pub address: u64,
    /// The name of the variable, not yet made safe to print.
    pub name: String,
    /// Offset of the object in the variable, bytes.
    pub offset: u64,
}

/// A process as a look saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each says something else of a process"
)]
pub struct ProcessSeen {
    /// The process id.
    pub process: u32,
    /// The process that has started this one, if known.
    pub parent: Option<u32>,
    /// Whether the process was made by `fork` and has executed no program since: of the threads of
    /// its parent it has only a copy of the one that called `fork`.
    pub forked: bool,
    /// Whether the process has timers whose signals may wake its threads, or may have an alarm set,
    /// which is not visible from outside: it handles `SIGALRM`.
    pub has_timers: bool,
    /// Whether the process handles signals that others may send, or the program itself: a handler
    /// may change memory.
    pub has_handlers: bool,
    /// Whether one of these signals is another than `SIGINT`, which many languages always handle: a
    /// handler may post a semaphore, or write into a pipe of its own process (signal-safety(7)).
    pub may_be_told: bool,
    /// Whether it is known that the process handles no signal, except those that its C library keeps
    /// for itself. Signals that it does not handle end it, stop it, or do nothing.
    pub handles_none: bool,
    /// The rank of the process in a program of MPI.
    pub rank: Option<u32>,
    /// The number of ranks of that program, and whether all of them began on this machine; `None` if
    /// unknown.
    pub ranks: Option<(u32, bool)>,
    /// Whether a thread of the process has ever ended; `None` if unknown.
    pub has_lost_threads: Option<bool>,
    /// Whether a runtime of the process moves tasks between its threads, as that of Go: then what
    /// threads wait for says little about the tasks.
    pub has_tasks: bool,
    /// The language in which the program is written, if that has a tool which tells more of its threads
    /// than a look.
    pub language: Option<Language>,
}

/// A language whose threads a tool of its own tells best.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// Java, or another language of its virtual machine.
    Java,
    /// Python, executed by its usual interpreter.
    Python,
}

/// What was seen of a thread.
#[derive(Clone, Debug, PartialEq)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each says something else of a thread"
)]
pub struct ThreadSeen {
    /// The id of the thread.
    pub id: ThreadId,
    /// The name in the kernel, not yet made safe to print.
    pub name: String,
    /// What the thread did at the last look.
    pub doing: Doing,
    /// Whether the thread's sleep ends by itself after some time.
    pub timed: bool,
    /// The signals that were sent and that the thread blocks.
    pub withheld: Withheld,
    /// The calls that the thread was in at the last look, the innermost first. Calls of the C
    /// library in which the thread sleeps are left out: [`Doing`] names them.
    pub stack: Vec<CallSeen>,
    /// Whether the calls are known down to the beginning of the thread.
    pub is_whole: bool,
    /// For a running thread, other places of its innermost own function at earlier looks, without
    /// repetition.
    pub also_at: Vec<CallSeen>,
    /// Whether a running thread, in a call of a library from one and the same place at several
    /// looks, had gone on between them: variables of the calling function had changed.
    pub went_on: bool,
    /// CPU time that the thread used between the first look and the last, ns; `None` if unknown.
    pub ran_ns: Option<u64>,
    /// Time between the first look and the last in which the thread was ready and had no CPU, ns;
    /// `None` if unknown.
    pub ready_ns: Option<u64>,
    /// Whether the thread slept in the same system call, and was on no CPU, from the second-to-last
    /// look until all objects of the scene had been read. What is said about all threads with this
    /// flag was true at one moment. True as well for a thread that went round in a loop meanwhile
    /// that nothing but a change of memory ends, if that memory did not change
    /// ([`WaitFor::Memory`]). False after a single look, for other threads that run, and for threads
    /// that have ended.
    pub slept: bool,
    /// For a thread that waits for a change of memory which processes share: the processes that have
    /// that memory, if these are known, all of them were looked at, and no other can get it.
    pub sharers: Option<Vec<u32>>,
    /// Whether the thread waits for a request to the kernel of its own process to end, and nothing
    /// outside of the program can end one, as far as is known.
    pub own_request: bool,
    /// Whether the thread is known to have run not long before the looks, because the program was
    /// watched. False also if that is not known.
    pub ran_lately: bool,
}

/// Signals that wait to be delivered, as sets of bits: bit 0 is signal 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Withheld {
    /// Sent to a thread, which blocks them.
    pub own: u64,
    /// Sent to its process, and blocked by the thread.
    pub shared: u64,
}

impl ThreadSeen {
    /// Whether the thread waits for something, but goes on after some time even without it. False
    /// for a thread at a barrier, which stays there.
    pub fn gives_up(&self) -> bool {
        match &self.doing {
            Doing::Waiting(WaitFor::Barrier(_)) => false,
            Doing::Waiting(_) => self.timed && !self.enters_monitor(),
            _ => false,
        }
    }

    /// Whether the thread sleeps, and its sleep ends by itself.
    pub fn wakes_by_itself(&self) -> bool {
        match &self.doing {
            Doing::Waiting(_) => self.gives_up(),
            Doing::Call { name, .. } => name.contains("sleep") || name == "restart_syscall",
            _ => false,
        }
    }

    /// Whether the thread waits to enter a monitor of Java. Java's virtual machine looks for the monitor now and
    /// then, and goes on waiting.
    pub fn enters_monitor(&self) -> bool {
        let sleeps = matches!(
            self.doing,
            Doing::Waiting(WaitFor::Condvar { .. } | WaitFor::Futex { .. })
        );
        let of_java = self.stack.iter().filter(|call| call.binary == JAVA);
        sleeps && waits_for_monitor(of_java.filter_map(|call| call.function.as_deref()))
    }
}

/// A call on the stack of a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CallSeen {
    /// The demangled function name, if known; not yet made safe to print.
    pub function: Option<String>,
    /// The source file as the compiler recorded it, if known.
    pub file: Option<String>,
    /// The line, from 1, if known.
    pub line: Option<u32>,
    /// File name of the program or library.
    pub binary: String,
    /// Address of the call in the file's own numbering.
    pub offset: u64,
    /// Where the function begins in the file's own numbering, if known: it tells functions without
    /// names apart.
    pub begins: Option<u64>,
    /// Whether the code belongs to the C library, a runtime or a library installed with the system,
    /// and not to the user.
    pub of_system: bool,
    /// Whether a library calls here a function which other code has given to it, as where a library begins
    /// a thread.
    pub calls_back: bool,
    /// The name of the critical section of OpenMP that this call enters, if it is known; not yet made
    /// safe to print.
    pub enters: Option<String>,
    /// The message, or the other ranks, for which this call waits, if it calls a function of MPI that
    /// waits for them, and who they are is known.
    pub message: Option<MessageSeen>,
    /// Whether a signal handler interrupted this call. The handler is among the calls further in.
    pub after_signal: bool,
}

/// A message of MPI that a rank is to get or to give away, or a meeting of ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MessageSeen {
    /// The rank that sends or gets the message; `None` if any rank may.
    pub rank: Option<u32>,
    /// Whether `rank` is the rank in the whole program, and not one in a communicator of some ranks.
    pub is_of_world: bool,
    /// The tag; `None` if any tag will do, or if it is not known.
    pub tag: Option<i32>,
    /// Whether the rank waits for no message but for all other ranks of the communicator: `rank` and
    /// `tag` are `None` then, and `is_of_world` says whether these are all ranks of the program.
    pub of_all: bool,
}

/// What a thread is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Doing {
    /// The thread is on a CPU or could be.
    Running,
    /// The thread sleeps until something else happens.
    Waiting(WaitFor),
    /// The thread sleeps in a system call that waits for none of the things in [`WaitFor`].
    Call {
        /// The name of the system call, as in its manual page.
        name: String,
        /// What the call waits for: `standard input`, `pipe:[4242]`, `/data/input.txt`, `5 s`; not
        /// yet made safe to print.
        what: Option<String>,
    },
    /// The thread was stopped by a signal.
    Stopped,
    /// A control group that is frozen holds the thread.
    Frozen,
    /// A debugger or another tracer holds the thread.
    Traced {
        /// The process id of the tracer.
        by: u32,
    },
    /// The thread has ended, and its process goes on.
    Ended,
    /// The thread could not be looked at.
    Unknown,
}

/// What a thread sleeps for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitFor {
    /// The other threads of a barrier: an index into [`Scene::barriers`].
    Barrier(usize),
    /// A mutex.
    Mutex {
        /// Address of the mutex.
        address: u64,
        /// The kind of mutex; `None` if its memory could not be read or is not understood.
        kind: Option<MutexKind>,
        /// The thread that holds the mutex.
        holder: Holder,
    },
    /// A read-write lock.
    RwLock {
        /// Address of the lock.
        address: u64,
        /// Whether the thread wants to write; `None` if unknown.
        writes: Option<bool>,
        /// The thread that holds the lock to write, if any.
        writer: Holder,
        /// Number of threads that hold the lock to read, if known.
        readers: Option<u32>,
    },
    /// A semaphore that has no units left.
    Semaphore {
        /// Address of the semaphore.
        address: u64,
        /// Whether other processes may wake the thread.
        shared: bool,
    },
    /// A condition variable.
    Condvar {
        /// Address of the condition variable if known, else of the word on which the thread sleeps.
        address: u64,
        /// Whether other processes may wake the thread.
        shared: bool,
    },
    /// The end of another thread.
    Join {
        /// The id of the other thread, if known.
        thread: Option<u32>,
    },
    /// The end of a child process.
    Child {
        /// The process id; `None` for any child.
        process: Option<u32>,
    },
    /// Data from a pipe or socket, or room in it.
    Data {
        /// The name of the system call.
        call: String,
        /// The pipe or socket, as the kernel names it: `pipe:[4242]`.
        what: String,
        /// The processes that hold the other end; no other process does.
        processes: Vec<u32>,
    },
    /// A section of OpenMP that one thread executes at a time.
    Section {
        /// Address of the word on which the thread sleeps.
        address: u64,
        /// The kind of section.
        section: Section,
        /// The name that the program gives to the section, if it is known; not yet made safe to
        /// print.
        name: Option<String>,
    },
    /// A futex about which nothing more is known.
    Futex {
        /// Address of the futex.
        address: u64,
        /// Whether other processes may wake the thread.
        shared: bool,
    },
    /// A change of memory, for which the thread looks again and again in a loop that goes round as
    /// long as the memory stays as it is.
    Memory {
        /// Address of the word that decides how long the loop goes on, if it is one and known.
        address: Option<u64>,
        /// The name of the variable there, if known; not yet made safe to print.
        name: Option<String>,
        /// Whether other processes may change the memory.
        shared: bool,
        /// Whether the thread sleeps for a short time in each turn.
        naps: bool,
        /// Whether no change of memory ends the loop either, as far as it can be followed.
        is_endless: bool,
    },
}

/// A section of OpenMP that one thread executes at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// `critical`: one thread at a time.
    Critical,
    /// `ordered`: threads in the order of the loop.
    Ordered,
}

/// The kind of a mutex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MutexKind {
    /// What happens if the holder locks the mutex again.
    pub again: Again,
    /// Whether the mutex tells the next thread that its holder has died.
    pub robust: bool,
    /// Whether the holder inherits the priority of the waiting threads.
    pub inherits: bool,
}

/// What happens if a thread locks a mutex that it already holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// The thread waits for itself for ever.
    Hangs,
    /// The mutex counts how often it is locked.
    Counts,
    /// Locking fails with an error.
    Fails,
}

/// The holder of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// A thread that lives.
    Thread(ThreadId),
    /// A thread that has ended.
    Gone {
        /// The id of the thread.
        thread: u32,
    },
    /// No thread holds the lock at the moment.
    Nobody,
    /// The holder is unknown: the object does not contain it, or could not be read.
    Unknown,
}

/// A barrier at which threads wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BarrierSeen {
    /// The process in whose memory the barrier lies.
    pub process: u32,
    /// Address of the barrier in that process.
    pub address: u64,
    /// The kind of barrier.
    pub kind: Kind,
    /// Number of threads that the barrier waits for, if known.
    pub participants: Option<u32>,
    /// Number of threads that have arrived, read from the barrier's memory or else counted while
    /// watching.
    pub arrived: Option<u32>,
    /// The threads that sleep or spin at the barrier.
    pub waiting: Vec<ThreadId>,
    /// Number of threads that wait at the end of the parallel region of the barrier's team, as the
    /// barrier's memory tells; `None` if it does not.
    pub at_end: Option<u32>,
    /// Threads of the barrier's team that are past the end of the parallel region in which the
    /// others wait.
    pub past_end: Vec<ThreadId>,
    /// Whether threads of several processes may meet at the barrier.
    pub shared: bool,
    /// What events showed of the barrier before; `None` if it was not watched.
    pub past: Option<Past>,
}

/// What was seen of a barrier before it stood still.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Past {
    /// Number of complete episodes.
    pub episodes: u64,
    /// All threads that have ever arrived.
    pub members: Vec<Member>,
    /// Time since the last arrival or departure, ns.
    pub still_ns: u64,
    /// Whether events are missing, so that threads which have arrived may have left.
    pub unsure: bool,
}

/// A thread that has arrived at a barrier at least once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The id of the thread.
    pub id: ThreadId,
    /// The name, not yet made safe to print.
    pub name: String,
    /// How long ago the thread arrived in the episode that stands still, ns; `None` if it has not
    /// arrived.
    pub arrived_ns_ago: Option<u64>,
    /// From where the thread came last, in the notation of reports.
    pub site: Option<String>,
    /// Whether the thread has ended.
    pub ended: bool,
}
