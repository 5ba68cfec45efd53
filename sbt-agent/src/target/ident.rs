//! Where a call of LLVM's OpenMP says that it is.
//!
//! The first argument of its functions is an `ident_t` (openmp/runtime/src/kmp.h): four
//! numbers, then a text `;file;function;line;column;;`. Programs compiled with debug
//! information have the lines there, and keep them if they are stripped.

use std::str;

use iced_x86::{
    Decoder, DecoderOptions, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind,
    Register,
};
use object::{LittleEndian, Object as _, RelocationTarget, read::elf::ElfFile64};

use super::elf::{Segment, code_at};

/// Where the flags lie in an `ident_t`, and the address of its text, bytes.
const FLAGS: u64 = 4;
const TEXT: u64 = 16;

/// `KMP_IDENT_KMPC`: it was made by a compiler for these functions.
const BY_COMPILER: u32 = 2;

/// The longest text that is read, bytes.
const MAX_TEXT: u64 = 4096;

/// So much of a function is read, bytes.
const MAX_FUNCTION: u64 = 1 << 20;

/// What a call says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Said {
    /// The source file, as the compiler was given it.
    pub(super) file: String,
    /// The function of the program.
    pub(super) function: String,
    /// From 1.
    pub(super) line: u32,
}

/// What the call says that returns to `next`, in the function that begins at
/// `function`; `None` if it says nothing.
pub(super) fn said(image: &[u8], segments: &[Segment], function: u64, next: u64) -> Option<Said> {
    let length = next
        .checked_sub(function)
        .filter(|it| *it <= MAX_FUNCTION)?;
    let code = code_at(image, segments, function, length)?;
    let ident = first_argument(code.bytes, function, next)?;
    let word = |address: u64, length: u64| Some(code_at(image, segments, address, length)?.bytes);
    let flags = u32::from_le_bytes(word(ident + FLAGS, 4)?.try_into().ok()?);
    if flags & BY_COMPILER == 0 {
        return None;
    }
    let at = ident + TEXT;
    let text = match relocated(image, at) {
        Some(text) => text,
        None => u64::from_le_bytes(word(at, 8)?.try_into().ok()?),
    };
    let segment = segments.iter().find(|it| it.file_offset(text).is_some())?;
    let left = segment.vaddr + segment.filesz - text;
    let text = word(text, left.min(MAX_TEXT))?;
    let end = text.iter().position(|byte| *byte == 0)?;
    parse(str::from_utf8(&text[..end]).ok()?)
}

/// The address in rdi at a call, as the instructions before it have put it there.
fn first_argument(code: &[u8], start: u64, next: u64) -> Option<u64> {
    let mut factory = InstructionInfoFactory::new();
    let mut argument = None;
    let mut instruction = Instruction::default();
    let mut decoder = Decoder::with_ip(64, code, start, DecoderOptions::NONE);
    while decoder.can_decode() {
        decoder.decode_out(&mut instruction);
        if instruction.next_ip() == next {
            return argument.filter(|_| instruction.mnemonic() == Mnemonic::Call);
        }
        let is_rdi = instruction.op_count() > 0
            && instruction.op0_kind() == OpKind::Register
            && instruction.op0_register().full_register() == Register::RDI;
        match instruction.mnemonic() {
            Mnemonic::Lea if is_rdi && instruction.is_ip_rel_memory_operand() => {
                argument = Some(instruction.ip_rel_memory_address());
            }
            Mnemonic::Mov if is_rdi && instruction.op1_kind() == OpKind::Immediate32 => {
                argument = Some(instruction.immediate32().into());
            }
            // It may be another's now.
            Mnemonic::Call => argument = None,
            _ => {
                let info = factory.info(&instruction);
                let mut used = info.used_registers().iter();
                let writes = |access| {
                    !matches!(access, OpAccess::None | OpAccess::Read | OpAccess::CondRead)
                };
                if used
                    .any(|it| it.register().full_register() == Register::RDI && writes(it.access()))
                {
                    argument = None;
                }
            }
        }
    }
    None
}

/// What the linker will put at an address, less where the file is loaded.
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
        let said = parse(";a b.c;main;12;3;;").map(|it| (it.file, it.function, it.line));
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
    }
}
