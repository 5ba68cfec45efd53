//! Barrier objects: which episode an arrival belongs to.

use rustc_hash::FxHashMap;

use super::{
    episode::Episode,
    ids::{BarrierId, PlaceId, ThreadId},
    rows::Rows,
};
use crate::event::{Kind, Recognition, Round};

/// Barriers kept apart. A program that makes new ones for ever reuses the
/// entries of those that have been silent for long.
pub const MAX_BARRIERS: usize = 4096;

/// A barrier takes no more participants than this, and glibc's counters start
/// again from 0 after the last whole round below it (nptl/internaltypes.h,
/// `BARRIER_IN_THRESHOLD`).
const THRESHOLD: u32 = u32::MAX / 2;

/// A number of participants that a barrier can have; with any other it cannot
/// be initialised.
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

/// How many rounds a number is behind another, which may be across the start
/// from 0: about the whole way round if it is ahead.
pub const fn rounds_behind(number: u32, expected: u32, count: u32) -> u32 {
    let whole = (THRESHOLD - THRESHOLD % count) as u64;
    wrapped(expected as u64 + whole - number as u64, count) / count
}

/// The round that runs according to a barrier's memory, and how many have
/// arrived in it: with more threads than the barrier takes, one may look when
/// a round is full but not yet turned over.
pub const fn running_round(read: Round, count: u32) -> (u32, u32) {
    let arrived = read.arrived % count;
    let full = read.arrived - arrived;
    (wrapped(read.number as u64 + full as u64, count), arrived)
}

/// One barrier object.
#[derive(Clone, Debug)]
pub struct Barrier {
    /// The process whose memory it lives in, 0 if several share it, and where:
    /// see [`crate::event::SPACE`].
    pub key: (u32, u64),
    /// How it was recognised.
    pub kind: Kind,
    /// What it was recognised by, if nobody calls it a barrier.
    pub recognised: Option<Recognition>,
    /// Number of participants, n, if known.
    pub count: Option<u32>,
    /// Complete episodes.
    pub episodes: u64,
    /// The episode that fills.
    pub open: Episode,
    /// Full episodes that not everyone is known to have left.
    pub leaving: Vec<Episode>,
    /// Serial number of the last episode before it was initialised.
    pub before: u64,
    /// Serial number of the last complete episode.
    pub last_serial: u64,
    /// Who took part in it.
    pub last_members: Vec<ThreadId>,
    /// From where each of them came, in the same order.
    pub last_places: Vec<PlaceId>,
    /// Who has ever been there.
    pub ever: Rows,
    /// When a thread last arrived, ns; 0 before the first.
    pub heard_ns: u64,
    /// Which one it is of all there have been: its entry may have been
    /// another's before.
    pub number: u64,
    /// Who began the parallel region whose threads meet here, if they have met before.
    pub master: Option<ThreadId>,
    /// It was used again since the search for an entry to give up came by.
    pub recent: bool,
}

/// All barriers.
#[derive(Debug, Default)]
pub struct Barriers {
    by_key: FxHashMap<(u32, u64), BarrierId>,
    all: Vec<Barrier>,
    /// Where the search for an entry to give up goes on.
    hand: usize,
    /// How many there have been.
    pub seen: u64,
}

impl Barriers {
    /// All that are kept, by [`BarrierId`].
    pub fn all(&self) -> &[Barrier] {
        &self.all
    }

    /// The ids of all that are kept.
    pub fn ids(&self) -> impl Iterator<Item = BarrierId> + use<> {
        (0..self.all.len()).map(id)
    }

    /// One of them.
    pub fn get(&mut self, id: BarrierId) -> &mut Barrier {
        &mut self.all[id.index()]
    }

    /// The id of a known barrier.
    pub fn find(&self, key: (u32, u64)) -> Option<BarrierId> {
        self.by_key.get(&key).copied()
    }

    /// The barrier at an address, or one that gives up its entry to it: the
    /// caller must settle that one's episodes first, and gets its id.
    pub fn entry(&mut self, key: (u32, u64)) -> Entry {
        if let Some(id) = self.find(key) {
            return Entry::Known(id);
        }
        if self.all.len() < MAX_BARRIERS {
            return Entry::Free;
        }
        // Second chance: the next one at which nobody waits and that was not
        // used since we came by last. That is cheap however many there are.
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

    /// All addresses of a process mean something else from here on; what is kept
    /// stays.
    pub fn forget(&mut self, process: u32) {
        self.by_key.retain(|(owner, _), _| *owner != process);
    }

    /// Puts a barrier into a new entry or into that of an old one.
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

/// What [`Barriers::entry`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// The barrier is known.
    Known(BarrierId),
    /// It is new and there is room.
    Free,
    /// It is new and there is none: this entry has been silent for long.
    Taken(BarrierId),
}
