//! The sentence of a finding, and the remarks on it.

use std::fmt::Write as _;

use super::{
    absent::Absent,
    calls,
    end::Grade,
    finding::Finding,
    graph::{Graph, Need},
    languages, messages,
    names::{list, spoken},
    quiet,
    scene::{Doing, WaitFor},
    spinners,
    story::{names_of, story},
    team,
    threads::gone_words,
    unwoken,
    words::{MOST_NAMES, does, there},
};
use crate::{event::Kind, report::HangCause, words::time};

/// The sentence: which thread is missing where, what it does, and what follows from that.
pub fn text(graph: &Graph, finding: &Finding) -> String {
    let Some(at) = finding.barrier else {
        return without_barrier(graph, finding) + &advice(graph, finding);
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
            text.push_str(&unwoken::nobody_sends(graph, root));
        }
        _ => text.push_str(tail(graph, finding)),
    }
    if is_of_mpi(graph, at) && finding.elsewhere && finding.because == Some(HangCause::Cycle) {
        text.push_str(messages::IN_ORDER);
    }
    text.push_str(&rest(graph, finding, absent, lead));
    if let Some(gone) = absent.gone.first() {
        let seen = &graph.view.scene.barriers[at];
        let name = graph.view.called(gone.id, &gone.name);
        let _ = write!(text, "; {name} {}", gone_words(graph.view, seen, gone));
    }
    let may_wake = || unwoken::may_be_woken_by(graph, root);
    if finding.grade == Grade::Stuck
        && finding.because.is_none()
        && let Some(waker) = may_wake()
    {
        let _ = write!(text, "; {waker}");
    }
    let circle = absent
        .certain
        .then(|| ranks_in_circle(graph, finding, absent));
    if finding.grade == Grade::Unclear {
        text.push_str(": ");
        if let Some(circle) = circle.flatten() {
            text.push_str(&circle);
            return text;
        }
        if let Some(waker) = may_wake() {
            let _ = write!(text, "{waker}; ");
        }
        let runs = graph.view.thread(root).doing == Doing::Running;
        if runs && calls::wait(graph.view.thread(root)).is_none() {
            text.push_str(if graph.view.lacks_cpu(root) {
                graph.view.without_cpu()
            } else {
                "slow, or a loop without end; a look cannot tell which"
            });
        } else {
            let name = graph.view.name(lead);
            let _ = write!(text, "whether {name} comes is not known");
        }
    }
    text
}

fn is_of_mpi(graph: &Graph, barrier: usize) -> bool {
    graph.view.scene.barriers[barrier].kind == Kind::Mpi
}

/// The ranks of MPI that wait in a circle: those that are missing for messages, and those at the barrier for
/// these.
fn ranks_in_circle(graph: &Graph, finding: &Finding, absent: &Absent) -> Option<String> {
    let there = absent.waiting.iter().filter(|at| graph.stays(**at));
    let there: Vec<usize> = there.copied().collect();
    let who: Vec<usize> = finding.who.iter().chain(&there).copied().collect();
    messages::circle(graph.view, &who, &there)
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

/// The end of the sentence: what follows from the cause.
fn tail(graph: &Graph, finding: &Finding) -> &'static str {
    let root = finding
        .lead
        .map(|lead| super::end::end(graph, lead, finding.barrier).root);
    let is_memory = root.is_some_and(|root| {
        let doing = &graph.view.thread(root).doing;
        matches!(doing, Doing::Waiting(WaitFor::Memory { .. }))
    });
    let is_deaf = root.is_some_and(|root| graph.need(root) == Need::NoHandler);
    match (finding.because, finding.for_ever) {
        (Some(HangCause::Cycle), true) => ": they wait for each other for ever",
        (Some(HangCause::Cycle), false) => ": they wait for each other",
        (Some(HangCause::OwnLock), _) => ", for ever",
        (Some(HangCause::HolderGone), _) => ", and nobody will unlock it",
        // The words on that thread say why nobody wakes it.
        (Some(HangCause::NobodyWakes), _) if is_deaf => "",
        (Some(HangCause::NobodyWakes), _) if is_memory => {
            ", and no thread is left that could change it"
        }
        (Some(HangCause::NobodyWakes), _) => ", and no thread is left that could wake it",
        _ => "",
    }
}

/// A remark on the missing threads besides `lead`; empty if there are none.
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
    // Where others live that may come, more than that is not known.
    let all_live = finding.barrier.is_some_and(|at| all_live(graph, at));
    let others = !absent.spare.is_empty();
    match absent.lacking() {
        0 => {}
        1 if others => text.push_str("; 1 more is not there"),
        more if others => {
            let _ = write!(text, "; {more} more are not there");
        }
        1 if all_live => text.push_str("; 1 more has not begun"),
        1 => text.push_str("; 1 more has not begun or has ended"),
        more if all_live => {
            let _ = write!(text, "; {more} more have not begun");
        }
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
        text.push_str(", so the barrier can never complete");
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
    let or = match (
        counts_itself(view.scene.barriers[at].kind),
        all_live(graph, at),
    ) {
        (true, true) => "another thread of the team is".into(),
        (true, false) => format!("{whole} has ended without coming"),
        (false, true) => "the count is too large".into(),
        (false, false) => {
            format!("{whole} has ended without coming, or the count is too large")
        }
    };
    format!("{of} at {name}{since}: either {who}, or {or}")
}

/// Whether it is known that no thread which may come to a barrier has ended, as far as threads of the
/// barrier's process may come.
fn all_live(graph: &Graph, at: usize) -> bool {
    let view = graph.view;
    let seen = &view.scene.barriers[at];
    let process = view.process(seen.process);
    let has_lost = process.is_none_or(|of| of.forked || of.has_lost_threads != Some(false));
    // The first thread of a process stays until all others have ended.
    let mut threads = view.scene.threads.iter();
    let has_ended =
        threads.any(|thread| thread.id.process == seen.process && thread.doing == Doing::Ended);
    !seen.shared && !has_lost && !has_ended
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
    let why = why_too_few(graph, finding, at, absent);
    let spare: Vec<String> = absent
        .spare
        .iter()
        .take(2)
        .map(|thread| {
            let story = match graph.need(*thread) {
                Need::Thread(_) | Need::NoHandler => story(graph, *thread, Some(at)),
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

/// Why too few threads come to a barrier, as far as it is known.
fn why_too_few(graph: &Graph, finding: &Finding, at: usize, absent: &Absent) -> String {
    let seen = &graph.view.scene.barriers[at];
    let ever = seen.past.as_ref().map_or(0, |past| past.members.len());
    let is_above_all = finding.because == Some(HangCause::CountTooLarge);
    let all_live = all_live(graph, at);
    let whole = whole(graph, at);
    let why = match (is_above_all, all_live) {
        _ if counts_itself(seen.kind) && all_live => {
            "which thread of the team is missing is not known".into()
        }
        _ if counts_itself(seen.kind) => format!("{whole} has ended without coming"),
        (true, true) => format!(
            "no more than {ever} have ever come there, and no thread of the process has ended: the \
             count is too large"
        ),
        (true, false) => format!(
            "no more than {ever} have ever come there: the count is too large, or a thread ended \
             before it came"
        ),
        (false, true) => "the count is too large: no thread of the process has ended".into(),
        (false, false) => format!("{whole} has ended without coming, or the count is too large"),
    };
    let deaf = absent.spare.iter().copied();
    let deaf: Vec<usize> = deaf
        .filter(|thread| graph.need(*thread) == Need::NoHandler)
        .collect();
    match deaf.as_slice() {
        [] => why,
        [_] => format!("{} is to come, or {why}", names_of(graph, &deaf)),
        _ => format!("one of {} is to come, or {why}", names_of(graph, &deaf)),
    }
}

/// Whether a runtime itself says how many threads meet at its barriers, so that the number is right.
const fn counts_itself(kind: Kind) -> bool {
    matches!(kind, Kind::Gomp | Kind::Kmp)
}

fn all_there(graph: &Graph, finding: &Finding, at: usize, absent: &Absent) -> String {
    let name = graph.view.barrier(at, &absent.waiting);
    let count = graph.view.scene.barriers[at].participants.unwrap_or(0);
    let inside = absent.waiting.len();
    let since = since(graph, at);
    // A program cannot write to the barriers of a team.
    let why = match graph.view.scene.barriers[at].kind {
        kind if counts_itself(kind) => {
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

/// Advice to use a tool of the program's language, if it has one, and the program may hang.
fn advice(graph: &Graph, finding: &Finding) -> String {
    let lead = finding.lead.filter(|_| !finding.outside);
    lead.map_or_else(String::new, |lead| {
        let view = graph.view;
        languages::advice(view, view.thread(lead).id.process)
    })
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
    let end = super::end::end(graph, lead, None);
    let is_deaf = graph.need(end.root) == Need::NoHandler;
    if finding.because == Some(HangCause::NobodyWakes) && is_deaf {
        let others = unwoken::same_wait(graph, finding);
        return format!("{name} {}{others}", story(graph, lead, None));
    }
    if finding.because == Some(HangCause::NobodyWakes) {
        let others = unwoken::same_wait(graph, finding);
        let left = match &view.thread(lead).doing {
            Doing::Waiting(WaitFor::Data { .. }) => unwoken::nobody_sends(graph, lead),
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
            "{name} {}, and {left}{others}{}{}{}",
            story(graph, lead, None),
            unwoken::waits_for_handlers(graph, lead),
            unwoken::waits_for_its_lock(graph, lead),
            unwoken::of_parent(graph, lead)
        );
    }
    format!(
        "{name} {}{}{}{}",
        story(graph, lead, None),
        tail(graph, finding),
        in_handler(graph, finding, lead),
        unwoken::of_parent(graph, lead)
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
