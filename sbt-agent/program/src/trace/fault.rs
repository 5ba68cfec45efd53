//! Deaths that tests ask for: sbt is killed right behind one certain call of ptrace(2).
//!
//! `SBT_TEST_KILL` says which call, counted from [`arm`] on, and which process: `sbt:7` ends the
//! process that has started the caller, `self:7` ends the caller.

use std::{
    env,
    sync::atomic::{AtomicU64, Ordering},
};

/// Calls until the end, and one more; 0 if no end is asked for.
static LEFT: AtomicU64 = AtomicU64::new(0);

/// The variable of the environment.
const ASKED: &str = "SBT_TEST_KILL";

/// What stands before the number if the caller is to end.
const CALLER: &str = "self";

fn asked() -> Option<(bool, u64)> {
    let asked = env::var(ASKED).ok()?;
    let (process, number) = asked.split_once(':')?;
    Some((process == CALLER, number.parse().ok()?))
}

/// Begins to count, if the environment asks for an end.
pub fn arm() {
    if let Some((_, number)) = asked() {
        LEFT.store(number.saturating_add(1), Ordering::Relaxed);
    }
}

/// A call has been made.
pub(super) fn called() {
    // Not armed, or over.
    let lowered = |left: u64| left.checked_sub(1);
    let before = LEFT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, lowered);
    if before != Ok(2) {
        return;
    }
    let is_caller = asked().is_some_and(|(is_caller, _)| is_caller);
    // SAFETY: numbers only; the process is the caller or has started the caller.
    unsafe {
        let process = if is_caller {
            libc::getpid()
        } else {
            libc::getppid()
        };
        libc::kill(process, libc::SIGKILL);
    }
}
