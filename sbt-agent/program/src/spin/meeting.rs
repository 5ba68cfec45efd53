//! Barriers that have no function of their own, as macros and inlined functions make them: where a
//! thread counts that it has come, and where it leaves.
//!
//! The thread counts in one atomic step. Right behind it a branch decides by the count: whoever
//! comes last writes the word that ends the waiting, and all others go into the loop that waits for
//! this word. No lock and no queue has this code: there nobody who counts writes what those wait
//! for that have counted before.

use std::collections::{BTreeSet, VecDeque};

use super::{
    graph::{Graph, Loop},
    wait::{Callee, MAX_LOOP, Target, recognise},
};
use crate::arch::{
    self, Register,
    effect::{Effect, Operand},
    number,
    prologue::{Stand, stand},
};

/// The most instructions from the counting to the branch, and from the branch to the loop.
const NEAR: usize = 12;

/// The most instructions from the branch to the write that ends the waiting.
const MAX_RELEASE: usize = 32;

/// The most instructions between a place and the nearest one on which a probe may stand.
const ASIDE: usize = 6;

/// The distance between the places from which a long function is searched, bytes: less than what is
/// seen from each.
const STEP: u64 = 8 << 10;

/// The most counting instructions of a function that are looked at.
const MAX_COUNTING: usize = 64;

/// An instruction on which a probe may stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stop {
    /// The address in the file's own numbering.
    pub at: u64,
    /// Whether the kernel emulates it.
    pub is_emulated: bool,
}

/// Where the word is in which threads count, before a thread has counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Counter {
    /// At this address, in the file's own numbering.
    Fixed(u64),
    /// At this distance from the address in a register, which is given by its number in
    /// [`sbt_common::Cookie::object`], bytes.
    Held(u8, i32),
}

/// A barrier inside of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meeting {
    /// The address of the instruction that counts.
    pub counts_at: u64,
    /// The address of the first instruction of the loop.
    pub waits_at: u64,
    /// The word in which threads count.
    pub counter: Counter,
    /// The last instruction before the counting on which a probe may stand.
    pub arrives: Stop,
    /// The first such instructions behind the loop, and behind the write that ends the waiting.
    pub leaves: Vec<Stop>,
}

/// All barriers inside of a function, whose `code` lies at `start`. `callee`: as for [`recognise`].
pub fn meetings(code: &[u8], start: u64, callee: &dyn Fn(Target) -> Callee) -> Vec<Meeting> {
    let mut found: Vec<Meeting> = Vec::new();
    let mut tried = BTreeSet::new();
    let mut from = start;
    let end = start.saturating_add(code.len() as u64);
    while from.saturating_sub(STEP / 2) < end {
        let graph = Graph::new(code, start, from);
        for (index, node) in graph.nodes.iter().enumerate() {
            // What lies farther away is seen in full from the next place.
            let is_near = node.at.abs_diff(from) <= STEP / 2;
            if !is_near
                || !counts(&node.effect)
                || tried.len() >= MAX_COUNTING
                || !tried.insert(node.at)
            {
                continue;
            }
            let waits = graph.loop_behind(index);
            let waiting = waits.and_then(|at| recognise(code, start, at, callee));
            found.extend(waiting.and_then(|waiting| waiting.meeting));
        }
        let Some(next) = from.checked_add(STEP) else {
            break;
        };
        from = next;
    }
    found.sort_by_key(|meeting| meeting.counts_at);
    found.dedup_by_key(|meeting| meeting.counts_at);
    found
}

impl Graph {
    /// The barrier of which a loop is the waiting for `awaited`; `None` if it is none. `code`: the
    /// function's code, and its address.
    pub fn meeting(
        &self,
        waits: &Loop,
        awaited: &[Operand],
        code: (&[u8], u64),
    ) -> Option<Meeting> {
        let all = self.nodes.iter().enumerate();
        let mut counting =
            all.filter(|(index, node)| counts(&node.effect) && !waits.nodes.contains(index));
        counting.find_map(|(index, _)| self.meeting_from(index, waits, awaited, code))
    }

    /// As [`Self::meeting`], if threads count by this instruction.
    fn meeting_from(
        &self,
        counts: usize,
        waits: &Loop,
        awaited: &[Operand],
        code: (&[u8], u64),
    ) -> Option<Meeting> {
        let branch = self.decides(counts)?;
        let [one, other] = self.nodes[branch].after[..] else {
            return None;
        };
        let release = |from| {
            let near = self.near_by(from, MAX_RELEASE, |index| !waits.nodes.contains(&index));
            near.into_iter().find(|index| {
                let store = self.nodes[*index].effect.store;
                store.is_some_and(|store| awaited.contains(&store))
            })
        };
        let leads = |from| {
            let is_quiet = |index: usize| self.nodes[index].effect.store.is_none();
            let near = self.near_by(from, NEAR, is_quiet);
            near.iter().any(|index| waits.nodes.contains(index))
        };
        let release = match (release(one), release(other)) {
            (Some(release), _) if leads(other) => release,
            (_, Some(release)) if leads(one) => release,
            _ => return None,
        };
        let (arrives, counter) = self.arrival(counts, code)?;
        let exits = waits.nodes.iter().flat_map(|index| {
            let after = self.nodes[*index].after.iter();
            after.filter(|after| !waits.nodes.contains(after))
        });
        let behind: Vec<usize> = exits.chain(&self.nodes[release].after).copied().collect();
        let leaves: Option<BTreeSet<Stop>> = behind
            .into_iter()
            .map(|from| self.first_stop(from, code))
            .collect();
        let leaves = leaves.filter(|leaves| leaves.iter().all(|stop| stop.at != arrives.at))?;
        Some(Meeting {
            counts_at: self.nodes[counts].at,
            waits_at: self.nodes[*waits.nodes.first()?].at,
            counter,
            arrives,
            leaves: leaves.into_iter().collect(),
        })
    }

    /// An instruction of a small loop without writes, to which the branch right behind an
    /// instruction that counts leads: its address.
    fn loop_behind(&self, counts: usize) -> Option<u64> {
        let branch = self.decides(counts)?;
        let is_quiet = |index: usize| self.nodes[index].effect.store.is_none();
        let sides = self.nodes[branch].after.iter();
        let mut near = sides.flat_map(|side| self.near_by(*side, NEAR, is_quiet));
        let found = near.find(|index| {
            if !self.comes_back(*index, is_quiet) {
                return false;
            }
            let loops = self.loops_of(*index);
            loops.first().is_some_and(|found| {
                let mut nodes = found.nodes.iter();
                found.nodes.len() <= MAX_LOOP && nodes.all(|index| is_quiet(*index))
            })
        });
        found.map(|index| self.nodes[index].at)
    }

    /// The branch right behind an instruction.
    fn decides(&self, counts: usize) -> Option<usize> {
        let mut at = counts;
        for _ in 0..NEAR {
            let [next] = self.nodes[at].after[..] else {
                return None;
            };
            let node = &self.nodes[next];
            if node.is_branch {
                return Some(next);
            }
            if node.calls.is_some() || node.effect.store.is_some() {
                return None;
            }
            at = next;
        }
        None
    }

    /// Up to `most` instructions that are reached from one without a call, the nearest first. From
    /// those for which `passes` is false the search does not go on.
    fn near_by(&self, from: usize, most: usize, passes: impl Fn(usize) -> bool) -> Vec<usize> {
        let mut found = vec![from];
        let mut open = VecDeque::from([from]);
        while let Some(index) = open.pop_front() {
            if !passes(index) || self.nodes[index].calls.is_some() {
                continue;
            }
            for &next in &self.nodes[index].after {
                if found.len() < most && !found.contains(&next) {
                    found.push(next);
                    open.push_back(next);
                }
            }
        }
        found
    }

    /// Where a probe sees that a thread is about to count, and where it finds the counter.
    fn arrival(&self, counts: usize, code: (&[u8], u64)) -> Option<(Stop, Counter)> {
        let counting = arch::decode(self.bytes(counts, code)?, self.nodes[counts].at).next()?;
        let named = counting.memory()?;
        let fixed = self.nodes[counts].effect.store?.fixed();
        let counter = match (fixed, named.base) {
            (Some(at), _) => Counter::Fixed(at),
            (None, Some(base)) if named.index == Register::None => {
                let above = i32::try_from(named.offset.cast_signed()).ok()?;
                Counter::Held(number(base)?, above)
            }
            (None, _) => return None,
        };
        let mut at = counts;
        for _ in 0..ASIDE {
            let [before] = *self.ways_to(at) else {
                return None;
            };
            let node = &self.nodes[before];
            let is_line = node.next_at == self.nodes[at].at && node.after == [at];
            if !is_line || node.calls.is_some() || node.effect.moves_stack {
                return None;
            }
            let bytes = self.bytes(before, code)?;
            if let (Counter::Held(..), Some(base)) = (counter, named.base)
                && arch::decode(bytes, node.at).next()?.writes(base)
            {
                return None;
            }
            if let Ok(stand) = stand(bytes) {
                return Some((stop(node.at, stand), counter));
            }
            at = before;
        }
        None
    }

    /// The first instruction from `from` on on which a probe may stand.
    fn first_stop(&self, from: usize, code: (&[u8], u64)) -> Option<Stop> {
        let mut at = from;
        for _ in 0..ASIDE {
            let node = &self.nodes[at];
            if let Ok(stand) = stand(self.bytes(at, code)?) {
                return Some(stop(node.at, stand));
            }
            let ([next], None) = (&node.after[..], node.calls) else {
                return None;
            };
            at = *next;
        }
        None
    }

    fn bytes<'a>(&self, index: usize, (code, start): (&'a [u8], u64)) -> Option<&'a [u8]> {
        let from = self.nodes[index].at.checked_sub(start)?;
        code.get(usize::try_from(from).ok()?..)
    }
}

/// Whether an instruction may be the one by which a thread counts itself.
fn counts(effect: &Effect) -> bool {
    effect.counts && !effect.compares && effect.store.is_some()
}

fn stop(at: u64, stand: Stand) -> Stop {
    Stop {
        at,
        is_emulated: stand == Stand::Emulated,
    }
}
