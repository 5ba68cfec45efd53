//! What the stubs are that call functions of other libraries.

use iced_x86::{Decoder, DecoderOptions, FlowControl};
use object::read::elf::ElfFile64;
use object::{LittleEndian, Object, RelocationTarget};

use super::{Segment, code_at, names};

/// Instructions of a stub before its jump: a landing pad at most.
const BEFORE_JUMP: usize = 2;

/// The name of the function of another library that the code at an address goes
/// on to, without doing anything else: by a jump through a word that the dynamic
/// linker fills (the procedure linkage table, x86-64 ABI 5.2). `None` if it is
/// no such code.
pub(in crate::target) fn imported_at(
    image: &[u8],
    segments: &[Segment],
    vaddr: u64,
) -> Option<String> {
    imported_through(image, jumps_through(image, segments, vaddr)?)
}

/// The name of the function that the dynamic linker puts into the word at an address.
pub(in crate::target) fn imported_through(image: &[u8], word: u64) -> Option<String> {
    let file = ElfFile64::<LittleEndian>::parse(image).ok()?;
    let (_, relocation) = file
        .dynamic_relocations()?
        .find(|(address, _)| *address == word)?;
    let RelocationTarget::Symbol(index) = relocation.target() else {
        return None;
    };
    names::dynamic_at(&file, index)?.text().map(str::to_owned)
}

/// The address of the word through which the code at an address jumps, without
/// doing anything else.
pub(in crate::target) fn jumps_through(
    image: &[u8],
    segments: &[Segment],
    vaddr: u64,
) -> Option<u64> {
    let code = code_at(image, segments, vaddr, 32)?;
    let jump = Decoder::with_ip(64, code.bytes, vaddr, DecoderOptions::NONE)
        .into_iter()
        .take(BEFORE_JUMP)
        .find(|instruction| instruction.flow_control() != FlowControl::Next)?;
    let is_stub =
        jump.flow_control() == FlowControl::IndirectBranch && jump.is_ip_rel_memory_operand();
    is_stub.then(|| jump.ip_rel_memory_address())
}
