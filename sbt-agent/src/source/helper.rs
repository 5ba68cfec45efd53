//! Starts sbt itself in a process of its own, which does what only another process can.

use std::{
    io,
    os::{fd::OwnedFd, unix::process::CommandExt as _},
    process::{Child, Command, Stdio},
    thread,
};

use sbt_program::access::rights;

/// Starts the process. `argument`: what it does, which is not a command that a user would type. It keeps
/// the privileges that sbt has now, and keys typed at the terminal send it no signals.
///
/// # Errors
/// The process cannot be started.
pub fn start(
    argument: &str,
    arguments: &[String],
    stdin: OwnedFd,
    stdout: Option<OwnedFd>,
) -> io::Result<Child> {
    let mut command = Command::new("/proc/self/exe");
    command
        .arg(argument)
        .args(arguments)
        .stdin(stdin)
        .stdout(stdout.map_or_else(Stdio::null, Stdio::from))
        .stderr(Stdio::null())
        .process_group(0);
    // On a separate thread: the privileges that it passes on do not come back.
    let starting = thread::Builder::new().spawn(move || {
        rights::hand_on();
        command.spawn()
    });
    starting.and_then(|thread| thread.join().unwrap_or(Err(io::ErrorKind::Other.into())))
}
