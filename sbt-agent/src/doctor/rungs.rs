//! Checks of the backends that need no privilege, tried with sbt's own processes.

use std::process::{Command, Stdio};

use super::{Finding, State};
use crate::{
    demo,
    settings::Settings,
    source::{
        perf::Hardware,
        ptrace::{Process, Ptrace},
    },
};

/// Checks that fail for lack of privilege only; breakpoints work without it.
const OF_PRIVILEGE: [&str; 4] = ["capabilities", "container", "seccomp", super::REHEARSAL];

/// Checks whether the processor's breakpoint registers can be used.
pub(super) fn perf() -> Finding {
    let settings = Settings::default();
    let tried = Hardware::begin(std::process::id(), true, false, &settings);
    Finding {
        what: "perf",
        state: match tried {
            Ok(_) => State::Ok("your own processes, with --backend perf".into()),
            Err(error) => State::Less(format!("{error:#}")),
        },
    }
}

/// Checks whether threads can be stopped at breakpoints. Called only if eBPF cannot be used: a file
/// with capabilities starts processes whose memory nobody may write.
pub(super) fn ptrace() -> Finding {
    Finding {
        what: "ptrace",
        state: match try_ptrace() {
            Ok(()) => State::Ok(
                "your own processes, automatically where eBPF is not permitted (--backend ptrace)"
                    .into(),
            ),
            Err(error) => State::Less(format!("{error:#}")),
        },
    }
}

fn try_ptrace() -> anyhow::Result<()> {
    let mut watched = Command::new("/proc/self/exe")
        .args(["__demo", demo::DEADLOCK, "2", "1", "--patient"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let settings = Settings::default();
    let tried = Process::start(watched.id(), &settings).and_then(|tracer| {
        Ptrace::begin(tracer, watched.id(), true, false, false, &settings).map(drop)
    });
    let _gone = watched.kill();
    let _status = watched.wait();
    tried
}

/// If breakpoints work, failed checks of eBPF only restrict sbt.
pub(super) fn weigh(findings: &mut [Finding]) {
    let works =
        |finding: &Finding| finding.what == "ptrace" && matches!(finding.state, State::Ok(_));
    if !findings.iter().any(works) {
        return;
    }
    for finding in findings {
        if OF_PRIVILEGE.contains(&finding.what)
            && let State::Bad(text) = &mut finding.state
        {
            finding.state = State::Less(std::mem::take(text));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_privilege_is_less_where_breakpoints_work() {
        let weighed = |ptrace: State| {
            let bad = |what| Finding {
                what,
                state: State::Bad("why".into()),
            };
            let ptrace = Finding {
                what: "ptrace",
                state: ptrace,
            };
            let mut all = [bad("kernel"), bad("capabilities"), bad("rehearsal"), ptrace];
            weigh(&mut all);
            all.map(|finding| finding.state)
        };
        let (bad, less) = (State::Bad("why".into()), State::Less("why".into()));
        let works = weighed(State::Ok(String::new()));
        assert_eq!(works[..3], [bad.clone(), less.clone(), less]);
        let fails = weighed(State::Less(String::new()));
        assert_eq!(fails[..3], [bad.clone(), bad.clone(), bad]);
    }
}
