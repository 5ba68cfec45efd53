//! Programs all of whose threads sleep, though not for each other: what they wait for outside of
//! the program, and what is not known.

use super::{
    end::{Grade, end},
    finding::Finding,
    graph::{Graph, Need},
    scene::{Doing, Holder, WaitFor},
    signals::FOR_SIGNALS,
    story::story,
    words::{does, in_place},
};

/// Advice for a program whose tasks are not threads. The only known runtime of such programs is Go's.
const GOROUTINES: &str = "; which goroutines wait for what cannot be seen from outside: \
                          `kill -QUIT` makes a program in Go print what each waits for, and ends it";

/// CPU time during the looks, in percent, up to which a thread that woke counts as asleep.
const NEXT_TO_NOTHING_PCT: f64 = 1.0;

/// System calls that end when something outside of the process does, such as a peer, a device or a
/// timer. Locks and queues that processes share are not among them: who holds these is not known.
const OUTSIDE: [&str; 31] = [
    "read",
    "pread64",
    "readv",
    "preadv",
    "preadv2",
    "write",
    "pwrite64",
    "writev",
    "pwritev",
    "pwritev2",
    "recvfrom",
    "recvmsg",
    "recvmmsg",
    "sendto",
    "sendmsg",
    "sendmmsg",
    "accept",
    "accept4",
    "connect",
    "poll",
    "ppoll",
    "select",
    "pselect6",
    "epoll_wait",
    "epoll_pwait",
    "epoll_pwait2",
    "io_getevents",
    "io_uring_enter",
    "openat",
    "fsync",
    "page fault",
];

/// Whether something outside of the program decides when a thread goes on, so that the thread's
/// sleep is no hang.
pub fn is_outside(graph: &Graph, thread: usize) -> bool {
    match &graph.view.thread(thread).doing {
        Doing::Call { .. } if graph.view.thread(thread).own_request => false,
        Doing::Call { name, .. } => {
            OUTSIDE.contains(&name.as_str()) || name.contains("sleep") || name == "restart_syscall"
        }
        Doing::Stopped | Doing::Frozen | Doing::Traced { .. } => true,
        _ => false,
    }
}

/// How a thread that needs no other thread of the program goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wakes {
    /// Something outside of the program wakes it.
    Outside,
    /// Nothing tells who or what wakes it.
    Unknown,
}

fn wakes(graph: &Graph, at: usize) -> Wakes {
    let thread = graph.view.thread(at);
    let by_signal = match &thread.doing {
        Doing::Call { name, .. } => {
            FOR_SIGNALS.contains(&name.as_str()) && !waits_for_children(graph, at)
        }
        _ => false,
    };
    let by_time = (!thread.slept || thread.gives_up()) && !thread.enters_monitor();
    // Daemons nap like this until a signal tells them to end.
    let by_handler = match &thread.doing {
        Doing::Waiting(WaitFor::Memory { naps, shared, .. }) => {
            *naps && !shared && handled(graph, at)
        }
        _ => false,
    };
    let by_child = matches!(thread.doing, Doing::Waiting(WaitFor::Child { .. }));
    if is_outside(graph, at) || by_signal || by_time || by_child || by_handler {
        Wakes::Outside
    } else {
        Wakes::Unknown
    }
}

/// Whether a thread waits for signals, and its process has children: a signal tells a launcher that
/// its child has ended.
fn waits_for_children(graph: &Graph, at: usize) -> bool {
    let thread = graph.view.thread(at);
    let for_signals = match &thread.doing {
        Doing::Call { name, .. } => FOR_SIGNALS.contains(&name.as_str()),
        _ => false,
    };
    let mut all = graph.view.scene.processes.iter();
    for_signals && all.any(|other| other.parent == Some(thread.id.process))
}

fn handled(graph: &Graph, at: usize) -> bool {
    let process = graph.view.process(graph.view.thread(at).id.process);
    process.is_some_and(|process| process.has_handlers)
}

/// What is found of a program all of whose threads sleep; `None` if a thread does something.
pub fn quiet(graph: &Graph) -> Option<Finding> {
    let view = graph.view;
    let threads = || 0..view.scene.threads.len();
    let alive = || threads().filter(|at| view.thread(*at).doing != Doing::Ended);
    let works = |at: usize| {
        let thread = view.thread(at);
        let may_nap = is_outside(graph, at) || thread.own_request;
        // Threads of a runtime that moves tasks wake each other, also where no task goes on.
        let naps = matches!(thread.doing, Doing::Call { .. }) && may_nap
            || thread.gives_up()
            || thread.enters_monitor()
            || has_tasks(graph, at);
        !(graph.stays(at) || naps && used_nothing(graph, at))
    };
    // Another thread woke it for a moment: whether the looks meet that moment is chance.
    let woke = |at: usize| {
        let is_asleep = matches!(
            view.thread(at).doing,
            Doing::Waiting(_) | Doing::Call { .. }
        );
        works(at) && is_asleep && used_nothing(graph, at)
    };
    if view.scene.looks < 2 || alive().any(|at| works(at) && !woke(at)) {
        return None;
    }
    // A program that does nothing but wait until a signal ends it is no hang. Its threads wake no others,
    // where these wait for something else.
    let ends_deaf = |at: usize| graph.need(end(graph, at, None).root) == Need::NoHandler;
    let all_deaf = alive().all(|at| ends_deaf(at) || view.is_idle(at));
    let needs_nobody = |at: &usize| {
        let need = graph.need(*at);
        need == Need::Nothing || !graph.stays(*at) || need == Need::NoHandler && all_deaf
    };
    let goers: Vec<usize> = alive().filter(needs_nobody).collect();
    let mut launched = alive().filter(|at| !waits_for_children(graph, *at));
    let first = launched.next().or_else(|| alive().next())?;
    let root = end(graph, first, None).root;
    let own = |at: &usize| view.thread(*at).stack.iter().any(|call| !call.of_system);
    // A thread of a library, such as one that waits for the library's own events, says little of
    // the program.
    let outside =
        |at: &usize| wakes(graph, *at) == Wakes::Outside && !woke(*at) && (own(at) || *at == root);
    let lead = if goers.contains(&root) {
        Some(root)
    } else {
        let mut all = goers.iter();
        all.find(|at| outside(at)).copied()
    };
    // Where it is not known who holds a lock, those may hold each other's that wait for one, whatever
    // a thread does that only sleeps for a time. Who waits for a guest may well keep a lock meanwhile.
    // A thread that sleeps for a time may wake another thread after that, or not: this is unknown, too.
    let kept = alive().find(|at| awaits_unknown_holder(graph, *at));
    let kept = kept.or_else(|| alive().find(|at| own(at) && awaits_others(graph, *at)));
    let all_for_a_time = || {
        goers
            .iter()
            .filter(|at| outside(at))
            .all(|at| is_for_a_time(graph, *at))
    };
    let is_denied = kept.is_some() && all_for_a_time();
    // Tasks may wait for each other while a thread of their runtime waits for the outside.
    let may_tell = |lead: usize| outside(&lead) && !has_tasks(graph, lead);
    let is_outside = lead.is_some_and(may_tell) && !is_denied;
    // Threads that others wake go on. What another thread waits for all the while does not change by that.
    let lasts = lead.is_some_and(|lead| is_outside && graph.stays(lead));
    if !lasts && alive().any(woke) {
        return None;
    }
    // A thread that spins is what the user notices.
    let spins = || alive().find(|at| awaits_memory(graph, *at));
    let lead = lead.filter(|_| is_outside);
    let kept = kept.filter(|_| is_denied);
    let enters = || alive().find(|at| view.thread(*at).enters_monitor());
    let lead = lead.or_else(spins).or_else(enters).or(kept);
    let lead = lead.unwrap_or(first);
    let mut who = vec![lead];
    who.extend(
        goers
            .into_iter()
            .filter(|at| *at != lead && is_outside && outside(at)),
    );
    Some(Finding {
        barrier: None,
        grade: Grade::Unclear,
        because: None,
        for_ever: false,
        lead: Some(lead),
        elsewhere: false,
        who,
        outside: is_outside,
    })
}

/// Whether a thread used next to no CPU time during the looks.
fn used_nothing(graph: &Graph, at: usize) -> bool {
    let used = graph.view.cpu_pct(at);
    used.is_some_and(|pct| pct < NEXT_TO_NOTHING_PCT)
}

/// Whether a thread waits without end for a lock of which it is not known who holds it.
fn awaits_unknown_holder(graph: &Graph, at: usize) -> bool {
    let thread = graph.view.thread(at);
    let is_unknown = matches!(
        thread.doing,
        Doing::Waiting(WaitFor::Mutex {
            holder: Holder::Unknown,
            ..
        })
    );
    is_unknown && !thread.gives_up() && graph.stays(at)
}

/// Whether a thread has waited without end, and for long as far as that is known, for what another
/// thread of its process has to do.
fn awaits_others(graph: &Graph, at: usize) -> bool {
    let thread = graph.view.thread(at);
    let is_for_others = matches!(
        thread.doing,
        Doing::Waiting(
            WaitFor::Barrier(_)
                | WaitFor::Mutex { .. }
                | WaitFor::RwLock { .. }
                | WaitFor::Condvar { .. }
                | WaitFor::Semaphore { .. }
                | WaitFor::Section { .. }
                | WaitFor::Futex { .. }
        )
    );
    // If the holder of a lock is known, only the holder can end the wait.
    let is_anyones = !matches!(graph.need(at), Need::Thread(_));
    let lasts = !thread.gives_up() && !thread.ran_lately && graph.stays(at);
    is_for_others && is_anyones && lasts
}

/// Whether a runtime of the thread's process moves tasks between its threads.
fn has_tasks(graph: &Graph, at: usize) -> bool {
    let process = graph.view.process(graph.view.thread(at).id.process);
    process.is_some_and(|process| process.has_tasks)
}

/// Whether a thread sleeps for a time only.
fn is_for_a_time(graph: &Graph, at: usize) -> bool {
    let thread = graph.view.thread(at);
    thread.timed && !thread.enters_monitor() || thread.wakes_by_itself()
}

/// Whether a thread looks for a change of memory in a loop.
fn awaits_memory(graph: &Graph, at: usize) -> bool {
    matches!(
        graph.view.thread(at).doing,
        Doing::Waiting(WaitFor::Memory { .. })
    )
}

/// Whether a thread goes round in a loop that no change of memory ends.
fn is_endless(graph: &Graph, at: usize) -> bool {
    graph.need(at) == Need::NoEnd
}

/// Whether a thread waits for what a handler may do: for a unit of a semaphore, or for data.
fn awaits_unit_or_data(graph: &Graph, at: usize) -> bool {
    matches!(
        graph.view.thread(at).doing,
        Doing::Waiting(WaitFor::Semaphore { .. } | WaitFor::Data { .. })
    )
}

/// Whether threads look for a change of memory in loops.
pub fn has_loops(graph: &Graph) -> bool {
    (0..graph.view.scene.threads.len()).any(|at| awaits_memory(graph, at))
}

/// Whether another process may change the memory for which a thread looks in a loop.
fn by_other(graph: &Graph, at: usize) -> bool {
    matches!(
        graph.view.thread(at).doing,
        Doing::Waiting(WaitFor::Memory { shared: true, .. })
    )
}

/// The sentence on a program that sleeps.
pub fn text(graph: &Graph, finding: &Finding) -> String {
    let view = graph.view;
    let Some(lead) = finding.lead else {
        return "all threads sleep".into();
    };
    let name = view.name(lead);
    if finding.outside {
        let more = match finding.who.len() - 1 {
            0 => String::new(),
            1 => "; 1 more thread waits for the outside too".into(),
            more => format!("; {more} more threads wait for the outside too"),
        };
        let naps = !view.thread(lead).slept && view.thread(lead).wakes_by_itself();
        if naps {
            return format!(
                "the program sleeps and wakes again and again: {name} {}{}; what it looks for in \
                 between is not known{more}",
                does(view, lead),
                in_place(view, lead)
            );
        }
        let why = if awaits_memory(graph, lead) && !is_endless(graph, lead) {
            ", as a handler of a signal may do"
        } else {
            ""
        };
        let until = match graph.need(lead) {
            Need::NoHandler => ", until a signal ends the process",
            _ => "",
        };
        return format!(
            "the program waits for something outside of it: {name} {}{why}{}{until}{more}",
            does(view, lead),
            in_place(view, lead)
        );
    }
    if is_endless(graph, lead) {
        let told = story(graph, lead, None);
        return format!("every thread either waits or spins: {name} {told}");
    }
    let process = view.thread(lead).id.process;
    let by_sleeper = sleeper_beside(graph, lead);
    let why = match view.process(process) {
        Some(process) if process.has_tasks => GOROUTINES,
        Some(process) if process.has_timers => {
            ": a timer or an alarm of the process may wake it by a signal"
        }
        _ if awaits_unknown_holder(graph, lead) => ": it is not recorded who holds it",
        _ if by_other(graph, lead) => ": another process may change it",
        Some(process) if process.has_handlers && awaits_memory(graph, lead) => {
            ": a handler of a signal may change it"
        }
        Some(process) if process.may_be_told && awaits_unit_or_data(graph, lead) => {
            ": a handler of a signal may wake it"
        }
        _ => &by_sleeper,
    };
    let told = story(graph, lead, None);
    if has_loops(graph) {
        return format!(
            "no thread does anything but wait, and whether anything will end that is not known: \
             {name} {told}{why}"
        );
    }
    let mut alive =
        (0..view.scene.threads.len()).filter(|at| view.thread(*at).doing != Doing::Ended);
    let (sleep, them) = if alive.all(|at| graph.stays(at)) {
        ("all threads sleep", "them")
    } else {
        ("all threads sleep nearly all the time", "those that wait")
    };
    format!("{sleep}, and whether anything will wake {them} is not known: {name} {told}{why}")
}

/// Says what a thread does that sleeps for a time, if the thread `waiting` of the same process waits for
/// any other thread: the sleeping thread may wake it after its sleep. Empty otherwise.
fn sleeper_beside(graph: &Graph, waiting: usize) -> String {
    let view = graph.view;
    let process = view.thread(waiting).id.process;
    let mut others = 0..view.scene.threads.len();
    let sleeper = others.find(|at| {
        let is_near = view.thread(*at).id.process == process;
        is_near && *at != waiting && is_for_a_time(graph, *at)
    });
    match sleeper.filter(|_| awaits_others(graph, waiting)) {
        Some(at) => format!(
            "; {} {}{}, and what it does after that is not known",
            view.name(at),
            does(view, at),
            in_place(view, at)
        ),
        None => String::new(),
    }
}
