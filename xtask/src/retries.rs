//! Tests that measure time may measure more than once. Each test that needed a second try is named;
//! too many of them fail the suite.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Result, bail};

/// Per cent of the tests that may need a second try.
const MOST_PCT: usize = 1;

/// The log of the tests, and the number of tests that ran.
pub struct Retries {
    /// Misses by test, as the tests logged them.
    misses: BTreeMap<String, Vec<String>>,
    tests: usize,
}

impl Retries {
    /// Reads a log with one line for each miss: the test, a tab, and what was wrong.
    pub fn of(log: &str, tests: usize) -> Self {
        let mut misses: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for line in log.lines() {
            let (test, what) = line.split_once('\t').unwrap_or((line, ""));
            misses
                .entry(test.to_owned())
                .or_default()
                .push(what.to_owned());
        }
        Self { misses, tests }
    }

    /// A text that lists the tests that needed a second try, with the number of misses and the
    /// first reason.
    pub fn text(&self) -> String {
        if self.misses.is_empty() {
            return "no test needed a second try\n".to_owned();
        }
        let mut text = format!(
            "{} of {} tests needed a second try:\n",
            self.misses.len(),
            self.tests
        );
        for (test, misses) in &self.misses {
            let first = misses.first().map_or("", String::as_str);
            let _infallible = writeln!(text, "{test} ({} more): {first}", misses.len());
        }
        text
    }

    /// # Errors
    /// If more tests needed a second try than a noisy machine explains.
    pub fn check(&self) -> Result<()> {
        let (needed, tests) = (self.misses.len(), self.tests);
        if needed * 100 > tests * MOST_PCT {
            bail!("{needed} of {tests} tests needed a second try, which is more than {MOST_PCT} %");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_counted_once_however_often_they_missed() {
        let log = "a::b\t3 ns instead of 2\na::b\t4 ns\nc::d\tlate\n";
        let retries = Retries::of(log, 200);
        let text = retries.text();
        assert!(text.starts_with("2 of 200 tests"), "{text}");
        assert!(
            text.contains("a::b (2 more): 3 ns instead of 2\n"),
            "{text}"
        );
        assert!(retries.check().is_ok());
        assert!(Retries::of(log, 199).check().is_err());
        let none = Retries::of("", 3);
        assert!(none.check().is_ok() && none.text().starts_with("no test"));
    }
}
