//! A process that takes sbt's jumps out of the target if sbt is killed.
//!
//! sbt tells it of each change before it makes it. When sbt's end of the pipe closes and sbt has not said
//! that it has taken everything out, the keeper first switches the jumps' code off, for which no thread
//! stops, and then puts the program's own bytes back.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    fs::File,
    io::{self, BufRead as _, BufReader, Write as _},
    process::Child,
    sync::{Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use nix::{
    fcntl::{FcntlArg, OFlag, fcntl},
    sys::signal::{SigSet, SigmaskHow, sigprocmask},
};

use super::{
    armed::Armed,
    remote::{let_all_go, stop_all, traced},
    space::memory_of,
};
use crate::{kernel::privilege, source::helper};
use sbt_program::trace;

/// The argument that makes sbt the keeper. Not a command that a user would type, nor one that
/// `pkill -f sbt` finds.
pub const ARGUMENT: &str = "__jumps";

/// The name of its process.
const NAME: &std::ffi::CStr = c"jump-keeper";

/// How often the keeper tries to stop the program's threads, and the pause after the first try, which doubles
/// each time: another tool may be tracing them, or one may be slow.
const TRIES: u32 = 6;
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// How long sbt waits at its end for the keeper, which may have something to do if sbt could not do it.
const LONGEST_END: Duration = Duration::from_secs(3);
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);

/// What sbt is about to do.
#[derive(Debug, PartialEq, Eq)]
pub enum Word<'a> {
    /// sbt changes a memory that the process did not have before.
    NewMemory,
    /// sbt switches code on by the word at this address.
    Control(u64),
    /// sbt writes a jump.
    Jump(&'a Armed),
    /// Nothing of sbt is left in the program.
    Done,
}

impl Word<'_> {
    fn line(&self) -> String {
        match self {
            Self::NewMemory => "memory\n".into(),
            Self::Control(at) => format!("control {at:x}\n"),
            Self::Jump(armed) => format!("jump {}\n", armed.written()),
            Self::Done => "done\n".into(),
        }
    }
}

/// sbt's end of the pipe to the keeper. Never blocks: while sbt tells something, the program stands.
#[derive(Debug)]
pub struct Keeper {
    /// `None` once it is closed.
    pipe: Option<io::PipeWriter>,
    child: Mutex<Option<Child>>,
}

impl Keeper {
    /// Starts the keeper for a process. Must be called before sbt gives its privileges up: the keeper does
    /// that for itself.
    ///
    /// # Errors
    /// The process cannot be started.
    pub fn start(target: u32) -> anyhow::Result<Self> {
        let (read, write) = io::pipe().context("cannot make a pipe")?;
        fcntl(&write, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        let child = helper::start(ARGUMENT, &[target.to_string()], read.into(), None)
            .context("cannot start the process that takes sbt's jumps out if sbt is killed")?;
        Ok(Self {
            pipe: Some(write),
            child: Mutex::new(Some(child)),
        })
    }

    /// Without a process.
    #[cfg(test)]
    pub const fn none() -> Self {
        Self {
            pipe: None,
            child: Mutex::new(None),
        }
    }

    /// Tells the keeper of a change, before it is made.
    pub fn tell(&self, word: &Word<'_>) {
        if let Some(mut pipe) = self.pipe.as_ref() {
            // A keeper that was killed or stopped does not hear it: sbt then works as without one. A line is
            // written as a whole or not at all (pipe(7)).
            let _unheard = pipe.write(word.line().as_bytes());
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        drop(self.pipe.take());
        let child = self.child.get_mut().unwrap_or_else(PoisonError::into_inner);
        let Some(child) = child else {
            return;
        };
        // The keeper ends when the pipe closes, at once if all is done.
        let end = Instant::now() + LONGEST_END;
        while matches!(child.try_wait(), Ok(None)) && Instant::now() < end {
            thread::sleep(BETWEEN_LOOKS);
        }
    }
}

/// What the keeper has to take out.
#[derive(Debug, Default, PartialEq, Eq)]
struct Kept {
    memories: u32,
    controls: BTreeSet<u64>,
    jumps: Vec<Armed>,
    is_done: bool,
}

impl Kept {
    /// Takes a line that sbt has written; any other text changes nothing.
    fn hear(&mut self, line: &str) {
        match line.split_once(' ').unwrap_or((line, "")) {
            ("memory", "") => {
                *self = Self {
                    memories: self.memories + 1,
                    ..Self::default()
                };
            }
            ("control", at) => self.controls.extend(u64::from_str_radix(at, 16)),
            ("jump", armed) => {
                if let Some(armed) = Armed::read(armed) {
                    self.jumps.retain(|other| other.at() != armed.at());
                    self.jumps.push(armed);
                    self.is_done = false;
                }
            }
            ("done", "") => self.is_done = true,
            _ => {}
        }
    }
}

/// Runs the keeper; `words`: the number of the process.
///
/// # Errors
/// The keeper cannot begin.
pub fn run(mut words: impl Iterator<Item = OsString>) -> anyhow::Result<()> {
    let target = words.next().and_then(|word| word.to_str()?.parse().ok());
    let target: u32 = target.context("the keeper needs the number of a process")?;
    // Signals that are meant for other processes must not end the keeper.
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::all()), None)?;
    privilege::limit_to_trace(target, false)?;
    let _as_it_is = nix::sys::prctl::set_name(NAME);
    // The keeper outlives sbt, and must not hold a mounted folder.
    let _stays = nix::unistd::chdir("/");
    let mut kept = Kept::default();
    let mut memory = memory_of(target);
    for line in BufReader::new(io::stdin().lock()).lines() {
        let memories = kept.memories;
        kept.hear(&line?);
        if kept.memories > memories {
            memory = memory_of(target);
        }
    }
    if !kept.is_done
        && let Ok(memory) = memory
    {
        take_out(target, &kept, &memory);
    }
    Ok(())
}

fn take_out(target: u32, kept: &Kept, memory: &File) {
    // If the process is gone, another one may have its number.
    let is_left = || kept.jumps.iter().any(|armed| armed.is_left(memory));
    if !is_left() {
        return;
    }
    for control in &kept.controls {
        let _gone = trace::write(memory, &[0; 8], *control);
    }
    let mut pause = FIRST_PAUSE;
    for _ in 0..TRIES {
        let is_done = traced(|| {
            let Ok(stops) = stop_all(target, Vec::new()) else {
                return false;
            };
            for armed in &kept.jumps {
                // Of another sbt by now.
                let _other = armed.restore(memory);
            }
            let_all_go(stops);
            true
        });
        if is_done == Some(true) || !is_left() {
            return;
        }
        thread::sleep(pause);
        pause *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keeper_knows_what_is_to_be_taken_out() {
        let armed = |at| Armed::new(at, &[0xb8, 1, 2, 3, 4], vec![0xe9, 9, 8, 7, 6]);
        let [first, second] = [armed(0x10), armed(0x20)];
        let mut kept = Kept::default();
        let hear = |kept: &mut Kept, word: &Word<'_>| kept.hear(word.line().trim_end());
        hear(&mut kept, &Word::NewMemory);
        hear(&mut kept, &Word::Control(0x7000));
        hear(&mut kept, &Word::Jump(&first));
        hear(&mut kept, &Word::Jump(&second));
        // Once more, after its library was mapped again.
        hear(&mut kept, &Word::Jump(&first));
        kept.hear("jump nonsense");
        kept.hear("");
        let expected = Kept {
            memories: 1,
            controls: [0x7000].into(),
            jumps: vec![second, first.clone()],
            is_done: false,
        };
        assert_eq!(kept, expected);
        hear(&mut kept, &Word::Done);
        assert!(kept.is_done);
        hear(&mut kept, &Word::Jump(&first));
        assert!(!kept.is_done, "there is something again");
        hear(&mut kept, &Word::NewMemory);
        let of_new = Kept {
            memories: 2,
            ..Kept::default()
        };
        assert_eq!(kept, of_new);
    }
}
