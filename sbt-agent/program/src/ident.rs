//! The place in the source that a call of LLVM's OpenMP names.
//!
//! The first argument of LLVM's functions is an `ident_t` (openmp/runtime/src/kmp.h): four numbers,
//! then a text `;file;function;line;column;;`. Programs compiled with debug information have the
//! lines there, and keep them when they are stripped.

use std::{collections::HashMap, ffi::CStr};

use iced_x86::{
    Decoder, DecoderOptions, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind,
    Register,
};
use object::{LittleEndian, Object as _, RelocationTarget, read::elf::ElfFile64};

use super::{
    elf::{Segment, code_at, data_at},
    registers::KEPT,
};

/// Offsets of the flags and of the address of the text in an `ident_t`, bytes.
const FLAGS: u64 = 4;
const TEXT: u64 = 16;

/// `KMP_IDENT_KMPC`: a compiler has made the `ident_t` for these functions.
const BY_COMPILER: u32 = 2;

/// The longest text that is read, bytes.
const MAX_TEXT: usize = 4096;

/// The most bytes of a function that are read.
const MAX_FUNCTION: u64 = 1 << 20;

/// The place that a call names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Said {
    /// The source file, as the compiler was given it.
    pub(super) file: String,
    /// The function of the program.
    pub(super) function: String,
    /// The line, from 1.
    pub(super) line: u32,
}

/// The place named by the call that returns to `next`, in the function that begins at `function`;
/// `None` if the call names no place.
pub(super) fn said(image: &[u8], segments: &[Segment], function: u64, next: u64) -> Option<Said> {
    let length = next
        .checked_sub(function)
        .filter(|length| *length <= MAX_FUNCTION)?;
    let code = code_at(image, segments, function, length)?;
    let ident = first_argument(code.bytes, function, next)?;
    let flags = data_at(image, segments, ident.checked_add(FLAGS)?)?.first_chunk()?;
    if u32::from_le_bytes(*flags) & BY_COMPILER == 0 {
        return None;
    }
    let at = ident.checked_add(TEXT)?;
    let text = match relocated(image, at) {
        Some(text) => text,
        None => u64::from_le_bytes(*data_at(image, segments, at)?.first_chunk()?),
    };
    let text = data_at(image, segments, text)?;
    let text = &text[..text.len().min(MAX_TEXT)];
    parse(CStr::from_bytes_until_nul(text).ok()?.to_str().ok()?)
}

/// The address in rdi at a call, as the instructions before the call have put it there. Computed
/// addresses are not followed. Jumps are not followed either: after an unconditional jump only the
/// kept registers count. A wrong result is either no `ident_t`, or an `ident_t` of the same
/// function.
fn first_argument(code: &[u8], start: u64, next: u64) -> Option<u64> {
    let mut factory = InstructionInfoFactory::new();
    let mut held = HashMap::new();
    let mut instruction = Instruction::default();
    let mut decoder = Decoder::with_ip(64, code, start, DecoderOptions::NONE);
    while decoder.can_decode() {
        decoder.decode_out(&mut instruction);
        if instruction.next_ip() == next {
            let is_call = instruction.mnemonic() == Mnemonic::Call;
            return held.remove(&Register::RDI).filter(|_| is_call);
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

/// The value that the linker will put at an address, minus the load address of the file.
fn relocated(image: &[u8], address: u64) -> Option<u64> {
    let file = ElfFile64::<LittleEndian>::parse(image).ok()?;
    let (_, relocation) = file
        .dynamic_relocations()?
        .find(|(offset, _)| *offset == address)?;
    let is_own = matches!(relocation.target(), RelocationTarget::Absolute);
    is_own.then(|| u64::try_from(relocation.addend()).ok())?
}

fn parse(text: &str) -> Option<Said> {
    let mut parts = text.strip_prefix(';')?.split(';');
    let (file, function) = (parts.next()?, parts.next()?);
    let line = parts.next()?.parse().ok().filter(|line| *line > 0)?;
    (file != "unknown").then(|| Said {
        file: file.to_owned(),
        function: function.to_owned(),
        line,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_taken_apart() {
        let said =
            parse(";a b.c;main;12;3;;").map(|place| (place.file, place.function, place.line));
        assert_eq!(said, Some(("a b.c".into(), "main".into(), 12)));
        assert_eq!(parse(";unknown;unknown;0;0;;"), None);
        assert_eq!(parse("main"), None);
        assert_eq!(parse(";main"), None);
    }

    #[test]
    fn the_argument_is_what_was_put_last() {
        let lea = [0x48, 0x8d, 0x3d, 0x10, 0, 0, 0]; // lea 0x10(%rip),%rdi
        let call = [0xe8, 0, 0, 0, 0];
        let clear = [0x31, 0xff]; // xor %edi,%edi
        let at = |parts: &[&[u8]]| {
            let code = parts.concat();
            first_argument(&code, 0x1000, 0x1000 + code.len() as u64)
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
