//! Semaphores that let a few threads in at a time, such as a pool of connections, for which the others
//! wait.

use super::{counted, evidence, is_worth, share};
use crate::report::{
    VerdictKind, VerdictReport, WaitKind,
    waits::{LooksReport, WaitPlaceReport},
};

/// Percentage of the threads' time from which that is told: it is not known who has been let in.
const MUCH: f64 = 10.0;

/// A verdict on each semaphore for which threads wait long, if those that post it are those that wait
/// for it. Who waits for work is woken by others.
pub(super) fn semaphores(looks: &LooksReport) -> Vec<VerdictReport> {
    let is_told = |place: &&WaitPlaceReport| {
        place.kind == WaitKind::Semaphore
            && place.objects == 1
            && is_worth(&[place])
            && place.share_pct >= MUCH
            && is_posted_by_its_waiters(place)
    };
    let all = looks.in_the_work().filter(is_told);
    all.map(|place| verdict(looks, place)).collect()
}

fn is_posted_by_its_waiters(place: &WaitPlaceReport) -> bool {
    let waits = |tid| place.threads.iter().any(|thread| thread.tid == tid);
    place.wakers.len() > 1 && place.wakers.iter().all(|waker| waits(waker.tid))
}

fn verdict(looks: &LooksReport, place: &WaitPlaceReport) -> VerdictReport {
    let places = [place];
    let share_pct = share(&places);
    let text = format!(
        "contended semaphore: threads wait {share_pct:.0} % of their time for {} {}, until one of \
         themselves posts it: as many are in as it lets in. Let more in, if what it guards allows that, \
         or do less while in.",
        place.called(),
        counted(looks, share_pct, &places),
    );
    VerdictReport {
        kind: VerdictKind::LockContention,
        site: None,
        thread: None,
        text,
        evidence: evidence(looks, share_pct, &places),
    }
}
