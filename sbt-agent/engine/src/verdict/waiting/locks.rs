//! Contended locks, with their holders.

use super::{MOSTLY, advice::advice, counted, evidence, is_lock, is_worth, share};
use crate::{
    looks::FEW,
    report::{
        VerdictKind, VerdictReport, WORTH, WaitKind,
        waits::{HolderReport, LookedThreadReport, LooksReport, WaitPlaceReport},
    },
    total::total,
};

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
    matches!(kind, WaitKind::Allocator | WaitKind::Interpreter)
}

/// A verdict on a lock. `places`: where threads wait for it, most looks first; at least one.
fn lock(looks: &LooksReport, places: &[&WaitPlaceReport]) -> VerdictReport {
    let first = places[0];
    let share_pct = share(places);
    let more = match places {
        // Its name has no place.
        _ if first.kind == WaitKind::Interpreter => String::new(),
        [_, second] => format!(" and at {}", second.place),
        [_, second, rest @ ..] if !rest.is_empty() => {
            format!(" and at {} and {} more", second.place, rest.len())
        }
        _ => String::new(),
    };
    let which = format!("{}{more}", first.called());
    let held = held(first);
    let text = format!(
        "contended lock: threads wait {share_pct:.0} % of their time for {which} {}{held}. {}.",
        counted(looks, share_pct, places),
        advice(first.kind)
    );
    VerdictReport {
        kind: VerdictKind::LockContention,
        site: None,
        thread: None,
        text,
        evidence: evidence(looks, share_pct, places),
    }
}

/// The holder of a lock, in words.
pub(super) fn held(place: &WaitPlaceReport) -> String {
    let Some(first) = place.holders.first().filter(|_| place.knows_holders()) else {
        return String::new();
    };
    if first.share_pct < MOSTLY || place.holders.len() > 1 && in_turns(place) {
        return ", held by several threads in turns".into();
    }
    format!(", held mostly by {}{}", first.label, does(first, place))
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
