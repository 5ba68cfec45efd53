//! Feeds what reads foreign bytes with bytes that nobody meant: `tests/fuzz`, by libFuzzer.
//!
//! The counters at every branch that guide it are options of the compiler's stable part, so
//! that neither nightly nor a tool beside cargo is needed.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

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
    /// The target; all of them one after the other if none is named
    target: Option<String>,
}

/// No input of interest is longer, bytes.
const LONGEST: u32 = 64 << 10;
/// Of one input, seconds.
const SLOWEST: u32 = 10;
/// More memory than this is none that an input may cost, MiB.
const MEMORY: u32 = 2048;

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
    let built = workspace.target.join("fuzz");
    // The libraries are those of every release build: only the project's own crates are
    // compiled anew, with counters and checks.
    process::run(
        process::command(process::cargo())
            .args(["build", "--release", "--locked", "--package", "sbt-fuzz"])
            .current_dir(&workspace.root)
            .env("CARGO_TARGET_DIR", &workspace.target)
            .env("CARGO_INCREMENTAL", "0")
            .env(
                "RUSTC_WORKSPACE_WRAPPER",
                folder.join("rustc-with-counters"),
            ),
    )?;
    for target in chosen {
        let found = built.join("inputs").join(target);
        fs::create_dir_all(&found)?;
        let mut fuzzer = process::command(workspace.target.join(format!("release/fuzz-{target}")));
        fuzzer
            // New ones go to the first folder.
            .arg(&found)
            .arg(folder.join("corpus").join(target))
            .arg(format!("-max_total_time={}", args.seconds))
            .arg(format!("-max_len={LONGEST}"))
            .arg(format!("-timeout={SLOWEST}"))
            .arg(format!("-rss_limit_mb={MEMORY}"))
            .arg(format!("-artifact_prefix={}/{target}-", built.display()))
            .args(["-print_final_stats=1", "-verbosity=1"]);
        if let Some(seed) = args.seed {
            fuzzer.arg(format!("-seed={seed}"));
        }
        process::run(&mut fuzzer).with_context(|| format!("an input breaks {target}"))?;
    }
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
