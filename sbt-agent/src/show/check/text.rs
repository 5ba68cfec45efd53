//! Outcomes of rules as text lines.

use std::fmt::Write as _;

use super::safe;
use crate::show::{
    table::{Style, UNKNOWN},
    text::{sentence, wrapped},
};
use sbt_engine::gate::{CheckReport, Outcome, Status, Unit};

/// Indentation of site names and sentences that do not fit on the outcome's line.
const INDENT: &str = "      ";

/// One line for each rule and site, worst first, and a summary.
pub fn render(check: &CheckReport, style: Style) -> String {
    let rows: Vec<Row> = check
        .outcomes
        .iter()
        .map(|outcome| Row::of(outcome, style))
        .collect();
    let widths = [0, 1, 2].map(|column| {
        let cells = rows.iter().map(|row| length(&row.cells[column]));
        cells.max().unwrap_or(0)
    });
    let mut out = String::new();
    for row in &rows {
        row.write(&mut out, widths, style);
    }
    out.push_str(&summary(check, style));
    out.push('\n');
    out
}

/// The summary: how many rules hold.
fn summary(check: &CheckReport, style: Style) -> String {
    let all = check.outcomes.len();
    let text = match (check.failures, all) {
        (0, 1) => "check: the rule holds".into(),
        (0, _) => format!("check: all {all} rules hold"),
        (failures, _) => {
            let do_not = if failures == 1 { "does" } else { "do" };
            let why = match check.result {
                Status::Hangs => "the program hung or stood still for too long",
                Status::Failed => "the program has failed",
                Status::Lost => "not enough is known to judge",
                Status::Holds | Status::Broken => "rules are broken",
            };
            format!(
                "check: {failures} of {all} rules {do_not} not hold: {why} (exit status {})",
                check.exit_status
            )
        }
    };
    style.bold(&text)
}

struct Row {
    holds: bool,
    /// The rule, the measured value, the limit.
    cells: [String; 3],
    site: String,
    text: Option<String>,
}

impl Row {
    fn of(outcome: &Outcome, style: Style) -> Self {
        let (measured, limit) = if let Some(measured) = outcome.measured {
            let [is, limit] = outcome.texts(measured);
            (is, limit)
        } else {
            let [_, limit] = outcome.texts(outcome.limit);
            let none = if outcome.holds { "none" } else { UNKNOWN };
            (none.into(), limit)
        };
        let than = match (outcome.is_upper, style.unicode) {
            _ if outcome.unit == Unit::Status => "=",
            (true, true) => "≤",
            (true, false) => "<=",
            (false, true) => "≥",
            (false, false) => ">=",
        };
        let site = outcome.site.as_deref().unwrap_or("the whole run");
        let mean = outcome.mean_ns.map(|ns| {
            let mean = outcome.texts(sbt_engine::report::Figure::Whole(ns));
            format!(" (mean {})", mean[0])
        });
        Self {
            holds: outcome.holds,
            cells: [
                outcome.rule.to_string(),
                measured,
                format!("{than} {limit}"),
            ],
            site: format!("{}{}", safe(site), mean.unwrap_or_default()),
            text: outcome.text.as_deref().map(|text| sentence(text, style)),
        }
    }

    fn write(&self, out: &mut String, widths: [usize; 3], style: Style) {
        let [rule, measured, limit] = &self.cells;
        let pad = |text: &str, width: usize| " ".repeat(width.saturating_sub(length(text)));
        let verdict = if self.holds { "PASS" } else { "FAIL" };
        let verdict = if self.holds {
            style.dim(verdict)
        } else {
            style.bold(verdict)
        };
        let line = format!(
            "{rule}{}  {}{measured}  {limit}{}",
            pad(rule, widths[0]),
            pad(measured, widths[1]),
            pad(limit, widths[2]),
        );
        let is_short = INDENT.len() + length(&line) + 2 + length(&self.site) <= style.width;
        if is_short {
            let _infallible = writeln!(out, "{verdict}  {line}  {}", self.site);
        } else {
            let _infallible = writeln!(out, "{verdict}  {}", line.trim_end());
            indented(out, &self.site, style);
        }
        if let Some(text) = &self.text {
            indented(out, text, style);
        }
    }
}

fn length(text: &str) -> usize {
    text.chars().count()
}

fn indented(out: &mut String, text: &str, style: Style) {
    for line in wrapped(text, style.width.saturating_sub(INDENT.len())) {
        out.push_str(INDENT);
        // Lines are broken between words only.
        out.push_str(&line.replace('\u{a0}', " "));
        out.push('\n');
    }
}
