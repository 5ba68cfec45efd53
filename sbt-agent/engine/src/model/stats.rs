//! Running statistics in bounded memory.

use super::histogram::Histogram;

/// Count, sum, extremes, mean, deviation and distribution of durations, all in ns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stat {
    count: u64,
    sum: u64,
    min: u64,
    max: u64,
    mean: f64,
    /// Sum of squared deviations from the mean.
    m2: f64,
    histogram: Histogram,
}

impl Stat {
    /// Adds a value. Mean and deviation follow Welford, Technometrics 4(3), 1962: one pass, and no
    /// difference of large sums.
    pub fn add(&mut self, value: u64) {
        self.min = if self.count == 0 {
            value
        } else {
            self.min.min(value)
        };
        self.max = self.max.max(value);
        self.count += 1;
        // Only invalid input is so long; it must not cause an overflow.
        self.sum = self.sum.saturating_add(value);
        let delta = value as f64 - self.mean;
        self.mean += delta / self.count as f64;
        self.m2 += delta * (value as f64 - self.mean);
        self.histogram.add(value);
    }

    /// Adds a value, if it is known.
    pub fn add_known(&mut self, value: Option<u64>) {
        if let Some(value) = value {
            self.add(value);
        }
    }

    /// Number of values in each octave: see [`Histogram::octaves`].
    pub fn octaves(&self) -> Vec<(u64, u64)> {
        self.histogram.octaves()
    }

    /// Number of values.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Sum of the values, ns.
    pub const fn sum(&self) -> u64 {
        self.sum
    }

    /// Sum of the values, ns; `None` without values, since nothing was measured then.
    pub fn known_sum(&self) -> Option<u64> {
        (self.count > 0).then_some(self.sum)
    }

    /// The smallest value, ns; `None` without values.
    pub fn min(&self) -> Option<u64> {
        (self.count > 0).then_some(self.min)
    }

    /// The largest value, ns; `None` without values.
    pub fn max(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max)
    }

    /// The mean of the values, ns; `None` without values.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then_some(self.mean)
    }

    /// The standard deviation of the values (not of a sample), ns; `None` without values.
    pub fn stddev(&self) -> Option<f64> {
        (self.count > 0).then(|| (self.m2 / self.count as f64).sqrt())
    }

    /// The value that the fraction `q` (0 to 1) of all values does not exceed, ns, at most 1/16
    /// off; `None` without values.
    pub fn quantile(&self, q: f64) -> Option<f64> {
        let value = self.histogram.quantile(q)?;
        Some(value.clamp(self.min as f64, self.max as f64))
    }
}

/// A sum of parts that may be unknown. The sum is unknown only if no part is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KnownSum {
    sum: u64,
    known: u64,
    unknown: u64,
}

impl KnownSum {
    /// Adds a part; `None` if it is unknown.
    pub fn add(&mut self, part: Option<u64>) {
        match part {
            Some(part) => {
                self.sum = self.sum.saturating_add(part);
                self.known += 1;
            }
            None => self.unknown += 1,
        }
    }

    /// The sum of the known parts, ns; `None` if no part is known.
    pub const fn get(self) -> Option<u64> {
        if self.known > 0 { Some(self.sum) } else { None }
    }

    /// As [`KnownSum::get`]; `None` also if more than a tenth of the parts are unknown.
    pub const fn nearly_all(self) -> Option<u64> {
        const MOST: u64 = 10;
        let all = self.known + self.unknown;
        if self.unknown > all / MOST {
            return None;
        }
        self.get()
    }

    /// Number of unknown parts.
    pub const fn unknown(self) -> u64 {
        self.unknown
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn agrees_with_a_naive_recomputation(values in prop::collection::vec(0u64..1 << 40, 1..200)) {
            let mut stat = Stat::default();
            for value in &values {
                stat.add(*value);
            }
            let n = values.len() as f64;
            let mean = values.iter().map(|v| *v as f64).sum::<f64>() / n;
            let variance = values.iter().map(|v| (*v as f64 - mean).powi(2)).sum::<f64>() / n;
            prop_assert_eq!(stat.sum(), values.iter().sum::<u64>());
            prop_assert_eq!(stat.min(), values.iter().min().copied());
            prop_assert_eq!(stat.max(), values.iter().max().copied());
            let close = |a: f64, b: f64| (a - b).abs() <= 1e-6 * b.abs().max(1.0);
            prop_assert!(close(stat.mean().unwrap_or(-1.0), mean));
            prop_assert!(close(stat.stddev().unwrap_or(-1.0), variance.sqrt()));
        }
    }

    #[test]
    fn a_sum_of_which_a_good_part_is_missing_is_unknown() {
        let mut sum = KnownSum::default();
        assert_eq!(sum.nearly_all(), None);
        (0..9).for_each(|_| sum.add(Some(2)));
        sum.add(None);
        assert_eq!(sum.nearly_all(), Some(18));
        sum.add(None);
        assert_eq!((sum.nearly_all(), sum.get()), (None, Some(18)));
    }

    #[test]
    fn nothing_seen_is_unknown_and_not_zero() {
        let stat = Stat::default();
        assert_eq!((stat.min(), stat.max(), stat.mean()), (None, None, None));
        let mut sum = KnownSum::default();
        sum.add(None);
        assert_eq!((sum.get(), sum.unknown()), (None, 1));
        sum.add(Some(0));
        assert_eq!(sum.get(), Some(0));
    }
}
