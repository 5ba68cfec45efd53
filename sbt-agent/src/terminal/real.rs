//! The terminal that we were started on, while it is joined to the program's.

use std::{
    fs::OpenOptions,
    io,
    os::{
        fd::{AsRawFd as _, OwnedFd},
        unix::fs::OpenOptionsExt as _,
    },
    thread,
    time::Duration,
};

use nix::{
    sys::{
        signal::{SigSet, SigmaskHow, Signal, kill},
        termios::{OutputFlags, SetArg, Termios, cfmakeraw, tcgetattr, tcsetattr},
    },
    unistd::{Pid, getpgrp, tcgetpgrp},
};
use tokio::io::{Interest, unix::AsyncFd};

use sbt_program::pty;

/// It, and how it was before. It is so again when this is dropped.
#[derive(Debug)]
pub struct Real {
    fd: AsyncFd<OwnedFd>,
    before: Option<Termios>,
    changed: bool,
}

/// What it does with what goes through it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Nothing: that is for the program's terminal to do.
    Raw,
    /// It shows bytes as they come, but Ctrl-C is one.
    Show,
}

impl Real {
    /// Within an event loop. `None` if there is no such terminal.
    pub fn open() -> io::Result<Option<Self>> {
        let Some(fd) = pty::real_terminal()? else {
            return Ok(None);
        };
        // Opened anew: what is set for reading without blocking on the
        // descriptor that we were given holds for all that share it.
        let own = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
            .open(format!("/proc/self/fd/{}", fd.as_raw_fd()));
        // It may belong to another user: then it has to be the one that blocks.
        let fd = own.map_or(fd, OwnedFd::from);
        let before = tcgetattr(&fd).ok();
        // SAFETY: the descriptor is owned by what is registered: it stays the same.
        let fd = unsafe { AsyncFd::register(fd) }?;
        Ok(Some(Self {
            fd,
            before,
            changed: false,
        }))
    }

    /// Whether it is ours to read from and to change, as far as the shell's
    /// job control is concerned.
    pub fn is_in_foreground(&self) -> bool {
        tcgetpgrp(self.fd.get_ref()).map_or(true, |group| group == getpgrp())
    }

    /// Changes what it does, if it is ours to change.
    pub fn set(&mut self, mode: Mode) {
        let Some(before) = &self.before else {
            return;
        };
        let mut modes = before.clone();
        match mode {
            Mode::Raw => cfmakeraw(&mut modes),
            Mode::Show => modes.output_flags.remove(OutputFlags::OPOST),
        }
        if self.is_in_foreground() {
            self.changed = tcsetattr(self.fd.get_ref(), SetArg::TCSANOW, &modes).is_ok();
        }
    }

    /// Makes it as it was before.
    pub fn restore(&mut self) {
        if let (true, true, Some(before)) = (self.changed, self.is_in_foreground(), &self.before) {
            let _closed = tcsetattr(self.fd.get_ref(), SetArg::TCSANOW, before);
        }
        self.changed = false;
    }

    /// Its size: columns, rows.
    pub fn size(&self) -> Option<(u16, u16)> {
        let size = pty::size(self.fd.get_ref()).ok()?;
        Some((size.ws_col, size.ws_row))
    }

    pub async fn readable(&self) -> io::Result<()> {
        self.fd.readable().await?.retain_ready();
        Ok(())
    }

    pub async fn writable(&self) -> io::Result<()> {
        self.fd.writable().await?.retain_ready();
        Ok(())
    }

    pub fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.fd
            .try_io(Interest::READABLE, |fd| Ok(nix::unistd::read(fd, buffer)?))
    }

    pub fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.fd
            .try_io(Interest::WRITABLE, |fd| Ok(nix::unistd::write(fd, bytes)?))
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        self.restore();
    }
}

/// Stops all of our process group, as Ctrl-Z at a shell does. Returns when we
/// were continued, or at once if nobody is there who would do that.
pub fn stop_ourselves() {
    // While the screen is open it is otherwise only heard of.
    let before = SigSet::from(Signal::SIGTSTP).thread_swap_mask(SigmaskHow::SIG_UNBLOCK);
    let _ours = kill(Pid::from_raw(0), Signal::SIGTSTP);
    // Another thread may be the one to get it, a moment later.
    thread::sleep(Duration::from_millis(20));
    let _unchanged = before.and_then(|before| before.thread_set_mask());
}
