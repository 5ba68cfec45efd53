//! Decides whether a test runs now: with others of its kind or alone, and only with the rights that
//! it needs.

use std::{
    cell::RefCell,
    fs,
    io::Write as _,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
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

/// Skips and logs a test that needs real probes if there are none.
///
/// With `alone`, no other test runs at the same time: for tests that measure time, or how threads
/// share the processors. With `breakpoints`, only such tests run at the same time: for tests that
/// set breakpoints where other tests have probes, and have no probes themselves.
macro_rules! needs_root {
    () => {
        let Some(_turn) = $crate::turns::begin($crate::turns::Kind::Others) else {
            return;
        };
        $crate::turns::needs_root!(check);
    };
    (breakpoints) => {
        let Some(_turn) = $crate::turns::begin($crate::turns::Kind::Breakpoints) else {
            return;
        };
        $crate::turns::needs_root!(check);
    };
    (alone) => {
        let Some(_turn) = $crate::turns::begin($crate::turns::Kind::Alone) else {
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

/// The first statement of a test that needs no root. With `breakpoints`, no test with probes runs at the
/// same time: for tests that look at stacks, which another sbt's probes on returns hide.
macro_rules! needs_nothing {
    (breakpoints) => {
        let Some(_turn) = $crate::turns::begin($crate::turns::Kind::Breakpoints) else {
            return;
        };
    };
    (alone) => {
        let Some(_turn) = $crate::turns::begin($crate::turns::Kind::Alone) else {
            return;
        };
    };
    () => {
        let Some(_turn) = $crate::turns::begin($crate::turns::Kind::Others) else {
            return;
        };
    };
}
pub(crate) use needs_nothing;

/// The tests that may run at the same time.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Beside all of this kind.
    Others,
    /// Beside all of this kind.
    Breakpoints,
    /// Beside no other test.
    Alone,
}

/// The tests that run: their kind, and their number.
static RUNNING: Mutex<(Kind, usize)> = Mutex::new((Kind::Alone, 0));
static ENDED: Condvar = Condvar::new();

fn running() -> MutexGuard<'static, (Kind, usize)> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The turn of a test; it lasts until this is dropped.
pub struct Turn;

impl Drop for Turn {
    fn drop(&mut self) {
        running().1 -= 1;
        ENDED.notify_all();
    }
}

/// Waits for the turn of a test; `None` if tests of this kind do not run now.
pub fn begin(kind: Kind) -> Option<Turn> {
    if !is_turn_of(kind) {
        return None;
    }
    let must_wait =
        |running: &mut (Kind, usize)| running.1 > 0 && (running.0 != kind || kind == Kind::Alone);
    let mut running = ENDED
        .wait_while(running(), must_wait)
        .unwrap_or_else(PoisonError::into_inner);
    *running = (kind, running.1 + 1);
    Some(Turn)
}

/// Whether tests of this kind run now: `SBT_TURN` names the kind, or is unset for all. `cargo xtask
/// test` runs one kind after the other, because tests of different kinds would have to wait for each
/// other.
fn is_turn_of(kind: Kind) -> bool {
    let turn = std::env::var("SBT_TURN").ok();
    turn.is_none_or(|turn| {
        kind == match turn.as_str() {
            "others" => Kind::Others,
            "breakpoints" => Kind::Breakpoints,
            "alone" => Kind::Alone,
            _ => panic!("SBT_TURN is others, breakpoints or alone"),
        }
    })
}

/// How often a test repeats what seldom meets a rare race: `usual` times, and `SBT_SOAK` times as
/// often where `cargo xtask soak` sets this variable.
pub fn often(usual: u64) -> u64 {
    let times = std::env::var("SBT_SOAK").ok();
    usual * times.map_or(1, |times| times.parse::<u64>().unwrap())
}
