//! Barriers at which threads wait and nothing happens, as in a hang. Whether it is a hang depends
//! on what the missing threads do, which no event tells.

use std::collections::BTreeMap;

use super::{
    Model,
    barrier::Barrier,
    episode::Episode,
    ids::{BarrierId, PlaceId, ThreadId},
};
use crate::event::Kind;

/// Barriers that are reported, at most: those that have stood still for longest.
const MOST: usize = 16;

/// Members that are reported for each of these barriers, at most.
const MOST_MEMBERS: usize = 1024;

/// A barrier with waiting threads at which no thread has arrived for long. All may have arrived: it
/// is a standstill as well if no thread leaves then, as when a waiting OpenMP thread has been given
/// a task that does not end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Still {
    /// The time at which the last thread arrived, ns.
    pub since_ns: u64,
    /// The barrier.
    pub barrier: BarrierId,
    /// Serial number of the episode, over all barriers.
    pub episode: u64,
}

/// A change at a barrier since it was found to stand still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Since {
    /// Nothing has happened.
    Still,
    /// A thread has arrived, or the threads have left.
    Moved,
    /// The episode was given up: a waiting thread has ended, or something was not seen.
    Lost,
}

/// Facts about a barrier that stands still.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StillBarrier {
    /// The process whose memory holds the barrier (0 if several share it), and its address.
    pub key: (u32, u64),
    /// How the barrier was recognised.
    pub kind: Kind,
    /// Number of participants, if known.
    pub count: Option<u32>,
    /// Complete episodes.
    pub episodes: u64,
    /// Threads that ever arrived there, sorted by row, at most [`MOST_MEMBERS`]. Threads that share
    /// the last of [`MAX_ROWS`] rows are left out: they cannot be told apart.
    pub members: Vec<Member>,
    /// Participants that have arrived unseen.
    pub unseen: u32,
    /// Whether all have arrived and none has left. Then no member has an arrival time: only a look
    /// at the threads tells which of them are still there.
    pub full: bool,
    /// The time at which the last thread arrived, ns.
    pub heard_ns: u64,
    /// Whether some events were not seen, so that it is uncertain which threads have arrived.
    pub unsure: bool,
}

/// A thread that has arrived at the barrier at some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// The thread.
    pub row: ThreadId,
    /// The time at which the thread arrived in the episode that stands still, ns; `None` if it did
    /// not.
    pub arrived_ns: Option<u64>,
    /// The place from which the thread arrived last, if still known.
    pub place: Option<PlaceId>,
}

/// The episode in which threads wait: the open one, or a full one that no thread has left.
fn standing(barrier: &Barrier) -> Option<&Episode> {
    if !barrier.open.members.is_empty() {
        return Some(&barrier.open);
    }
    let full = barrier.leaving.last();
    full.filter(|full| full.serial == barrier.last_serial && full.inside == full.members.len())
}

impl Model {
    /// Barriers with waiting threads at which no thread has arrived for at least `limit_ns`, those
    /// with the longest standstill first. Empty while the probes are off, since missing threads may
    /// have arrived unseen. Threads that an OpenMP runtime keeps for its next parallel region do
    /// not count: they are in no episode, or in one that the thread which began the region has
    /// left.
    pub fn standing_still(&self, now_ns: u64, limit_ns: u64) -> Vec<Still> {
        if self.turns.is_off() {
            return Vec::new();
        }
        let all = (0..).map(BarrierId).zip(self.barriers.all());
        let long = all.filter(|(_, barrier)| now_ns.saturating_sub(barrier.heard_ns) >= limit_ns);
        let mut still: Vec<Still> = long
            .filter_map(|(id, barrier)| {
                Some(Still {
                    since_ns: barrier.heard_ns,
                    barrier: id,
                    episode: standing(barrier)?.serial,
                })
            })
            .collect();
        still.sort_unstable();
        still.truncate(MOST);
        still
    }

    /// Whether a thread has arrived at the barrier since.
    pub fn has_arrivals_since(&self, still: &Still) -> bool {
        let barrier = self.barriers.all().get(still.barrier.index());
        barrier.is_some_and(|barrier| barrier.heard_ns > still.since_ns)
    }

    /// The change at the barrier since it was found to stand still.
    pub fn since(&self, still: &Still) -> Since {
        let Some(barrier) = self.barriers.all().get(still.barrier.index()) else {
            return Since::Lost;
        };
        let stands = standing(barrier).is_some_and(|episode| episode.serial == still.episode);
        // An episode that has filled meanwhile counts as moved, whether or not threads leave it.
        if barrier.heard_ns > still.since_ns {
            Since::Moved
        } else if stands {
            Since::Still
        } else if barrier.last_serial == still.episode {
            Since::Moved
        } else {
            Since::Lost
        }
    }

    /// The facts about the barrier.
    pub fn known(&self, still: &Still) -> StillBarrier {
        let barrier = &self.barriers.all()[still.barrier.index()];
        let shared = self.threads.shared();
        let mut members: BTreeMap<ThreadId, Member> = BTreeMap::new();
        for row in barrier.ever.iter().filter(|row| Some(*row) != shared) {
            let member = Member {
                row,
                arrived_ns: None,
                place: None,
            };
            members.insert(row, member);
        }
        let last = barrier.last_members.iter().zip(&barrier.last_places);
        for (row, place) in last {
            if let Some(member) = members.get_mut(row) {
                member.place = Some(*place);
            }
        }
        let open: &Episode = &barrier.open;
        for arrived in &open.members {
            if let Some(member) = members.get_mut(&arrived.row) {
                member.arrived_ns = Some(arrived.arrived.time_ns);
                member.place = Some(arrived.place);
            }
        }
        // Keep first the threads that are there now, then those of the last complete episode.
        let mut members: Vec<Member> = members.into_values().collect();
        members.sort_by_key(|member| {
            (
                member.arrived_ns.is_none(),
                member.place.is_none(),
                member.row,
            )
        });
        members.truncate(MOST_MEMBERS);
        members.sort_by_key(|member| member.row);
        StillBarrier {
            key: barrier.key,
            kind: barrier.kind,
            count: barrier.count,
            episodes: barrier.episodes,
            members,
            unseen: open.unseen,
            full: open.members.is_empty(),
            heard_ns: barrier.heard_ns,
            unsure: open.doubtful || self.totals.lost > 0,
        }
    }
}
