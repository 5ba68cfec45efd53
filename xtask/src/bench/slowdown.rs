//! How much longer a program takes under sbt.

use std::fmt::Write as _;
use std::fs;
use std::process::Stdio;

use anyhow::{Context, Result};

use super::figures::{median, percent, percents, ratios};
use super::peers::own_time;
use super::series::Bench;
use crate::process;

const DEMOS: [&str; 5] = ["radix", "lu-block", "lu-cyclic", "water", "ocean"];
const THREADS: &str = "4";

/// Least wall time of a program, s.
const LONG: f64 = 10.0;

/// The cost of one watched call to its thread, ns, measured in the same run.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// Cost of the probe at the arrival.
    pub arrival: f64,
    /// Additional cost of the probe at the departure.
    pub departure: f64,
}

/// Measures the demo programs with all their barriers watched and default options. The time is the
/// program's own, from its start to the end of its check.
///
/// On a shared machine, one run of ten seconds differs from the next by more than sbt costs. So the
/// table also shows how much the program's own times vary, and what the probes must have cost:
/// their number in a run times the cost of one.
pub fn demos(bench: &Bench, scale: Option<f64>, cost: Cost, out: &mut String) -> Result<()> {
    writeln!(
        out,
        "\n## Programs under sbt\n\n\
         Wall time by the program's own clock with sbt against without, {THREADS} threads, default \
         options. *Itself*: the same ratio between two runs without sbt, median of its distance \
         from 1: what the machine's noise is. *By count*: watched calls × what one costs (above) / \
         CPU time of the program.\n\n\
         | program | bar | median | itself | by count | pairs |\n|---|---|---|---|---|---|"
    )?;
    for name in DEMOS {
        let scale = match scale {
            Some(scale) => scale,
            None => long_enough(bench, name)?,
        };
        let scale = scale.to_string();
        let program = ["__demo", name, THREADS, &scale];
        let times = bench.in_turns(name, &[false, true], |is_watched| {
            let mut command = if *is_watched {
                bench.watching(&["--quiet"], &bench.sbt)
            } else {
                process::command(&bench.sbt)
            };
            own_time(command.args(program))
        })?;
        let (alone, ratios) = (&times[0], ratios(&times[1], &times[0]));
        let itself: Vec<f64> = alone
            .windows(2)
            .map(|two| (two[1] / two[0] - 1.0).abs())
            .collect();
        writeln!(
            out,
            "| {name} ({:.1} s) | ≤ +1 % | **{}** | ±{:.1} % | {:+.3} % | {} |",
            median(alone),
            percent(median(&ratios)),
            median(&itself) * 100.0,
            by_count(bench, &program, cost)? * 100.0,
            percents(&ratios),
        )?;
    }
    Ok(())
}

/// The scale at which a program runs for [`LONG`].
fn long_enough(bench: &Bench, name: &str) -> Result<f64> {
    eprintln!("measuring: how big {name} has to be");
    let mut scale = 1.0;
    for _ in 0..6 {
        let arguments = ["__demo", name, THREADS, &scale.to_string()];
        let seconds = own_time(process::command(&bench.sbt).args(arguments))?;
        if seconds >= LONG {
            break;
        }
        scale *= (1.1 * LONG / seconds.max(0.1)).clamp(1.1, 8.0);
    }
    Ok(scale)
}

/// The probes' share of a program's CPU time, computed from the number of calls.
fn by_count(bench: &Bench, program: &[&str], cost: Cost) -> Result<f64> {
    let file = format!("--output={}", bench.folder()?.join("demo.json").display());
    process::read(bench.watching(&["--json", &file], &bench.sbt).args(program))?;
    let report = bench.report("demo.json")?;
    let arrivals = report["arrivals"].as_f64().context("no arrivals")?;
    let events = report["own_cost"]["events"].as_f64().context("no events")?;
    let spent = arrivals * cost.arrival + (events - arrivals) * cost.departure;
    let threads = report["threads"].as_array().context("no threads")?;
    let running: f64 = threads
        .iter()
        .filter_map(|thread| thread["running_ns"].as_f64())
        .sum();
    Ok(spent / running)
}

/// Measures how much later a program starts under `sbt run`, and how much later the shell returns
/// after its end.
pub fn start_up(bench: &Bench, out: &mut String) -> Result<Vec<String>> {
    let mut delays = Vec::new();
    for _ in 0..bench.pairs {
        // `cat` copies the machine's uptime clock at its start.
        let before = uptime()?;
        let mut cat = bench.watching(&["--quiet"], "cat");
        let text = process::read(cat.arg("/proc/uptime").stderr(Stdio::inherit()))?;
        let started = text
            .split(' ')
            .next()
            .and_then(|seconds| seconds.parse::<f64>().ok())
            .context("cat did not print the uptime")?;
        let after = uptime()?;
        delays.push(((started - before) * 1e3, (after - started) * 1e3));
    }
    let starts: Vec<f64> = delays.iter().map(|(start, _)| *start).collect();
    let ends: Vec<f64> = delays.iter().map(|(_, end)| *end).collect();
    writeln!(
        out,
        "\n## Start and end of `sbt run`\n\n\
         | | bar | median | all |\n|---|---|---|---|\n\
         | start delayed by, ms | ≤ 50 | **{:.0}** | {} |\n\
         | prompt back after the program's end, ms | | **{:.0}** | {} |",
        median(&starts),
        list(&starts),
        median(&ends),
        list(&ends),
    )?;
    Ok(Vec::new())
}

fn list(values: &[f64]) -> String {
    let values: Vec<_> = values.iter().map(|value| format!("{value:.0}")).collect();
    values.join(", ")
}

/// Seconds since the machine started, with a resolution of 10 ms.
fn uptime() -> Result<f64> {
    fs::read_to_string("/proc/uptime")?
        .split(' ')
        .next()
        .and_then(|seconds| seconds.parse().ok())
        .context("/proc/uptime is not readable")
}
