//! The logic of the BPF programs in user space, for sources that learn of hits outside of the
//! kernel.
//!
//! This code makes the same records as the programs of `sbt-ebpf`, so all that follows is the same
//! for every source. Which words of memory say what is decided in `sbt-common`, for both. A [`Slot`] keeps what the BPF programs keep of a thread. [`Machine`] gives
//! what a hit needs of the thread: registers and memory.
//!
//! Two things differ. An object's memory is read at each arrival, since the hit costs much more
//! than that; it is told as seldom as there, and when it is not as expected. And there are no return
//! probes: the place after the call is watched where it is known, and the slot knows where on its stack a thread waits to return: [`Slot::returns`].

mod arrivals;
mod make;
mod places;
mod records;
mod slot;
mod tell;
mod walk;

use rustc_hash::FxHashMap;
use sbt_common::{Clocks, Cookie, Kmp, MarkCookie, Mpi, Reader, kind, layout};
use serde::{Deserialize, Serialize};

pub use places::{ProgramPlace, places};
pub use records::{Records, each};
pub use slot::{Announcement, Slot};
pub use tell::{end as tell_end, head, mapping as tell_mapping};
pub use walk::Walks;

use sbt_program::{
    arch::Registers,
    point::{Function, Point},
};

/// Whether a barrier's own count tells how often threads come to this place.
pub fn is_counted(program: Program, cookie: u64) -> bool {
    program == Program::Arrive && Cookie::unpack(cookie).layout == layout::GLIBC
}

/// The program that runs at a hit of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Program {
    /// `pthread_barrier_wait` is entered.
    Arrive,
    /// A thread comes to a barrier of a team.
    Team,
    /// A thread comes to a barrier of a team of LLVM's OpenMP.
    Kmp,
    /// A function of condition variables is entered.
    Condvar,
    /// A function is entered that the user has named as a barrier.
    Call,
    /// A thread reaches an instruction that ends a function that the user has named as a barrier.
    CallExit,
    /// A marked place is passed, or a parallel region begins.
    Mark,
    /// `pthread_barrier_init` is entered.
    Init,
    /// The dynamic linker's list of libraries has changed.
    Mapped,
    /// A function is entered that is the last a thread leaves at a barrier.
    Leave,
    /// A thread returns from the function that is the last it leaves at a barrier.
    Return,
    /// A thread has left a barrier that is part of a larger function.
    Left,
    /// A thread enters a function of MPI that makes or ends a communicator or a group.
    Make,
    /// A thread reaches an instruction that ends a function of MPI that makes or ends a communicator or a
    /// group.
    Made,
}

impl Program {
    /// The programs for a function.
    pub fn of(function: Function) -> &'static [Self] {
        match function {
            Function::BarrierWait => &[Self::Arrive],
            Function::BarrierInit => &[Self::Init],
            Function::CondWait | Function::CondWake { .. } => &[Self::Condvar],
            Function::LinkerMapped => &[Self::Mapped],
            Function::Mark(_) | Function::Region | Function::Awaits => &[Self::Mark],
            Function::Call { .. } => &[Self::Call],
            Function::CallExit => &[Self::CallExit],
            Function::Team(_) => &[Self::Team],
            Function::Kmp(_) => &[Self::Kmp],
            Function::TeamEnd => &[Self::Leave],
            Function::Left => &[Self::Left],
            Function::Make { .. } => &[Self::Make],
            Function::Made => &[Self::Made],
        }
    }

    /// Whether the program is needed only while departures are watched.
    pub fn is_for_departures(self, point: &Point) -> bool {
        self == Self::Leave || point.function == Function::Region
    }
}

/// A thread that has hit a place, as the programs see it.
pub trait Machine {
    /// The thread's registers, with the instruction pointer at the place.
    fn registers(&self) -> &Registers;

    /// Copies from the thread's memory. False if not all bytes could be read.
    fn read(&self, address: u64, bytes: &mut [u8]) -> bool;

    /// Emits the thread's counters for the record with number `_seq`, which follows.
    fn tell_counters(&self, _seq: u32, _time_ns: u64, _out: &mut Records) {}

    /// The 64-bit word at an address; 0 if it cannot be read.
    fn word(&self, address: u64) -> u64 {
        let mut bytes = [0; 8];
        if self.read(address, &mut bytes) {
            u64::from_ne_bytes(bytes)
        } else {
            0
        }
    }
}

/// A [`Machine`], as the logic that is shared with the BPF programs sees it.
struct Own<'a, M>(&'a M);

impl<M: Machine> Reader for Own<'_, M> {
    fn try_halves<const N: usize>(&self, address: u64) -> Option<[u32; N]> {
        let mut bytes = [[0; 4]; N];
        self.0
            .read(address, bytes.as_flattened_mut())
            .then(|| bytes.map(u32::from_ne_bytes))
    }

    fn word(&self, address: u64) -> u64 {
        self.0.word(address)
    }
}

impl<M: Machine> sbt_common::Registers for Own<'_, M> {
    fn rip(&self) -> u64 {
        self.0.registers().at()
    }

    fn rsp(&self) -> u64 {
        self.0.registers().stack()
    }

    fn rbp(&self) -> u64 {
        self.0.registers().frame()
    }

    fn numbered(&self, number: u8) -> u64 {
        self.0.registers().numbered(number)
    }
}

/// The state of the programs that does not belong to one thread.
#[derive(Debug, Default)]
pub struct Programs {
    /// Ways to the teams of LLVM's OpenMP, by index.
    pub kmp: Vec<Kmp>,
    /// Finds the callers of functions.
    pub walks: Walks,
    /// Whether a barrier's memory is read long after the hit: then its round, and perhaps its
    /// count, are later ones.
    pub reads_late: bool,
    /// Changes when what threads remember of barrier objects may be wrong.
    trust: u64,
    /// Where Open MPI's memory holds the number of a communicator, once known.
    mpi: Option<Mpi>,
    /// What barriers were initialised with, if memory is read late, by memory and
    /// address of the barrier.
    counts: FxHashMap<(u32, u64), arrivals::Kept>,
}

/// A thread that has hit a place, and where its records go.
pub struct Hit<'a, M> {
    /// The thread's registers and memory.
    pub machine: &'a M,
    /// The thread's state.
    pub slot: &'a mut Slot,
    /// The thread's clocks at the hit.
    pub now: Clocks,
    /// Where records are appended.
    pub out: &'a mut Records,
}

impl<M: Machine> Hit<'_, M> {
    /// The number of the next record, for which counters have been emitted.
    fn counted(&mut self) -> u32 {
        let seq = self.slot.next_seq();
        let time_ns = self.now.time_ns;
        self.machine.tell_counters(seq, time_ns, self.out);
        seq
    }
}

impl Programs {
    /// Makes programs for sources that learn of hits long after: see [`Programs::reads_late`].
    pub fn reading_late() -> Self {
        Self {
            reads_late: true,
            ..Self::default()
        }
    }

    /// Makes all threads forget what they remember of barrier objects: records were lost, or an object
    /// is made anew.
    pub const fn distrust(&mut self) {
        self.trust = self.trust.wrapping_add(1);
    }

    /// Runs a program for a hit, with its cookie.
    pub fn run(&mut self, (program, cookie): (Program, u64), hit: &mut Hit<'_, impl Machine>) {
        hit.slot.announce(hit.now, hit.out);
        let at = hit.machine.registers().stack();
        let unpacked = Cookie::unpack(cookie);
        match program {
            Program::Arrive => self.arrive(unpacked, hit),
            Program::Team => self.team(unpacked, hit),
            Program::Kmp => self.kmp(unpacked, hit),
            Program::Condvar => self.condvar(unpacked, hit),
            Program::Call => self.call(unpacked, hit),
            Program::CallExit => {
                if hit.slot.stay.ends_call(at) && hit.slot.stay.leave_from(at) {
                    tell::clocks(kind::DEPART, 0, 0, hit);
                }
            }
            Program::Make => make::make(unpacked, hit),
            Program::Made => make::made(hit),
            Program::Mark => tell::mark(MarkCookie::unpack(cookie), hit),
            Program::Init => {
                self.distrust();
                self.keep_count(hit);
                tell::init(hit);
            }
            Program::Mapped => {
                self.walks.renew();
                tell_mapping(kind::MAPPED, false, 0, hit.slot, hit.now, hit.out);
            }
            Program::Leave => hit.slot.returns.push(at),
            Program::Left => {
                if hit.slot.stay.leave_from(at.wrapping_sub(8)) {
                    tell::clocks(kind::DEPART, 0, 0, hit);
                }
            }
            Program::Return => {
                let at = at.wrapping_sub(8);
                if hit.slot.returns_from(at) && hit.slot.stay.leave_from(at) {
                    tell::clocks(kind::DEPART, 0, 0, hit);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
