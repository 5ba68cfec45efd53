//! Events: a source's statements about the target. This is the boundary between the code that
//! touches a kernel and the code that does not.
//!
//! Events come in the order of their times. A thread or a chain of callers that an event refers to
//! has been introduced by an earlier [`Event::Thread`] or [`Event::Callers`].

use serde::{Deserialize, Serialize};

mod away;
pub use away::{Away, LeftCpu, Reason, Taken, Taker};

/// Number of address bits. If several processes are watched, the bits of an object from this one on
/// say in whose memory the object lies: 0 for the target's own memory, so that the object is a
/// plain address, and [`SHARED`] for memory that processes share.
pub const SPACE: u32 = 48;

/// Stands in the bits from [`SPACE`] on for memory that processes share.
pub const SHARED: u16 = u16::MAX;

/// The address of an object in the memory of its process.
pub const fn address(object: u64) -> u64 {
    object & ((1 << SPACE) - 1)
}

/// In whose memory an object lies: the bits from [`SPACE`] on.
pub const fn space(object: u64) -> u16 {
    (object >> SPACE) as u16
}

/// A thread, as the kernel numbers it in its initial pid namespace.
pub type Tid = u32;

/// A thread of any process, numbered as in sbt's process namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ThreadId {
    /// The process id.
    pub process: u32,
    /// The thread id.
    pub thread: u32,
}

/// A chain of callers, numbered by the source. The number of a chain that can no longer occur is
/// reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CallersId(pub u32);

/// A moment in the life of a thread: the time, and what the thread has used until then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clocks {
    /// `CLOCK_MONOTONIC`, ns.
    pub time_ns: u64,
    /// Time on a CPU since the thread began, ns; `None` where it is unknown.
    pub run_ns: Option<u64>,
    /// Time runnable without a CPU since the thread began, ns; `None` where it is unknown.
    pub delay_ns: Option<u64>,
}

impl Clocks {
    /// A moment for which only the time is known.
    pub const fn at(time_ns: u64) -> Self {
        Self {
            time_ns,
            run_ns: None,
            delay_ns: None,
        }
    }
}

/// The state of one counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    /// The value so far.
    pub value: u64,
    /// Time for which the counter was enabled so far, ns; 0 for a counter that always counts.
    pub enabled_ns: u64,
    /// Time for which the counter was counting, ns.
    pub running_ns: u64,
    /// The time at which counting began, ns, if not at the beginning: two counts can be compared
    /// only if this is the same.
    pub since_ns: u64,
}

/// All counters at a moment, in the order in which the user requested them; `None` for an unknown
/// one.
pub type Reading = Box<[Option<Count>]>;

/// A place that the user has marked: its index in the settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct MarkId(pub u8);

/// How a barrier was recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Kind {
    /// `pthread_barrier_wait` of a C library.
    Pthread,
    /// A function that the user named.
    User,
    /// A barrier of a team of GNU OpenMP, explicit or implied.
    Gomp,
    /// A barrier of a team of LLVM's OpenMP, explicit or implied.
    Kmp,
    /// `std::barrier` of C++.
    Std,
    /// `std::sync::Barrier` of Rust.
    Rust,
    /// A collective operation of MPI that no process leaves before all processes have entered it.
    Mpi,
    /// A barrier made of a mutex and a condition variable, recognised by its use.
    Condvar,
    /// A barrier made of a futex, recognised by its use.
    Futex,
    /// A function of the program whose threads only spin, recognised by its code and its use.
    Spin,
}

/// The kind of object on which a thread was seen to wait, or whose waiting threads it woke.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Evidence {
    /// A condition variable, seen in calls of the C library.
    Condvar,
    /// A futex, seen in system calls.
    Futex,
}

impl Evidence {
    /// The kind of a barrier that was recognised by this evidence.
    pub const fn kind(self) -> Kind {
        match self {
            Self::Condvar => Kind::Condvar,
            Self::Futex => Kind::Futex,
        }
    }

    /// The name in sentences.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Condvar => "condition variable",
            Self::Futex => "futex",
        }
    }
}

impl Kind {
    /// Whether such a barrier is recognised by its use; the thread that completes a round is known
    /// then.
    pub const fn is_recognised(self) -> bool {
        matches!(self, Self::Condvar | Self::Futex)
    }

    /// All kinds.
    pub const ALL: [Self; 10] = [
        Self::Pthread,
        Self::User,
        Self::Gomp,
        Self::Kmp,
        Self::Std,
        Self::Rust,
        Self::Mpi,
        Self::Condvar,
        Self::Futex,
        Self::Spin,
    ];

    /// The kind with this [`Self::name`].
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The name of the kind in reports and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pthread => "pthread",
            Self::User => "user",
            Self::Mpi => "mpi",
            Self::Gomp => "gomp",
            Self::Std => "std::barrier",
            Self::Rust => "rust",
            Self::Condvar => "condvar",
            Self::Kmp => "kmp",
            Self::Futex => "futex",
            Self::Spin => "spin",
        }
    }
}

/// One thing that happened in the target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// A thread is seen for the first time.
    Thread {
        /// The number of the thread in later events.
        tid: Tid,
        /// The thread id and the process id that the user sees.
        shown: (u32, u32),
        /// The name in the kernel, not yet made safe to print.
        name: String,
        /// The time at which watching the thread began, or when it was created if that was later.
        since: Clocks,
        /// Where the program's own code begins in memory, if known.
        code_start: Option<u64>,
    },
    /// A chain of callers is seen for the first time: return addresses in the target, innermost
    /// first. Its length depends on how far the source can look.
    Callers {
        /// The number of the chain in later events.
        id: CallersId,
        /// The process in whose memory the addresses lie, numbered as in [`Event::Thread`].
        process: u32,
        /// The addresses; empty if the stack could not be read.
        addresses: Box<[u64]>,
    },
    /// A thread enters a barrier.
    Arrive {
        /// The arriving thread.
        tid: Tid,
        /// Stamped before the barrier counts the thread.
        clocks: Clocks,
        /// Address of the barrier object in the target.
        object: u64,
        /// The kind of the barrier.
        kind: Kind,
        /// The callers of the barrier.
        callers: CallersId,
    },
    /// A thread begins to wait at the barrier at which it arrived last: what it did since was work.
    /// Comes only from barriers at which arriving and waiting are two calls.
    Awaits {
        /// The waiting thread.
        tid: Tid,
        /// The moment at which the thread begins to wait.
        clocks: Clocks,
    },
    /// A thread is about to wait until others wake it. The recogniser may turn this into an
    /// arrival.
    Wait {
        /// The waiting thread.
        tid: Tid,
        /// The moment at the entry of the function that waits.
        clocks: Clocks,
        /// The address in the target of the object on which the thread waits.
        key: u64,
        /// The kind of the object.
        of: Evidence,
        /// The callers of the function that waits.
        callers: CallersId,
    },
    /// A thread wakes waiting threads. The recogniser may turn this into an arrival.
    Wake {
        /// The waking thread.
        tid: Tid,
        /// The moment at the entry of the function that wakes.
        clocks: Clocks,
        /// The address in the target of the object on which the woken threads wait.
        key: u64,
        /// The kind of the object.
        of: Evidence,
        /// The largest number of threads that are woken; `None` for all.
        most: Option<u32>,
        /// The callers of the function that wakes.
        callers: CallersId,
    },
    /// The counters of a thread. They belong to a later event of this thread with the same time.
    Counters {
        /// The thread.
        tid: Tid,
        /// The time at which the counters were read, ns.
        time_ns: u64,
        /// The state of all counters.
        reading: Reading,
    },
    /// A thread comes back to a CPU.
    Away {
        /// The thread.
        tid: Tid,
        /// When and why the thread left its CPU, and when it came back.
        away: Away,
        /// The tasks that ran while the thread was ready, as far as known.
        takers: Box<[Taken]>,
    },
    /// How fast the CPU of a thread is, just before the thread arrives.
    Speed {
        /// The thread.
        tid: Tid,
        /// When that was measured, ns.
        time_ns: u64,
        /// How long a fixed piece of work took, ns: the longer, the slower.
        took_ns: u64,
    },
    /// From where threads wait on a futex whose waits are counted: a sample.
    Lock {
        /// The process of the futex, numbered as in [`Event::Thread`]; 0 for the target.
        process: u32,
        /// The address of the futex in that process.
        address: u64,
        /// The callers of the function that waits.
        callers: CallersId,
    },
    /// The evidence so far by which a barrier was recognised.
    Recognised {
        /// A thread that takes part in the barrier.
        tid: Tid,
        /// Address of the barrier object in the target.
        object: u64,
        /// The evidence.
        by: Recognition,
    },
    /// A thread begins a parallel region of OpenMP, with one thread or several.
    Region {
        /// The thread that begins the region.
        tid: Tid,
        /// The time at which the region begins.
        clocks: Clocks,
        /// The stack pointer of the thread in words, modulo 2²⁴: the smaller, the deeper the thread
        /// is in its calls.
        depth: u32,
    },
    /// The barrier at which a thread is just about to arrive ends a parallel region.
    RegionEnd {
        /// The arriving thread.
        tid: Tid,
    },
    /// A thread leaves the barrier that it entered last.
    Depart {
        /// The departing thread.
        tid: Tid,
        /// The time at which the thread departs.
        clocks: Clocks,
    },
    /// The content of a barrier object in memory just before an arrival.
    Memory {
        /// The thread that is about to arrive.
        tid: Tid,
        /// The time at which the memory was read, ns.
        time_ns: u64,
        /// Address of the barrier object in the target.
        object: u64,
        /// Number of participants.
        count: u32,
        /// The current round, and how many threads arrived in it before, if the object contains
        /// that.
        round: Option<Round>,
    },
    /// What the barrier of a function of MPI on a communicator is called alike in all processes of its job,
    /// also where another sbt watches them. Comes before the first arrival there; not for each communicator
    /// is such a name known.
    Communicator {
        /// A thread that is about to arrive.
        tid: Tid,
        /// The object that stands for the barrier.
        object: u64,
        /// `world`, or the calls that made the communicator, then ` by ` and the function. In recordings of
        /// older versions the function is missing, and there all functions are one barrier.
        name: String,
    },
    /// A barrier object is initialised, for `count` participants.
    Init {
        /// When, ns.
        time_ns: u64,
        /// Address of the barrier object in the target.
        object: u64,
        /// The kind of the barrier.
        kind: Kind,
        /// A thread of the process in which the object lives.
        tid: Tid,
        /// Number of participants.
        count: u32,
    },
    /// A thread ends.
    Exit {
        /// The thread that ends.
        tid: Tid,
        /// The time at which the thread ends, with its final clocks.
        clocks: Clocks,
    },
    /// Libraries were mapped or unmapped in the target.
    Mapped {
        /// When, ns.
        time_ns: u64,
        /// The process, numbered as in [`Event::Thread`].
        process: u32,
    },
    /// A process has started a child, which has not begun to run yet.
    Forked {
        /// When, ns.
        time_ns: u64,
        /// The parent process, numbered as in [`Event::Thread`].
        process: u32,
        /// The child process, numbered as in [`Event::Thread`], if known.
        child: Option<u32>,
        /// Whether the child is watched; false if too many processes are watched already.
        followed: bool,
    },
    /// A process of the target has executed another program: addresses change their meaning.
    Exec {
        /// When, ns.
        time_ns: u64,
        /// The process, numbered as in [`Event::Thread`].
        process: u32,
        /// The bits of the process's objects from [`SPACE`] on.
        space: u16,
        /// Whether a thread other than the first called exec, and took the first thread's place.
        replaced: bool,
    },
    /// A process other than the target has ended. Its number and its memory may belong to another
    /// process from now on.
    Ended {
        /// When, ns.
        time_ns: u64,
        /// The process, numbered as in [`Event::Thread`].
        process: u32,
        /// The bits of the process's objects from [`SPACE`] on, if it had objects.
        space: Option<u16>,
    },
    /// Events of a thread were lost just before this point.
    Lost {
        /// The thread.
        tid: Tid,
        /// Number of lost events.
        count: u32,
    },
    /// A thread passes a mark.
    Mark {
        /// The thread that passes the mark.
        tid: Tid,
        /// The time at which the thread passes the mark.
        clocks: Clocks,
        /// The mark.
        mark: MarkId,
    },
    /// Cost of a probe hit that does not follow from the hit's own event. This event comes just
    /// before the hit's own event.
    Toll {
        /// The thread that hit the probe.
        tid: Tid,
        /// Whether the hit was the entry of a condition variable function. The recogniser may drop
        /// the hit's own event.
        condvar: bool,
        /// Whether the kernel had to single-step the instruction.
        stepped: bool,
        /// Number of functions walked to find the callers, beyond the first.
        walked: u32,
    },
    /// The round counter of a barrier just before an arrival, or when a thread ends.
    Turn {
        /// The thread that is about to arrive, or that ends.
        tid: Tid,
        /// When, ns; `None` if an older recording does not say.
        time_ns: Option<u64>,
        /// Address of the barrier object in the target.
        object: u64,
        /// Number of completed rounds, modulo 2³².
        round: u32,
    },
    /// Nothing was watched for a while, until now. Activities from before may have ended, and
    /// others may have begun.
    Gap {
        /// The time at which watching continues, ns.
        time_ns: u64,
    },
    /// From now on, departures are reported or no longer reported.
    Departures {
        /// Whether departures are reported.
        on: bool,
    },
}

impl Event {
    /// The time at which the event happened, ns; `None` for an event without a time of its own.
    pub const fn time_ns(&self) -> Option<u64> {
        match self {
            Self::Arrive { clocks, .. }
            | Self::Awaits { clocks, .. }
            | Self::Depart { clocks, .. }
            | Self::Wait { clocks, .. }
            | Self::Wake { clocks, .. }
            | Self::Region { clocks, .. }
            | Self::Mark { clocks, .. }
            | Self::Exit { clocks, .. } => Some(clocks.time_ns),
            Self::Counters { time_ns, .. }
            | Self::Speed { time_ns, .. }
            | Self::Memory { time_ns, .. }
            | Self::Init { time_ns, .. }
            | Self::Mapped { time_ns, .. }
            | Self::Forked { time_ns, .. }
            | Self::Exec { time_ns, .. }
            | Self::Ended { time_ns, .. }
            | Self::Gap { time_ns } => Some(*time_ns),
            Self::Away { away, .. } => Some(away.until_ns),
            Self::Thread { .. }
            | Self::Callers { .. }
            | Self::Lock { .. }
            | Self::Recognised { .. }
            | Self::RegionEnd { .. }
            | Self::Lost { .. }
            | Self::Toll { .. }
            | Self::Turn { .. }
            | Self::Communicator { .. }
            | Self::Departures { .. } => None,
        }
    }
}

/// The evidence by which something was recognised as a barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recognition {
    /// Number of rounds that looked like those of a barrier.
    pub rounds: u64,
    /// Number of threads that took part in the last of these rounds.
    pub members: u32,
    /// Whether each thread that woke the others had waited for them in another round.
    pub wakers_waited: bool,
    /// Whether the code that waits and wakes is that of a barrier.
    pub code: bool,
}

/// A round of a glibc barrier, as found in its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Round {
    /// `current_round`: the same for all arrivals of one episode, modulo 2³².
    pub number: u32,
    /// Number of threads that were counted in the round.
    pub arrived: u32,
}
