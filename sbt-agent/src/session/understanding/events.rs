//! Events taken in: what they tell of the target's code, and what the recogniser makes of them.

use super::Understanding;
use crate::{naming::Naming, settings::Settings};
use sbt_engine::{
    event::{CallersId, Event},
    model::ids::PlaceId,
    place::LockKind,
};

impl Understanding {
    /// Takes one event in.
    pub fn take(&mut self, event: &Event, settings: &Settings) {
        let (is_tried, proven_ns) = self.spinning.trials.take(event);
        if let Some(proven_ns) = proven_ns {
            // Earlier rounds were not counted.
            self.gap(proven_ns);
        }
        if is_tried {
            return;
        }
        match event {
            Event::Callers {
                id,
                process,
                addresses,
            } => self.called(*id, *process, addresses, settings),
            Event::Thread {
                shown, code_start, ..
            } => {
                self.resolver.turn_to(shown.1);
                self.resolver.set_code_start(*code_start);
            }
            // All addresses known of the process are invalid.
            Event::Exec { process, .. } => {
                self.resolver.turn_to(*process);
                self.resolver.executed();
                self.resolver.refresh();
            }
            // Refresh at once: the process may end before all places are found.
            Event::Mapped { process, time_ns } => {
                self.resolver.turn_to(*process);
                self.resolver.refresh_since(*time_ns);
            }
            Event::Forked {
                process,
                child: Some(child),
                ..
            } => self.resolver.forked(*process, *child),
            Event::Ended { process, .. } => self.resolver.ended(*process),
            // The watch has taken this in.
            Event::Lock { .. } => return,
            _ => {}
        }
        self.push(event);
    }

    fn push(&mut self, event: &Event) {
        self.recognition
            .push(event, &mut self.resolver, &mut self.model);
    }

    /// Takes in a chain of callers that is new, or whose number now means another chain.
    fn called(&mut self, id: CallersId, process: u32, addresses: &[u64], settings: &Settings) {
        self.resolver.turn_to(process);
        let place = self.resolver.place(addresses);
        self.recognition
            .know(id, process, addresses, &mut self.resolver);
        let known = &self.resolver.places()[place.0 as usize];
        let roles = Naming(settings).roles(known);
        self.recognition.define(id, place, roles);
    }

    /// Whether the wait on a futex, called from `addresses`, is for a lock, and where that is.
    pub fn lock(&mut self, process: u32, addresses: &[u64]) -> (Option<LockKind>, Option<PlaceId>) {
        self.resolver.turn_to(process);
        self.resolver.lock(addresses)
    }

    /// Takes the rank of a process in a parallel program.
    pub fn set_rank(&mut self, process: u32, rank: u32) {
        self.model.set_rank(process, rank);
    }

    /// Releases events that the recogniser has held back for too long at `now_ns`. Returns how often
    /// condition variables were used in the events so far, and whether any barrier was recognised.
    pub fn release(&mut self, now_ns: u64) -> (u64, bool) {
        self.recognition.tick(now_ns, &mut self.model)
    }

    /// The probes of condition variables are about to be switched: some uses will not be seen.
    pub fn blind(&mut self) {
        self.recognition.blind();
    }

    /// The condition variables and futexes that the probes should ignore, and until when, ns.
    pub fn take_silenced(&mut self) -> Vec<(u64, u64)> {
        self.recognition.take_silenced()
    }

    /// Departures are watched from now on, or no longer.
    pub fn set_departures(&mut self, on: bool) {
        self.model.push(&Event::Departures { on });
    }

    /// Notes that events just before `time_ns` were not seen.
    pub fn gap(&mut self, time_ns: u64) {
        self.push(&Event::Gap { time_ns });
    }

    /// Watching may soon have gaps.
    pub fn expect_gaps(&mut self) {
        self.model.expect_gaps();
    }

    /// The probes are off for the budget, or on again.
    pub fn set_off(&mut self, off: bool) {
        self.model.set_off(off);
    }

    /// Handles an end of watching while the probes are off for the budget: threads that were in a
    /// barrier may have left it unseen.
    pub fn forget_unwatched(&mut self, end_ns: u64) {
        if self.model.is_off() {
            self.gap(end_ns);
        }
    }
}
