//! Communicators and groups of MPI, as the program makes them.

use core::ptr::addr_of_mut;

use aya_ebpf::{
    EbpfContext as _,
    bindings::bpf_map_type::BPF_MAP_TYPE_LRU_HASH,
    helpers::{
        bpf_get_attach_cookie, bpf_map_delete_elem, bpf_map_lookup_elem, bpf_map_update_elem,
        generated::bpf_probe_read_user,
    },
    macros::uprobe,
    programs::ProbeContext,
};
use sbt_common::{
    Cookie, LENGTH_UNKNOWN, MAKE_LIST, MAX_MAKING, Made, Make, Making, SOME, TOO_LONG, kind,
};

use crate::{
    head,
    memory::{Arguments, Own, Probed},
    ring::{MapDef, Wake, send, send_into},
    target,
    task::{self, Task},
    thread, word,
};

#[unsafe(link_section = "maps")]
#[unsafe(no_mangle)]
static MAKING: MapDef = MapDef::keyed(
    BPF_MAP_TYPE_LRU_HASH,
    4,
    size_of::<Making>() as u32,
    MAX_MAKING,
);

/// A thread enters a function of MPI that makes a communicator or a group, or ends it.
#[uprobe]
pub fn make(ctx: ProbeContext) -> u32 {
    target::on_own_stack();
    let cookie = Cookie::unpack(unsafe { bpf_get_attach_cookie(ctx.as_ptr()) });
    if cookie.generation != thread::generation() {
        return 0;
    }
    let task = Task::current();
    let Some(slot) = thread::slot(&task) else {
        return 0;
    };
    // SAFETY: the context of a uprobe is the probed thread's registers.
    let regs = unsafe { &*ctx.regs };
    let at = cookie.returns_at(&Probed(regs));
    let tid = task.tid();
    let last = making(tid);
    if last.as_ref().is_some_and(|last| last.contains(at, &Own)) {
        return 0;
    }
    let number = last.map_or(0, |last| last.number);
    let arguments = Arguments::read(regs);
    let argument = |number: u8| arguments.numbered(number);
    let out = cookie.called(at, argument, &Own);
    let now = Making {
        at,
        returns_to: word(at),
        out,
        number: number.wrapping_add(1),
        reserved: 0,
    };
    unsafe {
        bpf_map_update_elem(
            MAKING.as_ptr(),
            (&raw const tid).cast(),
            (&raw const now).cast(),
            0,
        )
    };
    let length = length(cookie, argument);
    let seq = slot.next_seq();
    // A process that becomes a rank must be looked at while it lives.
    let wake = if cookie.object == 0 {
        Wake::Now
    } else {
        Wake::at(seq)
    };
    let sent = send_into(wake, |room: *mut Make| {
        // SAFETY: the room is as long as the record, and nothing else uses it. Its list may hold
        // anything beyond the numbers that are copied, of which there are less than `MAKE_LIST`.
        unsafe {
            addr_of_mut!((*room).head).write(head(kind::MAKE, cookie.layout, tid));
            addr_of_mut!((*room).time_ns).write(task::now());
            addr_of_mut!((*room).seq).write(seq);
            addr_of_mut!((*room).number).write(number);
            addr_of_mut!((*room).reserved).write(0);
            addr_of_mut!((*room).held).write(word(out));
            addr_of_mut!((*room).arguments).write([
                argument(1),
                argument(2),
                argument(3),
                argument(4),
                argument(5),
                argument(6),
            ]);
            let is_read = length == 0
                || length != TOO_LONG
                    && bpf_probe_read_user(
                        addr_of_mut!((*room).list).cast(),
                        (length as usize & (MAKE_LIST - 1)) as u32 * 4,
                        argument(cookie.count) as *const _,
                    ) == 0;
            addr_of_mut!((*room).listed).write(if is_read { length } else { TOO_LONG });
        }
    });
    if !sent {
        thread::distrust();
    }
    0
}

/// How many numbers the list has that is an argument of the function.
#[inline(always)]
fn length(cookie: Cookie, argument: impl Fn(u8) -> u64) -> u32 {
    if cookie.count == 0 {
        return 0;
    }
    if cookie.displacement == LENGTH_UNKNOWN {
        return SOME;
    }
    // The argument before the list.
    let length = u64::from(argument(cookie.count - 1) as u32) * u64::from(cookie.displacement);
    if length < MAKE_LIST as u64 {
        length as u32
    } else {
        TOO_LONG
    }
}

/// The call that a thread is in or was in last.
#[inline(always)]
fn making(tid: u32) -> Option<&'static mut Making> {
    let found = unsafe { bpf_map_lookup_elem(MAKING.as_ptr(), (&raw const tid).cast()) };
    // SAFETY: the map's values are of this type, and only their own thread writes them.
    unsafe { found.cast::<Making>().as_mut() }
}

/// The function whose entry [`make`] saw is about to return.
#[uprobe]
pub fn made(ctx: ProbeContext) -> u32 {
    target::on_own_stack();
    let task = Task::current();
    let tid = task.tid();
    // SAFETY: as in `make`.
    let (at, returned) = unsafe { ((*ctx.regs).rsp, (*ctx.regs).rax) };
    let Some(making) = making(tid).filter(|making| making.at == at) else {
        return 0;
    };
    let (value, number) = (word(making.out), making.number);
    making.at = 0;
    making.number = number.wrapping_add(1);
    let Some(slot) = thread::slot(&task) else {
        return 0;
    };
    let seq = slot.next_seq();
    let sent = send(Wake::at(seq), || Made {
        head: head(kind::MADE, 0, tid),
        time_ns: task::now(),
        value,
        seq,
        number,
        error: returned as u32,
        reserved: 0,
    });
    if !sent {
        thread::distrust();
    }
    0
}

/// The thread's number may be given to another thread.
pub fn forget(tid: u32) {
    unsafe { bpf_map_delete_elem(MAKING.as_ptr(), (&raw const tid).cast()) };
}
