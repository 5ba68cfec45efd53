//! Sockets at which calls give up after some time (`SO_RCVTIMEO`, `SO_SNDTIMEO`).

use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

use nix::sys::{
    socket::{
        getsockopt,
        sockopt::{ReceiveTimeout, SendTimeout},
    },
    time::TimeValLike as _,
};
use sbt_program::launch;

use super::call::Call;

/// Whether a thread of a process waits at a socket for a limited time. False also if that cannot be known:
/// the kernel shows it only to those who may trace the process.
pub fn gives_up(process: u32, call: Call) -> bool {
    let Call::In {
        number, arguments, ..
    } = call
    else {
        return false;
    };
    let reads = match number {
        libc::SYS_read | libc::SYS_readv | libc::SYS_recvfrom | libc::SYS_recvmsg => true,
        libc::SYS_write | libc::SYS_writev | libc::SYS_sendto | libc::SYS_sendmsg => false,
        _ => return false,
    };
    let number = arguments[0] & 0xffff_ffff;
    let link = std::fs::read_link(format!("/proc/{process}/fd/{number}"));
    let is_socket = link.is_ok_and(|link| link.to_string_lossy().starts_with("socket:["));
    let Some(socket) = is_socket.then(|| copy(process, number)).flatten() else {
        return false;
    };
    let limit = if reads {
        getsockopt(&socket, ReceiveTimeout)
    } else {
        getsockopt(&socket, SendTimeout)
    };
    limit.is_ok_and(|limit| limit.num_nanoseconds() > 0)
}

/// A copy of a descriptor of a process.
fn copy(process: u32, number: u64) -> Option<OwnedFd> {
    let of = launch::pidfd(process).ok()?;
    // SAFETY: takes only numbers.
    let copy = unsafe { libc::syscall(libc::SYS_pidfd_getfd, of.as_raw_fd(), number, 0) };
    let copy = i32::try_from(copy).ok().filter(|copy| *copy >= 0)?;
    // SAFETY: the descriptor is new, and nothing else has it.
    Some(unsafe { OwnedFd::from_raw_fd(copy) })
}

#[cfg(test)]
mod tests {
    use std::{os::unix::net::UnixStream, time::Duration};

    use super::*;

    #[test]
    fn limits_of_sockets_are_read_and_nothing_is_one_elsewhere() {
        let (one, _other) = UnixStream::pair().unwrap();
        let reads = |number: i64, of: i32| Call::In {
            number,
            arguments: [u64::try_from(of).unwrap(), 0, 0, 0, 0, 0],
            sp: 0,
            at: 0,
        };
        let own = |number| gives_up(std::process::id(), reads(number, one.as_raw_fd()));
        assert!(!own(libc::SYS_read));
        one.set_read_timeout(Some(Duration::from_millis(5)))
            .unwrap();
        assert!(own(libc::SYS_read) && own(libc::SYS_recvfrom));
        assert!(!own(libc::SYS_write) && !own(libc::SYS_accept));
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(!gives_up(
            std::process::id(),
            reads(libc::SYS_read, file.as_raw_fd())
        ));
    }
}
