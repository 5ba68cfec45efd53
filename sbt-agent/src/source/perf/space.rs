//! The memory of a process: what is mapped in it, and what is watched there.

use std::{collections::BTreeMap, io, sync::Arc};

use sbt_common::Kmp;

use super::{
    cover::Cover,
    events::{Events, Opened},
    place::{Missed, choose, groups},
    record::Sample,
};
use crate::source::{
    ptrace::mapped::{self, Mapped},
    twin::{Machine, Program, places},
};
use sbt_program::{arch::Registers, clock, files::ProbedFile, memory::Memory};

/// The programs to run at each address, with their cookies.
pub type Points = BTreeMap<u64, Vec<(Program, u64)>>;

/// The events of an address, shared with forked processes, which have inherited them: closing them
/// ends them for all.
pub type Shared = Arc<Opened>;

/// The memory of a process, and the events on its addresses.
#[derive(Debug)]
pub struct Space {
    /// Equal for threads that share it.
    pub number: u32,
    /// The time at which this memory came to be, ns.
    pub since_ns: u64,
    /// The watched points.
    pub points: Points,
    /// Events by address, in the order in which they were put on.
    pub events: Vec<(u64, Shared)>,
    /// The number of addresses that fit on each CPU in this memory: other programs may use some of
    /// the debug registers. Empty if not known yet.
    pub room: Vec<usize>,
    /// The time at which the last events were put on, ns: a process forked before may have only
    /// some of them.
    pub put_ns: u64,
}

impl Space {
    /// A memory in which nothing is watched.
    pub fn new(number: u32, since_ns: u64) -> Self {
        Self {
            number,
            since_ns,
            points: Points::new(),
            events: Vec::new(),
            room: Vec::new(),
            put_ns: 0,
        }
    }

    /// The memory of a process that was forked from one with this memory.
    pub fn copied(&self, number: u32, since_ns: u64) -> Self {
        Self {
            number,
            since_ns,
            points: self.points.clone(),
            events: self.events.clone(),
            room: self.room.clone(),
            put_ns: self.put_ns,
        }
    }

    /// Watches these points from now on. Returns the addresses that are new and have no events yet,
    /// and the events that are gone. Their debug registers are free once no process has these
    /// events.
    pub fn change(&mut self, points: Points) -> (Vec<u64>, Vec<(u64, Shared)>) {
        let is_gone = |(at, _): &mut (u64, Shared)| !points.contains_key(at);
        let gone = self.events.extract_if(.., is_gone).collect();
        let wanted = points.keys().copied();
        let new = wanted.filter(|at| !self.addresses().contains(at)).collect();
        self.points = points;
        (new, gone)
    }

    /// Puts events on addresses.
    ///
    /// # Errors
    /// See [`Cover::put`].
    pub fn put(&mut self, process: u32, cover: &Cover<'_>, events: &Events) -> io::Result<()> {
        if cover.addresses.is_empty() {
            return Ok(());
        }
        let opened = cover.put(process, events);
        self.put_ns = clock::now_ns();
        let opened = opened?.into_iter().map(Arc::new);
        let events = cover.addresses.iter().copied().zip(opened);
        self.events
            .extend(events.filter(|(_, events)| !events.is_empty()));
        Ok(())
    }

    /// Drops the addresses whose events another memory has dropped. Returns whether there were any.
    pub fn follow(&mut self, gone: &[(u64, Shared)]) -> bool {
        let before = self.events.len();
        for (at, other) in gone {
            if self
                .events
                .iter()
                .any(|(_, event)| Arc::ptr_eq(event, other))
            {
                // Its own events at that address are dropped too: they do not cover all threads.
                self.events.retain(|(address, _)| address != at);
            }
        }
        self.events.len() < before
    }

    /// The addresses that have events, in the order in which they were put on.
    pub fn addresses(&self) -> Vec<u64> {
        let mut addresses = Vec::new();
        for (at, _) in &self.events {
            if !addresses.contains(at) {
                addresses.push(*at);
            }
        }
        addresses
    }

    /// Whether an address was watched at `time_ns` by events that are still there. Hits of events
    /// that were dropped meanwhile no longer count.
    pub fn watches(&self, at: u64, time_ns: u64) -> bool {
        let mut events = self.events.iter();
        let tells = |(of, events): &(u64, Shared)| *of == at && events.since_ns <= time_ns;
        self.points.contains_key(&at) && events.any(tells)
    }

    /// Closes all events for good. What they have reported until then still counts.
    pub fn leave(&mut self) {
        for (_, events) in &mut self.events {
            *events = Arc::new(Opened::since(events.since_ns));
        }
    }

    /// How many more addresses fit on each CPU.
    pub fn room_left(&self) -> Vec<usize> {
        let taken = self.addresses().len();
        let all = self.room.iter();
        all.map(|room| room.saturating_sub(taken)).collect()
    }
}

/// The points of files that are to be watched in a process, and what there is no room for. `None`
/// if the process has mapped none of the files, or is gone. `room`: how many addresses fit; `ways`:
/// see [`places`].
pub fn plan(
    process: u32,
    files: &[Arc<ProbedFile>],
    condvars: bool,
    room: usize,
    ways: &mut Vec<Kmp>,
) -> Option<(Points, Missed)> {
    let mapped = mapped(process, files);
    if mapped.is_empty() {
        return None;
    }
    let files: Vec<&ProbedFile> = mapped.iter().map(|(file, _)| &**file).collect();
    let groups = groups(&files, condvars, |point| places(point, ways));
    let (chosen, left) = choose(groups, room);
    let mut points = Points::new();
    for group in &chosen {
        let (_, mappings) = &mapped[group.file];
        for place in &group.places {
            for at in mappings
                .iter()
                .filter_map(|mapping| mapping.address_of(place.offset))
            {
                let hits = points.entry(at).or_default();
                if !hits.contains(&(place.program, place.cookie)) {
                    hits.push((place.program, place.cookie));
                }
            }
        }
    }
    Some((points, Missed::of(&left, room)))
}

/// The files that a process has mapped, with their mappings.
fn mapped(process: u32, files: &[Arc<ProbedFile>]) -> Vec<(Arc<ProbedFile>, Vec<Mapped>)> {
    let mut found: Vec<(Arc<ProbedFile>, Vec<Mapped>)> = Vec::new();
    for mapping in mapped::of(process).unwrap_or_default() {
        let id = mapping.id;
        if let Some((_, mappings)) = found.iter_mut().find(|(file, _)| file.id == id) {
            mappings.push(mapping);
        } else if let Some(file) = files.iter().find(|file| file.id == id) {
            found.push((Arc::clone(file), vec![mapping]));
        }
    }
    found
}

/// A thread with its registers and stack at the hit, but its memory as it is now.
pub struct Sampled<'a> {
    /// The registers and memory that the kernel has copied at the hit.
    pub sample: &'a Sample,
    /// The thread; and the first one of its process, in case the thread has ended.
    pub threads: [u32; 2],
}

impl Machine for Sampled<'_> {
    fn registers(&self) -> &Registers {
        &self.sample.registers
    }

    fn read(&self, address: u64, bytes: &mut [u8]) -> bool {
        let copied = || {
            let from = usize::try_from(address.checked_sub(self.sample.registers.stack())?).ok()?;
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

    fn points(addresses: &[u64]) -> Points {
        let hits = |at: &u64| (*at, vec![(Program::Arrive, 0)]);
        addresses.iter().map(hits).collect()
    }

    /// Puts on what is new. Returns what is new and what is gone.
    fn change(space: &mut Space, addresses: &[u64]) -> (Vec<u64>, Vec<(u64, Shared)>) {
        let (new, gone) = space.change(points(addresses));
        let events = new.iter().map(|at| (*at, Shared::default()));
        space.events.extend(events);
        (new, gone)
    }

    #[test]
    fn what_is_gone_makes_room_for_what_is_new() {
        let mut space = Space::new(1, 0);
        space.room = vec![4, 3];
        let (new, gone) = change(&mut space, &[1, 5]);
        assert_eq!((new, gone.len()), (vec![1, 5], 0));
        assert_eq!(space.room_left(), [2, 1]);
        let (new, gone) = change(&mut space, &[2, 3, 5]);
        assert_eq!(new, [2, 3]);
        assert_eq!((gone.len(), gone[0].0), (1, 1));
        // In the order in which they were put on.
        assert_eq!(space.addresses(), [5, 2, 3]);
        assert_eq!(space.room_left(), [1, 0]);
    }

    #[test]
    fn what_was_taken_away_tells_nothing_of_what_is_put_there_again() {
        let mut space = Space::new(1, 0);
        change(&mut space, &[1, 2]);
        assert!(space.watches(1, 7) && !space.watches(3, 7));
        space.change(points(&[2]));
        assert!(!space.watches(1, 7));
        space.change(points(&[1, 2]));
        assert!(!space.watches(1, 7), "it is yet to be put on");
        space.events.push((1, Arc::new(Opened::since(8))));
        assert!(!space.watches(1, 7) && space.watches(1, 8));
        space.leave();
        assert!(!space.watches(1, 7) && space.watches(1, 8));
    }

    #[test]
    fn what_one_lets_go_is_gone_for_all_who_have_it() {
        let mut space = Space::new(1, 0);
        change(&mut space, &[1, 2]);
        let mut copy = space.copied(2, 7);
        change(&mut copy, &[1, 2, 3]);
        let mut other = Space::new(3, 0);
        change(&mut other, &[1]);
        let (_, gone) = change(&mut space, &[2]);
        assert!(!other.follow(&gone), "those are its own");
        assert!(copy.follow(&gone));
        assert!(!copy.follow(&gone), "no more");
        assert_eq!(copy.addresses(), [2, 3]);
        // The events are put on again, for this memory alone.
        assert_eq!(change(&mut copy, &[1, 2, 3]).0, [1]);
        assert_eq!(copy.addresses(), [2, 3, 1]);
    }

    #[test]
    fn the_stack_is_as_it_was_and_the_rest_as_it_is() {
        let now = [7_u8; 8];
        let address = now.as_ptr().addr() as u64;
        let mut sample = Sample {
            registers: Registers::none(),
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
        sample.registers.set_stack(address);
        assert_eq!(read(&sample, this), Some([1; 8]));
        sample.registers.set_stack(address - 1);
        assert_eq!(read(&sample, this), Some([7; 8]), "it ends before");
    }
}
