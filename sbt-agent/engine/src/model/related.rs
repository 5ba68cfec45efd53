//! How counters go with lateness: by a correlation over the episodes of a site.
//!
//! Within each episode a thread's arrival and its count are compared with the means of that episode. So
//! long and short episodes are compared fairly, and what all threads do together explains nobody's
//! lateness. Only sums are kept: they do not grow with the run.

use crate::event::Count;

/// The sums of one counter at one site, over episodes in which it is known of all threads. As the
/// deviations of an episode sum up to 0, so do those of all.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Related {
    episodes: u64,
    /// Squares of the lateness, squares of the count, and their products, all as deviations.
    late_squares: f64,
    count_squares: f64,
    products: f64,
    /// The squares of each episode's sum of products.
    squared_products: f64,
    /// Counts of the last thread, and the means of the others' counts.
    last: f64,
    others: f64,
    /// By how much the last thread came later than the others' mean, ns.
    late: f64,
}

impl Related {
    /// `None` if the count of a thread is unknown.
    fn add(&mut self, counter: usize, members: &[Member<'_>]) -> Option<()> {
        let n = members.len() as f64;
        let (mut last, mut sum, mut idle) = (None, 0.0, 0.0);
        for member in members {
            let count = member.count(counter)?;
            sum += count;
            idle += member.idle_ns as f64;
            if member.idle_ns == 0 && last.is_none() {
                last = Some(count);
            }
        }
        let last = last.filter(|_| members.len() > 1)?;
        let (mean, mean_idle) = (sum / n, idle / n);
        let mut product = 0.0;
        for member in members {
            let late = mean_idle - member.idle_ns as f64;
            let more = member.count(counter)? - mean;
            self.late_squares += late * late;
            self.count_squares += more * more;
            product += late * more;
        }
        self.episodes += 1;
        self.products += product;
        self.squared_products += product * product;
        self.last += last;
        self.others += (sum - last) / (n - 1.0);
        self.late += idle / (n - 1.0);
        Some(())
    }

    /// Number of episodes.
    pub const fn episodes(&self) -> u64 {
        self.episodes
    }

    /// Pearson's correlation, -1 to 1; `None` if the counts, or the arrivals, do not differ.
    pub fn correlation(&self) -> Option<f64> {
        let squares = self.late_squares.sqrt() * self.count_squares.sqrt();
        let correlation = self.products / squares;
        (squares > 0.0 && correlation.is_finite()).then(|| correlation.clamp(-1.0, 1.0))
    }

    /// As many equal episodes would make up the correlation (the square of the sum by the sum of the
    /// squares): 1 if it is made by one episode alone. `None` if there is no correlation.
    pub fn effective_episodes(&self) -> Option<f64> {
        let effective = self.products * self.products / self.squared_products;
        effective.is_finite().then_some(effective)
    }

    /// Mean count of the last thread, and the mean of the others' mean counts; `None` without
    /// episodes.
    pub fn means(&self) -> Option<(f64, f64)> {
        let n = self.episodes as f64;
        (self.episodes > 0).then(|| (self.last / n, self.others / n))
    }

    /// Mean time by which the last thread came later than the others on average, ns; `None` without
    /// episodes.
    pub fn late_ns(&self) -> Option<f64> {
        (self.episodes > 0).then(|| self.late / self.episodes as f64)
    }
}

/// A thread in an episode.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    /// How long it waited for the last thread, ns.
    pub idle_ns: u64,
    /// What was counted in its work; `None` if nothing is known of it.
    pub counts: Option<&'a [Option<Count>]>,
}

impl Member<'_> {
    fn count(&self, counter: usize) -> Option<f64> {
        let count = *self.counts?.get(counter)?;
        count.map(|count| count.scaled() as f64)
    }
}

/// The sums of all counters at one site; empty while nothing is counted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AllRelated(Vec<Related>);

impl AllRelated {
    /// Adds an episode.
    pub fn add(&mut self, members: &[Member<'_>]) {
        let counters = members.iter().filter_map(|member| member.counts);
        let counters = counters.map(<[_]>::len).max().unwrap_or(0);
        if self.0.len() < counters {
            self.0.resize(counters, Related::default());
        }
        for (counter, related) in self.0.iter_mut().enumerate() {
            // An episode in which the counter is not known of all says nothing of it.
            let _unknown = related.add(counter, members);
        }
    }

    /// The sums of the counter with this index.
    pub fn of(&self, counter: usize) -> Related {
        self.0.get(counter).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Episodes of threads that wait for so long, and of which so much is counted.
    fn seen(episodes: &[&[(u64, Option<u64>)]]) -> Related {
        let mut all = AllRelated::default();
        for episode in episodes {
            let counts: Vec<[Option<Count>; 1]> = episode
                .iter()
                .map(|(_, value)| {
                    [value.map(|value| Count {
                        value,
                        ..Count::default()
                    })]
                })
                .collect();
            let members: Vec<Member<'_>> = episode
                .iter()
                .zip(&counts)
                .map(|((idle_ns, _), counts)| Member {
                    idle_ns: *idle_ns,
                    counts: Some(counts),
                })
                .collect();
            all.add(&members);
        }
        all.of(0)
    }

    fn close(a: Option<f64>, b: f64) -> bool {
        a.is_some_and(|a| (a - b).abs() < 1e-9)
    }

    #[test]
    fn who_is_late_has_more_of_it_whichever_thread_that_is() {
        let one = seen(&[
            &[(90, Some(5)), (0, Some(95))],
            &[(0, Some(40)), (30, Some(10))],
        ]);
        assert!(close(one.correlation(), 1.0), "{one:?}");
        assert_eq!(one.means(), Some((67.5, 7.5)));
        assert_eq!(one.late_ns(), Some(60.0));
        let less = seen(&[&[(90, Some(95)), (0, Some(5))]]);
        assert!(close(less.correlation(), -1.0), "{less:?}");
    }

    #[test]
    fn what_all_threads_have_more_of_explains_nobody() {
        // Long episodes have more faults, of all threads alike.
        let even = seen(&[
            &[(100, Some(7)), (0, Some(7))],
            &[(100_000, Some(9000)), (0, Some(9000))],
        ]);
        assert_eq!(even.correlation(), None);
        assert_eq!(even.effective_episodes(), None);
        // Now the late thread has more, now the other.
        let mixed = seen(&[
            &[(100, Some(7)), (0, Some(9))],
            &[(100, Some(9)), (0, Some(7))],
        ]);
        assert!(close(mixed.correlation(), 0.0), "{mixed:?}");
    }

    #[test]
    fn one_long_episode_is_one() {
        let mut all: Vec<&[(u64, Option<u64>)]> = vec![&[(1, Some(0)), (0, Some(1))]; 50];
        assert!(close(seen(&all).effective_episodes(), 50.0));
        all.push(&[(1_000_000, Some(0)), (0, Some(1_000_000))]);
        let one = seen(&all);
        assert!(one.correlation() > Some(0.99));
        assert!(one.effective_episodes() < Some(1.01), "{one:?}");
    }

    #[test]
    fn what_is_not_known_of_all_does_not_count() {
        let known: &[(u64, Option<u64>)] = &[(9, Some(0)), (0, Some(3))];
        let some = seen(&[known, &[(9, None), (0, Some(3))], &[(0, Some(3))]]);
        assert_eq!(some, seen(&[known]));
        assert_eq!(some.episodes(), 1);
        assert_eq!(seen(&[]).means(), None);
    }

    #[test]
    fn the_largest_numbers_make_no_nonsense() {
        let all = seen(&[&[(u64::MAX, Some(0)), (0, Some(u64::MAX))][..]; 3]);
        assert!(close(all.correlation(), 1.0), "{all:?}");
        assert!(all.effective_episodes().is_none_or(f64::is_finite));
    }
}
