//! One program with several values of its parameters, each at several numbers of threads.
//!
//! [`sweep`] is a pure function from reports to a table.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{
    AtCount, Run, Scaling, at_count, doubt, median_of_real,
    rates::{self, RatedCounter},
    ratio, scaling,
    vary::{self, Combination, Job, Parameter, Plan, Setting},
};
use crate::report::{Report, Word, counters::Counts};

/// Version of the JSON fields.
const SCHEMA: u32 = 1;

/// A run that went to its end.
#[derive(Clone, Debug)]
pub struct Done {
    /// Its index in [`Plan::jobs`].
    pub job: usize,
    /// The report on the run.
    pub report: Report,
}

/// One program with several values of its parameters, each at several numbers of threads. Times
/// are integers in nanoseconds and end in `_ns`; shares are in percent and end in `_pct`. If there
/// are several runs of the same kind, figures are medians. `null` means unknown or not measured,
/// never 0. Fields may be added.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(title = "sbt scale --vary"))]
pub struct Sweep {
    /// Version of these fields: 1. It changes if a field is removed or changes its meaning.
    pub schema: u32,
    /// Version of sbt.
    pub version: Word,
    /// The command line, with `{NAME}` where values were inserted.
    pub command: Vec<String>,
    /// Number of CPUs that the program could run on; null if it could not be determined.
    pub cpus: Option<u32>,
    /// The parameters with all values, in the order of the command line.
    pub parameters: Vec<Parameter>,
    /// The value whose time speed-ups count against (`--serial`); null if they count against the
    /// smallest number of threads of the same combination.
    pub serial: Option<Setting>,
    /// The whole runs: one row for each combination and number of threads that ran. The first
    /// parameter changes least often.
    pub rows: Vec<Row>,
    /// How each combination scales with its number of threads.
    pub combinations: Vec<OfCombination>,
    /// The requested counters.
    pub counters: Vec<RatedCounter>,
    /// Remarks for the user.
    pub notes: Vec<String>,
}

impl Sweep {
    /// The values as text, in the order of the command line: `version=./lu size=16`.
    pub fn called(&self, values: &BTreeMap<String, String>) -> String {
        let names = self.parameters.iter().map(|one| &one.name);
        let parts: Vec<String> = names
            .filter_map(|name| Some(format!("{name}={}", values.get(name)?)))
            .collect();
        parts.join(" ")
    }

    /// What speed-ups count against, as words for a heading; `None` if there are no speed-ups.
    pub fn baseline(&self) -> Option<String> {
        let has_threads = self.rows.iter().any(|row| row.threads.is_some());
        let serial = self.serial.as_ref();
        let names = self.parameters.iter().map(|one| one.name.as_str());
        let others: Vec<&str> = names
            .filter(|name| serial.is_none_or(|serial| serial.name != *name))
            .collect();
        let with_same = if others.is_empty() {
            String::new()
        } else {
            format!(", same {}", others.join(" and "))
        };
        match serial {
            Some(serial) if has_threads => Some(format!("{} (1 thread){with_same}", serial.value)),
            Some(serial) => Some(format!("{}{with_same}", serial.value)),
            None if has_threads => Some(format!("the fewest threads{with_same}")),
            None => None,
        }
    }
}

/// How one combination of values scales.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct OfCombination {
    /// The values by name.
    pub parameters: BTreeMap<String, String>,
    /// The same object as without `--vary`. Its speed-ups count against its smallest number of
    /// threads, whatever `serial` is. Null if sbt did not set the number of threads.
    pub scaling: Option<Scaling>,
}

/// The whole run with one combination of values at a number of threads.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Row {
    /// The values by name.
    pub parameters: BTreeMap<String, String>,
    /// The number of threads that the program was told to use; null if sbt did not set it.
    pub threads: Option<u32>,
    /// Number of threads that came to a barrier, in the run with the median time.
    pub seen_threads: u64,
    /// Number of runs that went to their end.
    pub runs: u32,
    /// Time from the program's start to its end.
    pub wall_ns: u64,
    /// The time of the fastest run.
    pub min_wall_ns: u64,
    /// The time of the slowest run.
    pub max_wall_ns: u64,
    /// The time of the baseline divided by `wall_ns`. The baseline is the serial value with the
    /// same other values, or else the smallest number of threads of the same combination.
    pub speedup: Option<f64>,
    /// `speedup` divided by the ideal speed-up: the number of threads divided by that of the
    /// baseline.
    pub scaling_efficiency: Option<f64>,
    /// Useful work as a fraction of what the threads could have done, as `efficiency.parallel` of a
    /// report; null if it is unknown in any of the runs.
    pub parallel_efficiency: Option<f64>,
    /// The balance of work, as `efficiency.load_balance` of a report; null if it is unknown in any
    /// of the runs.
    pub load_balance: Option<f64>,
    /// Time for which threads waited at barriers for others, as a percentage of the time of all
    /// threads; null if it is unknown in any of the runs.
    pub idle_pct: Option<f64>,
    /// Totals of the counters for all threads.
    pub counters: Counts,
    /// The rates of the counters during the threads' work, by name; see `per` of `counters`.
    pub rates: BTreeMap<String, Option<f64>>,
}

/// Makes the table. `command` is as the user typed it; `notes` are further remarks for the user.
/// `None` without runs.
pub fn sweep(
    plan: &Plan,
    command: &[String],
    runs: Vec<Done>,
    mut notes: Vec<String>,
) -> Option<Sweep> {
    let jobs = plan.jobs();
    let cpus = runs.first()?.report.run.cpus;
    let counters = rates::rated(runs.iter().map(|run| &run.report));
    let mut found: Vec<(&Job, AtCount, Row)> = Vec::new();
    for (at, job) in jobs.iter().enumerate() {
        let mine = runs.iter().filter(|run| run.job == at);
        let mine: Vec<&Report> = mine.map(|run| &run.report).collect();
        if let Some(figures) = at_count(job.threads.unwrap_or(0), &mine) {
            let told = if job.threads.is_some() {
                doubt::of_runs(&figures, &mine)
            } else {
                Vec::new()
            };
            let called = vary::called(&job.combination);
            notes.extend(told.iter().map(|note| format!("{called}: {note}")));
            found.push((job, figures.clone(), row(job, figures, &mine, &counters)));
        }
    }
    compare(plan, &mut found);
    let figures: Vec<AtCount> = found
        .iter()
        .map(|(_, figures, _)| figures.clone())
        .collect();
    notes.extend(doubt::of_cpus(&most_threads(&figures), cpus));
    notes.extend(doubt::is_short(&figures).map(|at| doubt::of_short(at, "at the fastest")));
    let rows = found.into_iter().map(|(_, _, row)| row).collect();
    let combinations = combinations(plan, &jobs, command, runs);
    Some(Sweep {
        schema: SCHEMA,
        version: env!("CARGO_PKG_VERSION"),
        command: command.to_vec(),
        cpus,
        parameters: plan.parameters.clone(),
        serial: plan.serial.clone(),
        rows,
        combinations,
        counters,
        notes,
    })
}

fn row(job: &Job, figures: AtCount, runs: &[&Report], counters: &[RatedCounter]) -> Row {
    let idle: Option<Vec<f64>> = runs.iter().map(|run| idle_pct(run)).collect();
    let rates: Vec<_> = runs
        .iter()
        .map(|run| rates::of_run(run, counters))
        .collect();
    let rate = |name: &String| {
        let known: Option<Vec<f64>> = rates.iter().map(|run| *run.get(name)?).collect();
        median_of_real(known?.into_iter())
    };
    let names = counters.iter().filter(|counter| counter.per.is_some());
    Row {
        parameters: vary::by_name(&job.combination),
        threads: job.threads,
        seen_threads: figures.seen_threads,
        runs: figures.runs,
        wall_ns: figures.wall_ns,
        min_wall_ns: figures.min_wall_ns,
        max_wall_ns: figures.max_wall_ns,
        speedup: None,
        scaling_efficiency: None,
        parallel_efficiency: figures.parallel_efficiency,
        load_balance: figures.load_balance,
        idle_pct: idle.and_then(|known| median_of_real(known.into_iter())),
        counters: figures.counters,
        rates: names
            .map(|counter| (counter.name.clone(), rate(&counter.name)))
            .collect(),
    }
}

/// The share of the threads' time in which they waited at barriers, in percent.
fn idle_pct(report: &Report) -> Option<f64> {
    let threads = report.efficiency.as_ref()?.threads;
    let all_ns = f64::from(threads) * report.run.wall_ns as f64;
    let idle = report.threads.iter().map(|thread| thread.idle_ns);
    let idle_ns = idle.fold(0, u64::saturating_add) as f64;
    (all_ns > 0.0 && report.lost_events == 0).then(|| (idle_ns / all_ns * 100.0).min(100.0))
}

/// Fills in the speed-ups.
fn compare(plan: &Plan, found: &mut [(&Job, AtCount, Row)]) {
    // Rows of a combination ascend by their number of threads.
    let bases: Vec<(Combination, Option<u32>, u64)> = found
        .iter()
        .map(|(job, figures, _)| (job.combination.clone(), job.threads, figures.wall_ns))
        .collect();
    for (job, _, row) in found {
        let serial = plan.serial_of(&job.combination);
        if serial.is_none() && job.threads.is_none() {
            continue;
        }
        let wanted = serial.as_ref().unwrap_or(&job.combination);
        // Of a combination whose smallest number of threads did not run, nothing is known.
        let least = plan
            .counts
            .as_ref()
            .and_then(|counts| counts.0.first().copied());
        let base = bases.iter().find(|(combination, threads, _)| {
            combination == wanted && (serial.is_some() || *threads == least)
        });
        let Some((_, base_threads, base_ns)) = base else {
            continue;
        };
        row.speedup = ratio(*base_ns, row.wall_ns);
        row.scaling_efficiency = row.speedup.and_then(|speedup| {
            Some(speedup / (f64::from(job.threads?) / f64::from((*base_threads)?)))
        });
    }
}

fn most_threads(figures: &[AtCount]) -> Vec<AtCount> {
    let most = figures.iter().max_by_key(|at| at.threads);
    most.cloned().into_iter().collect()
}

/// How each combination scales. Takes the runs, since reports are large.
fn combinations(
    plan: &Plan,
    jobs: &[Job],
    command: &[String],
    runs: Vec<Done>,
) -> Vec<OfCombination> {
    let mut by_combination: Vec<(Combination, Vec<Run>)> = Vec::new();
    for combination in plan.combinations() {
        by_combination.push((combination, Vec::new()));
    }
    for run in runs {
        let Some(job) = jobs.get(run.job) else {
            continue;
        };
        let mut all = by_combination.iter_mut();
        if let (Some(threads), Some((_, mine))) =
            (job.threads, all.find(|(one, _)| *one == job.combination))
        {
            mine.push(Run {
                threads,
                report: run.report,
            });
        }
    }
    let one = |(combination, runs): (Combination, Vec<Run>)| {
        let put = |text: &String| {
            let text = vary::put_values(text.as_ref(), &combination);
            text.to_string_lossy().into_owned()
        };
        OfCombination {
            parameters: vary::by_name(&combination),
            scaling: scaling(command.iter().map(put).collect(), &runs, Vec::new()),
        }
    };
    by_combination.into_iter().map(one).collect()
}
