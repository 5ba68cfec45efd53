//! The number of threads of an episode that were busy at each moment. A thread is busy while it is
//! between barriers and does not wait in one; where switches are watched, it must also be on a CPU.
//!
//! From Quartz (Anderson and Lazowska, 1989): a thread's time is divided by the number of threads
//! that were busy at the same time. The result is the thread's normalised processor time. Its sum
//! over all threads is the time in which at least one thread was busy. From Jiang's thesis: the
//! straggler's path weighs more the fewer threads work beside it.

use super::{away::Work, episode::Member, ids::ThreadId, parts::Alone};

/// Up to this number of busy threads, each number has a slot of its own; above it, [`TOGETHER`]
/// numbers share a slot.
const EXACT: usize = 64;
const TOGETHER: usize = 16;
/// Larger numbers of busy threads count as this number.
const MOST: usize = 1024;

/// Wall time by the number of busy threads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Busy {
    /// Indexed by [`slot`], ns.
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
    pub(super) fn add(&mut self, busy: usize, ns: u64) {
        let slot = slot(busy);
        if self.by_slot.len() <= slot {
            self.by_slot.resize(slot + 1, 0);
        }
        self.by_slot[slot] = self.by_slot[slot].saturating_add(ns);
        self.thread_ns = self
            .thread_ns
            .saturating_add(ns.saturating_mul(busy as u64));
    }

    /// A copy with each time multiplied by `factor`.
    #[must_use]
    pub fn scaled(&self, factor: f64) -> Self {
        let scale = |ns: &u64| whole(*ns as f64 * factor);
        Self {
            by_slot: self.by_slot.iter().map(scale).collect(),
            thread_ns: scale(&self.thread_ns),
        }
    }

    /// Adds the sums of `other`.
    pub fn merge(&mut self, other: &Self) {
        if self.by_slot.len() < other.by_slot.len() {
            self.by_slot.resize(other.by_slot.len(), 0);
        }
        for (mine, ns) in self.by_slot.iter_mut().zip(&other.by_slot) {
            *mine = mine.saturating_add(*ns);
        }
        self.thread_ns = self.thread_ns.saturating_add(other.thread_ns);
    }

    /// Pairs of a number of busy threads and the time with so many, ns, in ascending order. Above
    /// 64, a number stands for itself and the 15 numbers below it.
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

    /// Time in which at least one thread was busy, ns: the sum of the normalised processor times.
    pub fn any_ns(&self) -> u64 {
        let busy = self.by_slot.iter().skip(1);
        busy.fold(0, |sum, ns| sum.saturating_add(*ns))
    }

    /// Busy time summed over all threads, ns.
    pub const fn thread_ns(&self) -> u64 {
        self.thread_ns
    }

    /// Mean number of busy threads while at least one was busy; `None` if none ever was.
    pub fn mean(&self) -> Option<f64> {
        let any_ns = self.any_ns();
        (any_ns > 0).then(|| self.thread_ns as f64 / any_ns as f64)
    }
}

/// The contribution of one thread's work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// Whether this is work that the thread did alone before a parallel region.
    pub is_alone: bool,
    /// The thread that worked.
    pub row: ThreadId,
    /// Normalised processor time, ns.
    pub normalised_ns: f64,
    /// Its work, each moment multiplied by 1 + the number of threads that did not work then, ns:
    /// the weight of the work on the critical path.
    pub weighted_ns: f64,
}

/// The beginnings and ends in the work of a member. Edges at the same time are sorted in this
/// order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Edge {
    /// The work begins, and the member is busy.
    Begin,
    /// The member comes back to a CPU.
    On,
    /// The member leaves its CPU.
    Off,
    /// The work ends, and the member is no longer busy.
    End,
}

/// Computes [`Busy`] and [`Share`]s of an episode. Kept to reuse its memory.
#[derive(Clone, Debug, Default)]
pub struct Sweep {
    /// Time in ns, kind, and index into `shares`.
    edges: Vec<(u64, Edge, u32)>,
    /// Time in ns, and the number of busy members from then on.
    steps: Vec<(u64, usize)>,
    /// While work goes on: minus the sums at its beginning. At the end: the result.
    shares: Vec<Share>,
}

impl Sweep {
    /// Adds one stretch of work. `away`: when the thread was on no CPU.
    fn push(&mut self, row: ThreadId, is_alone: bool, span: (u64, u64), away: Option<&Work>) {
        let index = u32::try_from(self.shares.len()).unwrap_or(u32::MAX);
        self.edges.push((span.0, Edge::Begin, index));
        self.edges.push((span.1, Edge::End, index));
        for (off_ns, on_ns) in away.into_iter().flat_map(|away| away.off(span)) {
            self.edges.push((off_ns, Edge::Off, index));
            self.edges.push((on_ns, Edge::On, index));
        }
        self.shares.push(Share {
            is_alone,
            row,
            normalised_ns: 0.0,
            weighted_ns: 0.0,
        });
    }

    /// Computes the busy time of an episode's members from the beginning of their work to their
    /// arrival, and each member's share. `alone`: work that one member did before a parallel
    /// region. `None` if the beginning of some member's work is unknown.
    pub fn run(&mut self, members: &[Member], alone: Option<&Alone>) -> Option<(Busy, &[Share])> {
        self.edges.clear();
        self.shares.clear();
        for member in members {
            let begin_ns = member.since?.clocks.time_ns;
            let end_ns = member.arrived.time_ns;
            let span = (begin_ns.min(end_ns), end_ns);
            self.push(member.row, false, span, member.away.as_deref());
        }
        if let Some(alone) = alone {
            let span = (alone.from_ns, alone.to_ns);
            let whose = members.iter().find(|member| member.row == alone.row);
            let away = whose.and_then(|member| member.away.as_deref());
            self.push(alone.row, true, span, away);
        }
        self.edges.sort_unstable();
        self.steps.clear();
        let n = members.len();
        let mut busy = Busy::default();
        let mut count = 0_usize;
        let (mut normalised, mut weighted) = (0.0, 0.0);
        let mut now_ns = self.edges.first()?.0;
        for (at_ns, edge, index) in &self.edges {
            let passed = at_ns - now_ns;
            if passed > 0 {
                busy.add(count, passed);
                normalised += passed as f64 / count.max(1) as f64;
                // If no member has a CPU, the straggler counts as the only busy member.
                weighted += passed as f64 * (n - count.clamp(1, n) + 1) as f64;
                now_ns = *at_ns;
            }
            let share = &mut self.shares[*index as usize];
            if matches!(edge, Edge::Begin | Edge::On) {
                count += 1;
                share.normalised_ns -= normalised;
            } else {
                count = count.saturating_sub(1);
                share.normalised_ns += normalised;
            }
            self.steps.push((*at_ns, count));
            // Work without a CPU is on the critical path as well: `weighted_ns` ignores `On` and
            // `Off`.
            match edge {
                Edge::Begin => share.weighted_ns -= weighted,
                Edge::End => share.weighted_ns += weighted,
                Edge::On | Edge::Off => {}
            }
        }
        Some((busy, &self.shares))
    }

    /// The number of members of the last episode that were busy at `time_ns`; 0 before the first
    /// edge.
    pub fn busy_at(&self, time_ns: u64) -> usize {
        let at = self.steps.partition_point(|step| step.0 <= time_ns);
        let before = at.checked_sub(1).and_then(|at| self.steps.get(at));
        before.map_or(0, |step| step.1)
    }

    /// The normalised time of a member of the last episode, ns. The index after the last member is
    /// the work that one member did alone before a region.
    pub fn normalised_ns(&self, member: usize) -> f64 {
        self.shares
            .get(member)
            .map_or(0.0, |share| share.normalised_ns)
    }
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "durations in ns are positive and far below 2^63"
)]
pub(super) fn whole(ns: f64) -> u64 {
    ns.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        event::{Away, Clocks, LeftCpu},
        model::{
            episode::Left,
            ids::PlaceId,
            parts::{Before, Since},
        },
    };

    fn member(row: u32, begin_ns: u64, end_ns: u64) -> Member {
        Member {
            tid: row,
            row: ThreadId(row),
            place: PlaceId(0),
            awaits: false,
            overlaps: false,
            arrived: Clocks::at(end_ns),
            since: Some(Since {
                clocks: Clocks::at(begin_ns),
                before: Before::Start,
            }),
            left: Left::NotYet,
            chain: crate::model::efficiency::Chain::default(),
            counts: None,
            away: None,
            paid: crate::model::cost::Paid::default(),
            speed_ns: None,
        }
    }

    fn off(mut member: Member, off: &[(u64, u64)]) -> Member {
        let spans = off.iter().map(|(from_ns, until_ns)| Away {
            from_ns: Some(*from_ns),
            until_ns: *until_ns,
            ready_ns: 0,
            why: LeftCpu::Ready,
            seamless: true,
        });
        member.away = Some(Box::new(Work {
            spans: Some(spans.collect()),
            ..Default::default()
        }));
        member
    }

    /// Two threads alternate on one CPU, and a third sleeps.
    #[test]
    fn who_is_on_no_cpu_is_not_busy() {
        let members = [
            off(member(0, 0, 40), &[(10, 20), (30, 35)]),
            off(member(1, 0, 40), &[(0, 10), (20, 30), (35, 38)]),
            off(member(2, 5, 60), &[(5, 50)]),
        ];
        let mut sweep = Sweep::default();
        let (busy, shares) = sweep.run(&members, None).unwrap();
        let times: Vec<_> = busy.times().collect();
        // 38 to 40: both are busy; then nobody is until the third wakes.
        assert_eq!(times, [(0, 10), (1, 48), (2, 2)]);
        near(shares[0].normalised_ns, 10.0 + 10.0 + 3.0 + 1.0);
        near(shares[1].normalised_ns, 10.0 + 5.0 + 1.0);
        near(shares[2].normalised_ns, 10.0);
        // All but 2 of the third thread's 55 ns count three times.
        near(shares[2].weighted_ns, 53.0 * 3.0 + 2.0 * 2.0);
    }

    fn near(value: f64, expected: f64) {
        assert!((value - expected).abs() < 1e-6, "{value} {expected}");
    }

    #[test]
    fn time_goes_by_the_number_of_busy_threads() {
        // Two threads at once, then one, then none, then the third.
        let members = [member(0, 0, 10), member(1, 0, 30), member(2, 40, 50)];
        let mut sweep = Sweep::default();
        let (busy, shares) = sweep.run(&members, None).unwrap();
        let times: Vec<_> = busy.times().collect();
        assert_eq!(times, [(0, 10), (1, 30), (2, 10)]);
        assert_eq!(busy.any_ns(), 40);
        near(busy.mean().unwrap(), 50.0 / 40.0);
        near(shares[0].normalised_ns, 5.0);
        near(shares[1].normalised_ns, 25.0);
        near(shares[2].normalised_ns, 10.0);
        // n - busy + 1: a moment with two of three busy counts twice, with one busy three times.
        near(shares[1].weighted_ns, 10.0 * 2.0 + 20.0 * 3.0);
        near(shares[2].weighted_ns, 30.0);
        let at = [0, 9, 10, 29, 30, 40, 50].map(|at| sweep.busy_at(at));
        assert_eq!(at, [2, 2, 1, 1, 0, 1, 0]);
    }

    /// Quartz: the normalised times of all threads add up to the elapsed time.
    #[test]
    fn normalised_times_sum_to_the_time_in_which_any_was_busy() {
        let members: Vec<_> = (0..100)
            .map(|i| member(i, u64::from(i * 37 % 50), u64::from(60 + i * 61 % 90)))
            .collect();
        let mut sweep = Sweep::default();
        let (busy, shares) = sweep.run(&members, None).unwrap();
        let sum: f64 = shares.iter().map(|share| share.normalised_ns).sum();
        near(sum, busy.any_ns() as f64);
        let work: u64 = members
            .iter()
            .map(|member| member.arrived.time_ns - member.since.unwrap().clocks.time_ns)
            .sum();
        assert_eq!(busy.thread_ns, work);
    }

    #[test]
    fn an_unknown_beginning_makes_all_of_it_unknown() {
        let mut members = [member(0, 0, 10), member(1, 0, 30)];
        members[1].since = None;
        assert!(Sweep::default().run(&members, None).is_none());
        assert!(Sweep::default().run(&[], None).is_none());
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
