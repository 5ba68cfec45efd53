//! The cost of watching to a program that does nothing but call its barrier: thinned out to the
//! default budget, and in full.

use std::{fmt::Write as _, fs, path::Path, process::Command};

use anyhow::{Context as _, Result, ensure};

use super::figures::{median, percent, percents};
use crate::{process, workspace::Workspace};

/// Barriers of a run: enough that most of them come after the first moments, which are watched in
/// full.
const ROUNDS: &str = "rounds=400000";

/// Measures pairs of runs without and with sbt, and writes a table.
pub fn compare(workspace: &Workspace, sbt: &Path, pairs: usize, out: &mut String) -> Result<()> {
    let folder = workspace.target.join("bench");
    fs::create_dir_all(&folder).context("making a folder for the program")?;
    let program = folder.join("rapid");
    process::read(
        Command::new("gcc")
            .args(["-O2", "-fopenmp", "-o"])
            .arg(&program)
            .arg(workspace.root.join("tests/programs/rapid.c")),
    )
    .context("building tests/programs/rapid.c")?;
    let report = folder.join("rapid.json");
    let (mut thinned, mut whole, mut rates, mut seen) = (vec![], vec![], vec![], vec![]);
    for _ in 0..pairs {
        let alone = took(Command::new(&program).arg(ROUNDS))?;
        rates.push(400_000.0 / alone);
        for (ratios, budget) in [(&mut thinned, "2"), (&mut whole, "off")] {
            let mut command = process::command(sbt);
            command
                .args(["run", "--json", "--budget", budget, "--output"])
                .arg(&report)
                .arg("--")
                .arg(&program)
                .arg(ROUNDS);
            ratios.push(took(&mut command)? / alone);
            let text = fs::read_to_string(&report).context("reading the report")?;
            let found: serde_json::Value = serde_json::from_str(&text)?;
            ensure!(
                found["arrivals"] == 2 * 400_001,
                "arrivals are not all counted: {}",
                found["arrivals"]
            );
            seen.extend(found["own_cost"]["thinned"]["observed_pct"].as_f64());
        }
    }
    writeln!(
        out,
        "\n## A program that does nothing but come to its barrier\n\n\
         Two threads of OpenMP, {:.0} arrivals a second and thread unwatched. All arrivals were counted \
         in each run. The time is that of the whole run: it is watched in full for the first tenth of a second or so.\n\n\
         | | bar | median | pairs |\n|---|---|---|---|\n\
         | with the default budget of 2 %, {:.0} % of the time seen | | **{}** | {} |\n\
         | in full, `--budget off` | | **{}** | {} |",
        median(&rates),
        median(&seen),
        percent(median(&thinned)),
        percents(&thinned),
        percent(median(&whole)),
        percents(&whole),
    )?;
    Ok(())
}

/// The program's own time between its barriers, s.
fn took(command: &mut Command) -> Result<f64> {
    let text = process::read(command)?;
    let ns: f64 = text
        .trim()
        .parse()
        .context("the program did not print how long it took")?;
    Ok(ns / 1e9)
}
