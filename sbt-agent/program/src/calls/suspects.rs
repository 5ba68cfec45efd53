//! Functions of a file that may refer to an address: found without decoding them.
//!
//! Decoding all code of a large library takes longer than a program may wait. An instruction that
//! refers to an address holds the distance to that address in four bytes, behind an opcode or
//! behind a byte that says how the operand is addressed. The search looks for such bytes at every
//! offset. A match may lie in the middle of another instruction, so the function is decoded before
//! the match counts. The search misses jumps with a distance of one byte: these reach only nearby
//! code, see [`near`].

mod search;

use std::cell::{Cell, OnceCell};
use std::ops::Range;

use crate::elf::{Segment, code_at};
use crate::unwind::Function;

/// How far a jump with a distance of one byte reaches, bytes, with the instruction itself.
const NEAR: u64 = 130;

/// The most bytes that follow the distance in an instruction that refers to memory.
const BEHIND: u64 = 4;

/// The possible meanings of a byte before the four bytes of a distance: the opcode of a call or
/// jump (`BRANCH`), the first of the two opcode bytes of a conditional jump (`JUMP`), a `ModRM`
/// byte of an operand relative to the instruction (`MEMORY`), or nothing of these.
const NOTHING: u8 = 0;
const BRANCH: u8 = 1;
const JUMP: u8 = 2;
const MEMORY: u8 = 3;

const KINDS: [u8; 256] = {
    let mut kinds = [NOTHING; 256];
    kinds[0xe8] = BRANCH;
    kinds[0xe9] = BRANCH;
    kinds[0x0f] = JUMP;
    let mut register = 0;
    while register < 8 {
        kinds[0x05 | (register << 3)] = MEMORY;
        register += 1;
    }
    kinds
};

/// The number of ranges of addresses that are searched for one by one: a search through all code
/// takes a tenth of the time that the index takes.
const MAX_SEARCHED: usize = 8;

/// The functions of a file that may refer to an address.
#[derive(Debug, Default)]
pub(super) struct Suspects {
    /// Ranges of addresses that have been searched for.
    searched: Cell<usize>,
    index: OnceCell<Index>,
}

impl Suspects {
    /// The indices of functions that may refer to an address in `ranges`, except by short jumps;
    /// some indices come more than once.
    pub(super) fn to(&self, code: &Wanted<'_>, ranges: &[Range<u64>]) -> Vec<usize> {
        let searched = self.searched.get() + ranges.len();
        self.searched.set(searched);
        if searched <= MAX_SEARCHED {
            return search::references(code, ranges);
        }
        let index = self.index(code);
        ranges.iter().flat_map(|range| index.to(range)).collect()
    }

    /// All addresses that may be referred to, each once.
    pub(super) fn targets(&self, code: &Wanted<'_>) -> impl Iterator<Item = u64> {
        self.index(code).targets()
    }

    fn index(&self, code: &Wanted<'_>) -> &Index {
        let all = 0..code.functions.len();
        self.index.get_or_init(|| Index::of(code, all))
    }
}

/// The functions of a file, by the addresses to which they may refer.
#[derive(Debug, Default)]
struct Index {
    /// The lowest address that is looked for.
    base: u64,
    /// In the upper half an address, or up to [`BEHIND`] bytes before it, as its distance from
    /// `base`; in the lower half the index of a function. Sorted.
    found: Vec<u64>,
}

/// The addresses and registers to look for.
pub(super) struct Wanted<'a> {
    pub(super) image: &'a [u8],
    pub(super) segments: &'a [Segment],
    /// All functions, in the order of their addresses, without overlap.
    pub(super) functions: &'a [Function],
    /// The range of the words through which functions are called.
    pub(super) words: Range<u64>,
    /// Whether the file can only be loaded at the addresses that it names: then instructions hold
    /// addresses, too.
    pub(super) is_fixed: bool,
}

impl Wanted<'_> {
    /// The range of the addresses of all code.
    fn code(&self) -> Range<u64> {
        let executable = self.segments.iter().filter(|segment| segment.executable);
        let (mut from, mut until) = (u64::MAX, 0);
        for segment in executable {
            from = from.min(segment.vaddr);
            until = until.max(segment.vaddr.saturating_add(segment.filesz));
        }
        from..until
    }
}

impl Index {
    /// The references in these functions.
    fn of(wanted: &Wanted<'_>, functions: impl Iterator<Item = usize>) -> Self {
        let code = wanted.code();
        let mut this = Self {
            base: code.start.min(wanted.words.start).saturating_sub(BEHIND),
            found: Vec::new(),
        };
        for index in functions {
            let number = u32::try_from(index).ok();
            if let (Some(number), Some(function)) = (number, wanted.functions.get(index)) {
                this.add(wanted, &code, number, function);
            }
        }
        this.found.sort_unstable();
        this.found.dedup();
        this
    }

    fn add(&mut self, wanted: &Wanted<'_>, code: &Range<u64>, number: u32, function: &Function) {
        let Function { start, end, .. } = *function;
        let Some(found) = code_at(wanted.image, wanted.segments, start, end - start) else {
            return;
        };
        let bytes = found.bytes;
        let is_inside = |address: u64| (start + 1..end).contains(&address);
        let base = self.base;
        let from = code.start.saturating_sub(BEHIND);
        let words = wanted.words.start.saturating_sub(BEHIND)..wanted.words.end;
        let mut look = |index: usize, window: &[u8]| {
            let [first, second, a, b, c, d] = *window else {
                return;
            };
            let kind = KINDS[usize::from(first)];
            if kind == NOTHING {
                return;
            }
            let at = start.wrapping_add(index as u64);
            let (next, distance) = if kind == JUMP {
                if second & 0xf0 != 0x80 {
                    return;
                }
                (at.wrapping_add(6), [a, b, c, d])
            } else {
                (at.wrapping_add(5), [second, a, b, c])
            };
            let target = next.wrapping_add_signed(i32::from_le_bytes(distance).into());
            let is_code = target >= from && target < code.end && !is_inside(target);
            if is_code || kind == MEMORY && words.contains(&target) {
                self.found.extend(entry(base, target, number));
            }
        };
        for (index, window) in bytes.windows(6).enumerate() {
            look(index, window);
        }
        // The last instruction may be a call, which is shorter than the window.
        if let Some([a, b, c, d, e]) = bytes.last_chunk() {
            look(bytes.len() - 5, &[*a, *b, *c, *d, *e, 0]);
        }
        if wanted.is_fixed {
            let addresses = bytes.windows(4).filter_map(|window| window.first_chunk());
            let addresses = addresses.map(|window| u64::from(u32::from_le_bytes(*window)));
            let addresses = addresses.filter(|at| code.contains(at) && !is_inside(*at));
            self.found
                .extend(addresses.filter_map(|address| entry(base, address, number)));
        }
    }

    fn to(&self, addresses: &Range<u64>) -> impl Iterator<Item = usize> {
        let end = addresses.end;
        let from = addresses.start.saturating_sub(BEHIND);
        let first = self
            .found
            .partition_point(|entry| self.target(*entry) < from);
        let found = self.found[first..].iter();
        let found = found.take_while(move |entry| self.target(**entry) < end);
        found.map(|entry| {
            let [a, b, c, d, ..] = entry.to_le_bytes();
            u32::from_le_bytes([a, b, c, d]) as usize
        })
    }

    fn targets(&self) -> impl Iterator<Item = u64> {
        let groups = self.found.chunk_by(|one, other| one >> 32 == other >> 32);
        groups.map(|group| self.target(group[0]))
    }

    fn target(&self, entry: u64) -> u64 {
        self.base + (entry >> 32)
    }
}

/// Packs a target and the index of a function. `None` if the target lies farther from `base` than
/// an instruction reaches.
fn entry(base: u64, target: u64, number: u32) -> Option<u64> {
    let distance = u32::try_from(target.checked_sub(base)?).ok()?;
    Some(u64::from(distance) << 32 | u64::from(number))
}

/// The indices of functions so near to `function` that a short jump reaches it.
pub(super) fn near(functions: &[Function], function: &Function) -> Range<usize> {
    let from = function.start.saturating_sub(NEAR);
    let until = function.end.saturating_add(NEAR);
    let first = functions.partition_point(|other| other.end <= from);
    first..functions.partition_point(|other| other.start < until)
}
