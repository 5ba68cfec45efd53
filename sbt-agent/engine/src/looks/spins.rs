//! Threads that spin for a lock or a flag: samples of what running threads do, counted. Pure.

use std::collections::HashMap;

use super::{
    MAX_PAIRS, Tally, ThreadId, WaitNumber,
    sums::{FoundSleep, Summed},
};

/// Fewer samples of a thread than this show nothing.
const FEW: u64 = 4;

/// Numbers of samples.
#[derive(Clone, Debug, Default)]
pub(super) struct Spins {
    /// All samples of each thread.
    all: HashMap<ThreadId, u64>,
    /// Samples of each thread in a loop that only waits.
    within: HashMap<(WaitNumber, ThreadId), u64>,
}

impl Tally {
    /// A running thread was sampled. `wait`: the loop in which it spins, if it does.
    pub fn ran(&mut self, who: ThreadId, wait: Option<WaitNumber>) {
        let spins = &mut self.spins;
        if spins.all.len() + spins.within.len() >= MAX_PAIRS {
            self.dropped += 1;
            return;
        }
        *spins.all.entry(who).or_default() += 1;
        if let Some(wait) = wait {
            *spins.within.entry((wait, who)).or_default() += 1;
        }
    }

    /// How long each thread spun in each loop, by its samples and its CPU time. `summed`: sleeps are
    /// summed up for a part of the time; the result is for the same part.
    pub(super) fn spun(&self, summed: Option<&Summed>) -> Vec<(WaitNumber, FoundSleep)> {
        let part = summed.map_or(1.0, |summed| {
            summed.watched_ns as f64 / summed.span_ns.max(1) as f64
        });
        let mut found: Vec<(WaitNumber, FoundSleep)> = Vec::new();
        for ((wait, who), times) in &self.spins.within {
            let all = self.spins.all.get(who).copied().unwrap_or(0);
            let Some(life) = self.threads.get(who).filter(|_| all >= FEW) else {
                continue;
            };
            let ran_ns = life.last.ran_ns.unwrap_or(0);
            let ran_ns = ran_ns.saturating_sub(life.birth.ran_ns);
            let share = *times as f64 / all as f64 * part;
            let spent = FoundSleep {
                who: *who,
                times: *times,
                total_ns: super::pace::whole(share * ran_ns as f64),
                max_ns: 0,
                wakers: Vec::new(),
            };
            found.push((*wait, spent));
        }
        found.sort_by_key(|(wait, spent)| (*wait, spent.who));
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::looks::{Birth, Glimpse, Kind, Wait};

    #[test]
    fn samples_in_a_loop_are_a_share_of_cpu_time() {
        let mut tally = Tally::default();
        let wait = Wait {
            process: 7,
            kind: Kind::Spin,
            call: None,
            what: None,
            object: None,
            awaits: None,
            stack: Vec::new(),
            in_library: false,
        };
        let wait = tally.number(wait).unwrap();
        let who = |thread| ThreadId { process: 7, thread };
        let seen = Glimpse {
            time_ns: 100,
            ran_ns: Some(80),
            ready_ns: Some(0),
            asleep: false,
            wait: None,
        };
        for thread in [1, 2] {
            tally.thread(who(thread), Birth::default(), seen);
        }
        for sample in 0..8 {
            tally.ran(who(1), (sample < 2).then_some(wait));
        }
        // Of a thread with few samples nothing is known.
        tally.ran(who(2), Some(wait));
        let found = tally.found(0, None);
        assert_eq!(found.waits.len(), 1);
        let [one] = found.waits[0].sleeps.as_slice() else {
            panic!("{found:?}");
        };
        assert_eq!((one.who, one.times, one.total_ns), (who(1), 2, 20));
    }
}
