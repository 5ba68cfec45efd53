//! What is to be told of a hit, for sources that learn of hits outside of the kernel.
//!
//! The same as the programs of `sbt-ebpf` do, with the same records: so all that follows
//! is the same, whoever saw the hit. A thread's [`Slot`] keeps what theirs keeps, and what
//! a hit needs of the thread is behind [`Machine`]: registers, memory.
//!
//! What is different: an object's memory is read at each arrival, since the hit costs so
//! much more than that; and there are no return probes. In their place the way back is
//! probed where it is known, and the slot knows where on its stack a thread waits to
//! return: [`Slot::returns`].

mod arrivals;
mod places;
mod records;
mod slot;
mod tell;
mod walk;

use rustc_hash::FxHashMap;
use sbt_common::{Clocks, Cookie, Kmp, MarkCookie, Mpi, kind, layout};
use serde::{Deserialize, Serialize};

pub use places::{Place, places};
pub use records::{Records, each};
pub use slot::{Slot, Told};
pub use tell::{end as tell_end, head, mapping as tell_mapping};
pub use walk::Walks;

use sbt_program::{
    point::{Function, Point},
    trace::Registers,
};

/// Whether a barrier counts by itself how often threads come to such a place.
pub fn is_counted(program: Program, cookie: u64) -> bool {
    program == Program::Arrive && Cookie::unpack(cookie).layout == layout::GLIBC
}

/// What is done at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Program {
    /// `pthread_barrier_wait` is entered.
    Arrive,
    /// A barrier of a team.
    Team,
    /// The same in LLVM's OpenMP.
    Kmp,
    /// A function of condition variables is entered.
    Condvar,
    /// A function that is a barrier to the user.
    Call,
    /// An instruction that ends it.
    CallExit,
    /// A marked place, or the beginning of a parallel region.
    Mark,
    /// `pthread_barrier_init` is entered.
    Init,
    /// The list of libraries has changed.
    Mapped,
    /// A function is entered that a thread leaves last when it leaves a barrier.
    Leave,
    /// A place to which such a function returns.
    Return,
}

impl Program {
    /// Those of a function, on its entry; what is on its return first.
    pub fn of(function: Function) -> &'static [Self] {
        match function {
            Function::BarrierWait => &[Self::Arrive],
            Function::BarrierInit => &[Self::Init],
            Function::CondWait | Function::CondWake { .. } => &[Self::Condvar],
            Function::LinkerMapped => &[Self::Mapped],
            Function::Mark(_) | Function::Region => &[Self::Mark],
            Function::Call { .. } => &[Self::Call],
            Function::CallExit => &[Self::CallExit],
            Function::Team(_) => &[Self::Team],
            Function::Kmp(_) => &[Self::Kmp],
            Function::TeamEnd => &[Self::Leave],
        }
    }

    /// Whether it is needed only while departures are watched.
    pub fn is_for_departures(self, point: &Point) -> bool {
        self == Self::Leave || point.function == Function::Region
    }
}

/// A thread that has hit something, as far as programs look at it.
pub trait Machine {
    /// Its registers, the instruction pointer on the place that was hit.
    fn registers(&self) -> &Registers;

    /// Copies from its memory; false if not all of it could be read.
    fn read(&self, address: u64, bytes: &mut [u8]) -> bool;

    /// Says what has been counted of it, before the record of a number.
    fn tell_counters(&self, _seq: u32, _time_ns: u64, _out: &mut Records) {}

    /// What its memory holds there; 0 if it cannot be read.
    fn word(&self, address: u64) -> u64 {
        let mut bytes = [0; 8];
        if self.read(address, &mut bytes) {
            u64::from_ne_bytes(bytes)
        } else {
            0
        }
    }

    /// So many words of 32 bits.
    fn halves<const N: usize>(&self, address: u64) -> Option<[u32; N]>
    where
        Self: Sized,
    {
        let mut bytes = [[0; 4]; N];
        self.read(address, bytes.as_flattened_mut())
            .then(|| bytes.map(u32::from_ne_bytes))
    }
}

/// What programs know beside the thread.
#[derive(Debug, Default)]
pub struct Programs {
    /// Ways to the teams of LLVM's OpenMP, by number.
    pub kmp: Vec<Kmp>,
    /// How callers are found.
    pub walks: Walks,
    /// Whether a barrier's memory is read long after the hit: the round that it shows then
    /// is another one, and so may be the count.
    pub reads_late: bool,
    /// Where it stands in the memory of Open MPI which communicator is meant.
    mpi: Option<Mpi>,
    /// For how many threads barriers were initialised, where memory is read late: by memory
    /// and address.
    counts: FxHashMap<(u32, u64), u32>,
}

/// A thread that has hit something, and where to say what it did.
pub struct Hit<'a, M> {
    /// As far as programs look at it.
    pub machine: &'a M,
    /// What is kept of it.
    pub slot: &'a mut Slot,
    /// When it was hit.
    pub now: Clocks,
    /// Where it is said.
    pub out: &'a mut Records,
}

impl<M: Machine> Hit<'_, M> {
    /// The number of the record that follows, for which counters have been told of.
    fn counted(&mut self) -> u32 {
        let seq = self.slot.next_seq();
        let time_ns = self.now.time_ns;
        self.machine.tell_counters(seq, time_ns, self.out);
        seq
    }
}

impl Programs {
    /// For hits of which one learns long after: see [`Programs::reads_late`].
    pub fn reading_late() -> Self {
        Self {
            reads_late: true,
            ..Self::default()
        }
    }

    /// Runs a program for a hit. `cookie`: what the probe tells it.
    pub fn run(&mut self, (program, cookie): (Program, u64), hit: &mut Hit<'_, impl Machine>) {
        hit.slot.announce(hit.now, hit.out);
        let at = hit.machine.registers().rsp;
        let unpacked = Cookie::unpack(cookie);
        match program {
            Program::Arrive => self.arrive(unpacked, hit),
            Program::Team => self.team(unpacked, hit),
            Program::Kmp => self.kmp(unpacked, hit),
            Program::Condvar => self.condvar(unpacked, hit),
            Program::Call => self.call(unpacked, hit),
            Program::CallExit => {
                if hit.slot.ends_call(at) && hit.slot.leave_from(at) {
                    tell::clocks(kind::DEPART, 0, 0, hit);
                }
            }
            Program::Mark => tell::mark(MarkCookie::unpack(cookie), hit),
            Program::Init => {
                self.keep_count(hit);
                tell::init(hit);
            }
            Program::Mapped => {
                self.walks.renew();
                tell_mapping(kind::MAPPED, false, 0, hit.slot, hit.now, hit.out);
            }
            Program::Leave => hit.slot.returns.push(at),
            Program::Return => {
                let at = at.wrapping_sub(8);
                if hit.slot.returns_from(at) && hit.slot.leave_from(at) {
                    tell::clocks(kind::DEPART, 0, 0, hit);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
