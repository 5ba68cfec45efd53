//! Whether two means differ by more than chance.
//!
//! Consecutive episodes are alike, so the error of a mean is not that of independent values. It is
//! computed from the means of groups of consecutive episodes (batch means), with so few groups that
//! neighbours are no longer alike. If even few, large groups are alike, the correlation is taken
//! into account (as for an autoregressive process of order 1, whose correlation is estimated with a
//! known bias: M. G. Kendall, Biometrika 41, 1954).

use crate::report::{StatReport, TrendReport};

/// Fewer episodes do not show how much episodes differ.
pub const MIN_EPISODES: u64 = 8;
/// Smaller changes, in percent, do not count, however certain: runs differ by as much depending on
/// where the kernel puts memory and threads.
pub const MIN_CHANGE_PCT: f64 = 1.0;
/// Largest number of groups of consecutive episodes.
const MOST_GROUPS: usize = 64;
/// Smallest number of groups: fewer show neither how much groups differ nor how alike neighbours
/// are.
const MIN_GROUPS: usize = 8;
/// Smallest number of pairs of groups from which two courses can be compared.
const MIN_PAIRS: usize = 24;
/// Smallest effective number of independent values.
const MIN_INDEPENDENT: f64 = 1.5;

/// By degrees of freedom, the number of standard errors by which a mean is off once in 370 times,
/// as often as a normal variable is off by more than 3 (quantiles of Student's distribution at
/// 0.99865).
const QUANTILES: [(f64, f64); 15] = [
    (1.0, 235.8),
    (2.0, 19.21),
    (3.0, 9.22),
    (4.0, 6.62),
    (5.0, 5.51),
    (6.0, 4.90),
    (7.0, 4.53),
    (8.0, 4.28),
    (10.0, 3.96),
    (12.0, 3.76),
    (15.0, 3.59),
    (20.0, 3.42),
    (30.0, 3.27),
    (60.0, 3.13),
    (f64::INFINITY, 3.0),
];

/// How certain the mean of a site's episodes is, from how the episodes differ and depend on each
/// other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The standard error of the mean divided by the standard deviation of the episodes.
    share: f64,
    /// Degrees of freedom of the standard error.
    freedom: f64,
}

/// A mean with its error.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    mean: f64,
    /// The square of the standard error.
    variance: f64,
    freedom: f64,
}

/// The result of a comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Judged {
    /// The difference in standard errors; `None` if the error is 0.
    pub standard_errors: Option<f64>,
    /// The largest difference that may be chance, as a percentage of the first mean.
    pub noise_pct: f64,
    /// Whether the difference is more than noise.
    pub beyond: bool,
}

impl Sample {
    /// Makes a sample; `spread` comes from [`spreads`]. `None` if there are too few values.
    pub fn new(stat: &StatReport, spread: Option<Spread>) -> Option<Self> {
        let Spread { share, freedom } = spread?;
        (stat.count >= MIN_EPISODES).then(|| Self {
            mean: stat.mean as f64,
            variance: (stat.stddev as f64 * share).powi(2),
            freedom,
        })
    }

    /// Compares this sample with a later one by Welch's test (B. L. Welch, Biometrika 34, 1947): by
    /// the error of the difference, with separate deviations. `None` if nothing can be said.
    pub fn against(&self, after: &Self) -> Option<Judged> {
        let difference = after.mean - self.mean;
        let variance = self.variance + after.variance;
        let error = variance.sqrt();
        let each = [self, after].map(|sample| sample.variance.powi(2) / sample.freedom);
        let noise = if variance > 0.0 {
            quantile(variance.powi(2) / (each[0] + each[1]))? * error
        } else {
            0.0
        };
        let is_large = difference.abs() * 100.0 > self.mean * MIN_CHANGE_PCT;
        Some(Judged {
            standard_errors: (error > 0.0).then(|| difference / error),
            noise_pct: noise / self.mean.max(1.0) * 100.0,
            beyond: is_large && difference.abs() > noise,
        })
    }
}

/// Interpolates in [`QUANTILES`], linearly in the reciprocal of the degrees of freedom, where they
/// are nearly linear. `None` below one degree of freedom.
fn quantile(freedom: f64) -> Option<f64> {
    let pair = QUANTILES
        .windows(2)
        .find(|pair| (pair[0].0..=pair[1].0).contains(&freedom))?;
    let [(few, high), (many, low)] = [pair[0], pair[1]];
    let share = (1.0 / freedom - 1.0 / many) / (1.0 / few - 1.0 / many);
    Some(low + (high - low) * share)
}

/// How certain the means of a site are in two runs, from the courses of their episodes. `None` if
/// the episodes are too few, or depend on each other so much that they count as one or two.
///
/// If neighbours are alike, they may be so in the same way in both runs, since the program does
/// more at some times than at others. In this case the differences between the two courses count.
pub fn spreads(
    before: (&[TrendReport], Option<&StatReport>),
    after: (&[TrendReport], Option<&StatReport>),
    value: impl Fn(&TrendReport) -> Option<u64>,
) -> [Option<Spread>; 2] {
    let both = [before, after];
    let enough = |stat: Option<&StatReport>| stat.is_some_and(|stat| stat.count >= MIN_EPISODES);
    let courses = both.map(|(trend, stat)| {
        let known = trend.iter().filter(|at| at.episodes > 0 && enough(stat));
        let one = |at: &TrendReport| Some((at.episodes as f64, value(at)? as f64));
        known.filter_map(one).collect::<Vec<_>>()
    });
    let stats = both.map(|(_, stat)| stat);
    let alone = [0, 1].map(|side| {
        let most = courses[side].len();
        MeanError::of(most, 1.0, |most| groups(&courses[side], most))
    });
    if !alone.iter().flatten().any(|found| found.is_alike) && alone.iter().all(Option::is_some) {
        return [0, 1].map(|side| {
            let stat = stats[side]?;
            let MeanError { error, freedom, .. } = alone[side]?;
            Some(Spread::new(
                error / (stat.stddev as f64).max(1.0),
                freedom,
                stat,
            ))
        });
    }
    let most = courses[0].len().min(courses[1].len());
    if most < MIN_PAIRS {
        return [None, None];
    }
    let [Some(one), Some(other)] = stats else {
        return [None, None];
    };
    // Correlation of neighbours is expected here, so it is assumed even if it is not significant.
    let found = MeanError::of(most, 0.0, |most| {
        let [before, after] = [0, 1].map(|side| groups(&courses[side], most));
        // A slower run is slower by a constant factor: the residuals from this ratio count.
        let sum = |means: &[f64]| means.iter().sum::<f64>().max(1.0);
        let ratio = sum(&after) / sum(&before);
        let both = before.iter().zip(&after);
        both.map(|(before, after)| after - ratio * before).collect()
    });
    let Some(found) = found else {
        return [None, None];
    };
    let [a, b] = [one, other].map(|stat| (stat.stddev as f64).powi(2).max(1.0));
    // Splits the certainty of the difference between both runs.
    let share = found.error / (a + b).sqrt();
    let freedom = found.freedom * (a * a + b * b) / (a + b).powi(2);
    [one, other].map(|stat| Some(Spread::new(share, freedom, stat)))
}

/// The error of the mean of a course of values.
#[derive(Clone, Copy, Debug)]
struct MeanError {
    /// Standard error of the mean.
    error: f64,
    freedom: f64,
    /// Whether neighbours were alike.
    is_alike: bool,
}

impl MeanError {
    /// `means` returns the means of about this many groups of consecutive values; there are at most
    /// `most` groups. `errors`: number of standard errors from which the correlation of neighbours
    /// counts.
    fn of(most: usize, errors: f64, means: impl Fn(usize) -> Vec<f64>) -> Option<Self> {
        let mut most = most.min(MOST_GROUPS);
        let mut was_alike = false;
        loop {
            let means = means(most);
            if means.len() < MIN_GROUPS {
                return None;
            }
            let groups = means.len() as f64;
            let mean = means.iter().sum::<f64>() / groups;
            let squares: f64 = means.iter().map(|value| (value - mean).powi(2)).sum();
            if squares <= 0.0 {
                return Some(Self {
                    error: 0.0,
                    freedom: groups - 1.0,
                    is_alike: was_alike,
                });
            }
            let neighbours = means.windows(2);
            let products: f64 = neighbours
                .map(|pair| (pair[0] - mean) * (pair[1] - mean))
                .sum();
            // An estimate from so few groups is too low by (1 + 3 r) / groups.
            let alike = (groups * products / squares + 1.0) / (groups - 3.0);
            let is_alike = alike > errors / groups.sqrt();
            was_alike |= is_alike;
            let fewer = (most / 2).max(MIN_GROUPS);
            if is_alike && fewer < most {
                most = fewer;
                continue;
            }
            let alike = if is_alike { alike.min(0.98) } else { 0.0 };
            let independent = groups * (1.0 - alike) / (1.0 + alike);
            if independent < MIN_INDEPENDENT {
                return None;
            }
            let freedom = independent - 1.0;
            return Some(Self {
                error: (squares / groups / freedom).sqrt(),
                freedom,
                is_alike: was_alike,
            });
        }
    }
}

impl Spread {
    /// A spread that is at least that of independent episodes.
    fn new(share: f64, freedom: f64, stat: &StatReport) -> Self {
        let share = share.max((stat.count as f64 - 1.0).sqrt().recip());
        Self { share, freedom }
    }

    /// The spread of `some` of these `of` episodes, which are assumed to depend on each other as
    /// all do.
    pub fn of_some(self, of: u64, some: u64) -> Option<Self> {
        let (of, some) = (of as f64, some as f64);
        if some < MIN_EPISODES as f64 || of < some {
            return None;
        }
        let freedom = (self.freedom + 1.0) * some / of - 1.0;
        (freedom > 0.0).then(|| Self {
            share: self.share * ((of - 1.0) / (some - 1.0)).sqrt(),
            freedom,
        })
    }
}

/// The means of groups of consecutive episodes, from buckets (episodes, mean). All groups have
/// about the same number of episodes, or a single bucket.
fn groups(buckets: &[(f64, f64)], most: usize) -> Vec<f64> {
    let all: f64 = buckets.iter().map(|(episodes, _)| episodes).sum();
    let each = all / most.max(1) as f64;
    let mut means = Vec::with_capacity(most);
    let (mut done, mut episodes, mut sum) = (0.0, 0.0, 0.0);
    for (more, mean) in buckets {
        episodes += more;
        sum += more * mean;
        // The number of episodes at which the next group of this size ends at the latest.
        let due = each * (means.len() + 1) as f64;
        if done + episodes >= due - 1e-6 * each {
            means.push(sum / episodes);
            done += episodes;
            (episodes, sum) = (0.0, 0.0);
        }
    }
    means
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

    fn trend(means: impl IntoIterator<Item = u64>) -> Vec<TrendReport> {
        let bucket = |mean| TrendReport {
            episodes: 1,
            until_ns: 0,
            phase_ns: Some(mean),
            barrier_ns: 0,
            idle_ns: 0,
            mean_busy: None,
        };
        means.into_iter().map(bucket).collect()
    }

    /// Independent random numbers from 0 to 1.
    struct Chance(u64);

    impl Chance {
        fn next(&mut self) -> f64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005);
            self.0 = self.0.wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) as f64 / (1_u64 << 31) as f64
        }

        /// A random number with a nearly normal distribution.
        fn normal(&mut self) -> f64 {
            (0..12).map(|_| self.next()).sum::<f64>() - 6.0
        }

        /// Episodes of `mean` ns with a deviation of a fifth of that; `alike` is the correlation of
        /// each episode with the previous one.
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "times above zero"
        )]
        fn run(&mut self, count: usize, mean: f64, alike: f64) -> (StatReport, Vec<TrendReport>) {
            let mut state = self.normal();
            let values: Vec<f64> = (0..count)
                .map(|_| {
                    state = alike * state + (1.0 - alike * alike).sqrt() * self.normal();
                    (mean * (1.0 + 0.2 * state)).max(1.0)
                })
                .collect();
            let mean = values.iter().sum::<f64>() / count as f64;
            let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
            let deviation = (squares / count as f64).sqrt();
            let stat = stat(count as u64, mean as u64, deviation as u64);
            (stat, trend(values.into_iter().map(|value| value as u64)))
        }
    }

    fn compared([a, b]: [&(StatReport, Vec<TrendReport>); 2]) -> Option<Judged> {
        let [one, other] = spreads((&a.1, Some(&a.0)), (&b.1, Some(&b.0)), |at| at.phase_ns);
        Sample::new(&a.0, one)?.against(&Sample::new(&b.0, other)?)
    }

    /// For 300 pairs of runs, the second of which is slower by the factor `times`: how many
    /// differences are found to be beyond the noise, and for how many that is unknown, in percent.
    fn found(count: usize, times: f64, alike: f64) -> (usize, usize) {
        let mut chance = Chance(7);
        let (mut beyond, mut unknown) = (0, 0);
        for _ in 0..300 {
            let pair = [1e6, 1e6 * times].map(|mean| chance.run(count, mean, alike));
            match compared([&pair[0], &pair[1]]) {
                Some(judged) => beyond += usize::from(judged.beyond),
                None => unknown += 1,
            }
        }
        (beyond / 3, unknown / 3)
    }

    #[test]
    fn chance_alone_is_hardly_ever_beyond_the_noise() {
        for (count, alike, most) in [
            (8, 0.0, 1),
            (16, 0.0, 1),
            (64, 0.0, 1),
            (512, 0.0, 1),
            (31, 0.5, 3),
            (31, 0.9, 6),
            (64, 0.9, 4),
            (64, 0.98, 8),
            (512, 0.95, 3),
        ] {
            let (beyond, _) = found(count, 1.0, alike);
            assert!(beyond <= most, "{count} {alike}: {beyond} %");
        }
    }

    #[test]
    fn what_is_slower_is_found_with_enough_episodes_and_nothing_is_said_of_what_hangs_together() {
        for (count, times, least) in [(16, 2.0, 55), (31, 1.3, 75), (128, 1.1, 50), (512, 1.1, 90)]
        {
            let (beyond, _) = found(count, times, 0.0);
            assert!(beyond >= least, "{count} {times}: {beyond} %");
        }
        let (_, unknown) = found(64, 1.0, 0.98);
        assert!(unknown >= 50, "{unknown} %");
    }

    const SURE: Spread = Spread {
        share: 0.1,
        freedom: f64::INFINITY,
    };

    fn judge(before: &StatReport, after: &StatReport, spread: Spread) -> Option<Judged> {
        Sample::new(before, Some(spread))?.against(&Sample::new(after, Some(spread))?)
    }

    #[test]
    fn a_change_has_to_be_sure_and_large() {
        let before = stat(101, 1000, 100);
        let beyond = |after, spread| judge(&before, &after, spread).unwrap().beyond;
        // The standard error of the difference is 14.1.
        assert!(!beyond(stat(101, 1040, 100), SURE));
        assert!(beyond(stat(101, 1045, 100), SURE));
        assert!(beyond(stat(101, 955, 100), SURE), "faster too");
        let wide = Spread { share: 0.2, ..SURE };
        assert!(!beyond(stat(101, 1045, 100), wide), "neighbours are alike");
        let few = Spread {
            freedom: 7.0,
            ..SURE
        };
        assert!(!beyond(stat(101, 1045, 100), few), "of a few groups");
        let sure = Spread {
            share: 0.001,
            ..SURE
        };
        let many = judge(&stat(1000, 1000, 100), &stat(1000, 1009, 100), sure).unwrap();
        assert!(many.standard_errors > Some(60.0));
        assert!(!many.beyond, "below one per cent");
        let judged = judge(&before, &stat(101, 1040, 100), SURE).unwrap();
        assert!((judged.noise_pct - 4.2426).abs() < 0.001, "{judged:?}");
    }

    #[test]
    fn the_fewer_groups_the_wider() {
        assert_eq!(quantile(0.9), None);
        for (freedom, expected) in [(1.0, 235.8), (7.0, 4.53), (14.0, 3.64), (1e9, 3.0)] {
            let found = quantile(freedom).unwrap();
            assert!((found - expected).abs() < 0.02, "{freedom}: {found}");
        }
        assert_eq!(quantile(f64::INFINITY), Some(3.0));
    }

    /// A course of episodes with these times.
    fn course(values: impl IntoIterator<Item = u64>) -> (StatReport, Vec<TrendReport>) {
        let values: Vec<u64> = values.into_iter().collect();
        let count = values.len() as u64;
        let mean = values.iter().sum::<u64>() / count;
        let squares: u64 = values.iter().map(|value| value.abs_diff(mean).pow(2)).sum();
        (stat(count, mean, (squares / count).isqrt()), trend(values))
    }

    #[test]
    fn few_episodes_tell_nothing() {
        let of = |count: u64, more: u64| course((0..count).map(|at| 1000 + more + at % 2));
        assert_eq!(compared([&of(7, 0), &of(100, 9000)]), None);
        assert_eq!(compared([&of(100, 0), &of(7, 9000)]), None);
        assert!(compared([&of(8, 0), &of(8, 9000)]).unwrap().beyond);
        let none = spreads((&[], None), (&[], None), |at| at.phase_ns);
        assert_eq!(none, [None, None]);
        assert_eq!(SURE.of_some(100, 7), None);
        let some = SURE.of_some(101, 26).unwrap();
        assert!((some.share - 0.2).abs() < 1e-9, "{some:?}");
    }

    #[test]
    fn without_any_deviation_there_is_no_error_to_count_in() {
        let of = |mean: u64| course([mean; 10]);
        let judged = compared([&of(1000), &of(1100)]).unwrap();
        assert_eq!((judged.standard_errors, judged.beyond), (None, true));
        assert!(!compared([&of(1000), &of(1000)]).unwrap().beyond);
    }

    #[test]
    fn what_the_program_does_in_both_runs_alike_is_no_noise() {
        // Less and less work is left, as in a factorisation.
        let of = |share: u64| course((0..512).map(|at| (2000 - at * 3 + at * 7 % 5) * share / 100));
        let same = compared([&of(100), &of(100)]).unwrap();
        assert!(!same.beyond && same.noise_pct < 10.0, "{same:?}");
        assert!(compared([&of(100), &of(200)]).unwrap().beyond);
    }
}
