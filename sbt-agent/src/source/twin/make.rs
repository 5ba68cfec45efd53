//! Programs for the functions of MPI that make communicators and groups, as `sbt-ebpf/src/make.rs`.

use sbt_common::{
    Cookie, LENGTH_UNKNOWN, MAKE_LIST, Made, Make, Making, Registers as _, SOME, TOO_LONG, kind,
};

use super::{
    Hit, Machine, Own,
    tell::{head, low},
};

/// The register that holds what a function returns: see [`Cookie::object`].
const RETURNED: u8 = 7;

/// A thread enters a function that makes or ends a communicator or a group.
pub(super) fn make(cookie: Cookie, hit: &mut Hit<'_, impl Machine>) {
    let own = Own(hit.machine);
    let at = cookie.returns_at(&own);
    if hit.slot.making.contains(at, &own) {
        return;
    }
    let argument = |number: u8| own.numbered(number);
    let out = cookie.called(at, argument, &own);
    let number = hit.slot.making.number;
    hit.slot.making = Making {
        at,
        returns_to: hit.machine.word(at),
        out,
        number: number.wrapping_add(1),
        reserved: 0,
    };
    let (listed, list) = list(cookie, argument, hit);
    hit.out.push(&Make {
        head: head(kind::MAKE, cookie.layout, hit.slot.tid, 0),
        time_ns: hit.now.time_ns,
        seq: hit.slot.next_seq(),
        number,
        listed,
        reserved: 0,
        held: hit.machine.word(out),
        arguments: [1, 2, 3, 4, 5, 6].map(argument),
        list,
    });
}

/// The list that is an argument of the function, and how many numbers of it could be read.
fn list(
    cookie: Cookie,
    argument: impl Fn(u8) -> u64,
    hit: &Hit<'_, impl Machine>,
) -> (u32, [u32; MAKE_LIST]) {
    let mut list = [[0; 4]; MAKE_LIST];
    let length = match (cookie.count, cookie.displacement) {
        (0, _) => 0,
        (_, LENGTH_UNKNOWN) => u64::from(SOME),
        // The argument before the list is its length.
        (at, width) => u64::from(low(argument(at - 1))) * u64::from(width),
    };
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    let room = list.get_mut(..length).filter(|_| length < MAKE_LIST);
    let is_read = room.is_some_and(|room| {
        let room = room.as_flattened_mut();
        room.is_empty() || hit.machine.read(argument(cookie.count), room)
    });
    let listed = u32::try_from(length).ok().filter(|_| is_read);
    let listed = listed.unwrap_or(TOO_LONG);
    (listed, list.map(u32::from_ne_bytes))
}

/// A thread leaves the function that it has entered.
pub(super) fn made(hit: &mut Hit<'_, impl Machine>) {
    let making = hit.slot.making;
    if making.at == 0 || making.at != hit.machine.registers().stack() {
        return;
    }
    hit.slot.making.at = 0;
    hit.slot.making.number = making.number.wrapping_add(1);
    hit.out.push(&Made {
        head: head(kind::MADE, 0, hit.slot.tid, 0),
        time_ns: hit.now.time_ns,
        value: hit.machine.word(making.out),
        seq: hit.slot.next_seq(),
        number: making.number,
        error: low(hit.machine.registers().numbered(RETURNED)),
        reserved: 0,
    });
}
