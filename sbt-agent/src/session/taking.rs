//! Takes in the events that the source hands over.

use super::{Session, watch::Changes};
use crate::source::Batch;

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
                }
            }
            self.understanding.take(event, &self.settings);
        }
        self.narrate();
        self.write_down();
        self.view.heard();
        self.watch
            .follow(changes, &mut self.understanding, self.reporting.notes());
    }
}
