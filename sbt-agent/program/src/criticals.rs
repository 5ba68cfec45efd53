//! The names of variables in memory; and of critical sections of OpenMP: GCC and clang make a variable
//! for each, which holds the lock.

use memmap2::Mmap;
use object::{LittleEndian, Object as _, ObjectSymbol as _, SymbolKind, read::elf::ElfFile64};

use crate::{
    debuginfo::demangled,
    elf::{load_segments, map},
    process,
};

/// How clang ends their names.
const SUFFIX: &str = ".var";

/// How compilers begin the names of these variables.
const PREFIX: &str = ".gomp_critical_user_";

/// The name of the critical section whose lock lies at an address of a process. `None` if the
/// section has no name, or the program no symbols.
pub fn name(pid: u32, address: u64) -> Option<String> {
    let (image, own) = of_file(pid, address)?;
    name_in(&image, own)
}

/// The variable that lies at an address of a process, by its symbol as in the file.
pub fn variable(pid: u32, address: u64) -> Option<String> {
    variable_around(pid, address).map(|(name, _)| name)
}

/// As [`variable`], with the offset of the address in the variable, bytes.
pub fn variable_around(pid: u32, address: u64) -> Option<(String, u64)> {
    let (image, own) = of_file(pid, address)?;
    variable_in(&image, own)
}

/// The file in which an address of a process lies, and the address in the file's own numbering.
fn of_file(pid: u32, address: u64) -> Option<(Mmap, u64)> {
    let mappings = process::mappings(pid);
    // A file's variables follow its code.
    let before = mappings.iter().filter(|mapping| mapping.start <= address);
    let mapping = before.max_by_key(|mapping| mapping.start)?;
    let image = map(&mapping.file(pid).ok()?).ok()?;
    let own = own_address(&image, mapping.start, mapping.offset, address)?;
    Some((image, own))
}

/// An address of the process in the file's own numbering. `start`, `offset`: where a part of the
/// file is mapped.
fn own_address(image: &[u8], start: u64, offset: u64, address: u64) -> Option<u64> {
    let segments = load_segments(image).ok()?;
    let mut holding = segments
        .iter()
        .filter(|segment| segment.executable && offset <= segment.offset + segment.filesz);
    let segment = holding.find(|segment| segment.offset & !0xfff <= offset)?;
    let mapped = segment
        .vaddr
        .checked_add(offset)?
        .checked_sub(segment.offset)?;
    address.checked_sub(start.checked_sub(mapped)?)
}

/// The name of the critical section whose lock lies at an address, in the file's own numbering.
pub(crate) fn name_in(image: &[u8], address: u64) -> Option<String> {
    let file = ElfFile64::<LittleEndian>::parse(image).ok()?;
    let mut symbols = file.symbols().filter(|symbol| symbol.address() == address);
    symbols.find_map(|symbol| {
        let name = symbol.name().ok()?.strip_prefix(PREFIX)?;
        let name = name.strip_suffix(SUFFIX).unwrap_or(name);
        // A section without a name has an empty one.
        (!name.is_empty()).then(|| name.to_owned())
    })
}

fn variable_in(image: &[u8], address: u64) -> Option<(String, u64)> {
    let file = ElfFile64::<LittleEndian>::parse(image).ok()?;
    let symbols = file.symbols().chain(file.dynamic_symbols());
    let around = symbols.filter(|symbol| {
        let until = symbol.address().saturating_add(symbol.size());
        symbol.is_definition()
            && symbol.kind() == SymbolKind::Data
            && (symbol.address()..until).contains(&address)
    });
    // Symbols may overlap: the nearest says most.
    let found = around.min_by_key(|symbol| (address - symbol.address(), symbol.size()))?;
    let name = demangled(found.name().ok()?);
    Some((name, address - found.address()))
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        process::Command,
        sync::atomic::{AtomicU64, Ordering},
    };

    use super::*;

    #[test]
    fn what_lies_in_a_variable_is_known_by_its_name() {
        static TABLE: [AtomicU64; 4] = [const { AtomicU64::new(1) }; 4];
        // A variable that nobody writes may be merged with others.
        TABLE[2].fetch_add(1, Ordering::Relaxed);
        let address = TABLE.as_ptr().expose_provenance() as u64;
        for offset in [0, 16] {
            let found = variable_around(std::process::id(), address + offset);
            let (name, within) = found.unwrap();
            assert!(name.ends_with("::TABLE"), "{name}");
            assert_eq!(within, offset);
        }
        let behind = variable(std::process::id(), address + 32);
        assert!(!behind.is_some_and(|name| name.ends_with("::TABLE")));
    }

    #[test]
    fn sections_are_named_by_their_variables() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("a.c");
        fs::write(
            &source,
            "int sum;\nvoid add(void) {\n#pragma omp critical(totals)\n    sum++;\n}\n\
             int main(void) { add(); return 0; }\n",
        )
        .unwrap();
        let path = folder.path().join("a");
        let mut compiler = Command::new("gcc");
        compiler.arg("-fopenmp").arg("-o").arg(&path).arg(&source);
        if !compiler.status().unwrap().success() {
            return;
        }
        let image = fs::read(&path).unwrap();
        let file = ElfFile64::<LittleEndian>::parse(&image[..]).unwrap();
        let mut symbols = file.symbols();
        let symbol =
            symbols.find(|symbol| symbol.name().is_ok_and(|name| name.starts_with(PREFIX)));
        let address = symbol.unwrap().address();
        assert_eq!(name_in(&image, address).as_deref(), Some("totals"));
        assert_eq!(name_in(&image, address + 1), None);
        // Mapped with its code at an address of the kernel's choice.
        let segments = load_segments(&image).unwrap();
        let code = segments.iter().find(|segment| segment.executable).unwrap();
        let (bias, page) = (0x5500_0000_0000, code.offset & !0xfff);
        let start = bias + code.vaddr - (code.offset - page);
        let own = own_address(&image, start, page, address + bias);
        assert_eq!(own, Some(address));
    }
}
