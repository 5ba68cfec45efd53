//! Finds the callers of callers: a few frames, by rules that the agent has learned.
//!
//! The agent does not know where a program will lie in memory. So it gives each rule together with
//! the code around the return address. When an address is met for the first time, its code is
//! looked up, and the result is remembered by address until [`sbt_common::State::walks`] changes.

use core::ffi::c_void;

use aya_ebpf::{
    bindings::bpf_map_type::{BPF_MAP_TYPE_HASH, BPF_MAP_TYPE_LRU_HASH},
    helpers::{bpf_map_lookup_elem, bpf_map_update_elem, bpf_probe_read_user},
};
use sbt_common::{
    CHAIN, CODE_AROUND, Caller, Callers, Code, Frame, MAX_CALLERS, MAX_RULES, Rule, cfa, kind,
};

use crate::{
    head,
    ring::{MapDef, Wake, send},
    target, task,
    task::Task,
    thread::{self, Slot},
    word,
};

/// Number of return addresses, and of chains, that are remembered. Beyond it, the oldest ones are
/// dropped.
const REMEMBERED: u32 = 8192;

/// Number of addresses, and of chains, that are remembered in each thread's slot: a power of two.
const CACHED: usize = 4;

/// Not one of [`cfa`]: the code could not be read. There may be a rule the next time.
const UNREAD: u32 = u32::MAX;

/// The rule of an address.
#[derive(Clone, Copy)]
#[repr(C)]
struct Known {
    /// [`sbt_common::State::walks`] when the rule was found.
    walks: u64,
    rule: Rule,
}

#[unsafe(link_section = "maps")]
#[unsafe(no_mangle)]
static RULES: MapDef = MapDef::keyed(
    BPF_MAP_TYPE_HASH,
    size_of::<Code>() as u32,
    size_of::<Rule>() as u32,
    MAX_RULES,
);

#[unsafe(link_section = "maps")]
#[unsafe(no_mangle)]
static ADDRESSES: MapDef = MapDef::keyed(
    BPF_MAP_TYPE_LRU_HASH,
    8,
    size_of::<Known>() as u32,
    REMEMBERED,
);

/// The keys of chains that have been sent.
#[unsafe(link_section = "maps")]
#[unsafe(no_mangle)]
static CHAINS: MapDef = MapDef::keyed(BPF_MAP_TYPE_LRU_HASH, 8, 8, REMEMBERED);

/// What a thread has met lately, in [`Slot`].
#[repr(C)]
pub struct Seen {
    /// [`sbt_common::State::walks`] at that time.
    walks: u64,
    /// Addresses without a rule: the chain ends there.
    ends: [u64; CACHED],
    /// Chains that have been sent.
    chains: [u64; CACHED],
}

impl Seen {
    pub const NOTHING: Self = Self {
        walks: 0,
        ends: [0; CACHED],
        chains: [0; CACHED],
    };

    /// Stores word by word: otherwise the compiler calls a function that sets byte by byte.
    #[inline(always)]
    fn forget(&mut self) {
        for (end, chain) in self.ends.iter_mut().zip(&mut self.chains) {
            // SAFETY: parts of arrays.
            unsafe {
                core::ptr::write_volatile(end, 0);
                core::ptr::write_volatile(chain, 0);
            }
        }
    }

    #[inline(always)]
    fn is_end(&self, address: u64) -> bool {
        self.ends[place(address)] == address
    }

    #[inline(always)]
    fn is_sent(&self, key: u64) -> bool {
        self.chains[place(key)] == key
    }
}

/// Mixes the low bits of an address, since calls lie at any distance from each other. Keys are
/// mixed already.
#[inline(always)]
fn place(address: u64) -> usize {
    (address ^ (address >> 3) ^ (address >> 7)) as usize & (CACHED - 1)
}

/// The key of the callers of a function (see [`sbt_common::Arrive::caller`]), and the epoch.
#[inline(always)]
pub fn callers(task: &Task, slot: &mut Slot, caller: Caller) -> (u64, u32) {
    let innermost = caller.address;
    let (walks, epoch) = (thread::walks(), thread::epoch());
    if walks == 0 || slot.seen.walks == walks && slot.seen.is_end(innermost) {
        return (innermost, epoch as u32);
    }
    if slot.seen.walks != walks {
        slot.seen.forget();
        slot.seen.walks = walks;
    }
    let mut frame = Frame {
        rsp: caller.at.wrapping_add(8),
        rbp: caller.rbp,
        address: innermost,
    };
    let chain = walk(slot, task.tid(), &mut frame, epoch);
    (chain, epoch as u32)
}

/// The frame is the caller's now.
const ON: u32 = 0;
/// The caller cannot be found this time.
const STUCK: u32 = 1;
/// There is no rule for this address.
const END: u32 = 2;

/// Steps from a frame to the caller's. `walks`: see [`sbt_common::State::walks`].
///
/// Name and BTF make this a global function for the verifier, which verifies it once, and not in
/// each round of each walk of each program: that was nine tenths of its work.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn walk_on(frame: *mut Frame, walks: u64) -> u32 {
    // SAFETY: a valid frame; the verifier only does not know that it is not null.
    let Some(frame) = (unsafe { frame.as_mut() }) else {
        return STUCK;
    };
    let rule = rule(frame.address, walks);
    if rule.cfa == cfa::NONE {
        return END;
    }
    let Some(caller) = rule.step(frame, |at| Some(word(at))) else {
        return STUCK;
    };
    *frame = caller;
    if frame.address == 0 { STUCK } else { ON }
}

#[inline(never)]
fn walk(slot: &mut Slot, tid: u32, frame: &mut Frame, epoch: u64) -> u64 {
    let innermost = frame.address;
    let mut addresses = [innermost; MAX_CALLERS];
    for address in &mut addresses[1..] {
        // As in `Seen::forget`.
        // SAFETY: a part of an array.
        unsafe { core::ptr::write_volatile(address, 0) };
    }
    let mut count = 1u32;
    let mut key = mix(epoch, innermost);
    for address in &mut addresses[1..] {
        if slot.seen.is_end(frame.address) {
            break;
        }
        let went = walk_on(frame, slot.seen.walks);
        if went == END {
            slot.seen.ends[place(frame.address)] = frame.address;
        }
        if went != ON {
            break;
        }
        *address = frame.address;
        key = mix(key, frame.address);
        count += 1;
    }
    let key = key | CHAIN;
    if count == 1 {
        return innermost;
    }
    if slot.seen.is_sent(key) {
        return key;
    }
    if unsafe { bpf_map_lookup_elem(CHAINS.as_ptr(), pointer(&key)) }.is_null() {
        let sent = send(Wake::No, || Callers {
            head: head(kind::CALLERS, 0, tid),
            time_ns: task::now(),
            key,
            count,
            epoch: epoch as u32,
            addresses,
        });
        if !sent {
            // The agent would not know the key.
            return innermost;
        }
        unsafe { bpf_map_update_elem(CHAINS.as_ptr(), pointer(&key), pointer(&key), 0) };
    }
    slot.seen.chains[place(key)] = key;
    key
}

/// The rule of an address.
#[inline(always)]
fn rule(address: u64, walks: u64) -> Rule {
    let key = target::in_process(address);
    let known = unsafe { bpf_map_lookup_elem(ADDRESSES.as_ptr(), pointer(&key)) };
    // SAFETY: null or a value of the map.
    if let Some(known) = unsafe { known.cast::<Known>().as_ref() }
        && known.walks == walks
    {
        return known.rule;
    }
    learned(address, walks)
}

/// Looks up the rule of an address by its code.
#[inline(always)]
fn learned(address: u64, walks: u64) -> Rule {
    let around = address.wrapping_sub(CODE_AROUND as u64) as *const [u8; 2 * CODE_AROUND];
    let mut known = Known {
        walks,
        rule: Rule {
            cfa: UNREAD,
            rbp: 0,
            cfa_offset: 0,
            rbp_offset: 0,
        },
    };
    // SAFETY: a copy from memory that may be anything, or fail.
    if let Ok(bytes) = unsafe { bpf_probe_read_user(around) } {
        let code = Code {
            in_page: address & 0xfff,
            bytes,
        };
        known.rule.cfa = cfa::NONE;
        let found = unsafe { bpf_map_lookup_elem(RULES.as_ptr(), pointer(&code)) };
        // SAFETY: null or a value of the map.
        if let Some(found) = unsafe { found.cast::<Rule>().as_ref() } {
            known.rule = *found;
        }
        let key = target::in_process(address);
        unsafe { bpf_map_update_elem(ADDRESSES.as_ptr(), pointer(&key), pointer(&known), 0) };
    }
    known.rule
}

#[inline(always)]
const fn pointer<T>(of: &T) -> *mut c_void {
    core::ptr::from_ref(of).cast_mut().cast()
}

/// One step of the hash that identifies chains: multiplies by an odd number with well-spread bits
/// (those of the golden ratio), and rotates the well-mixed upper half down.
#[inline(always)]
const fn mix(key: u64, address: u64) -> u64 {
    (key ^ address)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .rotate_left(32)
}
