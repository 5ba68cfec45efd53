//! Barriers of the thread teams of a runtime.

use aya_ebpf::{
    EbpfContext as _,
    bindings::pt_regs,
    helpers::{bpf_get_attach_cookie, bpf_probe_read_user},
    macros::uprobe,
    programs::ProbeContext,
};
use sbt_common::{Cookie, Memory, kind, layout};

use crate::{
    head, returns_at,
    ring::{Wake, send},
    task,
    task::Task,
    tell_arrival, thread, word,
};

/// The length of a direct call, bytes.
const CALL: u64 = 5;

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
    let held = register(regs, cookie.object);
    let base = if cookie.layout == layout::STD_POINTED {
        word(held)
    } else {
        held
    };
    let object = base.wrapping_add_signed(i64::from(cookie.displacement as i16));
    let count = if cookie.count == 0 {
        0
    } else {
        // SAFETY: a copy from memory that may be anything, or fail.
        unsafe { bpf_probe_read_user(object as *const u32) }.unwrap_or(0)
    };
    if count == 1 {
        return 0;
    }
    let task = Task::current();
    let Some(slot) = thread::slot(&task) else {
        return 0;
    };
    let (at, caller) = if cookie.stack_moved == Cookie::HERE {
        // As if the call had been made.
        (regs.rsp.wrapping_sub(8), regs.rip.wrapping_add(CALL))
    } else {
        let at = returns_at(regs, cookie);
        (at, word(at))
    };
    if slot.is_in_call(at) {
        return 0;
    }
    slot.enter();
    let tag = thread::trust().wrapping_add(u64::from(count));
    if count != 0 && slot.must_tell(object, tag) {
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
    0
}

/// What a register holds; see [`Cookie::object`].
#[inline(always)]
fn register(regs: &pt_regs, number: u8) -> u64 {
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
