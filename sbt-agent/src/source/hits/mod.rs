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

mod records;
mod slot;
mod walk;

use sbt_common::{
    Arrive, Clocks, Condvar, Cookie, Depart, ENDS, Head, Init, Kmp, Mapping, MarkCookie, Memory,
    STEPPED, evidence, kind, kmp, layout, team,
};
use serde::{Deserialize, Serialize};

pub use records::{Records, each};
pub use slot::{Slot, Told};
pub use walk::Walks;

use crate::target::{
    elf::{Function, Point},
    trace::Registers,
};

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
    /// is another one.
    pub reads_late: bool,
}

/// Who has called, and what is known of it.
#[derive(Clone, Copy)]
struct Caller {
    /// Where on the stack the return address lies.
    at: u64,
    /// That address.
    address: u64,
    /// rbp at that time, or 0.
    rbp: u64,
}

/// What a thread has come to.
struct Arrival {
    cookie: Cookie,
    object: u64,
    detail: u16,
}

impl Programs {
    /// Runs a program for a hit. `cookie`: what the probe tells it; `now`: when it was hit.
    pub fn run(
        &mut self,
        (program, cookie): (Program, u64),
        machine: &impl Machine,
        slot: &mut Slot,
        now: Clocks,
        out: &mut Records,
    ) {
        slot.announce(now, out);
        let unpacked = Cookie::unpack(cookie);
        match program {
            Program::Arrive => self.arrive(unpacked, machine, slot, now, out),
            Program::Team => self.team(unpacked, machine, slot, now, out),
            Program::Kmp => self.kmp(unpacked, machine, slot, now, out),
            Program::Condvar => self.condvar(unpacked, machine, slot, now, out),
            Program::Call => self.call(unpacked, machine, slot, now, out),
            Program::CallExit => {
                let at = machine.registers().rsp;
                if slot.ends_call(at) && slot.leave_from(at) {
                    tell_clocks(kind::DEPART, 0, slot, now, 0, out);
                }
            }
            Program::Mark => mark(MarkCookie::unpack(cookie), machine, slot, now, out),
            Program::Init => init(machine, slot, now, out),
            Program::Mapped => {
                self.walks.renew();
                tell_mapping(kind::MAPPED, false, 0, slot, now, out);
            }
            Program::Leave => slot.returns.push(machine.registers().rsp),
            Program::Return => {
                let at = machine.registers().rsp.wrapping_sub(8);
                if slot.returns_from(at) && slot.leave_from(at) {
                    tell_clocks(kind::DEPART, 0, slot, now, 0, out);
                }
            }
        }
    }

    fn arrive(
        &mut self,
        cookie: Cookie,
        machine: &impl Machine,
        slot: &mut Slot,
        now: Clocks,
        out: &mut Records,
    ) {
        let registers = machine.registers();
        let at = registers.rsp.wrapping_add(u64::from(cookie.stack_moved));
        // A barrier of the user's own may be built on one of the C library's.
        if slot.is_in_call(at, machine) {
            return;
        }
        let object = registers.rdi;
        slot.enter();
        slot.returns.push(at);
        self.remember(cookie.layout, object, machine, slot, now, out);
        let caller = Caller {
            at,
            address: machine.word(at),
            rbp: registers.rbp,
        };
        let arrival = Arrival {
            cookie,
            object,
            detail: 0,
        };
        self.tell_arrival(&arrival, caller, machine, slot, now, out);
    }

    /// Sends what a barrier of a C library holds.
    fn remember(
        &self,
        layout: u8,
        object: u64,
        machine: &impl Machine,
        slot: &mut Slot,
        now: Clocks,
        out: &mut Records,
    ) {
        let (count, round, arrived, shared) = match layout {
            layout::GLIBC => machine
                .halves(object)
                .map_or((0, 0, 0, false), |[arrived, round, count, shared]| {
                    (count, round, arrived, shared != 0)
                }),
            layout::MUSL => machine
                .halves(object)
                .map_or((0, 0, 0, false), |[_, _, limit]: [u32; 3]| {
                    ((limit & 0x7fff_ffff) + 1, 0, 0, limit >> 31 != 0)
                }),
            _ => return,
        };
        // Without its round it is as one of musl's.
        let layout = if self.reads_late {
            layout::MUSL
        } else {
            layout
        };
        slot.has_read(layout, object);
        out.push(&Memory {
            head: head(kind::MEMORY, layout, slot.tid, u16::from(shared)),
            time_ns: now.time_ns,
            object,
            seq: slot.next_seq(),
            count,
            round,
            arrived,
        });
    }

    fn tell_arrival(
        &mut self,
        arrival: &Arrival,
        caller: Caller,
        machine: &impl Machine,
        slot: &mut Slot,
        now: Clocks,
        out: &mut Records,
    ) {
        let (caller, epoch) = self.callers(caller, machine, slot, now, out);
        let stepped = if arrival.cookie.stepped { STEPPED } else { 0 };
        let detail = arrival.detail | stepped;
        out.push(&Arrive {
            head: head(kind::ARRIVE, arrival.cookie.layout, slot.tid, detail),
            clocks: now,
            object: arrival.object,
            caller,
            seq: slot.next_seq(),
            epoch,
        });
    }

    fn callers(
        &mut self,
        caller: Caller,
        machine: &impl Machine,
        slot: &Slot,
        now: Clocks,
        out: &mut Records,
    ) -> (u64, u32) {
        let Caller { at, address, rbp } = caller;
        let from = walk::From { at, address, rbp };
        self.walks.callers(&from, machine, slot, now.time_ns, out)
    }

    fn call(
        &mut self,
        cookie: Cookie,
        machine: &impl Machine,
        slot: &mut Slot,
        now: Clocks,
        out: &mut Records,
    ) {
        let registers = machine.registers();
        let at = registers.rsp.wrapping_add(u64::from(cookie.stack_moved));
        if !slot.calls_anew(at) && slot.is_in_call(at, machine) {
            return;
        }
        let caller = Caller {
            at,
            address: machine.word(at),
            rbp: registers.rbp,
        };
        slot.enter_call(at, caller.address);
        // Without an object the function is the barrier.
        let object = match cookie.object {
            0 => registers.rip,
            7.. => machine.word(at.wrapping_add(8 * u64::from(cookie.object - 6))),
            number => register(registers, number),
        };
        if cookie.count != 0 {
            let count = register(registers, cookie.count);
            tell_count(cookie.layout, object, (low(count), 0), slot, now, out);
        }
        let arrival = Arrival {
            cookie,
            object,
            detail: 0,
        };
        self.tell_arrival(&arrival, caller, machine, slot, now, out);
    }

    fn team(
        &mut self,
        cookie: Cookie,
        machine: &impl Machine,
        slot: &mut Slot,
        now: Clocks,
        out: &mut Records,
    ) {
        let registers = machine.registers();
        let inlined = cookie.layout == layout::STD_INLINED;
        let spilled = cookie.count & team::SPILLED != 0;
        let held = match (cookie.object, spilled) {
            (0, true) => registers.rsp,
            (0, false) => registers.rip,
            (number, _) => register(registers, number),
        };
        let base = if spilled {
            let above = i64::from(cookie.stack_moved.cast_signed());
            machine.word(held.wrapping_add_signed(above))
        } else if cookie.layout == layout::STD_POINTED {
            machine.word(held)
        } else {
            held
        };
        let above = if inlined && !spilled {
            i64::from(cookie.far())
        } else {
            i64::from(cookie.displacement.cast_signed())
        };
        let object = base.wrapping_add_signed(above);
        let [count, round] = if cookie.count & team::HAS_COUNT == 0 {
            [0, 0]
        } else {
            machine.halves(object).unwrap_or([0, 0])
        };
        let (at, address) = if inlined {
            // As if the call had been made.
            let returns_to = registers.rip.wrapping_add(u64::from(Cookie::CALL));
            (registers.rsp.wrapping_sub(8), returns_to)
        } else {
            let at = registers.rsp.wrapping_add(u64::from(cookie.stack_moved));
            (at, machine.word(at))
        };
        // Where a runtime's own code has run meanwhile it may have used rbp.
        let rbp = if cookie.layout == layout::GOMP {
            0
        } else {
            registers.rbp
        };
        let arrival = Arrival {
            cookie,
            object,
            detail: if cookie.count & team::ENDS != 0 {
                ENDS
            } else {
                0
            },
        };
        let caller = Caller { at, address, rbp };
        self.come(
            &arrival,
            (count, round),
            (at, caller),
            machine,
            slot,
            now,
            out,
        );
    }

    /// A thread comes to a barrier of a team. Where on the stack the address lies to which
    /// it returns, and who in the program has called: whether that counts.
    #[allow(
        clippy::too_many_arguments,
        reason = "what happened, to whom, and where to say it"
    )]
    fn come(
        &mut self,
        arrival: &Arrival,
        (count, round): (u32, u32),
        (at, caller): (u64, Caller),
        machine: &impl Machine,
        slot: &mut Slot,
        now: Clocks,
        out: &mut Records,
    ) -> bool {
        // Alone there is nobody to wait for.
        if count == 1 {
            slot.comes_alone();
            return false;
        }
        if slot.is_in_call(at, machine) {
            return false;
        }
        slot.enter();
        if count != 0 {
            let layout = arrival.cookie.layout;
            slot.has_read(layout, arrival.object);
            tell_count(layout, arrival.object, (count, round), slot, now, out);
        }
        self.tell_arrival(arrival, caller, machine, slot, now, out);
        true
    }

    fn kmp(
        &mut self,
        cookie: Cookie,
        machine: &impl Machine,
        slot: &mut Slot,
        now: Clocks,
        out: &mut Records,
    ) {
        let Some(way) = self.kmp.get(usize::from(cookie.displacement)).copied() else {
            return;
        };
        let registers = machine.registers();
        let number = u64::from(low(register(registers, cookie.object)));
        let threads = machine.word(registers.rip.wrapping_add_signed(i64::from(way.threads)));
        let thread = machine.word(threads.wrapping_add(number * 8));
        let team = machine.word(thread.wrapping_add(u64::from(way.team)));
        if team == 0 {
            return;
        }
        let [count] = machine
            .halves(team.wrapping_add(u64::from(way.count)))
            .unwrap_or([0]);
        let base = if cookie.count & kmp::FRAME != 0 {
            registers.rbp
        } else {
            registers.rsp
        };
        let at = base.wrapping_add(u64::from(cookie.stack_moved));
        let caller = outer(&way, machine, at);
        let arrival = Arrival {
            cookie,
            object: team,
            detail: if cookie.count & kmp::ENDS != 0 {
                ENDS
            } else {
                0
            },
        };
        let counts = self.come(&arrival, (count, 0), (at, caller), machine, slot, now, out);
        if counts && cookie.count & kmp::PASSES != 0 {
            slot.pass();
        }
    }

    fn condvar(
        &mut self,
        cookie: Cookie,
        machine: &impl Machine,
        slot: &mut Slot,
        now: Clocks,
        out: &mut Records,
    ) {
        let registers = machine.registers();
        let at = registers.rsp.wrapping_add(u64::from(cookie.stack_moved));
        // What a barrier of the user's own is built on does not count.
        if slot.is_in_call(at, machine) {
            return;
        }
        let caller = Caller {
            at,
            address: machine.word(at),
            rbp: registers.rbp,
        };
        let (caller, epoch) = self.callers(caller, machine, slot, now, out);
        out.push(&Condvar {
            head: head(cookie.layout, cookie.count, slot.tid, evidence::CONDVAR),
            clocks: now,
            object: registers.rdi,
            caller,
            seq: slot.next_seq(),
            epoch,
        });
    }
}

/// Who in the program has called LLVM's runtime, of which the innermost return address
/// lies at `at`.
fn outer(way: &Kmp, machine: &impl Machine, at: u64) -> Caller {
    let registers = machine.registers();
    let address = machine.word(at);
    let known = way.outer.iter().take_while(|outer| outer.returns != 0);
    let returns = |outer: &&sbt_common::Outer| {
        registers.rip.wrapping_add_signed(i64::from(outer.returns)) == address
    };
    // What rbp was then is not known.
    let rbp = 0;
    let Some(found) = known.into_iter().find(returns) else {
        return Caller { at, address, rbp };
    };
    let at = match found.above {
        kmp::SAVED => machine.word(at.wrapping_sub(8)).wrapping_add(8),
        kmp::HELD => registers.rbp.wrapping_add(8),
        above => at.wrapping_add(u64::from(above)),
    };
    Caller {
        at,
        address: machine.word(at),
        rbp,
    }
}

fn mark(
    cookie: MarkCookie,
    machine: &impl Machine,
    slot: &mut Slot,
    now: Clocks,
    out: &mut Records,
) {
    let mut mark = u32::from(cookie.mark);
    if cookie.mark == MarkCookie::REGION {
        mark |= low(machine.registers().rsp >> 3) << 8;
    }
    let detail = if cookie.stepped { STEPPED } else { 0 };
    tell_clocks(kind::MARK, detail, slot, now, mark, out);
}

fn init(machine: &impl Machine, slot: &mut Slot, now: Clocks, out: &mut Records) {
    let registers = machine.registers();
    // See there.
    let attributes = registers.rsi;
    let shared = attributes != 0 && low(machine.word(attributes)) != 0;
    out.push(&Init {
        head: head(kind::INIT, 0, slot.tid, u16::from(shared)),
        time_ns: now.time_ns,
        object: registers.rdi,
        seq: slot.next_seq(),
        count: low(registers.rdx),
    });
}

const fn head(kind: u8, layout: u8, tid: u32, detail: u16) -> Head {
    Head {
        kind,
        layout,
        detail,
        tid,
    }
}

/// The lower half.
#[allow(clippy::cast_possible_truncation, reason = "that is what is asked for")]
const fn low(value: u64) -> u32 {
    value as u32
}

/// Sends for how many threads a barrier is, and its round.
fn tell_count(
    layout: u8,
    object: u64,
    (count, round): (u32, u32),
    slot: &mut Slot,
    now: Clocks,
    out: &mut Records,
) {
    out.push(&Memory {
        head: head(kind::MEMORY, layout, slot.tid, 0),
        time_ns: now.time_ns,
        object,
        seq: slot.next_seq(),
        count,
        round,
        arrived: 0,
    });
}

/// Sends where a thread stands. `mark`: see [`Depart::mark`].
fn tell_clocks(kind: u8, detail: u16, slot: &mut Slot, now: Clocks, mark: u32, out: &mut Records) {
    out.push(&Depart {
        head: head(kind, 0, slot.tid, detail),
        clocks: now,
        seq: slot.next_seq(),
        mark,
    });
}

/// Sends that something about a process's memory or its life has changed. `flag`: see
/// [`Head::layout`]; `child`: see [`Mapping::child`].
pub fn tell_mapping(kind: u8, flag: bool, child: u32, slot: &Slot, now: Clocks, out: &mut Records) {
    out.push(&Mapping {
        head: head(kind, u8::from(flag), slot.tid, 0),
        time_ns: now.time_ns,
        ns_tgid: slot.process,
        child,
    });
}

/// A thread ends: what it knows of barriers' rounds, and its clocks for the last time.
pub fn tell_end(machine: &impl Machine, slot: &mut Slot, now: Clocks, out: &mut Records) {
    // Once more with its name, which it may have changed meanwhile.
    slot.announced = false;
    slot.announce(now, out);
    for (layout, object) in slot.take_read() {
        let Some([first, second, third]) = machine.halves(object) else {
            continue;
        };
        let (count, round, arrived) = match layout {
            layout::GLIBC => (third, second, first),
            layout::GOMP => (first, second, 0),
            _ => continue,
        };
        out.push(&Memory {
            head: head(kind::MEMORY, layout, slot.tid, 0),
            time_ns: now.time_ns,
            object,
            seq: slot.next_seq(),
            count,
            round,
            arrived,
        });
    }
    tell_clocks(kind::EXIT, 0, slot, now, 0, out);
}

/// What a register holds; for the numbers see [`Cookie::object`].
const fn register(registers: &Registers, number: u8) -> u64 {
    match number {
        1 => registers.rdi,
        2 => registers.rsi,
        3 => registers.rdx,
        4 => registers.rcx,
        5 => registers.r8,
        6 => registers.r9,
        7 => registers.rax,
        8 => registers.rbx,
        9 => registers.rbp,
        10 => registers.r10,
        11 => registers.r11,
        12 => registers.r12,
        13 => registers.r13,
        14 => registers.r14,
        15 => registers.r15,
        _ => registers.rip,
    }
}

#[cfg(test)]
mod tests;
