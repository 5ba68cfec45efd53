//! How often a counter's events happen: per instruction, or per time on a CPU. Pure.
//!
//! A sum says little of two runs that do different amounts of work. A rate needs two sums of the same
//! spans of work; where there is no such pair, it is unknown.

use super::RatePer;
use crate::counters::{Counter, CounterKind, Side, is_time};

/// The sum of a counter over some work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    /// The sum over the known intervals of work.
    pub sum: u64,
    /// Number of these intervals.
    pub known: u64,
    /// Number of all intervals.
    pub intervals: u64,
}

impl Counted {
    /// `self` for each of `other`, times `scale`; `None` if the two are not of the same intervals, or
    /// if `other` is 0.
    fn by(self, other: Self, scale: f64) -> Option<f64> {
        let is_same = (self.known, self.intervals) == (other.known, other.intervals);
        // Some of the intervals may be others, unless they are all.
        let is_same = is_same && (self.known == self.intervals);
        (is_same && other.sum > 0 && self.known > 0)
            .then(|| self.sum as f64 * scale / other.sum as f64)
    }
}

const HARDWARE: u32 = 0;
const CYCLES: u64 = 0;
const INSTRUCTIONS: u64 = 1;

/// Whether a counter counts this generic event of the processor, in these parts of the code.
fn is(name: &str, event: u64, side: Option<Side>) -> bool {
    let Ok(counter) = name.parse::<Counter>() else {
        return false;
    };
    let is_event = match &counter.what {
        CounterKind::Generic { kind, config } => (*kind, *config) == (HARDWARE, event),
        _ => false,
    };
    is_event && counter.only == side
}

/// The rate of a counter by this; `None` if it is unknown. `all`: the names and sums of all counters
/// over the same work.
pub fn rate(name: &str, per: RatePer, all: &[(&str, Counted)]) -> Option<f64> {
    let side = name.parse::<Counter>().ok()?.only;
    let is_instructions = is(name, INSTRUCTIONS, side);
    let (is_divisor, scale): (&dyn Fn(&str) -> bool, f64) = match per {
        RatePer::Instructions if !is_instructions => (&|other| is(other, INSTRUCTIONS, side), 1e3),
        RatePer::Cycle if is_instructions => (&|other| is(other, CYCLES, side), 1.0),
        RatePer::CpuSecond if !is_time(name) => (&is_time, 1e9),
        _ => return None,
    };
    let (_, own) = all.iter().find(|(other, _)| *other == name)?;
    let divisors = all.iter().filter(|(other, _)| is_divisor(other));
    let mut rates = divisors.filter_map(|(_, divisor)| own.by(*divisor, scale));
    rates.next()
}

/// All that a rate may be by, the best first.
pub const ALL: [RatePer; 3] = [RatePer::Cycle, RatePer::Instructions, RatePer::CpuSecond];

#[cfg(test)]
mod tests {
    use super::*;

    const fn of(sum: u64) -> Counted {
        Counted {
            sum,
            known: 8,
            intervals: 8,
        }
    }

    fn best(name: &str, all: &[(&str, Counted)]) -> Option<(RatePer, f64)> {
        let mut found = ALL.into_iter();
        found.find_map(|per| Some((per, rate(name, per, all)?)))
    }

    #[test]
    fn instructions_come_before_time_and_cycles_before_both() {
        let all = [
            ("page-faults", of(31)),
            ("instructions", of(10_000)),
            ("cycles", of(20_000)),
            ("task-clock", of(2_000_000_000)),
        ];
        assert_eq!(
            best("page-faults", &all),
            Some((RatePer::Instructions, 3.1))
        );
        assert_eq!(best("instructions", &all), Some((RatePer::Cycle, 0.5)));
        assert_eq!(best("cycles", &all), Some((RatePer::Instructions, 2_000.0)));
        let slow = [all[0], all[1], all[3]];
        assert_eq!(
            best("instructions", &slow),
            Some((RatePer::CpuSecond, 5_000.0))
        );
        let soft = [all[0], all[3]];
        assert_eq!(best("page-faults", &soft), Some((RatePer::CpuSecond, 15.5)));
        assert_eq!(best("task-clock", &soft), None);
        assert_eq!(best("page-faults", &soft[..1]), None);
    }

    #[test]
    fn a_rate_needs_both_over_the_same_work() {
        let part = Counted {
            known: 7,
            ..of(10_000)
        };
        let time = ("task-clock", of(1_000_000_000));
        // Instructions are unknown in one interval: the time is not.
        let all = [("page-faults", of(31)), ("instructions", part), time];
        assert_eq!(best("page-faults", &all), Some((RatePer::CpuSecond, 31.0)));
        // Each may be unknown in another interval.
        let all = [("page-faults", part), ("instructions", part)];
        assert_eq!(best("page-faults", &all), None);
        // Nothing was executed, or nothing is known.
        let all = [("page-faults", of(31)), ("instructions", of(0))];
        assert_eq!(best("page-faults", &all), None);
        let none = Counted {
            sum: 0,
            known: 0,
            intervals: 0,
        };
        let all = [("page-faults", none), ("instructions", none)];
        assert_eq!(best("page-faults", &all), None);
        // 0 of something is known.
        let all = [("page-faults", of(0)), time];
        assert_eq!(best("page-faults", &all), Some((RatePer::CpuSecond, 0.0)));
    }

    #[test]
    fn both_are_of_the_same_code() {
        let all = [
            ("cache-misses:u", of(5)),
            ("cache-misses", of(7)),
            ("instructions:u", of(1_000)),
        ];
        assert_eq!(
            best("cache-misses:u", &all),
            Some((RatePer::Instructions, 5.0))
        );
        assert_eq!(best("cache-misses", &all), None);
        assert_eq!(best("no such counter", &all), None);
    }
}
