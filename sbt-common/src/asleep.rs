//! Threads that sleep, and which thread wakes them: what the BPF programs sum up, and samples of the
//! places.

use crate::Head;

/// Number of elements of [`crate::name::SLEEPERS`]: threads are told apart by this many low bits of
/// their ids, so it is a power of two.
pub const SLEEPER_SLOTS: u32 = 8192;

/// Largest number of [`Sleep`]s that are summed. Beyond it, only the number of sleeps is counted.
pub const MAX_SLEEPS: u32 = 8192;

/// How many threads that wake others are kept of each [`Sleep`], a power of two.
pub const WAKERS: usize = 8;

/// How many words of a sleeping thread's stack are sampled: a page.
pub const STACK_WORDS: usize = 512;

/// [`Sleep::call`] of a thread that sleeps outside of system calls: a page fault.
pub const NO_CALL: u32 = u32::MAX;

/// A thread that sleeps now: a value of the map [`crate::name::SLEEPERS`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Sleeper {
    /// When the thread went to sleep, ns; 0 if it does not sleep.
    pub since_ns: u64,
    /// The futex word, as in [`Sleep::object`].
    pub object: u64,
    /// From when on a sleep of the thread is sampled, ns.
    pub due_ns: u64,
    /// How long the thread had run when it went to sleep, ns; 0 if unknown.
    pub ran_ns: u64,

    /// The thread. If several threads have the same low bits, only the last is known.
    pub tid: u32,
    /// The system call, as in [`Sleep::call`].
    pub call: u32,
    /// How many sleeps are passed over before one is sampled.
    pub skip: u32,
    /// 1 if this sleep is sampled.
    pub sampled: u32,
}

/// Sleeps that are summed together: a key of the map [`crate::name::SLEEPS`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct Sleep {
    /// The address of the futex on which the thread sleeps; 0 for other system calls.
    pub object: u64,
    /// The process and the thread as sbt's own pid namespace numbers them.
    pub process: u32,
    pub tid: u32,
    /// The number of the system call, or [`NO_CALL`].
    pub call: u32,
    /// Always zero: the kernel compares keys byte by byte, and the record has no hidden padding.
    pub reserved: u32,
}

/// A thread that wakes another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Waker {
    /// The thread; 0 if the element is not used.
    pub tid: u32,
    /// Its process, as sbt's own pid namespace numbers it.
    pub process: u32,
    /// How long the other slept before, ns.
    pub ns: u64,
}

/// The sums of sleeps that have ended: a value of the map [`crate::name::SLEEPS`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Slept {
    /// Number of sleeps.
    pub times: u64,
    /// Sum of the times from falling asleep to being woken, ns.
    pub total_ns: u64,
    /// The longest, ns.
    pub max_ns: u64,
    /// The part of `total_ns` that ended by threads of the target and is not in `wakers`: these are kept
    /// that wake longest.
    pub others_ns: u64,
    /// The threads of the target that ended the sleeps.
    pub wakers: [Waker; WAKERS],
}

/// A thread goes to sleep: a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Asleep {
    pub head: Head,
    pub time_ns: u64,
    /// The number of the system call; negative if the thread is in none.
    pub call: i64,
    /// The arguments of the system call.
    pub arguments: [u64; 6],
    /// Stack pointer and instruction pointer of the thread's own code.
    pub sp: u64,
    pub ip: u64,
    /// The process as sbt's own pid namespace numbers it.
    pub process: u32,
    /// How many words of the stack were read.
    pub words: u32,
    /// The words of the stack, from `sp` on.
    pub stack: [u64; STACK_WORDS],
}

/// A thread of which a sample was sent is woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Woken {
    pub head: Head,
    pub time_ns: u64,
    /// How long it slept, ns.
    pub slept_ns: u64,
}
