//! What may be barriers that spin, in the text report.

use super::{line, wrapped};
use crate::{report::Report, views::table::Style};

/// Whether a note is one of these.
pub fn is_spin(report: &Report, note: &str) -> bool {
    let mut all = report.spin_suspects.iter().flatten();
    all.any(|spin| spin.text == note)
}

/// A paragraph of its own for each, for who misses barriers.
pub fn spins(out: &mut String, report: &Report, style: Style) {
    for spin in report.spin_suspects.iter().flatten() {
        line(out, "");
        for part in wrapped(&spin.text, style.width) {
            line(out, &part);
        }
    }
}
