//! What a report says of counters.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Word;

/// What counters said, by name, as they were asked for (`--events`); those of perf
/// events that were counted only for a part of the time are scaled to the whole. A
/// value that was not measured is null. `task-clock`, which costs nothing, is always
/// there.
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

/// What a counter counted in each of so many phases, mean: in the intervals of work in which
/// it is not known, as much as in the others is assumed. `None` if it is known in none.
pub fn per_phase(counts: &Counts, counted: &Counted, name: &str, phases: u64) -> Option<f64> {
    let sum = counts.get(name).copied().flatten()?;
    let all = counted.get(name)?.scaled(sum)?;
    (phases > 0).then(|| all / phases as f64)
}

/// A counter that was asked for, over the whole run.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CounterReport {
    /// Its name, as perf has it.
    pub name: String,
    /// What a value is: `ns`, or `count` for a number of something.
    #[serde(deserialize_with = "super::word::read")]
    pub unit: Word,
    /// All that was counted of all threads, in barriers too: from when watching them
    /// began to the last that was seen of each. Null if it was not counted.
    pub total: Option<u64>,
    /// Of that, in their work. It belongs to the phase that ended with it; where
    /// departures are not watched, what was counted in the barrier before is in it.
    pub work: Option<u64>,
    /// How many intervals of work are not in `work`, because the counter could not
    /// be read at one of their ends, or was not counted in them at all.
    pub unknown: u64,
    /// For how much of the time it was counted: less than 100 where the machine counts
    /// too few things at once; what it would have been for the whole is reckoned then.
    /// Null for what is counted always, or never.
    pub counted_pct: Option<f64>,
}

/// Below this share a counter was counted in turns with others, per cent; a rounding is none.
const IN_TURNS_PCT: f64 = 99.5;

impl CounterReport {
    /// For how much of the time it was counted, per cent, if that was in turns with others.
    pub fn turns_pct(&self) -> Option<f64> {
        self.counted_pct.filter(|share| *share < IN_TURNS_PCT)
    }

    /// What it is called in a table: its name, and that share.
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
    /// What it is called: `IPC`, `cache-misses rate`, `cache-misses per 1000 instructions`.
    pub name: String,
    /// Its value, of all work at the site; a rate is in per cent.
    pub value: f64,
}

/// How a figure is made of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Derived {
    /// One divided by the other, by this name.
    Ratio(&'static str),
    /// The share of one in the other, per cent.
    Rate,
    /// How much of one comes with 1000 of the other.
    PerThousand,
}

/// What follows the name of a [`Derived::Rate`],
const RATE: &str = " rate";
/// and of a [`Derived::PerThousand`].
const PER_THOUSAND: &str = " per 1000 instructions";

const CYCLES: &[&str] = &["cycles", "cpu-cycles"];
const BRANCHES: &[&str] = &["branches", "branch-instructions"];

/// What is divided by what.
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

/// Figures that follow from counters of one interval or more.
pub fn derived(counts: &Counts) -> Vec<DerivedReport> {
    // Both of the program's own code, or both of all.
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
    /// The value as text: `12.5 %` of a rate, `1.50` else.
    pub fn text(&self) -> String {
        if self.name.ends_with(RATE) {
            format!("{:.1} %", self.value)
        } else {
            format!("{:.2}", self.value)
        }
    }

    /// A name for a column: `IPC`, `cache-misses %`, `cache-misses/1000 ins`.
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
            .map(|it| (it.name, it.value))
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
