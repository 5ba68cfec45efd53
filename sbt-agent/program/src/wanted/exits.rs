//! The instructions by which a function ends.
//!
//! A return probe would report the end of a call, but replaces the caller's return address by an
//! address of the kernel's. Code that unwinds the stack does not get past that address: an
//! exception ends the program, and a cancelled thread skips its destructors. So probes stand on the
//! function's `ret` instructions, which the kernel single-steps, and on its jumps to other
//! functions in its own place (tail calls), which the kernel emulates.
//!
//! If a way out is not found, only the time of that departure is lost: see `Slot::is_in_call` in
//! sbt-ebpf.

use std::collections::{BTreeMap, HashSet};

use super::Binary;
use super::find::MAX_FUNCTION;
use crate::arch::{
    self, Flow, Instruction,
    prologue::{Stand, stand},
};
use crate::debuginfo::Symbol;
use crate::elf::Code;

/// The most functions that are followed when a function ends by jumping to another.
const MAX_FOLLOWED: usize = 4;

/// The most ways out of a function that are probed.
const MAX_EXITS: usize = 256;

struct Piece<'a> {
    start: u64,
    code: Code<'a>,
}

impl Piece<'_> {
    fn spans(&self, address: u64) -> bool {
        address.wrapping_sub(self.start) < self.code.bytes.len() as u64
    }
}

/// Ways out: offset in the file, and whether the kernel emulates the instruction.
type Exits = BTreeMap<u64, bool>;

impl Binary<'_> {
    /// The instructions by which a function ends, as far as they are found: their offsets in the
    /// file, and whether the kernel emulates them.
    pub(super) fn exits(&self, symbol: &Symbol) -> Exits {
        let mut exits = Exits::new();
        let mut functions = vec![symbol.clone()];
        let mut next = 0;
        while let Some(function) = functions.get(next) {
            next += 1;
            let (found, followed) = self.ends_of(function).unwrap_or_default();
            exits.extend(found);
            for target in followed {
                let known = functions.iter().any(|known| known.start == target.start);
                if !known && functions.len() <= MAX_FOLLOWED {
                    functions.push(target);
                }
            }
        }
        while exits.len() > MAX_EXITS {
            exits.pop_last();
        }
        exits
    }

    /// The ways out of one function, and the functions that it ends by jumping to. `None` if not
    /// all of its instructions can be decoded.
    fn ends_of(&self, symbol: &Symbol) -> Option<(Exits, Vec<Symbol>)> {
        if symbol.size == 0 || symbol.size > MAX_FUNCTION {
            return None;
        }
        let cold = self.debug.cold_parts(&HashSet::from([&symbol.name[..]]));
        let pieces: Vec<_> = std::iter::once(symbol)
            .chain(&cold)
            .filter_map(|part| {
                let code = self.code(part.start, part.size.min(MAX_FUNCTION))?;
                Some(Piece {
                    start: part.start,
                    code,
                })
            })
            .collect();
        let (mut exits, mut followed) = (Exits::new(), Vec::new());
        for piece in &pieces {
            let Piece { start, code } = piece;
            for instruction in arch::decode(code.bytes, *start) {
                if !instruction.is_valid() {
                    return None;
                }
                let ends = match instruction.flow() {
                    Flow::Return => true,
                    Flow::Jump(target) | Flow::Branch(target) => {
                        let inside = pieces.iter().any(|piece| piece.spans(target));
                        !inside && self.ends_by_jump(target, &mut followed)
                    }
                    Flow::Indirect(_) => self.ends_by_indirect_jump(&instruction),
                    _ => false,
                };
                if ends && !matches!(instruction.flow(), Flow::Branch(_)) {
                    let distance = usize::try_from(instruction.at() - start).ok()?;
                    let bytes = code.bytes.get(distance..distance + instruction.length())?;
                    if let Ok(stand) = stand(bytes) {
                        let offset = code.offset.checked_add(distance as u64)?;
                        exits.insert(offset, stand == Stand::Emulated);
                    }
                }
            }
        }
        Some((exits, followed))
    }

    /// Whether a jump to another function ends this one. If the other function is in this file, its
    /// own ends count instead, since it may do the waiting.
    fn ends_by_jump(&self, target: u64, followed: &mut Vec<Symbol>) -> bool {
        if let Some(name) = self.imported_at(target) {
            return !may_wait(&name);
        }
        if let Some(function) = self.debug.spanning(target)
            && function.start == target
        {
            followed.push(function);
        }
        false
    }

    /// Whether an indirect jump ends the function: a jump through an import does, while jumps by a
    /// register belong to a `switch` and stay inside.
    fn ends_by_indirect_jump(&self, instruction: &Instruction) -> bool {
        self.imported_at(instruction.at())
            .is_some_and(|name| !may_wait(&name))
    }
}

/// Whether a barrier may wait in a function of another library, judged by its name: then a jump to
/// the function is not the end.
fn may_wait(name: &str) -> bool {
    const WORDS: [&str; 8] = [
        "wait", "barrier", "join", "sleep", "lock", "syscall", "sync", "poll",
    ];
    !name.contains("unlock") && WORDS.iter().any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jumps_to_what_waits_are_no_ends() {
        for name in ["pthread_barrier_wait", "pthread_mutex_lock", "syscall"] {
            assert!(may_wait(name));
        }
        for name in ["pthread_mutex_unlock", "free", "pthread_cond_broadcast"] {
            assert!(!may_wait(name));
        }
    }
}
