//! Explains why the kernel refuses to watch, and what would help.

use std::{fs, io};

use crate::kernel::privilege;

/// One line for an error of the kernel.
pub fn explain(error: &io::Error) -> String {
    why(error, paranoid(), privilege::become_root())
}

/// The level of `kernel.perf_event_paranoid`, which limits ordinary users.
fn paranoid() -> Option<i32> {
    let text = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
    text.ok()?.trim().parse().ok()
}

/// `remedy`: how to become root.
fn why(error: &io::Error, paranoid: Option<i32>, remedy: &str) -> String {
    let number = error.raw_os_error().unwrap_or(0);
    let reason = match (number, paranoid) {
        (libc::EACCES | libc::EPERM, Some(level @ 3..)) => format!(
            "this machine does not let ordinary users watch (kernel.perf_event_paranoid is \
             {level}): `sudo sysctl kernel.perf_event_paranoid=2`, or use --backend ptrace"
        ),
        (libc::EACCES, _) => {
            format!("the process belongs to another user, or has other privileges: {remedy}")
        }
        (libc::EPERM, _) => {
            "a system call filter forbids it, as in containers, or the limit of locked memory is \
             reached (`ulimit -l`, `sysctl kernel.perf_event_mlock_kb`): use --backend ptrace"
                .into()
        }
        (libc::ENOSPC, _) => {
            "all the processor's breakpoints are in use, by a debugger or another \
            sbt: end that process, or use --backend ptrace"
                .into()
        }
        (libc::EMFILE | libc::ENFILE, _) => {
            "the number of threads times CPUs exceeds the limit of open files: raise `ulimit -Hn`, \
             or use --backend ptrace"
                .into()
        }
        (libc::ESRCH, _) => "the process has ended: nothing is left to watch".into(),
        _ if error.kind() == io::ErrorKind::ResourceBusy => "the program starts threads faster \
            than sbt can watch them: use --backend ebpf or ptrace"
            .into(),
        (libc::ENODEV | libc::EOPNOTSUPP | libc::EINVAL | libc::ENOENT | libc::ENOSYS, _) => {
            "this machine has no processor breakpoints (some virtual machines have none), or its \
             kernel is older than 5.13: use --backend ptrace"
                .into()
        }
        _ => format!("{error}: `sbt doctor` looks closer; or use --backend ptrace"),
    };
    format!("cannot watch with the processor's breakpoints: {reason}")
}

#[cfg(test)]
mod tests {
    use super::{io, why};

    #[test]
    fn each_reason_has_its_remedy() {
        for (errno, paranoid, word) in [
            (libc::EACCES, Some(4), "perf_event_paranoid=2"),
            (libc::EACCES, Some(2), "use sudo"),
            (libc::EPERM, None, "ulimit -l"),
            (libc::ENOSPC, Some(2), "debugger"),
            (libc::EMFILE, Some(2), "ulimit -Hn"),
            (libc::ESRCH, Some(2), "the process has ended"),
            (libc::EINVAL, Some(2), "5.13"),
            (libc::EIO, Some(2), "sbt doctor"),
        ] {
            let line = why(&io::Error::from_raw_os_error(errno), paranoid, "use sudo");
            assert!(line.contains(word), "{line}");
            assert!(!line.contains('\n'), "{line}");
        }
        let line = why(&io::ErrorKind::ResourceBusy.into(), Some(2), "");
        assert!(line.contains("threads faster"), "{line}");
    }
}
