//! Signals as data: which, and whether the terminal sent it to everyone.

use std::io;

use nix::sys::{
    signal::{SigSet, Signal},
    signalfd::{SfdFlags, SignalFd},
};
use tokio::io::unix::AsyncFd;

/// The signals that end the watching, taken out of their usual way.
pub struct Signals {
    set: SigSet,
    fd: AsyncFdLater,
}

impl Drop for Signals {
    /// From here on they do again what they always do.
    fn drop(&mut self) {
        let _unchanged = self.set.thread_unblock();
    }
}

/// A descriptor is registered with the event loop when it is first waited on,
/// since the signals have to be blocked before there is one.
enum AsyncFdLater {
    Raw(Option<SignalFd>),
    Async(AsyncFd<SignalFd>),
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
    /// Ctrl-C, or the like.
    pub fn is_interrupt(self) -> bool {
        self.number == Signal::SIGINT as i32
    }
}

impl Signals {
    /// Blocks the signals in this thread and those it starts from now on.
    pub fn block() -> nix::Result<Self> {
        let mut set = SigSet::empty();
        for signal in [
            Signal::SIGINT,
            Signal::SIGTERM,
            Signal::SIGHUP,
            Signal::SIGQUIT,
        ] {
            set.add(signal);
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
            if let Some(info) = fd.get_ref().read_signal()? {
                return Ok(Heard {
                    number: info.ssi_signo.cast_signed(),
                    // SI_KERNEL: the terminal driver, to its foreground group.
                    from_terminal: info.ssi_code == libc::SI_KERNEL,
                });
            }
            ready.clear_ready();
        }
    }
}
