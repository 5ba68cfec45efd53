//! Builds the programs and runs them, alone or under sbt.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::report::Report;
use crate::machine;
use crate::process;
use crate::test::require_tools;
use crate::workspace::Workspace;

/// Paths that a measurement needs.
pub struct Lab {
    root: PathBuf,
    folder: PathBuf,
    sbt: PathBuf,
}

/// A built program of the lab.
pub struct Program(PathBuf);

impl Lab {
    /// Builds sbt with its release profile.
    pub fn prepare(workspace: &Workspace) -> Result<Self> {
        require_tools(&[("gcc", "gcc")])?;
        let folder = workspace.target.join("accuracy");
        fs::create_dir_all(&folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        Ok(Self {
            root: workspace.root.clone(),
            folder,
            sbt: machine::release_build(workspace)?,
        })
    }

    /// Builds a program; `source` is relative to the checkout.
    pub fn build(&self, source: &str) -> Result<Program> {
        let source = self.root.join(source);
        let name = source.file_stem().context("a source without a name")?;
        let program = self.folder.join(name);
        process::run(
            process::command("gcc")
                .args(["-O2", "-g", "-pthread", "-o"])
                .arg(&program)
                .arg(&source),
        )?;
        Ok(Program(program))
    }

    /// Runs a program and returns its log.
    pub fn alone(&self, program: &Program, arguments: &[String]) -> Result<String> {
        self.logged(&mut process::command(&program.0), arguments)
    }

    /// Runs a program under sbt without a report, and returns its log.
    pub fn under_sbt(&self, program: &Program, arguments: &[String]) -> Result<String> {
        let mut command = process::command(&self.sbt);
        command.args(["run", "--quiet", "--"]).arg(&program.0);
        self.logged(&mut command, arguments)
    }

    /// Runs a program under sbt with a JSON report, and returns both its log and the report.
    pub fn reported(
        &self,
        options: &[&str],
        program: &Program,
        arguments: &[String],
    ) -> Result<(String, Report)> {
        let file = self.folder.join("report.json");
        remove(&file)?;
        let mut command = process::command(&self.sbt);
        command.args(["run", "--json", "--output"]).arg(&file);
        command.args(options).arg("--").arg(&program.0);
        let log = self.logged(&mut command, arguments)?;
        let text = fs::read(&file).context("sbt wrote no report")?;
        let report = serde_json::from_slice(&text).context("sbt's report is not as expected")?;
        Ok((log, report))
    }

    fn logged(&self, command: &mut std::process::Command, arguments: &[String]) -> Result<String> {
        let file = self.folder.join("log");
        remove(&file)?;
        command.args(arguments);
        command.arg(format!("log={}", file.display()));
        process::read(command)?;
        fs::read_to_string(&file).context("the program wrote no log")
    }
}

/// Removes a file of an earlier run, so that it is not mistaken for a new one.
fn remove(file: &Path) -> Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", file.display()))
        }
        _ => Ok(()),
    }
}
