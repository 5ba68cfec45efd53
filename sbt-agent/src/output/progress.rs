//! How far a long job has come, on a terminal.

use std::{
    io::{self, IsTerminal as _, Write as _},
    time::{Duration, Instant},
};

/// Shorter jobs say nothing,
const AFTER: Duration = Duration::from_millis(500);
/// and others no more often than this.
const EVERY: Duration = Duration::from_millis(200);

/// A line on standard error that goes away with it. Nothing is written where that is no
/// terminal.
pub struct Progress {
    doing: String,
    due: Option<Instant>,
    shown: bool,
    calls: u32,
}

impl Progress {
    /// Of a job.
    pub fn of(doing: String) -> Self {
        let terminal = io::stderr().is_terminal();
        Self {
            doing,
            due: terminal.then(|| Instant::now() + AFTER),
            shown: false,
            calls: 0,
        }
    }

    /// It has come so far: from 0 to 1.
    pub fn at(&mut self, share: f64) {
        self.calls = self.calls.wrapping_add(1);
        // The clock costs more than most of what is done in between.
        if !self.calls.is_multiple_of(256) || self.due.is_none_or(|due| Instant::now() < due) {
            return;
        }
        self.due = Some(Instant::now() + EVERY);
        self.shown = true;
        write(&format!(
            "\r\x1b[Ksbt: {} {:.0} %",
            self.doing,
            share * 100.0
        ));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown {
            write("\r\x1b[K");
        }
    }
}

/// The terminal may be gone.
fn write(text: &str) {
    let _gone = io::stderr().write_all(text.as_bytes());
}
