//! Barriers of the thread teams of a runtime.

use aya_ebpf::{
    EbpfContext as _,
    bindings::pt_regs,
    helpers::{bpf_get_attach_cookie, bpf_probe_read_user},
    macros::uprobe,
    programs::ProbeContext,
};
use sbt_common::{Cookie, Memory, kind};

use crate::{
    head, returns_at,
    ring::{Wake, send},
    task,
    task::Task,
    tell_arrival, thread, word,
};

/// A thread comes to a barrier of its team. Nothing tells when such an object is
/// made for how many: so the number is looked at each time.
#[uprobe]
pub fn team(ctx: ProbeContext) -> u32 {
    let cookie = Cookie::unpack(unsafe { bpf_get_attach_cookie(ctx.as_ptr()) });
    if cookie.generation != thread::generation() {
        return 0;
    }
    // SAFETY: the context of a uprobe is the probed thread's registers.
    let regs = unsafe { &*ctx.regs };
    let object = register(regs, cookie.object).wrapping_add(u64::from(cookie.displacement));
    // SAFETY: a copy from memory that may be anything, or fail.
    let count = unsafe { bpf_probe_read_user(object as *const u32) }.unwrap_or(0);
    let at = returns_at(regs, cookie);
    come(cookie, object, count, at, word(at));
    0
}

/// The current thread comes to a barrier of a team. Where on the stack the
/// address lies to which it returns: `at`; that of its caller: `caller`. Its slot,
/// if that counts.
#[inline(always)]
pub fn come(
    cookie: Cookie,
    object: u64,
    count: u32,
    at: u64,
    caller: u64,
) -> Option<&'static mut thread::Slot> {
    // Alone there is nobody to wait for.
    if count == 1 {
        thread::comes_alone();
        return None;
    }
    let task = Task::current();
    let slot = thread::slot(&task)?;
    if slot.is_in_call(at) {
        return None;
    }
    slot.enter();
    let tag = thread::trust().wrapping_add(u64::from(count));
    if slot.must_tell(object, tag) {
        let seq = slot.next_seq();
        let sent = send(Wake::at(seq), || Memory {
            head: head(kind::MEMORY, cookie.layout, task.tid()),
            time_ns: task::now(),
            object,
            seq,
            count,
            round: 0,
            arrived: 0,
        });
        if sent {
            slot.has_read(object, tag);
        } else {
            thread::distrust();
        }
    }
    tell_arrival(&task, slot, cookie, object, caller);
    Some(slot)
}

/// What a register holds; see [`Cookie::object`].
#[inline(always)]
pub fn register(regs: &pt_regs, number: u8) -> u64 {
    // Each by a load of its own: were the register chosen by address, the
    // verifier would not let it be loaded from the context.
    macro_rules! load {
        ($($number:literal $name:ident),*) => {
            match number {
                // SAFETY: fields of a valid structure.
                $($number => unsafe { core::ptr::read_volatile(&raw const regs.$name) },)*
                _ => 0,
            }
        };
    }
    load!(
        1 rdi, 2 rsi, 3 rdx, 4 rcx, 5 r8, 6 r9, 7 rax, 8 rbx, 9 rbp, 10 r10, 11 r11, 12 r12, 13 r13,
        14 r14, 15 r15
    )
}
