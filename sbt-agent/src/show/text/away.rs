//! Threads' time off the CPU, in the text report.

use super::{MOST_ROWS, count, duration, line, phases::title, rest, thread_name};
use crate::show::table::Style;
use sbt_engine::report::{BlockedReport, LateAwayReport, Report, TakerReport};

/// Number of reasons, or of processes that took the CPU, that are named.
const NAMED: usize = 3;
/// Minimum share of a reason that is named.
const LEAST: f64 = 0.01;

/// Reasons for blocking with their times: `page faults 3.0 ms, a futex (lock) 120 µs`.
fn blocked(all: &[BlockedReport], style: Style) -> Option<String> {
    let sum: u64 = all.iter().map(|reason| reason.ns).sum();
    let named: Vec<String> = all
        .iter()
        .filter(|reason| reason.ns as f64 >= LEAST * sum as f64)
        .take(NAMED)
        .map(|reason| {
            format!(
                "{} {}",
                reason.reason.words(),
                duration(Some(reason.ns), style)
            )
        })
        .collect();
    (!named.is_empty()).then(|| named.join(", "))
}

fn taken(all: &[TakerReport], style: Style) -> Option<String> {
    let sum: u64 = all.iter().map(|taker| taker.ns).sum();
    let named: Vec<String> = all
        .iter()
        .filter(|taker| taker.ns as f64 >= LEAST * sum as f64)
        .take(NAMED)
        .map(|taker| format!("{} {}", taker.called(), duration(Some(taker.ns), style)))
        .collect();
    (!named.is_empty()).then(|| named.join("; "))
}

/// Why the last thread to arrive at a site was late, one line for each fact.
pub fn late(late: &LateAwayReport, style: Style) -> Vec<String> {
    let blocked = blocked(&late.last, style)
        .map(|text| format!("before its arrival the last thread was blocked: {text}"));
    let taken = taken(&late.taken_by, style).map(|text| {
        format!(
            "the CPU of the last thread was \
        taken by {text}"
        )
    });
    blocked.into_iter().chain(taken).collect()
}

/// The section by thread.
pub fn away(out: &mut String, report: &Report, style: Style) {
    let threads = report.threads.iter();
    let mut all: Vec<(u64, String)> = threads
        .filter_map(|thread| {
            let away = thread.away.as_ref()?;
            let parts = [
                blocked(&away.blocked_on, style).map(|text| format!("blocked: {text}")),
                taken(&away.taken_by, style).map(|text| format!("CPU taken by {text}")),
            ];
            let text = parts.into_iter().flatten().collect::<Vec<_>>().join("; ");
            let times = away.blocked_on.iter().map(|reason| reason.ns);
            let ns = times
                .chain(away.taken_by.iter().map(|taker| taker.ns))
                .sum();
            let name = thread_name(report, thread.id);
            (!text.is_empty()).then(|| (ns, format!("{name}: {text}")))
        })
        .collect();
    if all.is_empty() {
        return;
    }
    title(
        out,
        "WITHOUT A CPU: why threads did not run in their work",
        style,
    );
    if all.len() > MOST_ROWS {
        all.sort_by_key(|(ns, _)| std::cmp::Reverse(*ns));
    }
    for (_, text) in all.iter().take(MOST_ROWS) {
        for (index, part) in super::wrapped(text, style.width - 4).iter().enumerate() {
            let indent = if index == 0 { "" } else { "    " };
            line(out, &format!("{indent}{part}"));
        }
    }
    rest(out, all.len(), "thread", style);
    if let Some(others) = report.states.other_episodes.filter(|others| *others > 0) {
        let text = format!(
            "  some context switches were not seen in {} episodes",
            count(others)
        );
        line(out, &style.dim(&text));
    }
}
