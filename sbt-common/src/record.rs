//! What goes through the rings. A record is told apart by its first eight bytes,
//! the [`Head`], which are the same in all of them.

/// What a record in the ring is; the value of [`Head::kind`].
pub mod kind {
    /// [`super::Arrive`]: a thread has entered a barrier.
    pub const ARRIVE: u8 = 1;
    /// [`super::Depart`]: a thread has left the barrier it entered last.
    pub const DEPART: u8 = 2;
    /// [`super::Memory`]: what a barrier object held when a thread entered it.
    pub const MEMORY: u8 = 3;
    /// [`super::Init`]: a barrier object is being initialised.
    pub const INIT: u8 = 4;
    /// [`super::Thread`]: the first record of a thread.
    pub const THREAD: u8 = 5;
    /// [`super::Depart`] as well: a thread ends; its clocks for the last time.
    pub const EXIT: u8 = 6;
    /// [`super::Mapping`]: the dynamic linker has mapped or unmapped a library.
    pub const MAPPED: u8 = 7;
    /// [`super::Mapping`]: the process has executed another program.
    pub const EXEC: u8 = 8;
    /// [`super::Depart`] once more: the agent's own clocks, to compare them
    /// with what the agent knows of itself.
    pub const CALIBRATE: u8 = 9;
    /// [`super::Depart`] as well: a thread has passed a mark.
    pub const MARK: u8 = 10;
    /// [`super::Callers`]: a chain of callers of more than one address.
    pub const CALLERS: u8 = 11;
    /// [`super::Mapping`]: the process has started another, which has not begun.
    pub const FORK: u8 = 12;
    /// [`super::Mapping`]: a process that is followed has ended.
    pub const END: u8 = 13;
    /// [`super::Condvar`]: a thread is about to wait on a condition variable.
    pub const WAIT: u8 = 20;
    /// [`super::Condvar`] as well: one wakes those who wait on it.
    pub const WAKE: u8 = 21;
    /// [`super::Condvar`] once more: from where a thread waits on a futex that is
    /// counted in [`crate::Lock`]; now and then.
    pub const LOCK: u8 = 22;
    /// [`super::Counts`]: what the kernel counts of each thread anyway.
    pub const COUNTS: u8 = 30;
    /// [`super::Sums`]: perf events counted for a thread.
    pub const SUMS: u8 = 31;
    /// [`super::Away`]: a thread comes back to a CPU.
    pub const AWAY: u8 = 40;
    /// [`super::Taker`]: who ran while it was ready; before that.
    pub const TAKER: u8 = 41;
}

/// How a thread left its CPU: [`Head::layout`] of [`Away`].
pub mod how {
    /// Nobody has seen it: it did before switches were watched, or it is new.
    pub const UNSEEN: u8 = 0;
    /// It could have gone on.
    pub const READY: u8 = 1;
    /// It went to sleep in the system call [`super::Head::detail`].
    pub const ASLEEP: u8 = 2;
    /// Likewise, and the kernel calls that waiting for input or output (`in_iowait`).
    pub const IO: u8 = 3;
    /// It went to sleep in no system call: a page fault.
    pub const FAULT: u8 = 4;
    /// It was stopped, by a signal or a debugger.
    pub const STOPPED: u8 = 5;
}

/// Who took a CPU: [`Head::layout`] of [`Taker`].
pub mod taker {
    /// Another process.
    pub const OTHER: u8 = 0;
    /// A thread of the target.
    pub const OWN: u8 = 1;
    /// One of the kernel's own.
    pub const KERNEL: u8 = 2;
    /// Nobody: the CPU was idle, since the thread may not run (a quota).
    pub const NOBODY: u8 = 3;
}

/// A bit of [`Head::detail`]: the probe stands where the kernel single-steps.
pub const STEPPED: u16 = 1;

/// Likewise, of an [`Arrive`]: with this barrier a parallel region ends, after which its
/// threads but one wait for the next to begin.
pub const ENDS: u16 = 2;

/// What a wait or a wake is seen by: [`Head::detail`] of [`Condvar`].
pub mod evidence {
    /// A function of the C library for condition variables was entered.
    pub const CONDVAR: u16 = 0;
    /// The system call of a futex was.
    pub const FUTEX: u16 = 1;
}

/// The first eight bytes of every record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Head {
    /// One of [`kind`].
    pub kind: u8,
    /// For arrivals, the layout of the barrier that the probe knows. For
    /// [`kind::EXEC`], 1 if another thread than the first did it. For
    /// [`kind::FORK`], 1 if there was no room to remember the child.
    pub layout: u8,
    /// For a [`Condvar`], one of [`evidence`]. For [`Memory`] and [`Init`], 1 if the
    /// object says that processes share it. For an [`Arrive`] and [`kind::MARK`] some of
    /// [`STEPPED`] and [`ENDS`]. Else zero.
    pub detail: u16,
    /// The thread, as the kernel's first pid namespace numbers it.
    pub tid: u32,
}

/// Where a thread stands: when, and what it has used so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Clocks {
    /// `CLOCK_MONOTONIC`, ns.
    pub time_ns: u64,
    /// Time on a CPU so far, ns, plus a constant of the machine that the agent
    /// measures at start. [`UNKNOWN`] where the kernel does not tell.
    pub run_ns: u64,
    /// Time runnable but without a CPU so far, ns, or [`UNKNOWN`].
    pub delay_ns: u64,
}

/// A clock that could not be read.
pub const UNKNOWN: u64 = u64::MAX;

/// A thread has entered a barrier. Stamped before the barrier counts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Arrive {
    pub head: Head,
    pub clocks: Clocks,
    /// Address of the barrier object in the target.
    pub object: u64,
    /// Return address of the call, or 0 if the stack could not be read. With
    /// [`CHAIN`] in it, the key of a [`Callers`] that has been sent before.
    pub caller: u64,
    /// Number of this record in its thread, from 0: a gap is a loss.
    pub seq: u32,
    /// Low half of [`crate::State::epoch`] when the callers were looked for.
    pub epoch: u32,
}

/// How many return addresses a chain of callers has at most.
pub const MAX_CALLERS: usize = 8;

/// Set in the keys of chains of several addresses, and in no address of a
/// program: those are in the lower half.
pub const CHAIN: u64 = 1 << 63;

/// A chain of callers that is new: sent before the first arrival that has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Callers {
    pub head: Head,
    pub time_ns: u64,
    /// What arrivals call it: see [`Arrive::caller`].
    pub key: u64,
    /// How many addresses there are.
    pub count: u32,
    /// See [`Arrive::epoch`].
    pub epoch: u32,
    /// Return addresses, innermost first; zero beyond `count`.
    pub addresses: [u64; MAX_CALLERS],
}

/// A thread has left the barrier that it entered last, has ended, or has
/// passed a mark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Depart {
    pub head: Head,
    pub clocks: Clocks,
    /// See [`Arrive::seq`].
    pub seq: u32,
    /// [`kind::MARK`]: which, in the lowest byte; with [`crate::MarkCookie::REGION`] the
    /// upper three bytes tell how deep the stack is. Else 0.
    pub mark: u32,
}

/// A thread waits on a condition variable or a futex, or wakes those who do: of
/// these, [`Head::layout`] at most, or all if that is 0. Which of both,
/// [`Head::detail`] tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Condvar {
    pub head: Head,
    pub clocks: Clocks,
    /// Its address in the target.
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
/// Sent when the thread first meets the object, after any object was
/// initialised, after a loss, at the thread's end, and now and then: enough to know count and
/// round at every moment without reading the target's memory each time.
///
/// Of a communicator of MPI ([`crate::layout::MPI`]) it is sent whenever it is not the one
/// that was met last at its address.
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
    /// glibc: the number of the running round, a multiple of `count`. GNU OpenMP: the
    /// barrier's `generation`. MPI: the number that the ranks have agreed on.
    pub round: u32,
    /// glibc: how many had arrived in all rounds so far. MPI: the first of the ranks, by its
    /// number in the world. Elsewhere 0.
    pub arrived: u32,
}

/// `pthread_barrier_init` was entered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Init {
    pub head: Head,
    pub time_ns: u64,
    pub object: u64,
    /// See [`Arrive::seq`].
    pub seq: u32,
    /// The number of participants asked for.
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
    /// Thread and process as sbt's own pid namespace numbers them; 0 if unknown.
    pub ns_tid: u32,
    pub ns_tgid: u32,
    /// The kernel's name of the thread, 16 bytes, zero-padded.
    pub comm: [u64; 2],
}

/// Something about the process's mappings has changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Mapping {
    pub head: Head,
    pub time_ns: u64,
    /// The process as sbt's own pid namespace numbers it; 0 if unknown.
    pub ns_tgid: u32,
    /// For [`kind::FORK`], the new process likewise; else 0.
    pub child: u32,
}

/// How many numbers of [`Counts`] there are.
pub const TASK_COUNTS: usize = 5;

/// What the kernel has counted of a thread since its birth. Sent before the record
/// to which it belongs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Counts {
    pub head: Head,
    pub time_ns: u64,
    /// That of the record to which it belongs.
    pub seq: u32,
    /// Zero.
    pub reserved: u32,
    /// Minor faults, major faults, switches of its own will and others, migrations:
    /// each [`UNKNOWN`] where this kernel does not tell.
    pub values: [u64; TASK_COUNTS],
}

/// How many perf events are counted at a time.
pub const MAX_EVENTS: usize = 8;

/// What an event counted, as the kernel hands it out (`bpf_perf_event_value`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Reading {
    /// [`UNKNOWN`] if it could not be read.
    pub value: u64,
    /// For how long it was to be counted, ns.
    pub enabled_ns: u64,
    /// For how long it was.
    pub running_ns: u64,
}

/// What perf events have counted while a thread was on a CPU. Sent before the record
/// to which it belongs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Sums {
    pub head: Head,
    pub time_ns: u64,
    /// That of the record to which it belongs.
    pub seq: u32,
    /// 1 if the thread had not run before `since_ns` while events were counted.
    pub whole: u32,
    /// Since when they are counted for this thread, ns: two sums belong together if
    /// this is the same.
    pub since_ns: u64,
    pub events: [Reading; MAX_EVENTS],
}

/// A thread has been put on a CPU after it was taken off one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Away {
    pub head: Head,
    /// When it came back.
    pub time_ns: u64,
    /// When it had left; 0 if nobody has seen that.
    pub left_ns: u64,
    /// For how long it was ready meanwhile, at the end of it, ns; [`UNKNOWN`] where the
    /// kernel does not tell.
    pub ready_ns: u64,
    /// Number of this record in its thread, from 0: a gap is a loss.
    pub seq: u32,
    /// Zero.
    pub reserved: u32,
}

/// Who ran on a CPU while a thread was ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Taker {
    pub head: Head,
    pub time_ns: u64,
    /// For how long, ns.
    pub took_ns: u64,
    /// Its process, as the kernel's first pid namespace numbers it.
    pub process: u32,
    /// That of the [`Away`] to which it belongs.
    pub seq: u32,
    /// The kernel's name of it, 16 bytes, zero-padded.
    pub comm: [u64; 2],
}
