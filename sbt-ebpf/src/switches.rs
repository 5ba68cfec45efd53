//! What threads of the target do while they are on no CPU, if this is watched: one record each time
//! that a thread comes back to a CPU.
//!
//! Why a thread leaves is noted when it leaves: then it is the current task, and its fields are read
//! directly. How long it was ready is known when it comes back: by its run delay, and by the time
//! when it was put into the run queue.

use aya_ebpf::{
    bindings::bpf_map_type::BPF_MAP_TYPE_ARRAY,
    helpers::{bpf_map_lookup_elem, bpf_probe_read_kernel},
    macros::raw_tracepoint,
    programs::RawTracePointContext,
};
use sbt_common::{Away, Head, LEFT_SLOTS, Left, Taker, UNKNOWN, how, kind, taker};

use crate::{
    ring::{MapDef, Wake, send},
    target::{self, config},
    task::{self, Task},
};

/// Has one entry if switches are not watched.
#[unsafe(link_section = "maps")]
#[unsafe(no_mangle)]
static LEFT: MapDef = MapDef::new(BPF_MAP_TYPE_ARRAY, size_of::<Left>() as u32, LEFT_SLOTS);

/// `TASK_STOPPED | TASK_TRACED` of the kernel.
const STOPPED: u64 = 4 | 8;
/// `TASK_DEAD`
const DEAD: u64 = 0x80;
/// `PF_KTHREAD`
const KERNEL_THREAD: u32 = 0x0020_0000;
/// What took a CPU for a shorter time, ns, is not sent: that is only a way through the kernel.
const WORTH_TELLING: u64 = 20_000;

/// A field of a task that is not the current one.
#[inline(always)]
fn of<T>(task: *const u8, offset: u32) -> Option<T> {
    // SAFETY: a copy that may fail.
    unsafe { bpf_probe_read_kernel(task.wrapping_add(offset as usize).cast::<T>()) }.ok()
}

/// The entry of a thread. Another thread whose id has the same low bits may be in it.
#[inline(always)]
fn left(tid: u32) -> Option<&'static mut Left> {
    let slot = tid & (LEFT_SLOTS - 1);
    let entry = unsafe { bpf_map_lookup_elem(LEFT.as_ptr(), (&raw const slot).cast()) };
    // SAFETY: null or a value of the map. Switches of one thread follow each other.
    unsafe { entry.cast::<Left>().as_mut() }
}

#[inline(always)]
fn is_ours(process: u32) -> bool {
    // The idle tasks are switched to most often.
    process != 0 && target::is_one_of_us(process)
}

/// `sched_switch(preempt, previous, next, state)`: the previous thread is still the
/// current one.
#[raw_tracepoint(tracepoint = "sched_switch")]
pub fn away(ctx: RawTracePointContext) -> i32 {
    let task = Task::current();
    let process = task.tgid().unwrap_or(0);
    let next: *const u8 = ctx.arg(2);
    let next_process = of(next, config!(any_tgid)).unwrap_or(0);
    let (leaves, comes) = (is_ours(process), is_ours(next_process));
    if leaves {
        let (preempted, state): (u64, u64) = (ctx.arg(0), ctx.arg(3));
        leave(
            &task,
            preempted & 0xff != 0,
            state & 0xffff_ffff,
            next,
            next_process,
        );
    }
    if comes {
        come(&task, process, leaves, next);
    }
    0
}

#[inline(always)]
fn kind_of(process: u32, is_ours: bool, flags: u32) -> u8 {
    if process == 0 {
        taker::NOBODY
    } else if is_ours {
        taker::OWN
    } else if flags & KERNEL_THREAD != 0 {
        taker::KERNEL
    } else {
        taker::OTHER
    }
}

#[inline(always)]
fn leave(task: &Task, preempted: bool, state: u64, next: *const u8, next_process: u32) {
    let Some(entry) = left(task.tid()) else {
        return;
    };
    if state & DEAD != 0 {
        // Its number may be given to another thread.
        entry.tid = 0;
        return;
    }
    if entry.tid != task.tid() {
        entry.tid = task.tid();
        entry.seq = 0;
    }
    entry.left_ns = task::now();
    entry.delay_ns = task.delay_ns();
    // A thread that is preempted on the way to sleep does not sleep yet.
    if preempted || state == 0 {
        entry.how = u32::from(how::READY);
        entry.taker = of(next, config!(pid)).unwrap_or(0);
        entry.taker_process = next_process;
        let flags = of(next, config!(flags)).unwrap_or(0);
        entry.taker_kind = u32::from(kind_of(next_process, is_ours(next_process), flags));
        entry.taker_comm = of(next, config!(comm)).unwrap_or([0; 2]);
        return;
    }
    let call = task.system_call();
    entry.call = call as u32 & 0xffff;
    entry.how = u32::from(if state & STOPPED != 0 {
        how::STOPPED
    } else if call < 0 {
        how::FAULT
    } else if task.waits_for_io() {
        how::IO
    } else {
        how::ASLEEP
    });
}

/// The thread `next` comes to a CPU; `task` is the current one, which leaves.
#[inline(always)]
fn come(task: &Task, process: u32, is_ours: bool, next: *const u8) {
    let tid: u32 = of(next, config!(pid)).unwrap_or(0);
    let Some(entry) = left(tid) else {
        return;
    };
    if entry.tid != tid {
        entry.tid = tid;
        entry.seq = 0;
        entry.how = u32::from(how::UNSEEN);
        entry.left_ns = 0;
    }
    let seq = entry.seq;
    entry.seq = seq.wrapping_add(1);
    let (was, left_ns) = (entry.how as u8, entry.left_ns);
    let clock = task.cpu_clock();
    let ready_ns = ready_ns(entry, clock, next);
    // The current task ran last, and the task that ran first was noted. Time of tasks in between is
    // added to the first.
    if ready_ns >= WORTH_TELLING && ready_ns != UNKNOWN {
        let since = task.on_cpu_since();
        let ran = if since == 0 {
            ready_ns
        } else {
            clock.wrapping_sub(since)
        };
        let is_first = was == how::READY && entry.taker == task.tid();
        let took_ns = if is_first || ran > ready_ns {
            ready_ns
        } else {
            ran
        };
        let mut rest_ns = ready_ns;
        if process != 0 {
            let kind = kind_of(process, is_ours, task.flags());
            tell_taker(tid, seq, kind, process, took_ns, task.comm());
            rest_ns -= took_ns;
        }
        if was == how::READY && rest_ns > 0 {
            let kind = entry.taker_kind as u8;
            tell_taker(
                tid,
                seq,
                kind,
                entry.taker_process,
                rest_ns,
                entry.taker_comm,
            );
        }
    }
    let call = entry.call as u16;
    // So that this time is not taken for that of a next leave, which may not be seen.
    entry.how = u32::from(how::UNSEEN);
    entry.left_ns = 0;
    send(Wake::at(seq), || Away {
        head: Head {
            kind: kind::AWAY,
            layout: was,
            detail: call,
            tid,
        },
        time_ns: task::now(),
        left_ns,
        ready_ns,
        seq,
        reserved: 0,
    });
}

/// How long `next`, which is put on this CPU, was ready since it left a CPU, ns.
#[inline(always)]
fn ready_ns(entry: &Left, clock: u64, next: *const u8) -> u64 {
    if config!(run_delay) == 0 || config!(last_queued) == 0 || clock == 0 {
        return UNKNOWN;
    }
    let queued: u64 = of(next, config!(last_queued)).unwrap_or(0);
    // The kernel adds this time to the run delay only at the end of the switch.
    let last = if queued == 0 {
        0
    } else {
        clock.wrapping_sub(queued)
    };
    if entry.how == u32::from(how::UNSEEN) {
        return last;
    }
    let delay: u64 = of(next, config!(run_delay)).unwrap_or(entry.delay_ns);
    delay.wrapping_sub(entry.delay_ns).wrapping_add(last)
}

#[inline(always)]
fn tell_taker(tid: u32, seq: u32, kind: u8, process: u32, took_ns: u64, comm: [u64; 2]) {
    send(Wake::No, || Taker {
        head: Head {
            kind: kind::TAKER,
            layout: kind,
            detail: 0,
            tid,
        },
        time_ns: task::now(),
        took_ns,
        process,
        seq,
        comm,
    });
}
