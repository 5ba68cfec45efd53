//! What is watched in which process.

use std::{io, sync::Arc};

use super::{
    super::{
        cover::{self, Cover},
        refused,
        space::plan,
    },
    Watch,
};
use sbt_program::files::ProbedFile;

impl Watch {
    /// Watches files as well.
    ///
    /// # Errors
    /// The kernel's.
    pub fn attach(&mut self, files: &[Arc<ProbedFile>]) -> io::Result<()> {
        let (new, notes) = self.files.take(files);
        self.notes.extend(notes);
        if new.is_empty() {
            return Ok(());
        }
        self.place_all()
    }

    /// Watches condition variables, or no longer.
    ///
    /// # Errors
    /// The kernel's.
    pub fn set_condvars(&mut self, on: bool) -> io::Result<()> {
        self.condvars = on;
        self.place_all()
    }

    /// Watches nothing for a while, or all again.
    pub fn pause(&mut self, paused: bool) {
        self.paused = paused;
        for (_, events) in self.spaces.values().flat_map(|space| &space.events) {
            events.switch(!paused);
        }
        if !paused {
            for thread in self.threads.values_mut() {
                thread.slot.begin_anew();
            }
        }
    }

    /// Watches a process that descends from the target; what fails is a note.
    pub fn follow(&mut self, process: u32) {
        // Who was started since watching began has inherited all, and is told of.
        self.listen(true);
        if !self.spaces.contains_key(&process) {
            let heard = self.hear_of(process, true);
            let placed = heard.and_then(|()| self.place(process));
            self.note_failure(process, placed);
        }
    }

    /// Watches what there is to watch in a process now; what fails is a note.
    pub fn try_to_place(&mut self, process: u32) {
        let placed = self.place(process);
        self.note_failure(process, placed);
    }

    pub(super) fn note_failure(&mut self, process: u32, result: io::Result<()>) {
        let Err(error) = result else { return };
        // It has ended meanwhile.
        if error.raw_os_error() == Some(libc::ESRCH) {
            return;
        }
        let why = refused::explain(&error);
        // Once, and not for each process.
        if !self.notes.iter().any(|note| note.ends_with(&why)) {
            self.note(&format!("process {process}: {why}"));
        }
    }

    /// The first error, when all has been tried.
    fn place_all(&mut self) -> io::Result<()> {
        let processes: Vec<u32> = self.spaces.keys().copied().collect();
        let placed = processes.into_iter().map(|process| self.place(process));
        // Not before the last one.
        placed.fold(Ok(()), io::Result::and)
    }

    /// Watches what there is to watch in a process now.
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

    /// Lets go what is not to be watched any more in a process. The addresses that are to be
    /// from now on, and which other processes have lost something by it.
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

    /// A process of which the beginning was lost was forked from one that is watched where
    /// it is.
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

    /// A process has what the one has from which it was forked.
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
