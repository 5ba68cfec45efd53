//! Barriers of the thread teams of a runtime.

use aya_ebpf::{
    EbpfContext as _, bindings::pt_regs, helpers::bpf_get_attach_cookie, macros::uprobe,
    programs::ProbeContext,
};
use sbt_common::{
    Cookie, ENDS, layout,
    team::{self, HAS_COUNT, SPILLED},
    team_count,
};

use crate::{
    memory, returns_at, task::Task, tell_arrival_and_wake, tell_count, thread, walk, word,
};

/// A thread comes to a barrier of its team. Nothing tells when such an object is
/// made for how many: so the number is looked at each time.
#[uprobe]
pub fn team(ctx: ProbeContext) -> u32 {
    crate::target::on_own_stack();
    let cookie = Cookie::unpack(unsafe { bpf_get_attach_cookie(ctx.as_ptr()) });
    if cookie.generation != thread::generation() {
        return 0;
    }
    // SAFETY: the context of a uprobe is the probed thread's registers.
    let regs = unsafe { &*ctx.regs };
    let inlined = cookie.layout == layout::STD_INLINED;
    let spilled = cookie.count & SPILLED != 0;
    let (stack, probed, frame) = (stack(regs), probed(regs), regs.rbp);
    let held = match (cookie.object, spilled) {
        (0, true) => stack,
        (0, false) => probed,
        _ => register(regs, cookie.object),
    };
    let base = if spilled {
        word(held.wrapping_add_signed(i64::from(cookie.stack_moved as i16)))
    } else if cookie.layout == layout::STD_POINTED {
        word(held)
    } else {
        held
    };
    let above = if inlined && !spilled {
        i64::from(cookie.far())
    } else {
        i64::from(cookie.displacement as i16)
    };
    let object = base.wrapping_add_signed(above);
    // What follows the number of threads is the round in GNU OpenMP.
    let [count, round] = if cookie.count & HAS_COUNT == 0 {
        [0, 0]
    } else {
        memory::user::<[u32; 2]>(object)
    };
    let (at, caller) = if inlined {
        // As if the call had been made.
        (
            stack.wrapping_sub(8),
            probed.wrapping_add(u64::from(Cookie::CALL)),
        )
    } else {
        let at = returns_at(regs, cookie);
        (at, word(at))
    };
    // Where a runtime's own code has run meanwhile it may have used rbp.
    let rbp = if cookie.layout == layout::GOMP {
        0
    } else {
        frame
    };
    let from = Caller {
        at,
        address: caller,
        rbp,
    };
    let ends = cookie.count & team::ENDS != 0;
    come(cookie, object, (count, || round), at, from, ends);
    0
}

/// Who has called, as [`walk::callers`] wants to know it.
pub struct Caller {
    /// Where on the stack the return address lies.
    pub at: u64,
    /// That address.
    pub address: u64,
    /// rbp at that time, or 0.
    pub rbp: u64,
}

/// The current thread comes to a barrier of a team. Where on the stack the
/// address lies to which it returns: `at`. `round`: how many rounds the barrier has had, which
/// is not asked each time; `ends`: see [`ENDS`]. Its slot, if that counts.
#[inline(always)]
pub fn come(
    cookie: Cookie,
    object: u64,
    (count, round): (u32, impl FnOnce() -> u32),
    at: u64,
    from: Caller,
    ends: bool,
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
    if count != 0 && slot.must_tell(object, tag) {
        if tell_count(&task, slot, cookie, object, (count, round())) {
            slot.has_read(object, tag, cookie.layout);
        } else {
            thread::distrust();
        }
    }
    slot.enter_from(from.at, from.address);
    let callers = walk::callers(&task, slot, from.at, from.address, from.rbp);
    let ends = if ends { ENDS } else { 0 };
    // A thread that reads the same number as last time sends nothing of it, but others may have
    // been in a team of another size meanwhile, at the same address.
    let detail = ends | team_count(count);
    tell_arrival_and_wake(&task, slot, cookie, object, callers, (detail, false));
    Some(slot)
}

/// rsp, by a load of its own, as below.
#[inline(always)]
fn stack(regs: &pt_regs) -> u64 {
    // SAFETY: a field of a valid structure.
    unsafe { core::ptr::read_volatile(&raw const regs.rsp) }
}

/// rip likewise: where the probe is.
#[inline(always)]
fn probed(regs: &pt_regs) -> u64 {
    // SAFETY: as above.
    unsafe { core::ptr::read_volatile(&raw const regs.rip) }
}

/// What a register holds; see [`Cookie::object`].
#[inline(always)]
pub fn register(regs: &pt_regs, number: u8) -> u64 {
    /// Where the registers lie in `pt_regs` (arch/x86/include/uapi/asm/ptrace.h),
    /// in words, four bits for each number: rdi is number 1 and word 14.
    const WORDS: u64 = 0x0123_6745_a89b_cde0;
    if number == 1 {
        // SAFETY: a field of a valid structure.
        return unsafe { core::ptr::read_volatile(&raw const regs.rdi) };
    }
    // By the kernel's copy, since the verifier lets no load choose its place in
    // the context.
    let word = (WORDS >> (u64::from(number & 15) * 4)) & 15;
    let at = (&raw const *regs).cast::<u64>().wrapping_add(word as usize);
    memory::kernel(at.cast())
}
