//! Uprobes as perf events, one a place: for kernels before 6.6.
//!
//! They need root (`CAP_SYS_ADMIN`), take long to detach, and go silent when
//! the target's first thread ends before the others.

use std::{
    ffi::CString,
    fs, io,
    os::fd::{AsFd as _, BorrowedFd, FromRawFd as _, OwnedFd},
};

use aya_obj::generated::perf_event_attr;

use super::bpf::{self, ProbePoint};

/// Attaches a program to one place, for one process and its threads. The
/// descriptors returned must be kept; closing them detaches.
pub fn attach(
    program: BorrowedFd<'_>,
    path: &CString,
    point: ProbePoint,
    returns: bool,
    pid: u32,
) -> io::Result<[OwnedFd; 2]> {
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

    // SAFETY: a structure of integers, unions and bit fields: zero is valid.
    let mut attr: perf_event_attr = unsafe { std::mem::zeroed() };
    attr.type_ = event_type;
    attr.size = u32::try_from(size_of::<perf_event_attr>()).map_err(io::Error::other)?;
    attr.config = u64::from(returns) << return_bit;
    attr.__bindgen_anon_3.uprobe_path = path.as_ptr() as u64;
    attr.__bindgen_anon_4.probe_offset = point.offset;
    // SAFETY: `attr` and the path in it outlive the call.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attr,
            pid.cast_signed(),
            -1,
            -1,
            8, // PERF_FLAG_FD_CLOEXEC
        )
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    let fd = i32::try_from(fd).map_err(io::Error::other)?;
    // SAFETY: the kernel has just given this descriptor to us alone.
    let event = unsafe { OwnedFd::from_raw_fd(fd) };
    let link = bpf::attach_perf_event(program, event.as_fd(), point.cookie)?;
    Ok([link, event])
}
