//! A program with several values of its parameters as text: the output of `sbt scale --vary`.

use std::collections::BTreeMap;

use super::{
    Table, duration, limit_text, line, paragraph,
    phases::{arrow, title},
    scale::{head, times},
    verdicts::{marked, sentence},
    wrapped,
};
use crate::show::table::{Style, UNKNOWN, mean, percent, ratio};
use sbt_engine::scale::{Per, RatedCounter, Row, Sweep};

/// Width of all columns of figures, with the spaces before them.
const FIGURES: usize = 58;
/// Minimum width for the values of parameters.
const NAMES: usize = 20;
/// Maximum number of remarks on single combinations.
const MOST_REMARKS: usize = 8;

/// The output of `sbt scale --vary`.
pub fn sweep(all: &Sweep, style: Style) -> String {
    let mut out = String::new();
    let most = all.rows.iter().map(|row| row.runs).max().unwrap_or(0);
    head(&mut out, &all.command, most, style);
    figures(&mut out, all, most > 1, style);
    limits(&mut out, all, style);
    for group in groups(all, style.width.saturating_sub(values_width(all) + 7)) {
        counters(&mut out, all, &group, style);
    }
    notes(&mut out, all, style);
    out
}

fn figures(out: &mut String, all: &Sweep, has_ranges: bool, style: Style) {
    let rows = &all.rows;
    let baseline = all.baseline();
    let heading = match &baseline {
        Some(baseline) => format!("ALL RUNS, speed-up against {baseline}"),
        None => "ALL RUNS".into(),
    };
    for (at, part) in wrapped(&sentence(&heading, style), style.width)
        .iter()
        .enumerate()
    {
        if at == 0 {
            title(out, part, style);
        } else {
            line(out, &style.bold(part));
        }
    }
    let mut table = Table::default();
    first_columns(&mut table, all, style);
    let walls = rows
        .iter()
        .map(|row| [row.wall_ns, row.min_wall_ns, row.max_wall_ns]);
    times(&mut table, walls, has_ranges, style);
    let ratios = |f: fn(&Row) -> Option<f64>| rows.iter().map(|row| ratio(f(row))).collect();
    if baseline.is_some() {
        table.column("speed-up", ratios(|row| row.speedup));
        if has_threads(all) {
            table.column("of ideal", ratios(|row| row.scaling_efficiency));
        }
    }
    table
        .column(
            "idle",
            rows.iter().map(|row| percent(row.idle_pct)).collect(),
        )
        .column("balance", ratios(|row| row.load_balance));
    table.write(out, style, room(style));
}

fn has_threads(all: &Sweep) -> bool {
    all.rows.iter().any(|row| row.threads.is_some())
}

const fn room(style: Style) -> usize {
    let room = style.width.saturating_sub(FIGURES);
    if room < NAMES { NAMES } else { room }
}

/// Width of the columns of values, with the spaces after them.
fn values_width(all: &Sweep) -> usize {
    let length = |text: &String| text.chars().count();
    let width = |name: &String, values: &[String]| {
        let widths = values.iter().chain([name]).map(length);
        widths.max().unwrap_or(0) + 2
    };
    all.parameters
        .iter()
        .map(|one| width(&one.name, &one.values))
        .sum()
}

/// The columns that tell which row is which: a column for each parameter if they fit, otherwise one
/// for all.
fn first_columns(table: &mut Table, all: &Sweep, style: Style) {
    let cells = |f: &dyn Fn(&BTreeMap<String, String>) -> String| -> Vec<String> {
        let rows = all.rows.iter();
        rows.map(|row| sentence(&f(&row.parameters), style))
            .collect()
    };
    if values_width(all) <= room(style) + 2 {
        for one in &all.parameters {
            let value = |values: &BTreeMap<String, String>| {
                values.get(&one.name).cloned().unwrap_or_default()
            };
            table.column(sentence(&one.name, style), cells(&value));
        }
    } else {
        table.column("parameters", cells(&|values| all.called(values)));
    }
    if has_threads(all) {
        let threads = |row: &Row| {
            row.threads
                .map_or(UNKNOWN.into(), |threads| threads.to_string())
        };
        table.column("threads", all.rows.iter().map(threads).collect());
    }
}

/// What keeps each combination from getting faster.
fn limits(out: &mut String, all: &Sweep, style: Style) {
    let found: Vec<String> = all
        .combinations
        .iter()
        .filter_map(|one| {
            let scaling = one.scaling.as_ref()?;
            let text = limit_text(scaling, scaling.limit.as_ref()?, arrow(style));
            Some(format!("{}: {text}", all.called(&one.parameters)))
        })
        .collect();
    if !found.is_empty() {
        line(out, "");
    }
    for text in found.iter().take(MOST_REMARKS) {
        marked(out, text, |_| false, style);
    }
    more(out, found.len(), "combinations", style);
}

fn more(out: &mut String, all: usize, what: &str, style: Style) {
    if all > MOST_REMARKS {
        let more = all - MOST_REMARKS;
        let text = format!("and {more} more {what}; --json has them all");
        line(out, &style.dim(&text));
    }
}

/// Counters of one kind whose columns fit side by side.
fn groups(all: &Sweep, room: usize) -> Vec<Vec<&RatedCounter>> {
    let mut groups: Vec<(Vec<&RatedCounter>, usize)> = Vec::new();
    for per in [Some(Per::ThousandInstructions), Some(Per::CpuSecond), None] {
        let mut is_first = true;
        for counter in all.counters.iter().filter(|counter| counter.per == per) {
            let width = counter.name.chars().count().max(8) + 2;
            match groups.last_mut().filter(|_| !is_first) {
                Some((group, used)) if *used + width <= room => {
                    group.push(counter);
                    *used += width;
                }
                _ => groups.push((vec![counter], width)),
            }
            is_first = false;
        }
    }
    groups.into_iter().map(|(group, _)| group).collect()
}

/// The heading of a table of counters.
pub fn rates_title(per: Option<Per>) -> String {
    match per {
        Some(per) => format!("COUNTERS {}, in the work of all threads", per.text()),
        None => "COUNTERS, total of all threads".into(),
    }
}

/// The rate of a counter in a row; the total of a counter of time.
pub fn rate_text(row: &Row, counter: &RatedCounter, style: Style) -> String {
    match counter.per {
        Some(_) => mean(row.rates.get(&counter.name).copied().flatten()),
        None => duration(row.counters.get(&counter.name).copied().flatten(), style),
    }
}

fn counters(out: &mut String, all: &Sweep, group: &[&RatedCounter], style: Style) {
    title(out, &rates_title(group[0].per), style);
    let mut table = Table::default();
    first_columns(&mut table, all, style);
    for counter in group {
        let rows = all.rows.iter();
        let cells = rows.map(|row| rate_text(row, counter, style)).collect();
        table.column(sentence(&counter.name, style), cells);
    }
    table.write(out, style, room(style));
}

fn notes(out: &mut String, all: &Sweep, style: Style) {
    if !all.notes.is_empty() {
        line(out, "");
    }
    for note in all.notes.iter().take(MOST_REMARKS) {
        paragraph(out, &sentence(&format!("note: {note}"), style), style);
    }
    more(out, all.notes.len(), "notes", style);
}
