//! For how long `sbt hang` stops a thread.

use std::fmt::Write as _;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::figures::median;
use super::series::Bench;

/// The longest that a look may stop a thread, ms.
const BAR_MS: f64 = 1.0;

/// Time for the program to begin.
const BEGINS: Duration = Duration::from_millis(300);

/// Measures for how long a thread does not get on, with and without looks at it.
pub fn stops(bench: &Bench, out: &mut String) -> Result<Vec<String>> {
    let program = bench.compile("bench/stopped.c", &["-O1", "-pthread"])?;
    let times = bench.in_turns("looks", &[false, true], |is_looked_at| {
        let child = Command::new(&program).stdout(Stdio::piped()).spawn()?;
        thread::sleep(BEGINS);
        if *is_looked_at {
            let mut hang = Command::new(&bench.sbt);
            hang.args(["hang", &child.id().to_string()]);
            let said = hang.output()?;
            let said = String::from_utf8_lossy(&said.stdout).into_owned();
            ensure!(said.contains("looks in"), "sbt hang says: {said}");
        }
        let output = child.wait_with_output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let ns: f64 = text.trim().parse().context("the program prints a number")?;
        Ok(ns / 1e6)
    })?;
    writeln!(
        out,
        "\n## Looks\n\n\
         `sbt hang` (5 looks) on a program with a thread that works, [stopped.c](stopped.c): the longest \
         time for which that thread does not get on, by its own clock, ms. Without looks it is what the \
         machine does.\n\n| | bar | median | all |\n|---|---|---|---|"
    )?;
    let rows = [
        ("without looks", String::new()),
        ("with looks", format!("≤ {BAR_MS}")),
    ];
    for ((name, bar), times) in rows.into_iter().zip(&times) {
        let all: Vec<_> = times.iter().map(|ms| format!("{ms:.2}")).collect();
        let (median, all) = (median(times), all.join(", "));
        writeln!(out, "| {name} | {bar} | **{median:.2}** | {all} |")?;
    }
    let [without, with] = [median(&times[0]), median(&times[1])];
    // A machine that stops threads for as long without looks tells nothing about looks.
    let missed =
        format!("beside looks a thread did not get on for {with:.2} ms, more than {BAR_MS} ms");
    let is_missed = with > BAR_MS && without <= BAR_MS;
    Ok(is_missed.then_some(missed).into_iter().collect())
}
