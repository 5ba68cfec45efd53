//! Sites: the table of all, and the worst ones closer.

use std::fmt::Write as _;

use super::{
    MOST_ROWS, Table, count, duration, each, line, name, percent, plural, rest, thread_name,
};
use crate::{
    report::{Report, SiteReport, StatReport, StragglerReport, TrendReport},
    views::table::{Style, UNKNOWN, Unit},
};

/// Characters of a sparkline.
const SPARKS: usize = 32;

/// All sites in a table.
pub fn barriers(out: &mut String, report: &Report, style: Style) {
    line(out, "");
    line(out, &style.bold("BARRIERS, by thread-time lost there"));
    let shown: Vec<&SiteReport> = report.sites.iter().take(MOST_ROWS).collect();
    let total: u64 = report.sites.iter().map(|site| site.lost_ns).sum();
    let mean = |stat: &Option<StatReport>| stat.as_ref().map(|stat| stat.mean);
    let column = |f: &dyn Fn(&SiteReport) -> Option<u64>| -> Vec<Option<u64>> {
        shown.iter().map(|site| f(site)).collect()
    };
    let mut table = Table::default();
    table
        .column("site", shown.iter().map(|site| name(site)).collect())
        .column(
            "episodes",
            shown.iter().map(|site| count(site.episodes)).collect(),
        )
        .durations("phase", &column(&|site| mean(&site.phase_ns)), style)
        .durations("barrier", &column(&|site| mean(&site.barrier_ns)), style)
        .durations("lost", &column(&|site| Some(site.lost_ns)), style)
        .column(
            "share",
            shown
                .iter()
                .map(|site| {
                    percent((total > 0).then(|| site.lost_ns as f64 / total as f64 * 100.0))
                })
                .collect(),
        )
        .column(
            "last",
            shown
                .iter()
                .map(|site| {
                    site.straggler.as_ref().map_or_else(
                        || UNKNOWN.into(),
                        |straggler| format!("T{} {:.0} %", straggler.thread, straggler.share_pct),
                    )
                })
                .collect(),
        );
    table.write(out, style, style.width.saturating_sub(54).max(20));
    rest(out, report.sites.len(), "site", style);
}

/// One site: who waits there, and for whom.
pub fn details(out: &mut String, report: &Report, site: &SiteReport, style: Style) {
    line(out, "");
    let mut title = name(site);
    if site.name.is_some() {
        let _infallible = write!(title, " ({})", site.places.join(" | "));
    }
    line(out, &style.bold(&title));
    let mut facts = Vec::new();
    if let Some(straggler) = &site.straggler {
        facts.push(format!(
            "{} comes last in {:.0} % of {}{}",
            thread_name(report, straggler.thread),
            straggler.share_pct,
            plural(site.episodes, "episode"),
            pattern(straggler, site),
        ));
        facts.push(format!(
            "the last comes {} after the next on average; longest run of one straggler: {}",
            duration(Some(straggler.mean_lead_ns), style),
            count(straggler.longest_run),
        ));
    }
    if let Some(imbalance) = site.imbalance_pct {
        facts.push(format!(
            "imbalance {imbalance:.0} %: perfect balance would save {}",
            duration(Some(site.gain_ns), style),
        ));
    }
    if !site.callers.is_empty() {
        facts.push(format!("called from {}", site.callers.join(" < ")));
    }
    facts.extend(trend(&site.trend, style));
    for fact in facts {
        line(out, &format!("  {fact}"));
    }
    distributions(out, site, style);
    let shown: Vec<_> = site.threads.iter().take(MOST_ROWS).collect();
    let most = shown.iter().map(|thread| thread.idle_ns).max().unwrap_or(0);
    let mut table = Table::default();
    table
        .column(
            "  thread",
            shown
                .iter()
                .map(|thread| format!("  {}", thread_name(report, thread.thread)))
                .collect(),
        )
        .durations("work", &each(&shown, |thread| thread.work_ns), style)
        .durations("idle", &each(&shown, |thread| Some(thread.idle_ns)), style)
        .column(
            "",
            shown
                .iter()
                .map(|thread| style.bar(thread.idle_ns as f64 / most.max(1) as f64, 20))
                .collect(),
        )
        .durations("release", &each(&shown, |thread| thread.release_ns), style)
        .column(
            "last",
            shown.iter().map(|thread| count(thread.last)).collect(),
        );
    table.write(out, style, 24);
    rest(out, site.threads.len(), "thread", style);
}

/// What the pattern of stragglers means.
pub fn pattern(straggler: &StragglerReport, site: &SiteReport) -> &'static str {
    let ever = site.threads.iter().filter(|thread| thread.last > 0).count();
    match (straggler.pattern, straggler.sequence) {
        ("persistent", _) => ": the same thread again and again",
        ("alternating", "turns") if ever == 2 => ": two threads take turns",
        ("alternating", "turns") => ": a few threads take turns",
        ("alternating", "stretches") => ": one of a few threads for a while, then another",
        ("alternating", _) => ": mostly one of a few threads",
        ("rotating", "turns") => ": the threads take turns",
        ("rotating", "stretches") => ": one thread for a while, then another",
        ("rotating", _) => ": no thread in particular",
        _ => "",
    }
}

/// How the phase times changed over the run, as a line of bars.
pub fn trend(trend: &[TrendReport], style: Style) -> Option<String> {
    let groups = trend.chunks(trend.len().div_ceil(SPARKS).max(1));
    let means: Vec<u64> = groups
        .filter_map(|group| {
            let known = || {
                group
                    .iter()
                    .filter_map(|part| Some((part.phase_ns?, part.episodes)))
            };
            let sum: u64 = known()
                .map(|(mean, episodes)| mean.saturating_mul(episodes))
                .sum();
            sum.checked_div(known().map(|(_, episodes)| episodes).sum())
        })
        .collect();
    let (first, last) = (*means.first()?, *means.last()?);
    if means.len() < 4 {
        return None;
    }
    Some(format!(
        "phase time over the run: {} to {}  {}",
        duration(Some(first), style),
        duration(Some(last), style),
        style.spark(&means),
    ))
}

/// How its times are distributed.
fn distributions(out: &mut String, site: &SiteReport, style: Style) {
    let rows = [
        ("phase", &site.phase_ns),
        ("barrier", &site.barrier_ns),
        ("idle", &site.idle_ns),
        ("release", &site.release_ns),
        ("work", &site.work_ns),
    ];
    let known: Vec<(&str, &StatReport)> = rows
        .iter()
        .filter_map(|(what, stat)| Some((*what, stat.as_ref()?)))
        .collect();
    if known.is_empty() || site.episodes < 2 {
        return;
    }
    // One unit a row, of the size of most: release and phase times are far
    // apart, and the longest far from the mean.
    let unit = |stat: &StatReport| Unit::fitting([Some(stat.mean)]);
    let cells = |f: &dyn Fn(&StatReport) -> u64| -> Vec<String> {
        known
            .iter()
            .map(|(_, stat)| unit(stat).write(Some(f(stat))))
            .collect()
    };
    let mut table = Table::default();
    table.column(
        "  time",
        known
            .iter()
            .map(|(what, stat)| format!("  {what} {}", unit(stat).label(style)))
            .collect(),
    );
    for (title, f) in COLUMNS {
        table.column(title, cells(&f));
    }
    table.write(out, style, 24);
}

type Figure = fn(&StatReport) -> u64;

const COLUMNS: [(&str, Figure); 7] = [
    ("min", |stat| stat.min),
    ("mean", |stat| stat.mean),
    ("deviation", |stat| stat.stddev),
    ("p50", |stat| stat.p50),
    ("p95", |stat| stat.p95),
    ("p99", |stat| stat.p99),
    ("max", |stat| stat.max),
];
