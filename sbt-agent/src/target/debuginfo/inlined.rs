//! Functions of which inlining has left nothing but copies inside of others.

use gimli::DwInl;

use super::names;
use super::units::{self, Entries, Entry, Found, Info, Value};
use crate::pattern::is_function;

/// How many names are demangled for one question.
const MAX_NAMES: usize = 1 << 20;

/// The line at which a function begins that has been inlined, if there is one
/// of that name: 0 if DWARF does not tell.
pub(super) fn line_of(dwarf: &Info, written: &str) -> Option<u64> {
    let mut left = MAX_NAMES;
    units::units(dwarf).find_map(|unit| {
        let reference = unit.unit_ref(dwarf);
        let mut entries = Entries::new(reference, None, |tag| tag == gimli::DW_TAG_subprogram)?;
        loop {
            let entry = entries.next()?;
            if !is_inlined(&entry) {
                entries.done(entry);
                continue;
            }
            left = left.checked_sub(1)?;
            let own = dwarf.unit(unit.header).ok()?;
            let found = units::at(dwarf, own, entry.offset)?;
            if is_named(&found, written) {
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
fn is_named(function: &Found<'_>, written: &str) -> bool {
    let named = |found: &Found<'_>| {
        [gimli::DW_AT_linkage_name, gimli::DW_AT_name]
            .iter()
            .filter_map(|name| found.entry.text(found.unit(), *name))
            .any(|name| is_function(&names::of_function(&name), written))
    };
    named(function)
        || function
            .follow(gimli::DW_AT_specification)
            .is_some_and(|declaration| named(&declaration))
}
