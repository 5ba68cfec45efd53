//! LLVM's OpenMP: its barriers have no object. They are told apart by the team of the thread, which
//! is found by the thread's number.

use aya_ebpf::{
    EbpfContext as _,
    bindings::bpf_map_type::BPF_MAP_TYPE_ARRAY,
    helpers::{bpf_get_attach_cookie, bpf_map_lookup_elem},
    macros::uprobe,
    programs::ProbeContext,
};
use sbt_common::{
    Cookie, Kmp, MAX_KMP,
    kmp::{ENDS, PASSES, rounds_of},
};

use crate::{
    memory::{Own, Probed},
    ring::MapDef,
    team, thread,
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
    let registers = Probed(unsafe { &*ctx.regs });
    let Some(hit) = kmp.hit(cookie, &registers, &Own) else {
        return 0;
    };
    let rounds = || rounds_of(hit.team, &Own).unwrap_or(0);
    let ends = cookie.count & ENDS != 0;
    let slot = team::come(
        cookie,
        hit.team,
        (hit.count, rounds),
        hit.at,
        hit.caller,
        ends,
    );
    if let Some(slot) = slot
        && cookie.count & PASSES != 0
    {
        slot.stay.pass();
    }
    0
}
