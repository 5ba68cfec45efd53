//! Programs all of whose threads sleep, and programs that come to no barrier although they use CPUs,
//! whether or not a barrier was ever seen. Pure.

use std::collections::{HashMap, HashSet};

/// The shortest and the longest time between two readings, ns.
const READINGS_NS: [u64; 2] = [100_000_000, 1_000_000_000];

/// The number of readings that fit into the time after which to look.
const READINGS: u64 = 8;

/// The largest share of a CPU of a program that sleeps, as one in so many.
const SHARE: u64 = 100;

/// How many times the time after which to look may pass between two looks at a program that comes to
/// no barrier and goes on all the same.
const MOST_LIMITS: u32 = 6;

/// CPU time that the processes of a program have used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Used {
    /// The processes, in any order that stays.
    pub processes: Vec<u32>,
    /// The CPU time of each living thread of these processes, ns, with the thread's id.
    pub threads: Vec<(u32, u64)>,
    /// The number of arrivals at barriers that were seen.
    pub arrivals: u64,
}

impl Used {
    /// The CPU time of all threads together, ns.
    fn cpu_ns(&self) -> u64 {
        self.threads.iter().map(|(_, ns)| ns).sum()
    }
}

/// Since when a program has slept, or has come to no barrier.
#[derive(Clone, Debug, Default)]
pub struct Asleep {
    last: Option<(u64, Used)>,
    since_ns: Option<u64>,
    /// Since when the program has come to no barrier and started no process, and no look has shown
    /// that it goes on.
    still_ns: Option<u64>,
    /// The number of looks that have shown that it goes on.
    in_vain: u32,
    /// The CPU time of each thread at the last reading, ns, and the first reading with that time: the
    /// thread has not run since.
    ran: HashMap<u32, (u64, u64)>,
    /// Whether a look has made threads run for moments since the last reading.
    is_disturbed: bool,
}

impl Asleep {
    /// Whether it is time for a reading. `limit_ns`: the time after which to look.
    pub fn is_due(&self, now_ns: u64, limit_ns: u64) -> bool {
        let [shortest, longest] = READINGS_NS;
        let pause_ns = (limit_ns / READINGS).clamp(shortest, longest);
        let last = self.last.as_ref();
        last.is_none_or(|(then_ns, _)| now_ns.saturating_sub(*then_ns) >= pause_ns)
    }

    /// Takes a reading.
    pub fn see(&mut self, now_ns: u64, used: Used) {
        let is_disturbed = std::mem::take(&mut self.is_disturbed);
        let ran = used.threads.iter().map(|(thread, ns)| {
            let before = self.ran.get(thread);
            let before = before.filter(|(then, _)| is_disturbed || then == ns);
            (
                *thread,
                (*ns, before.map_or(now_ns, |(_, since_ns)| *since_ns)),
            )
        });
        self.ran = ran.collect();
        let Some((then_ns, last)) = self.last.replace((now_ns, used)) else {
            self.still_ns = Some(now_ns);
            return;
        };
        let Some((_, used)) = &self.last else { return };
        let is_new = used
            .processes
            .iter()
            .any(|process| !last.processes.contains(process));
        if is_new || used.arrivals != last.arrivals {
            (self.still_ns, self.in_vain) = (Some(now_ns), 0);
        }
        let fewer = used.processes.len() < last.processes.len();
        // Threads that end take their times with them: what the others did is not known.
        let (cpu_ns, before_ns) = (used.cpu_ns(), last.cpu_ns());
        if !is_new && (fewer || cpu_ns < before_ns) {
            return;
        }
        let did_ns = cpu_ns.saturating_sub(before_ns);
        let sleeps = !is_new
            && used.arrivals == last.arrivals
            && did_ns.saturating_mul(SHARE) <= now_ns.saturating_sub(then_ns);
        self.since_ns = if sleeps {
            self.since_ns.or(Some(then_ns))
        } else {
            None
        };
    }

    /// Since when the program has come to no barrier, ns, if a look is due: threads may wait in loops.
    /// `limit_ns`: the time after which to look; `arrivals`: as in [`Self::since_ns`].
    pub fn still_ns(&self, now_ns: u64, limit_ns: u64, arrivals: u64) -> Option<u64> {
        let times = (self.in_vain + 1).min(MOST_LIMITS);
        let (_, last) = self.last.as_ref()?;
        let since_ns = self.still_ns.filter(|_| last.arrivals == arrivals)?;
        let is_due = now_ns.saturating_sub(since_ns) >= limit_ns.saturating_mul(times.into());
        is_due.then_some(since_ns)
    }

    /// Notes that a look makes threads run: what they do until the next reading is not their own doing.
    pub const fn disturb(&mut self) {
        self.is_disturbed = true;
    }

    /// The threads that have run since `since_ns`, as far as readings tell.
    pub fn ran_since(&self, since_ns: u64) -> HashSet<u32> {
        let all = self.ran.iter();
        let ran = all.filter(|(_, (_, still_ns))| *still_ns > since_ns);
        ran.map(|(thread, _)| *thread).collect()
    }

    /// A look has shown that the program went on, at `now_ns`.
    pub const fn goes_on(&mut self, now_ns: u64) {
        if self.still_ns.is_some() {
            self.still_ns = Some(now_ns);
            self.in_vain = self.in_vain.saturating_add(1);
        }
    }

    /// Since when the program has slept, ns; `None` if it does something. `arrivals`: the number of
    /// arrivals seen so far, which may be newer than the last reading.
    pub fn since_ns(&self, arrivals: u64) -> Option<u64> {
        let (_, last) = self.last.as_ref()?;
        self.since_ns.filter(|_| last.arrivals == arrivals)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn used(processes: &[u32], ms: u64) -> Used {
        Used {
            processes: processes.to_vec(),
            threads: vec![(7, ms * MS)],
            arrivals: 0,
        }
    }

    #[test]
    fn it_sleeps_from_the_first_reading_without_work() {
        let mut asleep = Asleep::default();
        assert!(asleep.is_due(0, 2_000 * MS));
        asleep.see(0, used(&[7], 50));
        assert!(!asleep.is_due(200 * MS, 2_000 * MS));
        assert!(asleep.is_due(250 * MS, 2_000 * MS));
        assert_eq!(asleep.since_ns(0), None);
        asleep.see(250 * MS, used(&[7], 51));
        assert_eq!(asleep.since_ns(0), Some(0));
        assert_eq!(asleep.since_ns(1), None, "a thread has come meanwhile");
        asleep.see(500 * MS, used(&[7], 51));
        assert_eq!(asleep.since_ns(0), Some(0));
        asleep.see(750 * MS, used(&[7], 151));
        assert_eq!(asleep.since_ns(0), None, "it has worked");
    }

    #[test]
    fn a_program_without_barriers_is_looked_at_less_and_less_often() {
        let mut asleep = Asleep::default();
        let limit_ns = 2_000 * MS;
        let busy = |ms: u64| used(&[7], ms);
        asleep.see(0, busy(0));
        asleep.see(1_900 * MS, busy(1_900));
        assert_eq!(asleep.still_ns(1_999 * MS, limit_ns, 0), None);
        assert_eq!(asleep.still_ns(limit_ns, limit_ns, 0), Some(0));
        let come = asleep.still_ns(limit_ns, limit_ns, 1);
        assert_eq!(come, None, "a thread has come meanwhile");
        asleep.goes_on(2_500 * MS);
        assert_eq!(asleep.still_ns(6_400 * MS, limit_ns, 0), None);
        assert_eq!(asleep.still_ns(6_500 * MS, limit_ns, 0), Some(2_500 * MS));
        let arrives = Used {
            arrivals: 1,
            ..busy(6_600)
        };
        asleep.see(6_600 * MS, arrives);
        assert_eq!(asleep.still_ns(8_500 * MS, limit_ns, 1), None);
        assert_eq!(asleep.still_ns(8_600 * MS, limit_ns, 1), Some(6_600 * MS));
    }

    #[test]
    fn threads_that_run_now_and_then_are_told_from_those_that_only_wait() {
        let mut asleep = Asleep::default();
        let at = |ms: u64, fed_ms: u64| Used {
            threads: vec![(7, 50 * MS), (8, fed_ms * MS)],
            ..used(&[7], ms)
        };
        asleep.see(0, at(0, 1));
        asleep.see(1_000 * MS, at(0, 1));
        asleep.see(2_000 * MS, at(0, 2));
        assert_eq!(asleep.since_ns(0), Some(0), "next to nothing");
        assert_eq!(asleep.ran_since(1_500 * MS), HashSet::from([8]));
        asleep.see(3_000 * MS, at(0, 2));
        assert_eq!(asleep.ran_since(2_500 * MS), HashSet::new());
        asleep.disturb();
        asleep.see(4_000 * MS, at(0, 3));
        assert_eq!(asleep.ran_since(2_500 * MS), HashSet::new(), "a look");
        asleep.see(5_000 * MS, at(0, 4));
        assert_eq!(asleep.ran_since(2_500 * MS), HashSet::from([8]));
    }

    #[test]
    fn who_comes_and_goes() {
        let mut asleep = Asleep::default();
        asleep.see(0, used(&[7], 50));
        asleep.see(250 * MS, used(&[7], 50));
        asleep.see(500 * MS, used(&[], 0));
        assert_eq!(asleep.since_ns(0), Some(0), "it was killed in its sleep");
        asleep.see(750 * MS, used(&[7, 8], 50));
        assert_eq!(asleep.since_ns(0), None, "a new process does something");
    }
}
