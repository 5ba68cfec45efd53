//! glibc: `pthread_barrier_wait`, and its objects in memory, as they are read when threads hang:
//! bytes in, values out.
//!
//! Layouts are those of sysdeps/nptl and nptl in its source for x86-64. The version of glibc
//! ([`Version`]) decides which layout holds. Bytes that cannot be such an object give `None`.
//! `elf/layout.rs` tells whether a file is of glibc, and finds the functions by their names.

use sbt_common::layout;
use sbt_engine::{
    event::Kind,
    hang::scene::{Again, MutexKind},
};

use super::{
    MAX_THREADS, Object, Role, Runtime, Waiting, number,
    waits::{NO_BARRIER, of_c_library},
};

/// Departures are told by the return of the function.
pub static RUNTIME: Runtime = Runtime {
    name: "glibc",
    kind: Kind::Pthread,
    role: Role::CLibrary,
    barriers: None,
    layouts: &[layout::GLIBC],
    is_library: true,
    libraries: &["libc.so", "libc-", "libpthread", "ld-"],
    ways: &[],
    prefix: None,
    object: Some(|[arrived, round, count, shared]| Object {
        count,
        round,
        arrived,
        shared: shared != 0,
    }),
    rounds: Some(|count, round| round / count),
    language: None,
    is_barrier: NO_BARRIER,
    waits: of_c_library,
};

/// A version of glibc: major and minor number.
pub type Version = (u32, u32);

/// Since this version at the latest, `struct __pthread_mutex_s` has the layout parsed here.
const MUTEX_SINCE: Version = (2, 18);
/// Since this version, `struct pthread_barrier` has the layout parsed here.
const BARRIER_SINCE: Version = (2, 25);
/// Since this version, `struct __pthread_rwlock_arch_t` keeps the number of the writer that holds
/// the lock.
const RWLOCK_SINCE: Version = (2, 30);
/// Since these versions, `struct __pthread_cond_s` has the layout parsed here; the second lacks
/// `__g_refs`.
const CONDVAR_SINCE: Version = (2, 25);
const CONDVAR_SHORT_SINCE: Version = (2, 41);

/// The bits of a robust or PI mutex's futex word that hold the owner's number.
const OWNER: u32 = 0x3fff_ffff;
/// The bit of that word which says that the owner has died.
const OWNER_DIED: u32 = 0x4000_0000;

/// The state of a mutex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mutex {
    /// Kind of the mutex.
    pub kind: MutexKind,
    /// Whether several processes may use it.
    pub shared: bool,
    /// Whether a thread holds it.
    pub locked: bool,
    /// Number of the thread that holds it, in that thread's own pid namespace.
    pub owner: Option<u32>,
}

/// The length of a mutex, bytes.
pub const MUTEX: usize = 40;

/// Parses a mutex: `__lock`, `__count`, `__owner`, `__nusers`, `__kind`. An unknown version is
/// taken for 2.18 or later: nothing older runs on the kernels that sbt supports.
pub fn mutex(bytes: &[u8], version: Option<Version>) -> Option<Mutex> {
    if version.is_some_and(|version| version < MUTEX_SINCE) {
        return None;
    }
    let (lock, owner, kind) = (number(bytes, 0)?, number(bytes, 8)?, number(bytes, 16)?);
    let again = match kind & 3 {
        1 => Again::Counts,
        2 => Again::Fails,
        _ => Again::Hangs,
    };
    // Robust, PI, with a ceiling, shared, with elision, without elision.
    if kind & !(0x3 | 0x10 | 0x20 | 0x40 | 0x80 | 0x100 | 0x200) != 0 {
        return None;
    }
    let (robust, inherits) = (kind & 0x10 != 0, kind & 0x20 != 0);
    let (locked, owner) = if robust || inherits {
        (lock & (OWNER | OWNER_DIED) != 0, lock & OWNER)
    } else {
        // The word is 0, 1 or 2; with a ceiling it also holds the ceiling's bits.
        if kind & 0x40 == 0 && lock > 2 {
            return None;
        }
        (lock & 3 != 0, owner)
    };
    Some(Mutex {
        kind: MutexKind {
            again,
            robust,
            inherits,
        },
        shared: kind & 0x80 != 0,
        locked,
        owner: (locked && owner != 0 && owner <= OWNER).then_some(owner),
    })
}

/// The length of a glibc barrier, bytes.
pub const BARRIER: usize = 20;

/// Parses a glibc barrier: `in`, `current_round`, `count`, `shared`, `out`.
pub fn barrier(bytes: &[u8], version: Option<Version>) -> Option<Waiting> {
    if version.is_some_and(|version| version < BARRIER_SINCE) {
        return None;
    }
    let (entered, round) = (number(bytes, 0)?, number(bytes, 4)?);
    let (count, shared) = (number(bytes, 8)?, number(bytes, 12)?);
    let arrived = entered.wrapping_sub(round);
    let fits = (1..=MAX_THREADS).contains(&count) && arrived <= count && [0, 128].contains(&shared);
    fits.then_some(Waiting {
        count,
        arrived,
        shared: shared != 0,
    })
}

/// The state of a lock that readers share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RwLock {
    /// Number of the thread that holds it to write, in that thread's own pid namespace.
    pub writer: Option<u32>,
    /// How many threads hold it to read.
    pub readers: u32,
}

/// The length of a glibc rwlock, bytes.
pub const RWLOCK: usize = 56;

/// Flags in `__readers`; the number of readers begins above them.
const WRITE_PHASE: u32 = 1;
const WRITE_LOCKED: u32 = 2;
const READERS_SHIFT: u32 = 3;

/// Parses a rwlock: `__readers`, `__writers`, `__wrphase_futex`, `__writers_futex`, two words of
/// padding, `__cur_writer`, `__shared`.
pub fn rwlock(bytes: &[u8], version: Option<Version>) -> Option<RwLock> {
    if version? < RWLOCK_SINCE {
        return None;
    }
    let (readers, writer) = (number(bytes, 0)?, number(bytes, 24)?);
    let shared = number(bytes, 28)?;
    if shared > 1 || writer > OWNER || readers >> READERS_SHIFT > MAX_THREADS {
        return None;
    }
    let is_written = readers & WRITE_PHASE != 0 && readers & WRITE_LOCKED != 0;
    Some(RwLock {
        writer: (is_written && writer != 0).then_some(writer),
        // Readers counted while a thread writes are waiting.
        readers: if is_written {
            0
        } else {
            readers >> READERS_SHIFT
        },
    })
}

/// Offset in a rwlock of the word that a thread waits on, bytes. `expected`: the value that the
/// word must have for the thread to sleep.
pub fn rwlock_word(writes: bool, expected: u32) -> u64 {
    match (writes, expected) {
        // `__readers`: a reader gives way to writers.
        (false, _) if expected & 4 != 0 => 0,
        // `__writers_futex`: another thread writes.
        (true, 3) => 12,
        _ => 8,
    }
}

/// The address of a condition variable, by the address `waited` of one of its words `__g_signals`,
/// on which threads wait. `word`: reads memory.
pub fn condvar(
    waited: u64,
    version: Option<Version>,
    word: impl Fn(u64) -> Option<u32>,
) -> Option<u64> {
    let version = version.filter(|version| *version >= CONDVAR_SINCE)?;
    let signals = if version < CONDVAR_SHORT_SINCE {
        40
    } else {
        32
    };
    let second = if waited.is_multiple_of(8) { 0 } else { 4 };
    let address = waited.checked_sub(signals + second)?;
    // `__wrefs` counts waiting threads in steps of eight.
    let waiters = word(address.checked_add(signals)?.checked_sub(4)?)? >> 3;
    (address.is_multiple_of(8) && (1..=MAX_THREADS).contains(&waiters)).then_some(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Option<Version> = Some((2, 36));

    fn object(length: usize, words: &[(usize, u32)]) -> Vec<u8> {
        let mut bytes = vec![0; length];
        for (at, word) in words {
            bytes[*at..at + 4].copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    #[test]
    fn mutexes_say_who_has_them() {
        use Again::{Counts, Fails, Hangs};
        // The lock's word, its owner, its kind; the expected result.
        for (lock, owner, kind, expected) in [
            (2, 7, 0, Some((Hangs, false, false, true, Some(7)))),
            (1, 7, 1, Some((Counts, false, false, true, Some(7)))),
            (1, 7, 2, Some((Fails, false, false, true, Some(7)))),
            (2, 7, 3, Some((Hangs, false, false, true, Some(7)))),
            (2, 7, 0x81, Some((Counts, false, false, true, Some(7)))),
            (0, 0, 0, Some((Hangs, false, false, false, None))),
            // Just before the owner writes its number.
            (1, 0, 0, Some((Hangs, false, false, true, None))),
            (
                0x8000_0007,
                7,
                0x10,
                Some((Hangs, true, false, true, Some(7))),
            ),
            (
                0x8000_0009,
                0,
                0x20,
                Some((Hangs, false, true, true, Some(9))),
            ),
            (0xc000_0000, 0, 0x30, Some((Hangs, true, true, true, None))),
            (99, 7, 0, None),
            (2, 7, 0xdead_beef, None),
        ] {
            let bytes = object(MUTEX, &[(0, lock), (8, owner), (16, kind)]);
            let found = mutex(&bytes, NOW).map(|mutex| {
                let MutexKind {
                    again,
                    robust,
                    inherits,
                } = mutex.kind;
                (again, robust, inherits, mutex.locked, mutex.owner)
            });
            assert_eq!(found, expected, "{lock:#x} {owner} {kind:#x}");
            assert_eq!(mutex(&bytes[..16], NOW), None);
            assert_eq!(mutex(&bytes, Some((2, 5))), None);
        }
    }

    #[test]
    fn barriers_count_who_has_come() {
        let of = |words: [u32; 4]| {
            let words: Vec<_> = (0..4).map(|index| (4 * index, words[index])).collect();
            barrier(&object(BARRIER, &words), NOW)
                .map(|barrier| (barrier.count, barrier.arrived, barrier.shared))
        };
        assert_eq!(of([11, 8, 4, 0]), Some((4, 3, false)));
        assert_eq!(of([1, u32::MAX, 4, 128]), Some((4, 2, true)));
        for garbage in [
            [11, 8, 2, 0],
            [11, 8, 0, 0],
            [11, 8, 4, 7],
            [8, 11, 4, 0],
            [u32::MAX; 4],
        ] {
            assert_eq!(of(garbage), None, "{garbage:?}");
        }
        let bytes = object(BARRIER, &[(0, 3), (8, 4)]);
        assert_eq!(barrier(&bytes[..8], NOW), None);
        assert_eq!(barrier(&bytes, Some((2, 24))), None);
        assert!(barrier(&bytes, None).is_some());
    }

    #[test]
    fn rwlocks_say_who_writes_and_how_many_read() {
        let of = |readers, writer, shared| {
            let bytes = object(RWLOCK, &[(0, readers), (24, writer), (28, shared)]);
            rwlock(&bytes, NOW).map(|lock| (lock.writer, lock.readers))
        };
        assert_eq!(of(3, 7, 0), Some((Some(7), 0)));
        // Another thread waits to read.
        assert_eq!(of(8 + 3, 7, 0), Some((Some(7), 0)));
        assert_eq!(of(2 * 8, 0, 1), Some((None, 2)));
        // A writer waits for the readers.
        assert_eq!(of(2 * 8 + 2, 7, 0), Some((None, 2)));
        assert_eq!(of(u32::MAX, 7, 0), None);
        assert_eq!(of(3, 7, 99), None);
        assert_eq!(rwlock(&[0; RWLOCK], Some((2, 29))), None);
        assert_eq!(rwlock(&[0; RWLOCK], None), None);
        for (writes, expected, at) in [(false, 3, 8), (false, 0x14, 0), (true, 3, 12), (true, 2, 8)]
        {
            assert_eq!(rwlock_word(writes, expected), at, "{writes} {expected}");
        }
    }

    #[test]
    fn condition_variables_begin_before_the_word_that_is_waited_on() {
        let references = |at: u64| move |address: u64| (address == at).then_some(8);
        let old = |waited| condvar(waited, NOW, references(0x1000 + 36));
        assert_eq!(old(0x1000 + 40), Some(0x1000));
        assert_eq!(old(0x1000 + 44), Some(0x1000));
        assert_eq!(old(0x1000 + 48), None);
        let new = |waited| condvar(waited, Some((2, 41)), references(0x1000 + 28));
        assert_eq!(new(0x1000 + 32), Some(0x1000));
        assert_eq!(new(0x1000 + 36), Some(0x1000));
        for version in [None, Some((2, 24))] {
            assert_eq!(condvar(0x1028, version, |_| Some(8)), None);
        }
        assert_eq!(condvar(0x1028, NOW, |_| Some(7)), None, "nobody waits");
        assert_eq!(condvar(8, NOW, |_| Some(8)), None);
    }
}
