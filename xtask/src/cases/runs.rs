//! Runs of the demo programs under sbt.

use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::Args;
use super::series::{Pair, Report, Series};
use super::studies::{Program, Study};
use crate::idle::Moment;
use crate::process;
use crate::workspace::Workspace;

/// Fraction of the CPUs that other programs may use during a run.
pub const OTHERS: f64 = 0.05;
/// Attempts to get a run in which they use less.
const ATTEMPTS: u32 = 20;
const PAUSE: Duration = Duration::from_secs(5);

/// Runs demo programs under sbt.
pub struct Bench {
    sbt: PathBuf,
    /// Folder for the reports.
    folder: PathBuf,
    runs: usize,
    scale: String,
    busy: bool,
}

impl Bench {
    /// Prepares to run programs under this sbt.
    pub fn new(workspace: &Workspace, sbt: PathBuf, args: &Args) -> Result<Self> {
        let folder = workspace.target.join("case-studies");
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(Self {
            sbt,
            folder,
            runs: args.runs.into(),
            scale: args.scale.to_string(),
            busy: args.busy,
        })
    }

    /// Runs both programs of a study in turn, so that slow times of the machine affect both.
    pub fn pair(&self, study: &Study, threads: usize) -> Result<Pair> {
        let (mut fault, mut fix) = (Vec::new(), Vec::new());
        for run in 1..=self.runs {
            let mut order = [(&study.fault, &mut fault), (&study.fix, &mut fix)];
            // A later run may find the machine warmer.
            if run % 2 == 0 {
                order.reverse();
            }
            for (program, series) in order {
                eprintln!("{}, {threads} threads, run {run}", program.demo);
                let text = self.report(program, threads, &["--json"])?;
                let report: Report = serde_json::from_str(&text)
                    .with_context(|| format!("the report of {}", program.demo))?;
                ensure!(report.is_complete(), "{} was seen in part", program.demo);
                series.push(report);
            }
        }
        Ok(Pair {
            threads,
            fault: Series::new(fault),
            fix: Series::new(fix),
        })
    }

    /// The report as a reader would get it, 80 columns wide.
    pub fn text(&self, program: &Program, threads: usize) -> Result<String> {
        self.report(program, threads, &[])
    }

    /// The report of a run during which other programs used few CPUs.
    fn report(&self, program: &Program, threads: usize, options: &[&str]) -> Result<String> {
        let mut least = f64::INFINITY;
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                thread::sleep(PAUSE);
            }
            let begin = Moment::now()?;
            let report = self.run(program, threads, options)?;
            let others = begin.others_since()?;
            if others < OTHERS || self.busy {
                return Ok(report);
            }
            eprintln!("others used {:.0} % of the CPUs: once more", 100.0 * others);
            least = least.min(others);
        }
        bail!(
            "others use the CPUs, never less than {:.0} % of them: stop them, or say --busy",
            100.0 * least
        )
    }

    fn run(&self, program: &Program, threads: usize, options: &[&str]) -> Result<String> {
        let file = self.folder.join("report");
        let mut command = process::command(&self.sbt);
        command
            .args(program.command(threads))
            .args(["--scale", &self.scale])
            .args(options)
            .arg("--output")
            .arg(&file);
        process::read(&mut command)?;
        fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))
    }
}
