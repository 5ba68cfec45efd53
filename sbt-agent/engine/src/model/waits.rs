//! How threads wait in barriers: some spin, some sleep.

use std::iter::Sum;

use super::parts::{SplitSum, Wait};

/// Sums of [`Wait`]s, with their total length: departures may be watched for a part of the run
/// only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// The split of the waits into running, ready and blocked time.
    pub split: SplitSum,
    whole_ns: u64,
}

impl Waits {
    /// Adds a wait; an unknown wait changes nothing.
    pub fn add(&mut self, wait: Option<Wait>) {
        let Some(wait) = wait else { return };
        self.split.add(wait.split);
        self.whole_ns = self.whole_ns.saturating_add(wait.whole_ns);
    }

    /// A part as a percentage of the total length; `None` if no wait is known.
    pub fn pct(self, part_ns: Option<u64>) -> Option<f64> {
        let part_ns = part_ns.filter(|_| self.whole_ns > 0)?;
        Some(part_ns as f64 / self.whole_ns as f64 * 100.0)
    }
}

impl Sum for Waits {
    fn sum<I: Iterator<Item = Self>>(waits: I) -> Self {
        let mut all = Self::default();
        for waits in waits {
            all.split.running.add(waits.split.running.get());
            all.split.ready.add(waits.split.ready.get());
            all.split.blocked.add(waits.split.blocked.get());
            all.whole_ns = all.whole_ns.saturating_add(waits.whole_ns);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Clocks;

    fn at(time_ns: u64, run_ns: u64) -> Clocks {
        Clocks {
            time_ns,
            run_ns: Some(run_ns),
            delay_ns: Some(0),
        }
    }

    #[test]
    fn unknown_waits_are_no_zeros() {
        let mut waits = Waits::default();
        waits.add(None);
        let spun = |waits: Waits| (waits.split.running.get(), waits.split.blocked.get());
        assert_eq!(spun(waits), (None, None));
        assert_eq!(waits.pct(Some(3)), None);
        waits.add(Some(Wait::between(at(100, 5), at(110, 8))));
        waits.add(None);
        waits.add(Some(Wait::between(at(200, 8), at(210, 12))));
        assert_eq!(spun(waits), (Some(7), Some(13)));
        assert_eq!(waits.pct(waits.split.running.get()), Some(35.0));
        let all: Waits = [waits, Waits::default(), waits].into_iter().sum();
        assert_eq!(spun(all), (Some(14), Some(26)));
        assert_eq!(all.pct(all.split.blocked.get()), Some(65.0));
    }
}
