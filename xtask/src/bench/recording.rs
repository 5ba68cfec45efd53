//! The cost of `-o FILE`: for the program, for sbt itself, and on the disk.

use std::{fmt::Write as _, fs, path::Path};

use anyhow::{Context as _, Result};

use super::{
    figures::{median, pairs as listed},
    peers, row,
};
use crate::{process, workspace::Workspace};

/// Phases of a run: about two seconds.
const PHASES: &str = "20000";

/// Measures runs with a recording against runs without.
pub fn cost(workspace: &Workspace, sbt: &Path, pairs: usize, out: &mut String) -> Result<()> {
    let program = peers::phases(workspace)?;
    let folder = workspace.target.join("bench");
    fs::create_dir_all(&folder).context("making a folder for the recordings")?;
    let (report, file) = (folder.join("recorded.json"), folder.join("recorded.sbt"));
    let (mut times, mut bytes, mut each) = (Vec::new(), Vec::new(), Vec::new());
    for pair in 0..pairs {
        eprintln!("measuring: recording, pair {}", pair + 1);
        let watched = |is_recorded: bool| -> Result<(f64, f64, f64)> {
            let mut command = process::command(sbt);
            command.args([
                "run",
                "--json",
                "--no-tui",
                "--budget=off",
                "--departures=on",
            ]);
            command.arg("--output").arg(&report);
            if is_recorded {
                command.arg("-o").arg(&file);
            }
            let time = peers::own_time(command.arg("--").arg(&program).arg(PHASES))?;
            let text = fs::read_to_string(&report).context("reading the report")?;
            let found: serde_json::Value = serde_json::from_str(&text)?;
            let cost = |field: &str| found["own_cost"][field].as_f64();
            let cpu_ns = cost("cpu_ns").context("no CPU time of sbt")?;
            Ok((time, cpu_ns, cost("events").context("no events")?))
        };
        let (alone, cpu_alone_ns, _) = watched(false)?;
        let (time, cpu_ns, events) = watched(true)?;
        times.push(time / alone);
        each.push((cpu_ns - cpu_alone_ns) / events);
        bytes.push(fs::metadata(&file)?.len() as f64 / events);
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
        listed(&each),
        median(&bytes),
        listed(&bytes),
    )?;
    Ok(())
}
