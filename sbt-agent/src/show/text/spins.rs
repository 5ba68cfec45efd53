//! Suspected spinning barriers in the text report.

use super::{line, wrapped};
use crate::show::table::Style;
use sbt_engine::report::Report;

/// Whether a note is about a suspected spinning barrier.
pub fn is_spin(report: &Report, note: &str) -> bool {
    let mut all = report.spin_suspects.iter().flatten();
    all.any(|spin| spin.text == note)
}

/// A paragraph for each suspected barrier, for users who miss barriers in the report.
pub fn spins(out: &mut String, report: &Report, style: Style) {
    for spin in report.spin_suspects.iter().flatten() {
        line(out, "");
        // A command to be typed is not broken into lines.
        let command = spin.command.as_deref();
        let said = command.and_then(|command| spin.text.strip_suffix(command));
        for part in wrapped(said.unwrap_or(&spin.text).trim_end(), style.width) {
            line(out, &part);
        }
        if let (Some(command), Some(_)) = (command, said) {
            line(out, &format!("  {command}"));
        }
    }
}
