//! Progress of a long job, shown on a terminal.

use std::{
    io::{self, IsTerminal as _, Write as _},
    time::{Duration, Instant},
};

/// Minimum duration of a job before its progress is shown.
const AFTER: Duration = Duration::from_millis(500);
/// Minimum time between two updates.
const EVERY: Duration = Duration::from_millis(200);

/// A progress line on standard error, which is erased when this is dropped. Nothing is written if
/// standard error is not a terminal.
pub struct Progress {
    doing: String,
    due: Option<Instant>,
    shown: bool,
    calls: u32,
}

impl Progress {
    /// Starts with no progress; `doing` describes the job.
    pub fn of(doing: String) -> Self {
        let terminal = io::stderr().is_terminal();
        Self {
            doing,
            due: terminal.then(|| Instant::now() + AFTER),
            shown: false,
            calls: 0,
        }
    }

    /// Updates the progress, from 0 to 1.
    pub fn at(&mut self, share: f64) {
        self.calls = self.calls.wrapping_add(1);
        // Reading the clock costs more than most of the work between two calls.
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

/// Writes to standard error; ignores errors, since the terminal may be gone.
fn write(text: &str) {
    let _gone = io::stderr().write_all(text.as_bytes());
}
