//! The records in the rings. All records begin with the same eight bytes, the [`Head`], which tells
//! their kind.

/// The kind of a record in the ring: the value of [`Head::kind`].
pub mod kind {
    /// [`super::Arrive`]: a thread enters a barrier.
    pub const ARRIVE: u8 = 1;
    /// [`super::Depart`]: a thread leaves the barrier that it entered last.
    pub const DEPART: u8 = 2;
    /// [`super::Memory`]: what a barrier object held when a thread entered it.
    pub const MEMORY: u8 = 3;
    /// [`super::Init`]: a barrier object is being initialised.
    pub const INIT: u8 = 4;
    /// [`crate::Make`]: a thread enters a function of MPI that makes a communicator or a group.
    pub const MAKE: u8 = 14;
    /// [`crate::Made`]: a thread leaves such a function.
    pub const MADE: u8 = 15;
    /// [`super::Thread`]: the first record of a thread.
    pub const THREAD: u8 = 5;
    /// [`super::Depart`]: a thread ends; the record has its final clocks.
    pub const EXIT: u8 = 6;
    /// [`super::Mapping`]: the dynamic linker has mapped or unmapped a library.
    pub const MAPPED: u8 = 7;
    /// [`super::Mapping`]: the process has executed another program.
    pub const EXEC: u8 = 8;
    /// [`super::Depart`]: the agent's own clocks, for comparison with what the agent knows about
    /// itself.
    pub const CALIBRATE: u8 = 9;
    /// [`super::Depart`]: a thread passes a mark.
    pub const MARK: u8 = 10;
    /// [`super::Callers`]: a chain of callers of more than one address.
    pub const CALLERS: u8 = 11;
    /// [`super::Mapping`]: a process has started a child, which has not begun to run yet.
    pub const FORK: u8 = 12;
    /// [`super::Mapping`]: a followed process has ended.
    pub const END: u8 = 13;
    /// [`super::Condvar`]: a thread is about to wait on a condition variable.
    pub const WAIT: u8 = 20;
    /// [`super::Condvar`]: a thread wakes those that wait on a condition variable.
    pub const WAKE: u8 = 21;
    /// [`super::Condvar`]: from where a thread waits on a futex that is counted in [`crate::Lock`];
    /// sent for a sample of the waits.
    pub const LOCK: u8 = 22;
    /// [`super::Counts`]: what the kernel always counts for each thread.
    pub const COUNTS: u8 = 30;
    /// [`super::Sums`]: perf events counted for a thread.
    pub const SUMS: u8 = 31;
    /// [`super::Speed`]: how fast the CPU of a thread is; sent now and then, and may be missing.
    pub const SPEED: u8 = 32;
    /// [`super::Away`]: a thread comes back to a CPU.
    pub const AWAY: u8 = 40;
    /// [`super::Taker`]: what ran while a thread was ready; sent before the thread's [`AWAY`].
    pub const TAKER: u8 = 41;
    /// [`crate::Asleep`]: a sample of the sleeps of threads.
    pub const ASLEEP: u8 = 42;
    /// [`crate::Woken`]: the end of a sampled sleep.
    pub const WOKEN: u8 = 43;
}

/// How a thread left its CPU: [`Head::layout`] of [`Away`].
pub mod how {
    /// Not seen: the thread left before switches were watched, or it is new.
    pub const UNSEEN: u8 = 0;
    /// The thread was preempted: it could have gone on.
    pub const READY: u8 = 1;
    /// The thread went to sleep in the system call [`super::Head::detail`].
    pub const ASLEEP: u8 = 2;
    /// As [`ASLEEP`], and the kernel counts it as waiting for input or output (`in_iowait`).
    pub const IO: u8 = 3;
    /// The thread went to sleep outside of system calls: a page fault.
    pub const FAULT: u8 = 4;
    /// The thread was stopped by a signal or a debugger.
    pub const STOPPED: u8 = 5;
}

/// What took a CPU: [`Head::layout`] of [`Taker`].
pub mod taker {
    /// Another process.
    pub const OTHER: u8 = 0;
    /// A thread of the target.
    pub const OWN: u8 = 1;
    /// A kernel thread.
    pub const KERNEL: u8 = 2;
    /// Nothing: the CPU was idle, because the thread may not run (a quota).
    pub const NOBODY: u8 = 3;
}

/// A bit of [`Head::detail`]: the kernel single-steps the instruction of the probe.
pub const STEPPED: u16 = 1;

/// [`STEPPED`], if the instruction of the probe is single-stepped.
#[inline(always)]
pub const fn stepped(is_stepped: bool) -> u16 {
    if is_stepped { STEPPED } else { 0 }
}

/// A bit of [`Head::detail`] of an [`Arrive`]: this barrier ends a parallel region, after which all
/// threads but one wait for the next region.
pub const ENDS: u16 = 2;

/// How far to the left the number of threads of the team lies in [`Head::detail`] of an [`Arrive`].
const COUNT_SHIFT: u32 = 2;

/// The bits of [`Head::detail`] of an [`Arrive`] that tell how many threads the team has.
/// A greater number than fits is told as 0, which means unknown.
#[inline(always)]
pub const fn team_count(count: u32) -> u16 {
    if count > (u16::MAX >> COUNT_SHIFT) as u32 {
        return 0;
    }
    (count << COUNT_SHIFT) as u16
}

/// The same bits of an [`Arrive`] at a collective operation of MPI: the number of the function.
#[inline(always)]
pub const fn collective(number: u16) -> u16 {
    number << COUNT_SHIFT
}

/// How a wait or a wake was seen: [`Head::detail`] of [`Condvar`].
pub mod evidence {
    /// By the entry of a function of the C library for condition variables.
    pub const CONDVAR: u16 = 0;
    /// By the system call of a futex.
    pub const FUTEX: u16 = 1;
}

/// The first eight bytes of every record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Head {
    /// One of [`kind`].
    pub kind: u8,
    /// For arrivals, the layout of the barrier according to the probe. For [`kind::EXEC`], 1 if
    /// another thread than the first called exec. For [`kind::FORK`], 1 if there was no room to
    /// remember the child.
    pub layout: u8,
    /// For a [`Condvar`], one of [`evidence`]. For [`Memory`] and [`Init`], 1 if the object says
    /// that processes share it. For an [`Arrive`] and [`kind::MARK`], bits of [`STEPPED`],
    /// [`ENDS`] and of [`team_count`] or [`collective`]. Else zero.
    pub detail: u16,
    /// The thread, as the kernel's initial pid namespace numbers it.
    pub tid: u32,
}

/// A moment in the life of a thread: the time, and what the thread has used until then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Clocks {
    /// `CLOCK_MONOTONIC`, ns.
    pub time_ns: u64,
    /// Time on a CPU so far, ns, plus a constant of the machine that the agent measures at its
    /// start. [`UNKNOWN`] where the kernel does not provide it.
    pub run_ns: u64,
    /// Time runnable but without a CPU so far, ns, or [`UNKNOWN`].
    pub delay_ns: u64,
}

/// Stands for a clock that could not be read.
pub const UNKNOWN: u64 = u64::MAX;

/// A thread enters a barrier. Stamped before the barrier counts the thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Arrive {
    pub head: Head,
    pub clocks: Clocks,
    /// Address of the barrier object in the target.
    pub object: u64,
    /// Return address of the call, or 0 if the stack could not be read. If it contains [`CHAIN`],
    /// it is the key of a [`Callers`] that was sent before.
    pub caller: u64,
    /// Number of this record among those of its thread, from 0: a gap is a loss.
    pub seq: u32,
    /// Low half of [`crate::State::epoch`] when the callers were determined.
    pub epoch: u32,
}

impl Arrive {
    /// How many threads the team has whose barrier this is, if the record tells.
    pub fn team_count(&self) -> Option<u32> {
        let count = u32::from(self.head.detail >> COUNT_SHIFT);
        (count != 0).then_some(count)
    }

    /// The number of the function of MPI that was called, which is that of its probe's cookie; 0 for
    /// functions that are not told apart.
    pub fn collective(&self) -> u16 {
        self.head.detail >> COUNT_SHIFT
    }
}

/// Largest number of return addresses in a chain of callers.
pub const MAX_CALLERS: usize = 8;

/// Set in the keys of chains of several addresses. No address of a program has this bit: they are
/// in the lower half of the address space.
pub const CHAIN: u64 = 1 << 63;

/// A new chain of callers: sent before the first arrival that refers to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Callers {
    pub head: Head,
    pub time_ns: u64,
    /// The key by which arrivals refer to the chain: see [`Arrive::caller`].
    pub key: u64,
    /// Number of addresses.
    pub count: u32,
    /// See [`Arrive::epoch`].
    pub epoch: u32,
    /// Return addresses, innermost first; zero beyond `count`.
    pub addresses: [u64; MAX_CALLERS],
}

/// A thread leaves the barrier that it entered last, ends, or passes a mark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Depart {
    pub head: Head,
    pub clocks: Clocks,
    /// See [`Arrive::seq`].
    pub seq: u32,
    /// For [`kind::MARK`]: the mark, in the lowest byte; with [`crate::MarkCookie::REGION`], the
    /// upper three bytes contain the depth of the stack. Else 0.
    pub mark: u32,
}

/// A thread waits on a condition variable or a futex, or wakes waiting threads. [`Head::detail`]
/// tells which object it is; for a wake, [`Head::layout`] is the largest number of threads that are
/// woken, or 0 for all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Condvar {
    pub head: Head,
    pub clocks: Clocks,
    /// Address of the object in the target.
    pub object: u64,
    /// See [`Arrive::caller`].
    pub caller: u64,
    /// See [`Arrive::seq`].
    pub seq: u32,
    /// See [`Arrive::epoch`].
    pub epoch: u32,
}

/// What a barrier object held just before a thread's arrival was counted.
///
/// Sent when the thread first meets the object, after the initialisation of any object, after a
/// loss, at the thread's end, and now and then. This is enough to know count and round at every
/// moment without reading the target's memory each time.
///
/// For a communicator of MPI ([`crate::layout::MPI`]) it is sent whenever the communicator differs
/// from the last one at its address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Memory {
    pub head: Head,
    pub time_ns: u64,
    pub object: u64,
    /// See [`Arrive::seq`].
    pub seq: u32,
    /// Number of participants; 0 if the object could not be read.
    pub count: u32,
    /// glibc: the number of the current round, a multiple of `count`. GNU OpenMP: the barrier's
    /// `generation`. MPI: the number on which the ranks have agreed.
    pub round: u32,
    /// glibc: number of arrivals in all rounds so far. MPI: the first of the ranks, by its number
    /// in the world. Elsewhere 0.
    pub arrived: u32,
}

/// A thread enters `pthread_barrier_init`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Init {
    pub head: Head,
    pub time_ns: u64,
    pub object: u64,
    /// See [`Arrive::seq`].
    pub seq: u32,
    /// The requested number of participants.
    pub count: u32,
}

/// The first record of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Thread {
    pub head: Head,
    pub clocks: Clocks,
    /// When the thread was created, `CLOCK_MONOTONIC` ns; 0 if unknown.
    pub start_ns: u64,
    /// Where the program's own code begins in memory; 0 if unknown.
    pub start_code: u64,
    /// Thread and process, as sbt's own pid namespace numbers them; 0 if unknown.
    pub ns_tid: u32,
    pub ns_tgid: u32,
    /// The name of the thread in the kernel, 16 bytes, zero-padded.
    pub comm: [u64; 2],
}

/// A change of a process's mappings, or of the set of processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Mapping {
    pub head: Head,
    pub time_ns: u64,
    /// The process, as sbt's own pid namespace numbers it; 0 if unknown.
    pub ns_tgid: u32,
    /// For [`kind::FORK`], the new process, numbered in the same way; else 0.
    pub child: u32,
}

/// Number of [`Counts::values`].
pub const TASK_COUNTS: usize = 5;

/// What the kernel has counted for a thread since its creation. Sent before the record to which it
/// belongs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Counts {
    pub head: Head,
    pub time_ns: u64,
    /// [`Arrive::seq`] of the record to which it belongs.
    pub seq: u32,
    /// Zero.
    pub reserved: u32,
    /// Minor faults, major faults, voluntary switches, involuntary switches, migrations. Each is
    /// [`UNKNOWN`] where this kernel does not provide it.
    pub values: [u64; TASK_COUNTS],
}

/// Largest number of perf events that are counted at a time.
pub const MAX_EVENTS: usize = 8;

/// The count of a perf event, as the kernel returns it (`bpf_perf_event_value`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Reading {
    /// The count; [`UNKNOWN`] if it could not be read.
    pub value: u64,
    /// Time for which the event was enabled, ns.
    pub enabled_ns: u64,
    /// Time for which the event was counting, ns.
    pub running_ns: u64,
}

/// What perf events have counted while a thread was on a CPU. Sent before the record to which it
/// belongs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Sums {
    pub head: Head,
    pub time_ns: u64,
    /// [`Arrive::seq`] of the record to which it belongs.
    pub seq: u32,
    /// 1 if the thread had not run before `since_ns` while events were counted.
    pub whole: u32,
    /// When counting began for this thread, ns: two sums can be compared only if this is the same.
    pub since_ns: u64,
    pub events: [Reading; MAX_EVENTS],
}

/// Number of rounds of the piece of work that [`Speed`] tells of, of 200 additions each: a microsecond or less.
pub const SPEED_ROUNDS: u32 = 20;

/// How fast the CPU of a thread was at an arrival. Sent before the arrival.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Speed {
    pub head: Head,
    pub time_ns: u64,
    /// How long a fixed piece of work took, ns. An interrupt may be included.
    pub took_ns: u64,
}

/// A thread comes back to a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Away {
    pub head: Head,
    /// When the thread came back, ns.
    pub time_ns: u64,
    /// When the thread had left, ns; 0 if that was not seen.
    pub left_ns: u64,
    /// How long the thread was ready at the end of that time, ns; [`UNKNOWN`] where the kernel does
    /// not provide it.
    pub ready_ns: u64,
    /// Number of this record among those of its thread, from 0: a gap is a loss.
    pub seq: u32,
    /// Zero.
    pub reserved: u32,
}

/// What ran on a CPU while a thread was ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Taker {
    pub head: Head,
    pub time_ns: u64,
    /// How long it ran, ns.
    pub took_ns: u64,
    /// Its process, as the kernel's initial pid namespace numbers it.
    pub process: u32,
    /// [`Away::seq`] of the record to which it belongs.
    pub seq: u32,
    /// Its name in the kernel, 16 bytes, zero-padded.
    pub comm: [u64; 2],
}
