//! Pairs of threads, of which one slept until the other woke it.

use std::collections::HashMap;

use super::{
    labels::Labels,
    places::{Group, Times, pct},
};
use crate::{
    looks::ThreadId,
    report::{
        WaitKind,
        waits::{PairReport, WaitPlaceReport},
    },
};

/// The most pairs that are told.
const MOST_PAIRS: usize = 256;

/// The sleeps of one thread that another ended.
struct Pair {
    slept_ns: u64,
    /// Where the longest of them were.
    longest_ns: u64,
    kind: WaitKind,
    at: String,
}

/// Pairs of a thread that slept and the one that woke it.
#[derive(Default)]
pub(super) struct Pairs(HashMap<(ThreadId, ThreadId), Pair>);

impl Pairs {
    /// Adds the sleeps at a place.
    pub(super) fn add(&mut self, group: &Group<'_>, place: &WaitPlaceReport) {
        let mut here: HashMap<(ThreadId, ThreadId), u64> = HashMap::new();
        for slept in group.waits.iter().flat_map(|wait| &wait.sleeps) {
            for (waker, ns) in &slept.wakers {
                let sum = here.entry((slept.who, *waker)).or_default();
                *sum = sum.saturating_add(*ns);
            }
        }
        for (pair, ns) in here {
            let new = || Pair {
                slept_ns: 0,
                longest_ns: 0,
                kind: place.kind,
                at: String::new(),
            };
            let known = self.0.entry(pair).or_insert_with(new);
            known.slept_ns = known.slept_ns.saturating_add(ns);
            if ns > known.longest_ns || known.at.is_empty() {
                known.longest_ns = ns;
                known.kind = place.kind;
                known.at = place.called();
            }
        }
    }

    /// The pairs, the longest sleeps first.
    pub(super) fn drawn(self, labels: &Labels, times: &Times) -> Vec<PairReport> {
        let mut told: Vec<PairReport> = self
            .0
            .into_iter()
            .map(|((waiter, waker), pair)| PairReport {
                waiter: labels.of(waiter),
                waiter_tid: waiter.thread,
                waker: labels.of(waker),
                waker_tid: waker.thread,
                slept_ns: pair.slept_ns,
                share_pct: pct(pair.slept_ns, times.watched_ns(waiter)).min(100.0),
                kind: pair.kind,
                at: pair.at,
            })
            .collect();
        told.sort_by_key(|pair| {
            (
                std::cmp::Reverse(pair.slept_ns),
                pair.waiter_tid,
                pair.waker_tid,
            )
        });
        told.truncate(MOST_PAIRS);
        told
    }
}
