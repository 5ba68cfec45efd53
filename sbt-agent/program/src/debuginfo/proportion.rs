//! Whether DWARF can be read in time and memory proportional to its length.
//!
//! Many parts of DWARF refer to others by offset. In a file that was made to do harm, any number of
//! parts refers to the same megabytes: each function to all ranges, each unit to all source files,
//! each source file to one endless name. Code that reads such references reads or stores the
//! megabytes once for each of them.

use std::collections::BTreeSet;

use gimli::{Reader as _, Section as _, UnitRef};

use super::units::{Bytes, Entry, Info, Value, units};

/// Linkers stay far below these limits. All headers of line tables together, bytes; one line table,
/// bytes; all ranges, count.
const MAX_HEADERS: usize = 64 << 20;
const MAX_TABLE: usize = 32 << 20;
const MAX_RANGES: usize = 1 << 23;

/// The most bytes of a path; a longer name is not a path.
const MAX_PATH: usize = 8192;

/// The most bytes for the names of one line table's source files, if they stand among other names:
/// their number times the longest name.
const MAX_NAMES: usize = 1 << 28;

/// How often a byte of tables may be referred to, on average: units that share a header are common,
/// units that share a whole table are not.
const MAX_SHARED: usize = 4;

/// Whether an index of the units can be made.
pub(super) fn is_in_proportion(dwarf: &Info) -> bool {
    abbreviations(dwarf)
        && longest(dwarf.debug_line_str.reader().slice()) <= MAX_PATH
        && headers(dwarf)
        && each_unit(dwarf)
}

/// Whether the tables of abbreviations do not overlap much.
fn abbreviations(dwarf: &Info) -> bool {
    let all = *dwarf.debug_abbrev.reader();
    let mut offsets = BTreeSet::new();
    let mut headers = dwarf.units();
    while let Ok(Some(header)) = headers.next() {
        offsets.insert(header.debug_abbrev_offset().0);
    }
    let mut left = MAX_SHARED * all.len();
    for offset in offsets {
        let mut table = all;
        if table.skip(offset).is_err() {
            continue;
        }
        let before = table.len();
        let _damaged = skip_abbreviations(&mut table, before.saturating_sub(left));
        let Some(rest) = left.checked_sub(before - table.len()) else {
            return false;
        };
        left = rest;
        if left == 0 && !table.is_empty() {
            return false;
        }
    }
    true
}

/// Advances to the end of a table (DWARF 5, section 7.5.3), or until at most `least` bytes are
/// left.
fn skip_abbreviations(table: &mut Bytes, least: usize) -> gimli::Result<()> {
    while table.read_uleb128()? != 0 && table.len() > least {
        let _tag = table.read_uleb128()?;
        let _children = table.read_u8()?;
        loop {
            let (name, form) = (table.read_uleb128()?, table.read_uleb128()?);
            if form == u64::from(gimli::DW_FORM_implicit_const.0) {
                let _value = table.read_sleb128()?;
            }
            if (name, form) == (0, 0) {
                break;
            }
        }
    }
    Ok(())
}

/// The length of the longest text in a section of zero-terminated texts, bytes.
fn longest(texts: &[u8]) -> usize {
    let mut start = 0;
    let mut longest = 0;
    for end in memchr::memchr_iter(0, texts) {
        longest = longest.max(end - start);
        start = end + 1;
    }
    longest.max(texts.len() - start)
}

/// Whether the line tables, counted once for each unit that refers to them, are not much longer
/// than the section. The tables are not parsed for this check, because opening a unit parses a
/// header.
fn headers(dwarf: &Info) -> bool {
    let all = *dwarf.debug_line.reader();
    let (mut in_headers, mut in_tables) = (0, 0);
    let mut units = dwarf.units();
    while let Ok(Some(header)) = units.next() {
        let Some((offset, is_whole)) = line_table(dwarf, &header) else {
            continue;
        };
        let Some((header, table)) = lengths(all, offset) else {
            continue;
        };
        in_headers = usize::saturating_add(in_headers, header);
        // Units that hold types, or shared parts of other units, have no code.
        in_tables = usize::saturating_add(in_tables, if is_whole { table } else { 0 });
        if table > MAX_TABLE || in_headers > MAX_HEADERS || in_tables > MAX_SHARED * all.len() {
            return false;
        }
    }
    true
}

/// The offset of a unit's line table, and whether the unit may have code.
fn line_table(dwarf: &Info, header: &gimli::UnitHeader<Bytes>) -> Option<(usize, bool)> {
    let abbreviations = dwarf.abbreviations(header).ok()?;
    let mut entries = header.entries_raw(&abbreviations, None).ok()?;
    let abbreviation = entries.read_abbreviation().ok()??;
    let is_whole = abbreviation.tag() == gimli::DW_TAG_compile_unit;
    let mut attributes = Vec::new();
    entries
        .read_attributes(abbreviation.attributes(), &mut attributes)
        .ok()?;
    attributes
        .iter()
        .find(|attribute| attribute.name() == gimli::DW_AT_stmt_list)
        .and_then(|attribute| match attribute.value() {
            Value::DebugLineRef(offset) => Some((offset.0, is_whole)),
            _ => None,
        })
}

/// The lengths of a line table's header and of the whole table (DWARF 5, section 6.2.4), cut at the
/// end of the section.
fn lengths(mut table: Bytes, offset: usize) -> Option<(usize, usize)> {
    table.skip(offset).ok()?;
    let (length, format) = table.read_initial_length().ok()?;
    let length = length.min(table.len());
    if table.read_u16().ok()? >= 5 {
        // Skips the sizes of addresses and of segment selectors.
        table.skip(2).ok()?;
    }
    let header = table.read_length(format).ok()?;
    Some((header.min(length), length))
}

/// Whether the units' ranges and the names of their source files fit into memory.
fn each_unit(dwarf: &Info) -> bool {
    let longest = longest(dwarf.debug_str.reader().slice());
    let mut ranges = Ranges::default();
    for unit in units(dwarf) {
        if let Some(program) = &unit.line_program {
            let header = program.header();
            let folders = header.include_directories().iter();
            let among_others = header
                .file_names()
                .iter()
                .map(gimli::FileEntry::path_name)
                .chain(folders.copied())
                .filter(|name| !matches!(name, Value::String(_) | Value::DebugLineStrRef(_)));
            if among_others.count().saturating_mul(longest) > MAX_NAMES {
                return false;
            }
        }
        let unit = unit.unit_ref(dwarf);
        let root = super::units::Entries::new(unit, None, |_| true);
        if let Some(root) = root.and_then(|mut entries| entries.next())
            && !ranges.has_room(unit, &root)
        {
            return false;
        }
    }
    true
}

/// Counts ranges.
#[derive(Debug, Default)]
pub(super) struct Ranges(usize);

impl Ranges {
    /// Whether the ranges of an entry fit into the limit, too.
    pub(super) fn has_room(&mut self, unit: UnitRef<'_, Bytes>, entry: &Entry) -> bool {
        let list = entry
            .attribute(gimli::DW_AT_ranges)
            .and_then(|value| unit.attr_ranges_offset(value).ok()?)
            .and_then(|offset| unit.raw_ranges(offset).ok());
        if let Some(mut list) = list {
            // Ranges that are skipped take time, too.
            while self.0 < MAX_RANGES && matches!(list.next(), Ok(Some(_))) {
                self.0 += 1;
            }
        }
        self.0 < MAX_RANGES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_text() {
        for (texts, expected) in [
            (&b""[..], 0),
            (b"\0", 0),
            (b"a\0bcd\0ef\0", 3),
            (b"a\0bcd", 3),
            (b"abcd", 4),
        ] {
            assert_eq!(longest(texts), expected);
        }
    }

    #[test]
    fn the_lengths_of_a_line_table() {
        let bytes = |bytes: &'static [u8]| Bytes::new(bytes, gimli::LittleEndian);
        // Version 4: the header's length follows.
        let four = bytes(&[9, 0, 0, 0, 4, 0, 3, 0, 0, 0, 1, 2, 3]);
        assert_eq!(lengths(four, 0), Some((3, 9)));
        let five = bytes(&[7, 0xff, 0, 0, 0, 5, 0, 8, 0, 0xff, 0, 0, 0, 1]);
        assert_eq!(lengths(five, 1), Some((9, 9)), "no longer than there is");
        assert_eq!(lengths(five, 20), None);
        assert_eq!(lengths(bytes(&[1, 0]), 0), None);
    }
}
