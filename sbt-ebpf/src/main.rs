//! The BPF programs: one for each kind of event, as short as possible.
//!
//! Every program does the same: find the thread's slot, reserve room in the ring of this CPU, take
//! the time, fill the record, submit it. The order matters. The time is taken *after* the
//! reservation, so a record with a time before some moment is already visible in its ring at that
//! moment. So the agent can merge the rings exactly, without guessing how late a record may come.
#![no_std]
#![no_main]
#![feature(asm_experimental_arch)]

mod condvar;
mod counters;
mod futex;
mod kmp;
mod make;
mod memory;
mod mpi;
mod ring;
mod sleeps;
mod speed;
mod switches;
mod target;
mod task;
mod team;
mod thread;
mod walk;

use aya_ebpf::{
    EbpfContext as _,
    bindings::pt_regs,
    helpers::bpf_get_attach_cookie,
    macros::{raw_tracepoint, uprobe, uretprobe},
    programs::{ProbeContext, RawTracePointContext, RetProbeContext},
};
use sbt_common::{
    Arrive, Caller, Cookie, Depart, Head, Held, Init, Mapping, MarkCookie, Memory, at_end,
    collective, is_to_be_shared, kind, layout, stepped,
};

use crate::{
    memory::{Arguments, Own, Probed},
    ring::{Wake, send},
    target::config,
    task::Task,
};

const fn head(kind: u8, layout: u8, tid: u32) -> Head {
    Head {
        kind,
        layout,
        detail: 0,
        tid,
    }
}

/// A thread enters a barrier; the first argument is the object.
#[uprobe]
pub fn arrive(ctx: ProbeContext) -> u32 {
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
    // A barrier that the user has named may be built on one of the C library.
    let object = regs.rdi;
    if slot.is_in_call(at) {
        // The round of the inner barrier goes on unseen.
        slot.forget(object);
        return 0;
    }
    slot.stay.enter();

    if slot.must_read(object) {
        remember(&task, slot, cookie.layout, object);
    }
    let caller = caller(at, regs);
    slot.enter_from(caller);
    let callers = walk::callers(&task, slot, caller);
    tell_arrival(&task, slot, cookie, object, callers);
    0
}

/// The caller of the function that was just entered. `at`: where its return address lies.
#[inline(always)]
fn caller(at: u64, regs: &pt_regs) -> Caller {
    Caller {
        at,
        address: word(at),
        rbp: regs.rbp,
    }
}

/// Reads a word of the target's memory; 0 if it cannot be read.
#[inline(always)]
fn word(at: u64) -> u64 {
    memory::user(at)
}

/// Sends that the current thread enters a barrier.
#[inline(always)]
fn tell_arrival(
    task: &Task,
    slot: &mut thread::Slot,
    cookie: Cookie,
    object: u64,
    callers: (u64, u32),
) {
    tell_arrival_and_wake(task, slot, cookie, object, callers, (0, false));
}

/// As [`tell_arrival`]. `detail`: see [`Head::detail`]; `now`: wake the agent at once.
#[inline(always)]
fn tell_arrival_and_wake(
    task: &Task,
    slot: &mut thread::Slot,
    cookie: Cookie,
    object: u64,
    (caller, epoch): (u64, u32),
    (detail, now): (u16, bool),
) {
    speed::tell(task, slot);
    let seq = slot.next_seq();
    counters::tell(task, seq);
    let wake = if now { Wake::Now } else { Wake::at(seq) };
    let sent = send(wake, || Arrive {
        head: Head {
            detail: detail | stepped(cookie.stepped),
            ..head(kind::ARRIVE, cookie.layout, task.tid())
        },
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

/// Sends the number of threads and the round of a barrier. False if there was no room in the ring.
#[inline(always)]
fn tell_count(
    task: &Task,
    slot: &mut thread::Slot,
    cookie: Cookie,
    object: u64,
    (count, round): (u32, u32),
) -> bool {
    let seq = slot.next_seq();
    tell_held(task, cookie, object, seq, [count, round, 0])
}

/// Sends what a barrier's memory holds: number of threads, round, arrivals; see [`Memory`]. False if
/// there was no room in the ring.
#[inline(always)]
fn tell_held(
    task: &Task,
    cookie: Cookie,
    object: u64,
    seq: u32,
    [count, round, arrived]: [u32; 3],
) -> bool {
    send(Wake::at(seq), || Memory {
        head: head(kind::MEMORY, cookie.layout, task.tid()),
        time_ns: task::now(),
        object,
        seq,
        count,
        round,
        arrived,
    })
}

/// A thread enters a function that the user has named as a barrier. Other barriers do not count
/// while the thread is inside.
#[uprobe]
pub fn call(ctx: ProbeContext) -> u32 {
    target::on_own_stack();
    let cookie = Cookie::unpack(unsafe { bpf_get_attach_cookie(ctx.as_ptr()) });
    if cookie.generation != thread::generation() {
        return 0;
    }
    let task = Task::current();
    let Some(slot) = thread::slot(&task) else {
        return 0;
    };
    // SAFETY: as in `arrive`.
    let regs = unsafe { &*ctx.regs };
    let at = cookie.returns_at(&Probed(regs));
    if !slot.stay.calls_anew(at) && slot.is_in_call(at) {
        return 0;
    }
    let caller = caller(at, regs);
    slot.stay.enter_call(at, caller.address);
    let arguments = Arguments::read(regs);
    let argument = |number: u8| arguments.numbered(number);
    let object = cookie.called(at, argument, &Own);
    if cookie.count != 0 {
        // Each time: one object may be used for different numbers of threads.
        let count = argument(cookie.count) as u32;
        tell_count(&task, slot, cookie, object, (count, 0));
    }
    let callers = walk::callers(&task, slot, caller);
    let now = cookie.layout == layout::MPI && mpi::tell(&task, slot, cookie, object);
    let detail = collective(cookie.displacement);
    tell_arrival_and_wake(&task, slot, cookie, object, callers, (detail, now));
    0
}

/// The function whose entry [`call`] saw is about to return, or to end with a jump to another
/// function. A return probe cannot be used: exceptions and cancelled threads unwind the stack, and
/// fail at a return probe.
#[uprobe]
pub fn call_exit(ctx: ProbeContext) -> u32 {
    target::on_own_stack();
    let task = Task::current();
    // SAFETY: as in `arrive`.
    let at = unsafe { (*ctx.regs).rsp };
    if let Some(slot) = thread::slot(&task)
        && slot.stay.ends_call(at)
        && slot.stay.leave_from(at)
    {
        tell_clocks(head(kind::DEPART, 0, task.tid()), &task, slot, (0, false));
    }
    0
}

/// A thread passes a place that the user has marked, or begins a parallel region. For a region the
/// depth of the stack is sent, which shows whether an earlier region has ended.
#[uprobe]
pub fn mark(ctx: ProbeContext) -> u32 {
    target::on_own_stack();
    let cookie = MarkCookie::unpack(unsafe { bpf_get_attach_cookie(ctx.as_ptr()) });
    if cookie.generation != thread::generation() {
        return 0;
    }
    let task = Task::current();
    if let Some(slot) = thread::slot(&task) {
        // SAFETY: as in `arrive`.
        let mark = cookie.told(unsafe { (*ctx.regs).rsp });
        let head = Head {
            detail: stepped(cookie.stepped),
            ..head(kind::MARK, 0, task.tid())
        };
        tell_clocks(head, &task, slot, (mark, false));
    }
    0
}

/// Sends what the object holds; kept out of the common path.
#[inline(never)]
fn remember(task: &Task, slot: &mut thread::Slot, layout: u8, object: u64) {
    // Taken before the reading, so that a change in between makes the reading stale.
    let trust = thread::trust();
    let held = Held::read(layout, object, &Own);
    let is_read = held.is_none_or(|held| held.count != 0);
    let Held {
        count,
        round,
        arrived,
        shared,
    } = held.unwrap_or_default();
    let seq = slot.next_seq();
    // Memory that a parent shares with its child cannot be read before the child has touched it. The
    // agent must look up what lies there while the process lives.
    let wake = if (shared || !is_read) && config!(children) != 0 && seq < 4 {
        Wake::Now
    } else {
        Wake::at(seq)
    };
    let sent = send(wake, || Memory {
        head: Head {
            detail: u16::from(shared),
            ..head(kind::MEMORY, layout, task.tid())
        },
        time_ns: task::now(),
        object,
        seq,
        count,
        round,
        arrived,
    });
    if !sent {
        thread::distrust();
    } else if is_read {
        slot.has_read(object, trust, layout);
    }
}

/// Sends how many rounds an object has had that the current thread, which ends, knows. Sends
/// nothing if the object does not count them.
#[inline(never)]
fn tell_turn(task: &Task, slot: &mut thread::Slot, layout: u8, object: u64) {
    let Some([count, round, arrived]) = at_end(layout, object, &Own) else {
        return;
    };
    let seq = slot.next_seq();
    send(Wake::No, || Memory {
        head: head(kind::MEMORY, layout, task.tid()),
        time_ns: task::now(),
        object,
        seq,
        count,
        round,
        arrived,
    });
}

/// The function of a barrier returns.
#[uretprobe]
pub fn depart(ctx: RetProbeContext) -> u32 {
    target::on_own_stack();
    let task = Task::current();
    // SAFETY: as in `arrive`.
    let at = unsafe { (*ctx.regs).rsp }.wrapping_sub(8);
    if let Some(slot) = thread::slot(&task)
        && slot.stay.leave_from(at)
    {
        tell_clocks(head(kind::DEPART, 0, task.tid()), &task, slot, (0, false));
    }
    0
}

/// Sends the clocks of the current thread.
#[inline(always)]
fn tell_clocks(head: Head, task: &Task, slot: &mut thread::Slot, (mark, now): (u32, bool)) {
    let seq = slot.next_seq();
    counters::tell(task, seq);
    let wake = if now { Wake::Now } else { Wake::at(seq) };
    let sent = send(wake, || Depart {
        head,
        clocks: task.clocks(),
        seq,
        mark,
    });
    if !sent {
        thread::distrust();
    }
}

/// `pthread_barrier_init(object, attributes, count)` is entered: from now on, what is remembered of
/// objects may be stale.
#[uprobe]
pub fn init(ctx: ProbeContext) -> u32 {
    target::on_own_stack();
    let task = Task::current();
    let Some(slot) = thread::slot(&task) else {
        return 0;
    };
    // SAFETY: as in `arrive`.
    let regs = unsafe { &*ctx.regs };
    thread::distrust();
    let shared = is_to_be_shared(regs.rsi, &Own);
    let seq = slot.next_seq();
    send(Wake::at(seq), || Init {
        head: Head {
            detail: u16::from(shared),
            ..head(kind::INIT, 0, task.tid())
        },
        time_ns: task::now(),
        object: regs.rdi,
        seq,
        count: regs.rdx as u32,
    });
    0
}

/// The dynamic linker calls the function by which debuggers learn that the list of libraries has
/// changed.
#[uprobe]
pub fn mapped(_ctx: ProbeContext) -> u32 {
    target::on_own_stack();
    let task = Task::current();
    if target::owns(&task, true) {
        thread::renew_walks();
        mapping(&task, kind::MAPPED, false, 0);
    }
    0
}

/// `sched_process_fork(parent, child)`: the child has not run yet.
#[raw_tracepoint(tracepoint = "sched_process_fork")]
pub fn fork(ctx: RawTracePointContext) -> i32 {
    let task = Task::current();
    if config!(children) == 0 || !target::owns(&task, false) {
        return 0;
    }
    // The tracepoint has two arguments, this one a task.
    let child: *const u8 = ctx.arg(1);
    let number = |offset: u32| memory::kernel::<u32>(child.wrapping_add(offset as usize));
    let (tid, process) = (number(config!(pid)), number(config!(any_tgid)));
    // A new thread is not a child process.
    if process != 0 && tid == process {
        let no_room = !target::follow(process);
        let child = if config!(tgid) == 0 { 0 } else { process };
        mapping(&task, kind::FORK, no_room, child);
    }
    0
}

/// `sched_process_exec(task, old_pid, binary)`.
#[raw_tracepoint(tracepoint = "sched_process_exec")]
pub fn exec(ctx: RawTracePointContext) -> i32 {
    let task = Task::current();
    if target::owns(&task, false) {
        // The agent is told of the exec. Only what is remembered here of addresses is wrong now.
        thread::renew_walks();
        // If another thread than the first calls exec, it gets the number of the first.
        // The tracepoint has three arguments, this one a number.
        let was: u64 = ctx.arg(1);
        let replaced = was as u32 != task.tid();
        if replaced {
            thread::forget(was as u32);
            counters::forget(was as u32);
            make::forget(was as u32);
        }
        mapping(&task, kind::EXEC, replaced, 0);
    }
    0
}

#[raw_tracepoint(tracepoint = "sched_process_exit")]
pub fn exit(_ctx: RawTracePointContext) -> i32 {
    let task = Task::current();
    if !target::owns(&task, false) {
        // The threads of this process end together, and the last one has been seen: the agent ends
        // the others with it. Their numbers may be given to other threads.
        if config!(children) != 0 && thread::is_known(&task) {
            thread::announce_again();
            counters::forget(task.tid());
            make::forget(task.tid());
        }
        return 0;
    }
    // Children that use no barrier are left out: some programs have thousands of them.
    if config!(children) == 0 || thread::is_known(&task) || target::is_target(&task) == Some(true) {
        // Announced once more, since the thread's name may have changed.
        let read = thread::has_read(&task);
        thread::announce_again();
        if let Some(slot) = thread::slot(&task) {
            // Memory can still be read here (Linux 6.16). It tells of rounds that were not watched.
            for (layout, object) in read {
                tell_turn(&task, slot, layout as u8, object);
            }
            // When the first thread of a process is gone, the kernel no longer finds the others by
            // their process: then the agent must look at once.
            let head = head(kind::EXIT, 0, task.tid());
            tell_clocks(head, &task, slot, (0, task.leaves_others()));
        }
        // Its number may be given to another thread.
        thread::announce_again();
        counters::forget(task.tid());
        make::forget(task.tid());
    }
    if config!(children) != 0 && task.is_last() && target::unfollow(&task) {
        mapping(&task, kind::END, false, 0);
    }
    0
}

fn mapping(task: &Task, kind: u8, flag: bool, child: u32) {
    // The end of a process is not urgent, and thousands may end.
    let wake = if kind == kind::END {
        Wake::No
    } else {
        Wake::Now
    };
    send(wake, || Mapping {
        head: head(kind, u8::from(flag), task.tid()),
        time_ns: task::now(),
        ns_tgid: target::ids(task).map_or(0, |(_, tgid)| tgid),
        child,
    });
}

/// Run by the agent in its own context, once at start.
#[raw_tracepoint(tracepoint = "sched_process_exec")]
pub fn calibrate(_ctx: RawTracePointContext) -> i32 {
    let task = Task::current();
    send(Wake::No, || Depart {
        head: head(kind::CALIBRATE, 0, task.tid()),
        clocks: task.clocks(),
        seq: 0,
        mark: 0,
    });
    0
}

/// Does nothing. Benchmarks use it as the unit of measure: the cost of a probe alone.
#[uprobe]
pub fn empty(_ctx: ProbeContext) -> u32 {
    0
}

/// As [`empty`], for a return probe.
#[uretprobe]
pub fn empty_return(_ctx: RetProbeContext) -> u32 {
    0
}

#[cfg(not(test))]
#[panic_handler]
fn panic(_info: &core::panic::PanicInfo) -> ! {
    loop {}
}

#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
