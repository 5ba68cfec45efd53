//! Verdicts on what kept the last thread: the kernel, not its work.

use super::{
    away, lack,
    words::{Cost, who},
};
use crate::{
    report::{
        Figure, LateReport, Report, SiteReport, StragglerPattern, VerdictKind, VerdictReport,
        locks::LockReport,
    },
    words::time,
};

pub use super::excess::Excess;

/// The part that explains at least half of the lateness is the cause: nothing else can explain
/// more.
const HALF: f64 = 0.5;

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
    let (why, remedy) = match (lock, &report.locks) {
        (None, locks) if reason.is_some() => away::words(reason, locks.is_some()),
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
            "take that out of the phase, or let it go on beside the work; --futex=on tells of \
             locks",
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

/// The thread that lacks a CPU for much longer than the others on the way to a site; `None` if no
/// single one does.
fn starved(site: &SiteReport) -> Option<u32> {
    const LONGER: f64 = 2.0;
    let each = site.threads.iter().filter_map(|thread| {
        let episodes = (thread.episodes > 0).then_some(thread.episodes)?;
        Some((thread.ready_ns? as f64 / episodes as f64, thread.thread))
    });
    let mut each: Vec<(f64, u32)> = each.collect();
    each.sort_by(|a, b| b.0.total_cmp(&a.0));
    let (first, second) = (each.first()?, each.get(1)?);
    (first.0 >= LONGER * second.0).then_some(first.1)
}

/// Verdict: the last thread was ready to run, and had no CPU.
pub fn lost_its_cpu(report: &Report, site: &SiteReport) -> Option<VerdictReport> {
    let (cost, late) = Cost::of(report, site).filter(|(cost, _)| cost.is_of_work(report))?;
    let excess = Excess::of(late)?;
    let part = Cause::of(&excess, excess.ready, late)?;
    // A verdict on the whole run covers all sites.
    if lack::of_the_run(report).is_some() {
        return None;
    }
    let taker = away::taker(report, late);
    let (by_whom, remedy) = taker.map_or_else(|| lack::unknown(report), away::taken);
    let persistent = site
        .straggler
        .as_ref()
        .is_some_and(|it| it.pattern == StragglerPattern::Persistent);
    let whom = match starved(site).filter(|_| !persistent) {
        Some(thread) => format!(
            "{} lacks a CPU for longest; whichever thread comes last",
            who(report, thread)
        ),
        None => the_last(report, site),
    };
    let text = format!(
        "the last has no CPU at {}: {whom} is {} late on average, {:.0} % of it ready to run \
         without a CPU{by_whom}; {}: {remedy}",
        site.called(),
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
