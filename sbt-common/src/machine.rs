//! What the logic that both sides share asks of a thread: its memory and its registers. The BPF
//! programs ask the kernel, their twin in user space asks ptrace or a sample.

/// The memory of a thread.
pub trait Reader {
    /// 32-bit words that follow each other. `None` if they cannot be read.
    fn try_halves<const N: usize>(&self, address: u64) -> Option<[u32; N]>;

    /// The same; zeros if they cannot be read.
    #[inline(always)]
    fn halves<const N: usize>(&self, address: u64) -> [u32; N] {
        self.try_halves(address).unwrap_or([0; N])
    }

    /// A 64-bit word; 0 if it cannot be read.
    fn word(&self, address: u64) -> u64;
}

/// The registers of a thread that has hit a probe.
pub trait Registers {
    /// The address of the probed instruction.
    fn rip(&self) -> u64;

    /// The stack pointer.
    fn rsp(&self) -> u64;

    /// The frame pointer.
    fn rbp(&self) -> u64;

    /// A register by its number in [`crate::Cookie::object`]; for 0, as [`Registers::rip`].
    fn numbered(&self, number: u8) -> u64;
}

/// How a function was called, as far as it is known.
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    /// Where on the stack the return address lies.
    pub at: u64,
    /// The return address.
    pub address: u64,
    /// rbp at that time; 0 if unknown.
    pub rbp: u64,
}
