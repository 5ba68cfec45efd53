//! Explains what this user may not do, in one line that says what to type.

use std::{fs, io};

use anyhow::{Context as _, anyhow};

use crate::kernel::{
    LoadError, bpf,
    version::{too_old, version},
};
use sbt_engine::choices::Backend;
use sbt_program::{
    access::rights::{self, in_user_namespace},
    capabilities, process,
    status::Status,
};

/// Capabilities that watching needs, by bit (linux/capability.h).
pub const NEEDED: [(u32, &str); 2] = [(39, "CAP_BPF"), (38, "CAP_PERFMON")];
/// The capability to look into other users' processes.
pub const PTRACE: (u32, &str) = (19, "CAP_SYS_PTRACE");
const SYS_ADMIN: u32 = 21;

/// The argument of setcap that lets an ordinary user watch, also other users' processes.
pub const SETCAP: &str = "cap_bpf,cap_perfmon,cap_sys_ptrace+ep";

/// Gives up privileges that watching does not need; see [`rights::limit`]. `looked_into`: the
/// process that sbt looks into, together with its descendants.
pub fn limit(looked_into: Option<u32>) -> anyhow::Result<()> {
    rights::limit(admin_is_needed(), &theirs(looked_into)).context(CANNOT_LIMIT)
}

/// As [`limit`], before a program is set up; see [`rights::limit_to_set_up`].
pub fn limit_to_set_up(program: u32) -> anyhow::Result<()> {
    rights::limit_to_set_up(admin_is_needed(), &theirs(Some(program))).context(CANNOT_LIMIT)
}

/// As [`limit`], for the process that traces; see [`rights::limit_to_trace`].
pub fn limit_to_trace(traced: u32, counts: bool) -> anyhow::Result<()> {
    rights::limit_to_trace(&theirs(Some(traced)), counts).context(CANNOT_LIMIT)
}

/// The capabilities of a process and its descendants, if the limit depends on them.
fn theirs(process: Option<u32>) -> Vec<u64> {
    let process = process.filter(|_| rights::depend_on_others());
    let processes = process.into_iter().flat_map(|process| {
        let mut all = process::descendants(process);
        all.push(process);
        all
    });
    processes.flat_map(capabilities::of).collect()
}

const CANNOT_LIMIT: &str = "cannot give up privileges";

fn admin_is_needed() -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    version(&release) < Some((6, 6))
}

/// The message inside of a user namespace.
pub const USER_NAMESPACE: &str = "sbt runs in a user namespace, as in containers without \
    privileges, where no capability permits BPF; run sbt outside of the namespace (`sudo sbt \
    attach PID`, with the number that the process has there)";

/// The message where a filter forbids bpf although the capabilities allow it.
pub const FILTER: &str = "a system call filter forbids bpf, as in containers; run sbt outside of \
    the container, or start the container with bpf allowed (docker: --cap-add BPF --cap-add \
    PERFMON, or --security-opt seccomp=unconfined)";

/// Whether a filter forbids bpf although this thread's capabilities allow it. `status`: the status
/// of this thread.
pub fn filter_forbids(status: &Status) -> bool {
    is_filtered(status) && missing(effective_in(status)).is_empty() && bpf::is_refused()
}

/// Whether the thread has a filter of system calls.
pub fn is_filtered(status: &Status) -> bool {
    status.field("Seccomp").is_some_and(|mode| mode != "0")
}

/// The effective capabilities of this thread, as bits.
pub fn effective() -> u64 {
    effective_in(&Status::of_this_thread())
}

fn effective_in(status: &Status) -> u64 {
    status.bits("CapEff").unwrap_or(0)
}

/// The capabilities that are missing for watching. `CAP_SYS_ADMIN` replaces all of them, as on
/// kernels before 5.8.
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

/// The command that gives this binary the capabilities it needs.
pub fn remedy() -> String {
    if in_user_namespace() {
        return "run sbt outside of this user namespace, with sudo".into();
    }
    if root_lacks() {
        return OF_ROOT.into();
    }
    let binary = std::env::current_exe().unwrap_or_else(|_| "sbt".into());
    remedy_for(&binary.to_string_lossy(), capabilities::is_nosuid(&binary))
}

fn remedy_for(binary: &str, nosuid: bool) -> String {
    if nosuid {
        return format!(
            "run sbt with sudo (setcap has no effect on {binary}: its file system is mounted \
             nosuid)"
        );
    }
    format!("run sbt with sudo, or `sudo setcap {SETCAP} {binary}` once")
}

/// The advice for a user where only root may watch.
pub fn become_root() -> &'static str {
    if root_lacks() { OF_ROOT } else { "use sudo" }
}

/// The message for a root user without root's capabilities.
const OF_ROOT: &str = "root lacks capabilities here, as in containers: start the container with \
    them (docker: --cap-add BPF --cap-add PERFMON --cap-add SYS_PTRACE), or run sbt outside of the \
    container";

/// Whether this user is root but lacks capabilities that sbt needs.
pub fn root_lacks() -> bool {
    // SAFETY: only returns a number.
    let is_root = unsafe { libc::geteuid() } == 0;
    is_root && lacks(effective())
}

fn lacks(effective: u64) -> bool {
    !missing(effective).is_empty() || effective >> PTRACE.0 & 1 == 0
}

/// Turns a loading error into a message that says what to do.
pub fn explain(error: LoadError) -> anyhow::Error {
    // An old kernel may refuse with any error, also as if a privilege were missing.
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    if let Some(why) = too_old(release.trim()) {
        return anyhow!("cannot load eBPF programs: {why}");
    }
    match error {
        LoadError::Privilege(_) if in_user_namespace() => {
            anyhow!("cannot load eBPF programs: {USER_NAMESPACE}")
        }
        LoadError::Privilege(_) if filter_forbids(&Status::of_this_thread()) => {
            anyhow!("cannot load eBPF programs: {FILTER}")
        }
        LoadError::Privilege(what) => {
            let missing = missing(effective());
            if missing.is_empty() {
                anyhow!(
                    "the kernel refuses {what} although this user has the privileges: the kernel \
                     may be locked down (/sys/kernel/security/lockdown); `sbt doctor` looks closer"
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

/// Fails if this user may not look into a process, as attaching requires. Readable mappings prove
/// nothing: for these `CAP_PERFMON` is enough, but not for the mapped files.
pub fn check_process(pid: u32, backend: Backend) -> anyhow::Result<()> {
    match fs::read_link(process::folder(pid).join("root")) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let line = may_not_look(pid, backend, &remedy(), root_lacks());
            Err(anyhow!("{line}"))
        }
        _ => Ok(()),
    }
}

/// Fails if root may not look into a program that is started as another user, as under sudo.
pub fn check_user(user: &str) -> anyhow::Result<()> {
    anyhow::ensure!(
        rights::may_look_at_all(),
        "may not look into a program that runs as {user}, the user who called sudo: missing {}; \
         --as-root starts it as root; {OF_ROOT}",
        PTRACE.1,
    );
    Ok(())
}

/// The message for a process that may not be looked into. Breakpoints are written into memory, and
/// no file capability lets an ordinary user write to other users' memory.
fn may_not_look(pid: u32, backend: Backend, remedy: &str, root_lacks: bool) -> String {
    let (missing, remedy) = match backend {
        Backend::Ptrace if !root_lacks => (String::new(), "run sbt with sudo"),
        _ => (format!("missing {}, since ", PTRACE.1), remedy),
    };
    format!(
        "may not look into process {pid}: {missing}the process belongs to another user or has \
         other privileges; {remedy}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_and_capabilities_are_read_from_the_status() {
        let status = "Name:\tx\nCapEff:\t000000c000000000\nSeccomp:\t2\nSeccomp_filters:\t1\n";
        let is_filtered = |text: &str| is_filtered(&text.into());
        let effective_in = |text: &str| effective_in(&text.into());
        assert!(is_filtered(status) && !is_filtered("Seccomp:\t0\n") && !is_filtered(""));
        assert_eq!(effective_in(status), 1 << 39 | 1 << 38);
        assert_eq!(effective_in(""), 0);
        assert!(
            !filter_forbids(&"CapEff:\t0\nSeccomp:\t2\n".into()),
            "what is missing is another thing"
        );
    }

    #[test]
    fn the_remedy_works_where_the_binary_lies() {
        assert!(remedy_for("/opt/sbt", false).contains("`sudo setcap cap_bpf"));
        let nosuid = remedy_for("/mnt/sbt", true);
        assert!(
            nosuid.contains("nosuid") && !nosuid.contains("sudo setcap"),
            "{nosuid}"
        );
    }

    #[test]
    fn breakpoints_in_others_are_not_promised_by_setcap() {
        let line = |backend| may_not_look(7, backend, "run sbt with sudo, or setcap", false);
        assert!(line(Backend::Auto).contains("missing CAP_SYS_PTRACE"));
        assert!(line(Backend::Perf).ends_with("or setcap"));
        let traced = line(Backend::Ptrace);
        assert!(
            traced.contains("sudo") && !traced.contains("setcap") && !traced.contains("missing"),
            "{traced}"
        );
    }

    #[test]
    fn a_root_without_them_is_not_sent_to_sudo() {
        for backend in [Backend::Auto, Backend::Perf, Backend::Ptrace] {
            let line = may_not_look(7, backend, OF_ROOT, true);
            assert!(
                line.contains("missing CAP_SYS_PTRACE") && line.contains("--cap-add SYS_PTRACE"),
                "{line}"
            );
            assert!(!line.contains("sudo") && !line.contains("setcap"), "{line}");
        }
        let all = 1 << 39 | 1 << 38 | 1 << PTRACE.0;
        assert!(!lacks(all) && !lacks(1 << SYS_ADMIN | 1 << PTRACE.0));
        for (bit, _) in NEEDED.into_iter().chain([PTRACE]) {
            assert!(lacks(all & !(1 << bit)), "{bit}");
        }
    }

    #[test]
    fn says_which_capabilities_are_missing() {
        assert_eq!(missing(0), ["CAP_BPF", "CAP_PERFMON"]);
        assert_eq!(missing(1 << 39), ["CAP_PERFMON"]);
        assert!(missing(1 << 39 | 1 << 38).is_empty());
        assert!(missing(1 << SYS_ADMIN).is_empty());
    }
}
