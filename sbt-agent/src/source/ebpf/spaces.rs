//! In whose memory objects lie, where several processes are watched.
//!
//! A process that was forked has other objects at the addresses of its parent's;
//! and what several processes share may lie at another address in each.

use rustc_hash::{FxHashMap, FxHashSet};
use sbt_engine::event::{SHARED, SPACE, address};
use sbt_program::backing::{Lookup, Memory, Shared};

/// The last number that a process can have.
const LAST: u16 = SHARED - 1;

/// More shared objects than this are not remembered that no process has any more.
const MAX_SHARED: usize = 4096;

/// Numbers processes, and knows what they share.
#[derive(Default)]
pub struct Spaces {
    lookup: Option<Lookup>,
    numbers: FxHashMap<u32, u16>,
    /// How many numbers have been given, that of the target not counted.
    given: u16,
    /// Those of processes that have ended.
    free: Vec<u16>,
    /// What stands for an object that says of itself that it is shared.
    stands: FxHashMap<u64, u64>,
    shared: FxHashMap<Shared, u64>,
}

impl Spaces {
    /// For a target and, with a `lookup`, for its children too.
    pub fn new(target: u32, lookup: Option<Lookup>) -> Self {
        Self {
            lookup,
            // One whose number is not known is the target.
            numbers: FxHashMap::from_iter([(target, 0), (0, 0)]),
            ..Self::default()
        }
    }

    /// The number of a process.
    pub fn of(&mut self, process: u32) -> u16 {
        if self.lookup.is_none() {
            return 0;
        }
        if let Some(known) = self.numbers.get(&process) {
            return *known;
        }
        let number = self.free.pop().unwrap_or_else(|| {
            // Those beyond all others share the last number.
            self.given = (self.given + 1).min(LAST);
            self.given
        });
        self.numbers.insert(process, number);
        number
    }

    /// A process has ended; its number, which may become another's, if it had one
    /// of its own.
    pub fn ended(&mut self, process: u32) -> Option<u16> {
        if self.numbers.get(&process) == Some(&0) {
            return None;
        }
        let number = self.numbers.remove(&process)?;
        if number == LAST {
            return None;
        }
        self.executed(number);
        self.free.push(number);
        Some(number)
    }

    /// What stands for the object at an address of a process.
    pub fn object(&self, space: u16, at: u64) -> u64 {
        let own = own(space, at);
        if self.stands.is_empty() {
            return own;
        }
        self.stands.get(&own).copied().unwrap_or(own)
    }

    /// An object says of itself that processes share it, or cannot be read yet.
    pub fn meet(&mut self, space: u16, process: u32, at: u64) {
        let Some(lookup) = self.lookup else {
            return;
        };
        let own = own(space, at);
        if self.stands.contains_key(&own) {
            return;
        }
        let stands = match lookup(process, at) {
            Memory::Shared(memory) => self.shared(memory, at),
            Memory::Own => own,
            // One that was forked has it where its parent has, and nobody else has
            // anything shared right there.
            Memory::Unknown => {
                let mut known = self.stands.iter();
                let same = known.find(|(of, stands)| address(**of) == address(at) && of != stands);
                same.map_or(own, |(_, stands)| *stands)
            }
        };
        self.stands.insert(own, stands);
    }

    /// What stands for it in all processes.
    fn shared(&mut self, memory: Shared, at: u64) -> u64 {
        if let Some(known) = self.shared.get(&memory) {
            return *known;
        }
        if self.shared.len() >= MAX_SHARED {
            let used: FxHashSet<u64> = self.stands.values().copied().collect();
            self.shared.retain(|_, stands| used.contains(stands));
        }
        let new = shared(at, self.shared.values());
        self.shared.insert(memory, new);
        new
    }

    /// Another object is made there.
    pub fn forget(&mut self, space: u16, at: u64) {
        self.stands.remove(&own(space, at));
    }

    /// A process has executed another program.
    pub fn executed(&mut self, space: u16) {
        self.stands
            .retain(|own, _| sbt_engine::event::space(*own) != space);
    }
}

/// The object at an address of a process with this number.
pub(super) const fn own(space: u16, at: u64) -> u64 {
    address(at) | (space as u64) << SPACE
}

/// What stands for an object in all processes that share it: the address by which it was
/// met first, unless that stands for another.
pub(super) fn shared<'a>(at: u64, others: impl Iterator<Item = &'a u64>) -> u64 {
    let taken: FxHashSet<u64> = others.copied().collect();
    // The last address is followed by the first.
    let mut next = at;
    while taken.contains(&own(SHARED, next)) {
        next = next.wrapping_add(1);
    }
    own(SHARED, next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sbt_engine::event::space;

    /// Of 7, 8 and 9, which map the same thing, the last elsewhere.
    fn lookup(process: u32, at: u64) -> Memory {
        match (process, at) {
            (7 | 8, 0x1000) | (9, 0x5000) => Memory::Shared((1, 2, 0)),
            (7 | 8, 0x1040) | (9, 0x1000) => Memory::Shared((1, 2, 64)),
            (10, _) => Memory::Unknown,
            _ => Memory::Own,
        }
    }

    #[test]
    fn what_is_shared_is_one_object_wherever_it_lies() {
        let mut spaces = Spaces::new(7, Some(lookup));
        let mut object = |process, at| {
            let space = spaces.of(process);
            spaces.meet(space, process, at);
            spaces.object(space, at)
        };
        let first = object(7, 0x1000);
        assert_eq!((space(first), address(first)), (SHARED, 0x1000));
        assert_eq!(object(8, 0x1000), first);
        assert_eq!(object(9, 0x5000), first);
        // Another that lies where the first one lay elsewhere.
        let second = object(9, 0x1000);
        assert_ne!(second, first);
        assert_eq!(object(7, 0x1040), second);
        // A process that has ended has it where its parent had.
        assert_eq!(object(10, 0x1040), second);
    }

    #[test]
    fn numbers_of_processes_that_have_ended_become_others() {
        let mut spaces = Spaces::new(7, Some(lookup));
        for process in 100..200_000 {
            let space = spaces.of(process);
            assert_eq!(space, 1);
            // Right where the one before had something shared.
            assert_eq!(spaces.object(space, 0x1000), own(space, 0x1000));
            spaces.meet(space, 7, 0x1000);
            assert_eq!(spaces.object(space, 0x1000), own(SHARED, 0x1000));
            assert_eq!(spaces.ended(process), Some(space));
            assert_eq!(spaces.ended(process), None);
        }
        assert!(spaces.stands.is_empty());
        // Whoever lives keeps his own, and the target always.
        assert_eq!((spaces.of(8), spaces.of(9)), (1, 2));
        assert_eq!((spaces.ended(7), spaces.of(7)), (None, 0));
    }

    #[test]
    fn what_stands_for_objects_differs_also_at_the_last_address() {
        let mut all = Vec::new();
        for _ in 0..3 {
            let new = shared(u64::MAX, all.iter());
            assert_eq!(space(new), SHARED);
            assert!(!all.contains(&new));
            all.push(new);
        }
    }

    #[test]
    fn what_is_not_shared_is_each_processes_own() {
        let mut spaces = Spaces::new(7, Some(lookup));
        let (mine, others) = (spaces.of(7), spaces.of(8));
        spaces.meet(mine, 7, 0x9000);
        spaces.meet(others, 8, 0x9000);
        assert_eq!(spaces.object(mine, 0x9000), 0x9000);
        assert_ne!(spaces.object(others, 0x9000), 0x9000);
        assert_eq!(address(spaces.object(others, 0x9000)), 0x9000);
        // Made anew as one's own.
        spaces.meet(others, 8, 0x1000);
        spaces.forget(others, 0x1000);
        assert_eq!(space(spaces.object(others, 0x1000)), others);
    }
}
