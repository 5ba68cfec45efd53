//! How much longer a program takes under sbt.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result};

use super::figures::median;
use super::row;
use crate::process;

const DEMOS: [&str; 5] = ["radix", "lu-block", "lu-cyclic", "water", "ocean"];
const THREADS: &str = "4";

/// The built-in programs with all their barriers watched, default options. The
/// time is the program's own, from its start to the end of its check.
pub fn demos(sbt: &Path, pairs: usize, scale: f64, out: &mut String) -> Result<()> {
    writeln!(
        out,
        "\n## Programs under sbt\n\n\
         Wall time by the program's own clock with sbt against without, {THREADS} threads, default \
         options.\n\n| program | bar | median | pairs |\n|---|---|---|---|"
    )?;
    let scale = scale.to_string();
    for name in DEMOS {
        let mut ratios = Vec::new();
        let mut alone = Vec::new();
        for pair in 0..pairs {
            eprintln!("measuring: {name}, pair {}", pair + 1);
            let plain = || own_time(process::command(sbt).args(["__demo", name, THREADS, &scale]));
            let watched = || {
                own_time(
                    process::command(sbt)
                        .args(["run", "--quiet", "--"])
                        .arg(sbt)
                        .args(["__demo", name, THREADS, &scale]),
                )
            };
            // Whoever comes second may find the machine warmer or busier.
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
        let what = format!("{name} ({:.1} s)", median(&alone));
        row(out, &what, "≤ +1 %", &ratios)?;
    }
    Ok(())
}

/// Runs a demo and returns the seconds that its last line reports.
fn own_time(command: &mut std::process::Command) -> Result<f64> {
    let text = process::read(command)?;
    text.lines()
        .last()
        .and_then(|line| line.strip_suffix(" s")?.rsplit(' ').next()?.parse().ok())
        .with_context(|| format!("the demo did not say how long it took: {text:?}"))
}

/// How much later a program starts under `sbt run`, and how much longer it is
/// until the shell is back after its end.
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

/// Seconds since the machine has started, to 10 ms.
fn uptime() -> Result<f64> {
    fs::read_to_string("/proc/uptime")?
        .split(' ')
        .next()
        .and_then(|seconds| seconds.parse().ok())
        .context("/proc/uptime is not readable")
}
