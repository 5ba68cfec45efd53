//! The counters in a report.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::CounterUnit;

/// Values of counters by name, in the order of `--events`. Values of perf events that were counted
/// for only a part of the time are scaled to the whole time. A value that was not measured is null.
/// `task-clock`, which costs nothing, is always present.
pub type Counts = BTreeMap<String, Option<u64>>;

/// Of how many intervals of work the sums of [`Counts`] tell, by name: those of the counters
/// that were asked for.
pub type Counted = BTreeMap<String, CountedReport>;

/// How much of some work a counter's sum tells of. An interval of work is that of one thread
/// before one episode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CountedReport {
    /// Intervals of work in which the counter is known: the sum is theirs.
    pub known: u64,
    /// All intervals of work, with those in which it is not.
    pub intervals: u64,
}

impl CountedReport {
    /// `sum`, scaled from the known intervals to all; `None` if none is known.
    fn scaled(self, sum: u64) -> Option<f64> {
        let share = self.intervals as f64 / self.known as f64;
        (self.known > 0).then_some(sum as f64 * share)
    }

    /// The counter is unknown in some of the intervals.
    pub const fn is_partial(self) -> bool {
        self.known < self.intervals
    }
}

/// The mean count of a counter in each of `phases` phases. Intervals of work in which the count is
/// unknown are assumed to be like the others. `None` if the count is known in no interval.
pub fn per_phase(counts: &Counts, counted: &Counted, name: &str, phases: u64) -> Option<f64> {
    let sum = counts.get(name).copied().flatten()?;
    let all = counted.get(name)?.scaled(sum)?;
    (phases > 0).then(|| all / phases as f64)
}

/// A requested counter over the whole run.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CounterReport {
    /// The name, as perf spells it.
    pub name: String,
    /// The unit of the values: `ns`, or `count` for a number of events.
    pub unit: CounterUnit,
    /// Total of all threads, time in barriers included, from the start of watching each thread to
    /// its last event. Null if the counter was not counted.
    pub total: Option<u64>,
    /// The part of `total` during the threads' work. Each interval of work belongs to the phase
    /// that ended with it. Where departures are not watched, work includes the time in the
    /// preceding barrier.
    pub work: Option<u64>,
    /// Number of intervals of work that are missing in `work`, because the counter could not be
    /// read at one of their ends or was not counted in them at all.
    pub unknown: u64,
    /// Percentage of the time for which the counter was counted. It is below 100 where the
    /// processor has too few counters for all requested events; values are then extrapolated to the
    /// whole time. Null for a counter that is always counted, or never.
    pub counted_pct: Option<f64>,
}

/// Below this share, in percent, a counter was counted in turns with others. A larger share differs
/// from 100 by rounding only.
const IN_TURNS_PCT: f64 = 99.5;

impl CounterReport {
    /// The share of the time for which the counter was counted, in percent; `None` unless it was
    /// counted in turns with others.
    pub fn turns_pct(&self) -> Option<f64> {
        self.counted_pct.filter(|share| *share < IN_TURNS_PCT)
    }

    /// The title of the counter in a table: its name, and the share from [`Self::turns_pct`].
    pub fn title(&self) -> String {
        match self.turns_pct() {
            Some(share) => format!("{} ({share:.0} %)", self.name),
            None => self.name.clone(),
        }
    }
}

/// A figure that follows from two counters.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DerivedReport {
    /// The name: `IPC`, `cache-misses rate`, `cache-misses per 1000 instructions`.
    pub name: String,
    /// The value for all work at the site; a rate is in percent.
    pub value: f64,
}

/// How a figure follows from two counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Derived {
    /// The first divided by the second, under this name.
    Ratio(&'static str),
    /// The share of the first in the second, in percent.
    Rate,
    /// Number of the first for each 1000 of the second.
    PerThousand,
}

/// Suffix of the name of a [`Derived::Rate`].
const RATE: &str = " rate";
/// Suffix of the name of a [`Derived::PerThousand`].
const PER_THOUSAND: &str = " per 1000 instructions";

const CYCLES: &[&str] = &["cycles", "cpu-cycles"];
const BRANCHES: &[&str] = &["branches", "branch-instructions"];

/// The pairs of counters: dividend, names of the divisor, and how the figure follows from them.
const DERIVED: [(&str, &[&str], Derived); 13] = [
    ("instructions", CYCLES, Derived::Ratio("IPC")),
    ("cache-misses", &["cache-references"], Derived::Rate),
    ("branch-misses", BRANCHES, Derived::Rate),
    ("L1-dcache-load-misses", &["L1-dcache-loads"], Derived::Rate),
    ("LLC-load-misses", &["LLC-loads"], Derived::Rate),
    ("dTLB-load-misses", &["dTLB-loads"], Derived::Rate),
    ("iTLB-load-misses", &["iTLB-loads"], Derived::Rate),
    ("cache-misses", &["instructions"], Derived::PerThousand),
    ("branch-misses", &["instructions"], Derived::PerThousand),
    (
        "L1-dcache-load-misses",
        &["instructions"],
        Derived::PerThousand,
    ),
    ("LLC-load-misses", &["instructions"], Derived::PerThousand),
    ("dTLB-load-misses", &["instructions"], Derived::PerThousand),
    ("iTLB-load-misses", &["instructions"], Derived::PerThousand),
];

/// The figures that follow from the counters of one or more intervals.
pub fn derived(counts: &Counts) -> Vec<DerivedReport> {
    // Both counters must have the same modifier: all code, user code only, or kernel code only.
    let modifiers = ["", ":u", ":k"].into_iter();
    let all = modifiers.flat_map(|modifier| DERIVED.map(|pair| (modifier, pair)));
    all.filter_map(|(modifier, (part, wholes, how))| {
        let value = |name: &str| *counts.get(&format!("{name}{modifier}"))?;
        let (part_value, whole) = (value(part)?, wholes.iter().find_map(|name| value(name))?);
        let ratio = (whole > 0).then(|| part_value as f64 / whole as f64)?;
        let (name, value) = match how {
            Derived::Ratio(name) => (format!("{name}{modifier}"), ratio),
            Derived::Rate => (format!("{part}{modifier}{RATE}"), ratio * 100.0),
            Derived::PerThousand => (format!("{part}{modifier}{PER_THOUSAND}"), ratio * 1000.0),
        };
        Some(DerivedReport { name, value })
    })
    .collect()
}

impl DerivedReport {
    /// The value as text: `12.5 %` for a rate, `1.50` for other figures.
    pub fn text(&self) -> String {
        if self.name.ends_with(RATE) {
            format!("{:.1} %", self.value)
        } else {
            format!("{:.2}", self.value)
        }
    }

    /// The title of the figure in a table: `IPC`, `cache-misses %`, `cache-misses/1000 ins`.
    pub fn title(&self) -> String {
        if let Some(what) = self.name.strip_suffix(RATE) {
            return format!("{what} %");
        }
        match self.name.strip_suffix(PER_THOUSAND) {
            Some(what) => format!("{what}/1000 ins"),
            None => self.name.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(values: &[(&str, Option<u64>)]) -> Counts {
        let values = values.iter();
        values
            .map(|(name, value)| ((*name).into(), *value))
            .collect()
    }

    #[test]
    fn a_mean_is_that_of_the_known_intervals() {
        let all = counts(&[("faults", Some(80)), ("cycles", Some(0)), ("old", Some(7))]);
        let intervals = 24;
        let counted = [("faults", 8), ("cycles", 0), ("misses", 24)];
        let counted =
            counted.map(|(name, known)| (name.into(), CountedReport { known, intervals }));
        let counted = Counted::from(counted);
        // 4 threads that count 10 each, known in the last 2 of 6 phases.
        assert_eq!(per_phase(&all, &counted, "faults", 6), Some(40.0));
        for name in ["cycles", "misses", "old", "none"] {
            assert_eq!(per_phase(&all, &counted, name, 6), None, "{name}");
        }
        assert_eq!(per_phase(&all, &counted, "faults", 0), None);
    }

    #[test]
    fn ratios_need_both_of_one_kind() {
        let all = counts(&[
            ("instructions", Some(300)),
            ("cpu-cycles", Some(200)),
            ("instructions:u", Some(100)),
            ("cache-misses", Some(1)),
            ("cache-references", Some(8)),
            ("branch-misses", Some(1)),
            ("branches", None),
            ("LLC-load-misses", Some(0)),
            ("LLC-loads", Some(0)),
            ("dTLB-load-misses:u", Some(7)),
        ]);
        let found: Vec<_> = derived(&all)
            .into_iter()
            .map(|figure| (figure.name, figure.value))
            .collect();
        assert_eq!(
            found,
            [
                ("IPC".into(), 1.5),
                ("cache-misses rate".into(), 12.5),
                ("cache-misses per 1000 instructions".into(), 1000.0 / 300.0),
                ("branch-misses per 1000 instructions".into(), 1000.0 / 300.0),
                ("LLC-load-misses per 1000 instructions".into(), 0.0),
                ("dTLB-load-misses:u per 1000 instructions".into(), 70.0),
            ]
        );
    }
}
