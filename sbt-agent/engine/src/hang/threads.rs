//! Threads and barriers of a scene in the form of a report.

use super::{
    languages,
    names::{View, place},
    scene::{BarrierSeen, Doing, Holder, Member, ThreadId, WaitFor},
    words::does,
};
use crate::{
    place::printable,
    report::{
        BlockedOn, BlockedOnKind, HangBarrierReport, HangThreadReport, HangThreadState, HangWho,
    },
};

/// All threads of a scene, those that a library or a language keeps for itself last.
pub fn all(view: &View) -> Vec<HangThreadReport> {
    let all = helpers_last(view, (0..view.scene.threads.len()).collect());
    all.into_iter().map(|at| thread(view, at)).collect()
}

/// Puts threads that a library or a language keeps for itself behind the others. The first thread of a
/// process is the program's own.
pub fn helpers_last(view: &View, mut threads: Vec<usize>) -> Vec<usize> {
    threads.sort_by_key(|at| {
        let id = view.thread(*at).id;
        id.thread != id.process && languages::is_helper(view, *at)
    });
    threads
}

/// A thread of a scene.
pub fn thread(view: &View, at: usize) -> HangThreadReport {
    let seen = view.thread(at);
    let own = view.at(at).map(place);
    let mut also_at: Vec<String> = Vec::new();
    for call in &seen.also_at {
        let place = place(call);
        if own.as_ref() != Some(&place) && !also_at.contains(&place) {
            also_at.push(place);
        }
    }
    HangThreadReport {
        who: who(view, at),
        state: match &seen.doing {
            Doing::Running => HangThreadState::Running,
            Doing::Waiting(_) | Doing::Call { .. } => HangThreadState::Waiting,
            Doing::Stopped | Doing::Frozen => HangThreadState::Stopped,
            Doing::Traced { .. } => HangThreadState::Traced,
            Doing::Ended => HangThreadState::Ended,
            Doing::Unknown => HangThreadState::Unknown,
        },
        does: does(view, at),
        at: own,
        also_at,
        stack: seen.stack.iter().map(place).collect(),
        own: seen
            .stack
            .iter()
            .filter(|call| !call.of_system)
            .map(place)
            .collect(),
        cpu_pct: view.cpu_pct(at),
        blocked_on: blocked_on(view, at),
        waiting_ns: waiting_ns(view, at),
    }
}

/// A thread that came to a barrier before and has ended.
pub fn gone(view: &View, barrier: &BarrierSeen, member: &Member) -> HangThreadReport {
    HangThreadReport {
        who: named(view, member.id, &member.name),
        state: HangThreadState::Ended,
        does: gone_words(view, barrier, member),
        at: None,
        also_at: Vec::new(),
        stack: Vec::new(),
        own: Vec::new(),
        cpu_pct: None,
        blocked_on: None,
        waiting_ns: None,
    }
}

/// Says that a thread has ended, and from where it came last.
pub fn gone_words(view: &View, barrier: &BarrierSeen, member: &Member) -> String {
    let process = member.id.process;
    let all_gone = barrier.shared
        && view
            .scene
            .threads
            .iter()
            .all(|thread| thread.id.process != process || thread.doing == Doing::Ended);
    let ended = if all_gone {
        format!("has ended with its process {process}")
    } else {
        "has ended".into()
    };
    match &member.site {
        Some(site) => format!(
            "{ended}, after it came here from {} before",
            printable(site)
        ),
        None => ended,
    }
}

/// The identity of a thread.
pub fn who(view: &View, at: usize) -> HangWho {
    let seen = view.thread(at);
    let who = named(view, seen.id, &seen.name);
    match view.rank(at) {
        Some(rank) => HangWho {
            name: format!("rank {rank} ({})", who.name),
            ..who
        },
        None => who,
    }
}

fn named(view: &View, id: ThreadId, name: &str) -> HangWho {
    HangWho {
        thread: view.names.threads.get(&id).map(|(number, _)| *number),
        tid: id.thread,
        process: Some(id.process),
        name: view.called(id, name),
    }
}

/// A barrier of a scene.
pub fn barrier(view: &View, at: usize) -> HangBarrierReport {
    let seen = &view.scene.barriers[at];
    let key = (seen.process, seen.address);
    HangBarrierReport {
        id: view.names.barriers.get(&key).copied(),
        kind: seen.kind.into(),
        address: format!("{:#x}", seen.address),
        process: seen.process,
        shared: seen.shared,
        arrived: seen.arrived,
    }
}

fn waiting_ns(view: &View, at: usize) -> Option<u64> {
    let id = view.thread(at).id;
    let barrier = &view.scene.barriers[view.barrier_of(at)?];
    let members = barrier.past.iter().flat_map(|past| &past.members);
    let mut of_it = members.filter(|member| member.id == id);
    of_it.find_map(|member| member.arrived_ns_ago)
}

/// What a thread sleeps for; `None` if it does not sleep.
pub fn blocked_on(view: &View, at: usize) -> Option<BlockedOn> {
    let hex = |address: u64| Some(format!("{address:#x}"));
    let on = |kind, address| BlockedOn {
        kind,
        address,
        holder: None,
        holder_gone: false,
        call: None,
        timed: None,
    };
    if let Some(barrier) = view.barrier_of(at) {
        return Some(on(
            BlockedOnKind::Barrier,
            hex(view.scene.barriers[barrier].address),
        ));
    }
    let held = |kind, address, holder: Holder| BlockedOn {
        holder: match holder {
            Holder::Thread(id) => Some(match view.index(id) {
                Some(other) => who(view, other),
                None => named(view, id, ""),
            }),
            Holder::Gone { thread } => Some(HangWho {
                thread: None,
                tid: thread,
                process: None,
                name: format!("thread {thread}"),
            }),
            Holder::Nobody | Holder::Unknown => None,
        },
        holder_gone: matches!(holder, Holder::Gone { .. }),
        ..on(kind, hex(address))
    };
    let wait = match &view.thread(at).doing {
        Doing::Waiting(wait) => wait,
        Doing::Call { name, what } => {
            let what = what.as_deref().unwrap_or_default();
            return Some(BlockedOn {
                call: Some(printable(&format!("{name} {what}")).trim_end().to_owned()),
                ..on(BlockedOnKind::Call, None)
            });
        }
        _ => return None,
    };
    let mut on = match wait.clone() {
        WaitFor::Barrier(_) => on(BlockedOnKind::Barrier, None),
        WaitFor::Mutex {
            address, holder, ..
        } => held(BlockedOnKind::Mutex, address, holder),
        WaitFor::RwLock {
            address, writer, ..
        } => held(BlockedOnKind::RwLock, address, writer),
        WaitFor::Semaphore { address, .. } => on(BlockedOnKind::Semaphore, hex(address)),
        WaitFor::Condvar { address, .. } => on(BlockedOnKind::Condvar, hex(address)),
        WaitFor::Futex { address, .. } => on(BlockedOnKind::Futex, hex(address)),
        WaitFor::Section { address, .. } => on(BlockedOnKind::Section, hex(address)),
        WaitFor::Memory { address, .. } => on(BlockedOnKind::Memory, address.and_then(hex)),
        WaitFor::Data { call, what, .. } => BlockedOn {
            call: Some(printable(&format!("{call} {what}"))),
            ..on(BlockedOnKind::Call, None)
        },
        WaitFor::Join { thread } => {
            let other = thread.and_then(|other| view.neighbour(at, other));
            BlockedOn {
                holder: other.map(|other| who(view, other)),
                ..on(BlockedOnKind::Join, None)
            }
        }
        WaitFor::Child { process } => {
            let id = process.map(|process| ThreadId {
                process,
                thread: process,
            });
            let other = id.and_then(|id| view.index(id));
            BlockedOn {
                holder: other.map(|other| who(view, other)),
                ..on(BlockedOnKind::Child, None)
            }
        }
    };
    let can_be = !matches!(wait, WaitFor::Barrier(_) | WaitFor::Child { .. });
    let thread = view.thread(at);
    on.timed = can_be.then_some(thread.timed && !thread.enters_monitor());
    Some(on)
}
