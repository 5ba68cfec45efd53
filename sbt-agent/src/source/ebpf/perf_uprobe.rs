//! Uprobes as perf events, one for each place: for kernels before 6.6.
//!
//! They need root (`CAP_SYS_ADMIN`; `CAP_PERFMON` on some kernels) and take long to detach. Those
//! of one process no longer fire when its first thread ends before the others.

use std::{
    ffi::CString,
    io,
    os::fd::{BorrowedFd, OwnedFd},
};

use perf_event::Counter;

use crate::kernel::{
    bpf::{self, ProbePoint},
    counting, perf,
};

/// Attaches a program to one place, for one process (`pid`) or for everyone who maps the file. The
/// caller must keep the descriptors returned: closing them detaches.
pub fn attach(
    program: BorrowedFd<'_>,
    path: &CString,
    point: ProbePoint,
    returns: bool,
    pid: Option<u32>,
) -> io::Result<[OwnedFd; 2]> {
    let event = event(path, point.offset, returns, pid)?;
    let link = bpf::attach_perf_event(program, &event, point.cookie)?;
    Ok([link, perf::descriptor(event)])
}

/// Whether this process may open such events. The kernel checks the privilege before it looks at
/// the place. Which privilege it demands has changed more than once, even within one version.
pub fn are_permitted() -> bool {
    let nowhere = event(&c"/".to_owned(), 0, false, Some(std::process::id()));
    !nowhere.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
}

// Built by hand: `UProbe` of perf-event2 0.7 does not implement `Event`, so no counter can be built
// of it.
fn event(path: &CString, offset: u64, returns: bool, pid: Option<u32>) -> io::Result<Counter> {
    let returns = [("retprobe".to_owned(), Some(u64::from(returns)))];
    let uprobe = counting::device("uprobe", &returns).map_err(io::Error::other)?;
    let mut event = uprobe.event();
    // `uprobe_path` and `probe_offset`: the kernel reads the path while the event is built.
    event.attrs_mut().config1 = path.as_ptr() as u64;
    event.attrs_mut().config2 = offset;
    if let Some(pid) = pid {
        event.observe_pid(pid.cast_signed());
    } else {
        // The event belongs to one CPU, but the BPF program runs on all.
        let cpu = counting::online().first().copied().unwrap_or(0);
        event.any_pid().one_cpu(cpu as usize);
    }
    event.build()
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use sbt_program::process;

    use super::*;

    #[inline(never)]
    extern "C" fn probed() {
        black_box(());
    }

    /// The file offset of an address in this test's own executable.
    fn in_file(address: u64) -> u64 {
        let mappings = process::mappings(std::process::id());
        let holds = |mapping: &&process::Mapping| (mapping.start..mapping.end).contains(&address);
        let mapping = mappings.iter().find(holds).unwrap();
        address - mapping.start + mapping.offset
    }

    #[test]
    fn calls_and_returns_are_hit() {
        if !nix::unistd::Uid::effective().is_root() {
            return;
        }
        assert!(are_permitted());
        let call: extern "C" fn() = probed;
        let this = nix::unistd::gettid().as_raw().cast_unsigned();
        for returns in [false, true] {
            let at = in_file(call as usize as u64);
            let path = c"/proc/self/exe".to_owned();
            let mut event = event(&path, at, returns, Some(this)).unwrap();
            for _ in 0..3 {
                black_box(call)();
            }
            assert_eq!(event.read().unwrap(), 3, "{returns}");
        }
    }

    #[test]
    fn a_file_that_is_not_there_is_an_error() {
        let path = c"/nowhere".to_owned();
        assert!(event(&path, 0, false, None).is_err());
    }
}
