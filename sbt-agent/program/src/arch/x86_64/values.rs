//! The content of registers after a stretch of code, as far as it matters for finding the team of a
//! thread of LLVM's OpenMP.

mod slots;

use iced_x86::{FlowControl, Mnemonic, OpKind};

use super::{
    instruction::Instruction,
    registers::{ARGUMENTS, OTHER_VOLATILE, Register},
};
use slots::Slots;

/// The known content of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    Number(u64),
    /// The argument that came in this register.
    Argument(Register),
    /// The address of a variable.
    Address(u64),
    /// The value of the variable at this address.
    Variable(u64),
    /// An element of the array of pointers to which a variable points.
    Element {
        /// Address of the variable.
        variable: u64,
        /// The argument that is the element's number, if it is one.
        number: Option<Register>,
    },
    /// A pointer in the structure to which such an element points.
    Member {
        /// Address of the variable.
        variable: u64,
        /// Offset of the pointer in the structure, bytes.
        offset: u32,
    },
    /// A 32-bit number in the structure to which such a member points.
    Leaf {
        /// Address of the variable.
        variable: u64,
        /// Offset of the pointer in its structure, bytes.
        offset: u32,
        /// Offset of the number in the structure to which the pointer points, bytes.
        last: u32,
    },
}

/// The known contents of the registers, also of those that were put aside in the function's frame. Jumps
/// are not followed: after code with jumps, the contents hold if no jump was taken.
pub struct Values {
    known: Vec<(Register, Value)>,
    slots: Slots,
}

impl Values {
    /// The registers at the beginning of a function.
    pub fn at_entry() -> Self {
        let arguments = ARGUMENTS.iter();
        Self {
            known: arguments
                .map(|register| (*register, Value::Argument(*register)))
                .collect(),
            slots: Slots::at_entry(),
        }
    }

    /// The value of a register, if known.
    pub fn of(&self, register: Register) -> Option<Value> {
        let register = register.full_register();
        let known = self.known.iter().find(|(known, _)| *known == register)?;
        Some(known.1)
    }

    /// Executes an instruction.
    pub fn step(&mut self, instruction: &Instruction) {
        let result = self.result(&instruction.0);
        let second = self.of(instruction.0.op1_register());
        self.slots.step(&instruction.0, second);
        if instruction.0.flow_control() == FlowControl::Call
            || instruction.0.flow_control() == FlowControl::IndirectCall
        {
            self.known
                .retain(|(known, _)| !ARGUMENTS.contains(known) && !OTHER_VOLATILE.contains(known));
            return;
        }
        self.known.retain(|(known, _)| !instruction.writes(*known));
        if let Some(value) = result {
            let register = instruction.0.op0_register().full_register();
            self.known.retain(|(known, _)| *known != register);
            self.known.push((register, value));
        }
    }

    /// The value that an instruction writes to its first operand, a register.
    fn result(&self, instruction: &iced_x86::Instruction) -> Option<Value> {
        // Extends the number of a thread in place; the result is not followed.
        if instruction.mnemonic() == Mnemonic::Cdqe {
            return None;
        }
        if instruction.op0_kind() != OpKind::Register || instruction.op0_register().size() < 4 {
            return None;
        }
        let from = instruction.op1_kind();
        match instruction.mnemonic() {
            Mnemonic::Xor if from == OpKind::Register => (instruction.op0_register()
                == instruction.op1_register())
            .then_some(Value::Number(0)),
            Mnemonic::Lea => is_absolute(instruction)
                .then(|| Value::Address(instruction.memory_displacement64())),
            Mnemonic::Mov | Mnemonic::Movsxd if from == OpKind::Register => {
                self.of(instruction.op1_register())
            }
            Mnemonic::Mov | Mnemonic::Movsxd if from == OpKind::Memory => {
                let aside = self.slots.loaded(instruction);
                let is_move = instruction.mnemonic() == Mnemonic::Mov;
                aside.or_else(|| self.loaded(instruction).filter(|_| is_move))
            }
            Mnemonic::Mov => Some(Value::Number(instruction.immediate(1))),
            _ => None,
        }
    }

    fn loaded(&self, instruction: &iced_x86::Instruction) -> Option<Value> {
        let wide = instruction.op0_register().is_gpr64();
        let index = instruction.memory_index();
        let displacement = instruction.memory_displacement64();
        if instruction.segment_prefix() != Register::None {
            return None;
        }
        if is_absolute(instruction) {
            return wide.then_some(Value::Variable(displacement));
        }
        let offset = u32::try_from(displacement);
        match self.of(instruction.memory_base())? {
            Value::Variable(variable) if wide && index != Register::None => {
                let element = instruction.memory_index_scale() == 8 && displacement == 0;
                let number = match self.of(index) {
                    Some(Value::Argument(register)) => Some(register),
                    _ => None,
                };
                element.then_some(Value::Element { variable, number })
            }
            _ if index != Register::None => None,
            // Linkers write an address that does not change as a number.
            Value::Address(address) | Value::Number(address) if wide => {
                Some(Value::Variable(address.wrapping_add(displacement)))
            }
            Value::Element { variable, .. } if wide => Some(Value::Member {
                variable,
                offset: offset.ok()?,
            }),
            Value::Member {
                variable,
                offset: first,
            } if !wide => Some(Value::Leaf {
                variable,
                offset: first,
                last: offset.ok()?,
            }),
            _ => None,
        }
    }
}

/// Whether the memory operand of an instruction has a constant address.
fn is_absolute(instruction: &iced_x86::Instruction) -> bool {
    let base = instruction.memory_base();
    instruction.memory_index() == Register::None
        && (base == Register::RIP || base == Register::None)
}

#[cfg(test)]
#[path = "values/tests.rs"]
mod tests;
