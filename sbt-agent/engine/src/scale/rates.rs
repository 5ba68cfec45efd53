//! How often the events of a counter happened during the threads' work: what a sum tells of runs of
//! different sizes.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::report::{CounterUnit, Report};

/// What the rate of a counter is relative to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Per {
    /// Events for each 1000 instructions.
    ThousandInstructions,
    /// Events for each second of CPU time.
    CpuSecond,
}

impl Per {
    /// The words for a heading.
    pub const fn text(self) -> &'static str {
        match self {
            Self::ThousandInstructions => "per 1000 instructions",
            Self::CpuSecond => "per second of CPU time",
        }
    }
}

/// A requested counter, and what its rates are relative to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RatedCounter {
    /// The name, as perf spells it.
    pub name: String,
    /// The unit of the values: `ns`, or `count` for a number of events.
    pub unit: CounterUnit,
    /// What its rates are relative to: instructions if they are known in any of the runs. Null for
    /// a counter of time, which has no rate.
    pub per: Option<Per>,
}

/// The counters of some runs. All rates of one counter are relative to the same.
pub fn rated<'a>(mut reports: impl Iterator<Item = &'a Report> + Clone) -> Vec<RatedCounter> {
    let all = reports.clone();
    let counters = reports.next().map_or(&[][..], |report| &report.counters);
    let one = |name: &str, unit| {
        let has_instructions = || {
            let divisor = instructions_for(name)?;
            all.clone().find_map(|report| work(report, &divisor))
        };
        let per = match unit {
            CounterUnit::Ns => None,
            _ if has_instructions().is_some() => Some(Per::ThousandInstructions),
            _ => Some(Per::CpuSecond),
        };
        RatedCounter {
            name: name.into(),
            unit,
            per,
        }
    };
    let counters = counters.iter();
    counters
        .map(|counter| one(&counter.name, counter.unit))
        .collect()
}

/// The rates of a run, by name; `None` for what is unknown.
pub fn of_run(report: &Report, counters: &[RatedCounter]) -> BTreeMap<String, Option<f64>> {
    let rate = |counter: &RatedCounter| {
        let events = work(report, &counter.name)?;
        let (by, scale) = match counter.per? {
            Per::ThousandInstructions => (work(report, &instructions_for(&counter.name)?)?, 1000.0),
            Per::CpuSecond => (cpu_ns(report)?, 1e9),
        };
        (by > 0).then(|| events as f64 * scale / by as f64)
    };
    counters
        .iter()
        .filter(|counter| counter.per.is_some())
        .map(|counter| (counter.name.clone(), rate(counter)))
        .collect()
}

/// The counter of instructions in the same parts of the code, as `instructions:u` for
/// `cache-misses:u`; `None` for instructions themselves.
fn instructions_for(name: &str) -> Option<String> {
    let (event, side) = name.split_once(':').unwrap_or((name, ""));
    let colon = if side.is_empty() { "" } else { ":" };
    (event != "instructions").then(|| format!("instructions{colon}{side}"))
}

/// The value during the threads' work; `None` unless it is known for all of the work.
fn work(report: &Report, name: &str) -> Option<u64> {
    let mut counters = report.counters.iter();
    let counter = counters.find(|counter| counter.name == name)?;
    counter.work.filter(|_| counter.unknown == 0)
}

/// The CPU time of the threads' work, ns.
fn cpu_ns(report: &Report) -> Option<u64> {
    let known: Option<Vec<u64>> = report
        .threads
        .iter()
        .map(|thread| thread.running_ns)
        .collect();
    known.map(|times| times.into_iter().fold(0, u64::saturating_add))
}
