//! Deaths that tests ask for: sbt is killed right after a given call of ptrace(2), or a write into the
//! memory of a process that it traces.
//!
//! `SBT_TEST_KILL` names the call, counted from [`crate::trace::fault::arm`] on, and the process:
//! `sbt:7` kills the process that has started the caller, `self:7` kills the caller.

use std::{
    env,
    sync::atomic::{AtomicU64, Ordering},
};

/// Calls until the kill, plus one; 0 if no kill is asked for.
static LEFT: AtomicU64 = AtomicU64::new(0);

/// The environment variable.
const ASKED: &str = "SBT_TEST_KILL";

/// The word before the number that selects the caller.
const CALLER: &str = "self";

fn asked() -> Option<(bool, u64)> {
    let asked = env::var(ASKED).ok()?;
    let (process, number) = asked.split_once(':')?;
    Some((process == CALLER, number.parse().ok()?))
}

/// Begins to count, if the environment asks for a kill.
pub fn arm() {
    if let Some((_, number)) = asked() {
        LEFT.store(number.saturating_add(1), Ordering::Relaxed);
    }
}

/// Counts one call, and kills the process if it is the one asked for.
pub(super) fn called() {
    // Stays 0 if not armed, or if the kill is over.
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
