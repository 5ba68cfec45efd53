//! Of which functions the callers must be known, too.
//!
//! A barrier that is called by one function that many call is many barriers to
//! whoever reads the report. So from such a function the way is followed to its
//! caller. To follow it costs at every arrival: what has only one caller is left
//! alone, unless that leads to one with several.

use std::{
    cell::{Cell, OnceCell, RefCell},
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    rc::Rc,
    sync::Arc,
};

use rustc_hash::FxHashSet;
use sbt_common::MAX_CALLERS;

use super::{
    calls::{Call, Calls},
    elf::DynamicNames,
    files::ProbedFile,
};

/// How many calls are looked at to find them.
const MAX_VISITED: usize = 1 << 16;

/// How many jumps in a row are followed from function to function.
const MAX_JUMPS: usize = 8;

/// A function: its file's number, and its first address there.
pub(super) type At = (usize, u64);

/// A file whose calls are read when they are first asked for: most libraries of a program with
/// many call neither a barrier nor what calls one.
struct Entry {
    /// `None`: what it calls is not known without its calls.
    file: Option<Arc<ProbedFile>>,
    read: Box<dyn Fn() -> Option<Read>>,
    known: OnceCell<Option<Read>>,
}

/// What was read of a file.
#[derive(Clone)]
pub(super) struct Read {
    /// Its calls.
    pub(super) calls: Rc<Calls>,
    /// Functions of a language's library that were compiled into it: from them the way is
    /// followed whoever calls them.
    pub(super) of_libraries: HashSet<u64>,
}

impl Entry {
    fn read(&self) -> Option<&Read> {
        self.known.get_or_init(&self.read).as_ref()
    }

    fn may_call(&self, name: u64) -> bool {
        let file = self.file.as_ref();
        file.is_none_or(|file| file.dynamic_names().may_have(name))
    }
}

/// The program's own files and those of its libraries that the user may have
/// written, by number.
#[derive(Default)]
pub(super) struct Callers {
    files: BTreeMap<usize, Entry>,
    /// Functions that were seen to be called by a runtime: they begin threads
    /// or parallel regions.
    begun: HashSet<At>,
    /// The numbers of names of which it was asked who calls them.
    asked: RefCell<FxHashSet<u64>>,
    /// Whether it was asked of all files what they call through pointers.
    asked_pointers: Cell<bool>,
    /// Whether the last search has found as much as there is room for.
    is_full: Cell<bool>,
}

impl Callers {
    /// Adds a file that has been read.
    pub(super) fn add(&mut self, number: usize, calls: Rc<Calls>) {
        let read = Read {
            calls,
            of_libraries: HashSet::new(),
        };
        let entry = Entry {
            file: None,
            read: Box::new(|| None),
            known: OnceCell::from(Some(read)),
        };
        self.files.insert(number, entry);
    }

    /// Adds a file that is read when it is asked for, if it is not there.
    pub(super) fn expect(
        &mut self,
        number: usize,
        file: &Arc<ProbedFile>,
        read: impl Fn() -> Option<Read> + 'static,
    ) {
        self.files.entry(number).or_insert_with(|| Entry {
            file: Some(Arc::clone(file)),
            read: Box::new(read),
            known: OnceCell::new(),
        });
    }

    /// A file that was added, read now if it was not before.
    pub(super) fn file(&self, number: usize) -> Option<&Rc<Calls>> {
        Some(&self.files.get(&number)?.read()?.calls)
    }

    /// Whether a search may find more now that there is this file, too. `names`: see
    /// [`Self::walked`].
    pub(super) fn concerns(&self, file: &ProbedFile, names: &HashSet<String>) -> bool {
        let known = file.dynamic_names();
        let mut numbers = names.iter().map(|name| DynamicNames::number(name));
        if numbers.any(|number| known.may_have(number)) {
            return true;
        }
        let asked = self.asked.borrow();
        !self.is_full.get()
            && (self.asked_pointers.get() || known.numbers().any(|number| asked.contains(&number)))
    }

    /// Takes note that a runtime has called a function; whether that makes it one
    /// from which nobody walks any more. One with several callers is not: it may
    /// have been jumped to by what the runtime has called.
    pub(super) fn is_begun(&mut self, function: At) -> bool {
        self.calls_of(function).take(2).count() < 2 && self.begun.insert(function)
    }

    /// The calls of a function, other than by itself; each with its file. Those of its own
    /// file come first: others are read only if they are asked for.
    fn calls_of(&self, function: At) -> impl Iterator<Item = (usize, Call)> {
        let (number, start) = function;
        let own = self.file(number);
        let direct = own.map_or_else(Vec::new, |own| own.direct(start));
        let names = own.map_or(&[][..], |own| own.names(start));
        let others = names.iter().flat_map(|name| self.imported(name));
        // A function that jumps from several places to another is gone each time.
        let mut jumped = HashSet::new();
        let direct = direct.into_iter().map(move |call| (number, call));
        direct.chain(others).filter(move |(number, call)| {
            let from = self.function(*number, call.from);
            from != Some(function) && (call.returns || jumped.insert(from))
        })
    }

    fn imported(&self, name: &str) -> impl Iterator<Item = (usize, Call)> {
        let number = DynamicNames::number(name);
        self.asked.borrow_mut().insert(number);
        let files = self.files.iter();
        let files = files.filter(move |(_, entry)| entry.may_call(number));
        files.flat_map(move |(number, entry)| {
            let calls = entry
                .read()
                .map_or_else(Vec::new, |read| read.calls.imported(name));
            calls.into_iter().map(|call| (*number, call))
        })
    }

    /// The function with a return address, which is in it or just behind it.
    pub(super) fn function_of(&self, file: usize, address: u64) -> Option<At> {
        self.function(file, address.checked_sub(1)?)
    }

    fn function(&self, file: usize, vaddr: u64) -> Option<At> {
        Some((file, self.file(file)?.function(vaddr)?))
    }

    fn is_listed(&self, function: At) -> bool {
        let (file, start) = function;
        self.file(file).is_some_and(|file| file.is_listed(start))
    }

    /// Calls that may be of any function whose address stands in data.
    fn indirect(&self) -> impl Iterator<Item = (usize, Call)> {
        self.asked_pointers.set(true);
        self.files.iter().flat_map(|(number, entry)| {
            let calls = entry.read().map(|read| read.calls.indirect());
            let calls = calls.into_iter().flatten();
            calls.map(|call| (*number, call))
        })
    }

    /// Whether to go on from a function to its callers, when at most so many
    /// frames more can be seen: whether among these is one with several.
    pub(super) fn leads_on(&self, function: At, frames: usize) -> bool {
        self.leads_on_by(function, frames, MAX_JUMPS)
    }

    fn leads_on_by(&self, function: At, frames: usize, jumps: usize) -> bool {
        let (file, start) = function;
        let Some(own) = self.files.get(&file).and_then(Entry::read) else {
            return false;
        };
        if frames == 0 || self.begun.contains(&function) {
            return false;
        }
        // Two are as good as many.
        let calls: Vec<_> = self.calls_of(function).take(2).collect();
        if own.of_libraries.contains(&start) && !calls.is_empty() {
            return true;
        }
        match calls[..] {
            // By a pointer that was handed to somebody: who does that begins a
            // thread with it, and may call it himself besides.
            [] | [_] if own.calls.is_taken(start) => false,
            [(file, call)] if !own.calls.is_listed(start) => match self.function(file, call.from) {
                Some(caller) if call.returns => self.leads_on_by(caller, frames - 1, jumps),
                Some(caller) if jumps > 0 => self.leads_on_by(caller, frames, jumps - 1),
                _ => false,
            },
            // By several, by a table of methods, or by who knows whom.
            _ => true,
        }
    }

    /// The return addresses from which to walk, each with its file, when what
    /// is called is one of these functions or has one of these names; at most `limit`.
    pub(super) fn walked(
        &self,
        functions: &[At],
        names: &HashSet<String>,
        limit: usize,
    ) -> Vec<At> {
        let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
        names.sort_unstable();
        let functions = functions.iter().map(|function| Called::Function(*function));
        let all = functions.chain(names.into_iter().map(Called::Name));
        let mut search = Search {
            callers: self,
            queue: all.map(|called| (called, 1, MAX_JUMPS)).collect(),
            seen: HashMap::new(),
            frames: HashMap::new(),
            limit,
            left: MAX_VISITED,
            through_pointers: MAX_CALLERS,
        };
        search.visit();
        search.visit_pointers();
        self.is_full.set(search.is_full());
        let mut found: Vec<_> = search.frames.into_keys().collect();
        found.sort_unstable();
        found
    }
}

/// What is called.
#[derive(Clone, Copy, Debug)]
enum Called<'a> {
    Function(At),
    /// By whoever asks the dynamic linker for that name.
    Name(&'a str),
    /// Whatever a pointer points to.
    Pointers,
}

/// Goes from what is called to its callers, the nearest first: where there are more than there
/// is room for, those far away say least. Files that lie further are not even read then.
struct Search<'a> {
    callers: &'a Callers,
    /// What is to be visited; that the return addresses of its calls are frames of this number,
    /// from 1; and how many jumps in a row may still be followed from there.
    queue: VecDeque<(Called<'a>, usize, usize)>,
    /// With which frames and jumps functions have been visited.
    seen: HashMap<At, (usize, usize)>,
    /// What was found, and the fewest frames that led to it.
    frames: HashMap<At, usize>,
    /// How much of that is wanted.
    limit: usize,
    /// How many calls may still be looked at.
    left: usize,
    /// So many frames come at least before a call through a pointer.
    through_pointers: usize,
}

impl Search<'_> {
    /// Nothing more can be found.
    fn is_full(&self) -> bool {
        self.left == 0 || self.frames.len() >= self.limit
    }

    fn visit(&mut self) {
        let callers = self.callers;
        while let Some((called, frames, jumps)) = self.queue.pop_front() {
            let is_over = match called {
                Called::Function(function) => {
                    let seen = self.seen.get(&function);
                    if seen.is_some_and(|(seen, left)| *seen <= frames && *left >= jumps) {
                        continue;
                    }
                    self.seen.insert(function, (frames, jumps));
                    self.take(callers.calls_of(function), frames, jumps)
                }
                Called::Name(name) => self.take(callers.imported(name), frames, jumps),
                Called::Pointers => self.take(callers.indirect(), frames, jumps),
            };
            if is_over.is_none() {
                return;
            }
        }
    }

    /// Takes calls whose return address is frame number `frames`. `None`: it is over.
    fn take(
        &mut self,
        calls: impl Iterator<Item = (usize, Call)>,
        frames: usize,
        jumps: usize,
    ) -> Option<()> {
        for (file, call) in calls {
            if self.is_full() {
                return None;
            }
            self.left -= 1;
            let Some(function) = self.callers.function(file, call.from) else {
                continue;
            };
            if !call.returns {
                // It returns to whoever has called the function.
                if let Some(jumps) = jumps.checked_sub(1) {
                    self.queue
                        .push_front((Called::Function(function), frames, jumps));
                }
                continue;
            }
            let at = (file, call.next);
            let known = self.frames.get(&at);
            if known.is_some_and(|known| *known <= frames)
                || !self.callers.leads_on(function, MAX_CALLERS - frames)
            {
                continue;
            }
            self.frames.insert(at, frames);
            if self.callers.is_listed(function) {
                self.through_pointers = self.through_pointers.min(frames);
            }
            let outer = (Called::Function(function), frames + 1, MAX_JUMPS);
            self.queue.push_back(outer);
        }
        Some(())
    }

    /// Calls through pointers, any of which may have led to what was found. There
    /// may be more than there is room for: so they come last.
    fn visit_pointers(&mut self) {
        let mut looked_at = MAX_CALLERS;
        while self.through_pointers < looked_at && !self.is_full() {
            looked_at = self.through_pointers;
            self.queue
                .push_back((Called::Pointers, looked_at + 1, MAX_JUMPS));
            self.visit();
        }
    }
}

#[cfg(test)]
#[path = "callers_tests.rs"]
mod tests;
