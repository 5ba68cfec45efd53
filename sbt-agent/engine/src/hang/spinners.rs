//! Threads that spin while they wait, so that the stacks alone tell it: ranks of MPI, and threads at
//! locks of runtimes.

use super::{
    calls::{Wait, wait},
    end::Grade,
    finding::Finding,
    graph::Graph,
    names::{View, spoken},
    scene::Doing,
    words::{does, list, moves},
};

/// Largest number of ranks that are named at one place.
const MOST_NAMES: usize = 4;

/// A wait in words, with the place in the program.
pub fn placed(wait: &Wait) -> String {
    let what = &wait.what;
    match wait.own {
        Some(own) if wait.is_mpi => format!("{what}, called in {}", spoken(own)),
        Some(own) => format!("{what}, in {}", spoken(own)),
        None => what.clone(),
    }
}

fn called(view: &View, thread: usize) -> String {
    let process = view.thread(thread).id.process;
    let rank = view.process(process).and_then(|process| process.rank);
    rank.map_or_else(|| view.name(thread), |rank| format!("rank {rank}"))
}

/// What is found of processes whose threads wait in functions of MPI; `None` if there are none.
pub fn ranks(graph: &Graph) -> Option<Finding> {
    let view = graph.view;
    let threads = 0..view.scene.threads.len();
    let is_first = |at: &usize| {
        let thread = view.thread(*at);
        thread.id.process == thread.id.thread && thread.doing != Doing::Ended
    };
    let is_rank = |at: &usize| {
        let process = view.process(view.thread(*at).id.process);
        process.is_some_and(|process| process.rank.is_some())
    };
    let firsts: Vec<usize> = threads.filter(is_first).collect();
    let waits = |at: &usize| wait(view, *at).is_some_and(|wait| wait.is_mpi);
    if !firsts.iter().any(waits) {
        return None;
    }
    let mut ranks: Vec<usize> = firsts
        .into_iter()
        .filter(|at| is_rank(at) || waits(at))
        .collect();
    // A rank that does something else is the one that the others may wait for.
    ranks.sort_by_key(waits);
    Some(found(ranks))
}

/// What is found of threads that spin at locks while all others sleep; `None` if a thread does
/// something else.
pub fn at_locks(graph: &Graph) -> Option<Finding> {
    let view = graph.view;
    let threads = 0..view.scene.threads.len();
    let spins = |at: &usize| {
        view.thread(*at).doing == Doing::Running
            && wait(view, *at).is_some_and(|wait| !wait.is_mpi)
            && !moves(view, *at)
    };
    let others = || threads.clone().filter(|at| !spins(at));
    let spinners: Vec<usize> = threads.clone().filter(spins).collect();
    let all_sleep = others().all(|at| graph.stays(at));
    (!spinners.is_empty() && all_sleep && view.scene.looks > 1).then(|| found(spinners))
}

fn found(who: Vec<usize>) -> Finding {
    Finding {
        barrier: None,
        grade: Grade::Unclear,
        because: None,
        for_ever: false,
        lead: who.first().copied(),
        elsewhere: false,
        who,
        outside: false,
    }
}

/// The sentence on ranks that wait, or on threads that spin; `None` if the finding is about something
/// else.
pub fn text(graph: &Graph, finding: &Finding) -> Option<String> {
    let view = graph.view;
    let mut places: Vec<(String, Vec<usize>)> = Vec::new();
    let mut is_mpi = false;
    for at in &finding.who {
        let Some(wait) = wait(view, *at) else {
            continue;
        };
        is_mpi |= wait.is_mpi;
        let place = placed(&wait);
        match places.iter_mut().find(|(known, _)| *known == place) {
            Some((_, ranks)) => ranks.push(*at),
            None => places.push((place, vec![*at])),
        }
    }
    if places.is_empty() {
        return None;
    }
    // Fewer ranks at a place are the more telling.
    places.sort_by_key(|(_, ranks)| ranks.len());
    let mut told: Vec<String> = places
        .iter()
        .map(|(place, ranks)| {
            let names: Vec<String> = ranks.iter().map(|at| called(view, *at)).collect();
            let verb = if names.len() == 1 { "waits" } else { "wait" };
            format!("{} {verb} {place}", list(&names, MOST_NAMES))
        })
        .collect();
    let others = finding.who.iter().filter(|at| wait(view, **at).is_none());
    let others: Vec<String> = others
        .map(|at| format!("{} {}", called(view, *at), does(view, *at)))
        .collect();
    let end = match (others.is_empty(), finding.who.len()) {
        (false, _) => String::new(),
        (true, _) if !is_mpi => ": no thread that was looked at does anything else".into(),
        (true, 1) => ": what the other ranks do was not seen".into(),
        (true, _) => ": no rank that was looked at computes".into(),
    };
    told.splice(0..0, others);
    Some(format!("{}{end}", told.join("; ")))
}
