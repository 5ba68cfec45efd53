//! How to get from a function that is being executed to its caller, by the file's `.eh_frame`
//! section.
//!
//! Compilers write that section for exceptions and debuggers, also where they use no frame pointers
//! and where all symbols are stripped. So the section tells where functions begin and end, too.
//! Functions without an entry, which are those of hand-written assembly and of some compiler
//! options, come from the symbol tables. Their callers can be found only if the functions keep a
//! frame pointer.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use gimli::{
    BaseAddresses, CfaRule, CieOrFde, EhFrame, EhFrameOffset, EndianSlice, RegisterRule,
    UnwindContext, UnwindExpression, UnwindSection as _, UnwindTableRow,
};
use memmap2::Mmap;
use object::read::elf::ElfFile64;
use object::{LittleEndian, Object as _, ObjectSection as _, ObjectSymbol as _};
use rustc_hash::FxHashSet;
use sbt_common::{CODE_AROUND, Code, Rule, cfa, rbp};

use super::arch::{
    BREAKPOINT, KEPT,
    unwind::{ADD_TO_FRAME, FRAME, NUMBERED_KEPT, RETURN, RETURN_AT, STACK, keeps_frame},
};
use super::elf::{self, Segment, code_at};

/// The most functions of a file that are looked at.
const MAX_FUNCTIONS: usize = 1 << 20;

/// `DW_OP_deref`.
const DEREF: u8 = 0x06;

type Section<'a> = EhFrame<EndianSlice<'a, gimli::LittleEndian>>;

/// Some code that is entered at its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Function {
    /// The first address of the code.
    pub(super) start: u64,
    /// One past the last address of the code.
    pub(super) end: u64,
    /// Offset of the function's entry in `.eh_frame`; `None` if it has no entry.
    entry: Option<usize>,
}

/// The functions of a file, and how to get to their callers.
#[derive(Debug)]
pub(super) struct Unwind {
    image: Arc<Mmap>,
    segments: Vec<Segment>,
    /// Offset of `.eh_frame` in the image, its length, and its address.
    section: Option<(usize, usize, u64)>,
    /// The functions in the order of addresses, without overlap.
    functions: Vec<Function>,
    /// The starts of the functions, which are looked up for each word of the data.
    starts: OnceLock<FxHashSet<u64>>,
}

impl Unwind {
    /// Reads the image of an ELF file; `None` if it is not an ELF file.
    pub(super) fn of(image: impl Into<Arc<Mmap>>) -> Option<Self> {
        let image = image.into();
        let segments = elf::load_segments(&image).ok()?;
        let mut this = Self {
            image,
            segments,
            section: None,
            functions: Vec::new(),
            starts: OnceLock::new(),
        };
        this.read();
        Some(this)
    }

    fn read(&mut self) {
        let image = &self.image[..];
        let Ok(file) = ElfFile64::<LittleEndian>::parse(image) else {
            return;
        };
        let section = file.section_by_name(".eh_frame").and_then(|section| {
            let (offset, length) = section.file_range()?;
            let (offset, length) = (usize::try_from(offset).ok()?, usize::try_from(length).ok()?);
            image.get(offset..offset.checked_add(length)?)?;
            Some((offset, length, section.address()))
        });
        let mut functions = section.map_or_else(Vec::new, |section| entries(image, section));
        // A symbol counts only where there is no entry.
        let is_told = |start| {
            let next = functions.partition_point(|function: &Function| function.start <= start);
            let before = next.checked_sub(1).and_then(|index| functions.get(index));
            before.is_some_and(|function| start < function.end)
        };
        let mut symbols: Vec<Function> = file
            .symbols()
            .chain(file.dynamic_symbols())
            .filter(|symbol| symbol.kind() == object::SymbolKind::Text && symbol.size() > 0)
            .filter(object::ObjectSymbol::is_definition)
            .take(MAX_FUNCTIONS)
            .filter(|symbol| !is_told(symbol.address()))
            .filter_map(|symbol| {
                let start = symbol.address();
                let end = start.checked_add(symbol.size())?;
                let entry = None;
                Some(Function { start, end, entry })
            })
            .collect();
        symbols.sort_by_key(|function| function.start);
        if !symbols.is_empty() {
            functions.extend(symbols);
            functions.sort_by_key(|function| function.start);
        }
        functions.dedup_by_key(|function| function.start);
        for index in 1..functions.len() {
            let start = functions[index].start;
            let before = &mut functions[index - 1];
            before.end = before.end.min(start);
        }
        self.section = section;
        self.functions = functions;
    }

    /// The file's bytes.
    pub(super) fn image(&self) -> &[u8] {
        &self.image
    }

    /// The parts of the file that are mapped.
    pub(super) fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// The address of the byte at an offset in the file, if it is code.
    pub(super) fn address(&self, offset: u64) -> Option<u64> {
        self.segments
            .iter()
            .filter(|segment| segment.executable)
            .find_map(|segment| segment.address(offset))
    }

    /// The functions, in the order of addresses.
    pub(super) fn functions(&self) -> &[Function] {
        &self.functions
    }

    /// The function that contains an address.
    pub(super) fn function(&self, vaddr: u64) -> Option<&Function> {
        find(&self.functions, vaddr)
    }

    /// The code of the function that begins at an address.
    pub(super) fn code(&self, start: u64) -> Option<&[u8]> {
        let function = self.function(start)?;
        let code = code_at(&self.image, &self.segments, start, function.end - start)?;
        Some(code.bytes)
    }

    /// Whether a function begins at an address.
    pub(super) fn begins(&self, vaddr: u64) -> bool {
        let all = || self.functions.iter().map(|function| function.start);
        self.starts.get_or_init(|| all().collect()).contains(&vaddr)
    }

    /// How to get to the caller of the function that contains this return address, once the call
    /// has returned. `None` if that is unknown, or does not fit into a [`Rule`].
    pub(super) fn rule(&self, address: u64) -> Option<Rule> {
        // The call is the last instruction before the return address, and may be a function's last.
        let call = address.checked_sub(1)?;
        let function = self.function(call)?;
        match function.entry {
            Some(entry) => self.told(entry, call),
            None => by_frame_pointer(&self.image, &self.segments, function),
        }
    }

    /// How to get to the caller from any instruction of a function, also at its beginning or its
    /// end. `None` if the function has no entry, or if the rule does not fit into a [`Rule`].
    pub(super) fn rule_at(&self, address: u64) -> Option<Rule> {
        let entry = self.function(address)?.entry?;
        self.told(entry, address)
    }

    /// Where a function has saved the registers of its caller that [`KEPT`] names, counted from where
    /// the caller's stack begins, bytes; `None` for those that it has not changed. `None` if the
    /// function has no entry, or has saved one in another way.
    pub(super) fn saved(&self, address: u64) -> Option<[Option<i64>; KEPT.len()]> {
        let entry = self.function(address)?.entry?;
        self.row(entry, address, |row| {
            let mut saved = [None; KEPT.len()];
            for (place, register) in saved.iter_mut().zip(NUMBERED_KEPT) {
                *place = match row.register(register) {
                    None | Some(RegisterRule::SameValue | RegisterRule::Undefined) => None,
                    Some(RegisterRule::Offset(offset)) => Some(offset),
                    Some(_) => return None,
                };
            }
            Some(saved)
        })?
    }

    /// Whether the function around an address has no caller: a thread begins with it.
    pub(super) fn is_outermost(&self, address: u64) -> bool {
        let Some(entry) = self.function(address).and_then(|function| function.entry) else {
            return false;
        };
        self.returns_nowhere(entry, address).unwrap_or(false)
    }

    /// Whether the handlers of signals return to the code at an address.
    pub(super) fn is_signal(&self, address: u64) -> bool {
        let entry = self.function(address).and_then(|function| function.entry);
        entry
            .and_then(|entry| self.entry_is_signal(entry))
            .unwrap_or(false)
    }

    fn entry_is_signal(&self, entry: usize) -> Option<bool> {
        let (section, bases) = section(&self.image, self.section?)?;
        let entry = section
            .fde_from_offset(&bases, EhFrameOffset(entry), Section::cie_from_offset)
            .ok()?;
        Some(entry.is_signal_trampoline())
    }

    fn returns_nowhere(&self, entry: usize, address: u64) -> Option<bool> {
        self.row(entry, address, |row| {
            row.register(RETURN) == Some(RegisterRule::Undefined)
        })
    }

    /// Reads the row of the unwind table that holds at an address.
    fn row<T>(
        &self,
        entry: usize,
        address: u64,
        read: impl FnOnce(&UnwindTableRow<usize>) -> T,
    ) -> Option<T> {
        let (section, bases) = section(&self.image, self.section?)?;
        let entry = section
            .fde_from_offset(&bases, EhFrameOffset(entry), Section::cie_from_offset)
            .ok()?;
        let mut context = UnwindContext::new();
        let row = entry
            .unwind_info_for_address(&section, &bases, &mut context, address)
            .ok()?;
        Some(read(row))
    }

    /// The code by which a return address is recognised: as the file has it, and with probes on the
    /// instructions at the file offsets `probed`. Empty if another return address with the same
    /// code has another rule.
    pub(super) fn codes(&self, address: u64, probed: &[u64]) -> Vec<Code> {
        let length = 2 * CODE_AROUND;
        let found = address
            .checked_sub(CODE_AROUND as u64)
            .and_then(|start| code_at(&self.image, &self.segments, start, length as u64));
        let Some((found, bytes)) = found.and_then(|found| {
            let bytes = <[u8; 2 * CODE_AROUND]>::try_from(found.bytes).ok()?;
            Some((found, bytes))
        }) else {
            return Vec::new();
        };
        let rule = self.rule(address);
        if self
            .alike(address, &bytes)
            .any(|other| self.rule(other) != rule)
        {
            return Vec::new();
        }
        let code = |bytes| Code {
            in_page: address & 0xfff,
            bytes,
        };
        let mut with_probes = bytes;
        for probed in probed {
            let distance = probed.checked_sub(found.offset);
            let distance = distance.and_then(|distance| usize::try_from(distance).ok());
            if let Some(byte) = distance.and_then(|distance| with_probes.get_mut(distance)) {
                *byte = BREAKPOINT;
            }
        }
        let mut codes = vec![code(bytes)];
        if with_probes != bytes {
            codes.push(code(with_probes));
        }
        codes
    }

    /// Other addresses with the same low 12 bits and the same code around.
    fn alike<'a>(
        &'a self,
        address: u64,
        bytes: &'a [u8; 2 * CODE_AROUND],
    ) -> impl Iterator<Item = u64> + 'a {
        let segments = self.segments.iter().filter(|segment| segment.executable);
        segments.flat_map(move |segment| {
            let before = segment
                .vaddr
                .saturating_add(address.wrapping_sub(segment.vaddr) & 0xfff);
            let until = segment.vaddr.saturating_add(segment.filesz);
            (before..until).step_by(0x1000).filter(move |other| {
                let around = segment
                    .file_offset(other.wrapping_sub(CODE_AROUND as u64))
                    .and_then(|offset| usize::try_from(offset).ok());
                *other != address
                    && around
                        .and_then(|start| self.image.get(start..)?.first_chunk())
                        // Compared as arrays: comparing slices calls the C library each time.
                        .is_some_and(|found| found == bytes)
            })
        })
    }

    fn told(&self, entry: usize, call: u64) -> Option<Rule> {
        let (section, bases) = section(&self.image, self.section?)?;
        let entry = section
            .fde_from_offset(&bases, EhFrameOffset(entry), Section::cie_from_offset)
            .ok()?;
        if entry.is_signal_trampoline() {
            return None;
        }
        let mut context = UnwindContext::new();
        let row = entry
            .unwind_info_for_address(&section, &bases, &mut context, call)
            .ok()?;
        if row.register(RETURN) != Some(RegisterRule::Offset(RETURN_AT)) {
            return None;
        }
        let (cfa, cfa_offset) = match row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => match *register {
                STACK => (cfa::RSP, *offset),
                FRAME => (cfa::RBP, *offset),
                _ => return None,
            },
            CfaRule::Expression(expression) => {
                (cfa::AT_RBP, at_rbp(*expression, &section, &[DEREF])?)
            }
        };
        let (rbp, rbp_offset) = match row.register(FRAME) {
            None | Some(RegisterRule::SameValue | RegisterRule::Undefined) => (rbp::SAME, 0),
            Some(RegisterRule::Offset(offset)) => (rbp::AT_CFA, offset),
            Some(RegisterRule::Expression(expression)) => {
                (rbp::AT_RBP, at_rbp(expression, &section, &[])?)
            }
            Some(_) => return None,
        };
        Some(Rule {
            cfa,
            rbp,
            cfa_offset: i32::try_from(cfa_offset).ok()?,
            rbp_offset: i32::try_from(rbp_offset).ok()?,
        })
    }
}

fn section(image: &[u8], place: (usize, usize, u64)) -> Option<(Section<'_>, BaseAddresses)> {
    let (offset, length, address) = place;
    let bytes = image.get(offset..offset.checked_add(length)?)?;
    let section = EhFrame::new(bytes, gimli::LittleEndian);
    Some((section, BaseAddresses::default().set_eh_frame(address)))
}

/// The functions that have entries, in the order of addresses.
fn entries(image: &[u8], place: (usize, usize, u64)) -> Vec<Function> {
    let mut functions = Vec::new();
    let Some((section, bases)) = section(image, place) else {
        return functions;
    };
    let mut entries = section.entries(&bases);
    // Many functions share a common entry, whose text may be of any length.
    let mut common = HashMap::new();
    while let (true, Ok(Some(entry))) = (functions.len() < MAX_FUNCTIONS, entries.next()) {
        let CieOrFde::Fde(partial) = entry else {
            continue;
        };
        let parsed = partial.parse(|section, bases, offset| {
            let known = common.entry(offset.0);
            known
                .or_insert_with(|| section.cie_from_offset(bases, offset))
                .clone()
        });
        let Ok(entry) = parsed else {
            continue;
        };
        let start = entry.initial_address();
        // A function that the linker has left out lies at 0.
        if let Some(end) = start.checked_add(entry.len())
            && start != 0
            && entry.len() > 0
        {
            functions.push(Function {
                start,
                end,
                entry: Some(entry.offset()),
            });
        }
    }
    // Linkers put together what is in order in each of their inputs: this sort finds such runs.
    functions.sort_by_key(|function| (function.start, function.entry));
    functions
}

fn find(functions: &[Function], vaddr: u64) -> Option<&Function> {
    let order = |function: &Function| {
        if vaddr < function.start {
            Ordering::Greater
        } else if vaddr >= function.end {
            Ordering::Less
        } else {
            Ordering::Equal
        }
    };
    let index = functions.binary_search_by(order).ok()?;
    functions.get(index)
}

/// The offset in an expression that is rbp plus an offset, followed by `rest`: compilers write this
/// for functions that align their stack.
fn at_rbp(expression: UnwindExpression<usize>, section: &Section<'_>, rest: &[u8]) -> Option<i64> {
    let expression = expression.get(section).ok()?.0;
    let (first, number) = expression.slice().split_first()?;
    let mut number = EndianSlice::new(number, gimli::LittleEndian);
    let offset = gimli::Reader::read_sleb128(&mut number).ok()?;
    (*first == ADD_TO_FRAME && number.slice() == rest).then_some(offset)
}

/// The rule of a function that begins by saving the frame pointer, and soon points it to the saved
/// value.
fn by_frame_pointer(image: &[u8], segments: &[Segment], function: &Function) -> Option<Rule> {
    let length = (function.end - function.start).min(64);
    let code = code_at(image, segments, function.start, length)?.bytes;
    keeps_frame(code).then_some(Rule {
        cfa: cfa::RBP,
        rbp: rbp::AT_CFA,
        cfa_offset: 16,
        rbp_offset: -16,
    })
}

#[cfg(test)]
#[path = "unwind_tests.rs"]
pub(super) mod tests;
