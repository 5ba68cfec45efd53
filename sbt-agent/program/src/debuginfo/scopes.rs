//! To which functions, inlined into each other, addresses belong.

use gimli::{Range, UnitRef};

use super::units::{Bytes, Entries, EntryId, id};

/// The most matches of an address and a function, all in all.
const MAX_WORK: usize = 1 << 26;

/// The most nested functions in a chain; deeper inlining is not told apart.
const MAX_CHAIN: usize = 64;

/// Where an address lies.
#[derive(Clone, Debug, Default)]
pub(super) struct Scope {
    /// The entries of the functions that contain the address, outermost first: they tell which
    /// function is inlined at which call in which other function. Empty if DWARF does not tell.
    pub(super) chain: Vec<EntryId>,
    /// The range of the outermost function's code that contains the address.
    pub(super) function: Option<Range>,
}

/// Finds the scopes of addresses, which must be in ascending order.
pub(super) fn of(unit: UnitRef<'_, Bytes>, addresses: &[u64]) -> Vec<Scope> {
    let mut scopes = vec![Scope::default(); addresses.len()];
    let is_function =
        |tag| tag == gimli::DW_TAG_subprogram || tag == gimli::DW_TAG_inlined_subroutine;
    let Some(mut entries) = Entries::new(unit, None, is_function) else {
        return scopes;
    };
    let mut left = MAX_WORK;
    while let Some(entry) = entries.next() {
        for range in entry.ranges(unit) {
            let first = addresses.partition_point(|address| *address < range.begin);
            let last = addresses.partition_point(|address| *address < range.end);
            for scope in &mut scopes[first..last] {
                left = left.saturating_sub(1);
                if left == 0 {
                    return scopes;
                }
                let entry_id = id(unit, entry.offset);
                if scope.chain.len() < MAX_CHAIN && scope.chain.last() != Some(&entry_id) {
                    scope.chain.push(entry_id);
                }
                if entry.tag == gimli::DW_TAG_subprogram {
                    scope.function.get_or_insert(range);
                }
            }
        }
        entries.done(entry);
    }
    scopes
}
