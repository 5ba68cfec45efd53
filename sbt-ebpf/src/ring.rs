//! The way out: a ring per CPU, with losses counted where they happen.

use core::{cell::UnsafeCell, ffi::c_void};

use aya_ebpf::{
    bindings::{
        BPF_RB_AVAIL_DATA, BPF_RB_FORCE_WAKEUP, BPF_RB_NO_WAKEUP, bpf_map_def,
        bpf_map_type::{BPF_MAP_TYPE_ARRAY_OF_MAPS, BPF_MAP_TYPE_PERCPU_ARRAY},
    },
    helpers::{
        bpf_get_smp_processor_id, bpf_map_lookup_elem, bpf_ringbuf_query, bpf_ringbuf_reserve,
        bpf_ringbuf_submit,
    },
};
use sbt_common::MAX_RINGS;

use crate::target::config;

/// A map definition of the classic kind; aya-ebpf has no array of maps.
#[repr(transparent)]
pub struct MapDef(UnsafeCell<bpf_map_def>);

// SAFETY: only its address is ever used, as the name of a map.
unsafe impl Sync for MapDef {}

impl MapDef {
    pub const fn new(type_: u32, value_size: u32, max_entries: u32) -> Self {
        Self::keyed(type_, 4, value_size, max_entries)
    }

    /// With keys of that many bytes.
    pub const fn keyed(type_: u32, key_size: u32, value_size: u32, max_entries: u32) -> Self {
        Self(UnsafeCell::new(bpf_map_def {
            type_,
            key_size,
            value_size,
            max_entries,
            map_flags: 0,
            id: 0,
            pinning: 0,
        }))
    }

    /// A number for each CPU, all 0.
    pub const fn counter() -> Self {
        Self::new(BPF_MAP_TYPE_PERCPU_ARRAY, 8, 1)
    }

    pub const fn as_ptr(&self) -> *mut c_void {
        self.0.get().cast()
    }

    /// Adds one to a counter.
    #[inline(always)]
    pub fn count(&self) {
        let zero = 0u32;
        let count = unsafe { bpf_map_lookup_elem(self.as_ptr(), (&raw const zero).cast()) };
        // SAFETY: null or a value of the map, of this CPU alone.
        if let Some(count) = unsafe { count.cast::<u64>().as_mut() } {
            *count += 1;
        }
    }
}

#[unsafe(link_section = "maps")]
#[unsafe(no_mangle)]
static RINGS: MapDef = MapDef::new(BPF_MAP_TYPE_ARRAY_OF_MAPS, 4, MAX_RINGS);

#[unsafe(link_section = "maps")]
#[unsafe(no_mangle)]
static LOST: MapDef = MapDef::counter();

/// Above this many unread bytes the reader is woken: a quarter of the smallest
/// ring that the agent makes. Below it the reader comes by itself.
const WAKE_ABOVE: u64 = sbt_common::RING_BYTES as u64 / 4;

/// When the reader is woken by a record.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// Not at all: it comes by itself.
    No,
    /// If much is waiting for it.
    IfFull,
    /// At once.
    Now,
}

impl Wake {
    /// For the records of a thread in the order of their numbers: every 16th
    /// looks how full the ring is, since to look costs as much as a tenth of
    /// all the rest.
    #[inline(always)]
    pub const fn at(seq: u32) -> Self {
        if seq & 15 == 15 {
            Self::IfFull
        } else {
            Self::No
        }
    }
}

/// Reserves, fills, submits. `fill` runs after the reservation, so that a time
/// it takes is later than the moment from which the record can be seen.
/// Returns false, and counts it, if the ring is full.
#[inline(always)]
pub fn send<T: 'static>(wake: Wake, fill: impl FnOnce() -> T) -> bool {
    // SAFETY: the room is as long as T, aligned to 8, and ours alone.
    send_into(wake, |room: *mut T| unsafe { room.write(fill()) })
}

/// The same for what is too long for the stack: `fill` writes every byte of it.
#[inline(always)]
pub fn send_into<T: 'static>(wake: Wake, fill: impl FnOnce(*mut T)) -> bool {
    let index = unsafe { bpf_get_smp_processor_id() } & config!(ring_mask);
    let ring = unsafe { bpf_map_lookup_elem(RINGS.as_ptr(), (&raw const index).cast()) };
    if ring.is_null() {
        return false;
    }
    let room = unsafe { bpf_ringbuf_reserve(ring, size_of::<T>() as u64, 0) };
    if room.is_null() {
        LOST.count();
        return false;
    }
    fill(room.cast::<T>());
    let wakes = match wake {
        Wake::No => false,
        Wake::IfFull => {
            (unsafe { bpf_ringbuf_query(ring, u64::from(BPF_RB_AVAIL_DATA)) }) > WAKE_ABOVE
        }
        Wake::Now => true,
    };
    let flags = if wakes {
        BPF_RB_FORCE_WAKEUP
    } else {
        BPF_RB_NO_WAKEUP
    };
    unsafe { bpf_ringbuf_submit(room, u64::from(flags)) };
    true
}
