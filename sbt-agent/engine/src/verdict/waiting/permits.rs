//! Semaphores that let a few threads in at a time, such as a pool of connections, for which the others
//! wait.

use super::{counted, evidence, is_worth, share};
use crate::report::{
    VerdictKind, VerdictReport, WaitKind,
    waits::{LooksReport, WaitPlaceReport},
};

/// Percentage of the threads' time from which a wait for a semaphore is told. High, since the threads
/// that have been let in are unknown.
const MUCH: f64 = 10.0;

/// Threads that wait for several locks of an interpreter at one place wait for each other if there are so
/// many: two may work in turns.
const MANY: usize = 3;

/// So many threads may meet at a semaphore; of two that share one, each keeps the other out.
const TEAM: usize = 3;

/// How the functions begin by which Python's locks are taken, where these are semaphores
/// (`Python/thread_pthread.h`). Other programs have several semaphores at one place for other purposes, such as
/// to hand work on.
const PYTHON_LOCKS: &str = "PyThread_acquire_lock";

/// A verdict on each semaphore for which threads wait long, with its place, if those that post it are those that wait
/// for it. Threads that wait for work are woken by other threads.
pub(super) fn semaphores(looks: &LooksReport) -> Vec<(VerdictReport, &WaitPlaceReport)> {
    let is_told = |place: &&WaitPlaceReport| {
        place.kind == WaitKind::Semaphore
            && (place.objects == 1 || are_locks(place) && place.wakers.len() >= MANY)
            && is_worth(&[place])
            && share(&[place]) >= MUCH
            && is_posted_by_its_waiters(place)
    };
    let all = looks.in_the_work().filter(is_told);
    all.map(|place| (verdict(looks, place), place)).collect()
}

fn are_locks(place: &WaitPlaceReport) -> bool {
    let function = place.function.as_deref().unwrap_or_default();
    place.objects > 1 && function.starts_with(PYTHON_LOCKS)
}

fn is_posted_by_its_waiters(place: &WaitPlaceReport) -> bool {
    let waits = |tid| place.threads.iter().any(|thread| thread.tid == tid);
    place.wakers.len() > 1 && place.wakers.iter().all(|waker| waits(waker.tid))
}

/// Whether threads may not only share what the semaphore guards, but meet there: barriers are made of semaphores too,
/// as in Downey's "Little Book of Semaphores" (3.6). In both, each thread posts as often as it waits, and wakes others
/// that wait at the same place, so nothing that is summed up tells the one from the other.
fn may_be_meeting(place: &WaitPlaceReport) -> bool {
    place.threads.len() >= TEAM
}

fn verdict(looks: &LooksReport, place: &WaitPlaceReport) -> VerdictReport {
    let places = [place];
    let share_pct = share(&places);
    if place.objects > 1 {
        let text = format!(
            "contended lock: threads wait {share_pct:.0} % of their time for {} {}, until one of themselves \
             goes on: they share a lock, or work in turns. Hold it for a shorter time, or let each have its \
             own.",
            place.called(),
            counted(looks, share_pct, &places),
        );
        return contention(looks, text, share_pct, &places);
    }
    if may_be_meeting(place) {
        let text = format!(
            "waits at a semaphore: threads wait {share_pct:.0} % of their time for {} {}, until one of \
             themselves posts it. If it lets a few in at a time, let more in, if what it guards allows that, or \
             do less while in. If all meet there, as at a barrier, divide the work before it more evenly.",
            place.called(),
            counted(looks, share_pct, &places),
        );
        return contention(looks, text, share_pct, &places);
    }
    let text = format!(
        "contended semaphore: threads wait {share_pct:.0} % of their time for {} {}, until one of \
         themselves posts it: as many are in as it lets in. Let more in, if what it guards allows that, \
         or do less while in.",
        place.called(),
        counted(looks, share_pct, &places),
    );
    contention(looks, text, share_pct, &places)
}

fn contention(
    looks: &LooksReport,
    text: String,
    share_pct: f64,
    places: &[&WaitPlaceReport],
) -> VerdictReport {
    VerdictReport {
        kind: VerdictKind::LockContention,
        site: None,
        thread: None,
        text,
        evidence: evidence(looks, share_pct, places),
    }
}
