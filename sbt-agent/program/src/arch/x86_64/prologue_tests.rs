//! Real prologues, and bytes that are not prologues.

use super::*;
use proptest::prelude::*;

/// name, code, arguments kept, (entry offset, stack moved, emulated), return offset
type Case = (&'static str, &'static [u8], usize, (u32, u16, bool), u32);

const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];

/// glibc 2.36-9+deb12u, both libc.so.6 and libc.a: push %r13; mov %rdi,%r8; …
const GLIBC_WAIT: [u8; 64] = [
    0x41, 0x55, 0x49, 0x89, 0xf8, 0x41, 0xbd, 0xff, 0xff, 0xff, 0x7f, 0x41, 0x54, 0x55, 0xbd, 0xca,
    0x00, 0x00, 0x00, 0x53, 0x48, 0x83, 0xec, 0x08, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x41, 0xb9, 0x01, 0x00, 0x00, 0x00, 0xf0, 0x45, 0x0f, 0xc1, 0x08, 0x31, 0xd2, 0x45, 0x8b, 0x60,
    0x08, 0x44, 0x89, 0xe8, 0x44, 0x89, 0xeb, 0x41, 0x83, 0xc1, 0x01, 0x41, 0xf7, 0xf4, 0x29, 0xd3,
];

/// glibc 2.36: lea -1(%rdx),%eax; cmp; ja +0x38 at 8; xor; test; je …
const GLIBC_INIT: [u8; 62] = [
    0x8d, 0x42, 0xff, 0x3d, 0xfd, 0xff, 0xff, 0x7f, 0x77, 0x2e, 0x31, 0xc0, 0x48, 0x85, 0xf6, 0x74,
    0x0c, 0x8b, 0x0e, 0x31, 0xc0, 0x85, 0xc9, 0x0f, 0x95, 0xc0, 0xc1, 0xe0, 0x07, 0x89, 0x47, 0x0c,
    0x31, 0xc0, 0xc7, 0x47, 0x10, 0x00, 0x00, 0x00, 0x00, 0x89, 0x57, 0x08, 0x48, 0xc7, 0x07, 0x00,
    0x00, 0x00, 0x00, 0xc3, 0x0f, 0x1f, 0x40, 0x00, 0xb8, 0x16, 0x00, 0x00, 0x00, 0xc3,
];

/// musl 1.2.3, libc.so and libc.a: push %r13; push %r12; push %rbp; push %rbx …
const MUSL_WAIT: [u8; 64] = [
    0x41, 0x55, 0x41, 0x54, 0x55, 0x53, 0x48, 0x83, 0xec, 0x28, 0x8b, 0x6f, 0x08, 0x64, 0x48, 0x8b,
    0x04, 0x25, 0x28, 0x00, 0x00, 0x00, 0x48, 0x89, 0x44, 0x24, 0x18, 0x31, 0xc0, 0x85, 0xed, 0x0f,
    0x84, 0x38, 0x04, 0x00, 0x00, 0x48, 0x89, 0xfb, 0x0f, 0x88, 0xb2, 0x01, 0x00, 0x00, 0xb8, 0x01,
    0x00, 0x00, 0x00, 0x87, 0x07, 0x4c, 0x8d, 0x67, 0x04, 0x85, 0xc0, 0x74, 0x23, 0x0f, 0x1f, 0x00,
];

/// musl 1.2.3: test %edx,%edx; jle; sub $1,%edx; …
const MUSL_INIT: [u8; 38] = [
    0x85, 0xd2, 0x7e, 0x1c, 0x83, 0xea, 0x01, 0x48, 0x85, 0xf6, 0x74, 0x02, 0x0b, 0x16, 0x66, 0x0f,
    0xef, 0xc0, 0x31, 0xc0, 0x0f, 0x11, 0x07, 0x0f, 0x11, 0x47, 0x10, 0x89, 0x57, 0x08, 0xc3, 0x90,
    0xb8, 0x16, 0x00, 0x00, 0x00, 0xc3,
];

/// libgomp of Debian's gcc 12: endbr64; mov tls,%rax; mov %fs:…,%rdi; test; je
const GOMP_BARRIER: [u8; 33] = [
    0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x8b, 0x05, 0xbd, 0x9d, 0x03, 0x00, 0x64, 0x48, 0x8b, 0x78, 0x10,
    0x48, 0x85, 0xff, 0x74, 0x0b, 0x48, 0x83, 0xef, 0x80, 0xe9, 0x22, 0x27, 0x01, 0x00, 0x66, 0x90,
    0xc3,
];

const CASES: &[Case] = &[
    ("glibc wait", &GLIBC_WAIT, 3, (0, 0, true), 0),
    ("glibc init", &GLIBC_INIT, 3, (8, 0, true), 8),
    ("musl wait", &MUSL_WAIT, 3, (0, 0, true), 0),
    ("musl init", &MUSL_INIT, 3, (2, 0, true), 2),
    // The function takes no arguments and overwrites rdi before its first branch.
    ("libgomp barrier", &GOMP_BARRIER, 0, (0x13, 0, true), 0x13),
    (
        "libgomp barrier, as if it had an argument",
        &GOMP_BARRIER,
        1,
        (0, 0, false),
        0,
    ),
    // mov %rsi,(%rdi); je: a flag that others read.
    (
        "a store before the first branch",
        &[0x48, 0x89, 0x37, 0x74, 0x09, 0xc3],
        2,
        (0, 0, false),
        0,
    ),
    // mov %rsi,-8(%rsp); mov %rsi,%fs:0; test %rdi,%rdi; je: memory of the thread alone.
    (
        "stores of the thread's own before the first branch",
        &[
            0x48, 0x89, 0x74, 0x24, 0xf8, 0x64, 0x48, 0x89, 0x34, 0x25, 0x00, 0x00, 0x00, 0x00,
            0x48, 0x85, 0xff, 0x74, 0x09, 0xc3,
        ],
        2,
        (0x11, 0, true),
        0x11,
    ),
    ("glibc _dl_debug_state", &[0xc3], 0, (0, 0, false), 0),
    (
        "endbr64; ret",
        &[0xf3, 0x0f, 0x1e, 0xfa, 0xc3],
        0,
        (0, 0, false),
        0,
    ),
    // sub $8,%rsp; test %rdi,%rdi; je; …: the return address has moved.
    (
        "sub rsp first",
        &[0x48, 0x83, 0xec, 0x08, 0x48, 0x85, 0xff, 0x74, 0x05, 0xc3],
        3,
        (7, 8, true),
        0,
    ),
    // sub $0x88,%rsp; push %rbx
    (
        "sub rsp imm32 first",
        &[0x48, 0x81, 0xec, 0x88, 0, 0, 0, 0x53],
        3,
        (7, 0x88, true),
        0,
    ),
    // lea -0x28(%rsp),%rsp; push %rbx
    (
        "lea rsp first",
        &[0x48, 0x8d, 0x64, 0x24, 0xd8, 0x53],
        3,
        (5, 0x28, true),
        0,
    ),
    // sub $8,%rsp; add $8,%rsp; jmp: back where it was
    (
        "sub and add",
        &[0x48, 0x83, 0xec, 8, 0x48, 0x83, 0xc4, 8, 0xe9, 0, 1, 0, 0],
        3,
        (8, 0, true),
        8,
    ),
    // pushq $0x10; push %rbx
    ("push imm first", &[0x6a, 0x10, 0x53], 3, (2, 8, true), 0),
    // pushw %ax; push %rbx
    ("push16 first", &[0x66, 0x50, 0x53], 3, (2, 2, true), 0),
    // pop %rax; push %rax: above the return address
    ("pop first", &[0x58, 0x50], 3, (0, 0, false), 0),
    // mov %rsp,%rax; and $-16,%rsp; push %rbx
    (
        "and rsp",
        &[0x48, 0x89, 0xe0, 0x48, 0x83, 0xe4, 0xf0, 0x53],
        3,
        (0, 0, false),
        0,
    ),
    // sub $0x10000,%rsp; push: too far for the cookie
    (
        "huge frame",
        &[0x48, 0x81, 0xec, 0, 0, 1, 0, 0x53],
        3,
        (0, 0, false),
        0,
    ),
    // xor %edx,%edx; push %rbx
    ("argument lost", &[0x31, 0xd2, 0x53], 3, (0, 0, false), 0),
    (
        "argument not of interest",
        &[0x31, 0xd2, 0x53],
        1,
        (2, 0, true),
        2,
    ),
    // mov (%rdi),%eax; test %eax,%eax; je 0b; ret: each pass would count
    (
        "loop to the first instruction",
        &[0x8b, 0x07, 0x85, 0xc0, 0x74, 0xfa, 0xc3],
        3,
        (0, 0, false),
        0,
    ),
    // mov %rdi,%rax; 3: push %rbx; pop %rbx; jne 3b
    (
        "loop to the push",
        &[0x48, 0x89, 0xf8, 0x53, 0x5b, 0x75, 0xfc, 0xc3],
        3,
        (0, 0, false),
        0,
    ),
    // mov %rdi,%rax; push %rbx; 4: dec %ecx; jne 4b
    (
        "loop behind the push",
        &[0x48, 0x89, 0xf8, 0x53, 0xff, 0xc9, 0x75, 0xfc, 0x5b, 0xc3],
        3,
        (3, 0, true),
        3,
    ),
    // ret; push %rbx
    ("nothing after ret", &[0xc3, 0x53], 3, (0, 0, false), 0),
    // call *%rax; push %rbx
    (
        "nothing after a call",
        &[0xff, 0xd0, 0x53],
        3,
        (0, 0, false),
        0,
    ),
    ("jmp thunk", &[0xe9, 1, 2, 3, 0], 3, (0, 0, true), 0),
    ("short jmp thunk", &[0xeb, 0x10], 3, (0, 0, true), 0),
    (
        "call __fentry__",
        &[0xe8, 1, 2, 3, 0, 0x53],
        3,
        (0, 0, true),
        0,
    ),
    // endbr64; jmp *got(%rip)
    (
        "indirect thunk",
        &[0xf3, 0x0f, 0x1e, 0xfa, 0xff, 0x25, 1, 2, 3, 0],
        3,
        (0, 0, false),
        0,
    ),
    // endbr64; nopw 0(%rax,%rax,1); push %rbp: long nops are not counted
    (
        "endbr64, nopw",
        &[0xf3, 0x0f, 0x1e, 0xfa, 0x66, 0x0f, 0x1f, 0x44, 0, 0, 0x55],
        3,
        (10, 0, true),
        10,
    ),
    ("hot patch nop", &[0x66, 0x90, 0x55], 3, (2, 0, true), 2),
    ("pause", &[0xf3, 0x90, 0x55], 3, (2, 0, true), 2),
    ("nop", &[0x90, 0x55], 3, (0, 0, true), 0),
    // xor %ecx,%ecx; xor %r9d,%r9d; push %rbx
    (
        "three of six",
        &[0x31, 0xc9, 0x45, 0x31, 0xc9, 0x53],
        3,
        (5, 0, true),
        5,
    ),
    (
        "the fourth of six",
        &[0x31, 0xc9, 0x45, 0x31, 0xc9, 0x53],
        4,
        (0, 0, false),
        0,
    ),
    // xor %r8d,%r8d; push %rbx
    ("four of six", &[0x45, 0x31, 0xc0, 0x53], 4, (3, 0, true), 3),
    (
        "the fifth of six",
        &[0x45, 0x31, 0xc0, 0x53],
        5,
        (0, 0, false),
        0,
    ),
    // mov $1,%r9b; push %rbx
    ("five of six", &[0x41, 0xb1, 0x01, 0x53], 5, (3, 0, true), 3),
    (
        "the sixth of six",
        &[0x41, 0xb1, 0x01, 0x53],
        6,
        (0, 0, false),
        0,
    ),
    // vmovdqu (%rdi),%ymm0; mov (%rsi),%eax; ret: the kernel refuses the first
    (
        "vector load first",
        &[0xc5, 0xfe, 0x6f, 0x07, 0x8b, 0x06, 0xc3],
        2,
        (4, 0, false),
        4,
    ),
    // sub $8,%rsp; vmovdqu (%rdi),%ymm0; push %rbx
    (
        "vector load in between",
        &[0x48, 0x83, 0xec, 8, 0xc5, 0xfe, 0x6f, 0x07, 0x53],
        1,
        (8, 8, true),
        0,
    ),
];

/// mov %rsp,%rbp; nop; push %rbx: from there on the caller's rbp is gone.
#[test]
fn the_callers_frame_pointer_is_still_there() {
    let code = [0x48, 0x89, 0xe5, 0x90, 0x53];
    assert_eq!(choose_keeping(&code, 1).unwrap().entry.offset, 0);
    let code = [0x48, 0x89, 0xe0, 0x90, 0x53];
    assert_eq!(choose_keeping(&code, 1).unwrap().entry.offset, 3);
}

#[test]
fn real_and_made_up_prologues() {
    for &(name, code, arguments, entry, ret) in CASES {
        let choice = choose_keeping(code, arguments).unwrap_or_else(|| panic!("{name}"));
        let found = (
            choice.entry.offset,
            choice.entry.stack_moved,
            choice.entry.emulated,
        );
        assert_eq!(found, entry, "{name}");
        assert_eq!(choice.ret.offset, ret, "{name}: return");
        assert_eq!(choice.ret.stack_moved, 0, "{name}: return");
    }
}

/// nopl 0(%rax,%rax,1), as `-fpatchable-function-entry=5` puts it at a function's beginning.
const NOP: [u8; 5] = [0x0f, 0x1f, 0x44, 0, 0];

#[test]
fn what_cannot_be_probed_has_no_place() {
    for code in [
        &[][..],
        &[0x41],
        &[0x48, 0x83, 0xec],
        &[0xcc, 0x55],
        &[0x0f, 0x05, 0x55],
        &NOP,
        // lock subq $1,8(%rdi); sete %al; test %al,%al; je: counted before the branch.
        &[
            0xf0, 0x48, 0x83, 0x6f, 0x08, 0x01, 0x0f, 0x94, 0xc0, 0x84, 0xc0, 0x74, 0x09, 0xc3,
        ],
        // nop; lock xadd: behind it other threads have noticed the call.
        &[0x0f, 0x1f, 0x44, 0, 0, 0xf0, 0x45, 0x0f, 0xc1, 0x08, 0x55],
    ] {
        assert_eq!(choose_keeping(code, 0), None, "{code:x?}");
    }
}

/// Instructions that Linux replaces by a call when a probe on them is hit.
const REPLACED: [(&str, &[u8]); 12] = [
    ("nopl", &NOP),
    ("nopl 1(%rcx,%rdx,2)", &[0x0f, 0x1f, 0x44, 0x51, 1]),
    ("nopw 0(%rax)", &[0x66, 0x0f, 0x1f, 0x40, 0]),
    ("addr32 nopl 0(%eax)", &[0x67, 0x0f, 0x1f, 0x40, 0]),
    ("data16 nopw (%rax)", &[0x66, 0x66, 0x0f, 0x1f, 0]),
    ("nopq 0(%rax)", &[0x48, 0x0f, 0x1f, 0x40, 0]),
    ("nopl %fs:0(%rax)", &[0x64, 0x0f, 0x1f, 0x40, 0]),
    ("nop with prefixes", &[0x67, 0x67, 0x67, 0x67, 0x90]),
    ("pause with prefixes", &[0xf3, 0xf3, 0xf3, 0xf3, 0x90]),
    ("jmp to the next", &[0xe9, 0, 0, 0, 0]),
    ("lea 0(%rsp),%rsp", &[0x48, 0x8d, 0x64, 0x24, 0]),
    ("data16 mov %rax,%rax", &[0x66, 0x66, 0x48, 0x89, 0xc0]),
];

#[test]
fn what_becomes_a_call_is_passed_over() {
    for (name, nop) in REPLACED {
        assert_eq!(stand(nop), Err(Refusal::Nop), "{name}");
        assert!(!is_probeable(nop) && !is_emulated(nop), "{name}");
        let is_jump = nop[0] == 0xe9;
        // ret, alone behind the nop: each call passes the next instruction as well.
        let choice = choose(&[nop, &[0xc3]].concat());
        let ret = ProbePlace {
            offset: 5,
            stack_moved: 0,
            emulated: false,
        };
        let expected = (!is_jump).then_some(Choice { entry: ret, ret });
        assert_eq!(choice, expected, "{name}");
        if is_jump {
            continue;
        }
        // sub $8,%rsp; push %rbx: the return address must lie at rsp for a return probe.
        let choice = choose(&[nop, &[0x48, 0x83, 0xec, 8, 0x53]].concat()).unwrap();
        assert_eq!(
            (choice.entry.offset, choice.entry.stack_moved),
            (9, 8),
            "{name}"
        );
        assert_eq!(
            (choice.ret.offset, choice.ret.stack_moved),
            (5, 0),
            "{name}"
        );
        // Inside of a function: mov %rdi,-8(%rsp); nop; mov -8(%rsp),%rax; ret
        let before = [0x48, 0x89, 0x7c, 0x24, 0xf8];
        let behind = [0x48, 0x8b, 0x44, 0x24, 0xf8, 0xc3];
        let code = [&before, nop, &behind].concat();
        let body = Body::new(&code, &[]);
        assert_eq!(body.choose(5, 5), None, "{name}");
        assert_eq!(body.choose(5, 15).map(|place| place.offset), Some(10));
        assert_eq!(body.refusal(5), (Refusal::Nop, Some(10)), "{name}");
    }
    // Other instructions of five bytes, and other nops.
    for (code, expected) in [
        (&[0xe8, 0, 0, 0, 0][..], Stand::Emulated),
        (&[0xe9, 1, 0, 0, 0], Stand::Emulated),
        (&[0xb8, 0, 0, 0, 0], Stand::Stepped),
        (&[0x48, 0x8d, 0x64, 0x24, 8], Stand::Stepped),
        (&[0x48, 0x8d, 0x44, 0x24, 0], Stand::Stepped),
        (&[0x66, 0x66, 0x48, 0x89, 0xc8], Stand::Stepped),
        (&[0x90], Stand::Emulated),
        (&[0x0f, 0x1f, 0x40, 0], Stand::Stepped),
        (&[0x66, 0x0f, 0x1f, 0x44, 0, 0], Stand::Stepped),
        (&[0xeb, 0], Stand::Emulated),
    ] {
        assert_eq!(stand(code), Ok(expected), "{code:x?}");
        // Bytes behind the instruction do not matter.
        assert_eq!(
            stand(&[code, &[0; 8][..]].concat()),
            Ok(expected),
            "{code:x?}"
        );
    }
}

/// Ubuntu's and Fedora's builds begin with endbr64, which is single-stepped.
#[test]
fn with_cet_the_same_instruction_four_bytes_later() {
    for code in [&GLIBC_WAIT[..], &GLIBC_INIT, &MUSL_WAIT, &MUSL_INIT] {
        let plain = choose(code).unwrap().entry;
        let choice = choose(&[&ENDBR64, code].concat()).unwrap();
        assert_eq!(choice.entry.offset, plain.offset + 4);
        assert!(choice.entry.emulated);
        assert_eq!(choice.ret, choice.entry);
    }
}

#[test]
fn what_the_kernel_refuses() {
    for (name, code, expected) in [
        ("push", &[0x55][..], true),
        ("endbr64", &ENDBR64, true),
        ("mov %fs:0x28,%rax", &GLIBC_WAIT[..3], true),
        ("movdqu", &[0xf3, 0x0f, 0x6f, 0x07], true),
        ("syscall", &[0x0f, 0x05], false),
        ("lock xadd", &[0xf0, 0x45, 0x0f, 0xc1, 0x08], false),
        (
            "cs nopw",
            &[0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0],
            false,
        ),
        ("notrack jmp", &[0x3e, 0xff, 0xe0], false),
        ("xchg %ax,%ax", &[0x66, 0x90], false),
        ("data16 call", &[0x66, 0xe8, 0, 0, 0, 0], false),
        ("repz ret", &[0xf3, 0xc3], true),
        ("pause", &[0xf3, 0x90], true),
        ("vmovups", &[0xc5, 0xfc, 0x10, 0x07], false),
        ("vpxor", &[0xc5, 0xfd, 0xef, 0xc0], false),
        ("vmovdqa", &[0xc5, 0xfd, 0x6f, 0x07], false),
        ("vzeroupper", &[0xc5, 0xf8, 0x77], false),
        ("vpshufd", &[0xc5, 0xfd, 0x70, 0xd0, 0x1b], false),
        ("vcmpps", &[0xc5, 0xf4, 0xc2, 0xd0, 0x01], false),
        ("shlx", &[0xc4, 0xe2, 0x79, 0xf7, 0xcb], false),
        ("xchg %r8,%rax", &[0x49, 0x90], false),
        ("xbegin", &[0xc7, 0xf8, 0, 0, 0, 0], false),
        ("movl", &[0xc7, 0x00, 0, 0, 0, 0], true),
        ("vpxorq", &[0x62, 0xa1, 0xfd, 0x00, 0xef, 0xc0], false),
        ("mov %eax,%ss", &[0x8e, 0xd0], false),
        ("mov %eax,%fs", &[0x8e, 0xe0], true),
        ("xop", &[0x8f, 0xe8, 0x78, 0xa2, 0xc1, 0], false),
        ("pop (%rax)", &[0x8f, 0x00], true),
        ("int3", &[0xcc], false),
        ("hlt", &[0xf4], false),
        ("in", &[0xec], false),
        ("nothing", &[], false),
        ("a prefix alone", &[0x66], false),
        ("rex alone", &[0x48], false),
        ("vex alone", &[0xc5, 0xf8], false),
    ] {
        assert_eq!(is_probeable(code), expected, "{name}");
    }
}

/// mov (%rdi),%eax; add %eax,%ecx; push %rbx; pop %rbx; jne 2b; ret
const BODY: [u8; 9] = [0x8b, 0x07, 0x01, 0xc1, 0x53, 0x5b, 0x75, 0xfa, 0xc3];

#[test]
fn inside_a_function() {
    let choose = |code: &[u8], elsewhere: &[(u64, &[u8])], from, until| {
        let place = Body::new(code, elsewhere).choose(from, until)?;
        assert_eq!(place.stack_moved, 0);
        Some((place.offset, place.emulated))
    };
    for (from, until, expected) in [
        // The jump back to 2 reaches the later instructions without passing 0.
        (0, 9, Some((0, false))),
        (2, 9, Some((4, true))),
        (2, 5, Some((4, true))),
        (2, 4, Some((2, false))),
        (2, 2, Some((2, false))),
        (2, 0, Some((2, false))),
        (4, 4, Some((4, true))),
        (5, 9, Some((6, true))),
        (8, 9, Some((8, false))),
        (1, 9, None),
        (9, 10, None),
        (u64::MAX, u64::MAX, None),
    ] {
        assert_eq!(choose(&BODY, &[], from, until), expected, "{from} {until}");
    }
    // A cold part jumps back to the push: -16: jmp 4.
    let cold: (u64, &[u8]) = (16_u64.wrapping_neg(), &[0xeb, 0x12]);
    assert_eq!(choose(&BODY, &[cold], 2, 9), Some((2, false)));
    // mov (%rdi),%eax; push %rbx; jmp *%rax: it may go to the push.
    let table = [0x8b, 0x07, 0x53, 0xff, 0xe0];
    assert_eq!(choose(&table, &[], 0, 5), Some((0, false)));
    // lock incl (%rax); cs nop; mov (%rdi),%eax; ret
    let locked = [0xf0, 0xff, 0x00, 0x2e, 0x90, 0x8b, 0x07, 0xc3];
    assert_eq!(choose(&locked, &[], 0, 8), Some((5, false)));
    assert_eq!(choose(&locked, &[], 0, 5), None);
    // Behind invalid bytes no instruction is known.
    let damaged = [0x55, 0x06, 0x55, 0x55];
    let body = Body::new(&damaged, &[]);
    assert!(body.is_boundary(0) && !body.is_boundary(2) && !body.is_boundary(3));
    let body = Body::new(&BODY, &[]);
    assert_eq!(body.neighbours(3), (Some(2), Some(4)));
    assert_eq!(body.neighbours(2), (Some(0), Some(4)));
    assert_eq!(body.neighbours(0), (None, Some(2)));
    assert_eq!(body.neighbours(100), (Some(8), None));
}

/// Every prefix of a real function is a function that ends early.
#[test]
fn any_truncation_of_a_real_prologue() {
    for code in [&GLIBC_WAIT[..], &GLIBC_INIT, &MUSL_WAIT, &GOMP_BARRIER] {
        for length in 0..code.len() {
            check(&code[..length]);
        }
    }
}

fn check(code: &[u8]) {
    for arguments in 0..=7 {
        let Some(choice) = choose_keeping(code, arguments) else {
            continue;
        };
        assert_eq!(choice.ret.stack_moved, 0);
        for place in [choice.entry, choice.ret] {
            let boundary = decoder(code)
                .iter()
                .any(|instruction| instruction.ip() == u64::from(place.offset));
            assert!(boundary, "{code:x?}: {place:?}");
            let at = usize::try_from(place.offset).unwrap();
            let expected = if place.emulated {
                Stand::Emulated
            } else {
                Stand::Stepped
            };
            assert_eq!(stand(&code[at..]), Ok(expected), "{code:x?}: {place:?}");
            assert!(
                place.emulated || place.offset == 0 || !is_probeable(code),
                "{code:x?}: {place:?}"
            );
        }
    }
}

/// Pieces of prologues, so that random code is accepted beyond its first byte.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        Just(ENDBR64.to_vec()),
        (0x50u8..0x60).prop_map(|push_or_pop| vec![push_or_pop]),
        any::<u8>().prop_map(|bytes| vec![0x48, 0x83, 0xec, bytes]),
        any::<u8>().prop_map(|bytes| vec![0x48, 0x8d, 0x64, 0x24, bytes]),
        any::<(u8, i8)>().prop_map(|(jcc, to)| vec![0x70 | jcc & 15, to.cast_unsigned()]),
        any::<u8>().prop_map(|registers| vec![0x48, 0x89, registers]),
        (0..REPLACED.len()).prop_map(|index| REPLACED[index].1.to_vec()),
        proptest::collection::vec(any::<u8>(), 0..6),
    ]
}

proptest! {
    #[test]
    fn random_bytes(code in proptest::collection::vec(any::<u8>(), 0..96)) {
        check(&code);
    }

    #[test]
    fn random_insides(pieces in proptest::collection::vec(piece(), 0..16), from in 0u64..64) {
        let code = pieces.concat();
        let body = Body::new(&code, &[(7, &code)]);
        if let Some(place) = body.choose(from, from + 16) {
            assert!(body.is_boundary(from) && body.is_boundary(place.offset.into()));
            let at = usize::try_from(place.offset).unwrap();
            assert!(is_probeable(&code[at..]));
        }
    }

    #[test]
    fn random_prologues(pieces in proptest::collection::vec(piece(), 0..16)) {
        check(&pieces.concat());
    }
}

#[test]
fn behind_an_instruction_that_changes_nothing_the_same_is_seen() {
    for (code, expected) in [
        // push r14; push rbp; endbr64; sub rsp, 0x18; nop; test edi, edi
        (&[0x41, 0x56, 0x90][..], Some((2, 8))),
        (&[0x55, 0x90], Some((1, 8))),
        (&[0xf3, 0x0f, 0x1e, 0xfa, 0x90], Some((4, 0))),
        (&[0x48, 0x83, 0xec, 0x18, 0x90], Some((4, 0x18))),
        (&[0x90, 0x90], Some((1, 0))),
        (&[0x85, 0xff, 0x90], Some((2, 0))),
        // mov rbx, rdi; xor eax, eax; pop rbp; add rsp, 8
        (&[0x48, 0x89, 0xfb, 0x90], None),
        (&[0x31, 0xc0, 0x90], None),
        (&[0x5d, 0x90], None),
        (&[0x48, 0x83, 0xc4, 0x08, 0x90], None),
        // je; ret; lock incd (rdi); nothing
        (&[0x74, 0x05, 0x90], None),
        (&[0xc3, 0x90], None),
        (&[0xf0, 0xff, 0x07, 0x90], None),
        (&[], None),
        // push rbp, with a jump back behind it: to the place behind the push, to the push itself,
        // and further on.
        (&[0x55, 0x90, 0x90, 0xeb, 0xfc], None),
        (&[0x55, 0x90, 0x90, 0xeb, 0xfb], Some((1, 8))),
        (&[0x55, 0x90, 0x90, 0xeb, 0xfd], Some((1, 8))),
    ] {
        assert_eq!(beyond(code), expected, "{code:x?}");
    }
}
