//! The kind of memory at an address.

/// A place in memory that processes can share: device and inode of the mapped file, and the offset
/// in it, bytes.
pub type Shared = (u64, u64, u64);

/// The kind of memory at an address of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// Memory that other processes may map, too.
    Shared(Shared),
    /// Private memory of the process.
    Own,
    /// Unknown, because the process is gone.
    Unknown,
}

/// Looks up what kind of memory lies at an address of a process.
pub type Lookup = fn(process: u32, address: u64) -> Memory;
