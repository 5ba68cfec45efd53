//! The cost of counters at each arrival.

use std::fmt::Write as _;

use anyhow::Result;

use super::figures::{median, pairs, ratios};
use super::series::{Bench, number};

/// Passes of a barrier with one thread: a fraction of a second.
const PASSES: &str = "200000";

/// The counters: the name in the table, and the value of `--events`. Every machine has these perf
/// events.
const COUNTED: [(&str, Option<&str>); 5] = [
    ("nothing", None),
    ("1 free counter", Some("page-faults")),
    ("6 free counters", Some("free")),
    ("1 perf event", Some("alignment-faults")),
    (
        "3 perf events",
        Some("alignment-faults,emulation-faults,cgroup-switches"),
    ),
];

/// Measures runs without sbt and with each set of counters, in turn.
pub fn cost(bench: &Bench, out: &mut String) -> Result<Vec<String>> {
    let program = bench.compile("bench/alone.c", &["-O2", "-pthread"])?;
    writeln!(
        out,
        "\n## Counters\n\n\
         [alone.c](alone.c), a barrier of one thread: an arrival and nothing else (`--departures off \
         --budget off`). What an arrival takes with counters / with none, and how much that is for \
         each of them.\n\n\
         | counted | an arrival, ns | with / nothing | more for each counter, ns | pairs |\n|---|---|---|---|---|"
    )?;
    let passes = bench.in_turns("counters", &COUNTED, |(_, events)| {
        let mut options = vec!["--quiet", "--no-tui", "--budget=off"];
        options.extend(["--departures=off", "--futex=off"]);
        if let Some(events) = events {
            options.extend(["--events", events]);
        }
        number(bench.watching(&options, &program).arg(PASSES))
    })?;
    let without = &passes[0];
    for ((name, events), with) in COUNTED.iter().zip(&passes) {
        let ratios = ratios(with, without);
        let number = match events {
            None => None,
            Some("free") => Some(6.0),
            Some(events) => Some(events.split(',').count() as f64),
        };
        let more = median(with) - median(without);
        let each = number.map_or_else(String::new, |number| format!("{:.0}", more / number));
        writeln!(
            out,
            "| {name} | {:.0} | **{:.2}** | {each} | {} |",
            median(with),
            median(&ratios),
            pairs(&ratios)
        )?;
    }
    Ok(Vec::new())
}
