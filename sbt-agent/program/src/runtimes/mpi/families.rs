//! Which communicators of the ranks of a program are the same one, by the calls that made them.
//!
//! A library names communicators by addresses or numbers of its own in each process. But all ranks of
//! a communicator make the same collective calls on it, in the same order (MPI 4.1, section 6.14). So a
//! new communicator is identified, in all processes alike, by the old communicator, by how many such
//! calls came before on the old one, and by the colour or the group that the call names. The library
//! lets no rank leave such a call before all ranks have come, so when a rank uses the new communicator,
//! sbt knows for all ranks which part of the old communicator they are in.
//!
//! A process that was not watched from `MPI_Init` on has made calls that sbt did not count: sbt knows
//! only the communicators that such a process had from the start.

mod keeping;
mod names;

use rustc_hash::FxHashMap;

use super::{
    groups::{Group, MOST_RANKS},
    makers::{Maker, MakerCall, handle, ranges},
    parts::{self, Part, UNDEFINED},
};

/// A communicator, with the same id in all processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommunicatorId(pub u64);

/// A process, by the number of its address space.
pub type Process = u16;

/// The name of an MPI job, if it is known.
pub type Job = Option<Box<[u8]>>;

/// A process that is a rank, as its environment and its library describe it.
#[derive(Clone, Debug, Default)]
pub struct Rank {
    /// The job to which the process belongs; several jobs may run at a time.
    pub job: Job,
    /// The number of the process in `MPI_COMM_WORLD`.
    pub rank: Option<u32>,
    /// The number of ranks of `MPI_COMM_WORLD`.
    pub ranks: Option<u32>,
    /// The library's name of `MPI_COMM_WORLD` in this process.
    pub world: u64,
    /// The library's name of `MPI_COMM_SELF` in this process.
    pub alone: u64,
    /// The library's name of `MPI_COMM_NULL` in this process.
    pub none: u64,
    /// Whether communicators that are not known by calls can be read in memory: those of Open MPI 4, if
    /// no calls of the process were lost. Where some were, other ranks know by calls what would be read.
    pub is_readable: bool,
    /// Whether sbt is told of all calls of the process that make communicators.
    pub is_complete: bool,
}

/// The properties by which a communicator differs from all others.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    World(Job),
    Alone(Process),
    Part(Turn, Part),
}

/// A collective call that makes a communicator from another one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Turn {
    of: CommunicatorId,
    /// How many such calls on the communicator came before; for a call by the ranks of a group alone, how
    /// many by that group with that tag.
    number: u32,
    /// The group and the tag of a call by the ranks of a group alone.
    by: Option<(Group, i32)>,
}

/// The knowledge about one communicator.
#[derive(Debug)]
struct Known {
    key: Key,
    size: Option<u32>,
    /// The number of names that processes have for the communicator.
    holders: u32,
    /// The sides of the grid that the ranks form, if they form one.
    sides: Option<Box<[u32]>>,
    /// What it is called in all processes of its job.
    name: Option<Box<str>>,
}

/// A rank that has come to a call.
#[derive(Debug)]
struct Comer {
    process: Process,
    part: Part,
    /// The key that the rank gives, and its number in the old communicator: the new communicator orders
    /// its ranks by these.
    order: (i32, Option<u32>),
}

/// The ranks that have come to a collective call so far.
#[derive(Debug, Default)]
struct Coming {
    comers: Vec<Comer>,
    /// The number of ranks that have left the call.
    left: usize,
    /// The communicators that the call has made.
    made: Vec<CommunicatorId>,
}

impl Coming {
    /// Whether all ranks that have come have left.
    const fn is_left(&self) -> bool {
        self.left == self.comers.len()
    }
}

/// A call that a thread is in.
#[derive(Debug)]
enum Call {
    Making {
        turn: Turn,
        part: Part,
        sides: Option<Box<[u32]>>,
        /// Whether the library may give ranks other numbers than in the old communicator.
        reorders: bool,
        is_numbered: bool,
    },
    Grouping {
        group: Option<Group>,
        is_numbered: bool,
    },
}

/// The knowledge about one process and its calls.
#[derive(Debug, Default)]
struct OneProcess {
    rank: Rank,
    /// Communicators by their names in this process; `None` for a communicator that sbt cannot identify.
    named: FxHashMap<u64, Option<CommunicatorId>>,
    groups: FxHashMap<u64, Option<Group>>,
    /// How many collective calls the process has made on each communicator.
    calls: FxHashMap<CommunicatorId, u32>,
    calls_by_group: FxHashMap<(CommunicatorId, Group, i32), u32>,
    /// The number of the process in communicators that the program has made.
    numbers: FxHashMap<CommunicatorId, u32>,
    /// The calls that threads are in, by thread.
    inside: FxHashMap<u32, Call>,
}

impl OneProcess {
    /// Whether the process has a name for a communicator.
    fn has(&self, id: CommunicatorId) -> bool {
        self.named.values().any(|named| *named == Some(id))
    }

    /// Whether a thread is in this call.
    fn is_in(&self, turn: &Turn) -> bool {
        let mut calls = self.inside.values();
        calls.any(|call| matches!(call, Call::Making { turn: its, .. } if its == turn))
    }
}

/// All communicators of all jobs.
#[derive(Debug, Default)]
pub struct Families {
    known: FxHashMap<CommunicatorId, Known>,
    ids: FxHashMap<Key, CommunicatorId>,
    given: u64,
    coming: FxHashMap<Turn, Coming>,
    processes: FxHashMap<Process, OneProcess>,
    /// Whether there were too many communicators or calls to keep them all.
    overflowed: bool,
}

impl Families {
    /// A process has become a rank.
    pub fn begin(&mut self, process: Process, rank: Rank) {
        self.forget(process);
        let world = self.id(Key::World(rank.job.clone()), rank.ranks);
        let alone = self.id(Key::Alone(process), Some(1));
        let mut named = FxHashMap::default();
        for (name, id) in [(rank.world, world), (rank.alone, alone)] {
            named.insert(name, Some(id));
            self.hold(id);
        }
        let one = OneProcess {
            rank,
            named,
            ..OneProcess::default()
        };
        self.processes.insert(process, one);
    }

    /// The rank that a process is; `None` if the process was not met.
    pub fn rank(&self, process: Process) -> Option<&Rank> {
        self.processes.get(&process).map(|one| &one.rank)
    }

    /// The communicator that has this name in a process, and how many ranks it has, if known.
    pub fn find(&mut self, process: Process, name: u64) -> Option<(CommunicatorId, Option<u32>)> {
        let id = (*self.processes.get(&process)?.named.get(&name)?)?;
        Some((id, self.size(id)))
    }

    /// A thread of a process enters a function that makes or ends a communicator or a group.
    pub fn enter(&mut self, process: Process, thread: u32, call: &MakerCall<'_>) {
        let Some(one) = self
            .processes
            .get(&process)
            .filter(|one| one.rank.is_complete)
        else {
            return;
        };
        let is_numbered = call.is_numbered;
        let call = match call.maker {
            Maker::Init => return,
            Maker::Free => {
                self.let_go(process, call.ended());
                return;
            }
            Maker::GroupFree => {
                if let Some(one) = self.processes.get_mut(&process) {
                    one.groups.remove(&call.ended());
                }
                return;
            }
            Maker::GroupOf
            | Maker::Incl
            | Maker::Excl
            | Maker::RangeIncl
            | Maker::RangeExcl
            | Maker::Union
            | Maker::Intersection
            | Maker::Difference => Some(Call::Grouping {
                group: self.group(one, call),
                is_numbered,
            }),
            _ => self.making(process, call),
        };
        if let (Some(call), Some(one)) = (call, self.processes.get_mut(&process)) {
            let before = one.inside.insert(thread, call);
            if let Some(Call::Making { turn, .. }) = before {
                self.left(&turn);
            }
        }
        self.limit(process);
    }

    /// A thread of a process leaves the function that the thread entered last. `value`: what the function
    /// has stored; `is_made`: whether the function has succeeded.
    pub fn leave(&mut self, process: Process, thread: u32, value: u64, is_made: bool) {
        let Some(one) = self.processes.get_mut(&process) else {
            return;
        };
        match one.inside.remove(&thread) {
            Some(Call::Grouping { group, is_numbered }) if is_made => {
                one.groups.insert(handle(value, is_numbered), group);
            }
            Some(Call::Making {
                turn,
                part,
                sides,
                reorders,
                is_numbered,
            }) => {
                let name = handle(value, is_numbered);
                let is_none = one.rank.none == name || part == Part::Colour(UNDEFINED);
                let id = if is_made && !is_none {
                    Some(self.made(process, &turn, part, (sides, reorders)))
                } else {
                    None
                };
                if let Some(id) = id {
                    self.let_go(process, name);
                    self.name(process, name, id);
                }
                self.left(&turn);
            }
            _ => {}
        }
        self.limit(process);
    }

    /// A process has ended, or executes another program.
    pub fn forget(&mut self, process: Process) {
        let Some(one) = self.processes.remove(&process) else {
            return;
        };
        for call in one.inside.into_values() {
            if let Call::Making { turn, .. } = call {
                self.left(&turn);
            }
        }
        for id in one.named.into_values().flatten() {
            self.release(id);
        }
        self.sweep();
    }

    /// Calls of a process are missing, so the numbers of later calls are unknown. Of the process only
    /// `MPI_COMM_WORLD` and `MPI_COMM_SELF` remain known.
    pub fn doubt(&mut self, process: Process) {
        let Some(one) = self
            .processes
            .get(&process)
            .filter(|one| one.rank.is_complete)
        else {
            return;
        };
        let rank = Rank {
            is_complete: false,
            is_readable: false,
            ..one.rank.clone()
        };
        self.begin(process, rank);
    }

    /// Whether there were too many communicators or calls to keep them all.
    pub const fn has_overflowed(&self) -> bool {
        self.overflowed
    }

    fn id(&mut self, key: Key, size: Option<u32>) -> CommunicatorId {
        if let Some(id) = self.ids.get(&key) {
            return *id;
        }
        let id = CommunicatorId(self.given);
        self.given += 1;
        self.ids.insert(key.clone(), id);
        let name = self.name_of(&key).map(String::into_boxed_str);
        let known = Known {
            name,
            key,
            size,
            holders: 0,
            sides: None,
        };
        self.known.insert(id, known);
        id
    }

    /// A process has one name more for a communicator.
    fn hold(&mut self, id: CommunicatorId) {
        if let Some(known) = self.known.get_mut(&id) {
            known.holders = known.holders.saturating_add(1);
        }
    }

    fn name(&mut self, process: Process, name: u64, id: Option<CommunicatorId>) {
        if let Some(id) = id {
            self.hold(id);
        }
        if let Some(one) = self.processes.get_mut(&process) {
            one.named.insert(name, id);
        }
    }

    /// A name no longer means a communicator in a process.
    fn let_go(&mut self, process: Process, name: u64) {
        let Some(one) = self.processes.get_mut(&process) else {
            return;
        };
        let Some(Some(id)) = one.named.remove(&name) else {
            return;
        };
        if !one.has(id) {
            one.calls.remove(&id);
            one.calls_by_group.retain(|(of, ..), _| *of != id);
            one.numbers.remove(&id);
        }
        self.release(id);
    }

    /// The number of ranks of a communicator, if it is known.
    fn size(&mut self, id: CommunicatorId) -> Option<u32> {
        let known = self.known.get(&id)?;
        if known.size.is_some() {
            return known.size;
        }
        let Key::Part(turn, part) = &known.key else {
            return None;
        };
        let size = self.size_of_part(turn, part);
        if let Some(known) = self.known.get_mut(&id) {
            known.size = size;
        }
        size
    }

    fn size_of_part(&self, turn: &Turn, part: &Part) -> Option<u32> {
        let of = |id| self.known.get(&id).and_then(|known: &Known| known.size);
        match part {
            Part::All => of(turn.of),
            Part::First(size) | Part::Row(_, size) => Some(*size),
            Part::Group(group) => group.size(of(group.of)),
            Part::Colour(_) | Part::Machine => {
                let coming = self.all_have_come(turn)?;
                let same = coming.comers.iter().filter(|comer| comer.part == *part);
                u32::try_from(same.count()).ok()
            }
            Part::Unknown => None,
        }
    }

    /// The ranks that have come to a call, if all ranks of the communicator have.
    fn all_have_come(&self, turn: &Turn) -> Option<&Coming> {
        let all = self.known.get(&turn.of)?.size?;
        let coming = self.coming.get(turn)?;
        (u32::try_from(coming.comers.len()) == Ok(all)).then_some(coming)
    }

    /// The number of a process among the ranks of a communicator.
    fn number(&self, process: Process, id: CommunicatorId) -> Option<u32> {
        let one = self.processes.get(&process)?;
        match self.known.get(&id)?.key {
            Key::World(_) => one.rank.rank,
            Key::Alone(_) => Some(0),
            Key::Part(..) => one.numbers.get(&id).copied(),
        }
    }

    /// The number that a process gets in the communicator that a call makes for its part.
    fn number_in_part(&self, process: Process, turn: &Turn, part: &Part) -> Option<u32> {
        match part {
            Part::All | Part::First(_) => self.number(process, turn.of),
            Part::Group(group) => group.place(self.number(process, group.of)?),
            Part::Colour(_) | Part::Machine => {
                let coming = self.all_have_come(turn)?;
                let mine = coming
                    .comers
                    .iter()
                    .find(|comer| comer.process == process)?;
                let same = coming.comers.iter().filter(|comer| comer.part == *part);
                let orders: Vec<_> = same.map(|comer| comer.order).collect();
                // Ranks with the same key are in the order of the old communicator.
                orders
                    .iter()
                    .all(|(_, rank)| rank.is_some())
                    .then_some(())?;
                let before = orders.iter().filter(|order| **order < mine.order);
                u32::try_from(before.count()).ok()
            }
            // Nothing needs the number of a process in a row of a grid yet.
            Part::Row(..) | Part::Unknown => None,
        }
    }

    fn group(&self, one: &OneProcess, call: &MakerCall<'_>) -> Option<Group> {
        let group = |number| one.groups.get(&call.handle(number))?.as_ref();
        if call.maker == Maker::GroupOf {
            let id = (*one.named.get(&call.handle(1))?)?;
            return Some(Group::all(id));
        }
        let first = group(1)?;
        let size = self.known.get(&first.of).and_then(|known| known.size);
        let places = || match call.maker {
            Maker::RangeIncl | Maker::RangeExcl => ranges(call.list?, MOST_RANKS),
            _ => call.list.map(<[u32]>::to_vec),
        };
        match call.maker {
            Maker::Incl | Maker::RangeIncl => first.at(&places()?),
            Maker::Excl | Maker::RangeExcl => first.without(&places()?, size),
            Maker::Union => first.and(group(2)?, size),
            Maker::Intersection => first.kept(group(2)?, true, size),
            Maker::Difference => first.kept(group(2)?, false, size),
            _ => None,
        }
    }

    /// A process comes to a call that makes a communicator.
    fn making(&mut self, process: Process, call: &MakerCall<'_>) -> Option<Call> {
        let one = self.processes.get_mut(&process)?;
        let unknown = Call::Making {
            turn: Turn {
                of: CommunicatorId(u64::MAX),
                number: 0,
                by: None,
            },
            part: Part::Unknown,
            sides: None,
            reorders: true,
            is_numbered: call.is_numbered,
        };
        let Some(of) = one.named.get(&call.handle(1)).copied().flatten() else {
            return Some(unknown);
        };
        let group = one.groups.get(&call.handle(2)).cloned().flatten();
        let (number, by) = if call.maker == Maker::CreateGroup {
            let Some(group) = group.clone() else {
                return Some(unknown);
            };
            let tag = call.int(3);
            let key = (of, group.clone(), tag);
            (
                one.calls_by_group.entry(key).or_default(),
                Some((group, tag)),
            )
        } else {
            (one.calls.entry(of).or_default(), None)
        };
        let turn = Turn {
            of,
            number: *number,
            by,
        };
        *number += 1;
        let rank = self.number(process, of);
        let sides = self.sides(of, call);
        let part = parts::of_caller(call, group, sides.as_deref(), rank);
        let key = match call.maker {
            Maker::Split | Maker::SplitType => call.int(3),
            _ => 0,
        };
        let coming = self.coming.entry(turn.clone()).or_default();
        if coming.comers.len() >= usize::from(Process::MAX) {
            // Each process comes once, unless it becomes a rank again and again.
            return Some(unknown);
        }
        coming.comers.push(Comer {
            process,
            part: part.clone(),
            order: (key, rank),
        });
        Some(Call::Making {
            turn,
            part,
            sides: sides.filter(|_| call.maker == Maker::Cart),
            reorders: match call.maker {
                Maker::Cart | Maker::Graph => call.int(5) != 0,
                Maker::DistGraph => true,
                _ => false,
            },
            is_numbered: call.is_numbered,
        })
    }

    /// The sides of the grid that a call makes or divides.
    fn sides(&self, of: CommunicatorId, call: &MakerCall<'_>) -> Option<Box<[u32]>> {
        match call.maker {
            Maker::Cart => call.list.map(Into::into),
            Maker::CartSub => self.known.get(&of)?.sides.clone(),
            _ => None,
        }
    }

    /// The communicator that a call has made for a process; `None` if the ranks of that communicator are
    /// unknown.
    fn made(
        &mut self,
        process: Process,
        turn: &Turn,
        part: Part,
        (sides, reorders): (Option<Box<[u32]>>, bool),
    ) -> Option<CommunicatorId> {
        if part == Part::Unknown || !self.known.contains_key(&turn.of) {
            return None;
        }
        let size = self.size_of_part(turn, &part);
        let number = self.number_in_part(process, turn, &part);
        let number = number.filter(|_| !reorders);
        let id = self.id(Key::Part(turn.clone(), part), size);
        if let Some(known) = self.known.get_mut(&id) {
            known.sides = known.sides.take().or(sides);
        }
        if let (Some(number), Some(one)) = (number, self.processes.get_mut(&process)) {
            one.numbers.insert(id, number);
        }
        let coming = self.coming.entry(turn.clone()).or_default();
        if !coming.made.contains(&id) {
            coming.made.push(id);
        }
        Some(id)
    }
}

#[cfg(test)]
#[path = "families_tests.rs"]
mod tests;
