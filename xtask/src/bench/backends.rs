//! The cost of an arrival with each backend.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::figures::{median, pairs};
use crate::process;
use crate::workspace::Workspace;

/// Rounds of two threads, which do nothing else on their two CPUs.
const ROUNDS: u32 = 2000;
const THREADS: u32 = 2;

const BACKENDS: [(&str, &str); 3] = [("ebpf", "on"), ("perf", "off"), ("ptrace", "on")];

/// Measures runs without sbt and with each backend, in turn.
pub fn rungs(workspace: &Workspace, sbt: &Path, count: usize, out: &mut String) -> Result<()> {
    let program = workspace.target.join("bench-truth");
    let mut compiler = process::command("cc");
    compiler.args(["-O2", "-g", "-pthread", "-o"]).arg(&program);
    process::run(compiler.arg(workspace.root.join("tests/programs/truth.c")))?;
    let log = workspace.target.join("bench-truth.log");
    let rounds = format!("rounds={ROUNDS}");
    let threads = format!("threads={THREADS}");
    let to = format!("log={}", log.display());
    let arguments = [rounds.as_str(), &threads, &to];
    writeln!(
        out,
        "\n## Ways to watch\n\n\
         tests/programs/truth.c: {THREADS} threads that only come to a barrier, {ROUNDS} times; from its own log. \
         Every arrival and departure is watched (`--budget off --departures on`), by perf arrivals alone. What that takes more for each arrival, and \
         how often that is as much as with the first.\n\n\
         | `--backend` | a round without, µs | more an arrival, µs | × | pairs, µs |\n|---|---|---|---|---|"
    )?;
    let mut costs: [Vec<f64>; BACKENDS.len()] = Default::default();
    let mut without = Vec::new();
    for pair in 0..count {
        eprintln!("measuring: ways to watch, pair {}", pair + 1);
        let mut plain = process::command(&program);
        process::read(plain.args(arguments))?;
        let plain = round_us(&log)?;
        without.push(plain);
        for ((backend, departures), costs) in BACKENDS.iter().zip(&mut costs) {
            let mut command = process::command(sbt);
            command.args(["run", "--quiet", "--no-tui", "--budget=off"]);
            command.args(["--backend", backend, "--departures", departures, "--"]);
            process::read(command.arg(&program).args(arguments))?;
            costs.push(round_us(&log)? - plain);
        }
    }
    let first = median(&costs[0]);
    for ((backend, _), costs) in BACKENDS.iter().zip(&costs) {
        let cost = median(costs);
        writeln!(
            out,
            "| {backend} | {:.1} | **{cost:.1}** | {:.1} | {} |",
            median(&without),
            cost / first,
            pairs(costs)
        )?;
    }
    Ok(())
}

/// Time of each round from the first arrival to the last departure, µs.
fn round_us(log: &Path) -> Result<f64> {
    let text = std::fs::read_to_string(log).context("the program has written no log")?;
    let mut times = Vec::new();
    for line in text.lines() {
        let numbers: Vec<u64> = line
            .split(|c: char| !c.is_ascii_digit())
            .filter_map(|number| number.parse().ok())
            .collect();
        if let [_, _, _, arrival, departure] = numbers[..] {
            times.extend([arrival, departure]);
        }
    }
    let (first, last) = (times.iter().min(), times.iter().max());
    let (first, last) = first.zip(last).context("an empty log")?;
    ensure!(
        times.len() == 2 * (ROUNDS * THREADS) as usize,
        "a log that is cut off"
    );
    Ok((last - first) as f64 / 1e3 / f64::from(ROUNDS))
}
