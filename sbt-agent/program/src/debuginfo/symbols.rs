//! The functions that symbol tables name.
//!
//! Names are searched in the tables as they are: such questions are few, and an index of a big
//! program's symbols is not small. For addresses there is an index.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashSet};

use object::LittleEndian;
use object::SymbolIndex;
use object::elf::{self, Sym64};
use object::read::elf::{ElfFile64, Sym};

use super::copies;
use super::names;
use crate::elf::{LE, Table, strings, text_at};
use sbt_engine::pattern::is_function;

/// The most functions of one name that are probed one by one.
pub(super) const MAX_FOUND: usize = 256;

/// The most bytes of a table's names that are read for one question. In a hostile file each symbol
/// may have the same long name.
const MAX_READ: usize = 1 << 30;

/// The most bytes of names that are demangled: some seconds at worst.
const MAX_DEMANGLED: usize = 1 << 24;

/// A function in a symbol table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// The name as the table has it, without a version.
    pub name: String,
    /// The function's address in the file's own numbering.
    pub start: u64,
    /// Size of the function, bytes; 0 if the table does not tell.
    pub size: u64,
}

/// The error that more functions or places were found than anybody can mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooMany;

/// The symbol tables of a file and of its separate debug file.
pub(super) struct Symbols<'a> {
    files: Vec<ElfFile64<'a, LittleEndian>>,
}

impl<'a> Symbols<'a> {
    pub(super) fn of(images: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let parse = |image| ElfFile64::<LittleEndian>::parse(image).ok();
        Self {
            files: images.into_iter().filter_map(parse).collect(),
        }
    }

    /// The tables, full ones first, each with its file.
    fn tables(&self) -> impl Iterator<Item = (&ElfFile64<'a, LittleEndian>, &Table<'a>)> {
        let full = self
            .files
            .iter()
            .map(|file| (file, file.elf_symbol_table()));
        let dynamic = self
            .files
            .iter()
            .map(|file| (file, file.elf_dynamic_symbol_table()));
        full.chain(dynamic)
    }

    /// Every function that can be called by its address, and the text that begins with its name.
    fn each(&self) -> impl Iterator<Item = (&Sym64<LittleEndian>, &'a [u8])> {
        self.of_type(elf::STT_FUNC)
    }

    fn of_type(
        &self,
        kind: elf::SymbolType,
    ) -> impl Iterator<Item = (&Sym64<LittleEndian>, &'a [u8])> {
        self.tables().flat_map(move |(file, table)| {
            let names = strings(file, table.string_section());
            table
                .iter()
                .filter(move |symbol| symbol.st_type() == kind && !symbol.is_undefined(LE))
                .map(move |symbol| (symbol, text_at(names, symbol.st_name(LE))))
        })
    }

    /// Every function with its name, up to [`MAX_READ`].
    fn named(&self) -> impl Iterator<Item = (&Sym64<LittleEndian>, &'a [u8])> {
        within_limit(self.each())
    }

    /// The names of the variants, as far as the tables tell, of a function that stands for the
    /// variant that suits the processor; `None` if no such function has the name.
    pub(super) fn variants(&self, written: &str) -> Option<Vec<String>> {
        let mut asked = SoughtName::new(written);
        let mut chosen = within_limit(self.of_type(elf::STT_GNU_IFUNC));
        chosen.find(|(_, name)| asked.means(name))?;
        let of_variant = |name: &[u8]| copies::is_variant(name, written.as_bytes());
        let variants: BTreeSet<String> = self
            .named()
            .filter(|(_, name)| of_variant(name))
            .take(MAX_FOUND)
            .map(|(_, name)| String::from_utf8_lossy(name).into_owned())
            .collect();
        Some(variants.into_iter().collect())
    }

    /// The functions that a user may mean by a name, and the copies that a compiler has made of
    /// them, in the order of addresses.
    pub(super) fn functions(&self, written: &str) -> Result<Vec<Symbol>, TooMany> {
        let mut found = BTreeMap::new();
        let mut asked = SoughtName::new(written);
        for (symbol, name) in self.named() {
            if asked.means(name) {
                add(&mut found, symbol, name);
                if found.len() > MAX_FOUND {
                    return Err(TooMany);
                }
            }
        }
        Ok(found.into_values().collect())
    }

    /// The functions of exactly this name in the table, in the order of addresses.
    pub(super) fn exactly(&self, written: &str) -> Result<Vec<Symbol>, TooMany> {
        let mut found = BTreeMap::new();
        for (symbol, name) in self.named() {
            if name == written.as_bytes() {
                add(&mut found, symbol, name);
                if found.len() > MAX_FOUND {
                    return Err(TooMany);
                }
            }
        }
        Ok(found.into_values().collect())
    }

    /// The function that spans an address, by its name in the table: of several functions the
    /// innermost, and of those that begin together the shortest.
    pub(super) fn spanning(&self, vaddr: u64, all: &ByAddress) -> Option<Symbol> {
        let order =
            |symbol: &Sym64<LittleEndian>| (symbol.st_value(LE), Reverse(symbol.st_size(LE)));
        let mut found: Option<(&Sym64<LittleEndian>, &[u8])> = None;
        for ((file, table), spans) in self.tables().zip(&all.0) {
            let Some(span) = innermost(spans, vaddr) else {
                continue;
            };
            let Ok(symbol) = table.symbol(span.index) else {
                continue;
            };
            if found.is_none_or(|(old, _)| order(symbol) > order(old)) {
                let names = strings(file, table.string_section());
                found = Some((symbol, text_at(names, symbol.st_name(LE))));
            }
        }
        found.map(|(symbol, text)| of(symbol, names::raw(text)))
    }

    /// The parts of the functions of these names that compilers have put elsewhere, because they
    /// are seldom executed.
    pub(super) fn cold_parts(&self, functions: &HashSet<&str>) -> Vec<Symbol> {
        self.named()
            .filter(|(_, name)| {
                copies::whole_of_cold(name)
                    .and_then(|whole| std::str::from_utf8(whole).ok())
                    .is_some_and(|whole| functions.contains(whole))
            })
            .take(MAX_FOUND)
            .map(|(symbol, name)| of(symbol, name))
            .collect()
    }

    /// The names of at most `limit` functions, demangled; a copy has the function's own name.
    pub(super) fn some(&self, limit: usize) -> Vec<String> {
        let mut left = MAX_DEMANGLED;
        self.named()
            .filter_map(|(_, name)| copies::original(name))
            .filter(|name| !name.is_empty())
            .take(limit)
            .map_while(|name| {
                left = left.checked_sub(name.len())?;
                Some(names::of_symbol(name))
            })
            .collect()
    }

    /// The functions of each table by address.
    pub(super) fn by_address(&self) -> ByAddress {
        ByAddress(self.tables().map(|(_, table)| spans(table)).collect())
    }

    /// Start of the function that spans the address, and the name that it is known by.
    pub(super) fn at(&self, vaddr: u64, all: &ByAddress) -> Option<(u64, String)> {
        self.tables()
            .zip(&all.0)
            .find_map(|((file, table), spans)| at(file, table, spans, vaddr))
    }
}

/// The functions by address: one list for each table.
pub(super) struct ByAddress(Vec<Vec<Span>>);

/// A function in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    start: u64,
    /// Size of the function, bytes.
    size: u64,
    /// The furthest end of all functions up to this one.
    reach: u64,
    /// The index of the function's symbol.
    index: SymbolIndex,
    /// Whether the function stands for the variant that suits the processor (`STT_GNU_IFUNC`).
    is_chosen: bool,
    /// Whether the function has a name.
    is_named: bool,
}

impl ByAddress {
    /// The start of the function that spans the address: the function of [`Symbols::at`].
    pub(super) fn start(&self, vaddr: u64) -> Option<u64> {
        self.0.iter().find_map(|spans| {
            let mut closest = spanning(spans, vaddr).filter(|span| span.is_named);
            Some(closest.next()?.start)
        })
    }
}

fn spans(table: &Table<'_>) -> Vec<Span> {
    let functions = table.enumerate().filter(|(_, symbol)| {
        let kind = symbol.st_type();
        (kind == elf::STT_FUNC || kind == elf::STT_GNU_IFUNC) && !symbol.is_undefined(LE)
    });
    // Sorted as pairs: a big library has some hundred thousand functions.
    let mut order: Vec<_> = functions
        .filter_map(|(index, symbol)| Some((symbol.st_value(LE), u32::try_from(index.0).ok()?)))
        .collect();
    order.sort_unstable();
    let in_order = order.iter().filter_map(|(start, index)| {
        let index = SymbolIndex(usize::try_from(*index).ok()?);
        let symbol = table.symbol(index).ok()?;
        Some(Span {
            start: *start,
            size: symbol.st_size(LE),
            reach: 0,
            index,
            is_chosen: symbol.st_type() == elf::STT_GNU_IFUNC,
            // The names themselves are many pages of a big library.
            is_named: symbol.st_name(LE) != 0,
        })
    });
    let mut spans: Vec<Span> = in_order.collect();
    fill_reach(&mut spans);
    spans
}

/// Fills in how far each function and those before it reach. `spans` are in order.
fn fill_reach(spans: &mut [Span]) {
    let mut reach = 0;
    for span in spans {
        reach = reach.max(span.start.saturating_add(span.size));
        span.reach = reach;
    }
}

/// The functions that span an address, with the latest start first. `spans` are in order.
fn spanning(spans: &[Span], vaddr: u64) -> impl Iterator<Item = &Span> {
    closest(spans, vaddr)
        .flatten()
        .filter(move |span| vaddr - span.start < span.size)
}

/// Groups of functions that begin together, from the last start at or before an address backwards,
/// as long as any may reach the address.
fn closest(spans: &[Span], vaddr: u64) -> impl Iterator<Item = &[Span]> {
    let before = &spans[..spans.partition_point(|span| span.start <= vaddr)];
    before
        .chunk_by(|one, next| one.start == next.start)
        .rev()
        .take_while(move |alike| alike.last().is_some_and(|span| vaddr < span.reach))
}

/// Of the functions that span an address, the one with the latest start; of those that begin
/// together the shortest, and of equals the first of its table.
fn innermost(spans: &[Span], vaddr: u64) -> Option<&Span> {
    closest(spans, vaddr).find_map(|alike| {
        alike
            .iter()
            .filter(|span| !span.is_chosen && vaddr - span.start < span.size)
            .min_by_key(|span| span.size)
    })
}

fn within_limit<'t, 'a>(
    symbols: impl Iterator<Item = (&'t Sym64<LittleEndian>, &'a [u8])>,
) -> impl Iterator<Item = (&'t Sym64<LittleEndian>, &'a [u8])> {
    let mut left = MAX_READ;
    symbols.map_while(move |(symbol, text)| {
        let name = names::raw(text);
        left = left.checked_sub(name.len())?;
        Some((symbol, name))
    })
}

fn of(symbol: &Sym64<LittleEndian>, name: &[u8]) -> Symbol {
    Symbol {
        name: String::from_utf8_lossy(name).into_owned(),
        start: symbol.st_value(LE),
        size: symbol.st_size(LE),
    }
}

fn add(found: &mut BTreeMap<u64, Symbol>, symbol: &Sym64<LittleEndian>, name: &[u8]) {
    let new = of(symbol, name);
    found
        .entry(new.start)
        .and_modify(|old| old.size = old.size.max(new.size))
        .or_insert(new);
}

fn at(
    file: &ElfFile64<'_, LittleEndian>,
    table: &Table<'_>,
    spans: &[Span],
    vaddr: u64,
) -> Option<(u64, String)> {
    let names = strings(file, table.string_section());
    let before = &spans[..spans.partition_point(|span| span.start <= vaddr)];
    // Groups of functions that begin together, the closest first.
    let closest = before
        .chunk_by(|one, next| one.start == next.start)
        .rev()
        .take_while(|alike| alike.last().is_some_and(|span| vaddr < span.reach));
    let mut found = closest.filter_map(|alike| {
        alike
            .iter()
            .filter_map(|span| table.symbol(span.index).ok())
            .filter(|symbol| vaddr - symbol.st_value(LE) < symbol.st_size(LE))
            .map(|symbol| (symbol, text_at(names, symbol.st_name(LE))))
            .filter(|(_, name)| !matches!(name.first(), None | Some(0)))
            // Of several names for one function the public one.
            .max_by_key(|(symbol, name)| {
                let underscores = name.iter().take(8).take_while(|&&byte| byte == b'_');
                (
                    Reverse(symbol.st_size(LE)),
                    !symbol.is_local(),
                    Reverse(underscores.count()),
                )
            })
    });
    let (symbol, name) = found.next()?;
    Some((symbol.st_value(LE), names::of_symbol(name)))
}

/// A name that is looked for among mangled names.
pub(super) struct SoughtName<'a> {
    written: &'a str,
    /// A text that every mangled form of the name contains, if known: symbols without it need not
    /// be demangled.
    part: Option<&'a str>,
    left: usize,
}

impl<'a> SoughtName<'a> {
    pub(super) fn new(written: &'a str) -> Self {
        Self {
            written,
            part: names::identifier(written),
            left: MAX_DEMANGLED,
        }
    }

    pub(super) fn means(&mut self, name: &[u8]) -> bool {
        if name == self.written.as_bytes() {
            return true;
        }
        let Some(original) = copies::original(name) else {
            return false;
        };
        if original == self.written.as_bytes() {
            return true;
        }
        if !names::is_mangled(original) || self.part.is_some_and(|part| !holds(original, part)) {
            return false;
        }
        let Some(left) = self.left.checked_sub(original.len()) else {
            return false;
        };
        self.left = left;
        is_function(&names::of_symbol(original), self.written)
    }
}

fn holds(name: &[u8], part: &str) -> bool {
    name.windows(part.len())
        .any(|window| window == part.as_bytes())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_innermost_is_found_as_if_all_were_looked_at(
            functions in prop::collection::vec((0_u64..60, 0_u64..30, any::<bool>()), 0..40),
        ) {
            let mut spans: Vec<Span> = (1..)
                .zip(&functions)
                .map(|(index, (start, size, is_chosen))| Span {
                    start: *start,
                    size: *size,
                    reach: 0,
                    index: SymbolIndex(index),
                    is_chosen: *is_chosen,
                    is_named: true,
                })
                .collect();
            let all = spans.clone();
            spans.sort_by_key(|span| (span.start, span.index.0));
            fill_reach(&mut spans);
            for vaddr in 0..100 {
                let spanning = all.iter().filter(|span| {
                    !span.is_chosen && (span.start..span.start + span.size).contains(&vaddr)
                });
                let naive = spanning.max_by_key(|span| {
                    (span.start, Reverse(span.size), Reverse(span.index.0))
                });
                let found = innermost(&spans, vaddr).map(|span| span.index);
                prop_assert_eq!(found, naive.map(|span| span.index), "at {}", vaddr);
            }
        }
    }

    /// The result of looking at all symbols.
    fn naive(symbols: &Symbols<'_>, vaddr: u64) -> Option<(u64, String)> {
        symbols.tables().find_map(|(file, table)| {
            let names = strings(file, table.string_section());
            let spanning = table.iter().filter(|symbol| {
                let kind = symbol.st_type();
                let start = symbol.st_value(LE);
                (kind == elf::STT_FUNC || kind == elf::STT_GNU_IFUNC)
                    && !symbol.is_undefined(LE)
                    && (start..start + symbol.st_size(LE)).contains(&vaddr)
            });
            let candidates = spanning
                .map(|symbol| (symbol, text_at(names, symbol.st_name(LE))))
                .filter(|(_, name)| !matches!(name.first(), None | Some(0)));
            let (symbol, name) = candidates.max_by_key(|(symbol, name)| {
                let underscores = name.iter().take(8).take_while(|&&byte| byte == b'_');
                (
                    symbol.st_value(LE),
                    Reverse(symbol.st_size(LE)),
                    !symbol.is_local(),
                    Reverse(underscores.count()),
                )
            })?;
            Some((symbol.st_value(LE), names::of_symbol(name)))
        })
    }

    #[test]
    fn addresses_are_found_as_if_all_symbols_were_looked_at() {
        // These files have aliases, functions inside of others, and functions of size 0.
        for path in ["/proc/self/exe", "/lib/x86_64-linux-gnu/libc.so.6"] {
            let Ok(image) = std::fs::read(path) else {
                continue;
            };
            let symbols = Symbols::of([&image[..]]);
            let by_address = symbols.by_address();
            let all: Vec<(u64, u64)> = symbols
                .each()
                .map(|(symbol, _)| (symbol.st_value(LE), symbol.st_size(LE)))
                .collect();
            assert!(all.len() > 100, "{path}");
            for (start, size) in all.iter().step_by(all.len() / 50) {
                for vaddr in [
                    start.saturating_sub(1),
                    *start,
                    start + size / 2,
                    start + size,
                ] {
                    let found = symbols.at(vaddr, &by_address);
                    assert_eq!(by_address.start(vaddr), found.map(|(start, _)| start));
                    assert_eq!(
                        symbols.at(vaddr, &by_address),
                        naive(&symbols, vaddr),
                        "{path} {vaddr:#x}"
                    );
                }
            }
        }
    }
}
