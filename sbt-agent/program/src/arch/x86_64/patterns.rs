//! The code that compilers make of barriers that are inlined, or whose objects only the code
//! describes: `std::barrier` of libstdc++ and `std::sync::Barrier` of Rust.

use iced_x86::{FlowControl, InstructionInfoFactory, Mnemonic, OpAccess, OpKind};

use super::{
    code::Code,
    instruction::Instruction,
    registers::{KEPT, ON_STACK, Register, number},
};

/// `mov edx, 0xc70f6907`: the seed of `std::_Hash_impl::hash` (`include/bits/functional_hash.h` of
/// libstdc++).
const SEED: [u8; 5] = [0xba, 0x07, 0x69, 0x0f, 0xc7];

/// The most instructions from the seed to the call, and from the call to both loads.
const NEAR: usize = 16;

/// Where an object's address is at an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// The register that holds the address, by its number in [`sbt_common::Cookie::object`], or [`ON_STACK`].
    pub register: u8,
    /// If set, the address is in the word at this offset from the register, bytes.
    pub spilled: Option<i16>,
    /// Distance from that address to the object, bytes.
    pub displacement: i32,
}

/// The offset of the number of threads from the first argument: of the number with which a counter
/// of the same object is compared right after it was incremented.
pub fn count_of_rust(code: &Code<'_>) -> Option<u16> {
    let field = |instruction: &iced_x86::Instruction, op: u32| {
        (instruction.op_kind(op) == OpKind::Memory
            && instruction.memory_base() == Register::RDI
            && instruction.memory_index() == Register::None
            && instruction.memory_size().size() == 8)
            .then(|| instruction.memory_displacement64())
    };
    let mut counter = None;
    for Instruction(instruction) in code.instructions(0, u64::MAX).take(4 * NEAR) {
        if instruction.mnemonic() == Mnemonic::Mov
            && let Some(at) = field(&instruction, 0)
        {
            counter = Some(at);
        } else if let Some(counter) = counter
            && matches!(instruction.mnemonic(), Mnemonic::Mov | Mnemonic::Cmp)
            && let Some(at) = field(&instruction, 1).or_else(|| field(&instruction, 0))
            && at != counter
        {
            return u16::try_from(at).ok();
        }
    }
    None
}

/// Where arrivals at barriers of libstdc++ may be inlined, in the order of addresses: the call
/// before which the thread is not counted yet, and the barrier there; `None` for each place that
/// turns out to be something else.
pub fn arrivals_of_libstdcxx(text: &Code<'_>) -> impl Iterator<Item = Option<(Instruction, Held)>> {
    text.find(&SEED).map(|at| {
        let mut near = text.instructions(at, u64::MAX);
        let call = near.by_ref().take(NEAR).find(is_call)?;
        let held = object_after(call.at(), near.take(NEAR))?;
        Some((call, held))
    })
}

fn is_call(Instruction(instruction): &Instruction) -> bool {
    matches!(
        instruction.flow_control(),
        FlowControl::Call | FlowControl::IndirectCall
    )
}

/// Where an address comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// A constant, relative to the code.
    Code,
    /// A register that calls preserve holds the address.
    Kept(Register),
    /// The word at this offset from such a register, or from rsp, holds the address.
    Spilled(Register, i16),
}

/// The barrier whose phase and number of threads these instructions load. They follow right after
/// the call at `call`, and use only registers and words that are the same before the call.
fn object_after(call: u64, instructions: impl Iterator<Item = Instruction>) -> Option<Held> {
    let mut info = InstructionInfoFactory::new();
    let mut written: Vec<Register> = Vec::new();
    // Registers with an address of known origin, and what to add to that.
    let mut loaded: Vec<(Register, Origin, i64)> = Vec::new();
    // The origin and offset of each loaded byte and word, and the register that the last word was
    // loaded into.
    let (mut bytes, mut words) = (Vec::new(), Vec::new());
    let mut last_word = Register::None;
    for Instruction(instruction) in instructions {
        let base = instruction.memory_base();
        let mut displacement = instruction.memory_displacement64().cast_signed();
        let mut spilled = constant(&instruction);
        if instruction.op_count() == 2
            && instruction.op1_kind() == OpKind::Memory
            && instruction.memory_index() == Register::None
        {
            let keeps = |register| KEPT.contains(&register) && !written.contains(&register);
            let origin = match base {
                Register::RIP => Some(Origin::Code),
                _ if keeps(base) => Some(Origin::Kept(base)),
                Register::RSP if !written.contains(&base) => Some(Origin::Kept(base)),
                _ => loaded
                    .iter()
                    .find(|(to, _, _)| *to == base)
                    .map(|(_, from, more)| {
                        displacement = displacement.wrapping_add(*more);
                        *from
                    }),
            };
            let is_word =
                instruction.mnemonic() == Mnemonic::Mov && instruction.memory_size().size() == 8;
            let is_byte = matches!(instruction.mnemonic(), Mnemonic::Movzx | Mnemonic::Mov)
                && instruction.memory_size().size() == 1;
            if let Some(origin) = origin {
                if is_byte {
                    bytes.push((origin, displacement));
                } else if is_word {
                    words.push((origin, displacement));
                    last_word = instruction.op0_register();
                }
            }
            if is_word && (keeps(base) || base == Register::RSP) {
                let at = i16::try_from(displacement).ok();
                spilled = at.map(|at| (instruction.op0_register(), Origin::Spilled(base, at), 0));
            }
            // The phase lies behind the number, within 256 bytes. In a frame other words do, too.
            let number_of = |phase: &(Origin, i64)| {
                if phase.0 == Origin::Kept(Register::RSP) {
                    return None;
                }
                let near = |word: &&(Origin, i64)| {
                    word.0 == phase.0 && (1..256).contains(&phase.1.wrapping_sub(word.1))
                };
                words.iter().filter(near).min_by_key(|word| word.1)
            };
            if let Some((origin, displacement)) = bytes.iter().find_map(number_of) {
                return held(*origin, *displacement, call);
            }
        }
        // The address of a barrier at a fixed address may be made in two ways. Then the computation
        // of the tree's (n + 1) / 2 leaves tells which word is the number.
        if instruction.mnemonic() == Mnemonic::Lea
            && base == last_word
            && displacement == 1
            && !bytes.is_empty()
            && let Some((origin, displacement)) = words.last()
        {
            return held(*origin, *displacement, call);
        }
        if !matches!(
            instruction.flow_control(),
            FlowControl::Next | FlowControl::ConditionalBranch
        ) {
            return None;
        }
        for used in info.info(&instruction).used_registers() {
            if !matches!(used.access(), OpAccess::Read | OpAccess::CondRead) {
                let register = used.register().full_register();
                written.push(register);
                loaded.retain(|(to, _, _)| *to != register);
            }
        }
        loaded.extend(spilled);
    }
    None
}

/// The register into which an instruction puts a constant address, with the address: that of a
/// barrier that lives as long as the program.
fn constant(instruction: &iced_x86::Instruction) -> Option<(Register, Origin, i64)> {
    let address = match instruction.mnemonic() {
        Mnemonic::Lea if instruction.memory_base() == Register::RIP => {
            instruction.memory_displacement64()
        }
        Mnemonic::Mov if instruction.op1_kind() == OpKind::Immediate32 => {
            u64::from(instruction.immediate32())
        }
        _ => return None,
    };
    let to = instruction.op0_register().full_register();
    (to != Register::None).then(|| (to, Origin::Code, address.cast_signed()))
}

fn held(origin: Origin, displacement: i64, call: u64) -> Option<Held> {
    let (register, spilled, displacement) = match origin {
        Origin::Code => (0, None, displacement.wrapping_sub(call.cast_signed())),
        Origin::Kept(Register::RSP) => (ON_STACK, None, displacement),
        Origin::Kept(register) => (number(register)?, None, displacement),
        Origin::Spilled(Register::RSP, at) => (0, Some(at), displacement),
        Origin::Spilled(register, at) => (number(register)?, Some(at), displacement),
    };
    Some(Held {
        register,
        spilled,
        displacement: i32::try_from(displacement).ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The object that code loads from. The code is at 0x1005, after a call of five bytes.
    fn object(code: &[u8]) -> Option<Held> {
        let code = Code::new(0x1005, code);
        object_after(0x1000, code.instructions(0x1005, u64::MAX))
    }

    #[test]
    fn where_the_object_is() {
        // movzx ebx, byte [rbp+0x19]; mov rdi, [rbp+0]
        let team = object(&[0x0f, 0xb6, 0x5d, 0x19, 0x48, 0x8b, 0x7d, 0x00]).unwrap();
        assert_eq!(
            (team.register, team.spilled, team.displacement),
            (9, None, 0)
        );
        // movzx ebx, byte [rip+0x119]; mov rdi, [rip+0xf9]: at 0x1125 and 0x110c
        let code = [
            0x0f, 0xb6, 0x1d, 0x19, 0x01, 0x00, 0x00, 0x48, 0x8b, 0x3d, 0xf9, 0x00, 0x00, 0x00,
        ];
        let team = object(&code).unwrap();
        assert_eq!(
            (team.register, team.spilled, team.displacement),
            (0, None, 0x10c)
        );
        // mov rax, [rsp+0x10]; movzx ebx, byte [rax+0x19]; mov rdi, [rax]
        let code = [
            0x48, 0x8b, 0x44, 0x24, 0x10, 0x0f, 0xb6, 0x58, 0x19, 0x48, 0x8b, 0x38,
        ];
        let team = object(&code).unwrap();
        assert_eq!(
            (team.register, team.spilled, team.displacement),
            (0, Some(0x10), 0)
        );
        // movzx r15d, byte [rip+0x2c51]; mov rdi, [r13]; lea r11, [rdi+1]
        let code = [
            0x44, 0x0f, 0xb6, 0x3d, 0x51, 0x2c, 0x00, 0x00, 0x49, 0x8b, 0x7d, 0x00, 0x4c, 0x8d,
            0x5f, 0x01,
        ];
        let team = object(&code).unwrap();
        assert_eq!(
            (team.register, team.spilled, team.displacement),
            (13, None, 0)
        );
        // lea rdi, [rip+0xf9]; movzx r14d, byte [rip+0x10a]; xor edx, edx; mov r11, [rdi]: at 0x1105 and
        // 0x111e
        let code = [
            0x48, 0x8d, 0x3d, 0xf9, 0x00, 0x00, 0x00, 0x44, 0x0f, 0xb6, 0x35, 0x0a, 0x01, 0x00,
            0x00, 0x31, 0xd2, 0x4c, 0x8b, 0x1f,
        ];
        let team = object(&code).unwrap();
        assert_eq!(
            (team.register, team.spilled, team.displacement),
            (0, None, 0x105)
        );
        // mov edi, 0x4010; movzx ebx, byte [rdi+0x19]; mov rax, [rdi]
        let code = [
            0xbf, 0x10, 0x40, 0x00, 0x00, 0x0f, 0xb6, 0x5f, 0x19, 0x48, 0x8b, 0x07,
        ];
        let team = object(&code).unwrap();
        assert_eq!((team.register, team.displacement), (0, 0x3010));
        // movzx ebx, byte [rsp+0x39]; mov rdi, [rsp+0x20]; lea rcx, [rdi+1]: in the frame
        let code = [
            0x0f, 0xb6, 0x5c, 0x24, 0x39, 0x48, 0x8b, 0x7c, 0x24, 0x20, 0x48, 0x8d, 0x4f, 0x01,
        ];
        let team = object(&code).unwrap();
        assert_eq!(
            (team.register, team.spilled, team.displacement),
            (ON_STACK, None, 0x20)
        );
        // The same without the last instruction: the word may be another one of the frame.
        assert_eq!(object(&code[..10]), None);
        // lea rdi, [rip+0xf9]; mov rdi, rax; movzx ebx, byte [rdi+0x19]; mov rax, [rdi]: rdi is another.
        let code = [
            0x48, 0x8d, 0x3d, 0xf9, 0x00, 0x00, 0x00, 0x48, 0x89, 0xc7, 0x0f, 0xb6, 0x5f, 0x19,
            0x48, 0x8b, 0x07,
        ];
        assert_eq!(object(&code), None);
        // mov rbp, rax; movzx ebx, byte [rbp+0x19]; mov rdi, [rbp+0]: rbp has changed since the call.
        let code = [
            0x48, 0x89, 0xc5, 0x0f, 0xb6, 0x5d, 0x19, 0x48, 0x8b, 0x7d, 0x00,
        ];
        assert_eq!(object(&code), None);
        // A byte before the word is not the phase: movzx ebx, [rbp+0]; mov rdi, [rbp+0x19]
        assert_eq!(
            object(&[0x0f, 0xb6, 0x5d, 0x00, 0x48, 0x8b, 0x7d, 0x19]),
            None
        );
        assert_eq!(object(&[]), None);
    }
}
