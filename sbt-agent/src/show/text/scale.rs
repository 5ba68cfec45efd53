//! A program at several numbers of threads as text: the output of `sbt scale`.

use super::{
    MOST_ROWS, Table, line, paragraph,
    phases::{arrow, title},
    rest,
    verdicts::{marked, sentence},
};
use crate::show::table::{Style, UNKNOWN, Unit, duration, percent, ratio};
use sbt_engine::{
    report::{CounterUnit, counters::Counts},
    scale::{AtCount, Limit, PhaseAt, PhaseScaling, Scaling, phase_names},
    words::command_line,
};

/// Maximum number of columns for numbers of threads.
const MOST_COLUMNS: usize = 4;
/// Minimum width of the names of phases.
const NAMES: usize = 20;

/// The output of `sbt scale`.
pub fn scale(all: &Scaling, style: Style) -> String {
    let mut out = String::new();
    let most = all.counts.iter().map(|at| at.runs).max().unwrap_or(0);
    head(&mut out, &all.command, most, style);
    whole(&mut out, all, most > 1, style);
    plot(&mut out, all, style);
    why(&mut out, all, style);
    let columns = columns(all.counts.len());
    phases(&mut out, all, &columns, style);
    for counter in &all.counters {
        counted(
            &mut out,
            all,
            &counter.name,
            counter.unit == CounterUnit::Ns,
            &columns,
            style,
        );
    }
    if !all.notes.is_empty() {
        line(&mut out, "");
    }
    for note in &all.notes {
        paragraph(&mut out, &sentence(&format!("note: {note}"), style), style);
    }
    out
}

/// What was run, and how often: `most` times at most.
pub fn head(out: &mut String, command: &[String], most: u32, style: Style) {
    let dot = if style.unicode { '·' } else { '|' };
    let command = sentence(&command_line(command), style);
    line(out, &style.bold(&format!("sbt scale {dot} {command}")));
    if most > 1 {
        let text = format!(
            "medians of {most} runs each; range: fastest to slowest run, in percent of the median"
        );
        line(out, &style.dim(&text));
    }
}

/// The columns of the times of runs: of the median, the fastest and the slowest run, ns.
pub fn times(
    table: &mut Table,
    runs: impl Iterator<Item = [u64; 3]> + Clone,
    has_ranges: bool,
    style: Style,
) {
    let medians: Vec<Option<u64>> = runs.clone().map(|[median, ..]| Some(median)).collect();
    table.durations("time", &medians, style);
    let range = |[median, least, most]: [u64; 3]| {
        let width = most.saturating_sub(least);
        percent((median > 0).then(|| width as f64 / median as f64 * 100.0))
    };
    if has_ranges {
        table.column("range", runs.map(range).collect());
    }
}

fn whole(out: &mut String, all: &Scaling, has_ranges: bool, style: Style) {
    line(out, "");
    let counts = all.counts.iter();
    let ratios = |f: fn(&AtCount) -> Option<f64>| counts.clone().map(|at| ratio(f(at))).collect();
    let threads = counts.clone().map(|at| at.threads.to_string()).collect();
    let walls = counts
        .clone()
        .map(|at| [at.wall_ns, at.min_wall_ns, at.max_wall_ns]);
    let mut table = Table::default();
    table.column("threads", threads);
    times(&mut table, walls, has_ranges, style);
    table
        .column("speed-up", ratios(|at| at.speedup))
        .column("of ideal", ratios(|at| at.scaling_efficiency))
        .column("efficiency", ratios(|at| at.parallel_efficiency))
        .column("balance", ratios(|at| at.load_balance));
    table.write(out, style, 8);
}

/// A bar for each number of threads, with the length of the ideal bar.
fn plot(out: &mut String, all: &Scaling, style: Style) {
    let Some(least) = all.counts.first().filter(|_| all.counts.len() > 1) else {
        return;
    };
    let ideal_mark = if style.unicode { "·" } else { "." };
    let mark = style.bar(1.0, 1);
    let heading = format!("SPEED-UP ({mark} measured, {ideal_mark} ideal)");
    title(out, &heading, style);
    let ideal = |threads: u32| f64::from(threads) / f64::from(least.threads);
    let speedups = all.counts.iter().filter_map(|at| at.speedup);
    let ideals = all.counts.iter().map(|at| ideal(at.threads));
    let most = speedups.chain(ideals).fold(1.0, f64::max);
    let width = style.width.saturating_sub(16).clamp(20, 64);
    let bar = |value: f64| style.bar(value / most, width).trim_end().to_owned();
    let length = |bar: &str| bar.chars().count();
    for at in &all.counts {
        let measured = bar(at.speedup.unwrap_or(0.0));
        let missing = length(&bar(ideal(at.threads))).saturating_sub(length(&measured));
        let (rest, speedup) = (ideal_mark.repeat(missing), ratio(at.speedup));
        line(
            out,
            &format!("{:>7}  {measured}{rest} {speedup}", at.threads),
        );
    }
}

/// A sentence about what limits the scaling.
pub fn limit_text(all: &Scaling, limit: &Limit, arrow: &str) -> String {
    let at = all
        .phases
        .iter()
        .position(|phase| phase.from == limit.from && phase.to == limit.to);
    let names = phase_names(&all.phases, arrow);
    let name = at.and_then(|at| names.get(at)).map_or("", String::as_str);
    let threads = all.counts.last().map_or(0, |at| at.threads);
    let how = match limit.scales_to {
        Some(to) if to < threads => format!("gets no faster with more than {to} threads"),
        Some(_) => "gets faster, but not as much as it could".into(),
        None => "gets no faster with more threads".into(),
    };
    let plain = Style {
        width: 80,
        color: false,
        unicode: true,
    };
    let lost = duration(Some(limit.lost_ns), plain);
    let share = match limit.lost_pct {
        Some(share) => format!(", {share:.0} % of what all phases lose"),
        None => String::new(),
    };
    format!("{name} {how}: {lost} more than the ideal time with {threads} threads{share}")
}

fn why(out: &mut String, all: &Scaling, style: Style) {
    let mut texts = Vec::new();
    if let Some(limit) = &all.limit {
        texts.push(limit_text(all, limit, arrow(style)));
        texts.extend(limit.why.iter().map(|verdict| verdict.text.clone()));
        if limit.why.is_empty() && limit.to.is_none() {
            texts.push(
                "this is the time after the program's last barrier, and the time that threads need \
                 to resume after each barrier"
                    .into(),
            );
        }
    } else if let Some(last) = all.counts.last().filter(|_| all.counts.len() > 1) {
        let good = last
            .scaling_efficiency
            .is_some_and(|ratio| ratio >= sbt_engine::scale::GOOD);
        let text = if good {
            format!(
                "the program scales: with {} threads the speed-up is {:.0} % of the ideal",
                last.threads,
                last.scaling_efficiency.unwrap_or(0.0) * 100.0
            )
        } else {
            "the program does not scale, and sbt knows no phase that loses time".into()
        };
        texts.push(text);
    }
    if !texts.is_empty() {
        line(out, "");
    }
    for text in texts {
        marked(out, &text, |at| at == 0, style);
    }
}

/// Indices of the numbers of threads that fit: the first, the last, and some between.
fn columns(all: usize) -> Vec<usize> {
    if all <= MOST_COLUMNS {
        return (0..all).collect();
    }
    (0..MOST_COLUMNS)
        .map(|at| at * (all - 1) / (MOST_COLUMNS - 1))
        .collect()
}

fn phases(out: &mut String, all: &Scaling, columns: &[usize], style: Style) {
    if all.phases.is_empty() {
        return;
    }
    title(
        out,
        "PHASES, mean time by number of threads; largest loss against the ideal first",
        style,
    );
    let shown: Vec<&PhaseScaling> = all.phases.iter().take(MOST_ROWS).collect();
    let names = phase_names(&all.phases, arrow(style));
    // Time outside of all phases has no episodes, and therefore no mean.
    let time = |at: &PhaseAt| at.mean_ns.or(at.sum_ns);
    let cell = |phase: &PhaseScaling, column: usize| phase.at.get(column).and_then(time);
    let values = shown
        .iter()
        .flat_map(|phase| columns.iter().map(|at| cell(phase, *at)));
    let unit = Unit::fitting(values);
    let mut table = Table::default();
    let names = names.iter().take(MOST_ROWS);
    table.column("phase", names.map(|name| sentence(name, style)).collect());
    for (order, column) in columns.iter().enumerate() {
        let threads = all.counts[*column].threads;
        let heading = if order == 0 {
            format!("{} n={threads}", unit.label(style))
        } else {
            format!("n={threads}")
        };
        let cells = shown.iter().map(|phase| unit.write(cell(phase, *column)));
        table.column(heading, cells.collect());
    }
    let speedup = |phase: &&PhaseScaling| ratio(phase.at.last().and_then(|at| at.speedup));
    let lost: Vec<Option<u64>> = shown.iter().map(|phase| phase.lost_ns).collect();
    table
        .column("speed-up", shown.iter().map(speedup).collect())
        .durations("lost", &lost, style)
        .column(
            "share",
            shown.iter().map(|phase| percent(phase.lost_pct)).collect(),
        );
    // The columns are usually 9 wide; the columns after them take 30 together.
    let room = style.width.saturating_sub(9 * columns.len() + 30);
    table.write(out, style, room.max(NAMES));
    rest(out, all.phases.len(), "phase", style);
}

/// The table of a counter per phase and number of threads.
fn counted(
    out: &mut String,
    all: &Scaling,
    name: &str,
    is_time: bool,
    columns: &[usize],
    style: Style,
) {
    let heading = format!("COUNTER {name}, in the work of all threads by number of threads");
    title(out, &sentence(&heading, style), style);
    let phases: Vec<(usize, &PhaseScaling)> = all
        .phases
        .iter()
        .enumerate()
        .filter(|(_, phase)| phase.to.is_some())
        .take(MOST_ROWS)
        .collect();
    let names = phase_names(&all.phases, arrow(style));
    let mut rows: Vec<String> = phases
        .iter()
        .map(|(at, _)| sentence(&names[*at], style))
        .collect();
    rows.push("whole run".into());
    let write = |counts: Option<&Counts>| {
        let value = counts.and_then(|counts| counts.get(name).copied().flatten());
        match value {
            Some(ns) if is_time => duration(Some(ns), style),
            Some(value) => short_count(value),
            None => UNKNOWN.into(),
        }
    };
    let mut table = Table::default();
    table.column("phase", rows);
    for column in columns {
        let at = &all.counts[*column];
        let mut cells: Vec<String> = phases
            .iter()
            .map(|(_, phase)| write(phase.at.get(*column).map(|at| &at.counters)))
            .collect();
        cells.push(write(Some(&at.counters)));
        table.column(format!("n={}", at.threads), cells);
    }
    let room = style.width.saturating_sub(10 * columns.len());
    table.write(out, style, room.max(NAMES));
}

/// A count in a few characters: `1234`, `12.3 k`, `1.23 G`.
pub fn short_count(value: u64) -> String {
    let real = value as f64;
    let (scaled, unit) = match value {
        0..10_000 => return value.to_string(),
        10_000..1_000_000 => (real / 1e3, "k"),
        1_000_000..1_000_000_000 => (real / 1e6, "M"),
        1_000_000_000..1_000_000_000_000 => (real / 1e9, "G"),
        _ => (real / 1e12, "T"),
    };
    let decimals = match scaled {
        ..9.995 => 2,
        ..99.95 => 1,
        _ => 0,
    };
    format!("{scaled:.decimals$} {unit}")
}
