//! The critical path, which runs through the work of the last thread to arrive in each episode:
//! where it lies, and what would be gained by changing this.

use ratatui::{
    buffer::Buffer,
    layout::{Position, Rect},
    text::Line,
};

use super::{Hint, Tab, View, site, views::Views};
use crate::{
    screen::{
        grid::{Cells, Grid},
        keys::Action,
        theme::Look,
        words::{self, left, printable_site, put, right, rule},
    },
    show::table::{UNKNOWN, duration, percent},
};
use sbt_engine::{
    live::Request,
    place::printable,
    report::{Report, SiteReport, SiteThreadReport},
};

/// The kinds of rows, in the order of the views.
const VIEWS: [&str; 3] = ["site", "thread", "function"];

/// Index of the column by which the tables are sorted initially: the weighted share.
const WEIGHTED: usize = 2;

/// The tab of the critical path.
pub struct Path {
    views: Views<3>,
}

impl Default for Path {
    fn default() -> Self {
        Self {
            views: Views::new(VIEWS, WEIGHTED),
        }
    }
}

/// Id, name, search text, share of the path, and weighted share.
type Row = (u32, String, String, Option<f64>, Option<f64>);

fn rows(report: &Report, what: usize) -> Vec<Row> {
    match what {
        0 => (report.sites.iter())
            .map(|site| {
                let search = printable_site(site).to_lowercase();
                let (path, weighted) = (site.path_pct, site.weighted_path_pct);
                (site.id, words::site_name(site), search, path, weighted)
            })
            .collect(),
        1 => (report.threads.iter())
            .map(|thread| {
                let name = words::thread_name(thread);
                let search = name.to_lowercase();
                let (path, weighted) = (thread.path_pct, thread.weighted_path_pct);
                (thread.id, name, search, path, weighted)
            })
            .collect(),
        _ => (report.functions.iter().flatten())
            .map(|function| {
                let search =
                    printable(&format!("{} {}", function.function, function.binary)).to_lowercase();
                let name = printable(&function.function);
                (
                    function.id,
                    name,
                    search,
                    function.path_pct,
                    function.weighted_path_pct,
                )
            })
            .collect(),
    }
}

fn grid(report: &Report, what: usize, rows: &[Row]) -> Grid {
    let mut grid = Grid {
        ids: rows.iter().map(|row| row.0).collect(),
        search: rows.iter().map(|row| row.2.clone()).collect(),
        ..Grid::default()
    };
    let names: Vec<String> = rows.iter().map(|row| row.1.clone()).collect();
    let names = if what == 1 {
        Cells::Label(names)
    } else {
        Cells::Text(names)
    };
    let weighted = || rows.iter().map(|row| row.4).collect();
    grid.column(VIEWS[what], 0, names)
        .column(
            "path",
            0,
            Cells::Share(rows.iter().map(|row| row.3).collect()),
        )
        .column("weighted", 0, Cells::Share(weighted()))
        .column("", 5, Cells::Bar(weighted()));
    match what {
        0 => {
            let times = |f: &dyn Fn(&SiteReport) -> Option<u64>| {
                Cells::Time(report.sites.iter().map(f).collect())
            };
            let faster = |site: &SiteReport| {
                report.of_known_work(site, site.what_if.straggler_25_pct_faster_ns)
            };
            let balance = |site: &SiteReport| report.of_known_work(site, site.gain_ns);
            grid.column("last -25 %", 2, times(&faster))
                .column("balance", 3, times(&balance))
                .column("release", 4, times(&|site| site.what_if.no_release_ns));
        }
        1 => {
            let threads = &report.threads;
            let paths = threads.iter().map(|thread| Some(thread.path_ns)).collect();
            let last = threads.iter().map(|thread| Some(thread.last)).collect();
            grid.column("time", 2, Cells::Time(paths))
                .column("last", 3, Cells::Count(last));
        }
        _ => {
            let cpu = report
                .functions
                .iter()
                .flatten()
                .map(|function| Some(function.cpu_pct));
            grid.column("CPU", 2, Cells::Share(cpu.collect()));
        }
    }
    grid
}

fn nothing(report: &Report, what: usize) -> &'static str {
    match what {
        2 if report.functions.is_none() => {
            "Not sampled: --sample 200 takes 200 samples per second of each thread's CPU time, and \
             shows which functions are on the path."
        }
        2 => "No sample yet of a thread that works between two barriers.",
        1 => "No thread has come to a barrier yet.",
        _ => "No episode has ended yet.",
    }
}

impl Tab for Path {
    fn title(&self) -> &'static str {
        "Path"
    }

    fn draw(&mut self, view: &View, buffer: &mut Buffer, area: Rect) {
        let report = &view.snapshot.report;
        let what = self.views.current();
        let rows = rows(report, what);
        let selected = self.views.list.selected();
        let opened = rows
            .iter()
            .find(|row| Some(row.0) == selected && self.views.open);
        if let Some(row) = opened {
            let (title, body) = site::split(area);
            let lines = details(row, report, what, view.look, usize::from(area.width));
            self.views.details.draw(&lines, buffer, body);
            let note = self.views.details.range().unwrap_or_default();
            rule(buffer, title, &row.1, &note, view.look);
            return;
        }
        self.views.open = false;
        let (title, body) = site::split(area);
        let columns = usize::from(area.width);
        let key = key(what, view.look, columns);
        // The legend is shown only if the rows leave room for it.
        let needed = usize::from(body.height) > rows.len() + 1 + key.len();
        let below = if needed { key.len() } else { 0 };
        let below = u16::try_from(below).unwrap_or(0);
        let table = Rect {
            height: body.height - below,
            ..body
        };
        self.views
            .list
            .draw(&grid(report, what, &rows), view.look, buffer, table);
        let name = "critical path: whose work takes the time,";
        self.views.rule(buffer, title, name, rows.len(), view.look);
        if self.views.list.selected().is_none() {
            let text = self.views.none(nothing(report, what));
            let lines = words::wrap(&text, columns.saturating_sub(4), view.look);
            for (row, text) in (1..).zip(lines) {
                put(buffer, body, row, &Line::raw(format!("   {text}")));
            }
        }
        if below > 0 {
            let area = Rect {
                y: table.y + table.height,
                height: below,
                ..body
            };
            words::put_all(buffer, area, key);
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
        (self.views.current() == 0)
            .then(|| self.views.list.selected())
            .flatten()
    }
}

/// The meaning of the columns.
fn key(what: usize, look: Look, columns: usize) -> Vec<Line<'static>> {
    let path = "path: the work of the last thread to arrive, for which all others waited. \
        weighted: each moment counts by the number of threads that did not work.";
    let gains = " Wall time saved if the last thread took 25 % less time, if work were balanced, \
        if all threads resumed at once.";
    let mut text = path.to_owned();
    if what == 0 {
        text.push_str(gains);
    }
    let lines = words::wrap(&text, columns.saturating_sub(2), look);
    let lines = lines.into_iter();
    std::iter::once(Line::default())
        .chain(lines.map(|text| Line::styled(format!(" {text}"), look.dim())))
        .collect()
}

/// The details of one row.
fn details(
    row: &Row,
    report: &Report,
    what: usize,
    look: Look,
    columns: usize,
) -> Vec<Line<'static>> {
    let mut lines = vec![Line::raw(format!(
        " {} of the critical path, {} weighted by the number of threads that do not work",
        percent(row.3),
        percent(row.4)
    ))];
    let time = |ns: Option<u64>| duration(ns, look.text());
    let mut parts: Vec<(String, u64)> = Vec::new();
    let mut title = "";
    match what {
        0 => {
            let Some(site) = report.site(row.0) else {
                return lines;
            };
            lines.push(Line::default());
            let what_if = &site.what_if;
            let gains = [
                (
                    "last thread 10 % faster",
                    what_if.straggler_10_pct_faster_ns,
                ),
                ("25 % faster", what_if.straggler_25_pct_faster_ns),
                ("50 % faster", what_if.straggler_50_pct_faster_ns),
                ("perfect balance", site.gain_ns),
            ];
            let gains = gains.map(|(what, ns)| (what, report.of_known_work(site, ns)));
            lines.push(Line::styled(" wall time that would be saved", look.title()));
            for (what, ns) in gains
                .into_iter()
                .chain([("all threads resume at once", what_if.no_release_ns)])
            {
                let share = ns.filter(|_| report.seen_ns() > 0);
                let share = share.map(|ns| ns as f64 / report.seen_ns() as f64 * 100.0);
                lines.push(Line::raw(format!(
                    " {}{}{}",
                    right(what, 26, look),
                    right(&time(ns), 11, look),
                    right(&percent(share), 7, look)
                )));
            }
            title = "threads that do this work";
            let part =
                |thread: &SiteThreadReport| (words::thread(report, thread.thread), thread.path_ns);
            parts.extend(site.threads.iter().map(part));
        }
        1 => {
            title = "where";
            for site in &report.sites {
                let mine = site.threads.iter().filter(|thread| thread.thread == row.0);
                parts.extend(mine.map(|thread| (words::site_name(site), thread.path_ns)));
            }
        }
        _ => {
            let functions = report.functions.as_deref().unwrap_or_default();
            if let Some(function) = functions.iter().find(|function| function.id == row.0) {
                let text = format!(
                    " {} of the processor time, {} of the normalised processor time, in {}",
                    percent(Some(function.cpu_pct)),
                    percent(Some(function.npt_pct)),
                    printable(&function.binary)
                );
                lines.push(Line::raw(text));
            }
        }
    }
    parts.retain(|part| part.1 > 0);
    parts.sort_by_key(|part| std::cmp::Reverse(part.1));
    if !title.is_empty() {
        lines.push(Line::default());
        lines.push(Line::styled(format!(" {title}"), look.title()));
        if parts.is_empty() {
            lines.push(Line::raw(format!(" {UNKNOWN}")));
        }
    }
    let most = parts.first().map_or(1, |part| part.1);
    for (name, ns) in parts {
        let names = (columns / 2).min(36);
        lines.push(Line::raw(format!(
            " {}{} {}",
            left(&words::fit_middle(&name, names, look), names, look),
            right(&time(Some(ns)), 10, look),
            look.bar(
                ns as f64 / most as f64,
                columns.saturating_sub(names + 13).min(40)
            ),
        )));
    }
    lines
}
