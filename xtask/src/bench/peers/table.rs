//! The section about other tools.

use std::fmt::Write as _;

use anyhow::Result;

use super::read::Seen;
use super::tools::Tool;
use crate::bench::figures::{median, percent};

/// An unwatched program.
pub struct Column {
    /// Name in tables.
    pub name: &'static str,
    /// Short description.
    pub what: &'static str,
    /// Number of arrivals at barriers.
    pub arrivals: u64,
    /// Time by the program's own clock in each round, s.
    pub alone: Vec<f64>,
}

/// A tool and its results.
pub struct Row {
    /// Name in tables.
    pub name: &'static str,
    /// Whether the tool tells which thread was late; empty if that does not apply.
    pub late: &'static str,
    /// One cell for each program.
    pub cells: Vec<Cell>,
}

impl Row {
    /// A row without cells.
    pub fn of(tool: &Tool) -> Self {
        Self {
            name: tool.name,
            late: tool.late,
            cells: Vec::new(),
        }
    }
}

/// The results of a program under a tool.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cell {
    /// The program's time divided by its time without the tool, of each run that ended by itself.
    pub ratios: Vec<f64>,
    /// The tool's count in each of these runs, if the count is known.
    pub seen: Vec<Seen>,
    /// A lower bound of the ratio, if a run was cut off.
    pub more_than: Option<f64>,
    /// Why figures are missing.
    pub reasons: Vec<String>,
}

impl Cell {
    /// Whether another run makes sense.
    pub fn goes_on(&self) -> bool {
        self.more_than.is_none() && (self.reasons.is_empty() || !self.ratios.is_empty())
    }

    /// Adds a run.
    pub fn add(&mut self, ratio: f64, found: Result<Option<Seen>>) {
        self.ratios.push(ratio);
        match found {
            Ok(found) => self.seen.extend(found),
            Err(why) => {
                let why = format!("what it counted is unknown: {why:#}");
                if !self.reasons.contains(&why) {
                    self.reasons.push(why);
                }
            }
        }
    }

    /// Adds a run that was cut off, which leaves nothing but a bound.
    pub fn cut(&mut self, more_than: f64) {
        *self = Self {
            more_than: Some(more_than),
            ..Self::default()
        };
    }

    /// Adds a failed run. If it is the first run, the tool does not work at all.
    pub fn fail(&mut self, why: &str) {
        self.reasons.push(if self.ratios.is_empty() {
            format!("does not work here: {why}")
        } else {
            format!("a run failed: {why}")
        });
    }

    fn slow_down(&self) -> String {
        if let Some(bound) = self.more_than {
            return format!("> {bound:.1} ×");
        }
        if self.ratios.is_empty() {
            return if self.reasons.is_empty() {
                "?".to_owned()
            } else {
                "does not work here".to_owned()
            };
        }
        let (least, most) = range(&self.ratios);
        format!(
            "**{}** ({} … {})",
            ratio(median(&self.ratios)),
            ratio(least),
            ratio(most)
        )
    }

    fn share(&self, arrivals: u64) -> String {
        if self.seen.is_empty() || self.seen.len() < self.ratios.len() {
            return "?".to_owned();
        }
        let counts: Vec<f64> = self
            .seen
            .iter()
            .map(|seen| match seen {
                Seen::Arrivals(count) | Seen::FutexCalls(count) => *count as f64,
            })
            .collect();
        let (least, most) = range(&counts);
        if matches!(self.seen[0], Seen::FutexCalls(_)) {
            return if least < most {
                format!("{least:.0} … {most:.0} calls")
            } else {
                format!("{most:.0} calls")
            };
        }
        let (least, most) = (of(least, arrivals), of(most, arrivals));
        if least == most {
            most
        } else {
            format!("{least} … {most}")
        }
    }
}

/// The least and the greatest value.
fn range(values: &[f64]) -> (f64, f64) {
    let values = || values.iter().copied();
    (
        values().fold(f64::INFINITY, f64::min),
        values().fold(0.0, f64::max),
    )
}

/// The change in per cent, or from double on, the factor.
fn ratio(ratio: f64) -> String {
    if ratio < 2.0 {
        percent(ratio)
    } else {
        format!("{ratio:.1} ×")
    }
}

/// A share in per cent; only a complete share is shown as 100.
#[allow(
    clippy::float_cmp,
    reason = "both are whole numbers far below where doubles have gaps"
)]
fn of(count: f64, arrivals: u64) -> String {
    let arrivals = arrivals as f64;
    if count >= arrivals {
        let more = count - arrivals;
        return if more == 0.0 {
            "all".to_owned()
        } else {
            format!("all, and {more:.0} more")
        };
    }
    format!("{:.3} %", count / arrivals * 100.0)
}

/// Writes the whole section. `limits`: the times after which runs were cut off.
pub fn section(
    heading: &str,
    machine: &str,
    limits: &str,
    columns: &[Column],
    rows: &[Row],
) -> Result<String> {
    let mut out = format!(
        "{heading}\n\n\
         Measured by `cargo xtask bench --only peers` ({machine}): each program alone and under each \
         tool in turns, {} rounds. Its own clock counts, not the start of a tool; the tools \
         write into files or count. Programs that count themselves say how many arrivals there \
         were.\n\n| program | | alone, s | arrivals |\n|---|---|---|---|\n",
        columns.first().map_or(0, |column| column.alone.len())
    );
    for column in columns {
        writeln!(
            out,
            "| {} | {} | {:.2} | {} |",
            column.name,
            column.what,
            median(&column.alone),
            column.arrivals
        )?;
    }
    let names: Vec<&str> = columns.iter().map(|column| column.name).collect();
    let names = names.join(" | ");
    let rule = "|---".repeat(columns.len());
    writeln!(
        out,
        "\nTime added, or from double on how many times as long: median of the rounds (least … \
         most). `>`: cut off after {limits}, as a whole command, so this is a bound and no \
         measurement.\n\n| under | {names} |\n|---{rule}|"
    )?;
    for row in rows {
        let cells: Vec<String> = row.cells.iter().map(Cell::slow_down).collect();
        writeln!(out, "| {} | {} |", row.name, cells.join(" | "))?;
    }
    writeln!(
        out,
        "\nArrivals that the tool counts, of those that there were (least … most of the rounds), \
         and whether it tells who was late. *Calls*: it counts system calls of futexes, and no \
         arrivals; one that does not sleep makes none. *More*: sbt also counts the end of OpenMP's parallel region, which the \
         program does not.\n\n| | {names} | who was late |\n|---{rule}|---|"
    )?;
    for row in rows.iter().filter(|row| !row.late.is_empty()) {
        let cells: Vec<String> = row
            .cells
            .iter()
            .zip(columns)
            .map(|(cell, column)| cell.share(column.arrivals))
            .collect();
        writeln!(
            out,
            "| {} | {} | {} |",
            row.name,
            cells.join(" | "),
            row.late
        )?;
    }
    reasons(&mut out, columns, rows)?;
    every_pair(&mut out, columns, rows)?;
    Ok(out)
}

/// Writes why figures are missing.
fn reasons(out: &mut String, columns: &[Column], rows: &[Row]) -> Result<()> {
    let mut first = "\n";
    for row in rows {
        for (cell, column) in row.cells.iter().zip(columns) {
            for why in &cell.reasons {
                writeln!(out, "{first}- {} at {}: {why}", row.name, column.name)?;
                first = "";
            }
        }
    }
    Ok(())
}

fn every_pair(out: &mut String, columns: &[Column], rows: &[Row]) -> Result<()> {
    writeln!(out, "\nAll rounds:\n")?;
    for row in rows {
        for (cell, column) in row.cells.iter().zip(columns) {
            if !cell.ratios.is_empty() {
                let all: Vec<String> = cell.ratios.iter().map(|value| ratio(*value)).collect();
                writeln!(out, "- {}, {}: {}", row.name, column.name, all.join(", "))?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(ratios: &[f64], seen: &[Seen]) -> Cell {
        Cell {
            ratios: ratios.to_vec(),
            seen: seen.to_vec(),
            ..Cell::default()
        }
    }

    #[test]
    fn small_ratios_are_per_cent_and_big_ones_times() {
        let cell = measured(&[1.01, 0.99, 2.5], &[]);
        assert_eq!(cell.slow_down(), "**+1.0 %** (-1.0 % … 2.5 ×)");
        let mut cell = cell;
        cell.cut(7.04);
        assert_eq!(cell.slow_down(), "> 7.0 ×");
        assert_eq!(cell.share(7), "?");
        assert_eq!(Cell::default().slow_down(), "?");
    }

    #[test]
    fn all_is_only_what_is_all() {
        let arrivals = [Seen::Arrivals(100_000), Seen::Arrivals(99_999)];
        assert_eq!(measured(&[], &arrivals).share(100_000), "99.999 % … all");
        assert_eq!(measured(&[], &arrivals[..1]).share(100_000), "all");
        let more = [Seen::Arrivals(100_002)];
        assert_eq!(measured(&[], &more).share(100_000), "all, and 2 more");
        assert_eq!(measured(&[], &[]).share(100_000), "?");
        let calls = [Seen::FutexCalls(7), Seen::FutexCalls(7)];
        assert_eq!(measured(&[], &calls).share(7), "7 calls");
    }

    #[test]
    fn one_failure_of_several_runs_is_told_and_the_others_count() {
        let mut cell = Cell::default();
        cell.fail("broken");
        assert!(!cell.goes_on());
        assert_eq!(cell.slow_down(), "does not work here");
        let mut cell = measured(&[1.5], &[]);
        cell.fail("broken");
        assert!(cell.goes_on());
        assert_eq!(cell.slow_down(), "**+50.0 %** (+50.0 % … +50.0 %)");
        let mut out = String::new();
        let columns = [Column {
            name: "radix",
            what: "sorting",
            arrivals: 10,
            alone: vec![1.0],
        }];
        let row = Row {
            name: "tool",
            late: "no",
            cells: vec![cell],
        };
        reasons(&mut out, &columns, &[row]).unwrap();
        assert_eq!(out, "\n- tool at radix: a run failed: broken\n");
    }

    #[test]
    fn what_is_not_known_has_its_reason() {
        let columns = [Column {
            name: "radix",
            what: "sorting",
            arrivals: 10,
            alone: vec![1.0, 2.0, 3.0],
        }];
        let mut unknown = Cell::default();
        unknown.add(1.5, Err(anyhow::anyhow!("it wrote no file")));
        let mut gone = Cell::default();
        gone.fail("no such package");
        let row = |name, late, cell| Row {
            name,
            late,
            cells: vec![cell],
        };
        let rows = [
            row("nothing", "", measured(&[1.0], &[])),
            row("good", "yes", measured(&[1.1], &[Seen::Arrivals(10)])),
            row("odd", "no", unknown),
            row("gone", "no", gone),
        ];
        let text = section("## Peers", "a machine", "9 s", &columns, &rows).unwrap();
        for line in [
            "## Peers",
            "| radix | sorting | 2.00 | 10 |",
            "| good | **+10.0 %** (+10.0 % … +10.0 %) |",
            "| good | all | yes |",
            "| odd | ? | no |",
            "| gone | does not work here |",
            "| gone | ? | no |",
            "- odd at radix: what it counted is unknown: it wrote no file",
            "- gone at radix: does not work here: no such package",
            "- good, radix: +10.0 %",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
        assert!(text.contains("3 rounds") && text.contains("after 9 s"));
        // The row without a tool cannot tell anything.
        assert!(!text.contains("| nothing | ? |"));
    }
}
