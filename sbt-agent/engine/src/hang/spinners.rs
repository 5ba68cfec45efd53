//! Threads that spin while they wait, so that the stacks alone tell it: ranks of MPI, and threads at
//! locks of runtimes.

use super::{
    calls::{SPIN_LOCK, wait},
    end::Grade,
    finding::Finding,
    graph::Graph,
    messages,
    names::{View, list},
    scene::Doing,
    words::{does, in_place, moves, placed},
};

/// The most ranks of one program that are looked at together.
const MOST_RANKS: u32 = 32;

/// Largest number of ranks that are named at one place.
const MOST_NAMES: usize = 4;

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
    let waits = |at: &usize| wait(view.thread(*at)).is_some_and(|wait| wait.is_mpi);
    if !firsts.iter().any(waits) {
        return None;
    }
    let mut ranks: Vec<usize> = firsts
        .into_iter()
        .filter(|at| is_rank(at) || waits(at))
        .collect();
    // A rank that does something else is the one that the others may wait for.
    ranks.sort_by_key(waits);
    // Not even of ranks in a circle it is known that they hang: data of messages that were sent before may be
    // under way.
    Some(found(ranks))
}

/// Whether all threads that a finding names wait, each at one place.
pub fn all_wait(graph: &Graph, finding: &Finding) -> bool {
    let view = graph.view;
    let mut who = finding.who.iter();
    who.all(|at| wait(view.thread(*at)).is_some() && !moves(view, *at))
}

/// Whether the threads of a finding wait in code that is too much to follow. Those that wait at a
/// spin lock are known to wait, or else the lock changes hands.
pub fn is_obscure(graph: &Graph, finding: &Finding) -> bool {
    let mut waits = finding
        .who
        .iter()
        .filter_map(|at| wait(graph.view.thread(*at)));
    waits.all(|wait| wait.what != SPIN_LOCK)
}

/// What is found of threads that spin at locks while all others sleep; `None` if a thread does
/// something else.
pub fn at_locks(graph: &Graph) -> Option<Finding> {
    let view = graph.view;
    let threads = 0..view.scene.threads.len();
    let spins = |at: &usize| {
        view.thread(*at).doing == Doing::Running
            && wait(view.thread(*at)).is_some_and(|wait| !wait.is_mpi)
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

/// Says which ranks of a program were not seen; `None` if all were, or it is not known how many there
/// are. Of programs that run on several machines, nothing is known of the others.
fn gone(graph: &Graph) -> Option<String> {
    let scene = graph.view.scene;
    let is_alive = |process: u32| {
        let mut threads = scene.threads.iter();
        threads.any(|seen| seen.id.process == process && seen.doing != Doing::Ended)
    };
    let all = scene.processes.iter().find_map(|process| process.ranks);
    let (all, _) = all.filter(|(_, is_here)| *is_here && !scene.partial)?;
    let ranks: Vec<u32> = scene
        .processes
        .iter()
        .filter(|process| is_alive(process.process))
        .filter_map(|process| process.rank)
        .collect();
    // If only one was asked about, the others were not looked at.
    if ranks.len() < 2 || all > MOST_RANKS {
        return None;
    }
    let missing = (0..all).filter(|rank| !ranks.contains(rank));
    let names: Vec<String> = missing.map(|rank| format!("rank {rank}")).collect();
    let verb = if names.len() == 1 { "has" } else { "have" };
    (!names.is_empty()).then(|| format!("{} {verb} ended", list(&names, MOST_NAMES)))
}

/// Says what the threads do that do not spin: those in system calls, as one that sleeps and keeps what the
/// others wait for, and the others.
fn meanwhile(view: &View, who: &[usize]) -> (Option<String>, String) {
    let others = (0..view.scene.threads.len()).filter(|at| {
        let is_gone = view.thread(*at).doing == Doing::Ended;
        !who.contains(at) && !is_gone && !view.is_idle(*at)
    });
    let in_call = |at: &usize| matches!(view.thread(*at).doing, Doing::Call { .. });
    let (calls, others): (Vec<usize>, Vec<usize>) = others.partition(in_call);
    let told = |threads: &[usize]| {
        let each = |at: &usize| {
            let name = view.name(*at);
            format!("{name} {}{}", does(view, *at), in_place(view, *at))
        };
        list(&threads.iter().map(each).collect::<Vec<_>>(), MOST_NAMES)
    };
    let first = (!calls.is_empty()).then(|| told(&calls));
    let last = match (others.is_empty(), calls.is_empty()) {
        (true, true) => ": no thread that was looked at does anything else".into(),
        (true, false) => String::new(),
        (false, _) => format!("; {}", told(&others)),
    };
    (first, last)
}

/// The sentence on ranks that wait, or on threads that spin; `None` if the finding is about something
/// else.
pub fn text(graph: &Graph, finding: &Finding) -> Option<String> {
    let view = graph.view;
    let mut places: Vec<(String, Vec<usize>)> = Vec::new();
    let mut is_mpi = false;
    for at in &finding.who {
        let Some(wait) = wait(view.thread(*at)) else {
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
            let names: Vec<String> = ranks.iter().map(|at| view.name(*at)).collect();
            let verb = if names.len() == 1 { "waits" } else { "wait" };
            let names = list(&names, MOST_NAMES);
            format!("{names} {verb} {place}{}", messages::partners(view, ranks))
        })
        .collect();
    let others = finding
        .who
        .iter()
        .filter(|at| wait(view.thread(**at)).is_none());
    let others: Vec<String> = others
        .map(|at| {
            format!(
                "{} {}{}",
                view.name(*at),
                does(view, *at),
                in_place(view, *at)
            )
        })
        .collect();
    let mut first = None;
    let end = match (others.is_empty(), finding.who.len()) {
        (false, _) => String::new(),
        (true, _) if !is_mpi => {
            let (calls, last) = meanwhile(view, &finding.who);
            first = calls;
            last
        }
        (true, 1) => ": what the other ranks do was not seen".into(),
        (true, _) => match messages::circle(view, &finding.who, &[]) {
            Some(circle) => format!(": {circle}"),
            None => ": no rank that was looked at computes".into(),
        },
    };
    told.splice(0..0, others.into_iter().chain(first));
    told.splice(0..0, is_mpi.then(|| gone(graph)).flatten());
    Some(format!("{}{end}", told.join("; ")))
}
