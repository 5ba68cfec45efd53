//! Why threads waited, at the top of the text report.

use super::{line, paragraph, wrapped};
use crate::show::table::Style;
use sbt_engine::report::Report;

/// A sentence in characters that can be shown.
pub fn sentence(text: &str, style: Style) -> String {
    let text = sbt_engine::place::printable(text);
    if style.unicode {
        text
    } else {
        text.replace('µ', "u")
            .replace('→', "->")
            .replace('…', "...")
    }
}

/// A paragraph for each verdict, or the reason why there are none.
pub fn verdicts(out: &mut String, report: &Report, style: Style) {
    if let Some(because) = &report.no_verdict_because {
        paragraph(out, &format!("no verdict: {because}"), style);
    }
    for (index, verdict) in report.verdicts.iter().flatten().enumerate() {
        if index == 0 {
            line(out, "");
        }
        // The part before the colon is bold: the kind of verdict and its place.
        marked(out, &verdict.text, |at| at == 0, style);
    }
}

/// A sentence behind a mark. `is_bold`: whether the line with this index is bold.
pub fn marked(out: &mut String, text: &str, is_bold: fn(usize) -> bool, style: Style) {
    let mark = if style.unicode { '▶' } else { '>' };
    let parts = wrapped(&sentence(text, style), style.width.saturating_sub(2));
    for (at, part) in parts.iter().enumerate() {
        let part = format!("{} {part}", if at == 0 { mark } else { ' ' });
        line(out, &if is_bold(at) { style.bold(&part) } else { part });
    }
}
