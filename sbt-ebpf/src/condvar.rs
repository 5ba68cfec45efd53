//! Which threads wait on which condition variable, and which threads wake them. From this the agent
//! recognises barriers that are built on condition variables.
//!
//! There are no return probes here: cancelled threads and exceptions leave these functions, and fail
//! at a return probe.

use aya_ebpf::{
    EbpfContext as _,
    bindings::bpf_map_type::BPF_MAP_TYPE_LRU_HASH,
    helpers::{bpf_get_attach_cookie, bpf_map_lookup_elem},
    macros::uprobe,
    programs::ProbeContext,
};
use sbt_common::{Condvar, Cookie, Head, MAX_SILENCED, evidence};

use crate::{
    caller, counters, head,
    memory::Probed,
    ring::{MapDef, Wake, send},
    target::{self, config},
    task,
    task::Task,
    thread::{self, Slot},
    walk,
};

#[unsafe(link_section = "maps")]
#[unsafe(no_mangle)]
static SILENCED: MapDef = MapDef::keyed(BPF_MAP_TYPE_LRU_HASH, 8, 8, MAX_SILENCED);

#[unsafe(link_section = "maps")]
#[unsafe(no_mangle)]
static PASSED: MapDef = MapDef::counter();

/// `pthread_cond_wait(condvar, mutex)` or a similar function is entered, while the mutex is held; or
/// `pthread_cond_broadcast(condvar)` or `pthread_cond_signal(condvar)`. The cookie tells which.
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
    let at = cookie.returns_at(&Probed(regs));
    // Condition variables inside of a barrier that the user has named do not count.
    if slot.is_in_call(at) {
        return;
    }
    let callers = walk::callers(&task, slot, caller(at, regs));
    let evidence = Evidence {
        kind: cookie.layout,
        most: cookie.count,
        of: evidence::CONDVAR,
        object,
    };
    tell_evidence(&task, slot, evidence, callers);
}

/// A wait or a wake that a thread begins.
pub struct Evidence {
    /// One of [`sbt_common::kind`].
    pub kind: u8,
    /// Largest number of threads that are woken; 0 for all.
    pub most: u8,
    /// One of [`sbt_common::evidence`].
    pub of: u16,
    /// Address of the condition variable or futex in the target.
    pub object: u64,
}

/// Sends a wait or a wake of the current thread.
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

/// Whether the agent has silenced an object for now. It silences only objects of the target itself.
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
