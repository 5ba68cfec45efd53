//! The terminal that a program has while the screen has the real one: what the
//! program writes is kept, its last lines can be looked at, and it can be
//! typed to. When the screen is gone, [`Relay`] joins the two terminals.

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
use sbt_program::pty;

mod kept;
mod lines;
mod real;
mod relay;

pub use real::stop_ourselves;
pub use relay::{Ends, Relay};

use kept::Kept;
use lines::Lines;

/// What is read at a time, bytes.
const CHUNK: usize = 64 * 1024;
/// The most that is typed ahead of the program's reading, bytes.
const MAX_KEYS: usize = 64 * 1024;
/// More than the kernel holds of what was written and not read, bytes.
const IN_THE_KERNEL: usize = 256 * 1024;
/// How often it is looked whether a terminal that everyone has closed was
/// opened again.
const LOOK: Duration = Duration::from_millis(50);
/// The same when the program has ended.
const LOOK_SELDOM: Duration = Duration::from_secs(1);

/// Our end of it.
#[derive(Debug)]
pub struct Terminal {
    master: AsyncFd<OwnedFd>,
    /// When to look again, after everyone has closed the other end: the event
    /// loop remembers such a hang-up for good, and would wait for nothing.
    look: Option<Instant>,
    /// How long to wait until then.
    pause: Duration,
    buffer: Box<[u8]>,
    kept: Kept,
    lines: Lines,
    bytes: u64,
    /// The last answer, as long as it holds.
    output: Option<Arc<Output>>,
    keys: VecDeque<u8>,
}

impl Terminal {
    /// Takes what [`pty::Pty::into_master`] gives; within an event loop.
    pub fn new(master: OwnedFd) -> io::Result<Self> {
        // SAFETY: the descriptor is owned by what is registered: it stays the same.
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

    /// Takes in what the program has written, or hands it what was typed, as
    /// soon as either can be; to be called again and again. May be dropped
    /// while it waits.
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

    /// The same of one that may not be there: then there is nothing to do. Whether something
    /// was written.
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

    /// Takes in what was written so far, when the program has ended: others
    /// may hold its terminal open and write on.
    pub fn take_rest(&mut self) {
        let end = self.bytes + IN_THE_KERNEL as u64;
        while self.bytes < end && self.take_in(true) > 0 {}
    }

    /// Looks less often whether a terminal that everyone has closed was opened again: the
    /// program has ended.
    pub const fn look_seldom(&mut self) {
        self.pause = LOOK_SELDOM;
    }

    /// What was written.
    pub fn output(&mut self) -> Arc<Output> {
        let output = self.output.get_or_insert_with(|| {
            Arc::new(Output {
                lines: self.lines.all(),
                bytes: self.bytes,
            })
        });
        Arc::clone(output)
    }

    /// What had to be left out of what is kept, in words.
    pub fn note(&self) -> Option<String> {
        self.kept.note()
    }

    /// Types something. Returns how many bytes were taken: not all if the
    /// program has not read what was typed before for long.
    pub fn keys(&mut self, bytes: &[u8]) -> usize {
        let taken = bytes.len().min(MAX_KEYS - self.keys.len());
        self.keys.extend(&bytes[..taken]);
        taken
    }

    /// Gives it a size; programs in its foreground are told.
    pub fn resize(&self, columns: u16, rows: u16) -> io::Result<()> {
        let size = Winsize {
            ws_row: rows,
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        pty::set_size(self.master.get_ref(), size)
    }

    /// Signals those in its foreground, as a terminal does.
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

    /// Reads and keeps what there is, up to a chunk: how much. `now`: whatever
    /// the event loop knows of it.
    fn take_in(&mut self, now: bool) -> usize {
        let got = self.fill(now);
        let bytes = &self.buffer[..got];
        self.kept.push(bytes);
        self.lines.push(bytes);
        self.bytes += got as u64;
        if got > 0 {
            self.output = None;
        }
        got
    }

    /// Reads what there is, up to a chunk, into the buffer: how much.
    fn fill(&mut self, now: bool) -> usize {
        let mut got = 0;
        // The kernel gives less at a time than there is.
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
                // Nobody has the other end open.
                Ok(0) | Err(_) => {
                    self.look = Some(Instant::now() + self.pause);
                    break;
                }
            }
        }
        got
    }

    /// Gives the program what was typed, as much as it takes.
    fn hand_over(&mut self) {
        while !self.keys.is_empty() {
            let result = self.master.try_io(Interest::WRITABLE, |master| {
                Ok(nix::unistd::write(master, self.keys.as_slices().0)?)
            });
            match result {
                Ok(n) => drop(self.keys.drain(..n)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.raw_os_error() == Some(Errno::EINTR as i32) => {}
                // Nobody is there to read it.
                Err(_) => self.keys.clear(),
            }
        }
    }
}
