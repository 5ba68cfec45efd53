//! Programs without barriers whose threads wait for one thread, or for others that wait for it: the
//! slowest stage of a pipeline, with the stages before and behind it.
//!
//! The kernel tells which thread ended each sleep. A wait for a thread that itself waits is passed on
//! to those for which that one waits, in proportion: of a thread's time, what it does not wait for
//! others is its own.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::{
    report::{
        Figure, VerdictKind, VerdictReport, WaitKind,
        waits::{LookedThreadReport, LooksReport, PairReport, WaitPlaceReport},
    },
    total::total,
};

/// A thread that waits for others for less than this percentage of its time goes on by itself.
const OWN: f64 = 15.0;

/// The fraction of all waits for others that must be for one thread at the end of the chain.
const ALL: f64 = 2.0 / 3.0;

/// Percentage of the threads' time from which their waits are told.
const MUCH: f64 = 10.0;

/// The least part of its time, in percent, for which the verdict says what the thread does; and the least
/// part of all waits that a thread must end to set the pace.
const PART: f64 = 5.0;

/// How it spends this percentage of its time must be known.
const KNOWN: f64 = 75.0;

/// Another thread that wants a CPU for this percentage could be as much to blame.
const ALSO_BUSY: f64 = 70.0;

/// The others wait for others for at least so much more of their time, points.
const APART: f64 = 10.0;

/// Fewer sleeps than this may be chance.
const MANY: u64 = 20;

/// A thread that sleeps less often in all was never given work, or only once.
const FEW_SLEEPS: u64 = 4;

/// Waits are passed on this many times, which is more than a pipeline has stages as a rule.
const STEPS: usize = 64;

fn pct(part: u64, of: u64) -> f64 {
    part as f64 / of.max(1) as f64 * 100.0
}

/// A verdict on the thread for which the others wait in the end.
pub(super) fn one(looks: &LooksReport) -> Option<VerdictReport> {
    looks.sums?;
    let waits = Waits::of(looks);
    let (tid, share) = waits.ends()?;
    let one = looks.threads.iter().find(|thread| thread.tid == tid)?;
    let others = looks.threads.iter().filter(|thread| thread.tid != tid);
    let team: Vec<&LookedThreadReport> = others
        .clone()
        .filter(|thread| waits.for_others_pct(thread.tid) >= 1.0)
        .collect();
    let lived_ns = total(team.iter().map(|thread| thread.watched_ns));
    let parts = team
        .iter()
        .map(|thread| waits.for_others_pct(thread.tid) * thread.watched_ns as f64);
    let waits_pct = parts.sum::<f64>() / lived_ns.max(1) as f64;
    if share < ALL || waits_pct < MUCH || waits.for_others_pct(tid) >= OWN {
        return None;
    }
    let Own {
        text: does,
        advice,
        wants,
        naps,
    } = Own::of(looks, one)?;
    // Work may just come at the rate at which a thread makes it that sleeps for a time.
    if naps && !waits.is_amid(tid) {
        return None;
    }
    // If several threads are equally busy, chance decides for which of them the others wait.
    let is_alike = |other: &LookedThreadReport| {
        let wants_too = wants && wanted_pct(other).is_none_or(|pct| pct >= ALSO_BUSY);
        let waits_pct = waits.for_others_pct(other.tid);
        let goes_on = waits_pct < waits.for_others_pct(tid) + APART && waits.wakes(other.tid);
        wants_too || goes_on && other.watched_ns > 0
    };
    if others.clone().any(is_alike) {
        return None;
    }
    let them = match team.as_slice() {
        [] => return None,
        [other] => format!(
            "{} {} waits for it for {waits_pct:.0} % of its time",
            other.label, other.name
        ),
        all => format!(
            "{} others wait for it, or for each other behind it, for {waits_pct:.0} % of theirs",
            all.len()
        ),
    };
    Some(VerdictReport {
        kind: VerdictKind::Bottleneck,
        site: None,
        thread: one.thread,
        text: format!(
            "one thread sets the pace: {} {} {does}, and {them}. {advice}",
            one.label, one.name
        ),
        evidence: BTreeMap::from([
            ("share_pct", Figure::Real(waits_pct)),
            ("behind_pct", Figure::Real(share * 100.0)),
        ]),
    })
}

/// Whether a thread slept no more than a few times in all.
fn is_parked(looks: &LooksReport, tid: u32) -> bool {
    let sleeps_at = |place: &WaitPlaceReport| {
        let is_there = place.threads.iter().any(|thread| thread.tid == tid);
        let each = place.sleeps? / (place.threads.len() as u64).max(1);
        is_there.then_some(each)
    };
    let known: Vec<u64> = looks.places.iter().filter_map(sleeps_at).collect();
    !known.is_empty() && total(known) < FEW_SLEEPS
}

/// The waits of threads for each other.
struct Waits {
    /// For each thread that waits: for whom, how long, ns, and for which part of its time, percent.
    by: HashMap<u32, Vec<(u32, u64, f64)>>,
    /// The part of its time for which each thread is ready without a CPU, percent.
    ready: HashMap<u32, f64>,
}

impl Waits {
    fn of(looks: &LooksReport) -> Self {
        let mut all: HashMap<u32, Vec<(u32, u64, f64)>> = HashMap::new();
        // A thread that waits for the end of a thread or a process has no part in the work, nor has a
        // thread that was never given any.
        let parks = [WaitKind::Join, WaitKind::Child];
        let is_part =
            |pair: &&PairReport| !parks.contains(&pair.kind) && !is_parked(looks, pair.waiter_tid);
        for pair in looks.pairs.iter().filter(is_part) {
            let known = all.entry(pair.waiter_tid).or_default();
            known.push((pair.waker_tid, pair.slept_ns, pair.share_pct));
        }
        let ready = looks.threads.iter().filter_map(|thread| {
            let part = pct(thread.ready_ns?, thread.watched_ns);
            Some((thread.tid, part))
        });
        Self {
            by: all,
            ready: ready.collect(),
        }
    }

    fn by(&self, tid: u32) -> &[(u32, u64, f64)] {
        self.by.get(&tid).map_or(&[], Vec::as_slice)
    }

    fn for_others_pct(&self, tid: u32) -> f64 {
        let all: f64 = self.by(tid).iter().map(|(_, _, pct)| pct).sum();
        all.min(100.0)
    }

    /// The part of the waits for a thread that is passed on to others: the part of its time for which the
    /// thread itself waits for others. The time in which it lacks a CPU does not count: a thread without
    /// a CPU neither works nor waits.
    fn passed_on(&self, tid: u32) -> f64 {
        let waits = self.for_others_pct(tid);
        let ready = self.ready.get(&tid).copied().unwrap_or(0.0);
        (waits / (100.0 - ready).max(1.0)).min(1.0)
    }

    /// The threads that wait for this one for a good part of their time.
    fn of_those_behind(&self, tid: u32) -> BTreeSet<u32> {
        let waits = |pairs: &[(u32, u64, f64)]| {
            pairs
                .iter()
                .any(|(waker, _, pct)| *waker == tid && *pct >= MUCH)
        };
        let all = self
            .by
            .iter()
            .filter(|(waiter, pairs)| **waiter != tid && waits(pairs));
        all.map(|(waiter, _)| *waiter).collect()
    }

    /// Whether a thread stands amid others: several wait for it, and at least one more for one of these. A
    /// source of work has all others behind it, each in its turn.
    fn is_amid(&self, tid: u32) -> bool {
        let next = self.of_those_behind(tid);
        let mut further = next.iter().flat_map(|next| self.of_those_behind(*next));
        next.len() > 1 && further.any(|other| other != tid && !next.contains(&other))
    }

    /// Whether a part of all waits for others ended by a thread.
    fn wakes(&self, tid: u32) -> bool {
        let sum = |is_counted: &dyn Fn(u32) -> bool| {
            let all = self.by.values().flatten();
            let counted = all.filter(|(by, ..)| is_counted(*by));
            total(counted.map(|(_, ns, _)| *ns))
        };
        pct(sum(&|by| by == tid), sum(&|_| true)) >= PART
    }

    /// The thread at which most of the waits end, and their part of all.
    fn ends(&self) -> Option<(u32, f64)> {
        // The waits that have come to a thread and are to be passed on.
        let mut moving: BTreeMap<u32, f64> = BTreeMap::new();
        for (waker, ns, _) in self.by.values().flatten() {
            *moving.entry(*waker).or_default() += *ns as f64;
        }
        let whole: f64 = moving.values().sum();
        let mut ended: BTreeMap<u32, f64> = BTreeMap::new();
        for _ in 0..STEPS {
            let mut next: BTreeMap<u32, f64> = BTreeMap::new();
            for (tid, ns) in moving {
                let waits = self.passed_on(tid);
                *ended.entry(tid).or_default() += ns * (1.0 - waits);
                let all_ns = total(self.by(tid).iter().map(|(_, part, _)| *part)).max(1);
                for (waker, part, _) in self.by(tid) {
                    let part = *part as f64 / all_ns as f64;
                    *next.entry(*waker).or_default() += ns * waits * part;
                }
            }
            moving = next;
        }
        let most = ended.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
        (whole > 0.0).then(|| (most.0, most.1 / whole))
    }
}

/// How a thread spends its time without waiting for others.
struct Own {
    text: String,
    advice: &'static str,
    /// Whether it mostly wants a CPU, and does not sleep.
    wants: bool,
    /// Whether it mostly sleeps until a time has passed.
    naps: bool,
}

/// For how much of its time a thread is on a CPU or ready for one, percent; `None` if unknown.
fn wanted_pct(thread: &LookedThreadReport) -> Option<f64> {
    let wanted_ns = thread.running_ns?.saturating_add(thread.ready_ns?);
    Some(pct(wanted_ns, thread.watched_ns))
}

impl Own {
    /// `None` if that is not known of most of its time, or if it waits for something outside of the
    /// program.
    fn of(looks: &LooksReport, one: &LookedThreadReport) -> Option<Self> {
        let part = |ns| pct(ns, one.watched_ns);
        let (running, ready) = (part(one.running_ns?), part(one.ready_ns?));
        let slept = |place: &WaitPlaceReport| {
            let own = place.threads.iter().filter(|thread| thread.tid == one.tid);
            part(total(own.map(|thread| looks.slept_ns(thread)))).min(100.0)
        };
        let sleeps: Vec<(&WaitPlaceReport, f64)> = looks
            .in_the_work()
            .filter(|place| place.kind == WaitKind::Sleep || super::pace::is_of_disk(place))
            .filter(|place| place.sleeps.is_some_and(|sleeps| sleeps >= MANY))
            .map(|place| (place, slept(place)))
            .filter(|(_, pct)| *pct >= PART)
            .collect();
        let asleep: f64 = sleeps.iter().map(|(_, pct)| pct).sum();
        if running + ready + asleep < KNOWN {
            return None;
        }
        let mut does = Vec::new();
        if running >= PART {
            does.push(format!("is on a CPU for {running:.0} % of its time"));
        }
        if ready >= PART {
            does.push(format!("is ready without a CPU for {ready:.0} %"));
        }
        for (place, pct) in &sleeps {
            let called = place.called();
            does.push(format!("sleeps for {pct:.0} % of its time in {called}"));
        }
        let most = sleeps.iter().max_by(|a, b| a.1.total_cmp(&b.1));
        let most = most.filter(|(_, pct)| *pct > running + ready);
        let naps = most.is_some_and(|(place, _)| place.kind == WaitKind::Sleep);
        let advice = match most {
            Some(_) if naps => "Sleep less there, if it need not be.",
            Some(_) => "Write less often, or more at once.",
            None => "Make what it does faster, or divide it among more threads.",
        };
        Some(Self {
            text: does.join(", "),
            advice,
            wants: running + ready > asleep,
            naps,
        })
    }
}
