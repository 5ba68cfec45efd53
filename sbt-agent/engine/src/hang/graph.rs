//! Who waits for whom, and who can go on at all.

use super::{
    absent::Absent,
    names::View,
    scene::{Doing, Holder, ThreadId, WaitFor},
};

/// What a thread needs before it goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Nothing that another thread here would have to do.
    Nothing,
    /// This thread: to let a lock go, or to end.
    Thread(usize),
    /// That others come to a barrier.
    Barrier(usize),
    /// That any other thread wakes it.
    Anyone,
    /// That a thread lets a lock go which has ended.
    TheDead,
    /// It does not go on.
    Never,
}

/// Who waits for whom.
pub struct Graph<'a, 'v> {
    pub view: &'v View<'a>,
    /// By barrier.
    pub absent: Vec<Absent<'a>>,
    needs: Vec<Need>,
    /// See [`View::stays`].
    stays: Vec<bool>,
    /// Whether it can go on, if any thread that is alive may come to any barrier.
    can_go: Vec<bool>,
    /// The same if none comes but those that are likely to be meant.
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
            stays: threads.map(|at| view.stays(at)).collect(),
            can_go: Vec::new(),
            may_go: Vec::new(),
        };
        for at in 0..graph.needs.len() {
            if let Need::Barrier(barrier) = graph.needs[at]
                && !graph.absent[barrier].waiting.contains(&at)
            {
                // It is leaving.
                graph.needs[at] = Need::Nothing;
            }
        }
        graph.can_go = graph.settle(Absent::all_who_could);
        graph.may_go = graph.settle(Absent::all_who_would);
        graph
    }

    /// What a thread needs.
    pub fn need(&self, thread: usize) -> Need {
        self.needs[thread]
    }

    /// Whether it is certain that a thread did not go on while it was looked.
    pub fn stays(&self, thread: usize) -> bool {
        self.stays[thread]
    }

    /// Whether the same is true of all that wait at a barrier: if not it may have opened.
    pub fn stands(&self, barrier: usize) -> bool {
        let waiting = &self.absent[barrier].waiting;
        waiting.iter().all(|at| self.stays[*at])
    }

    /// Whether a thread can go on at all, whoever comes to whatever barrier.
    pub fn can_go(&self, thread: usize) -> bool {
        self.can_go[thread]
    }

    /// Whether it can, if none comes to a barrier but who is likely to.
    pub fn may_go(&self, thread: usize) -> bool {
        self.may_go[thread]
    }

    /// Whether a barrier can be completed at all.
    pub fn can_complete(&self, barrier: usize) -> bool {
        self.completes(barrier, &self.can_go, Absent::all_who_could)
    }

    /// The threads that a thread waits for: one at least of them has to do something. Of
    /// those, the ones that cannot go on themselves first.
    pub fn next(&self, thread: usize) -> Vec<usize> {
        let mut next = match self.needs[thread] {
            Need::Thread(other) => vec![other],
            Need::Barrier(barrier) => self.absent[barrier].who.clone(),
            _ => Vec::new(),
        };
        next.sort_by_key(|it| self.may_go[*it]);
        next
    }

    /// Threads from a first one on, each of which waits for the next, and the last for one
    /// of them: where the circle begins says the number.
    pub fn circle(&self, from: usize) -> Option<(Vec<usize>, usize)> {
        let mut path = Vec::new();
        let mut done = vec![false; self.needs.len()];
        let begins = self.follow(from, &mut path, &mut done)?;
        Some((path, begins))
    }

    fn follow(&self, at: usize, path: &mut Vec<usize>, done: &mut [bool]) -> Option<usize> {
        if let Some(begins) = path.iter().position(|it| *it == at) {
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

    /// Who can go on: nobody at first, then whoever may have done so already, and whoever
    /// needs nothing but those who can.
    fn settle(&self, come: impl Fn(&Absent<'a>) -> Vec<usize>) -> Vec<bool> {
        let mut goes = vec![false; self.needs.len()];
        loop {
            let before = goes.clone();
            let completes: Vec<bool> = (0..self.absent.len())
                .map(|at| self.completes(at, &before, &come))
                .collect();
            for (at, go) in goes.iter_mut().enumerate() {
                *go = *go
                    || !self.stays[at]
                    || match self.needs[at] {
                        Need::Nothing => true,
                        Need::Thread(other) => other != at && before[other],
                        Need::Barrier(barrier) => completes[barrier],
                        Need::Anyone => before
                            .iter()
                            .enumerate()
                            .any(|(it, goes)| *goes && it != at),
                        Need::TheDead | Need::Never => false,
                    };
            }
            if goes == before {
                return goes;
            }
        }
    }

    fn completes(
        &self,
        barrier: usize,
        goes: &[bool],
        come: impl Fn(&Absent<'a>) -> Vec<usize>,
    ) -> bool {
        let absent = &self.absent[barrier];
        let shared = self.view.scene.barriers[barrier].shared;
        // Of other processes some may come that nobody has looked at.
        if !self.stands(barrier) || shared && !absent.certain {
            return true;
        }
        let can = come(absent).iter().filter(|it| goes[**it]).count();
        match absent.count {
            Some(count) => i64::try_from(can).unwrap_or(i64::MAX) >= count,
            None => can > 0,
        }
    }
}

impl Absent<'_> {
    /// Who could come.
    fn all_who_could(&self) -> Vec<usize> {
        if self.certain {
            return self.who.clone();
        }
        self.who.iter().chain(&self.spare).copied().collect()
    }

    /// Who looks as if.
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
    let held_by = |id: ThreadId| view.index(id).map_or(Need::Nothing, Need::Thread);
    match &view.thread(at).doing {
        Doing::Ended => Need::Never,
        Doing::Running
        | Doing::Call { .. }
        | Doing::Stopped
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
            // It is just being handed over.
            WaitFor::Mutex {
                holder: Holder::Nobody,
                ..
            }
            // Another process may wake it.
            | WaitFor::Semaphore { shared: true, .. }
            | WaitFor::Condvar { shared: true, .. }
            | WaitFor::Futex { shared: true, .. } => Need::Nothing,
            WaitFor::Mutex { .. }
            | WaitFor::RwLock { .. }
            | WaitFor::Semaphore { .. }
            | WaitFor::Condvar { .. }
            | WaitFor::Futex { .. }
            | WaitFor::Join { thread: None }
            | WaitFor::Barrier(_) => Need::Anyone,
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

/// One of a child's threads that cannot end before it goes on: its first.
fn child(view: &View, at: usize, process: Option<u32>) -> Need {
    let Some(process) = process else {
        return Need::Nothing;
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
