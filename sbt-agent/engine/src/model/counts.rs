//! Counter values for work: readings, the differences between readings, and sums of them.

use std::collections::VecDeque;

use crate::event::{Count, Reading};

/// Readings of a thread that are kept until their event arrives, at most.
const MAX_WAITING: usize = 64;

/// The differences between two readings, by counter; `None` for a counter whose difference is
/// unknown.
pub fn between(from: &[Option<Count>], to: &[Option<Count>]) -> Reading {
    let pairs = from.iter().zip(to);
    pairs
        .map(|(from, to)| difference((*from)?, (*to)?))
        .collect()
}

/// The difference from `from` to `to`. `None` if the two do not belong to the same counting, or if
/// the counter was enabled in between but never ran.
fn difference(from: Count, to: Count) -> Option<Count> {
    let same = from.since_ns == to.since_ns;
    let whole = Count {
        value: to.value.checked_sub(from.value)?,
        enabled_ns: to.enabled_ns.checked_sub(from.enabled_ns)?,
        running_ns: to.running_ns.checked_sub(from.running_ns)?,
        since_ns: to.since_ns,
    };
    let missed = whole.enabled_ns > 0 && whole.running_ns == 0;
    (same && !missed).then_some(whole)
}

impl Count {
    /// The count, extrapolated to the whole time if the counter ran only for a part of it.
    pub fn scaled(self) -> u64 {
        if self.running_ns == 0 || self.running_ns >= self.enabled_ns {
            return self.value;
        }
        let whole = u128::from(self.value) * u128::from(self.enabled_ns);
        u64::try_from(whole / u128::from(self.running_ns)).unwrap_or(u64::MAX)
    }
}

/// The sum of one counter over intervals, some of which may be unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    value: u64,
    enabled_ns: u64,
    running_ns: u64,
    known: u64,
    unknown: u64,
}

impl Sum {
    fn add(&mut self, part: Option<Count>) {
        let Some(part) = part else {
            self.unknown += 1;
            return;
        };
        self.known += 1;
        self.value = self.value.saturating_add(part.scaled());
        self.enabled_ns = self.enabled_ns.saturating_add(part.enabled_ns);
        self.running_ns = self.running_ns.saturating_add(part.running_ns);
    }

    /// The sum of the known parts; `None` if there are none.
    pub fn get(self) -> Option<u64> {
        (self.known > 0).then_some(self.value)
    }

    /// Number of intervals in the sum.
    pub const fn known(self) -> u64 {
        self.known
    }

    /// Number of intervals that are unknown and so not in the sum.
    pub const fn unknown(self) -> u64 {
        self.unknown
    }

    /// Fraction of the time for which the counter ran, in per cent. `None` for a counter that
    /// always runs, and if nothing is known.
    pub fn counted_pct(self) -> Option<f64> {
        (self.enabled_ns > 0).then(|| self.running_ns as f64 / self.enabled_ns as f64 * 100.0)
    }
}

impl std::iter::Sum for Sum {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, part| Self {
            value: sum.value.saturating_add(part.value),
            enabled_ns: sum.enabled_ns.saturating_add(part.enabled_ns),
            running_ns: sum.running_ns.saturating_add(part.running_ns),
            known: sum.known + part.known,
            unknown: sum.unknown + part.unknown,
        })
    }
}

/// Sums of all counters; empty while there are no counters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sums(Vec<Sum>);

impl Sums {
    /// Adds the counter values of one interval.
    pub fn add(&mut self, part: &[Option<Count>]) {
        if self.0.len() < part.len() {
            self.0.resize(part.len(), Sum::default());
        }
        for (sum, part) in self.0.iter_mut().zip(part) {
            sum.add(*part);
        }
    }

    /// Adds the sums of `other`.
    pub fn merge(&mut self, other: &Self) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), Sum::default());
        }
        for (sum, other) in self.0.iter_mut().zip(&other.0) {
            *sum = [*sum, *other].into_iter().sum();
        }
    }

    /// The sums of all counters, in their order.
    pub fn all(&self) -> impl Iterator<Item = Sum> {
        self.0.iter().copied()
    }

    /// The sum of the counter with this index.
    pub fn of(&self, counter: usize) -> Sum {
        self.0.get(counter).copied().unwrap_or_default()
    }
}

/// The counter readings of a living thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Track {
    /// Readings with their times, ns, for events that have not arrived yet.
    waiting: VecDeque<(u64, Reading)>,
    /// Reading at the beginning of the present work, if known; otherwise at the last arrival.
    begun: Option<Reading>,
    last: Option<Reading>,
    /// Reading at the last mark that the thread passed.
    marked: Option<Reading>,
}

impl Track {
    /// Takes in a reading that belongs to an event of this thread at `time_ns`. Returns the
    /// difference from the previous reading.
    pub fn read(&mut self, time_ns: u64, reading: &Reading) -> Option<Reading> {
        if self.waiting.len() >= MAX_WAITING {
            self.waiting.pop_front();
        }
        self.waiting.push_back((time_ns, reading.clone()));
        let last = self.last.replace(reading.clone());
        last.map(|last| between(&last, reading))
    }

    /// The reading at `time_ns`, if there is one. Drops earlier readings.
    fn at(&mut self, time_ns: u64) -> Option<Reading> {
        while self
            .waiting
            .front()
            .is_some_and(|(time, _)| *time < time_ns)
        {
            self.waiting.pop_front();
        }
        let is_it = self
            .waiting
            .front()
            .is_some_and(|(time, _)| *time == time_ns);
        let found = is_it.then(|| self.waiting.pop_front());
        found.flatten().map(|(_, reading)| reading)
    }

    /// Notes that work begins.
    pub fn begin(&mut self, time_ns: u64) {
        self.begun = self.at(time_ns);
    }

    /// Ends the work that began at `since_ns`, if known. Returns its counter values; `None` if
    /// nothing is counted.
    pub fn end(&mut self, since_ns: Option<u64>, time_ns: u64) -> Option<Reading> {
        let begun = self.begun.take();
        let begun = begun.or_else(|| since_ns.and_then(|since_ns| self.at(since_ns)));
        self.begin(time_ns);
        let reading = self.begun.as_ref()?;
        Some(match begun.filter(|_| since_ns.is_some()) {
            Some(begun) => between(&begun, reading),
            None => reading.iter().map(|_| None).collect(),
        })
    }

    /// Notes that the thread passes a mark. Returns the counter values since the previous mark;
    /// `None` if nothing is counted.
    pub fn mark(&mut self, time_ns: u64) -> Option<Reading> {
        let newest = self.waiting.back();
        let reading =
            newest.and_then(|(time, reading)| (*time == time_ns).then(|| reading.clone()));
        let before = std::mem::replace(&mut self.marked, reading);
        let reading = self.marked.as_ref()?;
        Some(match before {
            Some(before) => between(&before, reading),
            None => reading.iter().map(|_| None).collect(),
        })
    }

    /// Drops all readings: they no longer help to know what the thread counts.
    pub fn forget(&mut self) {
        self.waiting.clear();
        self.begun = None;
        self.marked = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[allow(clippy::unnecessary_wraps, reason = "readings hold optional counts")]
    fn count(value: u64) -> Option<Count> {
        Some(Count {
            value,
            ..Count::default()
        })
    }

    fn reading(values: &[Option<Count>]) -> Reading {
        values.into()
    }

    #[test]
    fn what_went_backwards_or_began_anew_is_unknown() {
        let anew = Some(Count {
            value: 9,
            since_ns: 5,
            ..Count::default()
        });
        let from = [count(7), count(7), count(7), None];
        let to = [count(9), count(6), anew, count(9)];
        assert_eq!(*between(&from, &to), [count(2), None, None, None]);
    }

    #[test]
    fn what_was_counted_half_of_the_time_counts_twice() {
        let zero = Count::default();
        let half = Count {
            value: 50,
            enabled_ns: 200,
            running_ns: 100,
            since_ns: 0,
        };
        let mut sums = Sums::default();
        sums.add(&between(&[Some(zero)], &[Some(half)]));
        assert_eq!(sums.of(0).get(), Some(100));
        assert_eq!(sums.of(0).counted_pct(), Some(50.0));
        // A counter that never ran has no value, rather than 0.
        let never = Count {
            value: 50,
            enabled_ns: 300,
            running_ns: 100,
            since_ns: 0,
        };
        let part = between(&[Some(half)], &[Some(never)]);
        assert_eq!(*part, [None]);
        sums.add(&part);
        assert_eq!((sums.of(0).get(), sums.of(0).unknown()), (Some(100), 1));
        assert_eq!((sums.of(1).get(), sums.of(1).counted_pct()), (None, None));
    }

    #[test]
    fn work_is_from_the_departure_to_the_arrival() {
        let mut track = Track::default();
        track.read(10, &reading(&[count(0)]));
        track.read(20, &reading(&[count(3)]));
        assert_eq!(track.end(Some(10), 20), Some(reading(&[count(3)])));
        track.read(30, &reading(&[count(10)]));
        track.begin(30);
        assert_eq!(
            track.read(40, &reading(&[count(11)])),
            Some(reading(&[count(1)]))
        );
        assert_eq!(track.end(Some(30), 40), Some(reading(&[count(1)])));
    }

    #[test]
    fn between_marks_counts_what_came_there() {
        let mut track = Track::default();
        assert_eq!(track.mark(5), None);
        track.read(10, &reading(&[count(1)]));
        assert_eq!(track.mark(10), Some(reading(&[None])));
        // A barrier between two marks does not change the difference.
        track.read(20, &reading(&[count(3)]));
        track.begin(20);
        track.read(30, &reading(&[count(9)]));
        assert_eq!(track.mark(30), Some(reading(&[count(8)])));
        // A mark without a reading.
        assert_eq!(track.mark(40), None);
        track.read(50, &reading(&[count(10)]));
        assert_eq!(track.mark(50), Some(reading(&[None])));
    }

    #[test]
    fn without_departures_work_is_from_the_arrival_before() {
        let mut track = Track::default();
        track.read(20, &reading(&[count(3)]));
        // The beginning of the work is unknown.
        assert_eq!(track.end(None, 20), Some(reading(&[None])));
        track.read(40, &reading(&[count(11)]));
        assert_eq!(track.end(Some(25), 40), Some(reading(&[count(8)])));
    }

    #[test]
    fn a_reading_that_is_missing_is_not_replaced_by_another() {
        let mut track = Track::default();
        track.read(10, &reading(&[count(0)]));
        assert_eq!(track.end(Some(10), 20), None);
        track.read(30, &reading(&[count(5)]));
        assert_eq!(track.end(Some(25), 30), Some(reading(&[None])));
        for time_ns in 100..400 {
            track.read(time_ns, &reading(&[count(time_ns)]));
        }
        assert_eq!(track.waiting.len(), MAX_WAITING);
    }
}
