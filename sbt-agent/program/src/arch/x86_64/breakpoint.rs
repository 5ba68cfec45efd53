//! The instruction of a breakpoint.

/// The byte by which the kernel, and sbt, replace the first byte of an instruction: `int3`.
pub const BREAKPOINT: u8 = 0xcc;

/// The same instruction as programs may have it themselves, in two bytes: `int 3`.
pub const LONG_BREAKPOINT: [u8; 2] = [0xcd, 3];
