//! The cost of counters at each arrival.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result};

use super::figures::{median, pairs};
use crate::process;
use crate::workspace::Workspace;

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
pub fn cost(workspace: &Workspace, sbt: &Path, count: usize, out: &mut String) -> Result<()> {
    let program = workspace.target.join("bench-alone");
    let mut compiler = process::command("cc");
    compiler.args(["-O2", "-pthread", "-o"]).arg(&program);
    process::run(compiler.arg(workspace.root.join("bench/alone.c")))?;
    writeln!(
        out,
        "\n## Counters\n\n\
         [alone.c](alone.c), a barrier of one thread: an arrival and nothing else (`--departures off \
         --budget off`). What an arrival takes with counters / with none, and how much that is for \
         each of them.\n\n\
         | counted | an arrival, ns | with / nothing | more for each counter, ns | pairs |\n|---|---|---|---|---|"
    )?;
    let mut passes: [Vec<f64>; COUNTED.len()] = Default::default();
    for pair in 0..count {
        eprintln!("measuring: counters, pair {}", pair + 1);
        for ((_, events), passes) in COUNTED.iter().zip(&mut passes) {
            let mut command = process::command(sbt);
            command.args(["run", "--quiet", "--no-tui", "--budget=off"]);
            command.args(["--departures=off", "--futex=off"]);
            if let Some(events) = events {
                command.args(["--events", events]);
            }
            let text = process::read(command.arg("--").arg(&program).arg(PASSES))?;
            let pass: f64 = text.trim().parse().context("expected a number of ns")?;
            passes.push(pass);
        }
    }
    let [without, ..] = &passes;
    for ((name, events), with) in COUNTED.iter().zip(&passes) {
        let ratios: Vec<f64> = with.iter().zip(without).map(|(a, b)| a / b).collect();
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
    Ok(())
}
