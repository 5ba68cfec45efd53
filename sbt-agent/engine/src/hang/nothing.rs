//! The sentence where no hang was found.

use super::{
    end::end,
    graph::Graph,
    languages,
    names::View,
    scene::{Doing, WaitFor},
    story::story,
    words::{does, in_place, moves},
};

/// Says that no hang was found. There may be one nevertheless, because what threads sleep for is
/// not always known.
pub fn text(view: &View) -> String {
    let threads = 0..view.scene.threads.len();
    let waiting = view
        .scene
        .barriers
        .iter()
        .any(|barrier| !barrier.waiting.is_empty());
    if threads.is_empty() {
        return "no thread could be looked at, or the process has ended".into();
    }
    if waiting {
        return "the barrier at which threads waited has all it waits for".into();
    }
    if let Some(text) = of_runner(view).or_else(|| of_woken(view)) {
        return text;
    }
    let [
        mut running,
        mut in_loops,
        mut asleep,
        mut ended,
        mut unknown,
    ] = [0_usize; 5];
    for thread in threads {
        match view.thread(thread).doing {
            Doing::Running => running += 1,
            Doing::Waiting(WaitFor::Memory { naps: false, .. }) => in_loops += 1,
            Doing::Waiting(_)
            | Doing::Call { .. }
            | Doing::Stopped
            | Doing::Frozen
            | Doing::Traced { .. } => {
                asleep += 1;
            }
            Doing::Ended => ended += 1,
            Doing::Unknown => unknown += 1,
        }
    }
    let counted = [
        (running, "running"),
        (in_loops, "in loops that wait"),
        (asleep, "asleep or stopped"),
        (ended, "ended"),
        (unknown, "not looked at"),
    ];
    let counted: Vec<String> = counted
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    let mut text = format!(
        "no thread waits at a barrier that is known here, and no circle of waits was found (threads: \
         {})",
        counted.join(", ")
    );
    if asleep > 0 {
        text.push_str("; whether those asleep will be woken is not known");
        text.push_str(&languages::advice(view, view.thread(0).id.process));
    }
    text
}

/// What a thread does that sleeps, and did not do so all the while: if possible one that others have
/// woken.
fn of_woken(view: &View) -> Option<String> {
    let is_asleep = |at: usize| {
        let doing = &view.thread(at).doing;
        matches!(doing, Doing::Waiting(_) | Doing::Call { .. })
    };
    let all = || (0..view.scene.threads.len()).filter(|at| is_asleep(*at));
    let woke = all().filter(|at| !view.thread(*at).slept && view.scene.looks > 1);
    let at = woke.min_by_key(|at| {
        let waits = matches!(view.thread(*at).doing, Doing::Waiting(_));
        let thread = view.thread(*at);
        (languages::is_helper(view, *at), !waits || thread.gives_up())
    })?;
    let others = if all().any(|at| view.thread(at).slept) {
        "; whether those that slept throughout will be woken is not known"
    } else {
        ""
    };
    Some(format!(
        "no hang was found: {} {}{}, and was awake between the looks{others}{}",
        view.name(at),
        does(view, at),
        in_place(view, at),
        languages::advice(view, view.thread(at).id.process)
    ))
}

/// What the first thread does that has not ended, if that is to run, or to wait for a thread that
/// runs, or in a loop while another thread runs.
fn of_runner(view: &View) -> Option<String> {
    let mut threads = 0..view.scene.threads.len();
    let first = threads.find(|at| view.thread(*at).doing != Doing::Ended)?;
    let graph = Graph::new(view);
    let root = end(&graph, first, None).root;
    if view.scene.looks < 2 {
        return None;
    }
    let mut told = format!("{} {}", view.name(first), story(&graph, first, None));
    let mut root = root;
    if matches!(
        view.thread(root).doing,
        Doing::Waiting(WaitFor::Memory { .. })
    ) {
        // Others may change the memory that it waits for.
        let mut all = 0..view.scene.threads.len();
        root = all.find(|at| view.thread(*at).doing == Doing::Running)?;
        told = format!("{told}; {} {}", view.name(root), story(&graph, root, None));
    }
    if view.thread(root).doing != Doing::Running {
        return None;
    }
    let end = match (moves(view, root), view.lacks_cpu(root)) {
        (true, _) => return Some(format!("no hang was found: {told}")),
        (false, true) => view.without_cpu(),
        (false, false) => "slow, or a loop without end; a look cannot tell which",
    };
    Some(format!("{told}: {end}"))
}
