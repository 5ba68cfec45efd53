//! How two calls of the target's code relate.

use std::collections::HashMap;

use super::{
    Resolver,
    module::{InCondition, function_at},
};
use crate::{alternatives, runtimes::c11, walks::Owner};
use sbt_engine::{
    place::{Frame, is_of_library, short},
    recognise::Relation,
};

/// The most functions around a wait, and around a wake, that may belong to a barrier.
const MAX_RELATED: usize = 3;

/// A function in which threads wait for each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meeting {
    /// The argument for `--barrier`.
    pub barrier: String,
    /// The function's name, and where it waits.
    pub place: String,
}

impl Resolver {
    /// How a call that waits and a call that wakes relate, by the chains of their return addresses,
    /// innermost first.
    pub fn relation(&mut self, wait: &[u64], wake: &[u64]) -> Relation {
        let (wait, wake) = behind_wrapper(wait, wake);
        let ([innermost_wait, ..], [innermost_wake, ..]) = (wait, wake) else {
            return Relation::Unknown;
        };
        let relation = self.relation_of(*innermost_wait, *innermost_wake, false);
        if relation != Relation::Apart {
            return relation;
        }
        // The code that waits for a condition, or wakes, may be a template of the library. Then its
        // caller counts, and the wait returns only when its condition is true.
        let ([own_wait, ..], [own_wake, ..]) = (self.handed_to(wait), self.handed_to(wake)) else {
            // The callers are not known yet: sbt learns step by step how far callers can be
            // followed.
            return Relation::Unknown;
        };
        if (own_wait, own_wake) != (innermost_wait, innermost_wake) {
            // C11's wait waits once, like the POSIX wait in it; and the caller of C11's functions
            // is always known.
            let of_c = self.is_in_condition_of_c(*innermost_wait);
            let until = own_wait != innermost_wait && !of_c;
            let relation = self.relation_of(*own_wait, *own_wake, until);
            if relation.is_of_barrier()
                || relation == Relation::Either
                || of_c && relation == Relation::InTurn
            {
                return relation;
            }
        }
        // The functions only wait, or only wake, on behalf of their callers. The callers may be a
        // barrier, but may also be a producer and a consumer.
        let near = |chain: &[u64]| chain.len().min(MAX_RELATED);
        let callers = wake[..near(wake)]
            .iter()
            .flat_map(|wake| wait[..near(wait)].iter().map(move |wait| (*wait, *wake)));
        for (wait, wake) in callers {
            let relation = self.relation_of(wait, wake, false);
            if relation.decides() || relation == Relation::Either {
                return Relation::Unknown;
            }
        }
        Relation::Apart
    }

    /// The part of a chain from the first call on that is not made inside of a library's condition
    /// variable: that of C++, of C (`cnd_wait`) or of Rust, whose calls also pass through its
    /// futexes.
    fn handed_to<'a>(&mut self, chain: &'a [u64]) -> &'a [u64] {
        let mut of_condition = false;
        let first = chain.iter().position(|address| {
            let call = address.wrapping_sub(1);
            let found = self.find(call).or_else(|| self.find_in_program(call));
            let found = found.map(|(module, vaddr)| self.in_condition(module, vaddr));
            let found = found.unwrap_or_default();
            of_condition |= found.is_of_it;
            !found.is_inside
        });
        match first {
            Some(first) if of_condition => &chain[first..],
            Some(_) => chain,
            None => &[],
        }
    }

    /// The role of a call in the condition variable of a library. Debug information is asked once
    /// for each call, however many others the call is compared with.
    pub(super) fn in_condition(&self, module: usize, vaddr: u64) -> InCondition {
        let known = &self.modules[module].conditions;
        if let Some(known) = known.borrow().get(&vaddr) {
            return *known;
        }
        let frames = self.frames(module, vaddr);
        // The outermost function, into which the others are inlined.
        let function = frames.last();
        let found = InCondition {
            is_of_it: frames.iter().any(is_condition),
            is_inside: function
                .is_some_and(|frame| is_condition(frame) || is_under_conditions(frame)),
            is_of_c: function.is_some_and(is_condition_of_c),
        };
        remember(&mut known.borrow_mut(), vaddr, found);
        found
    }

    /// The program's own function from which both of two calls come, by the chains of their return
    /// addresses; library functions in between are skipped. `None` if there is no such function
    /// that `--barrier` can name.
    pub fn meets_in(&mut self, wait: &[u64], wake: &[u64]) -> Option<Meeting> {
        let (wait, wake) = behind_wrapper(wait, wake);
        let (waits, wakes) = (self.own_call(wait)?, self.own_call(wake)?);
        let (module, vaddr, frame) = &waits;
        let debug = self.debug(*module)?;
        let unwind = None;
        let function = |vaddr: u64| Some(function_at(Some(debug), unwind, vaddr)?.start);
        let start = function(*vaddr)?;
        let same = wakes.0 == *module && function(wakes.1)? == start;
        if !same || frame.inlined || wakes.2.inlined {
            return None;
        }
        let name = frame.function.clone()?;
        let found = debug.functions(&name).unwrap_or_default();
        if found.len() != 1 || found[0].start != start {
            // `--barrier` would take all functions of that name.
            return None;
        }
        let barrier = if debug.first_is_pointer(start) == Some(true) {
            name.clone()
        } else {
            format!("{name}:0")
        };
        let place = match (&frame.file, frame.line) {
            (Some(file), Some(line)) => format!("{name} ({}:{line})", short(file)),
            _ => name,
        };
        Some(Meeting { barrier, place })
    }

    /// The function that makes both of two calls, if the chains of return addresses are too short
    /// to tell its callers apart: then the relation of the calls is unknown.
    pub fn wrapper_of(&mut self, wait: &[u64], wake: &[u64]) -> Option<String> {
        let (behind_wait, behind_wake) = behind_wrapper(wait, wake);
        let is_one = wait.first() == wake.first();
        if !is_one || !behind_wait.is_empty() && !behind_wake.is_empty() {
            return None;
        }
        let call = wait.first()?.wrapping_sub(1);
        let (module, vaddr) = self.find(call).or_else(|| self.find_in_program(call))?;
        self.frames(module, vaddr).pop()?.function
    }

    /// The innermost call of a chain in the program's own code: its file, its address and its
    /// frame.
    fn own_call(&mut self, chain: &[u64]) -> Option<(usize, u64, Frame)> {
        chain.iter().find_map(|address| {
            let call = address.wrapping_sub(1);
            let (module, vaddr) = self.find(call).or_else(|| self.find_in_program(call))?;
            if self.modules[module].owner != Owner::User {
                return None;
            }
            let mut frames = self.frames(module, vaddr).into_iter();
            let frame = frames.find(|frame| !frame.is_of_library())?;
            Some((module, vaddr, frame))
        })
    }

    /// How two calls relate, by their return addresses. `until`: the wait returns only when its
    /// condition is true.
    fn relation_of(&mut self, wait: u64, wake: u64, until: bool) -> Relation {
        let mut find = |address: u64| {
            let call = address.wrapping_sub(1);
            if self.find(call).is_none() {
                self.refresh();
            }
            let found = self.find(call).or_else(|| self.find_in_program(call));
            found.map(|(module, vaddr)| (module, vaddr.wrapping_add(1)))
        };
        let (Some(wait), Some(wake)) = (find(wait), find(wake)) else {
            return Relation::Unknown;
        };
        if wait.0 != wake.0 {
            return Relation::Apart;
        }
        let pair = (wait.1, wake.1, until);
        if let Some(known) = self.modules[wake.0].relations.borrow().get(&pair) {
            return *known;
        }
        let found = self.with_code(wake.0, |code| {
            alternatives::relation(code, wait.1, wake.1, until)
        });
        let known = &self.modules[wake.0].relations;
        remember(&mut known.borrow_mut(), pair, found);
        found
    }

    /// For a chain of return addresses, the functions in whose code a barrier may keep threads out
    /// until all have left: that of the innermost call, and that of the first call outside of a
    /// library's condition variable. Two calls in different functions do not belong to one such
    /// barrier. `None` if the code has no such barrier.
    pub fn phase_functions(&mut self, chain: &[u64]) -> [Option<(usize, u64)>; 2] {
        let Some(innermost) = chain.first().copied() else {
            return [None; 2];
        };
        let own = self.handed_to(chain).first().copied();
        let own = own.filter(|own| *own != innermost);
        [Some(innermost), own].map(|address| self.phase_function(address?))
    }

    fn phase_function(&mut self, address: u64) -> Option<(usize, u64)> {
        let call = address.wrapping_sub(1);
        let (number, vaddr) = self.find(call).or_else(|| self.find_in_program(call))?;
        let start = self.with_code(number, |code| {
            alternatives::with_phases(code, vaddr.wrapping_add(1))
        })?;
        Some((number, start))
    }

    fn with_code<T>(&mut self, number: usize, ask: impl FnOnce(&alternatives::Code<'_>) -> T) -> T {
        let module = &self.modules[number];
        let unwind = module.file.unwind();
        let debug = self.debug(number);
        ask(&alternatives::Code {
            image: module.image(),
            segments: &module.segments,
            imports: module.imports(),
            graphs: &module.graphs,
            function: &|address| function_at(debug, unwind.as_deref(), address),
            named: &|address| debug?.spanning(address),
        })
    }
}

/// The most calls, or pairs of calls, of a file whose results are remembered.
const MAX_REMEMBERED: usize = 1 << 16;

fn remember<K: Eq + std::hash::Hash, V>(known: &mut HashMap<K, V>, key: K, value: V) {
    if known.len() >= MAX_REMEMBERED {
        known.clear();
    }
    known.insert(key, value);
}

/// The parts of two chains, innermost first, from where they differ. If the innermost calls are the
/// same, the function serves for both waiting and waking, and says nothing about their relation:
/// its callers do. A part is empty if its whole chain is common to both.
fn behind_wrapper<'a>(wait: &'a [u64], wake: &'a [u64]) -> (&'a [u64], &'a [u64]) {
    let pairs = wait.iter().zip(wake);
    let same = pairs.take_while(|(wait, wake)| wait == wake).count();
    (&wait[same..], &wake[same..])
}

/// Whether code belongs to a library's condition variable.
fn is_condition(frame: &Frame) -> bool {
    let is_of_it = |text: &Option<String>| {
        let mut texts = text.iter();
        texts.any(|text| text.contains("condition_variable"))
    };
    let of_rust = |file: &str| is_of_library(file) && file.contains("/condvar");
    frame.is_of_library() && is_of_it(&frame.file)
        || frame.file.is_none() && is_of_it(&frame.function)
        || is_condition_of_c(frame)
        || frame.file.as_deref().is_some_and(of_rust)
}

/// Whether code belongs to C11's condition variables, which the C library builds from those of
/// POSIX.
pub(super) fn is_condition_of_c(frame: &Frame) -> bool {
    let named = frame.function.as_deref().unwrap_or_default();
    c11::is_condition(named)
}

/// Whether code belongs to Rust's library below its condition variables.
fn is_under_conditions(frame: &Frame) -> bool {
    let mut files = frame.file.iter();
    files.any(|file| is_of_library(file) && file.contains("/std/src/sys/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_both_waits_and_wakes_is_left_for_its_callers() {
        assert_eq!(behind_wrapper(&[1, 2], &[3, 2]), (&[1, 2][..], &[3, 2][..]));
        assert_eq!(behind_wrapper(&[9, 8, 1], &[9, 8, 2]), (&[1][..], &[2][..]));
        let nothing: &[u64] = &[];
        assert_eq!(behind_wrapper(&[9], &[9]), (nothing, nothing));
        assert_eq!(behind_wrapper(&[9], &[9, 2]), (nothing, &[2][..]));
    }
}
