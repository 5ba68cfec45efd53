//! Starts the threads of a demo: the caller is member 0, as in the SPLASH programs.

use std::fs;
use std::ops::Range;
use std::sync::OnceLock;
use std::thread;

use anyhow::{Context, Result};

/// Calls `body` with 0 to `threads - 1` at the same time, with 0 in the calling thread.
///
/// The threads are called `name-0`, `name-1` and so on; the kernel keeps 15 bytes of that. `body`
/// runs in all of them or, if one cannot be started, in none: otherwise the first would wait at
/// their barrier for ever.
pub fn run(name: &str, threads: usize, body: impl Fn(usize) + Sync) -> Result<()> {
    // The main thread has the name of the executable otherwise. A nicety: failure is harmless.
    let _ = fs::write("/proc/thread-self/comm", format!("{name}-0"));
    let complete = OnceLock::new();
    thread::scope(|scope| {
        let started = (1..threads).try_for_each(|me| {
            let (body, complete) = (&body, &complete);
            thread::Builder::new()
                .name(format!("{name}-{me}"))
                .spawn_scoped(scope, move || {
                    if *complete.wait() {
                        body(me);
                    }
                })
                .map(drop)
                .with_context(|| format!("cannot start thread {me}"))
        });
        if *complete.get_or_init(|| started.is_ok()) {
            body(0);
        }
        started
    })
}

/// The part of `0..len` that is `me`'s, if all get contiguous parts as equal as can be.
pub fn part(len: usize, threads: usize, me: usize) -> Range<usize> {
    len * me / threads..len * (me + 1) / threads
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn every_member_runs_once_under_its_name() {
        let seen = Mutex::new(Vec::new());
        run("team", 4, |me| {
            let name = fs::read_to_string("/proc/thread-self/comm").unwrap();
            seen.lock().unwrap().push((me, name.trim().to_owned()));
        })
        .unwrap();
        let mut seen = seen.into_inner().unwrap();
        seen.sort();
        let wanted: Vec<_> = (0..4).map(|me| (me, format!("team-{me}"))).collect();
        assert_eq!(seen, wanted);
    }

    #[test]
    fn parts_cover_everything_once() {
        for (len, threads) in [(10, 4), (3, 5), (0, 2), (8, 1)] {
            let all: Vec<usize> = (0..threads).flat_map(|me| part(len, threads, me)).collect();
            assert_eq!(all, (0..len).collect::<Vec<_>>());
        }
    }
}
