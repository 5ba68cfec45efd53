//! How the programs get from a function to the one that called it.

/// How to get from a function that is being executed to the one that called it:
/// what the `.eh_frame` section says of a return address, as far as it is
/// needed. The caller's return address lies just below the canonical frame
/// address (CFA), which is what rsp is after the return.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct Rule {
    /// One of [`cfa`]: from what the CFA is reckoned.
    pub cfa: u32,
    /// One of [`rbp`]: where the caller's rbp is.
    pub rbp: u32,
    /// Added to what `cfa` names, bytes.
    pub cfa_offset: i32,
    /// Likewise for `rbp`.
    pub rbp_offset: i32,
}

/// From what a CFA is reckoned.
pub mod cfa {
    /// Nothing: the chain of callers ends here.
    pub const NONE: u32 = 0;
    /// It is rsp + offset.
    pub const RSP: u32 = 1;
    /// It is rbp + offset.
    pub const RBP: u32 = 2;
    /// It stands in memory at rbp + offset: functions that align their stack.
    pub const AT_RBP: u32 = 3;
}

/// Where the caller's rbp is.
pub mod rbp {
    /// Still in the register.
    pub const SAME: u32 = 0;
    /// In memory at CFA + offset.
    pub const AT_CFA: u32 = 1;
    /// In memory at rbp + offset.
    pub const AT_RBP: u32 = 2;
}

/// Bytes of code before and after a return address that tell it from others.
pub const CODE_AROUND: usize = 16;

/// What a return address is known by before anybody knows where the program
/// will lie: a program is moved by whole pages, and its code does not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct Code {
    /// The address's low 12 bits.
    pub in_page: u64,
    /// The code from [`CODE_AROUND`] bytes before it to as many after.
    pub bytes: [u8; 2 * CODE_AROUND],
}
