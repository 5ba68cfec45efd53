//! Who calls what in a file: found by decoding all of its code once.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, OpKind};
use object::elf::{R_X86_64_64, R_X86_64_GLOB_DAT, R_X86_64_JUMP_SLOT, R_X86_64_RELATIVE};
use object::read::elf::ElfFile64;
use object::{
    LittleEndian, Object as _, ObjectKind, ObjectSection as _, RelocationFlags, RelocationTarget,
};

use super::elf::{self, Segment, code_at, names};
use super::unwind::{Function, Unwind};

/// Of a file with more code nothing is known: to decode it takes too long.
const MAX_CODE: u64 = 64 << 20;

/// The same of data, in which pointers are looked for.
const MAX_DATA: u64 = 64 << 20;

/// How much of symbols' names is kept, bytes: of more, calls of other files are unknown.
const MAX_NAMES: usize = 1 << 26;

/// So many tables of stubs are told from functions; linkers make three.
const MAX_STUBS: usize = 16;

/// How many calls of one function are looked at: callers that several have are walked
/// from, however many they are.
const MAX_CALLS: usize = 1 << 10;

/// The same of calls through pointers.
const MAX_INDIRECT: usize = 1 << 16;

/// By so many names one function is known.
const MAX_ALIASES: usize = 64;

/// A symbol is not looked at beyond so many relocations.
const MAX_RELOCATIONS: usize = 1 << 22;

/// A call, or a jump from one function to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Call {
    /// Where it goes; 0 for a function of another file.
    target: u64,
    /// Its own address.
    pub(super) from: u64,
    /// That of the next instruction: where a call returns to.
    pub(super) next: u64,
    /// Whether it returns, and is not a jump.
    pub(super) returns: bool,
}

/// The calls in a file.
#[derive(Debug)]
pub(super) struct Calls {
    unwind: Rc<Unwind>,
    /// By their targets.
    direct: Vec<Call>,
    /// By the symbol that the dynamic linker looks up.
    imported: HashMap<String, Vec<Call>>,
    /// Of whatever a pointer points to.
    indirect: Vec<Call>,
    /// Functions whose address some code takes, for whatever.
    taken: HashSet<u64>,
    /// Functions whose address stands in data, such as a table of methods.
    listed: HashSet<u64>,
    /// The names by which other files may call functions of this one.
    exported: HashMap<u64, Vec<String>>,
}

impl Calls {
    /// `None` if there is too much code.
    pub(super) fn of(unwind: Rc<Unwind>) -> Option<Self> {
        let code = unwind.segments().iter();
        let code = code.filter(|segment| segment.executable);
        let length = code.fold(0, |sum: u64, segment| sum.saturating_add(segment.filesz));
        if length > MAX_CODE {
            return None;
        }
        let mut this = Self {
            unwind,
            direct: Vec::new(),
            imported: HashMap::new(),
            indirect: Vec::new(),
            taken: HashSet::new(),
            listed: HashSet::new(),
            exported: HashMap::new(),
        };
        let (links, is_fixed) = {
            let file = ElfFile64::<LittleEndian>::parse(this.unwind.image()).ok()?;
            let links = Links::of(&file, &this.unwind);
            (links, file.kind() == ObjectKind::Executable)
        };
        let inside = this.read_code(&links, is_fixed);
        this.read_data(&links.data);
        this.listed.extend(&links.listed);
        this.add_apart(inside, &links);
        this.exported = links.exported;
        this.direct.sort_unstable();
        Some(this)
    }

    /// Gives the jumps into the middle of functions.
    fn read_code(&mut self, links: &Links, is_fixed: bool) -> Vec<Call> {
        let mut stubs: HashMap<u64, Option<String>> = HashMap::new();
        // Jumps into the middle of functions.
        let mut inside: Vec<Call> = Vec::new();
        let mut add = |name: &str, call: Call| match self.imported.get_mut(name) {
            Some(calls) => calls.push(call),
            None => drop(self.imported.insert(name.to_owned(), vec![call])),
        };
        let unwind = &*self.unwind;
        let (image, segments) = (unwind.image(), unwind.segments());
        let mut instruction = Instruction::default();
        for function in unwind.functions() {
            let Function { start, end, .. } = *function;
            if links.is_stub(start) {
                continue;
            }
            let Some(code) = code_at(image, segments, start, end - start) else {
                continue;
            };
            let mut decoder = Decoder::with_ip(64, code.bytes, start, DecoderOptions::NONE);
            while decoder.can_decode() {
                decoder.decode_out(&mut instruction);
                let flow = instruction.flow_control();
                let mut call = Call {
                    target: 0,
                    from: instruction.ip(),
                    next: instruction.next_ip(),
                    returns: matches!(flow, FlowControl::Call | FlowControl::IndirectCall),
                };
                match flow {
                    FlowControl::Call
                    | FlowControl::UnconditionalBranch
                    | FlowControl::ConditionalBranch => {
                        if instruction.op0_kind() != OpKind::NearBranch64 {
                            continue;
                        }
                        call.target = instruction.near_branch64();
                        if (start..end).contains(&call.target) && call.target != start {
                            continue;
                        }
                        if unwind.begins(call.target) && !links.is_stub(call.target) {
                            self.direct.push(call);
                            continue;
                        }
                        let name = stubs
                            .entry(call.target)
                            .or_insert_with(|| links.through(image, segments, call.target))
                            .clone();
                        match (name, unwind.function(call.target)) {
                            (Some(name), _) => {
                                call.target = 0;
                                add(&name, call);
                            }
                            (None, Some(function)) => {
                                call.target = function.start;
                                inside.push(call);
                            }
                            (None, None) => {}
                        }
                    }
                    FlowControl::IndirectCall | FlowControl::IndirectBranch => {
                        let word = instruction
                            .is_ip_rel_memory_operand()
                            .then(|| instruction.ip_rel_memory_address());
                        let own = word.and_then(|word| links.own_slots.get(&word));
                        match (word.and_then(|word| links.slots.get(&word)), own) {
                            (Some(name), _) => add(name, call),
                            (None, Some(function)) => {
                                call.target = *function;
                                self.direct.push(call);
                            }
                            (None, None) if call.returns => self.indirect.push(call),
                            (None, None) => {}
                        }
                    }
                    FlowControl::Next => {
                        let address = if instruction.is_ip_rel_memory_operand() {
                            let address = instruction.ip_rel_memory_address();
                            // To be called from a register, as likely as not: by whom, who knows.
                            if let Some(function) = links.own_slots.get(&address) {
                                self.listed.insert(*function);
                                continue;
                            }
                            links.own(address).unwrap_or(address)
                        } else if is_fixed
                            && matches!(
                                instruction.op1_kind(),
                                OpKind::Immediate32 | OpKind::Immediate64 | OpKind::Immediate32to64
                            )
                        {
                            instruction.immediate(1)
                        } else {
                            continue;
                        };
                        if unwind.begins(address) {
                            self.taken.insert(address);
                        }
                    }
                    _ => {}
                }
            }
        }
        inside
    }

    /// Jumps into the middle of what belongs to a function but lies apart, and
    /// is entered in no other way; and not those back from there.
    fn add_apart(&mut self, inside: Vec<Call>, links: &Links) {
        let called = self.direct.iter().filter(|call| call.returns);
        let called: HashSet<u64> = called.map(|call| call.target).collect();
        self.direct.extend(inside.into_iter().filter(|call| {
            let start = call.target;
            !called.contains(&start)
                && !self.taken.contains(&start)
                && !self.listed.contains(&start)
                && !links.exported.contains_key(&start)
        }));
    }

    /// Pointers to functions stand at aligned addresses, if they are not made
    /// by relocations.
    fn read_data(&mut self, sections: &[(u64, u64)]) {
        let functions = self.unwind.functions();
        let (Some(first), Some(last)) = (functions.first(), functions.last()) else {
            return;
        };
        let all = first.start..last.end;
        let mut left = MAX_DATA;
        for (offset, length) in sections {
            let Some(rest) = left.checked_sub(*length) else {
                return;
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
                    self.listed.insert(word);
                }
            }
        }
    }

    /// The function that an address is in, by its first.
    pub(super) fn function(&self, vaddr: u64) -> Option<u64> {
        self.unwind.function(vaddr).map(|function| function.start)
    }

    /// Calls in this file of a function in it.
    pub(super) fn direct(&self, start: u64) -> &[Call] {
        let from = self.direct.partition_point(|call| call.target < start);
        let until = self.direct.partition_point(|call| call.target <= start);
        &self.direct[from..until.min(from + MAX_CALLS)]
    }

    /// Calls in this file of a function in another, or in it by way of the
    /// dynamic linker.
    pub(super) fn imported(&self, name: &str) -> &[Call] {
        let calls = self.imported.get(name).map_or(&[][..], Vec::as_slice);
        &calls[..calls.len().min(MAX_CALLS)]
    }

    /// Calls of what a pointer points to.
    pub(super) fn indirect(&self) -> &[Call] {
        &self.indirect[..self.indirect.len().min(MAX_INDIRECT)]
    }

    /// The names by which a function may be called from elsewhere.
    pub(super) fn names(&self, start: u64) -> &[String] {
        self.exported.get(&start).map_or(&[], Vec::as_slice)
    }

    /// Whether the function's address is taken, but only to be used at once:
    /// to start a thread with it, mostly.
    pub(super) fn is_taken(&self, start: u64) -> bool {
        self.taken.contains(&start) && !self.listed.contains(&start)
    }

    /// Whether the function's address stands in data.
    pub(super) fn is_listed(&self, start: u64) -> bool {
        self.listed.contains(&start)
    }
}

/// What the dynamic linker knows of a file.
struct Links {
    /// Words that it fills with the address of the function of that name.
    slots: HashMap<u64, String>,
    /// The same of functions of this file that need no name: by what is called through such a
    /// word it is as if it had been called itself, and Rust does so from crate to crate.
    own_slots: HashMap<u64, u64>,
    /// Functions of this file by their names.
    defined: HashMap<String, u64>,
    exported: HashMap<u64, Vec<String>>,
    /// Functions to which it writes pointers.
    listed: HashSet<u64>,
    /// Where the stubs are by which functions of other files are called.
    stubs: Vec<(u64, u64)>,
    /// Sections in which the program itself may keep pointers: where they begin
    /// in the file, and their lengths.
    data: Vec<(u64, u64)>,
}

impl Links {
    fn of(file: &ElfFile64<'_, LittleEndian>, unwind: &Unwind) -> Self {
        let mut this = Self {
            slots: HashMap::new(),
            own_slots: HashMap::new(),
            defined: HashMap::new(),
            exported: HashMap::new(),
            listed: HashSet::new(),
            stubs: Vec::new(),
            data: Vec::new(),
        };
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
                let is_plain = relocation.flags()
                    == RelocationFlags::Elf {
                        r_type: R_X86_64_RELATIVE,
                    };
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
            if [R_X86_64_JUMP_SLOT, R_X86_64_GLOB_DAT].contains(&r_type) {
                if let Some(name) = symbol.text().and_then(&mut keep) {
                    this.slots.insert(address, name);
                }
            } else if r_type == R_X86_64_64 && symbol.is_definition() {
                this.listed.insert(symbol.address());
            }
        }
        this
    }

    /// The function of this file to which the dynamic linker will write a
    /// pointer there.
    fn own(&self, address: u64) -> Option<u64> {
        self.defined.get(self.slots.get(&address)?).copied()
    }

    fn is_stub(&self, address: u64) -> bool {
        self.stubs
            .iter()
            .any(|(start, end)| (*start..*end).contains(&address))
    }

    /// The function that a stub calls.
    fn through(&self, image: &[u8], segments: &[Segment], vaddr: u64) -> Option<String> {
        let word = elf::jumps_through(image, segments, vaddr)?;
        self.slots.get(&word).cloned()
    }
}

#[cfg(test)]
#[path = "calls_tests.rs"]
mod tests;
