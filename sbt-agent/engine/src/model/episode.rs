//! One use of a barrier, while it is going on.

use super::{
    away::Work,
    cost::Paid,
    efficiency::Chain,
    ids::{BarrierId, PlaceId, SiteId, ThreadId},
    parts::{Alone, Before, Begun, Since},
};
use crate::event::{Clocks, Reading, Tid};

/// Where a thread sits: which episode of which barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seat {
    /// The barrier.
    pub barrier: BarrierId,
    /// Serial number of the episode.
    pub episode: u64,
    /// Which of its members.
    pub index: usize,
    /// What the thread will have been in when it leaves; `None` as long as the
    /// episode is open.
    pub before: Option<Before>,
}

/// One participant of an episode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The thread.
    pub tid: Tid,
    /// Its row.
    pub row: ThreadId,
    /// From where it called.
    pub place: PlaceId,
    /// When it arrived, `a_i`.
    pub arrived: Clocks,
    /// Since when it had worked, if that is known.
    pub since: Option<Since>,
    /// Whether and when it left, `d_i`.
    pub left: Left,
    /// Where it stood for the efficiencies before.
    pub chain: Chain,
    /// What counters said of its work, if anything is counted.
    pub counts: Option<Reading>,
    /// What it did while it was on no CPU, if that was seen.
    pub away: Option<Box<Work>>,
    /// What it paid since its arrival before, this one included.
    pub paid: Paid,
}

/// What is known of a departure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// Nothing yet.
    NotYet,
    /// It left, but when was not seen.
    Unseen,
    /// When, and with what on its clocks.
    At(Clocks),
}

/// One use of a barrier, open until all participants have arrived, then
/// leaving until the last has left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Episode {
    /// Serial number, over all barriers.
    pub serial: u64,
    /// In order of arrival.
    pub members: Vec<Member>,
    /// The barrier's own number of the round, as it was read or follows from
    /// the round before; `None` if the barrier does not tell.
    pub round: Option<u32>,
    /// It begins just where the one before was complete.
    pub sure: bool,
    /// Participants whose arrival was not seen: before watching began, or lost.
    pub unseen: u32,
    /// Someone is in it who may belong to another: it cannot be complete.
    pub doubtful: bool,
    /// Who began the parallel region in which it is, if that is known.
    pub begun: Option<Begun>,
    /// The region ends with it.
    pub ends_region: bool,
    /// What whoever began the region had worked before, alone.
    pub alone: Option<Alone>,
    /// Members that are not known to have left; counted once it is full.
    pub inside: usize,
    /// From where it was called; known once it is full.
    pub site: Option<SiteId>,
}

impl Episode {
    /// Whether its first member had arrived by then (ns), and not right after
    /// a barrier that it was not seen to enter.
    pub fn was_begun_before(&self, time_ns: Option<u64>) -> bool {
        self.members.first().is_some_and(|first| {
            let before = first.since.map(|since| since.before);
            before != Some(Before::Unknown) && Some(first.arrived.time_ns) < time_ns
        })
    }

    /// What its members have been in, once it is full.
    pub fn was(&self) -> Option<Before> {
        let (site, (_, last_ns)) = self.site.zip(self.span())?;
        Some(Before::Episode { last_ns, site })
    }

    /// First arrival F and last arrival L, ns; `None` without members.
    pub fn span(&self) -> Option<(u64, u64)> {
        let times = || self.members.iter().map(|member| member.arrived.time_ns);
        Some((times().min()?, times().max()?))
    }
}
