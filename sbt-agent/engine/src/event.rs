//! What a source says about the target: the one boundary between everything
//! that touches a kernel and everything that does not.
//!
//! Events come in the order of their times. Whatever they refer to has been
//! introduced by an earlier event: a thread by [`Event::Thread`], a chain of
//! callers by [`Event::Callers`].

use serde::{Deserialize, Serialize};

mod away;
pub use away::{Away, Reason, Taken, Taker, Why};

/// From this bit on the address of an object tells in whose memory it lies, where
/// several processes are watched: 0 for the target's own, so that it is a plain
/// address then, and [`SHARED`] for memory that processes share.
pub const SPACE: u32 = 48;

/// See [`SPACE`].
pub const SHARED: u16 = u16::MAX;

/// The address in the target of an object.
pub const fn address(object: u64) -> u64 {
    object & ((1 << SPACE) - 1)
}

/// In whose memory it lies: see [`SPACE`].
pub const fn space(object: u64) -> u16 {
    (object >> SPACE) as u16
}

/// A thread, as the kernel numbers it (in its first pid namespace).
pub type Tid = u32;

/// A chain of callers, numbered by the source. Numbers of chains that can no
/// longer come are used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CallersId(pub u32);

/// Where a thread stands: when, and what it has used so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clocks {
    /// `CLOCK_MONOTONIC`, ns.
    pub time_ns: u64,
    /// Time on a CPU since the thread began, ns; `None` where it is unknown.
    pub run_ns: Option<u64>,
    /// Time runnable without a CPU since the thread began, ns, likewise.
    pub delay_ns: Option<u64>,
}

impl Clocks {
    /// A moment of which only the time is known.
    pub const fn at(time_ns: u64) -> Self {
        Self {
            time_ns,
            run_ns: None,
            delay_ns: None,
        }
    }
}

/// What one counter says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    /// Counted so far.
    pub value: u64,
    /// For how long it was to be counted so far, ns; 0 of what is counted always.
    pub enabled_ns: u64,
    /// For how long it was.
    pub running_ns: u64,
    /// Since when it is counted, if not from the beginning: two belong together if
    /// this is the same.
    pub since_ns: u64,
}

/// What all counters say at a moment, in the order in which they were asked for;
/// `None` where it is unknown.
pub type Reading = Box<[Option<Count>]>;

/// A place that the user has marked, in the order of the settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct MarkId(pub u8);

/// How a barrier was recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Kind {
    /// `pthread_barrier_wait` of a C library.
    Pthread,
    /// A function that the user has named.
    User,
    /// A barrier of a team of GNU OpenMP, explicit or implied.
    Gomp,
    /// The same of LLVM's OpenMP.
    Kmp,
    /// `std::barrier` of C++.
    Std,
    /// `std::sync::Barrier` of Rust.
    Rust,
    /// A collective operation of MPI that no process leaves before all have come.
    Mpi,
    /// Made of a mutex and a condition variable, and recognised by how it is used.
    Condvar,
    /// Made of a futex, and recognised likewise.
    Futex,
}

/// What a thread was seen to wait on, or to wake others of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Evidence {
    /// A condition variable, by the functions of the C library.
    Condvar,
    /// A futex, by the system calls.
    Futex,
}

impl Evidence {
    /// What a barrier that is made of it is.
    pub const fn kind(self) -> Kind {
        match self {
            Self::Condvar => Kind::Condvar,
            Self::Futex => Kind::Futex,
        }
    }

    /// What it is called.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Condvar => "condition variable",
            Self::Futex => "futex",
        }
    }
}

impl Kind {
    /// Whether it is one by how it is used: who completes a round is known then.
    pub const fn is_recognised(self) -> bool {
        matches!(self, Self::Condvar | Self::Futex)
    }

    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Pthread,
        Self::User,
        Self::Gomp,
        Self::Kmp,
        Self::Std,
        Self::Rust,
        Self::Mpi,
        Self::Condvar,
        Self::Futex,
    ];

    /// That of this name.
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
        }
    }
}

/// One thing that happened in the target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// A thread is seen for the first time.
    Thread {
        /// Its number from here on.
        tid: Tid,
        /// Its number, and its process's, as the user sees them.
        shown: (u32, u32),
        /// Its name in the kernel, not yet made safe to print.
        name: String,
        /// When watching it began, or when it was created if that is later.
        since: Clocks,
        /// Where its program's own code begins in memory, if known.
        code_start: Option<u64>,
    },
    /// A chain of callers is seen for the first time: return addresses in the
    /// target, innermost first. How far the source can look decides the length.
    Callers {
        /// Its number from here on.
        id: CallersId,
        /// The process in whose memory they lie, as [`Event::Thread`] shows it.
        process: u32,
        /// The addresses; empty if the stack could not be read.
        addresses: Box<[u64]>,
    },
    /// A thread enters a barrier.
    Arrive {
        /// Who, and when.
        tid: Tid,
        /// Stamped before the barrier counts the thread.
        clocks: Clocks,
        /// Address of the barrier object in the target.
        object: u64,
        /// What kind of barrier it is.
        kind: Kind,
        /// From where.
        callers: CallersId,
    },
    /// A thread is about to wait for others to wake it: evidence, of which the
    /// recogniser may make an arrival.
    Wait {
        /// Who, and when.
        tid: Tid,
        /// At the entry of the function that waits.
        clocks: Clocks,
        /// What it waits on: its address in the target.
        key: u64,
        /// What that is.
        of: Evidence,
        /// From where.
        callers: CallersId,
    },
    /// A thread wakes those that wait: evidence likewise.
    Wake {
        /// Who, and when.
        tid: Tid,
        /// At the entry of the function that wakes.
        clocks: Clocks,
        /// What those wait on.
        key: u64,
        /// What that is.
        of: Evidence,
        /// How many are woken at most; `None` for all.
        most: Option<u32>,
        /// From where.
        callers: CallersId,
    },
    /// What counters say of a thread. It belongs to the event of this thread with the
    /// same time, which comes later.
    Counters {
        /// Whose.
        tid: Tid,
        /// When, ns.
        time_ns: u64,
        /// What they say.
        reading: Reading,
    },
    /// A thread comes back to a CPU.
    Away {
        /// Who.
        tid: Tid,
        /// Since when it was on none, and why.
        away: Away,
        /// Who ran while it was ready, as far as that is known.
        takers: Box<[Taken]>,
    },
    /// From where threads wait on a futex whose waits are counted, now and then.
    Lock {
        /// Whose, as [`Event::Thread`] shows it; 0 for the target's.
        process: u32,
        /// The futex's address there.
        address: u64,
        /// From where.
        callers: CallersId,
    },
    /// What a barrier was recognised by, so far.
    Recognised {
        /// One of its threads.
        tid: Tid,
        /// Address of the barrier object in the target.
        object: u64,
        /// By what.
        by: Recognition,
    },
    /// A thread begins a parallel region of OpenMP, of one thread or several.
    Region {
        /// Who.
        tid: Tid,
        /// When, with its clocks.
        clocks: Clocks,
        /// Where its stack ends, in words, modulo 2²⁴: the less, the deeper in its
        /// calls.
        depth: u32,
    },
    /// The barrier at which a thread arrives next, right now, ends a parallel region.
    RegionEnd {
        /// Who.
        tid: Tid,
    },
    /// A thread leaves the barrier that it entered last.
    Depart {
        /// Who.
        tid: Tid,
        /// When.
        clocks: Clocks,
    },
    /// What a barrier object held just before an arrival, by its own memory.
    Memory {
        /// Who is about to arrive.
        tid: Tid,
        /// When it was read, ns.
        time_ns: u64,
        /// Address of the barrier object in the target.
        object: u64,
        /// Number of participants.
        count: u32,
        /// The running round and how many arrived in it before, where the
        /// object tells.
        round: Option<Round>,
    },
    /// A barrier object is initialised, for `count` participants.
    Init {
        /// When, ns.
        time_ns: u64,
        /// Address of the barrier object in the target.
        object: u64,
        /// What kind of barrier it is.
        kind: Kind,
        /// Whose process the object lives in.
        tid: Tid,
        /// Number of participants.
        count: u32,
    },
    /// A thread ends.
    Exit {
        /// Who.
        tid: Tid,
        /// When; its clocks for the last time.
        clocks: Clocks,
    },
    /// Libraries were mapped or unmapped in the target.
    Mapped {
        /// When, ns.
        time_ns: u64,
        /// In which of its processes, as [`Event::Thread`] shows it.
        process: u32,
    },
    /// A process has started another, which has not begun yet.
    Forked {
        /// When, ns.
        time_ns: u64,
        /// Which, as [`Event::Thread`] shows it.
        process: u32,
        /// The new one likewise, if it is known.
        child: Option<u32>,
        /// False if there are too many to watch this one as well.
        followed: bool,
    },
    /// The target has executed another program: every address is a new one.
    Exec {
        /// When, ns.
        time_ns: u64,
        /// Which of its processes, as [`Event::Thread`] shows it.
        process: u32,
        /// What its objects have above [`SPACE`].
        space: u16,
        /// By another thread than the first, which took the first one's place.
        replaced: bool,
    },
    /// A process other than the target has ended: what is known by its number or
    /// its memory will mean another one's.
    Ended {
        /// When, ns.
        time_ns: u64,
        /// Which, as [`Event::Thread`] showed it.
        process: u32,
        /// What its objects have above [`SPACE`], if it had any.
        space: Option<u16>,
    },
    /// Events of a thread are missing just before this point.
    Lost {
        /// Whose.
        tid: Tid,
        /// How many.
        count: u32,
    },
    /// A thread passes a mark.
    Mark {
        /// Who.
        tid: Tid,
        /// When, and what it had used.
        clocks: Clocks,
        /// Which.
        mark: MarkId,
    },
    /// What a hit of a probe has cost beside what the event says that it stands for;
    /// comes just before that.
    Toll {
        /// Whose.
        tid: Tid,
        /// It is a function of condition variables that was entered: of that no other
        /// event need remain.
        condvar: bool,
        /// The kernel had to single-step.
        stepped: bool,
        /// Functions that were walked to find the callers, beyond the first.
        walked: u32,
    },
    /// What a barrier says of itself just before an arrival, or when a thread ends.
    Turn {
        /// Who is about to arrive, or ends.
        tid: Tid,
        /// When, ns; `None` if an older recording does not say.
        time_ns: Option<u64>,
        /// Address of the barrier object in the target.
        object: u64,
        /// How many rounds it has had, modulo 2³².
        round: u32,
    },
    /// Nothing was watched for a while, until now: whatever was going on may
    /// have ended, and anything may have begun.
    Gap {
        /// When watching goes on, ns.
        time_ns: u64,
    },
    /// From here on departures are reported, or no longer.
    Departures {
        /// Whether they are.
        on: bool,
    },
}

impl Event {
    /// When it happened, ns; `None` of what is told of no moment, or of an earlier one.
    pub const fn time_ns(&self) -> Option<u64> {
        match self {
            Self::Arrive { clocks, .. }
            | Self::Depart { clocks, .. }
            | Self::Wait { clocks, .. }
            | Self::Wake { clocks, .. }
            | Self::Region { clocks, .. }
            | Self::Mark { clocks, .. }
            | Self::Exit { clocks, .. } => Some(clocks.time_ns),
            Self::Counters { time_ns, .. }
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
            | Self::Departures { .. } => None,
        }
    }
}

/// What something was recognised as a barrier by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recognition {
    /// Rounds seen that were those of a barrier.
    pub rounds: u64,
    /// How many threads took part in the last of them.
    pub members: u32,
    /// Each thread that woke the others had waited for them in another round.
    pub wakers_waited: bool,
    /// The code that waits and wakes is that of a barrier.
    pub code: bool,
}

/// A round of a glibc barrier, as its memory shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Round {
    /// `current_round`: the same for all arrivals of one episode, modulo 2³².
    pub number: u32,
    /// How many had been counted in it.
    pub arrived: u32,
}
