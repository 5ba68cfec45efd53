//! Finds what a thread waits for by the names of the library functions that it is in.

use sbt_engine::event::Kind;

use super::{ALL, Role};

/// For runtimes whose barriers are not recognised by the names of functions.
pub(super) const NO_BARRIER: fn(&str, Option<&str>) -> bool = |_, _| false;

/// For runtimes whose threads wait for nothing but barriers, as far as names tell.
pub(super) const NO_WAITS: fn(&str) -> Option<Wants> = |_| None;

/// What a function waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wants {
    /// `pthread_barrier_wait`.
    Barrier,
    /// A barrier of a language's library.
    BarrierOf(Kind),
    /// A mutex of the C library.
    Mutex,
    /// A rwlock of the C library.
    RwLock {
        /// Whether it waits to write.
        writes: bool,
    },
    /// A semaphore of the C library.
    Semaphore,
    /// A condition variable of the C library.
    Condvar,
    /// The end of a thread.
    Join,
    /// A mutex of Rust's standard library.
    RustMutex,
    /// A rwlock of Rust's standard library.
    RustRwLock {
        /// Whether it waits to write.
        writes: bool,
    },
    /// A condition variable of Rust's standard library.
    RustCondvar,
}

/// What functions wait for. The most telling function decides: each has its name, its file, and
/// whether it belongs to the C library or was called in a library.
pub fn wants<'a>(functions: &[(&'a str, Option<&'a str>, bool)]) -> Option<Wants> {
    let barrier = functions.iter().find_map(|(name, file, _)| {
        let mut all = ALL.iter();
        let runtime = all.find(|runtime| (runtime.is_barrier)(name, *file))?;
        Some(Wants::BarrierOf(runtime.kind))
    });
    let of = |is_wanted: fn(Role) -> bool, name: &str| {
        let mut all = ALL.iter().filter(|runtime| is_wanted(runtime.role));
        all.find_map(|runtime| (runtime.waits)(name))
    };
    barrier
        .or_else(|| {
            let mut c = functions.iter().filter(|function| function.2);
            c.find_map(|(name, _, _)| of(|role| role == Role::CLibrary, name))
        })
        .or_else(|| {
            let mut all = functions.iter();
            all.find_map(|(name, _, _)| of(|role| role != Role::CLibrary, name))
        })
}

/// What a function of a C library waits for: the names are those of POSIX and of C11.
pub(super) fn of_c_library(name: &str) -> Option<Wants> {
    let name = name.split('@').next().unwrap_or(name);
    let bare = name.trim_start_matches('_');
    let has = |part: &str| bare.contains(part);
    if bare.starts_with("pthread_barrier_wait") {
        Some(Wants::Barrier)
    } else if has("pthread_cond_") || bare.starts_with("cnd_") {
        Some(Wants::Condvar)
    } else if has("pthread_rwlock_") {
        Some(Wants::RwLock {
            writes: has("wrlock"),
        })
    } else if has("pthread_mutex_") || bare.starts_with("mtx_") {
        Some(Wants::Mutex)
    } else if bare.starts_with("sem_") || bare.starts_with("new_sem_") {
        Some(Wants::Semaphore)
    } else if has("pthread_") && has("join") || bare.starts_with("thrd_join") {
        Some(Wants::Join)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_is_waited_for() {
        for (name, expected) in [
            ("pthread_barrier_wait", Some(Wants::Barrier)),
            ("__pthread_barrier_wait", Some(Wants::Barrier)),
            ("pthread_mutex_lock", Some(Wants::Mutex)),
            ("___pthread_mutex_timedlock", Some(Wants::Mutex)),
            ("pthread_cond_clockwait", Some(Wants::Condvar)),
            (
                "pthread_rwlock_wrlock",
                Some(Wants::RwLock { writes: true }),
            ),
            (
                "pthread_rwlock_rdlock@GLIBC_2.34",
                Some(Wants::RwLock { writes: false }),
            ),
            ("sem_wait", Some(Wants::Semaphore)),
            ("__new_sem_wait_slow64.constprop.0", Some(Wants::Semaphore)),
            ("pthread_join", Some(Wants::Join)),
            ("__pthread_clockjoin_ex", Some(Wants::Join)),
            ("thrd_join", Some(Wants::Join)),
            ("pthread_once", None),
            ("malloc", None),
            ("", None),
        ] {
            assert_eq!(wants(&[(name, None, true)]), expected, "{name}");
            let own = wants(&[(name, None, false)]);
            assert_eq!(own, None, "a function of the program's own: {name}");
        }
    }

    #[test]
    fn languages_barriers_are_told_from_what_they_are_made_of() {
        let rust = [
            (
                "std::sys::sync::condvar::futex::Condvar::wait_optional_timeout",
                None,
                false,
            ),
            ("std::sync::barrier::Barrier::wait", None, false),
        ];
        assert_eq!(wants(&rust), Some(Wants::BarrierOf(Kind::Rust)));
        assert_eq!(wants(&rust[..1]), Some(Wants::RustCondvar));
        let header = "/usr/include/c++/12/barrier";
        let cpp = [
            ("syscall", None, true),
            (
                "std::__atomic_wait_address<…>",
                Some("/usr/include/c++/12/bits/atomic_wait.h"),
                false,
            ),
            ("wait", Some(header), false),
        ];
        assert_eq!(wants(&cpp), Some(Wants::BarrierOf(Kind::Std)));
        assert_eq!(wants(&cpp[..2]), None);
        let own = [("wait", Some("/home/me/barrier"), false)];
        assert_eq!(wants(&own), None);
        let lock = [(
            "std::sys::sync::mutex::futex::Mutex::lock_contended",
            None,
            false,
        )];
        assert_eq!(wants(&lock), Some(Wants::RustMutex));
    }
}
