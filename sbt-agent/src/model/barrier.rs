//! Barrier objects: which episode an arrival belongs to.

use rustc_hash::FxHashMap;

use super::{episode::Episode, thread::ThreadId};
use crate::event::Kind;

/// A barrier, in the order of first appearance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BarrierId(pub u32);

impl BarrierId {
    /// Its place in the table of barriers.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Barriers kept apart. A program that makes new ones for ever reuses the
/// entries of those that have been silent longest.
pub const MAX_BARRIERS: usize = 4096;

/// One barrier object.
#[derive(Clone, Debug)]
pub struct Barrier {
    /// The process whose memory it lives in, and where.
    pub key: (u32, u64),
    /// How it was recognised.
    pub kind: Kind,
    /// Number of participants, n, if known.
    pub count: Option<u32>,
    /// Complete episodes.
    pub episodes: u64,
    /// The episode that fills.
    pub open: Episode,
    /// Full episodes that not everyone is known to have left.
    pub leaving: Vec<Episode>,
    /// Who took part in the last complete episode.
    pub last_members: Vec<ThreadId>,
    /// Where the episodes' boundaries lie is not certain: the barrier was in
    /// use before we came, or events were lost.
    pub uncertain: bool,
    /// When it was last heard of, ns.
    pub heard_ns: u64,
}

/// All barriers.
#[derive(Debug, Default)]
pub struct Barriers {
    by_key: FxHashMap<(u32, u64), BarrierId>,
    all: Vec<Barrier>,
    /// How many there have been.
    pub seen: u64,
}

impl Barriers {
    /// All that are kept, by [`BarrierId`].
    pub fn all(&self) -> &[Barrier] {
        &self.all
    }

    /// All, to change.
    pub fn all_mut(&mut self) -> &mut [Barrier] {
        &mut self.all
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
        let silent = (0u32..)
            .zip(&self.all)
            .filter(|(_, barrier)| barrier.open.members.is_empty())
            .min_by_key(|(_, barrier)| barrier.heard_ns)
            .map_or(0, |(index, _)| index);
        Entry::Taken(BarrierId(silent))
    }

    /// All addresses mean something else from here on; what is kept stays.
    pub fn forget(&mut self) {
        self.by_key.clear();
    }

    /// Puts a barrier into a new entry or into that of an old one.
    pub fn insert(&mut self, key: (u32, u64), kind: Kind, old: Option<BarrierId>) -> BarrierId {
        let barrier = Barrier {
            key,
            kind,
            count: None,
            episodes: 0,
            open: Episode::default(),
            leaving: Vec::new(),
            last_members: Vec::new(),
            uncertain: true,
            heard_ns: 0,
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
            BarrierId(u32::try_from(self.all.len() - 1).unwrap_or(u32::MAX))
        };
        self.by_key.insert(key, id);
        id
    }
}

/// What [`Barriers::entry`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// The barrier is known.
    Known(BarrierId),
    /// It is new and there is room.
    Free,
    /// It is new and there is none: this entry has been silent longest.
    Taken(BarrierId),
}
