//! Feeds what reads foreign bytes with bytes that nobody meant: `tests/fuzz`, by libFuzzer.
//!
//! The counters at every branch that guide it are options of the compiler's stable part, so
//! that neither nightly nor a tool beside cargo is needed.

use std::fs::{self, File};
use std::path::Path;
use std::thread;

use anyhow::{Context, Result, bail};

use crate::machine::TESTED;
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

/// No input of interest is longer, bytes.
const LONGEST: u32 = 64 << 10;
/// Of one input, seconds.
const SLOWEST: u32 = 10;
/// More memory than this is none that an input may cost, MiB.
const MEMORY: u32 = 2048;
/// How a target says how many inputs it has run.
const INPUTS: &str = "stat::number_of_executed_units:";
/// So much of what a target prints before an input breaks it is told.
const LAST_LINES: usize = 60;

/// Builds the targets and runs them; an input that breaks one stays in `target/fuzz`.
pub fn run(args: &Args) -> Result<()> {
    let workspace = Workspace::locate()?;
    let folder = workspace.root.join("tests/fuzz");
    let targets = targets(&folder.join("targets"))?;
    let chosen: Vec<&String> = match &args.target {
        Some(name) => targets.iter().filter(|it| *it == name).collect(),
        None => targets.iter().collect(),
    };
    if chosen.is_empty() {
        bail!("there is no such target; there are {}", targets.join(", "));
    }
    // The libraries are those of the tests: only the project's own crates are
    // compiled anew, with counters and checks.
    process::run(
        process::command(process::cargo())
            .args(["build", "--profile", TESTED, "--locked"])
            .args(["--package", "sbt-fuzz"])
            .current_dir(&workspace.root)
            .env("CARGO_TARGET_DIR", &workspace.target)
            .env("CARGO_INCREMENTAL", "0")
            .env(
                "RUSTC_WORKSPACE_WRAPPER",
                folder.join("rustc-with-counters"),
            ),
    )?;
    // All at once, also where there are fewer CPUs: each has its time.
    let broken: Vec<&str> = thread::scope(|scope| {
        let (workspace, folder) = (&workspace, &folder);
        let all: Vec<_> = chosen
            .into_iter()
            .map(|target| scope.spawn(move || (target, fuzz(workspace, folder, target, args))))
            .collect();
        all.into_iter()
            .filter_map(|it| {
                let (target, ended) = it.join().expect("no panic");
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

/// Runs one target; what it prints is told only if an input breaks it.
fn fuzz(workspace: &Workspace, folder: &Path, target: &str, args: &Args) -> Result<()> {
    let built = workspace.target.join("fuzz");
    let found = built.join("inputs").join(target);
    fs::create_dir_all(&found)?;
    let log = built.join(format!("{target}.log"));
    let mut fuzzer = process::command(workspace.target.join(format!("{TESTED}/fuzz-{target}")));
    fuzzer
        // New ones go to the first folder.
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

/// Their names, in order.
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
