//! Unwinding: the registers as DWARF numbers them, functions that keep a frame pointer, and where a
//! signal's handler finds the registers of the code that it has interrupted.

use gimli::Register as Numbered;
use iced_x86::{InstructionInfoFactory, Mnemonic, OpAccess, UsedRegister};

use super::{
    instruction::{Flow, Instruction, decode},
    registers::{FRAME as FRAME_POINTER, STACK as STACK_POINTER},
};

/// The frame pointer, rbp.
pub const FRAME: Numbered = gimli::X86_64::RBP;

/// The stack pointer, rsp.
pub const STACK: Numbered = gimli::X86_64::RSP;

/// The registers of [`super::registers::KEPT`], in that order.
pub const NUMBERED_KEPT: [Numbered; 6] = [
    gimli::X86_64::RBX,
    gimli::X86_64::RBP,
    gimli::X86_64::R12,
    gimli::X86_64::R13,
    gimli::X86_64::R14,
    gimli::X86_64::R15,
];

/// The column of the return address.
pub const RETURN: Numbered = gimli::X86_64::RA;

/// Where the return address lies, from the canonical frame address on, bytes.
pub const RETURN_AT: i64 = -8;

/// `DW_OP_breg6`: the operation that takes the frame pointer and adds to it.
pub const ADD_TO_FRAME: u8 = 0x76;

/// Distance from the stack pointer to the registers of the interrupted code, where a signal's
/// handler returns: `uc_mcontext` of `ucontext_t`, bytes.
pub const INTERRUPTED: u64 = 40;
/// Indices of the frame pointer, the stack pointer and the instruction pointer in these registers,
/// words.
pub const INTERRUPTED_FRAME: u64 = 10;
pub const INTERRUPTED_STACK: u64 = 15;
pub const INTERRUPTED_AT: u64 = 16;

/// The most instructions between saving the frame pointer and pointing it to the saved value.
const BEFORE_FRAME: usize = 8;

/// The distance from the stack pointer, after a function has begun, to the frame pointer that it has
/// set, bytes, by the function's code; `None` if it does not begin by saving the frame pointer, or if
/// the distance may differ from call to call.
pub fn below_frame(code: &[u8]) -> Option<u64> {
    if !keeps_frame(code) {
        return None;
    }
    let mut info = InstructionInfoFactory::new();
    let mut after = decode(code, 0)
        .skip_while(|instruction| !instruction.sets_frame())
        .skip(1);
    let makes_room = |instruction: &iced_x86::Instruction| {
        instruction.mnemonic() == Mnemonic::Sub && instruction.op0_register() == STACK_POINTER
    };
    let mut below = 0;
    for instruction in after.by_ref() {
        if makes_room(&instruction.0) {
            below += instruction.0.try_immediate(1).ok()?;
            break;
        }
        if instruction.0.mnemonic() == Mnemonic::Push {
            below += 8;
            continue;
        }
        let used = info.info(&instruction.0).used_registers();
        let moves = used.iter().any(|used| {
            used.register().full_register() == STACK_POINTER && used.access() != OpAccess::Read
        });
        if moves || instruction.flow() != Flow::Next {
            break;
        }
    }
    // Room of a size that is computed.
    let is_computed = after.any(|Instruction(instruction)| {
        makes_room(&instruction) && instruction.try_immediate(1).is_err()
    });
    (!is_computed).then_some(below)
}

/// Whether a function, by its code, begins by saving the frame pointer, and soon points it to the
/// saved value: then both the return address and the caller's frame pointer are found from it.
pub fn keeps_frame(code: &[u8]) -> bool {
    let mut info = InstructionInfoFactory::new();
    let mut instructions =
        decode(code, 0).skip_while(|instruction| instruction.0.mnemonic() == Mnemonic::Endbr64);
    let is_saved = |instruction: Instruction| {
        instruction.0.mnemonic() == Mnemonic::Push && instruction.0.op0_register() == FRAME_POINTER
    };
    if !instructions.next().is_some_and(is_saved) {
        return false;
    }
    for instruction in instructions.take(BEFORE_FRAME) {
        if instruction.sets_frame() {
            return true;
        }
        let moves = |used: &UsedRegister| {
            let register = used.register().full_register();
            let is_frame = [STACK_POINTER, FRAME_POINTER].contains(&register);
            is_frame && used.access() != OpAccess::Read
        };
        if instruction.flow() != Flow::Next
            || info.info(&instruction.0).used_registers().iter().any(moves)
        {
            return false;
        }
    }
    false
}

/// Whether the processor can keep a second copy of return addresses. Under a hypervisor asking is
/// slow.
pub fn can_have_shadow_stacks() -> bool {
    /// `CET_SS`: leaf 7 of CPUID, in ecx.
    const SHADOW_STACKS: u32 = 1 << 7;
    std::arch::x86_64::__cpuid_count(7, 0).ecx & SHADOW_STACKS != 0
}

/// The line of `/proc/PID/status` that lists such features of a thread, and the word for this one.
pub const SHADOW_STACK: (&str, &str) = ("x86_Thread_features", "shstk");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_far_a_frame_lies_above_the_stack_pointer() {
        // push rbp; mov rbp, rsp; push r15; push r14; push r12; push rbx; sub rsp, 0x20;
        // mov rbx, rdi; ret
        let mut code = vec![
            0x55, 0x48, 0x89, 0xe5, 0x41, 0x57, 0x41, 0x56, 0x41, 0x54, 0x53, 0x48, 0x83, 0xec,
            0x20, 0x48, 0x89, 0xfb, 0xc3,
        ];
        assert_eq!(below_frame(&code), Some(0x40));
        // sub rsp, rax: room of a size that is computed
        code.extend([0x48, 0x29, 0xc4]);
        assert_eq!(below_frame(&code), None);
        // No room: push rbp; mov rbp, rsp; push rbx; call
        let code = [0x55, 0x48, 0x89, 0xe5, 0x53, 0xe8, 0, 0, 0, 0];
        assert_eq!(below_frame(&code), Some(8));
        // sub rsp, 8: no frame pointer
        assert_eq!(below_frame(&[0x48, 0x83, 0xec, 0x08, 0xc3]), None);
    }
}
