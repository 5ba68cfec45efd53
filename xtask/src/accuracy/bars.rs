//! Limits on the error of each figure.

use super::compare::{Comparison, Quantity, Sample};
use crate::bench::figures::percentile;

/// A limit: `percent` of the times must be within a bound, or within a share of the true time if
/// that is more.
struct Bar {
    name: &'static str,
    percent: usize,
    bound_ns: f64,
    share: f64,
}

const BARS: [Bar; 2] = [
    Bar {
        name: "median",
        percent: 50,
        bound_ns: 5_000.0,
        share: 0.01,
    },
    Bar {
        name: "p99",
        percent: 99,
        bound_ns: 50_000.0,
        share: 0.05,
    },
];

impl Bar {
    /// The fraction of the limit that is used: above 1 the bar is missed.
    fn used(&self, samples: &[Sample]) -> f64 {
        let used: Vec<f64> = samples
            .iter()
            .map(|sample| {
                let allowed_ns = self.bound_ns.max(self.share * sample.truth_ns as f64);
                sample.error_ns() / allowed_ns
            })
            .collect();
        percentile(&used, self.percent)
    }
}

/// The bars that a run misses, in words.
pub fn missed(comparison: &Comparison) -> Vec<String> {
    let mut missed = missed_times(comparison, Quantity::has_bars);
    for (count, what) in [
        (comparison.swapped, "pairs in the wrong order"),
        (comparison.impossible, "impossible stamps"),
        (comparison.unknown, "times unknown"),
    ] {
        if count > 0 {
            missed.push(format!("{count} {what}"));
        }
    }
    missed
}

/// The bars that quantities without a bar would miss if the same bars applied.
pub fn beyond(comparison: &Comparison) -> Vec<String> {
    missed_times(comparison, |quantity| !quantity.has_bars())
}

fn missed_times(comparison: &Comparison, which: fn(Quantity) -> bool) -> Vec<String> {
    let mut missed = Vec::new();
    for quantity in Quantity::ALL
        .into_iter()
        .filter(|quantity| which(*quantity))
    {
        for bar in &BARS {
            let used = bar.used(comparison.samples(quantity));
            if used > 1.0 {
                let (quantity, bar) = (quantity.name(), bar.name);
                missed.push(format!("{quantity} {bar} is {used:.1} × its bar"));
            }
        }
    }
    missed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(truth_ns: u64, errors_ns: &[u64]) -> Vec<Sample> {
        errors_ns
            .iter()
            .map(|error_ns| Sample {
                truth_ns,
                seen_ns: truth_ns + error_ns,
            })
            .collect()
    }

    #[test]
    fn short_times_have_a_bound_and_long_ones_a_share() {
        let [median, p99] = &BARS;
        assert!((median.used(&samples(0, &[0, 5_000, 90_000])) - 1.0).abs() < 1e-9);
        assert!((median.used(&samples(1_000_000, &[5_000])) - 0.5).abs() < 1e-9);
        assert!((p99.used(&samples(0, &[0, 5_000, 100_000])) - 2.0).abs() < 1e-9);
        assert!((p99.used(&samples(10_000_000, &[100_000])) - 0.2).abs() < 1e-9);
        assert!(p99.used(&[]).abs() < 1e-9);
    }

    #[test]
    fn a_miss_is_named() {
        let fine = Comparison::default();
        assert!(missed(&fine).is_empty());
        let mut wrong = Comparison::default();
        wrong.swapped = 2;
        wrong.unknown = 1;
        assert_eq!(
            missed(&wrong),
            ["2 pairs in the wrong order", "1 times unknown"]
        );
    }
}
