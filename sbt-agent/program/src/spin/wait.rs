//! Loops that only wait for memory to change, recognised by their instructions.
//!
//! Such a loop reads memory that others may write, always at the same address, and goes on
//! depending on the value. It writes nothing that others could see, and the values that it computes
//! in one turn are not used in the next: this tells it from a search and from every computation. It
//! may count its turns, if it gives up or gives way by that count, and it may give way to other
//! threads.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    graph::{Graph, Loop, Node},
    meeting::Meeting,
};
use crate::arch::{
    self,
    effect::{self, CALLER_SAVED, Effect, FLAGS, Operand, Places},
};

pub use crate::arch::Callee as Target;

/// The most instructions of a loop that only waits: giving way, counting turns and unoptimised code
/// included.
pub(super) const MAX_LOOP: usize = 64;

/// The most instructions of a function that is called in such a loop and does no more than read.
const MAX_CALLED: usize = 48;

/// How deep such calls may be nested.
const MAX_DEPTH: usize = 3;

/// The longest function that does nothing that takes time besides waiting, bytes.
const MAX_PLAIN: usize = 2048;

/// The most instructions from the end of the waiting to the attempt to take the lock.
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

/// Functions that end the program.
const NEVER_BACK: [&str; 5] = [
    "__stack_chk_fail",
    "__stack_chk_fail_local",
    "abort",
    "__assert_fail",
    "_ZSt9terminatev",
];

/// Whether a function ends the program.
pub fn is_never_back(name: &str) -> bool {
    NEVER_BACK.contains(&name)
}

/// Whether a function gives way to other threads.
pub fn gives_way(name: &str) -> bool {
    GIVE_WAY.contains(&name)
}

/// What is known of a called function.
#[derive(Clone, Debug)]
pub enum Callee {
    /// The function gives way to other threads, or never returns.
    GivesWay,
    /// The address and the code of the function.
    Code(u64, Vec<u8>),
    /// Nothing is known.
    Unknown,
}

/// The apparent purpose of a waiting loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A barrier: one path through the function writes the memory that the others wait for.
    Barrier,
    /// The code does not tell: a barrier, a lock, a flag.
    Unclear,
    /// A lock: a thread that sees the memory change tries to take the lock, or later gives it back.
    Lock,
}

/// A loop that only waits.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each says something else of a loop"
)]
pub struct Waiting {
    /// The address of the loop's first instruction.
    pub start: u64,
    /// The addresses of the instructions in the loop that read shared memory or leave the loop.
    pub reads: Vec<u64>,
    /// The apparent purpose of the loop.
    pub purpose: Purpose,
    /// Whether the function does nothing that takes time besides waiting.
    pub is_plain: bool,
    /// Whether the loop lies in a loop of the same function that does more than wait.
    pub is_nested: bool,
    /// Whether that outer loop also calls functions that do more than wait.
    pub works_between: bool,
    /// Whether the function seems to get a pointer as its first argument.
    pub has_pointer: bool,
    /// Whether the loop waits for a variable at a fixed address, which the function was not given.
    pub is_fixed: bool,
    /// The barrier of which the loop is a part, wherever that is in the function.
    pub meeting: Option<Meeting>,
}

/// The loop that only waits and contains the instruction at `address`, in the function whose `code`
/// lies at `start`. `callee` tells which function is called.
pub fn recognise(
    code: &[u8],
    start: u64,
    address: u64,
    callee: &dyn Fn(Target) -> Callee,
) -> Option<Waiting> {
    let mut graph = Graph::new(code, start, address);
    let inside = graph.find(address)?;
    // Called functions were not looked into yet: any may wait.
    let may_wait = |index: usize| {
        let node = &graph.nodes[index];
        node.calls.is_some() || is_harmless(&node.effect)
    };
    if !graph.comes_back(inside, may_wait) {
        return None;
    }
    let loops = graph.loops_of(inside);
    // Looks into the calls of these loops, and of loops that share instructions with them.
    for index in graph.near(&graph.near(&BTreeSet::from([inside]))) {
        if let Some(target) = graph.nodes[index].calls {
            graph.nodes[index].effect = called(target, callee, MAX_DEPTH);
        }
    }
    let found = loops
        .into_iter()
        .rfind(|candidate| graph.only_waits(candidate))?;
    let found = graph.with_others(found);
    let later = graph.after(&found.nodes);
    let first = found.nodes.iter().next()?;
    let instructions = arch::decode(code, start);
    let awaited: Vec<Operand> = graph.awaited(&found).collect();
    let purpose = graph.purpose(&found, &later);
    let meeting = (purpose != Purpose::Lock)
        .then(|| graph.meeting(&found, &awaited, (code, start)))
        .flatten();
    Some(Waiting {
        start: graph.nodes[*first].at,
        reads: graph.reads(&found),
        purpose: if meeting.is_some() {
            Purpose::Barrier
        } else {
            purpose
        },
        is_plain: code.len() <= MAX_PLAIN && graph.is_plain(&found, callee),
        is_nested: !later.is_disjoint(&found.nodes),
        works_between: graph.works_between(&found, &later, callee),
        has_pointer: effect::first_is_pointer(instructions),
        is_fixed: awaited.into_iter().any(Operand::is_fixed),
        meeting,
    })
}

/// Whether a loop that only waits may have an instruction of this effect.
fn is_harmless(effect: &Effect) -> bool {
    !effect.is_work && !effect.moves_stack && effect.store.is_none()
}

/// Whether a loop stores something or computes values that its next turn uses, whatever the called
/// functions do. A jump right before `end` closes the loop by going back to `head`. `code`: the
/// function's code, which lies at `start`, up to `end`; it may be anything.
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
    graph.loop_from(head).is_some_and(|found| {
        let does = |index: &usize| {
            let effect = &graph.nodes[*index].effect;
            effect.is_work || effect.store.is_some()
        };
        found.nodes.iter().any(does) || graph.carried(&found) & !FLAGS != 0
    })
}

/// The effect of a call, if the called function does no more than read or give way.
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
        // Only the values that the function is given count, because its own words hold nothing at
        // first.
        sum.reads |= effect.reads & !written & CALLER_SAVED & !FLAGS;
        written |= effect.writes;
        sum.loads |= effect.loads;
    }
    if sum.loads {
        sum.address = sum.reads;
    }
    sum
}

/// Whether a called function takes next to no time: no loops, and no calls that take time.
fn is_light(target: Target, callee: &dyn Fn(Target) -> Callee, depth: usize) -> bool {
    let Some(depth) = depth.checked_sub(1) else {
        return false;
    };
    let (start, code) = match callee(target) {
        Callee::Unknown => return false,
        Callee::GivesWay => return true,
        Callee::Code(start, code) => (start, code),
    };
    let graph = Graph::new(&code, start, start);
    graph.nodes.len() <= MAX_CALLED
        && graph.nodes.iter().enumerate().all(|(index, node)| {
            let goes_back = node.after.iter().any(|after| *after <= index);
            let is_known = node.calls.map_or(!node.effect.is_work, |target| {
                is_light(target, callee, depth)
            });
            is_known && !goes_back && !(node.leaves && node.is_branch)
        })
}

/// What is known of the values before an instruction.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Values {
    /// The values that come from memory that others may write.
    read: Places,
    /// The values that come from an earlier turn, or from a clock.
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
    /// Whether, on a path from a loop back to it, a function is called that does more than wait.
    /// `later`: the instructions after the loop.
    fn works_between(
        &self,
        this_loop: &Loop,
        later: &BTreeSet<usize>,
        callee: &dyn Fn(Target) -> Callee,
    ) -> bool {
        let before = self.before(this_loop.head);
        let mut between = later
            .iter()
            .filter(|index| !this_loop.nodes.contains(index) && before[**index]);
        between.any(|index| {
            let target = self.nodes[*index].calls;
            target.is_some_and(|target| called(target, callee, MAX_DEPTH).is_work)
        })
    }

    /// The instructions of all small loops that contain any of `nodes`.
    fn near(&self, nodes: &BTreeSet<usize>) -> BTreeSet<usize> {
        let loops = nodes.iter().flat_map(|index| self.loops_of(*index));
        let small = loops.filter(|other| other.nodes.len() <= MAX_LOOP);
        small.flat_map(|other| other.nodes).collect()
    }

    /// A loop together with the neighbouring loops that share a turn with it, if all of it only
    /// waits: a compiler may make several loops of one.
    fn with_others(&self, this_loop: Loop) -> Loop {
        let loops = this_loop
            .nodes
            .iter()
            .flat_map(|index| self.loops_of(*index));
        let nodes: BTreeSet<usize> = loops
            .filter(|other| self.only_waits(other))
            .flat_map(|other| other.nodes)
            .collect();
        let all = Loop {
            head: this_loop.head,
            nodes,
        };
        if self.only_waits(&all) {
            all
        } else {
            this_loop
        }
    }

    fn only_waits(&self, this_loop: &Loop) -> bool {
        if this_loop.nodes.len() > MAX_LOOP {
            return false;
        }
        let nodes = || this_loop.nodes.iter().map(|index| &self.nodes[*index]);
        if !nodes().all(|node| is_harmless(&node.effect)) || !nodes().any(|node| node.effect.loads)
        {
            return false;
        }
        let within = self.loops_within(&this_loop.nodes);
        let carried: Vec<(usize, Places)> = std::iter::once(this_loop)
            .chain(&within)
            .map(|inner| (inner.head, self.carried(inner)))
            .collect();
        let values = self.values(this_loop, &carried);
        let of = |index: usize| (&self.nodes[index], values[&index]);
        let all = || this_loop.nodes.iter().map(|index| of(*index));
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
        let leaves = |node: &Node| {
            node.leaves
                || node
                    .after
                    .iter()
                    .any(|after| !this_loop.nodes.contains(after))
        };
        // The path out must depend on the value that was read, and on nothing that goes on from
        // turn to turn.
        let waits = all()
            .any(|(node, values)| node.is_branch && leaves(node) && flags(true, false)(values));
        // A value that is counted but never tested is the program's work. Each value is checked by
        // itself, since a search may count its turns too.
        let counted = carried.iter().fold(0, |all, (_, places)| all | places) & !FLAGS;
        let mut counted = (0..Places::BITS).map(|bit| counted & (1 << bit));
        let is_asked = |place: Places| {
            let one: Vec<_> = carried
                .iter()
                .map(|(head, all)| (*head, all & place))
                .collect();
            let values = self.values(this_loop, &one);
            let mut branches = this_loop
                .nodes
                .iter()
                .filter(|index| self.nodes[**index].is_branch);
            branches.any(|index| values[index].progress & FLAGS != 0)
        };
        waits && counted.all(|place| place == 0 || is_asked(place))
    }

    /// The values that are written in a loop and used in its next turn.
    fn carried(&self, this_loop: &Loop) -> Places {
        let mut live: BTreeMap<usize, Places> =
            this_loop.nodes.iter().map(|index| (*index, 0)).collect();
        loop {
            let mut changed = false;
            for &index in this_loop.nodes.iter().rev() {
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
        let written = this_loop.nodes.iter().fold(0, |all, index| {
            let effect = &self.nodes[*index].effect;
            all | effect.writes | effect.may_write
        });
        live.get(&this_loop.head).copied().unwrap_or(0) & written
    }

    /// What is known of the values before each instruction of a loop. `carried`: the values that go
    /// on from turn to turn, at the heads of the loops in it.
    fn values(&self, this_loop: &Loop, carried: &[(usize, Places)]) -> BTreeMap<usize, Values> {
        let mut values: BTreeMap<usize, Values> = this_loop
            .nodes
            .iter()
            .map(|index| (*index, Values::default()))
            .collect();
        for (head, places) in carried {
            values.entry(*head).or_default().progress |= places;
        }
        loop {
            let mut changed = false;
            for &index in &this_loop.nodes {
                let node = &self.nodes[index];
                let out = values[&index].after(&node.effect);
                for after in node
                    .after
                    .iter()
                    .filter(|after| this_loop.nodes.contains(after))
                {
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

    /// The shared memory that a loop reads.
    fn awaited(&self, this_loop: &Loop) -> impl Iterator<Item = Operand> {
        let nodes = this_loop.nodes.iter();
        nodes.filter_map(|index| self.nodes[*index].effect.load)
    }

    /// Whether the function does nothing that takes time besides waiting.
    fn is_plain(&self, this_loop: &Loop, callee: &dyn Fn(Target) -> Callee) -> bool {
        let waits = |way: &Loop| way.nodes.is_subset(&this_loop.nodes) || self.only_waits(way);
        self.nodes.iter().enumerate().all(|(index, node)| {
            let is_light = |target| is_light(target, callee, MAX_DEPTH);
            !node.jumps_out
                && node.calls.is_none_or(is_light)
                && self.ways_from(index).all(|way| waits(&way))
        })
    }

    /// The instructions of a loop that read shared memory or leave the loop, by their addresses.
    fn reads(&self, this_loop: &Loop) -> Vec<u64> {
        let leaves = |node: &Node| {
            node.after
                .iter()
                .any(|after| !this_loop.nodes.contains(after))
        };
        let nodes = this_loop.nodes.iter().map(|index| &self.nodes[*index]);
        nodes
            .filter(|node| node.effect.loads || leaves(node))
            .map(|node| node.at)
            .collect()
    }

    fn purpose(&self, this_loop: &Loop, later: &BTreeSet<usize>) -> Purpose {
        let awaited: Vec<Operand> = self.awaited(this_loop).collect();
        let writes_it = |index: usize| {
            let store = self.nodes[index].effect.store;
            store.is_some_and(|store| awaited.contains(&store))
        };
        let tries_later = |index: &usize| self.nodes[*index].effect.compares && writes_it(*index);
        if self.tries_next(this_loop, &writes_it) || later.iter().any(tries_later) {
            return Purpose::Lock;
        }
        let mut elsewhere = (0..self.nodes.len())
            .filter(|index| !this_loop.nodes.contains(index) && !later.contains(index));
        // A word that each thread sets before it waits is set for this thread alone, as in a queue
        // of a lock, or lets another thread go. A word in which all count, or which some set, is for
        // all.
        let is_for_all = |index: usize| {
            self.nodes[index].effect.counts || self.is_avoided(index, this_loop.head)
        };
        if elsewhere.any(|index| writes_it(index) && is_for_all(index)) {
            Purpose::Barrier
        } else if later.is_disjoint(&this_loop.nodes) && later.iter().any(|index| writes_it(*index))
        {
            // Whoever has waited lets the next go.
            Purpose::Lock
        } else {
            Purpose::Unclear
        }
    }

    /// Whether an atomic write to the memory that was waited for comes right after the waiting.
    fn tries_next(&self, this_loop: &Loop, writes_it: &dyn Fn(usize) -> bool) -> bool {
        let exits = this_loop
            .nodes
            .iter()
            .flat_map(|index| &self.nodes[*index].after);
        let mut exits = exits
            .filter(|index| !this_loop.nodes.contains(index))
            .copied();
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
