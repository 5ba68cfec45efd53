//! Programs without barriers in which one thread works all the time, or sleeps for a disk, and the others wait for its news by condition variables or semaphores: a stage of a
//! pipeline, or a producer, that sets the pace.

use super::{MOSTLY, slept_ns};
use crate::{
    report::{
        Figure, VerdictKind, VerdictReport, WaitKind,
        waits::{LookedThreadReport, LooksReport, WaitPlaceReport},
    },
    total::total,
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

/// A thread that sleeps at one place for this percentage of its time does nearly nothing else.
const ASLEEP: f64 = 85.0;

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

/// A thread of a team, and how much of its time it is on a CPU and ready without one, percent.
type Member<'a> = (&'a LookedThreadReport, f64, f64);

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
    set_by_work(looks, &team).or_else(|| set_by_sleep(looks, &team))
}

/// One thread works all the time. `team`: the busiest first.
fn set_by_work(looks: &LooksReport, team: &[Member<'_>]) -> Option<VerdictReport> {
    let [(busy, running, ready), others @ ..] = team else {
        return None;
    };
    let is_alone = others
        .first()
        .is_some_and(|next| next.1 + next.2 < ALSO_BUSY);
    if running + ready < BUSY || !is_alone {
        return None;
    }
    let others = Others::of(looks, busy, others.iter().copied())?;
    let lacks = if *ready >= READY {
        format!(", ready without one for {ready:.0} %")
    } else {
        String::new()
    };
    let does = format!("is on a CPU for {running:.0} % of its time{lacks}");
    let advice = "Make what it does faster, or divide it among more threads.";
    Some(others.verdict(busy, &does, advice, ("busy_pct", running + ready)))
}

/// One thread sleeps nearly all of its time for a disk, and wakes the others in between. These must be
/// known to be woken by this thread, and work, or nobody may have anything to do. A thread that waits
/// for a time to pass is no such one: work may just come at that rate.
fn set_by_sleep(looks: &LooksReport, team: &[Member<'_>]) -> Option<VerdictReport> {
    let mut found = None;
    for place in looks.in_the_work().filter(|place| is_of_disk(place)) {
        let at = || std::iter::once(place);
        let sleeps =
            |of: &Member<'_>| pct(slept(looks, of.0.tid, at()), of.0.watched_ns).min(100.0);
        let Some(sleeper) = team.iter().find(|member| sleeps(member) >= ASLEEP) else {
            continue;
        };
        // With several of them nobody knows which one sets the pace.
        if found.replace((place, sleeper, sleeps(sleeper))).is_some() {
            return None;
        }
    }
    let (place, sleeper, pct) = found?;
    let others = team.iter().filter(|other| other.0.tid != sleeper.0.tid);
    let run: f64 = others.clone().map(|other| other.1).sum();
    let others = Others::of(looks, sleeper.0, others.copied())?;
    if others.wakes_pct? < MOSTLY || run < STAGE * others.all.len() as f64 {
        return None;
    }
    let does = format!("sleeps for {pct:.0} % of its time in {}", place.called());
    let advice = "Write less often, or more at once.";
    Some(others.verdict(sleeper.0, &does, advice, ("sleeps_pct", pct)))
}

/// Whether threads sleep there until data is on a disk.
pub(super) fn is_of_disk(place: &WaitPlaceReport) -> bool {
    let calls = ["fsync", "fdatasync", "msync", "sync_file_range", "syncfs"];
    let call = place.call.as_deref().unwrap_or_default();
    place.kind == WaitKind::Io && calls.contains(&call)
}

/// The threads that wait for the one that sets the pace.
struct Others<'a> {
    all: Vec<&'a LookedThreadReport>,
    /// The percentage of their time for which they sleep.
    waits_pct: f64,
    /// Where they sleep, most first, and the share of all threads' time, percent.
    places: Vec<&'a WaitPlaceReport>,
    share_pct: f64,
    /// The percentage of that sleep that the one thread has ended; `None` if that is not known.
    wakes_pct: Option<f64>,
}

impl<'a> Others<'a> {
    /// `None` if the others do not wait for this thread for most of their time.
    fn of(
        looks: &'a LooksReport,
        pacer: &LookedThreadReport,
        others: impl Iterator<Item = Member<'a>>,
    ) -> Option<Self> {
        // Threads of other processes wait for other things.
        let others: Vec<Member<'a>> = others.filter(|other| other.0.pid == pacer.pid).collect();
        let mut places: Vec<&WaitPlaceReport> = looks
            .in_the_work()
            .filter(|place| is_of_news(place.kind))
            .collect();
        places.sort_by(|a, b| b.share_pct.total_cmp(&a.share_pct));
        let share_pct: f64 = places.iter().map(|place| place.share_pct).sum();
        let waited = |thread: &LookedThreadReport| slept(looks, thread.tid, places.iter().copied());
        let waited_ns = total(others.iter().map(|other| waited(other.0)));
        let lived_ns = total(others.iter().map(|other| other.0.watched_ns));
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
        let wakes_pct = is_known.then(|| pct(woken(Some(pacer.tid)), woken(None)));
        let is_for_it = if let Some(pct) = wakes_pct {
            pct >= WAKES * 100.0 / others.len() as f64
        } else {
            // Threads that a library keeps ready wait for nobody: those that work are stages.
            let run: f64 = others.iter().map(|other| other.1).sum();
            looks.sums.is_none() && run >= STAGE * others.len() as f64
        };
        is_for_it.then(|| Self {
            all: others.into_iter().map(|other| other.0).collect(),
            waits_pct,
            places,
            share_pct,
            wakes_pct,
        })
    }

    /// `does`: how the thread spends its time, and the figure of that.
    fn verdict(
        &self,
        pacer: &LookedThreadReport,
        does: &str,
        advice: &str,
        figure: (&'static str, f64),
    ) -> VerdictReport {
        let waits_pct = self.waits_pct;
        let them = match self.all.as_slice() {
            [one] => format!(
                "{} {} sleeps for {waits_pct:.0} % of its time",
                one.label, one.name
            ),
            all => format!(
                "the {} others sleep for {waits_pct:.0} % of theirs",
                all.len()
            ),
        };
        let until = match (self.wakes_pct, self.all.as_slice()) {
            (Some(pct), [_]) if pct >= MOSTLY => {
                format!(", mostly until {} wakes it", pacer.label)
            }
            (Some(pct), _) if pct >= MOSTLY => ", mostly until it wakes them".to_owned(),
            _ => String::new(),
        };
        let at: Vec<String> = self
            .places
            .iter()
            .take(2)
            .map(|place| place.called())
            .collect();
        let text = format!(
            "one thread sets the pace: {} {} {does}, and {them}{until} ({}). {advice}",
            pacer.label,
            pacer.name,
            at.join("; "),
        );
        let mut evidence = std::collections::BTreeMap::from([
            ("share_pct", Figure::Real(self.share_pct)),
            (figure.0, Figure::Real(figure.1)),
            ("waits_pct", Figure::Real(waits_pct)),
        ]);
        if let Some(pct) = self.wakes_pct {
            evidence.insert("wakes_pct", Figure::Real(pct));
        }
        VerdictReport {
            kind: VerdictKind::Bottleneck,
            site: None,
            thread: pacer.thread,
            text,
            evidence,
        }
    }
}
