//! Communicators of MPI: which one is meant stands in the memory of the rank. It is read at each
//! arrival, since the communicator may be freed right after it and another one made in its place.

use aya_ebpf::{bindings::bpf_map_type::BPF_MAP_TYPE_ARRAY, helpers::bpf_map_lookup_elem};
use sbt_common::{Cookie, Mpi, layout, mpi::Described};

use crate::{
    memory::Own,
    ring::MapDef,
    task::Task,
    tell_held,
    thread::{self, Slot},
};

#[unsafe(link_section = "maps")]
#[unsafe(no_mangle)]
static MPI: MapDef = MapDef::new(BPF_MAP_TYPE_ARRAY, size_of::<Mpi>() as u32, 1);

/// Sends which communicator lies at an address, if the thread has not sent it yet. True if the
/// agent must be woken at once: it has to find out which communicator lies there before it is
/// freed.
#[inline(always)]
pub fn tell(task: &Task, slot: &mut Slot, cookie: Cookie, object: u64) -> bool {
    let Some(read) = read(object) else {
        let trust = thread::trust();
        let is_new = slot.must_tell(object, trust);
        if is_new {
            slot.has_read(object, trust, layout::MPI);
        }
        return is_new;
    };
    let Described {
        ranks,
        number,
        first,
    } = read;
    // A communicator may lie where another one with the same number has lain.
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

/// Reads a communicator; `None` if it cannot be known yet, or if none lies there.
#[inline(always)]
fn read(object: u64) -> Option<Described> {
    let zero = 0u32;
    let known = unsafe { bpf_map_lookup_elem(MPI.as_ptr(), (&raw const zero).cast()) };
    // SAFETY: the map's values are of this type, and live as long as it.
    let known = unsafe { known.cast::<Mpi>().as_ref() }?;
    if known.number == 0 {
        return None;
    }
    known.describe(object, &Own)
}
