//! Puts events on each thread of a process exactly once, while other threads begin.
//!
//! A new thread inherits what its parent has. What it has inherited cannot be asked, but it takes
//! up debug registers. Addresses are put on each thread and CPU in the same order, so an inheriting
//! thread always has the first few of them: how many, the number of free registers tells.

use std::{collections::BTreeSet, io};

use super::events::{Events, Opened};
use sbt_program::process;

/// After so many rounds a process counts as starting threads too fast.
const ROUNDS: usize = 64;

/// The events that each thread of a process must have.
pub struct Cover<'a> {
    /// The addresses, in the order in which they are put on.
    pub addresses: &'a [u64],
    /// The number of addresses that fit on each CPU in a thread that has none of them.
    pub room: &'a [usize],
    /// Whether threads seen at first may have inherited some.
    pub inherited: bool,
    /// Whether the events are enabled at once.
    pub on: bool,
}

impl Cover<'_> {
    /// Puts on the events that threads lack. Returns the new events of each address.
    ///
    /// # Errors
    /// Errors of the kernel; threads begin too fast.
    pub fn put(&self, process: u32, events: &Events) -> io::Result<Vec<Opened>> {
        let mut opened: Vec<_> = self.addresses.iter().map(|_| events.none()).collect();
        let all = each_thread(process, ROUNDS, |thread, is_new| {
            let has = if is_new || self.inherited {
                inherited(self.room, &events.room(thread)?, self.addresses.len())
            } else {
                vec![0; self.room.len()]
            };
            let mut lacked = false;
            for (index, (address, opened)) in self.addresses.iter().zip(&mut opened).enumerate() {
                let lacking = has.iter().enumerate().filter(|(_, has)| **has <= index);
                for (cpu, _) in lacking {
                    opened.push(events.watch(thread, *address, cpu, self.on)?);
                    lacked = true;
                }
            }
            Ok(lacked)
        })?;
        if !all {
            return Err(io::Error::from(io::ErrorKind::ResourceBusy));
        }
        Ok(opened)
    }
}

/// Calls `visit` for each thread of a process, also for threads that begin meanwhile, until a round
/// has nothing to do. False if every round had something to do. `visit` gets the thread, and
/// whether it was first seen in a later round; it returns whether it had to do anything.
///
/// # Errors
/// Errors of `visit`, but for `ESRCH`: a thread that has ended is skipped.
pub fn each_thread(
    process: u32,
    rounds: usize,
    mut visit: impl FnMut(u32, bool) -> io::Result<bool>,
) -> io::Result<bool> {
    let mut seen = BTreeSet::new();
    for round in 0..rounds {
        let mut new: Vec<u32> = process::thread_ids(process).collect();
        new.retain(|thread| seen.insert(*thread));
        let mut had_work = false;
        for thread in new {
            had_work |= match visit(thread, round > 0) {
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => true,
                other => other?,
            };
        }
        if !had_work {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The number of addresses of a process that can be watched on each CPU; empty if the process has
/// ended.
///
/// # Errors
/// Errors of the kernel.
pub fn room(process: u32, events: &Events) -> io::Result<Vec<usize>> {
    for thread in process::thread_ids(process) {
        match events.room(thread) {
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
            other => return other,
        }
    }
    Ok(Vec::new())
}

/// How many of the addresses a thread has inherited on each CPU, by the free registers of a thread
/// without them (`before`) and of this thread (`now`).
fn inherited(before: &[usize], now: &[usize], most: usize) -> Vec<usize> {
    let taken = before.iter().zip(now);
    taken
        .map(|(before, now)| before.saturating_sub(*now).min(most))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_room_tells_what_was_inherited() {
        assert_eq!(inherited(&[4, 4, 3], &[4, 1, 0], 3), [0, 3, 3]);
        // Another program has taken room since.
        assert_eq!(inherited(&[2, 2], &[0, 4], 1), [1, 0]);
    }

    #[test]
    fn threads_that_begin_meanwhile_are_visited_until_there_is_nothing_to_do() {
        let this = std::process::id();
        let own = nix::unistd::gettid().as_raw().cast_unsigned();
        let mut told = Vec::new();
        let all = each_thread(this, ROUNDS, |thread, is_new| {
            if thread == own {
                told.push(is_new);
            }
            Ok(!is_new)
        });
        assert!(all.unwrap());
        assert_eq!(told, [false], "once");
        let ended = |_, _| Err(io::Error::from_raw_os_error(libc::ESRCH));
        assert!(each_thread(this, 99, ended).unwrap());
        assert!(!each_thread(this, 1, |_, _| Ok(true)).unwrap());
        let refused = |_, _| Err(io::Error::from_raw_os_error(libc::EACCES));
        assert!(each_thread(this, 99, refused).is_err());
        // No such process.
        assert!(each_thread(u32::MAX >> 1, 1, |_, _| Ok(true)).unwrap());
    }
}
