//! The types that cross from the kernel to the agent, and nothing else.
//!
//! Both sides are compiled from this file, by different compilers: so every
//! record is `repr(C)`, has no implicit padding, holds only integers, and its
//! size is asserted at compile time. A record is told apart by its first eight
//! bytes, the [`Head`], which are the same in all of them.
#![no_std]
#![allow(
    missing_docs,
    reason = "head and clocks of each record are explained at their types"
)]

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
    /// [`super::Mapping`]: the process has started another, which has not begun.
    pub const FORK: u8 = 12;
    /// [`super::Mapping`]: a process that is followed has ended.
    pub const END: u8 = 13;
    /// [`super::Depart`] once more: the agent's own clocks, to compare them
    /// with what the agent knows of itself.
    pub const CALIBRATE: u8 = 9;
    /// [`super::Depart`] as well: a thread has passed a mark.
    pub const MARK: u8 = 10;
    /// [`super::Condvar`]: a thread is about to wait on a condition variable.
    pub const WAIT: u8 = 20;
    /// [`super::Condvar`] as well: one wakes those who wait on it.
    pub const WAKE: u8 = 21;
    /// [`super::Condvar`] once more: from where a thread waits on a futex that is
    /// counted in [`super::Lock`]; now and then.
    pub const LOCK: u8 = 22;
    /// [`super::Callers`]: a chain of callers of more than one address.
    pub const CALLERS: u8 = 11;
}

/// What a wait or a wake is seen by: [`Head::reserved`] of [`Condvar`].
pub mod evidence {
    /// A function of the C library for condition variables was entered.
    pub const CONDVAR: u16 = 0;
    /// The system call of a futex was.
    pub const FUTEX: u16 = 1;
}

/// How the memory of a barrier object is laid out; bits 0 to 7 of a probe's cookie.
pub mod layout {
    /// The object cannot be read: the participant count stays unknown.
    pub const OPAQUE: u8 = 0;
    /// glibc ≥ 2.25, `struct pthread_barrier` (sysdeps/nptl/internaltypes.h):
    /// `in`, `current_round`, `count`, `shared`, `out`, 32 bits each.
    pub const GLIBC: u8 = 1;
    /// musl, `pthread_barrier_t` (include/alltypes.h.in, pthread_impl.h):
    /// `_b_lock`, `_b_waiters`, `_b_limit` (count - 1, sign bit if shared), …
    pub const MUSL: u8 = 2;
    /// A function that the user has named: nothing is known of the object, but
    /// an argument of the function may be the count.
    pub const USER: u8 = 3;
    /// GNU OpenMP, `gomp_barrier_t` (libgomp/config/linux/bar.h): `total`,
    /// `generation`, 32 bits each, …
    pub const GOMP: u8 = 4;
    /// LLVM's OpenMP: the object is the team, `kmp_team_t`, which is found by the
    /// number of the thread; see [`super::Kmp`].
    pub const KMP: u8 = 5;
    /// `std::barrier` of C++: the object begins with the number of threads.
    pub const STD: u8 = 6;
    /// The same; the register points to a word that holds the object's address.
    pub const STD_POINTED: u8 = 7;
    /// As [`STD`], inlined into the program: the probe stands on a call there, and
    /// the call is the place. So the stack's move says nothing, and belongs to
    /// the displacement: see [`super::Cookie::far`].
    pub const STD_INLINED: u8 = 8;
    /// `std::sync::Barrier` of Rust, from its number of threads on.
    pub const RUST: u8 = 9;
    /// A collective operation of MPI: the object is the communicator, of which each
    /// process has a description of its own.
    pub const MPI: u8 = 10;
}

/// Bits of [`Cookie::count`] for teams.
pub mod team {
    /// The object begins with the number of threads.
    pub const HAS_COUNT: u8 = 1;
    /// The address is not in the register but in the word so far above it as
    /// [`super::Cookie::stack_moved`] says, in two's complement.
    pub const SPILLED: u8 = 2;
}

/// What a probe tells the program that it runs, packed into its 64-bit cookie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cookie {
    /// One of [`layout`]; for condition variables [`kind::WAIT`] or [`kind::WAKE`].
    pub layout: u8,
    /// For [`layout::USER`] and teams: which argument is the object, 1 to 6; 0 if
    /// none. For [`layout::MPI`] 1 to 15, from 7 on on the stack. For teams also another register: 7 rax, 8 rbx, 9 rbp, 10 to 15 those
    /// numbers; 0 is rip, that of the probe, or rsp with [`team::SPILLED`].
    pub object: u8,
    /// Likewise, which is the number of participants; 0 if none. For a function
    /// that wakes waiters of a condition variable: how many at most, 0 for all.
    /// For teams some of the bits of [`team`], for [`layout::KMP`] of [`kmp`].
    pub count: u8,
    /// How many bytes the prologue has moved the stack pointer down before the
    /// probed instruction: the return address lies that far above it.
    pub stack_moved: u16,
    /// For teams: how far above what the register holds the object lies, bytes;
    /// negative below, in two's complement. For [`layout::KMP`] the number of the
    /// [`Kmp`].
    pub displacement: u16,
    /// A probe counts while this equals the low bits of [`State::generation`].
    pub generation: u16,
}

impl Cookie {
    /// The length of the call on which a probe for [`layout::STD_INLINED`] stands,
    /// bytes: behind it lies the place, as behind any call.
    pub const CALL: u8 = 5;

    /// For [`layout::STD_INLINED`], how far above the address the object lies,
    /// bytes: [`Cookie::displacement`] and, as the upper half,
    /// [`Cookie::stack_moved`]; that is where the address lies instead with
    /// [`team::SPILLED`].
    #[must_use]
    pub const fn far(self) -> i32 {
        (self.displacement as u32 | (self.stack_moved as u32) << 16).cast_signed()
    }

    /// Packs: bits 0-7 the layout, 8-11 the object, 12-15 the count, 16-31 the
    /// stack's move, 32-47 the displacement, 48-63 the generation.
    #[must_use]
    pub const fn pack(self) -> u64 {
        self.layout as u64
            | (self.object as u64 & 15) << 8
            | (self.count as u64 & 15) << 12
            | (self.stack_moved as u64) << 16
            | (self.displacement as u64) << 32
            | (self.generation as u64) << 48
    }

    /// The inverse of [`Cookie::pack`].
    #[must_use]
    #[allow(
        clippy::cast_possible_truncation,
        reason = "taking the fields apart is the point"
    )]
    pub const fn unpack(bits: u64) -> Self {
        Self {
            layout: bits as u8,
            object: (bits >> 8) as u8 & 15,
            count: (bits >> 12) as u8 & 15,
            stack_moved: (bits >> 16) as u16,
            displacement: (bits >> 32) as u16,
            generation: (bits >> 48) as u16,
        }
    }
}

/// What the probe of a mark tells its program, packed into its cookie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarkCookie {
    /// Which mark, in the order of the settings.
    pub mark: u8,
    /// See [`Cookie::generation`].
    pub generation: u16,
}

impl MarkCookie {
    /// Packs: bits 0-7 the mark, 48-63 the generation.
    #[must_use]
    pub const fn pack(self) -> u64 {
        self.mark as u64 | (self.generation as u64) << 48
    }

    /// The inverse of [`MarkCookie::pack`].
    #[must_use]
    #[allow(
        clippy::cast_possible_truncation,
        reason = "taking the fields apart is the point"
    )]
    pub const fn unpack(bits: u64) -> Self {
        Self {
            mark: bits as u8,
            generation: (bits >> 48) as u16,
        }
    }
}

/// Bits of [`Cookie::count`] for [`layout::KMP`].
pub mod kmp {
    /// [`super::Cookie::stack_moved`] counts from rbp, and not from rsp.
    pub const FRAME: u8 = 1;
    /// The thread goes on without being released: nothing shows when it leaves.
    pub const PASSES: u8 = 2;
    /// [`super::Outer::above`]: it lies above the frame whose address the inner
    /// function has saved right below its own return address.
    pub const SAVED: u32 = 0;
    /// Likewise, above the frame whose address is in rbp.
    pub const HELD: u32 = 1;
}

/// How to get from the number of a thread of LLVM's OpenMP to its team, for one
/// probe: values of the map [`name::KMP`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(C)]
pub struct Kmp {
    /// How far above the probed instruction the variable `__kmp_threads` lies: it
    /// points to an array of pointers to `kmp_info_t`, one for each thread.
    pub threads: i32,
    /// `kmp_info_t` → `th.th_team`, a pointer
    pub team: u32,
    /// `kmp_team_t` → `t.t_nproc`, 32 bits
    pub count: u32,
    /// Zero.
    pub reserved: u32,
    /// Who of the runtime's own calls the function in which the probe is; zeros
    /// after the last.
    pub outer: [Outer; MAX_OUTER],
}

/// A call in a function of the runtime that the program has called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(C)]
pub struct Outer {
    /// How far above the probed instruction the one lies to which it returns.
    pub returns: i32,
    /// How far above that return address on the stack that of the function lies,
    /// or [`kmp::SAVED`], or [`kmp::HELD`].
    pub above: u32,
}

/// Length of [`Kmp::outer`].
pub const MAX_OUTER: usize = 16;

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
    /// object says that processes share it. Else zero.
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
    /// Low half of [`State::epoch`] when the callers were looked for.
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

/// How to get from a function that is being executed to the one that called it:
/// what the `.eh_frame` section says of a return address, as far as it is
/// needed. The caller's return address lies just below the canonical frame
/// address (CFA), which is what rsp is after the return.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct Rule {
    /// One of [`cfa`]: from what the CFA is reckoned.
    pub cfa: u32,
    /// One of [`rbp`]: where the caller's rbp is.
    pub rbp: u32,
    /// Added to what `cfa` names, bytes.
    pub cfa_offset: i32,
    /// Likewise for `rbp`.
    pub rbp_offset: i32,
}

/// From what a CFA is reckoned.
pub mod cfa {
    /// Nothing: the chain of callers ends here.
    pub const NONE: u32 = 0;
    /// It is rsp + offset.
    pub const RSP: u32 = 1;
    /// It is rbp + offset.
    pub const RBP: u32 = 2;
    /// It stands in memory at rbp + offset: functions that align their stack.
    pub const AT_RBP: u32 = 3;
}

/// Where the caller's rbp is.
pub mod rbp {
    /// Still in the register.
    pub const SAME: u32 = 0;
    /// In memory at CFA + offset.
    pub const AT_CFA: u32 = 1;
    /// In memory at rbp + offset.
    pub const AT_RBP: u32 = 2;
}

/// Bytes of code before and after a return address that tell it from others.
pub const CODE_AROUND: usize = 16;

/// What a return address is known by before anybody knows where the program
/// will lie: a program is moved by whole pages, and its code does not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct Code {
    /// The address's low 12 bits.
    pub in_page: u64,
    /// The code from [`CODE_AROUND`] bytes before it to as many after.
    pub bytes: [u8; 2 * CODE_AROUND],
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
    /// [`kind::MARK`]: which; else 0.
    pub mark: u32,
}

/// A thread waits on a condition variable or a futex, or wakes those who do: of
/// these, [`Head::layout`] at most, or all if that is 0. Which of both,
/// [`Head::reserved`] tells.
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
    /// See [`Arrive::caller`]: from where a thread waited, as far as it was sent.
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

/// What a barrier object held just before a thread's arrival was counted.
///
/// Sent when the thread first meets the object, after any object was
/// initialised, after a loss, and now and then: enough to know count and
/// round at every moment without reading the target's memory each time.
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
    /// glibc: the number of the running round, a multiple of `count`.
    pub round: u32,
    /// glibc: how many had arrived in all rounds so far. Elsewhere equal to `round`.
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

/// A type that may be copied out of raw bytes.
///
/// # Safety
/// The type is `repr(C)`, without padding, and every bit pattern is a value.
pub unsafe trait Plain: Copy + 'static {}

// SAFETY: integers and arrays of them only; the sizes below leave no padding.
unsafe impl Plain for Head {}
// SAFETY: as above.
unsafe impl Plain for Arrive {}
// SAFETY: as above.
unsafe impl Plain for Condvar {}
// SAFETY: as above.
unsafe impl Plain for Futex {}
// SAFETY: as above.
unsafe impl Plain for Lock {}
// SAFETY: as above.
unsafe impl Plain for Callers {}
// SAFETY: as above.
unsafe impl Plain for Code {}
// SAFETY: as above.
unsafe impl Plain for Rule {}
// SAFETY: as above.
unsafe impl Plain for Config {}
// SAFETY: as above.
unsafe impl Plain for State {}
// SAFETY: as above.
unsafe impl Plain for Depart {}
// SAFETY: as above.
unsafe impl Plain for Memory {}
// SAFETY: as above.
unsafe impl Plain for Init {}
// SAFETY: as above.
unsafe impl Plain for Thread {}
// SAFETY: as above.
unsafe impl Plain for Mapping {}

/// Copies a record out of the bytes of the ring; `None` if they are of
/// another length.
#[must_use]
pub fn read<T: Plain>(bytes: &[u8]) -> Option<T> {
    if bytes.len() != size_of::<T>() {
        return None;
    }
    // SAFETY: long enough by the check above, and T is Plain.
    Some(unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}

const _: () = {
    assert!(size_of::<Head>() == 8);
    assert!(size_of::<Clocks>() == 24);
    assert!(size_of::<Arrive>() == 56);
    assert!(size_of::<Condvar>() == 56);
    assert!(size_of::<Callers>() == 32 + 8 * MAX_CALLERS);
    assert!(size_of::<Rule>() == 16);
    assert!(size_of::<Code>() == 8 + 2 * CODE_AROUND);
    assert!(size_of::<Depart>() == 40);
    assert!(size_of::<Memory>() == 40);
    assert!(size_of::<Init>() == 32);
    assert!(size_of::<Thread>() == 72);
    assert!(size_of::<Mapping>() == 24);
    assert!(size_of::<Config>() == 96);
    assert!(size_of::<State>() == 40);
    assert!(size_of::<Futex>() == 16);
    assert!(size_of::<Lock>() == 72);
    assert!(size_of::<Kmp>() == 144);
};

/// What the agent tells the programs before they are loaded: constants to the
/// verifier. An offset of 0 means that this kernel does not have the field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Config {
    /// Device and inode of the pid namespace in which `target` is a number.
    pub ns_dev: u64,
    pub ns_ino: u64,
    /// The target process.
    pub target: u32,
    /// `task_struct` → `se.sum_exec_runtime`
    pub sum_exec_runtime: u32,
    /// `task_struct` → `se.exec_start`
    pub exec_start: u32,
    /// `task_struct` → `sched_info.run_delay`
    pub run_delay: u32,
    /// `task_struct` → `se.cfs_rq`, with the next three or all four 0.
    pub cfs_rq: u32,
    /// `cfs_rq` → `rq`
    pub rq: u32,
    /// `rq` → `clock`
    pub clock: u32,
    /// `rq` → `clock_task`
    pub clock_task: u32,
    /// `task_struct` → `start_time`
    pub start_time: u32,
    /// `task_struct` → `mm`
    pub mm: u32,
    /// `mm_struct` → `start_code`
    pub start_code: u32,
    /// `task_struct` → `comm`
    pub comm: u32,
    /// How many rings there are, less one: rings are a power of two.
    pub ring_mask: u32,
    /// `task_struct` → `pid`
    pub pid: u32,
    /// `task_struct` → `tgid`; 0 where the agent numbers processes otherwise
    /// than the kernel's first pid namespace does, and a helper must be asked.
    pub tgid: u32,
    /// `task_struct` → `tgid`, however the agent numbers processes.
    pub any_tgid: u32,
    /// `task_struct` → `signal`
    pub signal: u32,
    /// `signal_struct` → `live`
    pub live: u32,
    /// 1 if the target's children are followed, and theirs.
    pub children: u32,
    /// Zero.
    pub reserved: u32,
}

/// What may change while the programs run; alone in the object's `.data`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct State {
    /// Changed whenever what threads remember of barrier objects may be wrong.
    pub trust: u64,
    /// Which probes count. Another set of them can be put on beside the one in
    /// force, and takes over at once when this changes.
    pub generation: u64,
    /// Changed whenever addresses may have come to mean something else, other than
    /// by an exec: of that the agent hears.
    pub epoch: u64,
    /// 0 if there is no [`Rule`]; else changed whenever what is remembered of
    /// rules by return address may be wrong.
    pub walks: u64,
    /// Since when waits on futexes are counted, ns.
    pub futexes: u64,
}

/// Names of maps and globals that the agent looks up in the object.
pub mod name {
    /// Array of ring buffers, one per CPU up to [`super::MAX_RINGS`].
    pub const RINGS: &str = "RINGS";
    /// [`super::Config`], read-only.
    pub const CONFIG: &str = "CONFIG";
    /// [`super::State`].
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
    /// numbers them → 1.
    pub const FOLLOWED: &str = "FOLLOWED";
    /// [`super::Code`] → [`super::Rule`]: the agent's, for the programs to read.
    pub const RULES: &str = "RULES";
    /// Array of [`super::Kmp`], [`super::MAX_KMP`] of them.
    pub const KMP: &str = "KMP";
}

/// Size of one ring, bytes: a power of two times the page.
pub const RING_BYTES: u32 = 1 << 20;

/// Condition variables that can be silenced at a time; beyond, those that were
/// silenced longest ago are looked at again.
pub const MAX_SILENCED: u32 = 4096;
/// Futexes that are counted at a time; beyond, only their waits are.
pub const MAX_LOCKS: u32 = 4096;
/// Where children are followed, a process is told from others by its number, from
/// this bit on, in what an address is known by.
pub const PROCESS_SHIFT: u32 = 40;

/// Processes beside the target that can be followed at a time.
pub const MAX_FOLLOWED: u32 = 16384;
/// How many rules there are at most.
pub const MAX_RULES: u32 = 4096;

/// More rings than this are not made; CPUs then share them.
pub const MAX_RINGS: u32 = 64;

/// More places than this in LLVM's OpenMP are not probed.
pub const MAX_KMP: u32 = 256;
