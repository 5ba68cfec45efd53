//! Places where threads sleep in their work.

use super::{
    MOSTLY,
    advice::{advice_at, is_ordered},
    counted, evidence, is_lock, is_worth,
};
use crate::{
    report::{
        Figure, VerdictKind, VerdictReport, WORTH, WaitKind,
        waits::{LooksReport, WaitPlaceReport, WaitThreadReport},
    },
    total::total,
};

/// A verdict on each place where threads sleep in their work for long. `cpus`: those of the program, if that
/// is known. `is_said`: whether another verdict tells of the place.
pub(super) fn sleeps(
    looks: &LooksReport,
    cpus: Option<u32>,
    is_said: impl Fn(&WaitPlaceReport) -> bool,
) -> Vec<VerdictReport> {
    let places = looks.in_the_work().filter(|place| explains(place));
    // Threads that wait for each other lose nothing by it if those that do not wait want all CPUs.
    let are_taken = cpus.is_some_and(|cpus| looks.want_all(cpus));
    let is_of_each_other = |place: &WaitPlaceReport| place.share_pct >= MUCH && !are_taken;
    places
        .filter(|place| is_worth(&[place]) && place.share_pct >= WORTH && !is_said(place))
        .filter(|place| !is_lock(place.kind) && (is_sleep(place.kind) || is_of_each_other(place)))
        .map(|place| sleep(looks, place))
        .collect()
}

/// Whether threads sleep there for something outside of the program's threads.
pub(super) const fn is_sleep(kind: WaitKind) -> bool {
    matches!(
        kind,
        WaitKind::Sleep | WaitKind::Io | WaitKind::Fault | WaitKind::Child | WaitKind::Poll
    )
}

/// Percentage of thread time from which waits of the program's threads for each other are told: a
/// queue is empty now and then.
const MUCH: f64 = 10.0;

/// Whether a place tells for what threads sleep there.
pub(super) fn explains(place: &WaitPlaceReport) -> bool {
    // While a library of messages begins or waits for one, nobody knows for what.
    let call = place.call.as_deref().unwrap_or_default();
    let of_messages = call.starts_with("MPI_") || call.starts_with("PMPI_");
    let of_each_other = matches!(place.kind, WaitKind::Condvar | WaitKind::Semaphore);
    let of_turns = place.kind == WaitKind::Other && is_ordered(place);
    let is_known = is_sleep(place.kind) || of_each_other || of_turns;
    // A place inside of a library is none that the user could mend: the program's call is not known.
    is_lock(place.kind) || (is_known && !of_messages && !place.in_library)
}

fn sleep(looks: &LooksReport, place: &WaitPlaceReport) -> VerdictReport {
    let share_pct = place.share_pct;
    let who = match place.threads.as_slice() {
        [one] => one.label.clone(),
        [first, ..] if is_mostly(first, place) => format!("mostly {}", first.label),
        several => format!("{} threads", several.len()),
    };
    let text = format!(
        "asleep in the work: {share_pct:.0} % of thread time {} goes by in {} ({who}){}. {}.",
        counted(looks, share_pct, &[place]),
        place.called(),
        woken(place),
        advice_at(place)
    );
    let mut evidence = evidence(looks, share_pct, &[place]);
    evidence.insert("known_pct", Figure::Real(share_pct));
    VerdictReport {
        kind: VerdictKind::AsleepInTheWork,
        site: None,
        thread: None,
        text,
        evidence,
    }
}

/// Which thread mostly wakes those that sleep there, in words; empty if that is not known, or if no
/// single one does.
fn woken(place: &WaitPlaceReport) -> String {
    let all = total(place.wakers.iter().map(|waker| waker.woken_ns));
    let first = place.wakers.first();
    let most = first.filter(|first| first.woken_ns as f64 >= MOSTLY / 100.0 * all as f64);
    most.map_or_else(String::new, |waker| {
        format!(", woken mostly by {}", waker.label)
    })
}

/// Whether a thread is the one that sleeps at a place, apart from exceptions.
fn is_mostly(thread: &WaitThreadReport, place: &WaitPlaceReport) -> bool {
    const MOST: f64 = 0.9;
    match (thread.slept_ns, place.slept_ns) {
        (Some(own), Some(all)) => own as f64 >= MOST * all as f64,
        _ => thread.looks as f64 >= MOST * place.looks as f64,
    }
}
