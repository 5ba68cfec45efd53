//! CPU time of sbt itself while it watches, with and without the live screen.

use std::fmt::Write as _;
use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::series::Bench;
use crate::tty::Tty;

/// Episodes per second, threads, and the bar.
const LOADS: [(u32, u32, &str); 3] = [(1000, 8, "≤ 2 %"), (100, 8, ""), (0, 8, "~0")];

/// Columns and rows of the terminal.
const SIZE: (u16, u16) = (120, 40);

/// Time to wait until sbt has read the program's symbols, and (`LOOK`) time to measure.
const START: Duration = Duration::from_secs(4);
const LOOK: Duration = Duration::from_secs(15);

/// Measures sbt's share of a CPU and writes a table.
pub fn share(bench: &Bench, out: &mut String) -> Result<Vec<String>> {
    let program = bench.compile("bench/paced.c", &["-O2", "-pthread"])?;
    writeln!(
        out,
        "\n## sbt itself\n\n\
         CPU time of sbt, of one CPU, while it watches [paced.c](paced.c) for {} s: with the live \
         screen at {} × {}, and with `--no-tui`.\n\n\
         | episodes/s | threads | bar | with the screen | without |\n|---|---|---|---|---|",
        LOOK.as_secs(),
        SIZE.0,
        SIZE.1
    )?;
    for (rate, threads, bar) in LOADS {
        eprintln!("measuring: sbt itself at {rate} episodes a second");
        let seconds = (START + LOOK).as_secs() + 30;
        let command = |options: &[&str]| {
            let mut command = Command::new(&bench.sbt);
            command.arg("run").args(options).arg("--").arg(&program);
            command.args([u64::from(threads), rate.into(), seconds].map(|n| n.to_string()));
            command
        };
        let tty = Tty::start(&mut command(&[]), SIZE)?;
        let with = used_pct(tty.id())?;
        drop(tty);
        let mut plain = command(&["--no-tui", "-q"]);
        let mut child = plain
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("starting sbt")?;
        let without = used_pct(child.id());
        interrupt(child.id());
        child.wait().context("waiting for sbt")?;
        let without = without?;
        writeln!(
            out,
            "| {rate} | {threads} | {bar} | **{with:.2} %** | {without:.2} % |"
        )?;
    }
    Ok(Vec::new())
}

/// CPU time of a process, per cent of one CPU.
fn used_pct(pid: u32) -> Result<f64> {
    thread::sleep(START);
    let (begin, before) = (Instant::now(), used_ns(pid)?);
    thread::sleep(LOOK);
    let used = used_ns(pid)?.saturating_sub(before);
    Ok(used as f64 / begin.elapsed().as_nanos() as f64 * 100.0)
}

/// CPU time of all threads of a process, ns.
fn used_ns(pid: u32) -> Result<u64> {
    let mut sum = 0;
    let folder = format!("/proc/{pid}/task");
    for thread in fs::read_dir(&folder).with_context(|| format!("reading {folder}"))? {
        let path = thread.context("a thread")?.path().join("schedstat");
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let first = text.split_whitespace().next();
        sum += first
            .and_then(|first| first.parse::<u64>().ok())
            .unwrap_or(0);
    }
    Ok(sum)
}

fn interrupt(pid: u32) {
    if let Ok(pid) = i32::try_from(pid) {
        let pid = nix::unistd::Pid::from_raw(pid);
        let _gone = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT);
    }
}
