//! A search of all code for references to a few addresses.
//!
//! The search looks at four bytes at every offset, in loops that the compiler turns into vector
//! instructions.

use std::ops::Range;

use super::{BEHIND, Index, Wanted};
use crate::unwind::Function;

/// How many offsets are looked at together, bytes: few enough for the CPU's first cache.
const BLOCK: usize = 2048;

/// The indices of functions that may refer to an address in `ranges`; some indices come more than
/// once.
pub(super) fn references(wanted: &Wanted<'_>, ranges: &[Range<u64>]) -> Vec<usize> {
    let found = functions(wanted, ranges);
    let index = Index::of(wanted, found.into_iter());
    ranges.iter().flat_map(|range| index.to(range)).collect()
}

/// The indices of functions in which four bytes look like a reference, each once, ascending.
fn functions(wanted: &Wanted<'_>, ranges: &[Range<u64>]) -> Vec<usize> {
    let mut found = Vec::new();
    for segment in wanted.segments.iter().filter(|segment| segment.executable) {
        let range = usize::try_from(segment.offset)
            .ok()
            .zip(usize::try_from(segment.filesz).ok())
            .and_then(|(from, length)| Some(from..from.checked_add(length)?));
        let Some(bytes) = range.and_then(|range| wanted.image.get(range)) else {
            continue;
        };
        let wants: Vec<Want> = ranges
            .iter()
            .flat_map(|range| Want::of(range, segment.vaddr, wanted.is_fixed))
            .collect();
        for at in places(bytes, &wants) {
            found.extend(containing(wanted.functions, segment.vaddr + at));
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

fn containing(functions: &[Function], vaddr: u64) -> Option<usize> {
    let index = functions.partition_point(|function| function.end <= vaddr);
    let function = functions.get(index)?;
    (function.start <= vaddr).then_some(index)
}

/// The values to look for. All numbers are meant modulo 2³².
struct Want {
    /// The lowest value.
    low: u32,
    /// The number of values.
    count: u32,
    /// The step of the value for each byte of its offset: 1 for a distance, 0 for an address.
    step: u32,
}

impl Want {
    /// How distances to these addresses look in code that lies at `vaddr`, and the addresses
    /// themselves if the code may hold addresses.
    fn of(range: &Range<u64>, vaddr: u64, is_fixed: bool) -> impl Iterator<Item = Self> {
        let from = range.start.saturating_sub(BEHIND);
        let count = u32::try_from(range.end.saturating_sub(from)).unwrap_or(u32::MAX);
        // A distance counts from the byte behind it.
        let distance = Self {
            low: low_half(from.wrapping_sub(vaddr).wrapping_sub(4)),
            count,
            step: 1,
        };
        let address = Self {
            low: low_half(from),
            count,
            step: 0,
        };
        [distance].into_iter().chain(is_fixed.then_some(address))
    }

    fn is(&self, bytes: [u8; 4], offset: u32) -> bool {
        let value = u32::from_le_bytes(bytes).wrapping_add(offset.wrapping_mul(self.step));
        value.wrapping_sub(self.low) < self.count
    }

    /// Whether one of the values stands at any of the offsets in `bytes`, which begin at `offset`.
    fn is_in(&self, bytes: &[u8], offset: u32) -> bool {
        let mut is_in = false;
        for shift in 0..4 {
            let Some(bytes) = bytes.get(shift..) else {
                break;
            };
            let first = low_half(shift as u64).wrapping_add(offset);
            let mut below = first.wrapping_mul(self.step).wrapping_sub(self.low);
            let mut found = 0;
            for word in bytes.as_chunks().0 {
                let value = u32::from_le_bytes(*word).wrapping_add(below);
                found |= u32::from(value < self.count);
                below = below.wrapping_add(self.step.wrapping_mul(4));
            }
            is_in |= found != 0;
        }
        is_in
    }
}

#[allow(clippy::cast_possible_truncation, reason = "meant modulo 2³²")]
const fn low_half(number: u64) -> u32 {
    number as u32
}

/// The offsets at which a wanted value stands.
fn places(bytes: &[u8], wants: &[Want]) -> Vec<u64> {
    let mut found = Vec::new();
    for start in (0..bytes.len()).step_by(BLOCK) {
        let end = bytes.len().min(start + BLOCK + 3);
        let block = &bytes[start..end];
        let first = low_half(start as u64);
        let near: Vec<&Want> = wants
            .iter()
            .filter(|want| want.is_in(block, first))
            .collect();
        if near.is_empty() {
            continue;
        }
        for (offset, window) in (start as u64..).zip(block.windows(4)) {
            let Some(bytes) = window.first_chunk() else {
                continue;
            };
            if near.iter().any(|want| want.is(*bytes, low_half(offset))) {
                found.push(offset);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_at_every_offset() {
        let vaddr = 0x40_1000;
        for at in [0_usize, 1, 2, 3, 2044, 2045, 2047, 2048, 2049, 6000, 8188] {
            let target: u64 = 0x40_5000;
            let mut bytes = vec![0x90; 8192];
            let distance = target.wrapping_sub(vaddr + at as u64 + 4);
            bytes[at..at + 4].copy_from_slice(&low_half(distance).to_le_bytes());
            let wants: Vec<_> = Want::of(&(target..target + 1), vaddr, false).collect();
            assert_eq!(places(&bytes, &wants), [at as u64]);
            bytes[at..at + 4].copy_from_slice(&low_half(target).to_le_bytes());
            assert!(!places(&bytes, &wants).contains(&(at as u64)));
            let wants: Vec<_> = Want::of(&(target..target + 1), vaddr, true).collect();
            assert!(places(&bytes, &wants).contains(&(at as u64)));
        }
    }
}
