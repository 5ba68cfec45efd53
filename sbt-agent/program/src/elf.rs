//! Finds the functions to probe in the image of an ELF file.
//!
//! The file belongs to the target and may be anything: every number in it is checked, work and
//! memory are bounded by its size, and a file that is not a 64-bit x86 program is an [`ElfError`].

mod code;
mod condvars;
mod dynamic;
mod imports;
mod layout;
pub(super) mod names;
mod offered;
mod thread_number;

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

pub use crate::access::target::open as open_regular;
pub(super) use thread_number::thread_number;

use crate::arch;
use crate::point::{Function, Point};
pub(super) use code::{
    Code, called_directly, called_through, code_at, data_at, is_after_call, is_after_direct_call,
};
pub(super) use dynamic::Dynamic;
pub(super) use imports::{Imports, jumps_through};
pub(super) use offered::DynamicNames;

/// The most points of a file, more than any C library has; a hostile file may claim millions.
const MAX_POINTS: usize = 64;

/// The most bytes of code given to the prologue decoder: enough to see the jumps back.
const MAX_CODE: u64 = 4096;

/// Bytes of code given to the prologue decoder for a symbol without a size.
const UNSIZED_CODE: u64 = 64;

/// The most program headers: the kernel executes no file with more than 64 KiB of them.
const MAX_SEGMENTS: usize = (64 << 10) / size_of::<ProgramHeader64<LittleEndian>>();

/// The most sections. Linked files have some forty; with many more, each search for a section would
/// be a search of the whole file.
const MAX_SECTIONS: usize = 1 << 12;

/// The most bytes of a file; bigger files consist of holes.
const MAX_FILE: usize = 8 << 30;

/// The longest name of a section, bytes.
const MAX_SECTION_NAME: usize = 256;

/// The most bytes of a build id. Real ones have 8 to 32 bytes, and longer ones cannot be file names
/// anyway.
const MAX_BUILD_ID: usize = 64;

/// x86 has little-endian files only.
pub(super) const LE: LittleEndian = LittleEndian;

/// The names to look for, the preferred name of each function first. Static programs may have only
/// the names with underscores.
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

/// How all of [`NAMES`] begin: of a hundred thousand symbols nearly all are ruled out at once.
const BEGINNINGS: [&[u8]; 3] = [b"pthread_", b"__pthread_", b"_dl_"];

const WAKES_ALL: Function = Function::CondWake { most: 0 };
const WAKES_ONE: Function = Function::CondWake { most: 1 };

/// A part of the file that is mapped: a `PT_LOAD` program header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Address in the file's own numbering, before any load bias.
    pub vaddr: u64,
    /// Offset in the file, bytes.
    pub offset: u64,
    /// Bytes that come from the file.
    pub filesz: u64,
    /// Bytes in memory; those beyond `filesz` are zero.
    pub memsz: u64,
    /// Whether the segment is mapped executable.
    pub executable: bool,
}

impl Segment {
    /// The file offset of an address, if the file holds it.
    pub(super) fn file_offset(&self, vaddr: u64) -> Option<u64> {
        let within = vaddr.checked_sub(self.vaddr)?;
        (within < self.filesz).then(|| self.offset.checked_add(within))?
    }

    /// The address of a file offset, if the segment contains it.
    pub(super) fn address(&self, offset: u64) -> Option<u64> {
        let within = offset.checked_sub(self.offset)?;
        (within < self.filesz).then(|| self.vaddr.checked_add(within))?
    }
}

/// Why no functions can be looked for in a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ElfError {
    /// The file does not begin like an ELF file.
    #[error("not an ELF file")]
    NotElf,
    /// The file is for another processor, or 32-bit.
    #[error("not a 64-bit x86 ELF file (class {class}, machine {machine})")]
    NotX86_64 {
        /// `EI_CLASS`: 1 is 32-bit, 2 is 64-bit.
        class: u8,
        /// `e_machine`: 62 is x86-64.
        machine: u16,
    },
    /// The file's tables point outside of the file or make no sense.
    #[error("damaged ELF file: {0}")]
    Malformed(#[from] object::Error),
    /// Reading the file would take disproportionate time or memory.
    #[error("damaged ELF file: {0}")]
    Excessive(&'static str),
}

/// Maps a whole file, to be given to the other functions as an image.
///
/// # Errors
/// The file is empty, or the kernel does not map it.
pub fn map(file: &File) -> io::Result<Mmap> {
    // SAFETY: the mapping is private and only read. A process that may write to the file could
    // change the mapped bytes, which the readers, made for any bytes, tolerate; or it could
    // truncate the file, which ends sbt with SIGBUS. Loaded programs and libraries cannot be
    // written to while they execute, and replacing a file by another one, as installers do, does no
    // harm.
    unsafe { Mmap::map(file) }
}

/// Whether the file begins with the ELF magic number.
pub fn is_elf(image: &[u8]) -> bool {
    image.starts_with(b"\x7fELF")
}

/// The functions of a C library to probe that the file defines, and the names of such functions that
/// begin with instructions on which no probe may stand.
///
/// # Errors
/// The file is not a sound 64-bit x86 ELF file.
pub fn of_c_library(
    image: &[u8],
    segments: &[Segment],
) -> Result<(Vec<Point>, Vec<&'static str>), ElfError> {
    let file = ElfFile64::<LittleEndian>::parse(image)?;
    let tables = [file.elf_dynamic_symbol_table(), file.elf_symbol_table()];
    let mut found = Vec::new();
    search(&file, tables[0], &mut found);
    condvars::without_those_for_others(&mut found);
    search(&file, tables[1], &mut found);
    if found.is_empty() {
        return Ok((Vec::new(), Vec::new()));
    }
    let mut evidence = layout::Evidence::of_versions(&file);
    for table in tables {
        evidence.add_symbols(&file, table, segments);
    }
    condvars::without_repeated(&mut found, image, segments);
    let layout = evidence.layout();
    let (mut points, mut unfit) = (Vec::new(), Vec::new());
    for found in &found {
        let Some(code) = found.code(image, segments) else {
            continue;
        };
        let (symbol, function) = NAMES[found.name];
        match Point::of_function(function, symbol, &code, layout) {
            Some(point) => points.push(point),
            None => unfit.push(symbol),
        }
    }
    Ok((points, unfit))
}

/// The program interpreter that the file asks for; `None` for static programs, most libraries and
/// files that are not ELF.
pub fn interpreter(image: &[u8]) -> Option<PathBuf> {
    program_headers(image)
        .ok()?
        .iter()
        .find_map(|header| header.interpreter(LE, image).ok()?)
        .filter(|path| !path.is_empty())
        .map(|path| PathBuf::from(OsStr::from_bytes(path)))
}

/// Whether the image is a program that asks for a dynamic linker. Some libraries ask for a dynamic
/// linker too, so that they can print their version when they are executed: glibc's C library does.
pub fn is_program(image: &[u8]) -> bool {
    interpreter(image).is_some() && !is_named_library(image)
}

/// Whether the image can only be loaded at its own addresses (`ET_EXEC`).
pub fn is_fixed(image: &[u8]) -> bool {
    ElfFile64::<LittleEndian>::parse(image)
        .is_ok_and(|file| file.kind() == object::ObjectKind::Executable)
}

/// Whether the image is a statically linked program: it uses no functions but its own. A static
/// program that may be loaded anywhere (`-static-pie`) is recognised by the flag `DF_1_PIE`.
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

/// Whether the image is a dynamic linker and nothing else: musl's linker is its C library, too.
pub fn is_linker(image: &[u8]) -> bool {
    has_soname(image, b"ld-")
}

/// Whether the image has a name (`DT_SONAME`) by which programs ask for it as a library.
pub fn is_named_library(image: &[u8]) -> bool {
    has_soname(image, b"")
}

/// Whether the image has a `DT_SONAME` that begins with `prefix`.
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

/// The build id, which a separate debug file shares; `None` if the file has no usable one.
pub fn build_id(image: &[u8]) -> Option<Vec<u8>> {
    check(image).ok()?;
    let file = ElfFile64::<LittleEndian>::parse(image).ok()?;
    let id = file.build_id().ok()??;
    (1..=MAX_BUILD_ID).contains(&id.len()).then(|| id.to_vec())
}

/// How many bytes of code a file has; 0 if it is not an ELF file.
pub fn length_of_code(image: &[u8]) -> u64 {
    let segments = load_segments(image).unwrap_or_default();
    let code = segments.iter().filter(|segment| segment.executable);
    code.fold(0, |sum, segment| sum.saturating_add(segment.filesz))
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
            // The file cannot give more bytes than it has, whatever the header says.
            filesz: header
                .p_filesz(LE)
                .min(length.saturating_sub(header.p_offset(LE))),
            memsz: header.p_memsz(LE),
            executable: header.p_flags(LE).contains(elf::PF_X),
        });
    Ok(loaded.collect())
}

/// Checks kind, class and machine before anything else, so that the error says what the file is.
fn check(image: &[u8]) -> Result<(), ElfError> {
    if !is_elf(image) {
        return Err(ElfError::NotElf);
    }
    // A file too short for these fields is too short for the header, which is found below.
    let class = image.get(4).copied().unwrap_or_default();
    let machine = match image.get(18..20) {
        Some(&[low, high]) => u16::from_le_bytes([low, high]),
        _ => 0,
    };
    let complete = image.len() >= size_of::<FileHeader64<LittleEndian>>();
    if complete && (class != elf::ELFCLASS64.0 || machine != arch::files::MACHINE) {
        return Err(ElfError::NotX86_64 { class, machine });
    }
    Ok(())
}

fn program_headers(image: &[u8]) -> Result<&[ProgramHeader64<LittleEndian>], ElfError> {
    check(image)?;
    let header = FileHeader64::<LittleEndian>::parse(image)?;
    // Fails if the file says that it is big-endian.
    header.endian()?;
    let headers = header.program_headers(LE, image)?;
    is_in_proportion(header, headers, image)?;
    Ok(headers)
}

/// Whether reading takes time proportional to the file's length: in a file that was made to be read
/// slowly, many tables may claim the same bytes.
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
        // A search for a section then finds nothing.
        return Ok(());
    };
    if sections.len() > MAX_SECTIONS {
        return Err(ElfError::Excessive("more sections than any program has"));
    }
    let mut notes: u64 = 0;
    for header in headers
        .iter()
        .filter(|header| header.p_type(LE) == elf::PT_NOTE)
    {
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
    // Each note is in a segment and in a section.
    if notes > 4 * image.len() as u64 {
        return Err(ElfError::Excessive("more notes than the file holds"));
    }
    Ok(())
}

/// A symbol of interest.
#[derive(Clone, Copy)]
struct FoundSymbol {
    /// Index in [`NAMES`].
    name: usize,
    vaddr: u64,
    size: u64,
}

impl FoundSymbol {
    /// The function's code; `None` if the symbol lies outside of the file's executable parts.
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
fn search(file: &ElfFile64<'_, LittleEndian>, table: &Table<'_>, found: &mut Vec<FoundSymbol>) {
    let names = strings(file, table.string_section());
    for symbol in table.iter() {
        if symbol.is_undefined(LE) || symbol.st_type() != elf::STT_FUNC {
            continue;
        }
        let text = text_at(names, symbol.st_name(LE));
        if !BEGINNINGS.iter().any(|begin| text.starts_with(begin)) {
            continue;
        }
        let Some(name) = NAMES.iter().position(|(name, _)| is_text(text, name)) else {
            continue;
        };
        let new = FoundSymbol {
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

/// The bytes of a string section; empty if there is no such section.
pub(super) fn strings<'a>(
    file: &ElfFile64<'a, LittleEndian>,
    section: object::SectionIndex,
) -> &'a [u8] {
    let section = file.elf_section_table().section(section).ok();
    section
        .and_then(|section| section.data(LE, file.data()).ok())
        .unwrap_or_default()
}

/// A string section from an offset on. The text is not cut at the terminating zero: searching for
/// the zero in every symbol of a hostile file would take time in the square of the file's size.
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
