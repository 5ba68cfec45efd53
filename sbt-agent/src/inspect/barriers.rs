//! The barriers that threads wait at, each once.

use std::collections::HashMap;

use sbt_engine::hang::scene::{BarrierSeen, ThreadId};
use sbt_program::{
    backing::{Memory, Shared},
    process,
};

/// What tells a barrier from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Key {
    /// In a process's own memory.
    Own(u32, u64),
    /// In memory that several have.
    Shared(Shared),
}

/// What an object, or nothing, says.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// Its address in the process of the thread that waits.
    pub address: u64,
    /// See [`BarrierSeen::kind`].
    pub kind: &'static str,
    /// See there.
    pub participants: Option<u32>,
    /// See there.
    pub arrived: Option<u32>,
    /// See there.
    pub shared: bool,
}

/// Those found so far.
#[derive(Default)]
pub struct Barriers {
    all: Vec<BarrierSeen>,
    known: HashMap<Key, usize>,
}

impl Barriers {
    /// A thread waits at one: which.
    pub fn waits(&mut self, thread: ThreadId, found: Found) -> usize {
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
                shared: found.shared,
                past: None,
            });
            self.all.len() - 1
        });
        self.add(index, thread);
        index
    }

    /// Another thread waits at a barrier that is known.
    pub fn add(&mut self, index: usize, thread: ThreadId) {
        let waiting = &mut self.all[index].waiting;
        if !waiting.contains(&thread) {
            waiting.push(thread);
        }
    }

    /// Whether one lies there.
    pub fn has(&self, process: u32, address: u64) -> bool {
        self.known.contains_key(&Key::Own(process, address))
    }

    /// All.
    pub fn list(self) -> Vec<BarrierSeen> {
        self.all
    }
}
