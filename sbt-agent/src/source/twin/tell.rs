//! Emits all records but those of arrivals.

use sbt_common::{
    Clocks, Depart, Head, Init, Mapping, MarkCookie, Memory, Mpi, at_end, is_to_be_shared, kind,
    layout, stepped,
};

use super::{Hit, Machine, Own, Records, Slot};
use sbt_program::runtimes::mpi::openmpi;

/// Emits that a mark was passed, or that a parallel region begins.
pub(super) fn mark(cookie: MarkCookie, hit: &mut Hit<'_, impl Machine>) {
    let mark = cookie.told(hit.machine.registers().stack());
    clocks(kind::MARK, stepped(cookie.stepped), mark, hit);
}

/// Emits that a barrier is initialised.
pub(super) fn init(hit: &mut Hit<'_, impl Machine>) {
    let registers = hit.machine.registers();
    let shared = is_to_be_shared(registers.numbered(2), &Own(hit.machine));
    hit.out.push(&Init {
        head: head(kind::INIT, 0, hit.slot.tid, u16::from(shared)),
        time_ns: hit.now.time_ns,
        object: registers.numbered(1),
        seq: hit.slot.next_seq(),
        count: low(registers.numbered(3)),
    });
}

/// The head of a record.
pub const fn head(kind: u8, layout: u8, tid: u32, detail: u16) -> Head {
    Head {
        kind,
        layout,
        detail,
        tid,
    }
}

/// The lower 32 bits.
#[allow(
    clippy::cast_possible_truncation,
    reason = "the upper half is dropped on purpose"
)]
pub(super) const fn low(value: u64) -> u32 {
    value as u32
}

/// Emits how many threads a barrier is for, and its round.
pub(super) fn count(
    layout: u8,
    object: u64,
    (count, round): (u32, u32),
    hit: &mut Hit<'_, impl Machine>,
) {
    memory(layout, object, [count, round, 0], hit);
}

/// Emits which MPI communicator lies at an address, since it may be freed right after this.
/// `known`: where Open MPI's memory holds its number, once found.
pub(super) fn communicator(object: u64, known: &mut Option<Mpi>, hit: &mut Hit<'_, impl Machine>) {
    let machine = hit.machine;
    let read = |at, bytes: &mut [u8]| machine.read(at, bytes).then_some(());
    if let Some(((communicator, ranks), mpi)) = openmpi::read_as(object, *known, &read) {
        *known = Some(mpi);
        let held = [ranks, communicator.number, communicator.first];
        memory(layout::MPI, object, held, hit);
    }
}

/// Emits what a barrier's memory holds: count of threads, round, and arrivals.
fn memory(
    layout: u8,
    object: u64,
    [count, round, arrived]: [u32; 3],
    hit: &mut Hit<'_, impl Machine>,
) {
    hit.out.push(&Memory {
        head: head(kind::MEMORY, layout, hit.slot.tid, 0),
        time_ns: hit.now.time_ns,
        object,
        seq: hit.slot.next_seq(),
        count,
        round,
        arrived,
    });
}

/// Emits a record with the clocks of a thread. `mark`: see [`Depart::mark`].
pub(super) fn clocks(kind: u8, detail: u16, mark: u32, hit: &mut Hit<'_, impl Machine>) {
    let seq = hit.counted();
    hit.out.push(&Depart {
        head: head(kind, 0, hit.slot.tid, detail),
        clocks: hit.now,
        seq,
        mark,
    });
}

/// Emits a change of a process's memory or life. `flag`: see [`Head::layout`]; `child`: see
/// [`Mapping::child`].
pub fn mapping(kind: u8, flag: bool, child: u32, slot: &Slot, now: Clocks, out: &mut Records) {
    out.push(&Mapping {
        head: head(kind, u8::from(flag), slot.tid, 0),
        time_ns: now.time_ns,
        ns_tgid: slot.process,
        child,
    });
}

/// Emits the end of a thread: what it knows of barriers' rounds, and its last clocks.
pub fn end(hit: &mut Hit<'_, impl Machine>) {
    // Announced again: its name may have changed.
    hit.slot.announced = false;
    hit.slot.announce(hit.now, hit.out);
    for (layout, object) in hit.slot.take_read() {
        if let Some(held) = at_end(layout, object, &Own(hit.machine)) {
            memory(layout, object, held, hit);
        }
    }
    clocks(kind::EXIT, 0, 0, hit);
}
