//! Runs a program in a terminal of our own: presses its keys and reads its screen.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::pty::{OpenptyResult, Winsize, openpty};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::{Pid, setsid};
use vt100::{Parser, Screen};

/// Longest time for something to appear on the screen.
const LIMIT: Duration = Duration::from_mins(1);
/// Time between two looks at the screen.
const LOOK: Duration = Duration::from_millis(20);
/// Longest time for an interrupted program to end.
const PATIENCE: Duration = Duration::from_secs(10);
/// A frame may be written in several pieces; after this time without another piece it is complete.
const STILL: Duration = Duration::from_millis(40);

/// A running program and its terminal.
pub struct Tty {
    child: Child,
    keyboard: File,
    shown: Arc<Mutex<Shown>>,
}

/// The output of the program.
struct Shown {
    parser: Parser,
    /// Time of its last output.
    at: Instant,
}

impl Tty {
    /// Starts a program in a terminal with this many columns and rows.
    pub fn start(command: &mut Command, (columns, rows): (u16, u16)) -> Result<Self> {
        let size = Winsize {
            ws_row: rows,
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        let OpenptyResult { master, slave } = openpty(&size, None).context("openpty")?;
        // The program must not inherit our end of the terminal, or it would never see us hang up.
        fcntl(&master, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).context("fcntl")?;
        let child = spawn(command, slave)?;
        let keyboard = File::from(master);
        let mut source = keyboard.try_clone().context("dup")?;
        let shown = Arc::new(Mutex::new(Shown {
            parser: Parser::new(rows, columns, 0),
            at: Instant::now(),
        }));
        let theirs = Arc::clone(&shown);
        // The thread ends when the last program on the terminal does.
        thread::spawn(move || {
            let mut bytes = [0; 1 << 13];
            while let Ok(n @ 1..) = source.read(&mut bytes) {
                let mut shown = lock(&theirs);
                shown.parser.process(&bytes[..n]);
                shown.at = Instant::now();
            }
        });
        Ok(Self {
            child,
            keyboard,
            shown,
        })
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Types keys.
    pub fn press(&mut self, keys: &str) -> Result<()> {
        self.keyboard
            .write_all(keys.as_bytes())
            .context("the terminal takes no keys")
    }

    /// The next complete frame for which `wanted` is true.
    pub fn wait_for(&mut self, what: &str, wanted: impl Fn(&Screen) -> bool) -> Result<Screen> {
        let until = Instant::now() + LIMIT;
        loop {
            {
                let shown = lock(&self.shown);
                let screen = shown.parser.screen();
                if shown.at.elapsed() > STILL && wanted(screen) {
                    return Ok(screen.clone());
                }
                if Instant::now() > until {
                    bail!("no {what} on the screen:\n{}", screen.contents());
                }
            }
            if let Some(status) = self.child.try_wait().context("waiting")? {
                let shown = lock(&self.shown);
                let screen = shown.parser.screen().contents();
                bail!("ended ({status}) before there was {what} on the screen:\n{screen}");
            }
            thread::sleep(LOOK);
        }
    }
}

impl Drop for Tty {
    fn drop(&mut self) {
        // The watched program would go on if sbt were killed, so it is interrupted first.
        let _gone = self.press("\x03");
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until && matches!(self.child.try_wait(), Ok(None)) {
            thread::sleep(LOOK);
        }
        if let Ok(pid) = i32::try_from(self.child.id()) {
            let _gone = killpg(Pid::from_raw(pid), Signal::SIGKILL);
        }
        let _gone = self.child.wait();
    }
}

fn lock(shown: &Mutex<Shown>) -> MutexGuard<'_, Shown> {
    shown.lock().unwrap_or_else(PoisonError::into_inner)
}

fn spawn(command: &mut Command, terminal: OwnedFd) -> Result<Child> {
    command
        .stdin(terminal.try_clone().context("dup")?)
        .stdout(terminal.try_clone().context("dup")?)
        .stderr(terminal.try_clone().context("dup")?);
    let number = terminal.as_raw_fd();
    // SAFETY: between fork and exec only two system calls are made, on a descriptor that is open
    // until after exec.
    unsafe {
        command.pre_exec(move || {
            setsid()?;
            if nix::libc::ioctl(number, nix::libc::TIOCSCTTY, 0) < 0 {
                return Err(std::io::Error::last_os_error());
            }
            Ok(())
        });
    }
    let child = command.spawn();
    // Copies of the program's end would keep the terminal open.
    command
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null());
    drop(terminal);
    child.with_context(|| format!("cannot run {}", command.get_program().display()))
}
