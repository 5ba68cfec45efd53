//! Where the C library's function for system calls makes them, and the names of the system calls in
//! which threads sleep.

use object::{LittleEndian, read::elf::ElfFile64};

use super::{elf::names, unwind::Unwind};

/// The function of the C library through which programs make system calls.
pub(super) const SYSCALL: &str = "syscall";

/// The instruction `syscall`.
const INSTRUCTION: [u8; 2] = [0x0f, 0x05];

/// The most bytes of the function: C libraries write it in assembler, or in a few lines.
const LONGEST: u64 = 256;

/// The system calls in which threads may sleep, by number.
const NAMES: [(i64, &str); 93] = [
    (libc::SYS_read, "read"),
    (libc::SYS_write, "write"),
    (libc::SYS_open, "open"),
    (libc::SYS_close, "close"),
    (libc::SYS_poll, "poll"),
    (libc::SYS_mmap, "mmap"),
    (libc::SYS_mprotect, "mprotect"),
    (libc::SYS_munmap, "munmap"),
    (libc::SYS_rt_sigsuspend, "rt_sigsuspend"),
    (libc::SYS_rt_sigtimedwait, "rt_sigtimedwait"),
    (libc::SYS_ioctl, "ioctl"),
    (libc::SYS_pread64, "pread64"),
    (libc::SYS_pwrite64, "pwrite64"),
    (libc::SYS_readv, "readv"),
    (libc::SYS_writev, "writev"),
    (libc::SYS_preadv, "preadv"),
    (libc::SYS_pwritev, "pwritev"),
    (libc::SYS_preadv2, "preadv2"),
    (libc::SYS_pwritev2, "pwritev2"),
    (libc::SYS_select, "select"),
    (libc::SYS_sched_yield, "sched_yield"),
    (libc::SYS_msync, "msync"),
    (libc::SYS_madvise, "madvise"),
    (libc::SYS_pause, "pause"),
    (libc::SYS_nanosleep, "nanosleep"),
    (libc::SYS_sendfile, "sendfile"),
    (libc::SYS_connect, "connect"),
    (libc::SYS_accept, "accept"),
    (libc::SYS_accept4, "accept4"),
    (libc::SYS_sendto, "sendto"),
    (libc::SYS_recvfrom, "recvfrom"),
    (libc::SYS_sendmsg, "sendmsg"),
    (libc::SYS_recvmsg, "recvmsg"),
    (libc::SYS_sendmmsg, "sendmmsg"),
    (libc::SYS_recvmmsg, "recvmmsg"),
    (libc::SYS_shutdown, "shutdown"),
    (libc::SYS_clone, "clone"),
    (libc::SYS_clone3, "clone3"),
    (libc::SYS_fork, "fork"),
    (libc::SYS_vfork, "vfork"),
    (libc::SYS_execve, "execve"),
    (libc::SYS_exit, "exit"),
    (libc::SYS_exit_group, "exit_group"),
    (libc::SYS_wait4, "wait4"),
    (libc::SYS_waitid, "waitid"),
    (libc::SYS_semop, "semop"),
    (libc::SYS_semtimedop, "semtimedop"),
    (libc::SYS_msgsnd, "msgsnd"),
    (libc::SYS_msgrcv, "msgrcv"),
    (libc::SYS_fcntl, "fcntl"),
    (libc::SYS_flock, "flock"),
    (libc::SYS_fsync, "fsync"),
    (libc::SYS_fdatasync, "fdatasync"),
    (libc::SYS_sync, "sync"),
    (libc::SYS_syncfs, "syncfs"),
    (libc::SYS_sync_file_range, "sync_file_range"),
    (libc::SYS_fallocate, "fallocate"),
    (libc::SYS_truncate, "truncate"),
    (libc::SYS_ftruncate, "ftruncate"),
    (libc::SYS_rename, "rename"),
    (libc::SYS_unlink, "unlink"),
    (libc::SYS_unlinkat, "unlinkat"),
    (libc::SYS_mkdir, "mkdir"),
    (libc::SYS_stat, "stat"),
    (libc::SYS_newfstatat, "newfstatat"),
    (libc::SYS_statx, "statx"),
    (libc::SYS_getdents64, "getdents64"),
    (libc::SYS_openat, "openat"),
    (libc::SYS_openat2, "openat2"),
    (libc::SYS_ptrace, "ptrace"),
    (libc::SYS_futex, "futex"),
    (libc::SYS_futex_waitv, "futex_waitv"),
    (FUTEX_WAIT, "futex_wait"),
    (libc::SYS_io_getevents, "io_getevents"),
    (libc::SYS_io_submit, "io_submit"),
    (libc::SYS_io_uring_enter, "io_uring_enter"),
    (libc::SYS_clock_nanosleep, "clock_nanosleep"),
    (libc::SYS_epoll_wait, "epoll_wait"),
    (libc::SYS_epoll_pwait, "epoll_pwait"),
    (libc::SYS_epoll_pwait2, "epoll_pwait2"),
    (libc::SYS_mq_timedsend, "mq_timedsend"),
    (libc::SYS_mq_timedreceive, "mq_timedreceive"),
    (libc::SYS_pselect6, "pselect6"),
    (libc::SYS_ppoll, "ppoll"),
    (libc::SYS_splice, "splice"),
    (libc::SYS_tee, "tee"),
    (libc::SYS_vmsplice, "vmsplice"),
    (libc::SYS_process_vm_readv, "process_vm_readv"),
    (libc::SYS_getrandom, "getrandom"),
    (libc::SYS_userfaultfd, "userfaultfd"),
    (libc::SYS_membarrier, "membarrier"),
    (libc::SYS_copy_file_range, "copy_file_range"),
    (libc::SYS_restart_syscall, "restart_syscall"),
];

/// `futex_wait` of Linux 6.7.
pub const FUTEX_WAIT: i64 = 455;

/// The name of a system call as in its manual page; `None` if it is not in the list.
pub fn name(number: i64) -> Option<&'static str> {
    let mut known = NAMES.iter();
    known.find(|known| known.0 == number).map(|known| known.1)
}

/// Whether a function of a C library that was linked into a program only makes a system call,
/// judged by its name.
pub(super) fn is_wrapper(function: &str) -> bool {
    let bare = function.trim_start_matches('_');
    let bare = bare.strip_prefix("libc_").unwrap_or(bare);
    let bare = bare.strip_prefix("GI___").unwrap_or(bare);
    let bare = bare.strip_suffix("_nocancel").unwrap_or(bare);
    bare == "pselect" || bare == "waitpid" || NAMES.iter().any(|known| known.1 == bare)
}
/// The address behind the system call in a file's function `syscall`, if the file has that
/// function.
pub(super) fn address(unwind: &Unwind) -> Option<u64> {
    let image = unwind.image();
    let file = ElfFile64::<LittleEndian>::parse(image).ok()?;
    let symbol = names::defined(&file).find(|symbol| symbol.name == SYSCALL.as_bytes())?;
    let function = unwind.function(symbol.address())?;
    let length = (function.end - function.start).min(LONGEST);
    let mut segments = unwind.segments().iter();
    let offset = segments.find_map(|segment| segment.file_offset(function.start))?;
    let from = usize::try_from(offset).ok()?;
    let code = image.get(from..)?;
    let code = &code[..code.len().min(usize::try_from(length).ok()?)];
    let at = code
        .windows(INSTRUCTION.len())
        .position(|bytes| bytes == INSTRUCTION)?;
    Some(function.start + (at + INSTRUCTION.len()) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_calls_have_names() {
        assert_eq!(name(0), Some("read"));
        assert_eq!(name(230), Some("clock_nanosleep"));
        assert_eq!(name(100_000), None);
        let numbers: std::collections::HashSet<_> = NAMES.iter().map(|known| known.0).collect();
        assert_eq!(numbers.len(), NAMES.len(), "each once");
    }

    #[test]
    fn functions_that_only_make_a_system_call_are_known_by_their_names() {
        for name in [
            "read",
            "__read",
            "__libc_read",
            "__clock_nanosleep",
            "waitpid",
        ] {
            assert!(is_wrapper(name), "{name}");
        }
        for name in ["read_all", "work", "", "__"] {
            assert!(!is_wrapper(name), "{name}");
        }
    }
}
