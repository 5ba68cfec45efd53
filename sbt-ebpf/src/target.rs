//! Which process is meant, and what the agent found out about this kernel.

use aya_ebpf::{bindings::bpf_pidns_info, helpers::bpf_get_ns_current_pid_tgid};
use sbt_common::Config;

use crate::task::Task;

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
    reserved: 0,
};

/// Reads one of the agent's settings. They are written into the object before
/// it is loaded and frozen, so the verifier knows each value and drops what it
/// rules out. Field by field, since a volatile read of the whole would load it all.
macro_rules! config {
    ($field:ident) => {
        // SAFETY: CONFIG is valid and aligned; volatile because the compiler
        // must not believe in the zeros that it sees.
        unsafe { core::ptr::read_volatile(&raw const $crate::target::CONFIG.$field) }
    };
}
pub(crate) use config;

/// Thread and process of the current task as the agent numbers them. `None` if
/// the agent lives in a pid namespace of its own and the task in another.
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

/// Whether a task is of the target; `or` where that cannot be told.
#[inline(always)]
pub fn owns(task: &Task, or: bool) -> bool {
    ids(task).map_or(or, |(_, tgid)| tgid == config!(target))
}
