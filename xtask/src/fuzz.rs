//! Runs the parsers of foreign bytes on random input: `tests/fuzz`, with libFuzzer.
//!
//! The branch counters that guide libFuzzer are stable compiler options, so that neither nightly
//! nor a tool besides cargo is needed.

use std::fs::{self, File};
use std::path::Path;
use std::thread;

use anyhow::{Context, Result, bail};

use crate::machine::{checked, checked_folder};
use crate::process;
use crate::workspace::Workspace;

/// Options of `cargo xtask fuzz`.
#[derive(clap::Args)]
pub struct Args {
    /// For how long each target is run, seconds
    #[arg(long, default_value_t = 60)]
    seconds: u32,
    /// Same inputs in every run, as CI has them; by default others each time
    #[arg(long)]
    seed: Option<u32>,
    /// The target; all of them side by side, if none is named
    target: Option<String>,
}

/// Longest input, bytes.
const LONGEST: u32 = 64 << 10;
/// Longest time for one input, s.
const SLOWEST: u32 = 10;
/// Most memory that an input may take, MiB.
const MEMORY: u32 = 2048;
/// Prefix of the line in which a target prints its number of inputs.
const INPUTS: &str = "stat::number_of_executed_units:";
/// Lines of a target's output that are shown when an input breaks it.
const LAST_LINES: usize = 60;

/// Builds the targets and runs them. An input that breaks a target stays in `target/fuzz`.
pub fn run(args: &Args) -> Result<()> {
    let workspace = Workspace::locate()?;
    let folder = workspace.root.join("tests/fuzz");
    let targets = targets(&folder.join("targets"))?;
    let chosen: Vec<&String> = match &args.target {
        Some(name) => targets.iter().filter(|target| *target == name).collect(),
        None => targets.iter().collect(),
    };
    if chosen.is_empty() {
        bail!("there is no such target; there are {}", targets.join(", "));
    }
    // Dependencies are those of the tests: only the project's own crates are compiled
    // again, with counters and checks.
    process::run(
        checked(&workspace, "build")
            .args(["--locked", "--package", "sbt-fuzz"])
            .env("CARGO_INCREMENTAL", "0")
            .env(
                "RUSTC_WORKSPACE_WRAPPER",
                folder.join("rustc-with-counters"),
            ),
    )?;
    // All targets run at once, even with fewer CPUs: each gets its full time.
    let broken: Vec<&str> = thread::scope(|scope| {
        let (workspace, folder) = (&workspace, &folder);
        let all: Vec<_> = chosen
            .into_iter()
            .map(|target| scope.spawn(move || (target, fuzz(workspace, folder, target, args))))
            .collect();
        all.into_iter()
            .filter_map(|run| {
                let (target, ended) = run.join().expect("no panic");
                eprintln!("{:#}", ended.err()?);
                Some(target.as_str())
            })
            .collect()
    });
    if !broken.is_empty() {
        bail!("an input breaks {}", broken.join(", "));
    }
    Ok(())
}

/// Runs one target; its output is shown only if an input breaks it.
fn fuzz(workspace: &Workspace, folder: &Path, target: &str, args: &Args) -> Result<()> {
    let built = workspace.target.join("fuzz");
    let found = built.join("inputs").join(target);
    fs::create_dir_all(&found)?;
    let log = built.join(format!("{target}.log"));
    let mut fuzzer = process::command(checked_folder(workspace).join(format!("fuzz-{target}")));
    fuzzer
        // libFuzzer writes new inputs to the first folder.
        .arg(&found)
        .arg(folder.join("corpus").join(target))
        .arg(format!("-max_total_time={}", args.seconds))
        .arg(format!("-max_len={LONGEST}"))
        .arg(format!("-timeout={SLOWEST}"))
        .arg(format!("-rss_limit_mb={MEMORY}"))
        .arg(format!("-artifact_prefix={}/{target}-", built.display()))
        .arg("-print_final_stats=1")
        .stderr(File::create(&log)?);
    if let Some(seed) = args.seed {
        fuzzer.arg(format!("-seed={seed}"));
    }
    let ended = process::run(&mut fuzzer);
    let told = fs::read(&log)?;
    let told = String::from_utf8_lossy(&told);
    if let Err(error) = ended {
        let lines: Vec<&str> = told.lines().collect();
        let last = &lines[lines.len().saturating_sub(LAST_LINES)..];
        bail!("{}\n{error:#}", last.join("\n"));
    }
    let inputs = told
        .lines()
        .find_map(|line| line.strip_prefix(INPUTS))
        .with_context(|| format!("{target} has run no inputs: see {}", log.display()))?;
    eprintln!("{target}: {} inputs, none breaks it", inputs.trim());
    Ok(())
}

/// Names of the targets, sorted.
fn targets(folder: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for file in fs::read_dir(folder)? {
        let path = file?.path();
        if let Some(name) = path.file_stem() {
            names.push(name.to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}
