//! Where threads slept, in the text report.

use super::{
    MOST_ROWS, Table, count, each, line, paragraph, percent, phases::title, plural, rest, wrapped,
};
use crate::show::table::Style;
use sbt_engine::report::{
    Report, WaitKind,
    waits::{LookedThreadReport, LooksReport, PairReport, WaitPlaceReport},
};
use sbt_engine::total::total;

/// The most places that are listed beside barriers, where they are not the main thing.
const BESIDE: usize = 5;

/// The share of thread time below which a place is not listed beside barriers, percent.
const LEAST: f64 = 1.0;

/// The most threads that are named at a place.
const NAMED: usize = 6;

/// The threads of a program in which no barrier was seen, and where they sleep.
pub fn alone(out: &mut String, report: &Report, style: Style) {
    let Some(looks) = report.waits.as_ref().filter(|looks| looks.looks > 0) else {
        return;
    };
    summary(out, report, looks, style);
    threads(out, looks, style);
    let places = shown_places(report, looks);
    if places.is_empty() {
        return;
    }
    let text = format!("WHERE THREADS WAIT, by {}", by(looks));
    list(out, &text, &places, MOST_ROWS, style);
    pairs(out, looks, style);
}

/// Who waits for whom: a line or two for each thread that waits.
fn pairs(out: &mut String, looks: &LooksReport, style: Style) {
    let all = waiters(looks);
    if all.is_empty() {
        return;
    }
    title(out, "WHO WAITS FOR WHOM, by who woke whom", style);
    for text in all.iter().take(MOST_ROWS) {
        for (index, part) in wrapped(text, style.width - 4).iter().enumerate() {
            let indent = if index == 0 { "" } else { "    " };
            line(out, &format!("{indent}{part}"));
        }
    }
    rest(out, all.len(), "thread", style);
}

/// Each thread that waits for others, with these, those that wait longest first.
pub(crate) fn waiters(looks: &LooksReport) -> Vec<String> {
    let mut of: Vec<(u32, f64, Vec<&PairReport>)> = Vec::new();
    // For whose end a thread waits is said with the place.
    let is_told = |pair: &&PairReport| pair.share_pct >= LEAST && pair.kind != WaitKind::Join;
    for pair in looks.pairs.iter().filter(is_told) {
        match of.iter_mut().find(|known| known.0 == pair.waiter_tid) {
            Some(known) => {
                known.1 += pair.share_pct;
                known.2.push(pair);
            }
            None => of.push((pair.waiter_tid, pair.share_pct, vec![pair])),
        }
    }
    of.sort_by(|one, other| other.1.total_cmp(&one.1));
    let first = looks.threads.first().map(|thread| &thread.name);
    let differ = looks
        .threads
        .iter()
        .any(|thread| Some(&thread.name) != first);
    let named = |label: &str, tid: u32| {
        let known = looks.threads.iter().find(|thread| thread.tid == tid);
        let known = known.filter(|_| differ);
        known.map_or_else(
            || label.to_owned(),
            |known| format!("{label} {}", known.name),
        )
    };
    let told = |(tid, _, pairs): (u32, f64, Vec<&PairReport>)| {
        let mut by: Vec<String> = pairs
            .iter()
            .take(NAMED)
            .map(|pair| {
                format!(
                    "{:.0} % for {}",
                    pair.share_pct,
                    named(&pair.waker, pair.waker_tid)
                )
            })
            .collect();
        if pairs.len() > NAMED {
            by.push(format!("{} more", pairs.len() - NAMED));
        }
        let waiter = pairs.first().map_or("", |pair| &pair.waiter);
        format!("{}: of its time {}", named(waiter, tid), by.join(", "))
    };
    of.into_iter().map(told).collect()
}

/// Where threads sleep in their work, beside barriers.
pub fn beside(out: &mut String, report: &Report, style: Style) {
    let Some(looks) = &report.waits else {
        return;
    };
    let places = shown_places(report, looks);
    if places.is_empty() {
        return;
    }
    let text = format!("WAITS IN THE WORK, by {}", by(looks));
    list(out, &text, &places, BESIDE, style);
}

/// The places that are shown: without barriers all of which enough is known, else those in the work.
pub(crate) fn shown_places<'a>(
    report: &Report,
    looks: &'a LooksReport,
) -> Vec<&'a WaitPlaceReport> {
    let is_alone = report.sites.is_empty();
    let is_shown = |place: &&WaitPlaceReport| {
        place.is_known() && (is_alone || !place.in_barrier && place.share_pct >= LEAST)
    };
    looks.places.iter().filter(is_shown).collect()
}

/// By what the places are known.
pub(crate) fn by(looks: &LooksReport) -> String {
    let looked = plural(looks.looks, "look");
    match looks.sums {
        Some(sums) if sums.sleeps > 0 => {
            let sleeps = plural(sums.sleeps, "sleep");
            format!("{sleeps} and {looked} at each thread")
        }
        _ => format!("{looked} at each thread"),
    }
}

fn summary(out: &mut String, report: &Report, looks: &LooksReport, style: Style) {
    if let Some(text) = usage(report, looks) {
        for part in wrapped(&text, style.width) {
            line(out, &part);
        }
    }
}

/// A program that used this many times the CPU time of the threads that were seen had other threads.
const MORE: f64 = 1.2;

/// The number of threads that were seen, and how they used CPUs; `None` if the kernel does not
/// tell.
fn usage(report: &Report, looks: &LooksReport) -> Option<String> {
    let known: Vec<&LookedThreadReport> = told(looks);
    let sum = |f: fn(&LookedThreadReport) -> Option<u64>| -> Option<u64> {
        known.iter().map(|thread| f(thread)).sum()
    };
    let lived = total(known.iter().map(|thread| thread.watched_ns));
    let ran = sum(|thread| thread.running_ns)?;
    let ready = sum(|thread| thread.ready_ns)?;
    if lived == 0 || report.run.wall_ns == 0 {
        return None;
    }
    // Looks end a little before the program does. `used` is of one process.
    let used = report
        .run
        .used
        .map_or(0, |used| used.user_ns + used.system_ns);
    let cpus = ran.max(used) as f64 / report.run.wall_ns as f64;
    // Looks miss threads that live for a short time.
    let misses_threads = used as f64 > MORE * ran as f64;
    let share = |ns: u64| percent(Some(ns as f64 / lived as f64 * 100.0));
    let mut processes: Vec<u32> = known.iter().map(|thread| thread.pid).collect();
    processes.dedup();
    let (who, whose) = match (known.len(), processes.len()) {
        (1, _) => ("The only thread that sbt saw".into(), "its"),
        (threads, 1) => (format!("The {threads} threads that sbt saw"), "their"),
        (threads, processes) => {
            let who = format!("The {threads} threads of {processes} processes that sbt saw");
            (who, "their")
        }
    };
    let begins = if misses_threads {
        format!(
            "The program used {cpus:.2} CPUs on average, in part before the first look at it, or by \
             threads that lived too briefly to be seen. {who} were"
        )
    } else {
        format!("{who} used {cpus:.2} CPUs on average:")
    };
    Some(format!(
        "{begins} running {} of {whose} time, ready without a CPU {}, \
         asleep {}.",
        share(ran),
        share(ready),
        share(lived.saturating_sub(ran).saturating_sub(ready)),
    ))
}

/// The threads of which something is known: of some it is only that they were there, for a moment.
fn told(looks: &LooksReport) -> Vec<&LookedThreadReport> {
    let is_known = |thread: &&LookedThreadReport| thread.looks > 0 || thread.watched_ns > 0;
    looks.threads.iter().filter(is_known).collect()
}

fn threads(out: &mut String, looks: &LooksReport, style: Style) {
    let mut shown = told(looks);
    let all = shown.len();
    if shown.len() > MOST_ROWS {
        shown.sort_by_key(|thread| std::cmp::Reverse(thread.running_ns));
        shown.truncate(MOST_ROWS);
    }
    title(out, "THREADS, until the last look at each", style);
    let name = |thread: &LookedThreadReport| format!("{} {}", thread.label, thread.name);
    let mut table = Table::default();
    table
        .column("thread", shown.iter().map(|thread| name(thread)).collect())
        .column(
            "tid",
            shown.iter().map(|thread| thread.tid.to_string()).collect(),
        )
        .durations(
            "watched",
            &each(&shown, |thread| Some(thread.watched_ns)),
            style,
        )
        .durations("running", &each(&shown, |thread| thread.running_ns), style)
        .durations("ready", &each(&shown, |thread| thread.ready_ns), style)
        .durations("blocked", &each(&shown, |thread| thread.blocked_ns), style)
        .column(
            "looks",
            shown.iter().map(|thread| count(thread.looks)).collect(),
        );
    table.write(out, style, 20);
    rest(out, all, "thread", style);
}

/// A line or two for each place.
fn list(out: &mut String, text: &str, places: &[&WaitPlaceReport], most: usize, style: Style) {
    title(out, text, style);
    for place in places.iter().take(most) {
        let text = super::verdicts::sentence(&at(place), style);
        for (index, part) in wrapped(&text, style.width - 4).iter().enumerate() {
            let indent = if index == 0 { "" } else { "    " };
            line(out, &format!("{indent}{part}"));
        }
    }
    if places.len() > most {
        let more = (places.len() - most) as u64;
        let text = format!("and {} more; --json has them all", plural(more, "place"));
        paragraph(out, &text, style);
    }
}

/// A place, with the share of time that each thread sleeps there, and who holds the lock.
fn at(place: &WaitPlaceReport) -> String {
    format!("{}: {}", named(place), by_whom(place))
}

/// For what threads wait at a place, and whether they spin.
pub(crate) fn named(place: &WaitPlaceReport) -> String {
    let spins = if place.spins() { "spinning for " } else { "" };
    format!("{spins}{}", place.called())
}

/// The share of time that each thread sleeps at a place, and who holds the lock.
pub(crate) fn by_whom(place: &WaitPlaceReport) -> String {
    let mut threads: Vec<String> = place
        .threads
        .iter()
        .take(NAMED)
        .map(|thread| format!("{} {:.0} %", thread.label, thread.share_pct))
        .collect();
    if place.threads.len() > NAMED {
        threads.push(format!("{} more", place.threads.len() - NAMED));
    }
    let held = if place.knows_holders() {
        let all: Vec<String> = place
            .holders
            .iter()
            .take(3)
            .map(|holder| format!("{} {:.0} %", holder.label, holder.share_pct))
            .collect();
        format!("; held meanwhile by {}", all.join(", "))
    } else {
        woken(place)
    };
    format!(
        "{} of {} time{held}",
        threads.join(", "),
        if place.threads.len() == 1 {
            "its"
        } else {
            "their"
        },
    )
}

/// Who woke those that slept at a place, where that is not said anyway.
fn woken(place: &WaitPlaceReport) -> String {
    let all = total(place.wakers.iter().map(|waker| waker.woken_ns));
    let says = !matches!(place.kind, WaitKind::Join | WaitKind::Barrier) && all > 0;
    let told = place.wakers.iter().filter(|_| says).take(3).map(|waker| {
        let pct = waker.woken_ns as f64 / all as f64 * 100.0;
        format!("{} {pct:.0} %", waker.label)
    });
    let told: Vec<String> = told.collect();
    if told.is_empty() {
        return String::new();
    }
    format!("; woken by {}", told.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sbt_engine::report::waits::{WaitThreadReport, WakerReport};

    #[test]
    fn who_waits_for_whom_is_a_line_for_each_thread() {
        let mut looks = sbt_engine::samples::imbalanced().report.waits.unwrap();
        assert_eq!(
            waiters(&looks),
            ["T1: of its time 9 % for T3", "T2: of its time 8 % for T3"]
        );
        let mut little = looks.pairs[0].clone();
        (little.share_pct, little.waker) = (0.9, "T2".into());
        looks.pairs.push(little.clone());
        (little.share_pct, little.kind) = (90.0, WaitKind::Join);
        looks.pairs.push(little.clone());
        (little.share_pct, little.kind) = (20.0, WaitKind::Io);
        looks.pairs.push(little);
        assert_eq!(
            waiters(&looks)[0],
            "T1: of its time 9 % for T3, 20 % for T2"
        );
    }

    #[test]
    fn a_place_says_who_sleeps_there_for_how_long() {
        let thread = |label: &str, share_pct| WaitThreadReport {
            label: label.into(),
            tid: 1,
            looks: 9,
            share_pct,
            slept_ns: None,
        };
        let mut place = WaitPlaceReport {
            kind: WaitKind::Condvar,
            call: Some("pthread_cond_wait".into()),
            what: None,
            place: "get queue.c:12".into(),
            function: Some("get".into()),
            file: Some("/src/queue.c".into()),
            line: Some(12),
            callers: vec!["stage queue.c:40".into()],
            in_library: false,
            in_barrier: false,
            looks: 18,
            share_pct: 9.0,
            sleeps: None,
            slept_ns: None,
            threads: vec![thread("T1", 71.2), thread("T2", 40.0)],
            objects: 2,
            object: None,
            awaited: Vec::new(),
            holders: Vec::new(),
            wakers: Vec::new(),
        };
        assert_eq!(
            at(&place),
            "2 condition variables at get queue.c:12 from stage queue.c:40: T1 71 %, T2 40 \
             % of their time"
        );
        place.wakers = [("T3", 90), ("T2", 10)]
            .map(|(label, woken_ns)| WakerReport {
                label: label.into(),
                tid: 1,
                woken_ns,
            })
            .to_vec();
        assert!(at(&place).ends_with("of their time; woken by T3 90 %, T2 10 %"));
        place.wakers.clear();
        place.kind = WaitKind::Sleep;
        place.call = Some("usleep".into());
        place.callers.clear();
        place.threads.truncate(1);
        assert_eq!(
            at(&place),
            "usleep called from get queue.c:12: T1 71 % of its time"
        );
    }
}
