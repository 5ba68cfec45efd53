//! What /proc tells of a process.

use std::{
    collections::HashMap,
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::LazyLock,
};

use anyhow::bail;
use procfs::{
    ProcError,
    process::{MMPermissions, MMapPath, MemoryMap, Process, StatFlags},
};

use super::{files::FileId, vdso};
use crate::backing::Memory;
pub use mapping::Mapping;

mod code;
pub mod mapping;

/// The folder in /proc about a process: the process's own or, when its first thread has ended
/// before the others, that of a living thread.
pub fn folder(pid: u32) -> PathBuf {
    let own = PathBuf::from(format!("/proc/{pid}"));
    if is_alive(&own) {
        return own;
    }
    tasks(pid).find(|task| is_alive(task)).unwrap_or(own)
}

/// The message about /proc where it is not mounted.
pub const NO_PROC: &str = "is not mounted, and sbt reads there what processes do; mount it: mount -t \
    proc proc /proc";

/// Whether /proc is mounted, and knows this process.
pub fn has_proc() -> bool {
    Path::new("/proc/self/stat").exists()
}

/// The text of a file of /proc. The name of a thread in it may hold any bytes, because the kernel
/// cuts the name after 15 bytes, which may split a character.
pub fn text(path: impl AsRef<Path>) -> io::Result<String> {
    fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

fn tasks(pid: u32) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .filter_map(|task| Some(task.ok()?.path()))
}

/// The ids of the threads of a process; empty if the process is gone.
pub fn thread_ids(pid: u32) -> impl Iterator<Item = u32> {
    tasks(pid).filter_map(|task| task.file_name()?.to_str()?.parse().ok())
}

fn is_alive(folder: &Path) -> bool {
    match text(folder.join("status")) {
        Ok(status) => !field(&status, "State:").is_some_and(|state| state.starts_with(['Z', 'X'])),
        // No other error means that the thread has ended: sbt may just have no file descriptor
        // left.
        Err(error) => {
            error.kind() != io::ErrorKind::NotFound && error.raw_os_error() != Some(libc::ESRCH)
        }
    }
}

fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .map(str::trim)
}

/// How many threads a process has; 0 if it is gone.
pub fn threads(pid: u32) -> u64 {
    // The tasks are folders, each of which counts as a link.
    fs::metadata(format!("/proc/{pid}/task")).map_or(0, |task| task.nlink().saturating_sub(2))
}

/// The ids of the threads of a process, runnable threads first.
pub fn busy_first(pid: u32) -> Vec<u32> {
    let state = |task: &Path| {
        let stat = text(task.join("stat")).ok()?;
        // The name, in parentheses, may hold anything; behind it follows the state.
        let (_, fields) = stat.rsplit_once(')')?;
        fields.trim_start().chars().next()
    };
    let mut threads: Vec<(bool, u32)> = tasks(pid)
        .filter_map(|task| {
            let thread = task.file_name()?.to_str()?.parse().ok()?;
            Some((state(&task)? != 'R', thread))
        })
        .collect();
    threads.sort_unstable();
    threads.into_iter().map(|(_, thread)| thread).collect()
}

/// The process that has started another process, or has adopted it since.
pub fn parent(process: u32) -> Option<u32> {
    let status = text(format!("/proc/{process}/status")).ok()?;
    field(&status, "PPid:")?.parse().ok()
}

/// The process of a thread, if the thread exists.
pub fn of_thread(thread: u32) -> Option<u32> {
    let status = text(format!("/proc/{thread}/status")).ok()?;
    field(&status, "Tgid:")?.parse().ok()
}

/// Whether a thread is in a pid namespace below that of the reader of /proc, where processes have
/// other numbers.
pub fn has_other_numbers(thread: u32) -> bool {
    let status = text(format!("/proc/{thread}/status")).unwrap_or_default();
    has_other_numbers_in(&status)
}

fn has_other_numbers_in(status: &str) -> bool {
    // The line has one number for each namespace, the outermost first.
    field(status, "NSpid:").is_none_or(|all| all.split_whitespace().count() != 1)
}

/// Whether a process has a thread of this number.
pub fn has_thread(pid: u32, thread: u32) -> bool {
    thread != 0 && Path::new(&format!("/proc/{pid}/task/{thread}")).exists()
}

/// Whether the first thread of a process has ended.
pub fn first_thread_has_ended(pid: u32) -> bool {
    thread_has_ended(pid, pid)
}

/// Whether a process goes on without its first thread: the first thread has ended, and at least one
/// other thread is not known to be about to end. When all threads end together, the first may end
/// before the others.
pub fn goes_on_without_first(pid: u32) -> bool {
    let first = PathBuf::from(format!("/proc/{pid}/task/{pid}"));
    // A signal that kills the first thread ends all threads.
    !is_alive(&first)
        && !has_flags(&first, StatFlags::PF_SIGNALED)
        && tasks(pid).any(|task| is_alive(&task) && !ends(&task))
}

/// Whether a thread is known to be about to end.
fn ends(task: &Path) -> bool {
    // The order matters: the kernel removes a signal from the pending ones when the thread begins
    // to end.
    let status = text(task.join("status")).unwrap_or_default();
    is_pending(&status, libc::SIGKILL)
        || has_flags(task, StatFlags::PF_SIGNALED | StatFlags::PF_EXITING)
}

fn has_flags(task: &Path, wanted: StatFlags) -> bool {
    let stat = text(task.join("stat")).unwrap_or_default();
    // The name, in parentheses, may hold anything; behind it follows the third field.
    let flags = stat
        .rsplit_once(')')
        .and_then(|(_, fields)| fields.split_whitespace().nth(9 - 3)?.parse().ok());
    flags.is_some_and(|flags| StatFlags::from_bits_retain(flags).intersects(wanted))
}

/// Whether a thread of a process has ended. A first thread that has ended stays in /proc as long as
/// others live.
pub fn thread_has_ended(pid: u32, thread: u32) -> bool {
    !is_alive(Path::new(&format!("/proc/{pid}/task/{thread}")))
}

/// Whether a signal has stopped the process; false if a debugger has.
pub fn is_stopped(pid: u32) -> bool {
    let stat = text(folder(pid).join("stat"));
    stat.is_ok_and(|stat| {
        // The name may hold anything, and ends with the last parenthesis.
        let rest = stat.rsplit_once(") ");
        rest.is_some_and(|(_, rest)| rest.starts_with('T'))
    })
}

/// The executable mappings of files in a process, and the mapping of the kernel's own code for the
/// process (vDSO); empty if the process is gone.
pub fn mappings(pid: u32) -> Vec<Mapping> {
    readable_mappings(pid).unwrap_or_default()
}

/// The mappings as from [`mappings`], or why they cannot be read.
///
/// # Errors
/// The mappings cannot be read; the kind is `PermissionDenied` if sbt lacks the permission.
pub fn readable_mappings(pid: u32) -> io::Result<Vec<Mapping>> {
    let maps = Process::new_with_root(folder(pid)).and_then(|process| process.maps());
    let maps = maps.map_err(|error| match error {
        ProcError::PermissionDenied(_) => io::ErrorKind::PermissionDenied.into(),
        other => io::Error::other(other),
    })?;
    let mapped = maps
        .into_iter()
        .filter(|map| map.perms.contains(MMPermissions::EXECUTE))
        .filter_map(|map| {
            let path = match map.pathname {
                MMapPath::Path(path) => path,
                MMapPath::Vdso => PathBuf::from(vdso::NAME),
                _ => return None,
            };
            Some(Mapping {
                start: map.address.0,
                end: map.address.1,
                offset: map.offset,
                path,
                id: FileId {
                    device: libc::makedev(map.dev.0.cast_unsigned(), map.dev.1.cast_unsigned()),
                    inode: map.inode,
                },
            })
        });
    Ok(mapped.collect())
}

/// The [`mappings`] of a process that was looked at before. `known`: the path of a mapping that was
/// seen then, given all but the path; the kernel is not asked for the name of such a mapping.
pub fn mappings_again(pid: u32, known: impl Fn(&Mapping) -> Option<PathBuf>) -> Vec<Mapping> {
    code::mappings(pid, known).unwrap_or_else(|_| mappings(pid))
}

/// A mapped range of a process's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Occupied {
    /// First address.
    pub start: u64,
    /// One past the last address.
    pub end: u64,
    /// Whether the range is a stack that the kernel extends downwards.
    pub grows_down: bool,
}

/// All mapped ranges, in the order of addresses; empty if the process is gone.
pub fn occupied(pid: u32) -> Vec<Occupied> {
    let maps = Process::new_with_root(folder(pid)).and_then(|process| process.maps());
    maps.map_or_else(
        |_| Vec::new(),
        |maps| {
            let one = |map: procfs::process::MemoryMap| Occupied {
                start: map.address.0,
                end: map.address.1,
                grows_down: map.pathname == MMapPath::Stack,
            };
            maps.into_iter().map(one).collect()
        },
    )
}

/// What kind of memory lies at an address of a process.
pub fn memory_at(pid: u32, address: u64) -> Memory {
    let maps = Process::new_with_root(folder(pid))
        .ok()
        .and_then(|process| process.maps().ok());
    let Some(maps) = maps.filter(|maps| maps.iter().next().is_some()) else {
        return Memory::Unknown;
    };
    let holds = |map: &MemoryMap| (map.address.0..map.address.1).contains(&address);
    match maps.into_iter().find(holds) {
        Some(map) if map.perms.contains(MMPermissions::SHARED) => {
            let (major, minor) = map.dev;
            let device = u64::from(major.cast_unsigned()) << 32 | u64::from(minor.cast_unsigned());
            Memory::Shared((device, map.inode, map.offset + (address - map.address.0)))
        }
        Some(_) => Memory::Own,
        None => Memory::Unknown,
    }
}

/// Whether an address is the one by which the kernel replaces a return address while a probe stands
/// on the return of the function (`kernel/events/uprobes.c`, `xol_add_vma`).
pub fn is_of_return_probe(pid: u32, address: u64) -> bool {
    let maps = Process::new_with_root(folder(pid)).and_then(|process| process.maps());
    let is_of_probes =
        |map: &MemoryMap| matches!(&map.pathname, MMapPath::Other(name) if name == "uprobes");
    maps.is_ok_and(|maps| {
        let mut at = maps
            .into_iter()
            .filter(|map| (map.address.0..map.address.1).contains(&address));
        at.any(|map| is_of_probes(&map))
    })
}

/// The rank of a process in a parallel program, from the environment that the program's launcher
/// has set: Open MPI, MPICH and its kin, `PMIx`, Slurm.
pub fn rank(pid: u32) -> Option<u32> {
    let environment = fs::read(folder(pid).join("environ")).ok()?;
    rank_of(&environment)
}

/// Identifies the parallel program of which a process is a rank, among programs that run at the
/// same time; from the environment that `PMIx` (so Open MPI) or Slurm has set.
pub fn job(pid: u32) -> Option<Box<[u8]>> {
    let environment = fs::read(folder(pid).join("environ")).ok()?;
    job_of(&environment)
}

fn job_of(environment: &[u8]) -> Option<Box<[u8]>> {
    let value = |name| variable(environment, name);
    if let Some(namespace) = value("PMIX_NAMESPACE") {
        return Some(namespace.into());
    }
    let step = [value("SLURM_JOB_ID")?, value("SLURM_STEP_ID")?];
    Some(step.join(&b'.').into())
}

fn variable<'a>(environment: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let mut all = environment.split(|byte| *byte == 0);
    all.find_map(|one| one.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
}

fn rank_of(environment: &[u8]) -> Option<u32> {
    let names = [
        "OMPI_COMM_WORLD_RANK",
        "PMIX_RANK",
        "PMI_RANK",
        "SLURM_PROCID",
    ];
    let found = names
        .into_iter()
        .find_map(|name| variable(environment, name))?;
    std::str::from_utf8(found).ok()?.parse().ok()
}

/// All descendants of a process, as far as they can be found.
pub fn descendants(pid: u32) -> Vec<u32> {
    let mut found = vec![pid];
    let mut next = 0;
    while let Some(pid) = found.get(next).copied() {
        next += 1;
        found.extend(children(pid));
    }
    found.remove(0);
    found
}

/// The processes that a process has started or adopted.
pub fn children(pid: u32) -> Vec<u32> {
    let mut found = Vec::new();
    for task in tasks(pid) {
        let children = text(task.join("children")).unwrap_or_default();
        let numbers = children.split_whitespace();
        found.extend(numbers.filter_map(|pid| pid.parse::<u32>().ok()));
    }
    found
}

/// A process found alive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundProcess {
    /// The process id, which is the id of the first thread.
    pub pid: u32,
    /// The command line, or the name in brackets if the command line is empty.
    pub command: Vec<String>,
}

/// Finds the process that `pid` is, or is a thread of.
pub fn find(pid: u32) -> anyhow::Result<FoundProcess> {
    let Ok(status) = text(format!("/proc/{pid}/status")) else {
        bail!("there is no process {pid}; `ps -e` lists those that run");
    };
    let field = |name: &str| field(&status, name);
    let tgid = field("Tgid:")
        .and_then(|value| value.parse().ok())
        .unwrap_or(pid);
    if !is_alive(&folder(tgid)) {
        bail!("process {pid} has already ended and waits to be reaped: nothing is left to watch");
    }
    let name = field("Name:").unwrap_or("?");
    let arguments = fs::read(folder(tgid).join("cmdline")).unwrap_or_default();
    let mut command: Vec<String> = arguments
        .split(|byte| *byte == 0)
        .map(|argument| String::from_utf8_lossy(argument).into_owned())
        .collect();
    command.pop();
    if command.is_empty() {
        let has_memory =
            text(folder(tgid).join("status")).is_ok_and(|status| status.contains("VmSize:"));
        if !has_memory {
            bail!("process {pid} ({name}) is a thread of the kernel: it has no program to watch");
        }
        command.push(format!("[{name}]"));
    }
    Ok(FoundProcess { pid: tgid, command })
}

/// Whether a process, which may have ended but not been reaped, had children and waited for one:
/// the page faults of those children are counted for the process.
pub fn had_children(pid: u32) -> Option<bool> {
    let stat = text(format!("/proc/{pid}/stat")).ok()?;
    waited_for_any(&stat)
}

fn waited_for_any(stat: &str) -> Option<bool> {
    // The name, in parentheses, may hold anything; behind it follows the third field.
    let (_, fields) = stat.rsplit_once(')')?;
    let faults: u64 = fields.split_whitespace().nth(11 - 3)?.parse().ok()?;
    Some(faults > 0)
}

/// What each thread of a process has used so far: run time and run delay, ns, from
/// /proc/PID/task/TID/schedstat.
pub fn usage(pid: u32) -> HashMap<u32, (Option<u64>, Option<u64>)> {
    tasks(pid)
        .filter_map(|task| {
            let tid: u32 = task.file_name()?.to_str()?.parse().ok()?;
            let text = text(task.join("schedstat")).unwrap_or_default();
            let mut fields = text.split_whitespace().map(str::parse);
            let mut next = || fields.next().and_then(Result::ok);
            Some((tid, (next(), next())))
        })
        .collect()
}

/// What the kernel has counted of each thread of a process so far: minor and major faults,
/// voluntary and involuntary switches, migrations; from /proc/PID/task/TID/stat, status and sched,
/// as far as they tell.
pub fn kept_counts(pid: u32) -> HashMap<u32, [Option<u64>; 5]> {
    tasks(pid)
        .filter_map(|task| {
            let tid: u32 = task.file_name()?.to_str()?.parse().ok()?;
            Some((tid, kept_in(&task)))
        })
        .collect()
}

/// Whether a process has forbidden others to look into it (`PR_SET_DUMPABLE`): its files in /proc
/// are root's then. `None` if the owner of the files does not tell, as for a process of root.
pub fn is_closed(pid: u32) -> Option<bool> {
    let owner = fs::metadata(folder(pid).join("environ")).ok()?.uid();
    let status = text(folder(pid).join("status")).ok()?;
    let users = field(&status, "Uid:")?;
    let user: u32 = users.split_ascii_whitespace().nth(1)?.parse().ok()?;
    (user != 0).then_some(owner != user)
}

/// Whether the processor keeps a second copy of the return addresses of a process (`shstk`, Linux
/// 6.6): the C library asks for that at the start of a program, after it has loaded libraries. True
/// if that cannot be found out.
pub fn has_shadow_stack(pid: u32) -> bool {
    /// `CET_SS`: leaf 7 of CPUID, in ecx. Under a hypervisor the instruction is slow, so that it is
    /// executed once.
    static CAN: LazyLock<bool> =
        LazyLock::new(|| std::arch::x86_64::__cpuid_count(7, 0).ecx & 1 << 7 != 0);
    let status = || text(folder(pid).join("status"));
    *CAN && status().map_or(true, |status| has_shadow_stack_in(&status))
}

fn has_shadow_stack_in(status: &str) -> bool {
    field(status, "x86_Thread_features:").is_some_and(|all| {
        all.split_ascii_whitespace()
            .any(|feature| feature == "shstk")
    })
}

/// The process that traces a thread; `None` if none does, or if the thread has ended.
pub fn tracer(pid: u32, tid: u32) -> Option<u32> {
    let status = text(format!("/proc/{pid}/task/{tid}/status")).ok()?;
    tracer_in(&status)
}

fn tracer_in(status: &str) -> Option<u32> {
    let tracer = field(status, "TracerPid:")?.parse().ok()?;
    (tracer != 0).then_some(tracer)
}

/// Whether a signal is pending for a thread itself. Signals that are pending for the whole process
/// do not count.
pub fn has_pending(tid: u32, signal: i32) -> bool {
    let status = text(folder(tid).join("status")).unwrap_or_default();
    is_pending(&status, signal)
}

fn is_pending(status: &str, signal: i32) -> bool {
    let pending = field(status, "SigPnd:");
    let pending = pending.and_then(|bits| u64::from_str_radix(bits, 16).ok());
    let bit = u32::try_from(signal)
        .ok()
        .and_then(|number| number.checked_sub(1));
    let bit = bit.and_then(|bit| 1_u64.checked_shl(bit));
    pending.zip(bit).is_some_and(|(bits, bit)| bits & bit != 0)
}

/// How many filters judge the system calls of a thread, each of which may have its own; before
/// Linux 5.9, 2 if there are any. `u32::MAX` in strict mode. `None` if that cannot be found out.
pub fn filters(thread: u32) -> Option<u32> {
    // The thread's own file, not that of `folder`: another thread of the process may have other
    // filters.
    let status = text(format!("/proc/{thread}/status")).ok()?;
    Some(filters_in(&status))
}

fn filters_in(status: &str) -> u32 {
    let number = |name| field(status, name)?.parse().ok();
    // The strict mode has no filter, and allows next to nothing.
    match number("Seccomp:") {
        Some(1) => u32::MAX,
        mode => number("Seccomp_filters:").or(mode).unwrap_or(0),
    }
}

/// What the kernel has counted of one thread so far: see [`kept_counts`].
pub fn kept_counts_of(pid: u32, tid: u32) -> [Option<u64>; 5] {
    kept_in(Path::new(&format!("/proc/{pid}/task/{tid}")))
}

fn kept_in(task: &Path) -> [Option<u64>; 5] {
    let read = |name: &str| text(task.join(name)).unwrap_or_default();
    kept_of(&read("stat"), &read("status"), &read("sched"))
}

fn kept_of(stat: &str, status: &str, sched: &str) -> [Option<u64>; 5] {
    // The name may hold anything, and ends with the last parenthesis.
    let fields: Vec<&str> = stat
        .rsplit_once(')')
        .map_or_else(Vec::new, |(_, rest)| rest.split_whitespace().collect());
    let field = |index: usize| fields.get(index).and_then(|field| field.parse().ok());
    let line = |text: &str, key: &str| {
        let value = text
            .lines()
            .find_map(|line| line.trim().strip_prefix(key))?;
        value
            .trim_start_matches([' ', '\t', ':'])
            .trim()
            .parse()
            .ok()
    };
    [
        field(7),
        field(9),
        line(status, "voluntary_ctxt_switches"),
        line(status, "nonvoluntary_ctxt_switches"),
        line(sched, "se.nr_migrations"),
    ]
}

#[cfg(test)]
mod tests;
