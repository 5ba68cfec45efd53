//! The names that some distributions leave in stripped files: `.gnu_debugdata` is a small ELF file with
//! the symbols of the functions that other files cannot call, compressed by xz. It is called
//! `MiniDebugInfo`.

use std::io::Read as _;

use lzma_rust2::XzReader;
use object::read::elf::ElfFile64;
use object::{LittleEndian, Object as _, ObjectSection as _};

const SECTION: &str = ".gnu_debugdata";

/// The most bytes that the section may expand to. Those of the largest programs take a few
/// megabytes.
const MAX_SIZE: u64 = 64 << 20;

/// The most memory that expanding may take, KiB: the section tells how much it needs.
const MAX_MEMORY: u32 = 128 << 10;

/// The ELF file in the section; `None` if there is none, or it is damaged or too large.
pub(super) fn file(image: &[u8]) -> Option<Vec<u8>> {
    let file = ElfFile64::<LittleEndian>::parse(image).ok()?;
    let section = file.section_by_name(SECTION)?;
    let reader = XzReader::new_mem_limit(section.data().ok()?, false, MAX_MEMORY);
    let mut found = Vec::new();
    let read = reader.take(MAX_SIZE + 1).read_to_end(&mut found).ok()?;
    (read as u64 <= MAX_SIZE).then_some(found)
}

/// Whether a file has the symbols of all its functions.
pub(super) fn is_whole(image: &[u8]) -> bool {
    let file = ElfFile64::<LittleEndian>::parse(image);
    file.is_ok_and(|file| file.elf_symbol_table().iter().next().is_some())
}
