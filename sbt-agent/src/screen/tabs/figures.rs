//! Figures of a site: distributions, histogram, trend.

use ratatui::{
    style::Style,
    text::{Line, Span},
};

use super::View;
use crate::{
    screen::{
        theme::Look,
        words::{self, left, right},
    },
    show::{
        table::{UNKNOWN, Unit, count, duration},
        text::top,
    },
};
use sbt_engine::{
    live::Histogram,
    report::{SiteReport, StatReport, TrendReport},
};

type Figure = (&'static str, fn(&StatReport) -> u64);

/// The figures of a distribution, each with its priority for omission: 0 is never omitted, higher
/// values are omitted first.
const FIGURES: [(u8, Figure); 7] = [
    (0, ("mean", |stat| stat.mean)),
    (3, ("dev", |stat| stat.stddev)),
    (4, ("min", |stat| stat.min)),
    (0, ("p50", |stat| stat.p50)),
    (1, ("p95", |stat| stat.p95)),
    (2, ("p99", |stat| stat.p99)),
    (0, ("max", |stat| stat.max)),
];

/// Width of a figure, in columns.
const FIGURE: usize = 8;
/// Width of a row's name, in columns.
const WHAT: usize = 12;

/// A row for each of a site's times. Each row has its own unit, because the times differ by orders
/// of magnitude.
pub fn distributions(site: &SiteReport, look: Look, columns: usize) -> Vec<Line<'static>> {
    let rows = [
        ("phase", &site.phase_ns),
        ("barrier", &site.barrier_ns),
        ("idle", &site.idle_ns),
        ("release", &site.release_ns),
        ("work", &site.work_ns),
    ];
    let fitting = columns.saturating_sub(WHAT + 1) / FIGURE;
    let mut spare = 4;
    while spare > 0 && FIGURES.iter().filter(|figure| figure.0 <= spare).count() > fitting {
        spare -= 1;
    }
    let shown = || FIGURES.iter().filter(|figure| figure.0 <= spare);
    let titles: String = shown()
        .map(|(_, (title, _))| right(title, FIGURE, look))
        .collect();
    let mut lines = vec![Line::styled(
        format!(" {}{titles}", left("", WHAT, look)),
        look.dim(),
    )];
    for (what, stat) in rows {
        let unit = Unit::fitting([stat.as_ref().map(|stat| stat.mean)]);
        let label = stat.as_ref().map_or("", |_| unit.label(look.text()));
        let cells: String = shown()
            .map(|(_, (_, f))| right(&unit.write(stat.as_ref().map(f)), FIGURE, look))
            .collect();
        let what = left(&format!("{what} {label}"), WHAT, look);
        lines.push(Line::raw(format!(" {what}{cells}")));
    }
    lines
}

/// The histogram of a site's barrier times, from the first range that occurred to the last: the
/// range's lower limit (ns) and its number of episodes.
fn ranges(site: &SiteReport, view: &View) -> Vec<(u64, u64)> {
    let snapshot = view.snapshot;
    let at = snapshot
        .report
        .sites
        .iter()
        .position(|other| other.id == site.id);
    let found = at.and_then(|at| snapshot.histograms.get(at));
    let Some(Histogram(ranges)) = found else {
        return Vec::new();
    };
    let first = ranges.iter().position(|range| range.1 > 0);
    let last = ranges.iter().rposition(|range| range.1 > 0);
    match (first, last) {
        (Some(first), Some(last)) => ranges[first..=last].to_vec(),
        _ => Vec::new(),
    }
}

/// The histogram with one row for each range of barrier times.
pub fn histogram(site: &SiteReport, view: &View, columns: usize) -> Vec<Line<'static>> {
    let look = view.look;
    let ranges = ranges(site, view);
    let sum: u64 = ranges.iter().map(|range| range.1).sum();
    if sum == 0 {
        return vec![Line::raw(format!(" {UNKNOWN}"))];
    }
    let most = ranges.iter().map(|range| range.1).max().unwrap_or(1).max(1);
    let line = |(from, times): &(u64, u64)| {
        let share = *times as f64 / sum as f64 * 100.0;
        Line::from(vec![
            Span::raw(format!(
                " from {}{}{} ",
                right(&words::about(*from, look), 8, look),
                right(&count(*times), 10, look),
                right(&format!("{share:.0} %"), 6, look),
            )),
            Span::raw(look.bar(
                *times as f64 / most as f64,
                columns.saturating_sub(33).min(40),
            )),
        ])
    };
    ranges.iter().map(line).collect()
}

/// The histogram in one row.
pub fn histogram_row(site: &SiteReport, view: &View, columns: usize) -> Vec<Line<'static>> {
    let look = view.look;
    let ranges = ranges(site, view);
    let (Some(first), Some(last)) = (ranges.first(), ranges.last()) else {
        return Vec::new();
    };
    let values: Vec<u64> = ranges.iter().map(|range| range.1).collect();
    let text = format!(
        " {}{} {} {}",
        left("barrier times", 14, look),
        right(&words::about(first.0, look), 8, look),
        look.spark(&values),
        words::about(last.0.saturating_mul(2), look),
    );
    vec![Line::raw(words::fit(&text, columns, look))]
}

/// Selects the time that a trend shows, ns.
type TrendFigure = fn(&TrendReport) -> Option<u64>;

/// How phases and waiting changed during the run.
pub fn trend(site: &SiteReport, look: Look, columns: usize, full: bool) -> Vec<Line<'static>> {
    let phase: TrendFigure = |part| part.phase_ns;
    let barrier: TrendFigure = |part| Some(part.barrier_ns);
    let idle: TrendFigure = |part| Some(part.idle_ns);
    let rows: &[(&str, TrendFigure)] = if full {
        &[("phase", phase), ("barrier", barrier), ("lost", idle)]
    } else {
        &[("phase trend", phase), ("lost trend", idle)]
    };
    let mut lines = Vec::new();
    for (what, f) in rows {
        // Space for the name, the first and the last value.
        let room = columns.saturating_sub(1 + 14 + 2 * 9 + 1).min(64);
        let means = means(&site.trend, *f, room.max(1));
        let (Some(first), Some(last)) = (means.first(), means.last()) else {
            if full {
                lines.push(Line::raw(format!(" {} {UNKNOWN}", left(what, 13, look))));
            }
            continue;
        };
        let time = |value: u64| duration(Some(value), look.text());
        lines.push(Line::raw(format!(
            " {}{} {} {}",
            left(what, 14, look),
            right(&time(*first), 8, look),
            look.text().spark(&means, top(&means)),
            time(*last),
        )));
        if full {
            let lowest = means
                .iter()
                .min()
                .map_or_else(String::new, |value| time(*value));
            let most = means
                .iter()
                .max()
                .map_or_else(String::new, |value| time(*value));
            lines.push(Line::from(Span::styled(
                format!(" {}lowest {lowest}, highest {most}", left("", 14, look)),
                Style::new().patch(look.dim()),
            )));
        }
    }
    lines
}

/// Means over at most `groups` groups of consecutive parts, weighted by episodes.
fn means(trend: &[TrendReport], f: TrendFigure, groups: usize) -> Vec<u64> {
    let size = trend.len().div_ceil(groups).max(1);
    let mean = |group: &[TrendReport]| {
        let known = || {
            group
                .iter()
                .filter_map(|part| Some((f(part)?, part.episodes)))
        };
        let sum: u128 = known()
            .map(|(mean, n)| u128::from(mean) * u128::from(n))
            .sum();
        let n: u128 = known().map(|(_, n)| u128::from(n)).sum();
        u64::try_from(sum.checked_div(n)?).ok()
    };
    trend.chunks(size).filter_map(mean).collect()
}
