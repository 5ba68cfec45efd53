//! Facts about the target's code: how a call that waits and a call that wakes are related.

use crate::event::CallersId;

/// How two calls in the target's code are related: one of a function that waits, and one of a
/// function that wakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Relation {
    /// The code could not be read or understood.
    Unknown,
    /// The calls have none of the following relations.
    Apart,
    /// A test decides between the two calls after a common point, as in a barrier: the last thread
    /// wakes, and all others wait.
    Alternatives,
    /// A test decides between the two calls, but does not visibly count arrivals. It may ask for
    /// the thread's role, as with producers and consumers.
    Either,
    /// As [`Self::Alternatives`], but a thread first checks for a while, without the mutex, whether
    /// it must wait. Some threads arrive without waiting, and are not seen.
    Lacking,
    /// The wait is part of a barrier that other probes already see.
    Counted,
    /// The wait comes first and the wake follows, with nothing else in between, as in a monitor: a
    /// thread that has waited for its turn wakes the next.
    InTurn,
    /// The wake comes after the alternatives of a barrier: the last thread to leave lets in threads
    /// that have come to the next round in the meantime, as in `parsec_barrier_wait` of PARSEC.
    Leaves,
    /// The wait comes before the alternatives of a barrier: until the threads of the previous round
    /// have left.
    Enters,
}

impl Relation {
    /// Whether both calls are parts of a barrier.
    pub const fn is_of_barrier(self) -> bool {
        self.decides() || matches!(self, Self::Leaves | Self::Enters)
    }

    /// Whether a test in a barrier decides between the two calls.
    pub const fn decides(self) -> bool {
        matches!(self, Self::Alternatives | Self::Lacking)
    }
}

/// Knowledge about the target's code.
pub trait Code {
    /// The relation between the calls that these chains of callers belong to.
    fn relation(&mut self, wait: CallersId, wake: CallersId) -> Relation;

    /// Up to two functions that contain a chain of callers. If a wait and a wake have no function
    /// in common, their relation is neither [`Relation::Enters`] nor [`Relation::Leaves`]. This
    /// saves asking for each pair of calls in a program with many places.
    fn functions(&mut self, _callers: CallersId) -> Functions {
        // By default, everything counts as one function.
        [Some((0, 0)), None]
    }
}

/// Functions by the number of their file and their first address: see [`Code::functions`].
pub type Functions = [Option<(usize, u64)>; 2];

/// Code about which nothing is known.
#[derive(Debug, Default)]
pub struct NoCode;

impl Code for NoCode {
    fn relation(&mut self, _wait: CallersId, _wake: CallersId) -> Relation {
        Relation::Unknown
    }
}
