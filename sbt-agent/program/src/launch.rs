//! Starting the target: the program is held before its first instruction until its probes are in
//! place, and is otherwise started as by a shell.

use std::{
    ffi::{CString, OsStr, OsString},
    fs::File,
    io::{self, Read as _},
    os::{
        fd::{AsFd as _, AsRawFd as _, FromRawFd as _, OwnedFd},
        unix::{ffi::OsStrExt as _, process::CommandExt as _},
    },
    path::Path,
    process::Command,
};

use anyhow::Context as _;
use nix::{
    errno::Errno,
    fcntl::OFlag,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    unistd::{ForkResult, Pid, fork, pipe2},
};
use thiserror::Error;

use crate::access::{Invoker, TOLD};
use sbt_engine::place::printable;

use super::{
    dispositions,
    keeper::{self, Keeper, leave},
    pty::Pty,
};

/// The program could not be executed; the message reads as a shell's would.
#[derive(Debug, Error)]
#[error("{}", if program.is_empty() {
    "the name of the program is empty".into()
} else {
    format!("{}: {}{}", printable(program), errno.desc(), self.whose())
})]
pub struct ExecError {
    program: String,
    errno: Errno,
    /// The user who was to execute the program, if that is not the user who runs sbt.
    user: Option<String>,
}

impl ExecError {
    fn whose(&self) -> String {
        match &self.user {
            Some(user) if matches!(self.errno, Errno::EACCES | Errno::EPERM) => format!(
                " for {}, the user who called sudo: the program starts as this user; --as-root \
                 starts it as root",
                printable(user)
            ),
            _ => String::new(),
        }
    }

    /// The status that a shell gives: 127 if there is no such program, else 126.
    pub fn exit_status(&self) -> u8 {
        match self.errno {
            Errno::ENOENT | Errno::ENOTDIR => 127,
            _ => 126,
        }
    }
}

/// A command, as the system call wants it.
struct Execution {
    /// The arguments; the first is the name of the program.
    arguments: Vec<CString>,
    path: Option<CString>,
}

impl Execution {
    fn of(command: &[OsString], path: Option<&Path>) -> anyhow::Result<Self> {
        anyhow::ensure!(!command.is_empty(), "no program given");
        let arguments = command
            .iter()
            .map(|argument| CString::new(argument.as_bytes()))
            .collect::<Result<_, _>>()
            .context("an argument contains a NUL byte")?;
        let path = path
            .map(|path| CString::new(path.as_os_str().as_bytes()))
            .transpose()
            .context("a path contains a NUL byte")?;
        Ok(Self { arguments, path })
    }
}

/// Replaces sbt by the program, as `invoker` if there is one: as if sbt were not there. `path`: the
/// program's file, if it was found. Returns only if that fails, with the reason. To be called while
/// there is only one thread.
pub fn become_program(
    command: &[OsString],
    path: Option<&Path>,
    invoker: Option<&Invoker>,
) -> anyhow::Error {
    let Execution { arguments, path } = match Execution::of(command, path) {
        Ok(execution) => execution,
        Err(error) => return error,
    };
    let error = execute_as(path.as_ref(), &arguments, invoker);
    let errno = Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO));
    let program = arguments[0].to_string_lossy().into_owned();
    let user = invoker.map(Invoker::shown);
    ExecError {
        program,
        errno,
        user,
    }
    .into()
}

/// A program that is forked but not yet executed.
#[derive(Debug)]
pub struct Held {
    pid: Pid,
    program: String,
    user: Option<String>,
    release: OwnedFd,
    failure: OwnedFd,
    keeper: Option<Keeper>,
}

/// Forks a child that waits for [`Held::release`]. `path`: the program's file, if it was found;
/// `pty`: the terminal for the child instead of sbt's own terminal. To be called before any thread
/// is started: the child of a process with threads may do next to nothing.
pub fn hold(
    command: &[OsString],
    path: Option<&Path>,
    invoker: Option<&Invoker>,
    pty: Option<&Pty>,
) -> anyhow::Result<Held> {
    let Execution { arguments, path } = Execution::of(command, path)?;
    let (wait, release) = pipe2(OFlag::O_CLOEXEC)?;
    let (failure, fail) = pipe2(OFlag::O_CLOEXEC)?;

    let sbt = std::process::id();
    let child = |ready: io::Result<()>| {
        // Only sbt holds these ends, so that its death is noticed.
        for fd in [&release, &failure] {
            // SAFETY: the owner is never dropped in this process.
            unsafe { libc::close(fd.as_raw_fd()) };
        }
        let error = match ready {
            Ok(()) => run_child(path.as_ref(), &arguments, invoker, &wait, sbt),
            Err(error) => error,
        };
        let code = error.raw_os_error().unwrap_or(libc::EIO);
        let _unheard = nix::unistd::write(&fail, &code.to_ne_bytes());
    };
    let (pid, keeper) = match pty {
        Some(pty) => {
            let (pid, keeper) = keeper::start(pty, child)?;
            (pid, Some(keeper))
        }
        // SAFETY: no other thread exists, so that the child may call anything.
        None => match unsafe { fork() }.context("cannot fork")? {
            ForkResult::Child => {
                child(Ok(()));
                leave(126)
            }
            ForkResult::Parent { child } => (child, None),
        },
    };
    Ok(Held {
        pid,
        program: arguments[0].to_string_lossy().into_owned(),
        user: invoker.map(Invoker::shown),
        release,
        failure,
        keeper,
    })
}

fn run_child(
    path: Option<&CString>,
    arguments: &[CString],
    invoker: Option<&Invoker>,
    wait: &OwnedFd,
    sbt: u32,
) -> io::Error {
    // Yama may allow tracing only to a parent. The process that traces is not this child's parent
    // but a child of sbt, too: so descendants of sbt are allowed to trace.
    // SAFETY: numbers only. Without Yama there is nothing to allow.
    unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::c_ulong::from(sbt)) };
    // If sbt's file has capabilities, this copy may not be inspected even by its own user. As a
    // dumpable process it can be inspected by processes with the same capabilities, and by none
    // with fewer.
    // SAFETY: a number only. Nothing is lost if the kernel refuses: the child may just not be
    // traceable.
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 1) };
    let mut byte = [0];
    match nix::unistd::read(wait, &mut byte) {
        Ok(1) => {}
        // sbt has died before it released the program: then the program must not start.
        _ => leave(125),
    }
    execute_as(path, arguments, invoker)
}

/// Executes a program as another user, if one is given; in a process of one thread. Returns only if
/// that fails.
fn execute_as(
    path: Option<&CString>,
    arguments: &[CString],
    invoker: Option<&Invoker>,
) -> io::Error {
    if let Some(invoker) = invoker {
        if let Err(error) = invoker.become_user() {
            return error;
        }
        // SAFETY: this process has one thread.
        unsafe {
            if let Some(home) = &invoker.home {
                std::env::set_var("HOME", home);
            }
            let name = OsStr::from_bytes(invoker.name.as_bytes());
            if !name.is_empty() {
                std::env::set_var("USER", name);
                std::env::set_var("LOGNAME", name);
            }
            for name in TOLD {
                std::env::remove_var(name);
            }
        }
    }
    dispositions::restore();
    execute(path, arguments).into()
}

/// Makes a command start with the signal dispositions that sbt's own caller left.
pub fn as_called(command: &mut Command) {
    // SAFETY: nothing but system calls is done between fork and exec.
    unsafe {
        command.pre_exec(|| {
            dispositions::restore();
            Ok(())
        });
    }
}

/// Executes a program as a shell would: a text without `#!` is a script for the shell. Other files
/// that the kernel refuses are not given to the shell, although execvp would do so.
fn execute(path: Option<&CString>, arguments: &[CString]) -> Errno {
    let Some(path) = path else {
        // This call fails, and gives the error that only the real call can give.
        return match nix::unistd::execvp(&arguments[0], arguments) {
            Err(errno) => errno,
            Ok(never) => match never {},
        };
    };
    let Err(errno) = nix::unistd::execv(path, arguments);
    if errno != Errno::ENOEXEC || !is_text(Path::new(OsStr::from_bytes(path.as_bytes()))) {
        return errno;
    }
    let mut script = vec![c"/bin/sh".to_owned(), path.clone()];
    script.extend_from_slice(&arguments[1..]);
    let Err(_) = nix::unistd::execv(c"/bin/sh", &script);
    errno
}

fn is_text(path: &Path) -> bool {
    let mut start = [0; 128];
    let length = File::open(path)
        .and_then(|mut file| file.read(&mut start))
        .unwrap_or(0);
    !start[..length].starts_with(b"\x7fELF") && !start[..length].contains(&0)
}

impl Held {
    /// The child's process id, which the program will keep.
    pub fn pid(&self) -> u32 {
        self.pid.as_raw().cast_unsigned()
    }

    /// Lets the program start. Returns once the program is executed, or with the reason why it
    /// could not be.
    pub fn release(self) -> anyhow::Result<Running> {
        nix::unistd::write(&self.release, &[1]).context(
            "the process died before it executed the \
            program",
        )?;
        drop(self.release);
        let mut code = [0; 4];
        // The pipe closes at a successful exec.
        let got = loop {
            match nix::unistd::read(&self.failure, &mut code) {
                Err(Errno::EINTR) => {}
                other => break other.unwrap_or(0),
            }
        };
        let running = Running {
            pid: self.pid,
            keeper: self.keeper,
        };
        if got == code.len() {
            let _status = running.wait();
            return Err(ExecError {
                program: self.program,
                errno: Errno::from_raw(i32::from_ne_bytes(code)),
                user: self.user,
            }
            .into());
        }
        Ok(running)
    }

    /// Gives up the start.
    pub fn abandon(self) {
        drop(self.release);
        let running = Running {
            pid: self.pid,
            keeper: self.keeper,
        };
        let _status = running.wait();
    }
}

/// A child that runs.
#[derive(Debug)]
pub struct Running {
    pid: Pid,
    keeper: Option<Keeper>,
}

impl Running {
    /// Waits for the child to end and reaps it: 0-255 is its exit status, 128+N means that signal N
    /// ended it.
    pub fn wait(&self) -> anyhow::Result<u8> {
        if let Some(keeper) = &self.keeper {
            return keeper.wait();
        }
        loop {
            let mut status = 0;
            // By a direct call, because libraries that name the signals fail for signals without a
            // name.
            // SAFETY: the kernel writes into a number of this function.
            let result = unsafe { libc::waitpid(self.pid.as_raw(), &raw mut status, 0) };
            match Errno::result(result) {
                Ok(_) if libc::WIFEXITED(status) => {
                    return Ok(u8::try_from(libc::WEXITSTATUS(status)).unwrap_or(u8::MAX));
                }
                Ok(_) if libc::WIFSIGNALED(status) => {
                    let status = 128 + libc::WTERMSIG(status);
                    return Ok(u8::try_from(status).unwrap_or(u8::MAX));
                }
                Ok(_) | Err(Errno::EINTR) => {}
                Err(error) => return Err(error).context("waiting for the program"),
            }
        }
    }

    /// The program's process id.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Whether the program is on a pseudo-terminal of sbt, so that input from the real terminal
    /// reaches it only through sbt.
    pub fn is_on_pty(&self) -> bool {
        self.keeper.is_some()
    }

    /// Tells the keeper whether sbt's screen is on the real terminal, so that the keeper can
    /// restore the terminal if sbt is killed. To be called before the screen comes, and after it
    /// has gone.
    pub fn has_screen(&self, on: bool) {
        if let Some(keeper) = &self.keeper {
            keeper.has_screen(on);
        }
    }

    /// Lets the keeper reap a program that has ended. To be called after [`Self::wait`] has
    /// returned; from then on sbt must not send a signal to the program.
    pub fn release(&self) {
        if let Some(keeper) = &self.keeper {
            keeper.release();
        }
    }

    /// The pipe with the number of each signal that stops a program on a pseudo-terminal of sbt,
    /// one byte each, to be read without blocking. The pipe can be taken once.
    pub fn take_stops(&mut self) -> Option<OwnedFd> {
        self.keeper.as_mut().and_then(Keeper::take_stops)
    }

    /// Sends the child a signal.
    pub fn signal(&self, number: i32) {
        // SAFETY: a plain system call; the child is not reaped, so the id is its own.
        unsafe { libc::kill(self.pid.as_raw(), number) };
    }
}

/// Sends a signal to a process by its descriptor, so that no other process can get it.
pub fn signal_pidfd(fd: &OwnedFd, number: i32) {
    // SAFETY: a plain system call; the descriptor is open.
    unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            fd.as_raw_fd(),
            number,
            std::ptr::null::<libc::siginfo_t>(),
            0,
        );
    }
}

/// A descriptor that becomes readable when the process ends.
pub fn pidfd(pid: u32) -> io::Result<OwnedFd> {
    // SAFETY: a plain system call.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    let fd = i32::try_from(fd).map_err(io::Error::other)?;
    // SAFETY: the kernel has just given this descriptor to this call alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Whether the process of a descriptor has ended, with all of its threads.
pub fn has_ended(fd: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(fd.as_fd(), PollFlags::POLLIN)];
    poll(&mut fds, PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
}
