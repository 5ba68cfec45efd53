//! The two lines at the top: whether the program makes progress, and where time goes.

use nix::sys::signal::Signal;
use ratatui::{
    buffer::Buffer,
    layout::Rect,
    style::Style,
    text::{Line, Span},
};

use super::{
    ended,
    facts::{self, Motion},
    replay,
    words::{self, clock, fit, plural, put, since, site_name, width},
};
use crate::screen::theme::Look;
use crate::show::{
    table::{UNKNOWN, count, duration},
    text,
};
use sbt_engine::{
    live::Snapshot,
    place::printable,
    report::{Report, UnfinishedReport},
    words::command_line,
};

/// Rows of the header.
pub const HEIGHT: u16 = 2;

/// Minimum width at which the bars are labelled.
const ROOMY: usize = 110;

/// Minimum number of bars of the pace.
const PACE_AT_LEAST: usize = 8;

/// Minimum width of the sentence; facts are omitted before it gets narrower.
const SENTENCE_AT_LEAST: usize = 44;

/// Minimum width of a place.
const PLACE_AT_LEAST: usize = 12;

/// Minimum width of a command.
const COMMAND_AT_LEAST: usize = 20;

pub fn draw(snapshot: &Snapshot, paused: bool, look: Look, buffer: &mut Buffer, area: Rect) {
    put(
        buffer,
        area,
        0,
        &facts_line(snapshot, paused, area.width, look),
    );
    let columns = usize::from(area.width);
    let most = columns.saturating_sub(44) / 2;
    let pace = match facts::motion(snapshot) {
        // The space is needed to say which threads are missing.
        Motion::Silent { unusual: true, .. } | Motion::Hangs { .. } | Motion::Slow { .. } => {
            String::new()
        }
        Motion::Moving | Motion::Ended { .. } | Motion::Off { .. } => {
            // The complete efficiency is worth more than the oldest bars.
            let needed = efficiency(snapshot, look).map_or(0, |texts| width(&texts[0]) + 3);
            let room = columns.saturating_sub(needed).min(most);
            pace(
                snapshot,
                if room < PACE_AT_LEAST { most } else { room },
                look,
            )
        }
        _ => pace(snapshot, most, look),
    };
    let what = match pace.as_str() {
        "" => "",
        _ if columns < ROOMY => "",
        _ => "episodes/s ",
    };
    let room = columns.saturating_sub(width(&pace) + width(what) + 3);
    let (words, style) = sentence(snapshot, room, look);
    let words = format!(" {}", words::left(&words, room, look));
    let line = Line::from_iter([
        Span::styled(words, style),
        Span::styled(format!(" {what}"), look.dim()),
        Span::styled(pace, look.good()),
    ]);
    put(buffer, area, 1, &line);
}

/// A mark and a few words for the program's state.
fn mark(snapshot: &Snapshot, look: Look) -> (String, Style) {
    match facts::motion(snapshot) {
        Motion::NoneYet => (
            format!("{} no episode yet", look.pick("◌", "o")),
            look.bold(),
        ),
        Motion::Moving => (format!("{} moving", look.pick("▶", ">")), look.good()),
        Motion::Silent { ns, unusual } => {
            let text = format!("no episode for {}", since(ns));
            if unusual {
                (format!("! {text}"), look.alarm())
            } else {
                (format!("{} {text}", look.pick("‖", "=")), look.bold())
            }
        }
        Motion::Hangs { ns } => (format!("! HANG for {}", since(ns)), look.alarm()),
        Motion::Slow { ns, stuck } => {
            let what = if stuck { "slow or stuck" } else { "slow" };
            let text = format!("{} {what} for {}", look.pick("‖", "="), since(ns));
            (text, look.bold())
        }
        Motion::Off { ns } => (
            format!("{} not watching for {}", look.pick("◼", "#"), since(ns)),
            look.alarm(),
        ),
        Motion::Ended { status, ran_ns } => {
            let (text, style) = match status {
                Some(0) => ("ended, status 0".into(), look.good()),
                Some(status @ 129..=192) => (
                    format!("ended by signal {}", signal(status - 128)),
                    look.alarm(),
                ),
                Some(status) => (format!("ended, status {status}"), look.alarm()),
                None => ("ended".into(), look.bold()),
            };
            // Rounded the same way as in the report that follows.
            let ran = since(ran_ns.saturating_add(50_000_000));
            let text = match status {
                _ if !ended::is_over(snapshot) => text,
                Some(_) => format!("program {text}, {ran}"),
                // The program's start is unknown.
                None => format!("program {text}, watched for {ran}"),
            };
            (format!("{} {text}", look.pick("◼", "#")), style)
        }
    }
}

/// The number of a signal, with its name if it has one: `9 (SIGKILL)`.
fn signal(number: u8) -> String {
    Signal::try_from(i32::from(number)).map_or_else(
        |_| number.to_string(),
        |signal| format!("{number} ({signal})"),
    )
}

/// A fact: its priority for omission (0 is never omitted, higher values are omitted first), its
/// text and style.
type Fact = (u8, String, Style);

fn facts_line(snapshot: &Snapshot, paused: bool, columns: u16, look: Look) -> Line<'static> {
    let report = &snapshot.report;
    let plain = Style::new();
    let (mark, mark_style) = mark(snapshot, look);
    let rate = match facts::motion(snapshot) {
        Motion::Moving | Motion::NoneYet => {
            let rate = facts::rate(snapshot).map_or_else(|| UNKNOWN.into(), rate);
            format!("{rate} episodes/s")
        }
        // After the end there is no rate.
        _ => format!("{} episodes", count(report.episodes)),
    };
    let own = snapshot.own_share_pct;
    let own = own.map_or_else(|| UNKNOWN.into(), |pct| format!("{pct:.2} %"));
    let lost = report.lost_events;
    let meeting: u64 = report.threads.iter().map(|thread| thread.threads).sum();
    // Of a program without barriers, looks from outside tell.
    let looked = report.waits.iter().map(|looks| looks.threads.len() as u64);
    let looked: u64 = looked.sum();
    let (threads, threads_seen) = if meeting > 0 {
        (meeting, plural(meeting, "thread"))
    } else {
        (looked, format!("{} seen", plural(looked, "thread")))
    };
    let moment = match &snapshot.replay {
        Some(replay) => Some(replay::position(replay, look)),
        // The mark already says how long the program ran.
        None if ended::is_over(snapshot) => None,
        None => Some(clock(snapshot.now_ns)),
    };
    // With backends that cost a lot, the cost and the backend are omitted late.
    let [cost_at, backend_at] = if report.run.is_by_ebpf() {
        [6, 7]
    } else {
        [2, 3]
    };
    let mut facts: Vec<Fact> = vec![
        (4, format!("pid {}", report.run.pid), plain),
        (1, rate, plain),
        if lost > 0 {
            (0, format!("lost {}", count(lost)), look.alarm())
        } else {
            (5, "lost 0".into(), plain)
        },
        own_cost(report, cost_at, look),
        (8, format!("sbt {own} CPU"), plain),
        (backend_at, report.run.backend.clone(), plain),
    ];
    if threads > 0 {
        facts.insert(1, (3, threads_seen, plain));
    }
    if snapshot.replay.is_some() {
        // sbt's own share now says nothing about its share during the recording.
        facts.retain(|fact| fact.0 != 8);
    }
    if let Some(moment) = moment {
        let at = if threads > 0 { 2 } else { 1 };
        facts.insert(at, (0, moment, plain));
    }
    if paused {
        facts.insert(0, (0, "PAUSED".into(), look.alarm()));
    }
    let dot = look.dot();
    let command = printable(&command_line(&report.run.command));
    let room = usize::from(columns);
    let fixed = 1 + width(&mark) + 2;
    let needed = |facts: &[Fact], command: usize| {
        let facts = facts.iter().map(|fact| width(&fact.1) + width(dot));
        fixed + command + facts.sum::<usize>()
    };
    while needed(&facts, width(&command).min(COMMAND_AT_LEAST)) > room {
        let most = facts.iter().map(|fact| fact.0).max().unwrap_or(0);
        if most == 0 {
            break;
        }
        facts.retain(|fact| fact.0 < most);
    }
    let command = fit(&command, room.saturating_sub(needed(&facts, 0)), look);
    let mut spans = vec![
        Span::raw(" "),
        Span::styled(mark, mark_style),
        Span::raw("  "),
        Span::styled(command, look.bold()),
    ];
    for (_, text, style) in facts {
        spans.push(Span::styled(dot, look.dim()));
        spans.push(Span::styled(text, style));
    }
    Line::from(spans)
}

/// The cost of watching to the program, and the share of time in which probes are on if it is
/// reduced. `at` is the priority for omission.
fn own_cost(report: &Report, at: u8, look: Look) -> Fact {
    let cost = &report.own_cost;
    let share = cost
        .share_pct
        .map_or_else(|| UNKNOWN.into(), |pct| format!("{pct:.2} %"));
    match &cost.thinned {
        // Never omitted: the figures on the screen cover only a part of the run.
        Some(thinned) => (
            0,
            format!("own cost {share}, {:.0} % seen", thinned.observed_pct),
            look.bold(),
        ),
        None => (at, format!("own cost {share}"), Style::new()),
    }
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a small count"
)]
fn rate(rate: f64) -> String {
    if rate < 10.0 {
        format!("{rate:.1}")
    } else {
        count(rate.round() as u64)
    }
}

/// The number of recent episodes per step of time, as a line of bars.
fn pace(snapshot: &Snapshot, columns: usize, look: Look) -> String {
    let done = snapshot.pace.split_last().map_or(&[][..], |(_, done)| done);
    let recent = &done[done.len().saturating_sub(columns)..];
    let values: Vec<u64> = recent.iter().map(|count| u64::from(*count)).collect();
    look.spark(&values)
}

/// Where time goes; or, if the program does not move, which threads wait for which.
fn sentence(snapshot: &Snapshot, room: usize, look: Look) -> (String, Style) {
    match facts::motion(snapshot) {
        Motion::Silent { unusual, .. } => {
            let style = if unusual { look.bold() } else { Style::new() };
            (who_waits(snapshot, room, look), style)
        }
        Motion::Hangs { .. } | Motion::Slow { .. } => {
            let hang = snapshot.report.run.hang.as_ref();
            let text = hang.map_or("", |hang| hang.found.text.as_str());
            (text::sentence(&printable(text), look.text()), look.bold())
        }
        Motion::NoneYet if snapshot.report.threads.is_empty() => (
            format!(
                "no thread has come to a barrier in {}",
                duration(Some(snapshot.now_ns), look.text())
            ),
            Style::new(),
        ),
        Motion::NoneYet => (who_waits(snapshot, room, look), Style::new()),
        _ => (how_well(snapshot, room, look), Style::new()),
    }
}

/// The efficiency and its factors, as a long and a short text; `None` if not known.
fn efficiency(snapshot: &Snapshot, look: Look) -> Option<[String; 2]> {
    let Some(it) = snapshot.report.efficiency else {
        // Efficiency that is merely not computed yet is not mentioned. The log has the reason for
        // lost events.
        let is_lossy = snapshot.report.lost_events > 0;
        return is_lossy.then(|| ["efficiency ?".into(), "efficiency ?".into()]);
    };
    let times = look.pick("×", "x");
    let factors = format!(
        "balance {:.2} {times} serial {:.2} {times} transfer {:.2}",
        it.load_balance, it.serialisation, it.transfer
    );
    let all = it.parallel;
    Some([
        format!("efficiency {all:.2} = {factors}"),
        format!("{all:.2} = {factors}"),
    ])
}

/// The efficiency of the threads. Where time goes instead, if that is not known; both if there is
/// room.
fn how_well(snapshot: &Snapshot, room: usize, look: Look) -> String {
    let texts = efficiency(snapshot, look);
    let Some(text) = texts.into_iter().flatten().find(|text| width(text) <= room) else {
        return where_time_goes(snapshot, room, look);
    };
    let dot = look.dot();
    let rest = room.saturating_sub(width(&text) + width(dot));
    if rest < SENTENCE_AT_LEAST {
        return match snapshot.report.efficiency {
            Some(_) => text,
            None => where_time_goes(snapshot, room, look),
        };
    }
    format!("{text}{dot}{}", where_time_goes(snapshot, rest, look))
}

fn where_time_goes(snapshot: &Snapshot, room: usize, look: Look) -> String {
    let Some(pct) = snapshot.report.thread_time.idle_pct else {
        let so_far = if ended::is_over(snapshot) { "" } else { " yet" };
        return format!("where time goes is not measured{so_far}");
    };
    let whole = format!("{pct:.0} % of thread time is waiting");
    let Some(site) = facts::worst(snapshot) else {
        return whole;
    };
    let name = site_name(site);
    let (mut who, mut who_short) = (String::new(), String::new());
    if let Some(straggler) = text::known(site) {
        let (thread, share) = (straggler.thread, straggler.share_pct);
        who = format!(", T{thread} last in {share:.0} %");
        who_short = format!(", T{thread} {share:.0} %");
    }
    let texts = [
        format!("{whole}; most: {name}{who}"),
        format!("{pct:.0} % waiting; most: {name}{who}"),
    ];
    let fitting = texts.into_iter().find(|text| width(text) <= room);
    fitting.unwrap_or_else(|| {
        let begin = format!("{pct:.0} % waiting; most: ");
        let rest = width(&begin) + width(&who_short);
        let name = words::fit_middle(&name, room.saturating_sub(rest), look);
        begin + &name + &who_short
    })
}

/// The number of participants missing at the barrier where all waiting threads wait, including
/// threads that have ended. `None` if they wait at different barriers.
fn missed(snapshot: &Snapshot, now: &facts::Now) -> Option<usize> {
    let at_once = |open: &&UnfinishedReport| open.arrived.len() == now.waiting.len();
    let open = snapshot.report.unfinished.iter().find(at_once)?;
    let participants = usize::try_from(open.participants?).ok()?;
    participants.checked_sub(open.arrived.len())
}

/// How many threads wait, since when, and which are missing.
fn who_waits(snapshot: &Snapshot, room: usize, look: Look) -> String {
    let now = facts::now(snapshot);
    let ago = |ns: u64| since(snapshot.now_ns.saturating_sub(ns));
    let all = now.waiting.len() + now.working.len() + now.asleep.len() + now.unknown.len();
    if all == 0 {
        return "there are no threads".into();
    }
    let all = missed(snapshot, &now).map_or(all, |missed| now.waiting.len() + missed);
    let mut parts = Vec::new();
    let mut place = String::new();
    if let Some((since_ns, at)) = &now.longest {
        place = printable(at);
        let waiting = now.waiting.len();
        let wait = if waiting == 1 { "waits" } else { "wait" };
        let threads = if room < 60 { "" } else { " threads" };
        parts.push(format!(
            "{waiting} of {all}{threads} {wait}, up to {}",
            ago(*since_ns)
        ));
    }
    let some = |ids: &[u32], one: &str, many: &str| {
        let verb = if ids.len() == 1 { one } else { many };
        format!(
            "{} {verb}",
            words::threads(ids, 24, |id| snapshot.report.label(id))
        )
    };
    // The time is that of the first of them.
    let how_long = |ids: &[u32]| if ids.len() == 1 { "for" } else { "up to" };
    if let Some(since_ns) = now.working_since_ns {
        let who = words::threads(&now.working, 24, |id| snapshot.report.label(id));
        let how_long = how_long(&now.working);
        parts.push(format!("{who} elsewhere {how_long} {}", ago(since_ns)));
    }
    if let Some(since_ns) = now.asleep_since_ns {
        parts.push(format!(
            "{} elsewhere {} {}",
            some(&now.asleep, "sleeps", "sleep"),
            how_long(&now.asleep),
            ago(since_ns)
        ));
    } else if now.working_since_ns.is_none() && now.unknown.is_empty() {
        parts.push("nobody works".into());
    }
    if !now.unknown.is_empty() {
        parts.push(some(&now.unknown, "is unknown", "are unknown"));
    }
    if !now.ended.is_empty() {
        parts.push(some(&now.ended, "has ended", "have ended"));
    }
    let text = parts.join("; ");
    let left = room.saturating_sub(width(&text) + " at ".len());
    if place.is_empty() || left < PLACE_AT_LEAST {
        return text;
    }
    // The place follows the first part, which says how many threads wait.
    parts[0].push_str(" at ");
    parts[0].push_str(&words::fit_middle(&place, left, look));
    parts.join("; ")
}
