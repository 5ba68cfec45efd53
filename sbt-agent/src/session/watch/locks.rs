//! Contended locks: combines the kernel side's counts by futex with what the code of the processes
//! says about each futex.

use rustc_hash::FxHashMap;
use sbt_common::{Futex, Lock};

use crate::source::abilities;
use sbt_engine::{
    event::CallersId, model::ids::PlaceId, place::LockKind, report::locks::FoundLock,
};
use sbt_program::process;

/// The interval between two reads of the counts, ns.
const READ_EVERY_NS: u64 = 1_000_000_000;

/// The bits of a glibc mutex's word that are 0 while the mutex is free; the other bits are
/// `FUTEX_WAITERS` and `FUTEX_OWNER_DIED`.
const HELD: u32 = 0x3fff_ffff;

/// A futex that threads wait on.
#[derive(Clone, Debug, Default)]
struct KnownFutex {
    kind: Option<LockKind>,
    place: Option<PlaceId>,
    /// The counts before the last reset of the kernel's counts.
    before: Lock,
    /// The kernel's counts since then.
    now: Lock,
    holder: Option<u32>,
}

/// A futex: the process and the address in it.
type At = (u32, u64);

/// The most kinds and places of locks kept from processes and programs that have ended.
const MAX_GONE: usize = 4096;

/// All locks of one run.
#[derive(Debug, Default)]
pub struct Locks {
    /// The process that 0 stands for, the number of an unknown process.
    target: u32,
    /// Whether futexes were ever watched.
    watched: bool,
    read_ns: u64,
    callers: FxHashMap<CallersId, Box<[u64]>>,
    known: FxHashMap<At, KnownFutex>,
    /// Locks of programs that have ended, summed by kind and place; the address is that of the
    /// first lock.
    gone: FxHashMap<(LockKind, Option<PlaceId>), (u64, KnownFutex)>,
    /// Waits that the kernel could not count for any futex, because its table was full.
    unlisted: u64,
    /// Waits on locks for which there was no room in `gone`.
    dropped: u64,
    /// Waits in programs that have ended, on futexes of unknown purpose.
    undecided: u64,
}

impl KnownFutex {
    /// Whether the purpose of the futex is known: a lock, or something else.
    const fn is_decided(&self) -> bool {
        self.kind.is_some() || self.place.is_some()
    }
}

impl Locks {
    /// The locks of `target` and its descendants.
    pub fn new(target: u32) -> Self {
        Self {
            target,
            ..Self::default()
        }
    }

    const fn at(&self, (process, address): At) -> At {
        (if process == 0 { self.target } else { process }, address)
    }

    /// Marks that futexes are being watched from now on.
    pub const fn watch(&mut self) {
        self.watched = true;
    }

    /// Takes in the addresses of a chain of callers that is new.
    pub fn know(&mut self, callers: CallersId, addresses: &[u64]) {
        if self.watched {
            self.callers.insert(callers, addresses.into());
        }
    }

    /// The addresses of a chain of callers, innermost first; `None` if they are unknown.
    pub fn addresses(&self, callers: CallersId) -> Option<&[u64]> {
        self.callers.get(&callers).map(AsRef::as_ref)
    }

    /// Threads wait on the futex `at`, for a lock of this kind at this place.
    pub fn found(&mut self, at: At, (kind, place): (Option<LockKind>, Option<PlaceId>)) {
        let at = self.at(at);
        let known = self.known.entry(at).or_default();
        known.kind = kind.or(known.kind);
        known.place = place.or(known.place);
    }

    /// Reads the counts if [`READ_EVERY_NS`] has passed since the last read.
    pub fn tick(&mut self, now_ns: u64, counts: &dyn abilities::Locks) {
        if now_ns.saturating_sub(self.read_ns) >= READ_EVERY_NS {
            self.read_ns = now_ns;
            self.read(counts);
        }
    }

    /// Reads the counts.
    pub fn read(&mut self, counts: &dyn abilities::Locks) {
        if !self.watched {
            return;
        }
        let Ok((locks, unlisted)) = counts.locks() else {
            return;
        };
        self.unlisted = unlisted;
        for (
            Futex {
                process, address, ..
            },
            lock,
        ) in locks
        {
            let at = self.at((process, address));
            let known = self.known.entry(at).or_default();
            // The holder can only have become known with a new wait.
            if lock.waits != known.now.waits || lock.waiting > 0 {
                known.holder = holder(&lock, at.0);
            }
            // The kernel has dropped the entry and counted again from zero.
            if lock.waits < known.now.waits {
                known.before = sum(&known.before, &known.now);
            }
            known.now = lock;
        }
    }

    /// Keeps the counts so far: the kernel is about to count from zero.
    pub fn begin_anew(&mut self) {
        for known in self.known.values_mut() {
            known.before = sum(&known.before, &known.now);
            known.now = Lock::default();
        }
    }

    /// Puts aside the locks of a process that has ended or executed another program: its addresses
    /// are no longer valid.
    pub fn leave(&mut self, process: u32, counts: &dyn abilities::Locks) -> anyhow::Result<()> {
        let (process, _) = self.at((process, 0));
        // The first wait on each futex is an event, so a process with waits is in `known`.
        if !self.known.keys().any(|(of, _)| *of == process) {
            return Ok(());
        }
        self.read(counts);
        self.put_by(process);
        counts.clear_locks(Some(process))
    }

    /// Moves the counts of a process into `gone`.
    fn put_by(&mut self, process: u32) {
        let gone = self.known.extract_if(|(of, _), _| *of == process);
        for ((_, address), new) in gone {
            let Some(kind) = new.kind else {
                if !new.is_decided() {
                    self.undecided += new.before.waits + new.now.waits;
                }
                continue;
            };
            let key = (kind, new.place);
            if self.gone.len() >= MAX_GONE && !self.gone.contains_key(&key) {
                self.dropped += new.before.waits + new.now.waits;
                continue;
            }
            let (_, known) = self
                .gone
                .entry(key)
                .or_insert_with(|| (address, KnownFutex::default()));
            *known = KnownFutex {
                kind: Some(kind),
                place: new.place,
                before: sum(&known.before, &sum(&new.before, &new.now)),
                now: Lock::default(),
                holder: new.holder,
            };
        }
    }

    /// The number of waits so far.
    pub fn waits(&self) -> u64 {
        let gone = self.gone.values().map(|(_, known)| known);
        let all = self.known.values().chain(gone);
        all.map(|known| known.before.waits + known.now.waits).sum()
    }

    /// The locks to report; `None` if futexes were never watched.
    pub fn report(&self) -> Option<Vec<FoundLock>> {
        let known = self.known.iter();
        let gone = self.gone.values();
        let all = known
            .map(|((pid, address), known)| (Some(*pid), address, known))
            .chain(gone.map(|(address, known)| (None, address, known)));
        let found = all.filter_map(|(pid, address, known)| {
            let counted = sum(&known.before, &known.now);
            (counted.waits > 0 || counted.waiting > 0).then_some(FoundLock {
                address: *address,
                pid,
                kind: known.kind?,
                place: known.place,
                waits: counted.waits,
                total_ns: counted.total_ns,
                max_ns: counted.max_ns,
                waiters_max: counted.most,
                holder: known.holder.filter(|_| known.kind == Some(LockKind::Mutex)),
            })
        });
        self.watched.then(|| found.collect())
    }

    /// If events were lost: the note on the waits that may have been for unlisted locks.
    pub fn note_of_loss(&self) -> Option<String> {
        let known = self.known.values().filter(|known| !known.is_decided());
        let waits: u64 = known
            .map(|known| known.before.waits + known.now.waits)
            .sum();
        let waits = waits + self.undecided;
        (waits > 0).then(|| {
            format!(
                "{waits} waits on futexes are not counted among the locks: events were lost, so \
                 the locks that they waited for are unknown"
            )
        })
    }

    /// The note for the user.
    pub fn note(&self) -> Option<String> {
        let unlisted = self.unlisted + self.dropped;
        (unlisted > 0).then(|| {
            format!(
                "{} waits on futexes are not counted among the locks: the program waited on more \
                 than {} different futexes",
                unlisted,
                sbt_common::MAX_LOCKS
            )
        })
    }
}

/// The sum of the counts before and after a reset.
fn sum(before: &Lock, now: &Lock) -> Lock {
    Lock {
        waits: before.waits + now.waits,
        total_ns: before.total_ns + now.total_ns,
        max_ns: before.max_ns.max(now.max_ns),
        most: before.most.max(now.most),
        ..*now
    }
}

/// The thread that held a glibc mutex when a thread last began to wait for it, if the holder still
/// lives.
fn holder(lock: &Lock, pid: u32) -> Option<u32> {
    let is_held = lock.word & HELD != 0;
    (is_held && process::has_thread(pid, lock.owner)).then_some(lock.owner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(waits: u64, total_ns: u64, max_ns: u64) -> Lock {
        Lock {
            waits,
            total_ns,
            max_ns,
            most: waits,
            ..Lock::default()
        }
    }

    fn known(now: Lock) -> KnownFutex {
        KnownFutex {
            kind: Some(LockKind::Mutex),
            now,
            ..KnownFutex::default()
        }
    }

    #[test]
    fn what_nobody_watched_is_unknown() {
        let mut locks = Locks::default();
        assert!(locks.report().is_none());
        locks.watch();
        assert!(locks.report().is_some_and(|found| found.is_empty()));
    }

    #[test]
    fn counts_go_on_where_the_kernel_begins_anew() {
        let mut locks = Locks::default();
        locks.watch();
        locks.known.insert((7, 64), known(counted(3, 300, 200)));
        locks.begin_anew();
        locks.known.get_mut(&(7, 64)).unwrap().now = counted(2, 500, 400);
        locks.put_by(7);
        // Add a lock at the same address in another program.
        locks.known.insert((7, 64), known(counted(1, 10, 10)));
        let mut found: Vec<_> = locks
            .report()
            .unwrap()
            .iter()
            .map(|found| (found.waits, found.total_ns, found.max_ns, found.waiters_max))
            .collect();
        found.sort_unstable();
        assert_eq!(found, [(1, 10, 10, 1), (5, 800, 400, 3)]);
    }

    #[test]
    fn processes_without_end_are_put_together_by_place() {
        let mut locks = Locks::default();
        locks.watch();
        let mut at = |process, place| {
            let lock = KnownFutex {
                place: Some(PlaceId(place)),
                ..known(counted(1, 10, 10))
            };
            locks.known.insert((process, u64::from(process)), lock);
            locks.put_by(process);
        };
        for process in 1..=1000 {
            at(process, process % 2);
        }
        let mut found: Vec<_> = locks.report().unwrap();
        found.sort_by_key(|found| found.place);
        let waits: Vec<_> = found
            .iter()
            .map(|found| (found.waits, found.total_ns))
            .collect();
        assert_eq!(waits, [(500, 5000), (500, 5000)]);
        assert_eq!(locks.note(), None);
        // The number of places is bounded, too.
        for place in 0..10_000 {
            let lock = KnownFutex {
                place: Some(PlaceId(place)),
                ..known(counted(1, 10, 10))
            };
            locks.known.insert((7, 64), lock);
            locks.put_by(7);
        }
        assert_eq!(locks.gone.len(), MAX_GONE);
        assert!(locks.note().is_some());
    }

    #[test]
    fn what_is_no_lock_is_not_reported() {
        let mut locks = Locks::default();
        locks.watch();
        let other = KnownFutex {
            kind: None,
            ..known(counted(9, 9, 9))
        };
        locks.known.insert((7, 64), other);
        assert!(locks.report().unwrap().is_empty());
    }

    #[test]
    fn waits_of_which_nothing_is_known_are_counted() {
        let mut locks = Locks::default();
        locks.watch();
        assert_eq!(locks.note_of_loss(), None);
        // The first futex is a lock, the second is known not to be a lock.
        locks.known.insert((7, 64), known(counted(3, 30, 10)));
        let barrier = KnownFutex {
            kind: None,
            place: Some(PlaceId(1)),
            ..known(counted(9, 9, 9))
        };
        locks.known.insert((7, 128), barrier);
        assert_eq!(locks.note_of_loss(), None);
        for (process, waits) in [(7, 5), (8, 2)] {
            let unknown = KnownFutex {
                kind: None,
                ..known(counted(waits, 9, 9))
            };
            locks.known.insert((process, 192), unknown);
        }
        let has = |locks: &Locks, words| locks.note_of_loss().unwrap().starts_with(words);
        assert!(has(&locks, "7 waits"));
        // The program has ended.
        locks.put_by(7);
        assert!(has(&locks, "7 waits"));
        assert_eq!(locks.report().unwrap().len(), 1);
    }

    #[test]
    fn a_holder_is_a_thread_of_the_process() {
        let pid = std::process::id();
        let held = Lock {
            word: 2,
            owner: pid,
            ..Lock::default()
        };
        assert_eq!(holder(&held, pid), Some(pid));
        assert_eq!(holder(&Lock { word: 0, ..held }, pid), None);
        assert_eq!(holder(&Lock { owner: 0, ..held }, pid), None);
    }
}
