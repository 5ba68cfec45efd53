//! Runs chosen tests many times, quiet and beside busy loops, and counts their failures.
//!
//! Tests of races pass most of the time: `cargo xtask test` runs each of them once, this finds
//! those that fail once in a hundred times.

mod busy;
mod cases;
mod table;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail, ensure};

use crate::process;
use crate::test::Suite;
use crate::workspace::Workspace;
use busy::Busy;
use cases::Case;
use table::{Row, Table};

/// Name of the whole suite in the table.
const WHOLE: &str = "the whole suite";

/// Options of `cargo xtask soak`.
#[derive(clap::Args)]
pub struct Args {
    /// Only tests whose name contains one of these, as `e2e::kill`
    #[arg(required_unless_present = "whole_suite")]
    filters: Vec<String>,
    /// Runs of each test beside each number of busy loops. Those of an interrupted soak of the same
    /// commit count; `--afresh` forgets them
    #[arg(long, default_value_t = 20)]
    times: u32,
    /// Numbers of busy loops, one after the other
    #[arg(long, value_delimiter = ',', default_value = "0,4")]
    load: Vec<u32>,
    /// Tests that repeat something to meet a rare race repeat it so many times as often
    #[arg(long, default_value_t = 5)]
    repeat: u32,
    /// Run `cargo xtask test` itself so often
    #[arg(long, conflicts_with = "filters")]
    whole_suite: bool,
    /// Forget the runs of an interrupted soak
    #[arg(long)]
    afresh: bool,
    /// Put the results into bench/SOAK.md too
    #[arg(long)]
    write: bool,
}

/// Runs the tests. Results are kept after each run, in `target/soak/state.md`; the output of each
/// failure lies beside that file.
///
/// # Errors
/// If a test failed or was skipped, or tests cannot be built and run.
pub fn run(args: &Args) -> Result<()> {
    let suite = Suite::build()?;
    let mut soak = Soak::begin(&suite.workspace, args.afresh)?;
    let tests = if args.whole_suite {
        vec![WHOLE.to_owned()]
    } else {
        let cases = cases::of(&suite, &args.filters)?;
        ensure!(!cases.is_empty(), "no test has a name with any of these");
        soak.cases(args, &suite, &cases)?;
        cases.into_iter().map(|case| case.name).collect()
    };
    if args.whole_suite {
        soak.suite(args, &suite)?;
    }
    let shown = soak.state.only(&tests, &args.load);
    eprint!("{}", shown.text());
    if args.write {
        let path = suite.workspace.root.join("bench/SOAK.md");
        let mut written = Table::read(&path)?;
        written.merge(&shown);
        written.write(&path)?;
    }
    let failures = shown.failures();
    if failures > 0 {
        let outputs = suite.workspace.relative(&soak.folder).display();
        bail!("{failures} runs failed; their outputs are in {outputs}");
    }
    Ok(())
}

/// The results so far, and where they are kept.
struct Soak {
    state: Table,
    folder: PathBuf,
    commit: String,
}

impl Soak {
    /// Reads the results of an interrupted soak of the same commit.
    fn begin(workspace: &Workspace, afresh: bool) -> Result<Self> {
        let folder = workspace.target.join("soak");
        fs::create_dir_all(&folder)?;
        let (commit, changed) = commit(&workspace.root)?;
        let mut state = Table::read(&folder.join("state.md"))?;
        // Between two soaks of changed files, the files may have changed again.
        state.keep(|row| !afresh && !changed && row.commit == commit);
        Ok(Self {
            state,
            folder,
            commit,
        })
    }

    /// Runs each test so often beside each number of busy loops.
    fn cases(&mut self, args: &Args, suite: &Suite, cases: &[Case]) -> Result<()> {
        for &load in &args.load {
            let _busy = Busy::start(load);
            for turn in 1..=args.times {
                for case in cases {
                    if self.state.runs(&case.name, load) >= turn {
                        continue;
                    }
                    let output = self.folder.join("running.txt");
                    let passed = case.run(suite, args.repeat, &output)?;
                    self.count(&case.name, load, passed, &output)?;
                }
                eprintln!("{turn} of {} turns beside {load} busy loops", args.times);
            }
        }
        Ok(())
    }

    /// Runs the suite so often beside each number of busy loops.
    fn suite(&mut self, args: &Args, suite: &Suite) -> Result<()> {
        for &load in &args.load {
            let _busy = Busy::start(load);
            while self.state.runs(WHOLE, load) < args.times {
                let ended = suite.run(None, true);
                let output = self.folder.join("running.txt");
                if let Err(error) = &ended {
                    fs::write(&output, format!("{error:#}\n"))?;
                }
                self.count(WHOLE, load, ended.is_ok(), &output)?;
            }
        }
        Ok(())
    }

    /// Counts a run, and keeps the output of a failed one.
    fn count(&mut self, test: &str, load: u32, passed: bool, output: &Path) -> Result<()> {
        let row = Row {
            test: test.to_owned(),
            load,
            runs: 1,
            failures: u32::from(!passed),
            commit: self.commit.clone(),
        };
        let runs = self.state.add(row);
        if !passed {
            let name = format!("{} {load} {runs}.txt", test.replace("::", "."));
            let kept = self.folder.join(name.replace(' ', "-"));
            fs::rename(output, &kept)?;
            eprintln!("{test} failed: {}", kept.display());
        }
        self.state.write(&self.folder.join("state.md"))
    }
}

/// The short hash of the commit, and whether files differ from it; then the hash ends with `+`.
fn commit(root: &Path) -> Result<(String, bool)> {
    let git = |arguments: &[&str]| {
        let mut command = process::command("git");
        process::read(command.args(arguments).current_dir(root))
    };
    let hash = git(&["rev-parse", "--short", "HEAD"])?;
    let status = git(&[
        "status",
        "--porcelain",
        "-uno",
        "--",
        ".",
        ":!bench/SOAK.md",
    ])?;
    let changed = !status.trim().is_empty();
    let mark = if changed { "+" } else { "" };
    Ok((format!("{}{mark}", hash.trim()), changed))
}
