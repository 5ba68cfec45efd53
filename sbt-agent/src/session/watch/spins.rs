//! Puts probes on functions in which threads spin, and takes them off again.

use super::Watch;
use crate::session::{
    notes::Notes,
    understanding::{TrialStep, Understanding},
};

impl Watch {
    /// Begins or ends the trial of a function in which threads spin, if the source can do so.
    pub fn try_spins(&mut self, now_ns: u64, understanding: &mut Understanding, notes: &mut Notes) {
        let Some(adding) = self
            .source
            .as_deref_mut()
            .and_then(|source| source.adding())
        else {
            return;
        };
        match understanding.next_trial(now_ns) {
            Some(TrialStep::Begin(file)) => {
                if let Err(error) = adding.add(&file) {
                    notes.push(format!("{error:#}"));
                    understanding.fail_trial();
                }
            }
            Some(TrialStep::Withdraw(file)) => notes.keep(adding.withdraw(&file)),
            None => {}
        }
    }
}
