//! Which processes are watched, and what the agent has found out about this kernel.

use aya_ebpf::{
    bindings::{bpf_map_type::BPF_MAP_TYPE_HASH, bpf_pidns_info},
    helpers::{
        bpf_get_current_pid_tgid, bpf_get_ns_current_pid_tgid, bpf_map_delete_elem,
        bpf_map_lookup_elem, bpf_map_update_elem,
    },
};
use sbt_common::{Config, MAX_FOLLOWED, OWN_NUMBER};

use crate::{ring::MapDef, task::Task};

/// The living descendants of the target. A child is added before its first instruction.
#[unsafe(link_section = "maps")]
#[unsafe(no_mangle)]
static FOLLOWED: MapDef = MapDef::keyed(BPF_MAP_TYPE_HASH, 4, 4, MAX_FOLLOWED);

#[unsafe(no_mangle)]
pub static CONFIG: Config = Config {
    ns_dev: 0,
    ns_ino: 0,
    target: 0,
    sum_exec_runtime: 0,
    exec_start: 0,
    run_delay: 0,
    cfs_rq: 0,
    rq: 0,
    clock: 0,
    clock_task: 0,
    start_time: 0,
    mm: 0,
    start_code: 0,
    comm: 0,
    ring_mask: 0,
    pid: 0,
    tgid: 0,
    any_tgid: 0,
    signal: 0,
    live: 0,
    signal_flags: 0,
    children: 0,
    min_flt: 0,
    maj_flt: 0,
    nvcsw: 0,
    nivcsw: 0,
    nr_migrations: 0,
    counts: 0,
    events: 0,
    cpus: 0,
    switches: 0,
    last_queued: 0,
    last_arrival: 0,
    flags: 0,
    iowait: 0,
    iowait_bit: 0,
    sleeps: 0,
    sample_ns: 0,
    on_cpu: 0,
    ran: 0,
    speed_ticks: 0,
    task_type: 0,
    rdonly_cast: 0,
    reserved: 0,
};

/// Reads one of the agent's settings. They are written into the object before it is loaded, and
/// then frozen: so the verifier knows each value and removes code that cannot be reached. Each field
/// is read alone, since a volatile read of the whole structure would load all of it.
macro_rules! config {
    ($field:ident) => {
        // SAFETY: CONFIG is valid and aligned. Volatile, because the zeros that the compiler sees are
        // not the values at run time.
        unsafe { core::ptr::read_volatile(&raw const $crate::target::CONFIG.$field) }
    };
}
pub(crate) use config;

/// Makes a program of a uprobe, which must begin with this call, run on the stack of the thread that
/// hits the probe.
///
/// From Linux 6.13 on, the verifier gives programs a stack for each CPU. A program of a uprobe can be
/// preempted by a thread that hits a probe on the same CPU, and both would use this one stack: on a
/// preemptible kernel that ends in a fault of the kernel. Programs with tail calls do not get such
/// a stack. This tail call never happens: the condition is false, which the verifier knows, so the
/// code is removed before the program runs.
#[inline(always)]
pub fn on_own_stack() {
    if config!(cpus) == u32::MAX {
        // SAFETY: never executed. 12 is `BPF_FUNC_tail_call` of linux/bpf.h.
        unsafe {
            core::arch::asm!(
                "call 12",
                out("r0") _, out("r1") _, out("r2") _, out("r3") _, out("r4") _, out("r5") _,
            );
        }
    }
}

/// Thread and process of the current task as the agent's pid namespace numbers them. `None` if the
/// task has no number there.
#[inline(always)]
pub fn ids(task: &Task) -> Option<(u32, u32)> {
    if let Some(tgid) = task.tgid() {
        return Some((task.tid(), tgid));
    }
    let (device, inode) = (config!(ns_dev), config!(ns_ino));
    let mut ids = bpf_pidns_info { pid: 0, tgid: 0 };
    let size = size_of::<bpf_pidns_info>() as u32;
    let result = unsafe { bpf_get_ns_current_pid_tgid(device, inode, &raw mut ids, size) };
    (result == 0).then_some((ids.pid, ids.tgid))
}

/// Whether a task belongs to the target or, if children are followed, to a descendant of the target;
/// `or` if that is unknown.
#[inline(always)]
pub fn owns(task: &Task, or: bool) -> bool {
    if config!(children) == 0 {
        return is_target(task).unwrap_or(or);
    }
    is_target(task) == Some(true) || is_followed(task)
}

/// Whether a task belongs to the target process itself; `None` if that is unknown.
#[inline(always)]
pub fn is_target(task: &Task) -> Option<bool> {
    ids(task).map(|(_, tgid)| tgid == config!(target))
}

/// The current process, numbered in the initial pid namespace.
#[inline(always)]
pub fn process() -> u32 {
    (bpf_get_current_pid_tgid() >> 32) as u32
}

/// If children are followed, [`in_process`] mixes the number of the process into an address from
/// this bit on.
const PROCESS_SHIFT: u32 = 40;

/// A key for an address of the current process, since other processes have other contents there.
#[inline(always)]
pub fn in_process(address: u64) -> u64 {
    if config!(children) == 0 {
        return address;
    }
    address ^ u64::from(process()) << PROCESS_SHIFT
}

#[inline(never)]
fn is_followed(task: &Task) -> bool {
    is_listed(process()) || own_number(task).is_some_and(is_listed)
}

/// The key in [`FOLLOWED`] of a process that was running already when sbt came, if the agent's
/// process ids are not those of the initial pid namespace.
#[inline(always)]
fn own_number(task: &Task) -> Option<u32> {
    if config!(tgid) != 0 {
        return None;
    }
    ids(task).map(|(_, tgid)| tgid | OWN_NUMBER)
}

#[inline(always)]
fn is_listed(number: u32) -> bool {
    !unsafe { bpf_map_lookup_elem(FOLLOWED.as_ptr(), (&raw const number).cast_mut().cast()) }
        .is_null()
}

/// Whether a process is watched, by its number in the initial pid namespace; false if the agent does
/// not know that number.
#[inline(always)]
pub fn is_one_of_us(process: u32) -> bool {
    if config!(tgid) == 0 {
        return false;
    }
    process == config!(target) || config!(children) != 0 && is_listed(process)
}

/// Follows a process from now on; false if there is no room.
#[inline(always)]
pub fn follow(process: u32) -> bool {
    let one = 1u32;
    let result = unsafe {
        bpf_map_update_elem(
            FOLLOWED.as_ptr(),
            (&raw const process).cast_mut().cast(),
            (&raw const one).cast_mut().cast(),
            0,
        )
    };
    result == 0
}

/// The current process ends, and its number may be given to another one. False if the process was
/// not followed.
#[inline(always)]
pub fn unfollow(task: &Task) -> bool {
    // Both keys may be there, if the process was forked while the agent was looking for running
    // processes.
    let own = own_number(task).is_some_and(unlist);
    unlist(process()) || own
}

#[inline(always)]
fn unlist(number: u32) -> bool {
    let result =
        unsafe { bpf_map_delete_elem(FOLLOWED.as_ptr(), (&raw const number).cast_mut().cast()) };
    result == 0
}
