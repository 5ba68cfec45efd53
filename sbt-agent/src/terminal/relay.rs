//! After the screen: shows on the real terminal what was kept, and then joins the program's
//! terminal to it as if nothing were in between.

use std::{io, os::fd::OwnedFd, time::Duration};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tokio::{
    io::unix::AsyncFd,
    signal::unix::{Signal as Heard, SignalKind, signal},
    time::sleep,
};

use super::{
    CHUNK, IN_THE_KERNEL, MAX_KEYS, Terminal,
    real::{Mode, Real, stop_ourselves},
};
use sbt_program::{launch::Running, process};

/// How often to check whether sbt is in the foreground again: shells do not always tell.
const LOOK: Duration = Duration::from_millis(250);

/// Joins a program's terminal and the real one. Dropping it restores the real one.
#[derive(Debug)]
pub struct Relay {
    terminal: Terminal,
    /// `None` if there is no real terminal, or it is gone.
    real: Option<Real>,
    /// Whether no more can be typed.
    input_ended: bool,
    /// Whether sbt is in the foreground of the real terminal, and may read from it.
    in_front: bool,
    /// How much of what was kept is shown, bytes.
    shown: u64,
    told: bool,
    /// Bytes being written to the real terminal, and how many of them are written.
    out: Vec<u8>,
    written: usize,
    program: Option<Program>,
    resized: Heard,
    continued: Heard,
}

#[derive(Debug)]
struct Program {
    pid: Pid,
    stops: Option<AsyncFd<OwnedFd>>,
}

/// The next possible step.
enum Next {
    Write,
    Read,
    Type,
    HandOver,
    Resize,
    Resume,
    Stop,
}

/// The ends that a [`Relay`] needs besides the program's terminal. Opened first, so that the
/// program's terminal is not lost if that fails.
#[derive(Debug)]
pub struct Ends {
    program: Option<Program>,
    real: Option<Real>,
    resized: Heard,
    continued: Heard,
}

impl Ends {
    /// To be called within an event loop, after the screen has released the real terminal.
    /// `running`: the program, unless it has ended.
    pub fn open(running: Option<&mut Running>) -> io::Result<Self> {
        let real = Real::open()?;
        let resized = signal(SignalKind::window_change())?;
        let continued = signal(SignalKind::from_raw(Signal::SIGCONT as i32))?;
        // Last, since this can be taken only once.
        let program = match running {
            Some(running) => Some(Program {
                pid: running.pid(),
                stops: running
                    .take_stops()
                    // SAFETY: what is registered owns the descriptor, which therefore stays the
                    // same.
                    .map(|fd| unsafe { AsyncFd::register(fd) })
                    .transpose()?,
            }),
            None => None,
        };
        Ok(Self {
            program,
            real,
            resized,
            continued,
        })
    }

    /// Joins the program's terminal and the real one.
    pub fn join(self, terminal: Terminal) -> Relay {
        let mut relay = Relay {
            terminal,
            real: self.real,
            input_ended: false,
            in_front: false,
            shown: 0,
            told: false,
            out: Vec::new(),
            written: 0,
            program: self.program,
            resized: self.resized,
            continued: self.continued,
        };
        relay.resume();
        relay
    }
}

impl Relay {
    /// The program's terminal.
    pub fn terminal(&self) -> &Terminal {
        &self.terminal
    }

    /// Waits until something can be done, and does it. To be called again and again while the
    /// program runs. May be dropped while it waits.
    pub async fn turn(&mut self) -> io::Result<()> {
        self.refill();
        let next = self.next().await?;
        self.act(&next);
        Ok(())
    }

    /// As [`Relay::turn`], for a relay that may be absent: then waits for ever.
    pub async fn turn_of(relay: &mut Option<Self>) -> io::Result<()> {
        match relay {
            Some(relay) => relay.turn().await,
            None => std::future::pending().await,
        }
    }

    /// Whether all that was kept is shown.
    pub fn is_up_to_date(&mut self) -> bool {
        self.refill();
        self.out.is_empty() || self.real.is_none()
    }

    /// Does something with the real terminal restored.
    pub fn aside<T>(&mut self, act: impl FnOnce() -> T) -> T {
        if let Some(real) = &mut self.real {
            real.restore();
        }
        let result = act();
        self.resume();
        result
    }

    /// Shows the rest after the program has ended. May be dropped while it waits, and called again.
    pub async fn finish(&mut self) -> io::Result<()> {
        if let Some(real) = &mut self.real {
            // From here on Ctrl-C is for sbt.
            real.set(Mode::Show);
        }
        self.input_ended = true;
        self.program = None;
        // Other processes may hold its terminal open and keep writing.
        let mut left = IN_THE_KERNEL;
        loop {
            self.refill();
            if self.out.is_empty() {
                let got = if left > 0 {
                    self.terminal.fill(true)
                } else {
                    0
                };
                left = left.saturating_sub(got);
                self.out.extend_from_slice(&self.terminal.buffer[..got]);
            }
            if self.out.is_empty() || self.real.is_none() {
                break;
            }
            while let (Some(real), false) = (&self.real, self.out.is_empty()) {
                real.writable().await?;
                self.write();
            }
        }
        if let Some(real) = &mut self.real {
            real.restore();
        }
        Ok(())
    }

    /// Gets the next bytes to be shown: what was kept, oldest first.
    fn refill(&mut self) {
        if !self.out.is_empty() || self.real.is_none() {
            return;
        }
        let kept = &self.terminal.kept;
        if let (false, true, Some(note)) = (self.told, kept.gap() == Some(self.shown), kept.note())
        {
            self.told = true;
            self.out = format!("\r\n[sbt: {note}]\r\n").into_bytes();
            return;
        }
        self.out.resize(CHUNK, 0);
        // Bytes that cannot be read back are skipped.
        let got = kept.read(self.shown, &mut self.out).unwrap_or(0);
        self.out.truncate(got);
        self.shown += got as u64;
    }

    async fn next(&mut self) -> io::Result<Next> {
        let Self {
            terminal,
            real,
            out,
            ..
        } = self;
        let to_show = !out.is_empty();
        let foreground = real.as_ref().is_some_and(Real::is_in_foreground);
        if foreground && !self.in_front {
            return Ok(Next::Resume);
        }
        let room = terminal.keys.len() < MAX_KEYS;
        let real = real.as_ref();
        let stops = self.program.as_ref().and_then(|p| p.stops.as_ref());
        let next = tokio::select! {
            result = ready(real.map(Real::writable)), if to_show => result.map(|()| Next::Write),
            result = terminal.readable(), if !to_show => result.map(|()| Next::Read),
            result = ready(real.map(Real::readable)), if foreground && room && !self.input_ended =>
                result.map(|()| Next::Type),
            result = terminal.writable(), if !terminal.keys.is_empty() =>
                result.map(|()| Next::HandOver),
            _ = self.resized.recv() => Ok(Next::Resize),
            _ = self.continued.recv() => Ok(Next::Resume),
            result = ready(stops.map(AsyncFd::readable)) =>
                result.map(|mut guard| { guard.retain_ready(); Next::Stop }),
            () = sleep(LOOK), if !foreground && real.is_some() => Ok(Next::Resume),
        };
        next
    }

    fn act(&mut self, next: &Next) {
        match next {
            Next::Write => self.write(),
            Next::Read => self.read(),
            Next::Type => self.take_keys(),
            Next::HandOver => self.terminal.hand_over(),
            Next::Resize => self.resize(),
            Next::Resume => self.resume(),
            Next::Stop => self.stop(),
        }
    }

    fn write(&mut self) {
        let Some(real) = &self.real else {
            self.out.clear();
            return;
        };
        match real.write(&self.out[self.written..]) {
            Ok(n) => self.written += n,
            Err(error) if is_temporary(&error) => return,
            // The real terminal is gone: the program goes on, its output unseen.
            Err(_) => {
                self.real = None;
                self.written = self.out.len();
            }
        }
        if self.written == self.out.len() {
            self.written = 0;
            self.out.clear();
        }
    }

    fn read(&mut self) {
        let got = self.terminal.fill(false);
        if self.real.is_some() {
            self.out.extend_from_slice(&self.terminal.buffer[..got]);
        }
    }

    fn take_keys(&mut self) {
        let Some(real) = &self.real else {
            return;
        };
        let mut keys = [0; 4_096];
        let room = (MAX_KEYS - self.terminal.keys.len()).min(keys.len());
        match real.read(&mut keys[..room]) {
            Ok(n @ 1..) => {
                self.terminal.keys(&keys[..n]);
            }
            Err(error) if is_temporary(&error) => {}
            Ok(_) | Err(_) => self.input_ended = true,
        }
    }

    fn resize(&self) {
        if let Some((columns, rows)) = self.real.as_ref().and_then(Real::size) {
            let _same = self.terminal.resize(columns, rows);
        }
    }

    /// Takes the real terminal over, if sbt is in its foreground.
    fn resume(&mut self) {
        if let Some(real) = &mut self.real {
            self.in_front = real.is_in_foreground();
            if self.program.is_some() {
                real.set(Mode::Raw);
            }
        }
        self.resize();
    }

    /// The program was stopped. Stops sbt too, as the shell expects; when sbt is continued,
    /// continues the program.
    fn stop(&mut self) {
        let Some(Program {
            pid,
            stops: Some(stops),
        }) = &self.program
        else {
            return;
        };
        let mut numbers = [0; 64];
        let result = stops.try_io(tokio::io::Interest::READABLE, |fd| {
            Ok(nix::unistd::read(fd, &mut numbers)?)
        });
        let pid = *pid;
        match result {
            Ok(1..) if process::is_stopped(pid.as_raw().cast_unsigned()) => {
                if let Some(real) = &mut self.real {
                    real.restore();
                }
                stop_ourselves();
                self.resume();
                let _gone = kill(Pid::from_raw(-pid.as_raw()), Signal::SIGCONT);
            }
            // The program has been continued already.
            Ok(1..) => {}
            Err(error) if is_temporary(&error) => {}
            // The process that reports stops is gone.
            Ok(_) | Err(_) => {
                self.program = Some(Program { pid, stops: None });
            }
        }
    }
}

fn is_temporary(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}

/// Waits for ever if there is no future.
async fn ready<T>(future: Option<impl Future<Output = io::Result<T>>>) -> io::Result<T> {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}
