//! A source whose tracing process is not sbt.

use std::{
    io,
    process::{Command, Stdio},
    sync::mpsc,
    time::Duration,
};

use super::*;

/// If a target ends while sbt attaches, no thread reads its records.
#[test]
fn a_source_that_was_never_started_ends() {
    let (read, write) = io::pipe().unwrap();
    let (ours, theirs) = UnixStream::pair().unwrap();
    // The tracing process ends when all is written, or when the reader is gone.
    let child = Command::new("head")
        .args(["-c", "10000000", "/dev/zero"])
        .stdin(OwnedFd::from(theirs))
        .stdout(OwnedFd::from(write))
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let source = Ptrace {
        outside: Outside::new(child.id(), false, &Settings::default()),
        child,
        line: Arc::new(Mutex::new(Line::new(ours).unwrap())),
        pipe: Some(File::from(OwnedFd::from(read))),
        files: Files::default(),
        ways: Vec::new(),
    };
    let (ended, end) = mpsc::channel();
    std::thread::spawn(move || {
        drop(source);
        ended.send(()).unwrap();
    });
    end.recv_timeout(Duration::from_mins(1)).unwrap();
}
