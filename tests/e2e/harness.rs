//! Helpers for end-to-end tests: run commands with a time limit, and sbt with a JSON report.

use std::{
    fs,
    os::unix::process::{CommandExt as _, ExitStatusExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::OnceLock,
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;
use tempfile::TempDir;

pub use crate::json_report::{Report, each, number};
pub(crate) use crate::turns::{needs_nothing, needs_root};

/// Time limit for commands: a command that takes longer hangs.
pub const LIMIT: Duration = Duration::from_mins(1);

/// Whether the tests may use real probes.
pub fn is_root() -> bool {
    // SAFETY: a plain system call.
    unsafe { libc::geteuid() == 0 }
}

/// The program under test: `SBT_BIN`, otherwise built on first use.
pub fn sbt() -> &'static Path {
    static SBT: OnceLock<PathBuf> = OnceLock::new();
    SBT.get_or_init(|| match std::env::var_os("SBT_BIN") {
        Some(path) => fs::canonicalize(&path)
            .unwrap_or_else(|error| panic!("SBT_BIN={}: {error}", path.display())),
        None => build(),
    })
}

fn build() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let output = Command::new(env!("CARGO"))
        .args(["build", "--release", "-p", "sbt-agent", "--bin", "sbt"])
        .args(["--message-format=json-render-diagnostics"])
        .current_dir(root)
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    assert!(output.status.success(), "sbt does not build");
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|message| message["target"]["name"] == "sbt")
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
        .unwrap()
}

/// A temporary folder that every user can enter.
pub fn folder() -> TempDir {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::Builder::new()
        .prefix("sbt-e2e-")
        .permissions(fs::Permissions::from_mode(0o755))
        .tempdir_in("/tmp")
        .unwrap();
    // The mode must not depend on the umask.
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

/// A command with its arguments.
pub fn command<S: AsRef<std::ffi::OsStr>>(program: impl AsRef<Path>, arguments: &[S]) -> Command {
    let mut command = Command::new(program.as_ref());
    command.args(arguments);
    command
}

/// How a command ended.
#[derive(Debug)]
pub struct Finished {
    pub status: ExitStatus,
    pub stdout: Vec<u8>,
    pub stderr: String,
}

impl Finished {
    /// The exit status; a death by signal is a failure of the test.
    pub fn code(&self) -> i32 {
        self.status
            .code()
            .unwrap_or_else(|| panic!("ended by signal {:?}\n{self}", self.status.signal()))
    }

    pub fn out(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Fails unless the exit status is `code`.
    #[track_caller]
    pub fn expect(self, code: i32) -> Self {
        assert_eq!(self.status.code(), Some(code), "{self}");
        self
    }

    /// Fails unless sbt reported its failure in exactly one line; returns the line.
    #[track_caller]
    pub fn one_line(&self) -> &str {
        let text = self.stderr.as_str();
        assert_eq!(text.trim_end().lines().count(), 1, "{self}");
        assert!(text.starts_with("sbt: "), "{self}");
        assert!(!text.contains("panicked"), "{self}");
        assert!(
            !text.contains("(os error"),
            "a number for the reader: {self}"
        );
        text
    }
}

impl std::fmt::Display for Finished {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{}\n--- stdout\n{}\n--- stderr\n{}",
            self.status,
            self.out(),
            self.stderr
        )
    }
}

/// Gives a command the default handling of signals, as in an interactive shell. The parent of the
/// tests may ignore some, as a shell does for commands that it starts with `&`.
pub fn with_usual_signals(command: &mut Command) {
    // SAFETY: the closure makes only system calls that are allowed between fork and exec.
    unsafe {
        command.pre_exec(|| {
            for signal in [libc::SIGINT, libc::SIGQUIT, libc::SIGHUP, libc::SIGTERM] {
                libc::signal(signal, libc::SIG_DFL);
            }
            Ok(())
        });
    }
}

/// A process in a process group of its own, which is killed at the end of the test.
pub struct Started {
    child: Child,
    shown: String,
    folder: TempDir,
    ended: Option<ExitStatus>,
}

/// Starts a command; its output goes to files, so that it never blocks.
#[track_caller]
pub fn start(command: Command) -> Started {
    start_reading(command, Stdio::null())
}

/// Starts a command with an input; its output goes to files.
#[track_caller]
pub fn start_reading(mut command: Command, input: impl Into<Stdio>) -> Started {
    let folder = folder();
    let file = |name: &str| fs::File::create(folder.path().join(name)).unwrap();
    let shown = format!("{command:?}");
    with_usual_signals(&mut command);
    let child = command
        .stdin(input)
        .stdout(file("stdout"))
        .stderr(file("stderr"))
        .process_group(0)
        .spawn()
        .unwrap_or_else(|error| panic!("{shown}: {error}"));
    Started {
        child,
        shown,
        folder,
        ended: None,
    }
}

impl Started {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.folder.path().join(name)).unwrap_or_default()
    }

    pub fn out(&self) -> String {
        String::from_utf8_lossy(&self.read("stdout")).into_owned()
    }

    pub fn err(&self) -> String {
        String::from_utf8_lossy(&self.read("stderr")).into_owned()
    }

    /// Sends a signal to the process itself.
    pub fn signal(&self, number: i32) {
        kill(self.pid().cast_signed(), number);
    }

    /// Sends a signal to the process and its group.
    pub fn signal_all(&self, number: i32) {
        kill(-self.pid().cast_signed(), number);
    }

    pub fn is_running(&mut self) -> bool {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().unwrap();
        }
        self.ended.is_none()
    }

    /// Waits until a line of output begins with `text`, and returns the line.
    #[track_caller]
    pub fn wait_for(&mut self, text: &str) -> String {
        let found = eventually(LIMIT, || {
            let line = self
                .out()
                .split_inclusive('\n')
                .find(|line| line.starts_with(text) && line.ends_with('\n'))
                .map(str::to_owned);
            // Stop waiting if the process has ended without the line.
            match line {
                Some(line) => Some(Ok(line)),
                None if !self.is_running() && !self.out().contains(text) => Some(Err(())),
                None => None,
            }
        });
        match found {
            Some(Ok(line)) => line,
            _ => self.fail(&format!("did not say \"{text}\"")),
        }
    }

    #[track_caller]
    fn fail(&self, what: &str) -> ! {
        self.signal_all(libc::SIGKILL);
        panic!(
            "{} {what}\n--- stdout\n{}\n--- stderr\n{}",
            self.shown,
            self.out(),
            self.err()
        );
    }

    /// Waits until the process ends.
    #[track_caller]
    pub fn finish(mut self) -> Finished {
        if eventually(LIMIT, || (!self.is_running()).then_some(())).is_none() {
            self.fail("did not end in time");
        }
        Finished {
            status: self.ended.unwrap(),
            stdout: self.read("stdout"),
            stderr: self.err(),
        }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // The group may still hold processes that the leader left behind. Its id stays in use until
        // the leader has been waited for.
        self.signal_all(libc::SIGKILL);
        let _ = self.child.wait();
    }
}

pub fn kill(pid: i32, number: i32) {
    // SAFETY: a plain system call.
    unsafe { libc::kill(pid, number) };
}

pub fn is_alive(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

/// Repeats `attempt` until it returns a value or the time is up.
pub fn eventually<T>(limit: Duration, mut attempt: impl FnMut() -> Option<T>) -> Option<T> {
    let end = Instant::now() + limit;
    loop {
        if let Some(answer) = attempt() {
            return Some(answer);
        }
        if Instant::now() > end {
            return None;
        }
        thread::sleep(Duration::from_millis(5));
    }
}

pub fn pause(milliseconds: u64) {
    thread::sleep(Duration::from_millis(milliseconds));
}

/// Makes up to five attempts, with longer and longer pauses, because other programs may keep the
/// CPUs busy for a while. This is only for tests that measure time: any other test that fails once
/// has found a fault. Each miss is logged, and too many fail the whole suite: see
/// [`crate::turns::missed`]. `cargo xtask soak` counts how often a test passes, so there is one attempt there.
#[track_caller]
pub fn best_of_five(mut attempt: impl FnMut() -> Result<(), String>) {
    let mut failures = Vec::new();
    let pauses = [0, 0, 500, 2_000, 5_000];
    let is_soak = std::env::var_os("SBT_SOAK").is_some();
    for before in &pauses[..if is_soak { 1 } else { pauses.len() }] {
        pause(*before);
        match attempt() {
            Ok(()) => return,
            Err(failure) => {
                crate::turns::missed(&failure);
                failures.push(failure);
            }
        }
    }
    panic!("wrong each time:\n{}", failures.join("\n"));
}

/// Runs a command to its end.
#[track_caller]
pub fn run(command: Command) -> Finished {
    start(command).finish()
}

/// Copies a program, with the help of another process. If this process held the file open for
/// writing while another test forks, the copy could not be executed.
#[track_caller]
pub fn install(program: &Path, copy: &Path) {
    let mut install = Command::new("install");
    install.args(["-m", "755"]).arg(program).arg(copy);
    run(install).expect(0);
}

/// `sbt` with arguments.
pub fn sbt_with<S: AsRef<std::ffi::OsStr>>(arguments: &[S]) -> Command {
    let mut command = command(sbt(), arguments);
    command.env_remove("SUDO_UID").env_remove("SUDO_GID");
    command
}

/// Runs a program under `sbt run` with `options`, and reads the JSON report.
#[track_caller]
pub fn watch_with(options: &[&str], program: &Path, arguments: &[&str]) -> (Finished, Report) {
    let folder = folder();
    let json = folder.path().join("report.json");
    let mut command = sbt_with(&["run", "--json", "--output"]);
    // Many of these programs do nothing but call barriers, and every call must be counted.
    command
        .env("SBT_BUDGET", "off")
        .arg(&json)
        .args(options)
        .arg("--")
        .arg(program)
        .args(arguments);
    let finished = run(command);
    assert_eq!(finished.stderr, "", "{finished}");
    (finished, Report::read(&json))
}

/// Runs a program that must succeed under `sbt run`, and reads the JSON report.
#[track_caller]
pub fn watch(program: &Path, arguments: &[&str]) -> Report {
    let (finished, report) = watch_with(&[], program, arguments);
    finished.expect(0);
    assert_eq!(report.number("exit_status"), 0);
    report
}

/// A running `sbt attach` with a JSON report.
pub struct Attached {
    pub sbt: Started,
    pub folder: TempDir,
}

/// Attaches to a process or thread.
#[track_caller]
pub fn attach(pid: u32, options: &[&str]) -> Attached {
    let folder = folder();
    let mut command = sbt_with(&["attach", "--json", "--output"]);
    // Every call must be counted, without a limit on the cost.
    command
        .env("SBT_BUDGET", "off")
        .arg(folder.path().join("report.json"))
        .args(options)
        .arg(pid.to_string());
    Attached {
        sbt: start(command),
        folder,
    }
}

impl Attached {
    /// Waits until the probes of barriers are on, on kernels that show this in `fdinfo`; on others,
    /// for 3 s.
    pub fn wait_for_probes(&self) {
        let folder = format!("/proc/{}/fdinfo", self.sbt.pid());
        let is_on = |entry: &fs::DirEntry| {
            let text = fs::read_to_string(entry.path()).unwrap_or_default();
            text.contains("uprobe_multi") && text.contains("/libc.so")
        };
        eventually(Duration::from_secs(3), || {
            let mut entries = fs::read_dir(&folder).ok()?.flatten();
            entries.any(|entry| is_on(&entry)).then_some(())
        });
        // Allow time for the remaining probes.
        pause(100);
    }

    /// Waits for sbt to end, successfully and without messages, and reads the report.
    #[track_caller]
    pub fn report(self) -> Report {
        Report::read(&self.ended().path().join("report.json"))
    }

    /// Like [`Self::report`], but events may have been lost.
    #[track_caller]
    pub fn lossy_report(self) -> Report {
        Report::read_lossy(&self.ended().path().join("report.json"))
    }

    #[track_caller]
    fn ended(self) -> TempDir {
        let finished = self.sbt.finish().expect(0);
        assert_eq!(finished.stderr, "", "{finished}");
        self.folder
    }
}
