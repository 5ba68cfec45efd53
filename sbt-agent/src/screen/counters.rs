//! Columns of counters, which scroll sideways.

use super::grid::{Cells, Grid};
use crate::show::table::{UNKNOWN, rounded};
use sbt_engine::{
    live::{CounterFigure, CounterFigures, Snapshot},
    report::{
        CounterUnit,
        counters::{CounterReport, Counts, derived},
    },
};

/// The value of a counter that is shown beside its rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShownValue {
    /// The total.
    Sum,
    /// The mean per phase.
    PerPhase,
}

/// The counters that are being counted now, with their figures.
pub fn chosen(snapshot: &Snapshot) -> impl Iterator<Item = (&CounterReport, &CounterFigures)> {
    let all = snapshot.report.counters.iter().zip(&snapshot.counters);
    all.filter(|(_, figures)| figures.is_chosen)
}

/// Adds the columns of all counters: the value selected by `told`, the rate, and last the ratios of
/// several counters. `rows` picks the figures of the grid's rows from a counter's figures; `counts`
/// holds the counts of each row.
pub fn columns(
    grid: &mut Grid,
    snapshot: &Snapshot,
    told: ShownValue,
    rows: fn(&CounterFigures) -> &Vec<CounterFigure>,
    counts: &[&Counts],
) {
    for (counter, figures) in chosen(snapshot) {
        let rows = rows(figures);
        let is_time = counter.unit == CounterUnit::Ns;
        let values = match told {
            ShownValue::Sum if is_time => Cells::Time(rows.iter().map(|row| row.sum).collect()),
            ShownValue::Sum => Cells::Count(rows.iter().map(|row| row.sum).collect()),
            ShownValue::PerPhase => per_phase(counter, rows),
        };
        grid.scrolling(counter.title(), values);
    }
    for (counter, figures) in chosen(snapshot) {
        let rows = rows(figures).iter().map(|row| row.per_second);
        if counter.unit == CounterUnit::Ns {
            // One second of time counted per second is one full CPU: 100 %.
            let share = rows.map(|rate| rate.map(|ns| ns / 1e9 * 100.0));
            grid.scrolling(format!("{} %", counter.name), Cells::Share(share.collect()));
        } else {
            grid.scrolling(format!("{}/s", counter.name), Cells::Mean(rows.collect()));
        }
    }
    ratios(grid, counts);
}

/// Adds the columns for the threads of one site: the mean per phase of each counter, then the
/// ratios. `site` is the site's index in the report.
pub fn of_threads(grid: &mut Grid, snapshot: &Snapshot, site: usize, counts: &[&Counts]) {
    for (counter, figures) in snapshot.report.counters.iter().zip(&snapshot.counters) {
        let rows = figures
            .site_threads
            .get(site)
            .map_or(&[][..], Vec::as_slice);
        grid.scrolling(counter.title(), per_phase(counter, rows));
    }
    ratios(grid, counts);
}

fn per_phase(counter: &CounterReport, rows: &[CounterFigure]) -> Cells {
    let means = rows.iter().map(|row| row.per_phase);
    if counter.unit == CounterUnit::Ns {
        Cells::Time(means.map(|mean| mean.map(rounded)).collect())
    } else {
        Cells::Mean(means.collect())
    }
}

/// Adds one column for each ratio of several counters. A cell is unknown if any counter in the
/// ratio is unknown for its row.
fn ratios(grid: &mut Grid, counts: &[&Counts]) {
    let all: Vec<_> = counts.iter().map(|counts| derived(counts)).collect();
    let mut names: Vec<&str> = Vec::new();
    for figure in all.iter().flatten() {
        if !names.contains(&figure.name.as_str()) {
            names.push(&figure.name);
        }
    }
    for name in names {
        let mut title = None;
        let cells = all.iter().map(|row| {
            let Some(found) = row.iter().find(|figure| figure.name == name) else {
                return (None, UNKNOWN.to_owned());
            };
            title.get_or_insert_with(|| found.title());
            (Some(found.value), found.text())
        });
        let cells = Cells::Ranked(cells.collect());
        grid.scrolling(title.unwrap_or_default(), cells);
    }
}
