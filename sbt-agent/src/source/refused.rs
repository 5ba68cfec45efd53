//! Why a process may not be traced, and what would help.

use std::fs;

use crate::target::process;

/// Where the kernel's module Yama says who may look into whose processes.
const YAMA: &str = "/proc/sys/kernel/yama/ptrace_scope";

/// One line of an error that came of tracing a process.
pub fn explain(pid: u32, error: &anyhow::Error) -> anyhow::Error {
    let scope = fs::read_to_string(YAMA).unwrap_or_default();
    let status = process::text(format!("/proc/{pid}/status")).unwrap_or_default();
    anyhow::anyhow!("{}", why(pid, &format!("{error:#}"), scope.trim(), &status))
}

fn why(pid: u32, error: &str, scope: &str, status: &str) -> String {
    let tracer = status
        .lines()
        .find_map(|line| line.strip_prefix("TracerPid:"))
        .map(str::trim)
        .filter(|tracer| !["", "0"].contains(tracer));
    let reason = match (tracer, scope) {
        (Some(tracer), _) => {
            format!("process {tracer} traces it already (a debugger, or another sbt): end that one")
        }
        (None, "1") => "this machine lets only a parent trace its children \
             (kernel.yama.ptrace_scope is 1): start the program with `sbt run`, or use sudo"
            .into(),
        (None, "2" | "3") => format!(
            "this machine forbids it to ordinary users (kernel.yama.ptrace_scope is {scope}): use sudo"
        ),
        (None, _) => format!(
            "it belongs to another user, has other privileges, or a container's filter forbids \
             it ({error}): use sudo"
        ),
    };
    format!("may not trace process {pid}: {reason}")
}

#[cfg(test)]
mod tests {
    use super::why;

    #[test]
    fn each_reason_has_its_remedy() {
        let none = "Name:\tx\nTracerPid:\t0\n";
        for (scope, status, word) in [
            ("", "TracerPid:\t77\n", "process 77 traces it already"),
            ("1", none, "sbt run"),
            ("3", none, "ptrace_scope is 3"),
            ("", none, "another user"),
        ] {
            let line = why(5, "EPERM", scope, status);
            assert!(line.contains(word), "{line}");
        }
    }
}
