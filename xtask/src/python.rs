//! A Python with other tools that read recordings: the tests run what docs/recording.md shows.

use std::fs;
use std::path::PathBuf;

use anyhow::Result;

use crate::workspace::Workspace;
use crate::{debian, process};

/// Packages that pip installs, into a folder of its own.
const PACKAGES: [&str; 4] = ["pandas", "polars", "duckdb", "pyarrow"];

/// Returns a Python with the packages; it stays in the target folder.
pub fn prepare(workspace: &Workspace) -> Result<PathBuf> {
    let folder = workspace.target.join("python");
    let python = folder.join("bin/python");
    // This file is written last, so it is missing after an interrupted run.
    let complete = folder.join("packages.txt");
    let wanted = PACKAGES.join("\n");
    if fs::read_to_string(&complete).is_ok_and(|there| there == wanted) {
        return Ok(python);
    }
    let has_venv = || {
        process::command("python3")
            .args(["-c", "import ensurepip, venv"])
            .output()
            .is_ok_and(|output| output.status.success())
    };
    if !has_venv() {
        debian::require(&["python3-venv".to_owned()])?;
    }
    let mut create = process::command("python3");
    process::run(create.args(["-m", "venv", "--clear"]).arg(&folder))?;
    let mut install = process::command(&python);
    process::run(
        install
            .args([
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
            ])
            .args(PACKAGES),
    )?;
    fs::write(complete, wanted)?;
    Ok(python)
}
