//! Which process is meant, and what the agent found out about this kernel.

use aya_ebpf::{bindings::bpf_pidns_info, helpers::bpf_get_ns_current_pid_tgid};
use sbt_common::Config;

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

/// Thread and process of the current task as the agent numbers them.
#[inline(always)]
pub fn current_ids() -> Option<(u32, u32)> {
    let mut ids = bpf_pidns_info { pid: 0, tgid: 0 };
    let size = size_of::<bpf_pidns_info>() as u32;
    let (device, inode) = (config!(ns_dev), config!(ns_ino));
    let result = unsafe { bpf_get_ns_current_pid_tgid(device, inode, &raw mut ids, size) };
    (result == 0).then_some((ids.pid, ids.tgid))
}

/// Whether the current task belongs to the target. For tracepoints, which
/// fire for every process; uprobes are attached to the target alone.
#[inline(always)]
pub fn is_current() -> bool {
    current_ids().is_some_and(|(_, tgid)| tgid == config!(target))
}
