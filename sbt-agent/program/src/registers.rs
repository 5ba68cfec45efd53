//! The registers of x86-64 by their role in calls, and by the numbers that probes use for them.

use iced_x86::Register;

/// The registers of the first six integer arguments, System V ABI.
pub const ARGUMENTS: [Register; 6] = [
    Register::RDI,
    Register::RSI,
    Register::RDX,
    Register::RCX,
    Register::R8,
    Register::R9,
];

/// The registers for no argument that a called function may change as well.
pub const OTHER_VOLATILE: [Register; 3] = [Register::RAX, Register::R10, Register::R11];

/// The registers that a called function must preserve.
pub const KEPT: [Register; 6] = [
    Register::RBX,
    Register::RBP,
    Register::R12,
    Register::R13,
    Register::R14,
    Register::R15,
];

/// The registers besides [`ARGUMENTS`] that may hold an object; their numbers follow those of the
/// arguments.
const OTHERS: [Register; 9] = [
    Register::RAX,
    Register::RBX,
    Register::RBP,
    Register::R10,
    Register::R11,
    Register::R12,
    Register::R13,
    Register::R14,
    Register::R15,
];

/// The register's number in [`sbt_common::Cookie::object`], from 1; `None` if it has none.
pub fn number(register: Register) -> Option<u8> {
    let mut numbered = ARGUMENTS.iter().chain(&OTHERS);
    let index = numbered.position(|known| *known == register)?;
    u8::try_from(index + 1).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers are those of [`sbt_common::Cookie::object`], as the BPF programs read them.
    #[test]
    fn numbers() {
        for (register, expected) in [
            (Register::RDI, Some(1)),
            (Register::R9, Some(6)),
            (Register::RAX, Some(7)),
            (Register::RBX, Some(8)),
            (Register::RBP, Some(9)),
            (Register::R10, Some(10)),
            (Register::R15, Some(15)),
            (Register::RSP, None),
            (Register::EDI, None),
        ] {
            assert_eq!(number(register), expected, "{register:?}");
        }
    }
}
