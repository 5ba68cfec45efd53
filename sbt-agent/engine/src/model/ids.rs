//! Ids of the model's objects.

use serde::{Deserialize, Serialize};

/// A barrier, numbered in the order of first appearance; the number is reused when the barrier's
/// entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BarrierId(pub u32);

impl BarrierId {
    /// Index in the table of barriers.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A place in the program that calls a barrier: a source line with its chain of callers, even if
/// the compiler has made several addresses of it. The caller of the model assigns the numbers; the
/// model only compares them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PlaceId(pub u32);

/// A site: the set of places from which the threads of an episode called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SiteId(pub u32);

impl SiteId {
    /// Index in the table of sites.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A row of the thread table, numbered in the order of first appearance.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct ThreadId(pub u32);

impl ThreadId {
    /// Index in a table of threads.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Number of a chain of functions that called each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChainId(pub u32);

/// Rows of threads, at most: later threads share the last row. So memory stays bounded in a program
/// that keeps starting threads.
pub const MAX_ROWS: usize = 4096;
