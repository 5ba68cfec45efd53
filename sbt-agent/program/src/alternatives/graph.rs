//! A function's instructions, which may follow which, and how many calls lie between them.

use std::{
    cell::OnceCell,
    collections::{HashMap, VecDeque},
};

use crate::arch::{self, Callee, Instruction};

/// Distinct call targets in one function whose names are looked up; further ones count as
/// [`CalledFunction::Nothing`].
const MAX_TARGETS: usize = 1024;

/// The most other calls on both paths together: a barrier releases the mutex before it wakes
/// others, or reads the time before a timed wait.
pub(super) const MAX_BETWEEN: u8 = 1;

/// Instructions before a call that are searched for its first argument.
const MAX_ARGUMENTS_BEFORE: usize = 32;

/// Constants below this are numbers and not addresses: a program never uses the first page of its
/// memory.
const NO_ADDRESS: u64 = 4096;

/// Stands for "more calls between than [`MAX_BETWEEN`], or no path".
pub(super) const FAR: u8 = u8::MAX;

/// Functions that do not return: the code behind a call of such a function does not follow from the
/// call.
const NEVER_RETURN: [&str; 9] = [
    "abort",
    "exit",
    "_exit",
    "pthread_exit",
    "__assert_fail",
    "__stack_chk_fail",
    "__fortify_fail",
    "_ZSt20__throw_system_errori",
    "_Unwind_Resume",
];

/// Functions that take a mutex, in C and as compilers call them for C++. Other threads may have
/// held the mutex between the code before and the code behind such a call.
const LOCKING: [&str; 1] = ["pthread_mutex_lock"];

/// Functions that release a mutex, or take it only if it is free. A thread that spins for a while
/// before it waits calls them between.
const YIELDING: [&str; 2] = ["pthread_mutex_unlock", "pthread_mutex_trylock"];

/// The name of a function of POSIX threads without the underscores that C libraries put before it: glibc
/// has up to three, and a static program may have no other name of it.
pub(super) fn plain(name: &str) -> &str {
    let plain = name.trim_start_matches('_');
    if plain.starts_with("pthread_") {
        plain
    } else {
        name
    }
}

/// The effect of an instruction on the flow of control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    Next,
    /// A jump to an address, which may lie outside of the function.
    Jump(u64),
    /// A jump to the function that the pointer at an address points to.
    JumpThrough(u64),
    Branch(u64),
    Call(Callee),
    End,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    at: u64,
    pub(super) next: u64,
    pub(super) flow: Flow,
    /// Whether the instruction may take a lock itself, as Rust's mutex does, whose code is inlined.
    locks: bool,
}

/// The instructions of a function, with the edges between them.
#[derive(Debug)]
pub(super) struct Graph {
    pub(super) nodes: Vec<Node>,
    /// The decoded instruction of each node.
    pub(super) instructions: Vec<Instruction>,
    /// The nodes that may run right before each node, and right after.
    pub(super) before: Vec<Vec<usize>>,
    pub(super) following: Vec<Vec<usize>>,
    /// Nodes that take a mutex, in ascending order.
    pub(super) locks: Vec<usize>,
    /// Nodes that release a mutex or try to take it, in ascending order.
    pub(super) yields: Vec<usize>,
    /// Cache of [`Graph::with_yields_free`].
    yields_free: OnceCell<Box<Graph>>,
}

/// Facts about a called function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CalledFunction {
    NeverReturns,
    Locks,
    Yields,
    Nothing,
}

impl CalledFunction {
    pub(super) fn of(name: &str) -> Self {
        // `std::mutex::lock`, and constructors of a lock that take a mutex and nothing else.
        let of_cpp = |name: &str| {
            let name = name
                .strip_prefix("_ZNSt3__1")
                .or(name.strip_prefix("_ZNSt"));
            name.is_some_and(|name| {
                let is_lock =
                    name.starts_with("11unique_lockI") || name.starts_with("10lock_guardI");
                let constructs = ["C1E", "C2E", "C1B", "C2B"]
                    .iter()
                    .any(|part| name.contains(part));
                name == "5mutex4lockEv"
                    || is_lock
                        && (constructs && name.contains("ERS") && !name.ends_with("lock_t")
                            || name.ends_with("4lockEv"))
            })
        };
        let name = plain(name);
        if NEVER_RETURN.contains(&name) {
            Self::NeverReturns
        } else if LOCKING.contains(&name) || of_cpp(name) {
            Self::Locks
        } else if YIELDING.contains(&name) {
            Self::Yields
        } else {
            Self::Nothing
        }
    }
}

impl Graph {
    /// `known` tells what is known of some functions.
    pub(super) fn new(
        code: &[u8],
        vaddr: u64,
        known: impl Fn(&[Callee]) -> HashMap<Callee, CalledFunction>,
    ) -> Self {
        let mut nodes = Vec::new();
        let mut instructions = Vec::new();
        for instruction in arch::decode(code, vaddr).take_while(Instruction::is_valid) {
            let flow = match instruction.flow() {
                arch::Flow::Next => Flow::Next,
                arch::Flow::Jump(to) => Flow::Jump(to),
                arch::Flow::Indirect(Some(word)) => Flow::JumpThrough(word),
                arch::Flow::Branch(to) => Flow::Branch(to),
                arch::Flow::Call(callee) => Flow::Call(callee),
                arch::Flow::System => Flow::Call(Callee::Unknown),
                _ => Flow::End,
            };
            nodes.push(Node {
                at: instruction.at(),
                next: instruction.next(),
                flow,
                locks: instruction.takes_lock(),
            });
            instructions.push(instruction);
        }
        let mut this = Self {
            before: vec![Vec::new(); nodes.len()],
            following: vec![Vec::new(); nodes.len()],
            locks: Vec::new(),
            yields: Vec::new(),
            yields_free: OnceCell::new(),
            nodes,
            instructions,
        };
        let calls = this.nodes.iter().filter_map(|node| match node.flow {
            Flow::Call(callee) => Some(callee),
            _ => None,
        });
        let mut callees: Vec<Callee> = calls.collect();
        callees.sort_unstable();
        callees.dedup();
        callees.truncate(MAX_TARGETS);
        let of_callees = known(&callees);
        for index in 0..this.nodes.len() {
            let node = this.nodes[index];
            let known = match node.flow {
                Flow::Call(callee) => of_callees
                    .get(&callee)
                    .copied()
                    .unwrap_or(CalledFunction::Nothing),
                Flow::Jump(_) | Flow::JumpThrough(_) | Flow::End => CalledFunction::NeverReturns,
                _ => CalledFunction::Nothing,
            };
            if known == CalledFunction::Locks || node.locks {
                this.locks.push(index);
            }
            if known == CalledFunction::Yields {
                this.yields.push(index);
            }
            if known != CalledFunction::NeverReturns {
                this.join(index, node.next);
            }
            if let Flow::Jump(to) | Flow::Branch(to) = node.flow {
                this.join(index, to);
            }
        }
        this
    }

    fn join(&mut self, from: usize, to: u64) {
        if let Some(to) = self.find(to) {
            self.before[to].push(from);
            self.following[from].push(to);
        }
    }

    pub(super) fn find(&self, at: u64) -> Option<usize> {
        self.nodes.binary_search_by_key(&at, |node| node.at).ok()
    }

    /// The call that returns to an address.
    pub(super) fn call_before(&self, address: u64) -> Option<usize> {
        self.nodes
            .binary_search_by_key(&address, |node| node.next)
            .ok()
            .filter(|index| matches!(self.nodes[*index].flow, Flow::Call(_)))
    }

    /// All calls with the same target as `flow`.
    pub(super) fn calls_of(&self, flow: Flow) -> Vec<usize> {
        if flow == Flow::Call(Callee::Unknown) {
            return Vec::new();
        }
        (0..self.nodes.len())
            .filter(|index| self.nodes[*index].flow == flow)
            .collect()
    }

    /// The jumps to other functions that `is_wanted` accepts.
    pub(super) fn jumps_out(&self, is_wanted: impl Fn(Callee) -> bool) -> Vec<usize> {
        let callee = |flow| match flow {
            Flow::Jump(to) if self.find(to).is_none() => Some(Callee::At(to)),
            Flow::JumpThrough(word) => Some(Callee::Through(word)),
            _ => None,
        };
        (0..self.nodes.len())
            .filter(|index| callee(self.nodes[*index].flow).is_some_and(&is_wanted))
            .collect()
    }

    /// Whether a jump and a call go to the same function.
    pub(super) fn goes_alike(&self, jump: usize, call: usize) -> bool {
        match (self.nodes[jump].flow, self.nodes[call].flow) {
            (Flow::Jump(jump), Flow::Call(Callee::At(call)))
            | (Flow::JumpThrough(jump), Flow::Call(Callee::Through(call))) => jump == call,
            _ => false,
        }
    }

    /// The first argument of a call, or of a jump in place of a call, if a constant was put into
    /// the register right before and is not an address: the number of a system call, for example.
    pub(super) fn small_argument(&self, index: usize) -> Option<u64> {
        let mut at = index;
        for _ in 0..MAX_ARGUMENTS_BEFORE {
            let [before] = self.before[at][..] else {
                return None;
            };
            if self.is_call(before) {
                return None;
            }
            at = before;
            let Some(put) = self.instructions[at].first_argument() else {
                continue;
            };
            let value = put?;
            return (value < NO_ADDRESS).then_some(value);
        }
        None
    }

    pub(super) fn is_call(&self, index: usize) -> bool {
        matches!(self.nodes[index].flow, Flow::Call(_))
    }

    /// For each instruction, the fewest calls on a path to the next of `goals` that passes none of
    /// `past`; [`FAR`] if there are more than [`MAX_BETWEEN`]. With `walls`, paths through an
    /// instruction that takes a mutex do not count either.
    pub(super) fn calls_between(&self, goals: &[usize], past: &[usize], walls: bool) -> Vec<u8> {
        let mut calls = vec![FAR; self.nodes.len()];
        let mut queue: VecDeque<usize> = goals.iter().copied().collect();
        for goal in goals {
            calls[*goal] = 0;
        }
        while let Some(index) = queue.pop_front() {
            for &before in &self.before[index] {
                if past.contains(&before) || goals.contains(&before) {
                    continue;
                }
                if walls && self.locks.binary_search(&before).is_ok() {
                    continue;
                }
                let is_call = self.is_call(before);
                let between = calls[index].saturating_add(u8::from(is_call));
                if between > MAX_BETWEEN || between >= calls[before] {
                    continue;
                }
                calls[before] = between;
                if is_call {
                    queue.push_back(before);
                } else {
                    queue.push_front(before);
                }
            }
        }
        calls
    }

    /// The fewest calls from the return of any of `from` to the goals that `calls` counts to.
    pub(super) fn after(&self, from: &[usize], calls: &[u8]) -> u8 {
        from.iter()
            .filter_map(|index| calls.get(self.find(self.nodes[*index].next)?))
            .min()
            .map_or(FAR, |calls| *calls)
    }

    /// The same function, in which calls that yield a mutex do not count as calls.
    pub(super) fn with_yields_free(&self) -> &Self {
        self.yields_free.get_or_init(|| {
            let mut nodes = self.nodes.clone();
            for index in &self.yields {
                nodes[*index].flow = Flow::Next;
            }
            Box::new(Self {
                nodes,
                instructions: self.instructions.clone(),
                before: self.before.clone(),
                following: self.following.clone(),
                locks: self.locks.clone(),
                yields: Vec::new(),
                yields_free: OnceCell::new(),
            })
        })
    }
}
