//! The efficiency of the threads: the efficiencies of POP, and the longest path.
//!
//! POP (Performance Optimisation and Productivity, "POP Standard Metrics") factors the parallel
//! efficiency into load balance, serialisation and transfer. With ideal barriers, the run would
//! take as long as the longest path through the phases (Jiang's execution graph): an episode ends
//! when the longest path of any of its members arrives. For one team, this path is the sum of the
//! longest works; teams side by side have paths of their own.
//!
//! Threads that follow each other in waves share a place: a thread that begins takes the place of a
//! thread that has ended.

use std::{cmp::Reverse, collections::BinaryHeap};

use super::parts::Split;
use crate::total::total;

/// The efficiency is unknown if more than one in this many episodes is incomplete.
pub const MOST_INCOMPLETE: u64 = 10;

/// A thread's place and its path so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chain {
    /// Index of the thread's place; `None` before its first arrival.
    place: Option<u32>,
    /// The longest path to the thread's latest episode, ns.
    pub(super) path_ns: u64,
}

/// Sums over a run.
#[derive(Clone, Debug, Default)]
pub struct Usage {
    start_ns: u64,
    /// Useful work at each place, ns.
    places: Vec<u64>,
    free: BinaryHeap<Reverse<u32>>,
    /// The longest path so far, ns.
    path_ns: u64,
    /// The time at which the last of the threads that took part ended, ns; `None` while any lives.
    empty_since_ns: Option<u64>,
    lacked: Lacked,
    /// Whether something went unwatched for a while.
    interrupted: bool,
}

/// The efficiencies. The first four are fractions from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Efficiency {
    /// Sum of useful work / (threads × wall time): load balance × serialisation ×
    /// transfer.
    pub parallel: f64,
    /// Mean of the places' useful work / the largest useful work.
    pub load_balance: f64,
    /// Largest useful work / the longest path: small if the imbalance moves from thread to thread.
    pub serialisation: f64,
    /// The longest path / wall time: small if the barriers themselves or a lack of CPUs take time.
    pub transfer: f64,
    /// Fraction of the work that did not wait for a CPU; `None` if unknown.
    pub cpu_availability: Option<f64>,
    /// Sum of useful work / wall time.
    pub speedup: f64,
    /// Useful work / the rest of the threads' time; `None` if no time is left.
    pub granularity: Option<f64>,
    /// Places: the most threads that took part at the same time.
    pub threads: usize,
    /// The longest path, ns.
    pub path_ns: u64,
}

/// Useful work of an interval, ns: the work without the time for which the thread lacked a CPU, as
/// far as that is known.
pub fn useful(work_ns: u64, split: Split) -> u64 {
    work_ns.saturating_sub(split.ready_ns.unwrap_or(0))
}

/// How much of the threads' work was time without a CPU.
#[derive(Clone, Copy, Debug, Default)]
#[allow(clippy::struct_field_names, reason = "the postfix is the unit")]
pub struct Lacked {
    /// Work for which that is known, ns.
    known_ns: u64,
    /// Work for which it is not, ns.
    unknown_ns: u64,
    /// Time ready without a CPU, in the work for which that is known, ns.
    ready_ns: u64,
}

impl Lacked {
    /// Adds work of this length, ns.
    pub fn add(&mut self, work_ns: u64, split: Split) {
        let Some(ready_ns) = split.ready_ns else {
            self.unknown_ns = self.unknown_ns.saturating_add(work_ns);
            return;
        };
        self.known_ns = self.known_ns.saturating_add(work_ns);
        self.ready_ns = self.ready_ns.saturating_add(ready_ns);
    }

    /// Adds other work.
    pub fn join(&mut self, other: Self) {
        self.known_ns = self.known_ns.saturating_add(other.known_ns);
        self.unknown_ns = self.unknown_ns.saturating_add(other.unknown_ns);
        self.ready_ns = self.ready_ns.saturating_add(other.ready_ns);
    }

    /// The part of the work that did not wait for a CPU; `None` if that is unknown for more than
    /// one in [`MOST_INCOMPLETE`] of it: the time without a CPU may lie just there.
    pub fn availability(self) -> Option<f64> {
        let all = self.known_ns.saturating_add(self.unknown_ns);
        let is_known = self.known_ns > 0 && self.unknown_ns <= all / MOST_INCOMPLETE;
        is_known.then(|| 1.0 - (self.ready_ns as f64 / self.known_ns as f64).min(1.0))
    }
}

impl Usage {
    /// Sums for a run that is watched from `start_ns` on.
    pub fn new(start_ns: u64) -> Self {
        Self {
            start_ns,
            ..Self::default()
        }
    }

    /// A thread arrives; the first arrival gives it a place. `born_ns`: when the thread began.
    pub fn arrive(&mut self, chain: &mut Chain, born_ns: Option<u64>) {
        if chain.place.is_some() {
            return;
        }
        self.empty_since_ns = None;
        let place = self.free.pop().map_or_else(
            || {
                self.places.push(0);
                u32::try_from(self.places.len() - 1).unwrap_or(u32::MAX)
            },
            |Reverse(place)| place,
        );
        // The path begins with the time that the program took to start the thread.
        let before_ns = born_ns.map_or(0, |born_ns| born_ns.saturating_sub(self.start_ns));
        *chain = Chain {
            place: Some(place),
            path_ns: before_ns,
        };
    }

    /// Adds work of a thread that ended at `until_ns`; `None` if its length is unknown. Returns the
    /// thread's path up to there, ns.
    pub fn work(&mut self, chain: Chain, work: Option<(u64, Split)>, until_ns: u64) -> u64 {
        let Some((work_ns, split)) = work else {
            return chain.path_ns;
        };
        // The work may have begun before the sums did.
        let most = until_ns.saturating_sub(self.start_ns);
        let useful_ns = useful(work_ns, split).min(most);
        if let Some(place) = chain
            .place
            .and_then(|place| self.places.get_mut(place as usize))
        {
            *place = place.saturating_add(useful_ns);
        }
        self.lacked.add(work_ns, split);
        let path_ns = chain.path_ns.saturating_add(useful_ns).min(most);
        self.path_ns = self.path_ns.max(path_ns);
        path_ns
    }

    /// Sets a thread's path after an episode to the longest path of all members.
    pub fn follow(chain: &mut Chain, path_ns: u64) {
        chain.path_ns = path_ns;
    }

    /// A thread has ended and frees its place.
    pub fn leave(&mut self, chain: Chain, time_ns: u64) {
        if let Some(place) = chain.place {
            self.free.push(Reverse(place));
            if self.free.len() == self.places.len() {
                self.empty_since_ns = Some(time_ns);
            }
        }
    }

    /// Notes that something went unwatched: the efficiency stays unknown until the next reset.
    pub const fn interrupt(&mut self) {
        self.interrupted = true;
    }

    /// Resets all totals to count from `start_ns` on; threads keep their places.
    pub fn reset(&mut self, start_ns: u64) {
        self.places.fill(0);
        *self = Self {
            start_ns,
            places: std::mem::take(&mut self.places),
            free: std::mem::take(&mut self.free),
            empty_since_ns: self.empty_since_ns,
            ..Self::default()
        };
    }

    /// The efficiencies at `now_ns`. `working`: the threads that work now, each with the time since
    /// when (ns). `None` if too little was seen.
    pub fn efficiency(
        &self,
        now_ns: u64,
        working: impl Iterator<Item = (Chain, u64)>,
        (episodes, incomplete): (u64, u64),
    ) -> Option<Efficiency> {
        let wall_ns = now_ns.saturating_sub(self.start_ns);
        let too_few = episodes == 0 || incomplete > episodes / MOST_INCOMPLETE;
        if too_few || self.interrupted || wall_ns == 0 || self.places.is_empty() {
            return None;
        }
        let mut now = self.clone();
        for (chain, since_ns) in working {
            let work_ns = now_ns.saturating_sub(since_ns);
            if chain.place.is_some() {
                now.work(chain, Some((work_ns, Split::default())), now_ns);
            }
        }
        // A thread may begin before the thread whose place it takes has ended: their common time
        // counts once.
        for place in &mut now.places {
            *place = (*place).min(wall_ns);
        }
        // After all threads have ended, other code has gone on.
        let after_ns = self.empty_since_ns.map_or(0, |since_ns| {
            now_ns.saturating_sub(since_ns.max(self.start_ns))
        });
        let sum_ns = total(now.places.iter().copied());
        let most_ns = now.places.iter().copied().max().unwrap_or(0);
        let path_ns = now.path_ns.saturating_add(after_ns);
        let path_ns = path_ns.max(most_ns).min(wall_ns);
        let (n, wall, sum) = (now.places.len() as f64, wall_ns as f64, sum_ns as f64);
        let (most, path) = (most_ns as f64, path_ns as f64);
        (sum_ns > 0).then(|| Efficiency {
            parallel: sum / (n * wall),
            load_balance: sum / n / most,
            serialisation: most / path,
            transfer: path / wall,
            // Of present work it is not known yet.
            cpu_availability: self.lacked.availability(),
            speedup: sum / wall,
            granularity: (n * wall > sum).then(|| sum / (n * wall - sum)),
            threads: now.places.len(),
            path_ns,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready(ready_ns: u64) -> Split {
        Split {
            ready_ns: Some(ready_ns),
            ..Split::default()
        }
    }

    /// Runs a team through phases, given the work of each member; the longest work ends a phase.
    fn run(phases: &[&[u64]]) -> Efficiency {
        let mut usage = Usage::new(1000);
        let mut chains = vec![Chain::default(); phases[0].len()];
        for chain in &mut chains {
            usage.arrive(chain, Some(1000));
        }
        let mut time_ns = 1000;
        for works in phases {
            let begin_ns = time_ns;
            let mut path_ns = 0;
            for (chain, work_ns) in chains.iter().zip(*works) {
                let work = Some((*work_ns, ready(0)));
                path_ns = path_ns.max(usage.work(*chain, work, begin_ns + work_ns));
                time_ns = time_ns.max(begin_ns + work_ns);
            }
            for chain in &mut chains {
                Usage::follow(chain, path_ns);
            }
            // The time of the barrier itself.
            time_ns += 10;
        }
        let episodes = phases.len() as u64;
        usage
            .efficiency(time_ns, std::iter::empty(), (episodes, 0))
            .unwrap()
    }

    fn near(value: f64, expected: f64) {
        assert!((value - expected).abs() < 1e-9, "{value} {expected}");
    }

    #[test]
    fn the_factors_are_those_of_pop() {
        // The same thread always works more.
        let it = run(&[&[100, 50], &[100, 50]]);
        near(it.load_balance, 0.75);
        near(it.serialisation, 1.0);
        near(it.transfer, 200.0 / 220.0);
        near(it.parallel, 300.0 / (2.0 * 220.0));
        near(it.speedup, 300.0 / 220.0);
        near(it.granularity.unwrap(), 300.0 / 140.0);
        near(it.cpu_availability.unwrap(), 1.0);
        // The threads work more in turn.
        let it = run(&[&[100, 50], &[50, 100]]);
        near(it.load_balance, 1.0);
        near(it.serialisation, 0.75);
    }

    #[test]
    fn the_factors_multiply_up_and_the_parts_sum_to_the_wall_time() {
        for phases in [
            &[&[7, 900, 30][..], &[5, 5, 5], &[100, 3, 20]][..],
            &[&[1, 1, 1]],
            &[&[0, 10, 0], &[10, 0, 0], &[0, 0, 10]],
        ] {
            let it = run(phases);
            near(
                it.load_balance * it.serialisation * it.transfer,
                it.parallel,
            );
            let wall = it.speedup / it.parallel / it.threads as f64;
            near(wall, 1.0);
            // Fractions of the threads' time: useful, uneven, moving from thread to thread, and
            // lost in the barriers.
            let serial = it.serialisation * it.transfer;
            let parts = [
                it.parallel,
                serial - it.parallel,
                it.transfer - serial,
                1.0 - it.transfer,
            ];
            near(parts.iter().sum(), 1.0);
            assert!(parts.iter().all(|part| *part >= 0.0), "{it:?}");
        }
    }

    #[test]
    fn teams_side_by_side_have_paths_of_their_own() {
        let mut usage = Usage::new(0);
        let mut chains = [Chain::default(); 2];
        for chain in &mut chains {
            usage.arrive(chain, Some(0));
        }
        for chain in &mut chains {
            let path_ns = usage.work(*chain, Some((90, Split::default())), 90);
            Usage::follow(chain, path_ns);
        }
        let it = usage.efficiency(100, std::iter::empty(), (2, 0)).unwrap();
        assert_eq!(it.path_ns, 90);
        near(it.parallel, 0.9);
        assert_eq!(it.cpu_availability, None);
    }

    #[test]
    fn availability_is_unknown_if_a_good_part_of_the_work_may_lack_cpus() {
        let mut lacked = Lacked::default();
        assert_eq!(lacked.availability(), None);
        lacked.add(900, ready(90));
        lacked.add(100, Split::default());
        near(lacked.availability().unwrap(), 0.9);
        let mut both = Lacked::default();
        both.add(10, Split::default());
        both.join(lacked);
        assert_eq!(both.availability(), None);
    }

    #[test]
    fn threads_that_overlap_at_one_place_use_it_once() {
        let mut usage = Usage::new(0);
        // The second thread begins long before the first one ends, and arrives after that.
        for (born_ns, until_ns) in [(0, 100), (10, 110)] {
            let mut chain = Chain::default();
            usage.arrive(&mut chain, Some(born_ns));
            usage.work(chain, Some((100, Split::default())), until_ns);
            usage.leave(chain, until_ns);
        }
        let it = usage.efficiency(110, std::iter::empty(), (2, 0)).unwrap();
        assert_eq!((it.threads, it.path_ns), (1, 110));
        for share in [it.parallel, it.load_balance, it.serialisation, it.transfer] {
            near(share, 1.0);
        }
        near(it.speedup, 1.0);
    }

    #[test]
    fn a_place_is_taken_again() {
        let mut usage = Usage::new(0);
        for wave in 0..10 {
            let mut chain = Chain::default();
            usage.arrive(&mut chain, Some(wave * 100));
            usage.work(chain, Some((80, ready(20))), wave * 100 + 80);
            usage.leave(chain, wave * 100 + 80);
        }
        let it = usage.efficiency(1000, std::iter::empty(), (10, 0)).unwrap();
        assert_eq!(it.threads, 1);
        near(it.parallel, 0.6);
        near(it.cpu_availability.unwrap(), 0.75);
        // The program starts each thread late, and goes on after the last thread.
        near(it.transfer, 0.98);
    }

    #[test]
    fn what_goes_on_counts_until_now() {
        let mut usage = Usage::new(0);
        let mut chain = Chain::default();
        usage.arrive(&mut chain, Some(0));
        assert_eq!(usage.work(chain, None, 50), 0);
        let it = usage.efficiency(100, [(chain, 40)].into_iter(), (1, 0));
        near(it.unwrap().parallel, 0.6);
        let other = [(Chain::default(), 0)].into_iter();
        assert_eq!(usage.efficiency(100, other, (1, 0)), None);
    }

    #[test]
    fn too_little_says_nothing() {
        let mut usage = Usage::new(0);
        let mut chain = Chain::default();
        let none = std::iter::empty;
        assert_eq!(usage.efficiency(10, none(), (1, 0)), None);
        usage.arrive(&mut chain, Some(0));
        usage.work(chain, Some((5, Split::default())), 5);
        assert!(usage.efficiency(10, none(), (10, 1)).is_some());
        assert_eq!(usage.efficiency(10, none(), (9, 1)), None);
        assert_eq!(usage.efficiency(10, none(), (0, 0)), None);
        usage.reset(6);
        assert_eq!(usage.efficiency(10, none(), (1, 0)), None);
        usage.work(chain, Some((5, Split::default())), 8);
        near(usage.efficiency(10, none(), (1, 0)).unwrap().parallel, 0.5);
        usage.interrupt();
        assert_eq!(usage.efficiency(10, none(), (1, 0)), None);
    }
}
