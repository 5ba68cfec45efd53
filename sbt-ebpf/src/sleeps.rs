//! How long threads of the target sleep, for which futex or in which system call, and which threads
//! wake them: sums in the kernel. The place is sent for a sample of the sleeps.
//!
//! These programs run at every switch and every wake of the machine, so the check that other
//! processes fail comes first.

use aya_ebpf::{
    EbpfContext as _,
    bindings::bpf_map_type::{BPF_MAP_TYPE_ARRAY, BPF_MAP_TYPE_HASH, BPF_MAP_TYPE_PERCPU_ARRAY},
    helpers::{
        bpf_get_prandom_u32, bpf_map_lookup_elem, bpf_map_update_elem,
        generated::bpf_probe_read_user,
    },
    macros::raw_tracepoint,
    programs::RawTracePointContext,
};
use sbt_common::{
    Asleep, Head, MAX_SLEEPS, NO_CALL, SLEEPER_SLOTS, STACK_WORDS, Sleep, Sleeper, Slept, WAKERS,
    Waker, Woken, kind,
};

use crate::{
    memory,
    ring::{MapDef, Wake, send_sample},
    target::{self, config},
    task::{self, Task, User},
};

#[unsafe(link_section = "maps")]
#[unsafe(no_mangle)]
static SLEEPERS: MapDef = MapDef::new(
    BPF_MAP_TYPE_ARRAY,
    size_of::<Sleeper>() as u32,
    SLEEPER_SLOTS,
);

#[unsafe(link_section = "maps")]
#[unsafe(no_mangle)]
static SLEEPS: MapDef = MapDef::keyed(
    BPF_MAP_TYPE_HASH,
    size_of::<Sleep>() as u32,
    size_of::<Slept>() as u32,
    MAX_SLEEPS,
);

/// Numbers of sleeps, by [`ALL`] and [`UNSUMMED`].
#[unsafe(link_section = "maps")]
#[unsafe(no_mangle)]
static SLEPT: MapDef = MapDef::new(BPF_MAP_TYPE_PERCPU_ARRAY, 8, 2);

/// Number of the sleeps that have ended.
const ALL: u32 = 0;
/// Number of the sleeps for which [`SLEEPS`] had no room.
const UNSUMMED: u32 = 1;

/// Sleeps that began before this time do not count, ns; see [`sbt_common::name::SINCE`].
#[unsafe(link_section = "maps")]
#[unsafe(no_mangle)]
static SINCE: MapDef = MapDef::new(BPF_MAP_TYPE_ARRAY, 8, 1);

/// When a CPU may send the next sample, ns.
#[unsafe(link_section = "maps")]
#[unsafe(no_mangle)]
static SAMPLED: MapDef = MapDef::new(BPF_MAP_TYPE_PERCPU_ARRAY, 8, 1);

/// The shortest time between two samples of one CPU, ns.
const SAMPLE_EVERY_NS: u64 = 2_000_000;

/// `TASK_STOPPED | TASK_TRACED` of the kernel: no sleep of the thread's own.
const STOPPED: u64 = 4 | 8;
/// `TASK_DEAD` of the kernel: the thread's last switch.
const DEAD: u64 = 0x80;

/// Numbers of system calls (arch/x86/entry/syscalls/syscall_64.tbl).
mod number {
    pub const NANOSLEEP: u32 = 35;
    pub const EXIT: i64 = 60;
    pub const FUTEX: i64 = 202;
    pub const CLOCK_NANOSLEEP: u32 = 230;
    pub const EXIT_GROUP: i64 = 231;
    pub const FUTEX_WAKE: i64 = 454;
    pub const FUTEX_WAIT: i64 = 455;
    pub const FUTEX_REQUEUE: i64 = 456;
}

/// The entry of a thread. Another thread whose id has the same low bits may be in it.
#[inline(always)]
fn sleeper(tid: u32) -> Option<&'static mut Sleeper> {
    let slot = tid & (SLEEPER_SLOTS - 1);
    let entry = unsafe { bpf_map_lookup_elem(SLEEPERS.as_ptr(), (&raw const slot).cast()) };
    // SAFETY: null or a value of the map. A thread that is woken does not fall asleep meanwhile; if
    // another thread has the same slot, a sleep may be missed.
    unsafe { entry.cast::<Sleeper>().as_mut() }
}

/// A word of a map of words, of this CPU if each has its own.
#[inline(always)]
fn value(map: &MapDef, index: u32) -> Option<&'static mut u64> {
    let found = unsafe { bpf_map_lookup_elem(map.as_ptr(), (&raw const index).cast()) };
    // SAFETY: null or a value of the map, which is aligned.
    unsafe { found.cast::<u64>().as_mut() }
}

#[inline(always)]
fn count(which: u32) {
    if let Some(count) = value(&SLEPT, which) {
        *count += 1;
    }
}

/// `sched_switch(preempt, previous, next, state)`: the previous thread is still the current one.
#[raw_tracepoint(tracepoint = "sched_switch")]
pub fn asleep(ctx: RawTracePointContext) -> i32 {
    let task = Task::current();
    let process = task.tgid().unwrap_or(0);
    if process == 0 || !target::is_one_of_us(process) {
        return 0;
    }
    let (preempted, state): (u64, u64) = (ctx.arg(0), ctx.arg(3));
    let state = state & 0xffff_ffff;
    // A thread that is preempted on the way to sleep does not sleep yet.
    if preempted & 0xff != 0 || state == 0 || state & STOPPED != 0 {
        return 0;
    }
    let Some(entry) = sleeper(task.tid()) else {
        return 0;
    };
    if state & DEAD != 0 {
        // Its number may be given to another thread.
        entry.tid = 0;
        return 0;
    }
    let now = task::now();
    if entry.tid != task.tid() {
        entry.tid = task.tid();
        entry.due_ns = 0;
        entry.skip = 0;
    }
    let user = task.user();
    let call = user.system_call();
    entry.object = 0;
    entry.call = NO_CALL;
    if call >= 0 {
        entry.call = call as u32;
        if call == number::FUTEX || call == number::FUTEX_WAIT {
            entry.object = user.first();
        }
    }
    entry.sampled = 0;
    if now >= entry.due_ns {
        sample(entry, &task, process, &user, now);
    }
    entry.ran_ns = task.ran();
    entry.since_ns = now;
    0
}

/// Samples the place of a sleep, now and then. Of the sleeps after some time one at random is taken:
/// the first would often be one that follows upon long work.
#[inline(always)]
fn sample(entry: &mut Sleeper, task: &Task, process: u32, user: &User, now: u64) {
    if entry.skip != 0 {
        entry.skip -= 1;
        return;
    }
    let Some(due) = value(&SAMPLED, 0) else {
        return;
    };
    if now < *due {
        return;
    }
    *due = now.wrapping_add(SAMPLE_EVERY_NS);
    entry.due_ns = now.wrapping_add(u64::from(config!(sample_ns)));
    entry.skip = unsafe { bpf_get_prandom_u32() } & 7;
    let sent = send_sample(Wake::IfFull, |room: *mut Asleep| {
        // SAFETY: nothing else uses the room, and each of its fields is written: a failed copy
        // writes zeros.
        let room = unsafe { &mut *room };
        room.head = Head {
            kind: kind::ASLEEP,
            layout: 0,
            detail: 0,
            tid: task.tid(),
        };
        room.time_ns = now;
        room.call = user.system_call();
        room.arguments = user.arguments();
        room.sp = user.sp();
        room.ip = user.ip();
        room.process = process;
        room.words = stack(room.sp, &mut room.stack);
    });
    entry.sampled = u32::from(sent);
}

/// Copies the top of a stack; returns the number of words. Near the end of the stack fewer words are
/// there.
#[inline(always)]
fn stack(sp: u64, into: &mut [u64; STACK_WORDS]) -> u32 {
    const PAGE: u64 = (STACK_WORDS * 8) as u64;
    let to = into.as_mut_ptr().cast();
    // SAFETY: the buffer has a page.
    if unsafe { bpf_probe_read_user(to, PAGE as u32, sp as *const _) } == 0 {
        return STACK_WORDS as u32;
    }
    let left = (PAGE - 1) & sp.wrapping_neg() & !7;
    // SAFETY: less than a page.
    if unsafe { bpf_probe_read_user(to, left as u32, sp as *const _) } == 0 {
        return left as u32 / 8;
    }
    0
}

/// `sched_waking(task)`: the current thread wakes the task, unless an interrupt does.
#[raw_tracepoint(tracepoint = "sched_waking")]
pub fn woken(ctx: RawTracePointContext) -> i32 {
    let woken: *const u8 = ctx.arg(0);
    let number = |offset: u32| memory::kernel::<u32>(woken.wrapping_add(offset as usize));
    let process = number(config!(any_tgid));
    if process == 0 || !target::is_one_of_us(process) {
        return 0;
    }
    let tid = number(config!(pid));
    let Some(entry) = sleeper(tid) else {
        return 0;
    };
    if entry.tid != tid || entry.since_ns == 0 {
        return 0;
    }
    let now = task::now();
    let since_ns = entry.since_ns;
    let ns = now.wrapping_sub(since_ns);
    entry.since_ns = 0;
    // A thread that is woken on its way to sleep does not sleep, but is then seen to go to sleep, since
    // its wake comes first. When it is woken the next time, it is on a CPU, or has run since.
    let has_run = task::is_on_cpu(woken) || task::ran_of(woken) != entry.ran_ns;
    if has_run || value(&SINCE, 0).is_none_or(|from| since_ns < *from) {
        return 0;
    }
    count(ALL);
    let sleep = Sleep {
        object: entry.object,
        process,
        tid,
        call: entry.call,
        reserved: 0,
    };
    if let Some(sums) = sums(&sleep) {
        add(sums, ns, &waker(&ctx, entry));
    } else {
        count(UNSUMMED);
    }
    if entry.sampled != 0 {
        entry.sampled = 0;
        send_sample(Wake::No, |room: *mut Woken| {
            let record = Woken {
                head: Head {
                    kind: kind::WOKEN,
                    layout: 0,
                    detail: 0,
                    tid,
                },
                time_ns: now,
                slept_ns: ns,
            };
            // SAFETY: the room is as long as the record, and nothing else uses it.
            unsafe { room.write(record) }
        });
    }
    0
}

/// The thread of the target that wakes a thread now; its id is 0 if none is known to do so. An interrupt
/// may wake threads while any thread is current, so the current thread must be in a system call, and the
/// tracepoint must have been reached on its own stack: interrupts have a stack of their own, unless they
/// come while a program is not in the kernel (`arch/x86/include/asm/irq_stack.h`).
#[inline(always)]
fn waker(ctx: &RawTracePointContext, sleeper: &Sleeper) -> Waker {
    let mut waker = Waker {
        tid: 0,
        process: 0,
        ns: 0,
    };
    let task = Task::current();
    let process = task.tgid().unwrap_or(0);
    if process == 0 || !target::is_one_of_us(process) {
        return waker;
    }
    let user = task.user();
    let call = user.system_call();
    let wakes = if sleeper.object != 0 {
        wakes_futex(call)
    } else {
        call >= 0 && !ends_by_itself(sleeper.call)
    };
    // The arguments of a tracepoint lie on the stack on which it is reached (`bpf_trace_run1` in
    // `kernel/trace/bpf_trace.c`).
    if wakes && user.is_on_stack(ctx.as_ptr().cast()) {
        waker.tid = task.tid();
        waker.process = process;
    }
    waker
}

/// Whether a system call wakes threads that sleep for a futex.
#[inline(always)]
fn wakes_futex(call: i64) -> bool {
    call == number::FUTEX
        || call == number::EXIT
        || call == number::EXIT_GROUP
        || (number::FUTEX_WAKE <= call && call <= number::FUTEX_REQUEUE)
}

/// Whether a sleep in a system call ends when a time has passed, or is none of a system call.
#[inline(always)]
fn ends_by_itself(call: u32) -> bool {
    call == NO_CALL || call == number::NANOSLEEP || call == number::CLOCK_NANOSLEEP
}

/// The sums of a sleep, which are made if there are none. `None` if there is no room.
#[inline(always)]
fn sums(sleep: &Sleep) -> Option<&'static mut Slept> {
    let key = core::ptr::from_ref(sleep).cast();
    let mut found = unsafe { bpf_map_lookup_elem(SLEEPS.as_ptr(), key) };
    if found.is_null() {
        begin(sleep);
        found = unsafe { bpf_map_lookup_elem(SLEEPS.as_ptr(), key) };
    }
    // SAFETY: null or a value of the map. Only wakes of one thread write it, which follow each other.
    unsafe { found.cast::<Slept>().as_mut() }
}

/// Makes an entry, if there is room. A function of its own: its stack is used only for a short time.
#[inline(never)]
fn begin(sleep: &Sleep) -> i32 {
    let new = Slept {
        times: 0,
        total_ns: 0,
        max_ns: 0,
        others_ns: 0,
        wakers: [Waker {
            tid: 0,
            process: 0,
            ns: 0,
        }; WAKERS],
    };
    let key = core::ptr::from_ref(sleep).cast_mut().cast();
    let new = (&raw const new).cast_mut().cast();
    unsafe { bpf_map_update_elem(SLEEPS.as_ptr(), key, new, 0) as i32 }
}

#[inline(always)]
fn add(sums: &mut Slept, ns: u64, waker: &Waker) {
    sums.times += 1;
    sums.total_ns += ns;
    if ns > sums.max_ns {
        sums.max_ns = ns;
    }
    if waker.tid == 0 {
        return;
    }
    let mut least = 0;
    let mut least_ns = u64::MAX;
    for (at, known) in sums.wakers.iter_mut().enumerate() {
        if known.tid == 0 {
            known.tid = waker.tid;
            known.process = waker.process;
        }
        if known.tid == waker.tid {
            known.ns += ns;
            return;
        }
        if known.ns < least_ns {
            least_ns = known.ns;
            least = at;
        }
    }
    // Those that wake for long stay, whenever they begin (Misra and Gries, "Finding repeated elements").
    let known = &mut sums.wakers[least & (WAKERS - 1)];
    let gone_ns = if least_ns < ns { least_ns } else { ns };
    known.ns -= gone_ns;
    sums.others_ns += ns + gone_ns;
    if known.ns == 0 {
        known.tid = waker.tid;
        known.process = waker.process;
        known.ns = ns - gone_ns;
        sums.others_ns -= ns - gone_ns;
    }
}
