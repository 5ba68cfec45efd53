//! The maps and globals that both sides use: their names, contents and sizes.

use crate::{MAX_EVENTS, Reading};

/// Names of maps and globals that the agent looks up in the object.
pub mod name {
    /// Array of ring buffers, one per CPU up to [`super::MAX_RINGS`].
    pub const RINGS: &str = "RINGS";
    /// [`crate::Config`], read-only.
    pub const CONFIG: &str = "CONFIG";
    /// [`crate::State`].
    pub const STATE: &str = ".data";
    /// Number of records lost for lack of room, per CPU: the array element 0.
    pub const LOST: &str = "LOST";
    /// Condition variables and futexes that are ignored: address → until when, ns.
    pub const SILENCED: &str = "SILENCED";
    /// Number of uses of silenced objects, per CPU: the array element 0.
    pub const PASSED: &str = "PASSED";
    /// [`super::Futex`] → [`super::Lock`]
    pub const LOCKS: &str = "LOCKS";
    /// Number of waits that found no room in [`LOCKS`], per CPU: the array element 0.
    pub const UNLISTED: &str = "UNLISTED";
    /// Processes that descend from the target → 1. They are numbered as in the kernel's initial pid
    /// namespace, or marked with [`super::OWN_NUMBER`].
    pub const FOLLOWED: &str = "FOLLOWED";
    /// [`crate::Code`] → [`crate::Rule`]: written by the agent, read by the BPF programs.
    pub const RULES: &str = "RULES";
    /// Array of [`crate::Kmp`] with [`super::MAX_KMP`] elements.
    pub const KMP: &str = "KMP";
    /// [`crate::Mpi`]: the array element 0.
    pub const MPI: &str = "MPI";
    /// Thread → [`crate::Making`]
    pub const MAKING: &str = "MAKING";
    /// Perf events: those of all CPUs for the first event, then for the second, and so on.
    pub const EVENTS: &str = "EVENTS";
    /// Thread → [`super::Counted`]
    pub const COUNTED: &str = "COUNTED";
    /// Array of [`super::Left`], indexed by the low bits of the thread id.
    pub const LEFT: &str = "LEFT";
    /// Array of [`crate::Sleeper`], indexed by the low bits of the thread id.
    pub const SLEEPERS: &str = "SLEEPERS";
    /// [`crate::Sleep`] → [`crate::Slept`]
    pub const SLEEPS: &str = "SLEEPS";
    /// Number of sleeps that have ended, per CPU: the array element 0; and of those that found no
    /// room in [`SLEEPS`]: the element 1.
    pub const SLEPT: &str = "SLEPT";
    /// From when on sleeps are summed, ns: the array element 0. Sleeps that began earlier are not.
    pub const SINCE: &str = "SINCE";
}

/// A futex of a process: a key of the map [`name::LOCKS`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct Futex {
    /// The address of the futex in the process.
    pub address: u64,
    /// The process as sbt's own pid namespace numbers it; 0 if unknown.
    pub process: u32,
    /// Zero.
    pub reserved: u32,
}

/// What has been seen of a futex that threads wait on: a value of the map [`name::LOCKS`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Lock {
    /// Number of waits that have ended.
    pub waits: u64,
    /// Sum of these waits, ns.
    pub total_ns: u64,
    /// The longest wait, ns. Of two waits that end on two CPUs at the same moment, the longer may
    /// be missed.
    pub max_ns: u64,
    /// Number of threads that wait now.
    pub waiting: u64,
    /// Largest number of threads that waited at the same time.
    pub most: u64,
    /// The callers from where a thread last waited, as far as they were sent: see
    /// [`crate::Arrive::caller`].
    pub caller: u64,
    /// When `caller` was sent, ns.
    pub told_ns: u64,
    /// The thread that began to wait last.
    pub waiter: u32,
    /// The value of the futex when `waiter` began to wait; for a mutex of glibc this is `__lock`.
    pub word: u32,
    /// The word 8 bytes behind the futex at that time; for a mutex of glibc this is `__owner`, a
    /// thread as the target numbers it.
    pub owner: u32,
    /// When futexes began to be watched, as `waiting` counts from then on: bits 16 to 47 of that time, ns.
    pub window: u32,
}

/// What perf events have counted for a thread: a value of the map [`name::COUNTED`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Counted {
    /// See [`crate::Sums::since_ns`].
    pub since_ns: u64,
    /// See [`crate::Sums::whole`].
    pub whole: u32,
    /// Number of times that the thread was put on a CPU or taken off.
    pub switches: u32,
    /// The counts up to when the thread was last taken off a CPU.
    pub sums: [Reading; MAX_EVENTS],
    /// The CPU's counts when the thread was last put on it.
    pub noted: [Reading; MAX_EVENTS],
}

/// Largest number of threads for which perf events are counted. Beyond it, those that were not seen
/// for longest are dropped.
pub const MAX_COUNTED: u32 = 16384;

/// Largest number of threads that are in a function of MPI that makes a communicator or a group.
pub const MAX_MAKING: u32 = 16384;

/// Size of a ring in bytes: a power of two times the page size.
pub const RING_BYTES: u32 = 1 << 20;

/// Largest number of rings. With more CPUs, CPUs share rings.
pub const MAX_RINGS: u32 = 64;

/// Largest number of silenced condition variables. Beyond it, those that were silenced longest ago
/// are looked at again.
pub const MAX_SILENCED: u32 = 4096;

/// Largest number of futexes in [`name::LOCKS`]. Beyond it, only the number of their waits is
/// counted.
pub const MAX_LOCKS: u32 = 4096;

/// Largest number of followed processes besides the target.
pub const MAX_FOLLOWED: u32 = 16384;

/// Set in the number of a followed process if that is the number in the agent's pid namespace: only
/// the kernel knows the number in the initial namespace then. No process id is so large.
pub const OWN_NUMBER: u32 = 1 << 31;

/// Largest number of rules.
pub const MAX_RULES: u32 = 4096;

/// Largest number of probed places in LLVM's OpenMP.
pub const MAX_KMP: u32 = 256;

/// Number of elements of [`name::LEFT`]: threads are told apart by this many low bits of their ids,
/// so it is a power of two.
pub const LEFT_SLOTS: u32 = 32768;

/// How a thread left its CPU: a value of the map [`name::LEFT`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Left {
    /// The thread. If several threads have the same low bits, only the last is known.
    pub tid: u32,
    /// Number of the thread's next [`crate::Away`].
    pub seq: u32,
    /// When the thread left, ns.
    pub left_ns: u64,
    /// The thread's run delay at that time, ns.
    pub delay_ns: u64,
    /// One of [`crate::how`].
    pub how: u32,
    /// The system call in which the thread sleeps.
    pub call: u32,
    /// If the thread was ready: the thread that ran instead. Its process follows.
    pub taker: u32,
    pub taker_process: u32,
    /// One of [`crate::taker`].
    pub taker_kind: u32,
    /// Zero.
    pub reserved: u32,
    /// The name of `taker` in the kernel, 16 bytes, zero-padded.
    pub taker_comm: [u64; 2],
}
