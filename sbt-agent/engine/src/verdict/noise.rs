//! Whether a thread that works longer has more work, or merely worked where the same work took longer:
//! memory, a CPU's other thread, or whoever else uses the machine make equal work take twice as long at
//! times, and by chance mostly that of one thread.

use super::{
    culprit::{Culprit, members},
    drift::changes_steadily,
};
use crate::report::{Report, SiteReport, StatReport};

/// Threads with fewer phases show no range.
const MANY: u64 = 8;

/// Work of the others that varies by less than this factor is not disturbed: what one thread works
/// longer is its own.
const QUIET: f64 = 1.25;

/// Disturbances do not make the work of a thread take longer by this factor on average.
const TWICE: f64 = 2.0;

/// Nor does memory that is further away all along make the least work take longer by this factor.
const MUCH: f64 = 1.5;

/// The mean of a time of several threads, ns.
fn mean(of: fn(&StatReport) -> u64, all: &[&StatReport]) -> f64 {
    all.iter().map(|work| of(work) as f64).sum::<f64>() / all.len().max(1) as f64
}

/// Whether the usual work of the thread that others wait for takes no longer than their own long phases do,
/// and its least work not much longer than theirs, so that nothing shows that it has more to do. False where
/// that is unknown.
pub fn is_noise(report: &Report, site: &SiteReport) -> bool {
    Culprit::of(report, site).is_some_and(|culprit| is_noise_of(site, &culprit))
}

/// [`is_noise`] for the thread that others wait for, once that is found.
pub fn is_noise_of(site: &SiteReport, culprit: &Culprit) -> bool {
    is_noise_at(
        site,
        culprit.thread,
        (culprit.own.own(), culprit.others.own()),
    )
}

/// [`is_noise`] for any thread. `works`: how long it works, and how long the others do on average.
pub fn is_noise_at(site: &SiteReport, thread: u32, works: (f64, f64)) -> bool {
    // The program itself gives all threads less and less to do, or more and more: that their work varies
    // tells nothing of the machine.
    if works.0 >= TWICE * works.1 || changes_steadily(site, TWICE) {
        return false;
    }
    let of = |is_own: bool| -> Vec<&StatReport> {
        let all = members(site).into_iter();
        let all = all.filter(|member| (member.thread == thread) == is_own);
        let works = all.filter_map(|member| member.each.work_ns.as_ref());
        works.filter(|work| work.count >= MANY).collect()
    };
    let (own, others) = (of(true), of(false));
    if own.is_empty() || others.is_empty() {
        return false;
    }
    let least = |all: &[&StatReport]| mean(|work| work.min, all);
    let long = mean(|work| work.p95, &others);
    let is_varied = long > QUIET * least(&others);
    is_varied && mean(|work| work.p50, &own) < long && least(&own) < MUCH * least(&others)
}
