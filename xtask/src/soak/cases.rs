//! The tests of all test programs, and how one test is run.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::process;
use crate::test::Suite;

/// A test of one test binary, by its full name.
pub struct Case {
    /// Name of the test program, and of the test in it: `e2e::kill::by_its_name`.
    pub name: String,
    program: PathBuf,
    /// The folder in which cargo runs the program.
    folder: PathBuf,
    test: String,
}

/// The tests whose name contains one of `filters`.
///
/// # Errors
/// If a test program cannot list its tests.
pub fn of(suite: &Suite, filters: &[String]) -> Result<Vec<Case>> {
    let built = process::read(suite.command().args(["--no-run", "--message-format=json"]))?;
    let mut cases = Vec::new();
    for (target, program, folder) in built.lines().filter_map(test_program) {
        let list = process::read(
            process::command(&program)
                .arg("--list")
                .current_dir(&folder),
        )?;
        for test in list.lines().filter_map(|line| line.strip_suffix(": test")) {
            let name = format!("{target}::{test}");
            if filters.iter().any(|filter| name.contains(filter)) {
                cases.push(Case {
                    name,
                    program: program.clone(),
                    folder: folder.clone(),
                    test: test.to_owned(),
                });
            }
        }
    }
    Ok(cases)
}

/// The target, file and folder of the test program that a line of cargo's messages announces.
fn test_program(line: &str) -> Option<(String, PathBuf, PathBuf)> {
    let message: Value = serde_json::from_str(line).ok()?;
    if message["profile"]["test"] != true {
        return None;
    }
    let target = message["target"]["name"].as_str()?;
    let program = message["executable"].as_str()?;
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?;
    Some((target.to_owned(), program.into(), folder.to_path_buf()))
}

impl Case {
    /// Runs the test with its output in the file `output`: whether it passed.
    ///
    /// # Errors
    /// If the test cannot be run, or skips itself.
    pub fn run(&self, suite: &Suite, repeat: u32, output: &Path) -> Result<bool> {
        fs::write(&suite.skips, "")?;
        let file = File::create(output)?;
        let mut command: Command = process::command(&self.program);
        suite.environment(&mut command);
        let status = command
            .args([&self.test, "--exact", "--test-threads", "1"])
            .current_dir(&self.folder)
            .env("SBT_SOAK", repeat.to_string())
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .status()
            .with_context(|| format!("cannot run {}", self.program.display()))?;
        let skipped = fs::read_to_string(&suite.skips)?;
        ensure!(skipped.is_empty(), "a soak needs tests that run: {skipped}");
        Ok(status.success())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_test_programs_are_taken_from_what_cargo_says() {
        let line = |test: bool, executable: &str| {
            format!(
                r#"{{"reason": "compiler-artifact", "manifest_path": "/a/tests/Cargo.toml",
                "target": {{"name": "e2e"}}, "profile": {{"test": {test}}},
                "executable": {executable}}}"#
            )
            .replace('\n', " ")
        };
        let found = test_program(&line(true, r#""/t/e2e-1""#)).unwrap();
        assert_eq!(found, ("e2e".into(), "/t/e2e-1".into(), "/a/tests".into()));
        assert_eq!(test_program(&line(false, r#""/t/sbt""#)), None);
        assert_eq!(test_program(&line(true, "null")), None);
        assert_eq!(test_program("no message"), None);
    }
}
