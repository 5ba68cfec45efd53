//! The terminal that sbt was started on, while it is joined to the program's.

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

/// The real terminal, and its former mode, which dropping restores.
#[derive(Debug)]
pub struct Real {
    fd: AsyncFd<OwnedFd>,
    before: Option<Termios>,
    changed: bool,
}

/// The terminal's treatment of the bytes that pass through it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Nothing: the program's terminal does everything.
    Raw,
    /// The terminal shows bytes as they come, but Ctrl-C sends a signal.
    Show,
}

impl Real {
    /// To be called within an event loop. `None` if there is no such terminal.
    pub fn open() -> io::Result<Option<Self>> {
        let Some(fd) = pty::real_terminal()? else {
            return Ok(None);
        };
        // Opened anew: the flag for non-blocking reads would otherwise affect every process that
        // shares the inherited descriptor.
        let own = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
            .open(format!("/proc/self/fd/{}", fd.as_raw_fd()));
        // If it belongs to another user, the blocking descriptor has to do.
        let fd = own.map_or(fd, OwnedFd::from);
        let before = tcgetattr(&fd).ok();
        // SAFETY: what is registered owns the descriptor, which therefore stays the same.
        let fd = unsafe { AsyncFd::register(fd) }?;
        Ok(Some(Self {
            fd,
            before,
            changed: false,
        }))
    }

    /// Whether the shell's job control lets sbt read from the terminal and change it.
    pub fn is_in_foreground(&self) -> bool {
        tcgetpgrp(self.fd.get_ref()).map_or(true, |group| group == getpgrp())
    }

    /// Changes the mode, if sbt is in the foreground.
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

    /// Restores the former mode.
    pub fn restore(&mut self) {
        if let (true, true, Some(before)) = (self.changed, self.is_in_foreground(), &self.before) {
            let _closed = tcsetattr(self.fd.get_ref(), SetArg::TCSANOW, before);
        }
        self.changed = false;
    }

    /// The size in columns and rows.
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

/// Stops sbt's whole process group, as Ctrl-Z at a shell does. Returns when sbt is continued, or at
/// once if no shell is there to do that.
pub fn stop_ourselves() {
    // The screen blocks this signal otherwise, and only takes note of it.
    let before = SigSet::from(Signal::SIGTSTP).thread_swap_mask(SigmaskHow::SIG_UNBLOCK);
    let _ours = kill(Pid::from_raw(0), Signal::SIGTSTP);
    // Another thread may be the one to get the signal, a moment later.
    thread::sleep(Duration::from_millis(20));
    let _unchanged = before.and_then(|before| before.thread_set_mask());
}
