//! With whom ranks of MPI exchange the messages for which they wait.

use super::{calls::wait, names::View, scene::MessageSeen, spinners::called, words::list};

/// Largest number of ranks whose partners are named at one place.
const MOST_NAMES: usize = 4;

/// The message for which a thread waits, if it waits in a function of MPI for one, and with whom is
/// known.
fn awaited(view: &View, at: usize) -> Option<MessageSeen> {
    let wait = wait(view, at).filter(|wait| wait.is_mpi)?;
    wait.own?.message
}

/// With whom ranks that wait at one place exchange their messages; empty if that is not known of all:
/// ` (rank 0 with rank 3 and rank 1 with rank 0, tag 77)`.
pub fn partners(view: &View, ranks: &[usize]) -> String {
    let all: Option<Vec<MessageSeen>> = ranks.iter().map(|at| awaited(view, *at)).collect();
    let Some(all) = all.filter(|all| !all.is_empty()) else {
        return String::new();
    };
    let other = |message: &MessageSeen| match message {
        MessageSeen { rank: None, .. } => "any rank".to_owned(),
        MessageSeen {
            rank: Some(rank),
            is_of_world: true,
            ..
        } => format!("rank {rank}"),
        MessageSeen {
            rank: Some(rank), ..
        } => format!("rank {rank} of a communicator"),
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
        .map(|(at, message)| format!("{} with {}", called(view, *at), other(message)))
        .collect();
    format!(" ({}{tag})", list(&pairs, MOST_NAMES))
}

/// The ranks that wait in a circle for messages from each other, in words; `None` if there is none. Each
/// waits for a certain rank of the whole program.
pub fn circle(view: &View, who: &[usize]) -> Option<String> {
    let rank = |at: usize| view.process(view.thread(at).id.process)?.rank;
    let next = |at: usize| {
        let message = awaited(view, at).filter(|message| message.is_of_world)?;
        let mut all = who.iter();
        all.find(|other| rank(**other) == message.rank && message.rank.is_some())
            .copied()
    };
    let begins = who.iter().find_map(|begin| {
        let mut path = vec![*begin];
        while let Some(at) = next(*path.last()?) {
            if at == *begin {
                return Some(path);
            }
            if path.contains(&at) {
                return None;
            }
            path.push(at);
        }
        None
    });
    let path = begins?;
    let names: Vec<String> = path
        .iter()
        .chain(&path[..1])
        .map(|at| called(view, *at))
        .collect();
    let names = if names.len() > 2 * MOST_NAMES {
        format!("{} ranks", path.len())
    } else {
        names.join(" → ")
    };
    Some(format!("each of these waits for the next: {names}"))
}
