//! In a terminal: Ctrl-C reaches everybody, once.

use std::{
    fs::File,
    io::{Read as _, Write as _},
    os::{
        fd::{AsRawFd as _, FromRawFd as _, OwnedFd},
        unix::process::CommandExt as _,
    },
    path::Path,
    process::{Child, Command},
    sync::{Arc, Mutex},
    thread::{self, JoinHandle},
};

use crate::{
    attach::clean_code,
    harness::{
        LIMIT, command, eventually, kill, needs_root, pause, sbt, start, with_usual_signals,
    },
    programs::program,
};

/// A command whose terminal we are.
struct Terminal {
    child: Child,
    keyboard: File,
    screen: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl Terminal {
    fn start(program: &Path, arguments: &[&str]) -> Self {
        let (mut ours, mut theirs) = (-1, -1);
        // SAFETY: both numbers are written to; all else may be null.
        let result = unsafe {
            libc::openpty(
                &raw mut ours,
                &raw mut theirs,
                std::ptr::null_mut(),
                std::ptr::null_mut(),
                std::ptr::null_mut(),
            )
        };
        assert_eq!(result, 0, "openpty: {}", std::io::Error::last_os_error());
        // SAFETY: the call has just opened them for us.
        let (ours, theirs) = unsafe { (OwnedFd::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs)) };
        // Nobody but us may hold our end, or a hang-up is never noticed.
        // SAFETY: a plain system call.
        unsafe { libc::fcntl(ours.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC) };
        let mut command = Command::new(program);
        command
            .args(arguments)
            .stdin(theirs.try_clone().unwrap())
            .stdout(theirs.try_clone().unwrap())
            .stderr(theirs);
        with_usual_signals(&mut command);
        // SAFETY: two system calls, which are allowed there.
        unsafe {
            command.pre_exec(|| {
                if libc::setsid() < 0 || libc::ioctl(0, libc::TIOCSCTTY, 0) < 0 {
                    return Err(std::io::Error::last_os_error());
                }
                Ok(())
            });
        }
        let child = command.spawn().unwrap();
        // The command holds copies of their end.
        drop(command);
        let keyboard = File::from(ours);
        let mut source = keyboard.try_clone().unwrap();
        let screen = Arc::new(Mutex::new(Vec::new()));
        let copy = Arc::clone(&screen);
        let reader = thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(n @ 1..) = source.read(&mut bytes) {
                copy.lock().unwrap().extend_from_slice(&bytes[..n]);
            }
        });
        Self {
            child,
            keyboard,
            screen,
            reader: Some(reader),
        }
    }

    fn shown(&self) -> String {
        String::from_utf8_lossy(&self.screen.lock().unwrap()).into_owned()
    }

    #[track_caller]
    fn wait_for(&self, text: &str) {
        let found = eventually(LIMIT, || self.shown().contains(text).then_some(()));
        assert!(found.is_some(), "no \"{text}\" in:\n{}", self.shown());
    }

    fn press(&mut self, key: u8) {
        self.keyboard.write_all(&[key]).unwrap();
    }

    #[track_caller]
    fn finish(mut self) -> (Option<i32>, String) {
        let status = eventually(LIMIT, || self.child.try_wait().unwrap());
        let Some(status) = status else {
            panic!("does not end:\n{}", self.shown());
        };
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
        (status.code(), self.shown())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        kill(-self.child.id().cast_signed(), libc::SIGKILL);
        let _ = self.child.wait();
    }
}

const CTRL_C: u8 = 3;

#[test]
fn ctrl_c_reaches_the_program_once() {
    needs_root!();
    let interrupts = program("interrupts.c");
    let mut terminal = Terminal::start(sbt(), &["run", "--", interrupts.to_str().unwrap()]);
    terminal.wait_for("ready");
    terminal.press(CTRL_C);
    let (status, shown) = terminal.finish();
    assert_eq!(status, Some(11), "{shown}");
    assert!(shown.contains("No barrier was used"), "{shown}");
}

#[test]
fn ctrl_c_ends_the_program_and_the_report_is_shown() {
    needs_root!();
    let truth = program("truth.c");
    let arguments = [
        "run",
        "--",
        truth.to_str().unwrap(),
        "rounds=100000",
        "base=1000",
    ];
    let mut terminal = Terminal::start(sbt(), &arguments);
    terminal.wait_for("ready");
    pause(300);
    terminal.press(CTRL_C);
    let (status, shown) = terminal.finish();
    assert_eq!(status, Some(130), "{shown}");
    assert!(shown.contains("meet truth.c:"), "{shown}");
    assert!(shown.contains("ended by signal 2"), "{shown}");
}

#[test]
fn a_program_that_ignores_ctrl_c_goes_on() {
    needs_root!();
    let truth = program("truth.c");
    let arguments = [
        "run",
        "--",
        truth.to_str().unwrap(),
        "rounds=1500",
        "base=1000",
        "ignore=2",
        "status=6",
    ];
    let mut terminal = Terminal::start(sbt(), &arguments);
    terminal.wait_for("ready");
    pause(200);
    terminal.press(CTRL_C);
    let (status, shown) = terminal.finish();
    assert_eq!(status, Some(6), "{shown}");
    assert!(shown.contains("done 6000"), "{shown}");
    assert!(shown.contains("meet truth.c:"), "{shown}");
}

#[test]
fn ctrl_c_detaches() {
    needs_root!();
    let mut target = start(command(
        program("truth.c"),
        &["threads=3", "rounds=700", "base=2000", "skew=300"],
    ));
    target.wait_for("ready");
    let mut terminal = Terminal::start(sbt(), &["attach", &target.pid().to_string()]);
    pause(800);
    terminal.press(CTRL_C);
    let (status, shown) = terminal.finish();
    assert_eq!(status, Some(0), "{shown}");
    assert!(shown.contains("meet truth.c:"), "{shown}");
    assert!(shown.contains("still running"), "{shown}");
    let out = target.finish().expect(0).out();
    assert_eq!(out, format!("ready\n{}\ndone 2100\n", clean_code()));
}

#[test]
fn a_terminal_that_goes_away() {
    needs_root!();
    let folder = crate::harness::folder();
    let json = folder.path().join("report.json");
    let truth = program("truth.c");
    let arguments = [
        "run",
        "--json",
        "--output",
        json.to_str().unwrap(),
        "--",
        truth.to_str().unwrap(),
        "rounds=100000",
        "base=1000",
    ];
    let mut terminal = Terminal::start(sbt(), &arguments);
    terminal.wait_for("ready");
    pause(300);
    // The reader holds the other copy: it ends with the hang-up.
    kill(terminal.child.id().cast_signed(), libc::SIGHUP);
    let status = eventually(LIMIT, || terminal.child.try_wait().unwrap()).unwrap();
    assert_eq!(status.code(), Some(128 + libc::SIGHUP));
    assert!(crate::harness::Report::read(&json).number("episodes") > 10);
}
