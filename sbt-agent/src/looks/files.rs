//! The files of /proc about a thread, kept open: reading one again costs a third of opening it.

use std::{fs::File, os::unix::fs::FileExt as _, path::PathBuf};

use sbt_engine::looks::ThreadId;
use sbt_program::process;

/// The longest content that is read, bytes.
const LONGEST: usize = 512;

/// The files about one thread.
pub struct Files {
    call: File,
    /// `None` if the kernel has no such file.
    times: Option<File>,
}

/// Times of a thread so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// CPU time, ns.
    pub ran_ns: u64,
    /// Time ready without a CPU, ns.
    pub ready_ns: u64,
    /// How often the thread got a CPU.
    pub turns: u64,
}

impl Times {
    fn read(text: &str) -> Option<Self> {
        let mut numbers = text.split_whitespace().map(str::parse);
        let mut next = || numbers.next()?.ok();
        Some(Self {
            ran_ns: next()?,
            ready_ns: next()?,
            turns: next()?,
        })
    }
}

fn folder(who: ThreadId) -> PathBuf {
    process::folder(who.process).join(format!("task/{}", who.thread))
}

impl Files {
    /// Opens the files; `None` if the thread has ended.
    pub fn open(who: ThreadId) -> Option<Self> {
        let folder = folder(who);
        Some(Self {
            call: File::open(folder.join("syscall")).ok()?,
            times: File::open(folder.join("schedstat")).ok(),
        })
    }

    /// What the kernel says of the thread's system call; `None` if the thread has ended or may not
    /// be looked at.
    pub fn call<'a>(&self, room: &'a mut Room) -> Option<&'a str> {
        room.read(&self.call)
    }

    /// The thread's times, if the kernel tells.
    pub fn times(&self, room: &mut Room) -> Option<Times> {
        Times::read(room.read(self.times.as_ref()?)?)
    }
}

/// Room for the content of one file.
pub struct Room([u8; LONGEST]);

impl Default for Room {
    fn default() -> Self {
        Self([0; LONGEST])
    }
}

impl Room {
    fn read(&mut self, file: &File) -> Option<&str> {
        let count = file.read_at(&mut self.0, 0).ok()?;
        std::str::from_utf8(self.0.get(..count)?).ok()
    }
}

/// The name of a thread.
pub fn name(who: ThreadId) -> Option<String> {
    let name = process::text(folder(who).join("comm")).ok()?;
    Some(name.trim_end_matches('\n').to_owned())
}

/// What /proc/PID/stat says of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// Whether a signal or a tracer has stopped its first thread.
    pub is_stopped: bool,
    /// Where its code begins: another place after each exec, mostly.
    pub code_start: u64,
}

impl State {
    /// The state of a process now; `None` if it has ended.
    pub fn of(process: u32) -> Option<Self> {
        Self::read(&process::text(process::folder(process).join("stat")).ok()?)
    }

    fn read(text: &str) -> Option<Self> {
        // The name before the last bracket may contain anything.
        let rest = text.rsplit_once(") ")?.1;
        let mut fields = rest.split(' ');
        let state = fields.next()?;
        // The field after the state is the fourth; that of the code's beginning is the 26th.
        let code_start = fields.nth(22)?.parse().ok()?;
        (state != "X").then_some(Self {
            is_stopped: state == "T",
            code_start,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_writes_is_read() {
        let times = Times::read("12 34 56\n").unwrap();
        assert_eq!((times.ran_ns, times.ready_ns, times.turns), (12, 34, 56));
        assert_eq!(Times::read("12 x 56"), None);
        let numbers: Vec<String> = (4..40).map(|number| number.to_string()).collect();
        let text = format!("7 (a) b) S {}", numbers.join(" "));
        let state = State::read(&text).unwrap();
        assert_eq!((state.is_stopped, state.code_start), (false, 26));
        assert_eq!(State::read("7 (a"), None);
        let own = State::of(std::process::id()).unwrap();
        assert!(own.code_start > 0);
    }
}
