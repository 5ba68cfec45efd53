//! A program on a terminal of ours: this test starts itself as a small sbt
//! that has nothing but that, on a pseudo-terminal whose other end it is.
#![allow(
    clippy::unwrap_used,
    missing_docs,
    reason = "a test that cannot go on has failed"
)]

use std::{
    ffi::OsString,
    fs::{self, File},
    io::{Read as _, Write as _},
    os::{
        fd::{AsFd as _, AsRawFd as _, OwnedFd},
        unix::process::CommandExt as _,
    },
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use nix::{
    poll::{PollFd, PollFlags, poll},
    pty::{Winsize, openpty},
};
use sbt::terminal::{Ends, Terminal};
use sbt_program::{
    access::Invoker,
    launch::{self, Running},
    libraries, pty,
};
use tokio::io::unix::AsyncFd;

/// How long anything may take.
const LIMIT: Duration = Duration::from_mins(1);

fn main() {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().as_deref() == Some("stand-in".as_ref()) {
        let how = arguments.next().unwrap().into_string().unwrap();
        let status = stand_in(&how, &arguments.collect::<Vec<_>>());
        std::process::exit(status.into());
    }
    // As far as `cargo test` and `cargo xtask soak` use the options of a test program.
    let has = |option: &str| std::env::args().any(|word| word == option);
    let wanted = std::env::args()
        .nth(1)
        .filter(|word| !word.starts_with('-'));
    let is_wanted = |name: &str| {
        let fits =
            |wanted: &String| name == wanted || !has("--exact") && name.contains(wanted.as_str());
        wanted.as_ref().is_none_or(fits)
    };
    for (name, test) in TESTS.iter().filter(|(name, _)| is_wanted(name)) {
        if has("--list") {
            println!("{name}: test");
            continue;
        }
        let begin = Instant::now();
        test();
        println!("{name}: ok, {} ms", begin.elapsed().as_millis());
    }
}

const TESTS: &[(&str, fn())] = &[
    ("is_a_terminal", is_a_terminal),
    ("under_sudo", under_sudo),
    ("what_is_redirected_stays", what_is_redirected_stays),
    ("statuses", statuses),
    (
        "output_is_kept_and_shown_in_order",
        output_is_kept_and_shown_in_order,
    ),
    ("keys", keys),
    ("ctrl_c", ctrl_c),
    ("size", size),
    ("ctrl_z", ctrl_z),
    ("left_while_it_runs", left_while_it_runs),
    ("children_outlive_it", children_outlive_it),
    ("killed", killed),
    ("killed_while_stopped", killed_while_stopped),
    ("hung_up", hung_up),
    ("much_output", much_output),
];

// ---- the small sbt

/// `how`: `screen` until the program ends; `leave` it when a line says so;
/// `relay` from the start.
fn stand_in(how: &str, command: &[OsString]) -> u8 {
    let invoker = Invoker::from_sudo();
    let pty = pty::Pty::open(invoker.as_ref()).unwrap();
    let path = libraries::find_program(&command[0], std::env::var_os("PATH").as_deref());
    let held = launch::hold(command, path.as_deref(), invoker.as_ref(), pty.as_ref()).unwrap();
    let pid = held.pid();
    let master = pty.map(pty::Pty::into_master);
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(async {
            let mut running = match held.release() {
                Ok(running) => running,
                Err(error) => {
                    eprintln!("{error}");
                    return 127;
                }
            };
            let terminal = Terminal::new(master.unwrap()).unwrap();
            // SAFETY: the descriptor is owned by what is registered.
            let ended = unsafe { AsyncFd::register(launch::pidfd(pid).unwrap()) }.unwrap();
            watch(how, &ended, terminal, &mut running).await;
            running.wait().unwrap()
        })
}

async fn watch(how: &str, ended: &AsyncFd<OwnedFd>, mut terminal: Terminal, running: &mut Running) {
    let mut over = false;
    if how != "relay" {
        loop {
            tokio::select! {
                result = terminal.turn() => result.unwrap(),
                result = ended.readable() => { drop(result.unwrap()); over = true; break }
            }
            if how == "leave"
                && terminal
                    .output()
                    .lines
                    .iter()
                    .any(|line| line.text == "leave")
            {
                break;
            }
        }
        if over {
            terminal.take_rest();
        }
        let output = terminal.output();
        println!(
            "[{} bytes, {} lines, {} KiB]\r",
            output.bytes,
            output.lines.len(),
            memory()
        );
    }
    let mut relay = Ends::open((!over).then_some(running))
        .unwrap()
        .join(terminal);
    while !over {
        tokio::select! {
            result = relay.turn() => result.unwrap(),
            result = ended.readable() => { drop(result.unwrap()); over = true }
        }
    }
    relay.finish().await.unwrap();
}

/// The most memory that we ever had, KiB.
fn memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.unwrap()
        .trim()
        .trim_end_matches(" kB")
        .parse()
        .unwrap()
}

// ---- its terminal

struct Desk {
    sbt: Child,
    keyboard: Option<File>,
    screen: Arc<Mutex<Vec<u8>>>,
    reader: Option<thread::JoinHandle<()>>,
    closed: Arc<AtomicBool>,
}

impl Desk {
    fn run(how: &str, command: &[&str]) -> Self {
        Self::with(how, command, |_| {})
    }

    fn shell(how: &str, script: &str) -> Self {
        Self::run(how, &["sh", "-c", script])
    }

    fn with(how: &str, command: &[&str], change: impl FnOnce(&mut Command)) -> Self {
        let mut sbt = Command::new(std::env::current_exe().unwrap());
        sbt.arg("stand-in").arg(how).args(command);
        Self::start(sbt, change)
    }

    fn start(mut sbt: Command, change: impl FnOnce(&mut Command)) -> Self {
        let size = Winsize {
            ws_row: 30,
            ws_col: 100,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        let pair = openpty(&size, None).unwrap();
        for fd in [&pair.master, &pair.slave] {
            // SAFETY: a plain system call.
            unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC) };
        }
        let slave = || Stdio::from(pair.slave.try_clone().unwrap());
        sbt.stdin(slave()).stdout(slave()).stderr(slave());
        change(&mut sbt);
        let fd = pair.slave.as_raw_fd();
        // SAFETY: system calls only.
        unsafe {
            sbt.pre_exec(move || {
                if libc::setsid() < 0 || libc::ioctl(fd, libc::TIOCSCTTY, 0) < 0 {
                    return Err(std::io::Error::last_os_error());
                }
                Ok(())
            });
        }
        let child = sbt.spawn().unwrap();
        drop(sbt);
        drop(pair.slave);
        let keyboard = File::from(pair.master);
        let mut source = keyboard.try_clone().unwrap();
        let screen = Arc::new(Mutex::new(Vec::new()));
        let copy = Arc::clone(&screen);
        let closed = Arc::new(AtomicBool::new(false));
        let close = Arc::clone(&closed);
        let reader = thread::spawn(move || {
            let mut bytes = [0; 8192];
            while !close.load(Ordering::Relaxed) {
                let mut polled = [PollFd::new(source.as_fd(), PollFlags::POLLIN)];
                if poll(&mut polled, 20_u8).unwrap() == 0 {
                    continue;
                }
                let Ok(n @ 1..) = source.read(&mut bytes) else {
                    break;
                };
                copy.lock().unwrap().extend_from_slice(&bytes[..n]);
            }
        });
        Self {
            sbt: child,
            keyboard: Some(keyboard),
            screen,
            reader: Some(reader),
            closed,
        }
    }

    fn shown(&self) -> String {
        String::from_utf8_lossy(&self.screen.lock().unwrap()).into_owned()
    }

    #[track_caller]
    fn wait_for(&self, text: &str) {
        let found = eventually(|| self.shown().contains(text).then_some(()));
        assert!(found.is_some(), "no {text:?} in {:?}", self.shown());
    }

    fn press(&self, keys: &str) {
        self.keyboard
            .as_ref()
            .unwrap()
            .write_all(keys.as_bytes())
            .unwrap();
    }

    /// The status, and all that was shown.
    #[track_caller]
    fn finish(mut self) -> (Option<i32>, String) {
        let status = eventually(|| self.sbt.try_wait().unwrap());
        let Some(status) = status else {
            panic!("does not end: {:?}", self.shown());
        };
        // Ends when nobody has the terminal open any more: no keeper stays.
        let end = eventually(|| self.reader.as_ref().unwrap().is_finished().then_some(()));
        assert!(end.is_some(), "someone stays: {:?}", self.shown());
        self.reader.take().unwrap().join().unwrap();
        (status.code(), self.shown())
    }

    #[track_caller]
    fn shows(self, status: i32, text: &str) {
        assert_eq!(self.finish(), (Some(status), text.to_owned()));
    }

    /// Whether the terminal echoes and gathers lines.
    fn is_as_before(&self) -> bool {
        use nix::sys::termios::{LocalFlags, OutputFlags, tcgetattr};
        let modes = tcgetattr(self.keyboard.as_ref().unwrap()).unwrap();
        modes
            .local_flags
            .contains(LocalFlags::ICANON | LocalFlags::ECHO | LocalFlags::ISIG)
            && modes.output_flags.contains(OutputFlags::OPOST)
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        let _ended = self.sbt.kill();
        let _ended = self.sbt.wait();
    }
}

fn eventually<T>(mut found: impl FnMut() -> Option<T>) -> Option<T> {
    let end = Instant::now() + LIMIT;
    while Instant::now() < end {
        if let Some(found) = found() {
            return Some(found);
        }
        thread::sleep(Duration::from_millis(5));
    }
    None
}

fn pause(ms: u64) {
    thread::sleep(Duration::from_millis(ms));
}

// ---- the tests

fn is_a_terminal() {
    let script = "for n in 0 1 2; do test -t $n && echo $n; done; stty -a | grep -o -w echo
                  test \"$(tty)\" = \"$(readlink /proc/self/fd/2)\" && echo named >/dev/tty";
    Desk::shell("relay", script).shows(0, "0\r\n1\r\n2\r\necho\r\nnamed\r\n");
}

fn under_sudo() {
    if !nix::unistd::geteuid().is_root() {
        println!("under_sudo: left out, since only root can become another user");
        return;
    }
    let script = "id -u; test -O $(tty) && echo mine; echo by name >$(tty)";
    let desk = Desk::with("relay", &["sh", "-c", script], |sbt| {
        sbt.env("SUDO_UID", "65534").env("SUDO_GID", "65534");
    });
    desk.shows(0, "65534\r\nmine\r\nby name\r\n");
}

fn what_is_redirected_stays() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out");
    let file = File::create(&path).unwrap();
    let script = "test -t 1 || echo no terminal; test -t 0 && echo here >&2";
    let desk = Desk::with("relay", &["sh", "-c", script], |sbt| {
        sbt.stdout(file);
    });
    desk.shows(0, "here\r\n");
    assert_eq!(fs::read_to_string(path).unwrap(), "no terminal\n");
    let desk = Desk::with("relay", &["cat"], |sbt| {
        sbt.stdin(Stdio::null());
    });
    desk.shows(0, "");
}

fn statuses() {
    Desk::shell("relay", "exit 7").shows(7, "");
    Desk::shell("relay", "kill -9 $$").shows(137, "");
    let (status, shown) = Desk::run("relay", &["/no/such/program"]).finish();
    assert_eq!(status, Some(127), "{shown}");
}

fn output_is_kept_and_shown_in_order() {
    let script = "printf 'a\\tb\\033[31mc\\033[m'; echo d >&2; echo e; printf f";
    let desk = Desk::shell("screen", script);
    let (status, shown) = desk.finish();
    assert_eq!(status, Some(0));
    let (told, rest) = shown.split_once('\n').unwrap();
    assert!(told.starts_with("[19 bytes, 3 lines,"), "{told}");
    assert_eq!(rest, "a\tb\x1b[31mc\x1b[md\r\ne\r\nf");
}

fn keys() {
    // What is typed before the program's terminal is joined is echoed by ours.
    let desk = Desk::shell("relay", "echo ready; cat");
    desk.wait_for("ready");
    desk.press("one\r");
    desk.wait_for("one\r\none\r\n");
    assert!(!desk.is_as_before());
    // End of file.
    desk.press("two\r\x04");
    desk.shows(0, "ready\r\none\r\none\r\ntwo\r\ntwo\r\n");

    let desk = Desk::shell(
        "relay",
        "stty raw -echo; echo go; dd bs=1 count=3 2>/dev/null",
    );
    desk.wait_for("go");
    desk.press("\x03\x1a\x04");
    desk.shows(0, "go\n\x03\x1a\x04");
}

fn ctrl_c() {
    let script = "sleep 100 & trap 'echo caught; kill $!; exit 5' INT; echo ready; wait";
    let desk = Desk::shell("relay", script);
    desk.wait_for("ready");
    desk.press("\x03");
    desk.shows(5, "ready\r\n^Ccaught\r\n");
    let desk = Desk::shell("relay", "echo ready; exec sleep 100");
    desk.wait_for("ready");
    desk.press("\x03");
    assert_eq!(desk.finish().0, Some(130));
}

fn size() {
    let script = "stty size; sleep 100 & trap 'stty size; kill $!; exit 0' WINCH; echo ready; wait";
    let desk = Desk::shell("relay", script);
    desk.wait_for("ready");
    let size = Winsize {
        ws_row: 50,
        ws_col: 132,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    pty::set_size(desk.keyboard.as_ref().unwrap(), size).unwrap();
    desk.shows(0, "30 100\r\nready\r\n50 132\r\n");
}

/// With a shell, since somebody has to continue it.
fn ctrl_z() {
    let us = std::env::current_exe().unwrap();
    let script = format!(
        "set -m; {} stand-in relay sh -c 'echo ready; read x; echo got $x'; echo stopped $?
         stty -a | grep -o -w icanon; fg >/dev/null; echo status $?",
        us.display()
    );
    let mut shell = Command::new("bash");
    shell.args(["-c", &script]);
    let desk = Desk::start(shell, |_| {});
    desk.wait_for("ready");
    desk.press("\x1a");
    desk.wait_for("icanon");
    desk.press("it\r");
    let (status, shown) = desk.finish();
    assert_eq!(status, Some(0));
    for text in [
        "stopped 148\r\n",
        "icanon\r\n",
        "got it\r\n",
        "status 0\r\n",
    ] {
        assert!(shown.contains(text), "no {text:?} in {shown:?}");
    }
}

fn left_while_it_runs() {
    let script = "echo first; echo leave; sleep 0.3; echo later; read x; echo got $x";
    let desk = Desk::shell("leave", script);
    desk.wait_for("later");
    desk.press("it\r");
    let (status, shown) = desk.finish();
    assert_eq!(status, Some(0));
    let (_, rest) = shown.split_once('\n').unwrap();
    assert_eq!(rest, "first\r\nleave\r\nlater\r\nit\r\ngot it\r\n");
}

fn children_outlive_it() {
    // Neither does sbt wait for them, nor do they get a SIGHUP.
    let script = "(sleep 0.5; echo late) & echo early";
    let begin = Instant::now();
    let mut desk = Desk::shell("screen", script);
    let status = eventually(|| desk.sbt.try_wait().unwrap());
    assert!(status.is_some() && begin.elapsed() < Duration::from_millis(500));
    let (_, shown) = desk.finish();
    // The terminal, which is as before, adds what the program's has added.
    assert!(shown.ends_with("early\r\nlate\r\r\n"), "{shown:?}");

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("done");
    let script = format!(
        "(sleep 0.3; touch {}) </dev/null >/dev/null 2>&1 & exit 3",
        path.display()
    );
    assert_eq!(Desk::shell("relay", &script).finish().0, Some(3));
    assert!(eventually(|| path.exists().then_some(())).is_some());
}

fn killed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("done");
    // More than any buffer holds: it would be blocked for ever.
    let script = format!(
        "echo $$; sleep 0.3; seq 200000; touch {}; test -t 1; echo $?",
        path.display()
    );
    for how in ["relay", "leave"] {
        let mut desk = Desk::shell(how, &script);
        pause(150);
        desk.sbt.kill().unwrap();
        assert!(
            eventually(|| path.exists().then_some(())).is_some(),
            "{how}"
        );
        fs::remove_file(&path).unwrap();
        let _killed = desk.sbt.wait();
        let (_, shown) = desk.finish();
        assert!(
            shown.contains("\n199999\r") && shown.ends_with("\n0\r\r\n")
                || shown.ends_with("\n0\r\n"),
            "{how}"
        );
    }
}

fn killed_while_stopped() {
    let mut desk = Desk::shell("screen", "kill -STOP $$; echo on");
    pause(200);
    desk.sbt.kill().unwrap();
    let _killed = desk.sbt.wait();
    let (_, shown) = desk.finish();
    assert!(shown.contains("on"), "{shown:?}");
}

/// The window is closed: the program, which takes no notice, goes on.
fn hung_up() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("done");
    let script = format!(
        "echo ready; sleep 0.3; seq 100000; touch {}",
        path.display()
    );
    let mut desk = Desk::with("relay", &["sh", "-c", &script], |sbt| {
        // SAFETY: a plain system call.
        unsafe {
            sbt.pre_exec(|| {
                libc::signal(libc::SIGHUP, libc::SIG_IGN);
                Ok(())
            });
        }
    });
    desk.wait_for("ready");
    desk.closed.store(true, Ordering::Relaxed);
    desk.reader.take().unwrap().join().unwrap();
    desk.keyboard = None;
    assert!(eventually(|| path.exists().then_some(())).is_some());
    let status = eventually(|| desk.sbt.try_wait().unwrap());
    assert_eq!(status.unwrap().code(), Some(0));
}

fn much_output() {
    const LINES: usize = 400_000;
    let line = "0123456789".repeat(10);
    let desk = Desk::shell("screen", &format!("yes {line} | head -n {LINES}; echo end"));
    desk.wait_for(" KiB]");
    let shown = desk.shown();
    let (_, memory) = shown.split_once("lines, ").unwrap();
    let memory: u64 = memory.split(' ').next().unwrap().parse().unwrap();
    assert!(memory < 16_000, "{memory} KiB");
    let (status, shown) = desk.finish();
    assert_eq!(status, Some(0));
    let (_, rest) = shown.split_once('\n').unwrap();
    assert_eq!(rest.len(), LINES * (line.len() + 2) + 5);
    assert!(rest.ends_with("9\r\nend\r\n"));
}
