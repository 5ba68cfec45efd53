//! A library's code, instruction by instruction.

use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, OpAccess, OpKind,
    Register,
};

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
        Decoder::with_ip(64, bytes, from, DecoderOptions::NONE)
            .into_iter()
            .take_while(|instruction| !instruction.is_invalid())
    }

    /// The addresses at which some bytes stand, in ascending order.
    pub fn find(&self, bytes: &[u8]) -> impl Iterator<Item = u64> {
        memchr::memmem::find_iter(self.bytes, bytes)
            .filter_map(|at| self.vaddr.checked_add(u64::try_from(at).ok()?))
    }

    /// All instructions; invalid ones, such as padding, may be among them.
    pub fn all(&self) -> impl Iterator<Item = Instruction> + use<'a> {
        Decoder::with_ip(64, self.bytes, self.vaddr, DecoderOptions::NONE).into_iter()
    }

    /// The code from an address on; empty if the address lies outside of the code.
    pub fn from(&self, vaddr: u64) -> &'a [u8] {
        let at = vaddr.checked_sub(self.vaddr);
        let at = at.and_then(|at| usize::try_from(at).ok());
        at.and_then(|at| self.bytes.get(at..)).unwrap_or_default()
    }

    pub fn bytes_of(&self, instruction: &Instruction) -> &'a [u8] {
        let at = usize::try_from(instruction.ip().saturating_sub(self.vaddr)).unwrap_or(usize::MAX);
        self.bytes
            .get(at..at.saturating_add(instruction.len()))
            .unwrap_or_default()
    }
}

/// The direct call or unconditional jump that an instruction is.
pub fn transfer(instruction: &Instruction) -> Option<Transfer> {
    let goes = matches!(
        instruction.flow_control(),
        FlowControl::Call | FlowControl::UnconditionalBranch
    );
    (goes && instruction.op0_kind() == OpKind::NearBranch64).then(|| Transfer {
        at: instruction.ip(),
        to: instruction.near_branch64(),
        returns: (instruction.flow_control() == FlowControl::Call).then(|| instruction.next_ip()),
    })
}

/// Whether an instruction may write to a part of a register.
pub fn writes(instruction: &Instruction, register: Register) -> bool {
    let mut info = InstructionInfoFactory::new();
    info.info(instruction).used_registers().iter().any(|used| {
        used.register().full_register() == register
            && !matches!(used.access(), OpAccess::Read | OpAccess::CondRead)
    })
}
