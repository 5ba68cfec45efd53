//! Joins samples of where threads were with what the threads did.
//!
//! A sample is taken while its thread is on a CPU. It is kept until the episode that ends its work
//! or wait is settled. Only then is it known whether the thread worked, how many others worked, and
//! whether the thread came last.

use std::{collections::VecDeque, ops::Range};

use rustc_hash::FxHashMap;

use super::{
    busy::{Busy, whole},
    ids::{ChainId, SiteId},
    parts::Split,
};

/// Samples kept until their episode is settled, over all threads, at most about this many.
const MAX_KEPT: usize = 1 << 18;

/// Samples kept for each thread, however many threads there are.
const LEAST_KEPT: usize = 64;

/// With this many threads, those without a sample for [`GONE_NS`] are forgotten.
const MAX_THREADS: usize = 4096;

/// Time without a sample after which a thread may be forgotten, ns.
const GONE_NS: u64 = 10_000_000_000;

/// With at least this many samples at a site, they are scaled to the exact time of its threads:
/// fewer samples may have met the site by chance.
const ENOUGH: u64 = 4;

/// Pairs of a site and a chain that are kept, at most.
const MAX_PAIRS: usize = 1 << 16;

/// A sample whose episode is not settled yet.
#[derive(Clone, Copy, Debug)]
struct Kept {
    time_ns: u64,
    chain: ChainId,
    /// Samples that this sample stands for: where room is short, every second one is kept.
    weight: u32,
}

/// Sums over the samples in one chain of functions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sums {
    /// Samples of threads that worked.
    pub samples: u64,
    /// Time of these samples by the number of busy threads.
    pub busy: Busy,
    /// Time of these samples, each divided by the number of busy threads, ns.
    pub normalised_ns: f64,
    /// Time of the samples whose thread came last, ns.
    pub path_ns: f64,
    /// Time of the samples whose thread came last, each multiplied by 1 + the number of threads
    /// that did not work then, ns.
    pub weighted_ns: f64,
}

/// One thread's part in an episode, as the samples need it.
#[derive(Clone, Debug)]
pub struct SampledPart {
    /// The thread's number, as the user sees it.
    pub thread: u32,
    /// The time at which the thread worked, ns; `None` if the beginning of any member's work is
    /// unknown, or if several threads share its row.
    pub work: Option<Range<u64>>,
    /// The time at which the thread arrived, ns.
    pub arrived_ns: u64,
    /// The time at which the thread left, ns; at least the time of the last arrival.
    pub left_ns: u64,
    /// The split of the work into running, ready and blocked time.
    pub split: Split,
    /// Normalised processor time of the work, ns.
    pub normalised_ns: f64,
    /// Whether the thread came last.
    pub is_last: bool,
    /// Whether the thread was kept waiting for a parallel region before its work.
    pub was_kept: bool,
}

/// Exact figures of a site, and the same figures as its samples give them.
#[derive(Clone, Copy, Debug, Default)]
struct Site {
    samples: u64,
    /// Normalised processor time without sleep, ns: exact, and by samples.
    normalised_ns: [f64; 2],
    path_samples: u64,
    /// Work of the stragglers without sleep, ns: exact, and by samples.
    path_ns: [f64; 2],
}

impl Site {
    /// Factors that scale samples to the exact figures: for all samples, and for those of
    /// stragglers.
    fn factors(self) -> [f64; 2] {
        let factor = |samples: u64, [exact, sampled]: [f64; 2]| {
            if samples < ENOUGH || sampled <= 0.0 {
                1.0
            } else {
                exact / sampled
            }
        };
        [
            factor(self.samples, self.normalised_ns),
            factor(self.path_samples, self.path_ns),
        ]
    }
}

/// All samples.
#[derive(Clone, Debug)]
pub struct Samples {
    /// Run time that each sample stands for, ns.
    period_ns: u64,
    /// The number of threads that can be on a CPU at once, if known.
    cpus: Option<u32>,
    threads: FxHashMap<u32, VecDeque<Kept>>,
    sites: FxHashMap<SiteId, Site>,
    sums: FxHashMap<(SiteId, ChainId), Sums>,
    /// Samples of threads that waited in barriers.
    pub waiting: u64,
    /// Samples outside of the known work and waits.
    pub outside: u64,
    /// Normalised processor time in which working threads slept, ns; `None` if the split of some
    /// work was unknown.
    pub blocked_ns: Option<f64>,
}

impl Samples {
    /// Creates an empty collection. `period_ns`: run time that each sample stands for, ns. `cpus`:
    /// how many threads can be on a CPU at once, if known.
    pub fn new(period_ns: u64, cpus: Option<u32>) -> Self {
        Self {
            period_ns,
            cpus,
            threads: FxHashMap::default(),
            sites: FxHashMap::default(),
            sums: FxHashMap::default(),
            waiting: 0,
            outside: 0,
            blocked_ns: Some(0.0),
        }
    }

    /// Sums by chain of functions, sorted by the chains' numbers.
    pub fn sums(&self) -> Vec<(ChainId, Sums)> {
        let mut pairs: Vec<_> = self.sums.iter().collect();
        // Sums of floating-point numbers depend on the order.
        pairs.sort_by_key(|((site, chain), _)| (*chain, *site));
        let mut all: Vec<(ChainId, Sums)> = Vec::new();
        for ((site, chain), sums) in pairs {
            let [factor, on_path] = self.sites.get(site).map_or([1.0; 2], |site| site.factors());
            if all.last().is_none_or(|last| last.0 != *chain) {
                all.push((*chain, Sums::default()));
            }
            if let Some((_, all)) = all.last_mut() {
                all.samples += sums.samples;
                all.busy.merge(&sums.busy.scaled(factor));
                all.normalised_ns += factor * sums.normalised_ns;
                all.path_ns += on_path * sums.path_ns;
                all.weighted_ns += on_path * sums.weighted_ns;
            }
        }
        all
    }

    /// Samples whose episode is not settled yet.
    pub fn waiting_for_episodes(&self) -> u64 {
        let kept = self.threads.values().flatten();
        kept.map(|kept| u64::from(kept.weight)).sum()
    }

    /// Takes in a sample. Samples of one thread come nearly in the order of their times.
    pub fn push(&mut self, thread: u32, time_ns: u64, chain: ChainId) {
        if self.threads.len() >= MAX_THREADS && !self.threads.contains_key(&thread) {
            self.forget(time_ns.saturating_sub(GONE_NS));
        }
        let room = (MAX_KEPT / (self.threads.len() + 1)).clamp(LEAST_KEPT, MAX_KEPT / 64);
        let kept = self.threads.entry(thread).or_default();
        if kept.len() >= room {
            thin(kept);
        }
        let at = kept.iter().rposition(|old| old.time_ns <= time_ns);
        let new = Kept {
            time_ns,
            chain,
            weight: 1,
        };
        kept.insert(at.map_or(0, |at| at + 1), new);
    }

    /// Drops threads without a sample since `before_ns`: they have ended, or meet no barrier.
    fn forget(&mut self, before_ns: u64) {
        let outside = &mut self.outside;
        self.threads.retain(|_, kept| {
            let is_here = kept.back().is_some_and(|last| last.time_ns >= before_ns);
            if !is_here {
                *outside += count(kept.make_contiguous());
            }
            is_here
        });
    }

    /// Removes and returns the samples of a thread within `span`.
    fn take(&mut self, thread: u32, span: Range<u64>) -> Vec<Kept> {
        let Some(kept) = self.threads.get_mut(&thread) else {
            return Vec::new();
        };
        let from = kept.partition_point(|kept| kept.time_ns < span.start);
        let to = kept.partition_point(|kept| kept.time_ns < span.end);
        kept.drain(from..to.max(from)).collect()
    }

    /// Settles the samples of one thread's part in an episode. `busy`: how many of the `n` members
    /// worked at a given time, ns.
    pub fn settle(
        &mut self,
        site: SiteId,
        part: &SampledPart,
        n: usize,
        busy: impl Fn(u64) -> usize,
    ) {
        let waited = self.take(
            part.thread,
            part.arrived_ns..part.left_ns.max(part.arrived_ns),
        );
        self.waiting += count(&waited);
        let Some(work) = part.work.clone() else {
            let all = self.take(part.thread, 0..part.arrived_ns);
            self.outside += count(&all);
            return;
        };
        // Earlier samples belong to no episode that is fully known.
        let before = self.take(part.thread, 0..work.start);
        if part.was_kept {
            self.waiting += count(&before);
        } else {
            self.outside += count(&before);
        }
        let work_ns = work.end.saturating_sub(work.start);
        let taken = self.take(part.thread, work);
        let asleep = part
            .split
            .blocked_ns
            .map(|ns| ns as f64 / work_ns.max(1) as f64);
        self.blocked_ns =
            (self.blocked_ns.zip(asleep)).map(|(sum, share)| sum + part.normalised_ns * share);
        let awake = 1.0 - asleep.unwrap_or(0.0);
        let here = self.sites.entry(site).or_default();
        here.normalised_ns[0] += part.normalised_ns * awake;
        if part.is_last {
            here.path_ns[0] += work_ns as f64 * awake;
        }
        for sample in taken {
            let busy = busy(sample.time_ns).clamp(1, n.max(1));
            // With more busy threads than CPUs, each thread is sampled proportionally less often.
            let shared = self
                .cpus
                .map_or(1.0, |cpus| busy as f64 / f64::from(cpus.max(1)));
            let ns = self.period_ns as f64 * f64::from(sample.weight) * shared.max(1.0);
            let is_known = self.sums.contains_key(&(site, sample.chain));
            let chain = if is_known || self.sums.len() < MAX_PAIRS {
                sample.chain
            } else {
                ChainId(0)
            };
            let sums = self.sums.entry((site, chain)).or_default();
            let weight = u64::from(sample.weight);
            here.samples += weight;
            here.normalised_ns[1] += ns / busy as f64;
            sums.samples += weight;
            sums.busy.add(busy, whole(ns));
            sums.normalised_ns += ns / busy as f64;
            if part.is_last {
                here.path_samples += weight;
                here.path_ns[1] += ns;
                sums.path_ns += ns;
                sums.weighted_ns += ns * (n - busy + 1) as f64;
            }
        }
    }

    /// Counts the remaining samples as outside of known episodes.
    pub fn finish(&mut self) {
        self.outside += self.waiting_for_episodes();
        self.threads.clear();
    }

    /// Resets all totals; unsettled samples are kept.
    pub fn reset(&mut self) {
        *self = Self {
            threads: std::mem::take(&mut self.threads),
            ..Self::new(self.period_ns, self.cpus)
        };
    }
}

fn count(kept: &[Kept]) -> u64 {
    kept.iter().map(|kept| u64::from(kept.weight)).sum()
}

/// Drops every second sample; the next one takes over its weight.
fn thin(kept: &mut VecDeque<Kept>) {
    // Only the samples with the least weight are thinned, so that all weights become equal over
    // time.
    let least = kept.iter().map(|kept| kept.weight).min().unwrap_or(1);
    let mut carried = 0;
    kept.retain_mut(|kept| {
        if kept.weight != least {
            return true;
        }
        if carried == 0 {
            carried = kept.weight;
            return false;
        }
        kept.weight = kept.weight.saturating_add(std::mem::take(&mut carried));
        true
    });
    if carried > 0
        && let Some(last) = kept.back_mut()
    {
        last.weight = last.weight.saturating_add(carried);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn part(thread: u32, work_ns: Range<u64>, left_ns: u64, ready_ns: u64) -> SampledPart {
        let all_ns = work_ns.end - work_ns.start;
        SampledPart {
            thread,
            arrived_ns: work_ns.end,
            left_ns,
            split: Split {
                running_ns: Some(all_ns - ready_ns),
                ready_ns: Some(ready_ns),
                blocked_ns: Some(0),
            },
            normalised_ns: 0.0,
            is_last: false,
            was_kept: false,
            work: Some(work_ns),
        }
    }

    fn near(value: f64, expected: f64) {
        assert!((value - expected).abs() < 1.0, "{value} {expected}");
    }

    const HERE: SiteId = SiteId(0);

    fn of(samples: &Samples, chain: u32) -> Sums {
        let all = samples.sums();
        let found = all.into_iter().find(|found| found.0 == ChainId(chain));
        found.unwrap().1
    }

    #[test]
    fn samples_count_by_what_the_thread_and_the_others_did() {
        let mut samples = Samples::new(5 * MS, None);
        for at in 0..20 {
            samples.push(7, at * 5 * MS, ChainId(if at < 10 { 1 } else { 2 }));
        }
        samples.push(7, 101 * MS, ChainId(3));
        samples.push(7, 130 * MS, ChainId(1));
        let part = SampledPart {
            is_last: true,
            normalised_ns: 62.5 * MS as f64,
            ..part(7, 0..100 * MS, 120 * MS, 0)
        };
        // One of four threads is busy for half of the time, then all four.
        samples.settle(HERE, &part, 4, |at| if at < 50 * MS { 1 } else { 4 });
        near(of(&samples, 1).normalised_ns, 50.0 * MS as f64);
        near(of(&samples, 2).normalised_ns, 12.5 * MS as f64);
        near(of(&samples, 1).path_ns, 50.0 * MS as f64);
        near(of(&samples, 1).weighted_ns, 200.0 * MS as f64);
        near(of(&samples, 2).weighted_ns, 50.0 * MS as f64);
        assert_eq!(of(&samples, 1).samples, 10);
        assert_eq!((samples.waiting, samples.outside), (1, 0));
        assert_eq!(samples.waiting_for_episodes(), 1);
        samples.finish();
        assert_eq!(samples.outside, 1);
    }

    /// Two threads share a CPU for a while, then one of them has it alone.
    #[test]
    fn time_without_a_cpu_counts() {
        let mut samples = Samples::new(5 * MS, Some(1));
        for at in (0..100).step_by(10).chain((100..150).step_by(5)) {
            samples.push(1, at * MS, ChainId(if at < 100 { 1 } else { 2 }));
        }
        let part = SampledPart {
            normalised_ns: 100.0 * MS as f64,
            ..part(1, 0..150 * MS, 150 * MS, 50 * MS)
        };
        samples.settle(HERE, &part, 2, |at| if at < 100 * MS { 2 } else { 1 });
        near(of(&samples, 1).normalised_ns, 50.0 * MS as f64);
        near(of(&samples, 2).normalised_ns, 50.0 * MS as f64);
        // Another program has the other half of the CPU.
        let mut samples = Samples::new(5 * MS, Some(1));
        for at in 0..10 {
            samples.push(1, at * 10 * MS, ChainId(1));
        }
        let part = SampledPart {
            normalised_ns: 100.0 * MS as f64,
            ..part
        };
        samples.settle(HERE, &part, 1, |_| 1);
        near(of(&samples, 1).normalised_ns, 100.0 * MS as f64);
    }

    #[test]
    fn sleep_is_in_no_function() {
        let mut samples = Samples::new(5 * MS, None);
        for at in 0..4 {
            samples.push(1, at * 5 * MS, ChainId(1));
        }
        let split = Split {
            running_ns: Some(20 * MS),
            ready_ns: Some(0),
            blocked_ns: Some(80 * MS),
        };
        let part = SampledPart {
            split,
            normalised_ns: 50.0 * MS as f64,
            ..part(1, 0..100 * MS, 100 * MS, 0)
        };
        samples.settle(HERE, &part, 2, |_| 2);
        near(of(&samples, 1).normalised_ns, 10.0 * MS as f64);
        near(samples.blocked_ns.unwrap(), 40.0 * MS as f64);
    }

    /// The phases are shorter than the sampling period: the few that are sampled stand for the
    /// others.
    #[test]
    fn short_phases_are_right_in_the_mean() {
        let mut samples = Samples::new(5 * MS, None);
        for phase in 0..1000 {
            let from = phase * MS;
            if phase % 7 == 0 {
                samples.push(1, from + 1, ChainId(1));
            }
            let part = SampledPart {
                normalised_ns: MS as f64,
                ..part(1, from..from + MS, from + MS, MS / 4)
            };
            samples.settle(HERE, &part, 1, |_| 1);
        }
        near(of(&samples, 1).normalised_ns, 1000.0 * MS as f64);
    }

    /// A site sampled by chance is not scaled down.
    #[test]
    fn few_samples_stand_for_themselves() {
        let mut samples = Samples::new(5 * MS, None);
        samples.push(1, 1, ChainId(1));
        samples.settle(HERE, &part(1, 0..MS, MS, 0), 1, |_| 1);
        near(of(&samples, 1).normalised_ns, 5.0 * MS as f64);
    }

    #[test]
    fn what_is_unknown_belongs_to_nobody() {
        let mut samples = Samples::new(MS, None);
        samples.push(1, 5, ChainId(1));
        samples.push(1, 50, ChainId(1));
        let part = SampledPart {
            work: None,
            ..part(1, 0..40, 60, 0)
        };
        samples.settle(HERE, &part, 2, |_| 1);
        assert_eq!((samples.outside, samples.waiting), (1, 1));
        assert!(samples.sums().is_empty());
    }

    #[test]
    fn memory_is_bounded_and_nothing_is_forgotten() {
        let mut samples = Samples::new(MS, None);
        let all = 3 * MAX_KEPT as u64 / 64;
        for at in 0..all {
            samples.push(1, at * MS, ChainId(1));
        }
        assert!(samples.threads[&1].len() <= MAX_KEPT / 64);
        assert_eq!(samples.waiting_for_episodes(), all);
        let part = SampledPart {
            normalised_ns: (all * MS) as f64,
            ..part(1, 0..all * MS, all * MS, 0)
        };
        samples.settle(HERE, &part, 1, |_| 1);
        let sums = of(&samples, 1);
        assert_eq!(sums.samples, all);
        near(sums.normalised_ns, (all * MS) as f64);
        for thread in 0..10_000 {
            for at in 0..100 {
                samples.push(thread, at, ChainId(1));
            }
        }
        let kept: usize = samples.threads.values().map(VecDeque::len).sum();
        assert!(kept <= 10_000 * LEAST_KEPT + MAX_KEPT);
    }
}
