//! Verdicts on more threads than CPUs.

use super::super::{
    team::{cpus_of_team, others_cpus},
    words::whole,
};
use crate::{
    report::{
        BarrierKind, Figure, Report, ThreadReport, ThreadTimeReport, VerdictKind, VerdictReport,
    },
    total::total,
};

/// Percentage of the threads' time, ready without a CPU, from which CPUs count as lacking:
/// disturbances take only a few percent. Below it, more threads than CPUs do no harm, for example
/// if some of them always wait for something else.
const READY: f64 = 10.0;

/// Percentage of waiting time on a CPU from which waiting threads count as spinning. A thread that
/// sleeps uses a CPU only on its way to sleep and back. The share is small because threads may be
/// ready without a CPU for most of their waits.
const SPINNING: f64 = 2.0;

/// Other processes count as the cause if they use this part of the CPUs, and more than the program.
const TAKEN: f64 = 0.5;

/// So many threads for each CPU lack CPUs whatever other processes do.
const FAR_TOO_MANY: u32 = 2;

/// A shortage of CPUs.
pub struct Shortage {
    /// Number of threads at a time.
    pub threads: u32,
    /// Number of CPUs that they may use.
    pub cpus: u32,
    /// Percentage of their time for which threads were ready without a CPU.
    pub ready_pct: f64,
}

/// Whether there are too few CPUs for the threads; `None` if there are enough, or if that is
/// unknown.
pub fn shortage(report: &Report) -> Option<Shortage> {
    // The CPUs that count are those of the threads that meet.
    let cpus = cpus_of_team(report).or(report.run.cpus)?;
    let threads = threads_at_a_time(report);
    let (ready_pct, wanted) = wanted(report)?;
    let is_short = threads > cpus && ready_pct >= READY && wanted > f64::from(cpus);
    is_short.then_some(Shortage {
        threads,
        cpus,
        ready_pct,
    })
}

/// Number of threads that meet at one barrier, or mean number of living threads if that is larger.
fn threads_at_a_time(report: &Report) -> u32 {
    let meet = report
        .barriers
        .iter()
        .filter(|barrier| barrier.episodes > 0);
    let meet = meet.filter_map(|barrier| barrier.participants).max();
    // The probes may be off for spans of time, of which a wait that they see both ends of is a part:
    // the threads' times cover more than the spans that were seen, and at most the whole run.
    let live = report.thread_time.total_ns as f64 / report.run.wall_ns.max(1) as f64;
    let live = u32::try_from(whole(live)).unwrap_or(u32::MAX);
    meet.unwrap_or(0).max(live)
}

/// Percentage of their time for which all threads were ready without a CPU, in work and in waits;
/// and the mean number of CPUs that they would have used. If this is less than the number of CPUs,
/// other programs take them. By the looks from outside where events do not tell.
pub fn wanted(report: &Report) -> Option<(f64, f64)> {
    let by_events = || wanted_by_events(report);
    let by_looks = || {
        let it = super::wanted_by_looks(report)?;
        Some((it.ready_pct, it.cpus))
    };
    // In waits that events tell nothing of, threads may spin.
    if waits_are_unknown(&report.thread_time) {
        by_looks().or_else(by_events)
    } else {
        by_events().or_else(by_looks)
    }
}

/// Whether threads pass much of their time in barriers, and how is not known.
fn waits_are_unknown(time: &ThreadTimeReport) -> bool {
    const MUCH: f64 = 0.25;
    let in_barriers = time.idle_ns.saturating_add(time.release_ns.unwrap_or(0));
    time.waits.spinning_pct.is_none() && in_barriers as f64 >= MUCH * time.total_ns as f64
}

fn wanted_by_events(report: &Report) -> Option<(f64, f64)> {
    let time = &report.thread_time;
    let sum = |f: fn(&ThreadReport) -> Option<u64>| {
        let known: Vec<u64> = report.threads.iter().filter_map(f).collect();
        (!known.is_empty()).then(|| known.iter().map(|ns| *ns as f64).sum::<f64>())
    };
    let running = sum(|thread| thread.running_ns)?;
    let ready = sum(|thread| thread.ready_ns)?;
    if time.total_ns == 0 {
        return None;
    }
    let waits = (time.idle_ns as f64 + time.release_ns.unwrap_or(0) as f64) / 100.0;
    let (spinning, ready_in_waits) = match (time.waits.spinning_pct, time.waits.asleep_pct) {
        (Some(spinning), Some(asleep)) => {
            let ready = (100.0 - spinning - asleep).max(0.0);
            (spinning * waits, ready * waits)
        }
        _ => (0.0, 0.0),
    };
    let ready = ready + ready_in_waits;
    Some((
        ready / time.total_ns as f64 * 100.0,
        (running + spinning + ready) / time.total_ns as f64 * f64::from(threads_at_a_time(report)),
    ))
}

/// A shortage of CPUs, and the percentage of waiting spent spinning, if threads spin while others
/// lack a CPU.
fn harmful_spinning(report: &Report) -> Option<(Shortage, f64)> {
    let waits = &report.thread_time.waits;
    let (spinning, asleep) = (waits.spinning_pct?, waits.asleep_pct?);
    let spins = spinning >= SPINNING && spinning > asleep;
    Some((shortage(report).filter(|_| spins)?, spinning))
}

fn evidence(short: &Shortage) -> [(&'static str, Figure); 4] {
    [
        ("share_pct", Figure::Real(short.ready_pct)),
        ("ready_pct", Figure::Real(short.ready_pct)),
        ("threads", Figure::Whole(short.threads.into())),
        ("cpus", Figure::Whole(short.cpus.into())),
    ]
}

fn cpus(number: u32) -> String {
    format!("{number} CPU{}", if number == 1 { "" } else { "s" })
}

/// How the user lets threads sleep at the barriers of a runtime, where that is known.
fn how_to_sleep(report: &Report) -> &'static str {
    let has = |f: fn(BarrierKind) -> bool| report.sites.iter().any(|site| f(site.kind));
    if has(BarrierKind::is_of_openmp) {
        " (OMP_WAIT_POLICY=passive)"
    } else if has(|kind| kind == BarrierKind::Mpi) {
        " or yield (Open MPI: --mca mpi_yield_when_idle 1)"
    } else {
        ""
    }
}

/// Verdict: threads spin at barriers while others lack a CPU.
pub fn spinning(report: &Report) -> Option<VerdictReport> {
    let (short, spinning_pct) = harmful_spinning(report)?;
    let text = format!(
        "spinning while others lack a CPU: {} threads share {}. A thread that waits at a barrier \
         keeps its CPU, and {:.0} % of thread time goes by without one: let waiting threads sleep{} \
         or start no more threads than CPUs.",
        short.threads,
        cpus(short.cpus),
        short.ready_pct,
        how_to_sleep(report),
    );
    let mut evidence: std::collections::BTreeMap<_, _> = evidence(&short).into();
    evidence.insert("spinning_pct", Figure::Real(spinning_pct));
    Some(VerdictReport {
        kind: VerdictKind::SpinningWhileOthersLackCpus,
        site: None,
        thread: None,
        text,
        evidence,
    })
}

/// Verdict: more threads want to run than there are CPUs. Not given if they spin, or if other processes
/// use more of the CPUs than the program, unless there are [`FAR_TOO_MANY`] threads.
pub fn more_threads_than_cpus(report: &Report) -> Option<VerdictReport> {
    let short = shortage(report)?;
    // If others use more of the CPUs than the program, the program lacks CPUs because of them.
    let used = report.thread_time.total_ns;
    let ran = total(report.threads.iter().filter_map(|thread| thread.running_ns)) as f64;
    let own = ran / used.max(1) as f64 * f64::from(short.threads);
    let are_far_too_many = short.threads >= FAR_TOO_MANY.saturating_mul(short.cpus);
    let taken = own.max(f64::from(short.cpus) * TAKEN);
    if !are_far_too_many && others_cpus(report) > taken {
        return None;
    }
    let text = format!(
        "more threads than CPUs: {} threads share {}{}, and are ready without one for {:.0} % of \
         their time{}: start {}, or give the program more CPUs{}.",
        short.threads,
        cpus(short.cpus),
        super::restriction(report),
        short.ready_pct,
        super::too(report),
        short.cpus,
        super::others::meanwhile(report),
    );
    Some(VerdictReport {
        kind: VerdictKind::MoreThreadsThanCpus,
        site: None,
        thread: None,
        text,
        evidence: evidence(&short).into(),
    })
}
