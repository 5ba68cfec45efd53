//! The text report: what one pastes into a bug report.

use std::fmt::Write as _;

use super::table::{Style, Table, count, duration, percent};
use crate::report::{Report, SiteReport, ThreadReport};

/// Sites whose threads are shown one by one.
const DETAILED: usize = 3;
/// Rows of a table before the rest is only counted.
const MOST_ROWS: usize = 24;

/// Writes the report.
pub fn render(report: &Report, style: Style) -> String {
    let mut out = String::new();
    header(&mut out, report, style);
    if report.sites.is_empty() {
        nothing_found(&mut out, report, style);
    } else {
        summary(&mut out, report, style);
        barriers(&mut out, report, style);
        for site in report
            .sites
            .iter()
            .filter(|site| site.lost_ns > 0)
            .take(DETAILED)
        {
            details(&mut out, report, site, style);
        }
        threads(&mut out, report, style);
        unfinished(&mut out, report, style);
    }
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

/// The name of a site, by all places it is called from.
fn name(site: &SiteReport) -> String {
    site.places.join(" | ")
}

fn thread_name(report: &Report, id: u32) -> String {
    match report.thread(id) {
        Some(thread) if !thread.name.is_empty() => format!("T{id} {}", thread.name),
        _ => format!("T{id}"),
    }
}

fn barriers(out: &mut String, report: &Report, style: Style) {
    line(out, "");
    line(out, &style.bold("BARRIERS, by thread-time lost there"));
    let shown: Vec<&SiteReport> = report.sites.iter().take(MOST_ROWS).collect();
    let total: u64 = report.sites.iter().map(|site| site.lost_ns).sum();
    let mean = |stat: &Option<crate::report::StatReport>| stat.as_ref().map(|stat| stat.mean);
    let column = |f: &dyn Fn(&SiteReport) -> Option<u64>| -> Vec<Option<u64>> {
        shown.iter().map(|site| f(site)).collect()
    };
    let mut table = Table::default();
    table
        .column("site", shown.iter().map(|site| name(site)).collect())
        .column(
            "episodes",
            shown.iter().map(|site| count(site.episodes)).collect(),
        )
        .durations("phase", &column(&|site| mean(&site.phase_ns)), style)
        .durations("barrier", &column(&|site| mean(&site.barrier_ns)), style)
        .durations("lost", &column(&|site| Some(site.lost_ns)), style)
        .column(
            "share",
            shown
                .iter()
                .map(|site| {
                    percent((total > 0).then(|| site.lost_ns as f64 / total as f64 * 100.0))
                })
                .collect(),
        )
        .column(
            "last",
            shown
                .iter()
                .map(|site| {
                    site.straggler.as_ref().map_or_else(
                        || super::table::UNKNOWN.into(),
                        |straggler| format!("T{} {:.0} %", straggler.thread, straggler.share_pct),
                    )
                })
                .collect(),
        );
    table.write(out, style, style.width.saturating_sub(54).max(20));
    rest(out, report.sites.len(), "site", style);
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

fn details(out: &mut String, report: &Report, site: &SiteReport, style: Style) {
    line(out, "");
    line(out, &style.bold(&name(site)));
    let mut facts = Vec::new();
    if let Some(straggler) = &site.straggler {
        facts.push(format!(
            "{} comes last in {:.0} % of {}, {} behind the next on average",
            thread_name(report, straggler.thread),
            straggler.share_pct,
            plural(site.episodes, "episode"),
            duration(Some(straggler.mean_lead_ns), style),
        ));
    }
    if let Some(imbalance) = site.imbalance_pct {
        facts.push(format!(
            "imbalance {imbalance:.0} %: perfect balance would save {}",
            duration(Some(site.gain_ns), style),
        ));
    }
    if !site.callers.is_empty() {
        facts.push(format!("called from {}", site.callers.join(" < ")));
    }
    for fact in facts {
        line(out, &format!("  {fact}"));
    }
    let shown: Vec<_> = site.threads.iter().take(MOST_ROWS).collect();
    let most = shown.iter().map(|thread| thread.idle_ns).max().unwrap_or(0);
    let mut table = Table::default();
    table
        .column(
            "  thread",
            shown
                .iter()
                .map(|thread| format!("  {}", thread_name(report, thread.thread)))
                .collect(),
        )
        .durations("work", &each(&shown, |thread| thread.work_ns), style)
        .durations("idle", &each(&shown, |thread| Some(thread.idle_ns)), style)
        .column(
            "",
            shown
                .iter()
                .map(|thread| style.bar(thread.idle_ns as f64 / most.max(1) as f64, 20))
                .collect(),
        )
        .durations("release", &each(&shown, |thread| thread.release_ns), style)
        .column(
            "last",
            shown.iter().map(|thread| count(thread.last)).collect(),
        );
    table.write(out, style, 24);
    rest(out, site.threads.len(), "thread", style);
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
        let site = report.site(open.site).map_or_else(String::new, name);
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
