//! Where functions are inlined.

use std::collections::BTreeSet;

use gimli::{Range, Section, UnitOffset, UnitRef};

use super::names;
use super::symbols::SoughtName;
use super::units::{self, Bytes, Entries, Entry, Info, Value};

/// The most bytes of DWARF that are searched: some seconds.
const MAX_SEARCHED: usize = 1 << 30;

/// The most comparing of names: bytes times names asked for.
const MAX_COMPARED: usize = 1 << 32;

/// The most functions that may have the names.
const MAX_MEANT: usize = 1 << 16;

/// The most functions of one unit whose names stand elsewhere.
const MAX_ELSEWHERE: usize = 1 << 20;

/// The most pieces of code that are looked at.
const MAX_PIECES: usize = 1 << 24;

/// The functions that are meant: the offset of each in the section, and the index of its name.
type Meant = BTreeSet<(usize, usize)>;

/// Calls `found` for each place where a function of one of the names was inlined and has code, with
/// the index of the name and the code. Reports no place if there is too much to read: half of the
/// places would be a wrong count.
pub(super) fn of(dwarf: &Info, written: &[&str], mut found: impl FnMut(usize, &[Range])) {
    if dwarf.debug_info.reader().len() > MAX_SEARCHED {
        return;
    }
    let Some(meant) = meant(dwarf, written).filter(|meant| !meant.is_empty()) else {
        return;
    };
    let mut left = MAX_PIECES;
    for unit in units::units(dwarf) {
        let unit = unit.unit_ref(dwarf);
        let is_inlined = |tag| tag == gimli::DW_TAG_inlined_subroutine;
        let Some(mut entries) = Entries::new(unit, None, is_inlined) else {
            continue;
        };
        while let Some(entry) = entries.next() {
            let origin = target(unit, &entry, gimli::DW_AT_abstract_origin);
            let mut names = origin
                .into_iter()
                .flat_map(|origin| names_of(&meant, origin))
                .peekable();
            if names.peek().is_some() {
                let code = entry.ranges(unit);
                let Some(now) = left.checked_sub(code.len() + 1) else {
                    return;
                };
                left = now;
                if !code.is_empty() {
                    names.for_each(|name| found(name, &code));
                }
            }
            entries.done(entry);
        }
    }
}

/// The functions of the names; `None` if there is too much to read.
fn meant(dwarf: &Info, written: &[&str]) -> Option<Meant> {
    let mut asked: Vec<_> = written.iter().map(|name| SoughtName::new(name)).collect();
    let mut left = MAX_COMPARED;
    let mut meant = Meant::new();
    for unit in units::units(dwarf) {
        let unit = unit.unit_ref(dwarf);
        let is_function = |tag| tag == gimli::DW_TAG_subprogram;
        let Some(mut entries) = Entries::new(unit, None, is_function) else {
            continue;
        };
        let mut elsewhere = Vec::new();
        while let Some(entry) = entries.next() {
            let here = in_section(unit, entry.offset)?;
            for name in [gimli::DW_AT_linkage_name, gimli::DW_AT_name] {
                let Some(name) = entry.bytes(unit, name) else {
                    continue;
                };
                // Finding the end of the name has taken time, too.
                left = left.checked_sub(name.len().saturating_mul(asked.len()))?;
                for (index, asked) in asked.iter_mut().enumerate() {
                    if asked.means(names::raw(name.slice())) {
                        meant.insert((here, index));
                    }
                }
            }
            // A method's name may stand at its declaration in the class.
            if let Some(declaration) = target(unit, &entry, gimli::DW_AT_specification)
                && elsewhere.len() < MAX_ELSEWHERE
            {
                elsewhere.push((here, declaration));
            }
            entries.done(entry);
            if meant.len() > MAX_MEANT {
                return None;
            }
        }
        for (here, declaration) in elsewhere {
            let names: Vec<usize> = names_of(&meant, declaration).collect();
            meant.extend(names.into_iter().map(|name| (here, name)));
            if meant.len() > MAX_MEANT {
                return None;
            }
        }
    }
    Some(meant)
}

fn names_of(meant: &Meant, function: usize) -> impl Iterator<Item = usize> {
    let all = meant.range((function, 0)..=(function, usize::MAX));
    all.map(|(_, name)| *name)
}

/// The offset in the section to which an attribute refers.
fn target(unit: UnitRef<'_, Bytes>, entry: &Entry, name: gimli::DwAt) -> Option<usize> {
    match entry.attribute(name)? {
        Value::UnitRef(offset) => in_section(unit, offset),
        Value::DebugInfoRef(offset) => Some(offset.0),
        _ => None,
    }
}

fn in_section(unit: UnitRef<'_, Bytes>, offset: UnitOffset) -> Option<usize> {
    let start = unit.header.debug_info_offset()?;
    start.0.checked_add(offset.0)
}
