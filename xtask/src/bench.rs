//! What sbt costs, as ratios within one run: `bench/RESULTS.md`.
//!
//! Timings wander on shared machines, so everything is measured in pairs, with
//! and without, in turns, and the median of the pairs' ratios counts.

mod figures;
mod peers;
mod slowdown;

use std::fmt::Write as _;
use std::fs;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::process;
use crate::workspace::Workspace;
use figures::{median, pairs, percent};

/// Options of `cargo xtask bench`.
#[derive(clap::Args)]
pub struct Args {
    /// Pairs of runs; the bars ask for at least 7
    #[arg(long, default_value_t = 7)]
    pairs: usize,
    /// Size of the demo programs: 2.4 runs for 10 s or more
    #[arg(long, default_value_t = 2.4)]
    scale: f64,
    /// Without the demo programs and the peers: a minute instead of many
    #[arg(long)]
    quick: bool,
    /// Without the peers
    #[arg(long)]
    no_peers: bool,
}

#[derive(Deserialize)]
struct ProbePair {
    call: f64,
    empty: f64,
    arrival: f64,
    empty_pair: f64,
    both: f64,
}

#[derive(Deserialize)]
struct Engine {
    threads: u32,
    sites: u32,
    ns_per_event: f64,
    million_per_second: f64,
    rss_mib: f64,
}

/// Measures everything and writes the results.
pub fn run(args: &Args) -> Result<()> {
    let workspace = Workspace::locate()?;
    let mut out = header()?;
    let mut build = process::command(process::cargo());
    build
        .args([
            "build",
            "--release",
            "--package",
            "sbt-agent",
            "--bin",
            "sbt",
        ])
        .current_dir(&workspace.root)
        .env("CARGO_TARGET_DIR", &workspace.target);
    process::run(&mut build)?;
    let sbt = workspace.target.join("release/sbt");

    probes(&workspace, args.pairs.max(7), &mut out)?;
    engine(&workspace, &mut out)?;
    slowdown::start_up(&sbt, args.pairs, &mut out)?;
    if !args.quick {
        slowdown::demos(&sbt, args.pairs, args.scale, &mut out)?;
    }
    if !args.quick && !args.no_peers {
        peers::compare(&workspace, &sbt, args.pairs, &mut out)?;
    }
    let path = workspace.root.join("bench/RESULTS.md");
    fs::write(&path, out).with_context(|| format!("cannot write {}", path.display()))?;
    eprintln!("wrote bench/RESULTS.md");
    Ok(())
}

fn header() -> Result<String> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let model = read("/proc/cpuinfo")
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .map_or_else(String::new, |name| {
            name.trim_matches([' ', '\t', ':']).to_owned()
        });
    let cpus = std::thread::available_parallelism().context("counting CPUs")?;
    let date = process::read(process::command("date").args(["-u", "+%Y-%m-%d"]))?;
    Ok(format!(
        "# What sbt costs\n\n\
         Written by `cargo xtask bench`. Every figure is a ratio of two measurements taken in turns \
         within one run; absolute times only show the size of things.\n\n\
         {model}, {cpus} CPUs, Linux {}, {}\n",
        read("/proc/sys/kernel/osrelease").trim(),
        date.trim()
    ))
}

fn bench(workspace: &Workspace, name: &str, arguments: &[String]) -> Result<String> {
    eprintln!("measuring: {name}");
    process::read(
        process::command(process::cargo())
            .args([
                "bench",
                "--quiet",
                "--package",
                "sbt-agent",
                "--bench",
                name,
                "--",
            ])
            .args(arguments)
            .current_dir(&workspace.root)
            .env("CARGO_TARGET_DIR", &workspace.target),
    )
}

fn lines<T: for<'a> Deserialize<'a>>(text: &str) -> Vec<T> {
    text.lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}

fn probes(workspace: &Workspace, count: usize, out: &mut String) -> Result<()> {
    let text = bench(workspace, "probes", &[count.to_string()])?;
    let rows: Vec<ProbePair> = lines(&text);
    let of = |f: &dyn Fn(&ProbePair) -> f64| -> Vec<f64> { rows.iter().map(f).collect() };
    let arrival = of(&|row| row.arrival / row.empty);
    let both = of(&|row| row.both / row.empty_pair);
    writeln!(
        out,
        "\n## One watched call\n\n\
         A program passes a barrier of one in a loop ({:.0} ns a call without probes). U: an empty \
         program at the same place, {:.0} ns here; with a return probe {:.0} ns.\n\n\
         | | bar | median | pairs |\n|---|---|---|---|\n\
         | arrival / empty uprobe | ≤ 1.35 | **{:.2}** | {} |\n\
         | arrival + departure / empty uprobe + empty uretprobe | ≤ 1.30 | **{:.2}** | {} |",
        median(&of(&|row| row.call)),
        median(&of(&|row| row.empty)),
        median(&of(&|row| row.empty_pair)),
        median(&arrival),
        pairs(&arrival),
        median(&both),
        pairs(&both),
    )?;
    Ok(())
}

fn engine(workspace: &Workspace, out: &mut String) -> Result<()> {
    let text = bench(workspace, "engine", &[])?;
    let rows: Vec<Engine> = lines(&text);
    writeln!(
        out,
        "\n## From the ring to the model\n\n\
         Records decoded and taken into the model on one core; bar: ≥ 1 million events a second, \
         and a cost that does not grow with threads or sites.\n\n\
         | threads | sites | ns an event | million events/s | memory MiB |\n|---|---|---|---|---|"
    )?;
    for row in rows {
        writeln!(
            out,
            "| {} | {} | {:.0} | **{:.1}** | {:.1} |",
            row.threads, row.sites, row.ns_per_event, row.million_per_second, row.rss_mib
        )?;
    }
    Ok(())
}

/// A line of a table: what, bar, median, pairs.
fn row(out: &mut String, what: &str, bar: &str, ratios: &[f64]) -> Result<()> {
    writeln!(
        out,
        "| {what} | {bar} | **{}** | {} |",
        percent(median(ratios)),
        ratios
            .iter()
            .map(|ratio| percent(*ratio))
            .collect::<Vec<_>>()
            .join(", ")
    )?;
    Ok(())
}
