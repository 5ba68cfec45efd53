//! The critical path, which runs through the work of the last thread to arrive in each episode:
//! where it lies, and what would be gained by changing this.

use ratatui::{buffer::Buffer, layout::Rect, text::Line};

use super::{
    View,
    views::{Content, Row, Viewed},
};
use crate::{
    screen::{
        grid::{Cells, Grid},
        theme::Look,
        words::{self, left, right},
    },
    show::table::{UNKNOWN, duration, percent},
};
use sbt_engine::{
    place::printable,
    report::{Report, SiteReport, SiteThreadReport},
};

/// The tab of the critical path.
pub type Path = Viewed<Critical, 3>;

/// The critical path.
#[derive(Default)]
pub struct Critical;

impl Content<3> for Critical {
    const TITLES: [&'static str; 3] = ["Path"; 3];
    const KINDS: [&'static str; 3] = ["site", "thread", "function"];
    /// The weighted share.
    const SORTED: usize = 2;
    const NAME: &'static str = "critical path: whose work takes the time,";

    /// Share of the path, and weighted share.
    type Figures<'a> = [Option<f64>; 2];

    fn rows(view: &View<'_>, what: usize) -> Vec<Row<[Option<f64>; 2]>> {
        let report = &view.snapshot.report;
        match what {
            0 => (report.sites.iter())
                .map(|site| Row::of_site(site, [site.path_pct, site.weighted_path_pct]))
                .collect(),
            1 => (report.threads.iter())
                .map(|thread| Row::of_thread(thread, [thread.path_pct, thread.weighted_path_pct]))
                .collect(),
            _ => (report.functions.iter().flatten())
                .map(|function| {
                    let figures = [function.path_pct, function.weighted_path_pct];
                    Row::of_function(function, figures)
                })
                .collect(),
        }
    }

    fn columns(grid: &mut Grid, report: &Report, what: usize, rows: &[Row<[Option<f64>; 2]>]) {
        let shares = |at: usize| rows.iter().map(|row| row.figures[at]).collect();
        grid.column("path", 0, Cells::Share(shares(0)))
            .column("weighted", 0, Cells::Share(shares(1)))
            .column("", 5, Cells::Bar(shares(1)));
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
    }

    fn nothing(report: &Report, what: usize) -> &'static str {
        match what {
            2 if report.functions.is_none() => {
                "Not sampled: --sample 200 takes 200 samples per second of each thread's CPU time, \
                 and shows which functions are on the path."
            }
            2 => "No sample yet of a thread that works between two barriers.",
            1 => "No thread has come to a barrier yet.",
            _ => "No episode has ended yet.",
        }
    }

    /// Below the table is the meaning of its columns, if the rows leave room.
    fn around(view: &View, what: usize, rows: usize, buffer: &mut Buffer, area: Rect) -> Rect {
        let key = key(what, view.look, usize::from(area.width));
        let below = u16::try_from(key.len()).unwrap_or(0);
        // With the rule and the titles of the columns.
        if usize::from(area.height) <= rows + 2 + key.len() {
            return area;
        }
        let height = area.height - below;
        let legend = Rect {
            y: area.y + height,
            height: below,
            ..area
        };
        words::put_all(buffer, legend, key);
        Rect { height, ..area }
    }

    fn details(
        row: &Row<[Option<f64>; 2]>,
        view: &View,
        what: usize,
        columns: usize,
    ) -> Vec<Line<'static>> {
        let (report, look) = (&view.snapshot.report, view.look);
        let [path, weighted] = row.figures;
        let mut lines = vec![Line::raw(format!(
            " {} of the critical path, {} weighted by the number of threads that do not work",
            percent(path),
            percent(weighted)
        ))];
        let time = |ns: Option<u64>| duration(ns, look.text());
        let mut parts: Vec<(String, u64)> = Vec::new();
        let mut title = "";
        match what {
            0 => {
                let Some(site) = report.site(row.id) else {
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
                let part = |thread: &SiteThreadReport| {
                    (words::thread(report, thread.thread), thread.path_ns)
                };
                parts.extend(site.threads.iter().map(part));
            }
            1 => {
                title = "where";
                for site in &report.sites {
                    let mine = site.threads.iter().filter(|thread| thread.thread == row.id);
                    parts.extend(mine.map(|thread| (words::site_name(site), thread.path_ns)));
                }
            }
            _ => {
                let functions = report.functions.as_deref().unwrap_or_default();
                if let Some(function) = functions.iter().find(|function| function.id == row.id) {
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
