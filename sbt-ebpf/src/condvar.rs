//! Who waits on which condition variable, and who wakes whom: from that the
//! agent recognises barriers that are made of one.
//!
//! There are no return probes here: threads are cancelled and exceptions thrown
//! through these functions, and neither gets past one.

use aya_ebpf::{
    EbpfContext as _,
    bindings::bpf_map_type::{BPF_MAP_TYPE_LRU_HASH, BPF_MAP_TYPE_PERCPU_ARRAY},
    helpers::{bpf_get_attach_cookie, bpf_map_lookup_elem},
    macros::uprobe,
    programs::ProbeContext,
};
use sbt_common::{Condvar, Cookie, MAX_SILENCED, kind};

use crate::{
    head, returns_at,
    ring::{MapDef, Wake, send},
    target, task,
    task::Task,
    thread, walk, word,
};

#[unsafe(link_section = "maps")]
#[unsafe(no_mangle)]
static SILENCED: MapDef = MapDef::keyed(BPF_MAP_TYPE_LRU_HASH, 8, 8, MAX_SILENCED);

#[unsafe(link_section = "maps")]
#[unsafe(no_mangle)]
static PASSED: MapDef = MapDef::keyed(BPF_MAP_TYPE_PERCPU_ARRAY, 4, 8, 1);

/// `pthread_cond_wait(condvar, mutex)` and its kin are entered: the mutex is held.
#[uprobe]
pub fn cond_wait(ctx: ProbeContext) -> u32 {
    tell(&ctx, kind::WAIT);
    0
}

/// `pthread_cond_broadcast(condvar)` or `pthread_cond_signal(condvar)` is entered.
#[uprobe]
pub fn cond_wake(ctx: ProbeContext) -> u32 {
    tell(&ctx, kind::WAKE);
    0
}

#[inline(always)]
fn tell(ctx: &ProbeContext, kind: u8) {
    let cookie = Cookie::unpack(unsafe { bpf_get_attach_cookie(ctx.as_ptr()) });
    if cookie.generation != thread::generation() {
        return;
    }
    // SAFETY: the context of a uprobe is the probed thread's registers.
    let regs = unsafe { &*ctx.regs };
    let object = regs.rdi;
    if is_silenced(object) {
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
    let (caller, epoch) = walk::callers(&task, slot, at, word(at), regs.rbp);
    let seq = slot.next_seq();
    let sent = send(Wake::at(seq), || Condvar {
        head: head(kind, cookie.count, task.tid()),
        clocks: task.clocks(),
        object,
        caller,
        seq,
        epoch,
    });
    if !sent {
        thread::distrust();
    }
}

/// Whether the agent wants to hear nothing of it for now.
#[inline(always)]
fn is_silenced(object: u64) -> bool {
    let object = target::in_process(object);
    let until = unsafe { bpf_map_lookup_elem(SILENCED.as_ptr(), (&raw const object).cast()) };
    // SAFETY: a value of the map, an aligned word, or null.
    let Some(until) = (unsafe { until.cast::<u64>().as_ref() }) else {
        return false;
    };
    if task::now() >= *until {
        return false;
    }
    let zero = 0u32;
    let passed = unsafe { bpf_map_lookup_elem(PASSED.as_ptr(), (&raw const zero).cast()) };
    // SAFETY: as above; of this CPU alone.
    if let Some(passed) = unsafe { passed.cast::<u64>().as_mut() } {
        *passed += 1;
    }
    true
}
