//! One use of a barrier, while it is going on.

use super::{
    barrier::BarrierId,
    site::{PlaceId, SiteId},
    thread::{Since, ThreadId},
};
use crate::event::{Clocks, Tid};

/// Where a thread sits: which episode of which barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seat {
    /// The barrier.
    pub barrier: BarrierId,
    /// Serial number of the episode.
    pub episode: u64,
}

/// One participant of an episode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// The thread.
    pub tid: Tid,
    /// Its row.
    pub row: ThreadId,
    /// From where it called.
    pub place: PlaceId,
    /// When it arrived, a_i.
    pub arrived: Clocks,
    /// Since when it had worked, if that is known.
    pub since: Option<Since>,
    /// Whether and when it left, d_i.
    pub left: Left,
}

/// What is known of a departure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// Nothing yet.
    NotYet,
    /// It left, but when was not seen.
    Unseen,
    /// When, ns.
    At(u64),
}

/// One use of a barrier, open until all participants have arrived, then
/// leaving until the last has left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Episode {
    /// Serial number, over all barriers.
    pub serial: u64,
    /// In order of arrival.
    pub members: Vec<Member>,
    /// The barrier's own number of the round, if it told.
    pub round: Option<u32>,
    /// Whether the number was read in this round, or only follows from the
    /// one before.
    pub round_was_read: bool,
    /// Participants that had arrived before watching began.
    pub unseen: u32,
    /// From where it was called; known once it is full.
    pub site: Option<SiteId>,
}

impl Episode {
    /// The member that is this thread.
    pub fn member(&mut self, tid: Tid) -> Option<&mut Member> {
        self.members.iter_mut().find(|member| member.tid == tid)
    }

    /// Whether the thread is a member.
    pub fn has(&self, tid: Tid) -> bool {
        self.members.iter().any(|member| member.tid == tid)
    }

    /// First arrival F and last arrival L, ns; `None` without members.
    pub fn span(&self) -> Option<(u64, u64)> {
        let times = || self.members.iter().map(|member| member.arrived.time_ns);
        Some((times().min()?, times().max()?))
    }

    /// Whether everyone has left, seen or not.
    pub fn is_over(&self) -> bool {
        self.members
            .iter()
            .all(|member| member.left != Left::NotYet)
    }
}
