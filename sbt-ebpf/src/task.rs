//! The current task: its ids and clocks.
//!
//! Fields of kernel structures are read through BTF pointers, at offsets that the agent has looked
//! up in the kernel's BTF.

use aya_ebpf::helpers::{
    bpf_get_current_pid_tgid, bpf_get_current_task_btf, bpf_ktime_get_ns, bpf_task_pt_regs,
};
use sbt_common::{Clocks, RDONLY_CAST, TASK_COUNTS, UNKNOWN};

use crate::{
    memory::{self, Integers},
    target::config,
};

/// `CLOCK_MONOTONIC`, ns.
#[inline(always)]
pub fn now() -> u64 {
    unsafe { bpf_ktime_get_ns() }
}

/// The task in which a program runs.
pub struct Task {
    task: *const u8,
    tid: u32,
}

/// Loads a field through a pointer whose type the verifier knows. A field that is a pointer is loaded
/// from [`untrusted`].
#[inline(always)]
fn field<T: Copy>(base: *const u8, offset: u32) -> T {
    // SAFETY: the offset is from the type's BTF, against which the verifier checks it, and the
    // kernel handles faults of such loads.
    unsafe { core::ptr::read_volatile(base.add(offset as usize).cast::<T>()) }
}

/// The same task, to load pointers from.
///
/// If a pointer is loaded from a task that the verifier trusts, it asks whether the pointer may be
/// trusted, too. To find out it searches all names of the kernel's types, about a millisecond for each
/// path to the load (`btf_nested_type_is_trusted`). The kernel's function costs nothing when the
/// program runs (`fixup_kfunc_call`).
#[inline(always)]
fn untrusted(task: *const u8) -> *const u8 {
    let task_type = u64::from(config!(task_type));
    let same: *const u8;
    // SAFETY: the function returns its first argument. The verifier checks loads through it against
    // the type.
    unsafe {
        core::arch::asm!(
            "call {cast}",
            cast = const RDONLY_CAST,
            inlateout("r1") task => _,
            inlateout("r2") task_type => _,
            out("r0") same, out("r3") _, out("r4") _, out("r5") _,
        );
    }
    same
}

/// Copies a field of the kernel's memory; 0 if it cannot be read.
#[inline(always)]
fn copied<T: Integers>(base: *const u8, offset: u32) -> T {
    memory::kernel(base.wrapping_add(offset as usize))
}

/// As [`copied`], for a pointer.
#[inline(always)]
fn copied_pointer(base: *const u8, offset: u32) -> *const u8 {
    copied::<usize>(base, offset) as *const u8
}

/// The number of an address. The verifier does not allow to calculate with addresses of the kernel, so
/// the number is read back from memory.
#[inline(always)]
fn number_of(address: *const u8) -> u64 {
    let kept = [address];
    memory::kernel(core::hint::black_box(kept.as_ptr()).cast())
}

/// As [`Task::ran`], of any task.
#[inline(always)]
pub fn ran_of(task: *const u8) -> u64 {
    let offset = config!(ran);
    if offset == 0 { 0 } else { copied(task, offset) }
}

/// Whether a task has not left its CPU yet; false if that is unknown.
#[inline(always)]
pub fn is_on_cpu(task: *const u8) -> bool {
    let offset = config!(on_cpu);
    offset != 0 && copied::<u32>(task, offset) != 0
}

impl Task {
    #[inline(always)]
    pub fn current() -> Self {
        let task = unsafe { bpf_get_current_task_btf() }
            .cast::<u8>()
            .cast_const();
        // A load is a few nanoseconds cheaper than the helper.
        // Each setting is read once: a second time costs three instructions more.
        let pid = config!(pid);
        let tid = if pid == 0 {
            bpf_get_current_pid_tgid() as u32
        } else {
            field(task, pid)
        };
        Self { task, tid }
    }

    #[inline(always)]
    pub const fn tid(&self) -> u32 {
        self.tid
    }

    /// The process; `None` if the agent's process ids are not those of the initial pid namespace.
    #[inline(always)]
    pub fn tgid(&self) -> Option<u32> {
        (config!(tgid) != 0).then(|| field(self.task, config!(tgid)))
    }

    /// Time, run time and run delay at this moment.
    ///
    /// `sum_exec_runtime` of a running task is only updated at a tick or a switch. The time since
    /// then is the scheduler's clock minus `exec_start`. The scheduler's clock is the clock of the
    /// CPU minus interrupts and stolen time; the run queue has both (`clock` and `clock_task`). The
    /// clock of the CPU and ours have the same speed. So the result is exact up to a constant, which
    /// cancels out of differences.
    #[inline(always)]
    pub fn clocks(&self) -> Clocks {
        self.clocks_by(|| {
            let cfs_rq: *const u8 = field(untrusted(self.task), config!(cfs_rq));
            let rq: *const u8 = field(cfs_rq, config!(rq));
            (field(rq, config!(clock)), field(rq, config!(clock_task)))
        })
    }

    /// As [`Task::clocks`], slower, but with less work for the verifier.
    #[inline(always)]
    pub fn clocks_at_leisure(&self) -> Clocks {
        self.clocks_by(|| {
            let cfs_rq = copied_pointer(self.task, config!(cfs_rq));
            let rq = copied_pointer(cfs_rq, config!(rq));
            (copied(rq, config!(clock)), copied(rq, config!(clock_task)))
        })
    }

    /// `cpu` reads the clock of the CPU, and that clock minus interrupts and stolen time.
    #[inline(always)]
    fn clocks_by(&self, cpu: impl FnOnce() -> (u64, u64)) -> Clocks {
        let time_ns = now();
        let mut run_ns = UNKNOWN;
        let sum_exec_runtime = config!(sum_exec_runtime);
        if sum_exec_runtime != 0 && config!(cfs_rq) != 0 {
            let sum: u64 = field(self.task, sum_exec_runtime);
            let since: u64 = field(self.task, config!(exec_start));
            let (clock, clock_task) = cpu();
            run_ns = sum
                .wrapping_add(time_ns)
                .wrapping_sub(since)
                .wrapping_sub(clock.wrapping_sub(clock_task));
        }
        let mut delay_ns = UNKNOWN;
        let run_delay = config!(run_delay);
        if run_delay != 0 {
            delay_ns = field(self.task, run_delay);
        }
        Clocks {
            time_ns,
            run_ns,
            delay_ns,
        }
    }

    /// How long the task had run when it last left a CPU or at the last tick, ns; 0 if unknown.
    #[inline(always)]
    pub fn ran(&self) -> u64 {
        ran_of(self.task)
    }

    /// See [`sbt_common::Counts::values`].
    #[inline(always)]
    pub fn counts(&self) -> [u64; TASK_COUNTS] {
        let count = |offset: u32| {
            if offset == 0 {
                UNKNOWN
            } else {
                field(self.task, offset)
            }
        };
        [
            count(config!(min_flt)),
            count(config!(maj_flt)),
            count(config!(nvcsw)),
            count(config!(nivcsw)),
            count(config!(nr_migrations)),
        ]
    }

    /// How long the task was ready without a CPU so far, ns; 0 if this kernel does not tell.
    #[inline(always)]
    pub fn delay_ns(&self) -> u64 {
        self.or_zero(config!(run_delay))
    }

    /// Since when the task is on its CPU, by the clock of the CPU; 0 if this kernel does not tell.
    #[inline(always)]
    pub fn on_cpu_since(&self) -> u64 {
        self.or_zero(config!(last_arrival))
    }

    /// `PF_` bits, or 0.
    #[inline(always)]
    pub fn flags(&self) -> u32 {
        if config!(flags) == 0 {
            return 0;
        }
        field(self.task, config!(flags))
    }

    /// Whether the kernel counts the task as waiting for input or output.
    #[inline(always)]
    pub fn waits_for_io(&self) -> bool {
        config!(iowait) != 0
            && u32::from(field::<u8>(self.task, config!(iowait))) & config!(iowait_bit) != 0
    }

    /// The clock of the task's CPU; 0 if unknown.
    #[inline(always)]
    pub fn cpu_clock(&self) -> u64 {
        if config!(cfs_rq) == 0 {
            return 0;
        }
        let cfs_rq: *const u8 = field(untrusted(self.task), config!(cfs_rq));
        let rq: *const u8 = field(cfs_rq, config!(rq));
        field(rq, config!(clock))
    }

    /// The system call that the task is in; negative if none.
    #[inline(always)]
    pub fn system_call(&self) -> i64 {
        self.user().system_call()
    }

    /// The registers of the task's own code.
    #[inline(always)]
    pub fn user(&self) -> User {
        // SAFETY: the verifier knows the types of the argument and of the result.
        User(unsafe { bpf_task_pt_regs(self.task.cast_mut().cast()) } as *const u8)
    }

    #[inline(always)]
    fn or_zero(&self, offset: u32) -> u64 {
        if offset == 0 {
            return 0;
        }
        field(self.task, offset)
    }

    /// When the task was created, or 0.
    #[inline(always)]
    pub fn start_ns(&self) -> u64 {
        if config!(start_time) == 0 {
            return 0;
        }
        field(self.task, config!(start_time))
    }

    /// Whether the task, which ends, is the last thread of its process.
    #[inline(always)]
    pub fn is_last(&self) -> bool {
        if config!(signal) == 0 || config!(live) == 0 {
            return false;
        }
        let signal = copied_pointer(self.task, config!(signal));
        // If the number cannot be read, the task does not count as the last.
        !signal.is_null() && copied::<i32>(signal, config!(live)) == 0
    }

    /// Whether the task, which ends, is the first thread of its process, and others go on.
    #[inline(always)]
    pub fn leaves_others(&self) -> bool {
        /// `SIGNAL_GROUP_EXIT`: all threads of the process end.
        const ALL_END: u32 = 4;
        if config!(signal) == 0 || config!(signal_flags) == 0 {
            return false;
        }
        let id = bpf_get_current_pid_tgid();
        let signal = copied_pointer(self.task, config!(signal));
        let flags: u32 = copied(signal, config!(signal_flags));
        id as u32 == (id >> 32) as u32 && flags & ALL_END == 0
    }

    /// Where the program's code begins, or 0.
    #[inline(always)]
    pub fn start_code(&self) -> u64 {
        if config!(mm) == 0 || config!(start_code) == 0 {
            return 0;
        }
        copied(copied_pointer(self.task, config!(mm)), config!(start_code))
    }

    /// The task's name, zero-padded.
    #[inline(always)]
    pub fn comm(&self) -> [u64; 2] {
        if config!(comm) == 0 {
            return [0; 2];
        }
        [
            field(self.task, config!(comm)),
            field(self.task, config!(comm) + 8),
        ]
    }
}

/// The registers of a task's own code while the task is in the kernel: `pt_regs` on x86-64.
pub struct User(*const u8);

/// The length of a kernel stack, bytes (`THREAD_SIZE` in `arch/x86/include/asm/page_64_types.h`).
const KERNEL_STACK: u64 = 16 << 10;

impl User {
    /// Whether an address lies on the task's kernel stack, which ends with these registers.
    #[inline(always)]
    pub fn is_on_stack(&self, address: *const u8) -> bool {
        number_of(self.0).wrapping_sub(number_of(address)) < KERNEL_STACK
    }

    /// The system call that the task is in; negative if none.
    #[inline(always)]
    pub fn system_call(&self) -> i64 {
        field(self.0, 120)
    }

    /// The first argument of the system call.
    #[inline(always)]
    pub fn first(&self) -> u64 {
        field(self.0, 112)
    }

    /// The arguments of the system call: rdi, rsi, rdx, r10, r8 and r9.
    #[inline(always)]
    pub fn arguments(&self) -> [u64; 6] {
        [
            field(self.0, 112),
            field(self.0, 104),
            field(self.0, 96),
            field(self.0, 56),
            field(self.0, 72),
            field(self.0, 64),
        ]
    }

    /// The instruction pointer.
    #[inline(always)]
    pub fn ip(&self) -> u64 {
        field(self.0, 128)
    }

    /// The stack pointer.
    #[inline(always)]
    pub fn sp(&self) -> u64 {
        field(self.0, 152)
    }
}
