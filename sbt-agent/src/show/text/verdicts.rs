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
    let mark = if style.unicode { '▶' } else { '>' };
    for (index, verdict) in report.verdicts.iter().flatten().enumerate() {
        if index == 0 {
            line(out, "");
        }
        let text = sentence(&verdict.text, style);
        for (index, part) in wrapped(&text, style.width - 2).iter().enumerate() {
            let indent = if index == 0 { mark } else { ' ' };
            let part = format!("{indent} {part}");
            // The part before the colon is bold: the kind of verdict and its place.
            line(out, &if index == 0 { style.bold(&part) } else { part });
        }
    }
}
