//! Whether a test asks how many threads have arrived.
//!
//! A barrier counts each thread that arrives, and the count tells whether the thread was the last
//! to arrive. So the test that decides between waiting and waking depends on shared memory that the
//! thread itself has changed just before: by one instruction (`lock xadd`), or by reading, adding
//! and writing, where the write may come after the test. Other tests decide by the thread's role,
//! or by what other threads have left in memory: then one thread always waits and another one
//! always wakes, as with a producer and a consumer.
//!
//! The machine code is followed backwards from the test, together with the values on which the test
//! depends. Called functions are not looked into.

use super::graph::{Flow, Graph};
use crate::arch::{Analysis, FRAME, Instruction, KEPT, Put, Register, STACK};

/// The most paths on which one instruction is visited.
const MAX_WAYS: u8 = 4;

/// Instructions before the use of a register that are searched for its origin.
const MAX_BASE: usize = 12;

/// Instructions before a write that are searched for the read of the same word.
const MAX_ADDING: usize = 64;

/// Instructions at the start of a function that may set up its frame.
const MAX_SETUP: usize = 12;

/// The most written, or read, places that are remembered.
const MAX_PLACES: usize = 16;

/// Where the address of a place in memory comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Base {
    /// A constant.
    Fixed,
    /// A register.
    In(Register),
    /// A pointer in memory, at this offset from the value of a register.
    Behind(Register, u64),
    /// A pointer in memory at a constant address.
    BehindFixed(u64),
}

/// A place in memory, as an instruction addresses it: base, index register and offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct MemoryOperand {
    base: Base,
    index: Register,
    offset: u64,
}

/// The register or memory on which a test depends, as seen at an instruction before it.
#[derive(Clone, Debug, Default)]
struct Needed {
    flags: bool,
    registers: Vec<Register>,
    places: Vec<MemoryOperand>,
    /// Shared memory that the thread writes between that instruction and the test.
    written: Vec<MemoryOperand>,
}

/// The result of an instruction for the search for the test's origin.
enum Step {
    Counted,
    /// The values that the test depends on come from earlier instructions.
    On,
    /// The values come from somewhere else, for example from a call.
    Lost,
}

/// A conditional jump that decides between waiting and waking; instructions are given by their
/// index.
pub(super) struct Decision<'a> {
    pub(super) test: usize,
    /// The first instruction on the way to a wait, and on the way to a wake.
    pub(super) ways: [usize; 2],
    pub(super) waits: &'a [usize],
    pub(super) wakes: &'a [usize],
}

/// Whether a test asks how many threads have arrived.
pub(super) fn is_counted(graph: &Graph, decision: &Decision<'_>) -> bool {
    let mut back = Back::new(graph);
    let mut ways = vec![0_u8; graph.nodes.len()];
    let needed = Needed {
        flags: true,
        ..Needed::default()
    };
    let mut open = vec![(decision.test, needed)];
    while let Some((index, needed)) = open.pop() {
        for &before in &graph.before[index] {
            // Behind a wait or a wake another round may have begun.
            let is_past = decision.waits.contains(&before) || decision.wakes.contains(&before);
            if is_past || ways[before] >= MAX_WAYS {
                continue;
            }
            ways[before] += 1;
            let mut needed = needed.clone();
            match back.step(before, &mut needed) {
                Step::Counted => return true,
                Step::On => open.push((before, needed)),
                Step::Lost => {}
            }
        }
    }
    // The word that was read may be written only after the test, but then on both ways; and the way
    // to the wait writes a value that is made of the word itself.
    let read = std::mem::take(&mut back.read);
    read.iter().any(|place| {
        let [to_wait, to_wake] = decision.ways;
        let adds = back.written(*place, to_wait, decision.waits);
        adds.is_some_and(|writes| writes.iter().all(|index| back.adds_to(*place, *index)))
            && back.written(*place, to_wake, decision.wakes).is_some()
    })
}

struct Back<'a> {
    graph: &'a Graph,
    analysis: Analysis,
    /// Whether the frame pointer points to the thread's own stack frame.
    has_frame: bool,
    /// Shared memory on which the test depends.
    read: Vec<MemoryOperand>,
}

impl<'a> Back<'a> {
    fn new(graph: &'a Graph) -> Self {
        let mut first = graph.instructions.iter().take(MAX_SETUP);
        let has_frame = first.any(Instruction::sets_frame);
        Self {
            graph,
            analysis: Analysis::new(),
            has_frame,
            read: Vec::new(),
        }
    }

    /// The first instructions that write a place on the paths from `from`; `None` if a path reaches
    /// any of `goals` without such a write.
    fn written(
        &mut self,
        place: MemoryOperand,
        from: usize,
        goals: &[usize],
    ) -> Option<Vec<usize>> {
        let graph = self.graph;
        let mut seen = vec![false; graph.nodes.len()];
        let mut open = vec![from];
        let mut found = Vec::new();
        while let Some(index) = open.pop() {
            if goals.contains(&index) {
                return None;
            }
            if std::mem::replace(&mut seen[index], true) {
                continue;
            }
            if self.writes(index) == Some(place) {
                found.push(index);
            } else {
                open.extend_from_slice(&graph.following[index]);
            }
        }
        Some(found)
    }

    /// Whether the value that an instruction writes to a place is made of the place's former value.
    fn adds_to(&mut self, place: MemoryOperand, write: usize) -> bool {
        let graph = self.graph;
        let instruction = &graph.instructions[write];
        if !self.analysis.uses(instruction).overwrites {
            return true;
        }
        let mut needed = Needed {
            registers: instruction.source().into_iter().collect(),
            ..Needed::default()
        };
        let mut at = write;
        // Only straight-line code is followed, because the addition stands there.
        for _ in 0..MAX_ADDING {
            let [before] = graph.before[at][..] else {
                return false;
            };
            let has_read = needed.places.len();
            if needed.registers.is_empty() || !matches!(self.step(before, &mut needed), Step::On) {
                return false;
            }
            if needed.places.len() > has_read && needed.places.contains(&place) {
                return true;
            }
            at = before;
        }
        false
    }

    /// The place that an instruction writes, if any.
    fn writes(&mut self, index: usize) -> Option<MemoryOperand> {
        let place = self.place(index)?;
        let uses = self.analysis.uses(&self.graph.instructions[index]);
        uses.writes_memory.then_some(place)
    }

    fn step(&mut self, index: usize, needed: &mut Needed) -> Step {
        let graph = self.graph;
        let instruction = &graph.instructions[index];
        if matches!(graph.nodes[index].flow, Flow::Call(_)) {
            let survives = |register: &Register| KEPT.contains(register);
            let is_result = needed.flags || !needed.registers.iter().all(survives);
            return if is_result { Step::Lost } else { Step::On };
        }
        let place = self.place(index);
        let uses = self.analysis.uses(instruction);
        let memory = uses.memory.filter(|_| place.is_some());
        let (reads, writes) = memory.map_or((false, false), |access| (access.reads, access.writes));
        let sets_flags = uses.sets_flags;
        let sets = |register: &Register| {
            let mut registers = uses.registers.iter();
            registers.any(|(other, access)| other == register && access.writes)
        };
        let stored = place.filter(|_| writes);
        let shared = place.filter(|place| !self.is_own(place));
        let matters = needed.flags && sets_flags
            || needed.registers.iter().any(&sets)
            || stored.is_some_and(|place| needed.places.contains(&place));
        let is_written = shared.is_some_and(|place| needed.written.contains(&place));
        if let Some(place) = shared
            && writes
            && needed.written.len() < MAX_PLACES
        {
            needed.written.push(place);
        }
        if !matters {
            return Step::On;
        }
        if shared.is_some() && reads && (writes || is_written) {
            return Step::Counted;
        }
        needed.flags &= !sets_flags;
        needed.registers.retain(|register| !sets(register));
        needed.places.retain(|place| stored != Some(*place));
        needed.flags |= uses.reads_flags;
        if reads {
            needed.places.extend(place);
            let new = shared.filter(|place| !self.read.contains(place));
            if self.read.len() < MAX_PLACES {
                self.read.extend(new);
            }
        }
        let is_address =
            |register: Register| memory.is_some() && instruction.addresses_by(register);
        for (register, access) in uses.registers.iter().copied() {
            let is_value = access.reads && register != STACK && !is_address(register);
            if is_value && !needed.registers.contains(&register) {
                needed.registers.push(register);
            }
        }
        let is_open = needed.flags || !needed.registers.is_empty() || !needed.places.is_empty();
        if is_open { Step::On } else { Step::Lost }
    }

    /// Whether a place lies on the thread's own stack.
    fn is_own(&self, place: &MemoryOperand) -> bool {
        match place.base {
            Base::In(STACK) => true,
            Base::In(FRAME) => self.has_frame,
            _ => false,
        }
    }

    /// The memory that an instruction reads or writes; `None` for thread-local variables.
    fn place(&self, index: usize) -> Option<MemoryOperand> {
        let named = self.graph.instructions[index].memory()?;
        let (base, offset) = match named.base {
            None => (Base::Fixed, named.offset),
            Some(register) => match self.base(index, register) {
                // An instruction before has put the address of a variable into the register.
                (Base::Fixed, at) => (Base::Fixed, named.offset.wrapping_add(at)),
                (base, _) => (base, named.offset),
            },
        };
        Some(MemoryOperand {
            base,
            index: named.index,
            offset,
        })
    }

    /// Where the value of a register comes from at an instruction. The number is the address if the
    /// base is [`Base::Fixed`], and 0 otherwise.
    fn base(&self, index: usize, register: Register) -> (Base, u64) {
        let unknown = (Base::In(register), 0);
        for before in (index.saturating_sub(MAX_BASE)..index).rev() {
            let instruction = &self.graph.instructions[before];
            if !matches!(self.graph.nodes[before].flow, Flow::Next | Flow::Branch(_)) {
                return unknown;
            }
            return match instruction.puts_into(register) {
                Put::Nothing => continue,
                Put::Address(address) => (Base::Fixed, address),
                Put::WordAt(address) => (Base::BehindFixed(address), 0),
                Put::WordOfFrame(offset) => (Base::Behind(FRAME, offset), 0),
                Put::Other => unknown,
            };
        }
        unknown
    }
}
