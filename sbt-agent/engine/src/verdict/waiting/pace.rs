//! Programs without barriers in which one thread works all the time, and the others wait for news by
//! condition variables or semaphores: a stage of a pipeline, or a producer, that sets the pace.

use super::{MOSTLY, slept_ns};
use crate::report::{
    Figure, VerdictKind, VerdictReport, WaitKind,
    waits::{LookedThreadReport, LooksReport, WaitPlaceReport},
};

/// A thread that wants a CPU for this percentage of its time works all the time.
const BUSY: f64 = 85.0;

/// Another thread that wants a CPU for this percentage could be as much to blame.
const ALSO_BUSY: f64 = 70.0;

/// A thread that is on a CPU for less, in percent, only helps: it writes a log, for example.
const HELPS: f64 = 0.5;

/// Where nobody knows who wakes the others, they must be on a CPU for this percentage of their time.
const STAGE: f64 = 5.0;

/// Percentage of the threads' time from which their waits are told.
const MUCH: f64 = 10.0;

/// Percentage of its time for which a thread is ready without a CPU from which that is told.
const READY: f64 = 5.0;

/// A thread that waits for the end of others for this percentage of its time does not work.
const PARKED: f64 = 90.0;

/// The others' waits end by the busy thread for this fraction at least, or else they do not wait for
/// it; for each other thread, since each may wake the next.
const WAKES: f64 = 0.5;

fn pct(part: u64, of: u64) -> f64 {
    part as f64 / of.max(1) as f64 * 100.0
}

/// How much of its time a thread is on a CPU, and ready without one, percent.
fn usage(thread: &LookedThreadReport) -> Option<(f64, f64)> {
    let part = |ns| pct(ns, thread.watched_ns);
    Some((part(thread.running_ns?), part(thread.ready_ns?)))
}

fn is_of_news(kind: WaitKind) -> bool {
    matches!(kind, WaitKind::Condvar | WaitKind::Semaphore)
}

/// How long a thread slept at places, ns.
fn slept<'a>(
    looks: &LooksReport,
    tid: u32,
    places: impl Iterator<Item = &'a WaitPlaceReport>,
) -> u64 {
    let threads = places.flat_map(|place| &place.threads);
    let own = threads.filter(|thread| thread.tid == tid);
    own.map(|thread| looks.slept_ns(thread)).sum()
}

/// A verdict on the thread that sets the pace.
pub(super) fn set_by_one(looks: &LooksReport) -> Option<VerdictReport> {
    let is_parked = |thread: &LookedThreadReport| {
        let joins = looks
            .places
            .iter()
            .filter(|place| place.kind == WaitKind::Join);
        pct(slept(looks, thread.tid, joins), thread.watched_ns) >= PARKED
    };
    let mut team = Vec::new();
    for thread in looks.threads.iter().filter(|thread| !is_parked(thread)) {
        let (running, ready) = usage(thread)?;
        if running >= HELPS {
            team.push((thread, running, ready));
        }
    }
    team.sort_by(|a, b| (b.1 + b.2).total_cmp(&(a.1 + a.2)));
    let [(busy, running, ready), others @ ..] = team.as_slice() else {
        return None;
    };
    let is_alone = others
        .first()
        .is_some_and(|next| next.1 + next.2 < ALSO_BUSY);
    if running + ready < BUSY || !is_alone {
        return None;
    }
    // Threads of other processes wait for other things.
    let others: Vec<_> = others
        .iter()
        .filter(|other| other.0.pid == busy.pid)
        .collect();
    let mut places: Vec<&WaitPlaceReport> = looks
        .in_the_work()
        .filter(|place| is_of_news(place.kind))
        .collect();
    places.sort_by(|a, b| b.share_pct.total_cmp(&a.share_pct));
    let share_pct: f64 = places.iter().map(|place| place.share_pct).sum();
    let waited = |thread: &LookedThreadReport| slept(looks, thread.tid, places.iter().copied());
    let waited_ns: u64 = others.iter().map(|other| waited(other.0)).sum();
    let lived_ns: u64 = others.iter().map(|other| other.0.watched_ns).sum();
    // The last look at a thread is a little before its end.
    let waits_pct = pct(waited_ns, lived_ns).min(100.0);
    if share_pct < MUCH || waits_pct < MOSTLY {
        return None;
    }
    let woken = |by: Option<u32>| -> u64 {
        let all = places.iter().flat_map(|place| &place.wakers);
        let of = all.filter(|waker| by.is_none_or(|tid| waker.tid == tid));
        of.map(|waker| waker.woken_ns).sum()
    };
    let is_known = woken(None) as f64 >= WAKES * slept_ns(&places) as f64 && woken(None) > 0;
    let wakes_pct = pct(woken(Some(busy.tid)), woken(None));
    let is_for_it = if is_known {
        wakes_pct >= WAKES * 100.0 / others.len() as f64
    } else {
        // Threads that a library keeps ready wait for nobody: those that work are stages.
        let run: f64 = others.iter().map(|other| other.1).sum();
        looks.sums.is_none() && run >= STAGE * others.len() as f64
    };
    if !is_for_it {
        return None;
    }
    let until = if is_known && wakes_pct >= MOSTLY {
        ", mostly until it wakes them"
    } else {
        ""
    };
    let lacks = if *ready >= READY {
        format!(", ready without one for {ready:.0} %")
    } else {
        String::new()
    };
    let them = match others.as_slice() {
        [(one, ..)] => format!(
            "{} {} sleeps for {waits_pct:.0} % of its time",
            one.label, one.name
        ),
        all => format!(
            "the {} others sleep for {waits_pct:.0} % of theirs",
            all.len()
        ),
    };
    let at: Vec<String> = places.iter().take(2).map(|place| place.called()).collect();
    let text = format!(
        "one thread sets the pace: {} {} is on a CPU for {running:.0} % of its time{lacks}, and {them}\
         {until} ({}). Make what it does faster, or divide it among more threads.",
        busy.label,
        busy.name,
        at.join("; "),
    );
    let mut evidence = std::collections::BTreeMap::from([
        ("share_pct", Figure::Real(share_pct)),
        ("busy_pct", Figure::Real(running + ready)),
        ("waits_pct", Figure::Real(waits_pct)),
    ]);
    if is_known {
        evidence.insert("wakes_pct", Figure::Real(wakes_pct));
    }
    Some(VerdictReport {
        kind: VerdictKind::Bottleneck,
        site: None,
        thread: busy.thread,
        text,
        evidence,
    })
}
