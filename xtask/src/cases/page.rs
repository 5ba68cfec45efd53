//! Writes the page.

use std::fmt::Write as _;
use std::fs;

use anyhow::{Context, Result, ensure};

use super::excerpt::{lines_of, wrap};
use super::readings::running;
use super::runs::OTHERS;
use super::series::Pair;
use super::studies::{Program, Study};
use super::{Args, Measured};
use crate::machine;
use crate::workspace::Workspace;

/// Folder of the demo programs.
pub const SOURCE: &str = "sbt-agent/src/demo";
/// Wall times that differ by less than this count as equal, per cent.
const SAME: f64 = 3.0;

/// The page as written so far.
pub struct Page {
    /// Markdown.
    pub text: String,
    studies: usize,
    cpus: usize,
    /// Options in addition to those of the program.
    options: String,
}

impl Page {
    /// Starts the page with the text above the studies.
    pub fn begin(args: &Args, cpus: usize, threads: usize) -> Result<Self> {
        // A program and its mended form do the same work.
        let options = format!(" --scale {}", args.scale);
        let idle = if args.busy {
            "Others may have used the machine meanwhile.".to_owned()
        } else {
            let most = 100.0 * OTHERS;
            format!("Runs during which others used more than {most:.0} % of the CPUs do not count.")
        };
        let paragraphs = [
            "Five parallel programs with a fault each: what sbt prints, what that means, what to \
             change, and what the change brings. They are those of Novillo's thesis on barriers as \
             performance watchpoints (University of Alberta, 2002), as built-in programs: `sbt demo \
             list` names them all."
                .to_owned(),
            "Written by `cargo xtask case-studies` (as root), which takes every figure from the \
             reports of its runs and fails where a report does not show what is told here."
                .to_owned(),
            machine::line()?,
            format!(
                "Each report is that of one run, its beginning only. The figures in text and tables \
                 are medians of {} other runs of each program, faulty and mended in turns; so they \
                 differ a little from the report's. A change of wall time is the median of those \
                 between two runs that followed each other. {}",
                args.runs,
                idle
            ),
        ];
        let mut text = "# Case studies\n".to_owned();
        for paragraph in &paragraphs {
            text.push('\n');
            text.push_str(&wrap(paragraph));
        }
        text.push('\n');
        if threads < super::MANY {
            text.push_str(&wrap(&format!(
                "**Threads and CPUs.** This machine has {cpus} CPUs, so the programs run with \
                 {threads} threads. With more threads than CPUs a thread that waits at a barrier \
                 gives its CPU to another: imbalance then costs little wall time as long as enough \
                 threads have work, and who comes last is the scheduler's choice as much as the \
                 program's. That is true of the program, but it is not what one wants to learn \
                 about it. CPU time (`running`) is not affected. So for the pattern over \
                 {} threads each study has a table of that.",
                super::MANY
            )));
            text.push('\n');
        }
        Ok(Self {
            text,
            studies: 0,
            cpus,
            options,
        })
    }

    /// Adds a study; fails if the mended program is not better.
    pub fn study(&mut self, workspace: &Workspace, study: &Study, runs: &Measured) -> Result<()> {
        self.studies += 1;
        let fair = &runs.fair;
        self.line(&format!("## {}. {}\n", self.studies, study.title));
        self.paragraph(study.about);
        self.report(&study.fault, fair.threads, &runs.shown[0])?;
        self.paragraph(&(study.reading)(fair)?);
        self.paragraph(&format!("**The change.** {}", study.change));
        for excerpt in study.source {
            let path = workspace.root.join(SOURCE).join(excerpt.file);
            let source = fs::read_to_string(&path)
                .with_context(|| format!("cannot read {}", path.display()))?;
            self.line(&format!(
                "```rust\n// {}\n{}\n```\n",
                excerpt.file,
                lines_of(&source, excerpt)?
            ));
        }
        self.effect(study, runs)?;
        self.pattern(study, &runs.many)?;
        if let (Some(healthy), Some(text)) = (study.healthy, runs.shown.get(1)) {
            self.report(&study.fix, fair.threads, text)?;
            self.paragraph(&healthy(fair)?);
        }
        Ok(())
    }

    fn line(&mut self, text: &str) {
        self.text.push_str(text);
        self.text.push('\n');
    }

    fn paragraph(&mut self, text: &str) {
        self.line(&wrap(text));
    }

    /// Adds the command and the beginning of its report.
    fn report(&mut self, program: &Program, threads: usize, text: &str) -> Result<()> {
        let paragraphs: Vec<&str> = text.trim_end().split("\n\n").collect();
        ensure!(
            paragraphs.len() > program.paragraphs,
            "the report of {} is too short:\n{text}",
            program.demo
        );
        let shown = paragraphs[..program.paragraphs].join("\n\n");
        self.line(&format!(
            "```text\n$ sbt {}{}\n{shown}\n```\n",
            program.command(threads).join(" "),
            self.options
        ));
        Ok(())
    }

    /// Adds the table of figures with and without the fault.
    fn effect(&mut self, study: &Study, runs: &Measured) -> Result<()> {
        let Pair { fault, fix, .. } = &runs.fair;
        let (from, to) = (study.fault.site, study.fix.site);
        let site = if from == to {
            format!("`{from}`")
        } else {
            format!("`{from}`, `{to}`")
        };
        let imbalance = (fault.imbalance(from)?, fix.imbalance(to)?);
        let lost = (fault.lost_at_ms(from)?, fix.lost_at_ms(to)?);
        ensure!(
            imbalance.1 < imbalance.0 && lost.1 < lost.0,
            "{} is no better than {}: imbalance {:.1} after {:.1} %, lost {:.0} after {:.0} ms",
            study.fix.demo,
            study.fault.demo,
            imbalance.1,
            imbalance.0,
            lost.1,
            lost.0,
        );
        let out = &mut self.text;
        writeln!(
            out,
            "| {} threads | `{}` | `{}` |\n|---|---|---|",
            runs.fair.threads, study.fault.demo, study.fix.demo
        )?;
        let wall = |out: &mut String, pair: &Pair, what: &str| {
            let (before, after) = (pair.fault.wall_s(), pair.fix.wall_s());
            writeln!(
                out,
                "| {what}, s | {before:.2} | {after:.2} ({:+.0} %) |",
                change(pair)
            )
        };
        wall(out, &runs.fair, "wall time")?;
        writeln!(
            out,
            "| thread-time lost, ms | {:.0} ({:.0} % of all) | {:.0} ({:.0} %) |\n\
             | lost at {site}, ms | {:.0} | {:.0} |\n\
             | imbalance at {site}, % | {:.0} | {:.0} |",
            fault.lost_ms(),
            fault.lost_pct(),
            fix.lost_ms(),
            fix.lost_pct(),
            lost.0,
            lost.1,
            imbalance.0,
            imbalance.1,
        )?;
        if runs.many.threads > self.cpus {
            let what = format!("wall time with {} threads", runs.many.threads);
            wall(out, &runs.many, &what)?;
        }
        out.push('\n');
        let change = change(&runs.fair);
        let verdict = if change.abs() < SAME {
            format!("takes as long as before, within {SAME:.0} %")
        } else if change < 0.0 {
            format!("takes {:.0} % less time", -change)
        } else {
            format!("takes {change:.0} % more time")
        };
        self.paragraph(&format!("The mended program {verdict}."));
        Ok(())
    }

    /// Adds the table of CPU times over many threads.
    fn pattern(&mut self, study: &Study, many: &Pair) -> Result<()> {
        let threads = many.threads;
        let names: Vec<String> = (0..threads).map(|thread| format!("T{thread}")).collect();
        let out = &mut self.text;
        writeln!(
            out,
            "| CPU time with {threads} threads, ms | {} |\n|---{}|",
            names.join(" | "),
            "|---".repeat(threads)
        )?;
        for (program, series) in [(&study.fault, &many.fault), (&study.fix, &many.fix)] {
            let cells: Vec<String> = running(series, program.site, threads)?
                .iter()
                .map(|ms| format!("{ms:.0}"))
                .collect();
            writeln!(
                out,
                "| `{}`, at `{}` | {} |",
                program.demo,
                program.site,
                cells.join(" | ")
            )?;
        }
        out.push('\n');
        self.paragraph(&(study.pattern)(many)?);
        Ok(())
    }
}

/// How much longer the mended program takes, per cent.
fn change(pair: &Pair) -> f64 {
    100.0 * (pair.wall_ratio() - 1.0)
}
