//! Locks that threads waited for.

use serde::{Deserialize, Serialize};

use super::{
    LockReportKind,
    place_names::{name, others},
};
use crate::{
    model::ids::PlaceId,
    place::{LockKind, Place, printable},
};

/// Facts about a lock.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FoundLock {
    /// Address of the futex in its process.
    pub address: u64,
    /// The process of the futex; `None` for the combined locks of ended processes.
    pub pid: Option<u32>,
    /// The kind of lock.
    pub kind: LockKind,
    /// From where a thread last waited for the lock, if the source said so.
    pub place: Option<PlaceId>,
    /// Number of waits that have ended.
    pub waits: u64,
    /// Sum of these waits, ns.
    pub total_ns: u64,
    /// The longest wait, ns.
    pub max_ns: u64,
    /// The largest number of threads that waited at the same time.
    pub waiters_max: u64,
    /// The thread that held the lock when a thread last began to wait for it, if known.
    pub holder: Option<u32>,
}

/// A lock that threads waited for.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LockReport {
    /// Address of the futex in its process, hexadecimal. For a mutex this is the mutex's address.
    pub address: String,
    /// The process of the futex, as in `processes`; null for locks of ended processes, which are
    /// combined by kind and site.
    pub pid: Option<u32>,
    /// The kind of lock.
    pub kind: LockReportKind,
    /// From where a thread recently waited for the lock, in the notation of reports.
    pub site: Option<String>,
    /// The function of that place.
    pub function: Option<String>,
    /// The source file of that place.
    pub file: Option<String>,
    /// The line of that place.
    pub line: Option<u32>,
    /// Number of waits in the kernel that have ended. A thread that gets the lock late may have
    /// slept several times.
    pub waits: u64,
    /// Sum of these waits.
    pub total_ns: u64,
    /// The longest wait.
    pub max_ns: u64,
    /// The mean wait; null if no wait has ended.
    pub mean_ns: Option<u64>,
    /// The largest number of threads that waited at the same time.
    pub waiters_max: u64,
    /// The thread that held the lock when a thread last began to wait for it: an id in `threads`.
    /// Known for mutexes of glibc only, and only if the holder was alive when it was looked up.
    pub holder: Option<u32>,
}

impl LockReport {
    /// The name of the lock: from where threads wait for it, or else its address.
    pub fn called(&self) -> String {
        self.site.clone().unwrap_or_else(|| self.address.clone())
    }
}

/// Reports on locks, by descending waiting time.
pub fn reports(found: &[FoundLock], places: &[&Place]) -> Vec<LockReport> {
    let mut found: Vec<&FoundLock> = found.iter().collect();
    found.sort_by_key(|lock| (std::cmp::Reverse(lock.total_ns), lock.address));
    found.iter().map(|lock| report(lock, places)).collect()
}

fn report(lock: &FoundLock, places: &[&Place]) -> LockReport {
    let place = lock
        .place
        .and_then(|place| places.get(place.0 as usize).copied());
    let others = place.map_or_else(Vec::new, |place| others(&[place], places));
    let frame = place.and_then(|place| place.frames.get(place.naming_frame(&others)));
    LockReport {
        address: format!("{:#x}", lock.address),
        pid: lock.pid,
        kind: lock.kind.into(),
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
