//! Phases by the sites at both ends, conceptual phases, marks, and warnings.

use super::{
    MOST_ROWS, Table, count, counters, duration, each, line, name_of, percent, rest, sites,
    thread_name, usage::factors,
};
use crate::show::table::{Style, UNKNOWN};
use sbt_engine::report::{ConceptualReport, IntervalReport, PhaseReport, Report, StatReport};

pub fn title(out: &mut String, text: &str, style: Style) {
    line(out, "");
    line(out, &style.bold(text));
}

pub fn arrow(style: Style) -> &'static str {
    if style.unicode { "→" } else { "->" }
}

fn figure(stat: Option<&StatReport>, f: fn(&StatReport) -> u64) -> Option<u64> {
    stat.map(f)
}

/// Warnings about barrier times above the limit.
pub fn warnings(out: &mut String, report: &Report, style: Style) {
    for warning in report.warnings.iter().take(MOST_ROWS) {
        let text = format!(
            "warning: {} of {} took longer than {} at the barrier, the worst {}",
            super::plural(warning.episodes, "episode"),
            name_of(report, warning.site),
            duration(Some(warning.limit_ns), style),
            duration(Some(warning.worst_ns), style),
        );
        line(out, &style.bold(&text));
    }
}

/// Columns of a bar, and of a line in which there is room for it.
const BAR: usize = 20;
const WIDE: usize = 110;

/// The wall time of a phase as a bar, in proportion to the longest: until the first thread arrives, and
/// from then until the last.
fn bar(phase: &PhaseReport, longest_ns: u64, style: Style) -> String {
    let share = phase.sum_ns() as f64 / longest_ns.max(1) as f64;
    let barrier = phase.barrier_pct().unwrap_or(0.0) / 100.0;
    style.stacked([share * (1.0 - barrier), share * barrier], BAR)
}

/// Phases by the sites at both ends, if these say more than the sites alone.
pub fn phases(out: &mut String, report: &Report, style: Style) {
    let ways = |to: u32| {
        let from_somewhere = |phase: &&PhaseReport| phase.to == to && phase.from.is_some();
        report.phases.iter().filter(from_somewhere).count()
    };
    let several = report.phases.iter().any(|phase| ways(phase.to) > 1);
    if !several && report.conceptual_phases.is_empty() {
        return;
    }
    title(out, "PHASES, from barrier to barrier", style);
    let mut all: Vec<&PhaseReport> = report.phases.iter().collect();
    let sum = |phase: &PhaseReport| phase.phase_ns.as_ref().map(|stat| stat.sum);
    all.sort_by_key(|phase| std::cmp::Reverse(sum(phase)));
    let shown: Vec<&PhaseReport> = all.iter().take(MOST_ROWS).copied().collect();
    let names = shown.iter().map(|phase| {
        let from = phase
            .from
            .map_or_else(|| "start".into(), |id| name_of(report, id));
        format!("{from} {} {}", arrow(style), name_of(report, phase.to))
    });
    let column =
        |f: fn(&StatReport) -> u64| each(&shown, |phase| figure(phase.phase_ns.as_ref(), f));
    let mut table = Table::default();
    table
        .column("phase", names.collect())
        .column(
            "times",
            shown.iter().map(|phase| count(phase.episodes)).collect(),
        )
        .durations("sum", &column(|stat| stat.sum), style)
        .durations("mean", &column(|stat| stat.mean), style)
        .durations("p95", &column(|stat| stat.p95), style)
        .durations("max", &column(|stat| stat.max), style)
        .column(
            "barrier",
            shown
                .iter()
                .map(|phase| percent(phase.barrier_pct()))
                .collect(),
        );
    let bars = style.width >= WIDE;
    if bars {
        let longest = shown.first().map_or(0, |phase| phase.sum_ns());
        let bar = |phase: &&PhaseReport| bar(phase, longest, style);
        let title = format!("until the first arrives {}", style.shade());
        table.column(title, shown.iter().map(bar).collect());
    }
    let other_columns = if bars { 57 + BAR + 8 } else { 57 };
    table.write(
        out,
        style,
        style.width.saturating_sub(other_columns).max(20),
    );
    rest(out, all.len(), "phase", style);
}

/// Phases that the user has named.
pub fn conceptual(out: &mut String, report: &Report, style: Style) {
    if report.conceptual_phases.is_empty() {
        return;
    }
    title(out, "CONCEPTUAL PHASES, with all barriers between", style);
    let shown: Vec<&ConceptualReport> = report.conceptual_phases.iter().collect();
    let column =
        |f: fn(&StatReport) -> u64| each(&shown, |phase| figure(phase.phase_ns.as_ref(), f));
    let times =
        |phase: &&ConceptualReport| count(phase.phase_ns.as_ref().map_or(0, |stat| stat.count));
    let idle = |phase: &&ConceptualReport| {
        let all = phase.idle_ns + phase.work_ns;
        percent((all > 0).then(|| phase.idle_ns as f64 / all as f64 * 100.0))
    };
    let mut table = Table::default();
    table
        .column(
            "phase",
            shown.iter().map(|phase| phase.name.clone()).collect(),
        )
        .column("times", shown.iter().map(times).collect())
        .durations("sum", &column(|stat| stat.sum), style)
        .durations("mean", &column(|stat| stat.mean), style)
        .durations("p95", &column(|stat| stat.p95), style)
        .durations("max", &column(|stat| stat.max), style)
        .column(
            "episodes",
            shown.iter().map(|phase| count(phase.episodes)).collect(),
        )
        .column("idle", shown.iter().map(idle).collect());
    table.write(out, style, 24);
    for phase in shown {
        counters::between(out, report, &phase.name, &phase.counters, style);
        let counts = phase.threads.iter().take(MOST_ROWS);
        let counts: Vec<_> = counts
            .map(|thread| (thread.thread, &thread.counters))
            .collect();
        counters::of_threads(out, report, &counts, style);
        if let Some(trend) = sites::trend(&phase.trend, style) {
            line(out, &format!("  {}: {trend}", phase.name));
        }
        if let Some(it) = &phase.efficiency {
            let text = format!("  {}: {}", phase.name, factors(it, style));
            line(out, &text);
        }
        if phase.unfinished {
            let text = format!("  {}: one more phase had begun, but not ended", phase.name);
            line(out, &style.dim(&text));
        }
        if phase.abandoned > 0 {
            let text = format!(
                "  {}: {} abandoned, since sbt did not see the whole phase",
                phase.name,
                super::plural(phase.abandoned, "time")
            );
            line(out, &style.dim(&text));
        }
    }
}

/// The number of times that marks were passed, and the times between marks.
pub fn marks(out: &mut String, report: &Report, style: Style) {
    if report.marks.is_empty() {
        return;
    }
    title(out, "MARKS", style);
    let known = |number: Option<u64>| number.map_or_else(|| UNKNOWN.into(), count);
    let mut table = Table::default();
    table
        .column(
            "mark",
            report.marks.iter().map(|mark| mark.name.clone()).collect(),
        )
        .column(
            "at",
            report.marks.iter().map(|mark| mark.at.clone()).collect(),
        )
        .column(
            "passed",
            report.marks.iter().map(|mark| known(mark.hits)).collect(),
        )
        .column(
            "threads",
            report
                .marks
                .iter()
                .map(|mark| known(mark.hits.map(|_| mark.threads.len() as u64)))
                .collect(),
        );
    table.write(out, style, 32);
    if report.intervals.is_empty() {
        return;
    }
    title(out, "BETWEEN MARKS, by thread", style);
    let mark = |id: u32| {
        let found = report.marks.iter().find(|mark| mark.id == id);
        found.map_or_else(String::new, |mark| mark.name.clone())
    };
    let mut all: Vec<&IntervalReport> = report.intervals.iter().collect();
    all.sort_by_key(|interval| std::cmp::Reverse(interval.time_ns.as_ref().map(|stat| stat.sum)));
    let shown: Vec<&IntervalReport> = all.iter().take(MOST_ROWS).copied().collect();
    let names = shown.iter().map(|interval| {
        format!(
            "{} {} {}",
            mark(interval.from),
            arrow(style),
            mark(interval.to)
        )
    });
    let column =
        |f: fn(&StatReport) -> u64| each(&shown, |interval| figure(interval.time_ns.as_ref(), f));
    let times =
        |interval: &&IntervalReport| count(interval.time_ns.as_ref().map_or(0, |stat| stat.count));
    let mut table = Table::default();
    table
        .column("interval", names.collect())
        .column("times", shown.iter().map(times).collect())
        .durations("sum", &column(|stat| stat.sum), style)
        .durations(
            "running",
            &each(&shown, |interval| interval.running_ns),
            style,
        )
        .durations("mean", &column(|stat| stat.mean), style)
        .durations("p95", &column(|stat| stat.p95), style)
        .durations("max", &column(|stat| stat.max), style);
    table.write(out, style, style.width.saturating_sub(52).max(20));
    rest(out, all.len(), "interval", style);
    for interval in &shown {
        let names = [mark(interval.from), mark(interval.to)].join(&format!(" {} ", arrow(style)));
        counters::between(out, report, &names, &interval.counters, style);
    }
    for interval in shown.iter().filter(|interval| interval.threads.len() > 1) {
        let title = format!(
            "  {} {} {}:",
            mark(interval.from),
            arrow(style),
            mark(interval.to)
        );
        line(out, &title);
        for thread in interval.threads.iter().take(MOST_ROWS) {
            let text = format!(
                "    {}: {} times, {}",
                thread_name(report, thread.thread),
                count(thread.count),
                duration(Some(thread.time_ns), style),
            );
            line(out, &text);
        }
        let counts = interval.threads.iter().take(MOST_ROWS);
        let counts: Vec<_> = counts
            .map(|thread| (thread.thread, &thread.counters))
            .collect();
        counters::of_threads(out, report, &counts, style);
    }
}
