//! Tells what a thread waits for by the system call in which it sleeps. Pure.
//!
//! Numbers of x86-64. Calls made in the 32-bit way have other numbers and are named wrongly; 64-bit
//! programs do not make them.

use sbt_engine::event::Reason;

/// Calls that sleep, by reason. Any other call is [`Reason::Other`]: waiting for a signal, System V
/// semaphores and the like.
const CALLS: [(Reason, &[libc::c_long]); 7] = [
    (
        Reason::Futex,
        // 449, 455: futex_waitv, futex_wait
        &[libc::SYS_futex, 449, 455],
    ),
    (
        Reason::Sleep,
        &[libc::SYS_nanosleep, libc::SYS_clock_nanosleep],
    ),
    (
        Reason::Poll,
        &[
            libc::SYS_poll,
            libc::SYS_ppoll,
            libc::SYS_select,
            libc::SYS_pselect6,
            libc::SYS_epoll_wait,
            libc::SYS_epoll_pwait,
            // epoll_pwait2
            441,
        ],
    ),
    (
        // These calls work on files too: a thread that waits for a file is recognised by
        // `in_iowait`.
        Reason::Stream,
        &[
            libc::SYS_read,
            libc::SYS_write,
            libc::SYS_readv,
            libc::SYS_writev,
            libc::SYS_recvfrom,
            libc::SYS_recvmsg,
            libc::SYS_recvmmsg,
            libc::SYS_sendto,
            libc::SYS_sendmsg,
            libc::SYS_sendmmsg,
            libc::SYS_accept,
            libc::SYS_accept4,
            libc::SYS_connect,
            libc::SYS_splice,
            libc::SYS_tee,
            libc::SYS_vmsplice,
        ],
    ),
    (
        Reason::File,
        &[
            // These calls work on files only.
            libc::SYS_pread64,
            libc::SYS_pwrite64,
            libc::SYS_preadv,
            libc::SYS_pwritev,
            libc::SYS_preadv2,
            libc::SYS_pwritev2,
            libc::SYS_sendfile,
            libc::SYS_copy_file_range,
            libc::SYS_open,
            libc::SYS_openat,
            libc::SYS_creat,
            libc::SYS_close,
            libc::SYS_fsync,
            libc::SYS_fdatasync,
            libc::SYS_sync,
            libc::SYS_syncfs,
            libc::SYS_sync_file_range,
            libc::SYS_msync,
            libc::SYS_truncate,
            libc::SYS_ftruncate,
            libc::SYS_fallocate,
            libc::SYS_getdents,
            libc::SYS_getdents64,
            libc::SYS_rename,
            libc::SYS_renameat,
            libc::SYS_renameat2,
            libc::SYS_unlink,
            libc::SYS_unlinkat,
            libc::SYS_mkdir,
            libc::SYS_mkdirat,
            libc::SYS_rmdir,
            libc::SYS_stat,
            libc::SYS_lstat,
            libc::SYS_fstat,
            libc::SYS_newfstatat,
            libc::SYS_statx,
            libc::SYS_access,
            libc::SYS_readlink,
            libc::SYS_flock,
            libc::SYS_readahead,
            libc::SYS_fadvise64,
            libc::SYS_io_getevents,
            libc::SYS_io_uring_enter,
        ],
    ),
    (Reason::Child, &[libc::SYS_wait4, libc::SYS_waitid]),
    (
        Reason::Memory,
        &[
            libc::SYS_mmap,
            libc::SYS_munmap,
            libc::SYS_mprotect,
            libc::SYS_mremap,
            libc::SYS_madvise,
            libc::SYS_brk,
        ],
    ),
];

/// Why a thread sleeps in the system call of this number.
pub fn reason(call: u16) -> Reason {
    let is_in = |(_, calls): &&(Reason, &[libc::c_long])| calls.contains(&call.into());
    CALLS
        .iter()
        .find(is_in)
        .map_or(Reason::Other, |(reason, _)| *reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_have_one_reason_each() {
        let all: Vec<_> = CALLS.iter().flat_map(|(_, calls)| *calls).collect();
        let different: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(all.len(), different.len());
        assert_eq!(reason(202), Reason::Futex);
        assert_eq!(reason(230), Reason::Sleep);
        assert_eq!(reason(74), Reason::File);
        assert_eq!(reason(0), Reason::Stream);
        // pause
        assert_eq!(reason(34), Reason::Other);
    }
}
