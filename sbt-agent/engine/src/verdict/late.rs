//! Verdicts on what kept the last thread: the kernel, not its work.

use super::{
    away, cpus, waiting,
    words::{Cost, who},
};
use crate::{
    report::{
        Figure, LateReport, Report, SiteReport, StragglerPattern, VerdictKind, VerdictReport,
        locks::LockReport,
    },
    words::time,
};

/// The part that explains at least half of the lateness is the cause: nothing else can explain
/// more.
const HALF: f64 = 0.5;

/// By how much the last thread's times exceeded the others' mean, ns, summed over the episodes.
pub struct Excess {
    /// Time on a CPU.
    pub running: f64,
    /// Time ready without a CPU.
    pub ready: f64,
    /// Time asleep.
    pub blocked: f64,
}

impl Excess {
    /// The excess; `None` if it is unknown, or not positive in total.
    pub fn of(late: &LateReport) -> Option<Self> {
        let by = |last: Option<u64>, others: Option<u64>| Some(last? as f64 - others? as f64);
        let (last, others) = (&late.last, &late.others);
        let excess = Self {
            running: by(last.running_ns, others.running_ns)?,
            ready: by(last.ready_ns, others.ready_ns)?,
            blocked: by(last.blocked_ns, others.blocked_ns)?,
        };
        (excess.all() > 0.0).then_some(excess)
    }

    fn all(&self) -> f64 {
        self.running + self.ready + self.blocked
    }

    /// The fraction of the lateness that a part explains, 0 to 1. The part itself may be negative
    /// or exceed the total.
    fn explained(&self, part: f64) -> f64 {
        (part / self.all()).clamp(0.0, 1.0)
    }
}

/// Whether the last thread was late mainly for want of a CPU.
pub fn for_want_of_a_cpu(late: &LateReport) -> bool {
    Excess::of(late).is_some_and(|excess| excess.explained(excess.ready) >= HALF)
}

/// A cause of lateness: the mean lateness, ns, and the percentage of it that the cause explains.
struct Cause {
    mean_ns: u64,
    pct: f64,
}

impl Cause {
    fn of(excess: &Excess, part: f64, late: &LateReport) -> Option<Self> {
        let explained = excess.explained(part);
        let episodes = late.split_episodes.max(1) as f64;
        (explained >= HALF).then(|| Self {
            mean_ns: super::words::whole(excess.all() / episodes),
            pct: explained * 100.0,
        })
    }
}

fn verdict(
    kind: VerdictKind,
    site: &SiteReport,
    text: String,
    cost: &Cost,
    part: &Cause,
    named: &'static str,
) -> VerdictReport {
    let straggler = site.straggler.as_ref();
    let persistent = straggler.filter(|last| last.pattern == StragglerPattern::Persistent);
    VerdictReport {
        kind,
        site: Some(site.id),
        thread: persistent.map(|last| last.thread),
        text,
        evidence: [
            ("share_pct", Figure::Real(cost.share_pct)),
            ("gain_ns", Figure::Whole(cost.gain_ns)),
            ("late_ns", Figure::Whole(part.mean_ns)),
            (named, Figure::Real(part.pct)),
        ]
        .into(),
    }
}

/// The last thread as a part of a sentence: `T3, last in 93 % of episodes,`.
fn the_last(report: &Report, site: &SiteReport) -> String {
    match &site.straggler {
        Some(it)
            if it.pattern == StragglerPattern::Persistent
                && site.straggler_by_barrier.is_empty() =>
        {
            format!(
                "{}, last in {:.0} % of episodes,",
                who(report, it.thread),
                it.share_pct
            )
        }
        _ => "whichever thread comes last".into(),
    }
}

/// Verdict: the last thread was asleep in the kernel.
pub fn blocked(report: &Report, site: &SiteReport) -> Option<VerdictReport> {
    let (cost, late) = Cost::of(report, site).filter(|(cost, _)| cost.is_of_work(report))?;
    let excess = Excess::of(late)?;
    let part = Cause::of(&excess, excess.blocked, late)?;
    let reason = away::reason(late, excess.blocked);
    // If another reason was seen, it was no lock.
    let lock = lock(report, late).filter(|_| reason.is_none_or(away::is_lock));
    let persistent = site
        .straggler
        .as_ref()
        .filter(|last| last.pattern == StragglerPattern::Persistent)
        .map(|last| last.thread);
    let looked = waiting::of_the_last(report, persistent);
    let (why, remedy) = match (lock, &report.locks) {
        _ if looked.is_some() => looked.unwrap_or_default(),
        (None, _) if reason.is_some() => away::words(reason),
        (Some(lock), _) => {
            let had = lock.holder.map_or_else(String::new, |holder| {
                format!(", which {} had last", who(report, holder))
            });
            (
                format!("probably for the {} of {}{had}", lock.kind, lock.called()),
                "hold that lock for a shorter time, or give each thread data of its own",
            )
        }
        (None, None) => (
            "input or output, a lock, a page fault, or sleep".into(),
            "take that out of the phase, or let it go on beside the work",
        ),
        (None, Some(_)) => (
            "input or output, a page fault, or sleep; no wait for a lock was seen".into(),
            "take that out of the phase, or let it go on beside the work",
        ),
    };
    let text = format!(
        "the last is asleep at {}: {} is {} late on average, {:.0} % of it asleep in the kernel \
         ({why}); {}: {remedy}",
        site.called(),
        the_last(report, site),
        time(part.mean_ns),
        part.pct,
        cost.words(report),
    );
    Some(verdict(
        VerdictKind::StragglerBlocked,
        site,
        text,
        &cost,
        &part,
        "blocked_pct",
    ))
}

/// The lock with most waiting, if its waits are at least half as long as the last threads slept.
fn lock<'a>(report: &'a Report, late: &LateReport) -> Option<&'a LockReport> {
    let slept = late.last.blocked_ns? as f64;
    let worst = report
        .locks
        .as_ref()?
        .iter()
        .max_by_key(|lock| lock.total_ns)?;
    (worst.waits > 0 && worst.total_ns as f64 >= HALF * slept).then_some(worst)
}

/// Verdict: the last thread was ready to run, and had no CPU.
pub fn lost_its_cpu(report: &Report, site: &SiteReport) -> Option<VerdictReport> {
    let (cost, late) = Cost::of(report, site).filter(|(cost, _)| cost.is_of_work(report))?;
    let excess = Excess::of(late)?;
    let part = Cause::of(&excess, excess.ready, late)?;
    // With a shortage of CPUs, a verdict on the whole run covers all sites.
    if cpus::shortage(report).is_some() {
        return None;
    }
    let (by_whom, remedy) = away::taker(late).map_or_else(
        || {
            (
                String::new(),
                "something else runs there: stop it, leave it CPUs of its own, or bind fewer \
                 threads to each CPU",
            )
        },
        away::taken,
    );
    let text = format!(
        "the last has no CPU at {}: {} is {} late on average, {:.0} % of it ready to run without \
         a CPU{by_whom}; {}: {remedy}",
        site.called(),
        the_last(report, site),
        time(part.mean_ns),
        part.pct,
        cost.words(report),
    );
    Some(verdict(
        VerdictKind::StragglerLostItsCpu,
        site,
        text,
        &cost,
        &part,
        "ready_pct",
    ))
}
