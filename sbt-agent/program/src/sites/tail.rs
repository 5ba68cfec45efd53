//! Barriers that are the last act of a function: an optimising compiler makes a jump of the call, and
//! the barrier returns to the caller of the function. The call there says which function that was.

use std::{collections::HashSet, rc::Rc};

use sbt_engine::place::Frame;

use super::{Resolver, module::Module};
use crate::{
    arch::{self, Flow},
    elf::code_at,
    runtimes::regions::BARRIERS,
    walks::{Link, Owner, names_of, whole_barriers},
};

/// The most functions that are looked at on the ways from one function to barriers.
const MAX_LOOKS: usize = 16;

/// The most bytes of a function.
const MAX_LENGTH: u64 = 1 << 16;

/// Where a jump out of a function leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum To {
    /// A function of another file, by its name.
    Name(String),
    /// An address in the same file.
    At(u64),
}

/// A jump out of a function.
#[derive(Clone, Debug)]
pub(super) struct Leaving {
    /// The address behind the jump.
    pub(super) behind: u64,
    pub(super) to: To,
    /// Whether the jump is made under a condition.
    pub(super) is_branch: bool,
}

impl Module {
    /// The jumps out of the function that begins at an address; `None` if it is not known where each
    /// leads.
    pub(super) fn leaving(&self, start: u64) -> Option<Vec<Leaving>> {
        let unwind = self.file.unwind()?;
        let function = unwind
            .function(start)
            .filter(|function| function.start == start)?;
        let length = function.end - function.start;
        let code = code_at(unwind.image(), unwind.segments(), start, length)
            .filter(|_| length <= MAX_LENGTH)?;
        let mut leaving = Vec::new();
        for instruction in arch::decode(code.bytes, start) {
            let flow = instruction.flow();
            let to = match flow {
                Flow::Jump(to) | Flow::Branch(to) if (start..function.end).contains(&to) => {
                    continue;
                }
                Flow::Jump(to) | Flow::Branch(to) => self.stub_at(to).map_or(To::At(to), To::Name),
                Flow::Indirect(word) => To::Name(self.imports().through(self.image(), word?)?),
                _ => continue,
            };
            leaving.push(Leaving {
                behind: instruction.next(),
                to,
                is_branch: matches!(flow, Flow::Branch(_)),
            });
        }
        Some(leaving)
    }
}

/// Ways by jumps from a function to barriers: for each the addresses behind its jumps, the last jump
/// first.
pub(super) type Ways = Vec<Vec<u64>>;

/// Searches the ways from a function to barriers.
struct Search<'a> {
    module: &'a Module,
    /// The names of barriers.
    names: HashSet<String>,
    /// The barriers of the file itself.
    own: HashSet<u64>,
    /// The functions on the way so far.
    way: Vec<u64>,
    looks: usize,
}

impl Search<'_> {
    /// The ways from a function; `None` if the function may leave for anything else.
    fn ways(&mut self, function: u64) -> Option<Ways> {
        if self.way.contains(&function) {
            // Back from a part that compilers have put elsewhere.
            return Some(Vec::new());
        }
        self.looks += 1;
        if self.looks > MAX_LOOKS {
            return None;
        }
        self.way.push(function);
        let mut all = Vec::new();
        for Leaving { behind, to, .. } in self.module.leaving(function)? {
            let to = match to {
                To::Name(name) if self.names.contains(&name) => {
                    all.push(vec![behind]);
                    continue;
                }
                To::Name(_) => return None,
                To::At(to) => to,
            };
            let unwind = self.module.file.unwind()?;
            let next = unwind.function(to)?.start;
            if self.own.contains(&next) {
                all.push(vec![behind]);
            } else if next == to || self.way.contains(&next) {
                let ways = self.ways(next)?.into_iter();
                all.extend(ways.map(|way| [way, vec![behind]].concat()));
            } else {
                return None;
            }
        }
        self.way.pop();
        Some(all)
    }
}

impl Resolver {
    /// Puts the jump to a barrier before the call that the barrier returns to, if the called function
    /// leaves for barriers only, and from one place of the source.
    pub(super) fn place_tail(&mut self, chain: &mut Vec<(Link, Vec<Frame>)>) {
        let first = chain.first().filter(|(link, _)| link.owner == Owner::User);
        let Some((file, returns)) = first.map(|(link, _)| (link.file, link.address)) else {
            return;
        };
        let function = self.modules[file].called_directly(returns);
        let Some(function) = function.filter(|to| self.modules[file].stub_at(*to).is_none()) else {
            return;
        };
        let ways = self.tails(file, function);
        let mut ways = ways.iter().map(|way| {
            let jumps = way.iter().map(|behind| self.link(file, *behind));
            jumps.collect::<Vec<_>>()
        });
        let Some(way) = ways.next() else {
            return;
        };
        let places = |way: &[(Link, Vec<Frame>)]| -> Option<Vec<(String, u32)>> {
            let frames = way.iter().flat_map(|(_, frames)| frames);
            frames
                .map(|frame| frame.file.clone().zip(frame.line))
                .collect()
        };
        let same = |other: Vec<(Link, Vec<Frame>)>| {
            places(&way).is_some_and(|places_of_way| places(&other) == Some(places_of_way))
        };
        if ways.all(same) {
            chain.splice(..0, way);
        }
    }

    /// The ways from a function of a file to barriers; none if they are unknown,
    /// or if the function is a barrier itself.
    fn tails(&self, file: usize, function: u64) -> Rc<Ways> {
        let module = &self.modules[file];
        let key = (function, self.modules.len());
        if let Some(known) = module.tails.borrow().get(&key) {
            return Rc::clone(known);
        }
        let names = self.modules.iter();
        let names = names.flat_map(|module| whole_barriers(&module.file).flat_map(names_of));
        let names: HashSet<String> = names.chain(BARRIERS.map(str::to_owned)).collect();
        let may_jump =
            whole_barriers(&module.file).next().is_some() || module.file.imports_any(&names);
        if !may_jump {
            return Rc::default();
        }
        let own = module.file.unwind().map(|unwind| {
            let entries = whole_barriers(&module.file);
            let starts = entries.filter_map(|point| unwind.address(point.entry_offset));
            let functions = starts.filter_map(|start| Some(unwind.function(start)?.start));
            functions.collect::<HashSet<u64>>()
        });
        let mut search = Search {
            module,
            names,
            own: own.unwrap_or_default(),
            way: Vec::new(),
            looks: 0,
        };
        // The thread has arrived at the first of two barriers.
        let is_barrier = search.own.contains(&function);
        let ways = (!is_barrier).then(|| search.ways(function)).flatten();
        let ways = Rc::new(ways.unwrap_or_default());
        module.tails.borrow_mut().insert(key, Rc::clone(&ways));
        ways
    }
}
