//! The address that a call passes as an argument.

use std::collections::HashMap;

use iced_x86::{
    Decoder, DecoderOptions, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind,
};

use super::registers::{KEPT, Register};

/// The address in a register at the call, or the jump to another function, that ends at `next`, as the instructions from `start` on
/// have put it there. Computed addresses are not followed. Jumps are not followed either: after an
/// unconditional jump only the kept registers count: a wrong result is possible.
pub fn address_passed(code: &[u8], start: u64, next: u64, argument: Register) -> Option<u64> {
    let mut factory = InstructionInfoFactory::new();
    let mut held = HashMap::new();
    let mut instruction = Instruction::default();
    let mut decoder = Decoder::with_ip(64, code, start, DecoderOptions::NONE);
    while decoder.can_decode() {
        decoder.decode_out(&mut instruction);
        if instruction.next_ip() == next {
            let goes = matches!(instruction.mnemonic(), Mnemonic::Call | Mnemonic::Jmp);
            return held.remove(&argument).filter(|_| goes);
        }
        let value = match instruction.mnemonic() {
            Mnemonic::Lea if instruction.is_ip_rel_memory_operand() => {
                Some(instruction.ip_rel_memory_address())
            }
            Mnemonic::Mov if instruction.op1_kind() == OpKind::Immediate32 => {
                Some(instruction.immediate32().into())
            }
            Mnemonic::Mov if instruction.op1_kind() == OpKind::Register => {
                held.get(&instruction.op1_register()).copied()
            }
            // Other registers may have other values now.
            Mnemonic::Call | Mnemonic::Jmp | Mnemonic::Ret => {
                held.retain(|register, _| KEPT.contains(register));
                continue;
            }
            _ => None,
        };
        for used in factory.info(&instruction).used_registers() {
            if !matches!(
                used.access(),
                OpAccess::None | OpAccess::Read | OpAccess::CondRead
            ) {
                held.remove(&used.register().full_register());
            }
        }
        if let Some(value) = value.filter(|_| instruction.op0_kind() == OpKind::Register) {
            held.insert(instruction.op0_register().full_register(), value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_argument_is_what_was_put_last() {
        let lea = [0x48, 0x8d, 0x3d, 0x10, 0, 0, 0]; // lea 0x10(%rip),%rdi
        let call = [0xe8, 0, 0, 0, 0];
        let clear = [0x31, 0xff]; // xor %edi,%edi
        let at = |parts: &[&[u8]]| {
            let code = parts.concat();
            address_passed(&code, 0x1000, 0x1000 + code.len() as u64, Register::RDI)
        };
        assert_eq!(at(&[&lea, &call]), Some(0x1017));
        assert_eq!(at(&[&lea, &clear, &call]), None);
        assert_eq!(at(&[&lea, &call, &call]), None);
        assert_eq!(at(&[&lea, &clear]), None);
        assert_eq!(at(&[&[0xbf, 0, 1, 0, 0], &call]), Some(0x100));
        // Put aside before a loop.
        let aside = [0x48, 0x8d, 0x1d, 0x10, 0, 0, 0]; // lea 0x10(%rip),%rbx
        let back = [0x48, 0x89, 0xdf]; // mov %rbx,%rdi
        assert_eq!(at(&[&aside, &call, &back, &call]), Some(0x1017));
        let computed = [0x48, 0x83, 0xc3, 1]; // add $1,%rbx
        assert_eq!(at(&[&aside, &computed, &back, &call]), None);
    }
}
