//! How two calls of the target's code stand to each other.

use super::{Resolver, module::function_at};
use crate::{
    place::Frame,
    recognise::Relation,
    target::{alternatives, walks::Owner},
};

/// So many functions around a wait, and around a wake, may belong to a barrier.
const MAX_RELATED: usize = 3;

impl Resolver {
    /// How two calls stand to each other, by their return addresses: one of a
    /// function that waits and one of a function that wakes.
    pub fn relation(&mut self, wait: &[u64], wake: &[u64]) -> Relation {
        let ([innermost_wait, ..], [innermost_wake, ..]) = (wait, wake) else {
            return Relation::Unknown;
        };
        let relation = self.relation_of(*innermost_wait, *innermost_wake);
        if relation != Relation::Apart {
            return relation;
        }
        // What a language's library puts between does no more than to hand it on: a wait for
        // a condition, say, that is a template.
        let ([own_wait, ..], [own_wake, ..]) = (self.own_part(wait), self.own_part(wake)) else {
            // It is not known yet to whom: how far callers can be followed is learned.
            return Relation::Unknown;
        };
        if (own_wait, own_wake) != (innermost_wait, innermost_wake)
            && self.relation_of(*own_wait, *own_wake) == Relation::Alternatives
        {
            return Relation::Alternatives;
        }
        // Functions that only wait, or only wake, for others. Whoever calls the one
        // or the other may be a barrier, but also somebody who makes or takes.
        let near = |chain: &[u64]| chain.len().min(MAX_RELATED);
        let callers = wake[..near(wake)]
            .iter()
            .flat_map(|wake| wait[..near(wait)].iter().map(move |wait| (*wait, *wake)));
        for (wait, wake) in callers {
            if self.relation_of(wait, wake) == Relation::Alternatives {
                return Relation::Unknown;
            }
        }
        Relation::Apart
    }

    /// From the first call on that is not made in a library of a language.
    fn own_part<'a>(&mut self, chain: &'a [u64]) -> &'a [u64] {
        let first = chain.iter().position(|address| {
            let call = address.wrapping_sub(1);
            let found = self.find(call).or_else(|| self.find_in_program(call));
            found.is_some_and(|(module, vaddr)| {
                let frames = self.frames(module, vaddr);
                self.modules[module].owner == Owner::User
                    && (frames.is_empty() || !frames.iter().all(Frame::is_of_library))
            })
        });
        first.map_or(&[], |first| &chain[first..])
    }

    fn relation_of(&mut self, wait: u64, wake: u64) -> Relation {
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
        let function = |address: u64| function_at(debug, unwind.as_deref(), address);
        alternatives::relation(&image, &module.segments, &function, wait.1, wake.1)
    }
}
