//! Facts about a process besides its threads.

use std::{fs::File, io::Read as _};

use sbt_engine::hang::scene::{Language, ProcessSeen};
use sbt_program::{
    process::{self, job},
    status::Status,
};

/// How much of a program is searched for the note of Go's linker, bytes.
const HEAD: usize = 16 << 10;

/// The note of Go's linker with the id of the build: its type, and its name.
const GO: [u8; 8] = *b"\x04\0\0\0Go\0\0";

/// Looks at a process.
pub fn of(process: u32) -> ProcessSeen {
    let timers = process::text(process::folder(process).join("timers"));
    ProcessSeen {
        process,
        parent: process::parent(process).filter(|parent| *parent != 0),
        forked: process::is_forked(process),
        has_timers: timers.is_ok_and(|timers| !timers.trim().is_empty()) || may_ring(process),
        has_handlers: handles_signals(process, &[]),
        may_be_told: handles_signals(process, &[libc::SIGINT]),
        handles_none: caught(process).is_some_and(handles_none),
        rank: job::rank(process),
        ranks: job::ranks(process),
        has_lost_threads: process::has_lost_threads(process),
        has_tasks: is_of_go(process),
        language: language(process),
    }
}

/// The language of a program, by the file of its interpreter or virtual machine that the process has
/// mapped.
fn language(process: u32) -> Option<Language> {
    process::mappings(process)
        .into_iter()
        .find_map(|mapping| language_of(&mapping.path.file_name()?.to_string_lossy()))
}

/// The language that a file with this name executes.
fn language_of(file: &str) -> Option<Language> {
    if file == "libjvm.so" {
        return Some(Language::Java);
    }
    let begins = ["python2", "python3", "libpython2", "libpython3"];
    let is_python = begins.iter().any(|begin| file.starts_with(begin));
    is_python.then_some(Language::Python)
}

/// Whether an alarm (`alarm`, `setitimer`) may lead to a handler. Whether one is set is not visible.
fn may_ring(process: u32) -> bool {
    caught(process).is_some_and(|caught| caught >> (libc::SIGALRM - 1) & 1 == 1)
}

/// The signals for which a process has handlers; bit 0 is signal 1. `None` if unknown.
fn caught(process: u32) -> Option<u64> {
    Status::of(process)?.bits("SigCgt")
}

/// Whether a process that handles these signals handles none but those of its C library. Signal 34 is
/// the program's own with glibc, and so counts, although musl keeps it.
const fn handles_none(caught: u64) -> bool {
    const OF_LIBRARY: u64 = 1 << 31 | 1 << 32;
    caught & !OF_LIBRARY == 0
}

/// Whether the process handles a signal other than those that its own faults cause, and those that
/// the C library keeps for itself, and `but`. True if that is not known.
fn handles_signals(process: u32, but: &[i32]) -> bool {
    const FAULTS: [i32; 6] = [
        libc::SIGSEGV,
        libc::SIGBUS,
        libc::SIGFPE,
        libc::SIGILL,
        libc::SIGTRAP,
        libc::SIGSYS,
    ];
    /// glibc: `SIGCANCEL` and `SIGSETXID`; musl has one more (`SIGSYNCCALL`).
    const OF_LIBRARY: std::ops::RangeInclusive<i32> = 32..=34;
    let others = FAULTS.into_iter().chain(OF_LIBRARY);
    let others = others.chain(but.iter().copied());
    let others = others.fold(0, |all, signal| all | 1 << (signal - 1));
    caught(process).is_none_or(|caught| caught & !others != 0)
}

fn is_of_go(process: u32) -> bool {
    let Ok(file) = File::open(process::folder(process).join("exe")) else {
        return false;
    };
    let mut head = Vec::new();
    let read = file.take(HEAD as u64).read_to_end(&mut head);
    read.is_ok() && memchr::memmem::find(&head, &GO).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_of_the_c_library_are_not_the_programs() {
        assert!(handles_none(0));
        assert!(handles_none(0x1_8000_0000), "glibc cancels threads");
        assert!(!handles_none(1 << (libc::SIGTERM - 1)));
        assert!(!handles_none(1 << 33), "SIGRTMIN");
    }

    #[test]
    fn languages_are_known_by_their_files() {
        for (file, language) in [
            ("libjvm.so", Some(Language::Java)),
            ("python3.11", Some(Language::Python)),
            ("libpython3.13.so.1.0", Some(Language::Python)),
            ("_socket.cpython-311-x86_64-linux-gnu.so", None),
            ("libc.so.6", None),
        ] {
            assert_eq!(language_of(file), language, "{file}");
        }
    }
}
