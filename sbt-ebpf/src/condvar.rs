//! Who waits on which condition variable, and who wakes whom: from that the
//! agent recognises barriers that are made of one.
//!
//! There are no return probes here: threads are cancelled and exceptions thrown
//! through these functions, and neither gets past one.

use aya_ebpf::{
    EbpfContext as _,
    bindings::bpf_map_type::BPF_MAP_TYPE_LRU_HASH,
    helpers::{bpf_get_attach_cookie, bpf_map_lookup_elem},
    macros::uprobe,
    programs::ProbeContext,
};
use sbt_common::{Condvar, Cookie, Head, MAX_SILENCED, evidence};

use crate::{
    counters, head, returns_at,
    ring::{MapDef, Wake, send},
    target::{self, config},
    task,
    task::Task,
    thread::{self, Slot},
    walk, word,
};

#[unsafe(link_section = "maps")]
#[unsafe(no_mangle)]
static SILENCED: MapDef = MapDef::keyed(BPF_MAP_TYPE_LRU_HASH, 8, 8, MAX_SILENCED);

#[unsafe(link_section = "maps")]
#[unsafe(no_mangle)]
static PASSED: MapDef = MapDef::counter();

/// `pthread_cond_wait(condvar, mutex)` or its kin are entered: the mutex is held; or
/// `pthread_cond_broadcast(condvar)` or `pthread_cond_signal(condvar)` is. Which,
/// the cookie says.
#[uprobe]
pub fn condvar(ctx: ProbeContext) -> u32 {
    target::on_own_stack();
    tell(&ctx);
    0
}

#[inline(always)]
fn tell(ctx: &ProbeContext) {
    let cookie = Cookie::unpack(unsafe { bpf_get_attach_cookie(ctx.as_ptr()) });
    if cookie.generation != thread::generation() {
        return;
    }
    // SAFETY: the context of a uprobe is the probed thread's registers.
    let regs = unsafe { &*ctx.regs };
    let object = regs.rdi;
    if is_silenced(object) {
        PASSED.count();
        return;
    }
    let task = Task::current();
    let Some(slot) = thread::slot(&task) else {
        return;
    };
    let at = returns_at(regs, cookie);
    // What a barrier of the user's own is built on does not count.
    if slot.is_in_call(at) {
        return;
    }
    let callers = walk::callers(&task, slot, at, word(at), regs.rbp);
    let evidence = Evidence {
        kind: cookie.layout,
        most: cookie.count,
        of: evidence::CONDVAR,
        object,
    };
    tell_evidence(&task, slot, evidence, callers);
}

/// What a thread is about to do to those that wait, or to itself.
pub struct Evidence {
    /// One of [`kind`].
    pub kind: u8,
    /// How many are woken at most; 0 for all.
    pub most: u8,
    /// One of [`evidence`].
    pub of: u16,
    /// Where it is in the target's memory.
    pub object: u64,
}

/// Sends what the current thread does.
#[inline(always)]
pub fn tell_evidence(
    task: &Task,
    slot: &mut Slot,
    evidence: Evidence,
    (caller, epoch): (u64, u32),
) {
    let seq = slot.next_seq();
    counters::tell(task, seq);
    let sent = send(Wake::at(seq), || Condvar {
        head: Head {
            detail: evidence.of,
            ..head(evidence.kind, evidence.most, task.tid())
        },
        clocks: task.clocks(),
        object: evidence.object,
        caller,
        seq,
        epoch,
    });
    if !sent {
        thread::distrust();
    }
}

/// Whether the agent wants to hear nothing of it for now, which it says of the target's.
#[inline(always)]
pub fn is_silenced(object: u64) -> bool {
    let until = unsafe { bpf_map_lookup_elem(SILENCED.as_ptr(), (&raw const object).cast()) };
    // SAFETY: a value of the map, an aligned word, or null.
    let Some(until) = (unsafe { until.cast::<u64>().as_ref() }) else {
        return false;
    };
    let of_others = || config!(children) != 0 && target::is_target(&Task::current()) != Some(true);
    task::now() < *until && !of_others()
}
