//! What the agent tells all programs.

/// What the agent tells the programs before they are loaded: constants to the
/// verifier. An offset of 0 means that this kernel does not have the field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Config {
    /// Device and inode of the pid namespace in which `target` is a number.
    pub ns_dev: u64,
    pub ns_ino: u64,
    /// The target process.
    pub target: u32,
    /// `task_struct` → `se.sum_exec_runtime`
    pub sum_exec_runtime: u32,
    /// `task_struct` → `se.exec_start`
    pub exec_start: u32,
    /// `task_struct` → `sched_info.run_delay`
    pub run_delay: u32,
    /// `task_struct` → `se.cfs_rq`, with the next three or all four 0.
    pub cfs_rq: u32,
    /// `cfs_rq` → `rq`
    pub rq: u32,
    /// `rq` → `clock`
    pub clock: u32,
    /// `rq` → `clock_task`
    pub clock_task: u32,
    /// `task_struct` → `start_time`
    pub start_time: u32,
    /// `task_struct` → `mm`
    pub mm: u32,
    /// `mm_struct` → `start_code`
    pub start_code: u32,
    /// `task_struct` → `comm`
    pub comm: u32,
    /// How many rings there are, less one: rings are a power of two.
    pub ring_mask: u32,
    /// `task_struct` → `pid`
    pub pid: u32,
    /// `task_struct` → `tgid`; 0 where the agent numbers processes otherwise
    /// than the kernel's first pid namespace does, and a helper must be asked.
    pub tgid: u32,
    /// `task_struct` → `tgid`, however the agent numbers processes.
    pub any_tgid: u32,
    /// `task_struct` → `signal`
    pub signal: u32,
    /// `signal_struct` → `live`
    pub live: u32,
    /// `signal_struct` → `flags`
    pub signal_flags: u32,
    /// 1 if the target's children are followed, and theirs.
    pub children: u32,
    /// `task_struct` → `min_flt`; so for the next ones.
    pub min_flt: u32,
    /// `maj_flt`
    pub maj_flt: u32,
    /// `nvcsw`
    pub nvcsw: u32,
    /// `nivcsw`
    pub nivcsw: u32,
    /// `se.nr_migrations`
    pub nr_migrations: u32,
    /// 1 if [`crate::Counts`] may be sent: see [`State::counts`].
    pub counts: u32,
    /// How many perf events there is room for in the map [`crate::name::EVENTS`]; 0:
    /// [`crate::Sums`] are never sent.
    pub events: u32,
    /// How many CPUs each of them has room for in the map [`crate::name::EVENTS`].
    pub cpus: u32,
    /// 1 if switches of threads are watched for [`crate::Away`].
    pub switches: u32,
    /// `task_struct` → `sched_info.last_queued`
    pub last_queued: u32,
    /// `task_struct` → `sched_info.last_arrival`
    pub last_arrival: u32,
    /// `task_struct` → `flags`
    pub flags: u32,
    /// `task_struct` → the byte with the bit `in_iowait`, and that bit.
    pub iowait: u32,
    pub iowait_bit: u32,
}

/// What may change while the programs run; alone in the object's `.data`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct State {
    /// Changed whenever what threads remember of barrier objects may be wrong.
    pub trust: u64,
    /// Which probes count. Another set of them can be put on beside the one in
    /// force, and takes over at once when this changes.
    pub generation: u64,
    /// Changed whenever addresses may have come to mean something else, other than
    /// by an exec: of that the agent hears.
    pub epoch: u64,
    /// 0 if there is no [`crate::Rule`]; else changed whenever what is remembered of
    /// rules by return address may be wrong.
    pub walks: u64,
    /// Since when waits on futexes are counted, ns.
    pub futexes: u64,
    /// 1 if [`crate::Counts`] are sent.
    pub counts: u64,
    /// How many perf events are read for [`crate::Sums`]; 0: those are not sent.
    pub events: u64,
}
