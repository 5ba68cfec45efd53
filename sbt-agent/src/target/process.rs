//! What /proc tells of a process.

use std::{
    collections::HashMap,
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::bail;
use procfs::process::{MMPermissions, MMapPath, Process};

use super::files::ProbedFile;

/// An executable mapping of a file.
#[derive(Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// One past the last.
    pub end: u64,
    /// Offset in the file of the first address.
    pub offset: u64,
    /// The file as the target sees it.
    pub path: PathBuf,
}

impl Mapping {
    /// Opens the mapped file: by the kernel's own link to it, which works for
    /// deleted files and other namespaces but not for everyone, else by path.
    pub fn open(&self, pid: u32) -> io::Result<ProbedFile> {
        let link = format!("/proc/{pid}/map_files/{:x}-{:x}", self.start, self.end);
        ProbedFile::open(Path::new(&link), &self.path)
            .or_else(|_| ProbedFile::open(&rooted(pid, &self.path), &self.path))
    }
}

/// A path of the target, seen from outside.
pub fn rooted(pid: u32, path: &Path) -> PathBuf {
    let root = PathBuf::from(format!("/proc/{pid}/root"));
    root.join(path.strip_prefix("/").unwrap_or(path))
}

/// The executable file mappings of a process; empty if it is gone.
pub fn mappings(pid: u32) -> Vec<Mapping> {
    let maps = i32::try_from(pid)
        .ok()
        .and_then(|pid| Process::new(pid).ok())
        .and_then(|process| process.maps().ok());
    let Some(maps) = maps else {
        return Vec::new();
    };
    maps.into_iter()
        .filter(|map| map.perms.contains(MMPermissions::EXECUTE))
        .filter_map(|map| match map.pathname {
            MMapPath::Path(path) => Some(Mapping {
                start: map.address.0,
                end: map.address.1,
                offset: map.offset,
                path,
            }),
            _ => None,
        })
        .collect()
}

/// A process found alive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its id; that of the first thread.
    pub pid: u32,
    /// Its command line, or its name in brackets where it has none.
    pub command: Vec<String>,
}

/// Finds the process that `pid` is, or is a thread of.
pub fn find(pid: u32) -> anyhow::Result<Found> {
    let Ok(status) = fs::read_to_string(format!("/proc/{pid}/status")) else {
        bail!("there is no process {pid}; `ps -e` lists those that run");
    };
    let field = |name: &str| {
        status
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .map(str::trim)
    };
    let tgid = field("Tgid:")
        .and_then(|value| value.parse().ok())
        .unwrap_or(pid);
    if field("State:").is_some_and(|state| state.starts_with(['Z', 'X'])) {
        bail!("process {pid} has already ended and waits to be reaped: nothing is left to watch");
    }
    let name = field("Name:").unwrap_or("?");
    let arguments = fs::read(format!("/proc/{tgid}/cmdline")).unwrap_or_default();
    let mut command: Vec<String> = arguments
        .split(|byte| *byte == 0)
        .map(|argument| String::from_utf8_lossy(argument).into_owned())
        .collect();
    command.pop();
    if command.is_empty() {
        if field("VmSize:").is_none() {
            bail!("process {pid} ({name}) is a thread of the kernel: it has no program to watch");
        }
        command.push(format!("[{name}]"));
    }
    Ok(Found { pid: tgid, command })
}

/// What each thread of a process has used so far: run time and run delay, ns,
/// from /proc/PID/task/TID/schedstat.
pub fn usage(pid: u32) -> HashMap<u32, (Option<u64>, Option<u64>)> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return HashMap::new();
    };
    tasks
        .filter_map(|task| {
            let task = task.ok()?;
            let tid: u32 = task.file_name().to_str()?.parse().ok()?;
            let text = fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
            let mut fields = text.split_whitespace().map(str::parse);
            let mut next = || fields.next().and_then(Result::ok);
            Some((tid, (next(), next())))
        })
        .collect()
}
