//! The programs of the benchmarks, and runs of them in turns.

use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::process;
use crate::workspace::Workspace;

/// What all parts of the benchmarks need.
pub struct Bench {
    pub workspace: Workspace,
    /// The binary that is measured.
    pub sbt: PathBuf,
    /// How often the variants of a measurement are run.
    pub pairs: usize,
}

impl Bench {
    /// The folder for programs, reports and recordings.
    pub fn folder(&self) -> Result<PathBuf> {
        let folder = self.workspace.target.join("bench");
        fs::create_dir_all(&folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        Ok(folder)
    }

    /// Compiles a C program, named by its path in the checkout or by an absolute path.
    pub fn compile(&self, source: &str, flags: &[&str]) -> Result<PathBuf> {
        let source = self.workspace.root.join(source);
        let program = self.folder()?.join(source.file_stem().unwrap_or_default());
        let mut compiler = process::command("gcc");
        compiler.args(flags).arg("-o").arg(&program).arg(&source);
        process::run(&mut compiler)?;
        Ok(program)
    }

    /// `sbt run` with these options; the program's own arguments are still to be added.
    pub fn watching(&self, options: &[&str], program: impl AsRef<OsStr>) -> Command {
        let mut command = process::command(&self.sbt);
        command.arg("run").args(options).arg("--").arg(program);
        command
    }

    /// A report in JSON that sbt has written into the folder.
    pub fn report(&self, name: &str) -> Result<serde_json::Value> {
        let text = fs::read(self.folder()?.join(name)).context("sbt wrote no report")?;
        serde_json::from_slice(&text).context("sbt's report is not JSON")
    }

    /// Runs all variants in turns, and returns the results of each variant. Every other time the
    /// order is reversed: a later run may find the machine warmer or busier.
    pub fn in_turns<V, T>(
        &self,
        what: &str,
        variants: &[V],
        mut run: impl FnMut(&V) -> Result<T>,
    ) -> Result<Vec<Vec<T>>> {
        let mut all: Vec<Vec<T>> = variants.iter().map(|_| Vec::new()).collect();
        for pair in 0..self.pairs {
            eprintln!("measuring: {what}, pair {}", pair + 1);
            for turn in 0..variants.len() {
                let at = if pair % 2 == 0 {
                    turn
                } else {
                    variants.len() - 1 - turn
                };
                all[at].push(run(&variants[at])?);
            }
        }
        Ok(all)
    }
}

/// Runs a program that prints nothing but a number, and returns the number.
pub fn number(command: &mut Command) -> Result<f64> {
    let text = process::read(command)?;
    let number = text.trim().parse();
    number.with_context(|| format!("expected a number: {text:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_other_turn_is_reversed() {
        let bench = Bench {
            workspace: Workspace::locate().unwrap(),
            sbt: PathBuf::new(),
            pairs: 3,
        };
        let mut order = Vec::new();
        let results = bench.in_turns("a test", &['a', 'b'], |variant| {
            order.push(*variant);
            Ok(order.len())
        });
        assert_eq!(results.unwrap(), [[1, 4, 5], [2, 3, 6]]);
        assert_eq!(order, ['a', 'b', 'b', 'a', 'a', 'b']);
    }
}
