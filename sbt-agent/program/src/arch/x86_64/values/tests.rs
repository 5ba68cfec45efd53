//! Values that are put aside in a function's frame.

use super::{super::instruction::decode, *};

const RSI: Register = Register::RSI;
const RCX: Register = Register::RCX;

/// sub $0x68,%rsp
const ROOM: [u8; 4] = [0x48, 0x83, 0xec, 0x68];
/// mov %esi,0x14(%rsp)
const PUT: [u8; 4] = [0x89, 0x74, 0x24, 0x14];
/// movslq 0x14(%rsp),%rcx
const TAKE: [u8; 5] = [0x48, 0x63, 0x4c, 0x24, 0x14];
const CALL: [u8; 5] = [0xe8, 0, 0, 0, 0];
/// The frame pointer of `-fno-omit-frame-pointer`.
const FRAME: [u8; 4] = [0x55, 0x48, 0x89, 0xe5];
/// mov %rsi,-0x18(%rbp)
const PUT_BELOW: [u8; 4] = [0x48, 0x89, 0x75, 0xe8];
/// mov -0x18(%rbp),%rcx
const TAKE_BELOW: [u8; 4] = [0x48, 0x8b, 0x4d, 0xe8];
/// A store through a pointer: mov %edx,(%rax)
const ANYWHERE: [u8; 2] = [0x89, 0x10];

fn after(parts: &[&[u8]], register: Register) -> Option<Value> {
    let code = parts.concat();
    let mut values = Values::at_entry();
    for instruction in decode(&code, 0x1000) {
        assert!(instruction.is_valid(), "{code:x?}");
        values.step(&instruction);
    }
    values.of(register)
}

/// `__kmp_barrier` of libomp 18.1.8 of Debian, up to where it has looked its thread up.
#[test]
fn the_number_of_a_thread_is_put_aside() {
    let code = [
        0xf3, 0x0f, 0x1e, 0xfa, // endbr64
        0x55, 0x41, 0x57, 0x41, 0x56, 0x41, 0x55, 0x41, 0x54, 0x53, // push %rbp, ..., %rbx
        0x48, 0x83, 0xec, 0x68, // sub $0x68,%rsp
        0x4c, 0x89, 0x4c, 0x24, 0x28, // mov %r9,0x28(%rsp)
        0x4c, 0x89, 0x44, 0x24, 0x58, // mov %r8,0x58(%rsp)
        0x89, 0x54, 0x24, 0x64, // mov %edx,0x64(%rsp)
        0x89, 0xfd, // mov %edi,%ebp
        0x89, 0x74, 0x24, 0x14, // mov %esi,0x14(%rsp)
        0x85, 0xf6, 0x79, 0x18, // test %esi,%esi; jns
        0x48, 0x8d, 0x3d, 0x78, 0xcc, 0x06, 0x00, // lea 0x6cc78(%rip),%rdi
        0x48, 0x8d, 0x35, 0x7b, 0xcc, 0x06, 0x00, // lea 0x6cc7b(%rip),%rsi
        0xba, 0x1d, 0x0e, 0x00, 0x00, // mov $0xe1d,%edx
        0xe8, 0x6e, 0xdf, 0xfb, 0xff, // call __kmp_debug_assert
        0x48, 0x8d, 0x05, 0x97, 0x54, 0x0b, 0x00, // lea 0xb5497(%rip),%rax
        0x48, 0x8b, 0x00, // mov (%rax),%rax
        0x4c, 0x63, 0x6c, 0x24, 0x14, // movslq 0x14(%rsp),%r13
        0x4a, 0x8b, 0x1c, 0xe8, // mov (%rax,%r13,8),%rbx
    ];
    let variable = 0x1000 + 0x49 + 0xb_5497;
    let number = Some(RSI);
    assert_eq!(
        after(&[&code], Register::RBX),
        Some(Value::Element { variable, number })
    );
}

#[test]
fn slots_of_the_stack_and_of_a_frame() {
    let argument = Some(Value::Argument(RSI));
    assert_eq!(after(&[&ROOM, &PUT, &CALL, &TAKE], RCX), argument);
    assert_eq!(after(&[&ROOM, &TAKE], RCX), None);
    let frame = [&FRAME[..], &ROOM, &PUT_BELOW].concat();
    assert_eq!(after(&[&frame, &ANYWHERE, &TAKE_BELOW], RCX), argument);
    // The same slot by the other register: 0x68 - 0x18 above the stack pointer.
    let other = [0x48, 0x8b, 0x4c, 0x24, 0x50];
    assert_eq!(after(&[&frame, &other], RCX), argument);
    // A pushed word moves the stack pointer, and adding moves it back.
    let push = [0x6a, 0];
    let above = [0x48, 0x63, 0x4c, 0x24, 0x1c]; // movslq 0x1c(%rsp),%rcx
    assert_eq!(after(&[&ROOM, &PUT, &push, &above], RCX), argument);
    let back = [0x48, 0x83, 0xc4, 8]; // add $8,%rsp
    assert_eq!(after(&[&ROOM, &PUT, &push, &back, &TAKE], RCX), argument);
    // Half of a pointer is no pointer, and a slot is not half of another.
    let half = [0x48, 0x63, 0x4d, 0xe8]; // movslq -0x18(%rbp),%rcx
    assert_eq!(after(&[&frame, &half], RCX), None);
}

#[test]
fn what_may_be_overwritten_is_not_known() {
    let put = [&ROOM[..], &PUT].concat();
    let over = [0x89, 0x7c, 0x24, 0x10]; // mov %edi,0x10(%rsp): beside
    assert!(after(&[&put, &over, &TAKE], RCX).is_some());
    let wide = [0x48, 0x89, 0x7c, 0x24, 0x10]; // mov %rdi,0x10(%rsp)
    assert_eq!(after(&[&put, &wide, &TAKE], RCX), None);
    let element = [0x89, 0x3c, 0x84]; // mov %edi,(%rsp,%rax,4)
    assert_eq!(after(&[&put, &element, &TAKE], RCX), None);
    let elsewhere = [0x48, 0x8b, 0x20]; // mov (%rax),%rsp
    assert_eq!(after(&[&put, &elsewhere, &TAKE], RCX), None);
    // Space that was given back and taken again.
    let back = [0x48, 0x83, 0xc4, 0x68]; // add $0x68,%rsp
    assert_eq!(after(&[&put, &back, &ROOM, &TAKE], RCX), None);
    // Another function, or a store, may write once the address is known elsewhere.
    assert!(after(&[&put, &ANYWHERE, &TAKE], RCX).is_some());
    let address = [0x48, 0x8d, 0x44, 0x24, 0x10]; // lea 0x10(%rsp),%rax
    assert!(after(&[&put, &address, &TAKE], RCX).is_some());
    assert_eq!(after(&[&put, &address, &CALL, &TAKE], RCX), None);
    assert_eq!(after(&[&put, &address, &ANYWHERE, &TAKE], RCX), None);
    let copy = [0x48, 0x89, 0xe0]; // mov %rsp,%rax
    assert_eq!(after(&[&put, &copy, &ANYWHERE, &TAKE], RCX), None);
    // Code behind a jump is reached from elsewhere.
    let jump = [0xeb, 0];
    assert_eq!(after(&[&put, &jump, &TAKE], RCX), None);
    // rbp holds something else: its slots are not the frame's.
    let put = [&FRAME[..], &ROOM, &PUT_BELOW].concat();
    let not_frame = [0x48, 0x89, 0xfd]; // mov %rdi,%rbp
    assert_eq!(after(&[&put, &not_frame, &TAKE_BELOW], RCX), None);
    // The caller's part of the stack.
    let above = [0x48, 0x89, 0x74, 0x24, 0x08]; // mov %rsi,0x8(%rsp)
    let load = [0x48, 0x8b, 0x4c, 0x24, 0x08]; // mov 0x8(%rsp),%rcx
    assert_eq!(after(&[&above, &load], RCX), None);
}
