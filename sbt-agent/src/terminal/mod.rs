//! The terminal of a program while the screen has the real one. What the program writes is kept,
//! its last lines can be looked at, and keys can be typed to it. When the screen is gone, [`Relay`]
//! joins the two terminals.

use std::{collections::VecDeque, io, os::fd::OwnedFd, sync::Arc, time::Duration};

use nix::{
    errno::Errno,
    pty::Winsize,
    sys::signal::{Signal, kill},
    unistd::{Pid, tcgetpgrp},
};
use tokio::{
    io::{Interest, unix::AsyncFd},
    time::{Instant, sleep_until},
};

use sbt_engine::live::Output;
use sbt_program::{clock, pty};

mod kept;
mod lines;
mod real;
mod relay;

pub use real::stop_ourselves;
pub use relay::{Ends, Relay};

use kept::Kept;
use lines::Lines;

/// How much is read at a time, bytes.
const CHUNK: usize = 64 * 1024;
/// How much can be typed before the program reads it, bytes.
const MAX_KEYS: usize = 64 * 1024;
/// More than the kernel can hold of written but unread output, bytes.
const IN_THE_KERNEL: usize = 256 * 1024;
/// How often to check whether a terminal that all processes have closed was opened again.
const LOOK: Duration = Duration::from_millis(50);
/// How often to check that after the program has ended.
const LOOK_SELDOM: Duration = Duration::from_secs(1);

/// The program's terminal, from sbt's end.
#[derive(Debug)]
pub struct Terminal {
    master: AsyncFd<OwnedFd>,
    /// The time at which to check again, after all processes have closed the other end: the event
    /// loop never forgets such a hang-up, and would not wait.
    look: Option<Instant>,
    /// Pause until then.
    pause: Duration,
    buffer: Box<[u8]>,
    kept: Kept,
    lines: Lines,
    bytes: u64,
    /// The last result of [`Terminal::output`], while it still holds.
    output: Option<Arc<Output>>,
    keys: VecDeque<u8>,
}

impl Terminal {
    /// Takes over the result of [`pty::Pty::into_master`]. To be called within an event loop.
    pub fn new(master: OwnedFd) -> io::Result<Self> {
        // SAFETY: what is registered owns the descriptor, which therefore stays the same.
        let master = unsafe { AsyncFd::register(master) }?;
        Ok(Self {
            master,
            look: None,
            pause: LOOK,
            buffer: vec![0; CHUNK].into(),
            kept: Kept::new(),
            lines: Lines::default(),
            bytes: 0,
            output: None,
            keys: VecDeque::new(),
        })
    }

    /// Waits until the program has written something or reads what was typed, and handles that. To
    /// be called again and again. May be dropped while it waits.
    pub async fn turn(&mut self) -> io::Result<()> {
        tokio::select! {
            result = self.readable() => {
                result?;
                self.take_in(false);
            }
            result = self.writable(), if !self.keys.is_empty() => {
                result?;
                self.hand_over();
            }
        }
        Ok(())
    }

    /// As [`Terminal::turn`], for a terminal that may be absent: then waits for ever. Returns
    /// whether anything was written.
    pub async fn turn_of(terminal: &mut Option<Self>) -> io::Result<bool> {
        match terminal {
            Some(terminal) => {
                let before = terminal.bytes;
                terminal.turn().await?;
                Ok(terminal.bytes > before)
            }
            None => std::future::pending().await,
        }
    }

    /// Takes in the output so far, after the program has ended. Bounded: other processes may hold
    /// its terminal open and keep writing.
    pub fn take_rest(&mut self) {
        let end = self.bytes + IN_THE_KERNEL as u64;
        while self.bytes < end && self.take_in(true) > 0 {}
    }

    /// After the program has ended: checks less often whether its terminal was opened again.
    pub const fn look_seldom(&mut self) {
        self.pause = LOOK_SELDOM;
    }

    /// The last lines that were written.
    pub fn output(&mut self) -> Arc<Output> {
        let output = self.output.get_or_insert_with(|| {
            Arc::new(Output {
                lines: self.lines.all(),
                bytes: self.bytes,
            })
        });
        Arc::clone(output)
    }

    /// The amount of kept output that was dropped, in words.
    pub fn note(&self) -> Option<String> {
        self.kept.note()
    }

    /// Types keys. Returns how many bytes were taken: not all if the program has long not read.
    pub fn keys(&mut self, bytes: &[u8]) -> usize {
        let taken = bytes.len().min(MAX_KEYS - self.keys.len());
        self.keys.extend(&bytes[..taken]);
        taken
    }

    /// Sets the size; programs in the foreground are told.
    pub fn resize(&self, columns: u16, rows: u16) -> io::Result<()> {
        let size = Winsize {
            ws_row: rows,
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        pty::set_size(self.master.get_ref(), size)
    }

    /// Sends a signal to the programs in the foreground, as a terminal does.
    pub fn signal(&self, signal: Signal) {
        if let Ok(group) = tcgetpgrp(self.master.get_ref())
            && group.as_raw() > 1
        {
            let _gone = kill(Pid::from_raw(-group.as_raw()), signal);
        }
    }

    async fn readable(&self) -> io::Result<()> {
        match self.look {
            Some(look) => sleep_until(look).await,
            None => self.master.readable().await?.retain_ready(),
        }
        Ok(())
    }

    async fn writable(&self) -> io::Result<()> {
        self.master.writable().await?.retain_ready();
        Ok(())
    }

    /// Reads and keeps the available output, up to a chunk. Returns how many bytes. `now`: read
    /// even if the event loop knows of nothing to read.
    fn take_in(&mut self, now: bool) -> usize {
        let got = self.fill(now);
        let bytes = &self.buffer[..got];
        self.kept.push(bytes);
        self.lines.push(bytes, clock::now_ns());
        self.bytes += got as u64;
        if got > 0 {
            self.output = None;
        }
        got
    }

    /// Reads the available output, up to a chunk, into the buffer. Returns how many bytes.
    fn fill(&mut self, now: bool) -> usize {
        let mut got = 0;
        // One read may give less than there is.
        while got < self.buffer.len() {
            let rest = &mut self.buffer[got..];
            let result = if now {
                nix::unistd::read(self.master.get_ref(), rest).map_err(io::Error::from)
            } else {
                self.master.try_io(Interest::READABLE, |master| {
                    Ok(nix::unistd::read(master, rest)?)
                })
            };
            match result {
                Ok(n @ 1..) => got += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.look = self.look.map(|_| Instant::now() + self.pause);
                    break;
                }
                // All processes have closed the other end.
                Ok(0) | Err(_) => {
                    self.look = Some(Instant::now() + self.pause);
                    break;
                }
            }
        }
        got
    }

    /// Passes typed keys to the program, as many as it takes.
    fn hand_over(&mut self) {
        while !self.keys.is_empty() {
            let result = self.master.try_io(Interest::WRITABLE, |master| {
                Ok(nix::unistd::write(master, self.keys.as_slices().0)?)
            });
            match result {
                Ok(n) => drop(self.keys.drain(..n)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.raw_os_error() == Some(Errno::EINTR as i32) => {}
                // No process is there to read them.
                Err(_) => self.keys.clear(),
            }
        }
    }
}
