//! A pseudo-terminal of sbt that a program gets in place of the real terminal, so that the program
//! behaves as usual while the real terminal shows something else.

use std::{
    io::{self, IsTerminal},
    os::{
        fd::{AsFd, AsRawFd as _, FromRawFd as _, OwnedFd, RawFd},
        unix::fs::fchown,
    },
};

use anyhow::Context as _;
use nix::{
    fcntl::OFlag,
    pty::{Winsize, grantpt, posix_openpt, unlockpt},
    sys::termios::{LocalFlags, OutputFlags, SetArg, Termios, tcgetattr, tcgetsid, tcsetattr},
};

use crate::access::Invoker;

/// Escape codes that restore a terminal after sbt's screen: no reports of clicks and of focus, no
/// brackets around pasted text, the former lines, and the cursor.
pub const GIVE_BACK: &str = "\x1b[?1006l\x1b[?1000l\x1b[?2004l\x1b[?1004l\x1b[?1049l\x1b[?25h";

/// Both ends of the pseudo-terminal, and the real terminal.
#[derive(Debug)]
pub struct Pty {
    pub(super) master: OwnedFd,
    pub(super) slave: OwnedFd,
    pub(super) real: OwnedFd,
    /// The modes that the real terminal had, if sbt's screen may be on it.
    modes: Option<Termios>,
    /// For each of the descriptors 0, 1 and 2: whether the pseudo-terminal replaces it.
    replaced: [bool; 3],
}

impl Pty {
    /// Opens a pseudo-terminal with the modes and the size of sbt's own terminal, to replace those
    /// of the descriptors 0, 1 and 2 that are terminals; `None` if none is. The pseudo-terminal
    /// belongs to `invoker`, if there is one.
    pub fn open(invoker: Option<&Invoker>) -> anyhow::Result<Option<Self>> {
        let Some(real) = real_terminal()? else {
            return Ok(None);
        };
        let replaced = [
            io::stdin().is_terminal(),
            io::stdout().is_terminal(),
            io::stderr().is_terminal(),
        ];
        Self::like(real, replaced, invoker)
            .context("cannot open a pseudo-terminal for the program")
            .map(Some)
    }

    fn like(real: OwnedFd, replaced: [bool; 3], invoker: Option<&Invoker>) -> io::Result<Self> {
        let flags = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
        let master = posix_openpt(flags | OFlag::O_NONBLOCK)?;
        grantpt(&master)?;
        unlockpt(&master)?;
        // Not opened by its name, which may mean another terminal in this mount namespace.
        // SAFETY: a plain system call; the flags are those of open.
        let slave = unsafe { libc::ioctl(master.as_raw_fd(), libc::TIOCGPTPEER, flags.bits()) };
        if slave < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just given this descriptor to this call alone.
        let slave = unsafe { OwnedFd::from_raw_fd(slave) };
        let modes = tcgetattr(&real).ok();
        if let Some(modes) = &modes {
            tcsetattr(&slave, SetArg::TCSANOW, modes)?;
        }
        let master = OwnedFd::from(master);
        if let Ok(size) = size(&real) {
            set_size(&master, size)?;
        }
        if let Some(invoker) = invoker {
            // So that the program may open the terminal by its name.
            fchown(&slave, Some(invoker.uid.as_raw()), None)?;
        }
        // The kernel tells the session only of a process's controlling terminal.
        let modes = modes.filter(|_| tcgetsid(&real).is_ok());
        Ok(Self {
            master,
            slave,
            real,
            modes,
            replaced,
        })
    }

    /// sbt's end, once the program is held on the other end. sbt must not keep the other end: that
    /// would hide that the program has closed its own.
    pub fn into_master(self) -> OwnedFd {
        self.master
    }

    /// Gives the real terminal the modes back that it had before sbt's screen, unless another
    /// process has changed them. Returns what is to be written to the terminal besides.
    pub(super) fn give_back(&self) -> &'static str {
        let Some(modes) = &self.modes else {
            return "";
        };
        let raw = |modes: &Termios| {
            let keys = LocalFlags::ICANON | LocalFlags::ECHO | LocalFlags::ISIG;
            !modes.local_flags.intersects(keys) && !modes.output_flags.contains(OutputFlags::OPOST)
        };
        // A shell may have changed them: then the modes are its own.
        if tcgetattr(&self.real).is_ok_and(|now| raw(&now)) {
            let _gone = tcsetattr(&self.real, SetArg::TCSANOW, modes);
        }
        GIVE_BACK
    }

    /// Puts the pseudo-terminal in place of the real terminal. To be called between fork and exec
    /// only.
    pub(super) fn take_place(&self) -> io::Result<()> {
        for (fd, _) in (0..).zip(self.replaced).filter(|(_, replaced)| *replaced) {
            // SAFETY: a plain system call; these three descriptors have no owner.
            if unsafe { libc::dup2(self.slave.as_raw_fd(), fd) } < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    }
}

/// A descriptor of the terminal that sbt was started on, if there is one: preferably the one for
/// output.
pub fn real_terminal() -> io::Result<Option<OwnedFd>> {
    fn of(stream: &(impl AsFd + IsTerminal)) -> Option<io::Result<OwnedFd>> {
        let there = stream.is_terminal();
        there.then(|| stream.as_fd().try_clone_to_owned())
    }
    of(&io::stdout())
        .or_else(|| of(&io::stderr()))
        .or_else(|| of(&io::stdin()))
        .transpose()
}

/// A terminal's size.
pub fn size(terminal: &impl AsFd) -> io::Result<Winsize> {
    // SAFETY: a structure of integers, which the call fills.
    let mut size: Winsize = unsafe { std::mem::zeroed() };
    // SAFETY: the structure is the one that the call expects.
    let result = unsafe { libc::ioctl(raw(terminal), libc::TIOCGWINSZ, &raw mut size) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(size)
}

/// Sets a terminal's size; the kernel tells the foreground group if the size is new.
pub fn set_size(terminal: &impl AsFd, size: Winsize) -> io::Result<()> {
    // SAFETY: the structure is the one that the call expects, and only read.
    let result = unsafe { libc::ioctl(raw(terminal), libc::TIOCSWINSZ, &raw const size) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

fn raw(terminal: &impl AsFd) -> RawFd {
    terminal.as_fd().as_raw_fd()
}
