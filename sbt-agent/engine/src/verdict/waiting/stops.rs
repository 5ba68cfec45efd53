//! How much of a sleep is the threads' own. While a program is stopped or frozen, its threads seem to sleep where
//! they are: in a page fault, if they were in no system call. While a CPU quota stops a thread, those that wait for
//! it sleep on.

use std::borrow::Cow;

use crate::{
    report::{Report, WaitKind, waits::LooksReport},
    verdict::{lack, words::whole},
};

/// Times in which the program was stopped, frozen or throttled while sbt looked at its threads.
pub(super) struct Stops<'a> {
    looks: &'a LooksReport,
    /// The most time for which the program was stopped or frozen, ns.
    stood_ns: u64,
    /// The most time for which a CPU quota stopped a thread, ns.
    throttled_ns: u64,
}

impl<'a> Stops<'a> {
    pub fn of(report: &Report, looks: &'a LooksReport) -> Self {
        Self {
            looks,
            stood_ns: lack::stood::at_most_ns(report),
            throttled_ns: lack::throttled_at_most_ns(report),
        }
    }

    /// The part of a thread's sleep of `slept_ns` that nothing from outside explains, ns. `kind`: for what it
    /// sleeps. A quota makes no pause longer: the time ends it.
    pub fn left_ns(&self, kind: WaitKind, slept_ns: u64) -> u64 {
        let throttled_ns = match kind {
            WaitKind::Sleep => 0,
            _ => self.throttled_ns,
        };
        slept_ns.saturating_sub(self.stood_ns.saturating_add(throttled_ns))
    }

    /// The looks without the parts of sleeps that something from outside explains.
    pub fn left(&self) -> Cow<'a, LooksReport> {
        if self.stood_ns == 0 && self.throttled_ns == 0 {
            return Cow::Borrowed(self.looks);
        }
        let mut left = self.looks.clone();
        for place in &mut left.places {
            let (mut all_ns, mut all_left_ns) = (0_u64, 0_u64);
            for row in &mut place.threads {
                let slept_ns = self.looks.slept_ns(row);
                let left_ns = self.left_ns(place.kind, slept_ns);
                let part = part(left_ns, slept_ns);
                row.share_pct *= part;
                row.looks = whole(row.looks as f64 * part);
                row.slept_ns = row.slept_ns.map(|_| left_ns);
                all_ns = all_ns.saturating_add(slept_ns);
                all_left_ns = all_left_ns.saturating_add(left_ns);
            }
            let part = part(all_left_ns, all_ns);
            place.share_pct *= part;
            place.looks = whole(place.looks as f64 * part);
            place.slept_ns = place.slept_ns.map(|ns| whole(ns as f64 * part));
        }
        Cow::Owned(left)
    }

    /// The percentage of its time for which a thread may have stood still.
    pub fn stood_pct(&self) -> f64 {
        let stood_ns = self.stood_ns.saturating_add(self.throttled_ns);
        (stood_ns as f64 / self.looks.span_ns.max(1) as f64 * 100.0).min(100.0)
    }

    /// Number of looks at a thread that may have found it standing still.
    pub fn stood_looks(&self) -> u64 {
        let each_ns = self.looks.span_ns / self.looks.looks.max(1);
        self.stood_ns.checked_div(each_ns).unwrap_or(0)
    }
}

fn part(left_ns: u64, of_ns: u64) -> f64 {
    left_ns as f64 / of_ns.max(1) as f64
}
