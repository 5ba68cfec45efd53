//! Hangs as text: in a report, and as the output of `sbt hang`.

use std::fmt::Write as _;

use super::{line, paragraph, plural, sentence, standstill::heading, verdicts::marked, wrapped};
use crate::show::table::Style;
use sbt_engine::{
    report::{HangReport, HangThreadReport, LookReport, Report},
    words::time,
};

/// Maximum number of threads named per group.
const MOST_NAMES: usize = 12;
/// Maximum number of groups per kind.
const MOST_GROUPS: usize = 12;
/// Maximum number of calls shown per thread.
const MOST_CALLS: usize = 5;
/// How many of the innermost calls are shown where more of a library hide the program's own.
const INNERMOST: usize = 1;

/// The output of `sbt hang`.
pub fn look(report: &LookReport, style: Style) -> String {
    let mut out = String::new();
    let mut title = format!("sbt hang · pid {}", report.pid);
    if let Some(looks) = report.looks {
        let looks = plural(looks.into(), "look");
        let _ = write!(title, " · {looks} in {}", time(report.looked_ns));
    }
    line(&mut out, &style.bold(&plain(&title, style)));
    line(&mut out, "");
    if let Some(hang) = &report.hang {
        body(&mut out, hang, style);
    } else {
        marked(&mut out, &report.text, |_| true, style);
        groups(&mut out, "threads", &report.threads, style);
    }
    // The notes of a hang include the notes of the report.
    let notes = report
        .hang
        .as_ref()
        .map_or(&report.notes, |hang| &hang.notes);
    notes_of(&mut out, notes, style);
    out
}

/// The part of a report about a hang; empty if there is none.
pub fn hang(out: &mut String, report: &Report, style: Style) {
    let Some(hang) = &report.run.hang else { return };
    line(out, "");
    line(out, &style.bold(&heading(hang)));
    body(out, &hang.found, style);
    notes_of(out, &hang.found.notes, style);
    line(out, "");
}

fn notes_of(out: &mut String, notes: &[String], style: Style) {
    if !notes.is_empty() {
        line(out, "");
    }
    for note in notes {
        paragraph(out, &format!("note: {}", sentence(note, style)), style);
    }
}

fn body(out: &mut String, hang: &HangReport, style: Style) {
    marked(out, &hang.text, |_| true, style);
    for also in &hang.also {
        marked(out, &also.text, |_| true, style);
    }
    if !hang.chain.is_empty() {
        line(out, "");
        line(out, &style.dim("who waits for whom"));
        for chain in &hang.chain {
            indented(out, &plain(chain, style), 2, 6, style);
        }
    }
    let (there, missing) = match hang.barrier {
        Some(_) => (
            "there",
            if hang.certain {
                "missing"
            } else {
                "missing, probably"
            },
        ),
        None => ("waiting", "missing"),
    };
    groups(out, there, &hang.arrived, style);
    groups(out, missing, &hang.missing, style);
    groups(out, "others", &hang.others, style);
}

/// One entry for all threads that do the same at the same place.
fn groups(out: &mut String, title: &str, threads: &[HangThreadReport], style: Style) {
    if threads.is_empty() {
        return;
    }
    let mut groups: Vec<Vec<&HangThreadReport>> = Vec::new();
    for thread in threads {
        let is_alike = |group: &&mut Vec<&HangThreadReport>| {
            group[0].does == thread.does && group[0].at == thread.at
        };
        match groups.iter_mut().find(is_alike) {
            Some(group) => group.push(thread),
            None => groups.push(vec![thread]),
        }
    }
    line(out, "");
    let title = format!("{title}: {}", plural(threads.len() as u64, "thread"));
    line(out, &style.dim(&title));
    let more = groups.len().saturating_sub(MOST_GROUPS);
    for threads in groups.iter().take(MOST_GROUPS) {
        group(out, threads, style);
    }
    if more > 0 {
        let more = format!("  and {more} more groups that do other things: see --json");
        line(out, &style.dim(&more));
    }
}

fn group(out: &mut String, threads: &[&HangThreadReport], style: Style) {
    let first = threads[0];
    let names: Vec<&str> = threads
        .iter()
        .map(|thread| thread.who.name.as_str())
        .collect();
    let mut who = names[..names.len().min(MOST_NAMES)].join(", ");
    if names.len() > MOST_NAMES {
        let _ = write!(who, " and {} more", names.len() - MOST_NAMES);
    }
    let each = if names.len() > 1 { "each " } else { "" };
    let what = sentence(&format!("{who}: {each}{}", first.does), style);
    indented(out, &what, 2, 4, style);
    let stack = common(threads);
    if stack.is_empty() {
        return;
    }
    let calls = shown(stack, first);
    let calls = format!("in {}", calls.join(" ← "));
    indented(out, &plain(&sentence(&calls, style), style), 4, 7, style);
}

/// The calls of a stack that are shown, with `…` where some are left out: calls of libraries do not push
/// out those of the program.
fn shown(stack: &[String], thread: &HangThreadReport) -> Vec<String> {
    let is_own = |call: &String| thread.own.contains(call) || thread.at.as_ref() == Some(call);
    let mut order: Vec<usize> = (0..stack.len()).collect();
    order.sort_by_key(|at| (*at >= INNERMOST, !is_own(&stack[*at]), *at));
    order.truncate(MOST_CALLS);
    order.sort_unstable();
    let mut calls: Vec<String> = Vec::new();
    let mut next = 0;
    for at in order {
        if at > next {
            calls.push("…".into());
        }
        calls.push(stack[at].clone());
        next = at + 1;
    }
    if thread.stack.last() != stack.get(next.saturating_sub(1)) {
        calls.push("…".into());
    }
    calls
}

/// The calls that all threads of a group have in common: the innermost, or else those from the program's
/// own code on, if they have come by different ways from there.
fn common<'a>(threads: &[&'a HangThreadReport]) -> &'a [String] {
    let own = |thread: &HangThreadReport| {
        let mut stack = thread.stack.iter();
        stack.position(|call| Some(call) == thread.at.as_ref())
    };
    let common = |begins: &dyn Fn(&HangThreadReport) -> usize| {
        let first = &threads[0].stack[begins(threads[0])..];
        let is_common = |at: &usize| {
            let same = |thread: &&HangThreadReport| {
                thread.stack.get(begins(thread) + at) == first.get(*at)
            };
            threads.iter().all(same)
        };
        &first[..(0..first.len()).take_while(is_common).count()]
    };
    match common(&|_| 0) {
        [] => common(&|thread| own(thread).unwrap_or(0)),
        innermost => innermost,
    }
}

/// A text with one indentation for its first line and another for further lines.
fn indented(out: &mut String, text: &str, first: usize, rest: usize, style: Style) {
    let width = style.width.saturating_sub(rest).max(20);
    for (index, part) in wrapped(text, width).iter().enumerate() {
        let indent = if index == 0 { first } else { rest };
        line(out, &format!("{:indent$}{part}", ""));
    }
}

/// Replaces characters that not every terminal can show.
fn plain(text: &str, style: Style) -> String {
    if style.unicode {
        return text.to_owned();
    }
    text.replace('→', "->")
        .replace('←', "<-")
        .replace('·', "|")
        .replace('…', "...")
}

#[cfg(test)]
mod tests {
    use sbt_engine::hang::{
        report,
        samples::{PROCESS, Seen, call, mutex},
    };

    use super::*;

    const PLAIN: Style = Style {
        width: 80,
        color: false,
        unicode: true,
    };

    #[test]
    fn sixty_four_threads_that_wait_are_one_entry() {
        let mut seen = Seen::new();
        let workers: Vec<u32> = (1..=64).filter(|number| *number != 2).collect();
        seen.barrier(64, 40, &workers)
            .worker(2, mutex(0x5581, 1), "update hangs.c:52");
        let text = look(&report(&seen.0, PROCESS), PLAIN);
        assert!(text.lines().count() < 30, "{text}");
        assert!(text.contains("there: 63 threads"), "{text}");
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
        assert!(text.contains("\nwho waits for whom\n  worker-2 → mutex 0x5581 held by worker-1"));
        assert!(
            text.contains("in update hangs.c:52 ← worker hangs.c:30"),
            "{text}"
        );
        let ascii = look(
            &report(&seen.0, PROCESS),
            Style {
                unicode: false,
                ..PLAIN
            },
        );
        assert!(ascii.is_ascii(), "{ascii}");
    }

    #[test]
    fn threads_that_came_to_one_place_by_different_ways_have_it_in_common() {
        let mut seen = Seen::new();
        seen.thread(1, "a", mutex(0x5581, 7), "*gate < set a.c:17 < work a.c:40")
            .thread(
                2,
                "b",
                mutex(0x5581, 7),
                "*other < set a.c:17 < main a.c:60",
            );
        let text = look(&report(&seen.0, PROCESS), PLAIN);
        assert!(text.contains("in set a.c:17 ← …"), "{text}");
    }

    #[test]
    fn calls_of_libraries_do_not_push_out_the_programs_own() {
        let mut seen = Seen::new();
        seen.thread(
            1,
            "a",
            mutex(0x5581, 7),
            "*lock gthr.h:749 < *lock std_mutex.h:100 < *guard std_mutex.h:229 < take a.c:14 < *call \
             std_function.h:591 < *invoke invoke.h:61 < job a.c:20 < *run future:300 < main a.c:60",
        );
        let text = look(&report(&seen.0, PROCESS), PLAIN).replace("\n       ", " ");
        let all = "in lock gthr.h:749 ← … ← take a.c:14 ← … ← job a.c:20 ← … ← main a.c:60";
        assert!(text.contains("take a.c:14"), "{text}");
        assert!(
            text.contains("job a.c:20") && text.contains("main a.c:60"),
            "{text}\n{all}"
        );
    }

    #[test]
    fn what_the_target_is_called_does_not_drive_the_terminal() {
        let mut seen = Seen::new();
        seen.barrier(3, 40, &[1, 2]);
        seen.thread(
            3,
            "evil\u{1b}[2J",
            call("read", "\u{1b}]0;x\u{7}"),
            "f\u{1b}x a\u{1b}.c:1",
        );
        seen.0.notes.push("a\u{1b}note".into());
        let text = look(&report(&seen.0, PROCESS), PLAIN);
        assert!(
            text.chars().all(|c| c == '\n' || !c.is_control()),
            "{text:?}"
        );
        assert!(text.contains("note: a?note"), "{text}");
    }
}
