//! Counters of the work before barriers: by site, by phase and by thread.

use maud::{Markup, html};

use super::{
    MOST_ROWS, PLAIN, count, further, scrolling, section, td, time, unbroken, usage::phase_name,
};
use crate::show::{
    table::{self, UNKNOWN, Unit, rounded},
    text::gap_texts,
};
use sbt_engine::report::{
    CounterUnit, Report, SiteReport,
    counters::{Counted, CountedReport, CounterReport, Counts, DerivedReport, derived},
};

/// A column of figures. Each cell has its text, and the value for sorting.
pub struct Column {
    title: String,
    unit: &'static str,
    cells: Vec<(String, Option<f64>)>,
}

impl Column {
    /// The title cell of the column.
    pub fn th(&self) -> Markup {
        html! {
            th scope="col" class="n" {
                (self.title)
                @if !self.unit.is_empty() { " " span class="unit" { (self.unit) } }
            }
        }
    }

    /// The column's cell in a row.
    pub fn td(&self, row: usize) -> Markup {
        match self.cells.get(row) {
            Some((shown, value)) => td(&unbroken(shown), *value),
            None => td(UNKNOWN, None),
        }
    }

    fn times(title: String, values: &[Option<u64>]) -> Self {
        let unit = Unit::fitting(values.iter().copied());
        let cell = |ns: &Option<u64>| (unit.write(*ns), ns.map(|ns| ns as f64));
        Self {
            title,
            unit: unit.label(PLAIN),
            cells: values.iter().map(cell).collect(),
        }
    }

    fn counts(title: String, values: &[Option<u64>]) -> Self {
        let cell = |value: &Option<u64>| {
            let shown = value.map_or_else(|| UNKNOWN.into(), count);
            (shown, value.map(|value| value as f64))
        };
        Self {
            title,
            unit: "",
            cells: values.iter().map(cell).collect(),
        }
    }
}

fn value(counts: &Counts, counter: &CounterReport) -> Option<u64> {
    counts.get(&counter.name).copied().flatten()
}

/// Columns for the totals of all counters in these rows, and for their ratios. `what` is appended
/// to the titles of totals.
pub fn columns(report: &Report, rows: &[&Counts], what: &str) -> Vec<Column> {
    let sum = |counter: &CounterReport| sum(counter, rows, what);
    let sums: Vec<Column> = report.counters.iter().map(sum).collect();
    with_ratios(sums, rows)
}

fn sum(counter: &CounterReport, rows: &[&Counts], what: &str) -> Column {
    let values: Vec<_> = rows.iter().map(|counts| value(counts, counter)).collect();
    let title = format!("{}{what}", counter.title());
    match counter.unit {
        CounterUnit::Ns => Column::times(title, &values),
        _ => Column::counts(title, &values),
    }
}

/// The column of a counter's mean per phase. `at` is the counter's index in the report. If the
/// counter is known in only some intervals of work, the cell says in how many.
fn mean(counter: &CounterReport, at: usize, rows: &[Row]) -> Column {
    let title = format!("{}, a phase", counter.title());
    let means: Vec<_> = rows.iter().map(|row| row.means[at]).collect();
    let mut column = if counter.unit == CounterUnit::Ns {
        let values: Vec<_> = means.iter().map(|mean| mean.map(rounded)).collect();
        Column::times(title, &values)
    } else {
        Column {
            title,
            unit: "",
            cells: means
                .iter()
                .map(|mean| (table::mean(*mean), *mean))
                .collect(),
        }
    };
    for ((shown, value), row) in column.cells.iter_mut().zip(rows) {
        let of_all = row.counted.get(&counter.name);
        let partial = of_all.filter(|of_all| of_all.is_partial() && value.is_some());
        if let Some(CountedReport { known, intervals }) = partial {
            *shown = format!("{shown} ({} of {})", count(*known), count(*intervals));
        }
    }
    column
}

/// Adds a column for each ratio of two counters that is known in any of these rows.
fn with_ratios(mut columns: Vec<Column>, rows: &[&Counts]) -> Vec<Column> {
    let all: Vec<_> = rows.iter().map(|counts| derived(counts)).collect();
    let mut known: Vec<&DerivedReport> = Vec::new();
    for figure in all.iter().flatten() {
        if known.iter().all(|other| other.name != figure.name) {
            known.push(figure);
        }
    }
    for figure in known {
        let cells = all.iter().map(|row| {
            let found = row.iter().find(|other| other.name == figure.name);
            let shown = found.map_or_else(|| UNKNOWN.into(), DerivedReport::text);
            (shown, found.map(|found| found.value))
        });
        columns.push(Column {
            title: figure.title(),
            unit: "",
            cells: cells.collect(),
        });
    }
    columns
}

/// The section; empty if no counters were requested.
pub fn counters(report: &Report) -> Markup {
    if report.counters.is_empty() {
        return html! {};
    }
    let body = html! {
        p class="hint" {
            "Counts in the work of all threads before each barrier. A phase: the mean of one \
             phase, all its threads together. Where a counter is known for a part of the work \
             only, (3 of 4) says for how many intervals, and the others are assumed to be alike."
        }
        dl class="facts" {
            @for counter in &report.counters {
                div {
                    dt { (counter.title()) }
                    dd { (written(counter, counter.work)) " in work, " (written(counter, counter.total)) " with barriers" }
                }
            }
        }
        (sites(report))
        (phases(report))
        (threads(report))
        (named(report))
        (intervals(report))
        @let gaps = gap_texts(report);
        @if !gaps.is_empty() {
            ul class="notes" { @for gap in &gaps { li { (gap) "." } } }
        }
    };
    section("counters", "Counters", &body)
}

fn written(counter: &CounterReport, value: Option<u64>) -> String {
    match (counter.unit, value) {
        (CounterUnit::Ns, _) => time(value),
        (_, Some(value)) => count(value),
        (_, None) => UNKNOWN.into(),
    }
}

/// A table; empty without rows. `all` is the total number of rows, of which only some may be given.
fn table(title: &str, what: &str, names: &[String], all: usize, columns: &[Column]) -> Markup {
    if names.is_empty() {
        return html! {};
    }
    let table = html! {
        table class="sortable" {
            thead {
                tr {
                    th scope="col" { (what) }
                    @for column in columns { (column.th()) }
                }
            }
            tbody {
                @for (at, name) in names.iter().enumerate() {
                    tr {
                        th scope="row" class="site" { (name) }
                        @for column in columns { (column.td(at)) }
                    }
                }
            }
        }
    };
    html! {
        h3 { (title) }
        (scrolling(&format!("Counters, {title}"), &table))
        (further(all, &format!("{what}s")))
    }
}

/// A row of a table with totals and means.
struct Row<'a> {
    counts: &'a Counts,
    counted: &'a Counted,
    /// Means per phase, by counter.
    means: Vec<Option<f64>>,
}

/// Columns for the total and the mean per phase of each counter.
fn sums_and_means(report: &Report, rows: &[Row]) -> Vec<Column> {
    let counts: Vec<&Counts> = rows.iter().map(|row| row.counts).collect();
    let both = |(at, counter)| [sum(counter, &counts, ", sum"), mean(counter, at, rows)];
    let columns = report.counters.iter().enumerate().flat_map(both).collect();
    with_ratios(columns, &counts)
}

fn means(report: &Report, mean: impl Fn(&str) -> Option<f64>) -> Vec<Option<f64>> {
    let counters = report.counters.iter();
    counters.map(|counter| mean(&counter.name)).collect()
}

fn sites(report: &Report) -> Markup {
    let rows = || report.sites.iter().take(MOST_ROWS);
    let names: Vec<_> = rows().map(SiteReport::called).collect();
    let all = rows().map(|site| Row {
        counts: &site.counters,
        counted: &site.counted,
        means: means(report, |name| site.counter_per_phase(name)),
    });
    let columns = sums_and_means(report, &all.collect::<Vec<_>>());
    table("By site", "site", &names, report.sites.len(), &columns)
}

fn phases(report: &Report) -> Markup {
    let rows = || report.phases.iter().take(MOST_ROWS);
    let names: Vec<_> = rows().map(|phase| phase_name(report, phase)).collect();
    let all = rows().map(|phase| Row {
        counts: &phase.counters,
        counted: &phase.counted,
        means: means(report, |name| phase.counter_per_phase(name)),
    });
    let columns = sums_and_means(report, &all.collect::<Vec<_>>());
    table("By phase", "phase", &names, report.phases.len(), &columns)
}

fn threads(report: &Report) -> Markup {
    let rows = || report.threads.iter().take(MOST_ROWS);
    let names: Vec<_> = rows()
        .map(|thread| format!("{} {}", thread.label, thread.name))
        .collect();
    let counts: Vec<_> = rows().map(|thread| &thread.counters).collect();
    let columns = columns(report, &counts, ", sum");
    table(
        "By thread",
        "thread",
        &names,
        report.threads.len(),
        &columns,
    )
}

/// The table of phases that the user has named.
fn named(report: &Report) -> Markup {
    let mut rows = Rows::default();
    for phase in &report.conceptual_phases {
        let threads = phase
            .threads
            .iter()
            .map(|thread| (thread.thread, &thread.counters));
        rows.add(report, phase.name.clone(), &phase.counters, threads);
    }
    rows.table(report, "By named phase", "phase")
}

/// The table of intervals between marks.
fn intervals(report: &Report) -> Markup {
    let mark = |id: u32| {
        let found = report.marks.iter().find(|mark| mark.id == id);
        found.map_or(UNKNOWN, |mark| mark.name.as_str())
    };
    let mut rows = Rows::default();
    for interval in &report.intervals {
        let name = format!("{} → {}", mark(interval.from), mark(interval.to));
        let threads = interval
            .threads
            .iter()
            .map(|thread| (thread.thread, &thread.counters));
        rows.add(report, name, &interval.counters, threads);
    }
    rows.table(report, "Between marks", "interval")
}

/// Rows of a table, each followed by the rows of its threads.
#[derive(Default)]
struct Rows<'a> {
    names: Vec<String>,
    counts: Vec<&'a Counts>,
}

impl<'a> Rows<'a> {
    fn add(
        &mut self,
        report: &Report,
        name: String,
        counts: &'a Counts,
        threads: impl Iterator<Item = (u32, &'a Counts)>,
    ) {
        self.counts.push(counts);
        let first = self.names.len();
        for (thread, counts) in threads {
            self.names.push(format!("{name}: {}", report.label(thread)));
            self.counts.push(counts);
        }
        self.names.insert(first, name);
    }

    fn table(mut self, report: &Report, title: &str, what: &str) -> Markup {
        let all = self.names.len();
        self.names.truncate(MOST_ROWS);
        self.counts.truncate(MOST_ROWS);
        let columns = columns(report, &self.counts, ", sum");
        table(title, what, &self.names, all, &columns)
    }
}
