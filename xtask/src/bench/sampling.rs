//! The cost of `--sample` to the program.

use std::fmt::Write as _;

use anyhow::Result;

use super::figures::ratios;
use super::series::Bench;
use super::{peers, row};

/// Samples per second.
const RATES: [&str; 5] = ["0", "100", "200", "500", "5000"];

/// Phases of a run: about two seconds.
const PHASES: &str = "20000";

/// Measures runs with samples against runs without.
pub fn cost(bench: &Bench, out: &mut String) -> Result<Vec<String>> {
    let program = peers::phases(bench)?;
    writeln!(
        out,
        "\n## Samples\n\n\
         A program of two threads, [phases.c](phases.c), under `sbt run --sample HZ`: wall \
         time by its own clock against `sbt run` alone. `0` is another run without: what the machine's \
         noise is.\n\n| samples a second | bar | median | pairs |\n|---|---|---|---|"
    )?;
    for rate in RATES {
        let times = bench.in_turns(&format!("--sample {rate}"), &["0", rate], |rate| {
            let options = ["--quiet", "--no-tui", "--sample", rate];
            peers::own_time(bench.watching(&options, &program).arg(PHASES))
        })?;
        row(out, rate, "", &ratios(&times[1], &times[0]))?;
    }
    Ok(Vec::new())
}
