//! What this user may not do, in one line that says what to type.

use std::{fs, io, os::unix::fs::MetadataExt as _, path::Path};

use anyhow::{Context as _, anyhow};
use nix::sys::statvfs::{FsFlags, statvfs};

use crate::{rights, source::ebpf::loader::LoadError, target::process};

/// Capabilities that watching needs, by their bit (linux/capability.h).
pub const NEEDED: [(u32, &str); 2] = [(39, "CAP_BPF"), (38, "CAP_PERFMON")];
/// To look into processes of others.
pub const PTRACE: (u32, &str) = (19, "CAP_SYS_PTRACE");
/// To read files of others: their programs, and what /proc shows to their owner alone.
pub const SEARCH: (u32, &str) = (2, "CAP_DAC_READ_SEARCH");
const SYS_ADMIN: u32 = 21;

/// What setcap is told to let an ordinary user watch, also processes of others.
pub const SETCAP: &str = "cap_bpf,cap_perfmon,cap_sys_ptrace+ep";

/// What the first user namespace is called by the kernel (`PROC_USER_INIT_INO`).
const FIRST_USER_NAMESPACE: u64 = 0xeffff_ffd;

/// Gives up what watching does not need; see [`rights::limit`].
pub fn limit() -> anyhow::Result<()> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    rights::limit(version(&release) < Some((6, 6))).context("cannot give up privileges")
}

/// The first two numbers of a kernel's version.
pub fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Whether this is a user namespace of its own, so that capabilities are not those of the
/// machine.
pub fn in_user_namespace() -> bool {
    fs::metadata("/proc/self/ns/user").is_ok_and(|it| it.ino() != FIRST_USER_NAMESPACE)
}

/// What to say there.
pub const USER_NAMESPACE: &str = "this is a user namespace, as containers without privileges \
    have, and no capability in it holds for the kernel's BPF; run sbt outside of it (`sudo sbt \
    attach PID`, with the number that the process has there)";

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
    let binary = std::env::current_exe().unwrap_or_else(|_| "sbt".into());
    remedy_for(&binary.to_string_lossy(), is_nosuid(&binary))
}

fn remedy_for(binary: &str, nosuid: bool) -> String {
    if nosuid {
        return format!(
            "run it with sudo (setcap has no effect on {binary}: its file system is mounted nosuid)"
        );
    }
    format!("run it with sudo, or `sudo setcap {SETCAP} {binary}` once")
}

/// Whether a file lies where its capabilities have no effect.
pub fn is_nosuid(path: &Path) -> bool {
    statvfs(path).is_ok_and(|it| it.flags().contains(FsFlags::ST_NOSUID))
}

/// Makes an error of loading one that says what to do.
pub fn explain(error: LoadError) -> anyhow::Error {
    match error {
        LoadError::Privilege(_) if in_user_namespace() => {
            anyhow!("cannot load eBPF programs: {USER_NAMESPACE}")
        }
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

/// Whether we may look into a process, which attaching needs. That its mappings can be read
/// does not tell: for that `CAP_PERFMON` is enough, but not for the files that are mapped.
pub fn check_process(pid: u32) -> anyhow::Result<()> {
    match fs::read_link(process::folder(pid).join("root")) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Err(anyhow!(
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
    fn versions_are_read_from_releases() {
        assert_eq!(version("6.18.44-fc-v595"), Some((6, 18)));
        assert_eq!(version("5.15"), Some((5, 15)));
        assert_eq!(version(""), None);
    }

    #[test]
    fn the_remedy_works_where_the_binary_lies() {
        assert!(remedy_for("/opt/sbt", false).contains("`sudo setcap cap_bpf"));
        let nosuid = remedy_for("/mnt/sbt", true);
        assert!(nosuid.contains("nosuid") && !nosuid.contains("sudo setcap"), "{nosuid}");
    }

    #[test]
    fn says_which_capabilities_are_missing() {
        assert_eq!(missing(0), ["CAP_BPF", "CAP_PERFMON"]);
        assert_eq!(missing(1 << 39), ["CAP_PERFMON"]);
        assert!(missing(1 << 39 | 1 << 38).is_empty());
        assert!(missing(1 << SYS_ADMIN).is_empty());
    }
}
