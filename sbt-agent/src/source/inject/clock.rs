//! Turns time stamps of the processor into `CLOCK_MONOTONIC`. Pure, except [`Pair::now`] and
//! [`is_counter`].

use std::{collections::VecDeque, fs};

use sbt_program::{arch::trampoline, clock};

/// The kernel's source of time: only if it is the processor's own counter, the counters of all CPUs
/// agree.
const SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

/// How many pairs are kept: records come late, but not that late.
const KEPT: usize = 4096;

/// How often both clocks are read for a pair; the closest reading counts.
const TRIES: usize = 4;

/// The same moment by both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The processor's time stamp.
    pub stamp: u64,
    /// The time at that stamp, `CLOCK_MONOTONIC` ns.
    pub time_ns: u64,
}

impl Pair {
    /// Reads both clocks.
    pub fn now() -> Self {
        let mut best = (
            u64::MAX,
            Self {
                stamp: 0,
                time_ns: 0,
            },
        );
        for _ in 0..TRIES {
            let before = trampoline::stamp();
            let time_ns = clock::now_ns();
            let took = trampoline::stamp().saturating_sub(before);
            if took < best.0 {
                let stamp = before + took / 2;
                best = (took, Self { stamp, time_ns });
            }
        }
        best.1
    }
}

/// Whether the kernel takes the time from the processor's counter.
pub fn is_counter() -> bool {
    fs::read_to_string(SOURCE).is_ok_and(|source| source.trim() == "tsc")
}

/// Pairs of the recent past, from which the time of a stamp is interpolated.
#[derive(Debug, Default)]
pub struct Stamps(VecDeque<Pair>);

impl Stamps {
    /// Adds a pair that is later than all before; others are ignored.
    pub fn add(&mut self, pair: Pair) {
        let is_later = |last: &Pair| pair.stamp > last.stamp && pair.time_ns >= last.time_ns;
        if self.0.back().is_none_or(is_later) {
            if self.0.len() == KEPT {
                self.0.pop_front();
            }
            self.0.push_back(pair);
        }
    }

    /// The time of a stamp, ns. Stamps from before the first pair or after the last are extrapolated.
    /// `None` with less than two pairs.
    pub fn time_ns(&self, stamp: u64) -> Option<u64> {
        let behind = self.0.partition_point(|pair| pair.stamp <= stamp);
        let last = self.0.len().checked_sub(2)?;
        let from = behind.saturating_sub(1).min(last);
        let (one, other) = (self.0.get(from)?, self.0.get(from + 1)?);
        let ns = i128::from(other.time_ns - one.time_ns);
        let stamps = i128::from(other.stamp - one.stamp);
        let passed = (i128::from(stamp) - i128::from(one.stamp)) * ns / stamps;
        u64::try_from((i128::from(one.time_ns) + passed).max(0)).ok()
    }

    /// How many stamps the processor makes in a time, at the last rate; 0 if that is not known.
    pub fn stamps_in(&self, ns: u64) -> u64 {
        let (Some(first), Some(last)) = (self.0.front(), self.0.back()) else {
            return 0;
        };
        let stamps = u128::from(last.stamp - first.stamp) * u128::from(ns);
        let passed = u128::from(last.time_ns - first.time_ns).max(1);
        u64::try_from(stamps / passed).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_interpolated_and_never_go_back() {
        let mut stamps = Stamps::default();
        assert_eq!(stamps.time_ns(7), None);
        for (stamp, time_ns) in [(1000, 100), (3000, 1100), (5000, 2300)] {
            stamps.add(Pair { stamp, time_ns });
        }
        // Not later than the last.
        stamps.add(Pair {
            stamp: 5000,
            time_ns: 9000,
        });
        for (stamp, time_ns) in [
            (1000, 100),
            (2000, 600),
            (3000, 1100),
            (4000, 1700),
            (5000, 2300),
            (6000, 2900),
            (900, 50),
            (0, 0),
        ] {
            assert_eq!(stamps.time_ns(stamp), Some(time_ns), "{stamp}");
        }
        let all: Vec<_> = (0..8000).map(|stamp| stamps.time_ns(stamp)).collect();
        assert!(all.is_sorted());
        assert_eq!(stamps.stamps_in(550), 1000);
    }

    #[test]
    fn only_the_recent_past_is_kept() {
        let mut stamps = Stamps::default();
        for moment in 1..=2 * KEPT as u64 {
            stamps.add(Pair {
                stamp: moment * 10,
                time_ns: moment,
            });
        }
        assert_eq!(stamps.0.len(), KEPT);
        assert_eq!(stamps.time_ns(u64::MAX / 100), Some(u64::MAX / 1000));
    }

    #[test]
    fn both_clocks_go_on() {
        let (one, other) = (Pair::now(), Pair::now());
        assert!(other.stamp > one.stamp && other.time_ns >= one.time_ns);
    }
}
