//! A function's instructions, which may follow which, and its loops.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

use crate::arch::{
    self, Callee, Flow, Instruction,
    effect::{Effect, Holds, Words},
};

/// The first instructions of a function that are searched for setting up a frame pointer.
const PROLOGUE: usize = 12;

/// The longest distance from a thread's position to which its function is looked at, bytes: finding
/// the loops of much code takes long.
const WINDOW: u64 = 8 << 10;

#[derive(Clone, Debug)]
pub struct Node {
    pub at: u64,
    pub next_at: u64,
    pub effect: Effect,
    /// The called function, if the instruction is a call.
    pub calls: Option<Callee>,
    /// Whether the instruction is a conditional branch.
    pub is_branch: bool,
    /// Whether the function may be left by the instruction.
    pub leaves: bool,
    /// Whether the instruction jumps to another function.
    pub jumps_out: bool,
    /// The instructions that may come next, in the function.
    pub after: Vec<usize>,
}

/// The instructions of a function, by address.
#[derive(Debug)]
pub struct Graph {
    pub nodes: Vec<Node>,
    before: Vec<Vec<usize>>,
    /// One loop for each jump back.
    ways_round: OnceCell<Vec<Loop>>,
}

#[derive(Clone, Debug)]
pub struct Loop {
    /// The instruction to which the loop goes back.
    pub head: usize,
    /// The instructions of the loop.
    pub nodes: BTreeSet<usize>,
}

impl Graph {
    /// Decodes a function's code, which lies at `start`, near `address`. The code may be anything.
    pub fn new(code: &[u8], start: u64, address: u64) -> Self {
        let decode = || arch::decode(code, start).take_while(Instruction::is_valid);
        let mut words = Words::of(decode().take(PROLOGUE));
        let near = |instruction: &Instruction| instruction.at().abs_diff(address) <= WINDOW;
        let until = address.saturating_add(WINDOW);
        let instructions = decode().take_while(|instruction| instruction.at() <= until);
        let instructions: Vec<Instruction> = instructions.filter(near).collect();
        let find = |at: u64| instructions.binary_search_by_key(&at, Instruction::at).ok();
        let mut nodes: Vec<Node> = Vec::with_capacity(instructions.len());
        // The values of the registers at targets of jumps ahead.
        let mut ahead: BTreeMap<u64, Holds> = BTreeMap::new();
        let mut latest = words.holds();
        let mut is_guess = false;
        for instruction in &instructions {
            if let Some(holds) = ahead.get(&instruction.at()).filter(|_| is_guess) {
                words.come(holds);
                is_guess = false;
            }
            let flow = instruction.flow();
            let (calls, to) = match flow {
                Flow::Call(callee) => (Some(callee), None),
                Flow::System => (Some(Callee::Unknown), None),
                Flow::Jump(to) | Flow::Branch(to) => (None, Some(to)),
                _ => (None, None),
            };
            let is_branch = matches!(flow, Flow::Branch(_));
            let is_jump = matches!(flow, Flow::Jump(_));
            let goes_on = is_branch || calls.is_some() || flow == Flow::Next;
            let next = goes_on.then(|| instruction.next());
            let after: Vec<usize> = [next, to].into_iter().flatten().filter_map(find).collect();
            nodes.push(Node {
                at: instruction.at(),
                next_at: instruction.next(),
                effect: if calls.is_some() {
                    words.call(instruction.at());
                    // The caller may replace this when it knows the called function.
                    Effect {
                        is_work: true,
                        ..Effect::default()
                    }
                } else {
                    words.effect(instruction)
                },
                calls,
                is_branch,
                leaves: after.len() < usize::from(goes_on) + usize::from(to.is_some())
                    || !(goes_on || is_jump),
                jumps_out: to.is_some_and(|to| find(to).is_none()),
                after,
            });
            if let Some(to) = to {
                latest = *ahead.entry(to).or_insert(words.holds());
            }
            if !goes_on {
                // The next instruction is probably reached by the last jump.
                words.come(&latest);
                is_guess = true;
            }
        }
        let mut before = vec![Vec::new(); nodes.len()];
        for (index, node) in nodes.iter().enumerate() {
            for &after in &node.after {
                before[after].push(index);
            }
        }
        Self {
            nodes,
            before,
            ways_round: OnceCell::new(),
        }
    }

    /// The instruction that contains an address.
    pub fn find(&self, address: u64) -> Option<usize> {
        let after = self.nodes.partition_point(|node| node.at <= address);
        let index = after.checked_sub(1)?;
        (address < self.nodes[index].next_at).then_some(index)
    }

    /// Whether an instruction may be executed again with only such instructions in between for which
    /// `passes` is true, itself included. Takes less time than to find its loops.
    pub fn comes_back(&self, instruction: usize, passes: impl Fn(usize) -> bool) -> bool {
        let mut known = BTreeSet::new();
        let mut open = vec![instruction];
        while let Some(index) = open.pop() {
            let after = self.nodes[index].after.iter().copied();
            for next in after.filter(|next| passes(*next)) {
                if next == instruction {
                    return true;
                }
                if known.insert(next) {
                    open.push(next);
                }
            }
        }
        false
    }

    /// The loops that contain an instruction, the smallest first.
    pub fn loops_of(&self, inside: usize) -> Vec<Loop> {
        let ways = self.ways_round.get_or_init(|| {
            let all = 0..self.nodes.len();
            all.flat_map(|from| self.ways_from(from)).collect()
        });
        let mut loops: Vec<Loop> = Vec::new();
        for way in ways.iter().filter(|way| way.nodes.contains(&inside)) {
            add(&mut loops, way.head, &way.nodes);
        }
        loops.sort_by_key(|found| found.nodes.len());
        loops
    }

    /// The loop that begins with an instruction.
    pub fn loop_from(&self, head: usize) -> Option<Loop> {
        let back = self.before[head].iter().filter(|from| head <= **from);
        let mut loops: Vec<Loop> = Vec::new();
        for &from in back {
            add(&mut loops, head, &self.way_round(head, from));
        }
        loops.pop()
    }

    /// The loops that an instruction closes by jumping back.
    pub fn ways_from(&self, from: usize) -> impl Iterator<Item = Loop> {
        let heads = self.nodes[from].after.iter();
        let heads = heads.filter(move |head| **head <= from);
        heads.map(move |&head| Loop {
            head,
            nodes: self.way_round(head, from),
        })
    }

    /// All loops that lie inside of the instructions `all`; `all` itself may be one of them.
    pub fn loops_within(&self, all: &BTreeSet<usize>) -> Vec<Loop> {
        let mut loops: Vec<Loop> = Vec::new();
        for &from in all {
            let ways = self.ways_from(from);
            for way in ways.filter(|way| way.nodes.is_subset(all)) {
                add(&mut loops, way.head, &way.nodes);
            }
        }
        loops
    }

    /// The instructions between a loop's head and the jump back to it: those that can be reached
    /// from the head, and from which the jump can be reached.
    fn way_round(&self, head: usize, from: usize) -> BTreeSet<usize> {
        let back = self.reached(from, Some(head), |index| &self.before[index]);
        // Each instruction on such a way leads to the jump, too: the rest of the function, which may
        // be long, need not be followed.
        let after = |index: usize| &self.nodes[index].after;
        let forth = self.reached_within(head, Some(from), after, |index| back[index]);
        let both = back.into_iter().zip(forth).enumerate();
        both.filter(|(_, (back, forth))| *back && *forth)
            .map(|(index, _)| index)
            .collect()
    }

    /// The instructions that may be executed after the loop `nodes` has been left.
    pub fn after(&self, nodes: &BTreeSet<usize>) -> BTreeSet<usize> {
        let exits = nodes.iter().flat_map(|index| &self.nodes[*index].after);
        let exits = exits.filter(|index| !nodes.contains(index));
        let mut later = BTreeSet::new();
        for &exit in exits {
            if !later.contains(&exit) {
                let reached = self.reached(exit, None, |index| &self.nodes[index].after);
                let reached = reached.iter().enumerate().filter(|(_, is)| **is);
                later.extend(reached.map(|(index, _)| index));
            }
        }
        later
    }

    /// Whether a way from the function's beginning to `to` passes by an instruction.
    pub fn is_avoided(&self, instruction: usize, to: usize) -> bool {
        instruction != 0 && self.reached(0, Some(instruction), |index| &self.nodes[index].after)[to]
    }

    /// The instructions from which an instruction is reached next.
    pub fn ways_to(&self, index: usize) -> &[usize] {
        &self.before[index]
    }

    /// For each instruction, whether `of` can be reached from it.
    pub fn before(&self, of: usize) -> Vec<bool> {
        self.reached(of, None, |index| &self.before[index])
    }

    /// For each instruction, whether it can be reached from `from`, without going on from `stop`.
    fn reached<'a>(
        &self,
        from: usize,
        stop: Option<usize>,
        next: impl Fn(usize) -> &'a Vec<usize>,
    ) -> Vec<bool> {
        self.reached_within(from, stop, next, |_| true)
    }

    /// As [`Self::reached`], by such instructions only for which `is_within` is true.
    fn reached_within<'a>(
        &self,
        from: usize,
        stop: Option<usize>,
        next: impl Fn(usize) -> &'a Vec<usize>,
        is_within: impl Fn(usize) -> bool,
    ) -> Vec<bool> {
        let mut found = vec![false; self.nodes.len()];
        found[from] = true;
        let mut open = vec![from];
        while let Some(index) = open.pop() {
            if Some(index) == stop {
                continue;
            }
            for &other in next(index) {
                if is_within(other) && !std::mem::replace(&mut found[other], true) {
                    open.push(other);
                }
            }
        }
        found
    }
}

/// Adds a loop; loops with the same head are merged.
fn add(loops: &mut Vec<Loop>, head: usize, nodes: &BTreeSet<usize>) {
    match loops.iter_mut().find(|known| known.head == head) {
        Some(known) => known.nodes.extend(nodes),
        None => loops.push(Loop {
            head,
            nodes: nodes.clone(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_round_a_loop_is_what_can_be_reached_from_both_of_its_ends() {
        let mut code = Vec::new();
        let mut number: u32 = 1;
        for _ in 0..600 {
            number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let [.., kind, distance] = number.to_le_bytes();
            // nop, or jne or jmp by up to 127 bytes.
            match kind % 4 {
                0 => code.extend([0x75, distance]),
                1 => code.extend([0xeb, distance]),
                _ => code.push(0x90),
            }
        }
        let graph = Graph::new(&code, 0x1000, 0x1000);
        let mut loops = 0;
        for from in 0..graph.nodes.len() {
            for found in graph.ways_from(from) {
                let back = graph.reached(from, Some(found.head), |index| &graph.before[index]);
                let after = |index: usize| &graph.nodes[index].after;
                let forth = graph.reached(found.head, Some(from), after);
                let both = (0..back.len()).filter(|index| back[*index] && forth[*index]);
                assert!(both.eq(found.nodes.iter().copied()));
                loops += 1;
            }
        }
        assert!(loops > 20, "{loops}");
    }
}
