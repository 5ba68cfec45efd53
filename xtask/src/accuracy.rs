//! Measures how accurate sbt's figures are and writes `docs/accuracy.md`.
//!
//! Programs that know the answer log what they did, by their own clock, and sbt's figures are
//! compared with these logs.

mod barriers;
mod bars;
mod cases;
mod compare;
mod influence;
mod lab;
mod load;
mod log;
mod report;
mod shares;

use std::fs;

use anyhow::{Context, Result, bail};

use crate::machine;
use crate::workspace::Workspace;
use lab::Lab;

/// Options of `cargo xtask accuracy`.
#[derive(clap::Args)]
pub struct Args {
    /// Only this part, to standard output instead of docs/accuracy.md
    #[arg(long, value_enum)]
    only: Option<Part>,
    /// Pairs of runs for the influence on the program
    #[arg(long, default_value_t = 7)]
    pairs: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// Barriers with known times
    Barriers,
    /// Threads of known load
    Load,
    /// What sbt does to the program
    Influence,
}

/// Result of one part: its tables, and the bars that were missed.
#[derive(Default)]
struct Section {
    text: String,
    missed: Vec<String>,
}

/// Measures, writes the page, and fails if a bar was missed.
pub fn run(args: &Args) -> Result<()> {
    let workspace = Workspace::locate()?;
    let lab = Lab::prepare(&workspace)?;
    let mut all = Section {
        text: header()?,
        missed: Vec::new(),
    };
    for part in [Part::Barriers, Part::Load, Part::Influence] {
        if args.only.is_some_and(|only| only != part) {
            continue;
        }
        let section = match part {
            Part::Barriers => barriers::measure(&lab)?,
            Part::Load => shares::measure(&lab)?,
            Part::Influence => influence::measure(&lab, args.pairs)?,
        };
        all.text.push_str(&section.text);
        all.missed.extend(section.missed);
    }
    if args.only.is_some() {
        print!("{}", all.text);
    } else {
        let path = workspace.root.join("docs/accuracy.md");
        fs::write(&path, all.text).with_context(|| format!("cannot write {}", path.display()))?;
        eprintln!("wrote docs/accuracy.md");
    }
    if !all.missed.is_empty() {
        bail!("bars were missed:\n{}", all.missed.join("\n"));
    }
    Ok(())
}

fn header() -> Result<String> {
    Ok(format!(
        "# How true the figures are\n\n\
         `cargo xtask accuracy` writes this page. It runs programs that note by their own clock \
         what their threads do, and compares sbt's figures with these notes.\n\n\
         {}\n",
        machine::line()?
    ))
}
