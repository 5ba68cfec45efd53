//! The number of threads that were busy at the same time, and to what this time belongs: normalised
//! processor time (NPT, from the Quartz profiler) by phase, site, thread and function.

use ratatui::{
    buffer::Buffer,
    layout::{Constraint, Layout, Position, Rect},
    style::Style,
    text::{Line, Span},
};

use super::{Hint, Tab, View, busy, site, views::Views};
use crate::{
    screen::{
        grid::{Cells, Grid},
        keys::Action,
        theme::Look,
        words::{self, printable_site, put, rule},
    },
    show::table::{UNKNOWN, duration},
};
use sbt_engine::{
    live::Request,
    place::printable,
    report::{BusyReport, FunctionReport, ParallelismReport, PhaseReport, Report},
};

/// The kinds of rows, in the order of the views.
const VIEWS: [&str; 4] = ["phase", "site", "thread", "function"];

/// Index of the column by which the tables are sorted initially: NPT.
const NPT: usize = 1;

/// The tab of the parallelism.
pub struct Parallelism {
    views: Views<4>,
}

impl Default for Parallelism {
    fn default() -> Self {
        Self {
            views: Views::new(VIEWS, NPT),
        }
    }
}

/// A row of the table.
struct Row<'a> {
    id: u32,
    name: String,
    search: String,
    npt_ns: Option<u64>,
    /// NPT of the function without its callees; only for functions.
    self_ns: Option<u64>,
    mean: Option<f64>,
    times: &'a [BusyReport],
}

fn of_busy(parallelism: Option<&ParallelismReport>) -> (Option<u64>, Option<f64>, &[BusyReport]) {
    (
        parallelism.map(|found| found.busy_ns),
        parallelism.map(|found| found.mean_busy),
        parallelism.map_or(&[], |found| &found.times),
    )
}

fn phase_name(report: &Report, phase: &PhaseReport, look: Look) -> String {
    let from = match phase.from {
        Some(id) => words::site(report, id),
        None => "start".into(),
    };
    let to = words::site(report, phase.to);
    format!("{from} {} {to}", look.pick("→", "->"))
}

/// The mean number of busy threads while a function ran.
fn mean(function: &FunctionReport) -> Option<f64> {
    let all: f64 = function.times.iter().map(|time| time.ns as f64).sum();
    (function.npt_ns > 0).then(|| all / function.npt_ns as f64)
}

fn rows<'a>(view: &View<'a>, what: usize) -> Vec<Row<'a>> {
    let report = &view.snapshot.report;
    match what {
        0 => (0..)
            .zip(&report.phases)
            .map(|(id, phase)| {
                let name = phase_name(report, phase, view.look);
                let (npt_ns, mean, times) = of_busy(phase.parallelism.as_ref());
                Row {
                    id,
                    search: name.to_lowercase(),
                    name,
                    npt_ns,
                    self_ns: None,
                    mean,
                    times,
                }
            })
            .collect(),
        1 => (report.sites.iter())
            .map(|site| {
                let (npt_ns, mean, times) = of_busy(site.parallelism.as_ref());
                Row {
                    id: site.id,
                    name: words::site_name(site),
                    search: printable_site(site).to_lowercase(),
                    npt_ns,
                    self_ns: None,
                    mean,
                    times,
                }
            })
            .collect(),
        2 => (report.threads.iter())
            .map(|thread| {
                let name = words::thread_name(thread);
                Row {
                    id: thread.id,
                    search: name.to_lowercase(),
                    name,
                    // Without parallelism figures the thread's NPT is unknown, not 0.
                    npt_ns: report.parallelism.as_ref().map(|_| thread.npt_ns),
                    self_ns: None,
                    mean: None,
                    times: &[],
                }
            })
            .collect(),
        _ => (report.functions.iter().flatten())
            .map(|function| Row {
                id: function.id,
                name: printable(&function.function),
                search: printable(&format!("{} {}", function.function, function.binary))
                    .to_lowercase(),
                npt_ns: Some(function.npt_ns),
                self_ns: Some(function.self_npt_ns),
                mean: mean(function),
                times: &function.times,
            })
            .collect(),
    }
}

/// The NPT of all rows together, ns.
fn whole(report: &Report, what: usize) -> Option<u64> {
    match what {
        3 => report.sampling.as_ref().map(|sampling| sampling.npt_ns),
        _ => report
            .parallelism
            .as_ref()
            .map(|parallelism| parallelism.busy_ns),
    }
}

fn grid(view: &View, what: usize, rows: &[Row]) -> Grid {
    let whole = whole(&view.snapshot.report, what);
    let share = |row: &Row| {
        let whole = whole.filter(|whole| *whole > 0)? as f64;
        Some(row.npt_ns? as f64 / whole * 100.0)
    };
    let shares = || rows.iter().map(share).collect();
    let mut grid = Grid {
        ids: rows.iter().map(|row| row.id).collect(),
        search: rows.iter().map(|row| row.search.clone()).collect(),
        ..Grid::default()
    };
    let names: Vec<String> = rows.iter().map(|row| row.name.clone()).collect();
    grid.column(
        VIEWS[what],
        0,
        if what == 2 {
            Cells::Label(names)
        } else {
            Cells::Text(names)
        },
    )
    .column(
        "NPT",
        0,
        Cells::Time(rows.iter().map(|row| row.npt_ns).collect()),
    )
    .column("share", 1, Cells::Share(shares()))
    .column("", 3, Cells::Bar(shares()));
    if what == 3 {
        let own = rows.iter().map(|row| row.self_ns).collect();
        grid.column("self", 2, Cells::Time(own));
    }
    if what != 2 {
        let mean = |row: &Row| {
            let text = row.mean.map(|mean| format!("{mean:.1}"));
            (row.mean, text.unwrap_or_else(|| UNKNOWN.into()))
        };
        grid.column("busy", 2, Cells::Ranked(rows.iter().map(mean).collect()));
    }
    grid
}

/// Shown in place of rows if there are none.
fn nothing(report: &Report, what: usize) -> &'static str {
    match what {
        3 if report.functions.is_none() => {
            "Not sampled: --sample 200 takes 200 samples per second of each thread's CPU time, and \
             shows the time of functions."
        }
        3 => "No sample yet of a thread that works between two barriers.",
        2 => "No thread has come to a barrier yet.",
        _ => "No phase has ended yet.",
    }
}

impl Tab for Parallelism {
    fn title(&self) -> &'static str {
        "Parallelism"
    }

    fn short_title(&self) -> &'static str {
        "Parallel"
    }

    fn brief_title(&self) -> &'static str {
        "Busy"
    }

    fn draw(&mut self, view: &View, buffer: &mut Buffer, area: Rect) {
        let what = self.views.current();
        let rows = rows(view, what);
        let selected = self.views.list.selected();
        let opened = rows
            .iter()
            .find(|row| Some(row.id) == selected && self.views.open);
        if let Some(row) = opened {
            self.draw_open(row, view, buffer, area);
            return;
        }
        self.views.open = false;
        let report = &view.snapshot.report;
        let times = report.parallelism.as_ref();
        let room = usize::from(area.height / 3).max(3);
        let columns = usize::from(area.width);
        let bars = times.map_or_else(Vec::new, |parallelism| {
            busy::bars(&parallelism.times, view.look, columns, room)
        });
        let height = u16::try_from(bars.len() + 1).unwrap_or(u16::MAX);
        let height = if bars.is_empty() { 0 } else { height };
        let [above, below] =
            Layout::vertical([Constraint::Length(height), Constraint::Min(0)]).areas(area);
        if let Some(parallelism) = times {
            let (title, body) = site::split(above);
            let note = format!("{:.1} on average", parallelism.mean_busy);
            let name = "time by the number of busy threads: how parallel it is";
            rule(buffer, title, name, &note, view.look);
            words::put_all(buffer, body, bars);
        }
        let (title, body) = site::split(below);
        self.views
            .list
            .draw(&grid(view, what, &rows), view.look, buffer, body);
        let name = "normalised processor time";
        self.views.rule(buffer, title, name, rows.len(), view.look);
        if self.views.list.selected().is_none() {
            let text = self.views.none(nothing(report, what));
            let columns = usize::from(body.width).saturating_sub(4);
            let lines = words::wrap(&text, columns, view.look);
            for (row, text) in (1..).zip(lines) {
                put(buffer, body, row, &Line::raw(format!("   {text}")));
            }
        }
    }

    fn act(&mut self, action: Action, _view: &View) -> Vec<Request> {
        self.views.act(action);
        Vec::new()
    }

    fn hints(&self) -> Vec<Hint> {
        self.views.hints()
    }

    fn click(&mut self, at: Position) {
        self.views.click(at);
    }

    fn filter(&mut self) -> Option<&mut String> {
        self.views.filter()
    }

    fn site(&self) -> Option<u32> {
        (self.views.current() == 1)
            .then(|| self.views.list.selected())
            .flatten()
    }
}

impl Parallelism {
    /// Draws the details of one row: its bars, and the parts of its time.
    fn draw_open(&mut self, row: &Row, view: &View, buffer: &mut Buffer, area: Rect) {
        let look = view.look;
        let (title, body) = site::split(area);
        let columns = usize::from(area.width);
        let npt = duration(row.npt_ns, look.text());
        let mut lines = vec![Line::raw(format!(" normalised processor time {npt}"))];
        if let Some(mean) = row.mean {
            let text = format!(" {mean:.1} busy threads on average");
            lines.push(Line::raw(text));
        }
        if !row.times.is_empty() {
            lines.push(Line::default());
            lines.push(Line::styled(
                " time by the number of busy threads",
                look.title(),
            ));
            lines.extend(busy::bars(row.times, look, columns, usize::MAX));
        }
        let parts = parts(row, view, self.views.current());
        if !parts.1.is_empty() {
            lines.push(Line::default());
            lines.push(Line::styled(format!(" {}", parts.0), look.title()));
            lines.extend(shares(&parts.1, look, columns));
        }
        self.views.details.draw(&lines, buffer, body);
        let note = self.views.details.range().unwrap_or_default();
        rule(buffer, title, &row.name, &note, look);
    }
}

/// The parts of a row's time: a title, and names with their NPT, ns.
fn parts(row: &Row, view: &View, what: usize) -> (&'static str, Vec<(String, u64)>) {
    let report = &view.snapshot.report;
    let of_site = |id: u32| {
        let threads = report.site(id).map_or(&[][..], |site| &site.threads);
        let part = |thread: &sbt_engine::report::SiteThreadReport| {
            (words::thread(report, thread.thread), thread.npt_ns)
        };
        threads.iter().map(part).collect()
    };
    let (title, mut parts): (_, Vec<(String, u64)>) = match what {
        0 => ("by thread, over all phases that end there", {
            let phase = report.phases.get(row.id as usize);
            phase.map_or_else(Vec::new, |phase| of_site(phase.to))
        }),
        1 => ("by thread", of_site(row.id)),
        2 => ("by site", {
            let sites = report.sites.iter().flat_map(|site| {
                let mine = site.threads.iter().filter(|thread| thread.thread == row.id);
                mine.map(|thread| (words::site_name(site), thread.npt_ns))
            });
            sites.collect()
        }),
        _ => ("by caller", {
            let functions = report.functions.as_deref().unwrap_or_default();
            let function = functions.iter().find(|function| function.id == row.id);
            let callers = function.map_or(&[][..], |function| &function.callers);
            let name = |name: &Option<String>| match name {
                Some(name) => printable(name),
                None => "(beginning of the thread)".into(),
            };
            let caller =
                |caller: &sbt_engine::report::CallerReport| (name(&caller.function), caller.npt_ns);
            callers.iter().map(caller).collect()
        }),
    };
    parts.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    (title, parts)
}

/// Names with their times and bars.
fn shares(parts: &[(String, u64)], look: Look, columns: usize) -> Vec<Line<'static>> {
    let most = parts.iter().map(|part| part.1).max().unwrap_or(0).max(1);
    let names = parts.iter().map(|part| words::width(&part.0)).max();
    let names = names.unwrap_or(0).min(columns / 2);
    let room = columns.saturating_sub(names + 14).min(40);
    let line = |(name, ns): &(String, u64)| {
        let name = words::left(&words::fit_middle(name, names, look), names, look);
        let time = words::right(&duration(Some(*ns), look.text()), 9, look);
        Line::from(vec![
            Span::raw(format!(" {name} {time} ")),
            Span::styled(look.bar(*ns as f64 / most as f64, room), Style::new()),
        ])
    };
    parts.iter().map(line).collect()
}
