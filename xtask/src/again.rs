//! Tests that fail beside another one, which uses the same processors and the same libraries,
//! are asked again by themselves.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// More than so many fail for a reason of their own.
pub const MOST: usize = 2;

/// So often a test must pass by itself.
pub const TIMES: usize = 3;

/// Runs tests, with what they say on our standard error.
///
/// # Returns
/// Those that failed, by their names.
///
/// # Errors
/// They could not be run, or not to their end, or failed without names.
pub fn failing(command: &mut Command) -> Result<Vec<String>> {
    let mut tests = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run the tests")?;
    let output = tests.stdout.take().context("no pipe")?;
    let (mut failed, mut ended) = (Vec::new(), false);
    for line in BufReader::new(output).split(b'\n') {
        let line = line?;
        let line = String::from_utf8_lossy(&line);
        eprintln!("{line}");
        failed.extend(failure(&line).map(str::to_owned));
        ended |= line.starts_with("test result: ");
    }
    let status = tests.wait()?;
    if !status.success() && (failed.is_empty() || !ended) {
        bail!("the tests failed ({status})");
    }
    Ok(failed)
}

/// The test that a line says has failed.
fn failure(line: &str) -> Option<&str> {
    let name = line.strip_prefix("test ")?.strip_suffix(" ... FAILED")?;
    (!name.contains(' ')).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_read() {
        assert_eq!(failure("test a::b ... FAILED"), Some("a::b"));
        assert_eq!(failure("test a::b ... ok"), None);
        assert_eq!(failure("test result: FAILED. 1 passed; 1 failed"), None);
        let said = |script: &str| failing(Command::new("sh").args(["-c", script]));
        let both = "echo 'test a ... FAILED'; echo 'test b ... FAILED'; ";
        let all = said(&format!("{both} echo 'test result: FAILED.'; exit 101"));
        assert_eq!(all.unwrap(), ["a", "b"]);
        assert!(said(&format!("{both} kill -9 $$")).is_err());
        assert_eq!(said("echo 'test a ... ok'").unwrap(), [""; 0]);
        assert!(said("exit 101").is_err());
    }
}
