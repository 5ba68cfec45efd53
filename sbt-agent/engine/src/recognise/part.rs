//! A wait or a wake, and its role in a round.

use crate::event::{CallersId, Clocks, Evidence, Tid};

/// The role of a wait or a wake in its round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The thread arrives and waits.
    Comes,
    /// The thread waits again because it was woken for nothing, or wakes a further thread.
    Again,
    /// The missing thread arrives, and wakes the others.
    Completes {
        /// Number of arrivals, including this thread.
        count: u32,
    },
    /// The thread arrives and wakes the others, but some arrivals were not seen.
    Ends,
    /// The thread wakes others, but not as in a barrier: this ends the round.
    Breaks,
}

/// A thread that waits, or that wakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiter {
    /// The thread that waited or woke.
    pub tid: Tid,
    /// The time at which the thread began to wait or wake, and what it had used by then.
    pub clocks: Clocks,
    /// The callers of the function.
    pub callers: CallersId,
}

/// One wait or wake.
#[derive(Clone, Copy, Debug)]
pub struct WaitOrWake {
    pub tid: Tid,
    pub clocks: Clocks,
    pub key: u64,
    pub of: Evidence,
    pub callers: CallersId,
    pub role: Role,
    /// The position in the queue of held events.
    pub number: u64,
}

impl WaitOrWake {
    pub const fn new(tid: Tid, clocks: Clocks, key: u64, of: Evidence, callers: CallersId) -> Self {
        Self {
            tid,
            clocks,
            key,
            of,
            callers,
            role: Role::Again,
            number: 0,
        }
    }

    pub const fn waiter(&self) -> Waiter {
        Waiter {
            tid: self.tid,
            clocks: self.clocks,
            callers: self.callers,
        }
    }
}

/// The action of a thread.
#[derive(Clone, Copy, Debug)]
pub enum Deed {
    /// The thread waits.
    Waits,
    /// The thread wakes at most this number of threads; `None` for all.
    Wakes(Option<u32>),
}
