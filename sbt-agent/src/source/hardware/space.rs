//! The memory of a process: what lies where in it, and what is watched there.

use std::{
    collections::{BTreeMap, HashMap},
    os::fd::OwnedFd,
    sync::Arc,
};

use sbt_common::Kmp;

use super::{
    place::{ROOM, choose, groups, missed},
    record::Sample,
};
use crate::{
    source::hits::{Machine, Place, Program, places},
    target::{
        files::{FileId, ProbedFile},
        mapping::Mapping,
        memory::Memory,
        process,
        trace::Registers,
    },
};

/// What is done at addresses, and what that is told.
pub type Points = BTreeMap<u64, Vec<(Program, u64)>>;

/// One memory.
pub struct Space {
    /// Equal for threads that share it.
    pub number: u32,
    /// Since when it is this one, ns.
    pub since_ns: u64,
    /// What is watched.
    pub points: Points,
    /// The events of addresses. Those of forked processes belong to where they were
    /// inherited from.
    pub events: HashMap<u64, Arc<Vec<OwnedFd>>>,
}

impl Space {
    /// One in which nothing is watched.
    pub fn new(number: u32, since_ns: u64) -> Self {
        Self {
            number,
            since_ns,
            points: Points::new(),
            events: HashMap::new(),
        }
    }

    /// That of a process which was forked from one with this memory.
    pub fn copied(&self, number: u32, since_ns: u64) -> Self {
        Self {
            number,
            since_ns,
            points: self.points.clone(),
            events: self.events.clone(),
        }
    }

    /// Watches these points from now on. Which addresses are new, and have no events yet;
    /// which are gone.
    pub fn change(&mut self, points: Points) -> (Vec<u64>, Vec<u64>) {
        let watched = self.events.keys().copied();
        let gone: Vec<u64> = watched.filter(|at| !points.contains_key(at)).collect();
        // There is room for others only when they are gone.
        self.events.retain(|at, _| points.contains_key(at));
        let wanted = points.keys().copied();
        let new = wanted.filter(|at| !self.events.contains_key(at)).collect();
        self.points = points;
        (new, gone)
    }
}

/// What is to be watched in a process, of files, and what the user should know of that.
/// `None` if it has mapped none of them, or is gone. `ways`: see [`places`].
pub fn plan(
    process: u32,
    files: &[Arc<ProbedFile>],
    condvars: bool,
    ways: &mut Vec<Kmp>,
) -> Option<(Points, Option<String>)> {
    let mapped = mapped(process, files);
    if mapped.is_empty() {
        return None;
    }
    let files: Vec<&ProbedFile> = mapped.iter().map(|(file, _)| &**file).collect();
    let groups = groups(&files, condvars, |point| places(point, ways));
    let (chosen, left) = choose(groups, ROOM);
    let mut points = Points::new();
    for group in &chosen {
        let (_, mappings) = &mapped[group.file];
        for place in &group.places {
            for at in mappings.iter().filter_map(|it| address(place, it)) {
                let hits = points.entry(at).or_default();
                if !hits.contains(&(place.program, place.cookie)) {
                    hits.push((place.program, place.cookie));
                }
            }
        }
    }
    Some((points, missed(&left)))
}

/// Which of the files a process has mapped, and where.
fn mapped(process: u32, files: &[Arc<ProbedFile>]) -> Vec<(Arc<ProbedFile>, Vec<Mapping>)> {
    let mut found: Vec<(Arc<ProbedFile>, Vec<Mapping>)> = Vec::new();
    for mapping in process::mappings(process) {
        let id = mapping.file(process).ok();
        let Some(id) = id.and_then(|file| FileId::of(&file).ok()) else {
            continue;
        };
        if let Some((_, mappings)) = found.iter_mut().find(|(file, _)| file.id == id) {
            mappings.push(mapping);
        } else if let Some(file) = files.iter().find(|file| file.id == id) {
            found.push((Arc::clone(file), vec![mapping]));
        }
    }
    found
}

/// Where a place lies.
fn address(place: &Place, mapping: &Mapping) -> Option<u64> {
    let above = place.offset.checked_sub(mapping.offset)?;
    let at = mapping.start.checked_add(above)?;
    (at < mapping.end).then_some(at)
}

/// A thread as it was at a hit; its memory is as it is now.
pub struct Sampled<'a> {
    /// What was copied then.
    pub sample: &'a Sample,
    /// It, and if it has ended the first one of its process.
    pub threads: [u32; 2],
}

impl Machine for Sampled<'_> {
    fn registers(&self) -> &Registers {
        &self.sample.registers
    }

    fn read(&self, address: u64, bytes: &mut [u8]) -> bool {
        let copied = || {
            let from = usize::try_from(address.checked_sub(self.sample.registers.rsp)?).ok()?;
            self.sample.stack.get(from..from.checked_add(bytes.len())?)
        };
        if let Some(copied) = copied() {
            bytes.copy_from_slice(copied);
            return true;
        }
        self.threads.iter().any(|thread| {
            let memory = Memory { thread: *thread };
            memory
                .fill(address, bytes)
                .is_ok_and(|count| count == bytes.len())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::trace::no_registers;

    #[test]
    fn what_is_gone_makes_room_for_what_is_new() {
        let points = |addresses: &[u64]| -> Points {
            let hits = |at: &u64| (*at, vec![(Program::Arrive, 0)]);
            addresses.iter().map(hits).collect()
        };
        let mut space = Space::new(1, 0);
        assert_eq!(space.change(points(&[1, 2])), (vec![1, 2], vec![]));
        for at in [1, 2] {
            space.events.insert(at, Arc::default());
        }
        let mut copy = space.copied(2, 7);
        assert_eq!(space.change(points(&[2, 3])), (vec![3], vec![1]));
        assert!(!space.events.contains_key(&1));
        // Its own events stay as they are.
        assert_eq!(copy.change(points(&[1, 2])), (vec![], vec![]));
    }

    #[test]
    fn the_stack_is_as_it_was_and_the_rest_as_it_is() {
        let now = [7_u8; 8];
        let address = now.as_ptr().addr() as u64;
        let mut sample = Sample {
            registers: no_registers(),
            stack: vec![1; 8],
        };
        let this = std::process::id();
        let read = |sample: &Sample, thread| {
            let threads = [thread, this];
            let mut bytes = [0; 8];
            let found = Sampled { sample, threads }.read(address, &mut bytes);
            found.then_some(bytes)
        };
        // The thread has ended; its process has not.
        assert_eq!(read(&sample, u32::MAX >> 1), Some([7; 8]));
        sample.registers.rsp = address;
        assert_eq!(read(&sample, this), Some([1; 8]));
        sample.registers.rsp = address - 1;
        assert_eq!(read(&sample, this), Some([7; 8]), "it ends before");
    }
}
