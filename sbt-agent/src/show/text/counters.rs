//! Counters at each site, and over the whole run.

use super::{MOST_ROWS, NO_BREAK, Table, line, name, paragraph, rest, thread_name};
use crate::show::table::{Style, UNKNOWN, Unit, count};
use sbt_engine::report::{
    CounterUnit, Report, SiteReport,
    counters::{CounterReport, Counts},
};

/// Columns for the names of sites.
const NAMES: usize = 22;

/// The section; empty if no counters were requested.
pub fn counters(out: &mut String, report: &Report, style: Style) {
    if report.counters.is_empty() {
        return;
    }
    line(out, "");
    let title = "COUNTERS, in the work of all threads before each barrier";
    line(out, &style.bold(title));
    for some in side_by_side(report, style) {
        table(out, report, some, style);
    }
    rest(out, report.sites.len(), "site", style);
    derived(out, report, style);
    gaps(out, report, style);
}

/// Groups of as many counters as fit side by side, at least one per group.
fn side_by_side(report: &Report, style: Style) -> Vec<&[CounterReport]> {
    let mut groups = Vec::new();
    let mut left = &report.counters[..];
    while !left.is_empty() {
        let mut width = NAMES;
        let fits = |counter: &&CounterReport| {
            width += 2 + counter.name.len().max(11);
            width <= style.width
        };
        let number = left.iter().take_while(fits).count().max(1);
        let (now, later) = left.split_at(number);
        groups.push(now);
        left = later;
    }
    groups
}

/// A table of the counts of some threads, written below the object that they belong to; empty
/// without threads.
pub fn of_threads(out: &mut String, report: &Report, threads: &[(u32, &Counts)], style: Style) {
    if threads.is_empty() {
        return;
    }
    for counters in side_by_side(report, style) {
        let names = threads
            .iter()
            .map(|(thread, _)| format!("  {}", thread_name(report, *thread)));
        let mut table = Table::default();
        table.column("  counted in the work of", names.collect());
        for counter in counters {
            let values = threads
                .iter()
                .map(|(_, counts)| value(counts, &counter.name));
            let (title, cells) = cells(counter, &values.collect::<Vec<_>>(), style);
            table.column(title, cells);
        }
        table.write(out, style, NAMES);
    }
}

fn table(out: &mut String, report: &Report, counters: &[CounterReport], style: Style) {
    let sites = || report.sites.iter().take(MOST_ROWS);
    let scaled = counters.iter().any(|counter| counter.turns_pct().is_some());
    let mut rows: Vec<String> = sites().map(name).collect();
    rows.push("all work".into());
    rows.push("with barriers".into());
    if scaled {
        rows.push("counted".into());
    }
    let mut table = Table::default();
    table.column("site", rows);
    for counter in counters {
        let at_sites = sites().map(|site: &SiteReport| value(&site.counters, &counter.name));
        let values: Vec<_> = at_sites.chain([counter.work, counter.total]).collect();
        let (title, mut cells) = cells(counter, &values, style);
        if scaled {
            cells.push(match counter.counted_pct {
                Some(share) => format!("{share:.0} %"),
                None if counter.total.is_some() => "100 %".into(),
                None => UNKNOWN.into(),
            });
        }
        table.column(title, cells);
    }
    table.write(out, style, NAMES);
}

/// The title and the cells of a counter. Times get a unit of their own.
fn cells(counter: &CounterReport, values: &[Option<u64>], style: Style) -> (String, Vec<String>) {
    if counter.unit == CounterUnit::Ns {
        let unit = Unit::fitting(values.iter().copied());
        let cells = values.iter().map(|value| unit.write(*value)).collect();
        return (format!("{} {}", counter.name, unit.label(style)), cells);
    }
    let text = |value: &Option<u64>| value.map_or_else(|| UNKNOWN.into(), count);
    (counter.name.clone(), values.iter().map(text).collect())
}

fn value(counts: &Counts, name: &str) -> Option<u64> {
    counts.get(name).copied().flatten()
}

/// The ratios of two counters.
fn derived(out: &mut String, report: &Report, style: Style) {
    for site in report.sites.iter().take(MOST_ROWS) {
        let figures: Vec<String> = site
            .derived
            .iter()
            .map(|figure| format!("{} {}", figure.name, figure.text()).replace(' ', NO_BREAK))
            .collect();
        if !figures.is_empty() {
            paragraph(
                out,
                &format!("{}: {}", name(site), figures.join(", ")),
                style,
            );
        }
    }
}

/// The counts between two marks; empty if no counters were requested.
pub fn between(out: &mut String, report: &Report, names: &str, counts: &Counts, style: Style) {
    let figures: Vec<String> = report
        .counters
        .iter()
        .map(|counter| {
            let (title, cells) = cells(counter, &[value(counts, &counter.name)], style);
            format!("{title} {}", cells.concat()).replace(' ', NO_BREAK)
        })
        .collect();
    if !figures.is_empty() {
        paragraph(out, &format!("{names}: {}", figures.join(", ")), style);
    }
}

/// Counts that the totals lack.
fn gaps(out: &mut String, report: &Report, style: Style) {
    for text in gap_texts(report) {
        paragraph(out, &text, style);
    }
}

/// A sentence for each gap in the totals.
pub fn gap_texts(report: &Report) -> Vec<String> {
    let counted = report
        .counters
        .iter()
        .filter(|counter| counter.total.is_some());
    let most = counted.map(|counter| counter.unknown).max().unwrap_or(0);
    let unread = (most > 0).then(|| {
        format!(
            "these sums lack {} of work, where a counter could not be read at both ends",
            super::plural(most, "interval"),
        )
    });
    let in_turns = report.counters.iter().filter_map(|counter| {
        let share = counter.turns_pct()?;
        Some(format!(
            "{} was counted for {share:.0} % of the time, in turns with other counters: its \
             figures are scaled up",
            counter.name
        ))
    });
    unread.into_iter().chain(in_turns).collect()
}
