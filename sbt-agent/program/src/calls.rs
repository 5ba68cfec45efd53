//! Calls between the functions of a file: found by decoding the functions that may contain such a
//! call, each once.

mod suspects;

use std::cell::{OnceCell, RefCell};
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use object::read::elf::ElfFile64;
use object::{
    LittleEndian, Object as _, ObjectKind, ObjectSection as _, RelocationFlags, RelocationTarget,
};

use super::arch::{
    self, Callee, Flow,
    files::{ABSOLUTE, RELATIVE, SLOTS},
};
use super::elf::{self, Segment, code_at, names};
use super::unwind::{Function, Unwind};
use suspects::{Suspects, Wanted};

/// The most bytes of code: files with more code are not analysed, because decoding takes too long.
const MAX_CODE: u64 = 64 << 20;

/// The most bytes of data in which pointers are looked for.
const MAX_DATA: u64 = 64 << 20;

/// The most bytes of symbol names that are kept. Beyond that, calls of functions in other files are
/// unknown.
const MAX_NAMES: usize = 1 << 26;

/// The most tables of stubs that are told from functions; linkers make three.
const MAX_STUBS: usize = 16;

/// The most places that are read in the tables of stubs.
const MAX_STUBS_READ: usize = 1 << 18;

/// The length of the shortest stubs, bytes; the others are twice as long.
const STUB: usize = 8;

/// The most calls of one function that are looked at: a function with several callers is walked
/// from, however many they are.
const MAX_CALLS: usize = 1 << 10;

/// The most calls through pointers that are looked at.
const MAX_INDIRECT: usize = 1 << 16;

/// The most names that are kept for one function.
const MAX_ALIASES: usize = 64;

/// The most relocations that are read.
const MAX_RELOCATIONS: usize = 1 << 22;

/// A call, or a jump from one function to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Call {
    /// The address of the called function; 0 for a function of another file.
    target: u64,
    /// The address of the instruction.
    pub(super) from: u64,
    /// The address of the next instruction: where a call returns to.
    pub(super) next: u64,
    /// True for a call, false for a jump.
    pub(super) returns: bool,
}

/// The calls in a file. A function is decoded, once, when a question concerns an address to which
/// it may refer.
#[derive(Debug)]
pub(super) struct Calls {
    unwind: Arc<Unwind>,
    /// Read on first use, since a file that is not searched needs none of this.
    links: OnceCell<Links>,
    suspects: Suspects,
    /// Whether the file can only be loaded at the addresses that it names.
    is_fixed: bool,
    /// The stubs by which the function of a name is called.
    stubs: OnceCell<HashMap<String, Vec<u64>>>,
    /// Functions whose address stands in data, such as a table of methods.
    listed: OnceCell<HashSet<u64>>,
    found: RefCell<References>,
}

/// The references in the functions that have been decoded.
#[derive(Debug, Default)]
struct References {
    /// The indices of the decoded functions.
    decoded: HashSet<usize>,
    /// Calls of functions of this file, by target.
    direct: HashMap<u64, Vec<Call>>,
    /// Jumps into the middle of functions, by the start of the function.
    inside: HashMap<u64, Vec<Call>>,
    /// Calls by the symbol that the dynamic linker looks up.
    imported: HashMap<String, Vec<Call>>,
    /// Calls through pointers, by the index of the calling function.
    indirect: HashMap<usize, Vec<Call>>,
    /// Functions whose address is taken in code, for any purpose.
    taken: HashSet<u64>,
    /// Functions whose address code reads from a word that the dynamic linker fills in.
    listed: HashSet<u64>,
    /// For addresses that are not the start of a function: the symbol behind the stub there; `None`
    /// if there is no stub.
    stubs: HashMap<u64, Option<String>>,
    /// Functions and symbols for which all code that refers to them has been decoded.
    settled: HashSet<u64>,
    settled_names: HashSet<String>,
}

impl Calls {
    /// `None` if the file has more than [`MAX_CODE`] bytes of code.
    pub(super) fn of(unwind: Arc<Unwind>) -> Option<Self> {
        if elf::length_of_code(unwind.image()) > MAX_CODE {
            return None;
        }
        let file = ElfFile64::<LittleEndian>::parse(unwind.image()).ok()?;
        let is_fixed = file.kind() == ObjectKind::Executable;
        Some(Self {
            unwind,
            suspects: Suspects::default(),
            is_fixed,
            links: OnceCell::new(),
            stubs: OnceCell::new(),
            listed: OnceCell::new(),
            found: RefCell::default(),
        })
    }

    fn links(&self) -> &Links {
        self.links.get_or_init(|| {
            let file = ElfFile64::<LittleEndian>::parse(self.unwind.image());
            file.map_or_else(|_| Links::default(), |file| Links::of(&file, &self.unwind))
        })
    }

    /// Decodes all functions that may refer to a function.
    fn settle(&self, start: u64) {
        if !self.found.borrow_mut().settled.insert(start) {
            return;
        }
        let Some(function) = self.unwind.function(start) else {
            return;
        };
        let words = self.links().words_of.get(&start).into_iter().flatten();
        let mut ranges: Vec<_> = words.map(|word| *word..word.saturating_add(1)).collect();
        ranges.push(function.start..function.end);
        self.decode_suspects(&ranges);
        self.decode(suspects::near(self.unwind.functions(), function));
    }

    fn decode_suspects(&self, ranges: &[Range<u64>]) {
        let suspects = self.suspects.to(&self.wanted(), ranges);
        self.decode(suspects.into_iter());
    }

    fn wanted(&self) -> Wanted<'_> {
        Wanted {
            image: self.unwind.image(),
            segments: self.unwind.segments(),
            functions: self.unwind.functions(),
            words: self.links().words.clone(),
            is_fixed: self.is_fixed,
        }
    }

    fn stubs(&self) -> &HashMap<String, Vec<u64>> {
        self.stubs.get_or_init(|| {
            let (unwind, links) = (&*self.unwind, self.links());
            let is_no_function = |target: &u64| !unwind.begins(*target) || links.is_stub(*target);
            let targets: Vec<u64> = if links.stubs.is_empty() {
                // Without section headers, stubs show only by being called.
                let code = self.wanted();
                let called = self.suspects.targets(&code);
                called.filter(is_no_function).collect()
            } else {
                links.all_stubs().collect()
            };
            let mut stubs: HashMap<String, Vec<u64>> = HashMap::new();
            for target in targets {
                if let Some(name) = links.through(unwind.image(), unwind.segments(), target) {
                    stubs.entry(name).or_default().push(target);
                }
            }
            stubs
        })
    }

    /// Decodes all functions that may refer to a symbol.
    fn settle_name(&self, name: &str) {
        let mut found = self.found.borrow_mut();
        if !found.settled_names.contains(name) {
            found.settled_names.insert(name.to_owned());
            drop(found);
            let words = self.links().words_of_name.get(name).into_iter().flatten();
            let stubs = self.stubs().get(name).into_iter().flatten();
            let targets = words.chain(stubs);
            let ranges: Vec<_> = targets.map(|at| *at..at.saturating_add(1)).collect();
            self.decode_suspects(&ranges);
        }
    }

    fn decode(&self, numbers: impl Iterator<Item = usize>) {
        let mut found = self.found.borrow_mut();
        for number in numbers {
            if found.decoded.insert(number)
                && let Some(function) = self.unwind.functions().get(number)
            {
                self.read_function(&mut found, number, function);
            }
        }
    }

    fn read_function(&self, found: &mut References, number: usize, function: &Function) {
        let (unwind, links) = (&*self.unwind, self.links());
        let (image, segments) = (unwind.image(), unwind.segments());
        let Function { start, end, .. } = *function;
        if links.is_stub(start) {
            return;
        }
        let Some(code) = code_at(image, segments, start, end - start) else {
            return;
        };
        for instruction in arch::decode(code.bytes, start) {
            let flow = instruction.flow();
            let mut call = Call {
                target: 0,
                from: instruction.at(),
                next: instruction.next(),
                returns: matches!(flow, Flow::Call(_)),
            };
            match flow {
                Flow::Call(Callee::At(target)) | Flow::Jump(target) | Flow::Branch(target) => {
                    call.target = target;
                    if (start..end).contains(&call.target) && call.target != start {
                        continue;
                    }
                    if unwind.begins(call.target) && !links.is_stub(call.target) {
                        found.direct.entry(call.target).or_default().push(call);
                        continue;
                    }
                    let name = found
                        .stubs
                        .entry(call.target)
                        .or_insert_with(|| links.through(image, segments, call.target))
                        .clone();
                    match (name, unwind.function(call.target)) {
                        (Some(name), _) => {
                            call.target = 0;
                            found.add(&name, call);
                        }
                        (None, Some(function)) => {
                            call.target = function.start;
                            found.inside.entry(call.target).or_default().push(call);
                        }
                        (None, None) => {}
                    }
                }
                Flow::Call(_) | Flow::Indirect(_) => {
                    let word = instruction.word();
                    let own = word.and_then(|word| links.own_slots.get(&word));
                    match (word.and_then(|word| links.slots.get(&word)), own) {
                        (Some(name), _) => found.add(name, call),
                        (None, Some(function)) => {
                            call.target = *function;
                            found.direct.entry(call.target).or_default().push(call);
                        }
                        (None, None) if call.returns => {
                            found.indirect.entry(number).or_default().push(call);
                        }
                        (None, None) => {}
                    }
                }
                Flow::Next => {
                    let address = if let Some(address) = instruction.word() {
                        // The address is probably loaded to be called from a register, by unknown
                        // callers.
                        if let Some(function) = links.own_slots.get(&address) {
                            found.listed.insert(*function);
                            continue;
                        }
                        links.own(address).unwrap_or(address)
                    } else if self.is_fixed
                        && let Some(constant) = instruction.constant()
                    {
                        constant
                    } else {
                        continue;
                    };
                    if unwind.begins(address) {
                        found.taken.insert(address);
                    }
                }
                _ => {}
            }
        }
    }

    /// Finds pointers to functions in data. Pointers that are not made by relocations stand at
    /// aligned addresses.
    fn read_data(&self) -> HashSet<u64> {
        let mut listed = self.links().listed.clone();
        let functions = self.unwind.functions();
        let (Some(first), Some(last)) = (functions.first(), functions.last()) else {
            return listed;
        };
        let all = first.start..last.end;
        let mut left = MAX_DATA;
        for (offset, length) in &self.links().data {
            let Some(rest) = left.checked_sub(*length) else {
                break;
            };
            left = rest;
            let data = usize::try_from(*offset)
                .ok()
                .zip(usize::try_from(*length).ok())
                .and_then(|(start, length)| {
                    self.unwind.image().get(start..start.checked_add(length)?)
                });
            for word in data.unwrap_or_default().chunks_exact(8) {
                let word = word.try_into().map_or(0, u64::from_le_bytes);
                if all.contains(&word) && self.unwind.begins(word) {
                    listed.insert(word);
                }
            }
        }
        listed
    }

    fn stands_in_data(&self, start: u64) -> bool {
        let listed = self.listed.get_or_init(|| self.read_data());
        listed.contains(&start)
    }

    /// The start of the function that contains an address.
    pub(super) fn function(&self, vaddr: u64) -> Option<u64> {
        self.unwind.function(vaddr).map(|function| function.start)
    }

    /// Calls, in this file, of a function of this file. Jumps into the middle of the function count
    /// if it is entered in no other way: such a function is a part of another one that lies apart.
    pub(super) fn direct(&self, start: u64) -> Vec<Call> {
        self.settle(start);
        let found = self.found.borrow();
        let calls = found.direct.get(&start).map_or(&[][..], Vec::as_slice);
        let is_entered = || {
            calls.iter().any(|call| call.returns)
                || found.taken.contains(&start)
                || found.listed.contains(&start)
                || self.links().exported.contains_key(&start)
                || self.stands_in_data(start)
        };
        let inside = found.inside.get(&start).filter(|_| !is_entered());
        first([calls, inside.map_or(&[][..], Vec::as_slice)].concat())
    }

    /// Calls, in this file, of a function by its name through the dynamic linker; the function may
    /// be of another file or of this one.
    pub(super) fn imported(&self, name: &str) -> Vec<Call> {
        self.settle_name(name);
        first(
            self.found
                .borrow()
                .imported
                .get(name)
                .cloned()
                .unwrap_or_default(),
        )
    }

    /// Calls through pointers.
    pub(super) fn indirect(&self) -> impl Iterator<Item = Call> {
        let all = (0..self.unwind.functions().len()).flat_map(|number| {
            self.decode([number].into_iter());
            let found = self.found.borrow();
            found.indirect.get(&number).cloned().unwrap_or_default()
        });
        all.take(MAX_INDIRECT)
    }

    /// The names by which other files may call a function.
    pub(super) fn names(&self, start: u64) -> &[String] {
        self.links().exported.get(&start).map_or(&[], Vec::as_slice)
    }

    /// Whether the function's address is taken in code, but does not stand in data: mostly to start
    /// a thread with it.
    pub(super) fn is_taken(&self, start: u64) -> bool {
        self.settle(start);
        self.found.borrow().taken.contains(&start) && !self.is_listed(start)
    }

    /// Whether the function's address stands in data.
    pub(super) fn is_listed(&self, start: u64) -> bool {
        self.settle(start);
        self.found.borrow().listed.contains(&start) || self.stands_in_data(start)
    }
}

impl References {
    fn add(&mut self, name: &str, call: Call) {
        match self.imported.get_mut(name) {
            Some(calls) => calls.push(call),
            None => drop(self.imported.insert(name.to_owned(), vec![call])),
        }
    }
}

/// The first [`MAX_CALLS`] calls, in the order of their targets and addresses.
fn first(mut calls: Vec<Call>) -> Vec<Call> {
    calls.sort_unstable();
    calls.truncate(MAX_CALLS);
    calls
}

/// The parts of a file that the dynamic linker uses.
#[derive(Debug, Default)]
struct Links {
    /// Words that the dynamic linker fills with the address of the function of this name.
    slots: HashMap<u64, String>,
    /// Words that the dynamic linker fills with the address of a function of this file, without a
    /// name. A call through such a word counts as a direct call of the function; Rust calls so from
    /// crate to crate.
    own_slots: HashMap<u64, u64>,
    /// Functions of this file by name.
    defined: HashMap<String, u64>,
    exported: HashMap<u64, Vec<String>>,
    /// Functions to which the dynamic linker writes pointers.
    listed: HashSet<u64>,
    /// Start and end of the tables of stubs by which functions of other files are called.
    stubs: Vec<(u64, u64)>,
    /// Sections in which the program itself may keep pointers: offset in the file and length,
    /// bytes.
    data: Vec<(u64, u64)>,
    /// The words through which a function of this file is called, by the start of the function.
    words_of: HashMap<u64, Vec<u64>>,
    /// The words that are filled with the address of the function of a name.
    words_of_name: HashMap<String, Vec<u64>>,
    /// The range of the words through which functions are called.
    words: Range<u64>,
}

impl Links {
    fn of(file: &ElfFile64<'_, LittleEndian>, unwind: &Unwind) -> Self {
        let mut this = Self::default();
        let mut words = Vec::new();
        for section in file.sections() {
            let name = section.name().unwrap_or_default();
            if name.starts_with(".plt") && this.stubs.len() < MAX_STUBS {
                let start = section.address();
                this.stubs
                    .push((start, start.saturating_add(section.size())));
            } else if name.starts_with(".got") && words.len() < MAX_STUBS {
                let start = section.address();
                words.push(start..start.saturating_add(section.size()));
            } else if name.starts_with(".data") || name.starts_with(".rodata") {
                this.data.extend(section.file_range());
            }
        }
        let mut left = MAX_NAMES;
        let mut keep = |name: &str| {
            left = left.checked_sub(name.len())?;
            Some(name.to_owned())
        };
        for symbol in names::dynamic(file) {
            if symbol.is_definition()
                && symbol.is_function()
                && let Some(name) = symbol.text().and_then(&mut keep)
            {
                this.defined.insert(name.clone(), symbol.address());
                let names = this.exported.entry(symbol.address()).or_default();
                if names.len() < MAX_ALIASES {
                    names.push(name);
                }
            }
        }
        let relocations = file.dynamic_relocations().into_iter().flatten();
        for (address, relocation) in relocations.take(MAX_RELOCATIONS) {
            let RelocationTarget::Symbol(index) = relocation.target() else {
                let pointer = relocation.addend().cast_unsigned();
                if !unwind.begins(pointer) {
                    continue;
                }
                let is_plain = relocation.flags() == RelocationFlags::Elf { r_type: RELATIVE };
                if is_plain && words.iter().any(|words| words.contains(&address)) {
                    this.own_slots.insert(address, pointer);
                } else {
                    this.listed.insert(pointer);
                }
                continue;
            };
            let symbol = names::dynamic_at(file, index);
            let (Some(symbol), RelocationFlags::Elf { r_type }) = (symbol, relocation.flags())
            else {
                continue;
            };
            if SLOTS.contains(&r_type) {
                if let Some(name) = symbol.text().and_then(&mut keep) {
                    this.slots.insert(address, name);
                }
            } else if r_type == ABSOLUTE && symbol.is_definition() {
                this.listed.insert(symbol.address());
            }
        }
        this.turn_round();
        this
    }

    /// Fills in the words of each function and of each symbol, and their range.
    fn turn_round(&mut self) {
        let words = || self.slots.keys().chain(self.own_slots.keys());
        let last = words().max().map_or(0, |last| last.saturating_add(1));
        self.words = words().min().map_or(0, |first| *first)..last;
        for (word, function) in &self.own_slots {
            self.words_of.entry(*function).or_default().push(*word);
        }
        for (word, name) in &self.slots {
            if let Some(function) = self.defined.get(name) {
                self.words_of.entry(*function).or_default().push(*word);
            }
            let words = self.words_of_name.entry(name.clone()).or_default();
            words.push(*word);
        }
    }

    /// The function of this file to which the dynamic linker will write a pointer at `address`.
    fn own(&self, address: u64) -> Option<u64> {
        self.defined.get(self.slots.get(&address)?).copied()
    }

    fn is_stub(&self, address: u64) -> bool {
        self.stubs
            .iter()
            .any(|(start, end)| (*start..*end).contains(&address))
    }

    /// Where stubs may begin, and some addresses between, to which nothing refers.
    fn all_stubs(&self) -> impl Iterator<Item = u64> {
        let tables = self.stubs.iter();
        let all = tables.flat_map(|(start, end)| (*start..*end).step_by(STUB));
        all.take(MAX_STUBS_READ)
    }

    /// The name of the function that a stub calls.
    fn through(&self, image: &[u8], segments: &[Segment], vaddr: u64) -> Option<String> {
        let word = elf::jumps_through(image, segments, vaddr)?;
        self.slots.get(&word).cloned()
    }
}

#[cfg(test)]
#[path = "calls_tests.rs"]
mod tests;
