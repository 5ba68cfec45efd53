//! The same program under other tools that do the nearest job.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::row;
use crate::process;
use crate::test::require_tools;
use crate::workspace::Workspace;

const TOOLS: [(&str, &str); 4] = [
    ("gcc", "gcc"),
    ("strace", "strace"),
    ("ltrace", "ltrace"),
    ("bpftrace", "bpftrace"),
];

/// Phases of a run: about five seconds, and one.
const LONG: &str = "50000";
const SHORT: &str = "10000";

const PROBE: &str = "uprobe:libc:pthread_barrier_wait { @[tid] = count(); @last[tid] = nsecs; }";

/// Watches a program of short phases with each tool in turn.
pub fn compare(workspace: &Workspace, sbt: &Path, pairs: usize, out: &mut String) -> Result<()> {
    require_tools(&TOOLS)?;
    let program = phases(workspace)?;
    writeln!(
        out,
        "\n## Against other tools\n\n\
         Two threads, phases of 100 µs ([phases.c](phases.c)): wall time by the program's own clock \
         against the program alone. The others write nothing or count only; none of them tells \
         phases or waits.\n\n| under | bar | median | pairs |\n|---|---|---|---|"
    )?;
    // Those that stop the program at each call are not to take all day.
    let tools: [(&str, &str, &[&str]); 5] = [
        ("sbt run", LONG, &["SBT", "run", "--quiet", "--"]),
        (
            "sbt run --departures off",
            LONG,
            &["SBT", "run", "--quiet", "--departures", "off", "--"],
        ),
        (
            "bpftrace, uprobe, count()",
            LONG,
            &["bpftrace", "-q", "-e", PROBE, "-c"],
        ),
        (
            "strace -f -e futex",
            SHORT,
            &["strace", "-f", "-e", "trace=futex", "-o", "/dev/null"],
        ),
        (
            "ltrace -f -e pthread_barrier_wait",
            SHORT,
            &[
                "ltrace",
                "-f",
                "-e",
                "pthread_barrier_wait",
                "-o",
                "/dev/null",
            ],
        ),
    ];
    for (name, phases, prefix) in tools {
        let mut ratios = Vec::new();
        for pair in 0..pairs {
            eprintln!("measuring: {name}, pair {}", pair + 1);
            let alone = own_time(process::command(&program).arg(phases))?;
            let mut command = prefixed(prefix, sbt);
            // One argument for bpftrace, which has a command of its own there.
            if prefix.last() == Some(&"-c") {
                command.arg(format!("{} {phases}", program.display()));
            } else {
                command.arg(&program).arg(phases);
            }
            match own_time(&mut command) {
                Ok(with) => ratios.push(with / alone),
                Err(error) => {
                    eprintln!("{name}: {error:#}");
                    break;
                }
            }
        }
        if ratios.is_empty() {
            writeln!(out, "| {name} | | does not work here | |")?;
            continue;
        }
        row(out, name, "sbt is the least", &ratios)?;
    }
    Ok(())
}

/// The program of two threads with phases of 100 µs.
pub fn phases(workspace: &Workspace) -> Result<PathBuf> {
    let program = workspace.target.join("bench-phases");
    process::run(
        process::command("gcc")
            .args(["-O2", "-g", "-pthread", "-o"])
            .arg(&program)
            .arg(workspace.root.join("bench/phases.c")),
    )?;
    Ok(program)
}

fn prefixed(prefix: &[&str], sbt: &Path) -> Command {
    let mut command = match prefix[0] {
        "SBT" => process::command(sbt),
        tool => process::command(tool),
    };
    command.args(&prefix[1..]);
    command
}

/// Runs the program, whose standard output is its own time in seconds.
pub fn own_time(command: &mut Command) -> Result<f64> {
    let text = process::read(command)?;
    text.lines()
        .find_map(|line| line.strip_prefix("seconds ")?.trim().parse().ok())
        .with_context(|| format!("the program did not say how long it took: {text:?}"))
}
