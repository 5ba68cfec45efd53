//! One use of a barrier.

use super::{
    away::Work,
    cost::Paid,
    efficiency::Chain,
    ids::{BarrierId, PlaceId, SiteId, ThreadId},
    parts::{Alone, Before, Begun, Since},
};
use crate::event::{Clocks, Reading, Tid};

/// A thread's seat: a place in an episode of a barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seat {
    /// The barrier.
    pub barrier: BarrierId,
    /// Serial number of the episode.
    pub episode: u64,
    /// Index in the episode's members.
    pub index: usize,
    /// The episode that the thread's next work will follow; `None` while the episode is open.
    pub before: Option<Before>,
}

/// One participant of an episode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The thread.
    pub tid: Tid,
    /// The thread's row.
    pub row: ThreadId,
    /// The place from which it called.
    pub place: PlaceId,
    /// The time at which it arrived, `a_i`; from which it waited, if it told that (see
    /// [`super::apart`]).
    pub arrived: Clocks,
    /// Whether it has told that it waits.
    pub awaits: bool,
    /// Whether it did not wait yet when all had arrived, at a barrier where threads tell that.
    pub overlaps: bool,
    /// The time at which its work before the arrival began, if known.
    pub since: Option<Since>,
    /// Whether and when it left, `d_i`.
    pub left: Left,
    /// The thread's place and path for the efficiencies.
    pub chain: Chain,
    /// Counter values for its work, if anything is counted.
    pub counts: Option<Reading>,
    /// The thread's time off its CPU, if that was seen.
    pub away: Option<Box<Work>>,
    /// The probes' cost to the thread since its previous arrival, including this arrival.
    pub paid: Paid,
    /// How long a fixed piece of work took on its CPU just before, ns, if that was measured.
    pub speed_ns: Option<u32>,
}

/// The departure of a member, as far as known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// No departure is known yet.
    NotYet,
    /// The thread left at an unknown time.
    Unseen,
    /// The thread's clocks at its departure.
    At(Clocks),
}

/// One use of a barrier: open until all participants have arrived, then leaving until the last one
/// has left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Episode {
    /// Serial number, over all barriers.
    pub serial: u64,
    /// Members in order of arrival.
    pub members: Vec<Member>,
    /// The barrier's own round number, read from memory or derived from the previous round; `None`
    /// if the barrier has no number.
    pub round: Option<u32>,
    /// Whether the episode began exactly where a complete one ended.
    pub sure: bool,
    /// Participants that arrived unseen, before watching began or in lost events.
    pub unseen: u32,
    /// Whether some member may belong to another episode; such an episode never counts as complete.
    pub doubtful: bool,
    /// The member that began the surrounding parallel region, if known.
    pub begun: Option<Begun>,
    /// Whether the region ends with this episode.
    pub ends_region: bool,
    /// The work of the member in `begun` alone before the region.
    pub alone: Option<Alone>,
    /// Members not known to have left; set when the episode is full.
    pub inside: usize,
    /// The places from which the episode was called; set when the episode is full.
    pub site: Option<SiteId>,
}

impl Episode {
    /// Whether the first member had arrived before `time_ns`, and not directly after a barrier that
    /// it was not seen to enter.
    pub fn was_begun_before(&self, time_ns: Option<u64>) -> bool {
        self.members.first().is_some_and(|first| {
            let before = first.since.map(|since| since.before);
            before != Some(Before::Unknown) && Some(first.arrived.time_ns) < time_ns
        })
    }

    /// The origin of the members' next work; `None` until the episode is full.
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
