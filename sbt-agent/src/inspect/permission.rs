//! Checks whether a process may be looked at, and explains what helps if not.

use std::{fs, io, os::unix::fs::MetadataExt as _};

use anyhow::anyhow;

use crate::kernel::privilege::{self, PTRACE};
use sbt_program::{access::rights, memory::Memory, process, trace};

/// Setting of the kernel's module Yama: who may look into whose processes.
const YAMA: &str = "/proc/sys/kernel/yama/ptrace_scope";

/// Fails unless this user may read the memory and the system calls of a process.
pub fn check(process: u32) -> anyhow::Result<()> {
    let folder = process::folder(process);
    let refused =
        |error: &io::Error| matches!(error.raw_os_error(), Some(libc::EPERM | libc::EACCES));
    // Both reads need the rights of a debugger.
    let call = fs::read_to_string(folder.join("syscall"));
    let memory = Memory {
        thread: process::thread_ids(process).last().unwrap_or(process),
    };
    let reading = memory.fill(0, &mut [0]);
    let is_refused = call.as_ref().is_err_and(refused) || reading.as_ref().is_err_and(refused);
    if !is_refused {
        return Ok(());
    }
    // SAFETY: only returns a number.
    let own = unsafe { libc::geteuid() };
    let owner = fs::metadata(&folder).map_or(own, |meta| meta.uid());
    let scope = fs::read_to_string(YAMA).unwrap_or_default();
    let missing = rights::missing_to_look();
    if missing.contains(&PTRACE.1) && privilege::root_lacks() {
        let remedy = privilege::become_root();
        return Err(anyhow!(why_not_even_root(process, remedy)));
    }
    let missing = missing.join(" and ");
    Err(anyhow!(why(process, owner == own, scope.trim(), &missing)))
}

/// `remedy`: what to do, from [`privilege::become_root`].
fn why_not_even_root(process: u32, remedy: &str) -> String {
    let missing = PTRACE.1;
    format!(
        "may not look into process {process}: it belongs to another user or has other \
         privileges, and {missing} is missing; {remedy}"
    )
}

fn why(process: u32, is_own: bool, scope: &str, missing: &str) -> String {
    let may_not = format!("may not look into process {process}:");
    match (is_own, scope) {
        (false, _) if missing.is_empty() => {
            format!("{may_not} it belongs to another user, and a container's filter forbids it")
        }
        (false, _) => format!(
            "{may_not} it belongs to another user: missing {missing}; use `sudo sbt hang \
             {process}`"
        ),
        (true, "1") => format!(
            "{may_not} this machine lets only a parent look into its children \
             (kernel.yama.ptrace_scope is 1); use `sudo sbt hang {process}`, or allow it for all \
             processes: `sudo sysctl kernel.yama.ptrace_scope=0`"
        ),
        (true, "3") => format!(
            "{may_not} this machine forbids it until the next boot (kernel.yama.ptrace_scope is 3)"
        ),
        (true, _) => format!(
            "{may_not} it has other privileges, or a container's filter forbids it; use `sudo sbt \
             hang {process}`"
        ),
    }
}

/// The note on a process that another process traces.
pub fn traced(process: u32, by: u32) -> String {
    let name = process::text(format!("/proc/{by}/comm")).unwrap_or_default();
    let name = match name.trim() {
        _ if trace::is_server(by) => " (another sbt)".into(),
        "" => String::new(),
        name => format!(" ({name})"),
    };
    format!(
        "process {process} is traced by process {by}{name}: sbt cannot look at running threads \
         meanwhile; detach the tracer"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_its_remedy() {
        for (is_own, scope, words) in [
            (false, "", ["another user", "sudo sbt hang 42"]),
            (
                true,
                "1",
                ["sudo sbt hang 42", "sudo sysctl kernel.yama.ptrace_scope=0"],
            ),
            (true, "2", ["privileges", "sudo sbt hang 42"]),
            (true, "3", ["forbids", "ptrace_scope is 3"]),
        ] {
            let text = why(42, is_own, scope, "CAP_X");
            for word in words {
                assert!(text.contains(word), "{text}");
            }
        }
        assert!(why(42, false, "", "CAP_X").contains("missing CAP_X"));
        assert!(why(42, false, "", "").contains("filter"));
        let text = why_not_even_root(42, "start the container with it");
        assert!(
            text.contains("CAP_SYS_PTRACE is missing; start") && !text.contains("sudo"),
            "{text}"
        );
        assert!(check(std::process::id()).is_ok());
    }
}
