//! Threads with a lower priority than others of the same program.

use super::{super::team::Member, Case, list, others};
use crate::report::{Figure, VerdictKind, VerdictReport, WaitKind};

/// By how much a thread's weight must exceed another's to take its CPU away: three nice values.
const HEAVIER: f64 = 1.9;

/// Fraction of its time for which a thread must be ready without a CPU to count as starved.
const STARVED: f64 = 0.2;

/// Of the time in which it wants a CPU, a starved thread has one for at most this part of what those
/// with a higher priority have.
const LESS: f64 = 0.85;

/// A thread with a higher priority matters if it is on a CPU for this fraction of the time.
const TAKES: f64 = 0.1;

/// Verdict: a thread with a lower priority than others of the program lacks a CPU.
pub fn lower(case: &Case<'_>) -> Option<VerdictReport> {
    let team = &case.team;
    let stronger = |than: &Member<'_>| -> Vec<Member<'_>> {
        let all = team.members.iter().chain(&team.helpers);
        let above = all.filter(|other| {
            other.weight() >= HEAVIER * than.weight()
                && other.ran() >= TAKES
                && !other.allowed.is_disjoint(&than.allowed)
        });
        above.cloned().collect()
    };
    let victims = team.members.iter().filter_map(|member| {
        let above = stronger(member);
        let got: Vec<f64> = above.iter().filter_map(Member::got).collect();
        let mean = got.iter().sum::<f64>() / got.len().max(1) as f64;
        let is_starved = member.ready() >= STARVED && member.got()? <= LESS * mean;
        (is_starved && !above.is_empty()).then_some((member, above))
    });
    let mut victims: Vec<_> = victims.collect();
    victims.sort_by(|(a, _), (b, _)| b.ready().total_cmp(&a.ready()));
    let (victim, above) = victims.first()?;
    let first = above
        .iter()
        .max_by(|a, b| a.weight().total_cmp(&b.weight()))?;
    let same: Vec<&Member<'_>> = victims
        .iter()
        .map(|(member, _)| *member)
        .filter(|member| member.priority() == victim.priority())
        .collect();
    let whom: Vec<String> = same
        .iter()
        .map(|member| member.called(case.report))
        .collect();
    let who: Vec<String> = above
        .iter()
        .filter(|other| other.priority() == first.priority())
        .map(|other| other.called(case.report))
        .collect();
    // Without barriers it may be meant to give way, unless another thread waits for news.
    if case.report.sites.is_empty() && !others_wait(case, victim) {
        return None;
    }
    let advice = if case.report.sites.is_empty() {
        "If others wait for what it does, give it the same priority (nice, setpriority, \
         sched_setscheduler), or CPUs of its own"
    } else {
        "Give all of them the same priority (nice, setpriority, sched_setscheduler), or leave the \
         threads that meet CPUs of their own"
    };
    let have = |names: &[String]| if names.len() == 1 { "has" } else { "have" };
    let text = format!(
        "low priority: {} {} {}, while {} of this program {} {} and {} first on the same CPUs; \
         {} was ready without a CPU for {:.0} % of its time{}. {advice}.",
        list(&whom),
        have(&whom),
        victim.priority(),
        list(&who),
        have(&who),
        first.priority(),
        if who.len() == 1 { "runs" } else { "run" },
        victim.called(case.report),
        victim.ready() * 100.0,
        others::too(case.report),
    );
    let mut named = vec![("thread_ready_pct", Figure::Real(victim.ready() * 100.0))];
    named.push(("nice", Figure::Real(f64::from(victim.task.nice))));
    let thread = (same.len() == 1).then(|| victim.thread.map(|thread| thread.id));
    Some(
        case.lack
            .verdict(VerdictKind::LowPriority, thread.flatten(), text, &named),
    )
}

/// Whether a thread other than this one waits for news of others, or for data, for a good part of its
/// time.
fn others_wait(case: &Case<'_>, victim: &Member<'_>) -> bool {
    const PART: f64 = 30.0;
    let of_news = |kind| {
        use WaitKind::{Condvar, Futex, Io, Mutex, Poll, RwLock, Semaphore};
        matches!(
            kind,
            Condvar | Futex | Io | Mutex | Poll | RwLock | Semaphore
        )
    };
    let places = case.report.waits.iter().flat_map(|looks| &looks.places);
    let threads = places
        .filter(|place| of_news(place.kind))
        .flat_map(|place| &place.threads);
    let mut others = threads.filter(|thread| thread.tid != victim.task.tid);
    others.any(|thread| thread.share_pct >= PART)
}
