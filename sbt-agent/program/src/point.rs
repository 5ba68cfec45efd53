//! Points: functions and places in which probes may be put.

use crate::arch;
use sbt_common::{
    Cookie, layout,
    team::{ENDS, HAS_COUNT, ON_STACK, SPILLED},
};

/// The role of a probed function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Function {
    /// `pthread_barrier_wait(barrier)`
    BarrierWait,
    /// `pthread_barrier_init(barrier, attributes, count)`
    BarrierInit,
    /// `pthread_cond_wait(condvar, mutex)`, or one of its variants with a time limit.
    CondWait,
    /// `pthread_cond_broadcast(condvar)`, or `pthread_cond_signal(condvar)`.
    CondWake {
        /// The most waiters that the call wakes; 0 for all.
        most: u8,
    },
    /// `_dl_debug_state()`: the dynamic linker calls it, for debuggers, when it has mapped or
    /// unmapped libraries.
    LinkerMapped,
    /// A mark with this number that the user has set: a function, or a place inside a function.
    Mark(u8),
    /// A function that the user declares to be a barrier.
    Call {
        /// The number of the argument that points to the barrier object, 1 to 6; 0 if none does. Up
        /// to 15 for functions of MPI.
        object: u8,
        /// The number of the argument that is the number of participants, 1 to 6; 0 if none is. Up
        /// to 15 for functions of MPI.
        count: u8,
    },
    /// An instruction by which a [`Self::Call`] function ends.
    CallExit,
    /// A function of MPI that makes or ends a communicator or a group.
    Make {
        /// The number of the function: see [`crate::runtimes::mpi::makers::number`].
        number: u8,
        /// The number of the argument that points to where the function stores what it makes, up to 15;
        /// 0 if no argument does.
        out: u8,
        /// The number of the argument that is a list, 1 to 6; 0 if no argument is.
        list: u8,
        /// How many numbers an element of the list has; 0 if no argument tells the list's length.
        width: u16,
    },
    /// An instruction by which a function of MPI that makes a communicator or a group ends.
    Made,
    /// A place where a thread arrives at a barrier of its team.
    Team(Team),
    /// A place where a thread arrives at a barrier in LLVM's OpenMP.
    Kmp(Kmp),
    /// The function that a thread leaves last when it leaves such a barrier.
    TeamEnd,
    /// A place where a thread has left a barrier that is part of a larger function.
    Left,
    /// A function that begins a parallel region of OpenMP.
    Region,
    /// A place where a thread begins to wait at a barrier at which it has arrived before.
    Awaits,
}

impl Function {
    /// How many arguments a probe reads from registers.
    pub fn arguments(self) -> usize {
        match self {
            Self::BarrierWait | Self::CondWait | Self::CondWake { .. } | Self::Team(_) => 1,
            Self::BarrierInit => 3,
            Self::LinkerMapped
            | Self::Mark(_)
            | Self::CallExit
            | Self::Made
            | Self::Kmp(_)
            | Self::TeamEnd
            | Self::Left
            | Self::Region
            | Self::Awaits => 0,
            // Arguments beyond the sixth are on the stack.
            Self::Call { object, count } => object.max(count).min(6).into(),
            Self::Make { .. } => 6,
        }
    }
}

/// A function found in a file, and where its probes go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// The role of the function.
    pub function: Function,
    /// The name by which the function was found, without version.
    pub symbol: String,
    /// Where a probe of the call goes: offset in the file, bytes.
    pub entry_offset: u64,
    /// How far the stack pointer has moved down at the entry probe, bytes.
    pub stack_moved: u16,
    /// Where a uretprobe goes: offset in the file, bytes.
    pub return_offset: u64,
    /// Whether the kernel emulates the instruction at `entry_offset`.
    pub entry_emulated: bool,
    /// One of [`sbt_common::layout`]: the layout of this C library's barrier objects, or opaque if
    /// the file does not prove its layout.
    pub layout: u8,
}

impl Point {
    /// A point on an instruction inside of a function, at this offset in the file, bytes.
    pub(crate) fn inside(function: Function, symbol: &str, offset: u64, is_emulated: bool) -> Self {
        Self {
            function,
            symbol: symbol.to_owned(),
            entry_offset: offset,
            stack_moved: 0,
            return_offset: offset,
            entry_emulated: is_emulated,
            layout: layout::STD_INLINED,
        }
    }
}

/// A barrier of a thread team, as it is called somewhere in the runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Team {
    /// The register that holds the address: see [`sbt_common::Cookie::object`]; or
    /// `arch::ON_STACK`.
    pub register: u8,
    /// If set, the address is not in the register, but in the word at this offset from the
    /// register, bytes.
    pub spilled: Option<i16>,
    /// Distance from that address to the barrier, bytes.
    pub displacement: i32,
    /// Whether the barrier begins with the number of its threads.
    pub has_count: bool,
    /// Whether a parallel region ends with the barrier.
    pub ends: bool,
}

impl Team {
    /// The cookie of a probe for this barrier: `cookie` with the fields that describe the barrier.
    pub fn cookie(self, cookie: Cookie) -> Cookie {
        let [a, b, c, d] = self.displacement.to_le_bytes();
        let (low, high) = (u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d]));
        let mut bits = if self.has_count { HAS_COUNT } else { 0 };
        bits |= if self.ends { ENDS } else { 0 };
        let stack_moved = match self.spilled {
            _ if cookie.layout != layout::STD_INLINED => cookie.stack_moved,
            Some(at) => {
                bits |= SPILLED;
                at.cast_unsigned()
            }
            None => high,
        };
        let on_stack = self.register == arch::ON_STACK;
        bits |= if on_stack { ON_STACK } else { 0 };
        Cookie {
            object: if on_stack { 0 } else { self.register },
            count: bits,
            stack_moved,
            displacement: low,
            ..cookie
        }
    }
}

/// A place where a thread of LLVM's OpenMP arrives at a barrier of its team.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kmp {
    /// The register that holds the thread's number, numbered as in [`Team`].
    pub register: u8,
    /// Whether the return address is found from the frame pointer; otherwise from the stack pointer.
    pub from_frame: bool,
    /// Whether nothing shows when the thread leaves.
    pub passes: bool,
    /// Whether a parallel region ends there.
    pub ends: bool,
    /// How the thread's team is found.
    pub way: sbt_common::Kmp,
}
