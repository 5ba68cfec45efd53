//! The processes of a session: the target and those that descend from it.

use std::collections::HashSet;

use crate::{model::Model, target::process};

/// What is known of them.
pub struct Processes {
    target: u32,
    /// Those with threads that were seen.
    met: HashSet<u32>,
    /// How many were too many.
    unfollowed: u64,
    /// How many go on without the target.
    left: usize,
}

impl Processes {
    /// Of a target.
    pub fn new(target: u32) -> Self {
        Self {
            target,
            met: HashSet::new(),
            unfollowed: 0,
            left: 0,
        }
    }

    /// A thread of a process is seen.
    pub fn meet(&mut self, process: u32, model: &mut Model) {
        // While it lives: its environment goes with it.
        if process != 0
            && self.met.insert(process)
            && let Some(rank) = process::rank(process)
        {
            model.set_rank(process, rank);
        }
    }

    /// A new one is about to begin.
    pub fn forked(&mut self, followed: bool) {
        self.unfollowed += u64::from(!followed);
    }

    /// Watching ends.
    pub fn end(&mut self) {
        let others = self.met.iter().filter(|pid| **pid != self.target);
        self.left = others.filter(|pid| process::find(**pid).is_ok()).count();
    }

    /// What the user should know.
    pub fn notes(&self) -> Vec<String> {
        let target_ended = process::find(self.target).is_err();
        let left = (self.left > 0 && target_ended).then(|| {
            format!(
                "{} of the processes that were watched went on when the program ended: what they \
                 did from then on is not here",
                self.left
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
