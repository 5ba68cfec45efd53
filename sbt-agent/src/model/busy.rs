//! How many threads of an episode were busy at a time: between barriers, and not waiting
//! in one.
//!
//! From Quartz (Anderson and Lazowska, 1989): a thread's time counts by how many worked
//! beside it. Normalised processor time of a thread is the sum of its time / the number
//! of busy threads: that of all of them is the time in which at least one was busy. From
//! Jiang's thesis: the straggler's path counts the more the fewer work beside it.

use super::{episode::Member, thread::ThreadId};

/// Numbers of busy threads up to this are kept apart; of more, so many together.
const EXACT: usize = 64;
const TOGETHER: usize = 16;
/// More than that are one.
const MOST: usize = 1024;

/// Wall time by the number of busy threads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Busy {
    /// By [`slot`], ns.
    by_slot: Vec<u64>,
    /// Thread time: the number of busy threads × time, ns.
    thread_ns: u64,
}

fn slot(busy: usize) -> usize {
    match busy {
        0..=EXACT => busy,
        _ => EXACT + (busy.min(MOST) - EXACT).div_ceil(TOGETHER),
    }
}

impl Busy {
    fn add(&mut self, busy: usize, ns: u64) {
        let slot = slot(busy);
        if self.by_slot.len() <= slot {
            self.by_slot.resize(slot + 1, 0);
        }
        self.by_slot[slot] = self.by_slot[slot].saturating_add(ns);
        self.thread_ns = self
            .thread_ns
            .saturating_add(ns.saturating_mul(busy as u64));
    }

    /// Takes another's sums in.
    pub fn merge(&mut self, other: &Self) {
        if self.by_slot.len() < other.by_slot.len() {
            self.by_slot.resize(other.by_slot.len(), 0);
        }
        for (mine, ns) in self.by_slot.iter_mut().zip(&other.by_slot) {
            *mine = mine.saturating_add(*ns);
        }
        self.thread_ns = self.thread_ns.saturating_add(other.thread_ns);
    }

    /// The most busy threads that a time was with, and the time, ns; in their order.
    /// Above 64 they are told by the highest of sixteen.
    pub fn times(&self) -> impl Iterator<Item = (usize, u64)> {
        let times = self.by_slot.iter().enumerate().filter(|(_, ns)| **ns > 0);
        times.map(|(slot, ns)| {
            let busy = match slot {
                0..=EXACT => slot,
                _ => EXACT + (slot - EXACT) * TOGETHER,
            };
            (busy, *ns)
        })
    }

    /// Time in which at least one was busy, ns: the normalised processor time.
    pub fn any_ns(&self) -> u64 {
        let busy = self.by_slot.iter().skip(1);
        busy.fold(0, |sum, ns| sum.saturating_add(*ns))
    }

    /// How many were busy on average, while any was; `None` if none ever was.
    pub fn mean(&self) -> Option<f64> {
        let any_ns = self.any_ns();
        (any_ns > 0).then(|| self.thread_ns as f64 / any_ns as f64)
    }
}

/// What one thread's time was worth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// Whose.
    pub row: ThreadId,
    /// Its normalised processor time, ns.
    pub normalised_ns: f64,
    /// Its time, each moment counted as often as threads did not work, and once more, ns:
    /// the weight that it has on the critical path.
    pub weighted_ns: f64,
}

/// Goes through the times of an episode. Kept to be used again.
#[derive(Clone, Debug, Default)]
pub struct Sweep {
    /// Begin and end of each member's work, by [`Self::members`], sorted.
    begins: Vec<(u64, u32)>,
    ends: Vec<(u64, u32)>,
    /// What each member had behind it when it began, then what it got.
    shares: Vec<Share>,
}

impl Sweep {
    /// The time of an episode's members from their beginnings to their arrivals, and what
    /// of it each one's was worth. `None` if not all beginnings are known.
    pub fn run(&mut self, members: &[Member]) -> Option<(Busy, &[Share])> {
        self.begins.clear();
        self.ends.clear();
        self.shares.clear();
        for (member, index) in members.iter().zip(0..) {
            let begin_ns = member.since?.clocks.time_ns;
            let end_ns = member.arrived.time_ns;
            self.begins.push((begin_ns.min(end_ns), index));
            self.ends.push((end_ns, index));
            self.shares.push(Share {
                row: member.row,
                normalised_ns: 0.0,
                weighted_ns: 0.0,
            });
        }
        // They nearly are.
        self.begins.sort_unstable();
        self.ends.sort_unstable();
        let n = members.len();
        let mut busy = Busy::default();
        let (mut begun, mut ended) = (0, 0);
        let (mut normalised, mut weighted) = (0.0, 0.0);
        let mut now_ns = self.begins.first()?.0;
        while ended < n {
            let next = self
                .begins
                .get(begun)
                .filter(|it| it.0 <= self.ends[ended].0);
            let (at_ns, index) = *next.unwrap_or(&self.ends[ended]);
            let (count, passed) = (begun - ended, at_ns - now_ns);
            if passed > 0 {
                busy.add(count, passed);
                normalised += passed as f64 / count.max(1) as f64;
                weighted += passed as f64 * (n - count + 1) as f64;
                now_ns = at_ns;
            }
            let share = &mut self.shares[index as usize];
            if next.is_some() {
                begun += 1;
                (share.normalised_ns, share.weighted_ns) = (normalised, weighted);
            } else {
                ended += 1;
                share.normalised_ns = normalised - share.normalised_ns;
                share.weighted_ns = weighted - share.weighted_ns;
            }
        }
        Some((busy, &self.shares))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        event::Clocks,
        model::{
            episode::Left,
            site::PlaceId,
            thread::{Before, Since},
        },
    };

    fn member(row: u32, begin_ns: u64, end_ns: u64) -> Member {
        Member {
            tid: row,
            row: ThreadId(row),
            place: PlaceId(0),
            arrived: Clocks::at(end_ns),
            since: Some(Since {
                clocks: Clocks::at(begin_ns),
                before: Before::Start,
            }),
            left: Left::NotYet,
            chain: crate::model::efficiency::Chain::default(),
            counts: None,
            paid: crate::model::cost::Paid::default(),
        }
    }

    fn near(value: f64, expected: f64) {
        assert!((value - expected).abs() < 1e-6, "{value} {expected}");
    }

    #[test]
    fn time_goes_by_the_number_of_busy_threads() {
        // Two at once, then one alone, then nobody, then the third alone.
        let members = [member(0, 0, 10), member(1, 0, 30), member(2, 40, 50)];
        let mut sweep = Sweep::default();
        let (busy, shares) = sweep.run(&members).unwrap();
        let times: Vec<_> = busy.times().collect();
        assert_eq!(times, [(0, 10), (1, 30), (2, 10)]);
        assert_eq!(busy.any_ns(), 40);
        near(busy.mean().unwrap(), 50.0 / 40.0);
        near(shares[0].normalised_ns, 5.0);
        near(shares[1].normalised_ns, 25.0);
        near(shares[2].normalised_ns, 10.0);
        // n - busy + 1: two of three count twice, one alone three times.
        near(shares[1].weighted_ns, 10.0 * 2.0 + 20.0 * 3.0);
        near(shares[2].weighted_ns, 30.0);
    }

    /// Quartz: the normalised times of all threads are the elapsed time.
    #[test]
    fn normalised_times_sum_to_the_time_in_which_any_was_busy() {
        let members: Vec<_> = (0..100)
            .map(|i| member(i, u64::from(i * 37 % 50), u64::from(60 + i * 61 % 90)))
            .collect();
        let mut sweep = Sweep::default();
        let (busy, shares) = sweep.run(&members).unwrap();
        let sum: f64 = shares.iter().map(|share| share.normalised_ns).sum();
        near(sum, busy.any_ns() as f64);
        let work: u64 = members
            .iter()
            .map(|it| it.arrived.time_ns - it.since.unwrap().clocks.time_ns)
            .sum();
        assert_eq!(busy.thread_ns, work);
    }

    #[test]
    fn an_unknown_beginning_makes_all_of_it_unknown() {
        let mut members = [member(0, 0, 10), member(1, 0, 30)];
        members[1].since = None;
        assert!(Sweep::default().run(&members).is_none());
        assert!(Sweep::default().run(&[]).is_none());
    }

    #[test]
    fn memory_does_not_grow_with_the_threads() {
        let mut busy = Busy::default();
        for count in [0, 64, 65, 80, 81, 1024, 100_000] {
            busy.add(count, 1);
        }
        let times: Vec<_> = busy.times().collect();
        assert_eq!(times, [(0, 1), (64, 1), (80, 2), (96, 1), (1024, 2)]);
        let mut sum = Busy::default();
        sum.merge(&busy);
        assert_eq!(sum, busy);
    }
}
