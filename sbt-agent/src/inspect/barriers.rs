//! The barriers at which threads wait, each listed once.

use std::collections::HashMap;

use sbt_engine::{
    event::Kind,
    hang::scene::{BarrierSeen, ThreadId},
};
use sbt_program::{
    backing::{Memory, Shared},
    process,
};

/// Identifies a barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Key {
    /// By process and address: in memory of one process.
    Own(u32, u64),
    /// In memory that processes share.
    Shared(Shared),
}

/// Facts about a barrier.
#[derive(Clone, Copy, Debug)]
pub struct FoundBarrier {
    /// Address in the process of the waiting thread.
    pub address: u64,
    /// As in [`BarrierSeen::kind`].
    pub kind: Kind,
    /// As in [`BarrierSeen::participants`].
    pub participants: Option<u32>,
    /// As in [`BarrierSeen::arrived`].
    pub arrived: Option<u32>,
    /// As in [`BarrierSeen::shared`].
    pub shared: bool,
    /// As in [`BarrierSeen::at_end`].
    pub at_end: Option<u32>,
}

/// The barriers found so far.
#[derive(Default)]
pub struct Barriers {
    all: Vec<BarrierSeen>,
    known: HashMap<Key, usize>,
}

impl Barriers {
    /// Adds a thread that waits at a barrier. Returns the index of the barrier.
    pub fn waits(&mut self, thread: ThreadId, found: FoundBarrier) -> usize {
        let own = Key::Own(thread.process, found.address);
        let key = if found.shared {
            match process::memory_at(thread.process, found.address) {
                Memory::Shared(shared) => Key::Shared(shared),
                _ => own,
            }
        } else {
            own
        };
        let index = *self.known.entry(key).or_insert_with(|| {
            self.all.push(BarrierSeen {
                process: thread.process,
                address: found.address,
                kind: found.kind,
                participants: found.participants,
                arrived: found.arrived,
                waiting: Vec::new(),
                past_end: Vec::new(),
                at_end: found.at_end,
                shared: found.shared,
                past: None,
            });
            self.all.len() - 1
        });
        self.add(index, thread);
        index
    }

    /// Adds a thread to those that wait at a known barrier.
    pub fn add(&mut self, index: usize, thread: ThreadId) {
        let waiting = &mut self.all[index].waiting;
        if !waiting.contains(&thread) {
            waiting.push(thread);
        }
    }

    /// Index of a barrier that is known at this address of the process.
    pub fn at(&self, process: u32, address: u64) -> Option<usize> {
        self.known.get(&Key::Own(process, address)).copied()
    }

    /// Adds a thread of the team of a barrier that is past the end of the team's parallel region.
    pub fn add_past_end(&mut self, index: usize, thread: ThreadId) {
        let past = &mut self.all[index].past_end;
        if !past.contains(&thread) {
            past.push(thread);
        }
    }

    /// Whether a barrier is known at this address of the process.
    pub fn has(&self, process: u32, address: u64) -> bool {
        self.known.contains_key(&Key::Own(process, address))
    }

    /// All barriers, by index.
    pub fn list(self) -> Vec<BarrierSeen> {
        self.all
    }
}
