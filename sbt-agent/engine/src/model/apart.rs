//! Barriers at which arriving and waiting are two calls (`arrive` and `wait` of `std::barrier`): what
//! a thread does between the two is work, not waiting.
//!
//! A thread waits from the moment that [`crate::event::Event::Awaits`] tells, or not at all if all
//! have arrived by then. So its arrival counts from that moment on, at the latest from the last
//! arrival L.

use super::{Model, cost::Class, episode::Episode};
use crate::event::{Clocks, Tid};

/// Whether arriving and waiting are two calls at a barrier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Apart {
    /// No thread has told when it begins to wait.
    #[default]
    Unknown,
    /// Threads tell when they begin to wait.
    Told,
    /// A thread did not tell, so nothing is known of the others either.
    Untold,
}

impl Model {
    /// A thread begins to wait at the barrier at which it arrived last.
    pub(super) fn awaits(&mut self, tid: Tid, clocks: Clocks) {
        self.threads.meet(tid, clocks.time_ns);
        self.pay(tid, Class::Mark);
        let Some((live, row)) = self.threads.both(tid) else {
            return;
        };
        let (Some(seat), false) = (live.seat, live.awaits) else {
            return;
        };
        live.awaits = true;
        let barrier = self.barriers.get(seat.barrier);
        if barrier.apart == Apart::Untold {
            return;
        }
        barrier.apart = Apart::Told;
        if barrier.open.serial != seat.episode {
            return;
        }
        row.worked_until_ns = clocks.time_ns;
        if let Some(member) = barrier.open.members.get_mut(seat.index) {
            member.awaits = true;
            member.arrived = clocks;
            // It was seen up to the arrival only.
            member.away = None;
        }
    }

    /// A thread arrives anew. Unless it has told that it waited, the barrier of its last arrival does
    /// not tell.
    pub(super) fn check_told(&mut self, tid: Tid) {
        let Some(live) = self.threads.live(tid) else {
            return;
        };
        let has_told = std::mem::take(&mut live.awaits);
        if let (Some(seat), false, false) = (live.seat, has_told, live.lost) {
            let barrier = self.barriers.get(seat.barrier);
            if barrier.apart == Apart::Told {
                barrier.apart = Apart::Untold;
            }
        }
    }
}

impl Episode {
    /// All have arrived. Those that do not wait yet have worked until now, and how is not known.
    pub(super) fn end_overlaps(&mut self) {
        let Some((_, last_ns)) = self.span() else {
            return;
        };
        for member in &mut self.members {
            if !member.awaits && member.arrived.time_ns < last_ns {
                member.arrived = Clocks::at(last_ns);
                member.away = None;
            }
        }
    }
}
