//! Barriers of the teams of threads of a runtime.

use aya_ebpf::{
    EbpfContext as _, helpers::bpf_get_attach_cookie, macros::uprobe, programs::ProbeContext,
};
use sbt_common::{Caller, Cookie, ENDS, TeamHit, team, team_count};

use crate::{
    memory::{Own, Probed},
    task::Task,
    tell_arrival_and_wake, tell_count, thread, walk,
};

/// A thread comes to a barrier of its team. No probe shows for how many threads such an object is
/// made, so the number is read each time.
#[uprobe]
pub fn team(ctx: ProbeContext) -> u32 {
    crate::target::on_own_stack();
    let cookie = Cookie::unpack(unsafe { bpf_get_attach_cookie(ctx.as_ptr()) });
    if cookie.generation != thread::generation() {
        return 0;
    }
    // SAFETY: the context of a uprobe is the probed thread's registers.
    let registers = Probed(unsafe { &*ctx.regs });
    let hit = TeamHit::read(cookie, &registers, &Own);
    let ends = cookie.count & team::ENDS != 0;
    come(
        cookie,
        hit.object,
        (hit.count, || hit.round),
        hit.caller.at,
        hit.caller,
        ends,
    );
    0
}

/// The current thread comes to a barrier of a team. `at`: where on the stack the return address of
/// the runtime's function lies; `from`: the call in the program; `round` reads how many rounds the
/// barrier has had, and is not called each time; `ends`: see [`ENDS`]. Returns the thread's slot if
/// this is an arrival.
#[inline(always)]
pub fn come(
    cookie: Cookie,
    object: u64,
    (count, round): (u32, impl FnOnce() -> u32),
    at: u64,
    from: Caller,
    ends: bool,
) -> Option<&'static mut thread::Slot> {
    // A single thread waits for nobody.
    if count == 1 {
        thread::comes_alone();
        return None;
    }
    let task = Task::current();
    let slot = thread::slot(&task)?;
    if slot.is_in_call(at) {
        return None;
    }
    slot.stay.enter();
    let tag = thread::trust().wrapping_add(u64::from(count));
    if count != 0 && slot.must_tell(object, tag) {
        if tell_count(&task, slot, cookie, object, (count, round())) {
            slot.has_read(object, tag, cookie.layout);
        } else {
            thread::distrust();
        }
    }
    slot.enter_from(from);
    let callers = walk::callers(&task, slot, from);
    let ends = if ends { ENDS } else { 0 };
    // A thread that reads the same number as last time does not send it again. But meanwhile other
    // threads may have been in a team of another size at the same address.
    let detail = ends | team_count(count);
    tell_arrival_and_wake(&task, slot, cookie, object, callers, (detail, false));
    Some(slot)
}
