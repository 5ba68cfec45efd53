//! The code is run on this machine's processor, beside the instruction that it displaces.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "numbers of this test, which are small, and halves of random ones"
)]

use std::{arch::global_asm, ptr};

use super::*;

// Loads the registers and flags from the words at rdi, calls the code whose address is in rsi on a
// stack of its own, and writes the registers, flags and stack pointer back. What the code has left in
// the 128 bytes below the stack pointer stays there for the caller to compare.
global_asm!(
    ".pushsection .text",
    ".globl sbt_test_run_at",
    "sbt_test_run_at:",
    "push rbx",
    "push rbp",
    "push r12",
    "push r13",
    "push r14",
    "push r15",
    "mov [rip + 2f], rdi",
    "mov [rip + 3f], rsp",
    "mov [rip + 4f], rsi",
    "mov rsp, [rdi + 128]",
    "push qword ptr [rdi + 120]",
    "popfq",
    "mov rax, [rdi]",
    "mov rbx, [rdi + 8]",
    "mov rcx, [rdi + 16]",
    "mov rdx, [rdi + 24]",
    "mov rsi, [rdi + 32]",
    "mov rbp, [rdi + 48]",
    "mov r8, [rdi + 56]",
    "mov r9, [rdi + 64]",
    "mov r10, [rdi + 72]",
    "mov r11, [rdi + 80]",
    "mov r12, [rdi + 88]",
    "mov r13, [rdi + 96]",
    "mov r14, [rdi + 104]",
    "mov r15, [rdi + 112]",
    "mov rdi, [rdi + 40]",
    "jmp [rip + 4f]",
    ".globl sbt_test_back",
    "sbt_test_back:",
    "mov [rip + 5f], rsp",
    "mov rsp, [rip + 3f]",
    "pushfq",
    "push rdi",
    "mov rdi, [rip + 2f]",
    "mov [rdi], rax",
    "mov [rdi + 8], rbx",
    "mov [rdi + 16], rcx",
    "mov [rdi + 24], rdx",
    "mov [rdi + 32], rsi",
    "mov [rdi + 48], rbp",
    "mov [rdi + 56], r8",
    "mov [rdi + 64], r9",
    "mov [rdi + 72], r10",
    "mov [rdi + 80], r11",
    "mov [rdi + 88], r12",
    "mov [rdi + 96], r13",
    "mov [rdi + 104], r14",
    "mov [rdi + 112], r15",
    "pop rax",
    "mov [rdi + 40], rax",
    "pop rax",
    "mov [rdi + 120], rax",
    "mov rax, [rip + 5f]",
    "mov [rdi + 128], rax",
    "pop r15",
    "pop r14",
    "pop r13",
    "pop r12",
    "pop rbp",
    "pop rbx",
    "cld",
    "ret",
    ".popsection",
    ".pushsection .data",
    ".balign 8",
    "2: .quad 0",
    "3: .quad 0",
    "4: .quad 0",
    "5: .quad 0",
    ".popsection",
);

unsafe extern "C" {
    fn sbt_test_run_at(state: *mut State, code: u64);
    fn sbt_test_back();
}

/// rax, rbx, rcx, rdx, rsi, rdi, rbp, r8 to r15, flags, rsp.
type State = [u64; 17];

/// Memory at a fixed address: code, control word, rings, stack, and data for instructions.
struct Lab {
    base: u64,
    rings: Rings,
}

const SIZE: usize = 1 << 20;
const CODE: u64 = 0;
const SITE: u64 = 0x4000;
const CONTROL: u64 = 0x8000;
const STACK: u64 = 0x1_0000;
const DATA: u64 = 0x2_0000;
const RINGS: u64 = 0x4_0000;

impl Lab {
    fn new() -> Self {
        // SAFETY: new anonymous memory.
        let base = unsafe {
            libc::mmap(
                ptr::null_mut(),
                SIZE,
                libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        assert_ne!(base, libc::MAP_FAILED);
        let base = base.expose_provenance() as u64;
        Self {
            base,
            rings: Rings {
                control: base + CONTROL,
                rings: 1,
                records: 3,
                number: 0x2d0,
            },
        }
    }

    fn write(&self, at: u64, bytes: &[u8]) {
        assert!(at as usize + bytes.len() <= SIZE);
        // SAFETY: inside of the mapping.
        unsafe {
            let to = ptr::with_exposed_provenance_mut::<u8>((self.base + at) as usize);
            ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
        }
    }

    fn read(&self, at: u64, length: usize) -> Vec<u8> {
        assert!(at as usize + length <= SIZE);
        // SAFETY: inside of the mapping, all of whose bytes are initialised.
        unsafe {
            let from = ptr::with_exposed_provenance::<u8>((self.base + at) as usize);
            std::slice::from_raw_parts(from, length).to_vec()
        }
    }

    fn word(&self, at: u64) -> u64 {
        u64::from_le_bytes(self.read(at, 8).try_into().unwrap())
    }

    fn half(&self, at: u64) -> u32 {
        u32::from_le_bytes(self.read(at, 4).try_into().unwrap())
    }

    /// Runs code of the lab in a state, with the stack and data as given. Returns the state, and stack
    /// and data.
    fn run(&self, code: u64, state: &State, memory: &[u8]) -> (State, Vec<u8>) {
        self.write(STACK, memory);
        let mut state = *state;
        // SAFETY: the code is that of this test, keeps to the lab's memory, and comes back to
        // `sbt_test_back`; one test at a time holds the lock.
        unsafe { sbt_test_run_at(&raw mut state, self.base + code) };
        // The direction, alignment and interrupt flags are the process's own.
        (state, self.read(STACK, (RINGS - STACK) as usize))
    }

    /// Runs an instruction of the site through the code that displaces it.
    fn run_displaced(&self, bytes: &[u8], state: &State, memory: &[u8]) -> (State, Vec<u8>) {
        let entry = entry(bytes, self.base + SITE, self.base + CODE).unwrap();
        self.write(SITE, &entry);
        let after = self.run(SITE, state, memory);
        self.write(SITE, bytes);
        after
    }

    /// Writes an instruction at the site, with a jump behind it to where the state is kept.
    fn site(&self, bytes: &[u8]) -> Instruction {
        let mut code = bytes.to_vec();
        code.extend(far_jump());
        self.write(SITE, &code);
        decode(bytes, self.base + SITE).unwrap()
    }

    fn trampoline<'a>(&self, displaced: &'a Instruction, capture: Capture) -> Trampoline<'a> {
        Trampoline {
            displaced,
            place: 77,
            capture,
            rings: self.rings,
        }
    }
}

/// One test at a time runs code, since the state lies in static memory.
static LOCK: std::sync::Mutex<()> = std::sync::Mutex::new(());

/// A jump to where the state is kept.
fn far_jump() -> Vec<u8> {
    let back = sbt_test_back as *const () as u64;
    [&[0xff, 0x25, 0, 0, 0, 0][..], &back.to_le_bytes()].concat()
}

/// Numbers that are the same in each run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn state(&mut self, lab: &Lab) -> State {
        let mut state = [0; 17].map(|_: u64| self.next());
        // Carry, parity, adjust, zero, sign and overflow; interrupts stay on.
        state[15] = state[15] & 0x8d5 | 0x202;
        state[16] = lab.base + STACK + 0x8000 + (self.next() & 0xff8);
        state
    }
}

const FLAGS: u64 = 0x8d5;

/// Bytes of instructions of at least five bytes, with registers that point to data where they refer
/// to memory.
const INSTRUCTIONS: [(&str, &[u8]); 12] = [
    (
        "mov r13d, 0x7fffffff",
        &[0x41, 0xbd, 0xff, 0xff, 0xff, 0x7f],
    ),
    ("mov eax, 0xca", &[0xb8, 0xca, 0, 0, 0]),
    ("nop", &[0x0f, 0x1f, 0x44, 0, 0]),
    ("adc rax, 0x12345678", &[0x48, 0x15, 0x78, 0x56, 0x34, 0x12]),
    ("sbb ecx, 0x12345678", &[0x81, 0xd9, 0x78, 0x56, 0x34, 0x12]),
    (
        "lea rsp, [rsp - 0x100]",
        &[0x48, 0x8d, 0xa4, 0x24, 0, 0xff, 0xff, 0xff],
    ),
    ("sub rsp, 0x108", &[0x48, 0x81, 0xec, 8, 1, 0, 0]),
    ("mov [rsp - 0x80], rsi", &[0x48, 0x89, 0x74, 0x24, 0x80]),
    ("mov rdx, [rsp + 0x10]", &[0x48, 0x8b, 0x54, 0x24, 0x10]),
    (
        "lock xadd [rsp + 8], rcx",
        &[0xf0, 0x48, 0x0f, 0xc1, 0x4c, 0x24, 8],
    ),
    (
        "mov rax, [rip + 0x1c000]",
        &[0x48, 0x8b, 0x05, 0xf9, 0xbf, 1, 0],
    ),
    (
        "cmp dword [rip + 0x1c000], 5",
        &[0x81, 0x3d, 0xf6, 0xbf, 1, 0, 5, 0, 0, 0],
    ),
];

#[test]
fn displaced_code_does_what_the_original_does() {
    let _one = LOCK.lock().unwrap();
    let (lab, mut random) = (Lab::new(), Random(88));
    let memory: Vec<u8> = (STACK..RINGS).map(|_| random.next() as u8).collect();
    for (name, bytes) in INSTRUCTIONS {
        for round in 0..200 {
            let displaced = lab.site(bytes);
            let (object, count) = ((round % 16) as u8, (round / 16 % 16) as u8);
            let capture = Capture {
                object,
                memory: None,
                count,
                stack_moved: 8,
            };
            let code = lab.trampoline(&displaced, capture).code(lab.base + CODE);
            lab.write(CODE, &code.unwrap());
            let state = random.state(&lab);
            let expected = lab.run(SITE, &state, &memory);
            for on in [0, lab.base + RINGS] {
                lab.write(CONTROL, &on.to_le_bytes());
                let (after, left) = lab.run_displaced(bytes, &state, &memory);
                let flags = |state: &State| state[15] & FLAGS;
                assert_eq!(flags(&after), flags(&expected.0), "{name} {round} {on:x}");
                assert_eq!(after[..15], expected.0[..15], "{name} {round} {on:x}");
                assert_eq!(after[16], expected.0[16], "{name} {round} {on:x}");
                // Only what lies below the program's 128 bytes may differ.
                let stack = (state[16] - lab.base - STACK) as usize;
                let own = stack - 128;
                assert!(left[own..] == expected.1[own..], "{name} {round} {on:x}");
                assert!(left[..own - 0x200] == expected.1[..own - 0x200], "{name}");
            }
        }
    }
}

/// The ring and the number of the record that was written last.
fn last(lab: &Lab) -> Option<(u64, u64)> {
    let rings = (0..u64::from(lab.rings.count())).map(|ring| RINGS + ring * lab.rings.size());
    let used = |ring: &u64| lab.word(ring + 8) != 0;
    let ring = rings.into_iter().find(used)?;
    Some((ring, lab.word(ring + 8) - 1))
}

#[test]
fn a_record_tells_who_came_and_with_what() {
    let _one = LOCK.lock().unwrap();
    let (lab, mut random) = (Lab::new(), Random(5));
    let memory: Vec<u8> = (STACK..RINGS).map(|_| random.next() as u8).collect();
    let displaced = lab.site(INSTRUCTIONS[0].1);
    lab.write(CONTROL, &(lab.base + RINGS).to_le_bytes());
    let registers = [5, 4, 3, 2, 7, 8, 0, 1, 6, 9, 10, 11, 12, 13, 14];
    for number in 1..=15_u8 {
        let capture = Capture {
            object: number,
            memory: Some(16),
            count: number % 15 + 1,
            stack_moved: 24,
        };
        let code = lab.trampoline(&displaced, capture).code(lab.base + CODE);
        lab.write(CODE, &code.unwrap());
        let mut state = random.state(&lab);
        let index = registers[usize::from(number) - 1];
        state[index] = lab.base + DATA + u64::from(number) * 8;
        let before = last(&lab).map_or(0, |(_, number)| number + 1);
        lab.run(CODE, &state, &memory);
        let (ring, record) = last(&lab).unwrap();
        assert_eq!(record, before);
        let at = ring + RECORD + record % 8 * RECORD;
        let offset = |at: usize| at as u64;
        assert_eq!(lab.half(at + offset(at::NUMBER)), record as u32 + 1);
        assert_eq!(lab.half(at + offset(at::PLACE)), 77);
        let tid = nix::unistd::gettid().as_raw().cast_unsigned();
        // The C library of this test keeps the number at another place perhaps.
        if cfg!(target_env = "gnu") && lab.half(at + offset(at::THREAD)) != tid {
            eprintln!("this C library keeps the number of a thread elsewhere");
        }
        assert_eq!(lab.word(at + offset(at::STACK)), state[16]);
        assert_eq!(lab.word(at + offset(at::OBJECT)), state[index]);
        let other = registers[usize::from(number % 15 + 1) - 1];
        assert_eq!(lab.half(at + offset(at::COUNT)), state[other] as u32);
        let word = |address: u64| lab.word(address - lab.base);
        assert_eq!(lab.word(at + offset(at::CALLER)), word(state[16] + 24));
        assert_eq!(lab.word(at + offset(at::MEMORY)), word(state[index] + 16));
        assert_eq!(
            lab.word(at + offset(at::MEMORY) + 8),
            word(state[index] + 24)
        );
        assert_ne!(lab.word(at + offset(at::TIME)), 0);
    }
}

#[test]
fn a_thread_takes_a_free_ring_or_shares_the_last() {
    let _one = LOCK.lock().unwrap();
    let (lab, mut random) = (Lab::new(), Random(6));
    let memory = vec![0; (RINGS - STACK) as usize];
    let displaced = lab.site(INSTRUCTIONS[2].1);
    let code = lab.trampoline(&displaced, Capture::default());
    lab.write(CODE, &code.code(lab.base + CODE).unwrap());
    lab.write(CONTROL, &(lab.base + RINGS).to_le_bytes());
    let state = random.state(&lab);
    lab.run(CODE, &state, &memory);
    let (own, _) = last(&lab).unwrap();
    let owner = lab.word(own);
    assert_ne!(owner, 0);
    // Another thread has that ring: the next one is taken.
    lab.write(own, &1_u64.to_le_bytes());
    lab.run(CODE, &state, &memory);
    let next = own + lab.rings.size();
    assert_eq!((lab.word(next), lab.word(next + 8)), (owner, 1));
    assert_eq!(lab.word(own + 8), 1);
    for ring in 0..u64::from(lab.rings.count()) {
        lab.write(RINGS + ring * lab.rings.size(), &1_u64.to_le_bytes());
    }
    lab.run(CODE, &state, &memory);
    let shared = RINGS + u64::from(lab.rings.count() - 1) * lab.rings.size();
    assert_eq!(lab.word(shared + 8), 1);
    assert_eq!((lab.word(own + 8), lab.word(next + 8)), (1, 1));
    // Off: nothing is counted.
    lab.write(CONTROL, &0_u64.to_le_bytes());
    lab.run(CODE, &state, &memory);
    assert_eq!(lab.word(shared + 8), 1);
}

#[test]
fn jumps_and_calls_go_where_they_went() {
    let _one = LOCK.lock().unwrap();
    let (lab, mut random) = (Lab::new(), Random(7));
    let memory: Vec<u8> = (STACK..RINGS).map(|_| random.next() as u8).collect();
    let goal = SITE + 0x100;
    let distance = |length: u64| ((goal - SITE - length) as i32).to_le_bytes();
    let jump = [&[0xe9][..], &distance(5)].concat();
    let call = [&[0xe8][..], &distance(5)].concat();
    // `jne`
    let branch = [&[0x0f, 0x85][..], &distance(6)].concat();
    // As compilers lengthen calls.
    let long_call = [&[0x48, 0xe8][..], &distance(6)].concat();
    for bytes in [jump, call, branch, long_call] {
        let displaced = lab.site(&bytes);
        // `inc r15`, to tell the goal from the next instruction.
        lab.write(goal, &[&[0x49, 0xff, 0xc7][..], &far_jump()].concat());
        lab.write(CONTROL, &(lab.base + RINGS).to_le_bytes());
        let code = lab.trampoline(&displaced, Capture::default());
        lab.write(CODE, &code.code(lab.base + CODE).unwrap());
        for _ in 0..50 {
            let state = random.state(&lab);
            let expected = lab.run(SITE, &state, &memory);
            let after = lab.run_displaced(&bytes, &state, &memory);
            assert_eq!(after.0[..15], expected.0[..15]);
            assert_eq!(after.0[16], expected.0[16]);
            let stack = (state[16] - lab.base - STACK) as usize;
            // Calls use the bytes below the stack pointer themselves.
            let own = stack - if expected.0[16] == state[16] { 128 } else { 8 };
            assert!(after.1[own..] == expected.1[own..]);
            let (ring, record) = last(&lab).unwrap();
            let at = ring + RECORD + record % 8 * RECORD;
            assert_eq!(lab.word(at + at::STACK as u64), state[16]);
            let top = &memory[stack..][..8];
            assert_eq!(lab.read(at + at::CALLER as u64, 8), top);
        }
    }
}

#[test]
fn the_code_is_as_long_as_it_may_be_and_all_of_it_instructions() {
    let lab = Lab::new();
    let displaced = lab.site(INSTRUCTIONS[0].1);
    let capture = Capture {
        object: 1,
        memory: Some(-128),
        count: 6,
        stack_moved: 0x1000,
    };
    let code = lab.trampoline(&displaced, capture);
    let code = code.code(lab.base + CODE).unwrap();
    assert!(code.len() <= ROOM, "{}", code.len());
    let all = super::super::instruction::decode(&code, lab.base + CODE);
    assert!(all.into_iter().all(|instruction| instruction.is_valid()));
    // Too far away for the jump back.
    assert!(
        lab.trampoline(&displaced, capture)
            .code(lab.base ^ 1 << 45)
            .is_none_or(|code| code.len() <= ROOM)
    );
}

#[test]
fn which_instructions_can_be_replaced() {
    for (name, bytes) in INSTRUCTIONS {
        assert!(is_replaceable(&decode(bytes, 0x1000).unwrap()), "{name}");
    }
    for (name, bytes) in [
        ("four bytes", &[0x48, 0x83, 0xec, 8][..]),
        ("ret", &[0xc2, 8, 0]),
        ("jmp [rip]", &[0xff, 0x25, 0, 0, 0, 0]),
        ("call [rip]", &[0xff, 0x15, 0, 0, 0, 0]),
        ("xbegin", &[0xc7, 0xf8, 0, 0, 0, 0]),
    ] {
        assert!(!is_replaceable(&decode(bytes, 0x1000).unwrap()), "{name}");
    }
}

#[test]
fn entries_are_told_from_other_code() {
    let moves = &[0xb8, 0xca, 0, 0, 0][..];
    let there = entry(moves, 0x1000, 0x7fff_0000).unwrap();
    assert_eq!(target(&there, 0x1000), Some(0x7fff_0000));
    let back = entry(moves, 0x7fff_0000, 0x1000).unwrap();
    assert_eq!(target(&back, 0x7fff_0000), Some(0x1000));
    assert_eq!(entry(moves, 0x1000, 0x1_0000_0000), None);
    assert_eq!(entry(&[0x48, 0x83, 0xec, 8], 0x1000, 0x2000), None, "short");
    for other in [
        &[0xcc, 0, 0, 0, 0][..],
        &there[..4],
        &[0x48, 0x81, 0xec, 8, 1, 0, 0],
        &[],
    ] {
        assert_eq!(target(other, 0x1000), None);
    }
}

#[test]
fn the_first_byte_stays_where_it_can() {
    for (bytes, stays) in [
        (&[0xe9, 1, 2, 3, 4][..], true),
        (&[0xe8, 1, 2, 3, 4], true),
        (&[0x48, 0x81, 0xec, 8, 1, 0, 0], true),
        (&[0x41, 0xbd, 0xff, 0xff, 0xff, 0x7f], true),
        (&[0x64, 0x48, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0], true),
        (&[0xb8, 0xca, 0, 0, 0], false),
        // Five bytes leave no room for the prefix.
        (&[0x48, 0x8b, 0x54, 0x24, 0x10], false),
        (&[0x66, 0x0f, 0x6f, 0x44, 0x24, 0x10], false),
        (&[0xf0, 0x48, 0x0f, 0xc1, 0x4c, 0x24, 8], false),
    ] {
        let (from, to) = (0x1000, 0x4000);
        let entry = entry(bytes, from, to).unwrap();
        assert_eq!(entry[0] == bytes[0], stays, "{bytes:x?}");
        assert_eq!(target(&entry, from), Some(to), "{bytes:x?}");
        assert!(entry.len() <= bytes.len().min(LONGEST_ENTRY));
    }
}
