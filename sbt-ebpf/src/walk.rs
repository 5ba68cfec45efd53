//! Who called the caller: a few frames, by rules that the agent has learned.
//!
//! The agent does not know beforehand where a program will lie in memory. So it
//! gives a rule with the code around the return address that it is for; the
//! first time that an address is met, its code is looked up, and what was found
//! is remembered by address until [`sbt_common::State::walks`] changes.

use core::ffi::c_void;

use aya_ebpf::{
    bindings::bpf_map_type::{BPF_MAP_TYPE_HASH, BPF_MAP_TYPE_LRU_HASH},
    helpers::{bpf_map_lookup_elem, bpf_map_update_elem, bpf_probe_read_user},
};
use sbt_common::{CHAIN, CODE_AROUND, Callers, Code, MAX_CALLERS, MAX_RULES, Rule, cfa, kind, rbp};

use crate::{
    head,
    ring::{MapDef, Wake, send},
    target, task,
    task::Task,
    thread::{self, Slot},
    word,
};

/// Distinct return addresses, and chains, that are remembered; the oldest make
/// room for new ones.
const REMEMBERED: u32 = 8192;

/// Likewise in each thread's slot: a power of two.
const CACHED: usize = 4;

/// A rule by which nobody walks, but which may be there the next time: the code
/// could not be read. Not one of [`cfa`].
const UNREAD: u32 = u32::MAX;

/// What an address was found to be.
#[derive(Clone, Copy)]
#[repr(C)]
struct Known {
    /// [`sbt_common::State::walks`] at that time.
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

/// What a thread has met lately.
#[repr(C)]
pub struct Seen {
    /// [`sbt_common::State::walks`] since then.
    walks: u64,
    /// Addresses from which there is nothing to walk.
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

    /// Word by word, else it becomes a call that sets byte by byte.
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

/// Calls stand at any distance from each other; keys are mixed already.
#[inline(always)]
fn place(address: u64) -> usize {
    (address ^ (address >> 3) ^ (address >> 7)) as usize & (CACHED - 1)
}

/// What stands for the callers of a function whose return address,
/// `innermost`, lies at `at`: see [`sbt_common::Arrive::caller`], and the
/// epoch. `rbp`: what that register was when the function was entered; 0 if
/// that is not known.
#[inline(always)]
pub fn callers(task: &Task, slot: &mut Slot, at: u64, innermost: u64, rbp: u64) -> (u64, u32) {
    let (walks, epoch) = (thread::walks(), thread::epoch());
    if walks == 0 || slot.seen.walks == walks && slot.seen.is_end(innermost) {
        return (innermost, epoch as u32);
    }
    if slot.seen.walks != walks {
        slot.seen.forget();
        slot.seen.walks = walks;
    }
    let mut frame = Frame {
        rsp: at.wrapping_add(8),
        rbp,
        address: innermost,
    };
    let chain = walk(slot, task.tid(), &mut frame, epoch);
    (chain, epoch as u32)
}

/// A frame of the stack.
#[repr(C)]
pub struct Frame {
    /// What rsp is after the return to `address`.
    rsp: u64,
    /// The same of rbp; 0 if it is not known, and what is reckoned from it
    /// cannot be found.
    rbp: u64,
    address: u64,
}

/// The caller is in the frame now.
const ON: u32 = 0;
/// It cannot be found, this time.
const STUCK: u32 = 1;
/// Nobody goes on from this address.
const END: u32 = 2;

/// Goes on from a frame to the caller's; `walks`: see [`sbt_common::State::walks`].
///
/// The verifier looks at a function that anybody may call, which this one's name and
/// its BTF say, once for itself and not again in each round of each walk of each program:
/// that was nine tenths of what it looked at.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn walk_on(frame: *mut Frame, walks: u64) -> u32 {
    // SAFETY: a frame of the caller's, or null for what the verifier knows.
    let Some(frame) = (unsafe { frame.as_mut() }) else {
        return STUCK;
    };
    let rule = rule(frame.address, walks);
    if rule.cfa == cfa::NONE {
        return END;
    }
    if frame.step(rule) { ON } else { STUCK }
}

impl Frame {
    /// Goes on to the caller; false if there is none.
    #[inline(always)]
    fn step(&mut self, rule: Rule) -> bool {
        if rule.cfa != cfa::RSP && self.rbp == 0 {
            return false;
        }
        let offset = i64::from(rule.cfa_offset);
        let frame = match rule.cfa {
            cfa::RSP => self.rsp.wrapping_add_signed(offset),
            cfa::RBP => self.rbp.wrapping_add_signed(offset),
            cfa::AT_RBP => word(self.rbp.wrapping_add_signed(offset)),
            _ => return false,
        };
        // A caller's frame lies above: whoever made this stack did not go by the
        // rules.
        if frame <= self.rsp {
            return false;
        }
        let offset = i64::from(rule.rbp_offset);
        match rule.rbp {
            rbp::AT_CFA => self.rbp = word(frame.wrapping_add_signed(offset)),
            rbp::AT_RBP if self.rbp != 0 => {
                self.rbp = word(self.rbp.wrapping_add_signed(offset));
            }
            _ => {}
        }
        self.rsp = frame;
        self.address = word(frame.wrapping_sub(8));
        self.address != 0
    }
}

#[inline(never)]
fn walk(slot: &mut Slot, tid: u32, frame: &mut Frame, epoch: u64) -> u64 {
    let innermost = frame.address;
    let mut addresses = [innermost; MAX_CALLERS];
    for address in &mut addresses[1..] {
        // Else it becomes a call that sets byte by byte.
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
            // Nobody would know what it stands for.
            return innermost;
        }
        unsafe { bpf_map_update_elem(CHAINS.as_ptr(), pointer(&key), pointer(&key), 0) };
    }
    slot.seen.chains[place(key)] = key;
    key
}

/// What is known of an address.
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

/// What the agent has learned of it, found by its code.
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

/// One step of a hash that tells chains apart: multiplication by an odd number
/// of even bits (the golden ratio's), and a turn that brings the well-mixed
/// upper half down.
#[inline(always)]
const fn mix(key: u64, address: u64) -> u64 {
    (key ^ address)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .rotate_left(32)
}
