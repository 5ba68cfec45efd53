//! The rings in which records get to the agent: one for each CPU. Lost records are counted.

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

/// A map definition of the old kind, since aya-ebpf has no array of maps.
#[repr(transparent)]
pub struct MapDef(UnsafeCell<bpf_map_def>);

// SAFETY: only its address is used, which stands for the map.
unsafe impl Sync for MapDef {}

impl MapDef {
    pub const fn new(type_: u32, value_size: u32, max_entries: u32) -> Self {
        Self::keyed(type_, 4, value_size, max_entries)
    }

    /// A map whose keys have `key_size` bytes.
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

    /// A map with a number for each CPU, 0 at first.
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
        // SAFETY: null or the value of this CPU.
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

/// The agent is woken if more bytes than this are unread: a quarter of the smallest ring that it
/// makes. Otherwise it reads the rings from time to time.
const WAKE_ABOVE: u64 = sbt_common::RING_BYTES as u64 / 4;

/// Whether a record wakes the agent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// Never: the agent reads the rings from time to time.
    No,
    /// If more than [`WAKE_ABOVE`] bytes are unread.
    IfFull,
    Now,
}

impl Wake {
    /// For a record by its number: every 16th record of a thread checks how full the ring is, since
    /// the check costs a tenth of all the rest.
    #[inline(always)]
    pub const fn at(seq: u32) -> Self {
        if seq & 15 == 15 {
            Self::IfFull
        } else {
            Self::No
        }
    }
}

/// Sends a record. `fill` runs after room was reserved, so a time that it takes is later than the
/// moment from which the record can be seen. Returns false if the ring is full, and counts the
/// loss.
#[inline(always)]
pub fn send<T: 'static>(wake: Wake, fill: impl FnOnce() -> T) -> bool {
    // SAFETY: the room is as long as T, aligned to 8, and nothing else uses it.
    send_into(wake, |room: *mut T| unsafe { room.write(fill()) })
}

/// Sends a record that is too long for the stack: `fill` must write every byte of it.
#[inline(always)]
pub fn send_into<T: 'static>(wake: Wake, fill: impl FnOnce(*mut T)) -> bool {
    let is_sent = send_sample(wake, fill);
    if !is_sent {
        LOST.count();
    }
    is_sent
}

/// As [`send_into`], for a record that may be missing: no loss is counted.
#[inline(always)]
pub fn send_sample<T: 'static>(wake: Wake, fill: impl FnOnce(*mut T)) -> bool {
    let index = unsafe { bpf_get_smp_processor_id() } & config!(ring_mask);
    let ring = unsafe { bpf_map_lookup_elem(RINGS.as_ptr(), (&raw const index).cast()) };
    if ring.is_null() {
        return false;
    }
    let room = unsafe { bpf_ringbuf_reserve(ring, size_of::<T>() as u64, 0) };
    if room.is_null() {
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
