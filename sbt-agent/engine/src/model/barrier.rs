//! Barrier objects: which episode an arrival belongs to.

use rustc_hash::FxHashMap;

use super::{
    apart::Apart,
    episode::Episode,
    ids::{BarrierId, PlaceId, ThreadId},
    rows::Rows,
};
use crate::event::{Kind, Recognition, Round};

/// Barriers that are kept, at most. If a program makes more, new barriers reuse the entries of
/// barriers that have not been used for long.
pub const MAX_BARRIERS: usize = 4096;

/// The most participants of a barrier. glibc's counters restart from 0 after the last whole round
/// below this number (nptl/internaltypes.h, `BARRIER_IN_THRESHOLD`).
const THRESHOLD: u32 = u32::MAX / 2;

/// Returns `count` if a barrier can have so many participants; initialisation fails with any other
/// number.
pub const fn possible_count(count: u32) -> Option<u32> {
    if count > 0 && count <= THRESHOLD {
        Some(count)
    } else {
        None
    }
}

const fn wrapped(number: u64, count: u32) -> u32 {
    #[allow(clippy::cast_possible_truncation, reason = "less than the threshold")]
    let number = (number % (THRESHOLD - THRESHOLD % count) as u64) as u32;
    number
}

/// The number of the round after this one.
pub const fn round_after(number: u32, count: u32) -> u32 {
    wrapped(number as u64 + count as u64, count)
}

/// How many rounds `number` is behind `expected`, across the restart from 0 if need be. If it is
/// ahead, the result is close to the number of rounds between two restarts.
pub const fn rounds_behind(number: u32, expected: u32, count: u32) -> u32 {
    let whole = (THRESHOLD - THRESHOLD % count) as u64;
    wrapped(expected as u64 + whole - number as u64, count) / count
}

/// The number of the round that runs according to a barrier's memory, and how many threads have
/// arrived in it. If more threads use the barrier than it takes, the memory may show a full round
/// that has not turned over yet.
pub const fn running_round(read: Round, count: u32) -> (u32, u32) {
    let arrived = read.arrived % count;
    let full = read.arrived - arrived;
    (wrapped(read.number as u64 + full as u64, count), arrived)
}

/// One barrier object.
#[derive(Clone, Debug)]
pub struct Barrier {
    /// The process whose memory holds the barrier (0 if several share it), and its address: see
    /// [`crate::event::SPACE`].
    pub key: (u32, u64),
    /// How the barrier was recognised.
    pub kind: Kind,
    /// The evidence for the barrier, if the program calls no known barrier function.
    pub recognised: Option<Recognition>,
    /// Number of participants, n, if known.
    pub count: Option<u32>,
    /// Complete episodes.
    pub episodes: u64,
    /// The episode that is filling.
    pub open: Episode,
    /// Full episodes that some members are not known to have left.
    pub leaving: Vec<Episode>,
    /// Serial number of the newest episode when the barrier was last initialised or changed its
    /// count.
    pub before: u64,
    /// Serial number of the last complete episode.
    pub last_serial: u64,
    /// Participants of the last complete episode.
    pub last_members: Vec<ThreadId>,
    /// The places from which the `last_members` arrived, in the same order.
    pub last_places: Vec<PlaceId>,
    /// All threads that have ever arrived there.
    pub ever: Rows,
    /// The time at which a thread last arrived, ns; 0 before the first.
    pub heard_ns: u64,
    /// Number among all barriers ever seen; unlike the id it is never reused.
    pub number: u64,
    /// The thread that began the parallel region whose threads meet here; `None` before they first
    /// meet.
    pub master: Option<ThreadId>,
    /// Whether arriving and waiting are two calls.
    pub apart: Apart,
    /// Whether the barrier was used more than once since the search for a free entry last passed
    /// it.
    pub recent: bool,
}

/// All barriers.
#[derive(Debug, Default)]
pub struct Barriers {
    by_key: FxHashMap<(u32, u64), BarrierId>,
    all: Vec<Barrier>,
    /// The entry at which the search for a free entry goes on.
    hand: usize,
    /// Number of barriers ever seen.
    pub seen: u64,
}

impl Barriers {
    /// The kept barriers, by [`BarrierId`].
    pub fn all(&self) -> &[Barrier] {
        &self.all
    }

    /// The ids of the kept barriers.
    pub fn ids(&self) -> impl Iterator<Item = BarrierId> + use<> {
        (0..self.all.len()).map(id)
    }

    /// The barrier with this id.
    pub fn get(&mut self, id: BarrierId) -> &mut Barrier {
        &mut self.all[id.index()]
    }

    /// The id of a known barrier.
    pub fn find(&self, key: (u32, u64)) -> Option<BarrierId> {
        self.by_key.get(&key).copied()
    }

    /// Looks for the barrier at an address. If there is none and no room, this returns an entry to
    /// reuse, whose episodes the caller must settle first.
    pub fn entry(&mut self, key: (u32, u64)) -> Entry {
        if let Some(id) = self.find(key) {
            return Entry::Known(id);
        }
        if self.all.len() < MAX_BARRIERS {
            return Entry::Free;
        }
        // Second-chance search: take the next barrier without waiting threads that was not used
        // since the search last passed it. This is cheap however many barriers there are.
        for _ in 0..=2 * self.all.len() {
            let index = self.hand;
            self.hand = (index + 1) % self.all.len();
            let barrier = &mut self.all[index];
            let recent = std::mem::take(&mut barrier.recent);
            if !recent && barrier.open.members.is_empty() {
                return Entry::Taken(id(index));
            }
        }
        Entry::Taken(id(self.hand))
    }

    /// Forgets the addresses of a process, since they mean other objects from now on. The barriers
    /// stay in the table.
    pub fn forget(&mut self, process: u32) {
        self.by_key.retain(|(owner, _), _| *owner != process);
    }

    /// Adds a barrier, in the entry `old` if given.
    pub fn insert(&mut self, key: (u32, u64), kind: Kind, old: Option<BarrierId>) -> BarrierId {
        let barrier = Barrier {
            key,
            kind,
            recognised: None,
            count: None,
            episodes: 0,
            open: Episode::default(),
            leaving: Vec::new(),
            before: 0,
            last_serial: 0,
            last_members: Vec::new(),
            last_places: Vec::new(),
            ever: Rows::default(),
            heard_ns: 0,
            number: self.seen,
            master: None,
            apart: Apart::Unknown,
            recent: false,
        };
        self.seen += 1;
        let id = if let Some(id) = old {
            if self.by_key.get(&self.all[id.index()].key) == Some(&id) {
                self.by_key.remove(&self.all[id.index()].key);
            }
            self.all[id.index()] = barrier;
            id
        } else {
            self.all.push(barrier);
            id(self.all.len() - 1)
        };
        self.by_key.insert(key, id);
        id
    }
}

fn id(index: usize) -> BarrierId {
    BarrierId(u32::try_from(index).unwrap_or(u32::MAX))
}

/// The result of [`Barriers::entry`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// The barrier is known.
    Known(BarrierId),
    /// The barrier is new, and there is room for it.
    Free,
    /// The barrier is new, and takes the entry of this one, which has not been used for long.
    Taken(BarrierId),
}
