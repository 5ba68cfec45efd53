//! In whose memory objects lie, where several processes are watched.
//!
//! A process that was forked has other objects at the addresses of its parent's;
//! and what several processes share may lie at another address in each.

use rustc_hash::{FxHashMap, FxHashSet};
use sbt_engine::event::{SHARED, SPACE, address, space as space_of};
use sbt_program::backing::{Lookup, Memory, Shared};

/// The last number that a process can have.
const LAST: u16 = SHARED - 1;

/// So many ancestors of a process are looked at.
const MAX_ANCESTORS: usize = 64;

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
    /// By process the one that forked it, if it has executed no other program since.
    parents: FxHashMap<u32, u32>,
    /// Processes that have executed a program.
    executed: FxHashSet<u32>,
    late: Late,
}

/// What an object says of itself.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Says {
    /// Processes share it.
    Shared,
    /// Processes will share it: it has just been made.
    New,
    /// Nothing: it cannot be read.
    Nothing,
}

/// Objects in memory that was looked at too late in each of its processes.
#[derive(Default)]
struct Late {
    /// All of them.
    all: u64,
    /// Of those, what a process had not made itself, and no other process was known to have.
    apart: u64,
    /// How often a process was taken to have the same object as another.
    assumed: u64,
}

impl Late {
    fn note(&self) -> Option<String> {
        if self.all == 0 && self.assumed == 0 {
            return None;
        }
        let end = if self.apart > 0 && self.all > 1 {
            "sbt does not know which barriers of different processes are the same barrier"
        } else if self.assumed > 0 {
            "sbt takes barriers at the same address, in processes forked from each other, as one \
             barrier"
        } else {
            return None;
        };
        Some(format!(
            "processes ended before sbt could check whether they share the memory of their \
             barriers: {end}"
        ))
    }
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

    /// A process has forked another, which has everything where its parent has it.
    pub fn forked(&mut self, parent: u32, child: u32) {
        if self.lookup.is_some() {
            self.executed.remove(&child);
            self.parents.insert(child, parent);
        }
    }

    /// A process has ended; its number, which may become another's, if it had one
    /// of its own.
    pub fn ended(&mut self, process: u32) -> Option<u16> {
        // Its children go on as those of its parent.
        if let Some(parent) = self.parents.remove(&process) {
            let children = self.parents.values_mut().filter(|of| **of == process);
            children.for_each(|of| *of = parent);
        }
        if self.parents.values().all(|parent| *parent != process) {
            self.executed.remove(&process);
        }
        if self.numbers.get(&process) == Some(&0) {
            return None;
        }
        let number = self.numbers.remove(&process)?;
        if number == LAST {
            return None;
        }
        self.forget_all(number);
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

    /// An object says of itself that processes share it.
    pub fn meet(&mut self, space: u16, process: u32, at: u64) {
        self.look(space, process, at, Says::Shared);
    }

    /// An object cannot be read yet: it may lie in a page of shared memory that the process has not
    /// touched since it was forked.
    pub fn meet_unread(&mut self, space: u16, process: u32, at: u64) {
        self.look(space, process, at, Says::Nothing);
    }

    /// An object is made anew that says of itself that processes share it.
    pub fn made(&mut self, space: u16, process: u32, at: u64) {
        self.forget(space, at);
        self.look(space, process, at, Says::New);
    }

    fn look(&mut self, space: u16, process: u32, at: u64, says: Says) {
        let Some(lookup) = self.lookup else {
            return;
        };
        let own = own(space, at);
        if self.stands.contains_key(&own) {
            return;
        }
        let stands = match lookup(process, at) {
            Memory::Shared(memory) => self.shared(memory, process, at),
            Memory::Own => own,
            // The process has made it for others, of which none can have it yet.
            Memory::Unknown if says == Says::New => self.unknown(at),
            Memory::Unknown => match self.relative(process, at) {
                Some(known) if space_of(known) != SHARED => own,
                Some(known) => {
                    self.late.assumed += u64::from(!self.is_known(known));
                    known
                }
                // Nothing says that others have it, and the process may have met it before.
                None if says == Says::Nothing => own,
                None => {
                    self.late.apart += 1;
                    self.unknown(at)
                }
            },
        };
        self.stands.insert(own, stands);
    }

    /// The ancestors of a process that it has its memory from, its parent first.
    fn ancestors(&self, process: u32) -> impl Iterator<Item = u32> {
        let parent = |of: &u32| self.parents.get(of).copied();
        std::iter::successors(parent(&process), parent).take(MAX_ANCESTORS)
    }

    /// What stands for the object at an address in the nearest ancestor that has met it.
    fn inherited(&self, process: u32, at: u64) -> Option<u64> {
        self.ancestors(process).find_map(|ancestor| {
            let space = *self.numbers.get(&ancestor)?;
            self.stands.get(&own(space, at)).copied()
        })
    }

    /// Likewise in an ancestor, or else in another process that has been forked from the same one
    /// and shares it.
    fn relative(&self, process: u32, at: u64) -> Option<u64> {
        let inherited = self.inherited(process, at);
        inherited.or_else(|| {
            let origin = self.origin(process);
            let others = self.numbers.iter();
            let shared = others.filter_map(|(other, space)| {
                let stands = *self.stands.get(&own(*space, at))?;
                (space_of(stands) == SHARED && self.origin(*other) == origin).then_some(stands)
            });
            shared.min()
        })
    }

    /// It is known in which memory the object lies for which this stands.
    fn is_known(&self, stands: u64) -> bool {
        self.shared.values().any(|known| *known == stands)
    }

    /// The process whose program a process and all that were forked from it have, if its exec
    /// was seen; all others are taken to be of one family.
    fn origin(&self, process: u32) -> Option<u32> {
        let first = self.ancestors(process).last().unwrap_or(process);
        self.executed.contains(&first).then_some(first)
    }

    /// What stands for an object in memory of which it is not known where it comes from.
    fn unknown(&mut self, at: u64) -> u64 {
        self.late.all += 1;
        self.new_object(at)
    }

    fn new_object(&self, at: u64) -> u64 {
        shared(at, self.shared.values().chain(self.stands.values()))
    }

    /// What the user should know.
    pub fn note(&self) -> Option<String> {
        self.late.note()
    }

    /// What stands for it in all processes.
    fn shared(&mut self, memory: Shared, process: u32, at: u64) -> u64 {
        if let Some(known) = self.shared.get(&memory) {
            return *known;
        }
        // A relative whose memory was looked at too late may have met it.
        let met = self.relative(process, at);
        let met = met.filter(|met| space_of(*met) == SHARED && !self.is_known(*met));
        if let Some(met) = met {
            self.late.assumed += 1;
            self.shared.insert(memory, met);
            return met;
        }
        if self.shared.len() >= MAX_SHARED {
            let used: FxHashSet<u64> = self.stands.values().copied().collect();
            self.shared.retain(|_, stands| used.contains(stands));
        }
        let new = self.new_object(at);
        self.shared.insert(memory, new);
        new
    }

    /// Another object is made there.
    pub fn forget(&mut self, space: u16, at: u64) {
        self.stands.remove(&own(space, at));
    }

    /// A process, which has this number, has executed another program.
    pub fn executed(&mut self, space: u16, process: u32) {
        self.forget_all(space);
        if self.lookup.is_some() {
            self.parents.remove(&process);
            self.executed.insert(process);
        }
    }

    fn forget_all(&mut self, space: u16) {
        self.stands.retain(|own, _| space_of(*own) != space);
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
    fn an_object_that_cannot_be_read_any_more_stays_what_it_was() {
        let mut spaces = Spaces::new(7, Some(|_, _| Memory::Unknown));
        let before = spaces.object(0, 0x2000);
        spaces.meet_unread(0, 7, 0x2000);
        assert_eq!(spaces.object(0, 0x2000), before);
        assert_eq!(spaces.note(), None);
        // One that says that it is shared is another's too, perhaps.
        spaces.meet(0, 7, 0x3000);
        assert_eq!(space(spaces.object(0, 0x3000)), SHARED);
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

    /// What stands for the object at 0x1000 of processes of which each has ended.
    fn late(spaces: &mut Spaces, processes: &[u32]) -> Vec<u64> {
        let each = processes.iter().map(|process| {
            let space = spaces.of(*process);
            spaces.meet(space, *process, 0x1000);
            spaces.object(space, 0x1000)
        });
        each.collect()
    }

    #[test]
    fn what_was_looked_at_too_late_everywhere_is_one_object_of_a_family() {
        let mut spaces = Spaces::new(7, Some(|_, _| Memory::Unknown));
        spaces.made(0, 7, 0x1000);
        assert_eq!(spaces.note(), None);
        spaces.forked(7, 8);
        spaces.forked(8, 9);
        let all = late(&mut spaces, &[7, 8, 9]);
        assert_eq!(all, [own(SHARED, 0x1000); 3]);
        let note = spaces.note().unwrap();
        assert!(note.ends_with("as one barrier"), "{note}");
        // Also if what the parent has is not known, and it has ended.
        let mut spaces = Spaces::new(7, Some(|_, _| Memory::Unknown));
        spaces.forked(7, 8);
        spaces.forked(8, 9);
        spaces.forked(8, 10);
        spaces.ended(8);
        assert_eq!(late(&mut spaces, &[9, 10]), [own(SHARED, 0x1000); 2]);
    }

    #[test]
    fn what_processes_have_made_themselves_is_not_one_object() {
        let mut spaces = Spaces::new(7, Some(|_, _| Memory::Unknown));
        for (process, child) in [(8, 80), (9, 90)] {
            spaces.forked(7, process);
            let space = spaces.of(process);
            spaces.made(space, process, 0x1000);
            spaces.forked(process, child);
        }
        let all = late(&mut spaces, &[8, 80, 9, 90]);
        assert!(all[0] == all[1] && all[2] == all[3], "{all:x?}");
        assert_ne!(all[0], all[2]);
    }

    #[test]
    fn what_another_program_has_at_an_address_is_another_object() {
        let mut spaces = Spaces::new(7, Some(|_, _| Memory::Unknown));
        for process in [8, 9] {
            spaces.forked(7, process);
            let space = spaces.of(process);
            spaces.executed(space, process);
        }
        spaces.forked(9, 90);
        let all = late(&mut spaces, &[8, 9, 90]);
        assert!(all[0] != all[1] && all[1] == all[2], "{all:x?}");
        let note = spaces.note().unwrap();
        assert!(note.ends_with("are the same barrier"), "{note}");
    }

    #[test]
    fn what_one_process_still_shows_its_relatives_had() {
        let mut spaces = Spaces::new(7, Some(lookup));
        spaces.forked(10, 8);
        // The parent has ended before its child.
        let all = late(&mut spaces, &[10, 8]);
        assert_eq!(all[0], all[1]);
        // What a parent has for itself its child has not from it.
        let mut spaces = Spaces::new(11, Some(lookup));
        spaces.forked(11, 10);
        let all = late(&mut spaces, &[11, 10]);
        assert_eq!(all, [own(0, 0x1000), own(1, 0x1000)]);
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
