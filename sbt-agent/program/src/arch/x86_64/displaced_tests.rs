//! Instructions that are emulated or copied elsewhere.

use std::{cell::RefCell, collections::HashMap};

use super::*;

#[derive(Default)]
struct Memory(RefCell<HashMap<u64, u64>>);

impl Words for Memory {
    fn read(&self, address: u64) -> Option<u64> {
        self.0.borrow().get(&address).copied()
    }

    fn write(&self, address: u64, value: u64) -> bool {
        self.0.borrow_mut().insert(address, value);
        true
    }
}

/// Address of the instructions: too high for 32 bits.
const AT: u64 = 0x7f00_0000_5000;

fn done(bytes: &[u8], set: impl FnOnce(&mut Registers), memory: &Memory) -> Option<Registers> {
    let instruction = decode(bytes, AT).expect("an instruction");
    let mut registers = Registers::none();
    registers.set_at(AT);
    registers.set_stack(0x8000);
    set(&mut registers);
    emulate(&instruction, &mut registers, memory).then_some(registers)
}

#[test]
fn simple_instructions_are_done() {
    let memory = Memory::default();
    // push r12
    let after = done(&[0x41, 0x54], |registers| registers.0.r12 = 77, &memory).unwrap();
    assert_eq!((after.at(), after.stack()), (AT + 2, 0x7ff8));
    assert_eq!(memory.read(0x7ff8), Some(77));
    // endbr64
    let after = done(&[0xf3, 0x0f, 0x1e, 0xfa], |_| {}, &memory).unwrap();
    assert_eq!(after.at(), AT + 4);
    // jmp +5
    let after = done(&[0xeb, 5], |_| {}, &memory).unwrap();
    assert_eq!(after.at(), AT + 7);
    // call +0x100
    let after = done(&[0xe8, 0, 1, 0, 0], |_| {}, &memory).unwrap();
    assert_eq!((after.at(), after.stack()), (AT + 0x105, 0x7ff8));
    assert_eq!(memory.read(0x7ff8), Some(AT + 5));
    // call [rax + 8]
    memory.write(0x908, 0x1234);
    let after = done(
        &[0xff, 0x50, 8],
        |registers| registers.0.rax = 0x900,
        &memory,
    )
    .unwrap();
    assert_eq!(after.at(), 0x1234);
    assert_eq!(memory.read(0x7ff8), Some(AT + 3));
}

#[test]
fn a_return_goes_where_the_stack_says() {
    let memory = Memory::default();
    memory.write(0x8000, 0x1234);
    let mut registers = Registers::none();
    registers.set_at(AT);
    registers.set_stack(0x8000);
    let [push, ret] = [&[0x41, 0x54][..], &[0xc3]].map(|bytes| decode(bytes, AT).unwrap());
    assert!(!emulate_return(&push, &mut registers, &memory));
    assert!(emulate_return(&ret, &mut registers, &memory));
    assert_eq!((registers.at(), registers.stack()), (0x1234, 0x8008));
}

#[test]
fn jumps_go_by_the_flags() {
    let (zero, sign, overflow) = (1 << 6, 1 << 7, 1 << 11);
    // je, jne, jl, jg
    for (code, flags, goes) in [
        (0x74, zero, true),
        (0x74, 0, false),
        (0x75, zero, false),
        (0x7c, sign, true),
        (0x7c, sign | overflow, false),
        (0x7f, sign | overflow, true),
        (0x7f, zero, false),
    ] {
        let memory = Memory::default();
        let after = done(
            &[code, 0x10],
            |registers| registers.0.eflags = flags,
            &memory,
        )
        .unwrap();
        let target = if goes { AT + 0x12 } else { AT + 2 };
        assert_eq!(after.at(), target, "{code:x} {flags:x}");
    }
}

#[test]
fn what_is_not_simple_is_put_elsewhere() {
    let memory = Memory::default();
    // lea rax, [rip + 0x20]: refers to the same address from anywhere.
    let code = [0x48, 0x8d, 0x05, 0x20, 0, 0, 0];
    assert!(done(&code, |_| {}, &memory).is_none());
    let instruction = decode(&code, AT).unwrap();
    let place = AT + 0x10_0000;
    let (bytes, length) = elsewhere(&instruction, place).unwrap();
    let there = decode(&bytes, place).unwrap();
    assert_eq!(there.word(), Some(AT + 7 + 0x20));
    assert_eq!(there.length() as u64, length);
    // Then it goes on after the original.
    assert_eq!(bytes[bytes.len() - 8..], (AT + 7).to_le_bytes());
    // Too far away.
    assert!(elsewhere(&instruction, 0x10_0000).is_none());
    assert!(decode(&[0x06], AT).is_none());
}
