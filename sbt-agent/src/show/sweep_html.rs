//! The page about a program with several values of its parameters.

use std::fmt::Write as _;

use super::{
    scale_html::{HEAD, PLAIN, escaped, ratio, row},
    table::{UNKNOWN, duration, percent},
    text::{limit_text, rate_text, rates_title},
};
use sbt_engine::{
    scale::{Per, Row, Sweep},
    words::command_line,
};

/// Renders the page.
pub fn page(all: &Sweep) -> String {
    let mut out = HEAD.to_owned();
    let command = escaped(&command_line(&all.command));
    let _ = writeln!(out, "<h1>sbt scale · {command}</h1>");
    let heading = match all.baseline() {
        Some(baseline) => format!("All runs, speed-up against {baseline}"),
        None => "All runs".into(),
    };
    let _ = writeln!(out, "<h2>{}</h2>", escaped(&heading));
    let titles = [
        "runs", "time", "fastest", "slowest", "speed-up", "of ideal", "idle", "balance",
    ];
    table(&mut out, all, &titles.map(str::to_owned), |row| {
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
    });
    for one in &all.combinations {
        let Some(scaling) = &one.scaling else {
            continue;
        };
        if let Some(limit) = &scaling.limit {
            let called = all.called(&one.parameters);
            let text = format!("{called}: {}", limit_text(scaling, limit, "→"));
            let _ = writeln!(out, "<p class=\"why\">{}</p>", escaped(&text));
        }
    }
    for per in [Some(Per::ThousandInstructions), Some(Per::CpuSecond), None] {
        let same = all.counters.iter().filter(|counter| counter.per == per);
        let same: Vec<_> = same.collect();
        if same.is_empty() {
            continue;
        }
        let _ = writeln!(out, "<h2>{}</h2>", escaped(&rates_title(per)));
        let titles: Vec<String> = same.iter().map(|counter| counter.name.clone()).collect();
        table(&mut out, all, &titles, |row| {
            let cells = same.iter().map(|counter| rate_text(row, counter, PLAIN));
            cells.collect()
        });
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

/// A table with a row for each combination and number of threads.
fn table(out: &mut String, all: &Sweep, titles: &[String], cells: impl Fn(&Row) -> Vec<String>) {
    out.push_str("<div class=\"scroll\"><table>\n");
    let names = all.parameters.iter().map(|one| one.name.clone());
    let heads = names.chain(["threads".to_owned()]);
    row(out, "th", heads.chain(titles.iter().cloned()));
    for one in &all.rows {
        let value = |name: &String| one.parameters.get(name).cloned().unwrap_or_default();
        let values = all
            .parameters
            .iter()
            .map(|parameter| value(&parameter.name));
        let threads = one
            .threads
            .map_or(UNKNOWN.into(), |threads| threads.to_string());
        row(out, "td", values.chain([threads]).chain(cells(one)));
    }
    out.push_str("</table></div>\n");
}
