//! How two calls of the target's code stand to each other.

use super::{Resolver, module::function_at};
use crate::{place::Frame, recognise::Relation, target::alternatives};

/// So many functions around a wait, and around a wake, may belong to a barrier.
const MAX_RELATED: usize = 3;

impl Resolver {
    /// How two calls stand to each other, by their return addresses: one of a
    /// function that waits and one of a function that wakes.
    pub fn relation(&mut self, wait: &[u64], wake: &[u64]) -> Relation {
        let ([innermost_wait, ..], [innermost_wake, ..]) = (wait, wake) else {
            return Relation::Unknown;
        };
        let relation = self.relation_of(*innermost_wait, *innermost_wake, false);
        if relation != Relation::Apart {
            return relation;
        }
        // A wait for a condition, or what wakes, may be a template of the library: who has called
        // it is meant, and it waits until its condition is true.
        let ([own_wait, ..], [own_wake, ..]) = (self.handed_to(wait), self.handed_to(wake)) else {
            // It is not known yet by whom: how far callers can be followed is learned.
            return Relation::Unknown;
        };
        if (own_wait, own_wake) != (innermost_wait, innermost_wake) {
            let until = own_wait != innermost_wait;
            let relation = self.relation_of(*own_wait, *own_wake, until);
            if relation.is_of_barrier() {
                return relation;
            }
        }
        // Functions that only wait, or only wake, for others. Whoever calls the one
        // or the other may be a barrier, but also somebody who makes or takes.
        let near = |chain: &[u64]| chain.len().min(MAX_RELATED);
        let callers = wake[..near(wake)]
            .iter()
            .flat_map(|wake| wait[..near(wait)].iter().map(move |wait| (*wait, *wake)));
        for (wait, wake) in callers {
            if self.relation_of(wait, wake, false).decides() {
                return Relation::Unknown;
            }
        }
        Relation::Apart
    }

    /// From the first call on that is not made in a condition variable of C++ itself.
    fn handed_to<'a>(&mut self, chain: &'a [u64]) -> &'a [u64] {
        let is_of_it = |text: &Option<String>| {
            text.as_deref()
                .is_some_and(|text| text.contains("condition_variable"))
        };
        let first = chain.iter().position(|address| {
            let call = address.wrapping_sub(1);
            let found = self.find(call).or_else(|| self.find_in_program(call));
            let frames = found.map(|(module, vaddr)| self.frames(module, vaddr));
            // The function, whatever is inlined into it.
            let function = frames.as_deref().and_then(<[Frame]>::last);
            !function.is_some_and(|frame| {
                frame.is_of_library() && is_of_it(&frame.file)
                    || frame.file.is_none() && is_of_it(&frame.function)
            })
        });
        first.map_or(&[], |first| &chain[first..])
    }

    /// `until`: what is called waits until its condition is true.
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
        let module = &self.modules[wake.0];
        let Ok(image) = module.file.image() else {
            return Relation::Unknown;
        };
        let unwind = self.walks.unwind(wake.0, &module.file);
        let debug = self.debug(wake.0);
        let code = alternatives::Code {
            image: &image,
            segments: &module.segments,
            function: &|address| function_at(debug, unwind.as_deref(), address),
            names: &|addresses| {
                let named = debug.map(|debug| debug.spanning(addresses));
                named.unwrap_or_default()
            },
        };
        alternatives::relation(&code, wait.1, wake.1, until)
    }
}
