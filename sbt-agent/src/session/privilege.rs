//! What this user may not do, in one line that says what to type.

use std::fs;

use anyhow::anyhow;

use crate::source::ebpf::{kernel::too_old, loader::LoadError};

/// Capabilities that watching needs, by their bit (linux/capability.h).
pub const NEEDED: [(u32, &str); 2] = [(39, "CAP_BPF"), (38, "CAP_PERFMON")];
/// To look into processes of others, and into one's own if sbt has capabilities.
pub const PTRACE: (u32, &str) = (19, "CAP_SYS_PTRACE");
const SYS_ADMIN: u32 = 21;

/// The effective capabilities of this process, as bits.
pub fn effective() -> u64 {
    fs::read_to_string("/proc/self/status")
        .ok()
        .and_then(|status| {
            let hex = status
                .lines()
                .find_map(|line| line.strip_prefix("CapEff:"))?;
            u64::from_str_radix(hex.trim(), 16).ok()
        })
        .unwrap_or(0)
}

/// Which of the needed capabilities are missing; `CAP_SYS_ADMIN` stands for
/// them, as on kernels before 5.8.
pub fn missing(effective: u64) -> Vec<&'static str> {
    if effective >> SYS_ADMIN & 1 == 1 {
        return Vec::new();
    }
    NEEDED
        .iter()
        .filter(|(bit, _)| effective >> bit & 1 == 0)
        .map(|(_, name)| *name)
        .collect()
}

/// The command that gives this very binary what it needs.
pub fn remedy() -> String {
    let binary =
        std::env::current_exe().map_or_else(|_| "sbt".into(), |path| path.display().to_string());
    format!(
        "run it with sudo, or `sudo setcap cap_bpf,cap_perfmon,cap_sys_ptrace+ep {binary}` once"
    )
}

/// Makes an error of loading one that says what to do.
pub fn explain(error: LoadError) -> anyhow::Error {
    // It may refuse by any error, as if a privilege were missing too.
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    if let Some(why) = too_old(release.trim()) {
        return anyhow!("cannot load eBPF programs: {why}");
    }
    match error {
        LoadError::Privilege(what) => {
            let missing = missing(effective());
            if missing.is_empty() {
                anyhow!(
                    "the kernel refuses {what} although this user may: it may be locked down \
                     (/sys/kernel/security/lockdown) or a container's filter forbids bpf; `sbt \
                     doctor` looks closer"
                )
            } else {
                anyhow!(
                    "cannot load eBPF programs: missing {}; {}",
                    missing.join(" and "),
                    remedy()
                )
            }
        }
        other => anyhow!("{other}; `sbt doctor` looks closer"),
    }
}

/// Whether we may look into a process, which attaching needs.
pub fn check_process(pid: u32) -> anyhow::Result<()> {
    match fs::File::open(format!("/proc/{pid}/maps")) {
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => Err(anyhow!(
            "may not look into process {pid}: missing {}, since it belongs to another user or has \
             other privileges; {}",
            PTRACE.1,
            remedy()
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_which_capabilities_are_missing() {
        assert_eq!(missing(0), ["CAP_BPF", "CAP_PERFMON"]);
        assert_eq!(missing(1 << 39), ["CAP_PERFMON"]);
        assert!(missing(1 << 39 | 1 << 38).is_empty());
        assert!(missing(1 << SYS_ADMIN).is_empty());
    }
}
