//! What a report says of counters.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Word;

/// What counters said, by name, as they were asked for (`--events`); those of perf
/// events that were counted only for a part of the time are scaled to the whole. A
/// value that was not measured is null. `task-clock`, which costs nothing, is always
/// there.
pub type Counts = BTreeMap<String, Option<u64>>;

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

/// A figure that follows from two counters.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DerivedReport {
    /// What it is called: `IPC`, `cache-misses rate`.
    pub name: String,
    /// Its value, of all work at the site; a rate is in per cent.
    pub value: f64,
}

/// Figures that follow from counters of one interval or more.
pub fn derived(counts: &Counts) -> Vec<DerivedReport> {
    // What is divided by what, and what it is called; a rate unless it has a name.
    const PAIRS: [(&[&str], &[&str], Option<&str>); 7] = [
        (&["instructions"], &["cycles", "cpu-cycles"], Some("IPC")),
        (&["cache-misses"], &["cache-references"], None),
        (
            &["branch-misses"],
            &["branches", "branch-instructions"],
            None,
        ),
        (&["L1-dcache-load-misses"], &["L1-dcache-loads"], None),
        (&["LLC-load-misses"], &["LLC-loads"], None),
        (&["dTLB-load-misses"], &["dTLB-loads"], None),
        (&["iTLB-load-misses"], &["iTLB-loads"], None),
    ];
    // Both of the program's own code, or both of all.
    let modifiers = ["", ":u", ":k"].into_iter();
    let all = modifiers.flat_map(|modifier| PAIRS.map(|pair| (modifier, pair)));
    all.filter_map(|(modifier, (part, whole, name))| {
        let value = |names: &[&str]| {
            let mut names = names.iter();
            names.find_map(|name| *counts.get(&format!("{name}{modifier}"))?)
        };
        let (part_value, whole) = (value(part)?, value(whole)?);
        let ratio = (whole > 0).then(|| part_value as f64 / whole as f64)?;
        Some(match name {
            Some(name) => DerivedReport {
                name: format!("{name}{modifier}"),
                value: ratio,
            },
            None => DerivedReport {
                name: format!("{}{modifier} rate", part[0]),
                value: ratio * 100.0,
            },
        })
    })
    .collect()
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
        ]);
        let found: Vec<_> = derived(&all)
            .into_iter()
            .map(|it| (it.name, it.value))
            .collect();
        assert_eq!(
            found,
            [("IPC".into(), 1.5), ("cache-misses rate".into(), 12.5)]
        );
    }
}
