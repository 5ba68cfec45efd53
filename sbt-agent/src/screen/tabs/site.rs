//! The details of one site: which threads wait, for which threads, and how this changed over the
//! run.

use std::fmt::Write as _;

use ratatui::{
    layout::{Constraint, Layout, Rect},
    style::Style,
    text::{Line, Span},
};

use super::{
    View,
    arrivals::{self, Room},
    counters, figures,
};
use crate::{
    screen::{
        theme::Look,
        words::{self, left, right, since, thread},
    },
    show::{
        table::{UNKNOWN, count},
        text,
    },
};
use sbt_engine::{
    place::printable,
    report::{Report, SiteReport, SiteThreadReport, UnfinishedReport},
};

/// Minimum width for the full details in two columns.
const TWO_COLUMNS: usize = 110;

/// Minimum width for showing the threads' release times.
const WITH_RELEASE: usize = 72;

/// Splits an area into a row for the title and the rest.
pub fn split(area: Rect) -> (Rect, Rect) {
    let [title, body] = Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(area);
    (title, body)
}

/// The most important details that fit into `columns` and `rows`. `from` is the number of the first
/// visible counter.
pub fn overview(
    site: &SiteReport,
    view: &View,
    (columns, rows): (usize, usize),
    from: usize,
) -> Vec<Line<'static>> {
    let mut lines = facts(site, view, columns);
    let mut extras = vec![Line::default()];
    extras.extend(figures::distributions(site, view.look, columns));
    extras.push(Line::default());
    extras.extend(figures::trend(site, view.look, columns, false));
    let histogram = figures::histogram(site, view, columns);
    let room = rows.saturating_sub(lines.len());
    // The histogram gets rows of its own only if the complete histogram and all threads fit.
    if room > extras.len() + site.threads.len() + histogram.len() + 2 {
        extras.push(Line::default());
        extras.push(Line::styled(" barrier times", view.look.dim()));
        extras.extend(histogram);
    } else {
        extras.extend(figures::histogram_row(site, view, columns));
    }
    let of_threads = room.saturating_sub(extras.len()).max(room.min(6));
    let room = Room {
        columns,
        rows: of_threads,
        with_release: false,
        from,
    };
    lines.extend(arrivals::lines(site, view, room));
    if lines.len() + extras.len() > rows {
        // If space is short, each figure is reduced to one line.
        extras = vec![Line::default()];
        extras.extend(figures::trend(site, view.look, columns, false));
        extras.extend(figures::histogram_row(site, view, columns));
    }
    lines.extend(extras);
    lines
}

/// All details. `from` is the number of the first visible counter.
pub fn full(site: &SiteReport, view: &View, columns: usize, from: usize) -> Vec<Line<'static>> {
    let two = columns >= TWO_COLUMNS;
    let each = if two { columns / 2 - 2 } else { columns };
    let look = view.look;
    let heading = |text: &str| Line::styled(format!(" {text}"), look.title());
    let mut first = verdict(site, view, each);
    first.extend(facts(site, view, each));
    first.extend(origin(site, look, each));
    first.push(Line::default());
    first.push(heading("in the order of arrival, means of an episode"));
    // If space is short, the bars take precedence over release times.
    let with_release = each >= WITH_RELEASE;
    let room = Room {
        columns: each,
        rows: usize::MAX,
        with_release,
        from,
    };
    first.extend(arrivals::lines(site, view, room));
    first.extend(counters::of_site(site, view, (each, from)));
    first.push(Line::default());
    first.push(heading("who comes last"));
    first.extend(ledger(site, view, each));
    let mut second = vec![heading("times")];
    second.extend(figures::distributions(site, look, each));
    second.push(Line::default());
    second.push(heading("barrier times"));
    second.extend(figures::histogram(site, view, each));
    second.push(Line::default());
    second.push(heading("over the run"));
    second.extend(figures::trend(site, look, each, true));
    if !two {
        first.push(Line::default());
        first.extend(second);
        return first;
    }
    let rows = first.len().max(second.len());
    first.resize(rows, Line::default());
    second.resize(rows, Line::default());
    let beside = |(mut line, other): (Line<'static>, Line<'static>)| {
        let pad = (each + 2).saturating_sub(line.width());
        line.push_span(Span::raw(" ".repeat(pad)));
        line.spans.extend(other.spans.into_iter().map(|span| Span {
            style: other.style.patch(span.style),
            ..span
        }));
        line
    };
    first.into_iter().zip(second).map(beside).collect()
}

/// Why threads wait here, if this is known.
fn verdict(site: &SiteReport, view: &View, columns: usize) -> Vec<Line<'static>> {
    let look = view.look;
    let verdicts = view.snapshot.report.verdicts.iter().flatten();
    let here = verdicts.filter(|verdict| verdict.site == Some(site.id));
    here.flat_map(|verdict| {
        let text = text::sentence(&verdict.text, look.text());
        words::wrap(&text, columns.saturating_sub(2), look)
    })
    .map(|text| Line::styled(format!(" {text}"), look.bold()))
    .collect()
}

/// The most important facts, in sentences.
fn facts(site: &SiteReport, view: &View, columns: usize) -> Vec<Line<'static>> {
    let look = view.look;
    let report = &view.snapshot.report;
    let mut texts: Vec<(String, Style)> = Vec::new();
    let here = |open: &&UnfinishedReport| open.site == site.id;
    for open in report.unfinished.iter().filter(here) {
        if open.waiting_ns >= 1_000_000_000 {
            texts.push((waits_still(open, report), look.alarm()));
        }
    }
    for (index, fact) in text::facts(report, site, look.text()).iter().enumerate() {
        let style = if index == 0 {
            look.bold()
        } else {
            Style::new()
        };
        texts.push((printable(fact), style));
    }
    if site.incomplete > 0 {
        texts.push((
            format!(
                "{} not included.",
                words::plural(site.incomplete, "incomplete episode")
            ),
            look.dim(),
        ));
    }
    let columns = columns.saturating_sub(2);
    texts
        .into_iter()
        .flat_map(|(text, style)| {
            let lines = words::wrap(&text, columns, look).into_iter();
            lines.map(move |text| Line::from(vec![Span::raw(" "), Span::styled(text, style)]))
        })
        .collect()
}

fn waits_still(open: &UnfinishedReport, report: &Report) -> String {
    let of = open
        .participants
        .map_or_else(String::new, |n| format!(" of {n}"));
    let mut text = format!(
        "{}{of} threads have waited here for {}",
        open.arrived.len(),
        since(open.waiting_ns)
    );
    if !open.missing.is_empty() {
        let has_ended = |id: &u32| report.thread(*id).is_some_and(|thread| thread.ended);
        let (ended, away): (Vec<u32>, Vec<u32>) = open.missing.iter().partition(|id| has_ended(id));
        for (missing, what) in [(away, ""), (ended, ", which ended")] {
            if !missing.is_empty() {
                let names = words::threads(&missing, 40, |id| report.label(id));
                let _infallible = write!(text, "; missing: {names}{what}");
            }
        }
    }
    text
}

/// Where the site is in the program.
fn origin(site: &SiteReport, look: Look, columns: usize) -> Vec<Line<'static>> {
    let mut texts = Vec::new();
    if site.name.is_some() || site.places.len() > 1 {
        texts.extend(site.places.iter().map(|place| format!("at {place}")));
    }
    if !site.callers.is_empty() {
        texts.push(format!("called from {}", site.callers.join(" < ")));
    }
    let barriers = words::plural(site.barriers.len() as u64, "barrier");
    texts.push(format!(
        "{barriers} of kind {}, in {}",
        site.kind, site.binary
    ));
    texts
        .iter()
        .flat_map(|text| words::wrap(&printable(text), columns.saturating_sub(2), look))
        .map(|text| Line::styled(format!(" {text}"), look.dim()))
        .collect()
}

/// The number of times that each thread arrives last.
fn ledger(site: &SiteReport, view: &View, columns: usize) -> Vec<Line<'static>> {
    const MOST: usize = 8;
    let look = view.look;
    let mut threads: Vec<&SiteThreadReport> = site.threads.iter().collect();
    threads.sort_by_key(|thread| std::cmp::Reverse(thread.last));
    let mut lines = Vec::new();
    for row in threads.iter().take(MOST).filter(|row| row.last > 0) {
        let share = row.last as f64 / site.episodes.max(1) as f64;
        lines.push(Line::from(vec![
            Span::raw(format!(
                " {}{} {} ",
                left(&thread(&view.snapshot.report, row.thread), 16, look),
                right(&count(row.last), 10, look),
                right(&arrivals::share(row.last, site.episodes), 6, look),
            )),
            Span::styled(
                look.bar(share, columns.saturating_sub(37).min(40)),
                Style::new(),
            ),
        ]));
    }
    if lines.is_empty() {
        lines.push(Line::raw(format!(" {UNKNOWN}")));
    }
    lines
}
