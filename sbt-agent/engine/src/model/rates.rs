//! How fast sums of counters have grown lately.
//!
//! A sum grows when an interval of work ends. So its growth is divided by the time between two
//! moments at which intervals had ended, not by the time between two looks at the sum. Otherwise a
//! thread with phases longer than the window would seem to stand still, and then to run many times
//! too fast.

use std::{collections::VecDeque, hash::Hash};

use rustc_hash::FxHashMap;

use super::counts::Sum;

/// Time over which rates are taken, ns: long enough to be read, short enough to be current.
pub const WINDOW_NS: u64 = 3_000_000_000;

/// Least time between two moments that are kept, ns.
const STEP_NS: u64 = 500_000_000;

/// Least time for a rate, ns; rates over less time would jump.
const LEAST_NS: u64 = 200_000_000;

/// A sum at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Point {
    time_ns: u64,
    sum: u64,
    /// Number of intervals in the sum.
    known: u64,
}

/// One sum over the last seconds, oldest moment first.
#[derive(Clone, Debug, Default)]
struct Track(VecDeque<Point>);

impl Track {
    fn push(&mut self, now: Point) {
        let points = &mut self.0;
        if points.back().is_some_and(|last| last.known > now.known) {
            // The sums were reset.
            points.clear();
        }
        let is_news = points.back().is_none_or(|last| last.known < now.known);
        if is_news {
            let before = points.len().checked_sub(2).and_then(|at| points.get(at));
            if before.is_some_and(|before| now.time_ns < before.time_ns + STEP_NS) {
                points.pop_back();
            }
            points.push_back(now);
        }
        let begin_ns = now.time_ns.saturating_sub(WINDOW_NS);
        while points.len() > 2 && points[1].time_ns <= begin_ns {
            points.pop_front();
        }
    }

    /// Growth per second; `None` if no interval has ended lately.
    fn per_second(&self, now_ns: u64) -> Option<f64> {
        let (first, last) = (self.0.front()?, self.0.back()?);
        let span_ns = last.time_ns - first.time_ns;
        let is_old = now_ns.saturating_sub(last.time_ns) > WINDOW_NS.max(span_ns);
        if span_ns < LEAST_NS || is_old {
            return None;
        }
        Some(last.sum.saturating_sub(first.sum) as f64 / span_ns as f64 * 1e9)
    }
}

/// The rates of all counters in all rows of some tables.
#[derive(Clone, Debug)]
pub struct Rates<K> {
    rows: FxHashMap<K, Vec<Track>>,
    now_ns: u64,
}

impl<K> Default for Rates<K> {
    fn default() -> Self {
        Self {
            rows: FxHashMap::default(),
            now_ns: 0,
        }
    }
}

impl<K: Eq + Hash> Rates<K> {
    /// Takes in the sums of a row at `now_ns`, which must not decrease.
    pub fn push(&mut self, now_ns: u64, row: K, sums: impl Iterator<Item = Sum>) {
        self.now_ns = now_ns;
        let tracks = self.rows.entry(row).or_default();
        for (at, sum) in sums.enumerate() {
            if at == tracks.len() {
                tracks.push(Track::default());
            }
            tracks[at].push(Point {
                time_ns: now_ns,
                sum: sum.get().unwrap_or(0),
                known: sum.known(),
            });
        }
    }

    /// Growth of a counter in a row, per second; `None` if unknown.
    pub fn per_second(&self, row: &K, counter: usize) -> Option<f64> {
        self.rows.get(row)?.get(counter)?.per_second(self.now_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{event::Count, model::counts::Sums};

    const S: u64 = 1_000_000_000;

    /// A row whose counter had these values, one for each interval, at these times.
    fn seen(looks: &[(u64, &[u64])]) -> Rates<()> {
        let (mut rates, mut sums) = (Rates::default(), Sums::default());
        for (time_ns, values) in looks {
            for value in *values {
                sums.add(&[Some(Count {
                    value: *value,
                    ..Count::default()
                })]);
            }
            rates.push(*time_ns, (), std::iter::once(sums.of(0)));
        }
        rates
    }

    #[test]
    fn a_rate_is_that_of_the_last_seconds() {
        let looks: Vec<(u64, &[u64])> = (0..20_u64)
            .map(|n| (n * S / 4, if n < 10 { &[5][..] } else { &[100] }))
            .collect();
        // 400 per second for the last 2.5 s, 20 per second before.
        let rate = seen(&looks).per_second(&(), 0).unwrap();
        assert!((330.0..=400.0).contains(&rate), "{rate}");
        let later: Vec<_> = looks
            .into_iter()
            .chain((20..40).map(|n| (n * S / 4, &[100][..])))
            .collect();
        assert_eq!(seen(&later).per_second(&(), 0), Some(400.0));
    }

    #[test]
    fn an_interval_longer_than_the_window_counts_with_its_whole_length() {
        let looks: Vec<(u64, &[u64])> = (0..300_u64)
            .map(|n| (n * S / 10, if n % 100 == 0 { &[1000][..] } else { &[] }))
            .collect();
        assert_eq!(seen(&looks).per_second(&(), 0), Some(100.0));
    }

    #[test]
    fn what_stands_still_has_no_rate() {
        let mut looks: Vec<(u64, &[u64])> = (0..8).map(|n| (n * S / 4, &[1][..])).collect();
        assert_eq!(seen(&looks).per_second(&(), 0), Some(4.0));
        looks.extend((8..30).map(|n| (n * S / 4, &[][..])));
        assert_eq!(seen(&looks).per_second(&(), 0), None);
    }

    #[test]
    fn zero_is_known_where_intervals_end() {
        let looks: Vec<(u64, &[u64])> = (0..8).map(|n| (n * S / 4, &[0][..])).collect();
        assert_eq!(seen(&looks).per_second(&(), 0), Some(0.0));
        assert_eq!(seen(&looks[..1]).per_second(&(), 0), None);
        assert_eq!(seen(&looks).per_second(&(), 1), None);
    }

    #[test]
    fn sums_may_begin_anew() {
        let mut rates = seen(&[(0, &[9]), (S, &[9])]);
        let mut sums = Sums::default();
        sums.add(&[Some(Count::default())]);
        rates.push(2 * S, (), std::iter::once(sums.of(0)));
        assert_eq!(rates.per_second(&(), 0), None);
    }
}
