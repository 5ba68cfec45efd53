//! Abilities that only some sources have. A source without an ability implements nothing for it,
//! and returns `None` for it from [`super::Source`].

use std::sync::Arc;

use sbt_common::{Code, Futex, Lock, Rule};

use sbt_engine::counters::Counter;
use sbt_program::files::ProbedFile;

/// On which processes the probes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// On the target alone.
    Target,
    /// On every process that maps the file; the BPF programs ignore processes that are not watched.
    /// Needed for a target with children, because these begin before probes could be put on them,
    /// and for a target whose first thread has ended: the kernel finds a process's memory by its
    /// first thread, and without it takes the probes off when it next looks.
    Everyone,
}

/// Futexes on which threads have waited, and the number of waits that were not counted for want of
/// room.
pub type Waited = (Vec<(Futex, Lock)>, u64);

/// Reports when threads leave barriers.
pub trait Departures {
    /// Starts or stops reporting departures.
    fn set_departures(&mut self, on: bool) -> anyhow::Result<()>;
}

/// Reports uses of condition variables.
pub trait Condvars {
    /// Puts probes on condition variables, or takes them off.
    fn set_condvars(&mut self, on: bool) -> anyhow::Result<()>;
}

/// Reports the system calls of futexes.
pub trait Futexes {
    /// Starts or stops watching the system calls of futexes.
    ///
    /// # Errors
    /// Fails if the source cannot watch them at present.
    fn set_futexes(&mut self, on: bool) -> anyhow::Result<()>;
}

/// Ignores some condition variables and futexes where they are hit, which costs less than an event.
pub trait Silencing {
    /// Ignores a condition variable or a futex until `until_ns`.
    fn silence(&self, key: u64, until_ns: u64) -> anyhow::Result<()>;

    /// The number of uses of silenced condition variables that were ignored.
    fn passed(&self) -> u64;
}

/// Counts waits by futex while the system calls of futexes are watched.
pub trait Locks {
    /// The waits by futex.
    fn locks(&self) -> anyhow::Result<Waited>;

    /// Begins to count the waits anew, for all processes or for one.
    fn clear_locks(&self, process: Option<u32>) -> anyhow::Result<()>;
}

/// Finds the callers of a function that calls a barrier.
pub trait Callers {
    /// Adds rules that find callers of callers, and removes the rules that are `None`. Forgets what
    /// is known of return addresses, even if `changes` is empty.
    fn learn(&mut self, changes: &[(Code, Option<Rule>)]) -> anyhow::Result<()>;
}

/// Puts more probes on a file whose probes are on already.
pub trait Adding {
    /// Puts probes on these points of a file, besides those that are watched in it.
    fn add(&mut self, file: &Arc<ProbedFile>) -> anyhow::Result<()>;

    /// Takes such probes off again. No event of other probes is missed or counted twice.
    fn withdraw(&mut self, file: &Arc<ProbedFile>) -> anyhow::Result<()>;
}

/// Puts probes on one process, or on every process that maps the files. A source without this
/// ability watches each process by itself.
pub trait Scoping {
    /// On which processes the probes are.
    fn scope(&self) -> Scope;

    /// On which processes probes are put from now on.
    fn set_scope(&mut self, scope: Scope);

    /// Replaces the probes by probes on every process that maps the files.
    fn widen(&mut self) -> anyhow::Result<()>;

    /// Called at the target's first child: the probes must be on the children too.
    fn widen_for_children(&mut self) -> anyhow::Result<()>;

    /// Puts on a second set of probes, lets it take over, and takes the first set off. No event is
    /// missed or counted twice.
    fn renew(&mut self) -> anyhow::Result<()>;
}

/// Changes counters while the program runs.
pub trait Choosing {
    /// Counts these counters from now on, and no others; all counters in
    /// [`super::Source::counters`] keep their places. Returns a sentence for each counter that
    /// cannot be counted; such counters are left out.
    fn choose(&mut self, counters: &[Counter]) -> anyhow::Result<Vec<String>>;
}
