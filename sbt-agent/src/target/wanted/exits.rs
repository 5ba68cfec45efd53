//! The instructions by which a function returns.
//!
//! A return probe puts an address of the kernel's in the place of the caller's.
//! Nobody who unwinds the stack for an exception gets past that: the runtime of
//! C++ ends the program. Where an exception may pass, the probes therefore stand
//! on the function's `ret` instructions, which the kernel single-steps.

use std::collections::HashSet;

use iced_x86::{Decoder, DecoderOptions, FlowControl};

use super::Binary;
use super::find::MAX_FUNCTION;
use crate::target::debuginfo::Symbol;
use crate::target::elf::{self, Code};
use crate::target::prologue::is_probeable;

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

impl Binary<'_> {
    /// The offsets in the file of the instructions by which a function returns.
    /// `None` if no exception can pass through it, or if these are not all ways
    /// out, as with one that ends by jumping to another.
    pub(super) fn exits(&self, symbol: &Symbol) -> Option<Vec<u64>> {
        if symbol.size == 0 || symbol.size > MAX_FUNCTION || !elf::may_unwind(self.image) {
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
        let mut exits = Vec::new();
        for piece in &pieces {
            exits.extend(returns(piece, &pieces)?);
        }
        (!exits.is_empty()).then_some(exits)
    }
}

/// `None` if there is another way out of the function, or it is not known.
fn returns(piece: &Piece<'_>, pieces: &[Piece<'_>]) -> Option<Vec<u64>> {
    let Piece { start, code } = piece;
    let mut offsets = Vec::new();
    for instruction in Decoder::with_ip(64, code.bytes, *start, DecoderOptions::NONE) {
        if instruction.is_invalid() {
            return None;
        }
        let distance = instruction.ip() - start;
        match instruction.flow_control() {
            FlowControl::Return => {
                let bytes = code.bytes.get(usize::try_from(distance).ok()?..)?;
                if !is_probeable(bytes) {
                    return None;
                }
                offsets.push(code.offset.checked_add(distance)?);
            }
            FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch => {
                let target = instruction.near_branch_target();
                if !pieces.iter().any(|piece| piece.spans(target)) {
                    return None;
                }
            }
            FlowControl::IndirectBranch | FlowControl::XbeginXabortXend => return None,
            FlowControl::Next
            | FlowControl::Call
            | FlowControl::IndirectCall
            | FlowControl::Interrupt
            | FlowControl::Exception => {}
        }
    }
    Some(offsets)
}
