//! Barriers at which arriving and waiting are two calls (`arrive` and `wait` of `std::barrier`): what
//! a thread does between the two is work, not waiting.
//!
//! A thread waits from the moment that [`crate::event::Event::Awaits`] tells, or not at all if all
//! have arrived by then. So its arrival counts from that moment on, at the latest from the last
//! arrival L.

use super::{Model, cost::Class, episode::Episode};
use crate::event::{Clocks, Kind, Tid};

/// A thread that begins to wait so soon after its arrival has done nothing in between, ns.
const BRIEF_NS: u64 = 20_000;

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
        // A thread that came back from another barrier may still be known to have a seat there.
        let is_here = barrier.open.serial == seat.episode || barrier.last_serial == seat.episode;
        if barrier.kind != Kind::Std || barrier.apart == Apart::Untold || !is_here {
            return;
        }
        barrier.apart = Apart::Told;
        if barrier.open.serial != seat.episode {
            return;
        }
        row.worked_until_ns = clocks.time_ns;
        if let Some(member) = barrier.open.members.get_mut(seat.index) {
            let between_ns = clocks.time_ns.saturating_sub(member.arrived.time_ns);
            member.awaits = true;
            member.arrived = clocks;
            // What it did while it was on no CPU was seen up to the arrival only.
            member.away = member.away.take().filter(|_| between_ns < BRIEF_NS);
        }
    }

    /// A thread arrives anew, at the barrier `key`. Unless it has told that it waited after its last
    /// arrival there, the barrier does not tell.
    pub(super) fn check_told(&mut self, tid: Tid, key: (u32, u64)) {
        let Some(live) = self.threads.live(tid) else {
            return;
        };
        let has_told = std::mem::take(&mut live.awaits);
        if let (Some(seat), false, false) = (live.seat, has_told, live.lost) {
            let barrier = self.barriers.get(seat.barrier);
            if barrier.apart == Apart::Told && barrier.key == key {
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
                member.overlaps = true;
                member.away = None;
            }
        }
    }
}
