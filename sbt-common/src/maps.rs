//! The maps and globals that both sides use: what they are called, what they hold
//! and how much of it.

use crate::{MAX_EVENTS, Reading};

/// Names of maps and globals that the agent looks up in the object.
pub mod name {
    /// Array of ring buffers, one per CPU up to [`super::MAX_RINGS`].
    pub const RINGS: &str = "RINGS";
    /// [`crate::Config`], read-only.
    pub const CONFIG: &str = "CONFIG";
    /// [`crate::State`].
    pub const STATE: &str = ".data";
    /// Records lost for want of room, per CPU: the array at index 0.
    pub const LOST: &str = "LOST";
    /// Condition variables and futexes that are not looked at: address → until when, ns.
    pub const SILENCED: &str = "SILENCED";
    /// Uses of those, per CPU: the array at index 0.
    pub const PASSED: &str = "PASSED";
    /// [`super::Futex`] → [`super::Lock`]
    pub const LOCKS: &str = "LOCKS";
    /// Waits for which there was no room there, per CPU: the array at index 0.
    pub const UNLISTED: &str = "UNLISTED";
    /// Processes that descend from the target, as the kernel's first pid namespace
    /// numbers them, or with [`super::OWN_NUMBER`] → 1.
    pub const FOLLOWED: &str = "FOLLOWED";
    /// [`crate::Code`] → [`crate::Rule`]: the agent's, for the programs to read.
    pub const RULES: &str = "RULES";
    /// Array of [`crate::Kmp`], [`super::MAX_KMP`] of them.
    pub const KMP: &str = "KMP";
    /// [`crate::Mpi`]: the array at index 0.
    pub const MPI: &str = "MPI";
    /// Perf events, each CPU's of the first, then of the second, and so on.
    pub const EVENTS: &str = "EVENTS";
    /// Thread → [`super::Counted`]
    pub const COUNTED: &str = "COUNTED";
    /// Array of [`super::Left`], by the low bits of the thread's number.
    pub const LEFT: &str = "LEFT";
}

/// A futex of one of the processes: keys of the map [`name::LOCKS`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct Futex {
    /// Its address there.
    pub address: u64,
    /// The process as sbt's own pid namespace numbers it; 0 if unknown.
    pub process: u32,
    /// Zero.
    pub reserved: u32,
}

/// What has been seen of one futex that threads wait on: values of the map
/// [`name::LOCKS`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Lock {
    /// Waits that have ended.
    pub waits: u64,
    /// How long they took, ns.
    pub total_ns: u64,
    /// The longest of them, ns. Of two that end in the same moment on two CPUs the
    /// longer one may be missed.
    pub max_ns: u64,
    /// How many threads wait.
    pub waiting: u64,
    /// How many did at most.
    pub most: u64,
    /// See [`crate::Arrive::caller`]: from where a thread waited, as far as it was sent.
    pub caller: u64,
    /// When that was, ns.
    pub told_ns: u64,
    /// Who came to wait last.
    pub waiter: u32,
    /// What the futex held then: of a mutex of glibc, `__lock`.
    pub word: u32,
    /// What lay 8 bytes further: `__owner`, a thread as the target numbers it.
    pub owner: u32,
    /// Zero.
    pub reserved: u32,
}

/// What perf events have counted for a thread: values of the map
/// [`name::COUNTED`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Counted {
    /// See [`crate::Sums::since_ns`].
    pub since_ns: u64,
    /// See [`crate::Sums::whole`].
    pub whole: u32,
    /// How often it was put on a CPU or taken off.
    pub switches: u32,
    /// Counted until it was last taken off.
    pub sums: [Reading; MAX_EVENTS],
    /// What the CPU had counted when the thread was last put on it.
    pub noted: [Reading; MAX_EVENTS],
}

/// Threads for which perf events are counted at a time; beyond, those are given up
/// that were not seen for longest.
pub const MAX_COUNTED: u32 = 16384;

/// Size of one ring, bytes: a power of two times the page.
pub const RING_BYTES: u32 = 1 << 20;

/// More rings than this are not made; CPUs then share them.
pub const MAX_RINGS: u32 = 64;

/// Condition variables that can be silenced at a time; beyond, those that were
/// silenced longest ago are looked at again.
pub const MAX_SILENCED: u32 = 4096;

/// Futexes that are counted at a time; beyond, only their waits are.
pub const MAX_LOCKS: u32 = 4096;

/// Processes beside the target that can be followed at a time.
pub const MAX_FOLLOWED: u32 = 16384;

/// Set in the number of a followed process that is the agent's own number of it, in its pid
/// namespace: that in the first namespace only the kernel knows then. No number is so large.
pub const OWN_NUMBER: u32 = 1 << 31;

/// How many rules there are at most.
pub const MAX_RULES: u32 = 4096;

/// More places than this in LLVM's OpenMP are not probed.
pub const MAX_KMP: u32 = 256;

/// How many threads can be told apart by the low bits of their numbers: a power of two.
pub const LEFT_SLOTS: u32 = 32768;

/// How a thread left its CPU: values of the map [`name::LEFT`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Left {
    /// Whose this is; of two with the same low bits only the last is known.
    pub tid: u32,
    /// Number of its next [`crate::Away`].
    pub seq: u32,
    /// When, ns.
    pub left_ns: u64,
    /// Its run delay so far, ns.
    pub delay_ns: u64,
    /// One of [`crate::how`].
    pub how: u32,
    /// In which system call.
    pub call: u32,
    /// If it was ready: who came instead, and whose thread that is.
    pub taker: u32,
    pub taker_process: u32,
    /// One of [`crate::taker`].
    pub taker_kind: u32,
    /// Zero.
    pub reserved: u32,
    /// The kernel's name of it.
    pub taker_comm: [u64; 2],
}
