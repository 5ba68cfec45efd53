//! The cost of `-o FILE`: for the program, for sbt itself, and on the disk.

use std::{fmt::Write as _, fs};

use anyhow::{Context as _, Result};

use super::{
    figures::{median, pairs},
    peers, row,
    series::Bench,
};

/// Phases of a run: about two seconds.
const PHASES: &str = "20000";

/// Measures runs with a recording against runs without.
pub fn cost(bench: &Bench, out: &mut String) -> Result<Vec<String>> {
    let program = peers::phases(bench)?;
    let folder = bench.folder()?;
    let report = format!("--output={}", folder.join("recorded.json").display());
    let file = folder.join("recorded.sbt");
    let record = format!("--record={}", file.display());
    let options = [
        "--json",
        "--no-tui",
        "--budget=off",
        "--departures=on",
        &report,
    ];
    let runs = bench.in_turns("recording", &[None, Some(record.as_str())], |record| {
        let options: Vec<&str> = options.into_iter().chain(*record).collect();
        let time = peers::own_time(bench.watching(&options, &program).arg(PHASES))?;
        let found = bench.report("recorded.json")?;
        let cost = |field: &str| found["own_cost"][field].as_f64();
        let cpu_ns = cost("cpu_ns").context("no CPU time of sbt")?;
        let bytes = record.map_or(Ok(0), |_| fs::metadata(&file).map(|file| file.len()))?;
        Ok((time, cpu_ns, cost("events").context("no events")?, bytes))
    })?;
    let (mut times, mut bytes, mut each) = (Vec::new(), Vec::new(), Vec::new());
    for (alone, with) in runs[0].iter().zip(&runs[1]) {
        times.push(with.0 / alone.0);
        each.push((with.1 - alone.1) / with.2);
        bytes.push(with.3 as f64 / with.2);
    }
    writeln!(
        out,
        "\n## Recordings\n\n\
         A program of two threads, [phases.c](phases.c), arrivals and departures, with \
         `-o FILE` against without.\n\n| | bar | median | pairs |\n|---|---|---|---|"
    )?;
    row(out, "wall time of the program", "no more", &times)?;
    writeln!(
        out,
        "| CPU time of sbt more, ns an event | | **{:.0}** | {} |\n\
         | file, bytes an event | | **{:.1}** | {} |",
        median(&each),
        pairs(&each),
        median(&bytes),
        pairs(&bytes),
    )?;
    Ok(Vec::new())
}
