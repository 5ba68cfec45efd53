//! The text report: what one pastes into a bug report.

use std::fmt::Write as _;

use super::table::{Style, Table, count, duration, percent};
use crate::report::{Report, SiteReport, ThreadReport};

mod phases;
mod sites;

pub use sites::pattern;

/// Sites whose threads are shown one by one.
const DETAILED: usize = 3;
/// Rows of a table before the rest is only counted.
const MOST_ROWS: usize = 24;

/// Writes the report.
pub fn render(report: &Report, style: Style) -> String {
    let mut out = String::new();
    header(&mut out, report, style);
    if report.sites.is_empty() && !report.marks.is_empty() {
        // Who only asked for marks does not miss barriers.
    } else if report.sites.is_empty() {
        nothing_found(&mut out, report, style);
    } else {
        summary(&mut out, report, style);
        phases::warnings(&mut out, report, style);
        sites::barriers(&mut out, report, style);
        for site in report
            .sites
            .iter()
            .filter(|site| site.lost_ns > 0)
            .take(DETAILED)
        {
            sites::details(&mut out, report, site, style);
        }
        phases::phases(&mut out, report, style);
        phases::conceptual(&mut out, report, style);
        threads(&mut out, report, style);
        unfinished(&mut out, report, style);
    }
    phases::marks(&mut out, report, style);
    footer(&mut out, report, style);
    out
}

fn line(out: &mut String, text: &str) {
    out.push_str(text.trim_end());
    out.push('\n');
}

fn header(out: &mut String, report: &Report, style: Style) {
    let command = crate::place::printable(&report.command.join(" "));
    let status = match report.exit_status {
        Some(status @ 129..=192) => format!("ended by signal {}", status - 128),
        Some(status) => format!("exit status {status}"),
        None if report.ended => "has ended".into(),
        None => "still running".into(),
    };
    let title = format!("sbt · {command} · pid {} · {status}", report.pid);
    let title = if style.unicode {
        title
    } else {
        title.replace('·', "|")
    };
    line(out, &style.bold(&title));
}

fn nothing_found(out: &mut String, report: &Report, style: Style) {
    let _infallible = writeln!(
        out,
        "No barrier was used in {}. Watched for: pthread_barrier_wait of glibc and musl, in the\n\
         program and in every library it mapped. Barriers made otherwise (OpenMP, condition\n\
         variables, atomics) are not recognised yet.",
        duration(Some(report.wall_ns), style)
    );
}

fn plural(n: u64, what: &str) -> String {
    let s = if n == 1 { "" } else { "s" };
    format!("{} {what}{s}", count(n))
}

fn summary(out: &mut String, report: &Report, style: Style) {
    let idle: u64 = report.threads.iter().map(|thread| thread.idle_ns).sum();
    let work: u64 = report
        .threads
        .iter()
        .filter_map(|thread| thread.work_ns)
        .sum();
    line(
        out,
        &format!(
            "{} watched, {}, {}, {}",
            duration(Some(report.wall_ns), style),
            plural(report.threads.len() as u64, "thread"),
            plural(report.barriers.len() as u64, "barrier"),
            plural(report.episodes, "episode"),
        ),
    );
    if idle + work > 0 {
        let share = idle as f64 / (idle + work) as f64 * 100.0;
        line(
            out,
            &format!(
                "{} of the threads' time went into waiting for the last to arrive: {} of {}",
                percent(Some(share)),
                duration(Some(idle), style),
                duration(Some(idle + work), style),
            ),
        );
    }
}

/// The name of a site: the user's, or all places that it is called from.
fn name(site: &SiteReport) -> String {
    site.name
        .as_deref()
        .map_or_else(|| site.places.join(" | "), crate::place::printable)
}

/// The name of a site by its id.
fn name_of(report: &Report, site: u32) -> String {
    report.site(site).map_or_else(String::new, name)
}

fn thread_name(report: &Report, id: u32) -> String {
    match report.thread(id) {
        Some(thread) if !thread.name.is_empty() => format!("T{id} {}", thread.name),
        _ => format!("T{id}"),
    }
}

fn rest(out: &mut String, all: usize, what: &str, style: Style) {
    if all > MOST_ROWS {
        let more = (all - MOST_ROWS) as u64;
        line(
            out,
            &style.dim(&format!(
                "and {} more; --json has them all",
                plural(more, what)
            )),
        );
    }
}

fn each<T>(rows: &[&T], f: impl Fn(&T) -> Option<u64>) -> Vec<Option<u64>> {
    rows.iter().map(|row| f(row)).collect()
}

fn threads(out: &mut String, report: &Report, style: Style) {
    line(out, "");
    line(out, &style.bold("THREADS, over the whole run"));
    let shown: Vec<&ThreadReport> = report.threads.iter().take(MOST_ROWS).collect();
    let mut table = Table::default();
    table
        .column(
            "thread",
            shown
                .iter()
                .map(|thread| thread_name(report, thread.id))
                .collect(),
        )
        .column(
            "tid",
            shown.iter().map(|thread| thread.tid.to_string()).collect(),
        )
        .durations("work", &each(&shown, |thread| thread.work_ns), style)
        .durations("running", &each(&shown, |thread| thread.running_ns), style)
        .durations("ready", &each(&shown, |thread| thread.ready_ns), style)
        .durations("blocked", &each(&shown, |thread| thread.blocked_ns), style)
        .durations("idle", &each(&shown, |thread| Some(thread.idle_ns)), style)
        .column(
            "last",
            shown.iter().map(|thread| count(thread.last)).collect(),
        );
    table.write(out, style, 20);
    rest(out, report.threads.len(), "thread", style);
}

fn unfinished(out: &mut String, report: &Report, style: Style) {
    if report.unfinished.is_empty() {
        return;
    }
    line(out, "");
    line(out, &style.bold("WAITING STILL, when watching ended"));
    for open in report.unfinished.iter().take(MOST_ROWS) {
        let site = name_of(report, open.site);
        let names = |ids: &[u32]| {
            let names: Vec<_> = ids.iter().map(|id| thread_name(report, *id)).collect();
            names.join(", ")
        };
        let of = open
            .participants
            .map_or_else(String::new, |n| format!(" of {n}"));
        line(
            out,
            &format!(
                "{site}: {}{of} there for {}: {}",
                open.arrived.len(),
                duration(Some(open.waiting_ns), style),
                names(&open.arrived),
            ),
        );
        if !open.missing.is_empty() {
            let gone = |id: &u32| {
                let ended = report.thread(*id).is_some_and(|thread| thread.ended);
                let name = thread_name(report, *id);
                if ended {
                    format!("{name} (ended)")
                } else {
                    name
                }
            };
            let missing: Vec<_> = open.missing.iter().map(gone).collect();
            line(out, &format!("  missing: {}", missing.join(", ")));
        }
    }
    rest(out, report.unfinished.len(), "barrier", style);
}

fn footer(out: &mut String, report: &Report, style: Style) {
    line(out, "");
    let departures = match report.departures {
        Some(true) => "watched",
        Some(false) => "not watched",
        None => "watched in part",
    };
    let mut facts = [
        format!("lost {}", plural(report.lost_events, "event")),
        format!(
            "incomplete {}",
            plural(report.incomplete_episodes, "episode")
        ),
        format!("departures {departures}"),
        format!("{} ({})", report.backend, report.method),
        format!(
            "sbt used {} CPU",
            duration(Some(report.own_cost.cpu_ns), style)
        ),
    ];
    if report.lost_events > 0 {
        facts[0].push_str(" (what they belonged to is counted as incomplete)");
    }
    paragraph(out, &facts.join(", "), style);
    for note in &report.notes {
        paragraph(out, &format!("note: {note}"), style);
    }
}

/// Text broken between words to fit the width.
fn paragraph(out: &mut String, text: &str, style: Style) {
    let mut current = String::new();
    for word in text.split(' ') {
        let length = current.chars().count() + 1 + word.chars().count();
        if !current.is_empty() && length > style.width {
            line(out, &style.dim(&current));
            current.clear();
        }
        if !current.is_empty() {
            current.push(' ');
        }
        current.push_str(word);
    }
    line(out, &style.dim(&current));
}
