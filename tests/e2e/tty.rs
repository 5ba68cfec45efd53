//! A terminal for tests: runs a command, presses keys, and records the output, as bytes and as a
//! screen.

use std::{
    fs::{self, File},
    io::{Read as _, Write as _},
    os::{
        fd::{AsRawFd as _, FromRawFd as _, OwnedFd},
        unix::process::CommandExt as _,
    },
    path::Path,
    process::{Child, Command, ExitStatus},
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
};

use vt100::{MouseProtocolEncoding, MouseProtocolMode, Parser, Screen};

use crate::harness::{LIMIT, eventually, kill, pause, sbt_with, with_usual_signals};

/// Columns and rows.
pub type Size = (u16, u16);

/// Usual size of a new terminal.
pub const USUAL: Size = (80, 24);

pub const CTRL_C: &str = "\x03";
pub const CTRL_Z: &str = "\x1a";
/// Takes the keyboard back from the program.
pub const CTRL_BRACKET: &str = "\x1d";
pub const ESC: &str = "\x1b";

/// Escape sequence that leaves the alternate screen.
const LEAVE: &str = "\x1b[?1049l";
/// Escape sequences that turn reports of focus on and off.
const FOCUS: [&str; 2] = ["\x1b[?1004h", "\x1b[?1004l"];

/// `sbt` with arguments, for a terminal with all features.
pub fn sbt_for_tty<S: AsRef<std::ffi::OsStr>>(arguments: &[S]) -> Command {
    for_tty(sbt_with(arguments))
}

/// A command for a terminal with all features.
pub fn for_tty(mut command: Command) -> Command {
    for name in ["NO_COLOR", "LC_ALL", "LC_CTYPE"] {
        command.env_remove(name);
    }
    command.env("TERM", "xterm-256color").env("LANG", "C.UTF-8");
    command
}

/// A command on a terminal that the test controls.
pub struct Terminal {
    child: Child,
    ended: Option<ExitStatus>,
    /// Our end of the terminal; `None` after a hang-up.
    master: Option<File>,
    shown: Arc<Mutex<Shown>>,
    reader: Option<JoinHandle<()>>,
    hang_up: Arc<AtomicBool>,
    stalled: Arc<AtomicBool>,
    modes: Modes,
}

/// The output on the terminal.
struct Shown {
    bytes: Vec<u8>,
    parser: Parser,
}

impl Terminal {
    /// Starts a program on a new terminal.
    pub fn start(program: &Path, arguments: &[&str]) -> Self {
        let mut command = Command::new(program);
        command.args(arguments);
        Self::spawn(command, USUAL)
    }

    /// Starts a command on a new terminal of this size.
    pub fn spawn(mut command: Command, size: Size) -> Self {
        let (mut ours, mut theirs) = (-1, -1);
        // SAFETY: the call writes to both numbers; the other arguments may be null.
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
        // SAFETY: the call has just opened both descriptors for us.
        let (ours, theirs) = unsafe { (OwnedFd::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs)) };
        // No other process may hold our end, or a hang-up would not be noticed.
        // SAFETY: a plain system call.
        unsafe { libc::fcntl(ours.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC) };
        let master = File::from(ours);
        set_size(&master, size);
        let modes = Modes::of(&master);
        command
            .stdin(theirs.try_clone().unwrap())
            .stdout(theirs.try_clone().unwrap())
            .stderr(theirs);
        with_usual_signals(&mut command);
        // SAFETY: the closure makes only two system calls, which are allowed between fork and exec.
        unsafe {
            command.pre_exec(|| {
                if libc::setsid() < 0 || libc::ioctl(0, libc::TIOCSCTTY, 0) < 0 {
                    return Err(std::io::Error::last_os_error());
                }
                Ok(())
            });
        }
        let child = command.spawn().unwrap();
        // The command holds copies of the program's end.
        drop(command);
        // Most programs assume this size for a terminal without a size.
        let (columns, rows) = if size == (0, 0) { USUAL } else { size };
        let shown = Arc::new(Mutex::new(Shown {
            bytes: Vec::new(),
            parser: Parser::new(rows, columns, 0),
        }));
        let hang_up = Arc::new(AtomicBool::new(false));
        let source = master.try_clone().unwrap();
        let stalled = Arc::new(AtomicBool::new(false));
        let (copy, over, waits) = (shown.clone(), hang_up.clone(), stalled.clone());
        Self {
            child,
            ended: None,
            master: Some(master),
            shown,
            reader: Some(thread::spawn(move || read(source, &copy, &over, &waits))),
            hang_up,
            stalled,
            modes,
        }
    }

    pub fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    fn lock(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap()
    }

    fn master(&self) -> &File {
        self.master.as_ref().unwrap()
    }

    /// The output so far, as text.
    pub fn shown(&self) -> String {
        String::from_utf8_lossy(&self.lock().bytes).into_owned()
    }

    /// The number of bytes written so far.
    pub fn written(&self) -> usize {
        self.lock().bytes.len()
    }

    /// The text on the screen, line by line.
    pub fn contents(&self) -> String {
        self.look(Screen::contents)
    }

    /// Calls `look` with the screen.
    pub fn look<T>(&self, look: impl FnOnce(&Screen) -> T) -> T {
        look(self.lock().parser.screen())
    }

    /// Waits until the output contains a text.
    #[track_caller]
    pub fn wait_for(&self, text: &str) {
        let found = eventually(LIMIT, || self.shown().contains(text).then_some(()));
        assert!(found.is_some(), "no \"{text}\" in:\n{}", self.shown());
    }

    /// Waits until `wanted` is true for the screen.
    #[track_caller]
    pub fn wait_until(&self, what: &str, mut wanted: impl FnMut(&Screen) -> bool) {
        let found = eventually(LIMIT, || self.look(&mut wanted).then_some(()));
        assert!(found.is_some(), "never {what}:\n{}", self.contents());
    }

    /// Waits until no more is written, because a visible text may belong to an incomplete frame.
    /// Returns the number of bytes written.
    #[track_caller]
    pub fn rests(&self) -> usize {
        let at_rest = || {
            let written = self.written();
            pause(500);
            (self.written() == written).then_some(written)
        };
        eventually(LIMIT, at_rest).expect("the screen comes to rest")
    }

    /// Waits until the screen shows a text.
    #[track_caller]
    pub fn sees(&self, text: &str) {
        self.wait_until(text, |screen| screen.contents().contains(text));
    }

    /// Waits until the screen does not show a text.
    #[track_caller]
    pub fn sees_no(&self, text: &str) {
        let what = format!("without {text}");
        self.wait_until(&what, |screen| !screen.contents().contains(text));
    }

    /// Types keys.
    pub fn press(&self, keys: &str) {
        self.master().write_all(keys.as_bytes()).unwrap();
    }

    /// Clicks on the first character of a text.
    #[track_caller]
    pub fn click(&self, text: &str) {
        self.sees(text);
        let rows = self.look(|screen| screen.rows(0, screen.size().1).collect::<Vec<_>>());
        let at = (1..).zip(&rows).find_map(|(row, line)| {
            let before = line.split_once(text)?.0;
            // The characters before the text must have one column each.
            Some((before.chars().count() + 1, row))
        });
        let Some((column, row)) = at else {
            panic!("no {text} any more:\n{}", self.contents())
        };
        self.press(&format!("\x1b[<0;{column};{row}M\x1b[<0;{column};{row}m"));
    }

    /// Changes the size of the terminal; the kernel tells the foreground processes.
    pub fn resize(&self, size: Size) {
        self.lock().parser.screen_mut().set_size(size.1, size.0);
        set_size(self.master(), size);
    }

    /// Whether the live screen is on the terminal.
    pub fn has_screen(&self) -> bool {
        let shown = self.shown();
        self.look(|screen| {
            screen.alternate_screen()
                && screen.bracketed_paste()
                && screen.mouse_protocol_mode() == MouseProtocolMode::PressRelease
                && screen.mouse_protocol_encoding() == MouseProtocolEncoding::Sgr
        }) && shown.rfind(FOCUS[0]) > shown.rfind(FOCUS[1])
            && !Modes::of(self.master()).are_cooked()
    }

    /// Whether the terminal's settings are as before the start of the command.
    pub fn is_restored(&self) -> bool {
        let shown = self.shown();
        self.look(|screen| {
            !screen.alternate_screen()
                && !screen.bracketed_paste()
                && !screen.hide_cursor()
                && screen.mouse_protocol_mode() == MouseProtocolMode::None
        }) && shown.rfind(FOCUS[0]) <= shown.rfind(FOCUS[1])
            && Modes::of(self.master()) == self.modes
    }

    /// Waits until the live screen shows a text.
    #[track_caller]
    pub fn shows_screen_with(&self, text: &str) {
        self.sees(text);
        assert!(self.has_screen(), "no screen:\n{}", self.contents());
    }

    /// Waits until the screen says that the program has ended, and leaves.
    #[track_caller]
    pub fn leave_at_end(&self) {
        self.shows_screen_with("program ended");
        self.press("q");
    }

    /// Waits until the command ends, whatever state the terminal is in.
    #[track_caller]
    pub fn wait(&mut self) -> ExitStatus {
        self.ended = eventually(LIMIT, || self.child.try_wait().unwrap());
        self.ended
            .unwrap_or_else(|| panic!("does not end:\n{}", self.contents()))
    }

    /// Waits until the command ends, after which the terminal must be restored. Returns the exit
    /// status and the output.
    #[track_caller]
    pub fn finish(mut self) -> (Option<i32>, String) {
        let status = self.wait();
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
        assert!(self.is_restored(), "not restored:\n{}", self.shown());
        (status.code(), self.shown())
    }

    /// Waits until the command ends. Returns the exit status and the output after the live screen.
    #[track_caller]
    pub fn finish_screen(self) -> (Option<i32>, String) {
        let (status, shown) = self.finish();
        (status, after_screen(&shown))
    }

    /// Waits until the command ends with this status, with these parts in order in the output after
    /// the live screen. Returns this output.
    #[track_caller]
    pub fn leaves(self, expected: i32, parts: &[&str]) -> String {
        let (status, after) = self.finish_screen();
        assert_eq!(status, Some(expected), "{after}");
        in_order(&after, parts);
        after
    }

    /// Stops or resumes reading the output to the terminal.
    pub fn stall(&self, stalls: bool) {
        self.stalled.store(stalls, Ordering::Relaxed);
    }

    /// Hangs up, as when a window is closed.
    pub fn hang_up(&mut self) {
        self.hang_up.store(true, Ordering::Relaxed);
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
        self.master = None;
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // The process id cannot be reused before it has been waited for.
        if self.ended.is_none() {
            kill_all(self.child.id());
        }
        let _ = self.child.wait();
    }
}

/// The output after the live screen, without carriage returns and the code that shows the cursor.
#[track_caller]
pub fn after_screen(shown: &str) -> String {
    let Some((_, after)) = shown.rsplit_once(LEAVE) else {
        panic!("there was no screen:\n{shown}");
    };
    after.replace("\x1b[?25h", "").replace('\r', "")
}

/// Fails unless the parts follow each other in this order in the text.
#[track_caller]
pub fn in_order(text: &str, parts: &[&str]) {
    let mut rest = text;
    for part in parts {
        let Some((_, after)) = rest.split_once(part) else {
            panic!("no \"{part}\" in its place in:\n{text}");
        };
        rest = after;
    }
}

/// Reads the output until no process writes any more.
fn read(mut source: File, shown: &Mutex<Shown>, over: &AtomicBool, stalled: &AtomicBool) {
    let mut bytes = vec![0; 1 << 16];
    while !over.load(Ordering::Relaxed) {
        if stalled.load(Ordering::Relaxed) {
            pause(20);
            continue;
        }
        let mut ready = libc::pollfd {
            fd: source.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one structure, which the call fills.
        if unsafe { libc::poll(&raw mut ready, 1, 20) } == 0 {
            continue;
        }
        let Ok(n @ 1..) = source.read(&mut bytes) else {
            return;
        };
        let mut shown = shown.lock().unwrap();
        shown.bytes.extend_from_slice(&bytes[..n]);
        shown.parser.process(&bytes[..n]);
    }
}

/// The program that `sbt run` has started on a terminal of its own.
#[track_caller]
pub fn program_of(sbt: u32) -> u32 {
    // The program's parent is the keeper of that terminal, a child of sbt.
    let program = || children(*children(sbt).first()?).first().copied();
    eventually(LIMIT, program).unwrap()
}

/// The processes that a process has started.
pub fn children(pid: u32) -> Vec<u32> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let text = fs::read_to_string(path).unwrap_or_default();
    let ids = text.split(' ').filter_map(|id| id.parse().ok());
    ids.collect()
}

/// Kills a process and its descendants, in whatever groups they are.
fn kill_all(pid: u32) {
    for child in children(pid) {
        kill_all(child);
    }
    kill(pid.cast_signed(), libc::SIGKILL);
}

fn set_size(master: &File, (columns, rows): Size) {
    let size = libc::winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    // SAFETY: the structure has the type that the call expects, and is only read.
    let result = unsafe { libc::ioctl(master.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

/// The terminal's settings.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Modes {
    flags: [libc::tcflag_t; 4],
    characters: [libc::cc_t; libc::NCCS],
}

impl Modes {
    fn of(master: &File) -> Self {
        // SAFETY: a structure of integers, for which zeros are valid.
        let mut modes: libc::termios = unsafe { std::mem::zeroed() };
        // SAFETY: the structure has the type that the call expects.
        let result = unsafe { libc::tcgetattr(master.as_raw_fd(), &raw mut modes) };
        assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
        Self {
            flags: [modes.c_iflag, modes.c_oflag, modes.c_cflag, modes.c_lflag],
            characters: modes.c_cc,
        }
    }

    /// Whether lines are edited or Ctrl-C is a signal.
    fn are_cooked(&self) -> bool {
        self.flags[3] & (libc::ICANON | libc::ECHO | libc::ISIG) != 0
    }
}
