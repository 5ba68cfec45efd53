//! Instructions that compute something, and the flags that they set.

use iced_x86::{Instruction, Mnemonic, RflagsBits};

use super::{Rehearsal, holds, size, vectors};

/// The flags, by their bits.
const CARRY: u64 = 1;
const PARITY: u64 = 1 << 2;
const ZERO: u64 = 1 << 6;
const SIGN: u64 = 1 << 7;
const OVERFLOW: u64 = 1 << 11;
/// All flags whose values are simulated.
pub(super) const ALL_FLAGS: u64 = CARRY | PARITY | ZERO | SIGN | OVERFLOW;

impl Rehearsal<'_> {
    /// Executes an instruction after which the next one follows.
    pub(super) fn compute(&mut self, i: &Instruction) -> Option<()> {
        let size = size(i, 0);
        match i.mnemonic() {
            Mnemonic::Nop
            | Mnemonic::Pause
            | Mnemonic::Endbr64
            | Mnemonic::Mfence
            | Mnemonic::Lfence
            | Mnemonic::Sfence => Some(()),
            Mnemonic::Mov | Mnemonic::Movzx => {
                let value = self.get(i, 1)?;
                self.put(i, 0, value)
            }
            Mnemonic::Movsx | Mnemonic::Movsxd => {
                let value = extended(self.get(i, 1)?, self::size(i, 1));
                self.put(i, 0, value)
            }
            Mnemonic::Lea => {
                let address = self.address(i, 1)?;
                self.put(i, 0, address)
            }
            Mnemonic::Push => {
                let value = self.get(i, 0)?;
                self.push(value)
            }
            Mnemonic::Pop => {
                let value = self.pop()?;
                self.put(i, 0, value)
            }
            Mnemonic::Leave => {
                self.registers[4] = self.registers[5];
                self.registers[5] = self.pop()?;
                Some(())
            }
            Mnemonic::Cdqe => {
                self.registers[0] = extended(self.registers[0], 4);
                Some(())
            }
            Mnemonic::Cqo => {
                self.registers[2] = sign(self.registers[0], 8);
                Some(())
            }
            Mnemonic::Cdq => {
                self.registers[2] = sign(self.registers[0], 4) & 0xffff_ffff;
                Some(())
            }
            Mnemonic::Cwde => {
                self.registers[0] = extended(self.registers[0], 2) & 0xffff_ffff;
                Some(())
            }
            _ if vectors::is_of_vectors(i) => self.move_vector(i),
            _ => self.calculate(i, size),
        }
    }

    /// Executes an instruction that computes something of its operands.
    fn calculate(&mut self, i: &Instruction, size: usize) -> Option<()> {
        match i.mnemonic() {
            Mnemonic::Add | Mnemonic::Inc => {
                let (a, b) = (self.get(i, 0)?, self.second(i)?);
                let sum = a.wrapping_add(b);
                self.sum_flags(a, b, sum, size, i.mnemonic() == Mnemonic::Inc);
                self.put(i, 0, sum)
            }
            Mnemonic::Sub | Mnemonic::Dec | Mnemonic::Cmp => {
                let (a, b) = (self.get(i, 0)?, self.second(i)?);
                self.difference_flags(a, b, size, i.mnemonic() == Mnemonic::Dec);
                if i.mnemonic() == Mnemonic::Cmp {
                    return Some(());
                }
                self.put(i, 0, a.wrapping_sub(b))
            }
            Mnemonic::And | Mnemonic::Or | Mnemonic::Xor | Mnemonic::Test => {
                let (a, b) = (self.get(i, 0)?, self.get(i, 1)?);
                let value = match i.mnemonic() {
                    Mnemonic::Or => a | b,
                    Mnemonic::Xor => a ^ b,
                    _ => a & b,
                };
                self.result_flags(value, size, false, false);
                if i.mnemonic() == Mnemonic::Test {
                    return Some(());
                }
                self.put(i, 0, value)
            }
            Mnemonic::Neg => {
                let value = self.get(i, 0)?;
                self.difference_flags(0, value, size, false);
                self.put(i, 0, value.wrapping_neg())
            }
            Mnemonic::Not => {
                let value = self.get(i, 0)?;
                self.put(i, 0, !value)
            }
            Mnemonic::Shl | Mnemonic::Shr | Mnemonic::Sar => self.shift(i, size),
            Mnemonic::Mul | Mnemonic::Imul => self.multiply(i, size),
            Mnemonic::Div | Mnemonic::Idiv => self.divide(i, size),
            Mnemonic::Xchg => {
                let (a, b) = (self.get(i, 0)?, self.get(i, 1)?);
                self.put(i, 0, b)?;
                self.put(i, 1, a)
            }
            Mnemonic::Xadd => {
                let (a, b) = (self.get(i, 0)?, self.get(i, 1)?);
                let sum = a.wrapping_add(b);
                self.sum_flags(a, b, sum, size, false);
                self.put(i, 1, a)?;
                self.put(i, 0, sum)
            }
            Mnemonic::Cmpxchg => {
                let (old, new) = (self.get(i, 0)?, self.get(i, 1)?);
                let expected = cut(self.registers[0], size);
                self.difference_flags(expected, old, size, false);
                if expected == old {
                    return self.put(i, 0, new);
                }
                self.set(0, size, old);
                Some(())
            }
            mnemonic => {
                let does = holds(i.condition_code(), self.flags)?;
                let text = format!("{mnemonic:?}");
                if text.starts_with("Set") {
                    self.put(i, 0, u64::from(does))
                } else if text.starts_with("Cmov") {
                    let value = if does { self.get(i, 1) } else { self.get(i, 0) }?;
                    self.put(i, 0, value)
                } else {
                    None
                }
            }
        }
    }

    /// The second operand; 1 for the instructions that have none.
    fn second(&mut self, i: &Instruction) -> Option<u64> {
        if i.op_count() < 2 {
            return Some(1);
        }
        self.get(i, 1)
    }

    fn shift(&mut self, i: &Instruction, size: usize) -> Option<()> {
        let bits = u32::try_from(size).ok()? * 8;
        let value = self.get(i, 0)?;
        let by = self.second(i)? & if size == 8 { 63 } else { 31 };
        let by = u32::try_from(by).ok()?;
        // Other shifts leave flags that depend on what was there before.
        if by == 0 || by >= bits {
            return None;
        }
        let signed = extended(value, size).cast_signed();
        let (shifted, last) = match i.mnemonic() {
            Mnemonic::Shl => (value << by, value >> (bits - by)),
            Mnemonic::Shr => (value >> by, value >> (by - 1)),
            _ => ((signed >> by).cast_unsigned(), value >> (by - 1)),
        };
        let top = |value: u64| value >> (bits - 1) & 1;
        // The overflow flag is defined for a shift by one alone.
        let overflow = match i.mnemonic() {
            Mnemonic::Shl => top(shifted) != last & 1,
            Mnemonic::Shr => top(value) == 1,
            _ => false,
        };
        self.result_flags(shifted, size, last & 1 == 1, overflow);
        if by > 1 {
            self.undefined |= RflagsBits::OF;
        }
        self.put(i, 0, shifted)
    }

    /// Products, as compilers make them of divisions by constants.
    fn multiply(&mut self, i: &Instruction, size: usize) -> Option<()> {
        let is_signed = i.mnemonic() == Mnemonic::Imul;
        let wide = |value: u64| {
            if is_signed {
                i128::from(extended(value, size).cast_signed())
            } else {
                i128::from(cut(value, size))
            }
        };
        let (a, b) = match i.op_count() {
            1 => (cut(self.registers[0], size), self.get(i, 0)?),
            2 => (self.get(i, 0)?, self.get(i, 1)?),
            _ => (self.get(i, 1)?, self.get(i, 2)?),
        };
        // Two numbers of 64 bits without sign may have a product that is too large.
        let product = wide(a).checked_mul(wide(b))?;
        let part = |product: i128| u64::try_from(product & i128::from(u64::MAX)).ok();
        let low = part(product)?;
        let is_cut = wide(low) != product;
        self.result_flags(low, size, is_cut, is_cut);
        if i.op_count() > 1 {
            return self.put(i, 0, low);
        }
        if size == 1 {
            self.set(0, 2, low);
            return Some(());
        }
        let high = part(product >> (size * 8))?;
        self.set(0, size, low);
        self.set(2, size, high);
        Some(())
    }

    /// Divides. Code built without optimisation divides durations, for example.
    fn divide(&mut self, i: &Instruction, size: usize) -> Option<()> {
        if size < 4 {
            return None;
        }
        let by = self.get(i, 0)?;
        let [low, high] = [0, 2].map(|register| u128::from(cut(self.registers[register], size)));
        let bits = size * 8;
        let all = high << bits | low;
        let (quotient, rest) = if i.mnemonic() == Mnemonic::Div {
            let by = u128::from(by);
            let quotient = u64::try_from(all.checked_div(by)?).ok()?;
            // A quotient that is too large is a fault.
            if cut(quotient, size) != quotient {
                return None;
            }
            (quotient, u64::try_from(all.checked_rem(by)?).ok()?)
        } else {
            let unused = 128 - 2 * bits;
            let all = (all << unused).cast_signed() >> unused;
            let by = i128::from(extended(by, size).cast_signed());
            let quotient = i64::try_from(all.checked_div(by)?).ok()?;
            if extended(quotient.cast_unsigned(), size).cast_signed() != quotient {
                return None;
            }
            let rest = i64::try_from(all.checked_rem(by)?).ok()?;
            (quotient.cast_unsigned(), rest.cast_unsigned())
        };
        self.set(0, size, cut(quotient, size));
        self.set(2, size, cut(rest, size));
        Some(())
    }

    fn result_flags(&mut self, value: u64, size: usize, carry: bool, overflow: bool) {
        let value = cut(value, size);
        let mut flags = 0;
        let set = |is_set: bool, flag: u64| if is_set { flag } else { 0 };
        flags |= set(carry, CARRY) | set(overflow, OVERFLOW) | set(value == 0, ZERO);
        flags |= set(value >> (size * 8 - 1) & 1 == 1, SIGN);
        flags |= set((value & 0xff).count_ones().is_multiple_of(2), PARITY);
        self.flags = flags;
    }

    /// `keeps_carry`: the carry stays as it is.
    fn sum_flags(&mut self, a: u64, b: u64, sum: u64, size: usize, keeps_carry: bool) {
        let [a, b, sum] = [a, b, sum].map(|value| cut(value, size));
        let carry = if keeps_carry {
            self.flags & CARRY != 0
        } else {
            sum < a
        };
        let top = size * 8 - 1;
        let overflow = (a ^ sum) & (b ^ sum);
        self.result_flags(sum, size, carry, overflow >> top & 1 == 1);
    }

    fn difference_flags(&mut self, a: u64, b: u64, size: usize, keeps_carry: bool) {
        let [a, b] = [a, b].map(|value| cut(value, size));
        let carry = if keeps_carry {
            self.flags & CARRY != 0
        } else {
            a < b
        };
        let difference = cut(a.wrapping_sub(b), size);
        let overflow = (a ^ b) & (a ^ difference);
        let top = size * 8 - 1;
        self.result_flags(difference, size, carry, overflow >> top & 1 == 1);
    }
}

/// The lowest bytes of a value.
pub(super) const fn cut(value: u64, size: usize) -> u64 {
    if size >= 8 {
        value
    } else {
        value & ((1 << (size * 8)) - 1)
    }
}

/// A word of the sign of a value: all bits of it are 1 if the value is below 0.
const fn sign(value: u64, size: usize) -> u64 {
    (extended(value, size).cast_signed() >> 63).cast_unsigned()
}

/// The lowest bytes of a value as a signed number.
const fn extended(value: u64, size: usize) -> u64 {
    if size >= 8 {
        return value;
    }
    let by = 64 - size * 8;
    (((value << by).cast_signed()) >> by).cast_unsigned()
}
