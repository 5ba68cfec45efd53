//! Settings for the BPF programs by what this kernel is like, made before they are loaded.

use std::{
    fs,
    io::{self, Read as _},
    os::unix::fs::MetadataExt as _,
};

use memmap2::{Mmap, MmapOptions};
use sbt_common::{Config, MAX_RINGS};

use super::btf::Btf;

/// `PROC_PID_INIT_INO` of the kernel (`include/linux/proc_ns.h`).
const FIRST_PID_NAMESPACE: u64 = 0xEFFF_FFFC;

/// The kernel's function that [`sbt_common::RDONLY_CAST`] stands for, since 6.2.
const CAST: &str = "bpf_rdonly_cast";

/// The settings for this kernel and this target. Offsets that cannot be found stay 0, and the
/// programs do without them. `children`: whether descendants of the target are watched too.
pub fn configure(target: u32, children: bool) -> Config {
    let mut config = Config {
        target,
        ..Config::default()
    };
    if let Ok(namespace) = fs::metadata("/proc/self/ns/pid") {
        config.ns_dev = namespace.dev();
        config.ns_ino = namespace.ino();
    }
    let data = KernelBtf::open();
    let data = data.as_ref().map_or(&[][..], KernelBtf::bytes);
    let wanted = [
        CAST,
        "task_struct",
        "sched_entity",
        "sched_info",
        "cfs_rq",
        "rq",
        "mm_struct",
        "signal_struct",
    ];
    if let Ok(btf) = Btf::parse(data, &wanted) {
        let find = |structure, path: &[&str]| btf.offset(structure, path).unwrap_or(0);
        config.task_type = btf.structure("task_struct").unwrap_or(0);
        config.rdonly_cast = btf.function(CAST).unwrap_or(0);
        config.run_delay = find("task_struct", &["sched_info", "run_delay"]);
        config.start_time = find("task_struct", &["start_time"]);
        config.mm = find("task_struct", &["mm"]);
        config.pid = find("task_struct", &["pid"]);
        config.any_tgid = find("task_struct", &["tgid"]);
        if config.ns_ino == FIRST_PID_NAMESPACE {
            config.tgid = config.any_tgid;
        }
        config.signal = find("task_struct", &["signal"]);
        config.live = find("signal_struct", &["live"]);
        config.signal_flags = find("signal_struct", &["flags"]);
        let known = [config.pid, config.any_tgid, config.signal, config.live];
        // Without these offsets the programs could not recognise children, nor see their ends.
        config.children = u32::from(children && known.iter().all(|offset| *offset != 0));
        config.min_flt = find("task_struct", &["min_flt"]);
        config.maj_flt = find("task_struct", &["maj_flt"]);
        config.on_cpu = find("task_struct", &["on_cpu"]);
        config.ran = find("task_struct", &["se", "sum_exec_runtime"]);
        config.nvcsw = find("task_struct", &["nvcsw"]);
        config.nivcsw = find("task_struct", &["nivcsw"]);
        config.nr_migrations = find("task_struct", &["se", "nr_migrations"]);
        config.comm = find("task_struct", &["comm"]);
        config.last_queued = find("task_struct", &["sched_info", "last_queued"]);
        config.last_arrival = find("task_struct", &["sched_info", "last_arrival"]);
        config.flags = find("task_struct", &["flags"]);
        if let Some((byte, bit)) = btf.bit("task_struct", "in_iowait") {
            (config.iowait, config.iowait_bit) = (byte, bit);
        }
        config.start_code = find("mm_struct", &["start_code"]);
        // `cfs_rq.rq` is at offset 0 on no kernel, since the load comes first. So 0 means absent
        // for each of these.
        let run = [
            find("task_struct", &["se", "sum_exec_runtime"]),
            find("task_struct", &["se", "exec_start"]),
            find("task_struct", &["se", "cfs_rq"]),
            find("cfs_rq", &["rq"]),
            find("rq", &["clock"]),
            find("rq", &["clock_task"]),
        ];
        if run.iter().all(|offset| *offset != 0) {
            [
                config.sum_exec_runtime,
                config.exec_start,
                config.cfs_rq,
                config.rq,
                config.clock,
                config.clock_task,
            ] = run;
        }
    }
    config.cpus = u32::try_from(possible_cpus()).unwrap_or(1);
    let rings = config.cpus.next_power_of_two().min(MAX_RINGS);
    config.ring_mask = rings - 1;
    config.speed_ticks = SPEED_EVERY_NS.div_ceil(tick_ns()).try_into().unwrap_or(1);
    config
}

/// The shortest time between two measurements of the speed of one thread's CPU, ns: at a microsecond
/// each, they cost less than a thousandth.
const SPEED_EVERY_NS: u64 = 4_000_000;

/// The length of a tick of the kernel's clock, ns.
fn tick_ns() -> u64 {
    let usual = 4_000_000;
    rustix::time::clock_getres(rustix::time::ClockId::MonotonicCoarse)
        .tv_nsec
        .try_into()
        .ok()
        .filter(|ns| *ns > 0)
        .unwrap_or(usual)
}

/// The kernel's BTF: mapped where the kernel allows that (since 6.16), else read.
enum KernelBtf {
    Mapped(Mmap),
    Read(Vec<u8>),
}

impl KernelBtf {
    fn open() -> io::Result<Self> {
        let mut file = fs::File::open("/sys/kernel/btf/vmlinux")?;
        // A private mapping: the kernel refuses shared ones (`btf_sysfs_vmlinux_mmap`).
        // SAFETY: the kernel never changes its BTF.
        if let Ok(map) = unsafe { MmapOptions::new().map_copy_read_only(&file) } {
            return Ok(Self::Mapped(map));
        }
        let mut data = Vec::new();
        file.read_to_end(&mut data)?;
        Ok(Self::Read(data))
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Self::Mapped(map) => map,
            Self::Read(data) => data,
        }
    }
}

/// How many CPUs this machine may have, those not present included.
pub fn possible_cpus() -> usize {
    aya::util::nr_cpus().unwrap_or(1)
}
