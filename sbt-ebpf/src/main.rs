//! The BPF programs: one per kind of moment, each as short as it can be.
//!
//! Every program answers the same way: find the thread's slot, reserve room in
//! the ring of this CPU, stamp, fill, submit. The order matters. The stamp is
//! taken *after* the reservation, so a record that is stamped before some
//! moment is already visible in its ring at that moment, and the reader can
//! merge the rings exactly instead of guessing how late a record may come.
#![no_std]
#![no_main]
#![feature(asm_experimental_arch)]

mod condvar;
mod counters;
mod futex;
mod kmp;
mod memory;
mod mpi;
mod ring;
mod switches;
mod target;
mod task;
mod team;
mod thread;
mod walk;

use aya_ebpf::{
    EbpfContext as _,
    bindings::pt_regs,
    helpers::{bpf_get_attach_cookie, bpf_probe_read_user},
    macros::{raw_tracepoint, uprobe, uretprobe},
    programs::{ProbeContext, RawTracePointContext, RetProbeContext},
};
use sbt_common::{
    Arrive, Cookie, Depart, Head, Init, Mapping, MarkCookie, Memory, STEPPED, kind,
    kmp::{GONE, LAST},
    layout,
};

use crate::{
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
    let at = returns_at(regs, cookie);
    // A barrier of the user's own may be built on one of the C library's.
    let object = regs.rdi;
    if slot.is_in_call(at) {
        // Its round goes on unseen.
        slot.forget(object);
        return 0;
    }
    slot.enter();

    if slot.must_read(object) {
        remember(&task, slot, cookie.layout, object);
    }
    let caller = word(at);
    slot.enter_from(at, caller);
    let callers = walk::callers(&task, slot, at, caller, regs.rbp);
    tell_arrival(&task, slot, cookie, object, callers);
    0
}

/// Where on the stack the address lies to which the function returns that was
/// just entered.
#[inline(always)]
fn returns_at(regs: &pt_regs, cookie: Cookie) -> u64 {
    regs.rsp.wrapping_add(u64::from(cookie.stack_moved))
}

/// What the target's memory holds there; 0 if it cannot be read.
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

/// The same; `detail`: see [`Head::detail`]; `now`: the reader is to come at once.
#[inline(always)]
fn tell_arrival_and_wake(
    task: &Task,
    slot: &mut thread::Slot,
    cookie: Cookie,
    object: u64,
    (caller, epoch): (u64, u32),
    (detail, now): (u16, bool),
) {
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

/// Sends for how many threads a barrier is, where nothing else is known of it.
/// Whether there was room.
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

/// Sends what a barrier holds: for how many threads it is, its round, and how many have
/// come; see [`Memory`]. Whether there was room.
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

/// A thread enters a function that the user has named as a barrier. Whatever it
/// is built on does not count while the thread is inside.
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
    let at = returns_at(regs, cookie);
    if !slot.calls_anew(at) && slot.is_in_call(at) {
        return 0;
    }
    let caller = word(at);
    slot.enter_call(at, caller);
    // Without an object the function is the barrier.
    let arguments = Registers::read(regs);
    let argument = |number: u8| arguments.argument(number);
    let object = if cookie.object > 6 {
        word(at.wrapping_add(8 * u64::from(cookie.object - 6)))
    } else {
        argument(cookie.object)
    };
    if cookie.count != 0 {
        // Each time: one object may be used for different numbers.
        let count = argument(cookie.count) as u32;
        tell_count(&task, slot, cookie, object, (count, 0));
    }
    let callers = walk::callers(&task, slot, at, caller, regs.rbp);
    let now = cookie.layout == layout::MPI && mpi::tell(&task, slot, cookie, object);
    tell_arrival_and_wake(&task, slot, cookie, object, callers, (0, now));
    0
}

/// The instruction pointer and the registers of the first six arguments.
struct Registers([u64; 7]);

impl Registers {
    #[inline(always)]
    fn read(regs: &pt_regs) -> Self {
        // Each by a load of its own: were the register chosen by address, the
        // verifier would not let it be loaded from the context.
        macro_rules! load {
            ($($name:ident),*) => {
                // SAFETY: fields of a valid structure.
                [$(unsafe { core::ptr::read_volatile(&raw const regs.$name) }),*]
            };
        }
        Self(load!(rip, rdi, rsi, rdx, rcx, r8, r9))
    }

    /// 1 to 6; any other number gives the instruction pointer.
    #[inline(always)]
    fn argument(&self, number: u8) -> u64 {
        match number {
            1 => self.0[1],
            2 => self.0[2],
            3 => self.0[3],
            4 => self.0[4],
            5 => self.0[5],
            6 => self.0[6],
            _ => self.0[0],
        }
    }
}

/// The function that [`call`] saw entered is about to return, or to jump to
/// another in its place. No return probe tells that: nobody who unwinds the
/// stack, for an exception or a cancelled thread, gets past one.
#[uprobe]
pub fn call_exit(ctx: ProbeContext) -> u32 {
    target::on_own_stack();
    let task = Task::current();
    // SAFETY: as in `arrive`.
    let at = unsafe { (*ctx.regs).rsp };
    if let Some(slot) = thread::slot(&task)
        && slot.ends_call(at)
        && slot.leave_from(at)
    {
        tell_clocks(head(kind::DEPART, 0, task.tid()), &task, slot, (0, false));
    }
    0
}

/// See [`STEPPED`].
#[inline(always)]
const fn stepped(is: bool) -> u16 {
    if is { STEPPED } else { 0 }
}

/// A thread passes a place that the user has marked, or begins a parallel region:
/// then it tells how deep it is in its calls, by which it shows whether an earlier
/// region has ended.
#[uprobe]
pub fn mark(ctx: ProbeContext) -> u32 {
    target::on_own_stack();
    let cookie = MarkCookie::unpack(unsafe { bpf_get_attach_cookie(ctx.as_ptr()) });
    if cookie.generation != thread::generation() {
        return 0;
    }
    let task = Task::current();
    if let Some(slot) = thread::slot(&task) {
        let mut mark = u32::from(cookie.mark);
        if cookie.mark == MarkCookie::REGION {
            // SAFETY: as in `arrive`.
            let stack = unsafe { (*ctx.regs).rsp };
            mark |= ((stack >> 3) as u32) << 8;
        }
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
    // From before the reading: what happens meanwhile makes it stale.
    let trust = thread::trust();
    let (count, round, arrived, shared) = match layout {
        layout::GLIBC => {
            let [arrived, round, count, shared] = memory::user::<[u32; 4]>(object);
            (count, round, arrived, shared != 0)
        }
        layout::MUSL => unsafe { bpf_probe_read_user(object as *const [u32; 3]) }
            .map_or((0, 0, 0, false), |[_, _, limit]| {
                ((limit & 0x7fff_ffff) + 1, 0, 0, limit >> 31 != 0)
            }),
        _ => (0, 0, 0, false),
    };
    let seq = slot.next_seq();
    // What a parent has shared with its child cannot be read before the child has
    // touched it.
    let unread = count == 0 && (layout == layout::GLIBC || layout == layout::MUSL);
    // What lies there in memory must be looked up while the process lives.
    let wake = if (shared || unread) && config!(children) != 0 && seq < 4 {
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
    } else if !unread {
        slot.has_read(object, trust, layout);
    }
}

/// Sends how many rounds an object has had that the current thread, which ends, knows;
/// nothing if it does not count them.
#[inline(never)]
fn tell_turn(task: &Task, slot: &mut thread::Slot, layout: u8, object: u64) {
    let (count, round, arrived) = if layout == layout::KMP {
        kmp::rounds(object).map_or((0, 0, GONE), |rounds| (0, rounds, LAST))
    } else {
        let [first, second, third] = memory::user::<[u32; 3]>(object);
        match layout {
            layout::GLIBC => (third, second, first),
            layout::GOMP => (first, second, 0),
            _ => return,
        }
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

/// The function that a thread entered returns.
#[uretprobe]
pub fn depart(ctx: RetProbeContext) -> u32 {
    target::on_own_stack();
    let task = Task::current();
    // SAFETY: as in `arrive`.
    let at = unsafe { (*ctx.regs).rsp }.wrapping_sub(8);
    if let Some(slot) = thread::slot(&task)
        && slot.leave_from(at)
    {
        tell_clocks(head(kind::DEPART, 0, task.tid()), &task, slot, (0, false));
    }
    0
}

/// Sends where the current thread stands.
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

/// `pthread_barrier_init(object, attributes, count)` is entered: whatever was
/// remembered of objects may be stale from here on.
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
    // The attributes are a word in which only this is said: in glibc 1, in musl the
    // highest bit.
    let shared = regs.rsi != 0 && word(regs.rsi) as u32 != 0;
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

/// The dynamic linker tells debuggers that the list of libraries has changed.
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
    // Another thread is no child.
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
        // The agent tells processes apart, and hears of this one: only what is
        // remembered of addresses here is wrong.
        thread::renew_walks();
        // A thread that is not the first takes the first one's place and number.
        // The tracepoint has three arguments, this one a number.
        let was: u64 = ctx.arg(1);
        let replaced = was as u32 != task.tid();
        if replaced {
            thread::forget(was as u32);
            counters::forget(was as u32);
        }
        mapping(&task, kind::EXEC, replaced, 0);
    }
    0
}

#[raw_tracepoint(tracepoint = "sched_process_exit")]
pub fn exit(_ctx: RawTracePointContext) -> i32 {
    let task = Task::current();
    if !target::owns(&task, false) {
        // Of a process whose threads ended together another one was the last: the agent ends
        // the rest with it. Other threads may come to bear their numbers.
        if config!(children) != 0 && thread::is_known(&task) {
            thread::announce_again();
            counters::forget(task.tid());
        }
        return 0;
    }
    // A child that has used no barrier is nobody's concern: some programs have
    // thousands of them.
    if config!(children) == 0 || thread::is_known(&task) || target::is_target(&task) == Some(true) {
        // Once more with its name, which it may have changed meanwhile.
        let read = thread::has_read(&task);
        thread::announce_again();
        if let Some(slot) = thread::slot(&task) {
            // While it is there still (Linux 6.16): what was not watched is known by it.
            for (layout, object) in read {
                tell_turn(&task, slot, layout as u8, object);
            }
            // From when it is gone the kernel knows the others no more by their process.
            let head = head(kind::EXIT, 0, task.tid());
            tell_clocks(head, &task, slot, (0, task.leaves_others()));
        }
        // Another thread may come to bear its number.
        thread::announce_again();
        counters::forget(task.tid());
    }
    if config!(children) != 0 && task.is_last() && target::unfollow(&task) {
        mapping(&task, kind::END, false, 0);
    }
    0
}

fn mapping(task: &Task, kind: u8, flag: bool, child: u32) {
    // Nobody waits for the end of a process, and there may be thousands.
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

/// The empty program: what a probe costs before it does anything. Used by the
/// benchmarks as the unit of measure.
#[uprobe]
pub fn empty(_ctx: ProbeContext) -> u32 {
    0
}

/// As [`empty`], on return.
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
