//! Handles signals while the report is written. A full pipe or a FIFO without a reader may block
//! the write forever. The session's loop stands still meanwhile, so a thread waits for the signals.

use std::{
    io,
    os::fd::{AsFd as _, OwnedFd},
    thread,
};

use nix::{
    errno::Errno,
    fcntl::OFlag,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::signal::{Signal, kill},
    unistd::{Pid, pipe2},
};

use crate::signals::{Ear, Heard};
use crate::terminal::stop_ourselves;
use sbt_program::launch::Running;

/// The handling of signals during a write.
pub struct Delivery {
    ear: Ear,
    program: Option<Program>,
    /// A signal has already told sbt to end.
    told_to_end: bool,
    end: (OwnedFd, OwnedFd),
}

/// The program that sbt started and has not reaped.
#[derive(Clone, Copy)]
struct Program {
    pid: Pid,
    /// Signals from the real terminal do not reach the program.
    is_on_pty: bool,
}

impl Delivery {
    /// Prepares to handle signals while a report is written. `ear`: hears the signals; `program`:
    /// the program that sbt started and has not reaped; `told_to_end`: a signal has already told
    /// sbt to end.
    ///
    /// # Errors
    /// No pipe can be made.
    pub fn new(ear: Ear, program: Option<&Running>, told_to_end: bool) -> io::Result<Self> {
        Ok(Self {
            ear,
            program: program.map(|running| Program {
                pid: running.pid(),
                is_on_pty: running.is_on_pty(),
            }),
            told_to_end,
            end: pipe2(OFlag::O_CLOEXEC)?,
        })
    }

    /// Runs `write`. The first signal that tells sbt to end goes to the program alone, and the
    /// report is still written. The second ends sbt at once.
    pub fn write<T>(self, write: impl FnOnce() -> T) -> T {
        let Self {
            ear,
            program,
            mut told_to_end,
            end: (ended, end),
        } = self;
        thread::scope(|scope| {
            let listen = move || {
                while let Some(heard) = next(&ear, &ended) {
                    hear(heard, program, &mut told_to_end);
                }
            };
            let named = thread::Builder::new().name("sbt-deliver".into());
            // If the thread cannot be started, the signals are handled after the write.
            let _unheard = named.spawn_scoped(scope, listen);
            // Dropping the pipe's end when the write is over, even by a panic, ends the thread.
            let _end = end;
            write()
        })
    }
}

/// The next signal; `None` when the write is over.
fn next(ear: &Ear, ended: &OwnedFd) -> Option<Heard> {
    loop {
        let mut polls = [
            PollFd::new(ear.as_fd(), PollFlags::POLLIN),
            PollFd::new(ended.as_fd(), PollFlags::POLLIN),
        ];
        match poll(&mut polls, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => return None,
        }
        let [_, over] = &polls;
        if over.revents().is_some_and(|events| !events.is_empty()) {
            return None;
        }
        if let Some(heard) = ear.next().ok()? {
            return Some(heard);
        }
    }
}

fn hear(heard: Heard, program: Option<Program>, told_to_end: &mut bool) {
    if heard.stops() {
        return stop_ourselves();
    }
    if heard.ends() && std::mem::replace(told_to_end, true) {
        std::process::exit(128 + heard.number);
    }
    if let Some(program) = program
        && (!heard.from_terminal || program.is_on_pty)
        && let Ok(signal) = Signal::try_from(heard.number)
    {
        let _ended_just_now = kill(program.pid, signal);
    }
}
