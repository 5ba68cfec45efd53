//! The processes of a session: the target and those that descend from it.

use std::collections::HashSet;

use sbt_engine::model::Model;
use sbt_program::process;

/// What is known of them.
pub struct Processes {
    target: u32,
    /// Those with threads that were seen.
    met: HashSet<u32>,
    /// Those that live beside the target, as far as they were seen to begin.
    living: HashSet<u32>,
    /// How many were too many.
    unfollowed: u64,
    /// How many go on without the target; `None` before the end.
    left: Option<usize>,
}

/// Threads are counted in so many processes at most, ever so often: to ask for one
/// takes some 30 µs.
const MAX_COUNTED: usize = 64;

impl Processes {
    /// Of a target.
    pub fn new(target: u32) -> Self {
        Self {
            target,
            met: HashSet::new(),
            living: HashSet::new(),
            unfollowed: 0,
            left: None,
        }
    }

    /// The target, and those that descend from it and live, as far as they were seen to
    /// begin.
    pub fn living(&self) -> impl Iterator<Item = u32> {
        std::iter::once(self.target).chain(self.living.iter().copied())
    }

    /// A thread of a process is seen.
    pub fn meet(&mut self, process: u32, model: &mut Model) {
        if process != 0 && self.met.insert(process) {
            learn_rank(process, model);
        }
    }

    /// A new one is about to begin.
    pub fn forked(&mut self, child: Option<u32>, followed: bool) {
        self.unfollowed += u64::from(!followed);
        self.living.extend(child.filter(|_| followed));
    }

    /// One has executed a program: what starts ranks tells them which they are then.
    pub fn executed(&mut self, process: u32, model: &mut Model) {
        if self.met.contains(&process) {
            learn_rank(process, model);
        }
    }

    /// One has ended: its number may become another's.
    pub fn ended(&mut self, process: u32) {
        self.met.remove(&process);
        self.living.remove(&process);
    }

    /// How many threads the target has, or another that has several.
    pub fn threads(&self) -> u64 {
        let all = [self.target].into_iter().chain(self.living.iter().copied());
        let mut counts = all.take(MAX_COUNTED).map(process::threads);
        counts.find(|count| *count > 1).unwrap_or(1)
    }

    /// Watching ends.
    pub fn end(&mut self) {
        let others = self.met.iter().filter(|pid| **pid != self.target);
        self.left = Some(others.filter(|pid| process::find(**pid).is_ok()).count());
    }

    /// How many of those that were watched go on when the target has ended; `None` as long
    /// as it has not.
    pub fn left(&self) -> Option<u64> {
        self.left.map(|left| left as u64)
    }

    /// What the user should know.
    pub fn notes(&self) -> Vec<String> {
        let target_ended = process::find(self.target).is_err();
        let left = self.left.filter(|left| *left > 0 && target_ended);
        let left = left.map(|left| {
            format!(
                "{left} of the processes that were watched went on when the program ended: what they \
                 did from then on is not here"
            )
        });
        let unfollowed = (self.unfollowed > 0).then(|| {
            format!(
                "too many processes at a time: {} were not watched",
                self.unfollowed
            )
        });
        [left, unfollowed].into_iter().flatten().collect()
    }
}

/// While it lives: its environment goes with it.
fn learn_rank(process: u32, model: &mut Model) {
    if let Some(rank) = process::rank(process) {
        model.set_rank(process, rank);
    }
}
