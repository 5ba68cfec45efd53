//! Whether two means differ by more than their episodes do among themselves.

use crate::report::{StatReport, TrendReport};

/// Fewer episodes tell nothing of how much they differ.
pub const MIN_EPISODES: u64 = 8;
/// Standard errors that two means have to be apart.
pub const MIN_ERRORS: f64 = 3.0;
/// Less is no change, however sure: runs differ by as much through where the kernel puts
/// memory and threads. Per cent.
pub const MIN_CHANGE_PCT: f64 = 1.0;
/// Groups of consecutive episodes, at most: each should be longer than what makes
/// neighbours alike.
const MOST_GROUPS: usize = 16;
/// Fewer do not tell how much the groups differ.
const MIN_GROUPS: usize = 8;
/// What is taken for the error of a mean, against that of independent episodes, where
/// there are too few groups.
const UNKNOWN_INFLATION: f64 = 2.0;

/// A mean and how far it may be off.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    mean: f64,
    /// The square of its standard error.
    variance: f64,
}

/// What comes of comparing two.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Judged {
    /// The difference in standard errors; `None` if there is no error.
    pub standard_errors: Option<f64>,
    /// Whether it is more than noise.
    pub beyond: bool,
}

impl Sample {
    /// `wider`: how much larger the error is than that of independent values; `None` with
    /// too few values.
    pub fn new(stat: &StatReport, wider: f64) -> Option<Self> {
        let count = stat.count as f64;
        let deviation = stat.stddev as f64 * wider;
        (stat.count >= MIN_EPISODES).then(|| Self {
            mean: stat.mean as f64,
            // Of the values seen the report has the deviation, so one is taken off.
            variance: deviation * deviation / (count - 1.0),
        })
    }

    /// Compares this one with a later one, as B. L. Welch did (Biometrika 34, 1947): by
    /// the error of the difference, with each one's own deviation.
    pub fn against(&self, after: &Self) -> Judged {
        let difference = after.mean - self.mean;
        let error = (self.variance + after.variance).sqrt();
        let standard_errors = (error > 0.0).then(|| difference / error);
        let is_large = difference.abs() * 100.0 > self.mean * MIN_CHANGE_PCT;
        let is_sure = standard_errors.is_none_or(|errors| errors.abs() > MIN_ERRORS);
        Judged {
            standard_errors,
            beyond: is_large && is_sure,
        }
    }
}

/// How much larger the error of a site's mean is than if its episodes were independent:
/// the means of groups of consecutive episodes tell (batch means). At least 1.
pub fn inflation(
    trend: &[TrendReport],
    stat: Option<&StatReport>,
    value: impl Fn(&TrendReport) -> Option<u64>,
) -> f64 {
    let Some(stat) = stat.filter(|stat| stat.stddev > 0) else {
        return 1.0;
    };
    let known = trend.iter().filter(|at| at.episodes > 0);
    let buckets: Vec<(f64, f64)> = known
        .filter_map(|at| Some((at.episodes as f64, value(at)? as f64)))
        .collect();
    let groups = groups(&buckets);
    if groups.len() < MIN_GROUPS {
        return UNKNOWN_INFLATION;
    }
    let weights: f64 = groups.iter().map(|(weight, _)| weight).sum();
    let mean = groups
        .iter()
        .map(|(weight, mean)| weight * mean)
        .sum::<f64>()
        / weights;
    let between: f64 = groups
        .iter()
        .map(|(weight, of)| weight * (of - mean).powi(2))
        .sum::<f64>()
        / weights;
    let variance = between / (groups.len() - 1) as f64;
    let deviation = stat.stddev as f64;
    let independent = deviation * deviation / (stat.count.max(2) - 1) as f64;
    (variance / independent).sqrt().max(1.0)
}

/// Joins buckets (episodes, mean) to groups of four episodes and more, with as many
/// episodes in each as can be.
fn groups(buckets: &[(f64, f64)]) -> Vec<(f64, f64)> {
    const LEAST: f64 = 4.0;
    let all: f64 = buckets.iter().map(|(episodes, _)| episodes).sum();
    let each = (all / MOST_GROUPS as f64).max(LEAST);
    let mut groups = Vec::new();
    let (mut episodes, mut sum) = (0.0, 0.0);
    for (more, mean) in buckets {
        episodes += more;
        sum += more * mean;
        if episodes >= each {
            groups.push((episodes, sum / episodes));
            (episodes, sum) = (0.0, 0.0);
        }
    }
    // Too few for a group of their own, and their weight is small then.
    if episodes >= each / 2.0 {
        groups.push((episodes, sum / episodes));
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(count: u64, mean: u64, stddev: u64) -> StatReport {
        StatReport {
            count,
            sum: count * mean,
            min: 0,
            mean,
            max: 2 * mean,
            stddev,
            p50: mean,
            p95: mean,
            p99: mean,
        }
    }

    fn judge(before: &StatReport, after: &StatReport, wider: f64) -> Option<Judged> {
        Some(Sample::new(before, wider)?.against(&Sample::new(after, wider)?))
    }

    #[test]
    fn a_change_has_to_be_sure_and_large() {
        let before = stat(101, 1000, 100);
        let beyond = |after, wider| judge(&before, &after, wider).unwrap().beyond;
        // One error of the difference is 14.1.
        assert!(!beyond(stat(101, 1040, 100), 1.0));
        assert!(beyond(stat(101, 1045, 100), 1.0));
        assert!(beyond(stat(101, 955, 100), 1.0), "faster too");
        assert!(!beyond(stat(101, 1045, 100), 2.0), "neighbours are alike");
        let many = judge(
            &stat(1_000_000, 1000, 100),
            &stat(1_000_000, 1009, 100),
            1.0,
        )
        .unwrap();
        assert!(many.standard_errors > Some(MIN_ERRORS));
        assert!(!many.beyond, "below one per cent");
    }

    #[test]
    fn few_episodes_tell_nothing() {
        assert_eq!(judge(&stat(7, 1000, 1), &stat(100, 9000, 1), 1.0), None);
        assert_eq!(judge(&stat(100, 1000, 1), &stat(7, 9000, 1), 1.0), None);
        assert!(judge(&stat(8, 1000, 1), &stat(8, 9000, 1), 1.0).is_some());
    }

    #[test]
    fn without_any_deviation_there_is_no_error_to_count_in() {
        let judged = judge(&stat(10, 1000, 0), &stat(10, 1100, 0), 1.0).unwrap();
        assert_eq!((judged.standard_errors, judged.beyond), (None, true));
        let same = judge(&stat(10, 1000, 0), &stat(10, 1000, 0), 1.0).unwrap();
        assert!(!same.beyond);
    }

    fn trend(means: impl IntoIterator<Item = u64>) -> Vec<TrendReport> {
        let bucket = |mean| TrendReport {
            episodes: 4,
            until_ns: 0,
            phase_ns: Some(mean),
            barrier_ns: 0,
            idle_ns: 0,
            mean_busy: None,
        };
        means.into_iter().map(bucket).collect()
    }

    #[test]
    fn neighbours_that_are_alike_make_the_mean_less_sure() {
        let of = |means: &dyn Fn(u64) -> u64| {
            let trend = trend((0..128).map(means));
            inflation(&trend, Some(&stat(512, 1000, 100)), |at| at.phase_ns)
        };
        // Drifts from 900 to 1100: as if there were only a few values.
        assert!(of(&|at| 900 + at * 200 / 128) > 3.0);
        // Each bucket is like any other.
        let steady = of(&|at| 950 + at % 2 * 100);
        assert!((steady - 1.0).abs() < f64::EPSILON, "{steady}");
    }

    #[test]
    fn with_few_groups_the_error_is_taken_twice() {
        let few = trend([1000; 7]);
        let wider = inflation(&few, Some(&stat(28, 1000, 100)), |at| at.phase_ns);
        assert!((wider - 2.0).abs() < f64::EPSILON, "{wider}");
        let none = inflation(&few, None, |at| at.phase_ns);
        assert!((none - 1.0).abs() < f64::EPSILON, "{none}");
    }
}
