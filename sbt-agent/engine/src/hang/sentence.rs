//! The sentence of a finding, and the remarks on it.

use std::fmt::Write as _;

use super::{
    absent::Absent,
    calls,
    end::Grade,
    finding::Finding,
    graph::{Graph, Need},
    names::spoken,
    quiet,
    scene::{Doing, Holder, ThreadId, WaitFor},
    spinners, team,
    threads::gone_words,
    words::{does, in_place, is_file_lock, list, story, there},
};
use crate::{event::Kind, report::HangCause, words::time};

/// Largest number of threads that a sentence names.
const MOST_NAMES: usize = 3;

/// The sentence: which thread is missing where, what it does, and what follows from that.
pub fn text(graph: &Graph, finding: &Finding) -> String {
    let Some(at) = finding.barrier else {
        return without_barrier(graph, finding);
    };
    let absent = &graph.absent[at];
    match finding.because {
        Some(HangCause::WaitsTwice) => return twice(graph, at, absent),
        Some(HangCause::Apart) => return team::apart_text(graph, at, &since(graph, at)),
        Some(HangCause::ForkedTeam) => {
            return team::of_parent_text(graph, at, &since(graph, at));
        }
        Some(HangCause::FewerAlive | HangCause::CountTooLarge) if finding.lead.is_none() => {
            return too_few(graph, finding, at, absent);
        }
        _ => {}
    }
    if absent.count.is_some_and(|count| count <= 0) {
        return all_there(graph, finding, at, absent);
    }
    let name = graph.view.barrier(at, &absent.waiting);
    let there = there_since(graph, at, absent);
    let Some(lead) = finding.lead else {
        return match gone(graph, finding, at, absent) {
            Some(text) => text,
            None if !absent.later.is_empty() => later(graph, at, absent),
            None if absent.lacking() > 0 && graph.view.has_strangers(at) => {
                let (missing, verb, who) = match absent.lacking() {
                    1 => (1, "is", "one of another process is"),
                    more => (more, "are", "those of other processes are"),
                };
                let of = graph.view.scene.barriers[at].participants.unwrap_or(0);
                format!(
                    "{missing} of {of} threads {verb} missing at {name} ({there}): no thread of \
                     the processes that were looked at can come; {who} to come, which may have \
                     ended"
                )
            }
            None => format!("threads wait at {name} ({there}): who is missing there is not known"),
        };
    };
    let slow = match finding.grade {
        Grade::Slow => "slow, not stuck: ",
        _ => "",
    };
    let subject = subject(graph, finding, absent, lead);
    let mut text = format!("{slow}{subject} at {name} ({there}): ");
    text.push_str(&named_story(graph, finding, absent, lead, at));
    let root = root(graph, lead, at);
    match &graph.view.thread(root).doing {
        Doing::Waiting(WaitFor::Data { .. }) if finding.because == Some(HangCause::NobodyWakes) => {
            text.push_str(", and ");
            text.push_str(&nobody_sends(graph, root));
        }
        _ => text.push_str(tail(graph, finding)),
    }
    text.push_str(&rest(graph, finding, absent, lead));
    if let Some(gone) = absent.gone.first() {
        let seen = &graph.view.scene.barriers[at];
        let name = graph.view.called(gone.id, &gone.name);
        let _ = write!(text, "; {name} {}", gone_words(graph.view, seen, gone));
    }
    if finding.grade == Grade::Unclear {
        text.push_str(": ");
        text.push_str(match graph.view.thread(root).doing {
            Doing::Running if calls::wait(graph.view, root).is_some() => {
                "it is not known whether it will come"
            }
            Doing::Running if graph.view.lacks_cpu(root) => graph.view.without_cpu(),
            Doing::Running => "slow, or a loop without end; a look cannot tell which",
            _ => "it is not known whether it will come",
        });
    }
    text
}

/// The subject of the sentence, as certain as it is: `worker-2 is missing`.
fn subject(graph: &Graph, finding: &Finding, absent: &Absent, lead: usize) -> String {
    let name = graph.view.name(lead);
    if absent.certain {
        return format!("{name} is missing");
    }
    let alike = alike(finding, absent);
    if alike.len() > 1 {
        let names: Vec<String> = alike.iter().map(|at| graph.view.name(*at)).collect();
        let wanted = absent.count.unwrap_or(1).max(1);
        let verb = if wanted == 1 { "is" } else { "are" };
        return format!(
            "{wanted} of {} {verb} missing",
            list(&names, MOST_NAMES + 1)
        );
    }
    format!("probably {name} is missing")
}

/// The candidates, if there are more of them than missing threads; else empty.
fn alike(finding: &Finding, absent: &Absent) -> Vec<usize> {
    let wanted = absent.count.and_then(|count| usize::try_from(count).ok());
    if wanted.is_none_or(|wanted| finding.who.len() <= wanted) {
        return Vec::new();
    }
    finding.who.clone()
}

fn named_story(
    graph: &Graph,
    finding: &Finding,
    absent: &Absent,
    lead: usize,
    at: usize,
) -> String {
    let story = story(graph, lead, Some(at));
    if alike(finding, absent).len() > 1 {
        format!("{} {story}", graph.view.name(lead))
    } else {
        format!("it {story}")
    }
}

/// What follows from the cause.
fn tail(graph: &Graph, finding: &Finding) -> &'static str {
    let root = finding
        .lead
        .map(|lead| super::end::end(graph, lead, finding.barrier).root);
    let is_memory = root.is_some_and(|root| {
        let doing = &graph.view.thread(root).doing;
        matches!(doing, Doing::Waiting(WaitFor::Memory { .. }))
    });
    match (finding.because, finding.for_ever) {
        (Some(HangCause::Cycle), true) => ": they wait for each other for ever",
        (Some(HangCause::Cycle), false) => ": they wait for each other",
        (Some(HangCause::OwnLock), _) => ", for ever",
        (Some(HangCause::HolderGone), _) => ": nobody will",
        (Some(HangCause::NobodyWakes), _) if is_memory => {
            ", and no thread is left that could change it"
        }
        (Some(HangCause::NobodyWakes), _) => ", and no thread is left that could wake it",
        _ => "",
    }
}

/// The other missing threads.
fn rest(graph: &Graph, finding: &Finding, absent: &Absent, lead: usize) -> String {
    let mut text = String::new();
    if alike(finding, absent).is_empty() {
        let others = finding.who.iter().filter(|at| **at != lead);
        let names: Vec<String> = others.map(|at| graph.view.name(*at)).collect();
        if !names.is_empty() {
            let verb = if names.len() == 1 { "is" } else { "are" };
            text = format!("; {} {verb} missing too", list(&names, MOST_NAMES));
        }
    }
    match absent.lacking() {
        0 => {}
        1 => text.push_str("; 1 more has not begun or has ended"),
        more => {
            let _ = write!(text, "; {more} more have not begun or have ended");
        }
    }
    text
}

/// The sentence for members that have ended.
fn gone(graph: &Graph, finding: &Finding, at: usize, absent: &Absent) -> Option<String> {
    let view = graph.view;
    let first = absent.gone.first()?;
    let names: Vec<String> = absent
        .gone
        .iter()
        .map(|member| view.called(member.id, &member.name))
        .collect();
    let (verb, pronoun) = if names.len() == 1 {
        ("is", "it")
    } else {
        ("are", "they")
    };
    let seen = &view.scene.barriers[at];
    let mut ended = gone_words(view, seen, first);
    if names.len() > 1 {
        ended = "have ended, after they came here before".into();
    }
    let mut text = format!(
        "{} {verb} missing at {} ({}): {pronoun} {ended}",
        list(&names, MOST_NAMES),
        view.barrier(at, &absent.waiting),
        there_since(graph, at, absent),
    );
    if absent.gone.len() > absent.waiting.len() {
        let waiting = names_of(graph, &absent.waiting);
        let _ = write!(text, "; or {waiting} came once too often");
    }
    if finding.for_ever {
        text.push_str(", so it can never complete");
    }
    Some(text)
}

/// The sentence for threads that sleep and may or may not be going to come.
fn later(graph: &Graph, at: usize, absent: &Absent) -> String {
    let view = graph.view;
    let name = view.barrier(at, &absent.waiting);
    let since = since(graph, at);
    let whole = whole(graph, at);
    let missing = absent.lacking();
    let verb = if missing == 1 { "is" } else { "are" };
    let who = match absent.later.as_slice() {
        [one] => format!(
            "{}, which {}, is to come",
            view.name(*one),
            does(view, *one)
        ),
        all => {
            let each = |thread: &usize| format!("{} {}", view.name(*thread), does(view, *thread));
            let shown: Vec<String> = all.iter().take(2).map(each).collect();
            let more = all.len() - shown.len();
            let more = if more > 0 {
                format!("; and {more} more")
            } else {
                String::new()
            };
            format!("of these some are to come ({}{more})", shown.join("; "))
        }
    };
    let of = match view.scene.barriers[at].participants {
        Some(count) => format!("{missing} of {count} threads {verb} missing"),
        None => "it is not known who is missing".into(),
    };
    format!(
        "{of} at {name}{since}: either {who}, or {whole} has ended without coming, or the \
             count is too large"
    )
}

/// What may have ended: a thread, or a whole process.
fn whole(graph: &Graph, at: usize) -> &'static str {
    if graph.view.scene.barriers[at].shared {
        "a process"
    } else {
        "a thread"
    }
}

/// The sentence for a further barrier that is part of the same circle.
pub fn in_circle(graph: &Graph, at: usize, absent: &Absent) -> String {
    let name = graph.view.barrier(at, &absent.waiting);
    let there = there_since(graph, at, absent);
    format!("{name} ({there}) is part of the same circle")
}

fn too_few(graph: &Graph, finding: &Finding, at: usize, absent: &Absent) -> String {
    let view = graph.view;
    let name = view.barrier(at, &absent.waiting);
    let seen = &view.scene.barriers[at];
    let since = since(graph, at);
    let have = if absent.arrived == 1 { "is" } else { "are" };
    let arrived = absent.arrived;
    let why = if finding.because == Some(HangCause::CountTooLarge) {
        let ever = seen.past.as_ref().map_or(0, |past| past.members.len());
        format!(
            "no more than {ever} have ever come there: the count is too large, or a thread ended \
             before it came"
        )
    } else {
        let whole = whole(graph, at);
        format!("{whole} has ended without coming, or the count is too large")
    };
    let spare: Vec<String> = absent
        .spare
        .iter()
        .take(2)
        .map(|thread| {
            let story = match graph.need(*thread) {
                Need::Thread(_) => story(graph, *thread, Some(at)),
                _ => does(view, *thread),
            };
            format!("{} {story}", view.name(*thread))
        })
        .collect();
    let spare = match (spare.is_empty(), absent.spare.len() - spare.len()) {
        (true, _) => String::new(),
        (false, 0) => format!(" ({})", spare.join("; ")),
        (false, more) => format!(" ({}; and {more} more)", spare.join("; ")),
    };
    let Some(count) = seen.participants else {
        return format!(
            "{name} can never complete: {arrived} {have} there{since}, how many it waits for is \
             not known, and no other can come{spare}: {why}"
        );
    };
    if finding.for_ever {
        return format!(
            "{name} can never complete: it waits for {count} threads, {arrived} {have} \
             there{since}, and no other can come{spare}: {why}"
        );
    }
    let missing = absent.lacking();
    let verb = if missing == 1 { "is" } else { "are" };
    format!(
        "{missing} of {count} threads {verb} missing at {name}{since}, and none is left that looks \
         as if it would come{spare}: probably {why}"
    )
}

fn all_there(graph: &Graph, finding: &Finding, at: usize, absent: &Absent) -> String {
    let name = graph.view.barrier(at, &absent.waiting);
    let count = graph.view.scene.barriers[at].participants.unwrap_or(0);
    let inside = absent.waiting.len();
    let since = since(graph, at);
    // A program cannot write to the barriers of a team.
    let why = match graph.view.scene.barriers[at].kind {
        Kind::Gomp | Kind::Kmp => {
            "they stand at different barriers of their team, or one of them executes a task there"
        }
        _ => {
            "it was initialised again or written over while threads waited, or is not what it \
             seems"
        }
    };
    if finding.because == Some(HangCause::TooMany) {
        format!("{inside} threads wait at {name}{since}, which waits for {count}: {why}")
    } else {
        format!("all {count} are at {name}{since}, and none goes on: {why}")
    }
}

fn twice(graph: &Graph, at: usize, absent: &Absent) -> String {
    let view = graph.view;
    let name = absent
        .twice
        .map_or_else(String::new, |thread| view.name(thread));
    format!(
        "{name} waits twice at {} ({}), once within a signal handler or the like: it cannot come \
         for another thread",
        view.barrier(at, &absent.waiting),
        there_since(graph, at, absent),
    )
}

fn without_barrier(graph: &Graph, finding: &Finding) -> String {
    let view = graph.view;
    let Some(lead) = finding.lead else {
        return "threads wait for each other".into();
    };
    if finding.because.is_none() {
        return spinners::text(graph, finding).unwrap_or_else(|| quiet::text(graph, finding));
    }
    let name = view.name(lead);
    if finding.because == Some(HangCause::NobodyWakes) {
        let others = same_wait(graph, finding);
        let left = match &view.thread(lead).doing {
            Doing::Waiting(WaitFor::Data { .. }) => nobody_sends(graph, lead),
            doing => {
                let whose = if graph.shares(lead) {
                    "the processes that share it"
                } else {
                    "the process"
                };
                let what = match doing {
                    Doing::Waiting(WaitFor::Memory { .. }) => "change it",
                    _ => "wake it",
                };
                format!("no thread of {whose} is left that could {what}")
            }
        };
        return format!(
            "{name} {}, and {left}{others}{}{}",
            story(graph, lead, None),
            waits_for_its_lock(graph, lead),
            of_parent(graph, lead)
        );
    }
    format!(
        "{name} {}{}{}{}",
        story(graph, lead, None),
        tail(graph, finding),
        in_handler(graph, finding, lead),
        of_parent(graph, lead)
    )
}

/// Says that a thread waits for its own lock in the handler of a signal, and what that has interrupted;
/// empty if it does not.
fn in_handler(graph: &Graph, finding: &Finding, at: usize) -> String {
    let mut stack = graph.view.thread(at).stack.iter();
    let interrupted = stack.find(|call| call.after_signal);
    match interrupted.filter(|_| finding.because == Some(HangCause::OwnLock)) {
        Some(call) => format!(
            "; it does so in the handler of a signal, which has interrupted {}",
            spoken(call)
        ),
        None => String::new(),
    }
}

/// Names the other threads that nobody wakes, with what they wait for and where unless that is the same;
/// empty if there are none.
fn same_wait(graph: &Graph, finding: &Finding) -> String {
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
    // Fewer threads at a place are the more telling.
    groups.sort_by_key(|(_, threads)| threads.len());
    let mut told: Vec<String> = Vec::new();
    if !alike.is_empty() {
        told.push(names_of(graph, &alike));
    }
    // That nobody reads or writes at the other end is true only of those that wait for data, too.
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

/// Names a thread that might have woken another, and waits for a lock which that one holds; empty if
/// there is none.
fn waits_for_its_lock(graph: &Graph, at: usize) -> String {
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

/// Says that a pipe or socket has no other end at which something could happen.
fn nobody_sends(graph: &Graph, at: usize) -> String {
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

/// What the first threads of other processes than a thread's own do, if these are few: a parent that
/// waits for the end of the thread's process closes a circle.
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
fn of_parent(graph: &Graph, at: usize) -> String {
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

fn names_of(graph: &Graph, threads: &[usize]) -> String {
    let names: Vec<String> = threads.iter().map(|at| graph.view.name(*at)).collect();
    list(&names, MOST_NAMES)
}

/// The thread at the end of the chain of waits.
fn root(graph: &Graph, lead: usize, at: usize) -> usize {
    super::end::end(graph, lead, Some(at)).root
}

fn there_since(graph: &Graph, at: usize, absent: &Absent) -> String {
    let there = there(graph.view, at, absent.arrived);
    format!("{there}{}", since(graph, at))
}

/// For how long nothing has happened at a barrier, in words; empty if it was not watched.
fn since(graph: &Graph, at: usize) -> String {
    let past = graph.view.scene.barriers[at].past.as_ref();
    past.map_or_else(String::new, |past| {
        format!(", for {} now", time(past.still_ns))
    })
}

/// Remarks on a barrier.
pub fn notes(graph: &Graph, at: usize) -> Vec<String> {
    let view = graph.view;
    let absent = &graph.absent[at];
    let seen = &view.scene.barriers[at];
    let mut notes = Vec::new();
    let sites = view.sites(at, &absent.waiting);
    if sites.len() > 1 {
        notes.push(format!(
            "its threads wait at different places: {}",
            list(&sites, MOST_NAMES + 1)
        ));
    }
    let inside = u32::try_from(absent.waiting.len()).unwrap_or(u32::MAX);
    if let Some(arrived) = seen.arrived.filter(|arrived| *arrived > inside) {
        let where_others_are = if view.has_strangers(at) {
            "others are in processes that were not looked at, or have ended there, or left it by a \
             jump"
        } else {
            "others have ended there, or left it by a jump"
        };
        notes.push(format!(
            "it has counted {arrived} arrivals, but only {inside} of those that came are seen in \
             it: {where_others_are}"
        ));
    }
    let processes = view.scene.threads.iter().map(|thread| thread.id.process);
    let others = processes.into_iter().any(|process| process != seen.process);
    if seen.shared && !others {
        notes.push(
            "several processes may meet at this barrier, and no other was looked at; `sbt hang \
             --children` looks at those that this one has started as well"
                .into(),
        );
    }
    notes
}
