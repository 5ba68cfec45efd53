//! Runs failed tests again, alone. This tells whether other tests disturb them; the tests still
//! count as failed.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// With more failed tests than this, none is run again.
const MOST: usize = 8;

/// Runs of each test.
const TIMES: usize = 3;

/// The result of a run of tests.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Names of the failed tests.
    pub failed: Vec<String>,
    /// Number of tests that ended.
    pub ended: usize,
    /// The words of failed tests, shortened: the end of a long log is all that some people see.
    pub said: String,
}

/// Most characters of what a failed test said.
const MOST_SAID: usize = 1200;

/// Collects what failed tests said.
#[derive(Default)]
struct Said {
    text: String,
    /// Characters that are left for the test whose words are read; `None` outside of such words.
    left: Option<usize>,
}

impl Said {
    fn hear(&mut self, line: &str) {
        if line.starts_with("---- ") && line.ends_with(" stdout ----") {
            self.left = Some(MOST_SAID);
        } else if line.starts_with("stack backtrace:") || line == "failures:" {
            self.left = None;
        }
        if let Some(left) = &mut self.left
            && !line.is_empty()
        {
            let short: String = line.chars().take(*left).collect();
            *left -= short.chars().count();
            if !short.is_empty() {
                self.text.push_str(&short);
                self.text.push('\n');
            }
        }
    }
}

/// Runs tests; their output goes to our standard error.
///
/// # Errors
/// If the tests cannot be run, do not run to the end, or fail without names.
pub fn run(command: &mut Command) -> Result<Outcome> {
    let mut tests = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run the tests")?;
    let output = tests.stdout.take().context("no pipe")?;
    let (mut outcome, mut has_result) = (Outcome::default(), false);
    let mut said = Said::default();
    for line in BufReader::new(output).split(b'\n') {
        let line = line?;
        let line = String::from_utf8_lossy(&line);
        eprintln!("{line}");
        said.hear(&line);
        outcome.failed.extend(failure(&line).map(str::to_owned));
        if let Some(ended) = ended(&line) {
            outcome.ended += ended;
            has_result = true;
        }
    }
    outcome.said = said.text;
    let status = tests.wait()?;
    if !status.success() && (outcome.failed.is_empty() || !has_result) {
        bail!("the tests failed ({status})");
    }
    Ok(outcome)
}

/// Runs each failed test alone several times, and returns a text that says how often each failed.
/// `command` makes the command to which the name of a test is added.
///
/// # Errors
/// If the tests cannot be run.
pub fn look_closer(failed: &[String], command: impl Fn() -> Command) -> Result<String> {
    if failed.is_empty() || failed.len() > MOST {
        return Ok(String::new());
    }
    eprintln!("again, by themselves: {}", failed.join(", "));
    let mut again = Vec::new();
    for _ in 0..TIMES {
        again.extend(run(command().args(failed))?.failed);
    }
    let lines = failed.iter().map(|test| {
        let times = again.iter().filter(|other| *other == test).count();
        format!("{test}: by itself it failed {times} of {TIMES} times\n")
    });
    Ok(lines.collect::<Vec<_>>().concat())
}

/// The name of the test that a line reports as failed.
fn failure(line: &str) -> Option<&str> {
    let name = line.strip_prefix("test ")?.strip_suffix(" ... FAILED")?;
    (!name.contains(' ')).then_some(name)
}

/// Number of tests that a line reports as passed or failed.
fn ended(line: &str) -> Option<usize> {
    let counts = line.strip_prefix("test result: ")?.split_once(". ")?.1;
    let count = |of: &str| {
        let part = counts.split("; ").find_map(|part| part.strip_suffix(of));
        part.and_then(|number| number.parse::<usize>().ok())
    };
    Some(count(" passed")? + count(" failed")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_read() {
        assert_eq!(failure("test a::b ... FAILED"), Some("a::b"));
        assert_eq!(failure("test a::b ... ok"), None);
        assert_eq!(failure("test result: FAILED. 1 passed; 1 failed"), None);
        let result = "test result: FAILED. 7 passed; 2 failed; 0 ignored; finished in 1s";
        assert_eq!(ended(result), Some(9));
        assert_eq!(ended("test a::b ... ok"), None);
        let said = |script: &str| run(Command::new("sh").args(["-c", script]));
        let both = "echo 'test a ... FAILED'; echo 'test b ... FAILED'; ";
        let all = said(&format!("{both} echo '{result}'; exit 101")).unwrap();
        assert_eq!(
            (&all.failed[..], all.ended),
            (&["a".into(), "b".into()][..], 9)
        );
        assert!(said(&format!("{both} kill -9 $$")).is_err());
        assert_eq!(said("echo 'test a ... ok'").unwrap(), Outcome::default());
        assert!(said("exit 101").is_err());
    }

    #[test]
    fn what_failed_tests_said_is_kept() {
        let long = "x".repeat(2 * MOST_SAID);
        let script = format!(
            "echo 'test a ... FAILED'; echo 'failures:'; echo '---- a stdout ----'; echo 'why, {long}'; \
             echo 'stack backtrace:'; echo ' 0: main'; echo '---- b stdout ----'; echo because; \
             echo 'failures:'; echo '    a'; \
             echo 'test result: FAILED. 7 passed; 2 failed; 0 ignored; finished in 1s'; exit 101"
        );
        let said = run(Command::new("sh").args(["-c", &script])).unwrap().said;
        assert!(said.starts_with("---- a stdout ----\nwhy, xxx"), "{said}");
        assert!(said.ends_with("x\n---- b stdout ----\nbecause\n"), "{said}");
        assert!(said.len() < 2 * MOST_SAID, "{said}");
    }

    #[test]
    fn it_is_told_how_often_tests_fail_by_themselves() {
        let failed = ["a".to_owned(), "b".to_owned()];
        let script = "echo 'test b ... FAILED'; \
                      echo 'test result: FAILED. 1 passed; 1 failed; 0 ignored'; exit 101";
        let command = || {
            let mut command = Command::new("sh");
            command.args(["-c", script, "sh"]);
            command
        };
        let text = look_closer(&failed, command).unwrap();
        assert!(
            text.contains("a: by itself it failed 0 of 3 times\n"),
            "{text}"
        );
        assert!(
            text.contains("b: by itself it failed 3 of 3 times\n"),
            "{text}"
        );
        assert_eq!(look_closer(&[], command).unwrap(), "");
    }
}
