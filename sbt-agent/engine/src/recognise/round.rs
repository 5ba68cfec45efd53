//! When a round at a condition variable begins and ends: what of each wait and
//! each wake is the first of its thread in it.

use rustc_hash::FxHashSet;

use super::candidate::Part;
use crate::event::{CallersId, Clocks, Tid};

/// What a wait or a wake is in its round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The thread comes and waits.
    Comes,
    /// It waits again because it was woken for nothing, or wakes one more.
    Again,
    /// The thread that was missing comes, and wakes the others.
    Completes {
        /// How many have come, it included.
        count: u32,
    },
    /// It comes and wakes the others, but some who came were not seen.
    Ends,
    /// It wakes others, but the round is none of a barrier: so that ends it.
    Breaks,
}

/// One who waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiter {
    /// Who.
    pub tid: Tid,
    /// When it began to, and what it had used by then.
    pub clocks: Clocks,
    /// From where.
    pub callers: CallersId,
}

/// A round that has ended with a wake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Who waited, in the order of coming.
    pub waiters: Vec<Waiter>,
    /// Who woke them.
    pub waker: Waiter,
}

/// Someone wakes one waiter after the other.
#[derive(Clone, Copy, Debug)]
struct Waking {
    waker: Waiter,
    /// Of its first wake.
    number: u64,
    woken: usize,
}

/// What a wait or a wake does to the round.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// The round goes on.
    On(Role),
    /// The round is complete. If the wake that completed it was an earlier one,
    /// its number.
    Complete(Ended, Option<u64>),
    /// It was no round of a barrier.
    Broken,
    /// It may have been one, of which not all was seen.
    Unsure,
    /// Nobody was there to be woken.
    Nobody,
}

/// The round that is going on.
#[derive(Debug, Default)]
pub struct Round {
    waiters: Vec<Waiter>,
    here: FxHashSet<Tid>,
    waking: Option<Waking>,
    /// Not all of it was seen.
    doubtful: bool,
    /// Waits of threads that waited already.
    pub again: usize,
}

impl Round {
    /// Something of a thread, or of all, was not seen.
    pub fn doubt(&mut self, tid: Option<Tid>) {
        self.doubtful = true;
        match tid {
            Some(tid) if !self.here.remove(&tid) => {}
            Some(tid) => self.waiters.retain(|waiter| waiter.tid != tid),
            None => {
                self.waiters.clear();
                self.here.clear();
            }
        }
        // It is judged by how many wait.
        self.again = 0;
        self.waking = None;
    }

    /// Nothing that went on before counts.
    fn reset(&mut self) {
        self.waiters.clear();
        self.here.clear();
        self.waking = None;
        self.doubtful = false;
        self.again = 0;
    }

    /// A round of which the beginning may not have been seen.
    pub fn begun_before() -> Self {
        Self {
            doubtful: true,
            ..Self::default()
        }
    }

    /// Who waits at present, in the order of coming.
    pub fn waiters(&self) -> &[Waiter] {
        &self.waiters
    }

    /// A thread waits.
    pub fn wait(&mut self, part: &Part) -> Step {
        if self.waking.is_some() {
            // Not all were woken when the first came back.
            self.reset();
        }
        if !self.here.insert(part.tid) {
            self.again += 1;
            return Step::On(Role::Again);
        }
        self.waiters.push(part.waiter());
        Step::On(Role::Comes)
    }

    /// A thread wakes all, or `most` of them.
    pub fn wake(&mut self, part: &Part, most: Option<u32>) -> Step {
        let waker = part.waiter();
        if self.waiters.is_empty() {
            self.doubtful = false;
            return Step::Nobody;
        }
        if self.here.contains(&waker.tid) {
            self.reset();
            return Step::Broken;
        }
        let woken = most.map_or(usize::MAX, |most| most as usize);
        let mut waking = self.waking.unwrap_or(Waking {
            waker,
            number: part.number,
            woken: 0,
        });
        if waking.waker.tid != waker.tid {
            self.reset();
            return Step::Broken;
        }
        let is_first = waking.woken == 0;
        waking.woken = waking.woken.saturating_add(woken);
        if waking.woken < self.waiters.len() {
            self.waking = Some(waking);
            return Step::On(Role::Again);
        }
        let waiters = std::mem::take(&mut self.waiters);
        let doubtful = self.doubtful;
        self.reset();
        if doubtful {
            return Step::Unsure;
        }
        let ended = Ended {
            waiters,
            waker: waking.waker,
        };
        Step::Complete(ended, (!is_first).then_some(waking.number))
    }
}
