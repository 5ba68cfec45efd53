//! Samples of what threads execute.

/// A sample of a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Id of the process, as numbered in sbt's pid namespace.
    pub process: u32,
    /// Id of the thread, as numbered in sbt's pid namespace.
    pub thread: u32,
    /// Time of the sample, `CLOCK_MONOTONIC`, ns.
    pub time_ns: u64,
    /// The address of the user-mode instruction.
    pub at: u64,
    /// The stack pointer.
    pub sp: u64,
    /// The frame pointer.
    pub bp: u64,
    /// The bytes on the thread's stack, from the stack pointer on.
    pub stack: Vec<u8>,
}
