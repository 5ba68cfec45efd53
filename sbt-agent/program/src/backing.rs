//! What kind of memory an address lies in.

/// Memory that processes can share, and where in it: device and inode of what
/// is mapped, and the offset there, bytes.
pub type Shared = (u64, u64, u64);

/// What lies at an address of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// Memory that others may map too.
    Shared(Shared),
    /// Its own.
    Own,
    /// The process is gone.
    Unknown,
}

/// Tells what lies at an address of a process.
pub type Lookup = fn(process: u32, address: u64) -> Memory;
