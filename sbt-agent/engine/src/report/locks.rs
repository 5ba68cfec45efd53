//! Locks for which threads have waited.

use serde::{Deserialize, Serialize};

use super::Word;

use super::place_names::{name, others};
use crate::{
    model::ids::PlaceId,
    place::{LockKind, Place, printable},
};

/// What is known of a lock.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Found {
    /// Of the futex in its process.
    pub address: u64,
    /// That process; `None` for those of processes that have ended, put together.
    pub pid: Option<u32>,
    /// What it is.
    pub kind: LockKind,
    /// From where a thread waited for it last, as far as that was told.
    pub place: Option<PlaceId>,
    /// Waits that have ended.
    pub waits: u64,
    /// How long they took, ns.
    pub total_ns: u64,
    /// The longest, ns.
    pub max_ns: u64,
    /// How many threads waited at a time, at most.
    pub waiters_max: u64,
    /// Who had it when somebody came to wait last, if that is known.
    pub holder: Option<u32>,
}

/// A lock for which threads have waited.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LockReport {
    /// Of the futex in its process, hexadecimal: of a mutex it is the mutex's.
    pub address: String,
    /// That process, as in `processes`; null for those of processes that had ended,
    /// which are put together by kind and site.
    pub pid: Option<u32>,
    /// `mutex`; `rwlock`; `semaphore`; `libc` for one of the C library's own.
    #[serde(deserialize_with = "super::word::read")]
    pub kind: Word,
    /// From where a thread waited for it lately, as reports write it.
    pub site: Option<String>,
    /// The function there.
    pub function: Option<String>,
    /// Its source file.
    pub file: Option<String>,
    /// The line.
    pub line: Option<u32>,
    /// Waits in the kernel that have ended. A thread that gets the lock late may
    /// have slept several times.
    pub waits: u64,
    /// How long they took together.
    pub total_ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// On average; null if none has ended.
    pub mean_ns: Option<u64>,
    /// How many threads waited at a time, at most.
    pub waiters_max: u64,
    /// Who had it when somebody came to wait last: a thread id as in `threads`. Of
    /// mutexes of glibc only, and if that thread lived when it was looked up.
    pub holder: Option<u32>,
}

impl LockReport {
    /// What it is called: from where threads wait for it, else its address.
    pub fn called(&self) -> String {
        self.site.clone().unwrap_or_else(|| self.address.clone())
    }
}

/// The most time first.
pub fn reports(found: &[Found], places: &[&Place]) -> Vec<LockReport> {
    let mut found: Vec<&Found> = found.iter().collect();
    found.sort_by_key(|lock| (std::cmp::Reverse(lock.total_ns), lock.address));
    found.iter().map(|lock| report(lock, places)).collect()
}

fn report(lock: &Found, places: &[&Place]) -> LockReport {
    let place = lock
        .place
        .and_then(|place| places.get(place.0 as usize).copied());
    let others = place.map_or_else(Vec::new, |place| others(&[place], places));
    let frame = place.and_then(|place| place.frames.get(place.naming_frame(&others)));
    LockReport {
        address: format!("{:#x}", lock.address),
        pid: lock.pid,
        kind: lock.kind.name(),
        site: place.map(|place| name(place, &others)),
        function: frame
            .and_then(|frame| frame.function.as_deref())
            .map(printable),
        file: frame.and_then(|frame| frame.file.as_deref()).map(printable),
        line: frame.and_then(|frame| frame.line),
        waits: lock.waits,
        total_ns: lock.total_ns,
        max_ns: lock.max_ns,
        mean_ns: lock.total_ns.checked_div(lock.waits),
        waiters_max: lock.waiters_max,
        holder: lock.holder,
    }
}
