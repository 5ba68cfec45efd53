//! Signals as data: which, and whether the terminal sent it to everyone.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd},
};

use nix::sys::{
    signal::{SigSet, SigmaskHow, Signal},
    signalfd::{SfdFlags, SignalFd},
};
use tokio::io::unix::AsyncFd;

/// Those that end the watching.
const ENDING: [Signal; 4] = [
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGQUIT,
];

/// Those that mean the program that was started and not us: batch systems send
/// them to what they have started.
const PASSED_ON: [Signal; 3] = [Signal::SIGUSR1, Signal::SIGUSR2, Signal::SIGALRM];

/// The signals that are heard, taken out of their usual way.
pub struct Signals {
    set: SigSet,
    fd: AsyncFdLater,
}

impl Drop for Signals {
    /// From here on they do again what they always do. What has come and was not heard asked sbt
    /// to end, which it does: a terminal that goes away is often noticed before its SIGHUP.
    fn drop(&mut self) {
        let fd = match &self.fd {
            AsyncFdLater::Raw(raw) => raw.as_ref(),
            AsyncFdLater::Async(fd) => Some(fd.get_ref()),
        };
        while fd.is_some_and(|fd| matches!(read(fd), Ok(Some(_)))) {}
        let _unchanged = self.set.thread_unblock();
    }
}

/// A descriptor is registered with the event loop when it is first waited on,
/// since the signals have to be blocked before there is one.
enum AsyncFdLater {
    Raw(Option<SignalFd>),
    Async(AsyncFd<SignalFd>),
}

/// Lets through again what whoever started us had blocked for itself.
pub fn unblock() -> nix::Result<()> {
    SigSet::from_iter(ENDING).thread_unblock()
}

/// Starts a thread that never gets a signal which [`Signals`] may take, nor do those that it
/// starts. The kernel gives one to any thread that has not blocked it: once the first one has,
/// sbt would end by the first thread that has not.
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
    /// Sent by the terminal, and so to the program as well.
    pub from_terminal: bool,
}

impl Heard {
    /// Whether it ends the watching.
    pub fn ends(self) -> bool {
        ENDING.iter().any(|signal| self.number == *signal as i32)
    }

    /// Whether it is there to stop us, as Ctrl-Z does.
    pub fn stops(self) -> bool {
        self.number == Signal::SIGTSTP as i32
    }

    /// Ctrl-C, or the like.
    pub fn is_interrupt(self) -> bool {
        self.number == Signal::SIGINT as i32
    }
}

impl Signals {
    /// Blocks the signals in this thread and those it starts from now on. Whoever
    /// started us with a signal ignored, as nohup does, wants it to be so for us
    /// too. `for_program`: there is one to pass some on to; `for_screen`: the
    /// terminal is to be given back before we stop.
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
            // SAFETY: the descriptor is owned by what is registered: it stays the same.
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

    /// Where another thread may hear the same signals, while nobody waits for [`Self::next`].
    pub fn ear(&self) -> io::Result<Ear> {
        let fd = match &self.fd {
            AsyncFdLater::Raw(raw) => raw.as_ref().ok_or(io::ErrorKind::NotConnected)?,
            AsyncFdLater::Async(fd) => fd.get_ref(),
        };
        let fd = fd.as_fd().try_clone_to_owned()?;
        // SAFETY: a copy of a descriptor that is one for signals.
        Ok(Ear(unsafe { SignalFd::from_owned_fd(fd) }))
    }
}

/// See [`Signals::ear`].
pub struct Ear(SignalFd);

impl Ear {
    /// The next signal; `None` if there is none now.
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
            // SI_KERNEL: the terminal driver, to its foreground group.
            // That it is gone it tells the session's leader alone.
            from_terminal: info.ssi_code == libc::SI_KERNEL && number != libc::SIGHUP,
        }
    }))
}

fn is_ignored(signal: Signal) -> bool {
    // SAFETY: a structure of integers, which the call fills.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: nothing is set, and the structure is the one meant.
    let result = unsafe { libc::sigaction(signal as i32, std::ptr::null(), &raw mut action) };
    result == 0 && action.sa_sigaction == libc::SIG_IGN
}
