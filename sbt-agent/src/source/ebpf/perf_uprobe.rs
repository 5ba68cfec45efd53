//! Uprobes as perf events, one a place: for kernels before 6.6.
//!
//! They need root (`CAP_SYS_ADMIN`; `CAP_PERFMON` on some kernels), take long to detach, and those of one process go
//! silent when its first thread ends before the others.

use std::{
    ffi::CString,
    fs, io,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
};

use super::bpf::{self, ProbePoint};
use crate::{counters, source::perf};

/// Attaches a program to one place, for one process and its threads, or for everyone
/// who maps the file. The descriptors returned must be kept; closing them detaches.
pub fn attach(
    program: BorrowedFd<'_>,
    path: &CString,
    point: ProbePoint,
    returns: bool,
    pid: Option<u32>,
) -> io::Result<[OwnedFd; 2]> {
    let event = event(path, point.offset, returns, pid)?;
    let link = bpf::attach_perf_event(program, event.as_fd(), point.cookie)?;
    Ok([link, event])
}

/// Whether this process may have such events: the kernel asks for that before it looks at the
/// place. Which privilege it takes has changed more than once, also within one version.
pub fn are_permitted() -> bool {
    let nowhere = event(&c"/".to_owned(), 0, false, Some(std::process::id()));
    !nowhere.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
}

fn event(path: &CString, offset: u64, returns: bool, pid: Option<u32>) -> io::Result<OwnedFd> {
    let read = |name: &str| -> io::Result<String> {
        fs::read_to_string(format!("/sys/bus/event_source/devices/uprobe/{name}"))
    };
    let event_type = read("type")?.trim().parse().map_err(io::Error::other)?;
    // The file says `config:0`: which bit asks for the return.
    let return_bit: u64 = read("format/retprobe")?
        .trim()
        .trim_start_matches("config:")
        .parse()
        .map_err(io::Error::other)?;

    let mut attr = perf::attr()?;
    attr.type_ = event_type;
    attr.config = u64::from(returns) << return_bit;
    attr.__bindgen_anon_3.uprobe_path = path.as_ptr() as u64;
    attr.__bindgen_anon_4.probe_offset = offset;
    match pid {
        Some(pid) => perf::open(&attr, pid),
        // The event is of one CPU, the program runs on all.
        None => perf::open_on_cpu(&attr, counters::online().first().copied().unwrap_or(0)),
    }
}
