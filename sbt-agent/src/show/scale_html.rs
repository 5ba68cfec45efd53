//! The page about how a program scales: one file with plots and tables that needs no network.

use std::fmt::Write as _;

use super::{
    table::{Style, UNKNOWN, duration, percent},
    text::{limit_text, short_count},
};
use sbt_engine::{
    place::printable,
    report::CounterUnit,
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
pub(super) const HEAD: &str = r#"<!doctype html>
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
    let mut out = HEAD.to_owned();
    let command = escaped(&command_line(&all.command));
    let _ = writeln!(out, "<h1>sbt scale · {command}</h1>");
    why(&mut out, all);
    let names = phase_names(&all.phases, "→");
    if all.counts.len() > 1 {
        out.push_str("<h2>Speed-up</h2>\n");
        plot(&mut out, all, &speedups(all, &names), true);
        out.push_str("<h2>Efficiency: 1 is perfect</h2>\n");
        plot(&mut out, all, &efficiencies(all), false);
    }
    out.push_str("<h2>The whole run</h2>\n");
    whole(&mut out, all);
    out.push_str("<h2>Phases: mean time by number of threads</h2>\n");
    phases(&mut out, all, &names);
    for counter in &all.counters {
        let name = &counter.name;
        let _ = writeln!(
            out,
            "<h2>Counter {}, work of all threads</h2>",
            escaped(name)
        );
        counted(&mut out, all, &names, name, counter.unit == CounterUnit::Ns);
    }
    for note in &all.notes {
        let _ = writeln!(out, "<p class=\"dim\">note: {}</p>", escaped(note));
    }
    let _ = writeln!(
        out,
        "<p class=\"dim\">sbt {}</p></body></html>",
        escaped(all.version)
    );
    out
}

/// Escapes a text, so that it cannot end an element or an attribute, and holds no control
/// characters.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in printable(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

fn why(out: &mut String, all: &Scaling) {
    let Some(limit) = &all.limit else { return };
    let _ = writeln!(
        out,
        "<div class=\"why\"><p><b>{}</b></p>",
        escaped(&limit_text(all, limit, "→"))
    );
    for verdict in &limit.why {
        let _ = writeln!(out, "<p>{}</p>", escaped(&verdict.text));
    }
    out.push_str("</div>\n");
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

fn plot(out: &mut String, all: &Scaling, lines: &[Line], has_ideal: bool) {
    let (Some(least), Some(most)) = (all.counts.first(), all.counts.last()) else {
        return;
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
    let _ = writeln!(
        out,
        "<div class=\"scroll\"><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" role=\"img\">"
    );
    let step = tick(high);
    let mut value = 0.0;
    while value <= high + step / 1e6 {
        let at = y(value);
        let _ = writeln!(
            out,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            WIDTH - 12.0,
            LEFT - 6.0,
            at + 4.0,
            short(value),
        );
        value += step;
    }
    for at in &all.counts {
        let _ = writeln!(
            out,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            x(at.threads),
            HEIGHT - BOTTOM + 18.0,
            at.threads,
        );
    }
    let _ = writeln!(
        out,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">threads</text>",
        f64::midpoint(LEFT, WIDTH),
        HEIGHT - 6.0,
    );
    if has_ideal {
        let (a, b) = (least.threads, most.threads);
        let _ = writeln!(
            out,
            "<path class=\"ideal\" d=\"M{:.1} {:.1}L{:.1} {:.1}\"><title>ideal</title></path>",
            x(a),
            y(1.0),
            x(b),
            y(ideal),
        );
    }
    for (index, line) in lines.iter().enumerate() {
        let known = all.counts.iter().zip(&line.values);
        let points: Vec<(u32, f64)> = known
            .filter_map(|(at, value)| Some((at.threads, (*value)?)))
            .collect();
        let path: Vec<String> = points
            .iter()
            .map(|(at, value)| format!("{:.1} {:.1}", x(*at), y(*value)))
            .collect();
        if path.is_empty() {
            continue;
        }
        let class = if index == 0 { "line whole" } else { "line" };
        let name = escaped(&line.name);
        let _ = writeln!(
            out,
            "<path class=\"{class}\" stroke=\"var(--c{index})\" d=\"M{}\"/>",
            path.join("L"),
        );
        for (at, value) in points {
            let _ = writeln!(
                out,
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3.5\" fill=\"var(--c{index})\">\
                 <title>{name}: {value:.2} with {at} threads</title></circle>",
                x(at),
                y(value),
            );
        }
    }
    out.push_str("</svg></div>\n");
    key(out, lines, has_ideal);
}

/// The legend: which line is which.
fn key(out: &mut String, lines: &[Line], has_ideal: bool) {
    out.push_str("<ul class=\"key\">\n");
    for (index, line) in lines.iter().enumerate() {
        let _ = writeln!(
            out,
            "<li><svg width=\"22\" height=\"8\"><line x1=\"0\" x2=\"22\" y1=\"4\" y2=\"4\" \
             stroke=\"var(--c{index})\" stroke-width=\"3\"/></svg>{}</li>",
            escaped(&line.name),
        );
    }
    if has_ideal {
        out.push_str(
            "<li><svg width=\"22\" height=\"8\"><line class=\"ideal\" x1=\"0\" x2=\"22\" y1=\"4\" \
             y2=\"4\"/></svg>ideal</li>\n",
        );
    }
    out.push_str("</ul>\n");
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

/// A row of a table; `tag`: the element of its cells.
pub(super) fn row(out: &mut String, tag: &str, cells: impl Iterator<Item = String>) {
    out.push_str("<tr>");
    for cell in cells {
        let _ = write!(out, "<{tag}>{}</{tag}>", escaped(&cell));
    }
    out.push_str("</tr>\n");
}

/// A ratio with two decimals.
pub(super) fn ratio(value: Option<f64>) -> String {
    value.map_or_else(|| UNKNOWN.into(), |value| format!("{value:.2}"))
}

fn whole(out: &mut String, all: &Scaling) {
    out.push_str("<div class=\"scroll\"><table>\n");
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
    row(out, "th", titles.into_iter().map(String::from));
    for at in &all.counts {
        let cells = [
            at.threads.to_string(),
            at.runs.to_string(),
            duration(Some(at.wall_ns), PLAIN),
            duration(Some(at.min_wall_ns), PLAIN),
            duration(Some(at.max_wall_ns), PLAIN),
            ratio(at.speedup),
            ratio(at.scaling_efficiency),
            ratio(at.parallel_efficiency),
            ratio(at.load_balance),
        ];
        row(out, "td", cells.into_iter());
    }
    out.push_str("</table></div>\n");
}

fn headings(all: &Scaling, more: &[&str]) -> Vec<String> {
    let counts = all.counts.iter().map(|at| format!("n={}", at.threads));
    let more = more.iter().map(|&it| it.to_owned());
    ["phase".to_owned()]
        .into_iter()
        .chain(counts)
        .chain(more)
        .collect()
}

fn phases(out: &mut String, all: &Scaling, names: &[String]) {
    out.push_str("<div class=\"scroll\"><table>\n");
    row(
        out,
        "th",
        headings(all, &["speed-up", "lost against the ideal", "share"]).into_iter(),
    );
    for (name, phase) in names.iter().zip(&all.phases).take(MOST_ROWS) {
        let times = phase
            .at
            .iter()
            .map(|at| duration(at.mean_ns.or(at.sum_ns), PLAIN));
        let more = [
            ratio(phase.at.last().and_then(|at| at.speedup)),
            duration(phase.lost_ns, PLAIN),
            percent(phase.lost_pct),
        ];
        row(
            out,
            "td",
            [name.clone()].into_iter().chain(times).chain(more),
        );
    }
    out.push_str("</table></div>\n");
}

fn counted(out: &mut String, all: &Scaling, names: &[String], name: &str, is_time: bool) {
    let write = |value: Option<u64>| match value {
        Some(ns) if is_time => duration(Some(ns), PLAIN),
        Some(value) => short_count(value),
        None => UNKNOWN.into(),
    };
    let value =
        |counts: &sbt_engine::report::counters::Counts| write(counts.get(name).copied().flatten());
    out.push_str("<div class=\"scroll\"><table>\n");
    row(out, "th", headings(all, &[]).into_iter());
    let phases = names
        .iter()
        .zip(&all.phases)
        .filter(|(_, phase)| phase.to.is_some());
    for (name, phase) in phases.take(MOST_ROWS) {
        let cells = phase.at.iter().map(|at| value(&at.counters));
        row(out, "td", [name.clone()].into_iter().chain(cells));
    }
    let cells = all.counts.iter().map(|at| value(&at.counters));
    row(out, "td", ["whole run".to_owned()].into_iter().chain(cells));
    out.push_str("</table></div>\n");
}
