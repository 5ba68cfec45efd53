//! Functions that a compiler has split in two.
//!
//! The code after a function's first test may become a function of its own, `f.part.0`. The test is
//! then repeated wherever `f` is called, and `f` itself, if it still exists, goes on to the part:
//! with probes on both such a call would count twice.

use super::Binary;
use crate::arch::prologue;
use crate::debuginfo::{Symbol, is_part};

use super::find::MAX_FUNCTION;

/// How far a short jump reaches, from its own beginning, bytes.
const SHORT: u64 = 130;

/// Leaves out either the parts or the functions that go on to them, whichever sees fewer calls.
pub(super) fn without_repeated(file: &Binary<'_>, symbols: Vec<Symbol>) -> Vec<Symbol> {
    let (parts, wholes): (Vec<_>, Vec<_>) = symbols
        .into_iter()
        .partition(|symbol| is_part(&symbol.name));
    let mut kept = wholes;
    for part in parts {
        let leads_to_it = |symbol: &Symbol| {
            file.code(symbol.start, symbol.size.min(MAX_FUNCTION))
                .is_some_and(|code| {
                    prologue::ways_out(code.bytes, symbol.start).any(|to| to == part.start)
                })
        };
        let mut inside: Vec<_> = kept.extract_if(.., |symbol| leads_to_it(symbol)).collect();
        let is_alone = inside.is_empty();
        inside.push(part);
        if is_alone || is_reached_from_elsewhere(file, &inside) {
            // A call that does not go beyond the test does nothing.
            kept.extend(inside.pop());
        } else {
            inside.pop();
            kept.append(&mut inside);
        }
    }
    kept
}

/// Whether a call or jump to the last of these functions lies outside of them.
fn is_reached_from_elsewhere(file: &Binary<'_>, functions: &[Symbol]) -> bool {
    let Some(part) = functions.last() else {
        return false;
    };
    let is_outside = |address: u64| {
        let spans = |function: &Symbol| address.wrapping_sub(function.start) < function.size;
        !functions.iter().any(spans)
    };
    let segments = file.segments.iter().filter(|segment| segment.executable);
    let is_far = segments
        .filter_map(|segment| {
            let code = file.code(segment.vaddr, segment.filesz)?;
            Some((segment.vaddr, code.bytes))
        })
        .any(|(vaddr, code)| calls_to(vaddr, code, part.start).any(is_outside));
    is_far || is_reached_from_nearby(file, part.start, is_outside)
}

/// Whether a short jump from a nearby function leads to the target. Nearby functions are decoded,
/// because a short jump is too short to be recognised by its bytes alone.
fn is_reached_from_nearby(
    file: &Binary<'_>,
    target: u64,
    is_outside: impl Fn(u64) -> bool,
) -> bool {
    let reach = target.saturating_sub(SHORT)..target.saturating_add(SHORT);
    let mut nearby: Vec<Symbol> = reach
        .filter(|address| is_outside(*address))
        .filter_map(|address| file.debug.spanning(address))
        .collect();
    nearby.dedup_by_key(|function| function.start);
    nearby.iter().any(|function| {
        file.code(function.start, function.size.min(MAX_FUNCTION))
            .is_some_and(|code| {
                prologue::ways_out(code.bytes, function.start).any(|to| to == target)
            })
    })
}

/// Addresses where bytes look like a call or jump to the target. The code is not decoded: a program
/// is big, and the chance of a false match is one in billions.
fn calls_to(vaddr: u64, code: &[u8], target: u64) -> impl Iterator<Item = u64> {
    code.windows(5).zip(vaddr..).filter_map(move |(bytes, at)| {
        let &[0xe8 | 0xe9 | 0x80..=0x8f, ref distance @ ..] = bytes else {
            return None;
        };
        let distance = i32::from_le_bytes(distance.try_into().ok()?);
        let to = at.wrapping_add(5).wrapping_add_signed(i64::from(distance));
        (to == target).then_some(at)
    })
}
