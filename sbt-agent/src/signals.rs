//! Signals as data: the number, and whether the terminal sent the signal to all processes.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd},
};

use nix::sys::{
    signal::{SigSet, SigmaskHow, Signal},
    signalfd::{SfdFlags, SignalFd},
};
use tokio::io::unix::AsyncFd;

/// The signals that end watching.
const ENDING: [Signal; 4] = [
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGQUIT,
];

/// The signals that are meant for the program, not for sbt: batch systems send them to the process
/// they have started.
const PASSED_ON: [Signal; 3] = [Signal::SIGUSR1, Signal::SIGUSR2, Signal::SIGALRM];

/// The signals that sbt takes as data instead of their default action.
pub struct Signals {
    set: SigSet,
    fd: AsyncFdLater,
}

impl Drop for Signals {
    /// Restores the default actions. Pending signals are dropped: they asked sbt to end, which it
    /// is doing. The end of a terminal, for example, is often noticed before its SIGHUP.
    fn drop(&mut self) {
        let fd = match &self.fd {
            AsyncFdLater::Raw(raw) => raw.as_ref(),
            AsyncFdLater::Async(fd) => Some(fd.get_ref()),
        };
        while fd.is_some_and(|fd| matches!(read(fd), Ok(Some(_)))) {}
        let _unchanged = self.set.thread_unblock();
    }
}

/// A descriptor that is registered with the event loop at the first wait, since the signals have to
/// be blocked before there is a loop.
enum AsyncFdLater {
    Raw(Option<SignalFd>),
    Async(AsyncFd<SignalFd>),
}

/// Unblocks the signals that the parent process had blocked for itself.
pub fn unblock() -> nix::Result<()> {
    SigSet::from_iter(ENDING).thread_unblock()
}

/// Starts a thread in which, and in whose child threads, the signals of [`Signals`] stay blocked.
/// The kernel gives a signal to any thread that does not block it: one such thread would be enough
/// for a signal to end sbt.
pub fn apart<T>(start: impl FnOnce() -> T) -> T {
    let all = ENDING.into_iter().chain(PASSED_ON).chain([Signal::SIGTSTP]);
    let all: SigSet = all.collect();
    let before = all.thread_swap_mask(SigmaskHow::SIG_BLOCK);
    let started = start();
    let _unchanged = before.and_then(|before| before.thread_set_mask());
    started
}

/// A signal that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heard {
    /// Its number.
    pub number: i32,
    /// The terminal sent the signal, so the program has got it too.
    pub from_terminal: bool,
}

impl Heard {
    /// Whether the signal ends watching.
    pub fn ends(self) -> bool {
        ENDING.iter().any(|signal| self.number == *signal as i32)
    }

    /// Whether the signal stops sbt, as Ctrl-Z does.
    pub fn stops(self) -> bool {
        self.number == Signal::SIGTSTP as i32
    }

    /// Whether the signal is an interrupt, as from Ctrl-C.
    pub fn is_interrupt(self) -> bool {
        self.number == Signal::SIGINT as i32
    }
}

impl Signals {
    /// Blocks the signals in this thread and in threads it starts from now on. Signals that sbt
    /// inherited as ignored, as under nohup, stay ignored. `for_program`: a program was started
    /// that gets some signals passed on; `for_screen`: SIGTSTP is taken too, since the terminal has
    /// to be restored before sbt stops.
    pub fn block(for_program: bool, for_screen: bool) -> nix::Result<Self> {
        let passed_on = PASSED_ON.iter().filter(|_| for_program);
        let stop = [Signal::SIGTSTP];
        let stop = stop.iter().filter(|_| for_screen);
        let mut set = SigSet::empty();
        for signal in ENDING.iter().chain(passed_on).chain(stop) {
            if !is_ignored(*signal) {
                set.add(*signal);
            }
        }
        set.thread_block()?;
        let fd = SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
        Ok(Self {
            set,
            fd: AsyncFdLater::Raw(Some(fd)),
        })
    }

    /// The next signal.
    pub async fn next(&mut self) -> io::Result<Heard> {
        if let AsyncFdLater::Raw(raw) = &mut self.fd {
            let raw = raw.take().ok_or(io::ErrorKind::NotConnected)?;
            // SAFETY: the registered `SignalFd` owns the descriptor, which stays the same.
            self.fd = AsyncFdLater::Async(unsafe { AsyncFd::register(raw) }?);
        }
        let AsyncFdLater::Async(fd) = &self.fd else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        loop {
            let mut ready = fd.readable().await?;
            if let Some(heard) = read(fd.get_ref())? {
                return Ok(heard);
            }
            ready.clear_ready();
        }
    }

    /// A second reader of the same signals for another thread, to be used while nothing waits in
    /// [`Self::next`].
    pub fn ear(&self) -> io::Result<Ear> {
        let fd = match &self.fd {
            AsyncFdLater::Raw(raw) => raw.as_ref().ok_or(io::ErrorKind::NotConnected)?,
            AsyncFdLater::Async(fd) => fd.get_ref(),
        };
        let fd = fd.as_fd().try_clone_to_owned()?;
        // SAFETY: the descriptor is a copy of a signalfd.
        Ok(Ear(unsafe { SignalFd::from_owned_fd(fd) }))
    }
}

/// A second reader of the signals, from [`Signals::ear`].
pub struct Ear(SignalFd);

impl Ear {
    /// The next signal; `None` if none is pending.
    pub fn next(&self) -> io::Result<Option<Heard>> {
        read(&self.0)
    }
}

impl AsFd for Ear {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn read(fd: &SignalFd) -> io::Result<Option<Heard>> {
    let info = fd.read_signal()?;
    Ok(info.map(|info| {
        let number = info.ssi_signo.cast_signed();
        Heard {
            number,
            // SI_KERNEL: the terminal driver sent the signal to its foreground group. The exception
            // is SIGHUP, which the driver sends to the session leader alone.
            from_terminal: info.ssi_code == libc::SI_KERNEL && number != libc::SIGHUP,
        }
    }))
}

fn is_ignored(signal: Signal) -> bool {
    // SAFETY: the structure has only integer fields, and the call fills it.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: the call sets nothing, and the pointer is to a structure of the right type.
    let result = unsafe { libc::sigaction(signal as i32, std::ptr::null(), &raw mut action) };
    result == 0 && action.sa_sigaction == libc::SIG_IGN
}
