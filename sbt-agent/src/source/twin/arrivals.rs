//! Programs for arrivals at barriers and uses of condition variables: which object, how many
//! threads, and which callers.

use sbt_common::{
    Arrive, Caller, Condvar, Cookie, ENDS, Held, Memory, Registers as _, TeamHit, collective,
    evidence, kind, kmp, layout, stepped, team, team_count,
};

use super::{
    Hit, Machine, Own, Programs,
    slot::Reading,
    tell::{self, head, low},
};

/// The largest number of barriers' counts that are kept.
const MOST_COUNTS: usize = 65_536;

/// The arguments with which a barrier was initialised.
#[derive(Debug)]
pub(super) struct Kept {
    count: u32,
    /// Whether attributes were given, which may say that processes share the barrier.
    may_be_shared: bool,
}

/// A barrier that a thread has come to.
struct Arrival {
    cookie: Cookie,
    object: u64,
    detail: u16,
}

impl Programs {
    pub(super) fn arrive(&mut self, cookie: Cookie, hit: &mut Hit<'_, impl Machine>) {
        let object = hit.machine.registers().numbered(1);
        let at = cookie.returns_at(&Own(hit.machine));
        // A barrier that the user has named may be built on one of the C library.
        if hit.slot.stay.is_in_call(at, &Own(hit.machine)) {
            return;
        }
        hit.slot.stay.enter();
        hit.slot.returns.push(at);
        self.remember(cookie.layout, object, hit);
        let caller = caller(at, hit.machine);
        let arrival = Arrival {
            cookie,
            object,
            detail: collective(cookie.displacement),
        };
        self.tell_arrival(&arrival, caller, hit);
    }

    /// Emits what the memory of a C library's barrier holds, unless that was to be expected.
    fn remember(&self, layout: u8, object: u64, hit: &mut Hit<'_, impl Machine>) {
        let Some(held) = Held::read(layout, object, &Own(hit.machine)) else {
            return;
        };
        let kept = self.counts.get(&(hit.slot.space, object));
        let count = kept.map_or(held.count, |kept| kept.count);
        // Memory that is read late may hold something else by now.
        let shared =
            held.shared && kept.is_none_or(|kept| kept.may_be_shared && kept.count == held.count);
        // Without its round, a barrier of glibc is like one of musl.
        let layout = if self.reads_late {
            layout::MUSL
        } else {
            layout
        };
        let reading = Reading {
            trust: self.trust,
            count,
            shared,
            round: held.round,
        };
        // glibc counts arrivals: a round begins with the number of all arrivals before.
        let step = if layout == layout::GLIBC { count } else { 0 };
        if !hit.slot.must_tell(layout, object, reading, step) && !self.reads_late {
            return;
        }
        hit.out.push(&Memory {
            head: head(kind::MEMORY, layout, hit.slot.tid, u16::from(shared)),
            time_ns: hit.now.time_ns,
            object,
            seq: hit.slot.next_seq(),
            count,
            round: held.round,
            arrived: held.arrived,
        });
    }

    /// Keeps what a barrier is initialised with, if its memory will be read late.
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
        let may_be_shared = registers.numbered(2) != 0;
        let kept = Kept {
            count,
            may_be_shared,
        };
        self.counts.insert(at, kept);
    }

    fn tell_arrival(&mut self, arrival: &Arrival, caller: Caller, hit: &mut Hit<'_, impl Machine>) {
        let (caller, epoch) = self.walks.callers(caller, hit);
        let detail = arrival.detail | stepped(arrival.cookie.stepped);
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

    pub(super) fn call(&mut self, cookie: Cookie, hit: &mut Hit<'_, impl Machine>) {
        let own = Own(hit.machine);
        let at = cookie.returns_at(&own);
        if !hit.slot.stay.calls_anew(at) && hit.slot.stay.is_in_call(at, &own) {
            return;
        }
        let caller = caller(at, hit.machine);
        hit.slot.stay.enter_call(at, caller.address);
        let object = cookie.called(at, |number| own.numbered(number), &own);
        if cookie.count != 0 {
            let count = own.numbered(cookie.count);
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
        let own = Own(hit.machine);
        let found = TeamHit::read(cookie, &own, &own);
        let arrival = Arrival {
            cookie,
            object: found.object,
            detail: if cookie.count & team::ENDS != 0 {
                ENDS
            } else {
                0
            },
        };
        let held = (found.count, found.round);
        self.come(&arrival, held, (found.caller.at, found.caller), hit);
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
            hit.slot.stay.comes_alone();
            return false;
        }
        if hit.slot.stay.is_in_call(at, &Own(hit.machine)) {
            return false;
        }
        hit.slot.stay.enter();
        if count != 0 {
            // If memory is read late, the round belongs to a later arrival.
            let layout = if self.reads_late {
                layout::OPAQUE
            } else {
                arrival.cookie.layout
            };
            // As the BPF programs, which do not read the round at each arrival.
            let reading = Reading {
                trust: self.trust,
                count,
                shared: false,
                round: 0,
            };
            let must_tell = hit.slot.must_tell(layout, arrival.object, reading, 0);
            if must_tell || self.reads_late {
                tell::count(layout, arrival.object, (count, round), hit);
            }
        }
        // A thread may read what it read last, although others have been in a team of another size at
        // the same address.
        let arrival = Arrival {
            detail: arrival.detail | team_count(count),
            ..*arrival
        };
        self.tell_arrival(&arrival, caller, hit);
        true
    }

    pub(super) fn kmp(&mut self, cookie: Cookie, hit: &mut Hit<'_, impl Machine>) {
        let Some(way) = self.kmp.get(usize::from(cookie.displacement)).copied() else {
            return;
        };
        let own = Own(hit.machine);
        let Some(found) = way.hit(cookie, &own, &own) else {
            return;
        };
        let arrival = Arrival {
            cookie,
            object: found.team,
            detail: if cookie.count & kmp::ENDS != 0 {
                ENDS
            } else {
                0
            },
        };
        let round = kmp::rounds_of(found.team, &own).unwrap_or(0);
        let (held, from) = ((found.count, round), (found.at, found.caller));
        let counts = self.come(&arrival, held, from, hit);
        if counts && cookie.count & kmp::PASSES != 0 {
            hit.slot.stay.pass();
        }
    }

    pub(super) fn condvar(&mut self, cookie: Cookie, hit: &mut Hit<'_, impl Machine>) {
        let object = hit.machine.registers().numbered(1);
        let at = cookie.returns_at(&Own(hit.machine));
        // Condition variables inside of a barrier that the user has named do not count.
        if hit.slot.stay.is_in_call(at, &Own(hit.machine)) {
            return;
        }
        let (caller, epoch) = self.walks.callers(caller(at, hit.machine), hit);
        let seq = hit.counted();
        hit.out.push(&Condvar {
            head: head(cookie.layout, cookie.count, hit.slot.tid, evidence::CONDVAR),
            clocks: hit.now,
            object,
            caller,
            seq,
            epoch,
        });
    }
}

/// The caller of the function that was just entered. `at`: where its return address lies.
fn caller(at: u64, machine: &impl Machine) -> Caller {
    Caller {
        at,
        address: machine.word(at),
        rbp: machine.registers().frame(),
    }
}
