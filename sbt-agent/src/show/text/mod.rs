//! The text report, ready to be pasted into a bug report.

use super::table::{Style, Table, Unit, count, duration, percent, plural};
use sbt_engine::{
    report::{Report, SiteReport, ThreadReport, UnfinishedReport},
    words::command_line,
};

mod away;
mod cost;
mod counters;
mod diff;
pub mod episode;
mod functions;
mod hang;
mod job;
mod locks;
mod phases;
mod scale;
mod sites;
mod spins;
pub mod standstill;
mod sweep;
#[cfg(test)]
mod tests;
mod usage;
mod verdicts;
pub(crate) mod waits;
mod without_barriers;

pub use cost::compensated;
pub use counters::gap_texts;
pub use diff::diff;
pub use hang::look;
pub use scale::{limit_text, scale, short_count};
use sites::spins_much;
pub use sites::{facts, known, top};
use spins::{is_spin, spins};
pub use sweep::{rate_text, rates_title, sweep};
pub use verdicts::sentence;

/// Maximum number of sites whose threads are shown one by one.
const DETAILED: usize = 3;
/// Minimum share of the total lost time for showing a site's threads. The worst site is always
/// shown.
const DETAILED_SHARE: f64 = 0.05;
/// Maximum number of rows in a table; further rows are only counted.
const MOST_ROWS: usize = 24;

/// A report, followed by the estimates without the cost of watching if `is_compensated`.
pub fn with(report: &Report, style: Style, is_compensated: bool) -> String {
    let mut text = render(report, style);
    if is_compensated {
        compensated(&mut text, report, style);
    }
    text
}

/// Renders the report.
pub fn render(report: &Report, style: Style) -> String {
    let mut out = String::new();
    header(&mut out, report, style);
    hang::hang(&mut out, report, style);
    if let Some(why) = report.why_nothing_counts() {
        for part in wrapped(&why, style.width) {
            line(&mut out, &style.bold(&part));
        }
    } else if report.sites.is_empty() && report.has_marks_of_the_users() {
        // A user who only asked for marks does not miss barriers.
    } else if report.sites.is_empty() {
        without_barriers::nothing_found(&mut out, report, style);
    } else {
        summary(&mut out, report, style);
        usage::efficiency(&mut out, report, style);
        verdicts::verdicts(&mut out, report, style);
        phases::warnings(&mut out, report, style);
        sites::barriers(&mut out, report, style);
        let lost: u64 = report.sites.iter().map(|site| site.lost_ns).sum();
        for (index, site) in report.sites.iter().take(DETAILED).enumerate() {
            let counts = index == 0 || site.lost_ns as f64 >= DETAILED_SHARE * lost as f64;
            if site.lost_ns > 0 && counts {
                sites::details(&mut out, report, site, style);
            }
        }
        phases::phases(&mut out, report, style);
        phases::conceptual(&mut out, report, style);
        counters::counters(&mut out, report, style);
        threads(&mut out, report, style);
        away::away(&mut out, report, style);
        waits::beside(&mut out, report, style);
        functions::functions(&mut out, report, style);
        unfinished(&mut out, report, style);
    }
    phases::marks(&mut out, report, style);
    moments(&mut out, report, style);
    locks::locks(&mut out, report, style);
    footer(&mut out, report, style);
    out
}

fn line(out: &mut String, text: &str) {
    out.push_str(&text.trim_end().replace(NO_BREAK, " "));
    out.push('\n');
}

fn header(out: &mut String, report: &Report, style: Style) {
    let command = sbt_engine::place::printable(&command_line(&report.run.command));
    let status = match report.run.exit_status {
        Some(status @ 129..=192) => format!("ended by signal {}", status - 128),
        Some(status) => format!("exit status {status}"),
        None if report.run.ended => "has ended".into(),
        None if !report.is_complete() => "end not recorded".into(),
        None => "still running".into(),
    };
    let whom = match &report.run.job {
        Some(job) => job::size(job),
        None => format!("pid {}", report.run.pid),
    };
    let title = format!("sbt · {command} · {whom} · {status}");
    let title = if style.unicode {
        title
    } else {
        title.replace('·', "|")
    };
    line(out, &style.bold(&title));
    for missing in &report.incomplete {
        for part in wrapped(&format!("NOT COMPLETE: {}", missing.text), style.width) {
            line(out, &style.bold(&part));
        }
    }
    let time = |ns| duration(Some(ns), style);
    if let Some(job) = &report.run.job {
        for text in job::texts(report, job, style) {
            for part in wrapped(&text, style.width) {
                line(out, &part);
            }
        }
    }
    if let Some(part) = report.counted_part(time) {
        for part in wrapped(&part, style.width) {
            line(out, &part);
        }
    }
}

/// The moments that were marked from outside of the program.
fn moments(out: &mut String, report: &Report, style: Style) {
    let all = report.run.moments.iter();
    let all: Vec<String> = all
        .map(|moment| {
            format!(
                "`{}` at {}",
                moment.name,
                duration(Some(moment.after_ns), style)
            )
        })
        .collect();
    if !all.is_empty() {
        line(out, "");
        let text = format!("marked with `sbt ctl`, after the start: {}", all.join(", "));
        for part in wrapped(&text, style.width) {
            line(out, &part);
        }
    }
}

fn summary(out: &mut String, report: &Report, style: Style) {
    let threads = report.threads.iter().map(|thread| thread.threads).sum();
    line(
        out,
        &format!(
            "{} watched, {}{}, {}, {}",
            duration(Some(report.run.wall_ns), style),
            match report.processes.len() {
                0 | 1 => String::new(),
                several => format!("{several} processes, "),
            },
            plural(threads, "thread"),
            plural(report.barriers.len() as u64, "barrier"),
            plural(report.episodes, "episode"),
        ),
    );
    let time = &report.thread_time;
    let part = |ns: u64, share: Option<f64>, what: &str| {
        let figures = format!("{} ({})", duration(Some(ns), style), percent(share));
        format!("{} {what}", figures.replace(' ', NO_BREAK))
    };
    let (until, afterwards) = if report.worked_in_barriers_pct().is_some() {
        (
            "waiting in barriers or at tasks there",
            "resuming or at tasks",
        )
    } else {
        ("waiting for the last thread", "resuming afterwards")
    };
    let release = match (time.release_ns, report.run.departures) {
        (Some(ns), Some(true)) => part(ns, time.release_pct, afterwards),
        (Some(ns), _) => format!("at least {}", part(ns, time.release_pct, afterwards)),
        // Release time that was not measured is included in the work.
        (None, _) => "? resuming afterwards".into(),
    };
    let waiting: u64 = report
        .unfinished
        .iter()
        .filter(|open| !is_usual(report, open))
        .map(|open| open.idle_ns)
        .sum();
    let mut parts = Vec::new();
    if time.total_ns > 0 {
        let idle = part(time.idle_ns, time.idle_pct, until);
        let total = duration(Some(time.total_ns), style);
        parts.push(format!("of {total} thread time: {idle},"));
        parts.push(format!("{release},"));
        // When threads leave these barriers is not known.
        let work = match report.slept_after_the_last_pct() {
            Some(_) => "work or sleep in barriers after the last has come",
            None => "work",
        };
        parts.push(part(time.work_ns, time.work_pct, work));
        if let Some(between_ns) = time.between_ns.filter(|ns| *ns > 0) {
            if let Some(last) = parts.last_mut() {
                last.push(',');
            }
            let what = "between parallel regions";
            parts.push(part(between_ns, time.between_pct, what));
        }
    }
    if waiting > 0 {
        if let Some(last) = parts.last_mut() {
            last.push(';');
        }
        let waiting = duration(Some(waiting), style);
        parts.push(format!("{waiting} in barriers not completed"));
    }
    if parts.is_empty() {
        return;
    }
    // Two lines, broken between the parts if this suffices.
    let whole: Vec<String> = parts
        .iter()
        .map(|part| part.replace(' ', NO_BREAK))
        .collect();
    let whole = wrapped(&whole.join(" "), style.width);
    let lines = if whole.len() > 2 {
        wrapped(&parts.join(" "), style.width)
    } else {
        whole
    };
    for part in lines {
        line(out, &part);
    }
}

/// A blank at which lines are not broken.
const NO_BREAK: &str = "\u{a0}";

/// Whether the wait at an open barrier is hardly longer than the longest there: then watching simply ended in
/// the middle of an episode.
fn is_usual(report: &Report, open: &UnfinishedReport) -> bool {
    // How long it takes until a thread runs again differs from time to time.
    let least_ns = open.waiting_ns / 5 * 4;
    // An episode with missing threads may be assigned to another site, so barriers count as well.
    let sites = report.sites.iter();
    sites
        .filter(|site| site.id == open.site || site.barriers.contains(&open.barrier))
        .filter_map(|site| site.barrier_ns.as_ref())
        .any(|barrier| least_ns <= barrier.max)
}

/// The name of a site: the user's name for it, or all places that it is called from.
fn name(site: &SiteReport) -> String {
    site.called()
}

/// The name of a site given by its id.
fn name_of(report: &Report, site: u32) -> String {
    report.site(site).map_or_else(String::new, name)
}

fn thread_name(report: &Report, id: u32) -> String {
    match report.thread(id) {
        Some(thread) if thread.threads > 1 => {
            format!("{} further threads", count(thread.threads))
        }
        Some(thread) if !thread.name.is_empty() => format!("{} {}", thread.label, thread.name),
        _ => report.label(id),
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

/// The rows to be shown, in their order, and the other rows.
struct Chosen<'a, T> {
    shown: Vec<&'a T>,
    others: Vec<&'a T>,
}

/// Chooses threads that most often arrive last, then threads with the most work, then those with
/// the most idle time. `figures` returns a row's thread number and these three values.
fn choose<'a, T>(
    report: &Report,
    rows: &'a [T],
    figures: impl Fn(&T) -> (u32, [u64; 3]),
) -> Chosen<'a, T> {
    let mut chosen = std::collections::BTreeSet::new();
    if rows.len() > MOST_ROWS {
        let mut ranked: Vec<(usize, [u64; 3])> = Vec::new();
        for (index, row) in rows.iter().enumerate() {
            let (thread, figures) = figures(row);
            if is_shared(report, thread) {
                // Sums over several threads do not compare with the sums of one, so shared rows are
                // always shown.
                chosen.insert(index);
            } else {
                ranked.push((index, figures));
            }
        }
        for (rank, most) in [(0, MOST_ROWS / 3), (1, MOST_ROWS * 2 / 3), (2, MOST_ROWS)] {
            ranked.sort_by_key(|(index, figures)| (std::cmp::Reverse(figures[rank]), *index));
            for (index, figures) in &ranked {
                if chosen.len() < most && figures[rank] > 0 {
                    chosen.insert(*index);
                }
            }
        }
    } else {
        chosen.extend(0..rows.len());
    }
    let (shown, others): (Vec<_>, Vec<_>) = rows
        .iter()
        .enumerate()
        .partition(|(index, _)| chosen.contains(index));
    let rows = |some: Vec<(usize, &'a T)>| some.into_iter().map(|(_, row)| row).collect();
    Chosen {
        shown: rows(shown),
        others: rows(others),
    }
}

/// Whether a row stands for several threads.
fn is_shared(report: &Report, thread: u32) -> bool {
    report
        .thread(thread)
        .is_some_and(|thread| thread.threads > 1)
}

/// One line that summarises the threads left out of a table.
fn others(out: &mut String, work: &[Option<u64>], idle: &[Option<u64>], style: Style) {
    if work.is_empty() {
        return;
    }
    let range = |values: &[Option<u64>]| {
        let known = || values.iter().flatten().copied();
        let (least, most) = (known().min(), known().max());
        let unit = Unit::fitting([most]);
        match most {
            Some(_) => format!(
                "{} to {} {}",
                unit.write(least),
                unit.write(most),
                unit.label(style)
            ),
            None => "?".into(),
        }
    };
    let text = format!(
        "and {} more: work {}, idle {}",
        plural(work.len() as u64, "thread"),
        range(work),
        range(idle),
    );
    line(out, &style.dim(&text));
}

fn each<T>(rows: &[&T], f: impl Fn(&T) -> Option<u64>) -> Vec<Option<u64>> {
    rows.iter().map(|row| f(row)).collect()
}

fn threads(out: &mut String, report: &Report, style: Style) {
    line(out, "");
    line(out, &style.bold("THREADS, over the whole run"));
    let chosen = choose(report, &report.threads, |thread| {
        let work_ns = thread.work_ns.unwrap_or(0);
        (thread.id, [thread.last, work_ns, thread.idle_ns])
    });
    let shown: Vec<&ThreadReport> = chosen.shown;
    let spin = spins_much(&report.thread_time.waits);
    let mut table = Table::default();
    table.column(
        "thread",
        shown
            .iter()
            .map(|thread| thread_name(report, thread.id))
            .collect(),
    );
    // There is room for one of the two columns.
    if !spin {
        table.column(
            "tid",
            shown
                .iter()
                .map(|thread| match thread.threads {
                    0 | 1 => thread.tid.to_string(),
                    _ => String::new(),
                })
                .collect(),
        );
    }
    table
        .durations("work", &each(&shown, |thread| thread.work_ns), style)
        .durations("running", &each(&shown, |thread| thread.running_ns), style)
        .durations("ready", &each(&shown, |thread| thread.ready_ns), style)
        .durations("blocked", &each(&shown, |thread| thread.blocked_ns), style)
        .durations("idle", &each(&shown, |thread| Some(thread.idle_ns)), style);
    if spin {
        let spinning = |thread: &&ThreadReport| percent(thread.waits.spinning_pct);
        table.column("spin", shown.iter().map(spinning).collect());
    }
    table.column(
        "last",
        shown.iter().map(|thread| count(thread.last)).collect(),
    );
    table.write(out, style, 18);
    others(
        out,
        &each(&chosen.others, |thread| thread.work_ns),
        &each(&chosen.others, |thread| Some(thread.idle_ns)),
        style,
    );
}

/// Names of threads; of many only the first are given.
fn names(report: &Report, ids: &[u32], name: impl Fn(u32) -> String) -> String {
    const MOST: usize = 12;
    let mut names: Vec<String> = ids
        .iter()
        .filter(|id| !is_shared(report, **id))
        .map(|id| name(*id))
        .collect();
    let shared = ids.len() - names.len();
    let more = names.len().saturating_sub(MOST);
    names.truncate(MOST);
    if more > 0 {
        names.push(format!("{more} more"));
    }
    if let Some(id) = ids.iter().find(|id| is_shared(report, **id)) {
        names.push(format!("{shared} of {}", thread_name(report, *id)));
    }
    names.join(", ")
}

fn unfinished(out: &mut String, report: &Report, style: Style) {
    let (usual, long): (Vec<_>, Vec<_>) = report
        .unfinished
        .iter()
        .partition(|open| is_usual(report, open));
    if !long.is_empty() {
        line(out, "");
        // The lost events may be those of threads that left the barrier.
        let head = if report.lost_events > 0 {
            "NOT SEEN TO LEAVE when watching ended; events were lost, so they may have left"
        } else {
            "STILL WAITING when watching ended"
        };
        line(out, &style.bold(head));
    }
    for open in long.iter().take(MOST_ROWS) {
        let site = name_of(report, open.site);
        let of = open
            .participants
            .map_or_else(String::new, |n| format!(" of {n}"));
        let text = format!(
            "{site}: {}{of} there for {}: {}",
            open.arrived.len(),
            duration(Some(open.waiting_ns), style),
            names(report, &open.arrived, |id| thread_name(report, id)),
        );
        for part in wrapped(&text, style.width) {
            line(out, &part);
        }
        if !open.missing.is_empty() {
            let ended = |id: u32| report.thread(id).is_some_and(|thread| thread.ended);
            // They may have ended with the whole program.
            let all_ended = open.arrived.iter().all(|id| ended(*id));
            let gone = |id: u32| {
                let name = thread_name(report, id);
                if ended(id) && !all_ended {
                    format!("{name} (ended)")
                } else {
                    name
                }
            };
            let missing = names(report, &open.missing, gone);
            for part in wrapped(&format!("missing: {missing}"), style.width - 2) {
                line(out, &format!("  {part}"));
            }
        }
    }
    rest(out, long.len(), "barrier", style);
    if let Some(first) = usual.first() {
        let at = match usual.len() {
            1 => name_of(report, first.site),
            several => plural(several as u64, "barrier"),
        };
        let text = format!("when watching ended threads waited at {at}, no longer than usual");
        line(out, "");
        paragraph(out, &text, style);
    }
}

fn footer(out: &mut String, report: &Report, style: Style) {
    line(out, "");
    let departures = match report.run.departures {
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
        format!("{} ({})", report.run.backend, report.run.method),
        cost::own_cost(report, style),
        format!(
            "sbt used {} CPU",
            duration(Some(report.own_cost.cpu_ns), style)
        ),
    ];
    if report.lost_events > 0 {
        facts[0].push_str(
            " (there were more arrivals and episodes than reported; an episode with lost events \
            counts as incomplete)",
        );
    }
    paragraph(out, &facts.join(", "), style);
    let told = |note: &&String| {
        report.sites.is_empty()
            && (Some(*note) == report.run.none_found_because.as_ref() || is_spin(report, note))
    };
    let is_above = |note: &&String| report.incomplete.iter().any(|loss| loss.text == **note);
    let notes = report.notes.iter();
    for note in notes.filter(|note| !told(note) && !is_above(note)) {
        paragraph(out, &format!("note: {note}"), style);
    }
}

/// Dimmed text, broken between words to fit the width.
fn paragraph(out: &mut String, text: &str, style: Style) {
    for part in wrapped(text, style.width) {
        line(out, &style.dim(&part));
    }
}

/// The lines of a text, broken between words.
pub(super) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut current = String::new();
    let text = text.replace(" %", "\u{a0}%");
    for word in text.split(' ') {
        let length = current.chars().count() + 1 + word.chars().count();
        if !current.is_empty() && length > width {
            lines.push(std::mem::take(&mut current));
        }
        if !current.is_empty() {
            current.push(' ');
        }
        current.push_str(word);
    }
    lines.push(current);
    lines
}
