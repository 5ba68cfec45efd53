//! The counters of one site, one line each.

use ratatui::text::Line;

use super::View;
use crate::{
    screen::{
        counters::{self, chosen},
        grid::{Cells, Grid},
        words::{self, left, right, thread, width},
    },
    show::{
        related::related,
        table::{count, duration, mean, percent, rounded},
    },
};
use sbt_engine::{
    live::CounterFigure,
    report::{
        CounterUnit, SiteReport,
        counters::{CounterReport, Counts},
    },
};

/// Width of a figure, in columns.
const FIGURE: usize = 12;
/// Maximum width of a name, in columns.
const NAME: usize = 30;

/// A heading, a line for each counter (total, mean per phase, rate per second), the ratios of
/// several counters, and a table of the threads, which shows the counters from number `from` on.
/// Empty if nothing is counted.
pub fn of_site(
    site: &SiteReport,
    view: &View,
    (columns, from): (usize, usize),
) -> Vec<Line<'static>> {
    let (snapshot, look) = (view.snapshot, view.look);
    let report = &snapshot.report;
    let at = report.sites.iter().position(|other| other.id == site.id);
    let (Some(at), true) = (at, chosen(snapshot).next().is_some()) else {
        return Vec::new();
    };
    let names: Vec<String> = chosen(snapshot)
        .map(|(counter, _)| counter.title())
        .collect();
    let name = names.iter().map(|name| width(name)).max().unwrap_or(0);
    let room = columns.saturating_sub(1 + 3 * FIGURE);
    let name = name.clamp("counter".len(), NAME).min(room);
    let titles = ["in all", "a phase", "a second"].map(|title| right(title, FIGURE, look));
    let mut lines = vec![
        Line::default(),
        Line::styled(" counters, of all threads together", look.title()),
        Line::styled(
            format!(" {}{}", left("", name, look), titles.concat()),
            look.dim(),
        ),
    ];
    for ((counter, figures), text) in chosen(snapshot).zip(names) {
        let figure = figures.sites.get(at).copied().unwrap_or_default();
        let cells = cells(counter, figure, view).map(|cell| right(&cell, FIGURE, look));
        lines.push(Line::raw(format!(
            " {}{}",
            left(&text, name, look),
            cells.concat()
        )));
    }
    for figure in &site.derived {
        lines.push(Line::raw(format!(" {} {}", figure.name, figure.text())));
    }
    lines.extend(partial(site, view));
    let related = related(site).unwrap_or_default();
    let related = words::wrap(&related, columns.saturating_sub(2), look).into_iter();
    lines.extend(related.map(|line| Line::raw(format!(" {line}"))));
    lines.extend(of_threads(site, at, view, (columns, from)));
    lines
}

/// A line for each counter that is known in some intervals of work, but not in all.
fn partial(site: &SiteReport, view: &View) -> Vec<Line<'static>> {
    let counters = chosen(view.snapshot).filter_map(|(counter, _)| {
        let counted = site.counted.get(&counter.name)?;
        let is_partial = counted.is_partial() && counted.known > 0;
        is_partial.then(|| {
            let [known, all] = [counted.known, counted.intervals].map(count);
            let text = format!(
                " {}: known for {known} of {all} intervals of work",
                counter.name
            );
            Line::styled(text, view.look.dim())
        })
    });
    counters.collect()
}

/// A table of the site's threads with the mean per phase of each counter. `at` is the site's index
/// in the report, `from` the number of the first visible counter.
fn of_threads(
    site: &SiteReport,
    at: usize,
    view: &View,
    (columns, from): (usize, usize),
) -> Vec<Line<'static>> {
    let (snapshot, look) = (view.snapshot, view.look);
    let names = site.threads.iter();
    let names = names.map(|row| thread(&snapshot.report, row.thread));
    let counts: Vec<&Counts> = site.threads.iter().map(|row| &row.counters).collect();
    let mut grid = Grid::default();
    grid.column("thread", 0, Cells::Label(names.collect()));
    counters::of_threads(&mut grid, snapshot, at, &counts);
    let fitting = grid.shown(columns.saturating_sub(1), usize::MAX, from, look);
    let rows: Vec<usize> = (0..site.threads.len()).collect();
    let (titles, rows) = fitting.lines(&rows, look);
    let mut lines = vec![
        Line::default(),
        Line::styled(" counters of each thread, means of a phase", look.title()),
        Line::styled(titles, look.dim()),
    ];
    lines.extend(rows.into_iter().map(Line::raw));
    lines
}

fn cells(counter: &CounterReport, figure: CounterFigure, view: &View) -> [String; 3] {
    let rate = figure.per_second;
    if counter.unit == CounterUnit::Ns {
        let time = |ns| duration(ns, view.look.text());
        let share = rate.map(|ns| ns / 1e9 * 100.0);
        return [
            time(figure.sum),
            time(figure.per_phase.map(rounded)),
            percent(share),
        ];
    }
    let sum = match figure.sum {
        Some(sum @ 0..100_000_000) => count(sum),
        sum => mean(sum.map(|sum| sum as f64)),
    };
    [sum, mean(figure.per_phase), mean(rate)]
}
