//! `sbt doctor`: what this machine and this user allow, and what to type where something is
//! missing. Answers come from trying the operation itself if possible.

use std::{fs, path::Path};

use crate::{
    kernel::{bpf::ProgramKind, privilege, version::too_old},
    source::{QUEUE, ebpf::Ebpf},
};
use sbt_engine::{choices::States, event::Event, words::without_codes};
use sbt_program::{files::ProbedFile, libraries, point::Function, process};

mod confined;
pub mod programs;
mod rungs;
mod setcap;

/// Name of the last check.
const REHEARSAL: &str = "rehearsal";

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The subject of the check.
    pub what: &'static str,
    /// The outcome of the check.
    pub state: State,
}

/// The outcome of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// All is well.
    Ok(String),
    /// sbt works with restrictions: what is missing, and what to type.
    Less(String),
    /// sbt does not work: what is missing, and what to type.
    Bad(String),
}

/// Runs all checks and prints their results. Returns whether sbt can work.
///
/// # Errors
/// The results could not be printed.
pub fn examine() -> anyhow::Result<bool> {
    if !process::has_proc() {
        // Without /proc no other check is possible.
        crate::output::print(&line("/proc", &State::Bad(process::NO_PROC.into())))?;
        return Ok(false);
    }
    let effective = privilege::effective();
    let mut findings = vec![
        kernel(&read("/proc/sys/kernel/osrelease")),
        btf(Path::new("/sys/kernel/btf/vmlinux").exists()),
        uprobes(
            Path::new("/sys/bus/event_source/devices/uprobe").exists(),
            ProgramKind::of_uprobes(),
        ),
        tracepoints(Path::new("/sys/bus/event_source/devices/tracepoint").exists()),
        tracefs(
            [
                "/sys/kernel/tracing/events",
                "/sys/kernel/debug/tracing/events",
            ]
            .iter()
            .any(|path| Path::new(path).exists()),
        ),
        capabilities(effective),
        setcap::file(effective),
        confined::container(),
        confined::filter(),
        sysctls(
            &read("/proc/sys/kernel/perf_event_paranoid"),
            &read("/proc/sys/kernel/unprivileged_bpf_disabled"),
            &read("/proc/sys/kernel/yama/ptrace_scope"),
        ),
        lockdown(&read("/sys/kernel/security/lockdown")),
    ];
    findings.extend(
        libraries::well_known()
            .iter()
            .filter_map(|path| library(path)),
    );
    findings.push(rungs::perf());
    let rehearsal = rehearsal();
    if !matches!(rehearsal.state, State::Ok(_)) {
        findings.push(rungs::ptrace());
    }
    findings.push(rehearsal);
    rungs::weigh(&mut findings);
    let mut works = true;
    for Finding { what, state } in &findings {
        works &= !matches!(state, State::Bad(_));
        crate::output::print(&line(what, state))?;
    }
    Ok(works)
}

fn line(what: &str, state: &State) -> String {
    let (mark, text) = match state {
        State::Ok(text) => ("OK  ", text),
        State::Less(text) => ("less", text),
        State::Bad(text) => ("NO  ", text),
    };
    format!("{mark}  {what:<13} {}\n", without_codes(text))
}

fn read(path: &str) -> String {
    fs::read_to_string(path)
        .unwrap_or_default()
        .trim()
        .to_owned()
}

fn kernel(release: &str) -> Finding {
    Finding {
        what: "kernel",
        state: too_old(release).map_or_else(|| State::Ok(release.to_owned()), State::Bad),
    }
}

fn btf(exists: bool) -> Finding {
    Finding {
        what: "BTF",
        state: if exists {
            State::Ok("/sys/kernel/btf/vmlinux".into())
        } else {
            State::Bad(
                "the kernel has no type information: use a kernel built with \
                CONFIG_DEBUG_INFO_BTF"
                    .into(),
            )
        },
    }
}

fn uprobes(exists: bool, kind: ProgramKind) -> Finding {
    let state = if !exists {
        State::Bad("the kernel has no uprobes: use a kernel built with CONFIG_UPROBE_EVENTS".into())
    } else if kind == ProgramKind::UprobeMulti {
        State::Ok("uprobe_multi".into())
    } else {
        State::Less(
            "one perf event for each probe: this needs root, and detaching is slow; better from \
            Linux 6.6 on"
                .into(),
        )
    };
    Finding {
        what: "uprobes",
        state,
    }
}

fn tracepoints(exists: bool) -> Finding {
    Finding {
        what: "tracepoints",
        state: if exists {
            State::Ok("sched_process_exec, sched_process_exit".into())
        } else {
            State::Less("the kernel has none: sbt does not see that threads end".into())
        },
    }
}

fn tracefs(mounted: bool) -> Finding {
    Finding {
        what: "tracefs",
        state: State::Ok(
            if mounted {
                "mounted (not needed)"
            } else {
                "not mounted (not needed)"
            }
            .into(),
        ),
    }
}

fn capabilities(effective: u64) -> Finding {
    let missing = privilege::missing(effective);
    let state = if !missing.is_empty() {
        State::Bad(format!(
            "missing {}: {}",
            missing.join(" and "),
            privilege::remedy()
        ))
    } else if effective >> privilege::PTRACE.0 & 1 == 0 {
        State::Less(format!(
            "missing {}: sbt can attach to your own processes only; {}",
            privilege::PTRACE.1,
            privilege::remedy()
        ))
    } else {
        State::Ok("CAP_BPF, CAP_PERFMON, CAP_SYS_PTRACE or more".into())
    };
    Finding {
        what: "capabilities",
        state,
    }
}

fn sysctls(paranoid: &str, unprivileged: &str, ptrace: &str) -> Finding {
    let show = |name: &str, value: &str| {
        let value = if value.is_empty() { "absent" } else { value };
        format!("{name} = {value}")
    };
    // These settings do not restrict a process that has the capabilities.
    Finding {
        what: "sysctls",
        state: State::Ok(format!(
            "{}, {}, {}: no obstacle with the capabilities above",
            show("kernel.perf_event_paranoid", paranoid),
            show("kernel.unprivileged_bpf_disabled", unprivileged),
            show("kernel.yama.ptrace_scope", ptrace),
        )),
    }
}

fn lockdown(state: &str) -> Finding {
    let locked = state.contains("[confidentiality]");
    Finding {
        what: "lockdown",
        state: if locked {
            State::Bad(
                "confidentiality: BPF programs may not read memory; boot with lockdown=integrity"
                    .into(),
            )
        } else {
            State::Ok("none that restricts sbt".into())
        },
    }
}

/// The check of a C library; `None` if the library has no barriers.
fn library(path: &Path) -> Option<Finding> {
    let file = ProbedFile::open(path, path).ok()?;
    let point = file
        .points
        .iter()
        .find(|point| point.function == Function::BarrierWait)?;
    let unknown = "unknown library: sbt cannot read the numbers of participants";
    let family = point.runtime().map_or(unknown, |runtime| runtime.name);
    let text = format!(
        "{}: pthread_barrier_wait ({family}), probed at {:#x}",
        path.display(),
        point.entry_offset
    );
    Some(Finding {
        what: "libc",
        state: if point.entry_emulated {
            State::Ok(text)
        } else {
            State::Less(format!(
                "{text}, where the kernel must single-step: each arrival costs more"
            ))
        },
    })
}

/// Rehearses a complete measurement with this process as the target.
fn rehearsal() -> Finding {
    let state = match rehearse() {
        Ok(text) => State::Ok(text),
        Err(error) => State::Bad(format!("{error:#}")),
    };
    Finding {
        what: REHEARSAL,
        state,
    }
}

fn rehearse() -> anyhow::Result<String> {
    let pid = std::process::id();
    let mut source =
        Ebpf::load(pid, true, false, States::Light, (&[], false)).map_err(privilege::explain)?;
    let mut resolver = sbt_program::sites::Resolver::new(pid, None, std::sync::Arc::default());
    resolver.refresh();
    source.attach(&resolver.new_files())?;
    let (sink, mut batches) = tokio::sync::mpsc::channel(QUEUE);
    source.start(
        sink,
        sbt_program::clock::now_ns(),
        std::collections::HashMap::new(),
    )?;
    crate::demo::barrier::Barrier::new(1)?.wait();
    let totals = source.stop()?;
    let (mut arrivals, mut departures, mut with_clocks) = (0, 0, 0);
    while let Ok(batch) = batches.try_recv() {
        for event in &batch {
            match event {
                Event::Arrive { clocks, .. } => {
                    arrivals += 1;
                    with_clocks += i32::from(clocks.run_ns.is_some() && clocks.delay_ns.is_some());
                }
                Event::Depart { .. } => departures += 1,
                _ => {}
            }
        }
    }
    anyhow::ensure!(
        arrivals == 1 && departures == 1 && totals.lost == 0,
        "a barrier was passed once, but {arrivals} arrivals and {departures} departures were seen: \
         the probe is not where it should be"
    );
    anyhow::ensure!(
        with_clocks == 1,
        "the kernel did not tell how long the thread ran: the times running, ready and blocked \
        are unknown"
    );
    Ok("one barrier passed: arrival and departure seen".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_bad(finding: &Finding) -> bool {
        matches!(finding.state, State::Bad(_))
    }

    #[test]
    fn an_old_kernel_and_a_missing_capability_are_named_with_a_remedy() {
        assert!(is_bad(&kernel("4.19.0")));
        assert!(!is_bad(&kernel("6.1.0-13-amd64")));
        assert!(is_bad(&capabilities(0)));
        let State::Bad(text) = capabilities(0).state else {
            return;
        };
        assert!(
            text.contains("CAP_BPF") && text.contains("setcap"),
            "{text}"
        );
        assert!(!is_bad(&capabilities(u64::MAX)));
    }

    #[test]
    fn kernels_before_uprobe_multi_work_less_well() {
        let finding = uprobes(true, ProgramKind::Uprobe);
        assert!(matches!(finding.state, State::Less(_)));
        assert!(is_bad(&uprobes(false, ProgramKind::UprobeMulti)));
    }
}
