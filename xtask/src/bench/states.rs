//! The cost of each level of `--states` if threads do nothing but switch.

use std::fmt::Write as _;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

use super::figures::{median, pairs};
use super::series::{Bench, number};
use crate::process;

/// Rounds of two switches each: about a second.
const ROUNDS: &str = "150000";

const LEVELS: [&str; 3] = ["off", "light", "full"];

/// Time that sbt may take to start watching.
const START: Duration = Duration::from_millis(700);

/// Measures runs without sbt and with each level, in turn.
pub fn levels(bench: &Bench, out: &mut String) -> Result<Vec<String>> {
    let program = bench.compile("bench/switches.c", &["-O2", "-pthread"])?;
    writeln!(
        out,
        "\n## Processor states\n\n\
         [switches.c](switches.c), two threads on one CPU that hand a byte to and fro and meet at a \
         barrier after every 64 rounds: nearly nothing but switches. CPU time with sbt / without, by \
         `--states`; and of a program that is not watched, while another is.\n\n\
         | | without, ns a round | off | light | full | pairs |\n|---|---|---|---|---|---|"
    )?;
    let alone = || number(process::command(&program).arg(ROUNDS));
    let watched = |level: &str| {
        let options = ["--quiet", "--futex=off", "--states", level];
        number(bench.watching(&options, &program).arg(ROUNDS))
    };
    // sbt attaches to another program, so that killing sbt leaves no program behind.
    let beside = |level: &str| {
        let mut other = quiet(Command::new("sleep").arg("600"))?;
        let mut command = Command::new(&bench.sbt);
        command.args([
            "attach",
            "--quiet",
            "--no-tui",
            "--futex=off",
            "--states",
            level,
        ]);
        let watching = quiet(command.arg(other.id().to_string()));
        thread::sleep(START);
        let taken = alone();
        other.kill().context("cannot end sleep")?;
        other.wait().context("cannot wait for sleep")?;
        // sbt ends with the program that it watches.
        watching?.wait().context("cannot wait for sbt")?;
        taken
    };
    row(bench, out, "threads of the target", alone, watched)?;
    row(bench, out, "threads of others", alone, beside)?;
    Ok(Vec::new())
}

fn row(
    bench: &Bench,
    out: &mut String,
    what: &str,
    alone: impl Fn() -> Result<f64>,
    with: impl Fn(&str) -> Result<f64>,
) -> Result<()> {
    let mut without = Vec::new();
    let ratios = bench.in_turns(&format!("states, {what}"), &LEVELS, |level| {
        let plain = alone()?;
        without.push(plain);
        Ok(with(level)? / plain)
    })?;
    let medians: Vec<_> = ratios
        .iter()
        .map(|ratios| format!("**{:.2}**", median(ratios)))
        .collect();
    let all: Vec<_> = ratios.iter().map(|ratios| pairs(ratios)).collect();
    writeln!(
        out,
        "| {what} | {:.0} | {} | {} |",
        median(&without),
        medians.join(" | "),
        all.join("; ")
    )?;
    Ok(())
}

fn quiet(command: &mut Command) -> Result<Child> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("cannot start what is watched, or sbt")
}
