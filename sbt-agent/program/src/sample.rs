//! Where threads were when the kernel looked.

/// Where a thread was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Its process and it, as numbered in our process namespace.
    pub process: u32,
    /// See there.
    pub thread: u32,
    /// When, `CLOCK_MONOTONIC`, ns.
    pub time_ns: u64,
    /// The instruction that its own code was at.
    pub at: u64,
    /// Its registers rsp and rbp.
    pub sp: u64,
    /// See there.
    pub bp: u64,
    /// What lies on its stack, from rsp on.
    pub stack: Vec<u8>,
}
