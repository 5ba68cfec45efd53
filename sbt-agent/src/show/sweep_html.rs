//! The page about a program with several values of its parameters.

use maud::{Markup, html};

use super::{
    scale_html::{PLAIN, framed, table},
    table::{UNKNOWN, duration, percent, ratio},
    text::{limit_text, rate_text, rates_title},
};
use sbt_engine::scale::{Per, Row, Sweep};

/// Renders the page.
pub fn page(all: &Sweep) -> String {
    let titles = [
        "runs", "time", "fastest", "slowest", "speed-up", "of ideal", "idle", "balance",
    ];
    let figures = |row: &Row| {
        vec![
            row.runs.to_string(),
            duration(Some(row.wall_ns), PLAIN),
            duration(Some(row.min_wall_ns), PLAIN),
            duration(Some(row.max_wall_ns), PLAIN),
            ratio(row.speedup),
            ratio(row.scaling_efficiency),
            percent(row.idle_pct),
            ratio(row.load_balance),
        ]
    };
    let body = html! {
        h2 {
            "All runs"
            @if let Some(baseline) = all.baseline() { ", speed-up against " (baseline) }
        }
        (rows(all, &titles.map(str::to_owned), figures))
        @for one in &all.combinations {
            @if let Some(scaling) = &one.scaling && let Some(limit) = &scaling.limit {
                p class="why" {
                    (all.called(&one.parameters)) ": " (limit_text(scaling, limit, "→"))
                }
            }
        }
        @for per in [Some(Per::ThousandInstructions), Some(Per::CpuSecond), None] {
            @let same = all.counters.iter().filter(|counter| counter.per == per);
            @let same: Vec<_> = same.collect();
            @if !same.is_empty() {
                @let titles: Vec<_> = same.iter().map(|counter| counter.name.clone()).collect();
                h2 { (rates_title(per)) }
                (rows(all, &titles, |row| {
                    let cells = same.iter().map(|counter| rate_text(row, counter, PLAIN));
                    cells.collect()
                }))
            }
        }
    };
    framed(&all.command, &body, &all.notes, all.version)
}

/// A table with a row for each combination and number of threads.
fn rows(all: &Sweep, titles: &[String], cells: impl Fn(&Row) -> Vec<String>) -> Markup {
    let names = || all.parameters.iter().map(|one| &one.name);
    let heads = names().cloned().chain(["threads".to_owned()]);
    let rows = all.rows.iter().map(|one| {
        let value = |name| one.parameters.get(name).cloned().unwrap_or_default();
        let threads = one
            .threads
            .map_or(UNKNOWN.into(), |threads| threads.to_string());
        let values = names().map(value).chain([threads]);
        values.chain(cells(one)).collect::<Vec<_>>()
    });
    table(heads.chain(titles.iter().cloned()), rows)
}
