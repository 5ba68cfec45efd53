//! Runs the same programs under other tools that do a similar job: how much longer they take, how
//! many arrivals at barriers the tool sees, and whether it tells which thread was late.

mod limited;
mod programs;
mod read;
mod table;
mod tools;

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use super::series::Bench;
use crate::machine;
use crate::process;
use crate::test::require_tools;
use limited::{Ran, limited};
use programs::Program;
use table::{Cell, Column, Row};
use tools::{Scratch, Tool};

/// Heading of the section that [`compare`] writes.
pub const HEADING: &str = "## Against peers";

/// A run under a tool is cut off after this time, or after [`TIMES`] times the program's own time,
/// if that is more.
const LIMIT: Duration = Duration::from_secs(15);

/// Factor for the limit of a run: see [`LIMIT`].
const TIMES: u32 = 5;

/// A program alone may take this long.
const ALONE: Duration = Duration::from_mins(5);

/// Runs every program under every tool, in turn, and writes the section of the results.
pub fn compare(bench: &Bench, out: &mut String) -> Result<Vec<String>> {
    require_tools(&[("gcc", "gcc"), ("unshare", "util-linux")])?;
    let scratch = Scratch::new(&bench.folder()?);
    let programs = programs::all(bench)?;
    let tools = tools::all();
    let missing: Vec<Option<String>> = tools.iter().map(why_not_there).collect();
    let mut columns = Vec::new();
    let mut rows: Vec<Row> = tools.iter().map(Row::of).collect();
    for program in &programs {
        let (column, cells) = series(bench, program, &tools, &missing, &scratch)?;
        columns.push(column);
        for (row, cell) in rows.iter_mut().zip(cells) {
            row.cells.push(cell);
        }
    }
    let limits = format!("{} s, or {TIMES} × as long as alone", LIMIT.as_secs());
    let section = table::section(HEADING, &machine::line()?, &limits, &columns, &rows)?;
    out.extend(["\n", &section]);
    Ok(Vec::new())
}

/// Installs a tool if needed; returns why that failed.
fn why_not_there(tool: &Tool) -> Option<String> {
    let package = tool.package?;
    let error = require_tools(&[package]).err()?;
    Some(format!("{error:#}"))
}

/// Runs one program without a tool and under each tool, in several rounds.
fn series(
    bench: &Bench,
    program: &Program,
    tools: &[Tool],
    missing: &[Option<String>],
    scratch: &Scratch,
) -> Result<(Column, Vec<Cell>)> {
    let mut cells = vec![Cell::default(); tools.len()];
    for (cell, why) in cells.iter_mut().zip(missing) {
        if let Some(why) = why {
            cell.fail(why);
        }
    }
    let mut alone = Vec::new();
    let _prepared: Vec<tools::Prepared> = tools
        .iter()
        .zip(&mut cells)
        .filter(|(_, cell)| cell.goes_on())
        .filter_map(|(tool, cell)| match tool.prepare(program) {
            Ok(prepared) => prepared,
            Err(error) => {
                cell.fail(&format!("{error:#}"));
                None
            }
        })
        .collect();
    for round in 0..bench.pairs {
        eprintln!("measuring: {}, round {}", program.name, round + 1);
        let Ran::Ended(without) = limited(&mut program.command(), ALONE)? else {
            anyhow::bail!("{} takes more than {ALONE:?} alone", program.name);
        };
        let limit = LIMIT.max(Duration::from_secs_f64(without.wall) * TIMES);
        alone.push(without.own);
        // A later run in a round may find the machine warmer or busier.
        for turn in 0..tools.len() {
            let at = (turn + round) % tools.len();
            let (tool, cell) = (&tools[at], &mut cells[at]);
            if !cell.goes_on() {
                continue;
            }
            let mut command = tool.command(program, &bench.sbt, scratch)?;
            match limited(&mut command, limit) {
                Ok(Ran::Ended(with)) => {
                    let seen = tool.seen(program, scratch, &with.output);
                    cell.add(with.own / without.own, seen);
                }
                // This compares the times of the whole commands, since the start of the program is
                // not known.
                Ok(Ran::Cut) => cell.cut(limit.as_secs_f64() / without.wall),
                Err(error) => cell.fail(&format!("{error:#}")),
            }
        }
    }
    let column = Column {
        name: program.name,
        what: program.what,
        arrivals: program.arrivals,
        alone,
    };
    Ok((column, cells))
}

/// The program with two threads and phases of 100 µs.
pub fn phases(bench: &Bench) -> Result<PathBuf> {
    bench.compile("bench/phases.c", &["-O2", "-g", "-pthread"])
}

/// Runs a program that prints its own time, and returns it in seconds.
pub fn own_time(command: &mut Command) -> Result<f64> {
    let text = process::read(command)?;
    read::own_time(&text)
        .with_context(|| format!("the program did not say how long it took: {text:?}"))
}
