//! Finds out when rounds of a candidate begin and end, and which waits and wakes are the first of
//! their thread in a round.

use rustc_hash::FxHashSet;

use super::part::{Role, WaitOrWake, Waiter};
use crate::event::Tid;

/// A round that has ended with a wake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The threads that waited, in order of arrival.
    pub waiters: Vec<Waiter>,
    /// The thread that woke them.
    pub waker: Waiter,
}

/// A thread wakes one waiter after the other.
#[derive(Clone, Copy, Debug)]
struct Waking {
    waker: Waiter,
    /// The position of its first wake in the queue.
    number: u64,
    woken: usize,
}

/// The effect of a wait or a wake on the round.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// The round goes on.
    On(Role),
    /// The round is complete. If an earlier wake completed it, the number is that wake's position
    /// in the queue.
    Complete(Ended, Option<u64>),
    /// The round was not that of a barrier.
    Broken,
    /// The round may have been that of a barrier, but not all of it was seen.
    Unsure,
    /// There was no waiter to be woken.
    Nobody,
}

/// The current round.
#[derive(Debug, Default)]
pub struct Round {
    waiters: Vec<Waiter>,
    here: FxHashSet<Tid>,
    waking: Option<Waking>,
    /// Whether parts of the round were not seen.
    doubtful: bool,
    /// Number of waits by threads that were already waiting.
    pub again: usize,
}

impl Round {
    /// Notes that something was not seen, of one thread or of all (`None`).
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
        // The limit for `again` depends on the number of waiters, which has changed.
        self.again = 0;
        self.waking = None;
    }

    /// Starts a round afresh.
    fn reset(&mut self) {
        self.waiters.clear();
        self.here.clear();
        self.waking = None;
        self.doubtful = false;
        self.again = 0;
    }

    /// A round whose beginning may not have been seen.
    pub fn begun_before() -> Self {
        Self {
            doubtful: true,
            ..Self::default()
        }
    }

    /// The present waiters, in order of arrival.
    pub fn waiters(&self) -> &[Waiter] {
        &self.waiters
    }

    /// A thread waits.
    pub fn wait(&mut self, part: &WaitOrWake) -> Step {
        if self.waking.is_some() {
            // The first thread came back before all were woken.
            self.reset();
        }
        if !self.here.insert(part.tid) {
            self.again += 1;
            return Step::On(Role::Again);
        }
        self.waiters.push(part.waiter());
        Step::On(Role::Comes)
    }

    /// A thread wakes all waiters, or at most `most` of them.
    pub fn wake(&mut self, part: &WaitOrWake, most: Option<u32>) -> Step {
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
