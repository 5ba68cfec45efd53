//! Which threads have been asleep for a while: those that each look from outside saw asleep, and that have
//! used no CPU from one look to the next.

use std::collections::HashMap;

use sbt_engine::report::waits::{LookedThreadReport, LooksReport};

/// A thread that rests for less counts as working: it may have slept between two looks only, ns.
const LEAST_NS: u64 = 500_000_000;

/// Looks are at most 1.25 s apart. Where none has come for longer, nothing is known of the present, ns.
const LONGEST_NS: u64 = 2_500_000_000;

/// Since when threads rest, by the id of the thread in the report.
#[derive(Debug, Default)]
pub struct Rests(HashMap<u32, Rest>);

#[derive(Clone, Copy, Debug)]
struct Rest {
    used: Used,
    /// The number of looks so far.
    looks: u64,
    /// Since when `used` has not changed, and the last look at which that was so, ns.
    since_ns: u64,
    until_ns: u64,
}

/// Counts of a thread that stand still only while the thread sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Used {
    running_ns: u64,
    ready_ns: u64,
    /// Looks that saw it awake: the kernel adds the time ready without a CPU only when it ends.
    awake_looks: u64,
}

impl Used {
    fn of(thread: &LookedThreadReport) -> Option<Self> {
        Some(Self {
            running_ns: thread.running_ns?,
            ready_ns: thread.ready_ns?,
            awake_looks: thread.looks.checked_sub(thread.asleep_looks)?,
        })
    }
}

impl Rests {
    /// Takes in what looks have shown until `now_ns`.
    pub fn look(&mut self, looks: &LooksReport, now_ns: u64) {
        for thread in &looks.threads {
            let Some(number) = thread.thread else {
                continue;
            };
            let Some(used) = Used::of(thread) else {
                self.0.remove(&number);
                continue;
            };
            let new = Rest {
                used,
                looks: thread.looks,
                since_ns: now_ns,
                until_ns: now_ns,
            };
            let rest = self.0.entry(number).or_insert(new);
            // After a reset there have been fewer looks.
            if rest.used != used || thread.looks < rest.looks {
                *rest = new;
            } else if thread.looks > rest.looks {
                (rest.looks, rest.until_ns) = (thread.looks, now_ns);
            }
        }
    }

    /// Since when a thread has been asleep that is in no barrier since `from_ns`, ns; `None` if it works, or
    /// if that is not known.
    pub fn since(&self, thread: u32, from_ns: u64, now_ns: u64) -> Option<u64> {
        let rest = self.0.get(&thread)?;
        // The rest may have begun in a barrier, before the thread left the barrier.
        let since_ns = rest.since_ns.max(from_ns);
        let is_known = rest.until_ns >= since_ns.saturating_add(LEAST_NS)
            && now_ns <= rest.until_ns.saturating_add(LONGEST_NS);
        is_known.then_some(since_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A thread that was asleep at all looks but so many.
    fn looks(looks: u64, awake: u64, running_ms: Option<u64>) -> LooksReport {
        let thread = LookedThreadReport {
            thread: Some(3),
            label: "T3".into(),
            tid: 33,
            pid: 30,
            name: "worker".into(),
            looks,
            asleep_looks: looks - awake,
            alone_looks: 0,
            watched_ns: 0,
            running_ns: running_ms.map(|ms| ms * MS),
            ready_ns: Some(MS),
            blocked_ns: None,
        };
        LooksReport {
            threads: vec![thread],
            ..LooksReport::default()
        }
    }

    #[test]
    fn who_uses_no_cpu_and_is_asleep_at_each_look_is_asleep() {
        let mut rests = Rests::default();
        for (now_ms, looks_so_far, awake, running_ms, since_ms) in [
            (1000, 10, 4, Some(90), None),
            (1600, 12, 4, Some(90), Some(1000)),
            (2600, 15, 4, Some(90), Some(1000)),
            // The thread was awake for a moment.
            (2700, 16, 4, Some(91), None),
            (3300, 18, 4, Some(91), Some(2700)),
            // No look has been made since.
            (5700, 18, 4, Some(91), Some(2700)),
            (5900, 18, 4, Some(91), None),
            // The thread waits for a CPU; the kernel adds that time only when the wait ends.
            (6000, 20, 5, Some(91), None),
            (7000, 22, 7, Some(91), None),
            (7600, 23, 7, Some(91), Some(7000)),
            // Counting has begun anew.
            (7700, 1, 0, Some(91), None),
            (8300, 3, 0, Some(91), Some(7700)),
            // The thread may no longer be looked at.
            (8400, 4, 0, None, None),
        ] {
            rests.look(&looks(looks_so_far, awake, running_ms), now_ms * MS);
            let since = rests.since(3, 0, now_ms * MS);
            assert_eq!(since, since_ms.map(|ms| ms * MS), "at {now_ms}");
        }
        assert_eq!(rests.since(4, 0, 8400 * MS), None);
    }

    #[test]
    fn who_has_slept_in_a_barrier_may_work_behind_it() {
        let mut rests = Rests::default();
        rests.look(&looks(10, 0, Some(90)), 1000 * MS);
        rests.look(&looks(20, 0, Some(90)), 3000 * MS);
        // The thread left the barrier at 3001, and no look has been made since.
        let since = |rests: &Rests, now_ms: u64| rests.since(3, 3001 * MS, now_ms * MS);
        assert_eq!(since(&rests, 4000), None);
        rests.look(&looks(22, 0, Some(90)), 4100 * MS);
        assert_eq!(since(&rests, 4100), Some(3001 * MS));
    }
}
