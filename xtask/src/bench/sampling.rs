//! The cost of `--sample` to the program.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Result;

use super::{peers, row};
use crate::process;
use crate::workspace::Workspace;

/// Samples per second.
const RATES: [&str; 4] = ["100", "200", "500", "5000"];

/// Phases of a run: about two seconds.
const PHASES: &str = "20000";

/// Measures runs with samples against runs without.
pub fn cost(workspace: &Workspace, sbt: &Path, pairs: usize, out: &mut String) -> Result<()> {
    let program = peers::phases(workspace)?;
    writeln!(
        out,
        "\n## Samples\n\n\
         A program of two threads, [phases.c](phases.c), under `sbt run --sample HZ`: wall \
         time by its own clock against `sbt run` alone. `0` is another run without: what the machine's \
         noise is.\n\n| samples a second | bar | median | pairs |\n|---|---|---|---|"
    )?;
    for rate in ["0"].iter().chain(&RATES) {
        let mut ratios = Vec::new();
        for pair in 0..pairs {
            eprintln!("measuring: --sample {rate}, pair {}", pair + 1);
            let time = |rate: &str| {
                let mut command = process::command(sbt);
                command.args(["run", "--quiet", "--no-tui", "--sample", rate, "--"]);
                peers::own_time(command.arg(&program).arg(PHASES))
            };
            let alone = time("0")?;
            ratios.push(time(rate)? / alone);
        }
        row(out, rate, "", &ratios)?;
    }
    Ok(())
}
