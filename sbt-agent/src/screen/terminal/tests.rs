//! Tests in a real pseudo-terminal: this test binary starts itself again there, with a [`ROLE`] to
//! play.

use std::{
    fs::File,
    io::{Read as _, Write as _},
    os::{
        fd::{AsRawFd as _, FromRawFd as _, OwnedFd},
        unix::process::CommandExt as _,
    },
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use tokio::sync::{mpsc::unbounded_channel, watch};

use super::*;
use sbt_engine::samples;

/// The environment variable that tells the process in the terminal what to do.
const ROLE: &str = "SBT_TEST_SCREEN";
/// Longer than any step here takes.
const LIMIT: Duration = Duration::from_secs(30);

/// The process in the terminal.
#[test]
fn child() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let look = Look {
        unicode: true,
        color: true,
    };
    let (sender, latest) = watch::channel(Arc::new(samples::imbalanced()));
    let (requests, mut theirs) = unbounded_channel();
    let handle = Screen::spawn(look, latest, requests).unwrap();
    if role == "stuck" {
        for at in 0..12 {
            let sample = if at % 2 == 0 {
                samples::many_sites()
            } else {
                samples::many_threads()
            };
            sender.send_replace(Arc::new(sample));
            thread::sleep(FRAME);
        }
        let began = Instant::now();
        handle.close();
        assert!(began.elapsed() < LIMIT / 5);
        return;
    }
    // After a hang-up no more requests arrive.
    while let Some(request) = theirs.blocking_recv() {
        match request {
            Request::Save => {
                handle.suspend();
                eprintln!("in between");
                handle.resume();
            }
            Request::Reset => panic!("on purpose"),
            Request::Leave => break,
            _ => {}
        }
    }
    handle.close();
}

/// A process in a pseudo-terminal whose other end we hold.
struct Played {
    child: Child,
    ours: File,
    shown: Arc<Mutex<Vec<u8>>>,
}

impl Played {
    fn start(role: &str) -> Self {
        let (mut ours, mut theirs) = (-1, -1);
        let size = libc::winsize {
            ws_row: 24,
            ws_col: 80,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        // SAFETY: both descriptors are written to, the size is read; the other pointers may be
        // null.
        let result = unsafe {
            libc::openpty(
                &raw mut ours,
                &raw mut theirs,
                std::ptr::null_mut(),
                std::ptr::null(),
                &raw const size,
            )
        };
        assert_eq!(result, 0, "openpty: {}", io::Error::last_os_error());
        // SAFETY: the call has just opened them for us.
        let (ours, theirs) = unsafe { (OwnedFd::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs)) };
        // If another process held our end, the hang-up would never be noticed.
        // SAFETY: a plain system call.
        unsafe { libc::fcntl(ours.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC) };
        let mut command = Command::new(std::env::current_exe().unwrap());
        // The output of these two roles is not read by anybody.
        let quiet = matches!(role, "stuck" | "hangup");
        command
            .args(["--exact", "screen::terminal::tests::child", "--nocapture"])
            .env(ROLE, role)
            .stdin(theirs.try_clone().unwrap())
            .stdout(Stdio::null())
            .stderr(if quiet { Stdio::null() } else { theirs.into() });
        // SAFETY: the closure makes three system calls, which are allowed between fork and exec.
        unsafe {
            command.pre_exec(|| {
                // Ignored as under nohup: the screen has to notice the hang-up by itself.
                libc::signal(libc::SIGHUP, libc::SIG_IGN);
                if libc::setsid() < 0 || libc::ioctl(0, libc::TIOCSCTTY, 0) < 0 {
                    return Err(io::Error::last_os_error());
                }
                Ok(())
            });
        }
        let child = command.spawn().unwrap();
        let ours = File::from(ours);
        let shown = Arc::new(Mutex::new(Vec::new()));
        if !quiet {
            let (mut source, copy) = (ours.try_clone().unwrap(), Arc::clone(&shown));
            thread::spawn(move || {
                let mut bytes = [0; 4096];
                while let Ok(n @ 1..) = source.read(&mut bytes) {
                    copy.lock().unwrap().extend_from_slice(&bytes[..n]);
                }
            });
        }
        Self { child, ours, shown }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.shown.lock().unwrap()).into_owned()
    }

    /// Waits until a text appears after position `from`. Returns where it ends.
    fn expect(&self, from: usize, what: &str) -> usize {
        let began = Instant::now();
        loop {
            let text = self.text();
            if let Some(at) = text.get(from..).and_then(|text| text.find(what)) {
                return from + at + what.len();
            }
            assert!(began.elapsed() < LIMIT, "no {what:?} in {text:?}");
            thread::sleep(RETRY);
        }
    }

    fn key(&mut self, key: &str) {
        self.ours.write_all(key.as_bytes()).unwrap();
    }

    fn resize(&self, columns: u16, rows: u16) {
        let size = libc::winsize {
            ws_row: rows,
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        // SAFETY: the descriptor is ours and the structure is the one meant.
        let result =
            unsafe { libc::ioctl(self.ours.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) };
        assert_eq!(result, 0);
    }

    /// Whether lines and echo are set as in a shell.
    fn is_cooked(&self) -> bool {
        // SAFETY: a structure of integers may be zero; the call fills it.
        let mut modes: libc::termios = unsafe { std::mem::zeroed() };
        // SAFETY: the descriptor is ours and the structure is the one meant.
        let result = unsafe { libc::tcgetattr(self.ours.as_raw_fd(), &raw mut modes) };
        assert_eq!(result, 0);
        modes.c_lflag & (libc::ICANON | libc::ECHO) == libc::ICANON | libc::ECHO
    }

    fn status(&mut self) -> Option<i32> {
        let status = ended(&mut self.child);
        status.unwrap_or_else(|| panic!("it does not end: {:?}", self.text()))
    }
}

/// The exit status of a process; `None` if the process does not end in time.
#[allow(clippy::option_option, reason = "a process may end by a signal")]
fn ended(child: &mut Child) -> Option<Option<i32>> {
    let began = Instant::now();
    while began.elapsed() < LIMIT {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status.code());
        }
        thread::sleep(RETRY);
    }
    child.kill().unwrap();
    None
}

const ENTER: &str = "\x1b[?1049h";
const LEAVE: &str = "\x1b[?1049l";

#[test]
fn the_terminal_is_taken_over_and_given_back() {
    let mut played = Played::start("leave");
    let at = played.expect(0, ENTER);
    let at = played.expect(at, "moving");
    assert!(!played.is_cooked());
    played.key("3");
    let at = played.expect(at, "happens");
    played.resize(100, 30);
    let at = played.expect(at, "\x1b[30;1H");
    played.key("q");
    assert_eq!(played.status(), Some(0));
    played.expect(at, LEAVE);
    played.expect(at, "\x1b[?1000l");
    played.expect(at, "\x1b[?25h");
    assert!(played.is_cooked());
}

#[test]
fn a_panic_gives_the_terminal_back_before_it_tells() {
    let mut played = Played::start("panic");
    let at = played.expect(0, "moving");
    played.key("r");
    let at = played.expect(at, LEAVE);
    played.expect(at, "on purpose");
    assert_eq!(played.status(), Some(101));
    assert!(played.is_cooked());
    assert!(!played.text()[at..].contains(ENTER));
}

#[test]
fn the_terminal_is_the_shells_while_suspended() {
    let mut played = Played::start("suspend");
    let at = played.expect(0, "moving");
    played.key("w");
    let at = played.expect(at, LEAVE);
    let at = played.expect(at, "in between");
    let at = played.expect(at, ENTER);
    let at = played.expect(at, "moving");
    assert!(!played.is_cooked());
    played.key("q");
    assert_eq!(played.status(), Some(0));
    played.expect(at, LEAVE);
    assert!(played.is_cooked());
}

#[test]
fn a_terminal_that_takes_nothing_does_not_keep_the_session() {
    let mut played = Played::start("stuck");
    assert_eq!(played.status(), Some(0));
    assert!(played.is_cooked());
}

#[test]
fn a_terminal_that_is_gone_ends_the_screen() {
    let Played {
        mut child, ours, ..
    } = Played::start("hangup");
    thread::sleep(5 * FRAME);
    drop(ours);
    assert_eq!(ended(&mut child), Some(Some(0)));
}
