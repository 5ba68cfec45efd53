//! Follows the waits of a missing thread to their cause.

use super::{
    graph::{Graph, Need},
    scene::{Doing, Holder, WaitFor},
    signals::FOR_SIGNALS,
    words::moves,
};
use crate::report::HangCause;

/// System calls that wait for what other processes may hold or send: who these are is not known.
const OF_OTHERS: [&str; 8] = [
    "flock",
    "fcntl",
    "semop",
    "semtimedop",
    "msgrcv",
    "msgsnd",
    "mq_timedreceive",
    "mq_timedsend",
];

/// CPU time during the looks, in percent, from which a thread counts as having done something.
const DID_SOMETHING_PCT: f64 = 1.0;

/// How bad the state of a thread is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grade {
    /// The thread moves, or will by itself.
    Slow,
    /// The thread uses a CPU at one place.
    Unclear,
    /// The thread does nothing until something else happens.
    Stuck,
    /// The thread cannot come.
    Lost,
}

/// Why a thread does not come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    pub grade: Grade,
    /// As [`crate::report::HangReport::because`].
    pub because: Option<HangCause>,
    /// The last thread on the way from wait to wait: the cause.
    pub root: usize,
    /// Whether the way leads through another barrier.
    pub elsewhere: bool,
}

/// Why a thread does not come. `here`: the barrier at which it is missing, if there is one.
pub fn end(graph: &Graph, thread: usize, here: Option<usize>) -> End {
    let mut at = thread;
    let mut elsewhere = false;
    let mut seen = Vec::new();
    // A thread that waits in a circle waits for ever, wherever else its waits lead.
    let circle = graph.circle(thread);
    let crosses = |path: &[usize]| {
        path.iter().any(|step| match graph.need(*step) {
            Need::Barrier(barrier) => Some(barrier) != here,
            _ => false,
        })
    };
    if let Some((path, begins)) = circle {
        let own = path.len() - begins == 1;
        return End {
            grade: Grade::Lost,
            because: Some(if own {
                HangCause::OwnLock
            } else {
                HangCause::Cycle
            }),
            root: path[begins],
            elsewhere: crosses(&path),
        };
    }
    loop {
        seen.push(at);
        let next = match graph.need(at) {
            Need::Thread(other) => Some(other),
            Need::Barrier(barrier) => {
                elsewhere |= Some(barrier) != here;
                graph.next(at).first().copied()
            }
            Need::AnyOf => graph.next(at).first().copied(),
            _ => None,
        };
        match next {
            Some(next) if !seen.contains(&next) => at = next,
            _ => break,
        }
    }
    let (mut grade, because) = last(graph, at);
    let certain = here.is_some_and(|here| graph.absent[here].certain);
    if certain && grade == Grade::Unclear && graph.view.thread(at).wakes_by_itself() {
        // The thread comes when its sleep is over.
        grade = Grade::Slow;
    }
    // If threads spin at a barrier, it may have opened in the meantime.
    let open = |step: &usize| match graph.need(*step) {
        Need::Barrier(barrier) => !graph.stands(barrier),
        _ => false,
    };
    // A thread on the way has done something, so it does not stand still.
    let moved = |step: &usize| !open(step) && (!graph.stays(*step) || did_something(graph, *step));
    let grade = match grade {
        Grade::Stuck if seen.iter().any(moved) => Grade::Slow,
        Grade::Stuck | Grade::Lost if seen.iter().any(|step| open(step) || !graph.stays(*step)) => {
            Grade::Unclear
        }
        grade => grade,
    };
    End {
        grade,
        because: because.filter(|_| grade >= Grade::Stuck),
        root: at,
        elsewhere,
    }
}

/// Whether a thread that goes on, or somebody who is not seen, may end what a thread waits for. Where
/// all threads of its process that go on only sleep for a time, as watchdogs do, it stands still: they are
/// told, and not waited for.
fn may_be_woken(graph: &Graph, at: usize) -> bool {
    match graph.need(at) {
        Need::Anyone | Need::AnyOf => {
            let waker = graph.may_wake(at);
            waker.is_some_and(|waker| !graph.is_sleeper_beside(at, waker))
        }
        Need::Nothing => true,
        Need::Thread(_)
        | Need::Barrier(_)
        | Need::TheDead
        | Need::Never
        | Need::NoEnd
        | Need::NoHandler => false,
    }
}

fn did_something(graph: &Graph, at: usize) -> bool {
    // A loop that only waits takes a CPU all the same.
    let doing = &graph.view.thread(at).doing;
    if matches!(doing, Doing::Waiting(WaitFor::Memory { .. })) {
        return false;
    }
    let pct = graph.view.cpu_pct(at);
    pct.is_some_and(|pct| pct >= DID_SOMETHING_PCT)
}

fn last(graph: &Graph, at: usize) -> (Grade, Option<HangCause>) {
    let view = graph.view;
    match graph.need(at) {
        Need::TheDead if graph.stays(at) => return (Grade::Lost, Some(HangCause::HolderGone)),
        Need::Never => return (Grade::Lost, Some(HangCause::MemberGone)),
        Need::NoHandler => return (Grade::Lost, Some(HangCause::NobodyWakes)),
        Need::Barrier(barrier) if !graph.may_go(at) => {
            let gone = !graph.absent[barrier].gone.is_empty();
            let because = if gone {
                HangCause::MemberGone
            } else {
                HangCause::FewerAlive
            };
            return (Grade::Lost, Some(because));
        }
        Need::Anyone | Need::AnyOf if !graph.can_go(at) => {
            return (Grade::Stuck, Some(HangCause::NobodyWakes));
        }
        _ => {}
    }
    let thread = view.thread(at);
    let grade = match &thread.doing {
        Doing::Running if moves(view, at) => Grade::Slow,
        Doing::Running => Grade::Unclear,
        _ if thread.wakes_by_itself() => Grade::Unclear,
        Doing::Waiting(WaitFor::Mutex {
            holder: Holder::Nobody,
            ..
        }) => Grade::Slow,
        Doing::Waiting(_) if may_be_woken(graph, at) => Grade::Unclear,
        Doing::Call { name, .. } if FOR_SIGNALS.contains(&name.as_str()) => Grade::Unclear,
        Doing::Call { name, .. } if OF_OTHERS.contains(&name.as_str()) => Grade::Unclear,
        Doing::Waiting(_)
        | Doing::Call { .. }
        | Doing::Stopped
        | Doing::Frozen
        | Doing::Traced { .. } => Grade::Stuck,
        Doing::Ended | Doing::Unknown => Grade::Unclear,
    };
    (grade, None)
}
