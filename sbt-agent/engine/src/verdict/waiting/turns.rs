//! Programs without barriers in which two threads work one after the other: each waits while the other
//! works.

use std::collections::BTreeMap;

use super::is_lock;
use crate::{
    report::{
        Figure, VerdictKind, VerdictReport,
        waits::{LookedThreadReport, LooksReport, PairReport},
    },
    total::total,
};

/// The least percentage of its time for which each of the two threads waits for the other.
const WAITS: f64 = 25.0;

/// The most CPU time that two threads which work one after the other want together, percent of one CPU.
const ONE_CPU: f64 = 115.0;

/// The least percentage of the time for which the two threads work, together: else they also wait for
/// something else.
const WORKS: f64 = 70.0;

/// The least part of what each of the two waits for any thread that it must wait for the other, percent:
/// else several threads want one thing, as the lock of a language's runtime.
const FOR_EACH_OTHER: f64 = 80.0;

/// A verdict on the two threads that wait longest for each other.
pub(super) fn taken(looks: &LooksReport) -> Option<VerdictReport> {
    let back = |pair: &PairReport| {
        let is_back = |other: &&PairReport| {
            (other.waiter_tid, other.waker_tid) == (pair.waker_tid, pair.waiter_tid)
        };
        let found = looks.pairs.iter().find(is_back);
        found.filter(|other| is_much(other) && is_most(looks, other))
    };
    let both = looks.pairs.iter().filter(|pair| is_much(pair));
    let mut both = both.filter(|pair| is_most(looks, pair));
    both.find_map(|pair| verdict(looks, pair, back(pair)?))
}

/// Whether a thread waits much for another, and not for a lock that both want.
fn is_much(pair: &PairReport) -> bool {
    pair.share_pct >= WAITS && !is_lock(pair.kind)
}

/// Whether a thread waits for another much longer than for all others together.
fn is_most(looks: &LooksReport, pair: &PairReport) -> bool {
    let own = looks
        .pairs
        .iter()
        .filter(|other| other.waiter_tid == pair.waiter_tid);
    let all_ns = total(own.map(|other| other.slept_ns));
    pair.slept_ns as f64 * 100.0 >= FOR_EACH_OTHER * all_ns as f64
}

fn verdict(looks: &LooksReport, one: &PairReport, other: &PairReport) -> Option<VerdictReport> {
    let of = |tid| looks.threads.iter().find(|thread| thread.tid == tid);
    let (first, second) = (of(one.waiter_tid)?, of(other.waiter_tid)?);
    let running = part(first, first.running_ns?) + part(second, second.running_ns?);
    let ready = part(first, first.ready_ns?) + part(second, second.ready_ns?);
    if running + ready > ONE_CPU || running < WORKS {
        return None;
    }
    let share_pct = f64::midpoint(one.share_pct, other.share_pct);
    Some(VerdictReport {
        kind: VerdictKind::WorkInTurns,
        site: None,
        thread: None,
        text: format!(
            "work in turns: {} {} and {} {} work one after the other: they wait {:.0} % and {:.0} % of \
             their time for each other, in {}, and use {:.2} CPUs together. Let one go on while the \
             other works, if what they hand over allows that.",
            first.label,
            first.name,
            second.label,
            second.name,
            one.share_pct,
            other.share_pct,
            place(one, other),
            running / 100.0,
        ),
        evidence: BTreeMap::from([
            ("share_pct", Figure::Real(share_pct)),
            ("running_pct", Figure::Real(running)),
        ]),
    })
}

fn part(thread: &LookedThreadReport, ns: u64) -> f64 {
    ns as f64 / thread.watched_ns.max(1) as f64 * 100.0
}

fn place(one: &PairReport, other: &PairReport) -> String {
    if one.at == other.at {
        one.at.clone()
    } else {
        format!("{} and {}", one.at, other.at)
    }
}
