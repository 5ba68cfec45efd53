//! Verdicts by looks at sleeping threads: the lock for which threads wait, and where they sleep in
//! their work. They need no straggler: all threads may be equally slow.

use super::{away, cost::Cost, explained, words::who};
use crate::{
    looks::FEW,
    report::{
        Figure, Report, SiteReport, StandstillReport, StragglerPattern, VerdictKind, VerdictReport,
        WORTH, WaitKind,
        waits::{LooksReport, WaitPlaceReport, WaitThreadReport},
    },
    total::total,
    words::time,
};
use advice::advice_at;
use locks::{held, is_of_holder, locks};
use sleeps::{explains, is_sleep, sleeps};
use spins::spins;
use stops::Stops;

mod advice;
mod behind;
mod locks;
mod pace;
mod permits;
mod serial;
mod sleeps;
mod spins;
mod stops;
mod turns;

#[cfg(test)]
mod tests;

/// A holder is worth naming from this percentage of the looks on, and so is what it did meanwhile.
const MOSTLY: f64 = 50.0;

/// A thread sleeps nearly always where it does so for this part of the time that all sleep there.
const NEARLY_ALL: f64 = 0.8;

/// A lock explains a sleep at another place if threads wait for the lock for this fraction of that
/// sleep or longer.
const COMPARABLE: f64 = 0.8;

/// Percentage of the threads' time from which a lock is told in a program without barriers.
const ALONE: f64 = 5.0;

/// Adds the verdicts by looks, one for each lock and each place of sleep that costs enough. A place is
/// told once: a straggler that waits for a lock is told with the lock, and one that sleeps is not
/// told again. `found`: the verdicts so far.
pub fn add(report: &Report, found: &mut Vec<VerdictReport>) {
    let Some(looks) = &report.waits else {
        return;
    };
    let says = |verdict: &VerdictReport, place: &WaitPlaceReport| {
        verdict.kind == VerdictKind::StragglerBlocked && verdict.text.contains(&place.called())
    };
    let stops = Stops::of(report, looks);
    let left = stops.left();
    let looks = left.as_ref();
    let mut by_looks = Vec::new();
    // In a hang a lock is not held for long, but for ever.
    let hangs = report
        .run
        .hang
        .as_ref()
        .is_some_and(StandstillReport::is_alarming);
    // Without barriers nobody is known to wait for a thread that waits for a lock.
    let least = if report.sites.is_empty() { ALONE } else { 0.0 };
    let is_told = |verdict: &VerdictReport| !hangs && explained(verdict) >= least;
    let contended = locks(looks)
        .into_iter()
        .filter(|(lock, places)| is_told(lock) && share(places) >= WORTH.max(least));
    for (verdict, places) in contended {
        let of_lock = |place: &WaitPlaceReport| places.contains(&place);
        let others = || {
            looks
                .in_the_work()
                .filter(|place| !place.spins() && !of_lock(place))
        };
        let is_most = |place: &WaitPlaceReport| share(&places) >= COMPARABLE * place.share_pct;
        // The holder of the lock may sleep there, and comes last now and then: one thread sleeps for as
        // long as all others wait for the lock.
        let is_told = |other: &VerdictReport| {
            let is_elsewhere = || others().any(|place| says(other, place) && is_most(place));
            places.iter().any(|place| says(other, place))
                || away::may_be_lock(other) && others().all(is_most)
                || other.thread.is_none() && is_elsewhere()
        };
        found.retain(|other| !is_told(other));
        by_looks.push(verdict);
    }
    let posted = if hangs {
        Vec::new()
    } else {
        permits::semaphores(looks)
    };
    let is_posted = |place: &WaitPlaceReport| posted.iter().any(|(_, told)| *told == place);
    by_looks.extend(posted.iter().map(|(verdict, _)| verdict.clone()));
    for (verdict, share_pct) in spins(looks, !report.sites.is_empty()) {
        // A thread that spins for a lock is late because of the lock, and has no more work than others.
        found.retain(|other| !(other.kind.is_of_work() && explained(other) <= 2.0 * share_pct));
        by_looks.push(verdict);
    }
    // Without barriers it is not known who waits for a thread that sleeps; but threads that wait for
    // news of others tell.
    if report.sites.is_empty() {
        let paced = pace::set_by_one(looks).or_else(|| behind::one(looks));
        let paced = paced.or_else(|| turns::taken(looks));
        let is_own = |verdict: &VerdictReport| explained(verdict) - stops.stood_pct() >= WORTH;
        by_looks.extend(paced.filter(is_own));
        // Threads that wait for a lock are alone because of that.
        let has_lock = by_looks
            .iter()
            .any(|verdict| verdict.kind == VerdictKind::LockContention);
        let tail = || serial::tail(looks).filter(|_| !has_lock);
        by_looks.extend(serial::part(looks).or_else(tail));
    }
    if !report.sites.is_empty() {
        let is_said = |place: &WaitPlaceReport| {
            found.iter().any(|verdict| says(verdict, place))
                || is_of_holder(looks, place)
                || is_posted(place)
        };
        by_looks.extend(sleeps(looks, report.run.cpus, is_said));
    }
    found.extend(by_looks);
}

/// Whether a verdict tells where threads sleep in their work, by looks.
pub fn tells_of_sleep(verdict: &VerdictReport) -> bool {
    let kinds = [VerdictKind::LockContention, VerdictKind::AsleepInTheWork];
    kinds.contains(&verdict.kind) && verdict.evidence.contains_key("looks")
}

fn is_worth(places: &[&WaitPlaceReport]) -> bool {
    let looks = total(places.iter().map(|place| place.looks));
    let is_known = slept_ns(places) >= LEAST_NS || looks >= FEW;
    is_known && share(places) >= WORTH
}

/// Less sleep than this, ns, is no verdict: a short run has some at its start.
const LEAST_NS: u64 = 20_000_000;

/// How long threads slept at places, by the kernel's sums, ns.
fn slept_ns(places: &[&WaitPlaceReport]) -> u64 {
    places.iter().filter_map(|place| place.slept_ns).sum()
}

fn share(places: &[&WaitPlaceReport]) -> f64 {
    places.iter().map(|place| place.share_pct).sum()
}

/// `(1.2 s in 3400 sleeps)`, or `(41 of 186 looks)`.
fn counted(looks: &LooksReport, share_pct: f64, places: &[&WaitPlaceReport]) -> String {
    let sleeps = total(places.iter().filter_map(|place| place.sleeps));
    if sleeps > 0 {
        let plural = if sleeps == 1 { "" } else { "s" };
        return format!("({} in {sleeps} sleep{plural})", time(slept_ns(places)));
    }
    let of = looks.thread_looks;
    let share = super::words::whole(share_pct / 100.0 * of as f64);
    format!("({share} of {of} looks)")
}

/// Whether a look found a thread that waited for a lock, asleep or spinning.
pub fn has_locks(report: &Report) -> bool {
    let mut places = report.waits.iter().flat_map(LooksReport::in_the_work);
    places.any(|place| is_lock(place.kind) || place.spins())
}

/// Whether one thread keeps others out there.
pub const fn is_lock(kind: WaitKind) -> bool {
    matches!(
        kind,
        WaitKind::Mutex
            | WaitKind::RwLock
            | WaitKind::Critical
            | WaitKind::OmpLock
            | WaitKind::Allocator
            | WaitKind::Interpreter
            | WaitKind::Monitor
    )
}

fn evidence(
    looks: &LooksReport,
    share_pct: f64,
    places: &[&WaitPlaceReport],
) -> std::collections::BTreeMap<&'static str, Figure> {
    let seen = total(places.iter().map(|place| place.looks));
    let mut figures: std::collections::BTreeMap<_, _> = [
        ("share_pct", Figure::Real(share_pct)),
        ("looks", Figure::Whole(seen)),
        ("thread_looks", Figure::Whole(looks.thread_looks)),
    ]
    .into();
    let sleeps = total(places.iter().filter_map(|place| place.sleeps));
    if sleeps > 0 {
        figures.insert("sleeps", Figure::Whole(sleeps));
        figures.insert("slept_ns", Figure::Whole(slept_ns(places)));
    }
    figures
}

/// Verdict: the thread that is mostly last sleeps in its work, where only looks tell that: its times
/// on a CPU and asleep are not known.
pub fn straggler(report: &Report, site: &SiteReport) -> Option<VerdictReport> {
    let (cost, late) = Cost::of(report, site)?;
    if late.last.blocked_ns.is_some() {
        return None;
    }
    let last = site.straggler.as_ref();
    let last = last.filter(|last| last.pattern == StragglerPattern::Persistent)?;
    let looks = report.waits.as_ref()?;
    let tid = report.thread(last.thread)?.tid;
    let all = looks.threads.iter().find(|thread| thread.tid == tid)?.looks;
    let at = |place: &WaitPlaceReport| {
        let mut threads = place.threads.iter();
        threads
            .find(|thread| thread.tid == tid)
            .map_or(0, |thread| thread.looks)
    };
    let inside = looks.places.iter().filter(|place| place.in_barrier);
    let work = all.saturating_sub(total(inside.map(at)));
    // A thread that is stopped or frozen does not sleep.
    let stood = Stops::of(report, looks).stood_looks();
    let asleep = total(looks.in_the_work().map(at)).saturating_sub(stood);
    let pct = asleep as f64 / work.max(1) as f64 * 100.0;
    let (place, advice) =
        of_the_last(report, site, Some(last.thread), 0.0).filter(|_| pct >= MOSTLY)?;
    Some(VerdictReport {
        kind: VerdictKind::StragglerBlocked,
        site: Some(site.id),
        thread: Some(last.thread),
        text: format!(
            "the last is asleep at {}: {} comes last in {:.0} % of {} episodes, and sleeps for \
             {pct:.0} % of its work ({place}); the wait is {:.0} % of thread time. {advice}.",
            site.called(),
            who(report, last.thread),
            last.share_pct,
            site.episodes,
            cost.share_pct,
        ),
        evidence: [
            ("share_pct", Figure::Real(cost.share_pct)),
            ("blocked_pct", Figure::Real(pct)),
            ("looks", Figure::Whole(work)),
        ]
        .into(),
    })
}

/// Where the last thread at a site sleeps: in words, with what to do about it. `thread`: the thread,
/// or `None` if any of the site's may be last. `asleep_ns`: for how long the last threads are known to
/// have slept. `None` if too few looks found it, or if the places tell of less than half of that sleep.
pub fn of_the_last(
    report: &Report,
    site: &SiteReport,
    thread: Option<u32>,
    asleep_ns: f64,
) -> Option<(String, &'static str)> {
    let looks = report.waits.as_ref()?;
    // A thread that never comes to the site, such as one that only starts and joins the others, is
    // not waited for there.
    let ids = site.threads.iter().map(|row| row.thread);
    let ids = ids.filter(|&id| thread.is_none_or(|only| id == only));
    let tids: Vec<u32> = ids
        .filter_map(|id| report.thread(id).map(|row| row.tid))
        .collect();
    let threads = |place: &WaitPlaceReport| -> Vec<WaitThreadReport> {
        let all = place.threads.iter();
        all.filter(|thread| tids.contains(&thread.tid))
            .cloned()
            .collect()
    };
    let of = |place: &WaitPlaceReport| -> u64 {
        let threads = threads(place);
        threads.iter().map(|thread| looks.slept_ns(thread)).sum()
    };
    let stops = Stops::of(report, looks);
    let own_ns = |place: &WaitPlaceReport| {
        let each = threads(place).into_iter().map(|row| looks.slept_ns(&row));
        total(each.map(|ns| stops.left_ns(place.kind, ns)))
    };
    let seen_at = |place: &WaitPlaceReport| total(threads(place).iter().map(|thread| thread.looks));
    let places = || looks.in_the_work().filter(|place| !place.spins());
    let all = total(places().map(of));
    let most = places().max_by_key(|place| of(place))?;
    let (slept, seen) = (of(most), seen_at(most));
    let is_exact = most.slept_ns.is_some();
    let is_known = if is_exact {
        slept >= LEAST_NS
    } else {
        seen >= FEW
    };
    if !is_known || !explains(most) || (own_ns(most) as f64) < MOSTLY / 100.0 * all as f64 {
        return None;
    }
    // The kernel's sums may have pauses.
    let seen_part = looks.sums.as_ref().filter(|_| is_exact);
    let seen_part = seen_part.map_or(1.0, |sums| {
        sums.watched_ns as f64 / sums.span_ns.max(1) as f64
    });
    if (all as f64) < MOSTLY / 100.0 * asleep_ns * seen_part {
        return None;
    }
    let by = if is_exact {
        format!("{} of {} asleep", time(slept), time(all))
    } else {
        let all = total(places().map(seen_at));
        format!("by {seen} of {all} looks")
    };
    let is_call = is_sleep(most.kind) || most.kind == WaitKind::Other;
    let how = if is_call { "in" } else { "for" };
    // The sentence names no thread where any may be last, so the place names its only sleeper.
    let only = |tid: u32| {
        let all = report.threads.iter().filter(|row| row.tid == tid);
        all.map(|row| row.threads).sum::<u64>() == 1
    };
    let of_site = site.threads.iter().filter(|_| thread.is_none());
    let mut rows = of_site.filter_map(|row| report.thread(row.thread));
    let whose = rows.find(|row| {
        let own = threads(most).into_iter().filter(|seen| seen.tid == row.tid);
        let own = total(own.map(|seen| looks.slept_ns(&seen)));
        only(row.tid) && own as f64 >= NEARLY_ALL * slept.max(1) as f64
    });
    let whose = whose.map_or_else(String::new, |row| format!(" ({})", who(report, row.id)));
    Some((
        format!("{how} {}{whose}{}, {by}", most.called(), held(most)),
        advice_at(most),
    ))
}
