//! Symbols with their names, which in a hostile file may all be the same few megabytes.

use object::elf::{SHN_XINDEX, STT_FUNC, STT_GNU_IFUNC, STT_NOTYPE, STT_OBJECT, Sym64};
use object::read::elf::{ElfFile64, Sym as _};
use object::{LittleEndian, SymbolIndex};

use super::{LE, strings, text_at};

/// The most bytes of a name; longer names are cut.
pub(crate) const MAX_NAME: usize = 4096;

/// A symbol of a file, with its name.
#[derive(Clone, Copy)]
pub(crate) struct NamedSymbol<'a> {
    /// The name without a version; cut at [`MAX_NAME`].
    pub(crate) name: &'a [u8],
    symbol: &'a Sym64<LittleEndian>,
}

impl<'a> NamedSymbol<'a> {
    fn new(strings: &'a [u8], symbol: &'a Sym64<LittleEndian>) -> Self {
        let text = text_at(strings, symbol.st_name(LE));
        let text = &text[..text.len().min(MAX_NAME)];
        let end = memchr::memchr(0, text).unwrap_or(text.len());
        Self {
            name: &text[..end],
            symbol,
        }
    }

    /// The name, if it is UTF-8.
    pub(crate) fn text(&self) -> Option<&'a str> {
        std::str::from_utf8(self.name).ok()
    }

    /// The symbol's address in the file's own numbering.
    pub(crate) fn address(&self) -> u64 {
        self.symbol.st_value(LE)
    }

    /// Size of the function or object, bytes; 0 if the table does not tell.
    pub(crate) fn size(&self) -> u64 {
        self.symbol.st_size(LE)
    }

    /// Whether the file defines the symbol, and does not only use it.
    pub(crate) fn is_definition(&self) -> bool {
        let section = self.symbol.st_shndx(LE);
        let is_here = !section.is_special() || section == SHN_XINDEX;
        is_here && [STT_FUNC, STT_OBJECT, STT_NOTYPE].contains(&self.symbol.st_type())
    }

    /// Whether the symbol is defined in another file.
    pub(crate) fn is_undefined(&self) -> bool {
        self.symbol.is_undefined(LE)
    }

    /// Whether the symbol is code.
    pub(crate) fn is_function(&self) -> bool {
        [STT_FUNC, STT_GNU_IFUNC].contains(&self.symbol.st_type())
    }
}

/// The symbols for the dynamic linker.
pub(crate) fn dynamic<'a>(
    file: &ElfFile64<'a, LittleEndian>,
) -> impl Iterator<Item = NamedSymbol<'a>> + use<'a> {
    let table = file.elf_dynamic_symbol_table();
    let strings = strings(file, table.string_section());
    // The first entry is a placeholder.
    let symbols = table.iter().skip(1);
    symbols.map(move |symbol| NamedSymbol::new(strings, symbol))
}

/// The symbols for debuggers.
pub(crate) fn full<'a>(
    file: &ElfFile64<'a, LittleEndian>,
) -> impl Iterator<Item = NamedSymbol<'a>> + use<'a> {
    let table = file.elf_symbol_table();
    let strings = strings(file, table.string_section());
    let symbols = table.iter().skip(1);
    symbols.map(move |symbol| NamedSymbol::new(strings, symbol))
}

/// Whether any name in the file may contain `part`. Searching the text of all names at once takes a
/// fraction of the time that going through the symbols takes.
pub(crate) fn may_hold(file: &ElfFile64<'_, LittleEndian>, part: &[u8]) -> bool {
    let tables = [file.elf_dynamic_symbol_table(), file.elf_symbol_table()];
    tables.into_iter().any(|table| {
        let strings = strings(file, table.string_section());
        memchr::memmem::find(strings, part).is_some()
    })
}

/// Whether any name in the table for the dynamic linker may contain one of `parts`. Also true for a
/// file whose table has no names: a static program.
pub(crate) fn dynamic_may_hold(file: &ElfFile64<'_, LittleEndian>, parts: &[&[u8]]) -> bool {
    let table = file.elf_dynamic_symbol_table();
    let strings = strings(file, table.string_section());
    let holds = |part: &&[u8]| memchr::memmem::find(strings, part).is_some();
    table.iter().nth(1).is_none() || strings.is_empty() || parts.iter().any(holds)
}

/// All symbols that the file defines, the symbols for the dynamic linker first.
pub(crate) fn defined<'a>(
    file: &ElfFile64<'a, LittleEndian>,
) -> impl Iterator<Item = NamedSymbol<'a>> + use<'a> {
    dynamic(file)
        .chain(full(file))
        .filter(NamedSymbol::is_definition)
}

/// A symbol for the dynamic linker by its index, as relocations give it.
pub(crate) fn dynamic_at<'a>(
    file: &ElfFile64<'a, LittleEndian>,
    index: SymbolIndex,
) -> Option<NamedSymbol<'a>> {
    let table = file.elf_dynamic_symbol_table();
    let symbol = table.symbol(index).ok()?;
    Some(NamedSymbol::new(
        strings(file, table.string_section()),
        symbol,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_held_if_a_symbol_has_it() {
        let image = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let file = ElfFile64::parse(&*image).unwrap();
        let all = || dynamic(&file).chain(full(&file));
        let mut names: Vec<&[u8]> = all().map(|symbol| symbol.name).collect();
        names.sort_unstable();
        names.dedup();
        assert!(names.len() > 1000);
        for name in names.iter().step_by(names.len() / 100) {
            assert!(may_hold(&file, name));
        }
        let none = ["no_such_name_", "\u{1}"].concat();
        assert!(!may_hold(&file, none.as_bytes()));
    }
}
