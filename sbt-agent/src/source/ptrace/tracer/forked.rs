//! Processes that are forked: they begin with a copy of a memory that has our breakpoints in it,
//! which has to be served, or cleaned.

use std::time::Instant;

use super::{
    super::{
        closed, mapped,
        stop::{self, News, Stop, Why},
    },
    FORGOTTEN_AFTER, LOST_CHILD, PATIENCE, Space, Tracer,
};
use sbt_program::{
    process,
    trace::{self, Id, Registers},
};

/// What to say of one whose copy nobody can get at.
const HARMED: &str = "a process was forked by one that has forbidden to look into it \
    (PR_SET_DUMPABLE) and filters its system calls: our breakpoints are in its memory, and at the \
    first of them it ends with SIGTRAP; use --backend ebpf or perf";

/// So much is said.
const MOST_TOLD: usize = 16;

impl Tracer {
    /// The memory of a process that has just been forked from one with this memory. `None` if it
    /// cannot be had: then our breakpoints have been taken out of it, where that is possible.
    pub(super) fn copy(&mut self, number: u32, new: Id) -> Option<u32> {
        let process = new.cast_unsigned();
        let copied = |this: &Self| this.spaces.get(&number)?.copied(process).ok();
        let mut copy = copied(self);
        if copy.is_none() {
            // There may be no file left to open.
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
            let is_there = |stop: &Stop| stop.why() != Why::Ends && stop.is_traced();
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
            // Nobody will serve what it has a copy of.
            let _gone = copy.clean(&self.wanted.foreign);
        }
        Some(self.keep(copy))
    }

    /// The stop in which a new thread begins: it is about to stop for us, if it has not. `None` if
    /// it has ended instead, which is not told again: see [`stop::is_ours`].
    fn first_stop(&mut self, new: Id) -> Option<Stop> {
        if let Some((stop, _)) = self.early.remove(&new) {
            return Some(stop);
        }
        match stop::wait_for(new) {
            Ok(News::Stopped(stop)) => Some(stop),
            _ => None,
        }
    }

    /// Whether a process that was forked by a thread, which stands and says so, has its memory, where
    /// the kernel does not tell: by what it was asked for. `None` if that is not to be known either.
    pub(super) fn was_to_share(&self, parent: Id, space: Option<u32>) -> Option<bool> {
        let registers = trace::registers(parent).ok()?;
        // Not by the thread, whose process may have forbidden to look into it.
        let space = space.and_then(|number| self.spaces.get(&number));
        let word = |at| {
            let mut word = [0; 8];
            space?.read(at, &mut word).then(|| u64::from_ne_bytes(word))
        };
        is_to_share(&registers, word)
    }

    /// A process that nobody wants to hear of has a memory of its own, with our breakpoints.
    pub(super) fn release_child(&mut self, id: Id, space: Option<u32>) {
        if let Some(space) = space.and_then(|number| self.spaces.get_mut(&number)) {
            let _gone = space.clean(&self.wanted.foreign);
        }
        match self.first_stop(id) {
            Some(stop) => {
                let ours = stop.why() == Why::Asked;
                self.let_go(stop, ours);
            }
            None => drop(self.threads.remove(&id)),
        }
        if let Some(number) = space {
            self.spaces.remove(&number);
        }
    }

    /// Lets those go that were forked by one that was killed before it could say so: who has
    /// forked them has had time enough for that.
    pub(super) fn release_lost(&mut self) {
        let is_old = |since: &Instant| since.elapsed() > FORGOTTEN_AFTER;
        // Their numbers may be others' by then.
        self.released.retain(|_, since| !is_old(since));
        if self.early.is_empty() {
            while self.bygone.front().is_some_and(|(since, _)| is_old(since)) {
                self.bygone.pop_front();
            }
        }
        if self.bygone.is_empty() || self.early.is_empty() {
            return;
        }
        // A thread is no process of its own: whoever started it is there to say so.
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

    /// Lets those go of which nobody will say any more who has started them.
    pub(super) fn release_orphans(&mut self) {
        for (id, (stop, _)) in std::mem::take(&mut self.early) {
            self.release(id, stop);
        }
    }

    /// Lets one go of which it is not known who has started it. A process may have a copy of a
    /// memory with our breakpoints in it.
    fn release(&mut self, id: Id, stop: Stop) {
        self.usage.close();
        let process = process::of_thread(id.cast_unsigned());
        let bygone = self.bygone.iter().map(|(_, space)| space);
        let spaces = || self.spaces.values().chain(bygone.clone());
        let clean = |process| {
            // Another program may have had other code at the same addresses.
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
            let ours = stop.why() == Why::Asked;
            stop.let_go(ours);
        }
    }

    /// Says something that is worth saying once.
    pub(super) fn note_once(&mut self, text: &str) {
        if self.told.len() < MOST_TOLD && self.told.insert(text.to_owned()) {
            self.notes.push(text.to_owned());
        }
    }
}

/// By what it calls the kernel.
fn is_to_share(registers: &Registers, word: impl Fn(u64) -> Option<u64>) -> Option<bool> {
    let flags = match registers.orig_rax.cast_signed() {
        libc::SYS_clone => registers.rdi,
        // A structure of which they are the first (clone(2)).
        libc::SYS_clone3 => word(registers.rdi)?,
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
            // A structure that cannot be read.
            (libc::SYS_clone3, 0x3000, None),
            (libc::SYS_vfork, copied, Some(true)),
            (libc::SYS_fork, shared, Some(false)),
            (libc::SYS_mmap, shared, None),
        ] {
            let mut registers = trace::no_registers();
            (registers.orig_rax, registers.rdi) = (call.cast_unsigned(), flags);
            let word = |at| match at {
                0x1000 => Some(shared),
                0x2000 => Some(copied),
                _ => None,
            };
            assert_eq!(is_to_share(&registers, word), expected, "{call} {flags:x}");
        }
    }
}
