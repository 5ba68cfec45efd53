//! Forked processes: each begins with a copy of a memory that has breakpoints in it. These have to
//! be served or taken out.

use std::time::Instant;

use super::{
    super::{
        closed, mapped,
        stop::{self, News, Stop, StopReason},
    },
    FORGOTTEN_AFTER, LOST_CHILD, PATIENCE, Space, Tracer,
};
use sbt_program::{
    arch::Registers,
    process,
    trace::{self, Id},
};

/// The note on a process whose copy cannot be cleaned.
const HARMED: &str = "a process that forbids others to read its memory (PR_SET_DUMPABLE) and \
    filters its system calls has forked: the child has sbt's breakpoints in its memory, and ends \
    at the first of them with SIGTRAP; use --backend ebpf or perf";

/// The largest number of different notes that are given.
const MOST_TOLD: usize = 16;

impl Tracer {
    /// Keeps the memory of a process that has just been forked from one with memory `number`.
    /// `None` if it cannot be opened: then the breakpoints have been taken out of it, where that is
    /// possible.
    pub(super) fn copy(&mut self, number: u32, new: Id) -> Option<u32> {
        let process = new.cast_unsigned();
        let copied = |this: &Self| this.spaces.get(&number)?.copied(process).ok();
        let mut copy = copied(self);
        if copy.is_none() {
            // All descriptors may be in use.
            self.usage.close();
            copy = copied(self);
        }
        if copy.is_none()
            && let Some(stop) = self.first_stop(new)
        {
            let (stop, opened) = closed::while_open(stop, || {
                let space = self.spaces.get(&number)?;
                let copied = space.copied(process).map(Some);
                copied
                    .or_else(|_| {
                        let cleaned = space.clean_copy(new, &[], &self.wanted.foreign);
                        cleaned.map(|()| None)
                    })
                    .ok()
            });
            let is_there = |stop: &Stop| stop.why() != StopReason::Ends && stop.is_traced();
            let is_there = stop.as_ref().is_some_and(is_there);
            if let Some(stop) = stop {
                self.early.insert(new, (stop, Instant::now()));
            }
            match opened.flatten() {
                Some(opened) => copy = opened,
                None if is_there => self.note_once(HARMED),
                None => {}
            }
        }
        let mut copy = copy?;
        if self.leaving {
            // No tracer will serve the breakpoints in the copy.
            let _gone = copy.clean(&self.wanted.foreign);
        }
        Some(self.keep(copy))
    }

    /// The first stop of a new thread, waited for if it has not come yet. `None` if the thread has
    /// ended instead; its end is not reported again, see [`stop::is_ours`].
    fn first_stop(&mut self, new: Id) -> Option<Stop> {
        if let Some((stop, _)) = self.early.remove(&new) {
            return Some(stop);
        }
        match stop::wait_for(new) {
            Ok(News::Stopped(stop)) => Some(stop),
            _ => None,
        }
    }

    /// Whether a process that this stopped thread has forked shares its memory, by the arguments of
    /// the thread's system call, where the kernel does not tell. `None` if that cannot be known
    /// either.
    pub(super) fn was_to_share(&self, parent: Id, space: Option<u32>) -> Option<bool> {
        let registers = trace::registers(parent).ok()?;
        // Read through the open memory: the process may forbid looking into it by now.
        let space = space.and_then(|number| self.spaces.get(&number));
        let word = |at| {
            let mut word = [0; 8];
            space?.read(at, &mut word).then(|| u64::from_ne_bytes(word))
        };
        is_to_share(&registers, word)
    }

    /// Lets a process go that is not to be watched but has a copy of the breakpoints.
    pub(super) fn release_child(&mut self, id: Id, space: Option<u32>) {
        if let Some(space) = space.and_then(|number| self.spaces.get_mut(&number)) {
            let _gone = space.clean(&self.wanted.foreign);
        }
        match self.first_stop(id) {
            Some(stop) => {
                let ours = stop.why() == StopReason::Asked;
                self.let_go(stop, ours);
            }
            None => drop(self.threads.remove(&id)),
        }
        if let Some(number) = space {
            self.spaces.remove(&number);
        }
    }

    /// Lets processes go whose parents were killed while forking them: a living parent would have
    /// reported the fork by now.
    pub(super) fn release_lost(&mut self) {
        let is_old = |since: &Instant| since.elapsed() > FORGOTTEN_AFTER;
        // After that time the numbers may be other processes'.
        self.released.retain(|_, since| !is_old(since));
        if self.early.is_empty() {
            while self.bygone.front().is_some_and(|(since, _)| is_old(since)) {
                self.bygone.pop_front();
            }
        }
        if self.bygone.is_empty() || self.early.is_empty() {
            return;
        }
        // For threads other than the first, the process that started them is there to report them.
        let is_lost = |id: Id, since: &Instant| {
            since.elapsed() > PATIENCE
                && process::of_thread(id.cast_unsigned()) == Some(id.cast_unsigned())
        };
        let lost: Vec<(Id, (Stop, Instant))> = self
            .early
            .extract_if(|id, (_, since)| is_lost(*id, since))
            .collect();
        for (id, (stop, _)) in lost {
            self.released.insert(id, Instant::now());
            self.known.tell([id.cast_unsigned()]);
            self.release(id, stop);
            self.note_once(LOST_CHILD);
        }
    }

    /// At the end, lets threads go that no parent will report any more.
    pub(super) fn release_orphans(&mut self) {
        for (id, (stop, _)) in std::mem::take(&mut self.early) {
            self.release(id, stop);
        }
    }

    /// Lets a thread go of which the parent is not known. If it is a process, it may have a copy of
    /// any memory with breakpoints.
    fn release(&mut self, id: Id, stop: Stop) {
        self.usage.close();
        let process = process::of_thread(id.cast_unsigned());
        let bygone = self.bygone.iter().map(|(_, space)| space);
        let spaces = || self.spaces.values().chain(bygone.clone());
        let clean = |process| {
            // Another program may have other code at the same addresses.
            let theirs = mapped::of(process).unwrap_or_default();
            for space in spaces() {
                match space.copied(process) {
                    Ok(mut copy) => {
                        copy.forget_others(&theirs);
                        let _gone = copy.clean(&self.wanted.foreign);
                    }
                    Err(_) => drop(space.clean_copy(id, &theirs, &self.wanted.foreign)),
                }
            }
        };
        let stop = match process {
            Some(process) if Space::of(process).is_ok() => {
                clean(process);
                Some(stop)
            }
            Some(process) if process == id.cast_unsigned() => {
                closed::while_open(stop, || clean(process)).0
            }
            _ => Some(stop),
        };
        if let Some(stop) = stop {
            let ours = stop.why() == StopReason::Asked;
            stop.let_go(ours);
        }
    }

    /// Adds a note, unless it was given before.
    pub(super) fn note_once(&mut self, text: &str) {
        if self.told.len() < MOST_TOLD && self.told.insert(text.to_owned()) {
            self.notes.push(text.to_owned());
        }
    }
}

/// Whether `clone` and the like ask for shared memory, by the registers of the call.
fn is_to_share(registers: &Registers, word: impl Fn(u64) -> Option<u64>) -> Option<bool> {
    let flags = match registers.system_call() {
        libc::SYS_clone => registers.numbered(1),
        // The flags are the first word of a structure (clone(2)).
        libc::SYS_clone3 => word(registers.numbered(1))?,
        libc::SYS_vfork => return Some(true),
        libc::SYS_fork => return Some(false),
        _ => return None,
    };
    Some(flags & u64::from(libc::CLONE_VM.unsigned_abs()) != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_memory_is_shared_as_was_asked_for() {
        let (shared, copied) = (0x100 | 0x11, 0x4000 | 0x11);
        for (call, flags, expected) in [
            (libc::SYS_clone, shared, Some(true)),
            (libc::SYS_clone, copied, Some(false)),
            (libc::SYS_clone3, 0x1000, Some(true)),
            (libc::SYS_clone3, 0x2000, Some(false)),
            // The structure cannot be read.
            (libc::SYS_clone3, 0x3000, None),
            (libc::SYS_vfork, copied, Some(true)),
            (libc::SYS_fork, shared, Some(false)),
            (libc::SYS_mmap, shared, None),
        ] {
            let mut registers = Registers::none();
            registers.set_system_call(call, 0);
            registers.set_arguments(&[flags]);
            let word = |at| match at {
                0x1000 => Some(shared),
                0x2000 => Some(copied),
                _ => None,
            };
            assert_eq!(is_to_share(&registers, word), expected, "{call} {flags:x}");
        }
    }
}
