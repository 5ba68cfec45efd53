//! Verdicts on what kept the last thread: the kernel, not its work.

use super::{away, cost::Cost, lack, speed, waiting, words::who};
use crate::{
    report::{
        Figure, LateReport, Report, SiteReport, SiteThreadReport, StragglerPattern,
        StragglerReport, VerdictKind, VerdictReport, locks::LockReport,
    },
    total::total,
    words::time,
};

pub use super::excess::Excess;

/// The part that explains at least half of the lateness is the cause: nothing else can explain
/// more.
const HALF: f64 = 0.5;

/// The percentage of thread time from which a lack of CPUs is told although its cause is unknown.
const UNEXPLAINED: f64 = 10.0;

/// The percentage of thread time from which sleep is told although its cause is unknown. Looks or sums
/// show a place for nearly all of a thread's time in the kernel.
const UNEXPLAINED_SLEEP: f64 = 5.0;

/// Where threads lack CPUs, another cause must explain this part of the wait at least.
const NOISY: f64 = 0.15;

/// Where threads lack CPUs, sleep must explain this part of the wait at least.
const ASLEEP: f64 = 0.3;

/// By how much the last thread must work longer than the others, as a fraction of its work: less is
/// noise, which nobody can divide better. The second is for runs in which threads lack CPUs.
const DIFFERS: f64 = 0.1;
const DIFFERS_NOISY: f64 = 0.25;

/// Whether the work of one thread is so uneven to that of the others, in the mean of all episodes,
/// that it is worth a verdict although it explains less than half of the wait: several threads may
/// have more than their share.
pub fn is_uneven(all: &Cost, cost: &Cost, late: &LateReport, spread: f64) -> bool {
    const PART: f64 = 1.0 / 3.0;
    const LEAST_PCT: f64 = 5.0;
    let ready = Excess::of(late).map_or(0.0, |excess| excess.ready);
    let ready_pct = all.explained(ready).share_pct;
    let least = (PART * all.share_pct).max(LEAST_PCT);
    // Of two threads, one that has more work explains the wait alone.
    late.participants > 2.5
        && ready_pct <= PART * all.share_pct
        && cost.share_pct >= least
        && spread >= DIFFERS_NOISY
}

/// Whether the work of the last thread is a fault of its own, worth a verdict although threads may
/// lack a CPU too: its work explains most of the wait that the want of a CPU does not explain. Where
/// that want explains much, the difference must be larger: what threads do when they get going again
/// differs then.
pub fn stands_out(all: &Cost, cost: &Cost, late: &LateReport, spread: f64) -> bool {
    let ready = Excess::of(late).map_or(0.0, |excess| excess.ready);
    let ready_pct = all.explained(ready).share_pct;
    let rest_pct = all.share_pct - ready_pct;
    let is_noisy = ready_pct > HALF * all.share_pct;
    let (least, differs) = if is_noisy {
        (NOISY * all.share_pct, DIFFERS_NOISY)
    } else {
        (0.0, DIFFERS)
    };
    cost.share_pct >= (HALF * rest_pct).max(least) && spread >= differs
}

/// The part of the cost that the longer work of the last thread explains; and by how much it works longer
/// than the others on CPUs of equal speed, as a fraction of its work. `None` unless the work explains most
/// of a wait that is worth mending, and would on such CPUs too.
pub fn of_work(
    report: &Report,
    site: &SiteReport,
    all: &Cost,
    late: &LateReport,
) -> Option<(Cost, f64)> {
    let (last, excess) = Excess::of(late).map_or_else(
        || {
            let (last, others) = (late.last.work_ns, late.others.work_ns);
            (last as f64, last as f64 - others as f64)
        },
        |excess| (late.last.running_ns.unwrap_or(0) as f64, excess.running),
    );
    let equal = last / speed::of_the_last(report, site, late).at_most;
    let equal_excess = excess - (last - equal);
    let spread = equal_excess / equal.max(1.0);
    let cost = all.explained(excess);
    let is_worth = all.explained(equal_excess).is_worth(report);
    (stands_out(all, &cost, late, spread) && is_worth).then_some((cost, spread))
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
    /// The cause if it explains at least half.
    fn of(excess: &Excess, part: f64, late: &LateReport) -> Option<Self> {
        let cause = Self::any(excess, part, late);
        (cause.pct >= HALF * 100.0).then_some(cause)
    }

    fn any(excess: &Excess, part: f64, late: &LateReport) -> Self {
        let episodes = late.split_episodes.max(1) as f64;
        Self {
            mean_ns: super::words::whole(excess.all() / episodes),
            pct: excess.explained(part) * 100.0,
        }
    }
}

fn verdict(
    kind: VerdictKind,
    (site, thread): (&SiteReport, Option<u32>),
    text: String,
    cost: &Cost,
    part: &Cause,
    named: &'static str,
) -> VerdictReport {
    VerdictReport {
        kind,
        site: Some(site.id),
        thread,
        text,
        evidence: [
            ("share_pct", Figure::Real(cost.share_pct)),
            ("gain_ns", Figure::Whole(cost.saved_ns())),
            ("late_ns", Figure::Whole(part.mean_ns)),
            (named, Figure::Real(part.pct)),
        ]
        .into(),
    }
}

/// The thread that comes last again and again at all of a site's barriers, and for which the others wait for most
/// of their time there: another thread may come last more often, by little.
fn persistent(site: &SiteReport) -> Option<&StragglerReport> {
    let is_one = site.straggler_by_barrier.is_empty();
    let last = site.straggler.as_ref().filter(|_| is_one);
    let last = last.filter(|last| last.pattern == StragglerPattern::Persistent)?;
    let kept = site
        .threads
        .iter()
        .map(|thread| thread.kept_ns.unwrap_or(0));
    let own = site
        .threads
        .iter()
        .filter(|thread| thread.thread == last.thread);
    let own = total(own.map(|thread| thread.kept_ns.unwrap_or(0)));
    (own as f64 >= HALF * total(kept) as f64).then_some(last)
}

/// What the sentence says of the last thread before how late it is: `T3 w comes last in 93 % of 40
/// episodes,`.
fn the_last(report: &Report, site: &SiteReport) -> String {
    if let Some(last) = persistent(site) {
        return format!(
            "{} comes last in {:.0} % of {} episodes,",
            who(report, last.thread),
            last.share_pct,
            site.episodes
        );
    }
    match waited_for(report, site) {
        Some((thread, share)) => format!(
            "{:.0} % of the wait is for {}; the last thread is",
            share * 100.0,
            who(report, thread)
        ),
        None => "now one thread comes last, now another,".into(),
    }
}

/// The thread for which the others wait nearly all of their time at a site, and its share of that:
/// others may come last as often, by little.
fn waited_for(report: &Report, site: &SiteReport) -> Option<(u32, f64)> {
    const NEARLY_ALL: f64 = 0.8;
    let kept = |thread: &SiteThreadReport| thread.kept_ns.unwrap_or(0);
    let all = total(site.threads.iter().map(kept));
    let most = site.threads.iter().max_by_key(|thread| kept(thread))?;
    let share = kept(most) as f64 / all.max(1) as f64;
    let is_one = report
        .thread(most.thread)
        .is_some_and(|thread| thread.threads == 1);
    (share >= NEARLY_ALL && is_one).then_some((most.thread, share))
}

/// The thread that [`the_last`] names.
fn the_one(report: &Report, site: &SiteReport) -> Option<u32> {
    let waited_for = || waited_for(report, site).map(|(thread, _)| thread);
    persistent(site).map(|last| last.thread).or_else(waited_for)
}

/// Verdict: the last thread was asleep in the kernel.
pub fn blocked(report: &Report, site: &SiteReport) -> Option<VerdictReport> {
    let (all, late) = Cost::of(report, site)?;
    let excess = Excess::of(late)?;
    let cost = all.removed(excess.blocked);
    // The time without a CPU does not count here: a lack of CPUs has verdicts of its own.
    let own = excess.running.max(0.0) + excess.blocked;
    let is_most = excess.blocked >= HALF * own && cost.share_pct >= ASLEEP * all.share_pct;
    let part = Cause::any(&excess, excess.blocked, late);
    // Threads of OpenMP sleep between parallel regions too, and when they fell asleep is not known.
    let between_ns = site.between_ns.unwrap_or(0) as f64;
    let may_be_between = site.kind.is_of_openmp() && between_ns > excess.blocked;
    if !is_most || may_be_between || !cost.is_worth(report) {
        return None;
    }
    let reason = away::reason(late, excess.blocked);
    // If another reason was seen, it was no lock.
    let lock = lock(report, late).filter(|_| reason.is_none_or(away::is_lock));
    let looked = waiting::of_the_last(report, site, the_one(report, site), excess.blocked);
    // Where each hit stops a thread, that counts as sleep, too.
    if report.run.has_stopped_threads() && looked.is_none() && reason.is_none() && lock.is_none() {
        return None;
    }
    // A little is lost on any machine, and a hypervisor takes more: without a cause that is nobody's fault.
    let is_known = looked.is_some() || reason.is_some() || lock.is_some();
    let is_much = cost.share_pct >= UNEXPLAINED_SLEEP && excess.blocked > report.stolen_ns() as f64;
    if !is_known && !is_much {
        return None;
    }
    let (why, remedy) = match (lock, &report.locks) {
        _ if looked.is_some() => looked.unwrap_or_default(),
        (None, _) if reason.is_some() => away::words(reason),
        (Some(lock), _) => {
            let had = lock.holder.map_or_else(String::new, |holder| {
                format!(", which {} had last", who(report, holder))
            });
            (
                format!("probably for the {} of {}{had}", lock.kind, lock.called()),
                "Hold that lock for a shorter time, or give each thread data of its own",
            )
        }
        (None, Some(_)) if !waiting::has_locks(report) => (
            "for input or output, a page fault or a pause; no wait for a lock was seen".into(),
            away::TAKE_OUT,
        ),
        (None, _) => (away::UNKNOWN.into(), away::TAKE_OUT),
    };
    let why = if why.is_empty() {
        why
    } else {
        format!(" ({why})")
    };
    let remedy = if remedy.starts_with('-') {
        remedy.to_owned()
    } else {
        format!("{remedy}: {}", cost.saves(report))
    };
    let text = format!(
        "asleep before {}: {} {} late on average, and sleeps in the kernel for {:.0} % of that{why}; {}. \
         {remedy}.",
        site.called(),
        the_last(report, site),
        time(part.mean_ns),
        part.pct,
        cost.words(&all),
    );
    Some(verdict(
        VerdictKind::StragglerBlocked,
        (site, the_one(report, site)),
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
    let (all, late) = Cost::of(report, site)?;
    let excess = Excess::of(late)?;
    let cost = all.removed(excess.ready);
    let part = Cause::of(&excess, excess.ready, late).filter(|_| cost.is_worth(report))?;
    // A verdict on the whole run covers all sites.
    if lack::of_the_run(report).is_some() {
        return None;
    }
    let taker = away::taker(report, late);
    // A little is lost on any machine, to sbt as well: without a cause that is nobody's fault.
    if taker.is_none() && cost.share_pct < UNEXPLAINED {
        return None;
    }
    // Without a known cause the sentence names no saving: to look for the cause saves nothing.
    let (saves, known) = match taker {
        Some(_) => (format!(": {}", cost.saves(report)), cost.share_pct),
        None => (String::new(), 0.0),
    };
    let (by_whom, remedy) = taker.map_or_else(|| lack::unknown(report), away::taken);
    let is_told = the_one(report, site).is_some();
    let whom = match starved(site).filter(|_| !is_told) {
        Some(thread) => format!(
            "{} lacks a CPU for longest; whichever thread comes last is",
            who(report, thread)
        ),
        None => the_last(report, site),
    };
    let text = format!(
        "no CPU before {}: {whom} {} late on average, and is ready to run without a CPU for {:.0} % of \
         that{by_whom}; {}. {remedy}{saves}.",
        site.called(),
        time(part.mean_ns),
        part.pct,
        cost.words(&all),
    );
    let mut verdict = verdict(
        VerdictKind::StragglerLostItsCpu,
        (site, the_one(report, site)),
        text,
        &cost,
        &part,
        "ready_pct",
    );
    verdict.evidence.insert(super::KNOWN, Figure::Real(known));
    Some(verdict)
}
