//! LLVM's OpenMP: its barriers have no object of their own. What tells them apart
//! is the team of the thread, and that is found by the thread's number.

use aya_ebpf::{
    EbpfContext as _,
    bindings::bpf_map_type::BPF_MAP_TYPE_ARRAY,
    helpers::{bpf_get_attach_cookie, bpf_map_lookup_elem},
    macros::uprobe,
    programs::ProbeContext,
};
use sbt_common::{
    Cookie, Kmp, MAX_KMP,
    kmp::{ARRIVED, ENDS, FRAME, HELD, PASSES, SAVED},
};

use crate::{
    memory,
    ring::MapDef,
    team::{self, Caller},
    thread, word,
};

#[unsafe(link_section = "maps")]
#[unsafe(no_mangle)]
static KMP: MapDef = MapDef::new(BPF_MAP_TYPE_ARRAY, size_of::<Kmp>() as u32, MAX_KMP);

/// A thread comes to a barrier of its team; its number is an argument.
#[uprobe]
pub fn kmp(ctx: ProbeContext) -> u32 {
    crate::target::on_own_stack();
    let cookie = Cookie::unpack(unsafe { bpf_get_attach_cookie(ctx.as_ptr()) });
    if cookie.generation != thread::generation() {
        return 0;
    }
    let index = u32::from(cookie.displacement);
    let kmp = unsafe { bpf_map_lookup_elem(KMP.as_ptr(), (&raw const index).cast()) };
    // SAFETY: the map's values are of this type, and live as long as it.
    let Some(kmp) = (unsafe { kmp.cast::<Kmp>().as_ref() }) else {
        return 0;
    };
    // SAFETY: the context of a uprobe is the probed thread's registers.
    let regs = unsafe { &*ctx.regs };
    let number = team::register(regs, cookie.object) as u32;
    let threads = word(regs.rip.wrapping_add(kmp.threads as i64 as u64));
    let thread = word(threads.wrapping_add(u64::from(number) * 8));
    let team = word(thread.wrapping_add(u64::from(kmp.team)));
    if team == 0 {
        return 0;
    }
    let count = team.wrapping_add(u64::from(kmp.count));
    let count = memory::user::<u32>(count);
    // Each by a load of its own, as in `register`.
    // SAFETY: fields of a valid structure.
    let (stack, frame) = unsafe {
        (
            core::ptr::read_volatile(&raw const regs.rsp),
            core::ptr::read_volatile(&raw const regs.rbp),
        )
    };
    let from_frame = cookie.count & FRAME != 0;
    let base = if from_frame { frame } else { stack };
    let at = base.wrapping_add(u64::from(cookie.stack_moved));
    let from = caller(kmp, regs.rip, at, frame);
    let ends = cookie.count & ENDS != 0;
    let slot = team::come(
        cookie,
        team,
        (count, || rounds(team).unwrap_or(0)),
        at,
        from,
        ends,
    );
    if let Some(slot) = slot
        && cookie.count & PASSES != 0
    {
        slot.pass();
    }
    0
}

/// How many rounds the barriers of a team have had; `None` if it is gone.
#[inline(always)]
pub fn rounds(team: u64) -> Option<u32> {
    sbt_common::kmp::rounds(ARRIVED.map(|at| word(team.wrapping_add(u64::from(at)))))
}

/// Who in the program has called the runtime, of which the innermost return
/// address lies at `at`. What rbp was then is not known.
#[inline(always)]
fn caller(kmp: &Kmp, probe: u64, at: u64, frame: u64) -> Caller {
    let caller = word(at);
    let of = |at, address| Caller {
        at,
        address,
        rbp: 0,
    };
    for outer in &kmp.outer {
        if outer.returns == 0 {
            break;
        }
        if probe.wrapping_add(outer.returns as i64 as u64) == caller {
            let at = match outer.above {
                SAVED => word(at.wrapping_sub(8)).wrapping_add(8),
                HELD => frame.wrapping_add(8),
                above => at.wrapping_add(u64::from(above)),
            };
            return of(at, word(at));
        }
    }
    of(at, caller)
}
