//! Which functions of a file may refer to an address: found without decoding them.
//!
//! To decode the whole code of a large library takes longer than a program may wait. An
//! instruction that refers to an address holds the distance to that address in four bytes, behind
//! an opcode or a byte that says how the operand is addressed. Those are looked for at every byte.
//! What is found may lie in the middle of another instruction, so it is decoded before it counts.
//! What is missed are jumps with a distance of one byte: they reach only what lies near.

use std::ops::Range;

use crate::target::elf::{Segment, code_at};
use crate::target::unwind::Function;

/// So far a jump with a distance of one byte reaches, with the instruction itself.
const NEAR: u64 = 130;

/// So many bytes may follow the distance in an instruction that refers to memory.
const BEHIND: u64 = 4;

/// The functions of a file, by what they may refer to.
#[derive(Debug, Default)]
pub(super) struct Suspects {
    /// An address, or up to [`BEHIND`] bytes before it; and the number of a function. Sorted.
    found: Vec<(u64, u32)>,
}

/// What to look for.
pub(super) struct Wanted<'a> {
    pub(super) image: &'a [u8],
    pub(super) segments: &'a [Segment],
    /// By their addresses, without overlap.
    pub(super) functions: &'a [Function],
    /// Where the words lie through which functions are called.
    pub(super) words: Range<u64>,
    /// Whether the file can only lie where it says: then instructions hold addresses, too.
    pub(super) is_fixed: bool,
}

impl Suspects {
    pub(super) fn of(wanted: &Wanted<'_>) -> Self {
        let executable = wanted.segments.iter().filter(|segment| segment.executable);
        let (mut from, mut until) = (u64::MAX, 0);
        for segment in executable {
            from = from.min(segment.vaddr);
            until = until.max(segment.vaddr.saturating_add(segment.filesz));
        }
        let mut this = Self::default();
        for (number, function) in (0..).zip(wanted.functions) {
            this.add(wanted, from..until, number, function);
        }
        this.found.sort_unstable();
        this.found.dedup();
        this
    }

    fn add(&mut self, wanted: &Wanted<'_>, code: Range<u64>, number: u32, function: &Function) {
        let Function { start, end, .. } = *function;
        let Some(found) = code_at(wanted.image, wanted.segments, start, end - start) else {
            return;
        };
        let bytes = found.bytes;
        let is_inside = |address: u64| (start + 1..end).contains(&address);
        let words = wanted.words.start.saturating_sub(BEHIND)..wanted.words.end;
        let mut before = 0;
        for (index, (byte, last)) in (1_u64..).zip(bytes.iter().zip(4..)) {
            let is_branch =
                matches!(byte, 0xe8 | 0xe9) || before == 0x0f && matches!(byte, 0x80..=0x8f);
            before = *byte;
            // ModRM: memory at a distance from the next instruction.
            let is_memory = byte & 0xc7 == 0x05;
            if !(is_branch || is_memory || wanted.is_fixed) {
                continue;
            }
            let Some(distance) = bytes.get(last - 3..=last) else {
                break;
            };
            let distance = distance.try_into().map_or(0, i32::from_le_bytes);
            let next = start.wrapping_add(index + 4);
            let target = next.wrapping_add_signed(distance.into());
            let is_target = if is_branch {
                code.contains(&target) && !is_inside(target)
            } else {
                let may_be_code = target >= code.start.saturating_sub(BEHIND) && target < code.end;
                is_memory && (may_be_code && !is_inside(target) || words.contains(&target))
            };
            if is_target {
                self.found.push((target, number));
            }
            if wanted.is_fixed {
                let address = u64::from(distance.cast_unsigned());
                if code.contains(&address) && !is_inside(address) {
                    self.found.push((address, number));
                }
            }
        }
    }

    /// The numbers of functions that may refer to one of some addresses, and not from near; some
    /// more than once.
    pub(super) fn to(&self, addresses: Range<u64>) -> impl Iterator<Item = usize> {
        let from = addresses.start.saturating_sub(BEHIND);
        let first = self.found.partition_point(|(target, _)| *target < from);
        let found = self.found[first..].iter();
        let found = found.take_while(move |(target, _)| *target < addresses.end);
        found.map(|(_, number)| *number as usize)
    }

    /// All addresses that may be referred to, each once.
    pub(super) fn targets(&self) -> impl Iterator<Item = u64> {
        let groups = self.found.chunk_by(|one, other| one.0 == other.0);
        groups.map(|group| group[0].0)
    }
}

/// The numbers of functions that lie so near to a function that a short jump reaches it.
pub(super) fn near(functions: &[Function], function: &Function) -> Range<usize> {
    let from = function.start.saturating_sub(NEAR);
    let until = function.end.saturating_add(NEAR);
    let first = functions.partition_point(|other| other.end <= from);
    first..functions.partition_point(|other| other.start < until)
}
