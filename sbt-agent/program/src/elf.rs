//! Finds the functions to probe in the image of an ELF file.
//!
//! The file belongs to the target and may be anything: every number in it is
//! checked, work and memory are bounded by its size, and what is not a 64-bit
//! x86 program is an [`ElfError`].

mod code;
mod condvars;
mod dynamic;
mod imports;
mod layout;
pub(super) mod names;
mod offered;

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::File;
use std::hash::BuildHasher;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use memmap2::Mmap;
use object::elf::{self, FileHeader64, ProgramHeader64};
use object::read::elf::{
    ElfFile64, FileHeader, ProgramHeader, SectionHeader as _, Sym, SymbolTable,
};
use object::{LittleEndian, Object, ObjectSymbol as _};
use sbt_common::layout as objects;

pub use crate::access::target::open as open_regular;

use super::runtimes::{self, Kmp, Team};
pub(super) use code::{Code, code_at, data_at, is_after_call, is_after_direct_call};
pub(super) use dynamic::Dynamic;
pub(super) use imports::{Imports, jumps_through};
pub(super) use offered::DynamicNames;

/// More points than any C library has; a hostile file may claim millions.
const MAX_POINTS: usize = 64;

/// Code given to the prologue decoder, bytes: enough to see the jumps back.
const MAX_CODE: u64 = 4096;

/// The same for a symbol that does not tell its size.
const UNSIZED_CODE: u64 = 64;

/// The kernel executes no file with more program headers than this: 64 KiB of them.
const MAX_SEGMENTS: usize = (64 << 10) / size_of::<ProgramHeader64<LittleEndian>>();

/// Linked files have some forty sections; more than this would make each search for one
/// a search of the whole file.
const MAX_SECTIONS: usize = 1 << 12;

/// Bigger files there may be, but only of holes, bytes.
const MAX_FILE: usize = 8 << 30;

/// Longer names of sections there are none, bytes.
const MAX_SECTION_NAME: usize = 256;

/// Build ids are 8 to 32 bytes; longer ones cannot be file names anyway.
const MAX_BUILD_ID: usize = 64;

/// Little-endian is all that x86 has.
pub(super) const LE: LittleEndian = LittleEndian;

/// What a probed function is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Function {
    /// `pthread_barrier_wait(barrier)`
    BarrierWait,
    /// `pthread_barrier_init(barrier, attributes, count)`
    BarrierInit,
    /// `pthread_cond_wait(condvar, mutex)` and those with a time limit.
    CondWait,
    /// `pthread_cond_broadcast(condvar)`, or `pthread_cond_signal(condvar)`.
    CondWake {
        /// How many waiters it wakes at most, 0 for all.
        most: u8,
    },
    /// `_dl_debug_state()`: the dynamic linker calls it, for debuggers, when it
    /// has mapped or unmapped libraries.
    LinkerMapped,
    /// What the user has given this number: a function, or a place inside one.
    Mark(u8),
    /// A function that is a barrier to the user.
    Call {
        /// Which argument points to the barrier object, 1 to 6; 0 if none does. Of
        /// functions of MPI up to 15.
        object: u8,
        /// Which is the number of participants, likewise.
        count: u8,
    },
    /// An instruction by which such a function ends.
    CallExit,
    /// A place where a thread comes to a barrier of its team.
    Team(Team),
    /// The same in LLVM's OpenMP.
    Kmp(Kmp),
    /// What it leaves last: a function.
    TeamEnd,
    /// A function that begins a parallel region of OpenMP.
    Region,
}

impl Function {
    /// How many arguments a probe reads from registers.
    fn arguments(self) -> usize {
        match self {
            Self::BarrierWait | Self::CondWait | Self::CondWake { .. } | Self::Team(_) => 1,
            Self::BarrierInit => 3,
            Self::LinkerMapped
            | Self::Mark(_)
            | Self::CallExit
            | Self::Kmp(_)
            | Self::TeamEnd
            | Self::Region => 0,
            // Those beyond the sixth are on the stack.
            Self::Call { object, count } => object.max(count).min(6).into(),
        }
    }
}

/// The names to look for, the preferred one of each function first. Static
/// programs may have only the names with underscores.
const NAMES: [(&str, Function); 15] = [
    ("pthread_barrier_wait", Function::BarrierWait),
    ("__pthread_barrier_wait", Function::BarrierWait),
    ("pthread_barrier_init", Function::BarrierInit),
    ("__pthread_barrier_init", Function::BarrierInit),
    ("_dl_debug_state", Function::LinkerMapped),
    ("pthread_cond_wait", Function::CondWait),
    ("__pthread_cond_wait", Function::CondWait),
    ("pthread_cond_timedwait", Function::CondWait),
    ("__pthread_cond_timedwait", Function::CondWait),
    ("pthread_cond_clockwait", Function::CondWait),
    ("__pthread_cond_clockwait", Function::CondWait),
    ("pthread_cond_broadcast", WAKES_ALL),
    ("__pthread_cond_broadcast", WAKES_ALL),
    ("pthread_cond_signal", WAKES_ONE),
    ("__pthread_cond_signal", WAKES_ONE),
];

const WAKES_ALL: Function = Function::CondWake { most: 0 };
const WAKES_ONE: Function = Function::CondWake { most: 1 };

/// A function found in a file, and where its probes go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// What it is.
    pub function: Function,
    /// The name it was found by, without version.
    pub symbol: String,
    /// Where a probe of the call goes: offset in the file, bytes.
    pub entry_offset: u64,
    /// How far rsp has moved down at the entry probe, bytes.
    pub stack_moved: u16,
    /// Where a uretprobe goes: offset in the file, bytes.
    pub return_offset: u64,
    /// Whether the kernel emulates the instruction at `entry_offset`.
    pub entry_emulated: bool,
    /// One of [`sbt_common::layout`]: of the barrier objects of this file's C
    /// library, or opaque where the file does not prove it.
    pub layout: u8,
}

impl Point {
    /// Whether it is a barrier of a language's own library.
    pub fn is_of_language(&self) -> bool {
        matches!(
            self.layout,
            objects::STD | objects::STD_POINTED | objects::STD_INLINED | objects::RUST
        )
    }
}

/// A part of the file that is mapped: a `PT_LOAD` program header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Address in the file's own numbering, before any load bias.
    pub vaddr: u64,
    /// Offset in the file, bytes.
    pub offset: u64,
    /// Bytes that come from the file.
    pub filesz: u64,
    /// Bytes in memory, the rest zero.
    pub memsz: u64,
    /// Whether it is mapped executable.
    pub executable: bool,
}

impl Segment {
    /// The file offset of an address, if the file holds it.
    pub(super) fn file_offset(&self, vaddr: u64) -> Option<u64> {
        let within = vaddr.checked_sub(self.vaddr)?;
        (within < self.filesz).then(|| self.offset.checked_add(within))?
    }

    /// The inverse of it.
    pub(super) fn address(&self, offset: u64) -> Option<u64> {
        let within = offset.checked_sub(self.offset)?;
        (within < self.filesz).then(|| self.vaddr.checked_add(within))?
    }
}

/// Why no functions can be looked for in a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ElfError {
    /// It does not begin like an ELF file.
    #[error("not an ELF file")]
    NotElf,
    /// It is for another processor, or 32-bit.
    #[error("not a 64-bit x86 ELF file (class {class}, machine {machine})")]
    NotX86_64 {
        /// `EI_CLASS`: 1 is 32-bit, 2 is 64-bit.
        class: u8,
        /// `e_machine`: 62 is x86.
        machine: u16,
    },
    /// Its tables point outside of it or make no sense.
    #[error("damaged ELF file: {0}")]
    Malformed(#[from] object::Error),
    /// It would take a time or memory out of all proportion to read it.
    #[error("damaged ELF file: {0}")]
    Excessive(&'static str),
}

/// Maps the whole of a file, to be given to the other functions as an image.
///
/// # Errors
/// The file is empty, or the kernel does not map it.
pub fn map(file: &File) -> io::Result<Mmap> {
    // SAFETY: the mapping is private and only read. Whoever may write to the
    // file could change the bytes below us, which the readers, made for any
    // bytes, hold out; or truncate it, which ends us with SIGBUS. Loaded
    // programs and libraries cannot be written to while they execute, and
    // replacing a file by another one, as installers do, does no harm.
    unsafe { Mmap::map(file) }
}

/// Whether the file begins with the ELF magic number.
pub fn is_elf(image: &[u8]) -> bool {
    image.starts_with(b"\x7fELF")
}

/// The functions to probe that the file defines, in the order of their offsets.
///
/// Several names or versions at one address give one point. A file without
/// section headers or with all symbols stripped gives none.
///
/// # Errors
/// The file is not a sound 64-bit x86 ELF file.
pub fn points(image: &[u8]) -> Result<Vec<Point>, ElfError> {
    Ok(points_and_unfit(image)?.0)
}

/// The same, and the names of those functions of the C library that begin with instructions on
/// which no probe may stand.
///
/// # Errors
/// As above.
pub fn points_and_unfit(image: &[u8]) -> Result<(Vec<Point>, Vec<&'static str>), ElfError> {
    let segments = load_segments(image)?;
    let file = ElfFile64::<LittleEndian>::parse(image)?;
    let mut evidence = layout::Evidence::of_versions(&file);
    let mut found = Vec::new();
    for table in [file.elf_dynamic_symbol_table(), file.elf_symbol_table()] {
        search(&file, table, &mut found);
        if std::ptr::eq(table, file.elf_dynamic_symbol_table()) {
            condvars::without_those_for_others(&mut found);
        }
        evidence.add_symbols(&file, table, &segments);
    }
    condvars::without_repeated(&mut found, image, &segments);
    let layout = evidence.layout();
    let (mut points, mut unfit) = (Vec::new(), Vec::new());
    for found in &found {
        let Some(code) = found.code(image, &segments) else {
            continue;
        };
        let (symbol, function) = NAMES[found.name];
        match Point::of_function(function, symbol, &code, layout) {
            Some(point) => points.push(point),
            None => unfit.push(symbol),
        }
    }
    points.extend(runtimes::points(image, &segments));
    points.sort_by_key(|point| (point.entry_offset, point.function));
    Ok((points, unfit))
}

/// The program interpreter that the file asks for; `None` in static programs,
/// in most libraries and in what is not an ELF file.
pub fn interpreter(image: &[u8]) -> Option<PathBuf> {
    program_headers(image)
        .ok()?
        .iter()
        .find_map(|header| header.interpreter(LE, image).ok()?)
        .filter(|path| !path.is_empty())
        .map(|path| PathBuf::from(OsStr::from_bytes(path)))
}

/// Whether the image is a program that asks for a dynamic linker. Some libraries ask for one too,
/// so that they can say their version when they are executed: the C library of glibc does.
pub fn is_program(image: &[u8]) -> bool {
    interpreter(image).is_some() && !is_named_library(image)
}

/// Whether what is in the image cannot be moved to other addresses (`ET_EXEC`).
pub fn is_fixed(image: &[u8]) -> bool {
    ElfFile64::<LittleEndian>::parse(image)
        .is_ok_and(|file| file.kind() == object::ObjectKind::Executable)
}

/// Whether the image is a program that is linked statically: it uses no functions but its own.
/// One that may lie anywhere (`-static-pie`) says of itself that it is none of the libraries.
pub fn is_static(image: &[u8]) -> bool {
    if interpreter(image).is_some() {
        return false;
    }
    ElfFile64::<LittleEndian>::parse(image).is_ok_and(|file| {
        let (mut is_program, mut needs) = (file.kind() == object::ObjectKind::Executable, false);
        for entry in file
            .elf_dynamic_table()
            .iter()
            .flat_map(object::read::elf::DynamicTable::iter)
        {
            needs |= entry.tag == elf::DT_NEEDED || entry.tag == elf::DT_SONAME;
            is_program |= entry.tag == elf::DT_FLAGS_1 && entry.val & elf::DF_1_PIE.0 != 0;
        }
        is_program && !needs
    })
}

/// Whether the image is a dynamic linker and no more: musl's is the C library too.
pub fn is_linker(image: &[u8]) -> bool {
    has_soname(image, b"ld-")
}

/// Whether the image has a name for programs that want it as a library.
pub fn is_named_library(image: &[u8]) -> bool {
    has_soname(image, b"")
}

/// Whether it has one that begins so.
fn has_soname(image: &[u8], prefix: &[u8]) -> bool {
    ElfFile64::<LittleEndian>::parse(image)
        .and_then(|file| file.elf_dynamic_table())
        .is_ok_and(|table| {
            table
                .iter()
                .filter(|entry| entry.tag == elf::DT_SONAME)
                .take(1)
                .any(|entry| {
                    table
                        .string(entry)
                        .is_ok_and(|name| name.starts_with(prefix))
                })
        })
}

/// Whether the image names any function, for the linker or for a debugger.
pub fn has_symbols(image: &[u8]) -> bool {
    ElfFile64::<LittleEndian>::parse(image).is_ok_and(|file| {
        file.symbols()
            .chain(file.dynamic_symbols())
            .any(|symbol| symbol.kind() == object::SymbolKind::Text && symbol.is_definition())
    })
}

/// Whether the image uses a function of another file that has one of these names.
pub fn imports_any<S: BuildHasher>(image: &[u8], wanted: &HashSet<String, S>) -> bool {
    ElfFile64::<LittleEndian>::parse(image).is_ok_and(|file| {
        names::dynamic(&file).any(|symbol| {
            symbol.is_undefined() && symbol.text().is_some_and(|name| wanted.contains(name))
        })
    })
}

/// The build id, which a separate debug file shares; `None` if there is none.
pub fn build_id(image: &[u8]) -> Option<Vec<u8>> {
    check(image).ok()?;
    let file = ElfFile64::<LittleEndian>::parse(image).ok()?;
    let id = file.build_id().ok()??;
    (1..=MAX_BUILD_ID).contains(&id.len()).then(|| id.to_vec())
}

/// The parts of the file that are mapped, in the file's order.
///
/// # Errors
/// The file is not a sound 64-bit x86 ELF file.
pub fn load_segments(image: &[u8]) -> Result<Vec<Segment>, ElfError> {
    let length = image.len() as u64;
    let loaded = program_headers(image)?
        .iter()
        .filter(|header| header.p_type(LE) == elf::PT_LOAD)
        .map(|header| Segment {
            vaddr: header.p_vaddr(LE),
            offset: header.p_offset(LE),
            // The file cannot give more than it has, whatever it says.
            filesz: header
                .p_filesz(LE)
                .min(length.saturating_sub(header.p_offset(LE))),
            memsz: header.p_memsz(LE),
            executable: header.p_flags(LE).contains(elf::PF_X),
        });
    Ok(loaded.collect())
}

/// The address of the first executable part, in the file's own numbering: what
/// a process's `start_code` minus the load bias is, up to the page.
pub fn first_executable_vaddr(image: &[u8]) -> Option<u64> {
    let segments = load_segments(image).ok()?;
    let executable = segments.iter().filter(|segment| segment.executable);
    executable.map(|segment| segment.vaddr).min()
}

/// Told apart first, so that the error says what the file is.
fn check(image: &[u8]) -> Result<(), ElfError> {
    if !is_elf(image) {
        return Err(ElfError::NotElf);
    }
    // Too short for these fields is too short for the header, found below.
    let class = image.get(4).copied().unwrap_or_default();
    let machine = match image.get(18..20) {
        Some(&[low, high]) => u16::from_le_bytes([low, high]),
        _ => 0,
    };
    let complete = image.len() >= size_of::<FileHeader64<LittleEndian>>();
    if complete && (class != elf::ELFCLASS64.0 || machine != elf::EM_X86_64.0) {
        return Err(ElfError::NotX86_64 { class, machine });
    }
    Ok(())
}

fn program_headers(image: &[u8]) -> Result<&[ProgramHeader64<LittleEndian>], ElfError> {
    check(image)?;
    let header = FileHeader64::<LittleEndian>::parse(image)?;
    // An error if the file says that it is big-endian.
    header.endian()?;
    let headers = header.program_headers(LE, image)?;
    is_in_proportion(header, headers, image)?;
    Ok(headers)
}

/// Whether reading takes a time that goes with the file's length: in a file that was made
/// to be read slowly, many tables may claim the same bytes.
fn is_in_proportion(
    header: &FileHeader64<LittleEndian>,
    headers: &[ProgramHeader64<LittleEndian>],
    image: &[u8],
) -> Result<(), ElfError> {
    if image.len() > MAX_FILE {
        return Err(ElfError::Excessive("bigger than any program is"));
    }
    if headers.len() > MAX_SEGMENTS {
        return Err(ElfError::Excessive("more segments than any program has"));
    }
    let Ok(sections) = header.sections(LE, image) else {
        // Whoever looks for one finds none.
        return Ok(());
    };
    if sections.len() > MAX_SECTIONS {
        return Err(ElfError::Excessive("more sections than any program has"));
    }
    let mut notes: u64 = 0;
    for header in headers.iter().filter(|it| it.p_type(LE) == elf::PT_NOTE) {
        notes = notes.saturating_add(header.p_filesz(LE));
    }
    for section in sections.iter() {
        let name = sections.section_name(LE, section);
        if name.is_ok_and(|name| name.len() > MAX_SECTION_NAME) || name.is_err() {
            return Err(ElfError::Excessive("a section with an endless name"));
        }
        if section.sh_type(LE) == elf::SHT_NOTE {
            notes = notes.saturating_add(section.sh_size(LE));
        }
    }
    // Each is in a segment and in a section.
    if notes > 4 * image.len() as u64 {
        return Err(ElfError::Excessive("more notes than the file holds"));
    }
    Ok(())
}

/// A symbol of interest.
#[derive(Clone, Copy)]
struct Found {
    /// Index in [`NAMES`].
    name: usize,
    vaddr: u64,
    size: u64,
}

impl Found {
    /// Its code; `None` if the symbol lies outside of the file's executable parts.
    fn code<'a>(&self, image: &'a [u8], segments: &[Segment]) -> Option<Code<'a>> {
        let size = match self.size {
            0 => UNSIZED_CODE,
            size => size.min(MAX_CODE),
        };
        code_at(image, segments, self.vaddr, size)
    }
}

pub(super) type Table<'a> = SymbolTable<'a, FileHeader64<LittleEndian>>;

/// Adds the functions that a symbol table defines and `found` does not have.
fn search(file: &ElfFile64<'_, LittleEndian>, table: &Table<'_>, found: &mut Vec<Found>) {
    let names = strings(file, table.string_section());
    for symbol in table.iter() {
        if symbol.is_undefined(LE) || symbol.st_type() != elf::STT_FUNC {
            continue;
        }
        let text = text_at(names, symbol.st_name(LE));
        let Some(name) = NAMES.iter().position(|(name, _)| is_text(text, name)) else {
            continue;
        };
        let new = Found {
            name,
            vaddr: symbol.st_value(LE),
            size: symbol.st_size(LE),
        };
        let function = NAMES[name].1;
        let full = found.len() >= MAX_POINTS;
        let same = found
            .iter_mut()
            .find(|old| old.vaddr == new.vaddr && NAMES[old.name].1 == function);
        match same {
            Some(old) => {
                old.name = old.name.min(new.name);
                old.size = old.size.max(new.size);
            }
            None if full => return,
            None => found.push(new),
        }
    }
}

/// The bytes of a string section, empty if there is none.
pub(super) fn strings<'a>(
    file: &ElfFile64<'a, LittleEndian>,
    section: object::SectionIndex,
) -> &'a [u8] {
    let section = file.elf_section_table().section(section).ok();
    section
        .and_then(|section| section.data(LE, file.data()).ok())
        .unwrap_or_default()
}

/// A string section from an offset on. Not cut at the zero: searching for it
/// in every symbol of a hostile file would take time in the square of its size.
pub(super) fn text_at(strings: &[u8], offset: u32) -> &[u8] {
    strings.get(offset as usize..).unwrap_or_default()
}

/// Whether the zero-terminated string at the start of `text` is `name`.
fn is_text(text: &[u8], name: &str) -> bool {
    text.strip_prefix(name.as_bytes())
        .is_some_and(|rest| rest.first() == Some(&0))
}

#[cfg(test)]
#[path = "elf_tests.rs"]
mod tests;
