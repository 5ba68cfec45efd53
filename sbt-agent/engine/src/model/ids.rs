//! Numbers of what the model keeps apart.

use serde::{Deserialize, Serialize};

/// A barrier, in the order of first appearance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BarrierId(pub u32);

impl BarrierId {
    /// Its place in the table of barriers.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// One place in the program that calls a barrier: a source line with its chain
/// of callers, however many addresses the compiler has made of it. Numbered by
/// whoever resolves addresses; the model only compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PlaceId(pub u32);

/// A site: the set of places from which the threads of an episode called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SiteId(pub u32);

impl SiteId {
    /// Its place in the table of sites.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A row of the thread table, in the order of first appearance.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct ThreadId(pub u32);

impl ThreadId {
    /// Its place in a table of threads.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A chain of functions that called each other, by number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChainId(pub u32);

/// More rows than this are not kept apart: later threads share the last one.
/// So memory does not grow with a program that starts threads for ever.
pub const MAX_ROWS: usize = 4096;
