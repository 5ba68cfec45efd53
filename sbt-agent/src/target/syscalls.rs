//! Where in a C library its function for system calls makes them.

use object::{LittleEndian, Object as _, ObjectSymbol as _, read::elf::ElfFile64};

use super::{sites::SYSCALL, unwind::Unwind};

/// The instruction.
const INSTRUCTION: [u8; 2] = [0x0f, 0x05];

/// How long the function is at most, bytes: C libraries write it in assembler, or
/// in a few lines.
const LONGEST: u64 = 256;

/// The address behind the system call in the function of a file that is called so,
/// if it has one.
pub(super) fn address(unwind: &Unwind) -> Option<u64> {
    let image = unwind.image();
    let file = ElfFile64::<LittleEndian>::parse(image).ok()?;
    let symbol = file
        .dynamic_symbols()
        .chain(file.symbols())
        .find(|symbol| symbol.is_definition() && symbol.name() == Ok(SYSCALL))?;
    let function = unwind.function(symbol.address())?;
    let length = (function.end - function.start).min(LONGEST);
    let mut segments = unwind.segments().iter();
    let offset = segments.find_map(|segment| segment.file_offset(function.start))?;
    let from = usize::try_from(offset).ok()?;
    let code = image.get(from..)?;
    let code = &code[..code.len().min(usize::try_from(length).ok()?)];
    let at = code
        .windows(INSTRUCTION.len())
        .position(|bytes| bytes == INSTRUCTION)?;
    Some(function.start + (at + INSTRUCTION.len()) as u64)
}
