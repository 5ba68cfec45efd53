//! Perf events, as the kernel opens them.

use std::{
    io,
    os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd},
};

use aya_obj::generated::perf_event_attr;

mod ring;

pub use ring::{Head, Ring};

/// `PERF_TYPE_SOFTWARE`.
pub const SOFTWARE: u32 = 1;

/// Kinds of records: `PERF_RECORD_LOST` and `PERF_RECORD_SAMPLE`.
pub const LOST: u32 = 2;
/// See there.
pub const SAMPLE: u32 = 9;

/// `PERF_EVENT_IOC_ENABLE`, `_DISABLE` and `_SET_OUTPUT`.
pub const ENABLE: libc::Ioctl = 0x2400;
/// See there.
pub const DISABLE: libc::Ioctl = 0x2401;
/// See there.
pub const SET_OUTPUT: libc::Ioctl = 0x2405;

/// `PERF_FORMAT_LOST` (Linux 6.0): who reads an event is told how many of its records found
/// no room.
pub const FORMAT_LOST: u64 = 1 << 4;

/// `PERF_FLAG_FD_CLOEXEC`.
const CLOSE_ON_EXEC: libc::c_ulong = 8;

/// An event with nothing set but its size.
///
/// # Errors
///
/// None that occurs: the size of the structure is out of range.
pub fn attr() -> io::Result<perf_event_attr> {
    // SAFETY: a structure of integers, unions and bit fields: zero is valid.
    let mut attr: perf_event_attr = unsafe { std::mem::zeroed() };
    attr.size = u32::try_from(size_of::<perf_event_attr>()).map_err(io::Error::other)?;
    Ok(attr)
}

/// Opens an event of one thread, on whatever CPU it runs. What the event points to must
/// live as long as this call.
///
/// # Errors
///
/// Those of the system call.
pub fn open(attr: &perf_event_attr, thread: u32) -> io::Result<OwnedFd> {
    open_for(attr, thread.cast_signed(), -1)
}

/// Opens an event of a CPU, whatever runs there.
///
/// # Errors
///
/// Those of the system call.
pub fn open_on_cpu(attr: &perf_event_attr, cpu: u32) -> io::Result<OwnedFd> {
    open_for(attr, -1, cpu.cast_signed())
}

/// Opens an event of one thread while it runs on one CPU.
///
/// # Errors
///
/// Those of the system call.
pub fn open_at(attr: &perf_event_attr, thread: u32, cpu: u32) -> io::Result<OwnedFd> {
    open_for(attr, thread.cast_signed(), cpu.cast_signed())
}

/// Has an event do something.
///
/// # Errors
///
/// Those of the system call.
pub fn control(event: &OwnedFd, request: libc::Ioctl, argument: i32) -> io::Result<()> {
    // SAFETY: a request of perf events that takes a number.
    let result = unsafe { libc::ioctl(event.as_raw_fd(), request, argument) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// How many records of an event found no room, those of who has inherited it among them; 0 if
/// it was not opened with [`FORMAT_LOST`] and no other format.
pub fn lost(event: &OwnedFd) -> u64 {
    let mut bytes = [0; 16];
    // What it has counted comes first.
    match nix::unistd::read(event, &mut bytes) {
        Ok(16) => bytes
            .as_chunks()
            .0
            .last()
            .map_or(0, |lost| u64::from_ne_bytes(*lost)),
        _ => 0,
    }
}

fn open_for(attr: &perf_event_attr, thread: i32, cpu: i32) -> io::Result<OwnedFd> {
    // SAFETY: `attr` outlives the call.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            std::ptr::from_ref(attr),
            thread,
            cpu,
            -1,
            CLOSE_ON_EXEC,
        )
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    let fd = i32::try_from(fd).map_err(io::Error::other)?;
    // SAFETY: the kernel has just given this descriptor to us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
