//! For which functions the callers must be known, too.
//!
//! A barrier that is called by one function with many callers is many barriers to the reader of the
//! report. So sbt walks the stack from such a function to its caller. Each walk costs time at every
//! arrival: a function with only one caller is not walked from, unless that caller leads to a
//! function with several callers.
//!
//! To search a large file for callers takes longer than a short program runs. So a file with much
//! code is searched only if it uses barriers themselves, and not for functions that may be part of
//! one: there every function counts as called from several places, and a caller is learned when it is
//! first seen.

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

/// The most calls that one search looks at.
const MAX_VISITED: usize = 1 << 16;

/// The most jumps in a row that are followed from function to function.
const MAX_JUMPS: usize = 8;

/// A function or an address: the number of its file, and the virtual address in it.
pub(super) type At = (usize, u64);

/// A file whose calls are read on first use: most libraries of a program that has many call neither
/// a barrier nor a caller of one.
struct Entry {
    /// `None` if the names that the file may call are known only after its calls are read.
    file: Option<Arc<ProbedFile>>,
    read: Box<dyn Fn() -> Option<Read>>,
    known: OnceCell<Option<Read>>,
    is_searched: bool,
}

/// The data read from a file.
#[derive(Clone)]
pub(super) struct Read {
    /// The calls in the file.
    pub(super) calls: Rc<Calls>,
    /// Functions of a language's library that were compiled into the file: sbt walks from them to
    /// their caller, however many callers they have.
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

    /// The data of a file that is searched.
    fn searched(&self) -> Option<&Read> {
        self.is_searched.then(|| self.read()).flatten()
    }
}

/// The program's own files and the libraries that the user may have written, by number.
#[derive(Default)]
pub(super) struct Callers {
    files: BTreeMap<usize, Entry>,
    /// Functions that a runtime has called: they begin threads or parallel regions.
    begun: HashSet<At>,
    /// The hashes of the names whose callers were asked for.
    asked: RefCell<FxHashSet<u64>>,
    /// Whether the calls through pointers of all files were asked for.
    asked_pointers: Cell<bool>,
    /// Whether the last search has reached its limit.
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
            is_searched: true,
        };
        self.files.insert(number, entry);
    }

    /// Adds a file that is read on first use, if the file is not known yet. `is_searched`: whether it
    /// is searched for callers from now on, if it was not before.
    pub(super) fn expect(
        &mut self,
        number: usize,
        file: &Arc<ProbedFile>,
        is_searched: bool,
        read: impl Fn() -> Option<Read> + 'static,
    ) {
        let entry = self.files.entry(number).or_insert_with(|| Entry {
            file: Some(Arc::clone(file)),
            read: Box::new(read),
            known: OnceCell::new(),
            is_searched,
        });
        entry.is_searched |= is_searched;
    }

    /// The calls of a file that was added; reads the file if necessary.
    pub(super) fn file(&self, number: usize) -> Option<&Rc<Calls>> {
        Some(&self.files.get(&number)?.read()?.calls)
    }

    /// Whether a search may find more now that this file is known, too. `names`: see
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

    /// Records that a runtime has called a function. Returns whether sbt now stops walking from
    /// this function. A function with several callers is not recorded: the function that the
    /// runtime has called may have jumped to it.
    pub(super) fn is_begun(&mut self, function: At) -> bool {
        self.calls_of(function).take(2).count() < 2 && self.begun.insert(function)
    }

    /// The calls of a function except for those by itself, each with its file. Calls from the
    /// function's own file come first: other files are read only if the iterator gets there.
    fn calls_of(&self, function: At) -> impl Iterator<Item = (usize, Call)> {
        let (number, start) = function;
        let own = self.searched(number).map(|read| &read.calls);
        let direct = own.map_or_else(Vec::new, |own| own.direct(start));
        let names = own.map_or(&[][..], |own| own.names(start));
        let others = names.iter().flat_map(|name| self.imported(name));
        // A function that jumps to another from several places counts once.
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
                .searched()
                .map_or_else(Vec::new, |read| read.calls.imported(name));
            calls.into_iter().map(|call| (*number, call))
        })
    }

    /// The function that contains a return address; the address may lie just behind the function.
    pub(super) fn function_of(&self, file: usize, address: u64) -> Option<At> {
        self.function(file, address.checked_sub(1)?)
    }

    fn function(&self, file: usize, vaddr: u64) -> Option<At> {
        Some((file, self.file(file)?.function(vaddr)?))
    }

    fn is_listed(&self, function: At) -> bool {
        let (file, start) = function;
        let read = self.searched(file);
        read.is_some_and(|read| read.calls.is_listed(start))
    }

    /// The data of a file, if it is searched.
    fn searched(&self, number: usize) -> Option<&Read> {
        self.files.get(&number)?.searched()
    }

    /// Whether a file that is not searched may call one of these functions.
    fn may_be_called_unseen(&self, names: &[String]) -> bool {
        let mut unseen = self.files.values().filter(|entry| !entry.is_searched);
        unseen.any(|entry| {
            let mut numbers = names.iter().map(|name| DynamicNames::number(name));
            let file = entry.file.as_ref();
            numbers.any(|number| file.is_none_or(|file| file.dynamic_names().may_import(number)))
        })
    }

    /// Calls through pointers, which may call any function whose address stands in data.
    fn indirect(&self) -> impl Iterator<Item = (usize, Call)> {
        self.asked_pointers.set(true);
        self.files.iter().flat_map(|(number, entry)| {
            let calls = entry.searched().map(|read| read.calls.indirect());
            let calls = calls.into_iter().flatten();
            calls.map(|call| (*number, call))
        })
    }

    /// Whether to walk on from a function to its callers, when at most `frames` more frames can be
    /// seen: whether one of these frames has several callers.
    pub(super) fn leads_on(&self, function: At, frames: usize) -> bool {
        self.leads_on_by(function, frames, MAX_JUMPS)
    }

    fn leads_on_by(&self, function: At, frames: usize, jumps: usize) -> bool {
        let (file, start) = function;
        if frames == 0 || self.begun.contains(&function) {
            return false;
        }
        let Some(entry) = self.files.get(&file) else {
            return false;
        };
        if !entry.is_searched {
            return true;
        }
        let Some(own) = entry.read() else {
            return false;
        };
        if self.may_be_called_unseen(own.calls.names(start)) {
            return true;
        }
        // The decision depends on whether there are no, one or more calls.
        let calls: Vec<_> = self.calls_of(function).take(2).collect();
        if own.of_libraries.contains(&start) && !calls.is_empty() {
            return true;
        }
        match calls[..] {
            // The function's address is taken: whoever gets the pointer begins a thread with it,
            // even if there is one direct call besides.
            [] | [_] if own.calls.is_taken(start) => false,
            [(file, call)] if !own.calls.is_listed(start) => match self.function(file, call.from) {
                Some(caller) if call.returns => self.leads_on_by(caller, frames - 1, jumps),
                Some(caller) if jumps > 0 => self.leads_on_by(caller, frames, jumps - 1),
                _ => false,
            },
            // Called from several places, through a table of methods, or by unknown callers.
            _ => true,
        }
    }

    /// The return addresses from which to walk, each with its file, for calls of any of these
    /// functions or names; at most `limit`.
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

/// The target of a call.
#[derive(Clone, Copy, Debug)]
enum Called<'a> {
    Function(At),
    /// A function that is called by its name through the dynamic linker.
    Name(&'a str),
    /// Any function that a pointer may point to.
    Pointers,
}

/// Searches from the called functions to their callers, the nearest first: if the limit is reached,
/// distant callers are missing, which say least. Files of distant callers are not even read then.
struct Search<'a> {
    callers: &'a Callers,
    /// Targets to visit, each with the number (from 1) of the frame that the return addresses of
    /// its calls are, and with how many jumps in a row may still be followed.
    queue: VecDeque<(Called<'a>, usize, usize)>,
    /// The frame and the number of jumps with which functions have been visited.
    seen: HashMap<At, (usize, usize)>,
    /// The return addresses that were found, with the fewest frames that led there.
    frames: HashMap<At, usize>,
    /// The most return addresses that are wanted.
    limit: usize,
    /// The number of calls that may still be looked at.
    left: usize,
    /// The fewest frames before a call through a pointer.
    through_pointers: usize,
}

impl Search<'_> {
    /// Whether the search has reached a limit.
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

    /// Takes calls whose return address is frame number `frames`. Returns `None` when the search
    /// has reached a limit.
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
                // A call by a jump returns to the caller of the function.
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

    /// Visits calls through pointers, any of which may have led to the functions that were found.
    /// These calls may be more than the limit: so they come last.
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
