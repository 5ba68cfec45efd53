//! How a site's episodes changed over the run, in bounded memory.

use super::busy::Busy;

/// Buckets of a trend, at most. When all are in use, they are merged in pairs.
pub const MAX_BUCKETS: usize = 512;

/// Sums over some consecutive episodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bucket {
    /// Number of episodes.
    pub episodes: u64,
    /// Latest of the episodes' last arrivals, ns.
    pub last_ns: u64,
    /// Number of episodes with a known phase time, and the sum of these phase times, ns.
    pub phases: (u64, u64),
    /// Sum of the barrier times, ns.
    pub barrier_ns: u64,
    /// Sum of the idle times of all threads, ns.
    pub idle_ns: u64,
    /// Time of busy threads, and time in which any thread was busy, ns: see [`super::busy`].
    pub busy_ns: (u64, u64),
}

impl Bucket {
    fn add(&mut self, other: &Self) {
        self.episodes += other.episodes;
        self.last_ns = self.last_ns.max(other.last_ns);
        self.phases.0 += other.phases.0;
        self.phases.1 = self.phases.1.saturating_add(other.phases.1);
        self.barrier_ns = self.barrier_ns.saturating_add(other.barrier_ns);
        self.idle_ns = self.idle_ns.saturating_add(other.idle_ns);
        self.note_busy(other.busy_ns);
    }

    fn note_busy(&mut self, (threads_ns, any_ns): (u64, u64)) {
        self.busy_ns.0 = self.busy_ns.0.saturating_add(threads_ns);
        self.busy_ns.1 = self.busy_ns.1.saturating_add(any_ns);
    }

    /// Mean phase time, ns; `None` if no phase time is known.
    pub fn phase_ns(&self) -> Option<u64> {
        self.phases.1.checked_div(self.phases.0)
    }

    /// Mean number of busy threads while any was busy; `None` if unknown.
    pub fn mean_busy(&self) -> Option<f64> {
        let (threads_ns, any_ns) = self.busy_ns;
        (any_ns > 0).then(|| threads_ns as f64 / any_ns as f64)
    }
}

/// The episodes of a site, in order, in buckets with equal numbers of episodes. Buckets go by
/// number rather than by time, so that a short but busy period is resolved as well as a long one;
/// each bucket records when it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trend {
    /// Episodes in a full bucket, a power of two.
    width: u64,
    buckets: Vec<Bucket>,
}

impl Default for Trend {
    fn default() -> Self {
        Self {
            width: 1,
            buckets: Vec::new(),
        }
    }
}

impl Trend {
    /// Adds one episode, given as a bucket of its own.
    pub fn add(&mut self, episode: &Bucket) {
        match self.buckets.last_mut() {
            Some(last) if last.episodes < self.width => last.add(episode),
            _ => {
                if self.buckets.len() == MAX_BUCKETS {
                    self.halve();
                }
                self.buckets.push(*episode);
            }
        }
    }

    /// Adds the busy threads of the episode that was added last.
    pub fn note_busy(&mut self, busy: &Busy) {
        if let Some(last) = self.buckets.last_mut() {
            last.note_busy((busy.thread_ns(), busy.any_ns()));
        }
    }

    /// Makes room by merging each pair of buckets.
    fn halve(&mut self) {
        self.width *= 2;
        for index in 0..MAX_BUCKETS / 2 {
            let mut pair = self.buckets[2 * index];
            pair.add(&self.buckets[2 * index + 1]);
            self.buckets[index] = pair;
        }
        self.buckets.truncate(MAX_BUCKETS / 2);
    }

    /// The buckets in the order of the run. All hold the same number of episodes, except that the
    /// last may hold fewer.
    pub fn buckets(&self) -> &[Bucket] {
        &self.buckets
    }

    /// The trend merged into at most `most` buckets.
    pub fn resampled(&self, most: usize) -> Vec<Bucket> {
        let group = self.buckets.len().div_ceil(most.max(1)).max(1);
        let merge = |group: &[Bucket]| {
            let mut sum = Bucket::default();
            for bucket in group {
                sum.add(bucket);
            }
            sum
        };
        self.buckets.chunks(group).map(merge).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn episode(number: u64) -> Bucket {
        Bucket {
            episodes: 1,
            last_ns: 10 * number,
            phases: (1, number),
            barrier_ns: 2 * number,
            idle_ns: 3 * number,
            busy_ns: (5 * number, 2 * number),
        }
    }

    #[test]
    fn busy_threads_are_known_where_they_were_seen() {
        let mut trend = Trend::default();
        trend.add(&Bucket {
            busy_ns: (0, 0),
            ..episode(1)
        });
        assert_eq!(trend.buckets()[0].mean_busy(), None);
        trend.add(&episode(2));
        assert_eq!(trend.buckets()[1].mean_busy(), Some(2.5));
        assert_eq!(trend.resampled(1)[0].mean_busy(), Some(2.5));
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_the_order_stays(count in 1u64..5_000, most in 1usize..600) {
            let mut trend = Trend::default();
            for number in 0..count {
                trend.add(&episode(number));
            }
            for buckets in [trend.buckets(), &trend.resampled(most)] {
                let sum = |f: fn(&Bucket) -> u64| buckets.iter().map(f).sum::<u64>();
                let all = count * (count - 1) / 2;
                prop_assert_eq!(sum(|b| b.episodes), count);
                prop_assert_eq!(sum(|b| b.busy_ns.0), 5 * all);
                prop_assert_eq!(sum(|b| b.phases.1), all);
                prop_assert_eq!(sum(|b| b.barrier_ns), 2 * all);
                prop_assert_eq!(sum(|b| b.idle_ns), 3 * all);
                prop_assert!(buckets.is_sorted_by_key(|b| b.last_ns));
                let full = buckets.split_last().map_or(&[][..], |(_, rest)| rest);
                prop_assert!(full.iter().all(|b| b.episodes == buckets[0].episodes));
            }
            prop_assert!(trend.buckets().len() <= MAX_BUCKETS);
            prop_assert!(trend.resampled(most).len() <= most);
        }
    }

    #[test]
    fn a_short_run_keeps_every_episode() {
        let mut trend = Trend::default();
        for number in 0..512 {
            trend.add(&episode(number));
        }
        assert_eq!(trend.buckets().len(), 512);
        assert_eq!(trend.buckets()[7].phase_ns(), Some(7));
        assert_eq!(Bucket::default().phase_ns(), None);
    }
}
