//! Which communicators of the ranks of a program are the same one, by the calls that made them.
//!
//! A library names communicators by addresses or numbers of its own in each process. But all ranks of
//! a communicator make the same collective calls on it, in the same order (MPI 4.1, section 6.14). So a
//! communicator is known in all of them as: made by the n-th such call on that communicator, with this
//! colour or that group. The library lets no rank leave such a call before all have come, so when a
//! rank uses the new communicator, it is known of all ranks which part of the old one they are in.
//!
//! Whoever was not watched from `MPI_Init` on has made calls that nobody counted: of such a process
//! only the communicators are known that each process has from the start.

use rustc_hash::FxHashMap;

use super::{
    groups::{Group, MOST_RANKS},
    makers::{Maker, MakerCall, handle, ranges},
};

/// A communicator, in whatever process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommunicatorId(pub u64);

/// A process, by the number of its address space.
pub type Process = u16;

/// The name of an MPI job.
pub type Job = Option<Box<[u8]>>;

/// More communicators than this, or calls that make them, are not kept apart. No library has so many at
/// a time.
const MOST: usize = 1 << 16;

/// A process for which more communicators, groups and calls than this would have to be kept is not
/// followed any more.
const MOST_OF_ONE: usize = 1 << 13;

/// A colour of ranks that get no communicator: `MPI_UNDEFINED` of Open MPI, of MPICH and its kin, and of
/// the standard binary interface.
const UNDEFINED: i32 = -32766;

/// `MPI_COMM_TYPE_SHARED` in MPICH and its kin, whose communicators are numbers.
const SHARED_OF_NUMBERED: [i32; 1] = [1];

/// The same in Open MPI, where 1 means something else, and in the standard binary interface.
const SHARED: [i32; 2] = [0, 221];

/// What is known of a process that is a rank.
#[derive(Clone, Debug, Default)]
pub struct Rank {
    /// Its job; several may run at a time.
    pub job: Job,
    /// Its number in the world.
    pub rank: Option<u32>,
    /// How many ranks the world has.
    pub ranks: Option<u32>,
    /// What the library may call the world in this process.
    pub world: Vec<u64>,
    /// What it may call the communicator of this process alone.
    pub alone: Vec<u64>,
    /// What it may call no communicator at all.
    pub none: Vec<u64>,
    /// Whether the library is Open MPI 4, whose communicators can be read in memory.
    pub is_readable: bool,
    /// Whether all calls of the process will be told.
    pub is_complete: bool,
}

impl Rank {
    /// Whether its communicators are known by its calls.
    const fn is_followed(&self) -> bool {
        self.is_complete && !self.is_readable
    }
}

/// What makes a communicator another than others.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    World(Job),
    Alone(Process),
    Part(Turn, Part),
}

/// A collective call on a communicator.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Turn {
    of: CommunicatorId,
    /// How many such calls were before it; for a call by a group alone, by that group with that tag.
    number: u32,
    /// The group and the tag.
    by: Option<(Group, i32)>,
}

/// A part of the ranks of a communicator.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Part {
    All,
    Colour(i32),
    Machine,
    Group(Group),
    /// So many from the first on.
    First(u32),
    /// Those with the same coordinates in the other dimensions; and how many they are.
    Row(Vec<u32>, u32),
    /// Which ranks, is not known.
    Unknown,
}

#[derive(Debug)]
struct Known {
    key: Key,
    size: Option<u32>,
    /// How many processes have a name for it.
    holders: u32,
    /// The sides of the grid that its ranks form.
    sides: Option<Box<[u32]>>,
}

/// A rank that has come to a call.
#[derive(Debug)]
struct Comer {
    process: Process,
    part: Part,
    /// By what the new communicator orders its ranks.
    order: (i32, Option<u32>),
}

/// A collective call, as far as ranks have come to it.
#[derive(Debug, Default)]
struct Coming {
    comers: Vec<Comer>,
    /// How many have left it.
    left: usize,
    /// The communicators that it has made.
    made: Vec<CommunicatorId>,
}

impl Coming {
    /// Whether all that have come have left.
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
        /// Whether ranks may have other numbers than before.
        reorders: bool,
        is_numbered: bool,
    },
    Grouping {
        group: Option<Group>,
        is_numbered: bool,
    },
}

#[derive(Debug, Default)]
struct OneProcess {
    rank: Rank,
    /// Communicators by their names in this process; `None` for those of which nothing is known.
    named: FxHashMap<u64, Option<CommunicatorId>>,
    groups: FxHashMap<u64, Option<Group>>,
    /// How many collective calls it has made, on each communicator.
    calls: FxHashMap<CommunicatorId, u32>,
    calls_by_group: FxHashMap<(CommunicatorId, Group, i32), u32>,
    /// Its number in communicators that the program has made.
    numbers: FxHashMap<CommunicatorId, u32>,
    /// By thread.
    inside: FxHashMap<u32, Call>,
}

impl OneProcess {
    /// Whether it has a name for a communicator.
    fn has(&self, id: CommunicatorId) -> bool {
        self.named.values().any(|named| *named == Some(id))
    }

    /// Whether a thread is in this call.
    fn is_in(&self, turn: &Turn) -> bool {
        let mut calls = self.inside.values();
        calls.any(|call| matches!(call, Call::Making { turn: its, .. } if its == turn))
    }

    /// Whether there is more of it than is kept.
    fn has_too_much(&self) -> bool {
        let kept = [
            self.named.len(),
            self.groups.len(),
            self.calls_by_group.len(),
            self.inside.len(),
        ];
        kept.iter().sum::<usize>() > MOST_OF_ONE
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
    /// Whether there were too many to know all.
    overflowed: bool,
}

impl Families {
    /// A process has become a rank.
    pub fn begin(&mut self, process: Process, rank: Rank) {
        self.forget(process);
        let world = self.id(Key::World(rank.job.clone()), rank.ranks);
        let alone = self.id(Key::Alone(process), Some(1));
        let mut named = FxHashMap::default();
        for (names, id) in [(&rank.world, world), (&rank.alone, alone)] {
            named.extend(names.iter().map(|name| (*name, Some(id))));
            self.hold(id, names.len());
        }
        let one = OneProcess {
            rank,
            named,
            ..OneProcess::default()
        };
        self.processes.insert(process, one);
    }

    /// What is known of a process.
    pub fn rank(&self, process: Process) -> Option<&Rank> {
        self.processes.get(&process).map(|one| &one.rank)
    }

    /// The communicator that has this name in a process, and how many ranks it has, if known.
    pub fn find(&mut self, process: Process, name: u64) -> Option<(CommunicatorId, Option<u32>)> {
        let id = (*self.processes.get(&process)?.named.get(&name)?)?;
        Some((id, self.size(id)))
    }

    /// A thread of a process enters a function.
    pub fn enter(&mut self, process: Process, thread: u32, call: &MakerCall<'_>) {
        let Some(one) = self
            .processes
            .get(&process)
            .filter(|one| one.rank.is_followed())
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

    /// A thread of a process leaves the function that it has entered. `value`: what the function has
    /// stored; `is_made`: whether the function has not failed.
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
                let is_none = one.rank.none.contains(&name) || part == Part::Colour(UNDEFINED);
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

    /// Calls of a process are missing: of those that follow it is not known any more which they are.
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
            ..one.rank.clone()
        };
        self.begin(process, rank);
    }

    /// Whether there were too many communicators to know all.
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
        let known = Known {
            key,
            size,
            holders: 0,
            sides: None,
        };
        self.known.insert(id, known);
        id
    }

    fn hold(&mut self, id: CommunicatorId, times: usize) {
        if let Some(known) = self.known.get_mut(&id) {
            known.holders = known
                .holders
                .saturating_add(u32::try_from(times).unwrap_or(u32::MAX));
        }
    }

    fn name(&mut self, process: Process, name: u64, id: Option<CommunicatorId>) {
        if let Some(id) = id {
            self.hold(id, 1);
        }
        if let Some(one) = self.processes.get_mut(&process) {
            one.named.insert(name, id);
        }
    }

    /// Keeps what is known within its limits. `process`: the one of which more is known now.
    fn limit(&mut self, process: Process) {
        let one = self.processes.get(&process);
        if one.is_some_and(OneProcess::has_too_much) {
            self.doubt(process);
        }
        let kept = |all: &Self| all.known.len().max(all.coming.len());
        if kept(self) <= MOST {
            return;
        }
        self.sweep();
        // Unless half is free again, this would soon be to do again.
        if kept(self) > MOST / 2 {
            // Nothing is known any more of any process, which is true, if not much.
            self.overflowed = true;
            self.processes.clear();
            self.known.clear();
            self.ids.clear();
            self.coming.clear();
        }
    }

    /// Forgets calls, and communicators that no process has, for which nobody can come any more.
    fn sweep(&mut self) {
        let is_unheld = |id| {
            self.known
                .get(id)
                .is_some_and(|known: &Known| known.holders == 0)
        };
        let calls = self.coming.iter().filter(|(_, coming)| {
            coming.is_left() && (coming.made.is_empty() || coming.made.iter().any(is_unheld))
        });
        let turns: Vec<Turn> = calls.map(|(turn, _)| turn.clone()).collect();
        for turn in turns {
            self.drop_over(&turn);
        }
    }

    /// A name means nothing any more in a process.
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

    /// A process has one name less for a communicator.
    fn release(&mut self, id: CommunicatorId) {
        if let Some(known) = self.known.get_mut(&id) {
            known.holders = known.holders.saturating_sub(1);
        }
        self.drop_unheld(id);
    }

    /// Forgets a communicator that no process has any more, if none will get it.
    fn drop_unheld(&mut self, id: CommunicatorId) {
        let Some(known) = self.known.get(&id).filter(|known| known.holders == 0) else {
            return;
        };
        if let Key::Part(turn, _) = &known.key {
            if !self.is_over(turn) {
                return;
            }
            let turn = turn.clone();
            if let Some(coming) = self.coming.get_mut(&turn) {
                coming.made.retain(|made| *made != id);
                if coming.made.is_empty() {
                    self.coming.remove(&turn);
                }
            }
        }
        if let Some(known) = self.known.remove(&id) {
            self.ids.remove(&known.key);
        }
    }

    /// Whether all ranks have left a call that have come to it or will come.
    fn is_over(&self, turn: &Turn) -> bool {
        let Some(coming) = self.coming.get(turn) else {
            return true;
        };
        if !coming.is_left() {
            return false;
        }
        let size = self.known.get(&turn.of).and_then(|of| of.size);
        let all = match &turn.by {
            Some((group, _)) => group.size(size),
            None => size,
        };
        all.is_some_and(|all| coming.left >= all as usize) || !self.is_awaited(turn)
    }

    /// Whether a process may still come to a call. Those that are not watched, or not from the start on,
    /// do not come.
    fn is_awaited(&self, turn: &Turn) -> bool {
        // Who is about to get the communicator of the call may come, too.
        let maker = match self.known.get(&turn.of).map(|known| &known.key) {
            Some(Key::Part(maker, _)) => Some(maker),
            _ => None,
        };
        let is_member = |process: Process| {
            let Some((group, _)) = &turn.by else {
                return true;
            };
            let number = self.number(process, group.of);
            number.is_none_or(|number| group.place(number).is_some())
        };
        let key = turn.by.clone();
        let key = key.map(|(group, tag)| (turn.of, group, tag));
        self.processes.iter().any(|(process, one)| {
            let calls = match &key {
                Some(key) => one.calls_by_group.get(key),
                None => one.calls.get(&turn.of),
            };
            one.rank.is_followed()
                && calls.is_none_or(|calls| *calls <= turn.number)
                && (one.has(turn.of) || maker.is_some_and(|maker| one.is_in(maker)))
                && is_member(*process)
        })
    }

    /// How many ranks a communicator has, if known.
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

    /// A call to which all ranks of its communicator have come.
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

    /// The number that a process gets in what a call makes for its part.
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
            // Its place in the row: not needed for anything yet.
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
        let part = part(call, group, sides.as_deref(), rank);
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

    /// The sides of a grid that is made, or divided.
    fn sides(&self, of: CommunicatorId, call: &MakerCall<'_>) -> Option<Box<[u32]>> {
        match call.maker {
            Maker::Cart => call.list.map(Into::into),
            Maker::CartSub => self.known.get(&of)?.sides.clone(),
            _ => None,
        }
    }

    /// A call has made a communicator for a process; `None` if it is not known for which ranks.
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

    /// A process has left a call.
    fn left(&mut self, turn: &Turn) {
        let Some(coming) = self.coming.get_mut(turn) else {
            return;
        };
        coming.left += 1;
        // Those that were freed before the last process left could not be forgotten then.
        self.drop_over(turn);
    }

    /// Forgets a call that is over, and what it has made that no process has.
    fn drop_over(&mut self, turn: &Turn) {
        let Some(coming) = self.coming.get(turn) else {
            return;
        };
        let made = coming.made.clone();
        if made.is_empty() && self.is_over(turn) {
            self.coming.remove(turn);
        }
        for id in made {
            self.drop_unheld(id);
        }
    }
}

/// The part of a communicator's ranks in which the caller is. `rank`: its own.
fn part(
    call: &MakerCall<'_>,
    group: Option<Group>,
    sides: Option<&[u32]>,
    rank: Option<u32>,
) -> Part {
    let known = match call.maker {
        Maker::Dup | Maker::DistGraph => Some(Part::All),
        Maker::Split => Some(Part::Colour(call.int(2))),
        Maker::SplitType if call.int(2) == UNDEFINED => Some(Part::Colour(UNDEFINED)),
        Maker::SplitType if is_shared(call) => Some(Part::Machine),
        Maker::Create | Maker::CreateGroup => group.map(Part::Group),
        Maker::Graph => u32::try_from(call.int(2)).ok().map(Part::First),
        Maker::Cart => sides.and_then(product).map(Part::First),
        Maker::CartSub => row(sides, call.list, rank).map(|(others, size)| Part::Row(others, size)),
        _ => None,
    };
    known.unwrap_or(Part::Unknown)
}

/// Whether a communicator is divided by what ranks share memory.
fn is_shared(call: &MakerCall<'_>) -> bool {
    let shared: &[i32] = if call.is_numbered {
        &SHARED_OF_NUMBERED
    } else {
        &SHARED
    };
    shared.contains(&call.int(2))
}

/// The product of some numbers.
fn product(numbers: &[u32]) -> Option<u32> {
    numbers
        .iter()
        .try_fold(1_u32, |all, number| all.checked_mul(*number))
}

/// The coordinates of a rank of a grid in the dimensions that are dropped (`keeps` is 0), and how many
/// ranks have the same ones. Ranks are in row-major order (MPI 4.1, section 8.5).
fn row(sides: Option<&[u32]>, keeps: Option<&[u32]>, rank: Option<u32>) -> Option<(Vec<u32>, u32)> {
    let (sides, rank) = (sides?, rank?);
    let keeps = keeps?.get(..sides.len())?;
    let (mut rest, mut others, mut size) = (rank, Vec::new(), 1_u32);
    for (side, keep) in sides.iter().zip(keeps).rev() {
        let coordinate = rest.checked_rem(*side)?;
        rest /= side;
        if *keep == 0 {
            others.push(coordinate);
        } else {
            size = size.checked_mul(*side)?;
        }
    }
    (rest == 0).then_some((others, size))
}

#[cfg(test)]
#[path = "families_tests.rs"]
mod tests;
