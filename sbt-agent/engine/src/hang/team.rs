//! Teams of OpenMP that cannot meet: their threads stand at different barriers, or exist only in
//! the process from which this one was forked.

use super::{
    graph::Graph,
    idle::ENDS,
    names::{View, line, list},
    scene::{CallSeen, Doing},
};
use crate::event::Kind;

/// Largest number of threads that are named at one place.
const MOST_NAMES: usize = 3;

/// How the names of functions begin in which threads of a team begin.
const RUNTIME: [&str; 3] = ["start_thread", "gomp_thread_start", "clone"];

/// Functions of the runtimes in which threads wait for each other inside of a region.
const BARRIERS: [&str; 7] = [
    "GOMP_barrier",
    "GOMP_loop_end",
    "GOMP_sections_end",
    "GOMP_single_copy",
    "__kmpc_barrier",
    "__kmpc_reduce",
    "__kmpc_copyprivate",
];

/// Where a thread of a team stands.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Stand {
    /// At a barrier inside of the region: its place.
    Inside(Option<String>),
    /// At the end of the region; the place where the region was begun, for the thread that did so.
    End(Option<String>),
    /// At one of these. Threads with the same words came from the same place; whether the place is
    /// the user's own, so that it may be told.
    Either(String, bool),
}

fn stand(view: &View, at: usize, thread: usize) -> Stand {
    let stack = &view.thread(thread).stack;
    let own = stack.iter().position(|call| !call.of_system);
    let place = own.map(|own| line(&stack[own]));
    let is_of = |call: &CallSeen, names: &[&str]| {
        let name = call.function.as_deref().unwrap_or_default();
        names.iter().any(|begin| name.starts_with(begin))
    };
    // A barrier may be called by a jump, so that its caller is the runtime itself.
    let mut inner = stack[..own.unwrap_or(stack.len())].iter();
    // The end of a region is a function that GOMP_parallel calls (libgomp's `gomp_team_end`). A wait directly
    // in GOMP_parallel is that of a barrier which the region has called by a jump.
    let is_jump = stack
        .get(1)
        .is_some_and(|call| is_of(call, &["GOMP_parallel"]));
    let decides = inner.find(|call| is_of(call, &ENDS) || is_of(call, &BARRIERS));
    match decides {
        Some(_) if is_jump => return Stand::Inside(None),
        Some(call) if is_of(call, &ENDS) => return Stand::End(place),
        Some(_) => return Stand::Inside(place),
        None if own.is_some() => return Stand::Inside(place),
        None => {}
    }
    // Probes hide the callers of threads that are watched; the events tell them.
    match view.known_site(at, thread) {
        Some(site) if RUNTIME.iter().any(|name| site.starts_with(name)) => Stand::End(None),
        // The code of the region has called the barrier by a jump.
        Some(site) if site.starts_with("__kmp_invoke_microtask") => Stand::Inside(None),
        Some(site) if !view.thread(thread).is_whole => {
            let is_own = !site.contains(".so");
            Stand::Either(site, is_own)
        }
        _ => {
            let outer = stack.iter().rev().map(|call| (&call.binary, call.offset));
            Stand::Either(format!("{:x?}", outer.collect::<Vec<_>>()), false)
        }
    }
}

/// The place at which a thread inside of a parallel region has begun the region, if it has.
fn begun_by(view: &View, thread: usize) -> Option<String> {
    let stack = &view.thread(thread).stack;
    let own = stack.iter().position(|call| !call.of_system)?;
    let runtime = own + stack[own..].iter().position(|call| call.of_system)?;
    let begun = stack[runtime..].iter().find(|call| !call.of_system)?;
    let is_begin = stack[runtime..].iter().any(|call| {
        let name = call.function.as_deref().unwrap_or_default();
        ENDS.iter().any(|end| name.starts_with(end))
    });
    is_begin.then(|| line(begun))
}

/// Whether the threads of the team of a barrier stand at different barriers: some inside of a
/// parallel region, and all others at its end.
pub fn is_apart(graph: &Graph, at: usize) -> bool {
    let view = graph.view;
    let seen = &view.scene.barriers[at];
    if !matches!(seen.kind, Kind::Gomp | Kind::Kmp) || !graph.stands(at) {
        return false;
    }
    let (inside, ends) = stands(graph, at);
    let all = inside.len() + ends.len();
    let count = seen.participants.map_or(0, |count| count as usize);
    let stay = ends.iter().all(|(thread, _)| graph.stays(*thread));
    // Probes may hide from where threads came. The memory of the barrier counts both.
    let of_memory = seen.at_end.map_or(0, |threads| threads as usize);
    let by_memory = (1..count).contains(&of_memory);
    let by_stacks = !inside.is_empty() && !ends.is_empty();
    count > 1 && all >= count && stay && (by_stacks || by_memory)
}

type Placed = Vec<(usize, Option<String>)>;

fn stands(graph: &Graph, at: usize) -> (Placed, Placed) {
    let view = graph.view;
    let seen = &view.scene.barriers[at];
    let past = seen.past_end.iter();
    let past: Vec<usize> = past.filter_map(|id| view.index(*id)).collect();
    let (mut inside, mut ends) = (Vec::new(), Vec::new());
    let mut either: Vec<(String, bool, Vec<usize>)> = Vec::new();
    let waiting = graph.absent[at].waiting.iter();
    for thread in waiting.chain(&past) {
        match stand(view, at, *thread) {
            _ if past.contains(thread) => ends.push((*thread, None)),
            Stand::Inside(place) => inside.push((*thread, place)),
            Stand::End(place) => ends.push((*thread, place)),
            Stand::Either(from, is_own) => {
                match either.iter_mut().find(|(known, _, _)| *known == from) {
                    Some((_, _, threads)) => threads.push(*thread),
                    None => either.push((from, is_own, vec![*thread])),
                }
            }
        }
    }
    ends.sort_by_key(|(thread, _)| *thread);
    ends.dedup();
    let has_inside = !inside.is_empty();
    // The thread that began the region waits for its end in the user's code, as it seems.
    let is_first = |threads: &[usize]| {
        let all = |at: &usize| view.thread(*at).id.thread == view.thread(*at).id.process;
        threads.len() == 1 && threads.iter().all(all)
    };
    // Only the thread that has begun the region waits for its end in the user's code. If the first thread of
    // the process is in the team, it has begun the region; else any thread that is alone at its line may have.
    let of_first = |at: &usize| is_first(&[*at]);
    let has_first = graph.absent[at].waiting.iter().any(of_first);
    let may_end = |is_own: bool, threads: &[usize]| {
        !is_own || is_first(threads) || !has_first && threads.len() == 1
    };
    let sizes: Vec<(usize, bool)> = either
        .iter()
        .map(|(_, is_own, threads)| (threads.len(), may_end(*is_own, threads)))
        .collect();
    let at_end = seen.at_end.map(|threads| threads as usize);
    let left = at_end.map(|threads| threads.saturating_sub(ends.len()));
    let chosen = left.map(|left| only_choice(&sizes, left));
    for (number, (from, is_own, threads)) in either.into_iter().enumerate() {
        let is_end = match chosen {
            Some(chosen) => chosen.is_none_or(|chosen| chosen >> number & 1 == 1),
            // The memory does not count them.
            None => !is_own || has_inside && is_first(&threads),
        };
        let place = is_own.then_some(from);
        for thread in threads {
            if is_end {
                ends.push((thread, None));
            } else {
                inside.push((thread, place.clone()));
            }
        }
    }
    ends.sort_by_key(|(thread, _)| *thread);
    (inside, ends)
}

/// The most groups of threads among which a choice is made.
const MOST_GROUPS: usize = 12;

/// The only choice among groups of these sizes that has this sum, as a set of bits; `None` if there
/// are several, or none. Chosen are only groups that are marked with `true`.
fn only_choice(sizes: &[(usize, bool)], sum: usize) -> Option<usize> {
    let count = sizes.len();
    if count > MOST_GROUPS {
        return None;
    }
    let fits = |choice: &usize| {
        let chosen = (0..count).filter(|number| choice >> number & 1 == 1);
        let chosen: Vec<(usize, bool)> = chosen.map(|number| sizes[number]).collect();
        let size: usize = chosen.iter().map(|(size, _)| size).sum();
        size == sum && chosen.iter().all(|(_, may)| *may)
    };
    let mut fitting = (0..1_usize << count).filter(fits);
    let first = fitting.next()?;
    fitting.next().is_none().then_some(first)
}

/// The sentence on a team whose threads stand at different barriers.
pub fn apart_text(graph: &Graph, at: usize, since: &str) -> String {
    let view = graph.view;
    let (inside, ends) = stands(graph, at);
    let counted = view.scene.barriers[at]
        .at_end
        .map(|threads| threads as usize);
    let is_told = counted.is_none_or(|counted| counted == 0 || counted == ends.len());
    if inside.is_empty() || ends.is_empty() || !is_told {
        let at_end = view.scene.barriers[at].at_end.unwrap_or(0) as usize;
        let others = (inside.len() + ends.len()).saturating_sub(at_end);
        return format!(
            "the threads of one team wait at different barriers{since}, and none of these can \
             complete: {others} at a barrier inside of the parallel region, {at_end} at its end"
        );
    }
    let mut places: Vec<(String, Vec<usize>)> = Vec::new();
    for (thread, place) in &inside {
        let place = place.as_ref().map_or_else(
            || "a barrier inside of the parallel region".into(),
            |place| format!("the barrier at {place}"),
        );
        match places.iter_mut().find(|(known, _)| *known == place) {
            Some((_, threads)) => threads.push(*thread),
            None => places.push((place, vec![*thread])),
        }
    }
    let begun = ends.iter().find_map(|(_, place)| place.clone());
    let begun = begun.or_else(|| {
        inside
            .iter()
            .find_map(|(thread, _)| begun_by(view, *thread))
    });
    let end = begun.map_or_else(
        || "the end of the parallel region".into(),
        |begun| format!("the end of the parallel region that begins at {begun}"),
    );
    places.push((end, ends.iter().map(|(thread, _)| *thread).collect()));
    let told: Vec<String> = places
        .iter()
        .map(|(place, threads)| {
            let names: Vec<String> = threads.iter().map(|at| view.name(*at)).collect();
            let verb = if names.len() == 1 { "waits" } else { "wait" };
            format!("{} {verb} at {place}", list(&names, MOST_NAMES))
        })
        .collect();
    format!(
        "the threads of one team wait at different barriers{since}, and none of these can \
         complete: {}",
        told.join("; ")
    )
}

/// Whether a barrier waits for threads that exist only in the process from which its own was
/// forked: the process is a copy with one thread, and has fewer threads than the barrier waits for.
pub fn is_of_parent(graph: &Graph, at: usize) -> bool {
    let view = graph.view;
    let seen = &view.scene.barriers[at];
    if seen.shared || !view.is_forked(seen.process) || !graph.stands(at) {
        return false;
    }
    let all = view.scene.threads.iter();
    let alive = all
        .filter(|thread| thread.id.process == seen.process && thread.doing != Doing::Ended)
        .count();
    match seen.participants {
        Some(count) => alive < count as usize,
        None => alive == graph.absent[at].waiting.len(),
    }
}

/// The sentence on a barrier whose other threads exist only in the parent.
pub fn of_parent_text(graph: &Graph, at: usize, since: &str) -> String {
    let view = graph.view;
    let seen = &view.scene.barriers[at];
    let waiting = &graph.absent[at].waiting;
    let names: Vec<String> = waiting.iter().map(|at| view.name(*at)).collect();
    let verb = if names.len() == 1 { "waits" } else { "wait" };
    let team = match seen.kind {
        Kind::Gomp | Kind::Kmp => "team of OpenMP threads",
        _ => "group of threads",
    };
    let size = seen
        .participants
        .map_or_else(String::new, |count| format!(" ({count} threads)"));
    let place = match view.sites(at, waiting).first() {
        Some(from) => format!(", at {from}"),
        None => String::new(),
    };
    let parent = view
        .process(seen.process)
        .and_then(|process| process.parent)
        .map_or_else(
            || "another process".into(),
            |parent| format!("process {parent}"),
        );
    format!(
        "{} {verb} for a {team}{size} that exists only in the parent{place}{since}: process {} was \
         forked from {parent}, and fork() copies only the thread that calls it",
        list(&names, MOST_NAMES),
        seen.process
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_told_apart_by_their_sizes() {
        let any = |sizes: &[usize]| sizes.iter().map(|size| (*size, true)).collect::<Vec<_>>();
        assert_eq!(only_choice(&any(&[2, 1]), 1), Some(0b10));
        assert_eq!(only_choice(&any(&[2, 1]), 3), Some(0b11));
        assert_eq!(only_choice(&any(&[2, 1]), 0), Some(0));
        // Two groups of one size, and a sum that none has.
        assert_eq!(only_choice(&any(&[1, 1]), 1), None);
        assert_eq!(only_choice(&[(1, false), (1, true)], 1), Some(0b10));
        assert_eq!(only_choice(&any(&[2, 2]), 1), None);
        assert_eq!(only_choice(&any(&[1; MOST_GROUPS + 1]), 1), None);
    }
}
