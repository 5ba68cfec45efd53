//! The parameters of functions: their types, and where they are passed.

use gimli::{Operation, UnitRef};

use super::units::{self, Bytes, Entries, Entry, Info, UnitEntry, Value};

/// The most typedefs, origins and the like that are followed in a row.
const MAX_STEPS: usize = 16;

/// DWARF's numbers of the registers of the first six arguments.
const REGISTERS: [u16; 6] = [5, 4, 1, 2, 8, 9];

/// The function whose code begins at an address.
fn function(dwarf: &Info, vaddr: u64) -> Option<UnitEntry<'_>> {
    let is_function = |tag| tag == gimli::DW_TAG_subprogram;
    units::units(dwarf).find_map(|unit| {
        let reference = unit.unit_ref(dwarf);
        if !may_hold(reference, vaddr) {
            return None;
        }
        let mut entries = Entries::new(reference, None, is_function)?;
        loop {
            let entry = entries.next()?;
            let ranges = entry.ranges(reference);
            if ranges.iter().any(|range| range.begin == vaddr) {
                let offset = entry.offset;
                return units::at(dwarf, unit, offset);
            }
            entries.done(entry);
        }
    })
}

/// Whether a unit claims the address, or does not tell its addresses.
fn may_hold(unit: UnitRef<'_, Bytes>, vaddr: u64) -> bool {
    let root = Entries::new(unit, None, |_| true).and_then(|mut entries| entries.next());
    root.is_none_or(|root| {
        let ranges = root.ranges(unit);
        ranges.is_empty()
            || ranges
                .iter()
                .any(|range| (range.begin..range.end).contains(&vaddr))
    })
}

/// The parameters of the function as it is written in the source: a copy that a compiler has made
/// lists its own in another order.
fn written(function: UnitEntry<'_>) -> Option<(UnitEntry<'_>, Vec<Entry>)> {
    let mut at = function;
    for _ in 0..MAX_STEPS {
        let Some(origin) = at.follow(gimli::DW_AT_abstract_origin) else {
            let parameters = at.parameters();
            return Some((at, parameters));
        };
        at = origin;
    }
    None
}

/// Whether the first parameter of the function at `vaddr` is a pointer or a reference; `None` if
/// DWARF does not have the function.
pub(super) fn first_is_pointer(dwarf: &Info, vaddr: u64) -> Option<bool> {
    let (mut function, mut parameters) = written(function(dwarf, vaddr)?)?;
    // Sometimes only the declaration of a method in its class has the parameters.
    if parameters.is_empty()
        && let Some(declaration) = function.follow(gimli::DW_AT_specification)
    {
        parameters = declaration.parameters();
        function = declaration;
    }
    let Some(first) = parameters.into_iter().next() else {
        return Some(false);
    };
    let mut at = UnitEntry {
        entry: first,
        ..function
    };
    for _ in 0..MAX_STEPS {
        let Some(named) = at.follow(gimli::DW_AT_type) else {
            return Some(false);
        };
        at = named;
        match at.entry.tag {
            gimli::DW_TAG_pointer_type
            | gimli::DW_TAG_reference_type
            | gimli::DW_TAG_rvalue_reference_type => return Some(true),
            gimli::DW_TAG_typedef
            | gimli::DW_TAG_const_type
            | gimli::DW_TAG_volatile_type
            | gimli::DW_TAG_restrict_type
            | gimli::DW_TAG_atomic_type => {}
            _ => return Some(false),
        }
    }
    Some(false)
}

/// The argument register, from 1, in which the copy of a function that begins at `vaddr` gets the
/// function's parameter `number`, from 1. `None` if the copy does not get that parameter in a
/// register, or if DWARF does not tell.
pub(super) fn register(dwarf: &Info, vaddr: u64, number: u8) -> Option<u8> {
    let copy = function(dwarf, vaddr)?;
    let own = copy.parameters();
    let (function, parameters) = written(units::at(
        dwarf,
        dwarf.unit(copy.unit.header).ok()?,
        copy.entry.offset,
    )?)?;
    let index = usize::from(number.checked_sub(1)?);
    let wanted = units::id(function.unit(), parameters.get(index)?.offset);
    let passed = own.iter().find(|parameter| {
        function.id() == copy.id() && units::id(copy.unit(), parameter.offset) == wanted
            || copy.target(parameter, gimli::DW_AT_abstract_origin) == Some(wanted)
    })?;
    let register = location(copy.unit(), passed, vaddr)?;
    let index = REGISTERS.iter().position(|one| *one == register)?;
    u8::try_from(index + 1).ok()
}

/// The register that holds a parameter at an address.
fn location(unit: UnitRef<'_, Bytes>, parameter: &Entry, vaddr: u64) -> Option<u16> {
    const MOST: usize = 256;
    let expression = match parameter.attribute(gimli::DW_AT_location)? {
        Value::Exprloc(expression) => expression,
        value => {
            let mut list = unit.attr_locations(value).ok()??;
            std::iter::from_fn(|| list.next().ok().flatten())
                .take(MOST)
                .find(|entry| (entry.range.begin..entry.range.end).contains(&vaddr))?
                .data
        }
    };
    let mut operations = expression.operations(unit.encoding());
    match (operations.next().ok()??, operations.next().ok()?) {
        (Operation::Register { register }, None) => Some(register.0),
        _ => None,
    }
}
