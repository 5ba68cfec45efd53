//! Other processes that use the CPUs; and a lack of CPUs whose cause is not known.

use super::{super::team::others_cpus, Case, Lack, cpu_list, list};
use crate::report::{
    Figure, ForeignReport, MachineReport, Report, SchedulingReport, StatesLevel, VerdictKind,
    VerdictReport,
};

/// What others use must be this fraction of what the threads lack: nothing else can be more.
const HALF: f64 = 0.5;

/// Other processes must use so many CPUs to be a cause: fewer are printed as 0.0.
const LEAST_CPUS: f64 = 0.05;

/// A process is named if it used this fraction of what all others used.
const NAMED: f64 = 0.1;

/// A step of the kernel's CPU times of processes, ns: a difference of two may be too large by one.
const STEP_NS: u64 = 10_000_000;

/// Verdict: other processes take the CPUs.
pub fn processes(case: &Case<'_>) -> Option<VerdictReport> {
    let machine = case.scheduling.machine.as_ref()?;
    let used = machine.in_cpus(machine.others_ns());
    if used < HALF * case.lack.ready_threads || used < LEAST_CPUS {
        return None;
    }
    // Where CPUs were idle, a thread that may use them is ready for as long as it takes to wake it. And sbt
    // is no less a cause than others that use no more.
    let idle = idle_cpus(machine).filter(|_| may_use_all(case.scheduling, machine));
    let is_enough = idle.is_some_and(|idle| idle >= case.lack.ready_threads);
    if is_enough || machine.own_ns >= machine.others_ns() {
        return None;
    }
    let names = machine.processes.as_ref().map(|all| names(machine, all));
    let whose = match names.filter(|names| !names.is_empty()) {
        Some(names) => format!(", among them {}", list(&names)),
        None => String::new(),
    };
    let (threads, meanwhile) = if case.report.sites.is_empty() {
        ("its busy threads", "")
    } else {
        ("the threads", meanwhile(case.report))
    };
    let text = format!(
        "other processes take the CPUs: {threads} are ready without a CPU for {:.0} % of their \
         time, while processes that are not of this program use {used:.1} of the {} CPUs that it \
         may use{whose}. Run it while the machine has nothing else to do, or give it CPUs of its \
         own{meanwhile}.",
        case.lack.ready_pct,
        case.team.available.len(),
    );
    Some(case.lack.verdict(
        VerdictKind::OthersTakeCpus,
        None,
        text,
        &[
            ("others_cpus", Figure::Real(used)),
            ("cpus", Figure::Whole(case.team.available.len() as u64)),
        ],
    ))
}

/// The mean number of the machine's CPUs that did nothing; `None` if that is not known.
fn idle_cpus(machine: &MachineReport) -> Option<f64> {
    let online = cpu_list(&machine.online)?.len() as f64;
    Some((online - machine.in_cpus(machine.busy_ns.saturating_add(machine.stolen_ns))).max(0.0))
}

/// Whether each thread may run on all of the machine's CPUs.
fn may_use_all(scheduling: &SchedulingReport, machine: &MachineReport) -> bool {
    let online = cpu_list(&machine.online);
    let mut tasks = scheduling.tasks.iter();
    tasks.all(|task| cpu_list(&task.cpus) == online)
}

/// What to compare while CPUs lack, as the end of a sentence; empty if the time on a CPU is not known.
pub(super) fn meanwhile(report: &Report) -> &'static str {
    let is_known = report
        .threads
        .iter()
        .any(|thread| thread.running_ns.is_some());
    if is_known {
        "; meanwhile compare the `running` columns: `work` includes time without a CPU"
    } else {
        ""
    }
}

/// What other processes used, as the end of a sentence on another cause; empty if that is little
/// beside what the threads lacked.
pub fn too(report: &Report) -> String {
    const LEAST: f64 = 0.25;
    let used = others_cpus(report);
    let lacks = Lack::of(report).map_or(0.0, |lack| lack.ready_threads);
    if used >= LEAST * lacks && used >= LEAST {
        format!("; processes that are not of this program use {used:.1} CPUs too")
    } else {
        String::new()
    }
}

/// The processes that used most.
fn names(machine: &MachineReport, all: &[ForeignReport]) -> Vec<String> {
    let enough = NAMED * machine.others_ns() as f64;
    let surely = |process: &&ForeignReport| process.cpu_ns.saturating_sub(STEP_NS) as f64 >= enough;
    let most = all.iter().filter(|process| process.cpu_ns > STEP_NS);
    most.filter(surely)
        .map(|process| format!("`{}` (pid {})", process.name, process.pid))
        .collect()
}

/// What to say of threads that lacked a CPU for an unknown cause, and what to do about it.
pub fn unknown(report: &Report) -> (String, &'static str) {
    let machine = report
        .run
        .scheduling
        .as_ref()
        .and_then(|known| known.machine.as_ref());
    let own = machine.map(|machine| machine.in_cpus(machine.own_ns));
    let lacks = Lack::of(report).map_or(0.0, |lack| lack.ready_threads);
    if own.is_some_and(|own| lacks > 0.0 && own >= HALF * lacks) {
        return (
            format!("; sbt itself used {:.1} CPUs meanwhile", own.unwrap_or(0.0)),
            "Run it again with `--departures off --budget 0.5%`, or leave sbt a CPU of its own",
        );
    }
    let remedy = if report.run.is_by_ebpf() && report.states.level != StatesLevel::Full {
        "See what takes the CPU (--states full)"
    } else {
        "Look at the machine's load while the program runs"
    };
    ("; what takes the CPU is not known".into(), remedy)
}
