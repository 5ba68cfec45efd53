//! A program at several numbers of threads as text: the output of `sbt scale`.

use super::{
    MOST_ROWS, Table, line, paragraph,
    phases::{arrow, title},
    rest,
    verdicts::sentence,
    wrapped,
};
use crate::show::table::{Style, UNKNOWN, Unit, duration, percent};
use sbt_engine::{
    report::{CounterUnit, counters::Counts},
    scale::{Limit, PhaseAt, PhaseScaling, Scaling, phase_names},
    words::command_line,
};

/// Maximum number of columns for numbers of threads.
const MOST_COLUMNS: usize = 4;
/// Minimum width of the names of phases.
const NAMES: usize = 20;

/// The output of `sbt scale`.
pub fn scale(all: &Scaling, style: Style) -> String {
    let mut out = String::new();
    let dot = if style.unicode { '·' } else { '|' };
    let command = sentence(&command_line(&all.command), style);
    line(&mut out, &style.bold(&format!("sbt scale {dot} {command}")));
    whole(&mut out, all, style);
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

fn whole(out: &mut String, all: &Scaling, style: Style) {
    let counts = &all.counts;
    let runs: Vec<u32> = counts.iter().map(|at| at.runs).collect();
    let most = runs.iter().max().copied().unwrap_or(0);
    if most > 1 {
        let text = format!(
            "medians of {most} runs each; range: fastest to slowest run, in percent of the median"
        );
        line(out, &style.dim(&text));
    }
    line(out, "");
    let ratio =
        |value: Option<f64>| value.map_or_else(|| UNKNOWN.into(), |value| format!("{value:.2}"));
    let ratios = |f: fn(&sbt_engine::scale::AtCount) -> Option<f64>| {
        counts
            .iter()
            .map(|at| ratio(f(at)))
            .collect::<Vec<String>>()
    };
    let range = |at: &sbt_engine::scale::AtCount| {
        let width = at.max_wall_ns.saturating_sub(at.min_wall_ns);
        percent((at.wall_ns > 0).then(|| width as f64 / at.wall_ns as f64 * 100.0))
    };
    let mut table = Table::default();
    table
        .column(
            "threads",
            counts.iter().map(|at| at.threads.to_string()).collect(),
        )
        .durations(
            "time",
            &counts.iter().map(|at| Some(at.wall_ns)).collect::<Vec<_>>(),
            style,
        );
    if most > 1 {
        table.column("range", counts.iter().map(range).collect());
    }
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
    let (mark, ideal_mark) = if style.unicode {
        ('█', '·')
    } else {
        ('#', '.')
    };
    title(
        out,
        &format!("SPEED-UP ({mark} measured, {ideal_mark} ideal)"),
        style,
    );
    let ideal = |threads: u32| f64::from(threads) / f64::from(least.threads);
    let speedups = all.counts.iter().filter_map(|at| at.speedup);
    let ideals = all.counts.iter().map(|at| ideal(at.threads));
    let most = speedups.chain(ideals).fold(1.0, f64::max);
    let width = style.width.saturating_sub(16).clamp(20, 64);
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a small width"
    )]
    let length = |value: f64| (value / most * width as f64).round() as usize;
    for at in &all.counts {
        let measured = length(at.speedup.unwrap_or(0.0));
        let rest = length(ideal(at.threads)).saturating_sub(measured);
        let bar: String = std::iter::repeat_n(mark, measured)
            .chain(std::iter::repeat_n(ideal_mark, rest))
            .collect();
        let speedup = at
            .speedup
            .map_or_else(|| UNKNOWN.into(), |value| format!("{value:.2}"));
        line(out, &format!("{:>7}  {bar} {speedup}", at.threads));
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
    let mark = if style.unicode { '▶' } else { '>' };
    for text in texts {
        for (at, part) in wrapped(&sentence(&text, style), style.width - 2)
            .iter()
            .enumerate()
        {
            let part = format!("{} {part}", if at == 0 { mark } else { ' ' });
            line(out, &if at == 0 { style.bold(&part) } else { part });
        }
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
    let speedup = |phase: &&PhaseScaling| {
        let last = phase.at.last().and_then(|at| at.speedup);
        last.map_or_else(|| UNKNOWN.into(), |value| format!("{value:.2}"))
    };
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
