//! The machine on which figures were measured.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

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

/// A command of cargo, such as `test`, for the release profile with checks in the project's own
/// crates. The libraries are those of `cargo build --release`, and are built once for both.
pub fn checked(workspace: &Workspace, subcommand: &str) -> Command {
    let mut command = process::command(process::cargo());
    command
        .args([subcommand, "--release", "--config"])
        .arg(workspace.root.join("xtask/checked.toml"))
        .current_dir(&workspace.root)
        // Intermediate files are shared, and the binary with checks does not replace the released.
        .env("CARGO_BUILD_BUILD_DIR", &workspace.target)
        .env("CARGO_TARGET_DIR", workspace.target.join("checked"));
    command
}

/// The folder of the programs that [`checked`] builds.
pub fn checked_folder(workspace: &Workspace) -> PathBuf {
    workspace.target.join("checked/release")
}

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
