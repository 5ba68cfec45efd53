//! Finds out which threads are missing at a barrier: members that have not come, or, if nobody
//! watched, the threads that are most likely to be missing.

use std::collections::HashSet;

use super::{
    languages::is_helper,
    names::View,
    scene::{BarrierSeen, CallSeen, Doing, Holder, Member, WaitFor},
    signals::{self, FOR_SIGNALS},
};
use crate::{
    event::Kind,
    place::{printable, shortened},
};

/// The threads at a barrier, and those that are missing there. Threads are indices into the scene.
#[derive(Clone, Debug)]
pub struct Absent<'a> {
    /// Threads that have arrived, in order of arrival if that is known.
    pub waiting: Vec<usize>,
    /// A thread that is in the barrier twice.
    pub twice: Option<usize>,
    /// Number of threads that have arrived.
    pub arrived: u32,
    /// Number of missing threads, if known; negative if too many threads have arrived.
    pub count: Option<i64>,
    /// Threads that are missing, or likely to be, the most likely first.
    pub who: Vec<usize>,
    /// Former members that have ended.
    pub gone: Vec<&'a Member>,
    /// Whether `who` and `gone` are known to be the missing threads: see
    /// [`crate::report::HangReport::certain`].
    pub certain: bool,
    /// Other living threads, which might come but are unlikely to.
    pub spare: Vec<usize>,
    /// The threads of `spare` that sleep for some time, or until there is something to do, a signal comes
    /// or a child has ended, as helpers do, and as other threads do before they come.
    pub later: Vec<usize>,
}

/// How likely it is that a thread which has not arrived is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Likely {
    /// The thread waits for the end of others.
    No,
    /// The thread sleeps until there is something to do, as helpers do.
    Hardly,
    /// Nothing indicates that the thread does not take part.
    Maybe,
    /// The thread is in a function from which, as events tell, a waiting thread came.
    Alike,
    /// The thread began in the same function as the waiting threads, or waits for one of them.
    Kin,
    /// The thread used to come.
    Member,
}

/// System calls in which helpers wait for something to do.
const IDLE_CALLS: [&str; 14] = [
    // The name of a sleep that was interrupted by a signal.
    "restart_syscall",
    "poll",
    "ppoll",
    "select",
    "pselect6",
    "epoll_wait",
    "epoll_pwait",
    "epoll_pwait2",
    "nanosleep",
    "clock_nanosleep",
    "accept",
    "accept4",
    "io_getevents",
    "io_uring_enter",
];

impl<'a> Absent<'a> {
    /// Looks at one of the scene's barriers. `at` is its index.
    pub fn of(view: &View<'a>, at: usize) -> Self {
        let barrier: &'a BarrierSeen = &view.scene.barriers[at];
        let (mut waiting, twice) = waiting(view, at, barrier);
        leave_out_leavers(view, barrier, &mut waiting);
        let there = u32::try_from(waiting.len()).unwrap_or(u32::MAX);
        let arrived = barrier.arrived.unwrap_or(0).max(there);
        let count = barrier
            .participants
            .map(|count| i64::from(count) - i64::from(arrived));
        let mut absent = Self {
            waiting,
            twice,
            arrived,
            count,
            who: Vec::new(),
            gone: Vec::new(),
            certain: false,
            spare: Vec::new(),
            later: Vec::new(),
        };
        absent.choose(view, barrier, view.has_strangers(at));
        absent
    }

    fn choose(&mut self, view: &View<'a>, barrier: &'a BarrierSeen, has_strangers: bool) {
        let inside: HashSet<usize> = self.waiting.iter().copied().collect();
        let functions = Functions::of(view, &self.waiting);
        let mut candidates: Vec<(Likely, usize)> = Vec::new();
        for (index, thread) in view.scene.threads.iter().enumerate() {
            let near = barrier.shared || thread.id.process == barrier.process;
            if near && !inside.contains(&index) && thread.doing != Doing::Ended {
                let likely = likely(view, barrier, &functions, &inside, index);
                candidates.push((likely, index));
            }
        }
        // The sort is stable: equally likely threads stay in the scene's order.
        candidates.sort_by_key(|(likely, _)| std::cmp::Reverse(*likely));
        let wanted = self.count.map(|count| usize::try_from(count).unwrap_or(0));
        let gone = gone(view, barrier);
        let has_met = barrier.past.as_ref().is_some_and(|past| past.episodes > 0);

        let mut rest = candidates.into_iter().peekable();
        let lacks = |who: &[usize]| wanted.map_or(who.is_empty(), |wanted| who.len() < wanted);
        for level in [Likely::Member, Likely::Kin, Likely::Alike, Likely::Maybe] {
            // Ended members are known to have come, so they go before threads of which nothing is
            // known.
            if level == Likely::Maybe && has_met && lacks(&self.who) {
                let lacking = wanted.map_or(gone.len(), |wanted| wanted - self.who.len());
                if gone.len() <= lacking {
                    self.gone.clone_from(&gone);
                }
            }
            let enough = wanted.is_some_and(|wanted| self.who.len() + self.gone.len() >= wanted);
            let known = wanted.is_none() && !(self.who.is_empty() && self.gone.is_empty());
            if enough || known {
                break;
            }
            while let Some((_, index)) = rest.next_if(|(likely, _)| *likely == level) {
                self.who.push(index);
            }
        }
        let unlikely: Vec<(Likely, usize)> = rest.collect();
        let others = unlikely.iter().any(|(likely, _)| *likely >= Likely::Maybe);
        let ends_in_doubt = has_strangers || others;
        self.later = unlikely
            .iter()
            .filter(|(likely, index)| *likely == Likely::Hardly && comes_later(view, *index))
            .map(|(_, index)| *index)
            .collect();
        self.spare = unlikely.into_iter().map(|(_, index)| index).collect();
        let all_known = self.who.iter().all(|index| {
            let likely = likely(view, barrier, &functions, &inside, *index);
            likely == Likely::Member || likely >= Likely::Alike && !ends_in_doubt
        });
        let found = self.who.len() + self.gone.len();
        self.certain = found > 0
            && all_known
            && match wanted {
                Some(wanted) => found == wanted,
                None => has_met,
            };
    }

    /// Number of missing threads beyond those in `who` and `gone`.
    pub fn lacking(&self) -> usize {
        let wanted = self
            .count
            .map_or(0, |count| usize::try_from(count).unwrap_or(0));
        wanted.saturating_sub(self.who.len() + self.gone.len())
    }
}

/// The threads that wait at a barrier, and one that does so twice.
fn waiting(view: &View, at: usize, barrier: &BarrierSeen) -> (Vec<usize>, Option<usize>) {
    let mut twice = None;
    let mut seen = HashSet::new();
    let mut waiting = Vec::new();
    for index in barrier.waiting.iter().filter_map(|id| view.index(*id)) {
        if seen.insert(index) {
            waiting.push(index);
        } else {
            twice = Some(index);
        }
    }
    for (index, thread) in view.scene.threads.iter().enumerate() {
        if thread.doing == Doing::Waiting(WaitFor::Barrier(at)) && seen.insert(index) {
            waiting.push(index);
        }
    }
    let ago = |index: &usize| {
        let id = view.thread(*index).id;
        let members = barrier.past.iter().flat_map(|past| &past.members);
        let mut ago = members
            .filter(|member| member.id == id)
            .map(|member| member.arrived_ns_ago);
        ago.next().flatten()
    };
    // The thread that came first has been there longest.
    waiting.sort_by_key(|index| std::cmp::Reverse(ago(index)));
    // A thread that waited at a barrier, was interrupted by a signal, and waits at a barrier in the
    // handler. A running thread may have been on its way in, and does not count.
    let again = |index: &&usize| {
        let thread = view.thread(**index);
        let handler = thread.stack.iter().position(|call| call.after_signal);
        let mut before = thread.stack.iter().skip(handler.unwrap_or(usize::MAX));
        let waited = |call: &CallSeen| {
            call.of_system && call.function.as_deref().is_some_and(is_barrier_wait)
        };
        thread.doing != Doing::Running && before.any(waited)
    };
    let twice = twice.or_else(|| waiting.iter().find(again).copied());
    (waiting, twice)
}

fn is_barrier_wait(function: &str) -> bool {
    function
        .trim_start_matches('_')
        .starts_with("pthread_barrier_wait")
}

/// Leaves out running threads if more threads are seen than have arrived: they are leaving the
/// previous round.
fn leave_out_leavers(view: &View, barrier: &BarrierSeen, waiting: &mut Vec<usize>) {
    let Some(arrived) = barrier.arrived else {
        return;
    };
    let mut excess = waiting.len().saturating_sub(arrived as usize);
    waiting.retain(|index| {
        let leaves = excess > 0 && view.thread(*index).doing == Doing::Running;
        excess -= usize::from(leaves);
        !leaves
    });
}

/// The members that have ended without arriving.
fn gone<'a>(view: &View, barrier: &'a BarrierSeen) -> Vec<&'a Member> {
    let members = barrier.past.iter().flat_map(|past| &past.members);
    members
        .filter(|member| {
            let alive = view
                .index(member.id)
                .is_some_and(|at| view.thread(at).doing != Doing::Ended);
            member.arrived_ns_ago.is_none() && (member.ended || !alive)
        })
        .collect()
}

fn likely(
    view: &View,
    barrier: &BarrierSeen,
    functions: &Functions,
    inside: &HashSet<usize>,
    index: usize,
) -> Likely {
    let thread = view.thread(index);
    let members = barrier.past.iter().flat_map(|past| &past.members);
    let mut of_it = members.filter(|member| member.id == thread.id);
    if let Some(member) = of_it.next() {
        // The thread has arrived and is not seen inside: it was released, or it was interrupted
        // there.
        return if member.arrived_ns_ago.is_some() {
            Likely::Hardly
        } else {
            Likely::Member
        };
    }
    if is_of_all_ranks(view, barrier) && view.rank(index).is_some() {
        return Likely::Member;
    }
    let is_main = thread.id.thread == thread.id.process;
    let waits_for_them = match thread.doing {
        // Whether others cannot come because of this wait is decided elsewhere.
        Doing::Waiting(WaitFor::Join {
            thread: Some(other),
        }) => {
            let other = view.neighbour(index, other);
            is_main && other.is_some_and(|at| inside.contains(&at))
        }
        Doing::Waiting(WaitFor::Child { process }) => inside.iter().any(|at| {
            let other = view.thread(*at).id.process;
            process.map_or(other != thread.id.process, |process| process == other)
        }),
        _ => false,
    };
    if waits_for_them {
        return Likely::No;
    }
    let in_region = matches!(barrier.kind, Kind::Gomp | Kind::Kmp) && is_in_region(view, index);
    if in_region || functions.are_of(view, index) {
        return Likely::Kin;
    }
    let held_inside = |holder: &Holder| match holder {
        Holder::Thread(id) => view.index(*id).is_some_and(|at| inside.contains(&at)),
        _ => false,
    };
    match &thread.doing {
        Doing::Waiting(WaitFor::Mutex { holder, .. } | WaitFor::RwLock { writer: holder, .. })
            if held_inside(holder) =>
        {
            Likely::Kin
        }
        Doing::Waiting(WaitFor::Join { .. }) if is_main => Likely::No,
        // Threads of one process mostly have nothing to do with its children: the main thread comes
        // when the child has ended.
        Doing::Waiting(WaitFor::Child { .. }) if is_main && !barrier.shared => Likely::Maybe,
        Doing::Waiting(WaitFor::Child { .. }) => Likely::Hardly,
        _ if came_from_its_function(view, barrier, inside, index) => Likely::Alike,
        _ if is_helper(view, index) => Likely::Hardly,
        Doing::Call { name, .. } if FOR_SIGNALS.contains(&name.as_str()) => Likely::Hardly,
        // The main thread may have to do something else first, and starts threads.
        _ if is_main => Likely::Maybe,
        // A thread that only shows or counts what others do never comes to a barrier.
        Doing::Waiting(WaitFor::Memory {
            is_endless: true, ..
        }) => Likely::Hardly,
        Doing::Waiting(WaitFor::Condvar { .. } | WaitFor::Futex { .. }) if thread.gives_up() => {
            Likely::Hardly
        }
        Doing::Call { name, .. } if IDLE_CALLS.contains(&name.as_str()) => Likely::Hardly,
        _ => Likely::Maybe,
    }
}

/// Whether a barrier is one of MPI for which all ranks of the program meet, all of which are known.
fn is_of_all_ranks(view: &View, barrier: &BarrierSeen) -> bool {
    let ranks = view
        .scene
        .processes
        .iter()
        .find_map(|process| process.ranks);
    let all = ranks.and_then(|(all, is_here)| is_here.then_some(all));
    barrier.kind == Kind::Mpi && all.is_some() && barrier.participants == all
}

/// Whether a thread is in the function from which a thread that waits at a barrier came, as events tell.
/// Their sites begin with it. What is on the stacks of the waiting threads may be hidden.
fn came_from_its_function(
    view: &View,
    barrier: &BarrierSeen,
    inside: &HashSet<usize>,
    index: usize,
) -> bool {
    let is_there = |member: &&Member| view.index(member.id).is_some_and(|at| inside.contains(&at));
    let members = barrier.past.iter().flat_map(|past| &past.members);
    let sites: Vec<&str> = members
        .filter(is_there)
        .filter_map(|member| member.site.as_deref())
        .collect();
    own(view, index).any(|function| match function {
        Function::Named(name, _) => {
            let name = printable(&shortened(name));
            let begins = |site: &&str| {
                let rest = site.strip_prefix(&*name);
                rest.is_some_and(|rest| rest.starts_with(' '))
            };
            sites.iter().any(begins)
        }
        Function::At(..) => false,
    })
}

/// Whether a thread works in a parallel region of OpenMP, in a function that the compiler made of
/// the region. The members of its team that wait at the region's end are in the runtime only.
fn is_in_region(view: &View, index: usize) -> bool {
    // GCC's `phase._omp_fn.0`; clang's `phase.omp_outlined`, before version 17 `.omp_outlined.`.
    own(view, index).any(|function| match function {
        Function::Named(name, _) => ["._omp_fn.", ".omp_outlined"]
            .iter()
            .any(|mark| name.contains(mark)),
        Function::At(..) => false,
    })
}

/// Whether a thread that is unlikely to come might come after its sleep.
fn comes_later(view: &View, index: usize) -> bool {
    let thread = view.thread(index);
    match &thread.doing {
        _ if is_helper(view, index) || signals::nothing_ends(view, index) => false,
        Doing::Waiting(WaitFor::Condvar { .. } | WaitFor::Futex { .. }) => thread.gives_up(),
        Doing::Waiting(WaitFor::Child { .. }) => true,
        Doing::Call { name, .. } => {
            let name = name.as_str();
            IDLE_CALLS.contains(&name) || FOR_SIGNALS.contains(&name)
        }
        _ => false,
    }
}

/// A function: by its name and its source file, or else by its file and where it begins there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Function<'a> {
    Named(&'a str, Option<&'a str>),
    At(&'a str, u64),
}

/// The user's own functions that are on the stacks of the waiting threads.
struct Functions<'a> {
    all: HashSet<Function<'a>>,
    /// The functions in which these threads began.
    first: HashSet<Function<'a>>,
}

impl<'a> Functions<'a> {
    fn of(view: &View<'a>, waiting: &[usize]) -> Self {
        let own = |index: &usize| own(view, *index).collect::<Vec<_>>();
        let stacks: Vec<Vec<Function<'_>>> = waiting.iter().map(own).collect();
        Self {
            first: stacks
                .iter()
                .filter_map(|stack| stack.last().copied())
                .collect(),
            all: stacks.into_iter().flatten().collect(),
        }
    }

    fn are_of(&self, view: &View<'a>, index: usize) -> bool {
        let first = own(view, index).last();
        first.is_some_and(|first| self.all.contains(&first))
            || own(view, index).any(|function| self.first.contains(&function))
    }
}

fn own<'a>(view: &View<'a>, index: usize) -> impl Iterator<Item = Function<'a>> {
    let calls = view
        .thread(index)
        .stack
        .iter()
        .filter(|call| !call.of_system);
    calls.filter_map(|call| match call.function.as_deref() {
        Some(function) if is_nameless(function) => None,
        Some(function) => Some(Function::Named(function, call.file.as_deref())),
        None => Some(Function::At(&call.binary, call.begins?)),
    })
}

/// Whether a function is a closure, which DWARF names like this if it is inlined. All closures of a
/// file share few names.
fn is_nameless(function: &str) -> bool {
    function.starts_with('{') || function == "operator()"
}
