//! Of which functions the callers must be known, too.
//!
//! A barrier that is called by one function that many call is many barriers to
//! whoever reads the report. So from such a function the way is followed to its
//! caller. To follow it costs at every arrival: what has only one caller is left
//! alone, unless that leads to one with several.

use std::{
    collections::{HashMap, HashSet},
    rc::Rc,
};

use sbt_common::MAX_CALLERS;

use super::calls::{Call, Calls};

/// More return addresses than this are not walked from.
const MAX_WALKED: usize = 1024;

/// How many calls are looked at to find them.
const MAX_VISITED: usize = 1 << 16;

/// How many jumps in a row are followed from function to function.
const MAX_JUMPS: usize = 8;

/// A function: its file's number, and its first address there.
pub(super) type At = (usize, u64);

/// The program's own files and those of its libraries that the user may have
/// written, by number.
#[derive(Debug, Default)]
pub(super) struct Callers {
    files: HashMap<usize, Rc<Calls>>,
    /// Functions that were seen to be called by a runtime: they begin threads
    /// or parallel regions.
    begun: HashSet<At>,
    /// Functions of a language's library that were compiled into these files: from
    /// them the way is followed whoever calls them.
    of_libraries: HashSet<At>,
}

impl Callers {
    /// Adds a file.
    pub(super) fn add(&mut self, number: usize, calls: Rc<Calls>) {
        self.files.insert(number, calls);
    }

    /// Takes note of functions of a language's library in a file.
    pub(super) fn add_of_libraries(&mut self, number: usize, functions: &[u64]) {
        let functions = functions.iter().map(|start| (number, *start));
        self.of_libraries.extend(functions);
    }

    /// A file that was added.
    pub(super) fn file(&self, number: usize) -> Option<&Rc<Calls>> {
        self.files.get(&number)
    }

    /// Takes note that a runtime has called a function; whether that makes it one
    /// from which nobody walks any more. One with several callers is not: it may
    /// have been jumped to by what the runtime has called.
    pub(super) fn is_begun(&mut self, function: At) -> bool {
        self.calls_of(function).len() < 2 && self.begun.insert(function)
    }

    /// The calls of a function, other than by itself; each with its file.
    fn calls_of(&self, function: At) -> Vec<(usize, Call)> {
        let (file, start) = function;
        let Some(own) = self.files.get(&file) else {
            return Vec::new();
        };
        let mut found: Vec<_> = own.direct(start).iter().map(|call| (file, *call)).collect();
        for name in own.names(start) {
            found.extend(self.imported(name));
        }
        // A function that jumps from several places to another is gone each time.
        let mut jumped = HashSet::new();
        found.retain(|(number, call)| {
            let from = self.function(*number, call.from);
            from != Some(function) && (call.returns || jumped.insert(from))
        });
        found
    }

    fn imported(&self, name: &str) -> impl Iterator<Item = (usize, Call)> {
        self.files
            .iter()
            .flat_map(move |(number, file)| file.imported(name).iter().map(|call| (*number, *call)))
    }

    /// The function with a return address, which is in it or just behind it.
    pub(super) fn function_of(&self, file: usize, address: u64) -> Option<At> {
        self.function(file, address.checked_sub(1)?)
    }

    fn function(&self, file: usize, vaddr: u64) -> Option<At> {
        Some((file, self.files.get(&file)?.function(vaddr)?))
    }

    fn is_listed(&self, function: At) -> bool {
        let (file, start) = function;
        self.files
            .get(&file)
            .is_some_and(|file| file.is_listed(start))
    }

    /// Calls that may be of any function whose address stands in data.
    fn indirect(&self) -> Vec<(usize, Call)> {
        let files = self.files.iter();
        files
            .flat_map(|(number, file)| file.indirect().iter().map(|call| (*number, *call)))
            .collect()
    }

    /// Whether to go on from a function to its callers, when at most so many
    /// frames more can be seen: whether among these is one with several.
    pub(super) fn leads_on(&self, function: At, frames: usize) -> bool {
        self.leads_on_by(function, frames, MAX_JUMPS)
    }

    fn leads_on_by(&self, function: At, frames: usize, jumps: usize) -> bool {
        let (file, start) = function;
        let Some(own) = self.files.get(&file) else {
            return false;
        };
        if frames == 0 || self.begun.contains(&function) {
            return false;
        }
        let calls = self.calls_of(function);
        if self.of_libraries.contains(&function) && !calls.is_empty() {
            return true;
        }
        match calls[..] {
            // By a pointer that was handed to somebody: who does that begins a
            // thread with it, and may call it himself besides.
            [] | [_] if own.is_taken(start) => false,
            [(file, call)] if !own.is_listed(start) => match self.function(file, call.from) {
                Some(caller) if call.returns => self.leads_on_by(caller, frames - 1, jumps),
                Some(caller) if jumps > 0 => self.leads_on_by(caller, frames, jumps - 1),
                _ => false,
            },
            // By several, by a table of methods, or by who knows whom.
            _ => true,
        }
    }

    /// The return addresses from which to walk, each with its file, when what
    /// is called is one of these functions or has one of these names.
    pub(super) fn walked(&self, functions: &[At], names: &HashSet<String>) -> Vec<At> {
        let mut search = Search {
            callers: self,
            frames: HashMap::new(),
            left: MAX_VISITED,
            through_pointers: MAX_CALLERS,
        };
        for function in functions {
            search.visit(&self.calls_of(*function), 1, MAX_JUMPS);
        }
        for name in names {
            let calls: Vec<_> = self.imported(name).collect();
            search.visit(&calls, 1, MAX_JUMPS);
        }
        search.visit_pointers();
        let mut found: Vec<_> = search.frames.into_keys().collect();
        found.sort_unstable();
        found
    }
}

struct Search<'a> {
    callers: &'a Callers,
    /// What was found, and the fewest frames that led to it.
    frames: HashMap<At, usize>,
    /// How many calls may still be looked at.
    left: usize,
    /// So many frames come at least before a call through a pointer.
    through_pointers: usize,
}

impl Search<'_> {
    /// Takes calls whose return address is frame number `frames`, from 1.
    fn visit(&mut self, calls: &[(usize, Call)], frames: usize, jumps: usize) {
        for (file, call) in calls {
            let Some(left) = self.left.checked_sub(1) else {
                return;
            };
            self.left = left;
            let Some(function) = self.callers.function(*file, call.from) else {
                continue;
            };
            if !call.returns {
                // It returns to whoever has called the function.
                if jumps > 0 {
                    self.visit(&self.callers.calls_of(function), frames, jumps - 1);
                }
                continue;
            }
            let known = self.frames.get(&(*file, call.next));
            if known.is_some_and(|known| *known <= frames)
                || known.is_none() && self.frames.len() >= MAX_WALKED
                || !self.callers.leads_on(function, MAX_CALLERS - frames)
            {
                continue;
            }
            self.frames.insert((*file, call.next), frames);
            self.visit(&self.callers.calls_of(function), frames + 1, MAX_JUMPS);
            if self.callers.is_listed(function) {
                self.through_pointers = self.through_pointers.min(frames);
            }
        }
    }

    /// Calls through pointers, any of which may have led to what was found. There
    /// may be more than there is room for: so they come last.
    fn visit_pointers(&mut self) {
        let mut looked_at = MAX_CALLERS;
        while self.through_pointers < looked_at {
            looked_at = self.through_pointers;
            self.visit(&self.callers.indirect(), looked_at + 1, MAX_JUMPS);
        }
    }
}

#[cfg(test)]
#[path = "callers_tests.rs"]
mod tests;
