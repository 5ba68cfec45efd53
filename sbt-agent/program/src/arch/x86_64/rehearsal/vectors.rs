//! Vector registers, as far as compilers move two words at once by them: a duration that a loop
//! sleeps for is often a constant of 16 bytes.

use iced_x86::{Instruction, Mnemonic, OpKind, Register};

use super::Rehearsal;

/// The registers `xmm0` to `xmm15`, each as two words, the lower first. Their contents are unknown until
/// the simulated thread sets them.
#[derive(Clone, Default, Hash)]
pub(super) struct Vectors([Option<[u64; 2]>; 16]);

/// Whether an instruction moves a whole vector register, or clears one.
pub(super) fn is_of_vectors(i: &Instruction) -> bool {
    match i.mnemonic() {
        Mnemonic::Movdqa
        | Mnemonic::Movdqu
        | Mnemonic::Movaps
        | Mnemonic::Movups
        | Mnemonic::Movapd
        | Mnemonic::Movupd => true,
        // A register combined with itself is 0 whatever it was.
        Mnemonic::Pxor | Mnemonic::Xorps | Mnemonic::Xorpd => {
            i.op1_kind() == OpKind::Register && i.op0_register() == i.op1_register()
        }
        _ => false,
    }
}

impl Rehearsal<'_> {
    /// Executes an instruction for which [`is_of_vectors`] is true.
    pub(super) fn move_vector(&mut self, i: &Instruction) -> Option<()> {
        let value = match (i.mnemonic(), i.op_kind(1)) {
            (Mnemonic::Pxor | Mnemonic::Xorps | Mnemonic::Xorpd, _) => [0, 0],
            (_, OpKind::Memory) => {
                let address = self.address(i, 1)?;
                [
                    self.load(address, 8)?,
                    self.load(address.checked_add(8)?, 8)?,
                ]
            }
            _ => self.vectors.0[number(i.op_register(1))?]?,
        };
        if i.op_kind(0) == OpKind::Memory {
            let address = self.address(i, 0)?;
            self.store(address, 8, value[0])?;
            return self.store(address.checked_add(8)?, 8, value[1]);
        }
        self.vectors.0[number(i.op_register(0))?] = Some(value);
        Some(())
    }
}

/// The number of a vector register of 16 bytes that every CPU has; `None` for others.
pub(super) fn number(register: Register) -> Option<usize> {
    let number = register.number();
    (register.is_xmm() && number < 16).then_some(number)
}
