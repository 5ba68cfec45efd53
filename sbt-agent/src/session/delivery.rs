//! Signals while the report is written. Nobody may ever take the report: a pipe is full, or a
//! FIFO has no reader. The session's own loop stands still meanwhile, so a thread hears the
//! signals.

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

use super::Session;
use crate::signals::{Ear, Heard};
use crate::terminal::stop_ourselves;

/// What happens to signals while something is written.
pub struct Delivery {
    ear: Ear,
    program: Option<Program>,
    /// A signal has told sbt to end before.
    told_to_end: bool,
    end: (OwnedFd, OwnedFd),
}

/// The program that sbt has started, and not reaped.
#[derive(Clone, Copy)]
struct Program {
    pid: Pid,
    /// What the real terminal sends does not reach it.
    is_on_pty: bool,
}

impl Delivery {
    /// Writes. The first signal that tells sbt to end goes to the program alone: the report is
    /// still written. The second one ends sbt at once.
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
            // Without a thread the signals are heard when the writing is over.
            let _unheard = named.spawn_scoped(scope, listen);
            // Closed when the writing is over, however: the thread ends then.
            let _end = end;
            write()
        })
    }
}

/// The next signal; `None` when the writing is over.
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

impl Session {
    /// Hears signals while a report is written. `told_to_end`: a signal has said so before.
    pub(super) fn delivery(&self, told_to_end: bool) -> io::Result<Delivery> {
        let program = self.running.as_ref().filter(|_| self.exit_status.is_none());
        Ok(Delivery {
            ear: self.signals.ear()?,
            program: program.map(|running| Program {
                pid: running.pid(),
                is_on_pty: running.is_on_pty(),
            }),
            told_to_end,
            end: pipe2(OFlag::O_CLOEXEC)?,
        })
    }
}
