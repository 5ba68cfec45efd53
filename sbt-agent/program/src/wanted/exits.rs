//! The instructions by which a function ends.
//!
//! A return probe would tell the end of a call, but puts an address of the
//! kernel's in the place of the caller's. Nobody who unwinds the stack gets past
//! that: an exception ends the program, a cancelled thread leaves its destructors
//! out. So probes stand on the function's `ret` instructions, which the kernel
//! single-steps, and on its jumps to other functions in its own place (tail
//! calls), which it emulates.
//!
//! A way out that is not found costs the time of that departure and nothing
//! else: see `Slot::is_in_call` in sbt-ebpf.

use std::collections::{BTreeMap, HashSet};

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, OpKind};

use super::Binary;
use super::find::MAX_FUNCTION;
use crate::debuginfo::Symbol;
use crate::elf::Code;
use crate::prologue::{Stand, stand};

/// How many functions that end by jumping to the next are followed.
const MAX_FOLLOWED: usize = 4;

/// A function with more ways out is not probed at any further.
const MAX_EXITS: usize = 256;

/// A piece of a function's code.
struct Piece<'a> {
    start: u64,
    code: Code<'a>,
}

impl Piece<'_> {
    fn spans(&self, address: u64) -> bool {
        address.wrapping_sub(self.start) < self.code.bytes.len() as u64
    }
}

/// Ways out: offset in the file, and whether the kernel emulates them.
type Exits = BTreeMap<u64, bool>;

impl Binary<'_> {
    /// The instructions by which a function ends, as far as they are found: their
    /// offsets in the file, and whether the kernel emulates them.
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

    /// Those of one function, and the functions that it ends by jumping to.
    /// `None` if its instructions cannot all be told.
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
            for instruction in Decoder::with_ip(64, code.bytes, *start, DecoderOptions::NONE) {
                if instruction.is_invalid() {
                    return None;
                }
                let ends = match instruction.flow_control() {
                    FlowControl::Return => true,
                    FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch => {
                        let target = instruction.near_branch_target();
                        let inside = pieces.iter().any(|piece| piece.spans(target));
                        !inside && self.ends_by_jump(target, &mut followed)
                    }
                    FlowControl::IndirectBranch => self.ends_by_indirect_jump(&instruction),
                    _ => false,
                };
                if ends && instruction.flow_control() != FlowControl::ConditionalBranch {
                    let distance = usize::try_from(instruction.ip() - start).ok()?;
                    let bytes = code.bytes.get(distance..distance + instruction.len())?;
                    if let Ok(stand) = stand(bytes) {
                        let offset = code.offset.checked_add(distance as u64)?;
                        exits.insert(offset, stand == Stand::Emulated);
                    }
                }
            }
        }
        Some((exits, followed))
    }

    /// Whether a jump to another function ends this one. If that is in this file
    /// its own ends count, since it may be what does the waiting.
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

    /// Jumps by a register are those of a `switch`, and stay inside.
    fn ends_by_indirect_jump(&self, instruction: &Instruction) -> bool {
        instruction.op0_kind() == OpKind::Memory
            && self
                .imported_at(instruction.ip())
                .is_some_and(|name| !may_wait(&name))
    }
}

/// Whether a function of another library, by its name, may be where a barrier
/// waits: then a jump to it is not the end.
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
