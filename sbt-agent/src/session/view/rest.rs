//! Which threads have been asleep for a while: those whose time on a CPU, and ready for one, stands still
//! from one look from outside to the next.

use std::collections::HashMap;

use sbt_engine::report::waits::{LookedThreadReport, LooksReport};

/// A thread that rests for less counts as working: it may have slept between two looks only, ns.
const LEAST_NS: u64 = 500_000_000;

/// Since when threads rest, by the id of the thread in the report.
#[derive(Debug, Default)]
pub struct Rests(HashMap<u32, Rest>);

#[derive(Clone, Copy, Debug)]
struct Rest {
    /// Time on a CPU and ready for one, ns.
    wanted_ns: u64,
    /// Since when that has not changed, ns.
    since_ns: u64,
    /// For how long the thread had been watched then, and has been now, ns.
    lived: (u64, u64),
}

impl Rests {
    /// Takes in what looks have shown until `now_ns`.
    pub fn look(&mut self, looks: &LooksReport, now_ns: u64) {
        for thread in &looks.threads {
            let (Some(number), Some(wanted_ns)) = (thread.thread, wanted(thread)) else {
                continue;
            };
            let new = Rest {
                wanted_ns,
                since_ns: now_ns,
                lived: (thread.watched_ns, thread.watched_ns),
            };
            let rest = self.0.entry(number).or_insert(new);
            // After a reset a thread has been watched for a shorter time.
            if rest.wanted_ns == wanted_ns && rest.lived.1 <= thread.watched_ns {
                rest.lived.1 = thread.watched_ns;
            } else {
                *rest = new;
            }
        }
    }

    /// Since when a thread has been asleep, ns; `None` if it works, or if that is not known.
    pub fn since(&self, thread: u32) -> Option<u64> {
        let rest = self.0.get(&thread)?;
        let (before, now) = rest.lived;
        (now - before >= LEAST_NS).then_some(rest.since_ns)
    }
}

fn wanted(thread: &LookedThreadReport) -> Option<u64> {
    Some(thread.running_ns?.saturating_add(thread.ready_ns?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn looks(watched_ms: u64, running_ms: Option<u64>) -> LooksReport {
        let thread = LookedThreadReport {
            thread: Some(3),
            label: "T3".into(),
            tid: 33,
            pid: 30,
            name: "worker".into(),
            looks: 1,
            asleep_looks: 0,
            alone_looks: 0,
            watched_ns: watched_ms * MS,
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
    fn who_uses_no_cpu_from_look_to_look_is_asleep() {
        let mut rests = Rests::default();
        for (now_ms, watched_ms, running_ms, since_ms) in [
            (1000, 100, Some(90), None),
            (1600, 700, Some(90), Some(1000)),
            (2600, 1700, Some(90), Some(1000)),
            (2700, 1800, Some(91), None),
            // No look has been made since.
            (9000, 1800, Some(91), None),
            // Counting has begun anew.
            (9100, 10, Some(91), None),
            (9700, 610, None, None),
        ] {
            rests.look(&looks(watched_ms, running_ms), now_ms * MS);
            assert_eq!(rests.since(3), since_ms.map(|ms| ms * MS), "at {now_ms}");
        }
        assert_eq!(rests.since(4), None);
    }
}
