//! The purpose of a wait on a futex, by the names of the functions that led to it.

use sbt_engine::place::LockKind;

/// Parts of names of functions that wait for something else than a lock.
const NO_LOCKS: [&str; 9] = [
    "cond", "cnd_", "Cond", "arrier", "join", "once", "Once", "park", "exit",
];

/// Parts of names of functions that wait for a lock.
const LOCKS: [(&str, LockKind); 8] = [
    ("rwlock", LockKind::RwLock),
    ("RwLock", LockKind::RwLock),
    ("shared_timed_mutex", LockKind::RwLock),
    ("mutex", LockKind::Mutex),
    ("Mutex", LockKind::Mutex),
    ("mtx_", LockKind::Mutex),
    ("sem_", LockKind::Semaphore),
    ("semaphore", LockKind::Semaphore),
];

/// The kind of lock that a thread waits for, by the name of the function that it has called, and
/// whether that function is part of the C library. `None` if the wait is not known to be for a
/// lock.
pub fn of_function(name: &str, of_c_library: bool) -> Option<LockKind> {
    if NO_LOCKS.iter().any(|part| name.contains(part)) {
        return None;
    }
    let found = LOCKS.iter().find(|(part, _)| name.contains(part));
    match found {
        Some((_, kind)) => Some(*kind),
        None => of_c_library.then_some(LockKind::Library),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_locks_from_other_waits() {
        for (name, of_c_library, expected) in [
            ("pthread_mutex_lock", true, Some(LockKind::Mutex)),
            ("___pthread_mutex_lock", true, Some(LockKind::Mutex)),
            ("pthread_rwlock_rdlock", true, Some(LockKind::RwLock)),
            ("sem_wait", true, Some(LockKind::Semaphore)),
            ("malloc", true, Some(LockKind::Library)),
            ("pthread_cond_wait", true, None),
            ("cnd_wait", true, None),
            ("pthread_barrier_wait", true, None),
            ("pthread_join", true, None),
            (
                "std::sys::sync::mutex::futex::Mutex::lock_contended",
                false,
                Some(LockKind::Mutex),
            ),
            ("std::sync::barrier::Barrier::wait", false, None),
            ("work", false, None),
        ] {
            assert_eq!(of_function(name, of_c_library), expected, "{name}");
        }
    }
}
