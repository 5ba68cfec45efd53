//! Whether a thread that works longer has more work, or merely worked where the same work took longer:
//! memory, a CPU's other thread, or whoever else uses the machine make equal work take twice as long at
//! times, and by chance mostly that of one thread.

use super::culprit::{Culprit, members};
use crate::report::{Report, SiteReport, StatReport};

/// Threads with fewer phases show no range.
const MANY: u64 = 8;

/// Work of the others that varies by less than this factor is not disturbed: what one thread works
/// longer is its own.
const QUIET: f64 = 1.25;

/// By which factor the least and the median work of a thread must be longer than those of the others.
const LONGER: f64 = 1.15;

/// Disturbances do not make the work of a thread take longer by this factor on average.
const TWICE: f64 = 2.0;

/// How long the work of a thread is: the least, the median, and that of long phases, ns.
struct Range {
    least: f64,
    median: f64,
    long: f64,
}

impl Range {
    fn of(work: &StatReport) -> Self {
        Self {
            least: work.min as f64,
            median: work.p50 as f64,
            long: work.p95 as f64,
        }
    }

    /// The mean of several; `None` of none.
    fn mean(all: &[Self]) -> Option<Self> {
        let mean = |of: fn(&Self) -> f64| all.iter().map(of).sum::<f64>() / all.len() as f64;
        (!all.is_empty()).then(|| Self {
            least: mean(|range| range.least),
            median: mean(|range| range.median),
            long: mean(|range| range.long),
        })
    }

    /// Whether work of this range is longer throughout: the shortest, the usual, and the longest.
    fn is_longer_than(&self, others: &Self) -> bool {
        self.least >= LONGER * others.least
            && self.median >= LONGER * others.median
            && self.long >= others.long
    }
}

/// Whether the work of the thread that others wait for varies in the same range as theirs, so that
/// nothing shows that it has more to do. False where that is unknown.
pub fn is_noise(report: &Report, site: &SiteReport) -> bool {
    Culprit::of(report, site).is_some_and(|culprit| is_noise_of(site, &culprit))
}

/// The same for a thread that is known.
pub fn is_noise_of(site: &SiteReport, culprit: &Culprit) -> bool {
    if culprit.own.own() >= TWICE * culprit.others.own() {
        return false;
    }
    let (mut own, mut others) = (None, Vec::new());
    for member in members(site) {
        let Some(work) = member.each.work_ns.as_ref() else {
            continue;
        };
        if work.count < MANY {
            continue;
        }
        if member.thread == culprit.thread {
            own = Some(Range::of(work));
        } else {
            others.push(Range::of(work));
        }
    }
    let (Some(own), Some(others)) = (own, Range::mean(&others)) else {
        return false;
    };
    others.long > QUIET * others.least && !own.is_longer_than(&others)
}
