//! What looks at processes that stand still have seen: data only, nothing is judged here.

/// A thread, as numbered in our process namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadId {
    /// Its process.
    pub process: u32,
    /// It.
    pub thread: u32,
}

/// What several looks, a moment apart, have seen of one process or several.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scene {
    /// All threads that are there, those of the first process first.
    pub threads: Vec<ThreadSeen>,
    /// The barriers that somebody waits at.
    pub barriers: Vec<BarrierSeen>,
    /// How often was looked; 0: not known.
    pub looks: u32,
    /// From the first look to the last, ns.
    pub looked_ns: u64,
    /// What could not be seen, and what would help: each a sentence.
    pub notes: Vec<String>,
    /// There are processes that were to be looked at and were not.
    pub partial: bool,
    /// So many threads are in functions whose callers probes on their return hide.
    pub hidden: u32,
}

/// A thread.
#[derive(Clone, Debug, PartialEq)]
pub struct ThreadSeen {
    /// Which.
    pub id: ThreadId,
    /// Its name in the kernel, not yet made safe to print.
    pub name: String,
    /// What it did at the last look.
    pub doing: Doing,
    /// What it sleeps in ends by itself after some time.
    pub timed: bool,
    /// The calls that it was in, the innermost first, at the last look; where it sleeps
    /// without the C library's part, whose name is in [`Doing`].
    pub stack: Vec<CallSeen>,
    /// The calls are known to the beginning of the thread.
    pub is_whole: bool,
    /// Where else its innermost own function was at the other looks, of a thread that
    /// runs: each place once, without that of the last look.
    pub also_at: Vec<CallSeen>,
    /// The CPU time that it used between the first look and the last, ns; `None`: not
    /// known.
    pub ran_ns: Option<u64>,
    /// It slept in the same system call, and was not on a CPU, from the look before the
    /// last until all that the scene says of any object had been read: what is said of all
    /// threads that did was so at one moment. Not so if there was one look only, of who
    /// runs or spins, and of who has ended.
    pub slept: bool,
}

impl ThreadSeen {
    /// It sleeps for something, and goes on after some time also without that. Whoever waits
    /// at a barrier so is there still.
    pub const fn gives_up(&self) -> bool {
        match &self.doing {
            Doing::Waiting(WaitFor::Barrier(_)) => false,
            Doing::Waiting(_) => self.timed,
            _ => false,
        }
    }
}

/// A call that a thread is in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CallSeen {
    /// Demangled, if known; not yet made safe to print.
    pub function: Option<String>,
    /// As the compiler wrote it, if known.
    pub file: Option<String>,
    /// From 1, if known.
    pub line: Option<u32>,
    /// The program or library, by its last component.
    pub binary: String,
    /// Address of the call in that file's own numbering.
    pub offset: u64,
    /// It belongs to the C library, a runtime or a library installed with the system: not
    /// to the user's own code.
    pub of_system: bool,
    /// A signal's handler was called before this call was over, and is among the calls
    /// further in.
    pub after_signal: bool,
}

/// What a thread is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Doing {
    /// It is on a CPU or could be.
    Running,
    /// It sleeps until something else happens.
    Waiting(WaitFor),
    /// It sleeps in a system call that waits for nothing of the above.
    Call {
        /// Of the system call, as in its manual page.
        name: String,
        /// For what: `standard input`, `pipe:[4242]`, `/data/input.txt`, `5 s`; not yet
        /// made safe to print.
        what: Option<String>,
    },
    /// It was stopped by a signal.
    Stopped,
    /// A debugger or another tracer holds it.
    Traced {
        /// Who.
        by: u32,
    },
    /// It has ended, and its process goes on.
    Ended,
    /// It could not be seen.
    Unknown,
}

/// What a thread sleeps for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitFor {
    /// The other threads of a barrier: which of [`Scene::barriers`].
    Barrier(usize),
    /// A mutex.
    Mutex {
        /// Its address.
        address: u64,
        /// What kind of it; `None` if its memory could not be read or is not understood.
        kind: Option<MutexKind>,
        /// By whom it is held.
        holder: Holder,
    },
    /// A lock that readers share.
    RwLock {
        /// Its address.
        address: u64,
        /// It wants to write; `None`: not known.
        writes: Option<bool>,
        /// Which thread writes, if one does.
        writer: Holder,
        /// How many hold it to read, if that is known.
        readers: Option<u32>,
    },
    /// A semaphore that has no units left.
    Semaphore {
        /// Its address.
        address: u64,
        /// Other processes may wake it.
        shared: bool,
    },
    /// A condition variable.
    Condvar {
        /// Its address, if known; else that of the word that it sleeps on.
        address: u64,
        /// Other processes may wake it.
        shared: bool,
    },
    /// The end of another thread.
    Join {
        /// Which, as far as it is known.
        thread: Option<u32>,
    },
    /// The end of a child process.
    Child {
        /// Which; `None`: any.
        process: Option<u32>,
    },
    /// A futex of which nothing more is known.
    Futex {
        /// Its address.
        address: u64,
        /// Other processes may wake it.
        shared: bool,
    },
}

/// What kind of mutex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MutexKind {
    /// What happens if its holder locks it again.
    pub again: Again,
    /// It tells the next one if its holder has died.
    pub robust: bool,
    /// Its holder inherits the priority of those who wait.
    pub inherits: bool,
}

/// What happens if a thread locks a mutex that it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// It waits for itself for ever.
    Hangs,
    /// It is counted.
    Counts,
    /// It is told so.
    Fails,
}

/// Who holds something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// This thread.
    Thread(ThreadId),
    /// A thread that is no more.
    Gone {
        /// Its number.
        thread: u32,
    },
    /// Nobody, for the moment.
    Nobody,
    /// It is not known: the object does not say it, or could not be read.
    Unknown,
}

/// A barrier that somebody waits at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BarrierSeen {
    /// The process of which the address is.
    pub process: u32,
    /// Of the object.
    pub address: u64,
    /// As in the table of kinds: `pthread`, `gomp`, `condvar` …
    pub kind: &'static str,
    /// How many it waits for, if known.
    pub participants: Option<u32>,
    /// How many have come: as its own memory has it, else as was seen while it was watched.
    pub arrived: Option<u32>,
    /// Who sleeps or spins there.
    pub waiting: Vec<ThreadId>,
    /// Several processes may meet there.
    pub shared: bool,
    /// What is known of its past; `None` if nobody watched.
    pub past: Option<Past>,
}

/// What was seen of a barrier before it stood still.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Past {
    /// Complete episodes.
    pub episodes: u64,
    /// All threads that have ever been there.
    pub members: Vec<Member>,
    /// Since when nobody has come or left, ns.
    pub still_ns: u64,
    /// Not all that happened was seen: whoever has come may have left.
    pub unsure: bool,
}

/// A thread that has been at a barrier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Which.
    pub id: ThreadId,
    /// Its name, not yet made safe to print.
    pub name: String,
    /// It has come to the episode that stands still: how long ago, ns.
    pub arrived_ns_ago: Option<u64>,
    /// From where it came last, as users name it.
    pub site: Option<String>,
    /// The thread has ended.
    pub ended: bool,
}
