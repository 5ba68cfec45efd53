//! What a simulated thread computes from memory that other threads may write: only such values can
//! make a loop end that goes round as memory is.

use std::collections::BTreeSet;

use iced_x86::{FlowControl, Instruction, InstructionInfoFactory, OpAccess, OpKind, Register};

use super::vectors;

/// The registers, flags and words of a thread whose values depend on memory that other threads write.
#[derive(Clone, Default)]
pub(super) struct Influence {
    /// A bit for each general register, and for each vector register.
    registers: u32,
    flags: bool,
    /// Addresses of bytes that the thread has written.
    bytes: BTreeSet<u64>,
    /// Whether what the present instruction reads depends on such memory.
    is_read: bool,
    /// What the present instruction has written.
    stored: Vec<(u64, usize)>,
}

impl Influence {
    /// Whether an instruction goes one way or another as memory is that others write. Calls through
    /// the table of a linker do not: their word lies at a fixed distance.
    pub fn decides(&self, i: &Instruction) -> bool {
        match i.flow_control() {
            FlowControl::ConditionalBranch => self.flags,
            FlowControl::IndirectBranch | FlowControl::IndirectCall => match i.op0_kind() {
                OpKind::Register => self.has(i.op0_register()),
                _ => !i.is_ip_rel_memory_operand(),
            },
            _ => false,
        }
    }

    /// Begins an instruction.
    pub fn begin(&mut self, i: &Instruction) {
        let mut info = InstructionInfoFactory::new();
        let reads = |access| {
            matches!(
                access,
                OpAccess::Read | OpAccess::CondRead | OpAccess::ReadWrite | OpAccess::ReadCondWrite
            )
        };
        let used = info.info(i).used_registers();
        let mut read = used.iter().filter(|used| reads(used.access()));
        self.is_read =
            read.any(|used| self.has(used.register())) || self.flags && i.rflags_read() != 0;
        self.stored.clear();
    }

    /// The instruction reads memory. `is_own`: whether only the thread writes it.
    pub fn load(&mut self, address: u64, size: usize, is_own: bool) {
        let mut bytes = address..address.saturating_add(size as u64);
        self.is_read |= !is_own || bytes.any(|at| self.bytes.contains(&at));
    }

    /// The instruction writes memory.
    pub fn store(&mut self, address: u64, size: usize) {
        self.stored.push((address, size));
    }

    /// The instruction has been executed.
    pub fn end(&mut self, i: &Instruction) {
        for (address, size) in self.stored.drain(..) {
            for at in address..address.saturating_add(size as u64) {
                if self.is_read {
                    self.bytes.insert(at);
                } else {
                    self.bytes.remove(&at);
                }
            }
        }
        let mut info = InstructionInfoFactory::new();
        for used in info.info(i).used_registers() {
            let is_whole = used.register().size() >= 4;
            let Some(bit) = bit(used.register()) else {
                continue;
            };
            match used.access() {
                _ if self.is_read && used.access() != OpAccess::Read => self.registers |= bit,
                OpAccess::Write | OpAccess::ReadWrite if is_whole => self.registers &= !bit,
                _ => {}
            }
        }
        if i.rflags_modified() != 0 {
            // An instruction that writes only some of the flags does not free the others of influence.
            self.flags = self.is_read || self.flags && i.rflags_modified().count_ones() < 5;
        }
    }

    fn has(&self, register: Register) -> bool {
        bit(register).is_some_and(|bit| self.registers & bit != 0)
    }
}

/// The bit of a general register, or of a vector register; none of the stack pointer, which follows
/// the calls.
fn bit(register: Register) -> Option<u32> {
    if let Some(number) = vectors::number(register) {
        return Some(1 << (16 + number));
    }
    let full = register.full_register();
    let counts = full.is_gpr64() && full != Register::RSP;
    counts.then(|| 1 << full.number())
}
