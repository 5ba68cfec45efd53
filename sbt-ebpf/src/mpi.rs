//! Communicators of MPI: which one is meant stands in the memory of the rank, and is read
//! with each arrival, since it may be freed right after it and another made in its place.

use aya_ebpf::{
    bindings::bpf_map_type::BPF_MAP_TYPE_ARRAY,
    helpers::{bpf_map_lookup_elem, bpf_probe_read_user},
};
use sbt_common::{
    Cookie, Mpi, layout,
    mpi::{GROUP_RANKS, MOST_RANKS, PROCESS_NAME},
};

use crate::{
    ring::MapDef,
    task::Task,
    tell_held,
    thread::{self, Slot},
    word,
};

#[unsafe(link_section = "maps")]
#[unsafe(no_mangle)]
static MPI: MapDef = MapDef::new(BPF_MAP_TYPE_ARRAY, size_of::<Mpi>() as u32, 1);

/// Sends which communicator lies at an address, if the thread has not sent it. Whether the
/// reader is to come at once: it must find that out by itself, before the communicator is
/// freed.
#[inline(always)]
pub fn tell(task: &Task, slot: &mut Slot, cookie: Cookie, object: u64) -> bool {
    let Some([ranks, number, first]) = read(object) else {
        let trust = thread::trust();
        let is_new = slot.must_tell(object, trust);
        if is_new {
            slot.has_read(object, trust, layout::MPI);
        }
        return is_new;
    };
    // Communicators come to lie where others of the same number have lain.
    let tag = (u64::from(number) << 40) ^ (u64::from(first) << 24) ^ u64::from(ranks);
    let tag = tag ^ thread::trust();
    if slot.must_tell(object, tag) {
        let seq = slot.next_seq();
        if tell_held(task, cookie, object, seq, [ranks, number, first]) {
            slot.has_read(object, tag, layout::MPI);
        } else {
            thread::distrust();
        }
    }
    false
}

/// How many ranks a communicator has, its number, and the first of the ranks; `None` if
/// that cannot be known yet, or it is none.
#[inline(always)]
fn read(object: u64) -> Option<[u32; 3]> {
    let zero = 0u32;
    let known = unsafe { bpf_map_lookup_elem(MPI.as_ptr(), (&raw const zero).cast()) };
    // SAFETY: the map's values are of this type, and live as long as it.
    let known = unsafe { known.cast::<Mpi>().as_ref() }?;
    if known.number == 0 {
        return None;
    }
    let [number, rank] = halves(object.wrapping_add(u64::from(known.number)))?;
    let group = word(object.wrapping_add(u64::from(known.group)));
    let [ranks, mine, _, _, low, high] = halves(group.wrapping_add(GROUP_RANKS))?;
    if mine != rank || rank >= ranks || ranks > MOST_RANKS {
        return None;
    }
    let first = word(u64::from(high) << 32 | u64::from(low));
    // Of a process that nobody has spoken to there is only the name, and the lowest bit
    // says so.
    let first = if first & 1 == 1 {
        (first >> 1) as u32
    } else {
        let [_, number] = halves(first.wrapping_add(PROCESS_NAME))?;
        number
    };
    Some([ranks, number, first])
}

/// What the target's memory holds there.
#[inline(always)]
fn halves<const N: usize>(at: u64) -> Option<[u32; N]> {
    // SAFETY: a copy from memory that may be anything, or fail.
    unsafe { bpf_probe_read_user(at as *const [u32; N]) }.ok()
}
