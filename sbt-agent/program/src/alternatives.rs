//! How two calls in a function relate: does the function make either the one or the other, or one
//! after the other?
//!
//! A barrier that is made of a condition variable tests, with the mutex held, whether all threads
//! have arrived, and then either wakes the others or waits. In machine code: from some instruction
//! both calls can be reached with at most one other call between, and neither call can be reached
//! from the other. Code that hands turns from thread to thread waits first and wakes then; queues,
//! locks, pools and clocks have their waits and wakes on separate paths. Some barriers also keep
//! threads out until all threads of the last round have left: there the wake that lets threads in
//! comes after such a pair of calls, and the wait at the entrance comes before the pair.
//!
//! The code may be anything. Work is bounded by [`MAX_FUNCTION`].

use std::{
    cell::OnceCell,
    collections::{HashMap, VecDeque},
    rc::Rc,
};

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register};

use super::debuginfo::Symbol;
use super::elf::{Imports, Segment, code_at};
use sbt_engine::recognise::Relation;

mod counted;
mod graphs;

pub(super) use graphs::Graphs;

/// Bytes that are read of a function; the rest of a longer function is ignored.
const MAX_FUNCTION: u64 = 1 << 16;

/// Distinct call targets in one function whose names are looked up; further ones count as
/// [`CalledFunction::Nothing`].
const MAX_TARGETS: usize = 1024;

/// The most other calls on both paths together: a barrier releases the mutex before it wakes
/// others, or reads the time before a timed wait.
const MAX_BETWEEN: u8 = 1;

/// The most pairs of waits and wakes in one function that are compared one by one.
const MAX_PAIRS: usize = 64;

/// Instructions before a call that are searched for its first argument.
const MAX_ARGUMENTS_BEFORE: usize = 32;

/// Constants below this are numbers and not addresses: a program never uses the first page of its
/// memory.
const NO_ADDRESS: u64 = 4096;

/// Stands for "more calls between than [`MAX_BETWEEN`], or no path".
const FAR: u8 = u8::MAX;

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
const LOCKING: [&str; 2] = ["pthread_mutex_lock", "__pthread_mutex_lock"];

/// Functions that release a mutex, or take it only if it is free. A thread that spins for a while
/// before it waits calls them between.
const YIELDING: [&str; 4] = [
    "pthread_mutex_unlock",
    "__pthread_mutex_unlock",
    "pthread_mutex_trylock",
    "__pthread_mutex_trylock",
];

/// Functions that are barriers by name, however they are implemented.
const NAMED: [&str; 2] = ["pthread_barrier_wait", "__pthread_barrier_wait"];

/// Functions that wake the waiters of a condition variable.
const WAKING: [&str; 2] = ["pthread_cond_broadcast", "pthread_cond_signal"];

/// The target of a call, as far as two targets can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Callee {
    /// A function or stub at an address.
    At(u64),
    /// The function that the pointer at an address points to.
    Through(u64),
    /// A target that is known at run time only; equal to no other target.
    Unknown,
}

impl Callee {
    fn of(instruction: &Instruction) -> Self {
        if instruction.op0_kind() == OpKind::NearBranch64 {
            Self::At(instruction.near_branch64())
        } else if instruction.is_ip_rel_memory_operand() {
            Self::Through(instruction.ip_rel_memory_address())
        } else {
            Self::Unknown
        }
    }
}

/// What an instruction does to the flow of control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    Next,
    /// A jump to an address, which may lie outside of the function.
    Jump(u64),
    Branch(u64),
    Call(Callee),
    End,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    at: u64,
    next: u64,
    flow: Flow,
    /// Whether the instruction may take a lock itself, as Rust's mutex does, whose code is inlined.
    locks: bool,
}

/// The instructions of a function, with the edges between them.
#[derive(Debug)]
struct Graph {
    nodes: Vec<Node>,
    /// The decoded instruction of each node.
    instructions: Vec<Instruction>,
    /// The nodes that may run right before each node, and right after.
    before: Vec<Vec<usize>>,
    following: Vec<Vec<usize>>,
    /// Nodes that take a mutex, in ascending order.
    locks: Vec<usize>,
    /// Nodes that release a mutex or try to take it, in ascending order.
    yields: Vec<usize>,
    /// Cache of [`Graph::with_yields_free`].
    yields_free: OnceCell<Box<Graph>>,
}

/// What is known of a called function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CalledFunction {
    NeverReturns,
    Locks,
    Yields,
    Nothing,
}

impl CalledFunction {
    fn of(name: &str) -> Self {
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

/// The code of a file, and what is known of its functions.
pub(super) struct Code<'a> {
    pub(super) image: &'a [u8],
    pub(super) segments: &'a [Segment],
    pub(super) imports: &'a Imports,
    /// The functions of the file that have been decoded.
    pub(super) graphs: &'a Graphs,
    /// The function that contains an address.
    pub(super) function: &'a dyn Fn(u64) -> Option<Symbol>,
    /// The function that contains an address, if the function has a name.
    pub(super) named: &'a dyn Fn(u64) -> Option<Symbol>,
}

impl Code<'_> {
    /// The function around a call, by the call's return address.
    fn around(&self, returns: u64) -> Option<Symbol> {
        (self.function)(returns.wrapping_sub(1))
    }

    fn imported_at(&self, address: u64) -> Option<String> {
        self.imports.at(self.image, self.segments, address)
    }

    /// The graph of a function, decoded once for all questions about it.
    fn graph(&self, symbol: &Symbol) -> Option<Rc<Graph>> {
        self.graphs.get(symbol.start, || {
            let size = symbol.size.min(MAX_FUNCTION);
            let code = code_at(self.image, self.segments, symbol.start, size)?;
            let of = |to: u64| {
                let own = || Some((self.named)(to).filter(|named| named.start == to)?.name);
                let name = self.imported_at(to).or_else(own);
                (
                    to,
                    name.map_or(CalledFunction::Nothing, |name| CalledFunction::of(&name)),
                )
            };
            let known = |targets: &[u64]| targets.iter().map(|to| of(*to)).collect();
            Some(Graph::new(code.bytes, symbol.start, known))
        })
    }
}

/// The start of the function around a call of a wait or a wake, by the call's return address.
/// `None` if the function has more such calls than [`relation`] compares to find out whether they
/// keep threads out or let threads in.
pub(super) fn with_phases(code: &Code<'_>, returns: u64) -> Option<u64> {
    let symbol = code.around(returns)?;
    let graph = code.graph(&symbol)?;
    let call = graph.call_before(returns)?;
    (graph.calls_of(graph.nodes[call].flow).len() <= MAX_PAIRS).then_some(symbol.start)
}

/// How a call that wakes relates to a call that waits. `wait` and `wake` are the calls' return
/// addresses in the numbering of the file. `until`: the wait returns only when its condition is
/// true, however often the thread is woken.
pub(super) fn relation(code: &Code<'_>, wait: u64, wake: u64, until: bool) -> Relation {
    let (Some(waits), Some(wakes)) = (&code.around(wait), &code.around(wake)) else {
        return Relation::Unknown;
    };
    if NAMED.contains(&waits.name.as_str()) {
        return Relation::Counted;
    }
    let Some(around_wake) = code.graph(wakes) else {
        return Relation::Unknown;
    };
    if waits.start == wakes.start {
        return match (around_wake.call_before(wait), around_wake.call_before(wake)) {
            (Some(wait), Some(wake)) => {
                let relation = around_wake.relation(wait, wake, until);
                around_wake.checked(relation, &[wait], &[wake], until)
            }
            _ => Relation::Unknown,
        };
    }
    let Some(around_wait) = code.graph(waits) else {
        return Relation::Unknown;
    };
    let (Some(wait), Some(wake)) = (around_wait.call_before(wait), around_wake.call_before(wake))
    else {
        return Relation::Unknown;
    };
    // The waiting function may wake by a tail call (a jump in its own place): then the wake seems
    // to come from where the waiting function was called.
    match around_wake.nodes[wake].flow {
        Flow::Call(Callee::At(to)) if to == waits.start => {
            return around_wait.decided(&[wait], &around_wait.jumps_out(|_| true), until);
        }
        // A call through a pointer may have called anything.
        Flow::Call(Callee::Through(_) | Callee::Unknown) => {
            let mut wakes = around_wait.jumps_out(|to| {
                code.imported_at(to)
                    .is_some_and(|name| WAKING.contains(&name.as_str()))
            });
            // Another candidate is a jump that makes the same system call as the wait.
            if let Some(number) = around_wait.small_argument(wait) {
                let jumps = around_wait.jumps_out(|_| true).into_iter();
                wakes.extend(jumps.filter(|jump| {
                    around_wait.small_argument(*jump) == Some(number)
                        && around_wait.goes_alike(*jump, wait)
                }));
            }
            if !wakes.is_empty() {
                return around_wait.decided(&[wait], &wakes, until);
            }
        }
        _ => {}
    }
    // The waker may hold another copy of the same source, at which no thread has waited yet. If one
    // function makes all system calls, calls with another number are not copies.
    let mut others = around_wake.calls_of(around_wait.nodes[wait].flow);
    if let Some(number) = around_wait.small_argument(wait) {
        others.retain(|other| around_wake.small_argument(*other) == Some(number));
    }
    if others.is_empty() {
        Relation::Apart
    } else {
        around_wake.decided(&others, &[wake], until)
    }
}

impl Graph {
    /// `known` tells what is known of the functions at some addresses, which are in ascending
    /// order.
    fn new(
        code: &[u8],
        vaddr: u64,
        known: impl Fn(&[u64]) -> HashMap<u64, CalledFunction>,
    ) -> Self {
        let mut nodes = Vec::new();
        let mut instructions = Vec::new();
        for instruction in Decoder::with_ip(64, code, vaddr, DecoderOptions::NONE) {
            if instruction.is_invalid() {
                break;
            }
            let near = instruction.op0_kind() == OpKind::NearBranch64;
            let flow = match instruction.flow_control() {
                FlowControl::Next => Flow::Next,
                FlowControl::UnconditionalBranch if near => Flow::Jump(instruction.near_branch64()),
                FlowControl::ConditionalBranch if near => Flow::Branch(instruction.near_branch64()),
                FlowControl::Call | FlowControl::IndirectCall => {
                    Flow::Call(Callee::of(&instruction))
                }
                _ => Flow::End,
            };
            nodes.push(Node {
                at: instruction.ip(),
                next: instruction.next_ip(),
                flow,
                locks: instruction.has_lock_prefix() && instruction.mnemonic() == Mnemonic::Cmpxchg,
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
            Flow::Call(Callee::At(to)) => Some(to),
            _ => None,
        });
        let mut targets: Vec<u64> = calls.collect();
        targets.sort_unstable();
        targets.dedup();
        targets.truncate(MAX_TARGETS);
        let of_targets = known(&targets);
        for index in 0..this.nodes.len() {
            let node = this.nodes[index];
            let known = match node.flow {
                Flow::Call(Callee::At(to)) => of_targets
                    .get(&to)
                    .copied()
                    .unwrap_or(CalledFunction::Nothing),
                Flow::Jump(_) | Flow::End => CalledFunction::NeverReturns,
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

    fn find(&self, at: u64) -> Option<usize> {
        self.nodes.binary_search_by_key(&at, |node| node.at).ok()
    }

    /// The call that returns to an address.
    fn call_before(&self, address: u64) -> Option<usize> {
        self.nodes
            .binary_search_by_key(&address, |node| node.next)
            .ok()
            .filter(|index| matches!(self.nodes[*index].flow, Flow::Call(_)))
    }

    /// All calls with the same target as `flow`.
    fn calls_of(&self, flow: Flow) -> Vec<usize> {
        if flow == Flow::Call(Callee::Unknown) {
            return Vec::new();
        }
        (0..self.nodes.len())
            .filter(|index| self.nodes[*index].flow == flow)
            .collect()
    }

    /// The jumps to other functions that `is_wanted` accepts.
    fn jumps_out(&self, is_wanted: impl Fn(u64) -> bool) -> Vec<usize> {
        let is = |flow| matches!(flow, Flow::Jump(to) if self.find(to).is_none() && is_wanted(to));
        (0..self.nodes.len())
            .filter(|index| is(self.nodes[*index].flow))
            .collect()
    }

    /// Whether a jump and a call go to the same address.
    fn goes_alike(&self, jump: usize, call: usize) -> bool {
        match (self.nodes[jump].flow, self.nodes[call].flow) {
            (Flow::Jump(jump), Flow::Call(Callee::At(call))) => jump == call,
            _ => false,
        }
    }

    /// The first argument of a call, or of a jump in place of a call, if a constant was put into
    /// the register right before and is not an address: the number of a system call, for example.
    fn small_argument(&self, index: usize) -> Option<u64> {
        let mut at = index;
        for _ in 0..MAX_ARGUMENTS_BEFORE {
            let [before] = self.before[at][..] else {
                return None;
            };
            if self.is_call(before) {
                return None;
            }
            at = before;
            let instruction = &self.instructions[at];
            let is_first = instruction.op0_kind() == OpKind::Register
                && instruction.op0_register().full_register() == Register::RDI;
            if !is_first || matches!(instruction.mnemonic(), Mnemonic::Cmp | Mnemonic::Test) {
                continue;
            }
            let is_constant = instruction.mnemonic() == Mnemonic::Mov
                && instruction.op1_kind() == OpKind::Immediate32;
            let value = is_constant.then(|| u64::from(instruction.immediate32()))?;
            return (value < NO_ADDRESS).then_some(value);
        }
        None
    }

    fn is_call(&self, index: usize) -> bool {
        matches!(self.nodes[index].flow, Flow::Call(_))
    }

    /// For each instruction, the fewest calls on a path to the next of `goals` that passes none of
    /// `past`; [`FAR`] if there are more than [`MAX_BETWEEN`]. With `walls`, paths through an
    /// instruction that takes a mutex do not count either.
    fn calls_between(&self, goals: &[usize], past: &[usize], walls: bool) -> Vec<u8> {
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
    fn after(&self, from: &[usize], calls: &[u8]) -> u8 {
        from.iter()
            .filter_map(|index| calls.get(self.find(self.nodes[*index].next)?))
            .min()
            .map_or(FAR, |calls| *calls)
    }

    /// How a wait and a wake of this function relate.
    fn relation(&self, wait: usize, wake: usize, until: bool) -> Relation {
        let plain = self.compare(&[wait], &[wake], until);
        let found = match plain {
            Relation::InTurn => self.phase(wait, wake, until),
            found => Some(found).filter(|found| found.is_of_barrier()),
        };
        if let Some(found) = found {
            return found;
        }
        // Where mutexes are taken by trying alone, nothing tells the rounds apart.
        if self.yields.is_empty() || self.locks.is_empty() {
            return plain;
        }
        let spinning = self.with_yields_free();
        let found = match spinning.compare(&[wait], &[wake], until) {
            Relation::InTurn => spinning.phase(wait, wake, until),
            Relation::Alternatives => Some(Relation::Lacking),
            _ => None,
        };
        found.unwrap_or(plain)
    }

    /// For a wait and a wake that come one after the other: which part of a barrier they are;
    /// `None` if they are not part of one.
    fn phase(&self, wait: usize, wake: usize, until: bool) -> Option<Relation> {
        let waits = self.calls_of(self.nodes[wait].flow);
        let wakes = self.calls_of(self.nodes[wake].flow);
        if waits.len().saturating_mul(wakes.len()) > MAX_PAIRS {
            return None;
        }
        let leads = |from: usize, to: usize, past: &[usize]| {
            from == to || self.after(&[from], &self.calls_between(&[to], past, true)) <= MAX_BETWEEN
        };
        // Tries each pair of calls between which a barrier may decide, if this wait leads to the
        // pair's wait and the pair's wake leads to this wake.
        for decides in waits.iter().filter(|to| leads(wait, **to, &wakes)) {
            for completes in wakes.iter().filter(|from| leads(**from, wake, &waits)) {
                if self.compare(&[*decides], &[*completes], until) == Relation::Alternatives {
                    return Some(if *completes == wake {
                        Relation::Enters
                    } else {
                        Relation::Leaves
                    });
                }
            }
        }
        None
    }

    /// The same function, in which calls that yield a mutex do not count as calls.
    fn with_yields_free(&self) -> &Self {
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

    /// How several waits and wakes relate, checked by [`Self::checked`].
    fn decided(&self, waits: &[usize], wakes: &[usize], until: bool) -> Relation {
        self.checked(self.compare(waits, wakes, until), waits, wakes, until)
    }

    /// Turns a relation into [`Relation::Either`] if the test between the two calls does not ask
    /// how many threads have arrived.
    fn checked(
        &self,
        relation: Relation,
        waits: &[usize],
        wakes: &[usize],
        until: bool,
    ) -> Relation {
        let is_counted = match relation {
            Relation::Alternatives => self.is_counted(waits, wakes, until),
            Relation::Lacking => self.with_yields_free().is_counted(waits, wakes, until),
            _ => return relation,
        };
        if is_counted {
            relation
        } else {
            Relation::Either
        }
    }

    /// Whether a test that decides between waiting and waking asks how many threads have arrived.
    /// From such a test one path leads only to the wait and the other only to the wake, and a
    /// thread that has woken others does not go on to a wait as nearby as the one that the test
    /// leads to.
    fn is_counted(&self, waits: &[usize], wakes: &[usize], until: bool) -> bool {
        let (to_wait, to_wake) = self.ways(waits, wakes, until);
        let after_wake = self.after(wakes, &to_wait);
        let decides = |wake: usize, wait: usize| {
            let between = to_wake[wake].saturating_add(to_wait[wait]);
            between <= MAX_BETWEEN
                && to_wait[wake] == FAR
                && to_wake[wait] == FAR
                && after_wake > to_wait[wait]
        };
        self.nodes.iter().enumerate().any(|(index, node)| {
            let Flow::Branch(to) = node.flow else {
                return false;
            };
            let (Some(next), Some(to)) = (self.find(node.next), self.find(to)) else {
                return false;
            };
            let ways = [[next, to], [to, next]];
            ways.into_iter().any(|[to_wake, to_wait]| {
                let decision = counted::Decision {
                    test: index,
                    ways: [to_wait, to_wake],
                    waits,
                    wakes,
                };
                decides(to_wake, to_wait) && counted::is_counted(self, &decision)
            })
        })
    }

    /// For each instruction, the calls on the way to a wait, and to a wake.
    fn ways(&self, waits: &[usize], wakes: &[usize], until: bool) -> (Vec<u8>, Vec<u8>) {
        // After a wait that returns only when its condition is true, a thread that takes the mutex
        // is in its next round: what it does there does not follow from the wait. A thread that
        // takes the mutex only to test once more, and then waits again, is still in the same round.
        let again = self.calls_between(waits, wakes, true);
        let walls = until || self.after(waits, &again) <= MAX_BETWEEN;
        let to_wake = self.calls_between(wakes, waits, walls);
        (self.calls_between(waits, wakes, walls), to_wake)
    }

    /// How waits and wakes relate, whatever the test between them asks. `until`: see [`relation`].
    fn compare(&self, waits: &[usize], wakes: &[usize], until: bool) -> Relation {
        let (to_wait, to_wake) = self.ways(waits, wakes, until);
        if self.after(waits, &to_wake) <= MAX_BETWEEN || self.after(wakes, &to_wait) == 0 {
            return Relation::InTurn;
        }
        let both = to_wake
            .iter()
            .zip(&to_wait)
            .any(|(wake, wait)| wake.saturating_add(*wait) <= MAX_BETWEEN);
        if both {
            Relation::Alternatives
        } else {
            Relation::Apart
        }
    }
}

#[cfg(test)]
#[path = "alternatives_tests.rs"]
mod tests;
