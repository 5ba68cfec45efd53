//! How much longer a program takes under sbt.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::figures::{median, percent, percents};
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
pub fn demos(
    sbt: &Path,
    pairs: usize,
    scale: Option<f64>,
    cost: Cost,
    out: &mut String,
) -> Result<()> {
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
            None => long_enough(sbt, name)?,
        };
        let scale = scale.to_string();
        let program = ["__demo", name, THREADS, &scale];
        let mut ratios = Vec::new();
        let mut alone = Vec::new();
        for pair in 0..pairs {
            eprintln!("measuring: {name}, pair {}", pair + 1);
            let plain = || own_time(process::command(sbt).args(program));
            let watched = || {
                own_time(
                    process::command(sbt)
                        .args(["run", "--quiet", "--"])
                        .arg(sbt)
                        .args(program),
                )
            };
            // The second run of a pair may find the machine warmer or busier.
            let (without, with) = if pair % 2 == 0 {
                let without = plain()?;
                (without, watched()?)
            } else {
                let with = watched()?;
                (plain()?, with)
            };
            alone.push(without);
            ratios.push(with / without);
        }
        let itself: Vec<f64> = alone
            .windows(2)
            .map(|two| (two[1] / two[0] - 1.0).abs())
            .collect();
        writeln!(
            out,
            "| {name} ({:.1} s) | ≤ +1 % | **{}** | ±{:.1} % | {:+.3} % | {} |",
            median(&alone),
            percent(median(&ratios)),
            median(&itself) * 100.0,
            by_count(sbt, &program, cost)? * 100.0,
            percents(&ratios),
        )?;
    }
    Ok(())
}

/// The scale at which a program runs for [`LONG`].
fn long_enough(sbt: &Path, name: &str) -> Result<f64> {
    eprintln!("measuring: how big {name} has to be");
    let mut scale = 1.0;
    for _ in 0..6 {
        let seconds =
            own_time(process::command(sbt).args(["__demo", name, THREADS, &scale.to_string()]))?;
        if seconds >= LONG {
            break;
        }
        scale *= (1.1 * LONG / seconds.max(0.1)).clamp(1.1, 8.0);
    }
    Ok(scale)
}

/// The probes' share of a program's CPU time, computed from the number of calls.
fn by_count(sbt: &Path, program: &[&str], cost: Cost) -> Result<f64> {
    let folder = std::env::temp_dir().join(format!("sbt-bench-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let file = folder.join("report.json");
    let mut command = process::command(sbt);
    command.args(["run", "--json", "--output"]);
    command.arg(&file).arg("--").arg(sbt).args(program);
    process::read(&mut command)?;
    let report: Counts = serde_json::from_slice(&fs::read(&file)?)?;
    fs::remove_dir_all(&folder)?;
    let departures = report.own_cost.events - report.arrivals;
    let spent = report.arrivals as f64 * cost.arrival + departures as f64 * cost.departure;
    let running: u64 = report
        .threads
        .iter()
        .filter_map(|thread| thread.running_ns)
        .sum();
    Ok(spent / running as f64)
}

#[derive(Deserialize)]
struct Counts {
    arrivals: u64,
    threads: Vec<Thread>,
    own_cost: Events,
}

#[derive(Deserialize)]
struct Events {
    events: u64,
}

#[derive(Deserialize)]
struct Thread {
    running_ns: Option<u64>,
}

/// Runs a demo and returns the seconds that its last line reports.
fn own_time(command: &mut std::process::Command) -> Result<f64> {
    let text = process::read(command)?;
    text.lines()
        .last()
        .and_then(|line| line.strip_suffix(" s")?.rsplit(' ').next()?.parse().ok())
        .with_context(|| format!("the demo did not say how long it took: {text:?}"))
}

/// Measures how much later a program starts under `sbt run`, and how much later the shell returns
/// after its end.
pub fn start_up(sbt: &Path, pairs: usize, out: &mut String) -> Result<()> {
    let mut delays = Vec::new();
    for _ in 0..pairs {
        // `cat` copies the machine's uptime clock at its start.
        let before = uptime()?;
        let text = process::read(
            process::command(sbt)
                .args(["run", "--quiet", "--", "cat", "/proc/uptime"])
                .stderr(Stdio::inherit()),
        )?;
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
    Ok(())
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
