//! Takes in the events that the source hands over.

use super::{Session, watch::Changes};
use crate::source::Batch;
use sbt_program::clock;

impl Session {
    /// Takes in a batch of events: first the watch, then the understanding, then what is told.
    pub(super) fn take(&mut self, batch: &Batch) {
        let mut changes = Changes::default();
        for event in batch {
            let notes = self.reporting.notes();
            let began_ns = self
                .watch
                .hear(event, &mut self.understanding, &mut changes, notes);
            if let Some(began_ns) = began_ns
                && self.program.is_started()
            {
                if let Some(looking) = &self.looking {
                    looking.begins();
                }
                if self.watch.begin_program(began_ns) {
                    self.reporting.begin_at(began_ns);
                    self.set_start();
                }
            }
            self.understanding.take(event, &self.settings);
        }
        let now_ns = clock::now_ns();
        if self.understanding.is_trial_over(now_ns) {
            // The function may be a lock that is taken very often.
            let notes = self.reporting.notes();
            self.watch.try_spins(now_ns, &mut self.understanding, notes);
        }
        // Before anything is told: what lies before a beginning is forgotten.
        self.heed_window();
        self.narrate();
        self.write_down();
        self.view.heard();
        self.watch
            .follow(changes, &mut self.understanding, self.reporting.notes());
    }
}
