//! What a call passes as an argument, in terms of what is still known while the call goes on: numbers
//! in the code, registers that called functions preserve, and the caller's own stack.

use std::collections::{HashMap, HashSet};

use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess,
    OpKind, UsedMemory,
};

use super::{
    instruction::Access,
    registers::{FRAME, KEPT, Register, STACK},
};

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
    at_transfer(code, start, next, argument)
        .filter(|(_, is_call)| *is_call)?
        .0
}

/// The address in a register at the call, or the jump to another function, that ends at `next`, in the
/// whole code of a function that begins at `start`. `None` if the code that leads there may have put one
/// of several there.
pub fn address_handed(code: &[u8], start: u64, next: u64, argument: Register) -> Option<u64> {
    match at_transfer(code, start, next, argument)?.0? {
        Handed::Address(address) => Some(address),
        Handed::Number(number) => Some(number).filter(|number| *number != 0),
        Handed::Kept(register) => only_address(code, start, register),
        Handed::OnStack(..) => None,
    }
}

/// The address that a register has throughout a function: all that the function ever puts there, before
/// it gives the caller's value back.
fn only_address(code: &[u8], start: u64, register: Register) -> Option<u64> {
    let none = HashMap::new();
    let mut factory = InstructionInfoFactory::new();
    let mut only = None;
    let decoder = Decoder::with_ip(64, code, start, DecoderOptions::NONE);
    for instruction in decoder {
        let mut used = factory.info(&instruction).used_registers().iter();
        let writes = used.any(|used| {
            used.register().full_register() == register && Access::of(used.access()).writes
        });
        if !writes || instruction.mnemonic() == Mnemonic::Pop {
            continue;
        }
        let (Handed::Address(address) | Handed::Number(address)) = value(&instruction, &none)?
        else {
            return None;
        };
        if only.is_some_and(|only| only != address) {
            return None;
        }
        only = Some(address);
    }
    only.filter(|address| *address != 0)
}

/// The argument at a call, or at a jump, as for [`handed`]; and whether it is a call.
fn at_transfer(
    code: &[u8],
    start: u64,
    next: u64,
    argument: Register,
) -> Option<(Option<Handed>, bool)> {
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
            let as_it_is = KEPT.contains(&argument).then_some(Handed::Kept(argument));
            let goes = is_call || instruction.mnemonic() == Mnemonic::Jmp;
            return goes.then(|| (held.get(&argument).copied().or(as_it_is), is_call));
        }
        if is_call {
            // A called function may change the stack through pointers, and most registers.
            held.retain(|register, value| {
                KEPT.contains(register) && !matches!(value, Handed::OnStack(..))
            });
            continue;
        }
        if instruction.flow_control() != FlowControl::Next {
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

    /// What clang 14 makes of two threads that enter `alpha` and `beta` in opposite orders: the code for
    /// the second section of both is one.
    #[test]
    fn ways_that_meet_at_a_call() {
        let code = [
            0x85, 0xc0, 0x74, 0x35, // test %eax,%eax; je other
            0x4c, 0x8d, 0x35, 0x31, 0x2b, 0, 0, // lea 0x2b31(%rip),%r14
            0x4c, 0x8d, 0x3d, 0x52, 0x2e, 0, 0, // lea alpha(%rip),%r15
            0x4c, 0x89, 0xf7, 0x89, 0xde, // mov %r14,%rdi; mov %ebx,%esi
            0x4c, 0x89, 0xfa, // mov %r15,%rdx
            0xe8, 0x25, 0xfe, 0xff, 0xff, // call __kmpc_critical
            0xbf, 0xa0, 0x86, 0x01, 0x00, // mov $0x186a0,%edi
            0xe8, 0x6b, 0xfe, 0xff, 0xff, // call usleep
            0x4c, 0x8d, 0x25, 0x24, 0x2b, 0, 0, // lea 0x2b24(%rip),%r12
            0x4c, 0x8d, 0x2d, 0x4d, 0x2e, 0, 0, // lea beta(%rip),%r13
            0xeb, 0x33, // jmp both
            0x4c, 0x8d, 0x35, 0x2c, 0x2b, 0, 0, // other: lea 0x2b2c(%rip),%r14
            0x4c, 0x8d, 0x3d, 0x3d, 0x2e, 0, 0, // lea beta(%rip),%r15
            0x4c, 0x89, 0xf7, 0x89, 0xde, // mov %r14,%rdi; mov %ebx,%esi
            0x4c, 0x89, 0xfa, // mov %r15,%rdx
            0xe8, 0xf0, 0xfd, 0xff, 0xff, // call __kmpc_critical
            0xbf, 0xa0, 0x86, 0x01, 0x00, // mov $0x186a0,%edi
            0xe8, 0x36, 0xfe, 0xff, 0xff, // call usleep
            0x4c, 0x8d, 0x25, 0x1f, 0x2b, 0, 0, // lea 0x2b1f(%rip),%r12
            0x4c, 0x8d, 0x2d, 0xf8, 0x2d, 0, 0, // lea alpha(%rip),%r13
            0x4c, 0x89, 0xe7, 0x89, 0xde, // both: mov %r12,%rdi; mov %ebx,%esi
            0x4c, 0x89, 0xea, // mov %r13,%rdx
            0xe8, 0xcb, 0xfd, 0xff, 0xff, // call __kmpc_critical
        ];
        // As in the file.
        let start = 0x11fc;
        let lock = |next| address_handed(&code, start, next, Register::RDX);
        let (alpha, beta) = (0x4060, 0x4080);
        assert_eq!(lock(0x121b), Some(alpha));
        assert_eq!(lock(0x1250), Some(beta));
        assert_eq!(lock(0x1275), None);
        let of_thread = handed(&code, start, 0x1275, Register::RDX);
        assert_eq!(of_thread, Some(Handed::Kept(Register::R13)));
        // Not the end of a call.
        assert_eq!(lock(0x1218), None);
    }

    #[test]
    fn an_address_put_aside_before_a_loop() {
        let aside = [0x48, 0x8d, 0x1d, 0x10, 0, 0, 0]; // lea 0x10(%rip),%rbx
        let back = [0x48, 0x89, 0xdf]; // mov %rbx,%rdi
        let again = [0x75, 0xf6]; // jne to the move
        let pop = [0x5b]; // pop %rbx
        let other = [0x48, 0x8b, 0x18]; // mov (%rax),%rbx
        let at = |parts: &[&[u8]]| {
            let code = parts.concat();
            let next = START + (aside.len() + back.len() + CALL.len()) as u64;
            address_handed(&code, START, next, Register::RDI)
        };
        let address = Some(START + 7 + 0x10);
        assert_eq!(at(&[&aside, &back, &CALL, &again, &pop]), address);
        assert_eq!(at(&[&aside, &back, &CALL, &again, &other]), None);
        // The last act of a function is a jump.
        let jump = [0xe9, 0, 0, 0, 0];
        assert_eq!(at(&[&aside, &back, &jump]), address);
        // Kept by the function that is called in between.
        let code = [&aside[..], &CALL, &back, &CALL].concat();
        let of = |register| handed(&code, START, START + code.len() as u64, register);
        assert_eq!(of(Register::RDI), address.map(Handed::Address));
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
