//! Whether a function does something before it makes a call, or is only the way to it.
//!
//! What works has a loop that is not one of waiting, in itself or in what it calls. Functions
//! of libraries are not looked into: locks, clocks and output belong to a wrapper as well.

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind};

use super::elf::{Segment, code_at};

/// Into so many calls, one out of the other, it is looked.
const DEEPEST: u32 = 3;

/// More code of one function is not looked at, bytes: what is longer works.
const LONGEST: u64 = 4096;

/// So many instructions are decoded in all.
const MAX_INSTRUCTIONS: u32 = 1 << 14;

/// The code of a file.
struct Work<'a> {
    image: &'a [u8],
    segments: &'a [Segment],
    /// Whether a function is the program's own, and not of a library in the same file.
    is_own: &'a dyn Fn(u64) -> bool,
    /// How many more instructions are decoded.
    left: u32,
}

/// Whether the function that begins at `start` works before the call that returns to `returns`
/// (both are the file's own addresses). `is_own`: whether a function is the program's, and
/// not that of a library in the same file. The bytes may be anything.
pub(super) fn works_before(
    image: &[u8],
    segments: &[Segment],
    is_own: &dyn Fn(u64) -> bool,
    (start, returns): (u64, u64),
) -> bool {
    let mut work = Work {
        image,
        segments,
        is_own,
        left: MAX_INSTRUCTIONS,
    };
    work.is_done(start, Some(returns), DEEPEST)
}

impl Work<'_> {
    /// `until`: behind the last instruction of interest, which itself is not looked at; else
    /// the function's end.
    fn is_done(&mut self, start: u64, until: Option<u64>, deepest: u32) -> bool {
        let length = until.map_or(LONGEST, |until| until.saturating_sub(start).min(LONGEST));
        let Some(code) = code_at(self.image, self.segments, start, length) else {
            return false;
        };
        // The furthest that is jumped to: no return before it ends the function.
        let mut furthest = start;
        let mut called = Vec::new();
        for instruction in Decoder::with_ip(64, code.bytes, start, DecoderOptions::NONE) {
            self.left = self.left.saturating_sub(1);
            if instruction.is_invalid() || self.left == 0 {
                return false;
            }
            if until.is_some_and(|until| instruction.next_ip() >= until) {
                break;
            }
            if is_bulk(&instruction) {
                return true;
            }
            let is_direct = instruction.op0_kind() == OpKind::NearBranch64;
            let target = instruction.near_branch64();
            match instruction.flow_control() {
                FlowControl::Call if is_direct => called.push(target),
                FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch if is_direct => {
                    let inside = start..=instruction.ip();
                    if inside.contains(&target) && self.is_work(target, instruction.next_ip()) {
                        return true;
                    }
                    furthest = furthest.max(target.min(start + LONGEST));
                }
                _ => {}
            }
            let ends = matches!(
                instruction.flow_control(),
                FlowControl::Return
                    | FlowControl::UnconditionalBranch
                    | FlowControl::IndirectBranch
            );
            if until.is_none() && ends && instruction.next_ip() > furthest {
                break;
            }
        }
        deepest > 0
            && called
                .into_iter()
                .any(|target| (self.is_own)(target) && self.is_done(target, None, deepest - 1))
    }

    /// Whether a loop does something: one that only looks at memory, or takes a lock, waits.
    fn is_work(&mut self, start: u64, end: u64) -> bool {
        let Some(code) = code_at(self.image, self.segments, start, end.saturating_sub(start))
        else {
            return false;
        };
        let mut computes = false;
        for instruction in Decoder::with_ip(64, code.bytes, start, DecoderOptions::NONE) {
            self.left = self.left.saturating_sub(1);
            let waits = instruction.has_lock_prefix()
                || matches!(
                    instruction.mnemonic(),
                    Mnemonic::Pause | Mnemonic::Xchg | Mnemonic::Syscall
                );
            if waits || instruction.is_invalid() || self.left == 0 {
                return false;
            }
            computes |= !matches!(
                instruction.mnemonic(),
                Mnemonic::Mov
                    | Mnemonic::Movzx
                    | Mnemonic::Movsx
                    | Mnemonic::Movsxd
                    | Mnemonic::Cmp
                    | Mnemonic::Test
                    | Mnemonic::Nop
                    | Mnemonic::Cdqe
            ) && instruction.flow_control() == FlowControl::Next;
        }
        computes
    }
}

/// Whether it is a loop by itself.
fn is_bulk(instruction: &Instruction) -> bool {
    instruction.has_rep_prefix() && instruction.is_string_instruction()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// At address 0; the call that counts is the last instruction.
    fn works(code: &[u8]) -> bool {
        let segments = [Segment {
            vaddr: 0,
            offset: 0,
            filesz: code.len() as u64,
            memsz: code.len() as u64,
            executable: true,
        }];
        works_before(code, &segments, &|_| true, (0, code.len() as u64))
    }

    const CALL: [u8; 5] = [0xe8, 0, 1, 0, 0];

    #[test]
    fn who_comes_straight_to_it_does_not_work() {
        // push rbx; mov rdi, rbx
        assert!(!works(&[&[0x53, 0x48, 0x89, 0xdf], &CALL[..]].concat()));
        // Into the middle of nowhere, or not at all.
        assert!(!works(&[&CALL[..], &CALL].concat()));
        assert!(!works(&[0xff; 8]));
        assert!(!works_before(&[], &[], &|_| true, (0, 8)));
    }

    #[test]
    fn a_loop_is_work_and_waiting_is_none() {
        // add rax, [rdi]; add rdi, 8; cmp rdi, rsi; jne
        let sum = [
            0x48, 0x03, 0x07, 0x48, 0x83, 0xc7, 8, 0x48, 0x39, 0xf7, 0x75, 0xf4,
        ];
        assert!(works(&[&sum[..], &CALL].concat()));
        assert!(!works(&[&CALL[..], &sum].concat()), "behind it");
        // mov eax, [rdi]; cmp eax, esi; je
        let look = [0x8b, 0x07, 0x39, 0xf0, 0x74, 0xfa];
        assert!(!works(&[&look[..], &CALL].concat()));
        // pause; dec ecx; jne
        let pause = [0xf3, 0x90, 0xff, 0xc9, 0x75, 0xfa];
        assert!(!works(&[&pause[..], &CALL].concat()));
        // lock cmpxchg [rdi], esi; jne
        let lock = [0xf0, 0x0f, 0xb1, 0x37, 0x75, 0xfa];
        assert!(!works(&[&lock[..], &CALL].concat()));
        // rep stosq
        assert!(works(&[&[0xf3, 0x48, 0xab], &CALL[..]].concat()));
    }

    #[test]
    fn what_is_called_before_works_too() {
        // call 7; jmp to the last; dec ecx; jne; ret; the call
        let code = [0xe8, 2, 0, 0, 0, 0xeb, 5, 0xff, 0xc9, 0x75, 0xfc, 0xc3];
        assert!(works(&[&code[..], &CALL].concat()));
        // It calls itself: an end is found.
        assert!(!works(
            &[&[0xe8, 0xfb, 0xff, 0xff, 0xff][..], &CALL].concat()
        ));
    }
}
