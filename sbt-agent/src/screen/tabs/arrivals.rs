//! The threads of a site in the order of their arrival: how long each worked, and then waited.

use ratatui::text::{Line, Span};

use super::View;
use crate::{
    screen::{
        counters,
        grid::{Grid, Shown},
        theme::{Ink, Look},
        words::{self, fit, left, right, thread},
    },
    show::table::{UNKNOWN, Unit, count},
};
use sbt_engine::report::{SiteReport, SiteThreadReport, counters::Counts};

/// Width of a figure, in columns.
const FIGURE: usize = 9;
/// Width of release times, in columns.
const RELEASE: usize = 12;
/// Minimum width of "how often the thread arrived last", in columns.
const LAST: usize = 11;
/// Maximum width of a name, in columns.
const NAME: usize = 16;

/// One thread. Times are means per episode, ns.
struct Row {
    name: String,
    work: Option<u64>,
    idle: Option<u64>,
    release: Option<u64>,
    last: String,
    /// Figures of the counters in the visible columns.
    counted: Vec<String>,
}

impl Row {
    fn new(report: &SiteThreadReport, episodes: u64, counted: Vec<String>, view: &View) -> Self {
        let mean = |sum: Option<u64>| sum.and_then(|sum| sum.checked_div(report.episodes));
        Self {
            name: thread(&view.snapshot.report, report.thread),
            work: mean(report.work_ns),
            idle: mean(Some(report.idle_ns)),
            release: mean(report.release_ns),
            last: format!("{} {:>5}", count(report.last), share(report.last, episodes)),
            counted,
        }
    }
}

/// Units and widths for drawing the rows.
struct Layout {
    name: usize,
    /// Unit of work and idle time, which share one bar.
    unit: Unit,
    /// Unit of release times; `None` if they are not shown.
    release_unit: Option<Unit>,
    /// Titles of the counters' columns with their widths.
    counted: Vec<(String, usize)>,
    bar: usize,
    /// Time that the full width of a bar stands for, ns.
    longest: u64,
    /// Width of "how often the thread arrived last", in columns.
    last: usize,
    look: Look,
}

/// The space for the rows.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// Width in columns.
    pub columns: usize,
    /// Number of rows, including the row of titles.
    pub rows: usize,
    /// Whether release times are shown.
    pub with_release: bool,
    /// Number of the first visible counter.
    pub from: usize,
}

/// The title and the rows that fit, in the order of arrival. If space is short, rows in the middle
/// are left out.
pub fn lines(site: &SiteReport, view: &View, room: Room) -> Vec<Line<'static>> {
    let Room {
        columns,
        rows,
        with_release,
        from,
    } = room;
    let look = view.look;
    let names = site.threads.iter();
    let names = names.map(|row| words::width(&thread(&view.snapshot.report, row.thread)));
    let name = names.max().unwrap_or(0).clamp("thread".len(), NAME);
    let release = if with_release { RELEASE } else { 0 };
    let fixed = 1 + name + 2 * FIGURE + 2 + release + LAST;
    let counted = counted(site, view, columns.saturating_sub(fixed + LEAST_BAR), from);
    let cells = |at: usize| counted.iter().map(move |column| column.texts[at].clone());
    let mut all: Vec<Row> = site
        .threads
        .iter()
        .enumerate()
        .map(|(at, row)| Row::new(row, site.episodes, cells(at).collect(), view))
        .collect();
    all.sort_by_key(|row| std::cmp::Reverse(row.idle));
    if rows < 2 || all.is_empty() {
        return Vec::new();
    }
    let counted: Vec<(String, usize)> = counted
        .into_iter()
        .map(|column| (column.title, column.width))
        .collect();
    let last = all.iter().map(|row| 2 + words::width(&row.last)).max();
    let last = last.unwrap_or(0).max(LAST);
    let counters: usize = counted.iter().map(|(_, width)| 2 + width).sum();
    let fixed = fixed - LAST + last + counters;
    let length = |row: &Row| row.work.unwrap_or(0) + row.idle.unwrap_or(0);
    let layout = Layout {
        name,
        unit: Unit::fitting(all.iter().flat_map(|row| [row.work, row.idle])),
        release_unit: with_release.then(|| Unit::fitting(all.iter().map(|row| row.release))),
        counted,
        bar: columns.saturating_sub(fixed),
        longest: all.iter().map(length).max().unwrap_or(0).max(1),
        last,
        look,
    };
    let mut lines = vec![layout.title()];
    let room = rows - 1;
    let (before, hidden) = hidden(all.len(), room);
    for (at, row) in all.iter().enumerate() {
        if at == before && hidden > 0 && room >= LEAST_WITH_GAP {
            let text = format!(" {} {hidden} more between", look.cut());
            lines.push(Line::styled(fit(&text, columns, look), look.dim()));
        }
        if !(before..before + hidden).contains(&at) {
            lines.push(layout.row(row));
        }
    }
    lines
}

/// The counters' columns that fit into `room`.
fn counted(site: &SiteReport, view: &View, room: usize, from: usize) -> Vec<Shown> {
    let report = &view.snapshot.report;
    let Some(at) = report.sites.iter().position(|other| other.id == site.id) else {
        return Vec::new();
    };
    let counts: Vec<&Counts> = site.threads.iter().map(|thread| &thread.counters).collect();
    let mut grid = Grid {
        ids: site.threads.iter().map(|thread| thread.thread).collect(),
        ..Grid::default()
    };
    counters::of_threads(&mut grid, view.snapshot, at, &counts);
    grid.shown(room, usize::MAX, from, view.look).columns
}

/// Minimum width of a bar beside counters, in columns.
const LEAST_BAR: usize = 4;

/// Minimum number of rows for a note that some threads are left out.
const LEAST_WITH_GAP: usize = 3;

/// The gap in the list of threads if only `rows` rows fit: the number of threads shown before the
/// gap, and the number left out. Late threads matter more than early ones.
fn hidden(threads: usize, rows: usize) -> (usize, usize) {
    if threads <= rows {
        return (0, 0);
    }
    if rows < LEAST_WITH_GAP {
        return (0, threads - rows);
    }
    let shown = rows - 1;
    (shown / 3, threads - shown)
}

impl Layout {
    fn title(&self) -> Line<'static> {
        let look = self.look;
        let head = |title: &str, unit: Unit| format!("{title} {}", unit.label(look.text()));
        let mut title = format!(
            " {}{}{}  {}",
            left("thread", self.name, look),
            right(&head("work", self.unit), FIGURE, look),
            right(&head("idle", self.unit), FIGURE, look),
            left("", self.bar, look),
        );
        if let Some(unit) = self.release_unit {
            title += &right(&head("release", unit), RELEASE, look);
        }
        title += &right("last", self.last, look);
        for (name, width) in &self.counted {
            title += "  ";
            title += &right(name, *width, look);
        }
        Line::styled(title, look.dim())
    }

    fn row(&self, row: &Row) -> Line<'static> {
        let look = self.look;
        let mut spans = vec![Span::raw(format!(
            " {}{}{}  ",
            left(&row.name, self.name, look),
            right(&self.unit.write(row.work), FIGURE, look),
            right(&self.unit.write(row.idle), FIGURE, look),
        ))];
        spans.extend(self.stretch(row));
        if let Some(unit) = self.release_unit {
            spans.push(Span::raw(right(&unit.write(row.release), RELEASE, look)));
        }
        spans.push(Span::raw(right(&row.last, self.last, look)));
        for (text, (_, width)) in row.counted.iter().zip(&self.counted) {
            spans.push(Span::raw(format!("  {}", right(text, *width, look))));
        }
        Line::from(spans)
    }

    /// The bar of a thread: work, then waiting, then empty space.
    fn stretch(&self, row: &Row) -> [Span<'static>; 3] {
        let (longest, bar) = (u128::from(self.longest), self.bar);
        let scale = |ns: u64| {
            let columns = (u128::from(ns) * bar as u128 + longest / 2) / longest;
            usize::try_from(columns).unwrap_or(bar).min(bar)
        };
        let (ink, arrival, end) = match (row.work, row.idle) {
            (Some(work), idle) => (Ink::Work, scale(work), scale(work + idle.unwrap_or(0))),
            // Unknown work stays empty, but the time of arrival is known.
            (None, Some(idle)) => (Ink::Unknown, bar - scale(idle), bar),
            (None, None) => (Ink::Unknown, 0, 0),
        };
        let run = |ink: Ink, n: usize| {
            let text = ink.glyph(self.look).to_string().repeat(n);
            Span::styled(text, ink.style(self.look))
        };
        [
            run(ink, arrival),
            run(Ink::Idle, end - arrival),
            run(Ink::Unknown, bar - end),
        ]
    }
}

/// A share in percent.
pub fn share(part: u64, of: u64) -> String {
    if of == 0 {
        return UNKNOWN.into();
    }
    format!("{:.0} %", part as f64 / of as f64 * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_in_the_middle_are_left_out() {
        assert_eq!(hidden(4, 4), (0, 0));
        assert_eq!(hidden(9, 1), (0, 8), "the last is shown");
        assert_eq!(hidden(9, 2), (0, 7));
        assert_eq!(hidden(9, 4), (1, 6), "three, and a row that says so");
        assert_eq!(hidden(64, 10), (3, 55));
    }
}
