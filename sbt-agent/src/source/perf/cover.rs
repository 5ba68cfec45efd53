//! Each thread of a process is watched, and none twice, while others begin.
//!
//! A thread inherits what the one has that starts it. What it has got it does not say, but it
//! takes the processor's room. Addresses are put on a thread and CPU in one order, and so what
//! another one has got of them is always the first few: how many, the room tells that is left.

use std::{collections::BTreeSet, io};

use super::events::{Events, Opened};
use sbt_program::process;

/// Who starts threads faster than that is not to keep us for ever.
const ROUNDS: usize = 64;

/// What is to be on each thread of a process.
pub struct Cover<'a> {
    /// In this order.
    pub addresses: &'a [u64],
    /// For how many there is room on each CPU in a thread that has none of them.
    pub room: &'a [usize],
    /// Whether threads that are there already may have inherited some.
    pub inherited: bool,
    /// Whether they are on at once.
    pub on: bool,
}

impl Cover<'_> {
    /// Puts on what there is not yet; what that is, for each address.
    ///
    /// # Errors
    /// The kernel's; threads begin too fast.
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

/// Does something for each thread of a process, also for those that begin meanwhile: until
/// there is none for which anything was to be done. False if there was always one. `visit` is
/// told the thread, and whether others have been visited before it was seen.
///
/// # Errors
/// Those of `visit`, but for one that says that a thread has ended.
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

/// For how many addresses of a process there is room on each CPU; nothing if it has ended.
///
/// # Errors
/// The kernel's.
pub fn room(process: u32, events: &Events) -> io::Result<Vec<usize>> {
    for thread in process::thread_ids(process) {
        match events.room(thread) {
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
            other => return other,
        }
    }
    Ok(Vec::new())
}

/// How many of the addresses a thread has inherited on each CPU, by the room there was before
/// and now.
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
        // Whoever else has taken room since.
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
        // There is no such process.
        assert!(each_thread(u32::MAX >> 1, 1, |_, _| Ok(true)).unwrap());
    }
}
