//! Kinds of locks.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The kind of object that a thread waits for, other than a barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum LockKind {
    /// A mutex.
    Mutex,
    /// A lock that readers share.
    RwLock,
    /// A semaphore.
    Semaphore,
    /// A lock of the C library itself, for example in its allocator or in a stream.
    Library,
}

impl LockKind {
    /// The name in reports.
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
