//! One place where threads slept: its threads, their times, and the holders of the lock.

use std::collections::{BTreeMap, HashMap};

use super::labels::Labels;
use crate::{
    looks::{CodePlace, Found, FoundHolder, FoundWait, Kind, ThreadId, Wait},
    place::{printable, short, shortened},
    report::{
        WaitKind,
        waits::{HolderReport, WaitPlaceReport, WaitThreadReport, WakerReport},
    },
    total::total,
};

/// The most callers that are told of a place.
const MOST_CALLERS: usize = 3;

/// The most threads that are told to have woken others.
const MOST_WAKERS: usize = 4;

/// A place in the notation of reports.
pub(super) fn written(at: &CodePlace) -> String {
    let function = at
        .function
        .as_deref()
        .map(|name| printable(&shortened(name)));
    let line = match (&at.file, at.line) {
        (Some(file), Some(line)) => Some(format!("{}:{line}", printable(short(file)))),
        _ => None,
    };
    match (function, line) {
        (Some(function), Some(line)) => format!("{function} {line}"),
        (Some(function), None) => function,
        (None, Some(line)) => line,
        (None, None) => format!("{}+{:#x}", printable(short(&at.binary)), at.offset),
    }
}

/// A wait in a few words: `usleep called from read_probe probe.c:20`.
fn in_words(wait: &Wait) -> Option<String> {
    let place = wait.stack.first().map(written);
    let what = wait.what.as_deref().map(printable);
    let what = what.map_or_else(String::new, |what| format!(" ({what})"));
    let call = wait.call.as_deref();
    let call = call.map(|call| format!("{}{what}", printable(call)));
    match (call, place) {
        (Some(call), Some(place)) => Some(format!("{call} called from {place}")),
        (call, place) => call.or(place),
    }
}

/// Waits that are one place to the user.
#[derive(Default)]
pub(super) struct Group<'a> {
    pub(super) waits: Vec<&'a FoundWait>,
}

/// For how long, and how often, each thread was looked at.
pub(super) struct Times {
    threads: HashMap<ThreadId, (u64, u64)>,
    /// The part of the time in which sleeps were summed up.
    part: f64,
}

impl Times {
    pub(super) fn of(found: &Found) -> Self {
        let part = found.sums.map_or(1.0, |sums| {
            sums.watched_ns as f64 / sums.span_ns.max(1) as f64
        });
        let threads = found.threads.iter();
        Self {
            threads: threads
                .map(|seen| (seen.who, (seen.looks, seen.lived_ns)))
                .collect(),
            part,
        }
    }

    /// Number of looks at a thread.
    pub(super) fn looks(&self, who: ThreadId) -> u64 {
        self.threads.get(&who).map_or(0, |known| known.0)
    }

    /// For how long the sleeps of a thread were summed up, ns.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a part of a time"
    )]
    pub(super) fn watched_ns(&self, who: ThreadId) -> u64 {
        let lived_ns = self.threads.get(&who).map_or(0, |known| known.1);
        (lived_ns as f64 * self.part) as u64
    }
}

/// Whether two words are of one object of a kind, for which threads sleep by one word or another.
fn is_of_one(kind: Kind, first: (u32, u64), next: (u32, u64)) -> bool {
    let length = match kind {
        // `pthread_cond_t` on x86-64: `__g_signals` (glibc's `nptl/pthread_cond_wait.c`).
        Kind::Condvar => 48,
        // From the first to the last of these words of `pthread_rwlock_t`, which is longer: `__readers`,
        // `__wrphase_futex`, `__writers_futex` (glibc's `nptl/pthread_rwlock_common.c`).
        Kind::RwLock => 16,
        _ => return first == next,
    };
    first.0 == next.0 && next.1.abs_diff(first.1) < length
}

impl Group<'_> {
    /// The place, without kind and call. `share_pct` is the number of looks at threads that work.
    pub(super) fn draw(
        &self,
        labels: &Labels,
        times: &Times,
        found: &Found,
        works: impl Fn(ThreadId) -> bool,
    ) -> WaitPlaceReport {
        let mut threads: BTreeMap<ThreadId, u64> = BTreeMap::new();
        let mut callers: HashMap<String, u64> = HashMap::new();
        let mut objects: Vec<(u32, u64)> = Vec::new();
        let mut awaited: Vec<String> = Vec::new();
        for wait in &self.waits {
            for (who, looks) in &wait.threads {
                *threads.entry(*who).or_default() += looks;
            }
            if let Some(caller) = wait.wait.stack.get(1) {
                *callers.entry(written(caller)).or_default() += wait.looks();
            }
            let of = wait.wait.process;
            objects.extend(wait.wait.object.map(|object| (of, object)));
            awaited.extend(wait.wait.awaits.map(|who| labels.of(who)));
        }
        objects.sort_unstable();
        // All waits of a group are of one kind.
        let kind = self
            .waits
            .first()
            .map_or(Kind::Other, |wait| wait.wait.kind);
        objects.dedup_by(|next, first| is_of_one(kind, *first, *next));
        // Processes that were forked from one have what they share at one address, and what they do not
        // share as well: threads that wake those of another process share it.
        let sleeps = || self.waits.iter().flat_map(|wait| &wait.sleeps);
        let is_shared = sleeps().any(|slept| {
            let mut wakers = slept.wakers.iter();
            wakers.any(|(waker, _)| waker.process != slept.who.process)
        });
        if is_shared {
            objects.sort_unstable_by_key(|(_, address)| *address);
            objects.dedup_by_key(|(_, address)| *address);
        }
        let objects: Vec<u64> = objects.into_iter().map(|(_, address)| address).collect();
        awaited.sort();
        awaited.dedup();
        let mut callers: Vec<(String, u64)> = callers.into_iter().collect();
        callers.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
        callers.truncate(MOST_CALLERS);
        let mut whats = self.waits.iter().map(|wait| wait.wait.what.as_deref());
        let first = whats.next().flatten();
        let what = first.filter(|first| whats.all(|what| what == Some(*first)));
        let at = self.waits.first().and_then(|wait| wait.wait.stack.first());
        let looks = total(threads.values().copied());
        let slept = self.slept();
        for who in slept.iter().flat_map(BTreeMap::keys) {
            threads.entry(*who).or_default();
        }
        let weight = |who: &ThreadId, looks: &u64| match &slept {
            Some(slept) => slept.get(who).copied().unwrap_or(0),
            None => *looks,
        };
        let working = threads.iter().filter(|(who, _)| works(**who));
        let working = total(working.map(|(who, looks)| weight(who, looks)));
        let mut told: Vec<WaitThreadReport> = threads
            .iter()
            .map(|(who, looks)| WaitThreadReport {
                label: labels.of(*who),
                tid: who.thread,
                looks: *looks,
                share_pct: match &slept {
                    Some(_) => pct(weight(who, looks), times.watched_ns(*who)).min(100.0),
                    None => pct(*looks, times.looks(*who)),
                },
                slept_ns: slept.as_ref().map(|_| weight(who, looks)),
            })
            .collect();
        told.sort_by(|a, b| {
            let order = |it: &WaitThreadReport| std::cmp::Reverse((it.slept_ns, it.looks));
            order(a).cmp(&order(b)).then(a.tid.cmp(&b.tid))
        });
        let sleeps = self.waits.iter().flat_map(|wait| &wait.sleeps);
        let sleeps = total(sleeps.map(|slept| slept.times));
        WaitPlaceReport {
            sleeps: slept.as_ref().map(|_| sleeps),
            slept_ns: slept.as_ref().map(|slept| total(slept.values().copied())),
            kind: WaitKind::Other,
            call: None,
            what: what.map(printable),
            place: at.map_or_else(|| "?".into(), written),
            function: at.and_then(|at| at.function.as_deref()).map(printable),
            file: at.and_then(|at| at.file.as_deref()).map(printable),
            line: at.and_then(|at| at.line),
            callers: callers.into_iter().map(|(caller, _)| caller).collect(),
            in_library: self.waits.iter().all(|wait| wait.wait.in_library),
            in_barrier: false,
            looks,
            share_pct: working as f64,
            threads: told,
            objects: objects.len() as u64,
            object: match objects.as_slice() {
                [one] => Some(format!("{one:#x}")),
                _ => None,
            },
            awaited,
            holders: self.holders(labels, found),
            wakers: self.wakers(labels),
        }
    }

    /// How long each thread slept there, ns; `None` if the kernel has not summed that up.
    fn slept(&self) -> Option<BTreeMap<ThreadId, u64>> {
        let mut slept = BTreeMap::new();
        for part in self.waits.iter().flat_map(|wait| &wait.sleeps) {
            let ns = slept.entry(part.who).or_insert(0_u64);
            *ns = ns.saturating_add(part.total_ns);
        }
        (!slept.is_empty()).then_some(slept)
    }

    /// For how long each thread kept others asleep, ns: whoever wakes a thread that sleeps for a lock
    /// has held that. `None` if that is not known of half of the time.
    fn kept(&self) -> Option<BTreeMap<ThreadId, u64>> {
        self.woken()
            .filter(|_| self.waits.iter().all(|wait| wait.wait.kind.is_lock()))
    }

    /// How long those had slept whom each thread woke, ns. `None` if that is not known of half of the
    /// time.
    fn woken(&self) -> Option<BTreeMap<ThreadId, u64>> {
        let mut kept: BTreeMap<ThreadId, u64> = BTreeMap::new();
        for (who, ns) in self.waits.iter().flat_map(|wait| &wait.wakers) {
            let sum = kept.entry(*who).or_default();
            *sum = sum.saturating_add(*ns);
        }
        let slept = total(self.waits.iter().map(|wait| wait.slept_ns()));
        let known = total(kept.values().copied());
        (known > 0 && known >= slept / 2).then_some(kept)
    }

    /// Threads that woke sleepers, unless these slept for a lock.
    fn wakers(&self, labels: &Labels) -> Vec<WakerReport> {
        let woken = self.woken();
        let woken = woken.filter(|_| self.waits.iter().all(|wait| !wait.wait.kind.is_lock()));
        let mut told: Vec<WakerReport> = woken
            .iter()
            .flatten()
            .map(|(who, ns)| WakerReport {
                label: labels.of(*who),
                tid: who.thread,
                woken_ns: *ns,
            })
            .collect();
        told.sort_by_key(|waker| (std::cmp::Reverse(waker.woken_ns), waker.tid));
        told.truncate(MOST_WAKERS);
        told
    }

    fn holders(&self, labels: &Labels, found: &Found) -> Vec<HolderReport> {
        let mut by: BTreeMap<ThreadId, Vec<&FoundHolder>> = BTreeMap::new();
        for holder in self.waits.iter().flat_map(|wait| &wait.holders) {
            by.entry(holder.who).or_default().push(holder);
        }
        let kept = self.kept();
        for who in kept.iter().flat_map(BTreeMap::keys) {
            by.entry(*who).or_default();
        }
        let kept_all = total(kept.iter().flat_map(BTreeMap::values).copied());
        let all = total(by.values().flatten().map(|holder| holder.looks));
        let objects: Vec<(Kind, (u32, u64))> = self
            .waits
            .iter()
            .filter_map(|of| Some((of.wait.kind, (of.wait.process, of.wait.object?))))
            .collect();
        let is_here = |wait: &Wait| {
            let object = wait.object.map(|object| (wait.process, object));
            object.is_some_and(|object| {
                let mut objects = objects.iter();
                objects.any(|(kind, here)| is_of_one(*kind, *here, object))
            })
        };
        let mut told: Vec<HolderReport> = by
            .iter()
            .map(|(who, parts)| {
                let looks = parts.iter().map(|holder| holder.looks).sum();
                let kept_ns = kept
                    .as_ref()
                    .map(|kept| kept.get(who).copied().unwrap_or(0));
                let asleep = parts.iter().filter(|holder| holder.meanwhile.is_some());
                let mut places: Vec<String> = found
                    .waits
                    .iter()
                    .filter(|wait| {
                        let waits = || wait.threads.iter().map(|(of, _)| of);
                        let slept = || wait.sleeps.iter().map(|slept| &slept.who);
                        is_here(&wait.wait) && waits().chain(slept()).any(|of| of == who)
                    })
                    .filter_map(|wait| wait.wait.stack.first().map(written))
                    .collect();
                places.sort();
                places.dedup();
                HolderReport {
                    label: labels.of(*who),
                    tid: who.thread,
                    looks,
                    share_pct: kept_ns.map_or_else(|| pct(looks, all), |ns| pct(ns, kept_all)),
                    kept_ns,
                    locks_at: match places.as_slice() {
                        [one] => Some(one.clone()),
                        _ => None,
                    },
                    asleep_looks: asleep.clone().map(|holder| holder.looks).sum(),
                    asleep_in: asleep
                        .max_by_key(|holder| holder.looks)
                        .and_then(|holder| in_words(holder.meanwhile.as_ref()?)),
                }
            })
            .collect();
        told.sort_by(|a, b| {
            let order = |it: &HolderReport| std::cmp::Reverse((it.kept_ns, it.looks));
            order(a).cmp(&order(b)).then(a.tid.cmp(&b.tid))
        });
        told
    }
}

pub(super) fn pct(part: u64, of: u64) -> f64 {
    part as f64 / of.max(1) as f64 * 100.0
}
