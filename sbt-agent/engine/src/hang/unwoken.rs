//! The part of a finding's sentence about threads that nobody wakes.

use std::fmt::Write as _;

use super::{
    calls,
    finding::Finding,
    graph::{Graph, Need},
    scene::{Doing, Holder, ThreadId, WaitFor},
    story::{names_of, story},
    words::{MOST_NAMES, does, in_place, is_file_lock},
};

/// Names the other threads that nobody wakes. Also says what each waits for and where, unless it waits
/// for the same at the same place as the finding's first thread. Empty if there are no others.
pub fn same_wait(graph: &Graph, finding: &Finding) -> String {
    let view = graph.view;
    let waits = |at: usize| format!("{}{}", does(view, at), in_place(view, at));
    let [lead, others @ ..] = &finding.who[..] else {
        return String::new();
    };
    let mut groups: Vec<(String, Vec<usize>)> = vec![(waits(*lead), Vec::new())];
    for other in others {
        let what = waits(*other);
        match groups.iter_mut().find(|(known, _)| *known == what) {
            Some((_, threads)) => threads.push(*other),
            None => groups.push((what, vec![*other])),
        }
    }
    let (_, alike) = groups.remove(0);
    // A small group tells more than a large one, and so comes first.
    groups.sort_by_key(|(_, threads)| threads.len());
    let mut told: Vec<String> = Vec::new();
    if !alike.is_empty() {
        told.push(names_of(graph, &alike));
    }
    // A thread that waits for no data has no other end at which nobody reads or writes.
    let is_for_data = |at: usize| {
        let doing = &view.thread(at).doing;
        matches!(doing, Doing::Waiting(WaitFor::Data { .. }))
    };
    let mut to_wake: Vec<String> = Vec::new();
    for (what, threads) in groups.iter().take(MOST_NAMES) {
        let which = if threads.len() > 1 {
            "each of which"
        } else {
            "which"
        };
        let group = format!("{}, {which} {what}", names_of(graph, threads));
        if is_for_data(*lead) && !threads.iter().copied().any(is_for_data) {
            to_wake.push(group);
        } else {
            told.push(group);
        }
    }
    if groups.len() > MOST_NAMES {
        told.push("others".into());
    }
    let mut text = String::new();
    if !told.is_empty() {
        let _ = write!(text, "; the same is true of {}", told.join("; and of "));
    }
    if !to_wake.is_empty() {
        let all = to_wake.join("; or ");
        let _ = write!(text, "; no thread is left that could wake {all}");
    }
    text
}

/// Says what a thread does that may wake the thread `at`; `None` if there is no such thread.
pub fn may_be_woken_by(graph: &Graph, at: usize) -> Option<String> {
    let view = graph.view;
    let mut wakers = graph.wakers(at).into_iter();
    // A thread that spins in a call of a runtime waits itself.
    let waker = wakers.find(|waker| calls::wait(view.thread(*waker)).is_none())?;
    let (name, does) = (view.name(waker), does(view, waker));
    let place = in_place(view, waker);
    Some(format!("{name} {does}{place}, and may wake it"))
}

/// Names a thread that might have woken the thread `at`, but waits for a lock that `at` holds; empty if
/// there is no such thread.
pub fn waits_for_its_lock(graph: &Graph, at: usize) -> String {
    let view = graph.view;
    let waits = |other: &usize| {
        let holder = match view.thread(*other).doing {
            Doing::Waiting(WaitFor::Mutex { holder, .. }) => holder,
            Doing::Waiting(WaitFor::RwLock { writer, .. }) => writer,
            _ => return false,
        };
        holder == Holder::Thread(view.thread(at).id) && *other != at
    };
    let found = (0..view.scene.threads.len()).find(waits);
    found.map_or_else(String::new, |other| {
        format!(
            "; {} {}{}",
            view.name(other),
            does(view, other),
            in_place(view, other)
        )
    })
}

/// Names the threads of the process of the thread `at` that wait for handlers of signals, which the process
/// does not have: one of them might have woken the thread. Empty if there are none.
pub fn waits_for_handlers(graph: &Graph, at: usize) -> String {
    let view = graph.view;
    let near = |other: &usize| view.thread(*other).id.process == view.thread(at).id.process;
    let deaf = (0..view.scene.threads.len())
        .filter(near)
        .filter(|other| graph.need(*other) == Need::NoHandler);
    let deaf: Vec<usize> = deaf.collect();
    match deaf.as_slice() {
        [] => String::new(),
        [one, ..] => format!(
            "; {} {}",
            names_of(graph, &deaf),
            if deaf.len() == 1 {
                story(graph, *one, None)
            } else {
                "wait for signals, and the process handles none".into()
            }
        ),
    }
}

/// Says that a pipe or socket has no other end at which something could happen.
pub fn nobody_sends(graph: &Graph, at: usize) -> String {
    let view = graph.view;
    let own = view.thread(at).id.process;
    let (processes, what, call) = match &view.thread(at).doing {
        Doing::Waiting(WaitFor::Data {
            processes,
            what,
            call,
        }) => (processes.as_slice(), what.as_str(), call.as_str()),
        _ => (&[][..], "", ""),
    };
    let are_events = what.split(", ").all(|one| one.starts_with("eventfd:["));
    match processes {
        [one] if is_file_lock(call) => {
            format!("process {one} has locked it, where no thread goes on")
        }
        _ if is_file_lock(call) => "none of the processes that have locked it goes on".into(),
        _ if are_events => "no thread is left that could write to it".into(),
        [one] if *one == own => {
            "only its own process holds the other end, where no thread goes on".into()
        }
        [one] => format!("only process {one} holds the other end, where no thread goes on"),
        _ => format!(
            "none of the processes that hold the other end goes on{}",
            what_others_do(graph, at, processes)
        ),
    }
}

/// Describes the first threads of other processes than a thread's own: a parent that waits for the end of
/// the thread's process closes a circle. Empty if none of these threads was looked at, or more than
/// [`MOST_NAMES`].
fn what_others_do(graph: &Graph, at: usize, processes: &[u32]) -> String {
    let view = graph.view;
    let own = view.thread(at).id.process;
    let first = |process: &u32| {
        view.index(ThreadId {
            process: *process,
            thread: *process,
        })
    };
    let others = processes.iter().filter(|process| **process != own);
    let firsts: Vec<usize> = others.filter_map(first).collect();
    let told = firsts.iter().map(|other| {
        let doing = &view.thread(*other).doing;
        let awaits_own = *doing == Doing::Waiting(WaitFor::Child { process: Some(own) });
        let whose = if awaits_own {
            format!(", to which {} belongs", view.name(at))
        } else {
            String::new()
        };
        format!("{} {}{whose}", view.name(*other), does(view, *other))
    });
    let told: Vec<String> = told.collect();
    if told.is_empty() || told.len() > MOST_NAMES {
        return String::new();
    }
    format!(": {}", told.join(" and "))
}

/// A remark on a process made by `fork`, which lacks its parent's threads; empty for other processes.
pub fn of_parent(graph: &Graph, at: usize) -> String {
    let view = graph.view;
    let process = view.thread(at).id.process;
    let parent = view.process(process).filter(|seen| seen.forked);
    let waits = matches!(
        view.thread(at).doing,
        Doing::Waiting(
            WaitFor::Mutex { .. }
                | WaitFor::RwLock { .. }
                | WaitFor::Condvar { .. }
                | WaitFor::Semaphore { .. }
                | WaitFor::Futex { .. }
        )
    );
    match parent.and_then(|seen| seen.parent).filter(|_| waits) {
        Some(parent) => format!(
            "; process {process} was forked from process {parent}, of which it has only the thread \
             that called fork()"
        ),
        None => String::new(),
    }
}
