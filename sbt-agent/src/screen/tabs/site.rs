//! One site closer: who waits there, for whom, and how it went over the run.

use ratatui::{
    layout::{Constraint, Layout, Rect},
    style::Style,
    text::{Line, Span},
};

use super::{View, figures};
use crate::{
    report::{SiteReport, SiteThreadReport, UnfinishedReport},
    screen::{
        look::{Ink, Look},
        words::{self, fit, left, right, since, thread},
    },
    views::table::{UNKNOWN, Unit, count, duration},
};

/// From so many columns on, the full details stand in two columns.
const TWO_COLUMNS: usize = 110;

/// A row for a title, and the rest.
pub fn split(area: Rect) -> (Rect, Rect) {
    let [title, body] = Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(area);
    (title, body)
}

/// What fits into so many columns and rows, the most important first.
pub fn overview(site: &SiteReport, view: &View, columns: usize, rows: u16) -> Vec<Line<'static>> {
    let rows = usize::from(rows);
    let mut lines = facts(site, view, columns);
    let mut extras = vec![Line::default()];
    extras.extend(figures::trend(site, view.look, columns, false));
    extras.extend(figures::histogram_row(site, view, columns));
    extras.push(Line::default());
    extras.extend(figures::distributions(site, view.look, columns));
    let room = rows.saturating_sub(lines.len());
    let of_threads = (room.saturating_sub(extras.len())).max(room.min(6));
    lines.extend(arrivals(site, view, columns, of_threads, false));
    lines.extend(extras);
    lines
}

/// Everything.
pub fn full(site: &SiteReport, view: &View, columns: usize) -> Vec<Line<'static>> {
    let two = columns >= TWO_COLUMNS;
    let each = if two { columns / 2 - 2 } else { columns };
    let look = view.look;
    let heading = |text: &str| Line::styled(format!(" {text}"), look.title());
    let mut first = facts(site, view, each);
    first.extend(origin(site, look, each));
    first.push(Line::default());
    first.push(heading("in the order of arrival, means of an episode"));
    first.extend(arrivals(site, view, each, usize::MAX, true));
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

/// What a reader should know first, in sentences.
fn facts(site: &SiteReport, view: &View, columns: usize) -> Vec<Line<'static>> {
    let look = view.look;
    let report = &view.snapshot.report;
    let mut texts: Vec<(String, Style)> = Vec::new();
    let here = |open: &&UnfinishedReport| open.site == site.id;
    for open in report.unfinished.iter().filter(here) {
        if open.waiting_ns >= 1_000_000_000 {
            texts.push((waits_still(open), look.alarm()));
        }
    }
    if let Some(straggler) = &site.straggler {
        let pattern = match straggler.pattern {
            "persistent" => ": the same thread again and again",
            "alternating" => ": a few threads take turns",
            "rotating" => ": no thread in particular",
            _ => "",
        };
        texts.push((
            format!(
                "{} comes last in {:.0} % of {}{pattern}.",
                thread(report, straggler.thread),
                straggler.share_pct,
                words::plural(usize::try_from(site.episodes).unwrap_or(0), "episode"),
            ),
            look.bold(),
        ));
    }
    if let Some(imbalance) = site.imbalance_pct {
        texts.push((
            format!(
                "Imbalance {imbalance:.0} %: perfect balance would save {} of {}.",
                duration(Some(site.gain_ns), look.text()),
                duration(site.phase_ns.as_ref().map(|stat| stat.sum), look.text()),
            ),
            Style::new(),
        ));
    }
    if site.incomplete > 0 {
        let n = usize::try_from(site.incomplete).unwrap_or(0);
        texts.push((
            format!(
                "Apart from these, {}.",
                words::plural(n, "incomplete episode")
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

fn waits_still(open: &UnfinishedReport) -> String {
    let of = open
        .participants
        .map_or_else(String::new, |n| format!(" of {n}"));
    let mut text = format!(
        "{}{of} there since {}",
        open.arrived.len(),
        since(open.waiting_ns)
    );
    if !open.missing.is_empty() {
        text += &format!("; missing: {}", words::threads(&open.missing, 40));
    }
    text
}

/// Where it is in the program.
fn origin(site: &SiteReport, look: Look, columns: usize) -> Vec<Line<'static>> {
    let mut texts = Vec::new();
    if site.name.is_some() || site.places.len() > 1 {
        texts.extend(site.places.iter().map(|place| format!("at {place}")));
    }
    if !site.callers.is_empty() {
        texts.push(format!("called from {}", site.callers.join(" < ")));
    }
    let barriers = words::plural(site.barriers.len(), "barrier");
    texts.push(format!(
        "{barriers} of kind {}, in {}",
        site.kind, site.binary
    ));
    texts
        .iter()
        .flat_map(|text| {
            words::wrap(
                &crate::place::printable(text),
                columns.saturating_sub(2),
                look,
            )
        })
        .map(|text| Line::styled(format!(" {text}"), look.dim()))
        .collect()
}

fn mean(sum: Option<u64>, of: u64) -> Option<u64> {
    sum.and_then(|sum| sum.checked_div(of))
}

/// The threads, the earliest first: how long they worked and then waited. Of
/// more than fit, those in the middle are left out.
fn arrivals(
    site: &SiteReport,
    view: &View,
    columns: usize,
    rows: usize,
    with_release: bool,
) -> Vec<Line<'static>> {
    let look = view.look;
    let idle = |thread: &SiteThreadReport| mean(Some(thread.idle_ns), thread.episodes);
    let work = |thread: &SiteThreadReport| mean(thread.work_ns, thread.episodes);
    let release = |thread: &SiteThreadReport| mean(thread.release_ns, thread.episodes);
    let mut threads: Vec<&SiteThreadReport> = site.threads.iter().collect();
    threads.sort_by_key(|thread| std::cmp::Reverse(idle(thread)));
    if rows < 2 || threads.is_empty() {
        return Vec::new();
    }
    let all = |f: &dyn Fn(&SiteThreadReport) -> Option<u64>| -> Vec<Option<u64>> {
        threads.iter().map(|thread| f(thread)).collect()
    };
    let (works, idles, releases) = (all(&work), all(&idle), all(&release));
    let unit = |values: &[Option<u64>]| Unit::fitting(values.iter().copied());
    let (work_unit, idle_unit) = (unit(&works), unit(&idles));
    let release_unit = unit(&releases);
    let names: Vec<String> = threads
        .iter()
        .map(|row| thread(&view.snapshot.report, row.thread))
        .collect();
    let name = names.iter().map(|name| words::width(name)).max();
    let name = name.unwrap_or(0).clamp("thread".len(), 16);
    let release_columns = if with_release { 12 } else { 0 };
    let last_columns = 11;
    let fixed = 1 + name + 9 + 9 + release_columns + last_columns + 2;
    let bar = columns.saturating_sub(fixed);
    let longest = works
        .iter()
        .zip(&idles)
        .map(|(work, idle)| work.unwrap_or(0) + idle.unwrap_or(0))
        .max()
        .unwrap_or(0)
        .max(1);
    let head = |title: &str, unit: Unit| format!("{title} {}", unit.label(look.text()));
    let mut title = format!(
        " {}{}{}  {}",
        left("thread", name, look),
        right(&head("work", work_unit), 9, look),
        right(&head("idle", idle_unit), 9, look),
        left("", bar, look),
    );
    if with_release {
        title += &right(&head("release", release_unit), release_columns, look);
    }
    title += &right("last", last_columns, look);
    let mut lines = vec![Line::styled(title, look.dim())];
    let rows = rows - 1;
    let hidden = if threads.len() > rows {
        threads.len() - rows.saturating_sub(1)
    } else {
        0
    };
    // The last matter more than the first.
    let before = (rows.saturating_sub(1)) / 3;
    for (at, row) in threads.iter().enumerate() {
        if hidden > 0 && at == before {
            let text = format!(
                " {} {} more in between",
                look.cut(),
                words::plural(hidden, "thread")
            );
            lines.push(Line::styled(fit(&text, columns, look), look.dim()));
        }
        if hidden > 0 && (before..before + hidden).contains(&at) {
            continue;
        }
        let share = mean_share(row.last, site.episodes);
        let last = format!("{} {share:>5}", count(row.last));
        let mut spans = vec![Span::raw(format!(
            " {}{}{}  ",
            left(&names[at], name, look),
            right(&work_unit.write(works[at]), 9, look),
            right(&idle_unit.write(idles[at]), 9, look),
        ))];
        spans.extend(stretch(works[at], idles[at], longest, bar, look));
        if with_release {
            let text = release_unit.write(releases[at]);
            spans.push(Span::raw(right(&text, release_columns, look)));
        }
        spans.push(Span::raw(right(&last, last_columns, look)));
        lines.push(Line::from(spans));
    }
    lines
}

fn mean_share(part: u64, of: u64) -> String {
    if of == 0 {
        return UNKNOWN.into();
    }
    format!("{:.0} %", part as f64 / of as f64 * 100.0)
}

/// Work and then waiting, drawn as long as they took.
fn stretch(
    work: Option<u64>,
    idle: Option<u64>,
    longest: u64,
    columns: usize,
    look: Look,
) -> Vec<Span<'static>> {
    let scale = |ns: u64| {
        let columns = u128::from(ns) * columns as u128 + u128::from(longest / 2);
        usize::try_from(columns / u128::from(longest)).unwrap_or(0)
    };
    // Unknown work stays empty: when it arrived is known all the same.
    let ink = if work.is_some() {
        Ink::Work
    } else {
        Ink::Unknown
    };
    let arrival = match (work, idle) {
        (Some(work), _) => scale(work),
        (None, Some(idle)) => scale(longest.saturating_sub(idle)),
        (None, None) => 0,
    }
    .min(columns);
    let waits = scale(work.unwrap_or(0) + idle.unwrap_or(0))
        .max(arrival)
        .min(columns)
        - arrival;
    let waits = if work.is_none() && idle.is_some() {
        columns - arrival
    } else {
        waits
    };
    let run =
        |ink: Ink, n: usize| Span::styled(ink.glyph(look).to_string().repeat(n), ink.style(look));
    vec![
        run(ink, arrival),
        run(Ink::Idle, waits),
        Span::raw(" ".repeat(columns - arrival - waits)),
    ]
}

/// Who comes last how often.
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
                right(&mean_share(row.last, site.episodes), 6, look),
            )),
            Span::styled(look.bar(share, columns.saturating_sub(37)), Style::new()),
        ]));
    }
    if let Some(straggler) = &site.straggler {
        let text = format!(
            "The last comes {} after the one before it (mean); most in a row by one thread: {}.",
            duration(Some(straggler.mean_lead_ns), look.text()),
            count(straggler.longest_run),
        );
        let texts = words::wrap(&text, columns.saturating_sub(2), look);
        lines.extend(texts.into_iter().map(|text| Line::raw(format!(" {text}"))));
    } else {
        lines.push(Line::raw(format!(" {UNKNOWN}")));
    }
    lines
}
