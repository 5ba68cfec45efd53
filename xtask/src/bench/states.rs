//! The cost of each level of `--states` if threads do nothing but switch.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

use super::figures::{median, pairs};
use crate::process;
use crate::workspace::Workspace;

/// Rounds of two switches each: about a second.
const ROUNDS: &str = "150000";

const LEVELS: [&str; 3] = ["off", "light", "full"];

/// Time that sbt may take to start watching.
const START: Duration = Duration::from_millis(700);

/// Measures runs without sbt and with each level, in turn.
pub fn levels(workspace: &Workspace, sbt: &Path, count: usize, out: &mut String) -> Result<()> {
    let program = workspace.target.join("bench-switches");
    let mut compiler = process::command("cc");
    compiler.args(["-O2", "-pthread", "-o"]).arg(&program);
    process::run(compiler.arg(workspace.root.join("bench/switches.c")))?;
    writeln!(
        out,
        "\n## Processor states\n\n\
         [switches.c](switches.c), two threads on one CPU that hand a byte to and fro and meet at a \
         barrier after every 64 rounds: nearly nothing but switches. CPU time with sbt / without, by \
         `--states`; and of a program that is not watched, while another is.\n\n\
         | | without, ns a round | off | light | full | pairs |\n|---|---|---|---|---|---|"
    )?;
    let alone = || round_ns(process::command(&program).arg(ROUNDS));
    let watched = |level: &str| {
        let mut command = process::command(sbt);
        command.args(["run", "--quiet", "--futex=off", "--states", level, "--"]);
        round_ns(command.arg(&program).arg(ROUNDS))
    };
    // sbt attaches to another program, so that killing sbt leaves no program behind.
    let beside = |level: &str| {
        let mut other = quiet(Command::new("sleep").arg("600"))?;
        let mut command = Command::new(sbt);
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
        let taken = round_ns(process::command(&program).arg(ROUNDS));
        other.kill().context("cannot end sleep")?;
        other.wait().context("cannot wait for sleep")?;
        // sbt ends with the program that it watches.
        watching?.wait().context("cannot wait for sbt")?;
        taken
    };
    row(out, "threads of the target", count, alone, watched)?;
    row(out, "threads of others", count, alone, beside)
}

fn row(
    out: &mut String,
    what: &str,
    count: usize,
    alone: impl Fn() -> Result<f64>,
    with: impl Fn(&str) -> Result<f64>,
) -> Result<()> {
    let mut without = Vec::new();
    let mut ratios: [Vec<f64>; LEVELS.len()] = Default::default();
    for pair in 0..count {
        eprintln!("measuring: states, {what}, pair {}", pair + 1);
        for (level, ratios) in LEVELS.iter().zip(&mut ratios) {
            let plain = alone()?;
            ratios.push(with(level)? / plain);
            without.push(plain);
        }
    }
    let [off, light, full] = ratios.each_ref().map(|ratios| median(ratios));
    let all: Vec<_> = ratios.iter().map(|ratios| pairs(ratios)).collect();
    writeln!(
        out,
        "| {what} | {:.0} | **{off:.2}** | **{light:.2}** | **{full:.2}** | {} |",
        median(&without),
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

/// The time of a round as the program prints it at its end, ns.
fn round_ns(command: &mut Command) -> Result<f64> {
    let text = process::read(command)?;
    text.trim()
        .parse()
        .with_context(|| format!("expected a number: {text:?}"))
}
