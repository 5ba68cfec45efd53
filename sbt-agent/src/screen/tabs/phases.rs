//! Phases: between consecutive barriers, named by the user, and between marks.

use ratatui::{buffer::Buffer, layout::Rect, text::Line};

use super::{Hint, Tab, View, site};
use crate::{
    screen::{
        counters::{self, ShownValue},
        grid::{Cells, Grid},
        keys::{Action, Move},
        pager::Pager,
        words::{self, plural, rule},
    },
    show::table::count,
};
use sbt_engine::{
    live::Request,
    report::{ConceptualReport, MarkReport, PhaseReport, StatReport, counters::Counts},
};

/// The tab of the phases.
#[derive(Default)]
pub struct Phases {
    pager: Pager,
    /// Number of the first visible column among those that scroll sideways.
    across: usize,
    /// Number of scrolling columns that are not visible.
    hidden: usize,
}

/// The sideways position while the tables are drawn, and the columns that did not fit.
struct Sideways<'a> {
    view: &'a View<'a>,
    columns: usize,
    from: usize,
    /// The largest number of columns that one table could not show.
    hidden: usize,
    /// The largest number of a first visible column among the tables.
    start: usize,
}

/// Index of the column by which phases are sorted: the sum of times.
const SUM_OF_PHASES: usize = 3;

type Stats<'a> = Vec<Option<&'a StatReport>>;

/// Adds the columns of a distribution: count, sum, mean, p95, max.
fn distribution(grid: &mut Grid, stats: &Stats) {
    let column = |f: fn(&StatReport) -> u64| -> Vec<Option<u64>> {
        stats.iter().map(|stat| stat.map(f)).collect()
    };
    let times = stats
        .iter()
        .map(|stat| Some(stat.map_or(0, |stat| stat.count)));
    grid.column("times", 3, Cells::Count(times.collect()))
        .column("sum", 0, Cells::Time(column(|stat| stat.sum)))
        .column("mean", 0, Cells::Time(column(|stat| stat.mean)))
        .column("deviation", 6, Cells::Time(column(|stat| stat.stddev)))
        .column("p95", 4, Cells::Time(column(|stat| stat.p95)))
        .column("max", 5, Cells::Time(column(|stat| stat.max)));
}

fn names(grid: &mut Grid, title: &'static str, names: Vec<String>) {
    grid.ids = (0..).take(names.len()).collect();
    grid.column(title, 0, Cells::Text(names));
}

fn as_they_come(grid: &Grid) -> Vec<usize> {
    (0..grid.ids.len()).collect()
}

/// The rows of a grid as lines, with a title.
fn lines(title: &str, grid: &Grid, order: &[usize], across: &mut Sideways) -> Vec<Line<'static>> {
    let look = across.view.look;
    let room = across.columns.saturating_sub(2);
    let fitting = grid.shown(room, usize::MAX, across.from, look);
    across.hidden = across.hidden.max(fitting.hidden());
    across.start = across.start.max(fitting.scrolled.start);
    let (titles, rows) = fitting.lines(order, look);
    let mut lines = vec![
        Line::styled(format!(" {title}"), look.title()),
        Line::styled(titles, look.dim()),
    ];
    lines.extend(rows.into_iter().map(Line::raw));
    lines.push(Line::default());
    lines
}

/// The share of idle time in a phase, percent.
fn idle(phase: &ConceptualReport) -> Option<f64> {
    let all = phase.idle_ns + phase.work_ns;
    (all > 0).then(|| phase.idle_ns as f64 / all as f64 * 100.0)
}

fn contents(across: &mut Sideways) -> Vec<Line<'static>> {
    let snapshot = across.view.snapshot;
    let report = &snapshot.report;
    let mut all = Vec::new();
    if !report.conceptual_phases.is_empty() {
        let phases = &report.conceptual_phases;
        let mut grid = Grid::default();
        let name = |phase: &ConceptualReport| {
            let given_up = match phase.abandoned {
                0 => String::new(),
                n => format!(", {} abandoned", count(n)),
            };
            let open = if phase.unfinished { " (going on)" } else { "" };
            format!(
                "{}{open}{given_up}",
                sbt_engine::place::printable(&phase.name)
            )
        };
        names(&mut grid, "phase", phases.iter().map(name).collect());
        distribution(
            &mut grid,
            &phases.iter().map(|phase| phase.phase_ns.as_ref()).collect(),
        );
        grid.column("idle", 1, Cells::Share(phases.iter().map(idle).collect()));
        let counts: Vec<&Counts> = phases.iter().map(|phase| &phase.counters).collect();
        let told = ShownValue::PerPhase;
        counters::columns(&mut grid, snapshot, told, |all| &all.conceptual, &counts);
        let title = "conceptual phases, with all barriers between";
        all.extend(lines(title, &grid, &as_they_come(&grid), across));
    }
    if !report.phases.is_empty() {
        let phases: Vec<&PhaseReport> = report.phases.iter().collect();
        let mut grid = Grid::default();
        let from = |phase: &&PhaseReport| match phase.from {
            Some(id) => words::site(report, id),
            None => "start".into(),
        };
        names(&mut grid, "from", phases.iter().map(from).collect());
        let to = phases.iter().map(|phase| words::site(report, phase.to));
        grid.column("to", 0, Cells::Text(to.collect()));
        distribution(
            &mut grid,
            &phases.iter().map(|phase| phase.phase_ns.as_ref()).collect(),
        );
        let counts: Vec<&Counts> = phases.iter().map(|phase| &phase.counters).collect();
        counters::columns(
            &mut grid,
            snapshot,
            ShownValue::PerPhase,
            |all| &all.phases,
            &counts,
        );
        let order = grid.order(SUM_OF_PHASES, false, "");
        all.extend(lines(
            "phases, longest total time first",
            &grid,
            &order,
            across,
        ));
    }
    all.extend(marks(across));
    all
}

fn marks(across: &mut Sideways) -> Vec<Line<'static>> {
    let snapshot = across.view.snapshot;
    let report = &snapshot.report;
    let arrow = across.view.look.pick("→", "->");
    let mut all = Vec::new();
    if !report.marks.is_empty() {
        let marks = &report.marks;
        let mut grid = Grid::default();
        let name = |text: &String| sbt_engine::place::printable(text);
        names(
            &mut grid,
            "mark",
            marks.iter().map(|mark| name(&mark.name)).collect(),
        );
        let hits = marks.iter().map(|mark| mark.hits);
        let threads = |mark: &MarkReport| mark.hits.map(|_| mark.threads.len() as u64);
        let threads = marks.iter().map(threads);
        grid.column("passed", 0, Cells::Count(hits.collect()))
            .column("threads", 0, Cells::Count(threads.collect()))
            .column(
                "at",
                1,
                Cells::Text(marks.iter().map(|mark| name(&mark.at)).collect()),
            );
        all.extend(lines("marks", &grid, &as_they_come(&grid), across));
    }
    if !report.intervals.is_empty() {
        let intervals = &report.intervals;
        let mark = |id: u32| {
            let found = report.marks.iter().find(|mark| mark.id == id);
            found.map_or_else(
                || "?".into(),
                |mark| sbt_engine::place::printable(&mark.name),
            )
        };
        let mut grid = Grid::default();
        let name = |from: u32, to: u32| format!("{} {arrow} {}", mark(from), mark(to));
        let all_names = intervals.iter().map(|one| name(one.from, one.to));
        names(&mut grid, "from mark to mark", all_names.collect());
        distribution(
            &mut grid,
            &intervals.iter().map(|one| one.time_ns.as_ref()).collect(),
        );
        let running = intervals.iter().map(|one| one.running_ns);
        grid.column("running", 7, Cells::Time(running.collect()));
        let counts: Vec<&Counts> = intervals.iter().map(|one| &one.counters).collect();
        counters::columns(
            &mut grid,
            snapshot,
            ShownValue::PerPhase,
            |all| &all.intervals,
            &counts,
        );
        let title = "between marks, by thread";
        all.extend(lines(title, &grid, &as_they_come(&grid), across));
    }
    all
}

impl Tab for Phases {
    fn title(&self) -> &'static str {
        "Phases"
    }

    fn brief_title(&self) -> &'static str {
        "Phas"
    }

    fn draw(&mut self, view: &View, buffer: &mut Buffer, area: Rect) {
        let (title, body) = site::split(area);
        let mut across = Sideways {
            view,
            columns: usize::from(area.width),
            from: self.across,
            hidden: 0,
            start: 0,
        };
        let mut lines = contents(&mut across);
        self.hidden = across.hidden;
        self.across = across.start;
        if lines.is_empty() {
            lines.push(Line::raw(" No phase has ended yet."));
        }
        self.pager.draw(&lines, buffer, body);
        let mut note = self.pager.range().unwrap_or_default();
        if self.hidden > 0 {
            let more = plural(self.hidden as u64, "more column");
            note = [note, more]
                .into_iter()
                .filter(|text| !text.is_empty())
                .collect::<Vec<_>>()
                .join(", ");
        }
        rule(
            buffer,
            title,
            "phases and marks: between which barriers the time goes",
            &note,
            view.look,
        );
    }

    fn act(&mut self, action: Action, _view: &View) -> Vec<Request> {
        match action {
            Action::Go(Move::Left) => self.across = self.across.saturating_sub(1),
            Action::Go(Move::Right) if self.hidden > 0 => self.across += 1,
            Action::Go(to) => self.pager.go(to, false),
            _ => {}
        }
        Vec::new()
    }

    fn hints(&self) -> Vec<Hint> {
        if self.hidden > 0 || self.across > 0 {
            return vec![("left/right", "columns")];
        }
        Vec::new()
    }
}
