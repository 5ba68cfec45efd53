//! The cost of an arrival with each backend.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::figures::{median, pairs};
use super::series::Bench;
use crate::process;

/// Rounds of two threads, which do nothing else on their two CPUs.
const ROUNDS: u32 = 2000;
const THREADS: u32 = 2;

/// Without sbt, and with each backend: whether it watches departures.
const WAYS: [Option<(&str, &str)>; 4] = [
    None,
    Some(("ebpf", "on")),
    Some(("perf", "off")),
    Some(("ptrace", "on")),
];

/// Measures runs without sbt and with each backend, in turn.
pub fn rungs(bench: &Bench, out: &mut String) -> Result<Vec<String>> {
    let program = bench.compile("tests/programs/truth.c", &["-O2", "-g", "-pthread"])?;
    let log = bench.folder()?.join("truth.log");
    let arguments = [
        format!("rounds={ROUNDS}"),
        format!("threads={THREADS}"),
        format!("log={}", log.display()),
    ];
    writeln!(
        out,
        "\n## Ways to watch\n\n\
         tests/programs/truth.c: {THREADS} threads that only come to a barrier, {ROUNDS} times; from its own log. \
         Every arrival and departure is watched (`--budget off --departures on`), by perf arrivals alone. What that takes more for each arrival, and \
         how often that is as much as with the first.\n\n\
         | `--backend` | a round without, µs | more an arrival, µs | × | pairs, µs |\n|---|---|---|---|---|"
    )?;
    let rounds = bench.in_turns("ways to watch", &WAYS, |way| {
        let mut command = match way {
            None => process::command(&program),
            Some((backend, departures)) => {
                let which = ["--backend", backend, "--departures", departures];
                let options = [&["--quiet", "--no-tui", "--budget=off"], &which[..]].concat();
                bench.watching(&options, &program)
            }
        };
        process::read(command.args(&arguments))?;
        round_us(&log)
    })?;
    let mut first = None;
    for (way, with) in WAYS.iter().zip(&rounds) {
        let Some((backend, _)) = way else { continue };
        let costs: Vec<f64> = with.iter().zip(&rounds[0]).map(|(a, b)| a - b).collect();
        let cost = median(&costs);
        writeln!(
            out,
            "| {backend} | {:.1} | **{cost:.1}** | {:.1} | {} |",
            median(&rounds[0]),
            cost / *first.get_or_insert(cost),
            pairs(&costs)
        )?;
    }
    Ok(Vec::new())
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
