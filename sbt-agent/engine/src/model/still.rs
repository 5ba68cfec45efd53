//! Barriers at which threads wait and nothing happens: what a hang looks like from here.
//! Whether it is one depends on what the missing threads do, which no event tells.

use std::collections::BTreeMap;

use super::{
    Model,
    barrier::Barrier,
    episode::Episode,
    ids::{BarrierId, PlaceId, ThreadId},
};
use crate::event::Kind;

/// Barriers that are told at most, those that have stood still for longest.
const MOST: usize = 16;

/// Members that are told of one of them at most.
const MOST_MEMBERS: usize = 1024;

/// A barrier with threads that wait, to which nobody has come for long. All may have: that
/// nobody leaves then is as much of a standstill, as where a thread of OpenMP that waits has
/// been given a task that does not end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Still {
    /// Since when, ns.
    pub since_ns: u64,
    /// Which.
    pub barrier: BarrierId,
    /// Which of its episodes, over all barriers.
    pub episode: u64,
}

/// What has become of a barrier that stood still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Since {
    /// Nothing.
    Still,
    /// Somebody has come, or it was left.
    Moved,
    /// Its episode was given up: who waited there has ended, or not all was seen.
    Lost,
}

/// What is known of such a barrier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// The process in whose memory it lies, 0 if several share it, and where.
    pub key: (u32, u64),
    /// How it was recognised.
    pub kind: Kind,
    /// How many it waits for, if known.
    pub count: Option<u32>,
    /// Complete episodes.
    pub episodes: u64,
    /// All threads that were ever seen there, in the order of their rows; neither those
    /// beyond [`MAX_ROWS`], which cannot be told apart, nor more than so many.
    pub members: Vec<Member>,
    /// Participants that are there and were not seen to come.
    pub unseen: u32,
    /// All have come, and nobody has left: who is there indeed only a look tells, and no
    /// member is said to have arrived.
    pub full: bool,
    /// When somebody came last, ns.
    pub heard_ns: u64,
    /// Not all that happened was seen: who has come is not certain.
    pub unsure: bool,
}

/// A thread that was there some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Which.
    pub row: ThreadId,
    /// It has come to the episode that stands still: when, ns.
    pub arrived_ns: Option<u64>,
    /// From where it came last, if that is still known.
    pub place: Option<PlaceId>,
}

/// The episode in which threads wait: one that fills, or a full one that nobody has left.
fn standing(barrier: &Barrier) -> Option<&Episode> {
    if !barrier.open.members.is_empty() {
        return Some(&barrier.open);
    }
    let full = barrier.leaving.last();
    full.filter(|it| it.serial == barrier.last_serial && it.inside == it.members.len())
}

impl Model {
    /// Barriers with threads that wait, to which nobody has come for at least so long,
    /// the longest first. None while not all is seen: whoever is missing may have come.
    /// Nor threads that a runtime of OpenMP keeps for its next parallel region: they are
    /// in no episode, or one that the thread which began the region has left.
    pub fn standing_still(&self, now_ns: u64, limit_ns: u64) -> Vec<Still> {
        if self.turns.is_off() {
            return Vec::new();
        }
        let all = (0..).map(BarrierId).zip(self.barriers.all());
        let long = all.filter(|(_, it)| now_ns.saturating_sub(it.heard_ns) >= limit_ns);
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

    /// What has happened to it since.
    pub fn since(&self, still: &Still) -> Since {
        let Some(barrier) = self.barriers.all().get(still.barrier.index()) else {
            return Since::Lost;
        };
        let stands = standing(barrier).is_some_and(|it| it.serial == still.episode);
        // One that has filled meanwhile is news, whether or not it is left.
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

    /// What is known of it.
    pub fn known(&self, still: &Still) -> Known {
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
        // Who is there now matters most, then who was there last.
        let mut members: Vec<Member> = members.into_values().collect();
        members.sort_by_key(|it| (it.arrived_ns.is_none(), it.place.is_none(), it.row));
        members.truncate(MOST_MEMBERS);
        members.sort_by_key(|it| it.row);
        Known {
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
