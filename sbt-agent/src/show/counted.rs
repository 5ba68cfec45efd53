//! Counts of counters over the run in bounded memory: for all threads together, and for each thread
//! if there is room.
//!
//! A count belongs to a span of time ([`Rates`]) and is spread evenly over this span. Counts from
//! the time that threads wait in barriers are not included.

use super::{
    Episode, Participant,
    columns::Columns,
    rates::Rates,
    timeline::{MOST_CELLS, MOST_COLUMNS, MOST_THREADS},
};
use sbt_engine::report::Report;

/// Minimum number of pieces per thread. If memory allows fewer, there are no counts per thread.
const LEAST_COLUMNS: usize = 100;

/// The count of a counter in a piece of time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Amount {
    /// Sum of the known counts.
    pub sum: f64,
    /// Whether some of the count is known.
    pub is_counted: bool,
    /// Whether some of the count is unknown.
    pub is_partial: bool,
}

/// The counts of one counter over the run.
#[derive(Debug)]
pub struct Counter {
    /// Counts of all threads together, by piece of [`Counted::all`].
    pub all: Vec<Amount>,
    /// Counts by thread, and by piece of [`Counted::each`].
    pub threads: Vec<Vec<Amount>>,
    /// Counts whose span of time is unknown; not included elsewhere.
    pub untimed: u64,
}

/// The counts of all counters.
#[derive(Debug)]
pub struct Counted {
    /// The pieces of time for all threads together.
    pub all: Columns,
    /// The pieces of time for each thread; `None` if there is no room.
    pub each: Option<Columns>,
    /// The counters, in the order of the report.
    pub counters: Vec<Counter>,
    rates: Rates,
    /// By thread: the end of its last episode, ns.
    until_ns: Vec<u64>,
}

impl Counted {
    /// Starts with no counts for the run of this report, from `from_ns` on; `None` if nothing was
    /// counted.
    pub fn new(report: &Report, from_ns: u64) -> Option<Self> {
        let counters = report.counters.len();
        if counters == 0 {
            return None;
        }
        let columns =
            |most: usize| Columns::new(from_ns, report.run.wall_ns, most.min(MOST_COLUMNS));
        // Half of the memory is for all threads together.
        let all = columns(MOST_CELLS / 2 / counters);
        let threads = report.threads.len().min(MOST_THREADS);
        let most = MOST_CELLS / 2 / (counters * threads.max(1));
        let each = (most >= LEAST_COLUMNS).then(|| columns(most));
        let empty = |columns: Columns| vec![Amount::default(); columns.number];
        let counter = || Counter {
            all: empty(all),
            threads: each.map_or_else(Vec::new, |each| vec![empty(each); threads]),
            untimed: 0,
        };
        Some(Self {
            all,
            each,
            counters: (0..counters).map(|_| counter()).collect(),
            rates: Rates::new(report),
            until_ns: vec![0; report.threads.len()],
        })
    }

    /// Adds an episode.
    pub fn add(&mut self, episode: &Episode) {
        let spans = self.rates.spans(episode);
        for (seen, span) in episode.seen.iter().zip(spans) {
            self.count(seen, span);
            if let Some(until_ns) = self.until_ns.get_mut(seen.thread as usize) {
                let left_ns = seen.release_ns.map(|ns| episode.last_ns + ns);
                *until_ns = left_ns.unwrap_or(seen.arrived_ns);
            }
        }
    }

    /// Adds what a thread counted before an episode. `span` is the time of the counting, if known.
    fn count(&mut self, seen: &Participant, span: Option<(u64, u64)>) {
        for at in 0..self.counters.len() {
            match (seen.counts.get(at).copied().flatten(), span) {
                (Some(count), Some(span)) => self.draw(at, seen.thread, span, Some(count)),
                (Some(0), None) => {}
                (Some(count), None) => {
                    let untimed = &mut self.counters[at].untimed;
                    *untimed = untimed.saturating_add(count);
                    self.draw(at, seen.thread, self.gap(seen), None);
                }
                (None, span) => {
                    let span = span.unwrap_or_else(|| self.gap(seen));
                    self.draw(at, seen.thread, span, None);
                }
            }
        }
    }

    /// The time before an arrival for which counts are incomplete.
    fn gap(&self, seen: &Participant) -> (u64, u64) {
        let until_ns = self.until_ns.get(seen.thread as usize).copied();
        let work = seen.work_ns.map(|ns| seen.arrived_ns.saturating_sub(ns));
        // Threads that share a number overlap, so the end of the last episode says nothing.
        let last = until_ns.filter(|_| !seen.is_shared);
        let begin_ns = work.into_iter().chain(last).min();
        (begin_ns.unwrap_or(seen.arrived_ns), seen.arrived_ns)
    }

    /// Spreads a count over a span of time. `None` stands for an unknown count.
    fn draw(&mut self, at: usize, thread: u32, (from_ns, to_ns): (u64, u64), count: Option<u64>) {
        let counter = &mut self.counters[at];
        let a_ns = count.map(|count| count as f64 / to_ns.saturating_sub(from_ns).max(1) as f64);
        let draw = |lane: &mut [Amount], columns: Columns| {
            for (at, part_ns) in columns.parts(from_ns, to_ns) {
                lane[at].sum += a_ns.map_or(0.0, |a_ns| a_ns * part_ns as f64);
                lane[at].is_counted |= a_ns.is_some();
                lane[at].is_partial |= a_ns.is_none();
            }
        };
        draw(&mut counter.all, self.all);
        if let (Some(each), Some(lane)) = (self.each, counter.threads.get_mut(thread as usize)) {
            draw(lane, each);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sbt_engine::{model::parts::Split, samples};

    /// A sample report whose counters include page faults.
    fn counted() -> Counted {
        let mut report = samples::counted().report;
        report.run.wall_ns = 1_000_000;
        Counted::new(&report, 0).unwrap()
    }

    fn seen(thread: u32, work: (u64, u64), count: Option<u64>) -> Participant {
        Participant {
            thread,
            is_shared: false,
            arrived_ns: work.1,
            idle_ns: 0,
            release_ns: Some(0),
            work_ns: Some(work.1 - work.0),
            split: Split::default(),
            counts: vec![count],
        }
    }

    fn episode(seen: Vec<Participant>) -> Episode {
        let arrived = || seen.iter().map(|one| one.arrived_ns);
        Episode {
            site: 0,
            index: 0,
            first_ns: arrived().min().unwrap_or(0),
            last_ns: arrived().max().unwrap_or(0),
            phase: None,
            straggler: None,
            alone: None,
            seen,
        }
    }

    fn sum(lane: &[Amount]) -> f64 {
        lane.iter().map(|amount| amount.sum).sum()
    }

    #[test]
    fn sums_over_the_time_are_those_of_the_episodes() {
        let mut counted = counted();
        let mut sums = [0, 0];
        for at in 0..50 {
            let begin_ns = at * 20_000;
            let counts = [at * 7 % 11, at % 3 * 1_000];
            for (sum, count) in sums.iter_mut().zip(counts) {
                *sum += count;
            }
            counted.add(&episode(vec![
                seen(0, (begin_ns, begin_ns + 777), Some(counts[0])),
                seen(1, (begin_ns + 5, begin_ns + 19_000), Some(counts[1])),
            ]));
        }
        let faults = &counted.counters[0];
        for (lane, expected) in faults.threads.iter().zip(sums) {
            assert!((sum(lane) - expected as f64).abs() < 1e-6);
        }
        assert!((sum(&faults.all) - (sums[0] + sums[1]) as f64).abs() < 1e-6);
        assert!(faults.all.iter().all(|amount| !amount.is_partial));
        assert_eq!(faults.untimed, 0);
    }

    #[test]
    fn what_is_not_known_is_not_nothing() {
        let mut counted = counted();
        counted.add(&episode(vec![
            seen(0, (0, 100_000), None),
            seen(1, (0, 100_000), Some(0)),
        ]));
        let faults = &counted.counters[0];
        let flags = |amount: &Amount| (amount.is_counted, amount.is_partial);
        assert_eq!(flags(&faults.threads[0][0]), (false, true));
        assert_eq!(flags(&faults.threads[1][0]), (true, false));
        assert_eq!(flags(&faults.all[0]), (true, true));
        // In the last piece no thread worked.
        let last = faults.all.last().unwrap();
        assert_eq!(flags(last), (false, false));
    }

    #[test]
    fn what_was_counted_at_an_unknown_time_is_told_apart() {
        let mut counted = counted();
        let mut one = seen(0, (0, 100_000), Some(5));
        one.work_ns = None;
        counted.add(&episode(vec![one, seen(1, (0, 100_000), Some(6))]));
        let faults = &counted.counters[0];
        assert_eq!(faults.untimed, 5);
        assert!((sum(&faults.all) - 6.0).abs() < 1e-6);
        assert!(faults.threads[0][0].is_partial && !faults.threads[0][0].is_counted);
        assert!(!faults.threads[1][0].is_partial);
    }

    #[test]
    fn many_counters_and_threads_share_the_room() {
        for (counters, threads) in [(1, 4), (16, 4), (16, 4096), (1, 4096)] {
            let mut report = samples::counted().report;
            report.run.wall_ns = 1_000_000_000;
            report.counters = vec![report.counters[0].clone(); counters];
            report.threads = vec![report.threads[0].clone(); threads];
            let counted = Counted::new(&report, 0).unwrap();
            let cells = |counter: &Counter| {
                let each: usize = counter.threads.iter().map(Vec::len).sum();
                counter.all.len() + each
            };
            let all: usize = counted.counters.iter().map(cells).sum();
            assert!(all <= MOST_CELLS, "{counters} {threads}: {all}");
            assert_eq!(counted.each.is_none(), (counters, threads) == (16, 4096));
            assert!(counted.all.number >= 5000);
        }
        let nothing = samples::imbalanced().report;
        assert!(Counted::new(&nothing, 0).is_none());
    }
}
