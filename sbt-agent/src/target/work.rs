//! Whether a function does something before it makes a call, or is only the way to it.
//!
//! What works has a loop that is not one of waiting, in itself or in what it calls. Functions
//! of libraries are not looked into: locks, clocks and output belong to a wrapper as well.

use std::collections::HashSet;

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind};

use super::elf::{Segment, code_at};

/// Into so many calls, one out of the other, it is looked.
const DEEPEST: u32 = 3;

/// Farther from a function's beginning nothing is looked at, bytes.
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
    /// all that is executed from `start` on.
    fn is_done(&mut self, start: u64, until: Option<u64>, deepest: u32) -> bool {
        let all = start..until.unwrap_or(u64::MAX).min(start.saturating_add(LONGEST));
        let mut reached = HashSet::new();
        let (mut open, mut back, mut called) = (vec![start], Vec::new(), Vec::new());
        while let Some(from) = open.pop() {
            let length = all.end.saturating_sub(from);
            let code = code_at(self.image, self.segments, from, length);
            let Some(code) = code.filter(|_| all.contains(&from)) else {
                continue;
            };
            for instruction in Decoder::with_ip(64, code.bytes, from, DecoderOptions::NONE) {
                self.left = self.left.saturating_sub(1);
                let is_last = until.is_some_and(|until| instruction.next_ip() >= until);
                if self.left == 0
                    || instruction.is_invalid()
                    || is_last
                    || !reached.insert(instruction.ip())
                {
                    break;
                }
                if is_bulk(&instruction) {
                    return true;
                }
                let flow = instruction.flow_control();
                if instruction.op0_kind() == OpKind::NearBranch64 {
                    let target = instruction.near_branch64();
                    if flow == FlowControl::Call {
                        called.push(target);
                    } else {
                        open.push(target);
                        if (start..=instruction.ip()).contains(&target) {
                            back.push((target, instruction.next_ip()));
                        }
                    }
                }
                if ends(flow) {
                    break;
                }
            }
        }
        back.into_iter()
            .any(|(start, end)| self.is_work(start, end))
            || deepest > 0
                && called
                    .into_iter()
                    .any(|target| (self.is_own)(target) && self.is_done(target, None, deepest - 1))
    }

    /// Whether what a jump back to `start` closes is a loop that does something: one that only
    /// looks at memory, or takes a lock, waits. `end`: behind the jump. What lies apart from a
    /// function's way jumps back as well, but is not come to from there.
    fn is_work(&mut self, start: u64, end: u64) -> bool {
        let length = end.saturating_sub(start);
        let Some(code) = code_at(self.image, self.segments, start, length) else {
            return false;
        };
        // Of each instruction that is come to from `start`.
        let mut reached = vec![false; code.bytes.len()];
        let mut open = vec![start];
        let (mut computes, mut closes) = (false, false);
        while let Some(from) = open.pop() {
            let offset = usize::try_from(from.wrapping_sub(start)).unwrap_or(usize::MAX);
            let Some(rest) = code.bytes.get(offset..) else {
                continue;
            };
            for instruction in Decoder::with_ip(64, rest, from, DecoderOptions::NONE) {
                let at = usize::try_from(instruction.ip() - start).unwrap_or(usize::MAX);
                self.left = self.left.saturating_sub(1);
                if self.left == 0 || instruction.is_invalid() || reached.get(at) != Some(&false) {
                    break;
                }
                reached[at] = true;
                closes |= instruction.next_ip() == end;
                if waits(&instruction) {
                    return false;
                }
                let flow = instruction.flow_control();
                computes |= flow == FlowControl::Next && !only_looks(&instruction);
                if instruction.op0_kind() == OpKind::NearBranch64 && flow != FlowControl::Call {
                    open.push(instruction.near_branch64());
                }
                if ends(flow) {
                    break;
                }
            }
        }
        closes && computes
    }
}

/// Whether nothing is executed behind it but by a jump.
fn ends(flow: FlowControl) -> bool {
    matches!(
        flow,
        FlowControl::Return | FlowControl::UnconditionalBranch | FlowControl::IndirectBranch
    )
}

/// Whether it is what is done in order to wait.
fn waits(instruction: &Instruction) -> bool {
    let is_one = matches!(
        instruction.mnemonic(),
        Mnemonic::Pause | Mnemonic::Xchg | Mnemonic::Syscall
    );
    is_one && !is_padding(instruction) || instruction.has_lock_prefix()
}

/// `xchg ax, ax` and its like.
fn is_padding(instruction: &Instruction) -> bool {
    instruction.op_count() == 2
        && instruction.op0_kind() == OpKind::Register
        && instruction.op1_kind() == OpKind::Register
        && instruction.op0_register() == instruction.op1_register()
}

fn only_looks(instruction: &Instruction) -> bool {
    is_padding(instruction)
        || matches!(
            instruction.mnemonic(),
            Mnemonic::Mov
                | Mnemonic::Movzx
                | Mnemonic::Movsx
                | Mnemonic::Movsxd
                | Mnemonic::Cmp
                | Mnemonic::Test
                | Mnemonic::Nop
                | Mnemonic::Cdqe
        )
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
        // jmp 7; ret; inc eax; ret; inc eax; jmp 3, as what is seldom executed does.
        let apart = [0xeb, 4, 0xff, 0xc0, 0xc3, 0x90, 0xff, 0xc0, 0xeb, 0xf8];
        assert!(!works(&[&apart[..], &CALL].concat()));
        // call 7; jmp to the last; dec ecx; jne; ret; the call
        let code = [0xe8, 2, 0, 0, 0, 0xeb, 5, 0xff, 0xc9, 0x75, 0xfc, 0xc3];
        assert!(works(&[&code[..], &CALL].concat()));
        // It calls itself: an end is found.
        assert!(!works(
            &[&[0xe8, 0xfb, 0xff, 0xff, 0xff][..], &CALL].concat()
        ));
    }
}
