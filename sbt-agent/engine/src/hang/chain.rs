//! Draws who waits for whom as a line, and gives it as links.

use super::{
    graph::{Graph, Need},
    once::{self, Once},
    scene::{Doing, Holder, WaitFor},
    threads::{blocked_on, who},
    words::{self, does, is_file_lock},
};
use crate::{
    place::printable,
    report::{BlockedOnKind, HangLinkReport},
};

/// Largest number of lines; nobody reads more.
const MOST_LINES: usize = 8;
/// Largest number of steps in a line.
const MOST_STEPS: usize = 24;

/// A line for each of some threads, from the thread to the cause. Of several lines that agree from
/// the second step on, only the first is drawn.
pub fn lines(graph: &Graph, from: &[usize]) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut drawn: Vec<Vec<String>> = Vec::new();
    for thread in from {
        let steps = steps(graph, *thread);
        // A thread that waits for nothing is shown in the table of threads.
        if steps.len() < 2 || drawn.iter().any(|other| other[1..] == steps[1..]) {
            continue;
        }
        lines.push(steps.join(" → "));
        drawn.push(steps);
        if lines.len() == MOST_LINES {
            break;
        }
    }
    lines
}

fn steps(graph: &Graph, from: usize) -> Vec<String> {
    let view = graph.view;
    let mut steps = vec![view.name(from)];
    let mut seen = vec![from];
    let mut at = from;
    while steps.len() < MOST_STEPS {
        let next = match graph.need(at) {
            Need::Barrier(barrier) => {
                let absent = &graph.absent[barrier];
                let name = view.barrier(barrier, &absent.waiting);
                steps.push(name.trim_start_matches("the ").to_owned());
                let next = graph.next(at).first().copied();
                match next {
                    Some(next) => steps.push(view.name(next)),
                    None if absent.gone.is_empty() => steps.push("nobody is left".into()),
                    None => steps.extend(absent.gone.first().map(|member| {
                        format!("{}, which has ended", view.called(member.id, &member.name))
                    })),
                }
                next
            }
            Need::Thread(other) => {
                let step = by_thread(graph, at, other);
                steps.push(step);
                Some(other)
            }
            Need::TheDead => {
                let gone = match &view.thread(at).doing {
                    Doing::Waiting(
                        WaitFor::Mutex {
                            holder: Holder::Gone { thread },
                            ..
                        }
                        | WaitFor::RwLock {
                            writer: Holder::Gone { thread },
                            ..
                        },
                    ) => {
                        let process = view.thread(at).id.process;
                        let gone = if view.is_forked(process) {
                            "exists only in the parent"
                        } else {
                            "has ended"
                        };
                        format!("thread {thread}, which {gone}")
                    }
                    _ => "a thread that has ended".into(),
                };
                steps.push(format!("{} held by {gone}", object(graph, at)));
                None
            }
            Need::AnyOf if !graph.next(at).is_empty() => {
                let other = graph.next(at)[0];
                let step = match &view.thread(at).doing {
                    Doing::Waiting(WaitFor::Child { .. }) => {
                        format!("end of {}", view.name(other))
                    }
                    Doing::Waiting(WaitFor::Data { call, what, .. }) if is_file_lock(call) => {
                        format!("{} locked by {}", printable(what), view.name(other))
                    }
                    Doing::Waiting(WaitFor::Data { what, .. }) => {
                        format!("{} from {}", printable(what), view.name(other))
                    }
                    _ => view.name(other),
                };
                steps.push(step);
                Some(other)
            }
            Need::Nothing
            | Need::Anyone
            | Need::AnyOf
            | Need::Never
            | Need::NoEnd
            | Need::NoHandler => {
                if steps.len() > 1 {
                    let last = steps.pop().unwrap_or_default();
                    steps.push(format!("{last}, which {}", does(view, at)));
                }
                None
            }
        };
        match next {
            Some(next) if !seen.contains(&next) => {
                seen.push(next);
                at = next;
            }
            Some(_) => {
                // A thread that went on meanwhile is in no circle.
                if graph.circle(from).is_none() {
                    steps.pop();
                }
                break;
            }
            None => break,
        }
    }
    steps
}

/// The step from a thread to the one that alone can end its wait.
fn by_thread(graph: &Graph, at: usize, other: usize) -> String {
    let view = graph.view;
    let name = view.name(other);
    match (&view.thread(at).doing, once::runner(view, at)) {
        (Doing::Waiting(WaitFor::Join { .. } | WaitFor::Child { .. }), _) => {
            format!("end of {name}")
        }
        (_, Some((Once::Variable, _))) => format!("initialisation by {name}"),
        (_, Some((Once::Routine, _))) => format!("routine of {name}"),
        _ => format!("{} held by {name}", object(graph, at)),
    }
}

fn object(graph: &Graph, at: usize) -> String {
    let on = blocked_on(graph.view, at);
    let words = on.as_ref().map_or("", |on| match on.kind {
        BlockedOnKind::RwLock => "read-write lock",
        kind => kind.name(),
    });
    let address = on.as_ref().and_then(|on| on.address.as_deref());
    let address = address.and_then(|hex| u64::from_str_radix(hex.strip_prefix("0x")?, 16).ok());
    match address {
        Some(address) => format!("{words} {}", words::object(graph.view, at, address)),
        None => words.to_owned(),
    }
}

/// The circle that a thread is in or waits for, as links; `None` if there is none.
pub fn circle(graph: &Graph, from: usize) -> Option<Vec<HangLinkReport>> {
    let (path, begins) = graph.circle(from)?;
    let links = path[begins..].iter().filter_map(|at| {
        Some(HangLinkReport {
            who: who(graph.view, *at),
            blocked_on: blocked_on(graph.view, *at)?,
        })
    });
    Some(links.collect())
}
