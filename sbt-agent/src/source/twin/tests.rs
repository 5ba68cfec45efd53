//! Hits of a made-up thread, and the events that come of them.

use sbt_common::{Clocks, Cookie, layout};

use super::{Announcement, Hit, Machine, Program, Programs, Records, Slot, each, tell_end};
use crate::source::ebpf::{
    decode::{Decoder, Start},
    raw::Raw,
};
use sbt_engine::event::{Event, Kind};
use sbt_program::arch::Registers;

/// A stack of a few words at [`STACK`], and a barrier of glibc for three at [`BARRIER`].
struct Thread {
    registers: Registers,
    stack: [u64; 8],
    /// The word of the barrier's memory that says whether processes share the barrier; 0 if not.
    shared: u32,
    /// How many threads had arrived there when the present round began.
    round: u32,
}

const STACK: u64 = 0x7000;
const BARRIER: u64 = 0x9000;

impl Thread {
    fn at(stack: u64) -> Self {
        let mut registers = Registers::none();
        registers.set_stack(stack);
        registers.set_arguments(&[BARRIER]);
        registers.set_at(0x4000);
        Self {
            registers,
            stack: [
                0x1000, 0x1001, 0x1002, 0x1003, 0x1004, 0x1005, 0x1006, 0x1007,
            ],
            shared: 0,
            round: 6,
        }
    }
}

impl Machine for Thread {
    fn registers(&self) -> &Registers {
        &self.registers
    }

    fn read(&self, address: u64, bytes: &mut [u8]) -> bool {
        let barrier: [u32; 4] = [self.round + 1, self.round, 3, self.shared];
        let all: Vec<u8> = if address >= BARRIER {
            barrier.iter().flat_map(|half| half.to_ne_bytes()).collect()
        } else if address >= STACK {
            let words = self.stack.iter().flat_map(|word| word.to_ne_bytes());
            let from = usize::try_from(address - STACK).unwrap();
            words.skip(from).collect()
        } else {
            return false;
        };
        let found = all.get(..bytes.len());
        found.is_some_and(|found| {
            bytes.copy_from_slice(found);
            true
        })
    }
}

const COOKIE: Cookie = Cookie {
    layout: layout::GLIBC,
    stepped: false,
    object: 0,
    count: 0,
    stack_moved: 0,
    displacement: 0,
    generation: 0,
};

fn now(time_ns: u64) -> Clocks {
    Clocks {
        time_ns,
        run_ns: 10 * time_ns,
        delay_ns: 0,
    }
}

fn slot() -> Slot {
    Slot::new((1, 2, 1), 0, |_, _| Announcement::default())
}

/// The events in the records, without those that introduce threads and callers.
fn events(records: &Records) -> Vec<Event> {
    let mut decoder = Decoder::new(Start {
        run_offset: Some(0),
        pid: 1,
        ..Start::default()
    });
    let mut events = Vec::new();
    let taken = each(&records.bytes, |record| {
        decoder.decode(&Raw::parse(record).expect("one of ours"), &mut events);
    });
    assert_eq!(taken, records.bytes.len());
    events.retain(|event| !matches!(event, Event::Thread { .. } | Event::Callers { .. }));
    events
}

/// A thread hits a place of the barrier, at a time that does not matter.
fn hit(
    programs: &mut Programs,
    program: Program,
    (machine, slot): (&Thread, &mut Slot),
    out: &mut Records,
) {
    let mut at = Hit {
        machine,
        slot,
        now: now(5),
        out,
    };
    programs.run((program, COOKIE.pack()), &mut at);
}

#[test]
fn an_arrival_comes_with_its_barrier_and_its_clocks() {
    let (mut programs, mut slot, mut out) = (Programs::default(), slot(), Records::default());
    let thread = Thread::at(STACK);
    let hit = (Program::Arrive, COOKIE.pack());
    for time_ns in [5, 9] {
        let mut at = Hit {
            machine: &thread,
            slot: &mut slot,
            now: now(time_ns),
            out: &mut out,
        };
        if time_ns == 5 {
            programs.run(hit, &mut at);
        } else {
            tell_end(&mut at);
        }
    }
    let events = events(&out);
    let [
        _,
        Event::Memory { count, round, .. },
        Event::Arrive {
            clocks,
            object,
            kind,
            ..
        },
        ..,
        Event::Exit { clocks: end, .. },
    ] = &events[..]
    else {
        panic!("{events:?}");
    };
    assert_eq!((*count, round.map(|round| round.arrived)), (3, Some(1)));
    assert_eq!((clocks.time_ns, clocks.run_ns), (5, Some(50)));
    assert_eq!((*object, *kind, end.time_ns), (BARRIER, Kind::Pthread, 9));
    assert!(
        !events
            .iter()
            .any(|event| matches!(event, Event::Lost { .. }))
    );
}

#[test]
fn memory_is_told_seldom_and_where_it_is_not_as_expected() {
    let (mut programs, mut slot) = (Programs::default(), slot());
    let mut thread = Thread::at(STACK);
    let mut arrive = |programs: &mut Programs, step| {
        let mut out = Records::default();
        hit(programs, Program::Arrive, (&thread, &mut slot), &mut out);
        thread.round += step;
        let mut told = 0;
        each(&out.bytes, |record| {
            told += u32::from(matches!(Raw::parse(record), Some(Raw::Memory(_))));
        });
        told
    };
    let mut told = |programs: &mut Programs| (0..130).map(|_| arrive(programs, 3)).sum::<u32>();
    assert_eq!(told(&mut programs), 3, "at first, and once in 63 arrivals");
    assert_eq!(arrive(&mut programs, 6), 0);
    assert_eq!(arrive(&mut programs, 3), 1, "a round without this thread");
    assert_eq!(arrive(&mut programs, 3), 0);
    programs.distrust();
    assert_eq!(arrive(&mut programs, 3), 1, "records were lost");
    assert_eq!(arrive(&mut programs, 3), 0);
}

#[test]
fn many_missing_records_count_as_missing() {
    let (mut programs, mut slot, mut out) = (Programs::default(), slot(), Records::default());
    let thread = Thread::at(STACK);
    let cookie = Cookie {
        layout: layout::USER,
        object: 1,
        ..COOKIE
    };
    let mut run = |missing| {
        slot.miss(missing);
        let mut at = Hit {
            machine: &thread,
            slot: &mut slot,
            now: now(5),
            out: &mut out,
        };
        programs.run((Program::Call, cookie.pack()), &mut at);
    };
    [0, 100_000, u64::MAX].into_iter().for_each(&mut run);
    let lost = events(&out).into_iter().filter_map(|event| match event {
        Event::Lost { count, .. } => Some(count),
        _ => None,
    });
    assert_eq!(lost.collect::<Vec<_>>(), [100_000, u32::MAX / 4]);
}

#[test]
fn who_comes_first_to_a_team_that_grew_tells_its_size() {
    let (mut programs, mut out) = (Programs::default(), Records::default());
    let mut thread = Thread::at(STACK);
    thread.registers.set_arguments(&[BARRIER]);
    let [mut one, mut other] =
        [2, 3].map(|tid| Slot::new((1, tid, 1), 0, |_, _| Announcement::default()));
    let cookie = Cookie {
        layout: layout::KMP,
        object: 1,
        count: sbt_common::team::HAS_COUNT,
        ..COOKIE
    };
    // The other thread is not in the team of three, and reads what it read last.
    for (is_other, count) in [
        (false, 4),
        (true, 4),
        (false, 3),
        (false, 3),
        (true, 4),
        (false, 4),
    ] {
        thread.round = count - 1;
        let mut at = Hit {
            machine: &thread,
            slot: if is_other { &mut other } else { &mut one },
            now: now(5),
            out: &mut out,
        };
        programs.run((Program::Team, cookie.pack()), &mut at);
    }
    let mut size = None;
    let mut sizes = Vec::new();
    for event in events(&out) {
        match event {
            Event::Memory { count, .. } => size = Some(count),
            Event::Arrive { .. } => sizes.extend(size),
            _ => {}
        }
    }
    assert_eq!(sizes, [4, 4, 3, 3, 4, 4]);
}

#[test]
fn what_may_be_missing_counts_once_until_the_thread_tells_something() {
    let mut slot = slot();
    let numbers = |slot: &mut Slot| {
        slot.miss_some();
        slot.miss_some();
        slot.next_seq()
    };
    assert_eq!([numbers(&mut slot), numbers(&mut slot)], [1, 3]);
}

#[test]
fn what_is_read_late_does_not_count_for_more_than_what_was_seen() {
    let mut programs = Programs::reading_late();
    let (mut slot, mut out) = (slot(), Records::default());
    let mut thread = Thread::at(STACK);
    let mut run = |program, count| {
        thread.registers.set_arguments(&[BARRIER, 0, count]);
        hit(&mut programs, program, (&thread, &mut slot), &mut out);
    };
    run(Program::Arrive, 0);
    // The memory read by now still says 3, or says 3 again.
    run(Program::Init, 2);
    run(Program::Arrive, 0);
    run(Program::Init, 0);
    run(Program::Arrive, 0);
    let memory = events(&out).into_iter().filter_map(|event| match event {
        Event::Memory { count, round, .. } => Some((count, round)),
        _ => None,
    });
    let all: Vec<_> = memory.collect();
    assert_eq!(all, [(3, None), (2, None), (2, None)]);
}

#[test]
fn memory_that_holds_something_else_by_now_does_not_make_a_barrier_shared() {
    let shared = |attributes: u64, count: u64| {
        let mut programs = Programs::reading_late();
        let (mut slot, mut out) = (slot(), Records::default());
        let mut thread = Thread::at(STACK);
        thread.shared = 128;
        let arguments = [BARRIER, attributes, count];
        thread.registers.set_arguments(&arguments);
        let mut run = |program| hit(&mut programs, program, (&thread, &mut slot), &mut out);
        if count > 0 {
            run(Program::Init);
        }
        run(Program::Arrive);
        let mut is_shared = None;
        each(&out.bytes, |record| {
            if let Raw::Memory(memory) = Raw::parse(record).expect("one of ours") {
                is_shared = Some(memory.head.detail != 0);
            }
        });
        is_shared.expect("the memory is told")
    };
    // Without attributes no process shares it; nor is this the barrier if its count is another.
    assert!(!shared(0, 3));
    assert!(!shared(STACK, 2));
    assert!(shared(STACK, 3));
    // Its initialisation was not seen.
    assert!(shared(0, 0));
}

#[test]
fn who_returns_departs_and_who_only_comes_along_does_not() {
    let (mut programs, mut slot, mut out) = (Programs::default(), slot(), Records::default());
    let mut run = |program, rsp, time| {
        let hit = (program, COOKIE.pack());
        let mut at = Hit {
            machine: &Thread::at(rsp),
            slot: &mut slot,
            now: now(time),
            out: &mut out,
        };
        programs.run(hit, &mut at);
    };
    // The address after a call may also be the beginning of a loop.
    run(Program::Return, STACK + 24, 1);
    run(Program::Arrive, STACK + 16, 2);
    run(Program::Return, STACK + 16, 3);
    run(Program::Return, STACK + 24, 4);
    run(Program::Return, STACK + 24, 5);
    let departed = events(&out).into_iter().filter_map(|event| match event {
        Event::Depart { clocks, .. } => Some(clocks.time_ns),
        _ => None,
    });
    assert_eq!(departed.collect::<Vec<_>>(), [4]);
}

#[test]
fn what_a_barrier_of_the_users_is_built_on_does_not_count() {
    let (mut programs, mut slot, mut out) = (Programs::default(), slot(), Records::default());
    let call = Cookie {
        layout: layout::USER,
        object: 1,
        ..COOKIE
    };
    let mut run = |program, cookie: Cookie, rsp, time| {
        let hit = (program, cookie.pack());
        let mut at = Hit {
            machine: &Thread::at(rsp),
            slot: &mut slot,
            now: now(time),
            out: &mut out,
        };
        programs.run(hit, &mut at);
    };
    run(Program::Call, call, STACK + 32, 1);
    run(Program::Arrive, COOKIE, STACK + 8, 2);
    run(Program::CallExit, COOKIE, STACK + 32, 3);
    run(Program::Arrive, COOKIE, STACK + 8, 4);
    let seen: Vec<_> = events(&out)
        .into_iter()
        .filter_map(|event| match event {
            Event::Arrive { clocks, kind, .. } => Some((clocks.time_ns, kind.name())),
            Event::Depart { clocks, .. } => Some((clocks.time_ns, "departs")),
            _ => None,
        })
        .collect();
    assert_eq!(seen, [(1, "user"), (3, "departs"), (4, "pthread")]);
}
