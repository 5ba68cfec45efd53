//! Contended locks, with their holders.

use std::collections::BTreeMap;

use super::{MOSTLY, advice::advice, counted, evidence, is_lock, is_worth, share};
use crate::{
    looks::FEW,
    report::{
        VerdictKind, VerdictReport, WORTH, WaitKind,
        waits::{HolderReport, LookedThreadReport, LooksReport, WaitPlaceReport},
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

/// A verdict on a lock. `places`: where threads wait for it, most looks first; at least one.
fn lock(looks: &LooksReport, places: &[&WaitPlaceReport]) -> VerdictReport {
    let first = places[0];
    let share_pct = share(places);
    let more = match places {
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
        waiting(looks, places),
        counted(looks, share_pct, places),
    );
    VerdictReport {
        kind: VerdictKind::LockContention,
        site: None,
        thread: None,
        text,
        evidence: evidence(looks, share_pct, places),
    }
}

/// Who waits for a lock, and for how much of the time, in words.
fn waiting(looks: &LooksReport, places: &[&WaitPlaceReport]) -> String {
    /// A thread that has so much of all waits is the only one that waits for long.
    const NEARLY_ALL: f64 = 0.9;
    let mut of: BTreeMap<u32, (&str, u64, f64)> = BTreeMap::new();
    for thread in places.iter().flat_map(|place| &place.threads) {
        let own = of.entry(thread.tid).or_insert((&thread.label, 0, 0.0));
        own.1 = own.1.saturating_add(looks.slept_ns(thread));
        own.2 += thread.share_pct;
    }
    let all_ns = total(of.values().map(|own| own.1));
    let most = of.iter().max_by_key(|(_, own)| own.1);
    let alone = most.filter(|(_, own)| own.1 as f64 >= NEARLY_ALL * all_ns as f64);
    let Some((tid, (label, _, share_pct))) = alone else {
        return format!("threads wait {:.0} % of their time", share(places));
    };
    let known = looks.threads.iter().find(|thread| thread.tid == *tid);
    let name = known.map_or_else(String::new, |thread| format!(" {}", thread.name));
    format!(
        "{label}{name} waits {:.0} % of its time",
        share_pct.min(100.0)
    )
}

/// The lock for which most holders of a lock wait while others wait for them, if there is one.
fn next<'a>(looks: &'a LooksReport, lock: &WaitPlaceReport) -> Option<&'a WaitPlaceReport> {
    let looked = total(lock.holders.iter().map(|holder| holder.looks));
    let waits_at = |other: &WaitPlaceReport| {
        let ends = format!(" from {}", other.place);
        let waits = |holder: &&HolderReport| {
            let asleep = holder.asleep_in.as_ref();
            asleep.is_some_and(|asleep| asleep.ends_with(&ends))
        };
        let waiting = lock.holders.iter().filter(waits);
        total(waiting.map(|holder| holder.asleep_looks))
    };
    let others = looks
        .in_the_work()
        .filter(|other| is_lock(other.kind) && other.place != lock.place && other.knows_holders());
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
