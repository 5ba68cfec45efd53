//! The cost of watching to a program that does nothing but call its barrier: thinned out to the
//! default budget, and in full.

use std::fmt::Write as _;

use anyhow::{Result, ensure};

use super::figures::{median, percent, percents, ratios};
use super::series::{Bench, number};
use crate::process;

/// Barriers of a run: enough that most of them come after the first moments, which are watched in
/// full.
const ROUNDS: &str = "rounds=400000";

/// Measures pairs of runs without and with sbt, and writes a table.
pub fn compare(bench: &Bench, out: &mut String) -> Result<Vec<String>> {
    let program = bench.compile("tests/programs/rapid.c", &["-O2", "-fopenmp"])?;
    let report = format!("--output={}", bench.folder()?.join("rapid.json").display());
    let mut seen = Vec::new();
    let times = bench.in_turns(
        "a rapid program",
        &[None, Some("2"), Some("off")],
        |budget| {
            let Some(budget) = budget else {
                return number(process::command(&program).arg(ROUNDS));
            };
            let options = ["--json", "--budget", budget, &report];
            let ns = number(bench.watching(&options, &program).arg(ROUNDS))?;
            let found = bench.report("rapid.json")?;
            ensure!(
                found["arrivals"] == 2 * 400_001,
                "arrivals are not all counted: {}",
                found["arrivals"]
            );
            seen.extend(found["own_cost"]["thinned"]["observed_pct"].as_f64());
            Ok(ns)
        },
    )?;
    let rates: Vec<f64> = times[0].iter().map(|ns| 400_000.0 / (ns / 1e9)).collect();
    let [thinned, whole] = [1, 2].map(|way| ratios(&times[way], &times[0]));
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
    Ok(Vec::new())
}
