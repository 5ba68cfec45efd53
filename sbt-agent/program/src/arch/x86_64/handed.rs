//! What a call passes as an argument, in terms of what is still known while the call goes on: numbers
//! in the code, registers that called functions preserve, and the caller's own stack.

use std::collections::{HashMap, HashSet};

use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess,
    OpKind, UsedMemory,
};

use super::registers::{FRAME, KEPT, Register, STACK};

/// Where the argument of a call is found while the call goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handed {
    /// A number that the code contains.
    Number(u64),
    /// An address that the code computes from its own, in the numbering of the code.
    Address(u64),
    /// The value that this register, which called functions preserve, has in the caller.
    Kept(Register),
    /// The value on the caller's stack: at a distance from what this register, the stack pointer or
    /// the frame pointer, is in the caller, and its size, bytes.
    OnStack(Register, i64, usize),
}

/// The argument in a register at the call that returns to `next`, in a function's code that begins at
/// `start`. Only what has been put there since the last place to which the function jumps is known;
/// `None` for values that are computed, or that something may have changed since.
pub fn handed(code: &[u8], start: u64, next: u64, argument: Register) -> Option<Handed> {
    let targets = targets(code, start);
    let mut factory = InstructionInfoFactory::new();
    let mut held: HashMap<Register, Handed> = HashMap::new();
    let mut instruction = Instruction::default();
    let mut decoder = Decoder::with_ip(64, code, start, DecoderOptions::NONE);
    while decoder.can_decode() {
        decoder.decode_out(&mut instruction);
        if targets.contains(&instruction.ip()) {
            held.clear();
        }
        let is_call = instruction.mnemonic() == Mnemonic::Call;
        if instruction.next_ip() == next {
            let known = held.get(&argument).copied().filter(|_| is_call);
            let as_it_is = KEPT.contains(&argument).then_some(Handed::Kept(argument));
            return known.or_else(|| as_it_is.filter(|_| is_call));
        }
        if instruction.flow_control() != FlowControl::Next {
            // A called function may change the stack through pointers.
            held.clear();
            continue;
        }
        let value = value(&instruction, &held);
        let info = factory.info(&instruction);
        let written = info.used_registers().iter().filter(|used| {
            !matches!(
                used.access(),
                OpAccess::None | OpAccess::Read | OpAccess::CondRead
            )
        });
        for used in written {
            let register = used.register().full_register();
            held.remove(&register);
            let pushes = instruction.stack_pointer_increment();
            held.retain(|_, value| match value {
                Handed::Kept(kept) => *kept != register,
                Handed::OnStack(base, distance, _) if *base == register => {
                    *distance -= i64::from(pushes);
                    register == STACK && instruction.is_stack_instruction()
                }
                _ => true,
            });
        }
        for memory in info.used_memory() {
            held.retain(|_, value| !may_change(memory, *value));
        }
        if let Some(value) = value {
            held.insert(instruction.op0_register().full_register(), value);
        }
    }
    None
}

/// Places to which the code jumps: what was known before is not known there.
fn targets(code: &[u8], start: u64) -> HashSet<u64> {
    let mut decoder = Decoder::with_ip(64, code, start, DecoderOptions::NONE);
    let mut targets = HashSet::new();
    let mut instruction = Instruction::default();
    while decoder.can_decode() {
        decoder.decode_out(&mut instruction);
        if matches!(
            instruction.flow_control(),
            FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch
        ) {
            targets.insert(instruction.near_branch_target());
        }
    }
    targets
}

/// What an instruction puts into the register that is its first operand.
fn value(instruction: &Instruction, held: &HashMap<Register, Handed>) -> Option<Handed> {
    if instruction.op0_kind() != OpKind::Register {
        return None;
    }
    let register = instruction.op0_register();
    // Parts of registers are left alone.
    if register.size() < 4 {
        return None;
    }
    match instruction.mnemonic() {
        Mnemonic::Xor | Mnemonic::Sub if instruction.op1_kind() == OpKind::Register => {
            (instruction.op1_register() == register).then_some(Handed::Number(0))
        }
        Mnemonic::Mov if instruction.op1_kind() == OpKind::Register => {
            let from = instruction.op1_register().full_register();
            let kept = KEPT.contains(&from).then_some(Handed::Kept(from));
            held.get(&from).copied().or(kept)
        }
        Mnemonic::Mov if instruction.op1_kind() == OpKind::Memory => {
            let base = instruction.memory_base();
            let is_slot = (base == STACK || base == FRAME)
                && instruction.memory_index() == Register::None
                && instruction.segment_prefix() == Register::None;
            let distance = instruction.memory_displacement64().cast_signed();
            is_slot.then(|| Handed::OnStack(base, distance, register.size()))
        }
        Mnemonic::Mov => immediate(instruction).map(Handed::Number),
        Mnemonic::Lea if instruction.is_ip_rel_memory_operand() => {
            Some(Handed::Address(instruction.ip_rel_memory_address()))
        }
        _ => None,
    }
}

fn immediate(instruction: &Instruction) -> Option<u64> {
    matches!(
        instruction.op1_kind(),
        OpKind::Immediate32 | OpKind::Immediate64 | OpKind::Immediate32to64
    )
    .then(|| instruction.immediate(1))
}

/// Whether an access to memory may change a value on the stack: unless it is to another part of what
/// the same register points to.
fn may_change(memory: &UsedMemory, value: Handed) -> bool {
    let Handed::OnStack(base, distance, size) = value else {
        return false;
    };
    if matches!(
        memory.access(),
        OpAccess::None | OpAccess::Read | OpAccess::CondRead
    ) {
        return false;
    }
    let at = memory.displacement().cast_signed();
    let written = i64::try_from(memory.memory_size().size()).unwrap_or(i64::MAX);
    let size = i64::try_from(size).unwrap_or(i64::MAX);
    // A pushed value lies below the stack pointer, where no value is.
    let is_push = memory.base() == STACK && at < 0;
    let is_apart = memory.base() == base
        && memory.index() == Register::None
        && (at.saturating_add(written) <= distance || distance.saturating_add(size) <= at);
    !is_push && !is_apart
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: u64 = 0x1000;
    const CALL: [u8; 5] = [0xe8, 0, 0, 0, 0];
    const TAG: [u8; 6] = [0x41, 0xb8, 77, 0, 0, 0]; // mov $77,%r8d
    const OF_KEPT: [u8; 3] = [0x44, 0x89, 0xe1]; // mov %r12d,%ecx
    const OF_SLOT: [u8; 3] = [0x8b, 0x45, 0xec]; // mov -0x14(%rbp),%eax
    const COPY: [u8; 2] = [0x89, 0xc1]; // mov %eax,%ecx

    fn at(parts: &[&[u8]], argument: Register) -> Option<Handed> {
        let code = parts.concat();
        handed(&code, START, START + code.len() as u64, argument)
    }

    #[test]
    fn numbers_registers_and_slots() {
        assert_eq!(at(&[&TAG, &CALL], Register::R8), Some(Handed::Number(77)));
        let kept = at(&[&OF_KEPT, &TAG, &CALL], Register::RCX);
        assert_eq!(kept, Some(Handed::Kept(Register::R12)));
        let slot = Some(Handed::OnStack(Register::RBP, -0x14, 4));
        assert_eq!(at(&[&OF_SLOT, &COPY, &CALL], Register::RCX), slot);
        let lea = [0x4c, 0x8d, 0x0d, 0x10, 0, 0, 0]; // lea 0x10(%rip),%r9
        let address = Some(Handed::Address(START + 7 + 0x10));
        assert_eq!(at(&[&lea, &CALL], Register::R9), address);
        let xor = [0x31, 0xc9]; // xor %ecx,%ecx
        assert_eq!(at(&[&xor, &CALL], Register::RCX), Some(Handed::Number(0)));
    }

    #[test]
    fn what_may_have_changed_is_not_known() {
        // Another call, a changed register, and a store through a pointer.
        assert_eq!(at(&[&TAG, &CALL, &CALL], Register::R8), None);
        let pop = [0x41, 0x5c]; // pop %r12
        assert_eq!(at(&[&OF_KEPT, &pop, &CALL], Register::RCX), None);
        let store = [0x89, 0x13]; // mov %edx,(%rbx)
        assert_eq!(at(&[&OF_SLOT, &COPY, &store, &CALL], Register::RCX), None);
        let beside = [0x89, 0x55, 0xe8]; // mov %edx,-0x18(%rbp)
        assert!(at(&[&OF_SLOT, &COPY, &beside, &CALL], Register::RCX).is_some());
        let over = [0x89, 0x55, 0xec]; // mov %edx,-0x14(%rbp)
        assert_eq!(at(&[&OF_SLOT, &COPY, &over, &CALL], Register::RCX), None);
        // A part of the argument, and nothing at all.
        assert_eq!(at(&[&TAG, &[0x41, 0xb0, 1], &CALL], Register::R8), None);
        assert_eq!(at(&[&CALL], Register::R8), None);
        assert_eq!(at(&[&TAG], Register::R8), None);
    }

    #[test]
    fn a_jump_may_come_from_elsewhere() {
        let back = [0xeb, 0xf9]; // jmp to the call
        let code = [&TAG[..], &CALL, &back].concat();
        let next = START + (TAG.len() + CALL.len()) as u64;
        assert_eq!(handed(&code, START, next, Register::R8), None);
    }

    #[test]
    fn the_stack_pointer_moves() {
        let slot = [0x8b, 0x4c, 0x24, 0x10]; // mov 0x10(%rsp),%ecx
        let push = [0x6a, 0]; // push $0
        let expected = Handed::OnStack(Register::RSP, 0x18, 4);
        assert_eq!(at(&[&slot, &push, &CALL], Register::RCX), Some(expected));
        let other = [0x48, 0x89, 0xec]; // mov %rbp,%rsp
        assert_eq!(at(&[&slot, &other, &CALL], Register::RCX), None);
    }
}
