//! The results as a table in Markdown, which is read again: by the next soak, and to put new results
//! among those of other tests.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context, Result};

const HEAD: &str = "\
# Tests that were run many times

How often a test was run, how often it failed, and beside how many busy loops. Written by
`cargo xtask soak --write`; a `+` says that files differed from the commit.

| test | busy loops | runs | failures | commit |
|---|---|---|---|---|
";

/// The results of one test beside one number of busy loops.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub test: String,
    /// Number of busy loops.
    pub load: u32,
    pub runs: u32,
    pub failures: u32,
    /// Short hash of the commit that was tested; a `+` behind it says that files differed.
    pub commit: String,
}

impl Row {
    fn line(&self) -> String {
        let Self {
            test,
            load,
            runs,
            failures,
            commit,
        } = self;
        format!("| {test} | {load} | {runs} | {failures} | {commit} |\n")
    }

    fn of(line: &str) -> Option<Self> {
        let line = line.strip_prefix("| ")?.strip_suffix(" |")?;
        let cells: Vec<&str> = line.split(" | ").collect();
        let &[test, load, runs, failures, commit] = cells.as_slice() else {
            return None;
        };
        Some(Self {
            test: test.to_owned(),
            load: load.parse().ok()?,
            runs: runs.parse().ok()?,
            failures: failures.parse().ok()?,
            commit: commit.to_owned(),
        })
    }

    fn is_of(&self, test: &str, load: u32) -> bool {
        self.test == test && self.load == load
    }
}

/// Results, at most one row for a test and a load, in the order of both.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Table(Vec<Row>);

impl Table {
    /// Reads the table in a file; without the file, the table is empty.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn read(path: &Path) -> Result<Self> {
        match fs::read_to_string(path) {
            Ok(text) => Ok(Self(text.lines().filter_map(Row::of).collect())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
        }
    }

    /// Replaces the file, so that an interruption leaves the old table or the new one.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<()> {
        let new = path.with_extension("new");
        fs::write(&new, self.text())
            .and_then(|()| fs::rename(&new, path))
            .with_context(|| format!("cannot write {}", path.display()))
    }

    /// The table as a page in Markdown.
    pub fn text(&self) -> String {
        let rows: String = self.0.iter().map(Row::line).collect();
        format!("{HEAD}{rows}")
    }

    /// Number of runs of a test beside so many busy loops.
    pub fn runs(&self, test: &str, load: u32) -> u32 {
        let row = self.0.iter().find(|row| row.is_of(test, load));
        row.map_or(0, |row| row.runs)
    }

    /// Number of failed runs.
    pub fn failures(&self) -> u32 {
        self.0.iter().map(|row| row.failures).sum()
    }

    /// Drops all rows but those that `wanted` approves.
    pub fn keep(&mut self, wanted: impl Fn(&Row) -> bool) {
        self.0.retain(wanted);
    }

    /// The rows of some tests and loads.
    pub fn only(&self, tests: &[String], loads: &[u32]) -> Self {
        let is_wanted = |row: &&Row| tests.contains(&row.test) && loads.contains(&row.load);
        Self(self.0.iter().filter(is_wanted).cloned().collect())
    }

    /// Adds runs to those of the same test and load; returns the new number of runs.
    pub fn add(&mut self, new: Row) -> u32 {
        let runs = new.runs + self.runs(&new.test, new.load);
        match self.0.iter_mut().find(|row| row.is_of(&new.test, new.load)) {
            Some(row) => {
                row.runs = runs;
                row.failures += new.failures;
            }
            None => self.insert(new),
        }
        runs
    }

    /// Replaces the rows of the tests and loads that `new` has.
    pub fn merge(&mut self, new: &Self) {
        for row in &new.0 {
            self.0.retain(|old| !old.is_of(&row.test, row.load));
            self.insert(row.clone());
        }
    }

    fn insert(&mut self, row: Row) {
        self.0.push(row);
        self.0
            .sort_by(|a, b| (&a.test, a.load).cmp(&(&b.test, b.load)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(test: &str, load: u32, runs: u32, failures: u32) -> Row {
        Row {
            test: test.into(),
            load,
            runs,
            failures,
            commit: "abc1234+".into(),
        }
    }

    #[test]
    fn a_table_survives_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.md");
        assert_eq!(Table::read(&path).unwrap(), Table::default());
        let mut table = Table::default();
        table.add(row("e2e::b::c", 4, 1, 1));
        table.add(row("the whole suite", 0, 1, 0));
        table.write(&path).unwrap();
        assert_eq!(Table::read(&path).unwrap(), table);
        assert!(Table::read(folder.path()).is_err());
    }

    #[test]
    fn runs_are_added_up_by_test_and_load() {
        let mut table = Table::default();
        assert_eq!(table.add(row("b", 0, 1, 0)), 1);
        assert_eq!(table.add(row("b", 0, 1, 1)), 2);
        assert_eq!(table.add(row("b", 4, 1, 0)), 1);
        assert_eq!(table.add(row("a", 0, 1, 0)), 1);
        assert_eq!((table.runs("b", 0), table.runs("b", 4)), (2, 1));
        assert_eq!((table.runs("c", 0), table.failures()), (0, 1));
        let names: Vec<_> = table.0.iter().map(|row| row.test.as_str()).collect();
        assert_eq!(names, ["a", "b", "b"]);
        table.keep(|row| row.load == 0);
        assert_eq!(table.runs("b", 4), 0);
    }

    #[test]
    fn new_rows_replace_those_of_the_same_test_and_load_only() {
        let mut written = Table(vec![
            row("a", 0, 9, 9),
            row("a", 4, 9, 0),
            row("b", 0, 9, 0),
        ]);
        let state = Table(vec![row("a", 0, 20, 0), row("c", 0, 20, 0)]);
        written.merge(&state.only(&["a".into()], &[0, 4]));
        let expected = [row("a", 0, 20, 0), row("a", 4, 9, 0), row("b", 0, 9, 0)];
        assert_eq!(written.0, expected);
    }
}
