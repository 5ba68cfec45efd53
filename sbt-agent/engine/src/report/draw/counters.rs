//! Draws the values of counters, by name.

use std::collections::BTreeMap;

use super::{
    super::{
        CounterUnit,
        counters::{Counted, CountedReport, CounterReport, Counts},
    },
    Draw,
};
use crate::{
    event::Count,
    model::counts::{Sum, Sums},
};

const TASK_CLOCK: &str = "task-clock";

impl Draw<'_> {
    pub(super) fn counters(&self) -> Vec<CounterReport> {
        let rows = self.model.threads().rows();
        let named = (0..).zip(&self.facts.counters.0);
        named
            .map(|(at, (counter, _))| {
                let work = || rows.iter().map(|row| row.counts.of(at));
                let counted: Sum = rows.iter().map(|row| row.counted.of(at)).sum();
                let known = |sums: &mut dyn Iterator<Item = Sum>| {
                    let values = sums.filter_map(Sum::get);
                    values.reduce(u64::saturating_add)
                };
                CounterReport {
                    name: counter.name.clone(),
                    unit: if counter.is_time() {
                        CounterUnit::Ns
                    } else {
                        CounterUnit::Count
                    },
                    total: counted.get(),
                    work: known(&mut work()),
                    unknown: work().map(Sum::unknown).sum(),
                    counted_pct: counted.counted_pct(),
                }
            })
            .collect()
    }

    /// The requested counters, and `task-clock`, which is `running_ns` (time on a CPU) unless it
    /// was requested.
    pub(super) fn counts(&self, sums: &Sums, running_ns: Option<u64>) -> Counts {
        let mut counts = self.sums(sums);
        counts.entry(TASK_CLOCK.to_owned()).or_insert(running_ns);
        counts
    }

    /// The requested counters.
    pub(super) fn sums(&self, sums: &Sums) -> Counts {
        self.named(|at| sums.of(at).get())
    }

    /// The requested counters of a single interval of work.
    pub(super) fn counts_of(&self, counts: Option<&[Option<Count>]>) -> Counts {
        let count = |at: usize| counts.and_then(|counts| *counts.get(at)?);
        self.named(|at| count(at).map(Count::scaled))
    }

    /// Of how many of `intervals` of work the counters that were asked for are known.
    pub(super) fn counted(&self, sums: &Sums, intervals: u64) -> Counted {
        self.named(|at| CountedReport {
            known: sums.of(at).known(),
            intervals,
        })
    }

    fn named<T>(&self, value: impl Fn(usize) -> T) -> BTreeMap<String, T> {
        let named = (0..).zip(&self.facts.counters.0);
        named
            .map(|(at, (counter, _))| (counter.name.clone(), value(at)))
            .collect()
    }
}
