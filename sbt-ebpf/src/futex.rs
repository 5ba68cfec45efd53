//! Which threads wait on which futex and for how long, and which threads wake them: for barriers
//! that are built on futexes alone, and for contended locks.
//!
//! These programs run at every system call of every process, so the checks that most calls fail
//! come first. They are attached only while futexes are watched.

use aya_ebpf::{
    bindings::bpf_map_type::BPF_MAP_TYPE_HASH,
    helpers::{bpf_map_lookup_elem, bpf_map_update_elem, bpf_probe_read_kernel},
    macros::raw_tracepoint,
    programs::RawTracePointContext,
};
use sbt_common::{Caller, Futex, Lock, MAX_LOCKS, evidence, kind};

use crate::{
    condvar::{self, Evidence},
    memory,
    ring::MapDef,
    target, task,
    task::Task,
    thread::{self, Slot},
    walk,
};

/// Contended futexes.
#[unsafe(link_section = "maps")]
#[unsafe(no_mangle)]
static LOCKS: MapDef = MapDef::keyed(
    BPF_MAP_TYPE_HASH,
    size_of::<Futex>() as u32,
    size_of::<Lock>() as u32,
    MAX_LOCKS,
);

/// Number of waits for which [`LOCKS`] had no room.
#[unsafe(link_section = "maps")]
#[unsafe(no_mangle)]
static UNLISTED: MapDef = MapDef::counter();

/// Numbers of system calls (arch/x86/entry/syscalls/syscall_64.tbl).
mod number {
    pub const FUTEX: u64 = 202;
    pub const WAITV: u64 = 449;
    pub const WAKE: u64 = 454;
    pub const WAIT: u64 = 455;
    pub const REQUEUE: u64 = 456;
}

/// Operations of [`number::FUTEX`], without [`FLAGS`] (include/uapi/linux/futex.h).
mod op {
    pub const WAIT: u64 = 0;
    pub const WAKE: u64 = 1;
    pub const REQUEUE: u64 = 3;
    pub const CMP_REQUEUE: u64 = 4;
    pub const LOCK_PI: u64 = 6;
    pub const WAIT_BITSET: u64 = 9;
    pub const WAKE_BITSET: u64 = 10;
    pub const LOCK_PI2: u64 = 13;
}

/// `FUTEX_PRIVATE_FLAG` and `FUTEX_CLOCK_REALTIME`.
const FLAGS: u64 = 128 | 256;

/// `-EAGAIN`: the word had changed before the thread could sleep.
const AGAIN: i64 = -11;

/// Shortest time between two records of the callers of waits on one futex, ns.
const TOLD_EVERY_NS: u64 = 10_000_000;

/// The part of `pt_regs` from rbp to rsp (arch/x86/include/uapi/asm/ptrace.h).
#[repr(C)]
struct Registers {
    rbp: u64,
    rbx: u64,
    r11: u64,
    r10: u64,
    r9: u64,
    r8: u64,
    rax: u64,
    rcx: u64,
    rdx: u64,
    rsi: u64,
    rdi: u64,
    orig_rax: u64,
    rip: u64,
    cs: u64,
    eflags: u64,
    rsp: u64,
}

/// Offset of [`Registers`] in `pt_regs`: behind r15 to r12.
const FROM: u64 = 4 * 8;

/// The registers of a system call that are used.
struct Call {
    rdi: u64,
    rsi: u64,
    rdx: u64,
    r10: u64,
    rip: u64,
    rsp: u64,
    rbp: u64,
}

/// What a system call does. A number instead of an enum: a verifier before Linux 6.3 refuses to read
/// the payload of an enum, which is not initialised in all variants.
#[derive(Clone, Copy, PartialEq, Eq)]
struct What(u64);

impl What {
    const NOTHING: Self = Self(u64::MAX);
    const WAIT: Self = Self(u64::MAX - 1);
    /// Waits for a lock that the kernel hands over: no evidence of a barrier.
    const LOCK: Self = Self(u64::MAX - 2);

    /// Wakes at most so many threads.
    #[inline(always)]
    const fn wake(most: u64) -> Self {
        Self(most)
    }
}

/// A system call is entered: `sys_enter(registers, number)`.
#[raw_tracepoint(tracepoint = "sys_enter")]
pub fn sys_enter(ctx: RawTracePointContext) -> i32 {
    let number: u64 = ctx.arg(1);
    if number != number::FUTEX && !(number::WAITV..=number::REQUEUE).contains(&number) {
        return 0;
    }
    let task = Task::current();
    if !target::owns(&task, false) {
        return 0;
    }
    let mut call = Call {
        rdi: 0,
        rsi: 0,
        rdx: 0,
        r10: 0,
        rip: 0,
        rsp: 0,
        rbp: 0,
    };
    if !read(ctx.arg(0), &mut call) {
        return 0;
    }
    let (what, address) = understand(number, &call);
    if what != What::NOTHING {
        take(&task, what, address, &call);
    }
    0
}

/// Reads the registers at an address of the kernel; false if that fails. This is a function of its
/// own so that all registers are on the stack only for a short time: before Linux 6.13, functions
/// that call each other have 512 bytes together.
#[inline(never)]
fn read(regs: u64, call: &mut Call) -> bool {
    // SAFETY: a copy from the kernel's memory, which may fail.
    let Ok(regs) = (unsafe { bpf_probe_read_kernel((regs + FROM) as *const Registers) }) else {
        return false;
    };
    *call = Call {
        rdi: regs.rdi,
        rsi: regs.rsi,
        rdx: regs.rdx,
        r10: regs.r10,
        rip: regs.rip,
        rsp: regs.rsp,
        rbp: regs.rbp,
    };
    true
}

/// What a system call does, and the address of the futex.
#[inline(always)]
fn understand(number: u64, call: &Call) -> (What, u64) {
    let low = |value: u64| value & 0xffff_ffff;
    match number {
        number::FUTEX => {
            let what = match low(call.rsi) & !FLAGS {
                op::WAIT | op::WAIT_BITSET => What::WAIT,
                op::WAKE | op::WAKE_BITSET => What::wake(low(call.rdx)),
                // Threads that are moved to another futex leave this one.
                op::REQUEUE | op::CMP_REQUEUE => What::wake(low(call.rdx) + low(call.r10)),
                op::LOCK_PI | op::LOCK_PI2 => What::LOCK,
                _ => What::NOTHING,
            };
            (what, call.rdi)
        }
        number::WAIT => (What::WAIT, call.rdi),
        number::WAKE => (What::wake(low(call.rdx)), call.rdi),
        // An array of `struct futex_waitv`: what is expected, the address, …
        number::WAITV => (What::WAIT, crate::word(call.rdi.wrapping_add(8))),
        number::REQUEUE => (
            What::wake(low(call.rdx) + low(call.r10)),
            crate::word(call.rdi.wrapping_add(8)),
        ),
        _ => (What::NOTHING, 0),
    }
}

#[inline(always)]
fn take(task: &Task, what: What, object: u64, call: &Call) {
    let Some(slot) = thread::slot(task) else {
        return;
    };
    // As if the system call were the call of a function.
    let at = call.rsp.wrapping_sub(8);
    // Futexes inside of a known barrier do not count.
    if object == 0 || slot.is_in_call(at) || slot.is_in_barrier(at) {
        return;
    }
    let is_wait = what == What::WAIT || what == What::LOCK;
    let is_evidence = what != What::LOCK && !condvar::is_silenced(object);
    if !is_wait && !is_evidence {
        return;
    }
    let caller = Caller {
        at,
        address: call.rip,
        rbp: call.rbp,
    };
    let callers = walk::callers(task, slot, caller);
    if is_evidence {
        let (kind, most) = match what {
            What::WAIT => (kind::WAIT, 0),
            What(most) if most < 255 => (kind::WAKE, most as u8),
            What(_) => (kind::WAKE, 0),
        };
        let evidence = Evidence {
            kind,
            most,
            of: evidence::FUTEX,
            object,
        };
        condvar::tell_evidence(task, slot, evidence, callers);
    }
    if is_wait {
        begin(task, slot, object, callers);
    }
}

/// The thread is about to sleep until the futex is woken.
#[inline(always)]
fn begin(task: &Task, slot: &mut Slot, object: u64, callers: (u64, u32)) {
    let Some(lock) = lock(&futex(task, object)) else {
        UNLISTED.count();
        return;
    };
    let now = task::now();
    // Threads that were woken while nobody watched still count from before.
    let window = (thread::futexes() >> 16) as u32;
    if lock.window != window {
        lock.window = window;
        lock.waiting = 0;
    }
    add(&mut lock.waiting, 1);
    // Other threads may have come or gone since, but so many did wait at one time.
    let waiting = lock.waiting;
    if waiting > lock.most {
        lock.most = waiting;
    }
    // Layout of `pthread_mutex_t` of glibc (sysdeps/nptl/bits/struct_mutex.h): lock, count, owner.
    let [word, _, owner] = memory::user::<[u32; 3]>(object);
    lock.word = word;
    lock.owner = owner;
    lock.waiter = task.tid();
    slot.sleep(object, now);
    if lock.caller != callers.0 && now.wrapping_sub(lock.told_ns) >= TOLD_EVERY_NS {
        lock.caller = callers.0;
        lock.told_ns = now;
        let evidence = Evidence {
            kind: kind::LOCK,
            most: 0,
            of: evidence::FUTEX,
            object,
        };
        condvar::tell_evidence(task, slot, evidence, callers);
    }
}

/// A system call is left: `sys_exit(registers, result)`.
#[raw_tracepoint(tracepoint = "sys_exit")]
pub fn sys_exit(ctx: RawTracePointContext) -> i32 {
    let task = Task::current();
    if !target::owns(&task, false) {
        return 0;
    }
    let Some((object, since)) = thread::wakes(&task) else {
        return 0;
    };
    // Otherwise the time without these programs would be counted as well.
    if since < thread::futexes() {
        return 0;
    }
    let result: i64 = ctx.arg(1);
    let futex = futex(&task, object);
    let found = unsafe { bpf_map_lookup_elem(LOCKS.as_ptr(), (&raw const futex).cast()) };
    // SAFETY: null or a value of the map.
    let Some(lock) = (unsafe { found.cast::<Lock>().as_mut() }) else {
        return 0;
    };
    // The entry may have been removed and made anew in between.
    if lock.waiting != 0 {
        add(&mut lock.waiting, u64::MAX);
    }
    if result == AGAIN {
        return 0;
    }
    let ns = task::now().wrapping_sub(since);
    add(&mut lock.waits, 1);
    add(&mut lock.total_ns, ns);
    if ns > lock.max_ns {
        lock.max_ns = ns;
    }
    0
}

/// The futex at an address of the current process.
#[inline(always)]
fn futex(task: &Task, address: u64) -> Futex {
    Futex {
        address,
        process: target::ids(task).map_or(0, |(_, process)| process),
        reserved: 0,
    }
}

/// The entry of a futex, which is made if there is none. `None` if there is no room.
#[inline(always)]
fn lock(futex: &Futex) -> Option<&'static mut Lock> {
    let key = core::ptr::from_ref(futex).cast();
    let mut found = unsafe { bpf_map_lookup_elem(LOCKS.as_ptr(), key) };
    if found.is_null() {
        begin_lock(futex);
        found = unsafe { bpf_map_lookup_elem(LOCKS.as_ptr(), key) };
    }
    // SAFETY: null or a value of the map.
    unsafe { found.cast::<Lock>().as_mut() }
}

/// Makes an entry, if there is room; see [`read`] for why this is a function.
#[inline(never)]
fn begin_lock(futex: &Futex) -> i32 {
    let new = Lock::default();
    // Two threads may do this at the same time: an entry must not be replaced.
    const IF_NONE: u64 = 1;
    let key = core::ptr::from_ref(futex).cast_mut().cast();
    let new = (&raw const new).cast_mut().cast();
    unsafe { bpf_map_update_elem(LOCKS.as_ptr(), key, new, IF_NONE) as i32 }
}

/// Adds atomically. For this target Rust offers only atomic loads and stores.
#[inline(always)]
fn add(to: &mut u64, value: u64) {
    // SAFETY: an aligned word of a map, which is changed in no other way.
    unsafe {
        core::arch::asm!(
            "lock *(u64 *)({to} + 0) += {value}",
            to = in(reg) core::ptr::from_mut(to),
            value = in(reg) value,
        );
    }
}
