//! Programs without barriers in which one thread works before it makes other threads, or after others
//! have ended.

use crate::{
    looks::FEW,
    report::{
        Figure, VerdictKind, VerdictReport, WaitKind,
        waits::{LookedThreadReport, LooksReport, WaitPlaceReport},
    },
};

/// Percentage of the looks from which a thread that is alone is told: every program begins and ends
/// with one thread.
const MUCH: f64 = 20.0;

/// The least time of other threads, by looks or by their lives, as a percentage of the run: nobody expects a program
/// that hardly ever has other threads to share its work.
const OTHERS: f64 = 2.0;

/// Verdict: for a large part of the run the program has only one thread, which works.
pub(super) fn part(looks: &LooksReport) -> Option<VerdictReport> {
    let alone = looks
        .threads
        .iter()
        .max_by_key(|thread| thread.alone_looks)?;
    let pct = |part: u64| part as f64 / looks.looks.max(1) as f64 * 100.0;
    // Another process does not share the work.
    let of_process = looks
        .threads
        .iter()
        .filter(|thread| thread.pid == alone.pid);
    let others = of_process.filter(|thread| thread.tid != alone.tid);
    let span_ns = looks.span_ns.max(alone.watched_ns).max(1);
    let shares = others.map(|thread| {
        let joins = joins_of(looks, thread.tid).min(thread.looks);
        let looked = thread.looks - joins;
        // Looks become rare while threads work.
        let lived = thread.watched_ns as f64 / span_ns as f64 * 100.0;
        let waits = joins as f64 / thread.looks.max(1) as f64;
        pct(looked).max(lived * (1.0 - waits))
    });
    let of_others: f64 = shares.sum();
    // Looks are not evenly spread over the run: the thread cannot have worked alone for longer than
    // it worked. Beside other programs it may take twice its CPU time, and what takes longer is their
    // doing.
    let worked = alone.running_ns.zip(alone.ready_ns);
    let worked_pct = worked.map_or(100.0, |(running_ns, ready_ns)| {
        let worked_ns = running_ns.saturating_add(ready_ns.min(running_ns));
        worked_ns as f64 / alone.watched_ns.max(1) as f64 * 100.0
    });
    let looked_pct = pct(alone.alone_looks);
    let alone_pct = looked_pct.min(worked_pct);
    let by = if alone_pct < looked_pct {
        String::new()
    } else {
        format!(" ({} of {} looks)", alone.alone_looks, looks.looks)
    };
    if alone.alone_looks < FEW || alone_pct < MUCH || of_others < OTHERS {
        return None;
    }
    let joins = || joins(looks);
    let own = joins().find(|place| place.threads.iter().any(|thread| thread.tid == alone.tid));
    let of_others = || joins().find(|place| !place.threads.is_empty());
    let after = if let Some(place) = own {
        let at = &place.place;
        format!(", before it makes others or after it has joined them at {at}")
    } else if let Some(place) = of_others() {
        let at = &place.place;
        format!(", while others have ended or wait for threads to end (at {at})")
    } else {
        String::new()
    };
    let text = format!(
        "serial part: {} {} works as the only thread for {alone_pct:.0} % of the run{by}{after}. Divide \
         what it does then among threads, or do it beside their work.",
        alone.label, alone.name,
    );
    Some(VerdictReport {
        kind: VerdictKind::SerialPart,
        site: None,
        thread: alone.thread,
        text,
        evidence: [
            // With two threads, half of that time could be saved.
            ("share_pct", Figure::Real(alone_pct / 2.0)),
            ("alone_pct", Figure::Real(alone_pct)),
            ("looks", Figure::Whole(alone.alone_looks)),
        ]
        .into(),
    })
}

/// Verdict: while a thread waits for the end of those that it has made, again and again, only one of them
/// works for a large part of the run.
pub(super) fn tail(looks: &LooksReport) -> Option<VerdictReport> {
    /// So many threads at least, each joined.
    const MANY: usize = 4;
    let at = joins(looks)
        .filter(|place| place.awaited.len() >= MANY)
        .max_by_key(|place| place.looks)?;
    let [waits] = at.threads.as_slice() else {
        return None;
    };
    let waiter = looks
        .threads
        .iter()
        .find(|thread| thread.tid == waits.tid)?;
    let made = || {
        let threads = looks.threads.iter();
        threads.filter(|thread| at.awaited.contains(&thread.label))
    };
    let alone: u64 = made().map(|thread| thread.alone_looks).sum();
    let looks_at = made().map(|thread| thread.looks).sum::<u64>();
    let together = looks_at.saturating_sub(alone);
    let pct = |part: u64| part as f64 / waiter.looks.max(1) as f64 * 100.0;
    let alone_pct = pct(alone);
    // Threads that lack CPUs work one after the other, too.
    let sum = |of: fn(&LookedThreadReport) -> Option<u64>| made().filter_map(of).sum::<u64>();
    if sum(|thread| thread.ready_ns) * 2 > sum(|thread| thread.running_ns) {
        return None;
    }
    // Of threads that are made one after the other, each is alone.
    if alone < FEW || alone_pct < MUCH || together * 2 < alone {
        return None;
    }
    let text = format!(
        "serial part: for {alone_pct:.0} % of the run ({alone} of {} looks) {} {} waits at {} for the end of \
         the threads that it joins, and only one of them works. Divide what that one does then among \
         threads, or hand the work out in smaller pieces.",
        waiter.looks, waiter.label, waiter.name, at.place,
    );
    Some(VerdictReport {
        kind: VerdictKind::SerialPart,
        site: None,
        thread: waiter.thread,
        text,
        evidence: [
            ("share_pct", Figure::Real(alone_pct / 2.0)),
            ("alone_pct", Figure::Real(alone_pct)),
            ("looks", Figure::Whole(alone)),
        ]
        .into(),
    })
}

/// The places where threads wait for others to end.
fn joins(looks: &LooksReport) -> impl Iterator<Item = &WaitPlaceReport> {
    let places = looks.places.iter();
    places.filter(|place| place.kind == WaitKind::Join)
}

/// Number of looks at which a thread waited for others to end.
fn joins_of(looks: &LooksReport, tid: u32) -> u64 {
    let threads = joins(looks).flat_map(|place| &place.threads);
    let own = threads.filter(|thread| thread.tid == tid);
    own.map(|thread| thread.looks).sum()
}
