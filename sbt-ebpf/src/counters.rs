//! Counters of threads, if the user asks for some.
//!
//! What the kernel always counts for each thread is read from the thread's structure. Perf events
//! count for a CPU: at each switch to a thread of the target, a program notes the counts of the CPU,
//! and at the switch away from the thread it adds the difference. So nothing of other threads is
//! counted, and new threads are counted from their beginning.

use aya_ebpf::{
    bindings::{
        bpf_map_type::{
            BPF_MAP_TYPE_LRU_HASH, BPF_MAP_TYPE_PERCPU_ARRAY, BPF_MAP_TYPE_PERF_EVENT_ARRAY,
        },
        bpf_perf_event_value,
    },
    helpers::{
        bpf_get_smp_processor_id, bpf_map_delete_elem, bpf_map_lookup_elem, bpf_map_update_elem,
        bpf_perf_event_read_value,
    },
    macros::raw_tracepoint,
    programs::RawTracePointContext,
};
use sbt_common::{Counted, Counts, MAX_COUNTED, MAX_EVENTS, Reading, Sums, UNKNOWN, kind};

use crate::{
    head, memory,
    ring::{MapDef, Wake, send, send_into},
    target::{self, config},
    task::{self, Task},
    thread,
};

/// The agent sets the number of elements.
#[unsafe(link_section = "maps")]
#[unsafe(no_mangle)]
static EVENTS: MapDef = MapDef::new(BPF_MAP_TYPE_PERF_EVENT_ARRAY, 4, 1);

#[unsafe(link_section = "maps")]
#[unsafe(no_mangle)]
static COUNTED: MapDef = MapDef::keyed(
    BPF_MAP_TYPE_LRU_HASH,
    4,
    size_of::<Counted>() as u32,
    MAX_COUNTED,
);

/// The first value of a thread, which is too long for the stack.
#[unsafe(link_section = "maps")]
#[unsafe(no_mangle)]
static BEGINNING: MapDef = MapDef::new(BPF_MAP_TYPE_PERCPU_ARRAY, size_of::<Counted>() as u32, 1);

/// The counts at a switch, which are too long for the stack.
#[unsafe(link_section = "maps")]
#[unsafe(no_mangle)]
static SWITCHED: MapDef = MapDef::new(
    BPF_MAP_TYPE_PERCPU_ARRAY,
    (size_of::<Reading>() * MAX_EVENTS) as u32,
    1,
);

/// Sends the counters of the current thread, if they are wanted. The record with the number `seq`
/// must follow.
#[inline(always)]
pub fn tell(task: &Task, seq: u32) {
    if config!(counts) != 0 && thread::counts() {
        tell_counts(task, seq);
    }
}

#[inline(never)]
fn tell_counts(task: &Task, seq: u32) {
    send(Wake::No, || Counts {
        head: head(kind::COUNTS, 0, task.tid()),
        time_ns: task::now(),
        seq,
        reserved: 0,
        values: task.counts(),
    });
    if config!(events) != 0
        && thread::events() != 0
        && let Some(counted) = of(task.tid())
    {
        tell_sums(task.tid(), seq, counted);
    }
}

#[inline(always)]
fn tell_sums(tid: u32, seq: u32, counted: &Counted) {
    send_into(Wake::No, |room: *mut Sums| {
        // SAFETY: nothing else uses the room, and each of its fields is written.
        let room = unsafe { &mut *room };
        room.head = head(kind::SUMS, 0, tid);
        room.time_ns = task::now();
        room.seq = seq;
        room.whole = counted.whole;
        room.since_ns = counted.since_ns;
        let used = thread::events();
        // Until no switch happens during the reading, since switches change the sums.
        for _ in 0..3 {
            let switches = stable(&raw const counted.switches);
            read(used, &mut room.events);
            for at in 0..MAX_EVENTS {
                if at >= config!(events) as usize {
                    break;
                }
                room.events[at] = plus(counted.sums[at], room.events[at], counted.noted[at]);
            }
            if stable(&raw const counted.switches) == switches {
                return;
            }
        }
        for event in &mut room.events {
            event.value = UNKNOWN;
        }
    });
}

/// A load that the compiler does not move.
#[inline(always)]
fn stable(word: *const u32) -> u32 {
    // SAFETY: the caller has it from a reference.
    unsafe { core::ptr::read_volatile(word) }
}

/// `sum`, and what was counted since `noted`.
#[inline(always)]
fn plus(sum: Reading, now: Reading, noted: Reading) -> Reading {
    let is_unknown = sum.value == UNKNOWN || now.value == UNKNOWN || noted.value == UNKNOWN;
    let more = |sum: u64, now: u64, noted: u64| sum.wrapping_add(now).wrapping_sub(noted);
    Reading {
        value: if is_unknown {
            UNKNOWN
        } else {
            more(sum.value, now.value, noted.value)
        },
        enabled_ns: more(sum.enabled_ns, now.enabled_ns, noted.enabled_ns),
        running_ns: more(sum.running_ns, now.running_ns, noted.running_ns),
    }
}

/// Reads the events of this CPU. Elements beyond the number of used events become 0.
///
/// All elements for which there is room are read: a loop up to a number that the verifier does not
/// know would take it ten times as long.
#[inline(always)]
fn read(used: usize, into: &mut [Reading; MAX_EVENTS]) {
    let cpu = unsafe { bpf_get_smp_processor_id() };
    for at in 0..MAX_EVENTS {
        if at >= config!(events) as usize {
            into[at] = Reading {
                value: 0,
                enabled_ns: 0,
                running_ns: 0,
            };
            continue;
        }
        let index = at as u32 * config!(cpus) + cpu;
        // SAFETY: the buffer has the layout and the length of what is written.
        let failed = unsafe {
            bpf_perf_event_read_value(
                EVENTS.as_ptr(),
                u64::from(index),
                (&raw mut into[at]).cast::<bpf_perf_event_value>(),
                size_of::<Reading>() as u32,
            )
        };
        if failed != 0 {
            // All ones if the event is used, else 0; without a branch.
            let is_used = (at as i64).wrapping_sub(used as i64) >> 63;
            into[at] = Reading {
                value: UNKNOWN & is_used as u64,
                enabled_ns: 0,
                running_ns: 0,
            };
        }
    }
}

/// What was counted for a thread.
#[inline(always)]
fn of(tid: u32) -> Option<&'static mut Counted> {
    let counted = unsafe { bpf_map_lookup_elem(COUNTED.as_ptr(), (&raw const tid).cast()) };
    // SAFETY: null or a value of the map. Only the thread's own switches write it.
    unsafe { counted.cast::<Counted>().as_mut() }
}

/// The value of a map that has one for each CPU.
#[inline(always)]
fn scratch<T>(map: &MapDef) -> Option<&'static mut T> {
    let zero = 0u32;
    let value = unsafe { bpf_map_lookup_elem(map.as_ptr(), (&raw const zero).cast()) };
    // SAFETY: null or a value of that type, of this CPU; switches do not interrupt
    // each other.
    unsafe { value.cast::<T>().as_mut() }
}

/// A thread has ended, and its number may be given to another thread.
#[inline(always)]
pub fn forget(tid: u32) {
    if config!(events) != 0 {
        unsafe { bpf_map_delete_elem(COUNTED.as_ptr(), (&raw const tid).cast_mut().cast()) };
    }
}

/// Begins to count for a thread.
#[inline(always)]
fn begin(tid: u32, whole: bool, now: &[Reading; MAX_EVENTS]) {
    let Some(beginning) = scratch::<Counted>(&BEGINNING) else {
        return;
    };
    beginning.since_ns = task::now();
    beginning.whole = u32::from(whole);
    beginning.switches = 0;
    beginning.noted = *now;
    unsafe {
        bpf_map_update_elem(
            COUNTED.as_ptr(),
            (&raw const tid).cast_mut().cast(),
            (&raw mut *beginning).cast(),
            0,
        )
    };
}

/// `sched_switch(preempt, previous, next, state)`: the previous thread is still the
/// current one.
#[raw_tracepoint(tracepoint = "sched_switch")]
pub fn switch(ctx: RawTracePointContext) -> i32 {
    let task = Task::current();
    let leaves = task.tgid().is_some_and(target::is_one_of_us);
    let next: *const u8 = ctx.arg(2);
    let number = |offset: u32| memory::kernel::<u32>(next.wrapping_add(offset as usize));
    let comes = target::is_one_of_us(number(config!(any_tgid)));
    if !leaves && !comes {
        return 0;
    }
    let Some(now) = scratch::<[Reading; MAX_EVENTS]>(&SWITCHED) else {
        return 0;
    };
    read(thread::events(), now);
    if leaves {
        leave(task.tid(), now);
    }
    if comes {
        come(number(config!(pid)), now);
    }
    0
}

#[inline(always)]
fn leave(tid: u32, now: &[Reading; MAX_EVENTS]) {
    let Some(counted) = of(tid) else {
        // The thread was running when counting began.
        begin(tid, false, now);
        return;
    };
    counted.switches = counted.switches.wrapping_add(1);
    for at in 0..MAX_EVENTS {
        if at >= config!(events) as usize {
            break;
        }
        counted.sums[at] = plus(counted.sums[at], now[at], counted.noted[at]);
        // Should the sums be read now, nothing has been counted since.
        counted.noted[at] = now[at];
    }
}

#[inline(always)]
fn come(tid: u32, now: &[Reading; MAX_EVENTS]) {
    let Some(counted) = of(tid) else {
        begin(tid, true, now);
        return;
    };
    counted.switches = counted.switches.wrapping_add(1);
    for at in 0..MAX_EVENTS {
        if at >= config!(events) as usize {
            break;
        }
        counted.noted[at] = now[at];
    }
}
