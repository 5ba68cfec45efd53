//! The machine on which figures were measured.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::process;
use crate::workspace::Workspace;

/// The machine, its kernel and the date, in one line.
pub fn line() -> Result<String> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let model = read("/proc/cpuinfo")
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .map_or_else(String::new, |name| {
            name.trim_matches([' ', '\t', ':']).to_owned()
        });
    let cpus = std::thread::available_parallelism().context("counting CPUs")?;
    let date = process::read(process::command("date").args(["-u", "+%Y-%m-%d"]))?;
    Ok(format!(
        "{model}, {cpus} CPUs, Linux {}, {}",
        read("/proc/sys/kernel/osrelease").trim(),
        date.trim()
    ))
}

/// The cargo profile of all tests.
pub const TESTED: &str = "tested";

/// Builds sbt with its release profile, and returns the path.
pub fn release_build(workspace: &Workspace) -> Result<PathBuf> {
    let mut build = process::command(process::cargo());
    build
        .args([
            "build",
            "--release",
            "--package",
            "sbt-agent",
            "--bin",
            "sbt",
        ])
        .current_dir(&workspace.root)
        .env("CARGO_TARGET_DIR", &workspace.target);
    process::run(&mut build)?;
    Ok(workspace.target.join("release/sbt"))
}
