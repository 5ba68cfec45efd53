//! Writes the page of case studies, docs/case-studies.md: runs programs with a known fault and
//! their mended forms, and compares them.
//!
//! All figures on the page come from the reports of these runs. If a report does not show the fault
//! of its study, the command fails, so that no false page is written.

mod excerpt;
mod page;
mod readings;
mod runs;
mod series;
mod studies;

use std::fs;

use anyhow::{Context, Result, ensure};

use crate::machine;
use crate::workspace::Workspace;
use runs::Bench;
use series::Pair;
use studies::{STUDIES, Study};

/// Number of threads for the tables over many threads.
const MANY: usize = 4;

/// Options of `cargo xtask case-studies`.
#[derive(clap::Args)]
pub struct Args {
    /// Runs of each program, faulty and mended in turns; their medians count
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    runs: u16,
    /// Size of the programs
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// Take runs also while others use the CPUs; without it such a run is repeated
    #[arg(long)]
    busy: bool,
    /// Only the study of this program; the page goes to standard output then
    #[arg(long)]
    only: Option<String>,
}

/// The measurements for one study.
struct Measured {
    /// The beginning of the report of each program that the page shows.
    shown: Vec<String>,
    /// Runs with a CPU for each thread.
    fair: Pair,
    /// Runs with [`MANY`] threads.
    many: Pair,
}

/// Runs all studies and writes the page.
pub fn run(args: &Args) -> Result<()> {
    let wanted: Vec<&Study> = STUDIES
        .iter()
        .filter(|study| {
            let names = [study.fault.demo, study.fix.demo];
            let only = args.only.as_deref();
            only.is_none_or(|only| names.contains(&only))
        })
        .collect();
    ensure!(!wanted.is_empty(), "there is no study of that program");
    let workspace = Workspace::locate()?;
    let sbt = machine::release_build(&workspace)?;
    let bench = Bench::new(&workspace, sbt, args)?;
    let cpus = std::thread::available_parallelism().context("counting CPUs")?;
    // The number of threads is even, because the studies speak of halves.
    let threads = if cpus.get() < MANY { 2 } else { MANY };

    let mut page = page::Page::begin(args, cpus.get(), threads)?;
    for study in wanted {
        let measured = measure(&bench, study, threads)?;
        page.study(&workspace, study, &measured)
            .with_context(|| format!("the study of {}", study.fault.demo))?;
    }
    if args.only.is_some() {
        println!("{}", page.text);
        return Ok(());
    }
    let path = workspace.root.join("docs/case-studies.md");
    fs::write(&path, page.text).with_context(|| format!("cannot write {}", path.display()))?;
    eprintln!("wrote {}", workspace.relative(&path).display());
    Ok(())
}

fn measure(bench: &Bench, study: &Study, threads: usize) -> Result<Measured> {
    let fair = bench.pair(study, threads)?;
    let many = if threads == MANY {
        fair.clone()
    } else {
        bench.pair(study, MANY)?
    };
    let mut shown = vec![bench.text(&study.fault, threads)?];
    if study.healthy.is_some() {
        shown.push(bench.text(&study.fix, threads)?);
    }
    Ok(Measured { shown, fair, many })
}
