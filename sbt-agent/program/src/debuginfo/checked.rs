//! Whether the functions at an address can be looked up: addr2line follows inlined functions by
//! recursion and keeps the ranges of all functions of a unit, so a unit is checked before it is asked.
//! Units that are never asked are not even read.

use std::collections::{BTreeMap, HashMap};

use gimli::{DebugInfoOffset, Range, Unit, UnitType};

use super::proportion::Ranges;
use super::units::{Bytes, Entry, Info};

/// How deep entries may be nested; compilers reach a few dozen levels.
const MAX_DEPTH: isize = 500;

/// The most bytes of DWARF that are checked: some seconds.
const MAX_BYTES: usize = 1 << 30;

/// The units of a file's DWARF by their code, and which of them have been checked.
pub(super) struct Checked {
    code: Vec<(Range, DebugInfoOffset)>,
    /// Units that do not say where their code is: addr2line asks their line tables.
    anywhere: Vec<DebugInfoOffset>,
    known: HashMap<DebugInfoOffset, bool>,
    ranges: Ranges,
    left: usize,
}

impl Checked {
    /// Reads where the units have code: by their own entries, and by `.debug_aranges`, whichever
    /// addr2line prefers (addr2line, `unit.rs`, `ResUnits::parse`).
    pub(super) fn of(dwarf: &Info) -> Self {
        let mut listed: BTreeMap<usize, Vec<Range>> = BTreeMap::new();
        let mut headers = dwarf.debug_aranges.headers();
        while let Ok(Some(header)) = headers.next() {
            let of_unit = listed.entry(header.debug_info_offset().0).or_default();
            let mut entries = header.entries();
            while let Some(entry) = entries.next().transpose() {
                of_unit.extend(entry.map(|entry| entry.range()));
            }
        }
        let mut checked = Self {
            code: Vec::new(),
            anywhere: Vec::new(),
            known: HashMap::new(),
            ranges: Ranges::default(),
            left: MAX_BYTES,
        };
        let mut units = dwarf.units();
        while let Ok(Some(header)) = units.next() {
            let Some(offset) = header.debug_info_offset() else {
                continue;
            };
            let has_code = !matches!(
                header.type_(),
                UnitType::Type { .. } | UnitType::SplitType { .. } | UnitType::Partial
            );
            let Some(unit) = dwarf.unit(header).ok().filter(|_| has_code) else {
                continue;
            };
            let before = checked.code.len();
            let mut is_known = true;
            match dwarf.unit_ranges(&unit) {
                Ok(mut ranges) => loop {
                    match ranges.next() {
                        Ok(Some(range)) => checked.code.push((range, offset)),
                        Ok(None) => break,
                        Err(_) => {
                            is_known = false;
                            break;
                        }
                    }
                },
                Err(_) => is_known = false,
            }
            let listed = listed.remove(&offset.0).into_iter().flatten();
            checked.code.extend(listed.map(|range| (range, offset)));
            let is_told = checked.code.len() > before;
            if !is_known || !is_told && unit.line_program.is_some() {
                checked.anywhere.push(offset);
            }
        }
        checked
    }

    /// Whether functions can be looked up at an address, in all units that may have code there.
    pub(super) fn allow(&mut self, dwarf: &Info, vaddr: u64) -> bool {
        let here = self.code.iter().filter(|(range, _)| {
            // addr2line looks at the byte behind an address, too.
            (range.begin..=range.end).contains(&vaddr)
        });
        let here = here.map(|(_, offset)| offset);
        let mut all: Vec<DebugInfoOffset> = here.chain(&self.anywhere).copied().collect();
        all.sort_unstable_by_key(|offset| offset.0);
        all.dedup();
        all.into_iter().all(|offset| self.allows(dwarf, offset))
    }

    fn allows(&mut self, dwarf: &Info, offset: DebugInfoOffset) -> bool {
        if let Some(known) = self.known.get(&offset) {
            return *known;
        }
        let unit = dwarf.debug_info.header_from_offset(offset);
        // addr2line leaves a damaged unit out.
        let unit = unit.and_then(|header| dwarf.unit(header));
        let allows = unit.is_ok_and(|unit| {
            let left = self.left.checked_sub(unit.header.unit_length());
            self.left = left.unwrap_or(0);
            left.is_some() && is_shallow(dwarf, &unit, &mut self.ranges)
        });
        self.known.insert(offset, allows);
        allows
    }
}

/// Whether addr2line can follow all entries of a unit by recursion and keep the ranges of its functions.
fn is_shallow(dwarf: &Info, unit: &Unit<Bytes>, ranges: &mut Ranges) -> bool {
    let unit = unit.unit_ref(dwarf);
    // Damaged entries end the reading of addr2line at the same place.
    let Ok(mut entries) = unit.unit.entries_raw(None) else {
        return true;
    };
    let mut read = Vec::new();
    while !entries.is_empty() {
        let (offset, depth) = (entries.next_offset(), entries.next_depth());
        if depth > MAX_DEPTH {
            return false;
        }
        let abbreviation = match entries.read_abbreviation() {
            Ok(Some(abbreviation)) => abbreviation,
            Ok(None) => continue,
            Err(_) => break,
        };
        let (tag, attributes) = (abbreviation.tag(), abbreviation.attributes());
        let has_ranges = attributes
            .iter()
            .any(|specification| specification.name() == gimli::DW_AT_ranges);
        let is_function =
            tag == gimli::DW_TAG_subprogram || tag == gimli::DW_TAG_inlined_subroutine;
        if !(is_function && has_ranges) {
            if entries.skip_attributes(attributes).is_err() {
                break;
            }
            continue;
        }
        if entries.read_attributes(attributes, &mut read).is_err() {
            break;
        }
        let entry = Entry::new(offset, depth, tag, read);
        if !ranges.has_room(unit, &entry) {
            return false;
        }
        read = entry.into_attributes();
    }
    true
}
