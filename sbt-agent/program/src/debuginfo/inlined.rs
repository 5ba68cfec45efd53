//! Functions that exist only inlined into other functions.

use gimli::DwInl;

use super::names;
use super::units::{self, Entries, Entry, Info, UnitEntry, Value};
use sbt_engine::pattern::is_function;

/// The most work for one question: the bytes of the names that are read, and for each function the
/// size of its unit's line table header.
const MAX_READ: usize = 1 << 28;

/// The line at which the inlined function of a name begins: 0 if DWARF does not tell, `None` if no
/// such function exists.
pub(super) fn line_of(dwarf: &Info, written: &str) -> Option<u64> {
    let mut left = MAX_READ;
    units::units(dwarf).find_map(|unit| {
        let reference = unit.unit_ref(dwarf);
        let program = unit.line_program.as_ref();
        let opening = program.map_or(0, |program| program.header().header_length());
        let mut entries = Entries::new(reference, None, |tag| tag == gimli::DW_TAG_subprogram)?;
        loop {
            let entry = entries.next()?;
            if !is_inlined(&entry) {
                entries.done(entry);
                continue;
            }
            left = left.checked_sub(256 + opening)?;
            let own = dwarf.unit(unit.header).ok()?;
            let found = units::at(dwarf, own, entry.offset)?;
            if is_named(&found, written, &mut left) {
                let line = entry.attribute(gimli::DW_AT_decl_line);
                return Some(line.and_then(|line| line.udata_value()).unwrap_or(0));
            }
        }
    })
}

fn is_inlined(entry: &Entry) -> bool {
    // DW_INL_inlined and DW_INL_declared_inlined.
    matches!(
        entry.attribute(gimli::DW_AT_inline),
        Some(Value::Inline(DwInl(1 | 3)))
    )
}

/// A method's name may stand at its declaration in the class.
fn is_named(function: &UnitEntry<'_>, written: &str, left: &mut usize) -> bool {
    let mut named = |found: &UnitEntry<'_>| {
        [gimli::DW_AT_linkage_name, gimli::DW_AT_name]
            .iter()
            .filter_map(|name| found.entry.bytes(found.unit(), *name))
            .any(|name| {
                // Finding the end of the name has taken time, too.
                *left = left.saturating_sub(name.len());
                is_function(&names::of_symbol(name.slice()), written)
            })
    };
    named(function)
        || function
            .follow(gimli::DW_AT_specification)
            .is_some_and(|declaration| named(&declaration))
}
