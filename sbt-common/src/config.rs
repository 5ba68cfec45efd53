//! What the agent tells all BPF programs.

/// What the agent tells the BPF programs before they are loaded: constants to the verifier. An
/// offset of 0 means that this kernel does not have the field.
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
    /// `task_struct` → `se.cfs_rq`. This and the next three are either all set or all 0.
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
    /// Number of rings minus 1; the number of rings is a power of two.
    pub ring_mask: u32,
    /// `task_struct` → `pid`
    pub pid: u32,
    /// `task_struct` → `tgid`; 0 if the agent's process ids are not those of the kernel's initial
    /// pid namespace, so that a helper must be asked.
    pub tgid: u32,
    /// `task_struct` → `tgid`, in any pid namespace of the agent.
    pub any_tgid: u32,
    /// `task_struct` → `signal`
    pub signal: u32,
    /// `signal_struct` → `live`
    pub live: u32,
    /// `signal_struct` → `flags`
    pub signal_flags: u32,
    /// 1 if the target's descendants are followed.
    pub children: u32,
    /// `task_struct` → `min_flt`
    pub min_flt: u32,
    /// `task_struct` → `maj_flt`
    pub maj_flt: u32,
    /// `task_struct` → `nvcsw`
    pub nvcsw: u32,
    /// `task_struct` → `nivcsw`
    pub nivcsw: u32,
    /// `task_struct` → `se.nr_migrations`
    pub nr_migrations: u32,
    /// 1 if [`crate::Counts`] may be sent: see [`State::counts`].
    pub counts: u32,
    /// Number of perf events that fit into the map [`crate::name::EVENTS`]; 0 if [`crate::Sums`]
    /// are never sent.
    pub events: u32,
    /// Number of CPUs for which the map [`crate::name::EVENTS`] has room, for each event.
    pub cpus: u32,
    /// 1 if context switches of threads are watched for [`crate::Away`].
    pub switches: u32,
    /// `task_struct` → `sched_info.last_queued`
    pub last_queued: u32,
    /// `task_struct` → `sched_info.last_arrival`
    pub last_arrival: u32,
    /// `task_struct` → `flags`
    pub flags: u32,
    /// `task_struct` → the byte that contains the bit `in_iowait`. The mask of the bit follows.
    pub iowait: u32,
    pub iowait_bit: u32,
    /// 1 if sleeps of threads are summed in [`crate::Slept`].
    pub sleeps: u32,
    /// The shortest time between two samples of one thread's sleeps, ns.
    pub sample_ns: u32,
    /// `task_struct` → `on_cpu`
    pub on_cpu: u32,
    /// As [`Self::sum_exec_runtime`], also where the states of threads are not asked for.
    pub ran: u32,
    /// The shortest time between two [`crate::Speed`] of one thread, in ticks of the kernel's clock; 0 if
    /// none are sent.
    pub speed_ticks: u32,
    /// Number of the type `task_struct` in the kernel's BTF.
    pub task_type: u32,
    /// Number of the kernel's function `bpf_rdonly_cast` in its BTF, which [`RDONLY_CAST`] stands for; 0
    /// if it has none.
    pub rdonly_cast: u32,
    /// Zero.
    pub reserved: u32,
}

/// The number of a helper function that no kernel has: a call of it stands for a call of the kernel's
/// function `bpf_rdonly_cast`, whose number is known only where the program is loaded. If the kernel
/// has no such function, the result is the first argument.
pub const RDONLY_CAST: i32 = 0x7361_6361;

/// What may change while the BPF programs run; alone in the object's `.data`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct State {
    /// Changes when what threads remember of barrier objects may be wrong.
    pub trust: u64,
    /// The generation of probes that count. Another set of probes can be attached beside the
    /// present one, and takes over at once when this changes.
    pub generation: u64,
    /// Changes when addresses may have changed their meaning, except after an exec, which the agent
    /// sees.
    pub epoch: u64,
    /// 0 if there is no [`crate::Rule`]; else changes when what is remembered of rules by return
    /// address may be wrong.
    pub walks: u64,
    /// The time since which waits on futexes are counted, ns.
    pub futexes: u64,
    /// 1 if [`crate::Counts`] are sent.
    pub counts: u64,
    /// Number of perf events that are read for [`crate::Sums`]; 0 if none are sent.
    pub events: u64,
}
