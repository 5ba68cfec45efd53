//! Contended locks, with their holders.

use std::collections::BTreeMap;

use super::{MOSTLY, advice::advice, counted, evidence, is_lock, is_worth, share};
use crate::{
    looks::FEW,
    report::{
        VerdictKind, VerdictReport, WORTH, WaitKind,
        waits::{HolderReport, LookedThreadReport, LooksReport, WaitPlaceReport, WaitThreadReport},
    },
    total::total,
};

/// The advice where the holders of a lock wait for another lock.
const AT_THE_LAST: &str = "Hold the last of these locks for a shorter time, or do not wait for it while \
                           holding another";

/// A verdict on each contended lock, with the places where threads wait for the lock.
pub(super) fn locks(looks: &LooksReport) -> Vec<(VerdictReport, Vec<&WaitPlaceReport>)> {
    let mut left: Vec<&WaitPlaceReport> = looks
        .in_the_work()
        .filter(|place| is_lock(place.kind))
        .collect();
    let mut found = Vec::new();
    while !left.is_empty() {
        let first = left.remove(0);
        let is_same = |place: &WaitPlaceReport| {
            place.kind == first.kind
                && (is_of_library(first.kind)
                    || first.object.is_some() && place.object == first.object)
        };
        let (mut same, others): (Vec<_>, Vec<_>) =
            left.into_iter().partition(|place| is_same(place));
        left = others;
        same.insert(0, first);
        if is_worth(&same) && share(&same) >= least_of_lock(looks) {
            found.push((lock(looks, &same), same));
        }
    }
    found
}

/// The share from which a lock is contended. Where threads often have no CPU, the holder may lack
/// one: then others wait for locks that are held briefly.
fn least_of_lock(looks: &LooksReport) -> f64 {
    let sum = |f: fn(&LookedThreadReport) -> u64| total(looks.threads.iter().map(f)) as f64;
    let ready = sum(|thread| thread.ready_ns.unwrap_or(0));
    let ran = sum(|thread| thread.running_ns.unwrap_or(0));
    if ready > ran { 2.0 * WORTH } else { WORTH }
}

/// Whether a lock belongs to a library, so that the place of the wait does not tell the lock.
const fn is_of_library(kind: WaitKind) -> bool {
    matches!(
        kind,
        WaitKind::Allocator | WaitKind::Interpreter | WaitKind::Monitor
    )
}

/// A verdict on a lock. `all`: where threads wait for it, most looks first; at least one.
fn lock(looks: &LooksReport, all: &[&WaitPlaceReport]) -> VerdictReport {
    if let Some(verdict) = kept_from_writing(looks, all) {
        return verdict;
    }
    let alone = alone(looks, all);
    let is_its = |place: &&&WaitPlaceReport| {
        let mut threads = place.threads.iter();
        alone.is_none_or(|(who, _)| threads.any(|thread| thread.tid == who.tid))
    };
    let places: Vec<&WaitPlaceReport> = all.iter().filter(is_its).copied().collect();
    let first = places[0];
    let share_pct = share(all);
    let more = match places.as_slice() {
        // The names of the locks of Python and Java have no place.
        _ if matches!(first.kind, WaitKind::Interpreter | WaitKind::Monitor) => String::new(),
        [_, second] => format!(" and at {}", second.place),
        [_, second, rest @ ..] if !rest.is_empty() => {
            format!(" and at {} and {} more", second.place, rest.len())
        }
        _ => String::new(),
    };
    let which = format!("{}{more}", first.called());
    let (held, advice) = match chain(looks, first) {
        Some(chain) => (chain, AT_THE_LAST),
        None => (held(first), advice(first.kind)),
    };
    let text = format!(
        "contended lock: {} for {which} {}{held}. {advice}.",
        alone.map_or_else(
            || format!("threads wait {share_pct:.0} % of their time"),
            |(who, pct)| format!("{} {pct:.0} % of its time", waits(looks, who)),
        ),
        counted(looks, share(&places), &places),
    );
    verdict(looks, all, text)
}

fn verdict(looks: &LooksReport, places: &[&WaitPlaceReport], text: String) -> VerdictReport {
    VerdictReport {
        kind: VerdictKind::LockContention,
        site: None,
        thread: None,
        text,
        evidence: evidence(looks, share(places), places),
    }
}

/// A verdict on a read-write lock whose readers let no writer in: they hardly wait, and a writer waits long.
fn kept_from_writing(looks: &LooksReport, all: &[&WaitPlaceReport]) -> Option<VerdictReport> {
    /// The part of its time for which a writer waits, percent; and how many times as much as readers.
    const LONG: f64 = 15.0;
    const TIMES: f64 = 4.0;
    let writes = |place: &&WaitPlaceReport| {
        let call = place.call.as_deref().unwrap_or_default();
        place.kind == WaitKind::RwLock && (call.contains("wrlock") || call.contains("write"))
    };
    let (writing, reading): (Vec<_>, Vec<_>) = all.iter().copied().partition(writes);
    let mean_pct = |places: &[&WaitPlaceReport]| {
        let mut of: BTreeMap<u32, f64> = BTreeMap::new();
        for thread in places.iter().flat_map(|place| &place.threads) {
            *of.entry(thread.tid).or_default() += thread.share_pct;
        }
        of.values().sum::<f64>() / of.len().max(1) as f64
    };
    let (first, pct) = (*writing.first()?, mean_pct(&writing).min(100.0));
    let is_writer = |tid: u32| {
        let mut threads = writing.iter().flat_map(|place| &place.threads);
        threads.any(|thread| thread.tid == tid)
    };
    let held_pct: f64 = first
        .holders
        .iter()
        .filter(|holder| !is_writer(holder.tid))
        .map(|holder| holder.share_pct)
        .sum();
    if pct < LONG || pct < TIMES * mean_pct(&reading) || held_pct < MOSTLY {
        return None;
    }
    let mut who: Vec<&WaitThreadReport> = writing.iter().flat_map(|place| &place.threads).collect();
    who.sort_by_key(|thread| thread.tid);
    who.dedup_by_key(|thread| thread.tid);
    let whose = match who.as_slice() {
        [one] => waits(looks, one),
        _ => "threads that write wait".into(),
    };
    let prefers = match first.call.as_deref() {
        Some(call) if call.contains("pthread_rwlock") => {
            " (PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP)"
        }
        _ => "",
    };
    let text = format!(
        "contended lock: {whose} {pct:.0} % of the time to write, for {} {}, while others hold it to read \
         and hardly wait. Hold it for a shorter time to read, or take a lock that lets writers in \
         first{prefers}.",
        first.called(),
        counted(looks, share(&writing), &writing),
    );
    Some(verdict(looks, all, text))
}

/// A thread with its name, and that it waits, in words.
fn waits(looks: &LooksReport, who: &WaitThreadReport) -> String {
    let known = looks.threads.iter().find(|thread| thread.tid == who.tid);
    let name = known.map_or_else(String::new, |thread| format!(" {}", thread.name));
    format!("{}{name} waits", who.label)
}

/// The only thread that waits long for a lock, and the part of its time for which it does, percent.
fn alone<'a>(
    looks: &LooksReport,
    places: &[&'a WaitPlaceReport],
) -> Option<(&'a WaitThreadReport, f64)> {
    /// A thread that has so much of all waits is the only one that waits for long.
    const NEARLY_ALL: f64 = 0.9;
    let mut of: BTreeMap<u32, (&WaitThreadReport, u64, f64)> = BTreeMap::new();
    for thread in places.iter().flat_map(|place| &place.threads) {
        let own = of.entry(thread.tid).or_insert((thread, 0, 0.0));
        own.1 = own.1.saturating_add(looks.slept_ns(thread));
        own.2 += thread.share_pct;
    }
    let all_ns = total(of.values().map(|own| own.1));
    let (who, own_ns, pct) = of.into_values().max_by_key(|own| own.1)?;
    (own_ns as f64 >= NEARLY_ALL * all_ns as f64).then(|| (who, pct.min(100.0)))
}

/// The lock for which most holders of a lock wait while others wait for them, if there is one.
fn next<'a>(looks: &'a LooksReport, lock: &WaitPlaceReport) -> Option<&'a WaitPlaceReport> {
    let looked = total(lock.holders.iter().map(|holder| holder.looks));
    let waits_at = |other: &WaitPlaceReport| {
        let ends = format!(" from {}", other.place);
        let begins = other.call.as_deref().unwrap_or_default();
        let waits = |holder: &&HolderReport| {
            let asleep = holder.asleep_in.as_ref();
            asleep.is_some_and(|asleep| asleep.starts_with(begins) && asleep.ends_with(&ends))
        };
        let waiting = lock.holders.iter().filter(waits);
        total(waiting.map(|holder| holder.asleep_looks))
    };
    let is_other = |other: &&WaitPlaceReport| {
        let is_same = other.object.is_some() && other.object == lock.object;
        is_lock(other.kind) && other.place != lock.place && !is_same && other.knows_holders()
    };
    let others = looks.in_the_work().filter(is_other);
    let next = others.max_by_key(|other| waits_at(other))?;
    let waiting = waits_at(next);
    (waiting >= FEW && waiting as f64 * 100.0 >= MOSTLY * looked as f64).then_some(next)
}

/// The locks for which the holders of a lock wait, and the holders of these, until a holder waits for no
/// lock. `None` if the holders of the first lock wait for none.
fn chain(looks: &LooksReport, first: &WaitPlaceReport) -> Option<String> {
    let mut text = String::new();
    let mut seen = vec![first.called()];
    let mut at = first;
    while let Some(lock) = next(looks, at).filter(|lock| !seen.contains(&lock.called())) {
        let who = match at.holders.first().filter(|_| at.knows_holders())? {
            one if one.share_pct >= MOSTLY && !(at.holders.len() > 1 && in_turns(at)) => {
                format!("mostly by {}, which waits", one.label)
            }
            _ => "by several threads in turns, which wait".into(),
        };
        text = format!("{text}, held {who} meanwhile for {}", lock.called());
        seen.push(lock.called());
        at = lock;
    }
    (seen.len() > 1).then(|| format!("{text}{}", held(at)))
}

/// The holder of a lock, in words.
pub(super) fn held(place: &WaitPlaceReport) -> String {
    let Some(first) = place.holders.first().filter(|_| place.knows_holders()) else {
        return String::new();
    };
    if first.share_pct < MOSTLY || place.holders.len() > 1 && in_turns(place) {
        let asleep = asleep_in_turns(place);
        let asleep = asleep.map_or_else(String::new, |at| format!(" (asleep meanwhile in {at})"));
        // Readers hold a lock together.
        let how = if place.kind == WaitKind::RwLock {
            ""
        } else {
            " in turns"
        };
        return format!(", held by several threads{how}{asleep}");
    }
    format!(", held mostly by {}{}", first.label, does(first, place))
}

/// Where most holders sleep while they hold the lock, if that is one place.
fn asleep_in_turns(place: &WaitPlaceReport) -> Option<&str> {
    let mut places: BTreeMap<&str, u64> = BTreeMap::new();
    for holder in &place.holders {
        if let Some(asleep) = &holder.asleep_in {
            *places.entry(asleep).or_default() += holder.asleep_looks;
        }
    }
    let looked = total(place.holders.iter().map(|holder| holder.looks));
    let (asleep, looks) = places.into_iter().max_by_key(|(_, looks)| *looks)?;
    (looks >= FEW && looks as f64 * 100.0 >= MOSTLY * looked as f64).then_some(asleep)
}

/// Whether the waiting threads are also the holders, none much more often than the others.
fn in_turns(place: &WaitPlaceReport) -> bool {
    let fair = 100.0 / place.holders.len() as f64;
    place.holders[0].share_pct < 1.5 * fair
}

/// Whether holders of a contended lock sleep at a place: that is told with the lock.
pub(super) fn is_of_holder(looks: &LooksReport, place: &WaitPlaceReport) -> bool {
    let called = place.called();
    let contended = looks
        .in_the_work()
        .filter(|lock| is_lock(lock.kind) && is_worth(&[lock]));
    let mut holders = contended.flat_map(|lock| &lock.holders);
    holders.any(|holder| {
        let asleep = holder.asleep_in.as_ref();
        asleep.is_some_and(|asleep| called.starts_with(asleep.as_str()))
    })
}

/// Where a holder locks, and what it does meanwhile.
fn does(holder: &HolderReport, place: &WaitPlaceReport) -> String {
    let locks_at = holder.locks_at.as_ref().filter(|at| **at != place.place);
    let locks_at = locks_at.map_or_else(String::new, |at| format!(", which locks it at {at}"));
    let asleep_pct = holder.asleep_looks as f64 / holder.looks.max(1) as f64 * 100.0;
    match &holder.asleep_in {
        Some(asleep) if asleep_pct >= MOSTLY && holder.asleep_looks >= FEW => {
            format!("{locks_at} (asleep meanwhile in {asleep})")
        }
        _ => locks_at,
    }
}
