//! What a place is where threads wait for something else than each other.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What threads wait for when it is not for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum LockKind {
    /// A mutex.
    Mutex,
    /// A lock that readers share.
    RwLock,
    /// A semaphore.
    Semaphore,
    /// One of the C library's own: of its allocator or a stream, say.
    Library,
}

impl LockKind {
    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mutex => "mutex",
            Self::RwLock => "rwlock",
            Self::Semaphore => "semaphore",
            Self::Library => "libc",
        }
    }
}

impl fmt::Display for LockKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
