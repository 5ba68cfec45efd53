//! The page about how a program scales: one file with plots and tables that needs no network.

use std::iter::successors;

use maud::{Markup, PreEscaped, html};

use super::{
    table::{Style, UNKNOWN, duration, percent, ratio},
    text::{limit_text, short_count},
};
use sbt_engine::{
    place::printable,
    report::{CounterUnit, counters::Counts},
    scale::{PhaseScaling, Scaling, phase_names},
    words::command_line,
};

/// Maximum number of phases in a plot.
const MOST_LINES: usize = 6;
/// Maximum number of rows in a table.
const MOST_ROWS: usize = 200;
/// Size of a plot without its labels, in pixels; `LEFT`, `TOP` and `BOTTOM` are its margins.
const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 280.0;
const LEFT: f64 = 48.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 40.0;

/// The style of figures in a page.
pub(super) const PLAIN: Style = Style {
    width: 80,
    color: false,
    unicode: true,
};

/// The beginning of a page.
const HEAD: &str = r#"<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>sbt scale</title>
<style>
:root { color-scheme: light dark; --fg: #1c1e21; --bg: #fff; --dim: #667; --grid: #dde;
  --c0: #1c1e21; --c1: #0b62c4; --c2: #c2410c; --c3: #15803d; --c4: #7e22ce; --c5: #b45309; --c6: #0e7490; }
@media (prefers-color-scheme: dark) { :root { --fg: #e6e6e6; --bg: #16181c; --dim: #99a; --grid: #334;
  --c0: #e6e6e6; --c1: #6cb0ff; --c2: #ff9a6b; --c3: #6fd58f; --c4: #c99bff; --c5: #f0c060; --c6: #67d4e8; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--fg); background: var(--bg); max-width: 62rem;
  margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.2rem; overflow-wrap: anywhere; } h2 { font-size: 1rem; margin: 1.6rem 0 .4rem; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .15rem .7rem .15rem 0; text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; white-space: normal; overflow-wrap: anywhere; min-width: 12rem; }
th { color: var(--dim); font-weight: 600; border-bottom: 1px solid var(--grid); }
svg { max-width: 100%; height: auto; } text { fill: var(--fg); font-size: 12px; }
.grid { stroke: var(--grid); } .ideal { stroke: var(--dim); stroke-dasharray: 5 4; fill: none; }
.line { fill: none; stroke-width: 1.6; } .whole { stroke-width: 3; } .key { list-style: none; padding: 0; }
.key svg { vertical-align: middle; margin-right: .4rem; } .dim { color: var(--dim); }
.why { border-left: 3px solid var(--c2); padding-left: .8rem; overflow-wrap: anywhere; }
</style></head><body>
"#;

/// A line of a plot: its name, and a value for each number of threads.
struct Line {
    name: String,
    values: Vec<Option<f64>>,
}

/// Renders the page.
pub fn page(all: &Scaling) -> String {
    let names = phase_names(&all.phases, "→");
    let body = html! {
        @if let Some(limit) = &all.limit {
            div class="why" {
                p { b { (limit_text(all, limit, "→")) } }
                @for verdict in &limit.why { p { (verdict.text) } }
            }
        }
        @if all.counts.len() > 1 {
            h2 { "Speed-up" }
            (plot(all, &speedups(all, &names), true))
            h2 { "Efficiency: 1 is perfect" }
            (plot(all, &efficiencies(all), false))
        }
        h2 { "The whole run" }
        (whole(all))
        h2 { "Phases: mean time by number of threads" }
        (phases(all, &names))
        @for counter in &all.counters {
            h2 { "Counter " (counter.name) ", work of all threads" }
            (counted(all, &names, &counter.name, counter.unit == CounterUnit::Ns))
        }
    };
    framed(&all.command, &body, &all.notes, all.version)
}

/// A whole page. Filtering all of it makes sure that no text with control characters is forgotten.
pub(super) fn framed(command: &[String], body: &Markup, notes: &[String], version: &str) -> String {
    let page = html! {
        (PreEscaped(HEAD))
        h1 { "sbt scale · " (command_line(command)) }
        (body)
        @for note in notes { p class="dim" { "note: " (note) } }
        p class="dim" { "sbt " (version) }
        (PreEscaped("</body></html>\n"))
    };
    let lines: Vec<String> = page.into_string().split('\n').map(printable).collect();
    lines.join("\n")
}

fn speedups(all: &Scaling, names: &[String]) -> Vec<Line> {
    let mut lines = vec![Line {
        name: "the whole run".into(),
        values: all.counts.iter().map(|at| at.speedup).collect(),
    }];
    let least = all.counts.first().map(|at| at.threads);
    // Phases with a different base number of threads would not be comparable.
    let compares = |phase: &&(&String, &PhaseScaling)| phase.1.base_threads == least;
    let phases = names.iter().zip(&all.phases);
    lines.extend(
        phases
            .collect::<Vec<_>>()
            .iter()
            .filter(compares)
            .take(MOST_LINES)
            .map(|(name, phase)| Line {
                name: (*name).clone(),
                values: phase.at.iter().map(|at| at.speedup).collect(),
            }),
    );
    lines
}

fn efficiencies(all: &Scaling) -> Vec<Line> {
    let line = |name: &str, f: fn(&sbt_engine::scale::AtCount) -> Option<f64>| Line {
        name: name.into(),
        values: all.counts.iter().map(f).collect(),
    };
    vec![
        line("speed-up / ideal", |at| at.scaling_efficiency),
        line("parallel efficiency", |at| at.parallel_efficiency),
        line("load balance", |at| at.load_balance),
    ]
}

fn plot(all: &Scaling, lines: &[Line], has_ideal: bool) -> Markup {
    let (Some(least), Some(most)) = (all.counts.first(), all.counts.last()) else {
        return html! {};
    };
    let ideal = f64::from(most.threads) / f64::from(least.threads);
    let values = lines
        .iter()
        .flat_map(|line| &line.values)
        .flatten()
        .copied();
    // Limit the height: a value far above the ideal would flatten all others.
    let top = if has_ideal { ideal * 1.5 } else { 1.5 };
    let high = values
        .fold(if has_ideal { ideal } else { 1.0 }, f64::max)
        .min(top);
    let x =
        |threads: u32| LEFT + f64::from(threads) / f64::from(most.threads) * (WIDTH - LEFT - 12.0);
    let y = |value: f64| TOP + (1.0 - value.clamp(0.0, high) / high) * (HEIGHT - TOP - BOTTOM);
    let step = tick(high);
    let ticks = successors(Some(0.0), |value| Some(value + step));
    let point = |threads, value| format!("{} {}", px(x(threads)), px(y(value)));
    html! {
        div class="scroll" {
            svg viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) width=(WIDTH) role="img" {
                @for value in ticks.take_while(|value| *value <= high + step / 1e6) {
                    @let at = y(value);
                    line class="grid" x1=(LEFT) x2=(px(WIDTH - 12.0)) y1=(px(at)) y2=(px(at)) {}
                    text x=(px(LEFT - 6.0)) y=(px(at + 4.0)) text-anchor="end" { (short(value)) }
                }
                @for at in &all.counts {
                    text x=(px(x(at.threads))) y=(px(HEIGHT - BOTTOM + 18.0)) text-anchor="middle" {
                        (at.threads)
                    }
                }
                text x=(px(f64::midpoint(LEFT, WIDTH))) y=(px(HEIGHT - 6.0)) text-anchor="middle" {
                    "threads"
                }
                @if has_ideal {
                    @let (from, to) = (point(least.threads, 1.0), point(most.threads, ideal));
                    path class="ideal" d=(format!("M{from}L{to}")) { title { "ideal" } }
                }
                @for (index, line) in lines.iter().enumerate() {
                    @let known = all.counts.iter().zip(&line.values);
                    @let known: Vec<(u32, f64)> =
                        known.filter_map(|(at, value)| Some((at.threads, (*value)?))).collect();
                    @let path: Vec<String> =
                        known.iter().map(|(at, value)| point(*at, *value)).collect();
                    @let color = format!("var(--c{index})");
                    @if !path.is_empty() {
                        path class=(if index == 0 { "line whole" } else { "line" }) stroke=(color)
                            d=(format!("M{}", path.join("L"))) {}
                    }
                    @for (at, value) in known {
                        circle cx=(px(x(at))) cy=(px(y(value))) r="3.5" fill=(color) {
                            title { (line.name) (format!(": {value:.2} with {at} threads")) }
                        }
                    }
                }
            }
        }
        ul class="key" {
            @for (index, line) in lines.iter().enumerate() {
                li {
                    svg width="22" height="8" {
                        line x1="0" x2="22" y1="4" y2="4" stroke=(format!("var(--c{index})"))
                            stroke-width="3" {}
                    }
                    (line.name)
                }
            }
            @if has_ideal {
                li {
                    svg width="22" height="8" {
                        line class="ideal" x1="0" x2="22" y1="4" y2="4" {}
                    }
                    "ideal"
                }
            }
        }
    }
}

/// A coordinate in a plot.
fn px(value: f64) -> String {
    format!("{value:.1}")
}

/// A round step that gives four to ten grid lines.
fn tick(high: f64) -> f64 {
    let rough = high / 5.0;
    let power = 10_f64.powf(rough.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
    steps
        .into_iter()
        .find(|step| *step >= rough)
        .unwrap_or(rough)
}

fn short(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A table, which may be wider than the page.
pub(super) fn table(
    titles: impl IntoIterator<Item = String>,
    rows: impl IntoIterator<Item = Vec<String>>,
) -> Markup {
    html! {
        div class="scroll" {
            table {
                tr { @for title in titles { th { (title) } } }
                @for row in rows {
                    tr { @for cell in row { td { (cell) } } }
                }
            }
        }
    }
}

fn whole(all: &Scaling) -> Markup {
    let titles = [
        "threads",
        "runs",
        "time",
        "fastest",
        "slowest",
        "speed-up",
        "of ideal",
        "parallel efficiency",
        "load balance",
    ];
    let rows = all.counts.iter().map(|at| {
        vec![
            at.threads.to_string(),
            at.runs.to_string(),
            duration(Some(at.wall_ns), PLAIN),
            duration(Some(at.min_wall_ns), PLAIN),
            duration(Some(at.max_wall_ns), PLAIN),
            ratio(at.speedup),
            ratio(at.scaling_efficiency),
            ratio(at.parallel_efficiency),
            ratio(at.load_balance),
        ]
    });
    table(titles.map(String::from), rows)
}

fn headings(all: &Scaling, more: &[&str]) -> impl Iterator<Item = String> {
    let counts = all.counts.iter().map(|at| format!("n={}", at.threads));
    let more = more.iter().map(|&it| it.to_owned());
    ["phase".to_owned()].into_iter().chain(counts).chain(more)
}

fn phases(all: &Scaling, names: &[String]) -> Markup {
    let rows = names.iter().zip(&all.phases).take(MOST_ROWS);
    let rows = rows.map(|(name, phase)| {
        let times = phase
            .at
            .iter()
            .map(|at| duration(at.mean_ns.or(at.sum_ns), PLAIN));
        let more = [
            ratio(phase.at.last().and_then(|at| at.speedup)),
            duration(phase.lost_ns, PLAIN),
            percent(phase.lost_pct),
        ];
        let cells = [name.clone()].into_iter().chain(times).chain(more);
        cells.collect::<Vec<_>>()
    });
    let titles = headings(all, &["speed-up", "lost against the ideal", "share"]);
    table(titles, rows)
}

fn counted(all: &Scaling, names: &[String], name: &str, is_time: bool) -> Markup {
    let value = |counts: &Counts| match counts.get(name).copied().flatten() {
        Some(ns) if is_time => duration(Some(ns), PLAIN),
        Some(value) => short_count(value),
        None => UNKNOWN.into(),
    };
    let phases = names
        .iter()
        .zip(&all.phases)
        .filter(|(_, phase)| phase.to.is_some());
    let rows = phases.take(MOST_ROWS).map(|(name, phase)| {
        let cells = phase.at.iter().map(|at| value(&at.counters));
        [name.clone()].into_iter().chain(cells).collect::<Vec<_>>()
    });
    let cells = all.counts.iter().map(|at| value(&at.counters));
    let whole = ["whole run".to_owned()].into_iter().chain(cells).collect();
    table(headings(all, &[]), rows.chain([whole]))
}
