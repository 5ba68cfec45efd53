//! A library's code, instruction by instruction.

use super::instruction::{Flow, Instruction, decode};

/// Some code and the address of its first byte, in the file's own numbering.
pub struct Code<'a> {
    vaddr: u64,
    bytes: &'a [u8],
}

/// A direct call, or an unconditional jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// The address of the instruction.
    pub at: u64,
    /// The target.
    pub to: u64,
    /// The return address of a call; `None` for a jump.
    pub returns: Option<u64>,
}

impl<'a> Code<'a> {
    /// All code of a section.
    pub const fn new(vaddr: u64, bytes: &'a [u8]) -> Self {
        Self { vaddr, bytes }
    }

    /// The instructions of a part of the code, in the order of their addresses, up to the first
    /// invalid one.
    pub fn instructions(&self, from: u64, to: u64) -> impl Iterator<Item = Instruction> + use<'a> {
        let begin = from.saturating_sub(self.vaddr);
        let end = to.saturating_sub(self.vaddr);
        let index =
            |at: u64| usize::try_from(at).map_or(self.bytes.len(), |at| at.min(self.bytes.len()));
        let bytes = self.bytes.get(index(begin)..index(end)).unwrap_or_default();
        decode(bytes, from).take_while(Instruction::is_valid)
    }

    /// The addresses at which some bytes stand, in ascending order.
    pub fn find(&self, bytes: &[u8]) -> impl Iterator<Item = u64> {
        memchr::memmem::find_iter(self.bytes, bytes)
            .filter_map(|at| self.vaddr.checked_add(u64::try_from(at).ok()?))
    }

    /// All instructions; invalid ones, such as padding, may be among them.
    pub fn all(&self) -> impl Iterator<Item = Instruction> + use<'a> {
        decode(self.bytes, self.vaddr)
    }

    /// The code from an address on; empty if the address lies outside of the code.
    pub fn from(&self, vaddr: u64) -> &'a [u8] {
        let at = vaddr.checked_sub(self.vaddr);
        let at = at.and_then(|at| usize::try_from(at).ok());
        at.and_then(|at| self.bytes.get(at..)).unwrap_or_default()
    }

    pub fn bytes_of(&self, instruction: &Instruction) -> &'a [u8] {
        let at = usize::try_from(instruction.at().saturating_sub(self.vaddr)).unwrap_or(usize::MAX);
        self.bytes
            .get(at..at.saturating_add(instruction.length()))
            .unwrap_or_default()
    }
}

/// The direct call or unconditional jump that an instruction is.
pub fn transfer(instruction: &Instruction) -> Option<Transfer> {
    let is_call = matches!(instruction.flow(), Flow::Call(_));
    let goes = is_call || matches!(instruction.flow(), Flow::Jump(_));
    let to = instruction.target().filter(|_| goes)?;
    Some(Transfer {
        at: instruction.at(),
        to,
        returns: is_call.then(|| instruction.next()),
    })
}
