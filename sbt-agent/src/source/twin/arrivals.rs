//! Programs for arrivals at barriers and uses of condition variables: which object, how many
//! threads, and which callers.

use sbt_common::{
    Arrive, Condvar, Cookie, ENDS, Kmp, Memory, Outer, STEPPED, evidence, kind, kmp, layout, team,
};

use super::{
    Hit, Machine, Programs,
    tell::{self, head, low},
    walk,
};
use sbt_program::runtimes::{self, Object};

/// How many barriers' counts are kept at most.
const MOST_COUNTS: usize = 65_536;

/// The caller of a function, as far as known.
#[derive(Clone, Copy)]
struct Caller {
    /// Where on the stack the return address lies.
    at: u64,
    /// The return address.
    address: u64,
    /// rbp at that time; 0 if not known.
    rbp: u64,
}

/// A barrier that a thread has come to.
struct Arrival {
    cookie: Cookie,
    object: u64,
    detail: u16,
}

impl Programs {
    pub(super) fn arrive(&mut self, cookie: Cookie, hit: &mut Hit<'_, impl Machine>) {
        let registers = hit.machine.registers();
        let at = registers
            .stack()
            .wrapping_add(u64::from(cookie.stack_moved));
        // A barrier that the user has named may be built on one of the C library.
        if hit.slot.is_in_call(at, hit.machine) {
            return;
        }
        let object = registers.numbered(1);
        hit.slot.enter();
        hit.slot.returns.push(at);
        self.remember(cookie.layout, object, hit);
        let caller = Caller {
            at,
            address: hit.machine.word(at),
            rbp: registers.frame(),
        };
        let arrival = Arrival {
            cookie,
            object,
            detail: 0,
        };
        self.tell_arrival(&arrival, caller, hit);
    }

    /// Emits what the memory of a C library's barrier holds.
    fn remember(&self, layout: u8, object: u64, hit: &mut Hit<'_, impl Machine>) {
        let Some(read) = runtimes::of(layout).and_then(|runtime| runtime.object) else {
            return;
        };
        let Object {
            count,
            round,
            arrived,
            shared,
        } = hit
            .machine
            .halves(object)
            .map_or_else(Object::default, read);
        let kept = self.counts.get(&(hit.slot.space, object));
        let count = kept.copied().unwrap_or(count);
        // Without its round, a barrier of glibc is like one of musl.
        let layout = if self.reads_late {
            layout::MUSL
        } else {
            layout
        };
        hit.slot.has_read(layout, object);
        hit.out.push(&Memory {
            head: head(kind::MEMORY, layout, hit.slot.tid, u16::from(shared)),
            time_ns: hit.now.time_ns,
            object,
            seq: hit.slot.next_seq(),
            count,
            round,
            arrived,
        });
    }

    /// Keeps the count that a barrier is initialised with, if its memory will be read late.
    pub(super) fn keep_count(&mut self, hit: &Hit<'_, impl Machine>) {
        let registers = hit.machine.registers();
        let count = low(registers.numbered(3));
        if !self.reads_late || count == 0 {
            return;
        }
        if self.counts.len() >= MOST_COUNTS {
            self.counts.clear();
        }
        let at = (hit.slot.space, registers.numbered(1));
        self.counts.insert(at, count);
    }

    fn tell_arrival(&mut self, arrival: &Arrival, caller: Caller, hit: &mut Hit<'_, impl Machine>) {
        let (caller, epoch) = self.callers(caller, hit);
        let stepped = if arrival.cookie.stepped { STEPPED } else { 0 };
        let detail = arrival.detail | stepped;
        let seq = hit.counted();
        hit.out.push(&Arrive {
            head: head(kind::ARRIVE, arrival.cookie.layout, hit.slot.tid, detail),
            clocks: hit.now,
            object: arrival.object,
            caller,
            seq,
            epoch,
        });
    }

    fn callers(&mut self, caller: Caller, hit: &mut Hit<'_, impl Machine>) -> (u64, u32) {
        let Caller { at, address, rbp } = caller;
        let from = walk::From { at, address, rbp };
        self.walks.callers(&from, hit)
    }

    pub(super) fn call(&mut self, cookie: Cookie, hit: &mut Hit<'_, impl Machine>) {
        let registers = hit.machine.registers();
        let at = registers
            .stack()
            .wrapping_add(u64::from(cookie.stack_moved));
        if !hit.slot.calls_anew(at) && hit.slot.is_in_call(at, hit.machine) {
            return;
        }
        let caller = Caller {
            at,
            address: hit.machine.word(at),
            rbp: registers.frame(),
        };
        hit.slot.enter_call(at, caller.address);
        // If the user has named no object, the function is the barrier.
        let object = match cookie.object {
            0 => registers.at(),
            7.. => hit
                .machine
                .word(at.wrapping_add(8 * u64::from(cookie.object - 6))),
            number => registers.numbered(number),
        };
        if cookie.count != 0 {
            let count = registers.numbered(cookie.count);
            tell::count(cookie.layout, object, (low(count), 0), hit);
        }
        if cookie.layout == layout::MPI && !self.reads_late {
            tell::communicator(object, &mut self.mpi, hit);
        }
        let arrival = Arrival {
            cookie,
            object,
            detail: 0,
        };
        self.tell_arrival(&arrival, caller, hit);
    }

    pub(super) fn team(&mut self, cookie: Cookie, hit: &mut Hit<'_, impl Machine>) {
        let registers = hit.machine.registers();
        let inlined = cookie.layout == layout::STD_INLINED;
        let spilled = cookie.count & team::SPILLED != 0;
        let held = match (cookie.object, spilled) {
            (0, true) => registers.stack(),
            (0, false) => registers.at(),
            (number, _) => registers.numbered(number),
        };
        let base = if spilled {
            let above = i64::from(cookie.stack_moved.cast_signed());
            hit.machine.word(held.wrapping_add_signed(above))
        } else if cookie.layout == layout::STD_POINTED {
            hit.machine.word(held)
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
            hit.machine.halves(object).unwrap_or([0, 0])
        };
        let (at, address) = if inlined {
            // As if the inlined function had been called.
            let returns_to = registers.at().wrapping_add(u64::from(Cookie::CALL));
            (registers.stack().wrapping_sub(8), returns_to)
        } else {
            let at = registers
                .stack()
                .wrapping_add(u64::from(cookie.stack_moved));
            (at, hit.machine.word(at))
        };
        // The runtime's own code may have changed rbp meanwhile.
        let rbp = if cookie.layout == layout::GOMP {
            0
        } else {
            registers.frame()
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
        self.come(&arrival, (count, round), (at, caller), hit);
    }

    /// A thread comes to a barrier of a team. `at` is where its return address lies on the stack;
    /// `caller` is the caller in the program. Returns whether this is an arrival.
    fn come(
        &mut self,
        arrival: &Arrival,
        (count, round): (u32, u32),
        (at, caller): (u64, Caller),
        hit: &mut Hit<'_, impl Machine>,
    ) -> bool {
        // A single thread waits for nobody.
        if count == 1 {
            hit.slot.comes_alone();
            return false;
        }
        if hit.slot.is_in_call(at, hit.machine) {
            return false;
        }
        hit.slot.enter();
        if count != 0 {
            // If memory is read late, the round belongs to a later arrival.
            let layout = if self.reads_late {
                layout::OPAQUE
            } else {
                arrival.cookie.layout
            };
            hit.slot.has_read(layout, arrival.object);
            tell::count(layout, arrival.object, (count, round), hit);
        }
        self.tell_arrival(arrival, caller, hit);
        true
    }

    pub(super) fn kmp(&mut self, cookie: Cookie, hit: &mut Hit<'_, impl Machine>) {
        let Some(way) = self.kmp.get(usize::from(cookie.displacement)).copied() else {
            return;
        };
        let registers = hit.machine.registers();
        let number = u64::from(low(registers.numbered(cookie.object)));
        let threads = hit
            .machine
            .word(registers.at().wrapping_add_signed(i64::from(way.threads)));
        let thread = hit.machine.word(threads.wrapping_add(number * 8));
        let team = hit.machine.word(thread.wrapping_add(u64::from(way.team)));
        if team == 0 {
            return;
        }
        let [count] = hit
            .machine
            .halves(team.wrapping_add(u64::from(way.count)))
            .unwrap_or([0]);
        let base = if cookie.count & kmp::FRAME != 0 {
            registers.frame()
        } else {
            registers.stack()
        };
        let at = base.wrapping_add(u64::from(cookie.stack_moved));
        let caller = outer(&way, hit.machine, at);
        let arrival = Arrival {
            cookie,
            object: team,
            detail: if cookie.count & kmp::ENDS != 0 {
                ENDS
            } else {
                0
            },
        };
        let round = tell::rounds(team, hit.machine).unwrap_or(0);
        let counts = self.come(&arrival, (count, round), (at, caller), hit);
        if counts && cookie.count & kmp::PASSES != 0 {
            hit.slot.pass();
        }
    }

    pub(super) fn condvar(&mut self, cookie: Cookie, hit: &mut Hit<'_, impl Machine>) {
        let registers = hit.machine.registers();
        let at = registers
            .stack()
            .wrapping_add(u64::from(cookie.stack_moved));
        // Condition variables inside of a barrier that the user has named do not count.
        if hit.slot.is_in_call(at, hit.machine) {
            return;
        }
        let caller = Caller {
            at,
            address: hit.machine.word(at),
            rbp: registers.frame(),
        };
        let (caller, epoch) = self.callers(caller, hit);
        let seq = hit.counted();
        hit.out.push(&Condvar {
            head: head(cookie.layout, cookie.count, hit.slot.tid, evidence::CONDVAR),
            clocks: hit.now,
            object: registers.numbered(1),
            caller,
            seq,
            epoch,
        });
    }
}

/// The caller in the program of LLVM's runtime. `at` is where the innermost return address lies on
/// the stack.
fn outer(way: &Kmp, machine: &impl Machine, at: u64) -> Caller {
    let registers = machine.registers();
    let address = machine.word(at);
    let known = way.outer.iter().take_while(|outer| outer.returns != 0);
    let returns =
        |outer: &&Outer| registers.at().wrapping_add_signed(i64::from(outer.returns)) == address;
    // The caller's rbp is not known.
    let rbp = 0;
    let Some(found) = known.into_iter().find(returns) else {
        return Caller { at, address, rbp };
    };
    let at = match found.above {
        kmp::SAVED => machine.word(at.wrapping_sub(8)).wrapping_add(8),
        kmp::HELD => registers.frame().wrapping_add(8),
        above => at.wrapping_add(u64::from(above)),
    };
    Caller {
        at,
        address: machine.word(at),
        rbp,
    }
}
