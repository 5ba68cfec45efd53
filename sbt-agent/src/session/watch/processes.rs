//! The processes of a session: the target and its descendants.

use std::collections::HashSet;

use sbt_program::process::{self, job};

/// The processes seen so far.
pub struct Processes {
    target: u32,
    /// Processes of which threads were seen.
    met: HashSet<u32>,
    /// Living processes other than the target whose start was seen.
    living: HashSet<u32>,
    /// The number of processes that were not watched because there were too many.
    unfollowed: u64,
    /// Whether watching has ended. What came before that may be told only afterwards.
    is_over: bool,
}

/// The most processes whose threads are counted at a time: each takes some 30 µs.
const MAX_COUNTED: usize = 64;

impl Processes {
    /// A session with a target and no other process.
    pub fn new(target: u32) -> Self {
        Self {
            target,
            met: HashSet::new(),
            living: HashSet::new(),
            unfollowed: 0,
            is_over: false,
        }
    }

    /// The target, and its living descendants whose start was seen.
    pub fn living(&self) -> impl Iterator<Item = u32> {
        std::iter::once(self.target).chain(self.living.iter().copied())
    }

    /// A thread of a process is seen. Returns the rank of a new process, if its environment
    /// contains one.
    pub fn meet(&mut self, process: u32) -> Option<u32> {
        let is_new = process != 0 && self.met.insert(process);
        is_new.then(|| job::rank(process)).flatten()
    }

    /// A new process is about to begin.
    pub fn forked(&mut self, child: Option<u32>, followed: bool) {
        self.unfollowed += u64::from(!followed);
        self.living.extend(child.filter(|_| followed));
    }

    /// A process has executed a program. MPI launchers tell each rank its number at that time:
    /// returns the rank of a known process, if its environment contains one.
    pub fn executed(&self, process: u32) -> Option<u32> {
        let is_known = self.met.contains(&process);
        is_known.then(|| job::rank(process)).flatten()
    }

    /// A process has ended: its id may go to another process.
    pub fn ended(&mut self, process: u32) {
        self.met.remove(&process);
        self.living.remove(&process);
    }

    /// The number of threads of the target, or of another process if the target has only one
    /// thread.
    pub fn threads(&self) -> u64 {
        let all = [self.target].into_iter().chain(self.living.iter().copied());
        let mut counts = all.take(MAX_COUNTED).map(process::threads);
        counts.find(|count| *count > 1).unwrap_or(1)
    }

    /// Watching ends.
    pub const fn end(&mut self) {
        self.is_over = true;
    }

    /// The number of watched processes, the target aside, that live on after watching has ended; `None`
    /// before that. Those that were about to end have ended by the time of the report.
    pub fn left(&self) -> Option<u64> {
        let others = self.met.union(&self.living);
        let others = others.filter(|pid| **pid != self.target);
        let left = others.filter(|pid| process::find(**pid).is_ok()).count();
        self.is_over.then_some(left as u64)
    }

    /// The notes for the user.
    pub fn notes(&self) -> Vec<String> {
        let target_ended = process::find(self.target).is_err();
        let left = self.left().filter(|left| *left > 0 && target_ended);
        let left = left.map(|left| {
            format!(
                "{left} of the watched processes continued after the program had ended: sbt did \
                 not watch them any longer"
            )
        });
        let unfollowed = (self.unfollowed > 0).then(|| {
            format!(
                "too many processes at the same time: {} of them were not watched",
                self.unfollowed
            )
        });
        [left, unfollowed].into_iter().flatten().collect()
    }
}
