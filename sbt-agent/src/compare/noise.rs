//! Whether two means differ by more than their episodes do among themselves.
//!
//! Episodes that follow each other are alike, so the error of a mean is not that of
//! independent values. It is taken from the means of groups of consecutive ones (batch
//! means), in as many groups as are not alike any more; and where even few and large ones
//! are, from how much so (as of an autoregressive process of order 1, whose correlation is
//! known with a bias: M. G. Kendall, Biometrika 41, 1954).

use crate::report::{StatReport, TrendReport};

/// Fewer episodes tell nothing of how much they differ.
pub const MIN_EPISODES: u64 = 8;
/// Less is no change, however sure: runs differ by as much through where the kernel puts
/// memory and threads. Per cent.
pub const MIN_CHANGE_PCT: f64 = 1.0;
/// Groups of consecutive episodes, at most,
const MOST_GROUPS: usize = 64;
/// and at least: fewer do not tell how much they differ, nor how alike neighbours are.
const MIN_GROUPS: usize = 8;
/// Fewer values that would tell as much, if they were independent, tell nothing.
const MIN_INDEPENDENT: f64 = 1.5;

/// By degrees of freedom, how many standard errors a mean is off once in 370 times: as often
/// as a normal one is more than 3 (quantiles of Student's distribution at 0.99865).
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

/// How sure the means of a site's episodes are, by how these differ and hang together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The standard error of the mean, as a share of the episodes' standard deviation.
    share: f64,
    /// Degrees of freedom of that.
    freedom: f64,
}

/// A mean and how far it may be off.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    mean: f64,
    /// The square of its standard error.
    variance: f64,
    freedom: f64,
}

/// What comes of comparing two.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Judged {
    /// The difference in standard errors; `None` if there is no error.
    pub standard_errors: Option<f64>,
    /// By how much they may differ by chance, per cent of the first.
    pub noise_pct: f64,
    /// Whether it is more than noise.
    pub beyond: bool,
}

impl Sample {
    /// `spread`: see [`Spread::of`]. `None` with too few values.
    pub fn new(stat: &StatReport, spread: Option<Spread>) -> Option<Self> {
        let Spread { share, freedom } = spread?;
        (stat.count >= MIN_EPISODES).then(|| Self {
            mean: stat.mean as f64,
            variance: (stat.stddev as f64 * share).powi(2),
            freedom,
        })
    }

    /// Compares this one with a later one, as B. L. Welch did (Biometrika 34, 1947): by
    /// the error of the difference, with each one's own deviation. `None` if nothing can be
    /// told of it.
    pub fn against(&self, after: &Self) -> Option<Judged> {
        let difference = after.mean - self.mean;
        let variance = self.variance + after.variance;
        let error = variance.sqrt();
        let each = [self, after].map(|it| it.variance.powi(2) / it.freedom);
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

/// Between two of [`QUANTILES`], by the reciprocal of the degrees of freedom, in which they
/// are nearly linear. `None` with less than one.
fn quantile(freedom: f64) -> Option<f64> {
    let pair = QUANTILES
        .windows(2)
        .find(|pair| (pair[0].0..=pair[1].0).contains(&freedom))?;
    let [(few, high), (many, low)] = [pair[0], pair[1]];
    let share = (1.0 / freedom - 1.0 / many) / (1.0 / few - 1.0 / many);
    Some(low + (high - low) * share)
}

impl Spread {
    /// Of a site's episodes, by their course. `None` if they are too few to tell, or hang
    /// together so much that they are as good as one or two.
    pub fn of(
        trend: &[TrendReport],
        stat: Option<&StatReport>,
        value: impl Fn(&TrendReport) -> Option<u64>,
    ) -> Option<Self> {
        let stat = stat.filter(|stat| stat.count >= MIN_EPISODES)?;
        let known = trend.iter().filter(|at| at.episodes > 0);
        let buckets: Vec<(f64, f64)> = known
            .filter_map(|at| Some((at.episodes as f64, value(at)? as f64)))
            .collect();
        let deviation = stat.stddev as f64;
        let count = stat.count as f64;
        if stat.stddev == 0 {
            let (share, freedom) = (0.0, count - 1.0);
            return Some(Self { share, freedom });
        }
        let mut most = buckets.len().min(MOST_GROUPS);
        loop {
            let means = groups(&buckets, most);
            if means.len() < MIN_GROUPS {
                return None;
            }
            let groups = means.len() as f64;
            let mean = means.iter().sum::<f64>() / groups;
            let squares: f64 = means.iter().map(|it| (it - mean).powi(2)).sum();
            if squares <= 0.0 {
                // As even as none would be by chance; single episodes tell how much they differ.
                let (share, freedom) = ((count - 1.0).sqrt().recip(), groups - 1.0);
                return Some(Self { share, freedom });
            }
            let neighbours = means.windows(2);
            let products: f64 = neighbours.map(|it| (it[0] - mean) * (it[1] - mean)).sum();
            // Estimated from so few it is too low by (1 + 3 r) / groups.
            let alike = (groups * products / squares + 1.0) / (groups - 3.0);
            let is_alike = alike > groups.sqrt().recip();
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
            let error = (squares / groups / freedom).sqrt();
            // No surer than if they were independent.
            let share = (error / deviation).max((count - 1.0).sqrt().recip());
            return Some(Self { share, freedom });
        }
    }

    /// Of some of those episodes: `of` how many it is, and how many these are. They are taken
    /// to hang together as all do.
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

/// The means of so many groups of consecutive episodes, from buckets (episodes, mean): each
/// has about as many episodes, or one bucket.
fn groups(buckets: &[(f64, f64)], most: usize) -> Vec<f64> {
    let all: f64 = buckets.iter().map(|(episodes, _)| episodes).sum();
    let each = all / most.max(1) as f64;
    let mut means = Vec::with_capacity(most);
    let (mut done, mut episodes, mut sum) = (0.0, 0.0, 0.0);
    for (more, mean) in buckets {
        episodes += more;
        sum += more * mean;
        // Where the next one of this size would end at the latest.
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

    /// Numbers from 0 to 1 that have nothing to do with each other.
    struct Chance(u64);

    impl Chance {
        fn next(&mut self) -> f64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005);
            self.0 = self.0.wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) as f64 / (1_u64 << 31) as f64
        }

        /// Of a normal distribution, nearly.
        fn normal(&mut self) -> f64 {
            (0..12).map(|_| self.next()).sum::<f64>() - 6.0
        }

        /// Episodes of `mean` ns with a deviation of a fifth of that, each like the one
        /// before by `alike`.
        fn run(&mut self, count: usize, mean: f64, alike: f64) -> (StatReport, Vec<TrendReport>) {
            let mut state = self.normal();
            let values: Vec<f64> = (0..count)
                .map(|_| {
                    state = alike * state + (1.0 - alike * alike).sqrt() * self.normal();
                    (mean * (1.0 + 0.2 * state)).max(1.0)
                })
                .collect();
            let mean = values.iter().sum::<f64>() / count as f64;
            let squares: f64 = values.iter().map(|it| (it - mean).powi(2)).sum();
            let deviation = (squares / count as f64).sqrt();
            let stat = stat(count as u64, mean as u64, deviation as u64);
            (stat, trend(values.into_iter().map(|it| it as u64)))
        }
    }

    /// Of 300 pairs of runs, of which the second is slower by so many times, how many are
    /// found to be beyond the noise, and of how many that is not known, per cent.
    fn found(count: usize, times: f64, alike: f64) -> (usize, usize) {
        let mut chance = Chance(7);
        let (mut beyond, mut unknown) = (0, 0);
        for _ in 0..300 {
            let pair = [1e6, 1e6 * times].map(|mean| chance.run(count, mean, alike));
            let [before, after] = pair.map(|(stat, trend)| {
                let spread = Spread::of(&trend, Some(&stat), |at| at.phase_ns);
                Sample::new(&stat, spread)
            });
            let judged = before.zip(after).and_then(|(a, b)| a.against(&b));
            match judged {
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
            (31, 0.9, 5),
            (64, 0.9, 3),
            (64, 0.98, 5),
            (512, 0.95, 3),
        ] {
            let (beyond, _) = found(count, 1.0, alike);
            assert!(beyond <= most, "{count} {alike}: {beyond} %");
        }
    }

    #[test]
    fn what_is_slower_is_found_with_enough_episodes_and_nothing_is_said_of_what_hangs_together() {
        for (count, times, least) in [(16, 2.0, 75), (31, 1.3, 75), (128, 1.1, 50), (512, 1.1, 90)]
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
        // One error of the difference is 14.1.
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

    #[test]
    fn few_episodes_tell_nothing() {
        let few = trend((0..7).map(|at| 1000 + at % 2));
        assert_eq!(
            Spread::of(&few, Some(&stat(7, 1000, 1)), |at| at.phase_ns),
            None
        );
        let enough = trend((0..8).map(|at| 1000 + at % 2));
        let spread = Spread::of(&enough, Some(&stat(8, 1000, 1)), |at| at.phase_ns);
        assert!(spread.is_some());
        assert_eq!(Spread::of(&enough, None, |at| at.phase_ns), None);
        assert_eq!(SURE.of_some(100, 7), None);
        let some = SURE.of_some(101, 26).unwrap();
        assert!((some.share - 0.2).abs() < 1e-9, "{some:?}");
    }

    #[test]
    fn without_any_deviation_there_is_no_error_to_count_in() {
        let spread = Spread::of(&trend([1000; 10]), Some(&stat(10, 1000, 0)), |at| {
            at.phase_ns
        });
        let judged = judge(&stat(10, 1000, 0), &stat(10, 1100, 0), spread.unwrap()).unwrap();
        assert_eq!((judged.standard_errors, judged.beyond), (None, true));
        let same = judge(&stat(10, 1000, 0), &stat(10, 1000, 0), spread.unwrap()).unwrap();
        assert!(!same.beyond);
    }

    #[test]
    fn neighbours_that_are_alike_make_the_mean_less_sure() {
        let of = |means: &dyn Fn(u64) -> u64| {
            let trend = trend((0..512).map(means));
            Spread::of(&trend, Some(&stat(512, 1000, 50)), |at| at.phase_ns)
        };
        // Each bucket is like any other.
        let steady = of(&|at| 950 + at % 2 * 100).unwrap();
        assert!((steady.share * 511_f64.sqrt() - 1.0).abs() < 1e-6);
        // Drifts from 900 to 1100: as good as one or two values.
        let drift = of(&|at| 900 + at * 200 / 512);
        assert!(drift.is_none_or(|it| it.freedom < 2.0), "{drift:?}");
    }
}
