//! How the BPF programs get from a function to its caller.

/// How to get from a function that is being executed to its caller: the part of the `.eh_frame`
/// section that is needed to find return addresses. The caller's return address lies just below the
/// canonical frame address (CFA), which is the value of rsp after the return.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct Rule {
    /// One of [`cfa`]: the base of the CFA.
    pub cfa: u32,
    /// One of [`rbp`]: where the caller's rbp is.
    pub rbp: u32,
    /// Added to the base `cfa`, bytes.
    pub cfa_offset: i32,
    /// Added to the base `rbp`, bytes.
    pub rbp_offset: i32,
}

/// The base of a CFA.
pub mod cfa {
    /// None: the chain of callers ends here.
    pub const NONE: u32 = 0;
    /// The CFA is rsp + offset.
    pub const RSP: u32 = 1;
    /// The CFA is rbp + offset.
    pub const RBP: u32 = 2;
    /// The CFA is in memory at rbp + offset: functions that align their stack.
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

/// Number of bytes of code before and after a return address that identify it.
pub const CODE_AROUND: usize = 16;

/// Identifies a return address before the address space of the program is known: a program is moved
/// by whole pages, and its code does not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct Code {
    /// The low 12 bits of the address.
    pub in_page: u64,
    /// The code from [`CODE_AROUND`] bytes before the address to as many after.
    pub bytes: [u8; 2 * CODE_AROUND],
}
