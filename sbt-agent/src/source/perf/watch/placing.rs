//! Puts events on the places of each process.

use std::{io, sync::Arc};

use super::{
    super::{
        cover::{self, Cover},
        refused,
        space::plan,
    },
    Watch,
};
use crate::source::polled::Polling as _;
use sbt_program::files::ProbedFile;

impl Watch {
    /// Watches more files.
    ///
    /// # Errors
    /// Errors of the kernel.
    pub(super) fn watch_files(&mut self, files: &[Arc<ProbedFile>]) -> io::Result<()> {
        let (new, notes) = self.files.take(files);
        self.notes.extend(notes);
        if new.is_empty() {
            return Ok(());
        }
        self.place_all()
    }

    /// Watches condition variables, or stops.
    ///
    /// # Errors
    /// Errors of the kernel.
    pub fn set_condvars(&mut self, on: bool) -> io::Result<()> {
        self.condvars = on;
        self.place_all()
    }

    /// Puts events on all wanted places of a process. A failure becomes a note.
    pub fn try_to_place(&mut self, process: u32) {
        let placed = self.place(process);
        self.note_failure(process, placed);
    }

    pub(super) fn note_failure(&mut self, process: u32, result: io::Result<()>) {
        let Err(error) = result else { return };
        // The process has ended meanwhile.
        if error.raw_os_error() == Some(libc::ESRCH) {
            return;
        }
        let why = refused::explain(&error);
        // The same reason is noted once, not for each process.
        if !self.notes.iter().any(|note| note.ends_with(&why)) {
            self.note(&format!("process {process}: {why}"));
        }
    }

    /// Places events in all processes. Returns the first error after all were tried.
    fn place_all(&mut self) -> io::Result<()> {
        let processes: Vec<u32> = self.spaces.keys().copied().collect();
        let placed = processes.into_iter().map(|process| self.place(process));
        // An error does not end the loop.
        placed.fold(Ok(()), io::Result::and)
    }

    /// Puts events on all wanted places of a process, and of others that have lost events by that.
    pub(super) fn place(&mut self, process: u32) -> io::Result<()> {
        let mut result = Ok(());
        let mut left = vec![process];
        while let Some(process) = left.pop() {
            let placed = self.change(process).and_then(|(new, others)| {
                left.extend(others);
                self.put(process, &new)
            });
            result = result.and(placed);
        }
        result
    }

    /// Drops events that are no longer wanted in a process. Returns the addresses that lack events
    /// now, and the other processes that have lost events by it.
    fn change(&mut self, process: u32) -> io::Result<(Vec<u64>, Vec<u32>)> {
        let nothing = Ok((Vec::new(), Vec::new()));
        let (Some(events), Some(space)) = (&self.events, self.spaces.get_mut(&process)) else {
            return nothing;
        };
        if self.files.watched.is_empty() {
            return nothing;
        }
        if space.events.is_empty() {
            space.room = cover::room(process, events)?;
        }
        let Some(room) = space.room.iter().min().copied() else {
            return nothing;
        };
        let ways = &mut self.programs.kmp;
        let planned = plan(process, &self.files.watched, self.condvars, room, ways);
        let Some((points, missed)) = planned else {
            return nothing;
        };
        if room == 0 && !missed.is_empty() {
            return Err(io::Error::from_raw_os_error(libc::ENOSPC));
        }
        let (new, gone) = space.change(points);
        let others = self.spaces.iter_mut();
        let others = others.filter_map(|(other, space)| space.follow(&gone).then_some(*other));
        let others: Vec<u32> = others.collect();
        for thread in self.threads.values_mut() {
            if thread.slot.process == process || others.contains(&thread.slot.process) {
                let is_gone = |at: u64| gone.iter().any(|(other, _)| *other == at);
                thread.tellers.retain(|((at, _), _)| !is_gone(*at));
            }
        }
        self.missed.add(missed);
        Ok((new, others))
    }

    /// Puts events on addresses of a process that has none there.
    fn put(&mut self, process: u32, new: &[u64]) -> io::Result<()> {
        let (Some(events), Some(space)) = (&self.events, self.spaces.get_mut(&process)) else {
            return Ok(());
        };
        let on = !self.paused;
        if self.partial.contains(&process) {
            let cover = Cover {
                addresses: &space.addresses(),
                room: &space.room.clone(),
                inherited: true,
                on,
            };
            space.put(process, &cover, events)?;
        }
        let cover = Cover {
            addresses: new,
            room: &space.room_left(),
            inherited: false,
            on,
        };
        space.put(process, &cover, events)
    }

    /// Adds a process whose beginning was lost: it was forked from a process that is watched at the
    /// same address.
    pub(super) fn adopt(&mut self, process: u32, at: u64) {
        if self.spaces.contains_key(&process) {
            return;
        }
        let number = self.next_space();
        let mut spaces = self.spaces.iter();
        let origin = spaces.find(|(_, space)| space.points.contains_key(&at));
        if let Some((origin, space)) = origin {
            let (origin, since_ns) = (*origin, space.since_ns);
            self.copy(origin, process, (number, since_ns));
        }
    }

    /// Gives a forked process what the process `origin` has.
    pub(super) fn copy(&mut self, origin: u32, process: u32, (number, since_ns): (u32, u64)) {
        if let Some(space) = self.spaces.get(&origin) {
            let copy = space.copied(number, since_ns);
            self.spaces.insert(process, copy);
        }
        if let Some(lives) = self.lives.get(&origin) {
            let lives = Arc::clone(lives);
            self.lives.insert(process, lives);
        }
    }
}
