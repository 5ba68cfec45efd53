//! How to get from a function to its caller.

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

/// A frame of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Frame {
    /// rsp after the return to `address`.
    pub rsp: u64,
    /// rbp after that return; 0 if unknown.
    pub rbp: u64,
    /// A return address; 0 where no more callers are.
    pub address: u64,
}

impl Rule {
    /// Whether the rule asks for rbp.
    pub const fn needs_rbp(self) -> bool {
        self.cfa != cfa::RSP || self.rbp == rbp::AT_RBP
    }

    /// The caller's frame. `word` reads the 64-bit word at an address. `None` if memory cannot be
    /// read, if rbp is needed and unknown, or if the stack does not follow the rules: a caller's
    /// frame lies above.
    #[inline(always)]
    pub fn step(self, frame: &Frame, word: impl Fn(u64) -> Option<u64>) -> Option<Frame> {
        if self.cfa != cfa::RSP && frame.rbp == 0 {
            return None;
        }
        let offset = i64::from(self.cfa_offset);
        let above = match self.cfa {
            cfa::RSP => frame.rsp.wrapping_add_signed(offset),
            cfa::RBP => frame.rbp.wrapping_add_signed(offset),
            cfa::AT_RBP => word(frame.rbp.wrapping_add_signed(offset))?,
            _ => return None,
        };
        if above <= frame.rsp {
            return None;
        }
        let offset = i64::from(self.rbp_offset);
        let rbp = match self.rbp {
            rbp::AT_CFA => word(above.wrapping_add_signed(offset))?,
            rbp::AT_RBP if frame.rbp != 0 => word(frame.rbp.wrapping_add_signed(offset))?,
            _ => frame.rbp,
        };
        Some(Frame {
            rsp: above,
            rbp,
            address: word(above.wrapping_sub(8))?,
        })
    }
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
