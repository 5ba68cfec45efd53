//! Functions of which inlining has left nothing but copies inside of others.

use gimli::DwInl;

use super::names;
use super::units::{self, Entries, Entry, Found, Info, Value};
use sbt_engine::pattern::is_function;

/// How much is read for one question: names, bytes, and for each of them as much as
/// the header of its unit's line table takes.
const MAX_READ: usize = 1 << 28;

/// The line at which a function begins that has been inlined, if there is one
/// of that name: 0 if DWARF does not tell.
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

/// A method's name may be at its declaration in the class.
fn is_named(function: &Found<'_>, written: &str, left: &mut usize) -> bool {
    let mut named = |found: &Found<'_>| {
        [gimli::DW_AT_linkage_name, gimli::DW_AT_name]
            .iter()
            .filter_map(|name| found.entry.bytes(found.unit(), *name))
            .any(|name| {
                // Looking for its end has taken time, too.
                *left = left.saturating_sub(name.len());
                is_function(&names::of_symbol(name.slice()), written)
            })
    };
    named(function)
        || function
            .follow(gimli::DW_AT_specification)
            .is_some_and(|declaration| named(&declaration))
}
