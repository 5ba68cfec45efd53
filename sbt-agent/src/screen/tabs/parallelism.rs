//! The number of threads that were busy at the same time, and to what this time belongs: normalised
//! processor time (NPT, from the Quartz profiler) by phase, site, thread and function.

use ratatui::{
    buffer::Buffer,
    layout::{Constraint, Layout, Rect},
    style::Style,
    text::{Line, Span},
};

use super::{
    View, busy, site,
    views::{Content, Row, Viewed},
};
use crate::{
    screen::{
        grid::{Cells, Grid},
        theme::Look,
        words::{self, rule},
    },
    show::table::{UNKNOWN, duration},
};
use sbt_engine::{
    place::printable,
    report::{BusyReport, FunctionReport, ParallelismReport, PhaseReport, Report},
};

/// The tab of the parallelism.
pub type Parallelism = Viewed<Npt, 4>;

/// Normalised processor time.
#[derive(Default)]
pub struct Npt;

/// The figures of a row.
#[derive(Default)]
pub struct Figures<'a> {
    npt_ns: Option<u64>,
    /// NPT of the function without its callees; only for functions.
    self_ns: Option<u64>,
    mean: Option<f64>,
    times: &'a [BusyReport],
}

fn of_busy(parallelism: Option<&ParallelismReport>) -> Figures<'_> {
    Figures {
        npt_ns: parallelism.map(|found| found.busy_ns),
        self_ns: None,
        mean: parallelism.map(|found| found.mean_busy),
        times: parallelism.map_or(&[], |found| &found.times),
    }
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

impl Content<4> for Npt {
    const TITLES: [&'static str; 3] = ["Parallelism", "Parallel", "Busy"];
    const KINDS: [&'static str; 4] = ["phase", "site", "thread", "function"];
    const SORTED: usize = 1;
    const NAME: &'static str = "normalised processor time";

    type Figures<'a> = Figures<'a>;

    fn rows<'a>(view: &View<'a>, what: usize) -> Vec<Row<Figures<'a>>> {
        let report = &view.snapshot.report;
        match what {
            0 => (0..)
                .zip(&report.phases)
                .map(|(id, phase)| {
                    let name = phase_name(report, phase, view.look);
                    Row::named(id, name, of_busy(phase.parallelism.as_ref()))
                })
                .collect(),
            1 => (report.sites.iter())
                .map(|site| Row::of_site(site, of_busy(site.parallelism.as_ref())))
                .collect(),
            2 => (report.threads.iter())
                .map(|thread| {
                    let figures = Figures {
                        // Without parallelism figures the thread's NPT is unknown, not 0.
                        npt_ns: report.parallelism.as_ref().map(|_| thread.npt_ns),
                        ..Figures::default()
                    };
                    Row::of_thread(thread, figures)
                })
                .collect(),
            _ => (report.functions.iter().flatten())
                .map(|function| {
                    let figures = Figures {
                        npt_ns: Some(function.npt_ns),
                        self_ns: Some(function.self_npt_ns),
                        mean: mean(function),
                        times: &function.times,
                    };
                    Row::of_function(function, figures)
                })
                .collect(),
        }
    }

    fn columns(grid: &mut Grid, report: &Report, what: usize, rows: &[Row<Figures<'_>>]) {
        let whole = whole(report, what);
        let rows = rows.iter().map(|row| &row.figures);
        let share = |figures: &Figures<'_>| {
            let whole = whole.filter(|whole| *whole > 0)? as f64;
            Some(figures.npt_ns? as f64 / whole * 100.0)
        };
        let shares = || rows.clone().map(share).collect();
        let npt = rows.clone().map(|figures| figures.npt_ns).collect();
        grid.column("NPT", 0, Cells::Time(npt))
            .column("share", 1, Cells::Share(shares()))
            .column("", 3, Cells::Bar(shares()));
        if what == 3 {
            let own = rows.clone().map(|figures| figures.self_ns).collect();
            grid.column("self", 2, Cells::Time(own));
        }
        if what != 2 {
            let mean = |figures: &Figures<'_>| {
                let text = figures.mean.map(|mean| format!("{mean:.1}"));
                (figures.mean, text.unwrap_or_else(|| UNKNOWN.into()))
            };
            grid.column("busy", 2, Cells::Ranked(rows.map(mean).collect()));
        }
    }

    fn nothing(report: &Report, what: usize) -> &'static str {
        match what {
            3 if report.functions.is_none() => {
                "Not sampled: --sample 200 takes 200 samples per second of each thread's CPU time, \
                 and shows the time of functions."
            }
            3 => "No sample yet of a thread that works between two barriers.",
            2 => "No thread has come to a barrier yet.",
            _ => "No phase has ended yet.",
        }
    }

    /// Above the table is the time by the number of busy threads.
    fn around(view: &View, _what: usize, _rows: usize, buffer: &mut Buffer, area: Rect) -> Rect {
        let times = view.snapshot.report.parallelism.as_ref();
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
        below
    }

    /// The row's bars, and the parts of its time.
    fn details(
        row: &Row<Figures<'_>>,
        view: &View,
        what: usize,
        columns: usize,
    ) -> Vec<Line<'static>> {
        let (figures, look) = (&row.figures, view.look);
        let npt = duration(figures.npt_ns, look.text());
        let mut lines = vec![Line::raw(format!(" normalised processor time {npt}"))];
        if let Some(mean) = figures.mean {
            let text = format!(" {mean:.1} busy threads on average");
            lines.push(Line::raw(text));
        }
        if !figures.times.is_empty() {
            lines.push(Line::default());
            lines.push(Line::styled(
                " time by the number of busy threads",
                look.title(),
            ));
            lines.extend(busy::bars(figures.times, look, columns, usize::MAX));
        }
        let (title, parts) = parts(row.id, view, what);
        if !parts.is_empty() {
            lines.push(Line::default());
            lines.push(Line::styled(format!(" {title}"), look.title()));
            lines.extend(shares(&parts, look, columns));
        }
        lines
    }
}

/// The parts of a row's time: a title, and names with their NPT, ns.
fn parts(id: u32, view: &View, what: usize) -> (&'static str, Vec<(String, u64)>) {
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
            let phase = report.phases.get(id as usize);
            phase.map_or_else(Vec::new, |phase| of_site(phase.to))
        }),
        1 => ("by thread", of_site(id)),
        2 => ("by site", {
            let sites = report.sites.iter().flat_map(|site| {
                let mine = site.threads.iter().filter(|thread| thread.thread == id);
                mine.map(|thread| (words::site_name(site), thread.npt_ns))
            });
            sites.collect()
        }),
        _ => ("by caller", {
            let functions = report.functions.as_deref().unwrap_or_default();
            let function = functions.iter().find(|function| function.id == id);
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
