//! With whom ranks of MPI exchange the messages for which they wait, and which ranks wait for each other.

use super::{
    calls::wait,
    names::{View, list},
    scene::MessageSeen,
};

/// What to do about ranks that wait for all others in different functions (MPI 3.1, section 5.1), as the end
/// of a sentence.
pub const IN_ORDER: &str =
    "; all ranks must call the operations of a communicator in the same order";

/// Largest number of ranks whose partners are named at one place.
const MOST_NAMES: usize = 4;

/// The message, or the other ranks, for which a thread waits, if it waits in a function of MPI and it is
/// known who they are.
fn awaited(view: &View, at: usize) -> Option<MessageSeen> {
    let wait = wait(view.thread(at)).filter(|wait| wait.is_mpi)?;
    wait.own?.message
}

/// The message for which a thread waits.
fn message(view: &View, at: usize) -> Option<MessageSeen> {
    awaited(view, at).filter(|message| !message.of_all)
}

/// With whom a rank exchanges the message for which it waits: `with rank 0, tag 77`; `None` if that is
/// not known.
pub fn partner(view: &View, at: usize) -> Option<String> {
    let message = message(view, at)?;
    let tag = message.tag;
    let tag = tag.map_or_else(String::new, |tag| format!(", tag {tag}"));
    Some(format!("with {}{tag}", other(&message)))
}

fn other(message: &MessageSeen) -> String {
    match message {
        MessageSeen { rank: None, .. } => "any rank".to_owned(),
        MessageSeen {
            rank: Some(rank),
            is_of_world: true,
            ..
        } => format!("rank {rank}"),
        MessageSeen {
            rank: Some(rank), ..
        } => format!("rank {rank} of a communicator"),
    }
}

/// With whom ranks that wait at one place exchange their messages; empty if that is not known of all:
/// ` (rank 0 with rank 3 and rank 1 with rank 0, tag 77)`.
pub fn partners(view: &View, ranks: &[usize]) -> String {
    let all: Option<Vec<MessageSeen>> = ranks.iter().map(|at| message(view, *at)).collect();
    let Some(all) = all.filter(|all| !all.is_empty()) else {
        return String::new();
    };
    let tag = all[0]
        .tag
        .filter(|tag| all.iter().all(|one| one.tag == Some(*tag)));
    let tag = tag.map_or_else(String::new, |tag| format!(", tag {tag}"));
    let is_one = all.iter().all(|message| other(message) == other(&all[0]));
    if is_one {
        return format!(" (with {}{tag})", other(&all[0]));
    }
    let pairs: Vec<String> = ranks
        .iter()
        .zip(&all)
        .map(|(at, message)| format!("{} with {}", view.name(*at), other(message)))
        .collect();
    format!(" ({}{tag})", list(&pairs, MOST_NAMES))
}

/// The function of MPI in which a thread waits, in words.
fn function(view: &View, at: usize) -> Option<String> {
    let wait = wait(view.thread(at)).filter(|wait| wait.is_mpi)?;
    Some(wait.what)
}

/// The ranks of one program that wait in a circle, in words; `None` if there is none. Each of `who` waits for
/// a message of a certain rank, or, as those of `there`, for all ranks to call the same function.
pub fn circle(view: &View, who: &[usize], there: &[usize]) -> Option<String> {
    let rank = |at: usize| view.process(view.thread(at).id.process)?.rank;
    let for_all = |at: usize| {
        let meets = awaited(view, at).filter(|message| message.of_all && message.is_of_world);
        there.contains(&at) || meets.is_some()
    };
    let next = |at: usize| -> Vec<usize> {
        // A rank that went on between the looks may be about to go on again.
        if view.thread(at).went_on || rank(at).is_none() {
            return Vec::new();
        }
        let all = who.iter().copied();
        if for_all(at) {
            let here = function(view, at);
            let elsewhere = |other: usize| {
                let there = function(view, other);
                here.is_some() && there.is_some() && here != there
            };
            return all
                .filter(|other| !for_all(*other) || elsewhere(*other))
                .collect();
        }
        let message = message(view, at).filter(|message| message.is_of_world);
        let awaited = message.and_then(|message| message.rank);
        all.filter(|other| awaited.is_some() && rank(*other) == awaited)
            .collect()
    };
    let mut done = Vec::new();
    let path = who.iter().find_map(|begin| {
        let mut path = Vec::new();
        let begins = follow(*begin, &next, &mut path, &mut done)?;
        Some(path.split_off(begins))
    })?;
    let names: Vec<String> = path
        .iter()
        .chain(&path[..1])
        .map(|at| view.name(*at))
        .collect();
    let names = if names.len() > 2 * MOST_NAMES {
        format!("{} ranks", path.len())
    } else {
        names.join(" → ")
    };
    let mut functions: Vec<String> = path
        .iter()
        .filter(|at| for_all(**at))
        .filter_map(|at| function(view, *at))
        .collect();
    functions.sort();
    functions.dedup();
    let order = if functions.len() > 1 { IN_ORDER } else { "" };
    Some(format!("each of these waits for the next: {names}{order}"))
}

/// Follows waits from a rank until they lead back to the way: adds the ranks to `path`, and returns the
/// index in it at which the circle begins. `done`: the ranks from which there is no circle.
fn follow(
    at: usize,
    next: &impl Fn(usize) -> Vec<usize>,
    path: &mut Vec<usize>,
    done: &mut Vec<usize>,
) -> Option<usize> {
    if let Some(begins) = path.iter().position(|other| *other == at) {
        return Some(begins);
    }
    if done.contains(&at) {
        return None;
    }
    path.push(at);
    let begins = next(at)
        .into_iter()
        .find_map(|other| follow(other, next, path, done));
    if begins.is_none() {
        path.pop();
        done.push(at);
    }
    begins
}
