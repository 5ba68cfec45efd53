//! Who waits for whom, and which threads can go on at all.

use super::{
    absent::Absent,
    names::View,
    once,
    scene::{Doing, Holder, ThreadId, WaitFor},
    signals,
};

/// What a thread needs before it goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Nothing that another thread here would have to do.
    Nothing,
    /// Another thread must release a lock, or end.
    Thread(usize),
    /// Other threads must come to a barrier.
    Barrier(usize),
    /// Any other thread must wake it.
    Anyone,
    /// One of certain threads must do something: those that hold the other end of a pipe, or child
    /// processes.
    AnyOf,
    /// A thread that has ended would have to release a lock.
    TheDead,
    /// The thread has ended and does not go on.
    Never,
    /// The thread goes round in a loop that nothing ends.
    NoEnd,
    /// The thread waits for a handler of a signal to run, and its process has none.
    NoHandler,
}

/// Who waits for whom. Threads and barriers are indices into the scene.
pub struct Graph<'a, 'v> {
    pub view: &'v View<'a>,
    /// Indexed by barrier.
    pub absent: Vec<Absent<'a>>,
    needs: Vec<Need>,
    /// Indexed by thread: the threads meant by [`Need::AnyOf`].
    any_of: Vec<Vec<usize>>,
    /// Indexed by thread: see [`View::stays`].
    stays: Vec<bool>,
    /// Whether a thread can go on if any living thread may come to any barrier.
    can_go: Vec<bool>,
    /// Whether a thread can go on if only the likely threads come to each barrier.
    may_go: Vec<bool>,
}

impl<'a, 'v> Graph<'a, 'v> {
    pub fn new(view: &'v View<'a>) -> Self {
        let barriers = 0..view.scene.barriers.len();
        let threads = 0..view.scene.threads.len();
        let mut graph = Self {
            view,
            absent: barriers.map(|at| Absent::of(view, at)).collect(),
            needs: threads.clone().map(|at| need(view, at)).collect(),
            any_of: threads
                .clone()
                .map(|at| any_of(view, at).unwrap_or_default())
                .collect(),
            stays: threads.map(|at| view.stays(at)).collect(),
            can_go: Vec::new(),
            may_go: Vec::new(),
        };
        for at in 0..graph.needs.len() {
            if let Need::Barrier(barrier) = graph.needs[at]
                && !graph.absent[barrier].waiting.contains(&at)
            {
                // The thread is leaving the barrier.
                graph.needs[at] = Need::Nothing;
            }
        }
        graph.can_go = graph.settle(Absent::all_who_could);
        graph.may_go = graph.settle(Absent::all_who_would);
        graph
    }

    /// What a thread needs before it goes on.
    pub fn need(&self, thread: usize) -> Need {
        self.needs[thread]
    }

    /// Whether it is certain that a thread did not go on between the looks.
    pub fn stays(&self, thread: usize) -> bool {
        self.stays[thread]
    }

    /// Whether all threads that wait at a barrier certainly stayed there: if not, it may have
    /// opened.
    pub fn stands(&self, barrier: usize) -> bool {
        let waiting = &self.absent[barrier].waiting;
        waiting.iter().all(|at| self.stays[*at])
    }

    /// Whether a thread can go on if any living thread may come to any barrier.
    pub fn can_go(&self, thread: usize) -> bool {
        self.can_go[thread]
    }

    /// Whether a thread can go on if only the likely threads come to each barrier.
    pub fn may_go(&self, thread: usize) -> bool {
        self.may_go[thread]
    }

    /// Whether a barrier can be completed at all.
    pub fn can_complete(&self, barrier: usize) -> bool {
        self.completes(barrier, &self.can_go, Absent::all_who_could)
    }

    /// The threads that a thread waits for: at least one of them has to do something. Threads that
    /// cannot go on themselves come first.
    pub fn next(&self, thread: usize) -> Vec<usize> {
        let mut next = match self.needs[thread] {
            Need::Thread(other) => vec![other],
            Need::Barrier(barrier) => self.absent[barrier].who.clone(),
            // Which of the threads that share a word of memory would change it is not known.
            Need::AnyOf if self.any_of[thread].len() == 1 && !self.shares(thread) => {
                self.any_of[thread].clone()
            }
            _ => Vec::new(),
        };
        next.sort_by_key(|other| self.may_go[*other]);
        next
    }

    /// Whether a thread waits for a change of memory that known processes share.
    pub fn shares(&self, thread: usize) -> bool {
        self.needs[thread] == Need::AnyOf && self.view.thread(thread).sharers.is_some()
    }

    /// Threads from `from` on, each of which waits for the next, and the last for one of them. The
    /// number is the index at which the circle begins.
    pub fn circle(&self, from: usize) -> Option<(Vec<usize>, usize)> {
        let mut path = Vec::new();
        let mut done = vec![false; self.needs.len()];
        let begins = self.follow(from, &mut path, &mut done)?;
        Some((path, begins))
    }

    fn follow(&self, at: usize, path: &mut Vec<usize>, done: &mut [bool]) -> Option<usize> {
        if let Some(begins) = path.iter().position(|other| *other == at) {
            return Some(begins);
        }
        if done[at] || self.may_go[at] {
            return None;
        }
        done[at] = true;
        path.push(at);
        for next in self.next(at) {
            if let Some(begins) = self.follow(next, path, done) {
                return Some(begins);
            }
        }
        path.pop();
        None
    }

    /// Which threads can go on: first those that may have gone on already, then, step by step,
    /// those that need only threads which can go on.
    fn settle(&self, come: impl Fn(&Absent<'a>) -> Vec<usize>) -> Vec<bool> {
        let mut goes = vec![false; self.needs.len()];
        loop {
            let before = goes.clone();
            let completes: Vec<bool> = (0..self.absent.len())
                .map(|at| self.completes(at, &before, &come))
                .collect();
            for (at, go) in goes.iter_mut().enumerate() {
                *go =
                    *go || !self.stays[at]
                        || match self.needs[at] {
                            Need::Nothing => true,
                            Need::Thread(other) => other != at && before[other],
                            Need::Barrier(barrier) => completes[barrier],
                            Need::Anyone => before.iter().enumerate().any(|(other, goes)| {
                                *goes && other != at && self.is_near(at, other)
                            }),
                            Need::AnyOf => self.any_of[at].iter().any(|other| before[*other]),
                            Need::TheDead | Need::Never | Need::NoEnd | Need::NoHandler => false,
                        };
            }
            if goes == before {
                return goes;
            }
        }
    }

    /// The first of [`Graph::wakers`].
    pub fn may_wake(&self, waiting: usize) -> Option<usize> {
        self.wakers(waiting).first().copied()
    }

    /// The threads that go on, and may wake one that waits: first those that run, and last those of
    /// [`Graph::is_sleeper_beside`].
    pub fn wakers(&self, waiting: usize) -> Vec<usize> {
        let near: Vec<usize> = match self.needs[waiting] {
            Need::Anyone => (0..self.needs.len()).collect(),
            Need::AnyOf => self.any_of[waiting].clone(),
            _ => return Vec::new(),
        };
        // Threads that need others go on only if these do, and maybe only if this one does; so do those
        // that run in a barrier.
        let is_there = |other| {
            self.absent
                .iter()
                .any(|absent| absent.waiting.contains(&other))
        };
        let goes = |other: usize| {
            (self.needs[other] == Need::Nothing || !self.stays[other]) && !is_there(other)
        };
        let may =
            |other: &usize| *other != waiting && goes(*other) && self.is_near(waiting, *other);
        let runs = |other: &usize| self.view.thread(*other).doing == Doing::Running;
        let mut near: Vec<usize> = near.into_iter().filter(may).collect();
        near.sort_by_key(|other| {
            let sleeps = self.is_sleeper_beside(waiting, *other);
            (!runs(other), sleeps)
        });
        near
    }

    /// Whether a thread of the same process as one that waits sleeps for a time only.
    pub fn is_sleeper_beside(&self, waiting: usize, other: usize) -> bool {
        let [waiting, other] = [waiting, other].map(|at| self.view.thread(at));
        waiting.id.process == other.id.process && other.wakes_by_itself()
    }

    /// Whether one thread may wake another that waits for something of its own process. Locks may
    /// be shared with other processes.
    fn is_near(&self, waiting: usize, other: usize) -> bool {
        let [waiting, other] = [waiting, other].map(|at| self.view.thread(at));
        let is_own = matches!(
            waiting.doing,
            Doing::Waiting(
                WaitFor::Condvar { .. }
                    | WaitFor::Futex { .. }
                    | WaitFor::Memory { .. }
                    | WaitFor::Semaphore { .. }
                    | WaitFor::Section { .. }
                    | WaitFor::Join { .. }
            )
        );
        !is_own || waiting.id.process == other.id.process
    }

    fn completes(
        &self,
        barrier: usize,
        goes: &[bool],
        come: impl Fn(&Absent<'a>) -> Vec<usize>,
    ) -> bool {
        let absent = &self.absent[barrier];
        let shared = self.view.scene.barriers[barrier].shared;
        // Threads of other processes, which nobody has looked at, may come.
        if !self.stands(barrier) || shared && !absent.certain {
            return true;
        }
        let can = come(absent).iter().filter(|thread| goes[**thread]).count();
        match absent.count {
            Some(count) => i64::try_from(can).unwrap_or(i64::MAX) >= count,
            None => can > 0,
        }
    }
}

impl Absent<'_> {
    /// The threads that could come.
    fn all_who_could(&self) -> Vec<usize> {
        if self.certain {
            return self.who.clone();
        }
        self.who.iter().chain(&self.spare).copied().collect()
    }

    /// The threads that are likely to come.
    fn all_who_would(&self) -> Vec<usize> {
        self.who.clone()
    }
}

fn need(view: &View, at: usize) -> Need {
    if let Some(barrier) = view.barrier_of(at) {
        return Need::Barrier(barrier);
    }
    if view.thread(at).gives_up() {
        return Need::Nothing;
    }
    if let Some((_, runner)) = once::runner(view, at) {
        return Need::Thread(runner);
    }
    let held_by = |id: ThreadId| view.index(id).map_or(Need::Nothing, Need::Thread);
    match &view.thread(at).doing {
        Doing::Ended => Need::Never,
        Doing::Call { .. } if signals::nothing_ends(view, at) => Need::NoHandler,
        Doing::Running
        | Doing::Call { .. }
        | Doing::Stopped
        | Doing::Frozen
        | Doing::Traced { .. }
        | Doing::Unknown => Need::Nothing,
        Doing::Waiting(wait) => match wait {
            WaitFor::Mutex {
                holder: Holder::Thread(id),
                ..
            }
            | WaitFor::RwLock {
                writer: Holder::Thread(id),
                ..
            } => held_by(*id),
            WaitFor::Mutex {
                holder: Holder::Gone { .. },
                kind,
                ..
            } => match kind {
                Some(kind) if kind.robust => Need::Nothing,
                _ => Need::TheDead,
            },
            WaitFor::RwLock {
                writer: Holder::Gone { .. },
                ..
            } => Need::TheDead,
            // The mutex is just being handed over.
            WaitFor::Mutex {
                holder: Holder::Nobody,
                ..
            } => Need::Nothing,
            WaitFor::Memory {
                is_endless: true, ..
            } => Need::NoEnd,
            // Another process may wake the thread.
            WaitFor::Semaphore { shared: true, .. }
            | WaitFor::Condvar { shared: true, .. }
            | WaitFor::Futex { shared: true, .. }
            | WaitFor::Memory { shared: true, .. } => {
                any_of(view, at).map_or(Need::Nothing, |_| Need::AnyOf)
            }
            // A handler may run in any thread.
            WaitFor::Memory { .. } if handles_signals(view, at) => Need::Nothing,
            WaitFor::Semaphore { .. } if may_be_told(view, view.thread(at).id.process) => {
                Need::Nothing
            }
            WaitFor::Memory { .. }
            | WaitFor::Mutex { .. }
            | WaitFor::RwLock { .. }
            | WaitFor::Semaphore { .. }
            | WaitFor::Condvar { .. }
            | WaitFor::Futex { .. }
            | WaitFor::Section { .. }
            | WaitFor::Join { thread: None }
            | WaitFor::Barrier(_) => anyone(view, at),
            WaitFor::Data { .. } => any_of(view, at).map_or(Need::Nothing, |_| Need::AnyOf),
            WaitFor::Join {
                thread: Some(other),
            } => match view.neighbour(at, *other) {
                Some(other) if view.thread(other).doing != Doing::Ended => Need::Thread(other),
                _ => Need::Nothing,
            },
            WaitFor::Child { process } => child(view, at, *process),
        },
    }
}

fn handles_signals(view: &View, at: usize) -> bool {
    let process = view.process(view.thread(at).id.process);
    process.is_none_or(|process| process.has_handlers)
}

/// Whether a handler of a process may post a semaphore, or write into a pipe of its own, as that of a
/// daemon. Where threads wait at a barrier, whoever is missing is awaited there, whatever may wake it.
fn may_be_told(view: &View, process: u32) -> bool {
    let process = view.process(process);
    view.scene.barriers.is_empty() && process.is_some_and(|process| process.may_be_told)
}

/// The need of a thread that any thread of its process may wake. A timer's signal may, too, and
/// tasks that a runtime moves between threads are not seen.
fn anyone(view: &View, at: usize) -> Need {
    let process = view.process(view.thread(at).id.process);
    match process {
        Some(process) if process.has_timers || process.has_tasks => Need::Nothing,
        _ => Need::Anyone,
    }
}

/// The threads one of which has to do something before a thread goes on that waits for data, or for
/// any of its children. `None` if others may do it, too.
fn any_of(view: &View, at: usize) -> Option<Vec<usize>> {
    let scene = view.scene;
    let own = view.thread(at).id;
    match &view.thread(at).doing {
        Doing::Waiting(WaitFor::Data { processes, .. }) => {
            let is_own = processes.contains(&own.process);
            let by_handler = is_own && may_be_told(view, own.process);
            (!by_handler).then(|| others_of(view, at, processes))?
        }
        Doing::Waiting(
            WaitFor::Semaphore { shared: true, .. }
            | WaitFor::Condvar { shared: true, .. }
            | WaitFor::Futex { shared: true, .. }
            | WaitFor::Memory { shared: true, .. },
        ) => {
            let thread = view.thread(at);
            let sharers = thread.sharers.as_ref()?;
            let is_for_memory = matches!(thread.doing, Doing::Waiting(WaitFor::Memory { .. }));
            let is_for_unit = matches!(thread.doing, Doing::Waiting(WaitFor::Semaphore { .. }));
            // A timer's signal or a handler may do it, too.
            let by_itself = |process: &u32| {
                let seen = view.process(*process);
                let by_handler = is_for_unit && may_be_told(view, *process);
                by_handler
                    || seen.is_none_or(|seen| {
                        seen.has_timers || seen.has_tasks || seen.has_handlers && is_for_memory
                    })
            };
            let none_does = !sharers.iter().any(by_itself);
            none_does.then(|| others_of(view, at, sharers)).flatten()
        }
        Doing::Waiting(WaitFor::Child { process: None }) => {
            let children = scene
                .processes
                .iter()
                .filter(|process| process.parent == Some(own.process));
            let first = |process: u32| ThreadId {
                process,
                thread: process,
            };
            let firsts: Vec<usize> = children
                .filter_map(|process| view.index(first(process.process)))
                .collect();
            (!firsts.is_empty() && !scene.partial).then_some(firsts)
        }
        _ => None,
    }
}

/// The other threads of some processes, except those that do nothing before another of them does; `None`
/// unless all of these processes were looked at.
fn others_of(view: &View, at: usize, processes: &[u32]) -> Option<Vec<usize>> {
    let scene = view.scene;
    let seen = |process: &u32| {
        let mut threads = scene.threads.iter();
        threads.any(|thread| thread.id.process == *process)
    };
    let others = 0..scene.threads.len();
    let of_them = |other: &usize| {
        let thread = view.thread(*other);
        let acts = thread.doing != Doing::Ended && !view.is_idle(*other);
        *other != at && acts && processes.contains(&thread.id.process)
    };
    let all = processes.iter().all(seen);
    all.then(|| others.filter(of_them).collect())
}

/// A thread without which a child cannot end: its first thread.
fn child(view: &View, at: usize, process: Option<u32>) -> Need {
    let Some(process) = process else {
        return any_of(view, at).map_or(Need::Nothing, |_| Need::AnyOf);
    };
    let first = ThreadId {
        process,
        thread: process,
    };
    match view.index(first) {
        Some(other) if other != at => Need::Thread(other),
        _ => Need::Nothing,
    }
}
