//! Sentences that follow a chain of waits: a thread, the thread it waits for, and so on.

use super::{
    graph::{Graph, Need},
    names::{View, list},
    once,
    scene::{Doing, WaitFor},
    words::{MOST_NAMES, does, done_once, in_place, is_file_lock, there, wait_for},
};
use crate::place::printable;

/// Largest number of links in a story; the drawn chain shows the rest.
const MOST_LINKS: usize = 5;

/// Describes a thread's wait and its place, then the wait of the thread it waits for, and so on, up to the
/// barrier `here` that the sentence is about.
pub fn story(graph: &Graph, thread: usize, here: Option<usize>) -> String {
    let mut parts = Vec::new();
    let mut seen = vec![thread];
    let mut at = thread;
    loop {
        let first = at == thread;
        let (part, next) = link(graph, at, here, first);
        parts.push(part);
        match next {
            Some(next) if seen.contains(&next) => {
                // A thread that went on meanwhile is in no circle.
                if parts.len() > 1 && graph.circle(thread).is_none() {
                    parts.pop();
                }
                break;
            }
            Some(_) if parts.len() >= MOST_LINKS => break,
            Some(next) => {
                seen.push(next);
                at = next;
            }
            None => break,
        }
    }
    parts.join(", which ")
}

/// Describes one thread of the chain, and returns the thread to be described next.
fn link(graph: &Graph, at: usize, here: Option<usize>, first: bool) -> (String, Option<usize>) {
    let view = graph.view;
    match graph.need(at) {
        Need::Barrier(barrier) if Some(barrier) == here => ("waits at this barrier".into(), None),
        Need::Barrier(barrier) => {
            let absent = &graph.absent[barrier];
            let name = view.barrier(barrier, &absent.waiting);
            let there = there(view, barrier, absent.arrived);
            let next = graph.next(at).first().copied();
            let text = match next {
                Some(next) => format!(
                    "waits at {name} ({there}), where {} is missing",
                    view.name(next)
                ),
                None => format!("waits at {name} ({there})"),
            };
            (text, next)
        }
        Need::Thread(other) if once::runner(view, at).is_some() => {
            let place = in_place(view, at).replacen(',', "", 1);
            let text = done_once(view, at, &place).unwrap_or_default();
            (text, (other != at).then_some(other))
        }
        Need::Thread(other) => {
            let place = if first {
                in_place(view, at)
            } else {
                String::new()
            };
            let text = does(view, at);
            // The holder comes next in the sentence: leave out the place, so that what it does
            // follows directly.
            let text = if other == at {
                format!("{text}{place}")
            } else {
                text
            };
            (text, (other != at).then_some(other))
        }
        // Behind the words on the holder, the place would seem to be the holder's.
        Need::TheDead => {
            let place = in_place(view, at).replacen(',', "", 1);
            let text = match &view.thread(at).doing {
                Doing::Waiting(wait) => wait_for(view, at, wait, &place),
                _ => does(view, at),
            };
            (text, None)
        }
        Need::NoHandler => {
            let text = does(view, at);
            let why = ", and the process handles no signal";
            (format!("{text}{}{why}", in_place(view, at)), None)
        }
        Need::AnyOf if graph.next(at).len() == 1 => {
            let other = graph.next(at)[0];
            (from(view, at, other, first), Some(other))
        }
        _ => {
            let place = if first || !matches!(view.thread(at).doing, Doing::Running) {
                in_place(view, at)
            } else {
                String::new()
            };
            (format!("{}{place}", does(view, at)), None)
        }
    }
}

/// The wait of a thread at `at` for the thread `other`, which alone can end it, in words.
fn from(view: &View, at: usize, other: usize, first: bool) -> String {
    let place = match in_place(view, at) {
        place if first && !place.is_empty() => format!("{place},"),
        _ => String::new(),
    };
    let name = view.name(other);
    match &view.thread(at).doing {
        Doing::Waiting(WaitFor::Data { call, what, .. }) => {
            let (call, what) = (printable(call), printable(what));
            let from = if is_file_lock(&call) { "that" } else { "from" };
            let holds = if is_file_lock(&call) {
                " has locked"
            } else {
                ""
            };
            format!("waits in {call}(){place} for {what} {from} {name}{holds}")
        }
        _ => format!("waits{place} for the end of its child process {name}"),
    }
}

/// The names of threads; if there are more than [`MOST_NAMES`], only the first.
pub fn names_of(graph: &Graph, threads: &[usize]) -> String {
    let names: Vec<String> = threads.iter().map(|at| graph.view.name(*at)).collect();
    list(&names, MOST_NAMES)
}
