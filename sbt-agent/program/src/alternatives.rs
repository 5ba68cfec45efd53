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

use std::rc::Rc;

use super::arch::Callee;
use super::debuginfo::Symbol;
use super::elf::{Imports, Segment, code_at};
use sbt_engine::recognise::Relation;

mod counted;
mod graph;
mod graphs;

use graph::{CalledFunction, FAR, Flow, Graph, MAX_BETWEEN};
pub(super) use graphs::Graphs;

/// Bytes that are read of a function; the rest of a longer function is ignored.
const MAX_FUNCTION: u64 = 1 << 16;

/// The most pairs of waits and wakes in one function that are compared one by one.
const MAX_PAIRS: usize = 64;

/// Functions that are barriers by name, however they are implemented.
const NAMED: [&str; 2] = ["pthread_barrier_wait", "__pthread_barrier_wait"];

/// Functions that wake the waiters of a condition variable.
const WAKING: [&str; 2] = ["pthread_cond_broadcast", "pthread_cond_signal"];

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

    /// The name of the function at an address: one that is imported there, or the program's own, as in
    /// a static program.
    fn name_at(&self, address: u64) -> Option<String> {
        let own = || {
            Some(
                (self.named)(address)
                    .filter(|named| named.start == address)?
                    .name,
            )
        };
        let imported = self.imports.at(self.image, self.segments, address);
        imported.or_else(own)
    }

    /// The name of a function that is called, or jumped to. Code that is compiled with `-fno-plt` goes to
    /// imported functions through the words that the dynamic linker fills.
    fn name_of(&self, callee: Callee) -> Option<String> {
        match callee {
            Callee::At(address) => self.name_at(address),
            Callee::Through(word) => self.imports.through(self.image, word),
            Callee::Unknown => None,
        }
    }

    /// Whether a function may wake waiters: not if its name says that it does something else with a
    /// mutex.
    fn may_wake(&self, callee: Callee) -> bool {
        let name = self.name_of(callee);
        name.is_none_or(|name| CalledFunction::of(&name) == CalledFunction::Nothing)
    }

    /// The graph of a function, decoded once for all questions about it.
    fn graph(&self, symbol: &Symbol) -> Option<Rc<Graph>> {
        self.graphs.get(symbol.start, || {
            let size = symbol.size.min(MAX_FUNCTION);
            let code = code_at(self.image, self.segments, symbol.start, size)?;
            let of = |callee: Callee| {
                let name = self.name_of(callee);
                (
                    callee,
                    name.map_or(CalledFunction::Nothing, |name| CalledFunction::of(&name)),
                )
            };
            let known = |callees: &[Callee]| callees.iter().map(|callee| of(*callee)).collect();
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
            // A thread that has waited may unlock the mutex by a tail call as well.
            let wakes = around_wait.jumps_out(|callee| code.may_wake(callee));
            return around_wait.decided(&[wait], &wakes, until);
        }
        // A call through a pointer may have called anything.
        Flow::Call(Callee::Through(_) | Callee::Unknown) => {
            let mut wakes = around_wait.jumps_out(|callee| {
                code.name_of(callee)
                    .is_some_and(|name| WAKING.contains(&graph::plain(&name)))
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
