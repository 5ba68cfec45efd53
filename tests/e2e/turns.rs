//! Decides whether a test runs now: with others or alone, and only with the rights that it needs.

use std::{
    cell::RefCell,
    fs,
    io::Write as _,
    sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

/// Reports a skipped test, and logs it in the file of `SBT_SKIP_LOG`.
pub fn skipped(why: &str, test: &str) {
    let line = format!("SKIPPED ({why}): {test}\n");
    // Not eprint: the test runner would hide it.
    let _ = std::io::stderr().write_all(line.as_bytes());
    log("SBT_SKIP_LOG", &line);
}

/// Logs that a test measured a wrong value and will measure again, in the file of `SBT_RETRY_LOG`:
/// a line with the test, a tab and what was wrong, shortened.
pub fn missed(what: &str) {
    const LONGEST: usize = 200;
    let words = what.split_whitespace().collect::<Vec<_>>().join(" ");
    let shown: String = words.chars().take(LONGEST).collect();
    let line = format!("{}\t{shown}\n", current());
    log("SBT_RETRY_LOG", &line);
}

/// Adds a line to the file that an environment variable names, if it is set.
fn log(variable: &str, line: &str) {
    if let Some(path) = std::env::var_os(variable) {
        fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path)
            .and_then(|mut file| file.write_all(line.as_bytes()))
            .unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
    }
}

thread_local! {
    /// Name of the test that runs in this thread.
    static CURRENT: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Sets the test that runs in this thread. `name`: the test function with its crate.
pub fn begins(name: &str) {
    let in_crate = name.split_once("::").map_or(name, |(_, name)| name);
    CURRENT.with_borrow_mut(|current| in_crate.clone_into(current));
}

fn current() -> String {
    CURRENT.with_borrow(Clone::clone)
}

/// Skips and logs a test that needs real probes if there are none. With `alone`, no other test runs
/// at the same time: for tests that measure time, or how threads share the processors.
macro_rules! needs_root {
    () => {
        let Some(_among_others) = $crate::turns::among_others() else {
            return;
        };
        $crate::turns::needs_root!(check);
    };
    (alone) => {
        let Some(_alone) = $crate::turns::alone() else {
            return;
        };
        $crate::turns::needs_root!(check);
    };
    (check) => {{
        fn here() {}
        let name = std::any::type_name_of_val(&here).trim_end_matches("::here");
        $crate::turns::begins(name);
        if !$crate::harness::is_root() {
            $crate::turns::skipped("needs root", name);
            return;
        }
    }};
}
pub(crate) use needs_root;

/// The first statement of a test that needs no root.
macro_rules! needs_nothing {
    () => {
        let Some(_among_others) = $crate::turns::among_others() else {
            return;
        };
    };
}
pub(crate) use needs_nothing;

static RUNNING: RwLock<()> = RwLock::new(());

/// Whether tests of this kind run now: `SBT_TURN` names the kind, or is unset for all. `cargo xtask
/// test` runs the tests that run alone after all others, because they would have to wait for the
/// others.
fn is_turn_of(kind: &str) -> bool {
    let turn = std::env::var("SBT_TURN").ok();
    let known = turn
        .as_deref()
        .is_none_or(|turn| ["others", "alone"].contains(&turn));
    assert!(known, "SBT_TURN is others or alone");
    turn.is_none_or(|turn| turn == kind)
}

/// The lock of a test that runs with others; `None` if these tests do not run now.
pub fn among_others() -> Option<RwLockReadGuard<'static, ()>> {
    let held = || RUNNING.read().unwrap_or_else(PoisonError::into_inner);
    is_turn_of("others").then(held)
}

/// The lock of a test that runs alone; `None` if these tests do not run now.
pub fn alone() -> Option<RwLockWriteGuard<'static, ()>> {
    let held = || RUNNING.write().unwrap_or_else(PoisonError::into_inner);
    is_turn_of("alone").then(held)
}
