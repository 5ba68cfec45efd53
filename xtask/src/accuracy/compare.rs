//! Compares two accounts of the same episodes: the program's and sbt's.

use anyhow::{Context, Result, ensure};

use super::log::{Episode, Passage};
use super::report::Seen;

/// The times that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// From a thread's arrival to the last arrival.
    Idle,
    /// From one arrival to the next.
    Gap,
    /// From the first arrival to the last.
    Barrier,
    /// From the last arrival of the previous episode to the last arrival.
    Phase,
    /// From the last arrival to a thread's departure.
    Release,
    /// From a thread's departure from the previous episode to its arrival.
    Work,
}

impl Quantity {
    /// All quantities, in the order of the tables.
    pub const ALL: [Self; 6] = [
        Self::Idle,
        Self::Gap,
        Self::Barrier,
        Self::Phase,
        Self::Release,
        Self::Work,
    ];

    /// Whether the quantity must meet bars. The others include the time of the probe itself: the
    /// code between sbt's stamp and the program's stamp does not cancel out.
    pub fn has_bars(self) -> bool {
        !matches!(self, Self::Release | Self::Work)
    }

    /// The name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Gap => "gap",
            Self::Barrier => "barrier",
            Self::Phase => "phase",
            Self::Release => "release",
            Self::Work => "work",
        }
    }
}

/// One time in both accounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Time by the program's own clock, ns.
    pub truth_ns: u64,
    /// Time by sbt, ns.
    pub seen_ns: u64,
}

impl Sample {
    /// Error of sbt, ns.
    pub fn error_ns(self) -> f64 {
        self.truth_ns.abs_diff(self.seen_ns) as f64
    }
}

/// The combined result of comparing runs.
#[derive(Clone, Debug, Default)]
pub struct Comparison {
    /// Episodes in both accounts.
    pub episodes: u64,
    /// Pairs of arrivals that are clearly apart, in an order that the barrier's own count confirms.
    pub pairs: u64,
    /// Other pairs of arrivals that are clearly apart.
    pub doubtful: u64,
    /// Confirmed pairs that sbt has in the opposite order.
    pub swapped: u64,
    /// Moments stamped by the program and by sbt.
    pub stamps: u64,
    /// Moments for which sbt's time is impossible: before the thread called the barrier, or after
    /// the call returned.
    pub impossible: u64,
    /// Times that sbt does not know.
    pub unknown: u64,
    /// How much later sbt's stamp of an arrival is than the program's, ns.
    pub late_ns: Vec<f64>,
    /// How much earlier sbt's stamp of a departure is than the program's, ns.
    pub early_ns: Vec<f64>,
    samples: [Vec<Sample>; Quantity::ALL.len()],
}

/// Arrivals farther apart than this have a clear order, ns.
const CLEAR_NS: u64 = 10_000;

impl Comparison {
    /// Compares one run. Fails if the accounts do not have the same episodes
    /// with the same threads.
    pub fn of(truth: &[Episode], seen: &[Seen]) -> Result<Self> {
        ensure!(
            truth.len() == seen.len(),
            "{} episodes, but the program had {}",
            seen.len(),
            truth.len()
        );
        let mut result = Self::default();
        for (index, (episode, seen_episode)) in truth.iter().zip(seen).enumerate() {
            result
                .take(episode, seen_episode)
                .with_context(|| format!("episode {index}"))?;
        }
        for (pair, seen) in truth.windows(2).zip(seen.iter().skip(1)) {
            result.take_since(&pair[0], &pair[1], seen)?;
        }
        Ok(result)
    }

    /// The times of one quantity.
    pub fn samples(&self, quantity: Quantity) -> &[Sample] {
        &self.samples[quantity as usize]
    }

    /// Adds the result of another run.
    pub fn add(&mut self, other: &Self) {
        self.episodes += other.episodes;
        self.pairs += other.pairs;
        self.doubtful += other.doubtful;
        self.swapped += other.swapped;
        self.stamps += other.stamps;
        self.impossible += other.impossible;
        self.unknown += other.unknown;
        self.late_ns.extend(&other.late_ns);
        self.early_ns.extend(&other.early_ns);
        for (samples, more) in self.samples.iter_mut().zip(&other.samples) {
            samples.extend(more);
        }
    }

    fn push(&mut self, quantity: Quantity, truth_ns: u64, seen_ns: Option<u64>) {
        // The last thread has no idle time, and the first has no gap. These agree trivially, and
        // would make half of the times of two threads exact.
        let trivial = matches!(quantity, Quantity::Idle | Quantity::Gap);
        if trivial && truth_ns == 0 && seen_ns == Some(0) {
            return;
        }
        match seen_ns {
            Some(seen_ns) => self.samples[quantity as usize].push(Sample { truth_ns, seen_ns }),
            None => self.unknown += 1,
        }
    }

    fn take(&mut self, truth: &Episode, seen: &Seen) -> Result<()> {
        ensure!(
            truth.passages.len() == seen.arrivals.len(),
            "{} threads, but the program had {}",
            seen.arrivals.len(),
            truth.passages.len()
        );
        self.episodes += 1;
        let mut places = Vec::new();
        let mut before_ns = truth.passages[0].arrival_ns;
        for (passage, at_same_place) in truth.passages.iter().zip(&seen.arrivals) {
            let place = seen
                .arrivals
                .iter()
                .position(|arrival| arrival.tid == passage.tid)
                .with_context(|| format!("thread {} is not in it", passage.tid))?;
            places.push(place);
            let arrival = &seen.arrivals[place];
            let idle_ns = truth.last_ns - passage.arrival_ns;
            let release_ns = passage.departure_ns.saturating_sub(truth.last_ns);
            self.push(Quantity::Idle, idle_ns, Some(arrival.idle_ns));
            self.push(Quantity::Release, release_ns, arrival.release_ns);
            // Gaps are clear even if the order of the threads is not: compare by position.
            let gap_ns = passage.arrival_ns - before_ns;
            before_ns = passage.arrival_ns;
            self.push(Quantity::Gap, gap_ns, Some(at_same_place.gap_ns));

            let seen_arrival_ns = seen.last_ns.saturating_sub(arrival.idle_ns);
            self.stamp(passage, seen_arrival_ns);
            self.late_ns
                .push(difference(seen_arrival_ns, passage.arrival_ns));
            if let Some(release_ns) = arrival.release_ns {
                let seen_departure_ns = seen.last_ns + release_ns;
                self.stamp(passage, seen_departure_ns);
                self.early_ns
                    .push(difference(passage.departure_ns, seen_departure_ns));
            }
        }
        let barrier_ns = truth.last_ns - truth.passages[0].arrival_ns;
        self.push(Quantity::Barrier, barrier_ns, Some(seen.barrier_ns));
        self.take_order(&truth.passages, &places);
        Ok(())
    }

    fn stamp(&mut self, passage: &Passage, seen_ns: u64) {
        self.stamps += 1;
        let possible = passage.arrival_ns..=passage.departure_ns;
        self.impossible += u64::from(!possible.contains(&seen_ns));
    }

    /// Checks the order of the arrivals. `places`: the position of each passage in sbt's account.
    ///
    /// A thread may be held up between reading its clock and calling the barrier, and another
    /// thread may overtake it. So the order by the clocks counts only if the later thread, or a
    /// thread in between, found that the barrier had counted all threads that were earlier by the
    /// clocks.
    fn take_order(&mut self, passages: &[Passage], places: &[usize]) {
        for earlier in 0..passages.len() {
            let mut confirmed = false;
            for later in earlier + 1..passages.len() {
                confirmed |= passages[later].counted == Some(later as u64);
                let apart_ns = passages[later].arrival_ns - passages[earlier].arrival_ns;
                if apart_ns <= CLEAR_NS {
                    continue;
                }
                if confirmed {
                    self.pairs += 1;
                    self.swapped += u64::from(places[earlier] > places[later]);
                } else {
                    self.doubtful += 1;
                }
            }
        }
    }

    /// Compares the times that reach back to the previous episode.
    fn take_since(&mut self, before: &Episode, truth: &Episode, seen: &Seen) -> Result<()> {
        let phase_ns = truth.last_ns - before.last_ns;
        self.push(Quantity::Phase, phase_ns, seen.phase_ns);
        for arrival in &seen.arrivals {
            let (left, came) = before
                .passage(arrival.tid)
                .zip(truth.passage(arrival.tid))
                .context("the program's threads changed")?;
            let work_ns = came.arrival_ns - left.departure_ns;
            self.push(Quantity::Work, work_ns, arrival.work_ns);
        }
        Ok(())
    }
}

fn difference(later_ns: u64, earlier_ns: u64) -> f64 {
    later_ns as f64 - earlier_ns as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accuracy::report::SeenArrival;

    fn truth(passages: &[(u32, u64, u64)]) -> Episode {
        let passages = (0..)
            .zip(passages)
            .map(|(counted, &(tid, arrival_ns, departure_ns))| Passage {
                tid,
                arrival_ns,
                departure_ns,
                counted: Some(counted),
            });
        Episode::new(passages.collect()).unwrap()
    }

    /// sbt's account, made from arrivals and departures in order.
    fn seen(phase_ns: Option<u64>, passages: &[(u32, u64, Option<u64>)]) -> Seen {
        let last_ns = passages[passages.len() - 1].1;
        let mut before_ns = passages[0].1;
        let arrivals = passages.iter().map(|&(tid, arrival_ns, departure_ns)| {
            let gap_ns = arrival_ns - before_ns;
            before_ns = arrival_ns;
            SeenArrival {
                tid,
                gap_ns,
                idle_ns: last_ns - arrival_ns,
                release_ns: departure_ns.map(|departure_ns| departure_ns - last_ns),
                work_ns: Some(80),
            }
        });
        Seen {
            last_ns,
            phase_ns,
            barrier_ns: last_ns - passages[0].1,
            arrivals: arrivals.collect(),
        }
    }

    fn pairs(comparison: &Comparison, quantity: Quantity) -> Vec<(u64, u64)> {
        comparison
            .samples(quantity)
            .iter()
            .map(|sample| (sample.truth_ns, sample.seen_ns))
            .collect()
    }

    #[test]
    fn every_time_is_compared() {
        let truth = [
            truth(&[(1, 100, 210), (2, 200, 215)]),
            truth(&[(2, 300, 460), (1, 450, 470)]),
        ];
        let seen = [
            seen(None, &[(1, 101, Some(209)), (2, 203, Some(211))]),
            seen(Some(240), &[(2, 301, None), (1, 451, Some(465))]),
        ];
        let all = Comparison::of(&truth, &seen).unwrap();
        assert_eq!(all.episodes, 2);
        assert_eq!(pairs(&all, Quantity::Idle), [(100, 102), (150, 150)]);
        assert_eq!(pairs(&all, Quantity::Gap), [(100, 102), (150, 150)]);
        assert_eq!(pairs(&all, Quantity::Barrier), [(100, 102), (150, 150)]);
        assert_eq!(pairs(&all, Quantity::Phase), [(250, 240)]);
        assert_eq!(pairs(&all, Quantity::Release), [(10, 6), (15, 8), (20, 14)]);
        assert_eq!(pairs(&all, Quantity::Work), [(85, 80), (240, 80)]);
        assert_eq!((all.unknown, all.stamps, all.impossible), (1, 7, 0));
        assert_eq!(all.late_ns, [1.0, 3.0, 1.0, 1.0]);
        assert_eq!(all.early_ns, [1.0, 4.0, 5.0]);
    }

    #[test]
    fn stamps_outside_of_the_call_are_impossible() {
        let truth = [truth(&[(1, 100, 210), (2, 200, 215)])];
        let early = [seen(None, &[(1, 99, Some(209)), (2, 203, Some(216))])];
        assert_eq!(Comparison::of(&truth, &early).unwrap().impossible, 2);
    }

    #[test]
    fn the_order_counts_where_it_is_clear() {
        let mut truth = [truth(&[
            (1, 100_000, 200_000),
            (2, 105_000, 200_000),
            (3, 150_000, 200_000),
        ])];
        let order = |truth: &[Episode], tids: [u32; 3]| {
            let arrivals = [100_000, 105_000, 150_000];
            let passages: Vec<_> = tids
                .into_iter()
                .zip(arrivals)
                .map(|(tid, at)| (tid, at, None))
                .collect();
            let all = Comparison::of(truth, &[seen(None, &passages)]).unwrap();
            (all.pairs, all.swapped, all.doubtful)
        };
        assert_eq!(order(&truth, [1, 2, 3]), (2, 0, 0));
        assert_eq!(order(&truth, [2, 1, 3]), (2, 0, 0));
        assert_eq!(order(&truth, [1, 3, 2]), (2, 1, 0));
        assert_eq!(order(&truth, [3, 1, 2]), (2, 2, 0));
        // The third thread arrived when only one of the first two had been counted.
        truth[0].passages[2].counted = Some(1);
        assert_eq!(order(&truth, [1, 3, 2]), (1, 0, 1));
        truth[0].passages[1].counted = Some(0);
        assert_eq!(order(&truth, [1, 3, 2]), (0, 0, 2));
    }

    #[test]
    fn other_episodes_are_not_compared() {
        let truth = [truth(&[(1, 100, 210), (2, 200, 215)])];
        assert!(Comparison::of(&truth, &[]).is_err());
        for strange in [
            seen(None, &[(1, 101, None)]),
            seen(None, &[(1, 101, None), (3, 201, None)]),
        ] {
            assert!(Comparison::of(&truth, &[strange]).is_err());
        }
    }
}
