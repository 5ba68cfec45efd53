//! Explains why a process may not be traced, and what would help.

use std::fs;

use crate::kernel::privilege;
use sbt_program::{process, trace};

/// Setting of the kernel's module Yama: who may look into whose processes.
const YAMA: &str = "/proc/sys/kernel/yama/ptrace_scope";

/// The process that traces the target already.
#[derive(Clone, Copy, Debug)]
enum Tracer {
    /// Another sbt, by its pid. Its tracing process must not be killed: that would kill the target,
    /// too.
    Sbt(u32),
    /// Any other process, by its pid.
    Other(u32),
}

impl Tracer {
    fn of(pid: u32) -> Option<Self> {
        let tracer = process::tracer(pid, pid)?;
        let server = trace::is_server(tracer).then_some(tracer);
        let sbt = server.and_then(process::parent);
        Some(sbt.map_or(Self::Other(tracer), Self::Sbt))
    }
}

/// One line for an error in tracing a process.
pub fn explain(pid: u32, error: &anyhow::Error) -> anyhow::Error {
    let scope = fs::read_to_string(YAMA).unwrap_or_default();
    let (error, remedy) = (format!("{error:#}"), privilege::become_root());
    anyhow::anyhow!(
        "{}",
        why(pid, &error, scope.trim(), Tracer::of(pid), remedy)
    )
}

/// `remedy`: how to become root.
fn why(pid: u32, error: &str, scope: &str, tracer: Option<Tracer>, remedy: &str) -> String {
    let reason = match (tracer, scope) {
        (Some(Tracer::Sbt(sbt)), _) => {
            format!("another sbt, process {sbt}, already traces it: end that sbt")
        }
        (Some(Tracer::Other(tracer)), _) => {
            format!("process {tracer} already traces it, such as a debugger: end that process")
        }
        (None, "1") => format!(
            "this machine lets only a parent trace its children (kernel.yama.ptrace_scope is 1): \
             start the program with `sbt run`, or {remedy}"
        ),
        (None, "2" | "3") => format!(
            "this machine does not allow it to ordinary users (kernel.yama.ptrace_scope is \
             {scope}): {remedy}"
        ),
        (None, _) => format!(
            "it belongs to another user, has other privileges, or a container's filter forbids \
             it ({error}): {remedy}"
        ),
    };
    format!("may not trace process {pid}: {reason}")
}

#[cfg(test)]
mod tests {
    use super::{Tracer, why};

    #[test]
    fn each_reason_has_its_remedy() {
        for (scope, tracer, word) in [
            ("", Some(Tracer::Other(77)), "process 77 already traces it"),
            (
                "",
                Some(Tracer::Sbt(5)),
                "another sbt, process 5, already traces it",
            ),
            ("1", None, "sbt run"),
            ("3", None, "ptrace_scope is 3"),
            ("", None, "another user"),
        ] {
            let line = why(5, "EPERM", scope, tracer, "use sudo");
            assert!(line.contains(word), "{line}");
        }
    }
}
