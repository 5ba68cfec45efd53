//! Whether it is a test's turn: with others or alone, and with the rights that it needs.

use std::{
    fs,
    io::Write as _,
    sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

/// Says that a test did not run, and counts it in the file of `SBT_SKIP_LOG`.
pub fn skipped(why: &str, test: &str) {
    let line = format!("SKIPPED ({why}): {test}\n");
    // Not eprint: the test runner would hide it.
    let _ = std::io::stderr().write_all(line.as_bytes());
    if let Some(path) = std::env::var_os("SBT_SKIP_LOG") {
        fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path)
            .and_then(|mut file| file.write_all(line.as_bytes()))
            .unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
    }
}

/// Leaves a test that needs real probes, and counts it, where there are none. With
/// `alone`, no other that needs them runs meanwhile: for those that measure time, or
/// how threads share the processors.
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
    (check) => {
        if !$crate::harness::is_root() {
            fn here() {}
            let name = std::any::type_name_of_val(&here);
            $crate::turns::skipped("needs root", name.trim_end_matches("::here"));
            return;
        }
    };
}
pub(crate) use needs_root;

/// What a test that needs no root begins with.
macro_rules! needs_nothing {
    () => {
        let Some(_among_others) = $crate::turns::among_others() else {
            return;
        };
    };
}
pub(crate) use needs_nothing;

static RUNNING: RwLock<()> = RwLock::new(());

/// Whether `SBT_TURN` asks for tests of this kind, or for nothing: `cargo xtask test` runs those
/// that run alone after all others, for whoever has to be alone waits for whoever runs.
fn is_turn_of(kind: &str) -> bool {
    let turn = std::env::var("SBT_TURN").ok();
    let known = turn
        .as_deref()
        .is_none_or(|turn| ["others", "alone"].contains(&turn));
    assert!(known, "SBT_TURN is others or alone");
    turn.is_none_or(|turn| turn == kind)
}

/// Held by a test while others may run; `None`: it is not their turn.
pub fn among_others() -> Option<RwLockReadGuard<'static, ()>> {
    let held = || RUNNING.read().unwrap_or_else(PoisonError::into_inner);
    is_turn_of("others").then(held)
}

/// Held by a test while none other that holds anything may run; `None` likewise.
pub fn alone() -> Option<RwLockWriteGuard<'static, ()>> {
    let held = || RUNNING.write().unwrap_or_else(PoisonError::into_inner);
    is_turn_of("alone").then(held)
}
