//! The place in the source that a call of LLVM's OpenMP names.
//!
//! The first argument of LLVM's functions is an `ident_t` (openmp/runtime/src/kmp.h): four numbers,
//! then a text `;file;function;line;column;;`. Programs compiled with debug information have the
//! lines there, and keep them when they are stripped.

use std::ffi::CStr;

use object::{LittleEndian, Object as _, RelocationTarget, read::elf::ElfFile64};

use crate::{
    arch,
    elf::{Segment, code_at, data_at},
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
pub(crate) struct Said {
    /// The source file, as the compiler was given it.
    pub(crate) file: String,
    /// The function of the program.
    pub(crate) function: String,
    /// The line, from 1.
    pub(crate) line: u32,
}

/// The place named by the call that returns to `next`, in the function that begins at `function`;
/// `None` if the call names no place.
pub(crate) fn said(image: &[u8], segments: &[Segment], function: u64, next: u64) -> Option<Said> {
    let length = next
        .checked_sub(function)
        .filter(|length| *length <= MAX_FUNCTION)?;
    let code = code_at(image, segments, function, length)?;
    let ident = arch::address_passed(code.bytes, function, next, arch::ARGUMENTS[0])?;
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
}
