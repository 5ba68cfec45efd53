//! Standstills and their duration, in words.

use sbt_engine::{
    place::printable,
    report::{HangKind, HangOutcome, HangThreadReport, Report, StandstillReport},
    words::since,
};

/// The kind of standstill, and its duration.
pub fn heading(hang: &StandstillReport) -> String {
    let lasted = since(hang.lasted_ns);
    match (hang.is_hang(), hang.outcome) {
        (true, HangOutcome::Lasts) => format!("HANG for {lasted}"),
        (true, HangOutcome::Over) => format!("A HANG, over after {lasted}"),
        (true, _) => format!("A HANG, no longer watched after {lasted}"),
        (false, _) if hang.found.kind == HangKind::Outside => {
            format!("WAITING FOR THE OUTSIDE for {lasted}")
        }
        (false, _) if hang.found.kind == HangKind::Slow => format!("SLOW for {lasted}"),
        (false, _) => format!("SLOW OR STUCK for {lasted}"),
    }
}

/// The heading above the missing threads.
pub fn missing(hang: &StandstillReport) -> &'static str {
    if hang.found.certain {
        "missing"
    } else {
        "missing, probably"
    }
}

/// The activity of a thread, and the duration of its wait.
pub fn does(report: &Report, thread: &HangThreadReport) -> String {
    let waits = thread.waiting_ns;
    let waits = waits.map_or_else(String::new, |ns| format!(", for {}", since(ns)));
    let name = printable(&thread.who.name);
    let label = thread.who.thread.map(|id| report.label(id));
    let who = match label {
        Some(label) if !name.starts_with(&label) => format!("{label} {name}"),
        _ => name,
    };
    format!("{who}: {}{waits}", thread.does)
}
