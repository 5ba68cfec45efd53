//! Why threads lacked a CPU. "Ready without a CPU" is a symptom: a cause is named only if the
//! kernel told so, and the causes are tried in the order of how sure they are and how much of the
//! rest they explain.

use std::collections::BTreeSet;

use super::{
    cost::Cost,
    culprit::members,
    excess::Excess,
    team::{Team, Wanted},
};
use crate::report::{
    Figure, Report, SchedulingReport, SiteReport, VerdictKind, VerdictReport,
    scheduling::{cpu_list, written_cpus},
};

mod bound;
mod cpus;
mod others;
mod own;
mod priority;
mod quota;
pub mod stood;

pub use others::{too, unknown};
pub use quota::at_most_ns as throttled_at_most_ns;

/// Percentage of the threads' time from which a lack of CPUs is told: disturbances take a few
/// percent.
pub const LEAST: f64 = 5.0;

/// As [`LEAST`], for programs without barriers, in percent of the time of their busy threads: whether
/// others wait for a thread that lacks a CPU is unknown there.
pub const LEAST_WITHOUT_BARRIERS: f64 = 10.0;

/// A lack of CPUs, in percent of the threads' time.
#[derive(Clone, Copy, Debug)]
struct Lack {
    /// The time for which threads were ready without a CPU, in work and in waits.
    ready_pct: f64,
    /// The time of `ready_pct`, and the waits for threads that were late for want of a CPU.
    share_pct: f64,
    /// The mean number of threads that were ready without a CPU.
    ready_threads: f64,
}

impl Lack {
    /// The lack of a run; `None` if it is small or unknown.
    fn of(report: &Report) -> Option<Self> {
        let (ready_pct, _) = cpus::wanted(report)?;
        let waits: f64 = report
            .sites
            .iter()
            .filter_map(|site| {
                let (cost, late) = Cost::of(report, site)?;
                let excess = Excess::of(late)?;
                Some(cost.share_pct * excess.explained(excess.ready))
            })
            .sum();
        let share_pct = (ready_pct + waits).min(100.0);
        let all_ns = report.thread_time.total_ns as f64;
        (share_pct >= LEAST).then(|| Self {
            ready_pct,
            share_pct,
            ready_threads: ready_pct / 100.0 * all_ns / report.seen_ns().max(1) as f64,
        })
    }

    /// The lack of a run of a program without barriers, that of its busy threads.
    fn without_barriers(report: &Report) -> Option<Self> {
        let wanted = wanted_by_looks(report)?;
        (wanted.ready_pct >= LEAST_WITHOUT_BARRIERS).then_some(Self {
            ready_pct: wanted.ready_pct,
            share_pct: wanted.ready_pct,
            ready_threads: wanted.ready_threads,
        })
    }

    fn verdict(
        &self,
        kind: VerdictKind,
        thread: Option<u32>,
        text: String,
        named: &[(&'static str, Figure)],
    ) -> VerdictReport {
        let figures = [
            ("share_pct", Figure::Real(self.share_pct)),
            ("ready_pct", Figure::Real(self.ready_pct)),
        ];
        VerdictReport {
            kind,
            site: None,
            thread,
            text,
            evidence: figures.into_iter().chain(named.iter().copied()).collect(),
        }
    }
}

/// A run that lacked CPUs, and what the kernel told about it.
struct Case<'a> {
    report: &'a Report,
    lack: Lack,
    scheduling: &'a SchedulingReport,
    team: Team<'a>,
}

type Cause = fn(&Case<'_>) -> Option<VerdictReport>;

/// The causes that the program or its user can mend, in the order in which they are tried.
const CAUSES: [Cause; 4] = [
    quota::too_small,
    priority::lower,
    bound::to_few_cpus,
    own::threads,
];

/// Verdict: the threads lacked CPUs, for a cause that is known.
pub fn of_the_run(report: &Report) -> Option<VerdictReport> {
    let case = Lack::of(report).and_then(|lack| {
        let scheduling = report.run.scheduling.as_ref()?;
        let team = Team::of(report, scheduling);
        Some(Case {
            report,
            lack,
            scheduling,
            team,
        })
    });
    let known = case
        .as_ref()
        .and_then(|case| CAUSES.iter().find_map(|cause| cause(case)));
    known
        .or_else(|| cpus::spinning(report))
        .or_else(|| cpus::more_threads_than_cpus(report))
        .or_else(|| others::processes(case.as_ref()?))
}

/// Verdict: the threads of a program without barriers lacked CPUs, for a cause that is known.
pub fn without_barriers(report: &Report) -> Option<VerdictReport> {
    let scheduling = report.run.scheduling.as_ref()?;
    let case = Case {
        report,
        lack: Lack::without_barriers(report)?,
        scheduling,
        team: Team::of(report, scheduling),
    };
    let causes: [Cause; 4] = [
        quota::too_small,
        priority::lower,
        bound::to_few_cpus,
        others::processes,
    ];
    causes.iter().find_map(|cause| cause(&case))
}

/// How many CPUs the threads that meet wanted, by looks from outside.
fn wanted_by_looks(report: &Report) -> Option<Wanted> {
    Team::of(report, report.run.scheduling.as_ref()?).wanted
}

/// The percentage of their time for which the threads that meet were ready without a CPU, by looks from outside;
/// `None` if that is unknown.
pub fn ready_pct(report: &Report) -> Option<f64> {
    wanted_by_looks(report).map(|wanted| wanted.ready_pct)
}

/// Whether the run lacked CPUs for a cause in the program or in what it was given.
pub fn is_of_the_run(report: &Report) -> bool {
    of_the_run(report).is_some_and(|verdict| verdict.kind != VerdictKind::OthersTakeCpus)
}

/// How few of the machine's CPUs are allowed to the threads that meet, as a part of a sentence; empty
/// if all are, or if that is unknown.
pub fn restriction(report: &Report) -> String {
    let known = || {
        let scheduling = report.run.scheduling.as_ref()?;
        let cpus = Team::of(report, scheduling).cpus?;
        let online = cpu_list(&scheduling.machine.as_ref()?.online)?;
        (cpus.len() < online.len()).then(|| {
            let called = cpus_called(&cpus);
            format!(" (of {} only {called} may be used)", online.len())
        })
    };
    known().unwrap_or_default()
}

/// Whether a thread was on a CPU for a good part of the time before the threads first met: else
/// nobody worked alone, and the threads met late for want of a CPU.
fn did_work_at_first(report: &Report, verdict: &VerdictReport) -> bool {
    const PART: f64 = 0.3;
    let Some(Figure::Whole(phase_ns)) = verdict.evidence.get("phase_ns") else {
        return true;
    };
    let threads = report
        .threads
        .iter()
        .filter_map(|thread| thread.begin_running_ns);
    let meet = |tid: u32| report.threads.iter().any(|thread| thread.tid == tid);
    let tasks = report
        .run
        .scheduling
        .iter()
        .flat_map(|scheduling| &scheduling.tasks);
    let tasks = tasks.filter(|task| !meet(task.tid));
    let most = threads
        .chain(tasks.filter_map(|task| task.running_ns))
        .max();
    most.is_none_or(|ran_ns| ran_ns as f64 >= PART * *phase_ns as f64)
}

/// Whether a verdict stands although threads lacked CPUs. One that blames a thread or a line for how
/// work is spread needs undisturbed work, or time on CPUs, that shows it. Where a quota stops the threads again and again,
/// that time says nothing either, since every stop costs them their caches.
pub fn stands(report: &Report, verdict: &VerdictReport) -> bool {
    let is_of_lack = matches!(
        verdict.kind,
        VerdictKind::LowPriority
            | VerdictKind::BoundToFewCpus
            | VerdictKind::StragglerLostItsCpu
            | VerdictKind::StragglerBlocked
    );
    let blames = verdict.site.is_some()
        || verdict.thread.is_some()
        || matches!(
            verdict.kind,
            VerdictKind::SerialStart | VerdictKind::SerialEnd
        );
    if is_of_lack || !blames || Lack::of(report).is_none() {
        return true;
    }
    let cause = of_the_run(report);
    // A thread that shares its CPU with a busy thread also shares the caches, and so takes longer.
    let is_named = cause.as_ref().is_some_and(|cause| {
        cause.thread.is_some() && cause.thread == verdict.thread && verdict.kind.is_of_work()
    });
    if is_named {
        return runs_twice(report, verdict) == Some(true);
    }
    match cause.map(|cause| cause.kind) {
        Some(VerdictKind::CpuQuota) => return false,
        Some(VerdictKind::BoundToFewCpus | VerdictKind::OwnThreadsTakeCpus)
            if spins_between(report, verdict) =>
        {
            return false;
        }
        _ => {}
    }
    match verdict.kind {
        VerdictKind::SerialStart => did_work_at_first(report, verdict),
        // The first counts by itself, and the others go by CPU time or by the release alone.
        VerdictKind::PhaseTooShort
        | VerdictKind::StragglerExecutesMore
        | VerdictKind::StragglerExecutesSlower
        | VerdictKind::SerialPart => true,
        VerdictKind::StragglerAtManySites => does_least_more_at_most(report, verdict),
        _ if verdict.site.is_none() => true,
        // Where work grows, the least of it was not uneven yet.
        VerdictKind::GrowingImbalance => is_of_running(report, verdict).unwrap_or(false),
        _ => {
            let is_more = does_least_more(report, verdict);
            let is_more = is_more.or_else(|| is_of_running(report, verdict));
            is_more.unwrap_or(false)
                || runs_alone(report, verdict) == Some(true)
                || runs_twice(report, verdict) == Some(true)
        }
    }
}

/// Whether threads of OpenMP spin at the verdict's site. Where they share a CPU, a thread that begins a
/// region also spins until the others are there: the time on a CPU is not all work.
fn spins_between(report: &Report, verdict: &VerdictReport) -> bool {
    const ASLEEP: f64 = 50.0;
    let site = verdict.site.and_then(|site| report.site(site));
    site.is_some_and(|site| {
        site.kind.is_of_openmp() && site.waits.asleep_pct.is_none_or(|pct| pct < ASLEEP)
    })
}

/// Whether the least work of the blamed thread is clearly longer than that of the others: of many
/// phases some are undisturbed, whereas on a busy machine the same work takes one thread more CPU
/// time than another. `None` if no thread is blamed, if that is unknown, or if the phases themselves
/// differ so much that the least work says nothing.
fn does_least_more(report: &Report, verdict: &VerdictReport) -> Option<bool> {
    does_least_more_at(report.site(verdict.site?)?, verdict.thread?)
}

/// As [`does_least_more`], for a thread that is blamed at many places: at those with half of the loss, as
/// far as the least work there says something.
fn does_least_more_at_most(report: &Report, verdict: &VerdictReport) -> bool {
    let Some(thread) = verdict.thread else {
        return true;
    };
    let known = report.sites.iter().filter_map(|site| {
        let more = does_least_more_at(site, thread)?;
        Some((site.lost_ns, more))
    });
    let (more, less) = known.fold((0, 0), |(more, less), (lost_ns, is_more)| {
        if is_more {
            (more + lost_ns, less)
        } else {
            (more, less + lost_ns)
        }
    });
    more >= less
}

fn does_least_more_at(site: &SiteReport, blamed: u32) -> Option<bool> {
    const MORE: f64 = 1.2;
    const MANY: u64 = 8;
    /// Disturbances make work longer by a few times, not by more.
    const ALIKE: f64 = 0.1;
    let least = site.threads.iter().filter_map(|thread| {
        let work = thread.each.work_ns.as_ref()?;
        // A thread that does the work in some phases only has phases without work.
        let is_bystander = site.threads.len() < 3 && thread.thread != blamed;
        let is_alike = is_bystander || work.min as f64 >= ALIKE * work.p50 as f64;
        let is_known = work.count >= MANY && is_alike;
        is_known.then_some((thread.thread, work.min as f64))
    });
    let (own, others): (Vec<_>, Vec<_>) = least.partition(|(thread, _)| *thread == blamed);
    let (_, own_ns) = own.first()?;
    let all_ns: f64 = others.iter().map(|(_, ns)| ns).sum();
    (!others.is_empty()).then(|| *own_ns >= MORE * all_ns / others.len() as f64)
}

/// Whether the last thread was on a CPU for so much longer than the others that this alone is worth
/// mentioning; `None` if it is unknown, or if the verdict is not on a site.
fn is_of_running(report: &Report, verdict: &VerdictReport) -> Option<bool> {
    const PART: f64 = 1.0 / 3.0;
    let straggler = report.site(verdict.site?)?.straggler.as_ref()?;
    let late = straggler.late.as_ref()?;
    let excess = Excess::of(late)?;
    let gain_ns = excess.running * (1.0 - 1.0 / late.participants.max(1.0));
    let is_worth = gain_ns * 100.0 >= super::WORTH * report.seen_ns() as f64;
    Some(is_worth && excess.explained(excess.running) >= PART)
}

/// Whether the blamed thread is on a CPU for at least twice as long as the others on average, in all
/// phases, and that alone is worth mentioning: on a busy machine equal work does not take so much
/// longer. It may have more work in some phases only, which the least work does not show. `None` if
/// no thread is blamed, or if that is unknown.
fn runs_twice(report: &Report, verdict: &VerdictReport) -> Option<bool> {
    const TWICE: f64 = 2.0;
    let site = report.site(verdict.site?)?;
    let blamed = verdict.thread?;
    let mut own_ns = None;
    let mut others_ns = Vec::new();
    for member in members(site) {
        let ns = member.later?.running_ns? as f64;
        if member.thread == blamed {
            own_ns = Some(ns);
        } else {
            others_ns.push(ns);
        }
    }
    let (own_ns, n) = (own_ns?, others_ns.len() as f64);
    let mean_ns = others_ns.iter().sum::<f64>() / n.max(1.0);
    let gain_ns = (own_ns - mean_ns) * n / (n + 1.0);
    let is_worth = gain_ns * 100.0 >= super::WORTH * report.seen_ns() as f64;
    Some(n > 0.0 && is_worth && own_ns >= TWICE * mean_ns)
}

/// Whether a phase is serial by CPU time, too, for so long that this alone is worth mentioning: while
/// one thread works, the others do not get next to nothing done for want of a CPU only.
fn runs_alone(report: &Report, verdict: &VerdictReport) -> Option<bool> {
    const NEXT_TO_NOTHING: f64 = 0.05;
    if verdict.kind != VerdictKind::SerialPhase {
        return None;
    }
    let straggler = report.site(verdict.site?)?.straggler.as_ref()?;
    let late = straggler.late.as_ref()?;
    let (last, others) = (late.last.running_ns? as f64, late.others.running_ns? as f64);
    let gain_ns = (last - others) * (1.0 - 1.0 / late.participants.max(1.0));
    let is_worth = gain_ns * 100.0 >= super::WORTH * report.seen_ns() as f64;
    Some(is_worth && others <= NEXT_TO_NOTHING * last)
}

/// Threads as a part of a sentence: `T1, T2 and T3`; the first few of many.
fn list(names: &[String]) -> String {
    const MOST: usize = 4;
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [all @ .., last] if names.len() <= MOST => format!("{} and {last}", all.join(", ")),
        _ => format!(
            "{} and {} more",
            names[..MOST - 1].join(", "),
            names.len() + 1 - MOST
        ),
    }
}

/// CPUs as a part of a sentence: `CPU 0`, `CPUs 2-5`.
fn cpus_called(cpus: &BTreeSet<u32>) -> String {
    let written = written_cpus(cpus);
    let plural = if cpus.len() == 1 { "" } else { "s" };
    format!("CPU{plural} {written}")
}
