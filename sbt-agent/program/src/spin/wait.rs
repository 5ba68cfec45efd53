//! Loops that only wait for memory to change, told by their instructions.
//!
//! Such a loop reads memory that others may write, always at the same address,
//! and goes on by what it has read. It writes nothing that others could see, and
//! what it computes in one turn is not used in the next: that tells it from a search
//! and from every computation. It may count its turns, if it gives up or gives way
//! by that count, and it may give way to other threads.

use std::collections::{BTreeMap, BTreeSet};

use iced_x86::{Decoder, DecoderOptions, Instruction, OpKind};

use super::{
    effect::{self, CALLER_SAVED, Effect, FLAGS, Operand, Places},
    graph::{Graph, Loop, Node},
};

/// Instructions of a loop that only waits, at most: giving way, counting turns and
/// unoptimised code included.
const MAX_LOOP: usize = 64;

/// Of a function that is called in such a loop, which does no more than read.
const MAX_CALLED: usize = 48;

/// How deep such calls may be.
const MAX_DEPTH: usize = 3;

/// From the end of the waiting to the attempt to have the lock, in instructions.
const NEAR: usize = 12;

/// Functions that give way to other threads.
const GIVE_WAY: [&str; 8] = [
    "sched_yield",
    "__sched_yield",
    "pthread_yield",
    "thrd_yield",
    "nanosleep",
    "__nanosleep",
    "clock_nanosleep",
    "usleep",
];

/// Whether a function gives way to other threads.
pub fn gives_way(name: &str) -> bool {
    GIVE_WAY.contains(&name)
}

/// What a call calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// What lies at an address.
    At(u64),
    /// What the word at an address points to.
    Through(u64),
    /// What only the call knows.
    Unknown,
}

impl Target {
    pub(super) fn of(instruction: &Instruction) -> Self {
        if instruction.op0_kind() == OpKind::NearBranch64 {
            Self::At(instruction.near_branch64())
        } else if instruction.is_ip_rel_memory_operand() {
            Self::Through(instruction.ip_rel_memory_address())
        } else {
            Self::Unknown
        }
    }
}

/// What is known of a function that is called.
#[derive(Clone, Debug)]
pub enum Callee {
    /// It gives way to other threads.
    GivesWay,
    /// Its code, and where that lies.
    Code(u64, Vec<u8>),
    /// Nothing.
    Unknown,
}

/// What a loop seems to be there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// One way through the function writes what the others wait for.
    Barrier,
    /// The code does not tell: a barrier, a lock, a flag.
    Unclear,
    /// Whoever sees the memory change tries to have it.
    Lock,
}

/// A loop that only waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each says something else of a loop"
)]
pub struct Waiting {
    /// The address of its first instruction.
    pub start: u64,
    /// What it seems to be there for.
    pub purpose: Purpose,
    /// Whether it lies in a loop of the same function that does more than wait.
    pub is_nested: bool,
    /// Whether that loop also calls functions which do more than wait.
    pub works_between: bool,
    /// Whether the function seems to get a pointer as its first argument.
    pub has_pointer: bool,
    /// Whether it waits for a variable of the program, which it was not given.
    pub is_fixed: bool,
}

/// The loop that only waits, and that the instruction at `address` belongs to; in
/// the function whose `code` lies at `start`. `callee` tells what is called.
pub fn recognise(
    code: &[u8],
    start: u64,
    address: u64,
    callee: &dyn Fn(Target) -> Callee,
) -> Option<Waiting> {
    let mut graph = Graph::new(code, start, address);
    let inside = graph.find(address)?;
    let loops = graph.loops_of(inside);
    // And of those that share instructions with them.
    for index in graph.near(&graph.near(&BTreeSet::from([inside]))) {
        if let Some(target) = graph.nodes[index].calls {
            graph.nodes[index].effect = called(target, callee, MAX_DEPTH);
        }
    }
    let found = loops.into_iter().rfind(|it| graph.only_waits(it))?;
    let found = graph.with_others(found);
    let later = graph.after(&found.nodes);
    let first = found.nodes.iter().next()?;
    let instructions = Decoder::with_ip(64, code, start, DecoderOptions::NONE).into_iter();
    Some(Waiting {
        start: graph.nodes[*first].at,
        purpose: graph.purpose(&found, &later),
        is_nested: !later.is_disjoint(&found.nodes),
        works_between: graph.works_between(&found, &later, callee),
        has_pointer: effect::first_is_pointer(instructions),
        is_fixed: graph.awaited(&found).any(Operand::is_fixed),
    })
}

/// Whether the loop that a jump right before `end` closes by going back to `head` stores
/// something or computes what its next turn uses, whatever what it calls may do. `code`: of the
/// function, which lies at `start`, up to `end`; it may be anything.
pub fn works(code: &[u8], start: u64, (head, end): (u64, u64)) -> bool {
    let mut graph = Graph::new(code, start, end.saturating_sub(1));
    for node in graph.nodes.iter_mut().filter(|node| node.calls.is_some()) {
        node.effect = Effect {
            writes: CALLER_SAVED,
            ..Effect::default()
        };
    }
    let Some(head) = graph.find(head) else {
        return false;
    };
    graph.loop_from(head).is_some_and(|it| {
        let does = |index: &usize| {
            let effect = &graph.nodes[*index].effect;
            effect.is_work || effect.store.is_some()
        };
        it.nodes.iter().any(does) || graph.carried(&it) & !FLAGS != 0
    })
}

/// What a call does, if it does no more than read or give way.
fn called(target: Target, callee: &dyn Fn(Target) -> Callee, depth: usize) -> Effect {
    let work = Effect {
        is_work: true,
        ..Effect::default()
    };
    let Some(depth) = depth.checked_sub(1) else {
        return work;
    };
    let (start, code) = match callee(target) {
        Callee::Unknown => return work,
        Callee::GivesWay => {
            return Effect {
                writes: CALLER_SAVED,
                ..Effect::default()
            };
        }
        Callee::Code(start, code) => (start, code),
    };
    let graph = Graph::new(&code, start, start);
    if graph.nodes.len() > MAX_CALLED {
        return work;
    }
    let mut sum = Effect {
        writes: CALLER_SAVED,
        ..Effect::default()
    };
    let mut written: Places = 0;
    for (index, node) in graph.nodes.iter().enumerate() {
        let effect = node
            .calls
            .map_or(node.effect, |target| called(target, callee, depth));
        let goes_back = node.after.iter().any(|after| *after <= index);
        let jumps_away = node.leaves && node.is_branch;
        if effect.is_work || effect.store.is_some() || effect.is_clock || goes_back || jumps_away {
            return work;
        }
        // Only what it is given: its own words begin with nothing.
        sum.reads |= effect.reads & !written & CALLER_SAVED & !FLAGS;
        written |= effect.writes;
        sum.loads |= effect.loads;
    }
    if sum.loads {
        sum.address = sum.reads;
    }
    sum
}

/// What is known of the values before an instruction.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Values {
    /// Those that come from memory that others may write.
    read: Places,
    /// Those that come from an earlier turn, or from a clock.
    progress: Places,
}

impl Values {
    fn after(self, effect: &Effect) -> Self {
        let inputs = effect.reads;
        let put = |set: Places, is_in: bool| {
            if is_in {
                set | effect.writes | effect.may_write
            } else {
                set & !effect.writes
            }
        };
        Self {
            read: put(self.read, effect.loads || self.read & inputs != 0),
            progress: put(
                self.progress,
                effect.is_clock || self.progress & inputs != 0,
            ),
        }
    }

    const fn join(self, other: Self) -> Self {
        Self {
            read: self.read | other.read,
            progress: self.progress | other.progress,
        }
    }
}

impl Graph {
    /// Whether on a way from a loop back to it anything is called that does more than
    /// wait. `later`: what comes after the loop.
    fn works_between(
        &self,
        it: &Loop,
        later: &BTreeSet<usize>,
        callee: &dyn Fn(Target) -> Callee,
    ) -> bool {
        let before = self.before(it.head);
        let mut between = later
            .iter()
            .filter(|index| !it.nodes.contains(index) && before[**index]);
        between.any(|index| {
            let target = self.nodes[*index].calls;
            target.is_some_and(|target| called(target, callee, MAX_DEPTH).is_work)
        })
    }

    /// The instructions of all small loops that some are in.
    fn near(&self, nodes: &BTreeSet<usize>) -> BTreeSet<usize> {
        let loops = nodes.iter().flat_map(|index| self.loops_of(*index));
        let small = loops.filter(|it| it.nodes.len() <= MAX_LOOP);
        small.flat_map(|it| it.nodes).collect()
    }

    /// A loop with those of its neighbours with which it shares a way round, if all
    /// of it only waits: a compiler may make several of one.
    fn with_others(&self, it: Loop) -> Loop {
        let loops = it.nodes.iter().flat_map(|index| self.loops_of(*index));
        let nodes: BTreeSet<usize> = loops
            .filter(|other| self.only_waits(other))
            .flat_map(|other| other.nodes)
            .collect();
        let all = Loop {
            head: it.head,
            nodes,
        };
        if self.only_waits(&all) { all } else { it }
    }

    fn only_waits(&self, it: &Loop) -> bool {
        if it.nodes.len() > MAX_LOOP {
            return false;
        }
        let nodes = || it.nodes.iter().map(|index| &self.nodes[*index]);
        let is_harmless =
            |effect: &Effect| !effect.is_work && !effect.moves_stack && effect.store.is_none();
        if !nodes().all(|node| is_harmless(&node.effect)) || !nodes().any(|it| it.effect.loads) {
            return false;
        }
        let within = self.loops_within(&it.nodes);
        let carried: Vec<(usize, Places)> = std::iter::once(it)
            .chain(&within)
            .map(|it| (it.head, self.carried(it)))
            .collect();
        let values = self.values(it, &carried);
        let of = |index: usize| (&self.nodes[index], values[&index]);
        let all = || it.nodes.iter().map(|index| of(*index));
        let follows = |(node, values): (&Node, Values)| {
            node.effect.loads && node.effect.address & values.progress != 0
        };
        if all().any(follows) {
            return false;
        }
        let flags = |is_read: bool, is_progress: bool| {
            move |values: Values| {
                (values.read & FLAGS != 0) == is_read
                    && (values.progress & FLAGS != 0) == is_progress
            }
        };
        let leaves =
            |node: &Node| node.leaves || node.after.iter().any(|after| !it.nodes.contains(after));
        // The way out is taken by what was read, and by nothing that goes on from turn
        // to turn.
        let waits = all()
            .any(|(node, values)| node.is_branch && leaves(node) && flags(true, false)(values));
        // What is counted and never asked for is the program's work: each by itself,
        // since a search may count its turns too.
        let counted = carried.iter().fold(0, |all, (_, places)| all | places) & !FLAGS;
        let mut counted = (0..Places::BITS).map(|bit| counted & (1 << bit));
        let is_asked = |place: Places| {
            let one: Vec<_> = carried
                .iter()
                .map(|(head, all)| (*head, all & place))
                .collect();
            let values = self.values(it, &one);
            let mut branches = it
                .nodes
                .iter()
                .filter(|index| self.nodes[**index].is_branch);
            branches.any(|index| values[index].progress & FLAGS != 0)
        };
        waits && counted.all(|place| place == 0 || is_asked(place))
    }

    /// What is written in a loop and used in its next turn.
    fn carried(&self, it: &Loop) -> Places {
        let mut live: BTreeMap<usize, Places> = it.nodes.iter().map(|index| (*index, 0)).collect();
        loop {
            let mut changed = false;
            for &index in it.nodes.iter().rev() {
                let node = &self.nodes[index];
                let after = node.after.iter().filter_map(|after| live.get(after));
                let after = after.fold(0, |all, one| all | one);
                let before = node.effect.reads | after & !node.effect.writes;
                changed |= live.insert(index, before) != Some(before);
            }
            if !changed {
                break;
            }
        }
        let written = it.nodes.iter().fold(0, |all, index| {
            let effect = &self.nodes[*index].effect;
            all | effect.writes | effect.may_write
        });
        live.get(&it.head).copied().unwrap_or(0) & written
    }

    /// What is known of the values before each instruction of a loop.
    /// `carried`: what goes on from turn to turn, at the heads of the loops in it.
    fn values(&self, it: &Loop, carried: &[(usize, Places)]) -> BTreeMap<usize, Values> {
        let mut values: BTreeMap<usize, Values> = it
            .nodes
            .iter()
            .map(|index| (*index, Values::default()))
            .collect();
        for (head, places) in carried {
            values.entry(*head).or_default().progress |= places;
        }
        loop {
            let mut changed = false;
            for &index in &it.nodes {
                let node = &self.nodes[index];
                let out = values[&index].after(&node.effect);
                for after in node.after.iter().filter(|after| it.nodes.contains(after)) {
                    let old = values[after];
                    let new = old.join(out);
                    if new != old {
                        values.insert(*after, new);
                        changed = true;
                    }
                }
            }
            if !changed {
                return values;
            }
        }
    }

    /// What is read in a loop of the memory of all.
    fn awaited(&self, it: &Loop) -> impl Iterator<Item = Operand> {
        let nodes = it.nodes.iter();
        nodes.filter_map(|index| self.nodes[*index].effect.load)
    }

    fn purpose(&self, it: &Loop, later: &BTreeSet<usize>) -> Purpose {
        let awaited: Vec<Operand> = self.awaited(it).collect();
        let writes_it = |index: usize| {
            let store = self.nodes[index].effect.store;
            store.is_some_and(|store| awaited.contains(&store))
        };
        if self.tries_next(it, &writes_it) {
            return Purpose::Lock;
        }
        let mut elsewhere = (0..self.nodes.len())
            .filter(|index| !it.nodes.contains(index) && !later.contains(index));
        if elsewhere.any(writes_it) {
            Purpose::Barrier
        } else {
            Purpose::Unclear
        }
    }

    /// Whether what comes right after the waiting is an atomic write to what was
    /// waited for.
    fn tries_next(&self, it: &Loop, writes_it: &dyn Fn(usize) -> bool) -> bool {
        let exits = it.nodes.iter().flat_map(|index| &self.nodes[*index].after);
        let mut exits = exits.filter(|index| !it.nodes.contains(index)).copied();
        exits.any(|exit| {
            let mut at = exit;
            for _ in 0..NEAR {
                let node = &self.nodes[at];
                if node.effect.is_atomic && writes_it(at) {
                    return true;
                }
                let (Some(&next), None, None) = (node.after.first(), node.calls, node.effect.store)
                else {
                    return false;
                };
                if node.is_branch {
                    return false;
                }
                at = next;
            }
            false
        })
    }
}
