//! The instruction that a breakpoint replaces: emulated for the thread, if that is simple, or
//! copied to where no breakpoint is.

use iced_x86::{
    BlockEncoder, BlockEncoderOptions, Code, ConditionCode, FlowControl, InstructionBlock,
    Mnemonic, OpKind, Register,
};

use super::{
    instruction::{self, Flow, Instruction},
    registers::Registers,
};

/// The length of the longest instruction, bytes.
pub const LONGEST: usize = 15;

/// How many bytes a copied instruction takes, with the jump back: copied jumps become longer.
pub const ROOM: usize = 64;

/// `jmp [rip]`; the address follows it.
const JUMP: [u8; 6] = [0xff, 0x25, 0, 0, 0, 0];

/// The memory of a thread, in words of 8 bytes.
pub trait Words {
    /// Reads a word. `None` if that is not possible.
    fn read(&self, address: u64) -> Option<u64>;
    /// Writes a word. False if that is not possible.
    fn write(&self, address: u64, value: u64) -> bool;
}

/// Decodes the instruction at the beginning of these bytes. `None` if they are no instruction.
pub fn decode(bytes: &[u8], address: u64) -> Option<Instruction> {
    instruction::decode(bytes, address)
        .next()
        .filter(Instruction::is_valid)
}

/// Whether the instruction puts a return address on the stack.
pub fn is_call(instruction: &Instruction) -> bool {
    matches!(instruction.flow(), Flow::Call(_) | Flow::System)
}

/// Emulates a simple instruction. False if it is not simple; then nothing has changed. Calls are
/// emulated, since a call copied elsewhere would put the wrong address on the stack.
pub fn emulate(instruction: &Instruction, registers: &mut Registers, memory: &impl Words) -> bool {
    let Instruction(instruction) = instruction;
    let push = |registers: &mut Registers, value| {
        let at = registers.stack().wrapping_sub(8);
        memory.write(at, value) && {
            registers.set_stack(at);
            true
        }
    };
    let next = instruction.next_ip();
    let target = match (instruction.code(), instruction.flow_control()) {
        (Code::Push_r64, _) => {
            let Some(value) = value(registers, instruction.op0_register()) else {
                return false;
            };
            if !push(registers, value) {
                return false;
            }
            next
        }
        _ if matches!(instruction.mnemonic(), Mnemonic::Nop | Mnemonic::Endbr64) => next,
        (Code::Mov_r64_rm64 | Code::Mov_rm64_r64, _) => {
            let [to, from] = [instruction.op0_register(), instruction.op1_register()];
            let Some(held) = value(registers, from) else {
                return false;
            };
            let Some(to) = place(registers, to) else {
                return false;
            };
            *to = held;
            next
        }
        (_, FlowControl::UnconditionalBranch) if instruction.is_jmp_short_or_near() => {
            instruction.near_branch_target()
        }
        (_, FlowControl::ConditionalBranch) if instruction.is_jcc_short_or_near() => {
            match holds(instruction.condition_code(), registers.0.eflags) {
                Some(true) => instruction.near_branch_target(),
                Some(false) => next,
                None => return false,
            }
        }
        (Code::Call_rel32_64, _) => {
            if !push(registers, next) {
                return false;
            }
            instruction.near_branch_target()
        }
        (Code::Call_rm64, _) => {
            let Some(target) = called(instruction, registers, memory) else {
                return false;
            };
            if !push(registers, next) {
                return false;
            }
            target
        }
        _ => return false,
    };
    registers.set_at(target);
    true
}

/// Whether [`emulate`] can do this instruction.
pub fn is_simple(instruction: &Instruction) -> bool {
    struct Any;
    impl Words for Any {
        fn read(&self, _: u64) -> Option<u64> {
            Some(0)
        }

        fn write(&self, _: u64, _: u64) -> bool {
            true
        }
    }
    emulate(instruction, &mut Registers::none(), &Any)
}

/// Emulates `ret` for a thread that has no shadow stack to compare with. False for any other
/// instruction.
pub fn emulate_return(
    instruction: &Instruction,
    registers: &mut Registers,
    memory: &impl Words,
) -> bool {
    let returns = instruction.0.code() == Code::Retnq;
    let Some(to) = memory.read(registers.stack()).filter(|_| returns) else {
        return false;
    };
    registers.set_at(to);
    registers.set_stack(registers.stack().wrapping_add(8));
    true
}

/// The target of an indirect call.
fn called(
    instruction: &iced_x86::Instruction,
    registers: &Registers,
    memory: &impl Words,
) -> Option<u64> {
    if instruction.op0_kind() == OpKind::Register {
        return value(registers, instruction.op0_register());
    }
    let address = instruction.virtual_address(0, 0, |register, _, _| match register {
        Register::FS => Some(registers.0.fs_base),
        Register::GS => Some(registers.0.gs_base),
        Register::CS | Register::DS | Register::ES | Register::SS => Some(0),
        other => value(registers, other),
    })?;
    memory.read(address)
}

/// The value of a 64-bit register.
fn value(registers: &Registers, register: Register) -> Option<u64> {
    place(&mut { *registers }, register).copied()
}

/// The place of a 64-bit register.
const fn place(registers: &mut Registers, register: Register) -> Option<&mut u64> {
    Some(match register {
        Register::RAX => &mut registers.0.rax,
        Register::RBX => &mut registers.0.rbx,
        Register::RCX => &mut registers.0.rcx,
        Register::RDX => &mut registers.0.rdx,
        Register::RSI => &mut registers.0.rsi,
        Register::RDI => &mut registers.0.rdi,
        Register::RBP => &mut registers.0.rbp,
        Register::RSP => &mut registers.0.rsp,
        Register::R8 => &mut registers.0.r8,
        Register::R9 => &mut registers.0.r9,
        Register::R10 => &mut registers.0.r10,
        Register::R11 => &mut registers.0.r11,
        Register::R12 => &mut registers.0.r12,
        Register::R13 => &mut registers.0.r13,
        Register::R14 => &mut registers.0.r14,
        Register::R15 => &mut registers.0.r15,
        _ => return None,
    })
}

/// Whether a condition holds (Intel SDM volume 2, Jcc).
pub(super) fn holds(condition: ConditionCode, flags: u64) -> Option<bool> {
    let [carry, parity, zero, sign, overflow] = [0, 2, 6, 7, 11].map(|bit| flags >> bit & 1 == 1);
    Some(match condition {
        ConditionCode::o => overflow,
        ConditionCode::no => !overflow,
        ConditionCode::b => carry,
        ConditionCode::ae => !carry,
        ConditionCode::e => zero,
        ConditionCode::ne => !zero,
        ConditionCode::be => carry || zero,
        ConditionCode::a => !(carry || zero),
        ConditionCode::s => sign,
        ConditionCode::ns => !sign,
        ConditionCode::p => parity,
        ConditionCode::np => !parity,
        ConditionCode::l => sign != overflow,
        ConditionCode::ge => sign == overflow,
        ConditionCode::le => zero || sign != overflow,
        ConditionCode::g => !zero && sign == overflow,
        ConditionCode::None => return None,
    })
}

/// The instruction encoded for another place, with a jump back; and its length without the jump,
/// bytes. `None` if it cannot work there: too far from what it refers to.
pub fn elsewhere(instruction: &Instruction, place: u64) -> Option<(Vec<u8>, u64)> {
    let block = InstructionBlock::new(std::slice::from_ref(&instruction.0), place);
    let encoded = BlockEncoder::encode(64, block, BlockEncoderOptions::NONE).ok()?;
    let mut bytes = encoded.code_buffer;
    let length = bytes.len() as u64;
    bytes.extend(JUMP);
    bytes.extend(instruction.next().to_le_bytes());
    (bytes.len() <= ROOM).then_some((bytes, length))
}

#[cfg(test)]
#[path = "displaced_tests.rs"]
mod tests;
