//! Functions by normalised processor time in the text report.

use super::{Table, count, duration, each, line, percent, phases::title, plural, wrapped};
use crate::show::table::Style;
use sbt_engine::report::{FunctionReport, Report, SamplingReport};

/// Maximum number of functions in the table.
const MOST: usize = 10;

/// The functions in which samples were taken, and how far the samples can be trusted.
pub fn functions(out: &mut String, report: &Report, style: Style) {
    let (Some(sampling), Some(functions)) = (&report.sampling, &report.functions) else {
        return;
    };
    title(out, "FUNCTIONS, by normalised processor time", style);
    let shown: Vec<&FunctionReport> = functions.iter().take(MOST).collect();
    if !shown.is_empty() {
        let texts = |f: &dyn Fn(&FunctionReport) -> String| {
            shown.iter().map(|function| f(function)).collect()
        };
        let mut table = Table::default();
        table
            .column(
                "function",
                texts(&|function| sbt_engine::place::printable(&function.function)),
            )
            .durations(
                "NPT",
                &each(&shown, |function| Some(function.npt_ns)),
                style,
            )
            .column("share", texts(&|function| percent(Some(function.npt_pct))))
            .durations(
                "self",
                &each(&shown, |function| Some(function.self_npt_ns)),
                style,
            )
            .column("CPU", texts(&|function| percent(Some(function.cpu_pct))))
            .column("path", texts(&|function| percent(function.path_pct)))
            .column(
                "weighted",
                texts(&|function| percent(function.weighted_path_pct)),
            );
        table.write(out, style, 32);
        let more = functions.len() - shown.len();
        if more > 0 {
            let text = format!(
                "and {} more; --json has them",
                plural(more as u64, "function")
            );
            line(out, &style.dim(&text));
        }
    }
    for part in wrapped(&note(sampling, style), style.width.saturating_sub(2)) {
        line(out, &style.dim(&format!("  {part}")));
    }
}

fn note(it: &SamplingReport, style: Style) -> String {
    let mut text = format!(
        "{} at {} Hz: {} working, {} in barriers, {} outside of complete phases",
        plural(it.samples, "sample"),
        it.hz,
        count(it.working),
        count(it.waiting),
        count(it.outside),
    );
    let counts = [
        (it.lost, "lost"),
        (it.truncated, "with unknown callers"),
        (it.other, "beyond the limit of different call chains"),
    ];
    for (number, what) in counts.into_iter().filter(|(number, _)| *number > 0) {
        text = format!("{text}; {} {what}", count(number));
    }
    if let Some(blocked_ns) = it.blocked_npt_ns.filter(|ns| *ns > it.npt_ns / 100) {
        let blocked = duration(Some(blocked_ns), style);
        text =
            format!("{text}; asleep in the kernel, in none of these functions: {blocked} of NPT");
    }
    text
}
