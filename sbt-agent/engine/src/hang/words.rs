//! What a thread does, in words.

use std::fmt::Write as _;

use super::{
    calls::{self, Wait},
    languages, messages,
    names::{View, spoken},
    once::{self, Once},
    scene::{CallSeen, Doing, Holder, Section, ThreadId, VariableSeen, WaitFor},
};
use crate::{place::printable, words::time};

/// Largest number of threads that a sentence names.
pub const MOST_NAMES: usize = 3;

/// What a thread does: `waits for the mutex 0x55… that worker-1 holds`.
pub fn does(view: &View, thread: usize) -> String {
    let seen = view.thread(thread);
    match &seen.doing {
        Doing::Running => match view.barrier_of(thread) {
            Some(barrier) => format!("waits at {}, running", view.barrier(barrier, &[thread])),
            None => runs(view, thread),
        },
        Doing::Waiting(wait) => waits(view, thread, wait),
        Doing::Call { name, what } => {
            if name == "restart_syscall" {
                return "sleeps for a limited time".into();
            }
            if name == "page fault" {
                return "waits for a page of its memory".into();
            }
            let name = printable(name);
            match what.as_deref().map(printable) {
                Some(what) if name.contains("sleep") => format!("sleeps in {name}() ({what})"),
                Some(what) => format!("waits in {name}() for {what}"),
                None if name.contains("sleep") => format!("sleeps in {name}()"),
                None => format!("waits in {name}()"),
            }
        }
        Doing::Stopped => "was stopped by a signal".into(),
        Doing::Frozen => "is frozen by its control group".into(),
        Doing::Traced { by } => format!("is held by process {by}, a debugger or the like"),
        Doing::Ended => "has ended".into(),
        Doing::Unknown => "could not be looked at".into(),
    }
}

fn runs(view: &View, thread: usize) -> String {
    let seen = view.thread(thread);
    let looks = view.scene.looks;
    let mut facts = Vec::new();
    let lacks_cpu = view.lacks_cpu(thread);
    let verb = if lacks_cpu { "is ready to run" } else { "runs" };
    let wait = calls::wait(view.thread(thread));
    let is_wait = wait.is_some();
    facts.extend(messages::partner(view, thread));
    let mut text = match (wait, view.at(thread)) {
        (Some(wait), _) => format!("waits {}", placed(&wait)),
        (None, Some(call)) => format!("{verb} in {}", spoken(call)),
        (None, None) => verb.into(),
    };
    let mut elsewhere: Vec<String> = Vec::new();
    for call in &seen.also_at {
        let place = spoken(call);
        if view.at(thread).map(spoken).as_ref() != Some(&place) && !elsewhere.contains(&place) {
            elsewhere.push(place);
        }
    }
    match elsewhere.as_slice() {
        [] if looks > 1 && view.at(thread).is_some() => {
            let between = if is_wait && seen.went_on {
                ", but it had gone on between them"
            } else {
                ""
            };
            facts.push(format!("at each of {looks} looks{between}"));
        }
        [] => {}
        [one] => {
            let _ = write!(text, ", before in {one}");
        }
        [one, rest @ ..] => {
            let places = if rest.len() == 1 { "place" } else { "places" };
            let _ = write!(text, ", before in {one} and {} other {places}", rest.len());
        }
    }
    if let Some(cpu) = view.cpu_pct(thread) {
        let only = if lacks_cpu && !is_wait { "only " } else { "" };
        facts.push(format!("{only}{:.0} % of a CPU", cpu.min(100.0)));
    }
    if !facts.is_empty() {
        let looked = time(view.scene.looked_ns);
        let _ = write!(text, " ({} in {looked})", facts.join(", "));
    }
    text
}

fn waits(view: &View, thread: usize, wait: &WaitFor) -> String {
    let mut text = wait_for(view, thread, wait, "");
    if view.thread(thread).gives_up() {
        text.push_str(", for a limited time");
    }
    text
}

/// The wait of a thread in words. `place`: where a thread waits for a lock whose holder is gone, as in
/// ` in take() a.c:7`; empty to leave it out.
pub fn wait_for(view: &View, thread: usize, wait: &WaitFor, place: &str) -> String {
    if view.is_idle(thread) {
        return "waits for the next parallel region".into();
    }
    if let Some(address) = languages::python_lock(view, thread) {
        return format!("waits for a lock of Python ({address:#x})");
    }
    if view.thread(thread).enters_monitor() {
        return "waits to enter a monitor of Java".into();
    }
    if let Some(text) = done_once(view, thread, place) {
        return text;
    }
    match wait {
        WaitFor::Barrier(at) if *at < view.scene.barriers.len() => {
            format!("waits at {}", view.barrier(*at, &[thread]))
        }
        WaitFor::Barrier(_) => "waits at a barrier".into(),
        WaitFor::Mutex {
            address, holder, ..
        } => held(
            view,
            thread,
            place,
            &format!("the mutex {}", object(view, thread, *address)),
            *holder,
        ),
        WaitFor::RwLock {
            address,
            writes,
            writer,
            readers,
        } => {
            let to = match writes {
                Some(true) => " to write",
                Some(false) => " to read",
                None => "",
            };
            let lock = format!("the read-write lock {}{to}", object(view, thread, *address));
            match (writer, readers) {
                (Holder::Nobody | Holder::Unknown, Some(1)) => {
                    format!("waits for {lock}, which a reader holds")
                }
                (Holder::Nobody | Holder::Unknown, Some(readers)) if *readers > 1 => {
                    format!("waits for {lock}, which {readers} readers hold")
                }
                _ => held(view, thread, place, &lock, *writer),
            }
        }
        WaitFor::Semaphore { address, .. } => {
            format!("waits for the semaphore {}", object(view, thread, *address))
        }
        WaitFor::Condvar { address, .. } => {
            let object = object(view, thread, *address);
            format!("waits for the condition variable {object}")
        }
        WaitFor::Join { thread: None } => "waits for the end of another thread".into(),
        WaitFor::Join {
            thread: Some(other),
        } => match view.neighbour(thread, *other) {
            Some(other) => format!("waits for the end of {}", view.name(other)),
            None => format!("waits for the end of thread {other}"),
        },
        WaitFor::Child { process: None } => "waits for the end of a child process".into(),
        WaitFor::Child {
            process: Some(process),
        } => format!("waits for the end of its child process {process}"),
        WaitFor::Data { call, what, .. } => {
            format!("waits in {}() for {}", printable(call), printable(what))
        }
        WaitFor::Section { section, name, .. } => {
            for_section(view, thread, *section, name.as_deref())
        }
        WaitFor::Memory {
            address,
            name,
            naps,
            is_endless,
            ..
        } => match (is_endless, naps) {
            (true, true) => "spins in an endless loop, and sleeps in each turn".into(),
            (true, false) => "spins in an endless loop".into(),
            (false, _) => for_memory(view, thread, (*address, name.as_deref()), *naps),
        },
        WaitFor::Futex { address, .. } => {
            match (calls::wait(view.thread(thread)), library(view, thread)) {
                (Some(wait), _) => format!("waits {} ({address:#x})", wait.what),
                (None, Some(name)) => {
                    format!("waits in {name}() for a word of its memory to change")
                }
                (None, None) => for_word(view, thread, *address),
            }
        }
    }
}

/// An object for which a thread waits: `queue_lock (0x55…)`, `in table (0x55…)`, or `0x55…` alone where
/// no variable is known.
pub fn object(view: &View, thread: usize, address: u64) -> String {
    variable(view, thread, address).map_or_else(
        || format!("{address:#x}"),
        |seen| {
            let inside = if seen.offset == 0 { "" } else { "in " };
            format!("{inside}{} ({address:#x})", printable(&seen.name))
        },
    )
}

/// The variable in which an object lies for which a thread waits.
fn variable<'a>(view: &'a View, thread: usize, address: u64) -> Option<&'a VariableSeen> {
    let process = view.thread(thread).id.process;
    let mut variables = view.scene.variables.iter();
    variables.find(|seen| seen.process == process && seen.address == address)
}

fn for_word(view: &View, thread: usize, address: u64) -> String {
    let Some(seen) = variable(view, thread, address) else {
        return format!("waits for a word of its memory to change ({address:#x})");
    };
    let inside = if seen.offset == 0 { "" } else { "a word in " };
    format!(
        "waits for {inside}{} ({address:#x}) to change",
        printable(&seen.name)
    )
}

fn for_section(view: &View, at: usize, section: Section, name: Option<&str>) -> String {
    let what = match (section, name) {
        (Section::Critical, Some(name)) => format!("the critical section {}", printable(name)),
        (Section::Critical, None) => "a critical section".into(),
        (Section::Ordered, _) => "its turn in an ordered section".into(),
    };
    match view.may_be_inside(at) {
        Some(other) => format!("waits for {what} (which {} may be in)", view.name(other)),
        None => format!("waits for {what}"),
    }
}

/// The wait for what another thread, or this one, does once.
pub fn done_once(view: &View, at: usize, place: &str) -> Option<String> {
    let Doing::Waiting(WaitFor::Futex { address, .. }) = view.thread(at).doing else {
        return None;
    };
    let (once, runner) = once::runner(view, at)?;
    let (what, does) = match once {
        Once::Variable => ("static variable", "initialises"),
        Once::Routine => ("routine of pthread_once()", "executes"),
    };
    let who = if runner == at {
        format!("it {does} itself")
    } else {
        format!("{} {does}", view.name(runner))
    };
    Some(format!(
        "waits{place} for the {what} ({address:#x}) that {who}"
    ))
}

fn for_memory(view: &View, at: usize, word: (Option<u64>, Option<&str>), naps: bool) -> String {
    if let Some(wait) = calls::wait(view.thread(at)) {
        return format!("waits {}", wait.what);
    }
    let word = match word {
        (Some(address), Some(name)) => format!("{} ({address:#x})", printable(name)),
        (Some(address), None) => format!("the word {address:#x} of its memory"),
        // To sleep, a C library reads words of its own.
        (None, _) if naps => {
            return "sleeps again and again in a loop, and what would end the loop is not known"
                .into();
        }
        (None, _) => "its memory".into(),
    };
    let how = if naps {
        "looks again and again, and sleeps in between, until"
    } else {
        "spins until"
    };
    format!("{how} {word} changes")
}

/// The function of a language's library in which a thread waits: the one that the program called.
fn library(view: &View, thread: usize) -> Option<String> {
    let stack = &view.thread(thread).stack;
    let own = stack.iter().position(|call| !call.of_system)?;
    let name = stack[..own].iter().rev().find_map(|call| {
        let name = call.function.as_deref()?;
        name.starts_with("std::").then_some(name)
    })?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, ':' | '_');
    let name = without_parameters(name);
    name.chars().all(is_plain).then(|| printable(&name))
}

/// A name without the parameters of templates, which are long.
fn without_parameters(name: &str) -> String {
    let mut depth = 0_u32;
    let outside = name.chars().filter(|c| match c {
        '<' => {
            depth += 1;
            false
        }
        '>' => {
            depth = depth.saturating_sub(1);
            false
        }
        _ => depth == 0,
    });
    outside.collect()
}

fn held(view: &View, at: usize, place: &str, lock: &str, holder: Holder) -> String {
    match holder {
        Holder::Thread(id) if view.thread(at).id == id => {
            format!("waits for {lock} that it holds itself")
        }
        Holder::Thread(id) => format!("waits for {lock} that {} holds", by_id(view, id)),
        Holder::Gone { thread } => match view.process(view.thread(at).id.process) {
            Some(process) if process.forked => format!(
                "waits{place} for {lock}, which thread {thread} held when this process was forked (it \
                     exists only in the parent)"
            ),
            _ => format!(
                "waits{place} for {lock}, whose holder (thread {thread}) has ended without letting go"
            ),
        },
        Holder::Nobody => format!("waits for {lock}, which nobody holds any more"),
        Holder::Unknown => format!("waits for {lock}"),
    }
}

fn by_id(view: &View, id: ThreadId) -> String {
    match view.index(id) {
        Some(at) => view.name(at),
        None => format!("thread {} of process {}", id.thread, id.process),
    }
}

/// Whether a system call waits for the lock of a file.
pub fn is_file_lock(call: &str) -> bool {
    matches!(call, "flock" | "fcntl")
}

/// Where a thread waits, unless [`does`] says it already.
pub fn in_place(view: &View, at: usize) -> String {
    let says_it = matches!(view.thread(at).doing, Doing::Running | Doing::Ended);
    // The place is a function of the interpreter.
    let says_it = says_it || languages::python_lock(view, at).is_some();
    match view.at(at) {
        Some(call) if !says_it && !call.of_system => format!(", in {}", spoken(call)),
        _ => String::new(),
    }
}

/// How many threads are at a barrier: `3 of 4 are there`.
pub fn there(view: &View, barrier: usize, arrived: u32) -> String {
    let verb = if arrived == 1 { "is" } else { "are" };
    match view.scene.barriers[barrier].participants {
        Some(count) => format!("{arrived} of {count} {verb} there"),
        None => format!("{arrived} {verb} there"),
    }
}

/// A wait in words, with the place in the program.
pub fn placed(wait: &Wait) -> String {
    let what = &wait.what;
    match wait.own {
        Some(own) if wait.is_mpi => format!("{what}, called in {}", spoken(own)),
        Some(own) => format!("{what}, in {}", spoken(own)),
        None => what.clone(),
    }
}

/// Whether the places at which a thread was seen running are further apart than the lines of one
/// small loop, or the thread got the lock in between.
pub fn moves(view: &View, thread: usize) -> bool {
    /// Lines of a loop that only waits.
    const LOOP: u32 = 3;
    let Some(at) = view.at(thread) else {
        return false;
    };
    let is_near = |other: &CallSeen| {
        let same = other.function == at.function && other.binary == at.binary;
        let lines = match (at.line, other.line) {
            (Some(a), Some(b)) => other.file == at.file && a.abs_diff(b) <= LOOP,
            // Without lines, near means within a few instructions.
            _ => at.offset.abs_diff(other.offset) <= 64,
        };
        same && lines
    };
    let seen = view.thread(thread);
    let got_the_lock =
        seen.went_on && calls::wait(view.thread(thread)).is_some_and(|wait| !wait.is_mpi);
    got_the_lock || !seen.also_at.iter().all(is_near)
}

/// A remark on threads whose callers are hidden: see [`super::Scene::hidden`].
pub fn hidden(threads: u32) -> Option<String> {
    let of = match threads {
        0 => return None,
        1 => "one thread".into(),
        _ => format!("{threads} threads"),
    };
    Some(format!(
        "from where {of} called what they wait in is hidden by probes on the return of that: another \
         sbt, or a tool like it, watches; a report of that sbt tells it, and so does a look \
         when it has gone"
    ))
}
