//! Loops in machine code that go round for ever, or end.

use super::forever::{Forever, Word, goes_round};
use crate::arch::Registers;

const CODE: u64 = 0x1000;
const DATA: u64 = 0x2000;

/// Goes round at the beginning of this code, with a word of 32 bits at [`DATA`].
fn round(code: &[u8], word: u32) -> Option<Forever> {
    let mut registers = Registers::none();
    registers.set_at(CODE);
    registers.set_stack(0x7000_0000);
    registers.set_system_call(-1, 0);
    round_from(&registers, code, word)
}

/// What [`round`] finds, with these values in the registers at first.
fn round_from(registers: &Registers, code: &[u8], word: u32) -> Option<Forever> {
    let read = |address: u64, bytes: &mut [u8]| {
        bytes.fill(0);
        match address {
            CODE => {
                let length = code.len().min(bytes.len());
                bytes[..length].copy_from_slice(&code[..length]);
            }
            DATA => bytes[..4].copy_from_slice(&word.to_le_bytes()),
            0x6fff_f000 | 0x7000_0000 => {}
            _ => return false,
        }
        true
    };
    goes_round(registers, &read, |_| true)
}

fn only(value: u64) -> Forever {
    Forever {
        words: vec![Word {
            address: DATA,
            size: 4,
            value,
        }],
        awaited: vec![DATA],
        is_endless: false,
    }
}

#[test]
fn a_loop_that_no_memory_ends_is_endless() {
    let is_endless = |code: &[u8]| round(code, 0).expect("goes round").is_endless;
    // mov eax, [rip + 0xffa]; jmp
    assert!(is_endless(&[0x8b, 0x05, 0xfa, 0x0f, 0, 0, 0xeb, 0xf8]));
    // mov eax, [rip + 0xffa]; test eax, eax; jne +1; nop; xor eax, eax; jmp
    let way = [
        0x8b, 0x05, 0xfa, 0x0f, 0, 0, 0x85, 0xc0, 0x75, 1, 0x90, 0x31, 0xc0, 0xeb, 0xf1,
    ];
    assert!(is_endless(&way), "both ways lead back");
    // The value goes by the stack: mov ecx, [rip + 0xffa]; mov [rsp - 4], ecx; xor ecx, ecx;
    // cmp dword [rsp - 4], 0; je; ret
    let by_stack = [
        0x8b, 0x0d, 0xfa, 0x0f, 0, 0, 0x89, 0x4c, 0x24, 0xfc, 0x31, 0xc9, 0x83, 0x7c, 0x24, 0xfc,
        0, 0x74, 0xed, 0xc3,
    ];
    assert!(!is_endless(&by_stack));
    // mov eax, [rip + 0xffa]; test eax, eax; je +6; inc dword [rip + 0xff0]; jmp
    let works = [
        0x8b, 0x05, 0xfa, 0x0f, 0, 0, 0x85, 0xc0, 0x74, 6, 0xff, 0x05, 0xf0, 0x0f, 0, 0, 0xeb, 0xee,
    ];
    assert!(
        !is_endless(&works),
        "it does something when the word changes"
    );
}

#[test]
fn a_loop_that_reads_a_flag_goes_round_while_the_flag_stays() {
    // mov eax, [rip + 0xffa]; test eax, eax; je; ret
    let code = [0x8b, 0x05, 0xfa, 0x0f, 0, 0, 0x85, 0xc0, 0x74, 0xf6, 0xc3];
    assert_eq!(round(&code, 0), Some(only(0)));
    assert_eq!(round(&code, 1), None);
}

#[test]
fn a_lock_that_is_taken_is_waited_for() {
    // mov eax, 1; xchg [rip + 0xff5], eax; test eax, eax; jne; ret
    let code = [
        0xb8, 1, 0, 0, 0, 0x87, 0x05, 0xf5, 0x0f, 0, 0, 0x85, 0xc0, 0x75, 0xf1, 0xc3,
    ];
    assert_eq!(round(&code, 1), Some(only(1)));
    assert_eq!(round(&code, 0), None);
    // mov ecx, 1; xor eax, eax; lock cmpxchg [rip + 0xff1], ecx; jne; ret
    let code = [
        0xb9, 1, 0, 0, 0, 0x31, 0xc0, 0xf0, 0x0f, 0xb1, 0x0d, 0xf1, 0x0f, 0, 0, 0x75, 0xef, 0xc3,
    ];
    assert_eq!(round(&code, 7), Some(only(7)));
    assert_eq!(round(&code, 0), None);
}

#[test]
fn a_loop_that_counts_or_works_is_none() {
    // inc ecx; mov eax, [rip + 0xff8]; test eax, eax; je; ret
    let code = [
        0xff, 0xc1, 0x8b, 0x05, 0xf8, 0x0f, 0, 0, 0x85, 0xc0, 0x74, 0xf4, 0xc3,
    ];
    assert_eq!(round(&code, 0), None);
    // inc dword [rip + 0xffa]; jmp
    let code = [0xff, 0x05, 0xfa, 0x0f, 0, 0, 0xeb, 0xf8];
    assert_eq!(round(&code, 0), None);
    // A loop without end reads nothing that might end it.
    assert_eq!(round(&[0xeb, 0xfe], 0), None);
    // cpuid; jmp
    assert_eq!(round(&[0x0f, 0xa2, 0xeb, 0xfc], 0), None);
}

#[test]
fn giving_way_changes_nothing() {
    // mov eax, 24; syscall; mov eax, [rip + 0xff3]; test eax, eax; je; ret
    let yields = [
        0xb8, 24, 0, 0, 0, 0x0f, 0x05, 0x8b, 0x05, 0xf3, 0x0f, 0, 0, 0x85, 0xc0, 0x74, 0xef, 0xc3,
    ];
    assert_eq!(round(&yields, 0), Some(only(0)));
    let mut writes = yields;
    writes[1] = 1;
    assert_eq!(round(&writes, 0), None);
}

#[test]
fn turns_that_are_counted_anew_are_followed() {
    // mov ecx, 100; mov eax, [rip + 0xff5]; test eax, eax; jne +6; dec ecx; jne -14; jmp -21; ret
    let code = [
        0xb9, 100, 0, 0, 0, 0x8b, 0x05, 0xf5, 0x0f, 0, 0, 0x85, 0xc0, 0x75, 6, 0xff, 0xc9, 0x75,
        0xf2, 0xeb, 0xeb, 0xc3,
    ];
    assert_eq!(round(&code, 0), Some(only(0)));
    assert_eq!(round(&code, 1), None);
}

#[test]
fn own_variables_are_not_awaited() {
    // mov [rsp - 4], 0; mov eax, [rsp - 4]; or eax, [rip + 0xfee]; je; ret
    let code = [
        0xc7, 0x44, 0x24, 0xfc, 0, 0, 0, 0, 0x8b, 0x44, 0x24, 0xfc, 0x0b, 0x05, 0xee, 0x0f, 0, 0,
        0x74, 0xec, 0xc3,
    ];
    assert_eq!(round(&code, 0), Some(only(0)));
    assert_eq!(round(&code, 1), None);
}

#[test]
fn products_are_computed() {
    // mov eax, 2000000; mov ecx, 0x431bde83; imul ecx; sar edx, 18; cmp edx, [rip + 0xfe9]; je; ret
    let code = [
        0xb8, 0x80, 0x84, 0x1e, 0, 0xb9, 0x83, 0xde, 0x1b, 0x43, 0xf7, 0xe9, 0xc1, 0xfa, 18, 0x3b,
        0x15, 0xeb, 0x0f, 0, 0, 0x74, 0xe9, 0xc3,
    ];
    assert_eq!(round(&code, 2), Some(only(2)));
    assert_eq!(round(&code, 3), None);
    // imul eax, [rip + 0xff9], -3; cmp eax, -21; je; ret
    let code = [
        0x6b, 0x05, 0xf9, 0x0f, 0, 0, 0xfd, 0x83, 0xf8, 0xeb, 0x74, 0xf4, 0xc3,
    ];
    assert_eq!(round(&code, 7), Some(only(7)));
    assert_eq!(round(&code, 8), None);
}

#[test]
fn a_duration_of_two_words_is_copied() {
    // movups xmm0, [rip + 0xff9]; movups [rsp - 24], xmm0; mov eax, 35; syscall; jmp
    let code = [
        0x0f, 0x10, 0x05, 0xf9, 0x0f, 0, 0, 0x0f, 0x11, 0x44, 0x24, 0xe8, 0xb8, 35, 0, 0, 0, 0x0f,
        0x05, 0xeb, 0xeb,
    ];
    let found = round(&code, 1).expect("goes round");
    assert!(found.is_endless);
    assert_eq!(found.words.len(), 2, "{found:?}");
    // The value of a register is unknown, since nothing has set it: movups [rsp - 24], xmm1; mov eax,
    // [rip + 0xff5]; jmp
    let code = [
        0x0f, 0x11, 0x4c, 0x24, 0xe8, 0x8b, 0x05, 0xf5, 0x0f, 0, 0, 0xeb, 0xf3,
    ];
    assert_eq!(round(&code, 1), None);
    // The word is read by way of a vector register: movups xmm0, [rip + 0xff9];
    // movups [rsp - 24], xmm0; cmp dword [rsp - 24], 0; je; ret
    let code = [
        0x0f, 0x10, 0x05, 0xf9, 0x0f, 0, 0, 0x0f, 0x11, 0x44, 0x24, 0xe8, 0x83, 0x7c, 0x24, 0xe8,
        0, 0x74, 0xed, 0xc3,
    ];
    assert!(!round(&code, 0).expect("goes round").is_endless);
    assert_eq!(round(&code, 1), None);
}

#[test]
fn durations_are_divided() {
    // mov eax, 2500; cdq; mov ecx, 1000; idiv ecx; cmp edx, [rip + 0xfee]; je; ret
    let code = [
        0xb8, 0xc4, 9, 0, 0, 0x99, 0xb9, 0xe8, 3, 0, 0, 0xf7, 0xf9, 0x3b, 0x15, 0xed, 0x0f, 0, 0,
        0x74, 0xeb, 0xc3,
    ];
    assert_eq!(round(&code, 500), Some(only(500)));
    assert_eq!(round(&code, 501), None);
    // mov rax, -7; cqo; mov ecx, 2; idiv rcx; cmp eax, [rip + 0xfeb]; je; ret
    let code = [
        0x48, 0xc7, 0xc0, 0xf9, 0xff, 0xff, 0xff, 0x48, 0x99, 0xb9, 2, 0, 0, 0, 0x48, 0xf7, 0xf9,
        0x3b, 0x05, 0xe9, 0x0f, 0, 0, 0x74, 0xe7, 0xc3,
    ];
    assert_eq!(round(&code, 3_u32.wrapping_neg()), Some(only(0xffff_fffd)));
    // xor ecx, ecx; div ecx; mov eax, [rip + 0xff6]; jmp
    let code = [
        0x31, 0xc9, 0xf7, 0xf1, 0x8b, 0x05, 0xf6, 0x0f, 0, 0, 0xeb, 0xf4,
    ];
    assert_eq!(round(&code, 1), None);
}

#[test]
fn a_sleep_that_goes_on_is_the_one_that_was_begun() {
    // mov eax, 230; syscall; mov eax, [rip + 0xff3]; test eax, eax; je; ret
    let code = |number: u8| {
        [
            0xb8, number, 0, 0, 0, 0x0f, 0x05, 0x8b, 0x05, 0xf3, 0x0f, 0, 0, 0x85, 0xc0, 0x74,
            0xef, 0xc3,
        ]
    };
    let continued = |number: u8| {
        let mut registers = Registers::none();
        registers.set_at(CODE + 7);
        registers.set_stack(0x7000_0000);
        registers.set_system_call(219, (-516_i64).cast_unsigned());
        round_from(&registers, &code(number), 0)
    };
    assert_eq!(continued(230), Some(only(0)));
    assert_eq!(continued(1), None);
}

#[test]
fn code_may_be_anything() {
    let mut state = 1_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    for _ in 0..500 {
        let code: Vec<u8> = (0..64).map(|_| next()).collect();
        let _any = round(&code, 0);
    }
}
