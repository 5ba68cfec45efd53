//! The keeper of a program's pseudo-terminal: a small process between sbt and the program, in the
//! role of a shell.
//!
//! The keeper leads the terminal's session, so that the program is an ordinary group in the
//! foreground: Ctrl-Z works, and the program's end hangs up on none of its children. The keeper
//! holds the terminal open, so that the end of sbt, even by SIGKILL, does not hang up on the
//! program either. After sbt's end the keeper passes the program's output to the real terminal,
//! until no process writes any more. If sbt's screen was on the real terminal, the keeper restores
//! the terminal first.

use std::{
    io,
    os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd, RawFd},
};

use anyhow::Context as _;
use nix::{
    errno::Errno,
    fcntl::OFlag,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        signal::{SigSet, SigmaskHow, Signal, kill, sigprocmask},
        signalfd::{SfdFlags, SignalFd},
        wait::{Id, WaitPidFlag, WaitStatus, waitid},
    },
    unistd::{ForkResult, Pid, fork, getpid, pipe2, read, setpgid, setsid, tcsetpgrp, write},
};

use super::pty::Pty;
use crate::access::rights;

/// sbt's ends of the pipes between sbt and the keeper.
#[derive(Debug)]
pub struct Keeper {
    /// Delivers first the program's id or a negative error, then its exit status.
    news: OwnedFd,
    /// Delivers the number of each signal that has stopped the program.
    stops: Option<OwnedFd>,
    /// An open pipe tells the keeper that sbt lives. What sbt writes tells whether its screen is on
    /// the real terminal, and that it sends no more signals to a program that has ended.
    life: OwnedFd,
}

/// Written to [`Keeper::life`]: whether sbt's screen is off or on.
const SCREEN: [u8; 2] = *b"-+";

/// Written to [`Keeper::life`]: sbt sends no more signals to the program.
const RELEASE: u8 = b'.';

/// Forks a keeper, and from it a process on `pty` that calls `child` with the result of moving to
/// the terminal. To be called while there is only one thread.
pub fn start(pty: &Pty, child: impl FnOnce(io::Result<()>)) -> anyhow::Result<(Pid, Keeper)> {
    let (life, our_life) = pipe2(OFlag::O_CLOEXEC)?;
    let (our_news, news) = pipe2(OFlag::O_CLOEXEC)?;
    let (our_stops, stops) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)?;
    // SAFETY: no other thread exists, so that the child may call anything.
    match unsafe { fork() }.context("cannot fork")? {
        ForkResult::Child => {
            let inside = Inside {
                pty,
                life,
                news,
                stops,
            };
            let errno = inside.begin(child);
            let _unheard = write(&inside.news, &(-(errno as i32)).to_ne_bytes());
            leave(125)
        }
        ForkResult::Parent { .. } => {
            drop(news);
            let keeper = Keeper {
                news: our_news,
                stops: Some(our_stops),
                life: our_life,
            };
            match keeper.hear().context("cannot fork")? {
                pid @ 1.. => Ok((Pid::from_raw(pid), keeper)),
                errno => Err(Errno::from_raw(-errno)).context("cannot start on a pseudo-terminal"),
            }
        }
    }
}

impl Keeper {
    /// Waits for the end of the program and returns its exit status.
    pub fn wait(&self) -> anyhow::Result<u8> {
        let status = self.hear()?;
        u8::try_from(status).context("waiting for the program")
    }

    /// The pipe with the number of each signal that stops the program, one byte each, to be read
    /// without blocking. The pipe can be taken once.
    pub fn take_stops(&mut self) -> Option<OwnedFd> {
        self.stops.take()
    }

    /// Tells the keeper whether sbt's screen is on the real terminal. To be called before the
    /// screen comes, and after it has gone.
    pub fn has_screen(&self, on: bool) {
        // The pipe has room for repeated messages.
        let _gone = write(&self.life, &[SCREEN[usize::from(on)]]);
    }

    /// Tells the keeper that sbt sends no more signals to the program, whose exit status is known.
    pub fn release(&self) {
        let _gone = write(&self.life, &[RELEASE]);
    }

    fn hear(&self) -> anyhow::Result<i32> {
        let mut number = [0; 4];
        loop {
            match read(&self.news, &mut number) {
                Ok(4) => return Ok(i32::from_ne_bytes(number)),
                Err(Errno::EINTR) => {}
                _ => anyhow::bail!("sbt's helper process for the program's terminal was killed"),
            }
        }
    }
}

/// The keeper's ends of the pipes, and the terminal.
struct Inside<'a> {
    pty: &'a Pty,
    life: OwnedFd,
    news: OwnedFd,
    stops: OwnedFd,
}

impl Inside<'_> {
    /// Runs the keeper; returns only if starting fails.
    fn begin(&self, child: impl FnOnce(io::Result<()>)) -> Errno {
        match self.set_up() {
            Ok((Some(pid), signals)) => self.keep(pid, &signals),
            // In the program's own process.
            Ok((None, _)) => {
                child(self.pty.take_place());
                leave(126)
            }
            Err(error) => Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO)),
        }
    }

    /// Becomes the leader of the terminal's session and forks the program. Returns the program's
    /// id, or `None` in the program's own process.
    fn set_up(&self) -> io::Result<(Option<Pid>, SignalFd)> {
        setsid()?;
        // SAFETY: a plain system call.
        if unsafe { libc::ioctl(self.pty.slave.as_raw_fd(), libc::TIOCSCTTY, 0) } < 0 {
            return Err(io::Error::last_os_error());
        }
        // Signals that are meant for other processes must not end the keeper.
        let mut before = SigSet::empty();
        sigprocmask(
            SigmaskHow::SIG_BLOCK,
            Some(&SigSet::all()),
            Some(&mut before),
        )?;
        let mut ends = SigSet::empty();
        ends.add(Signal::SIGCHLD);
        let signals = SignalFd::with_flags(&ends, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
        // SAFETY: no other thread exists, so that the child may call anything.
        match unsafe { fork() }? {
            ForkResult::Child => {
                let _done_by_the_keeper = setpgid(Pid::from_raw(0), Pid::from_raw(0));
                let _valid = sigprocmask(SigmaskHow::SIG_SETMASK, Some(&before), None);
                Ok((None, signals))
            }
            ForkResult::Parent { child } => {
                // Done here as well, since the program may not have done it yet.
                setpgid(child, child)?;
                tcsetpgrp(&self.pty.slave, child)?;
                Ok((Some(child), signals))
            }
        }
    }

    fn keep(&self, pid: Pid, signals: &SignalFd) -> ! {
        self.detach(signals);
        let mut program = Program {
            pid,
            stopped: false,
            status: None,
        };
        let _heard = write(&self.news, &pid.as_raw().to_ne_bytes());
        let mut has_screen = false;
        loop {
            let [told, _] = wait_for(&[self.life.as_fd(), signals.as_fd()], PollTimeout::NONE);
            program.look(signals, Some(self));
            let mut word = [0];
            match told.then(|| read(&self.life, &mut word)) {
                Some(Ok(1..)) if word[0] == RELEASE => program.release(),
                Some(Ok(1..)) => has_screen = word[0] == SCREEN[1],
                None | Some(Err(Errno::EINTR)) => {}
                Some(_) => break,
            }
        }
        self.go_on_alone(&mut program, signals, has_screen);
        // The session ends with its leader, and the foreground group then gets a SIGHUP: that must
        // not be the program's group.
        let _none = tcsetpgrp(&self.pty.master, getpid());
        leave(0)
    }

    /// Closes everything that the keeper does not need and that would be missed elsewhere: ends of
    /// pipes, files, a mounted folder.
    fn detach(&self, signals: &SignalFd) {
        let mut kept = [
            self.pty.master.as_raw_fd(),
            self.pty.real.as_raw_fd(),
            self.life.as_raw_fd(),
            self.news.as_raw_fd(),
            self.stops.as_raw_fd(),
            signals.as_fd().as_raw_fd(),
        ];
        kept.sort_unstable();
        let mut from = 0;
        for fd in kept {
            close_range(from, fd - 1);
            from = fd + 1;
        }
        close_range(from, RawFd::MAX);
        let _stays = nix::unistd::chdir("/");
        // The keeper outlives sbt, and needs no privilege but to send signals.
        let _nothing_to_lose = rights::keep_signalling();
        // A command that ends all processes called sbt does not mean the keeper.
        let _unnamed = nix::sys::prctl::set_name(c"terminal-keeper");
    }

    /// After sbt's end: passes the program's output to the real terminal, until the program has
    /// ended and no process has its terminal open any more.
    fn go_on_alone(&self, program: &mut Program, signals: &SignalFd, has_screen: bool) {
        if program.stopped {
            // No other process is left that could continue the program.
            let _gone = kill(Pid::from_raw(-program.pid.as_raw()), Signal::SIGCONT);
        }
        let codes = if has_screen { self.pty.give_back() } else { "" };
        let mut real = write_all(self.pty.real.as_fd(), codes.as_bytes());
        let mut bytes = [0; 4096];
        loop {
            program.look(signals, None);
            let ended = program.status.is_some();
            match read(&self.pty.master, &mut bytes) {
                Ok(n @ 1..) => real = real && write_all(self.pty.real.as_fd(), &bytes[..n]),
                Err(Errno::EAGAIN) => {
                    wait_for(
                        &[self.pty.master.as_fd(), signals.as_fd()],
                        PollTimeout::NONE,
                    );
                }
                Err(Errno::EINTR) => {}
                _ if ended => return,
                // No process has the terminal open, but the program may open it again.
                _ => {
                    wait_for(&[signals.as_fd()], PollTimeout::from(250_u8));
                }
            }
        }
    }
}

/// The keeper's child.
struct Program {
    pid: Pid,
    stopped: bool,
    /// The exit status, once the program has ended.
    status: Option<i32>,
}

impl Program {
    /// Reaps the program, if it has ended.
    fn release(&self) {
        if self.status.is_some() {
            let end = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG;
            let _ended = waitid(Id::Pid(self.pid), end);
        }
    }

    /// Checks what became of the program, and tells sbt.
    fn look(&mut self, signals: &SignalFd, sbt: Option<&Inside<'_>>) {
        while let Ok(Some(_)) = signals.read_signal() {}
        let changes = WaitPidFlag::WSTOPPED | WaitPidFlag::WCONTINUED | WaitPidFlag::WNOHANG;
        while self.status.is_none() {
            match waitid(Id::Pid(self.pid), changes) {
                Ok(WaitStatus::Stopped(_, signal)) => {
                    self.stopped = true;
                    let number = [u8::try_from(signal as i32).unwrap_or_default()];
                    let _unheard = sbt.map(|sbt| write(&sbt.stops, &number));
                }
                Ok(WaitStatus::Continued(_)) => self.stopped = false,
                _ => break,
            }
        }
        if self.status.is_some() {
            return;
        }
        // An ended program stays a zombie as long as sbt may send signals to its id.
        let end = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        // By a direct call, because libraries that name the signals fail for signals without a
        // name.
        // SAFETY: a structure of numbers, for which zeros are values.
        let mut news: libc::siginfo_t = unsafe { std::mem::zeroed() };
        let id = libc::id_t::try_from(self.pid.as_raw()).unwrap_or(0);
        // SAFETY: the kernel writes into a structure of this function.
        let result = unsafe { libc::waitid(libc::P_PID, id, &raw mut news, end) };
        // SAFETY: the structure is all zeros but for what the kernel wrote for a child.
        let (who, status) = unsafe { (news.si_pid(), news.si_status()) };
        if result != 0 || who == 0 {
            return;
        }
        let status = if news.si_code == libc::CLD_EXITED {
            status & 0xff
        } else {
            128 + status
        };
        self.status = Some(status);
        let _unheard = sbt.map(|sbt| write(&sbt.news, &status.to_ne_bytes()));
    }
}

/// Waits until a descriptor is readable or hung up; returns which ones are.
fn wait_for<const N: usize>(fds: &[BorrowedFd<'_>; N], timeout: PollTimeout) -> [bool; N] {
    let mut polled = fds.map(|fd| PollFd::new(fd, PollFlags::POLLIN));
    let _interrupted = poll(&mut polled, timeout);
    polled.map(|fd| fd.any().unwrap_or(false))
}

/// Writes all bytes; returns whether that succeeded.
fn write_all(fd: BorrowedFd<'_>, mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        match write(fd, bytes) {
            Ok(n) => bytes = &bytes[n..],
            Err(Errno::EINTR) => {}
            // Another process has made the descriptor non-blocking.
            Err(Errno::EAGAIN) => {
                let mut polled = [PollFd::new(fd, PollFlags::POLLOUT)];
                let _interrupted = poll(&mut polled, PollTimeout::NONE);
            }
            Err(_) => return false,
        }
    }
    true
}

fn close_range(from: RawFd, to: RawFd) {
    if from > to {
        return;
    }
    // SAFETY: nothing in this process uses these descriptors any more: it ends without dropping
    // their owners.
    unsafe {
        if libc::syscall(libc::SYS_close_range, from, to, 0) < 0 {
            for fd in from..=to.min(4096) {
                libc::close(fd);
            }
        }
    }
}

/// Ends a forked copy of sbt.
pub(super) fn leave(status: i32) -> ! {
    // SAFETY: ends the process without running what the original has registered for its own end.
    unsafe { libc::_exit(status) }
}
