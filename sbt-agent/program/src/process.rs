//! Facts about a process from /proc.

use std::{
    collections::HashMap,
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::LazyLock,
    time::Duration,
};

use anyhow::bail;
use nix::{time::clock_getcpuclockid, unistd::Pid};
use procfs::{
    FromRead as _, ProcError,
    process::{MMPermissions, MMapPath, MemoryMap, Process, Stat, StatFlags},
};

pub use super::folders::folder;
use super::{
    arch::unwind::can_have_shadow_stacks,
    file_id::FileId,
    folders::{is_alive, tasks},
    status::Status,
    vdso,
};
use crate::backing::Memory;
pub use mapping::Mapping;

mod code;
pub mod job;
pub mod mapping;
pub mod shared;

/// The message about /proc where it is not mounted.
pub const NO_PROC: &str = "is not mounted, and sbt cannot see processes without it; mount it: \
    mount -t proc proc /proc";

/// Whether /proc is mounted, and knows this process.
pub fn has_proc() -> bool {
    Path::new("/proc/self/stat").exists()
}

/// The text of a file of /proc. The name of a thread in it may hold any bytes, because the kernel
/// cuts the name after 15 bytes, which may split a character.
pub fn text(path: impl AsRef<Path>) -> io::Result<String> {
    fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// The ids of the threads of a process; empty if the process is gone.
pub fn thread_ids(pid: u32) -> impl Iterator<Item = u32> {
    tasks(pid).filter_map(|task| task.file_name()?.to_str()?.parse().ok())
}

/// The numbers in the file `stat` of a thread.
fn stat(task: &Path) -> Option<Stat> {
    Stat::from_file(task.join("stat")).ok()
}

/// Number of threads of a process; 0 if the process is gone.
pub fn threads(pid: u32) -> u64 {
    // The tasks are folders, each of which counts as a link.
    fs::metadata(format!("/proc/{pid}/task")).map_or(0, |task| task.nlink().saturating_sub(2))
}

/// The ids of the threads of a process, runnable threads first.
pub fn busy_first(pid: u32) -> Vec<u32> {
    let mut threads: Vec<(bool, u32)> = tasks(pid)
        .filter_map(|task| {
            let thread = task.file_name()?.to_str()?.parse().ok()?;
            Some((stat(&task)?.state != 'R', thread))
        })
        .collect();
    threads.sort_unstable();
    threads.into_iter().map(|(_, thread)| thread).collect()
}

/// The process that has started another process, or has adopted it since.
pub fn parent(process: u32) -> Option<u32> {
    Status::of(process)?.number("PPid")
}

/// Whether a process was made by `fork` and has executed no program since.
pub fn is_forked(pid: u32) -> bool {
    let flags = stat(&folder(pid)).map(|stat| StatFlags::from_bits_retain(stat.flags));
    flags.is_some_and(|flags| flags.contains(StatFlags::PF_FORKNOEXEC))
}

/// CPU time that each thread of a process has used, ns, by the thread's id. Empty if the process is
/// gone or the kernel does not tell.
pub fn used_ns(pid: u32) -> Vec<(u32, u64)> {
    let of = |task: PathBuf| {
        let thread = task.file_name()?.to_str()?.parse().ok()?;
        let text = text(task.join("schedstat")).ok()?;
        Some((thread, text.split(' ').next()?.parse().ok()?))
    };
    tasks(pid).filter_map(of).collect()
}

/// Whether a thread of a process has ever ended: the CPU time of the process is more than that of its
/// threads then. `None` if threads run meanwhile, or if the kernel does not tell.
pub fn has_lost_threads(pid: u32) -> Option<bool> {
    let clock = clock_getcpuclockid(Pid::from_raw(pid.try_into().ok()?)).ok()?;
    let before = used_ns(pid);
    let all = Duration::from(clock.now().ok()?);
    // A thread that ends meanwhile takes its time with it.
    let is_same = !before.is_empty() && before == used_ns(pid);
    let known = before.iter().map(|(_, ns)| u128::from(*ns)).sum::<u128>();
    is_same.then_some(all.as_nanos() != known)
}

/// All processes that can be seen.
pub fn all() -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// The process of a thread, if the thread exists.
pub fn of_thread(thread: u32) -> Option<u32> {
    Status::of(thread)?.number("Tgid")
}

/// Whether a thread is in a pid namespace below that of the reader of /proc, where processes have
/// other numbers.
pub fn has_other_numbers(thread: u32) -> bool {
    Status::of(thread).unwrap_or_default().has_other_numbers()
}

/// The number of a thread in its own pid namespace.
pub fn innermost_number(thread: u32) -> Option<u32> {
    Status::of(thread)?.numbers("NSpid")?.last().copied()
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
        // A thread that has ended after it was found alive shows no sign of its end any more.
        && tasks(pid).any(|task| is_alive(&task) && !ends(&task) && is_alive(&task))
}

/// Whether a thread is known to be about to end.
fn ends(task: &Path) -> bool {
    // The order matters: the kernel removes a signal from the pending ones when the thread begins
    // to end.
    let status = Status::in_folder(task).unwrap_or_default();
    status.is_pending(libc::SIGKILL)
        || has_flags(task, StatFlags::PF_SIGNALED | StatFlags::PF_EXITING)
}

fn has_flags(task: &Path, wanted: StatFlags) -> bool {
    stat(task).is_some_and(|stat| StatFlags::from_bits_retain(stat.flags).intersects(wanted))
}

/// Whether a thread of a process has ended. A first thread that has ended stays in /proc as long as
/// others live.
pub fn thread_has_ended(pid: u32, thread: u32) -> bool {
    !is_alive(Path::new(&format!("/proc/{pid}/task/{thread}")))
}

/// Whether a thread runs, is ready to run, or waits for what no signal interrupts (states R and D).
/// True if that cannot be read.
pub fn is_busy(pid: u32, thread: u32) -> bool {
    let task = PathBuf::from(format!("/proc/{pid}/task/{thread}"));
    stat(&task).is_none_or(|stat| matches!(stat.state, 'R' | 'D'))
}

/// Whether a signal has stopped the process; false if a debugger has.
pub fn is_stopped(pid: u32) -> bool {
    stat(&folder(pid)).is_some_and(|stat| stat.state == 'T')
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

/// The [`mappings`] of a process that was looked at before, each with what is known of it. `known`
/// answers given all but the path. The kernel is not asked for the path of a known mapping; that
/// path may be empty.
pub fn mappings_again<T>(
    pid: u32,
    known: impl Fn(&Mapping) -> Option<T>,
) -> Vec<(Mapping, Option<T>)> {
    code::mappings(pid, &known).unwrap_or_else(|_| {
        let listed = mappings(pid).into_iter();
        let with_known = |mapping| {
            let known = known(&mapping);
            (mapping, known)
        };
        listed.map(with_known).collect()
    })
}

/// Whether a process maps memory without a file that its maker has named so (`memfd_create`).
pub fn maps_memory(pid: u32, name: &str) -> bool {
    // Not parsed: a large program has thousands of lines.
    let maps = text(folder(pid).join("maps"));
    maps.is_ok_and(|maps| maps.contains(&format!("/memfd:{name}")))
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

/// The kind of memory at an address of a process.
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
    let Some(status) = Status::of(pid) else {
        bail!("there is no process {pid}; `ps -e` lists the running processes");
    };
    let tgid = status.number("Tgid").unwrap_or(pid);
    if !is_alive(&folder(tgid)) {
        bail!("process {pid} has already ended and waits to be reaped: nothing is left to watch");
    }
    let name = status.field("Name").unwrap_or("?");
    let arguments = fs::read(folder(tgid).join("cmdline")).unwrap_or_default();
    let mut command: Vec<String> = arguments
        .split(|byte| *byte == 0)
        .map(|argument| String::from_utf8_lossy(argument).into_owned())
        .collect();
    command.pop();
    if command.is_empty() {
        let of_process = Status::in_folder(&folder(tgid));
        if of_process.is_none_or(|status| status.field("VmSize").is_none()) {
            bail!("process {pid} ({name}) is a kernel thread: it runs no program to watch");
        }
        command.push(format!("[{name}]"));
    }
    Ok(FoundProcess { pid: tgid, command })
}

/// Whether a process, which may have ended but not been reaped, had children and waited for one:
/// the page faults of those children are counted for the process.
pub fn had_children(pid: u32) -> Option<bool> {
    stat(Path::new(&format!("/proc/{pid}"))).map(|stat| stat.cminflt > 0)
}

/// CPU time of a thread so far, ns; of a thread that has ended as long as it was not reaped.
pub fn thread_time_ns(pid: u32, tid: u32) -> Option<u64> {
    let text = text(format!("/proc/{pid}/task/{tid}/schedstat")).ok()?;
    text.split_whitespace().next()?.parse().ok()
}

/// The resources used by a process, which may have ended but not been reaped: time in the program
/// and in the kernel, ticks of 10 ms as ns, and minor and major page faults.
pub fn used(pid: u32) -> Option<[u64; 4]> {
    let stat = stat(Path::new(&format!("/proc/{pid}")))?;
    let per_second = procfs::ticks_per_second().max(1);
    let ns = |ticks: u64| ticks.saturating_mul(1_000_000_000 / per_second);
    Some([ns(stat.utime), ns(stat.stime), stat.minflt, stat.majflt])
}

/// The use of CPUs by each thread of a process so far: run time and run delay, ns, from
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

/// The kernel's counts for each thread of a process so far: minor and major faults, voluntary and
/// involuntary switches, migrations; from /proc/PID/task/TID/stat, status and sched, as far as they
/// tell.
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
    let status = Status::in_folder(&folder(pid))?;
    let user = *status.numbers("Uid")?.get(1)?;
    (user != 0).then_some(owner != user)
}

/// Whether the processor keeps a second copy of the return addresses of a process (`shstk`, Linux
/// 6.6): the C library asks for that at the start of a program, after it has loaded libraries. True
/// if that cannot be found out.
pub fn has_shadow_stack(pid: u32) -> bool {
    // Asked once, since it may be slow.
    static CAN: LazyLock<bool> = LazyLock::new(can_have_shadow_stacks);
    let status = || Status::in_folder(&folder(pid));
    *CAN && status().is_none_or(|status| status.has_shadow_stack())
}

/// The process that traces a thread; `None` if none does, or if the thread has ended.
pub fn tracer(pid: u32, tid: u32) -> Option<u32> {
    Status::in_folder(Path::new(&format!("/proc/{pid}/task/{tid}")))?.tracer()
}

/// Whether any thread of a process is traced.
pub fn is_traced(pid: u32) -> bool {
    thread_ids(pid).any(|tid| tracer(pid, tid).is_some())
}

/// Whether a signal is pending for a thread itself. Signals that are pending for the whole process
/// do not count.
pub fn has_pending(tid: u32, signal: i32) -> bool {
    Status::in_folder(&folder(tid)).is_some_and(|status| status.is_pending(signal))
}

/// Number of filters for the system calls of a thread; each thread may have its own. Before Linux
/// 5.9, 2 if there are any. `u32::MAX` in strict mode. `None` if that cannot be found out.
pub fn filters(thread: u32) -> Option<u32> {
    // The thread's own file, not that of `folder`: another thread of the process may have other
    // filters.
    Some(Status::of(thread)?.filters())
}

/// The kernel's counts for one thread so far: see [`kept_counts`].
pub fn kept_counts_of(pid: u32, tid: u32) -> [Option<u64>; 5] {
    kept_in(Path::new(&format!("/proc/{pid}/task/{tid}")))
}

fn kept_in(task: &Path) -> [Option<u64>; 5] {
    let read = |name: &str| text(task.join(name)).unwrap_or_default();
    let status = Status::in_folder(task).unwrap_or_default();
    kept_of(&read("stat"), &status, &read("sched"))
}

fn kept_of(stat: &str, status: &Status, sched: &str) -> [Option<u64>; 5] {
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
        status.number("voluntary_ctxt_switches"),
        status.number("nonvoluntary_ctxt_switches"),
        line(sched, "se.nr_migrations"),
    ]
}

#[cfg(test)]
mod tests;
