//! The memory of a process, read without the process noticing.

use std::io;

/// Size of a page, bytes. Memory is read page by page, so that the pages before a missing page are
/// read all the same.
const PAGE: u64 = 4096;

/// The number of bytes of a stack that are read at once.
pub const STACK: usize = 64 << 10;

/// The memory of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// The id of one of the process's threads, which must be alive: the first thread may have
    /// ended.
    pub thread: u32,
}

impl Memory {
    /// Reads `length` bytes from an address on, or fewer if memory ends before.
    pub fn read(self, address: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        let count = self.fill(address, &mut bytes).unwrap_or(0);
        bytes.truncate(count);
        bytes
    }

    /// Fills `bytes` from an address on, and returns how many bytes were read; returns the kernel's
    /// error if nothing could be read.
    pub fn fill(self, address: u64, bytes: &mut [u8]) -> io::Result<usize> {
        let length = bytes.len() as u64;
        let end = address
            .checked_add(length)
            .ok_or(io::ErrorKind::InvalidInput)?;
        let mut parts = Vec::new();
        let mut from = address;
        while from < end {
            let until = (from / PAGE + 1).saturating_mul(PAGE).min(end);
            parts.push(libc::iovec {
                iov_base: std::ptr::with_exposed_provenance_mut(usize::try_from(from).unwrap_or(0)),
                iov_len: usize::try_from(until - from).unwrap_or(0),
            });
            from = until;
        }
        let local = libc::iovec {
            iov_base: bytes.as_mut_ptr().cast(),
            iov_len: bytes.len(),
        };
        // SAFETY: the kernel writes into `bytes`, no more than its length; the other addresses
        // belong to another process, and the kernel checks them.
        let count = unsafe {
            libc::process_vm_readv(
                self.thread.cast_signed(),
                &raw const local,
                1,
                parts.as_ptr(),
                parts.len() as libc::c_ulong,
                0,
            )
        };
        usize::try_from(count).map_err(|_| io::Error::last_os_error())
    }

    /// Reads `N` bytes; `None` if any of them cannot be read.
    pub fn bytes<const N: usize>(self, address: u64) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        (self.fill(address, &mut bytes).ok()? == N).then_some(bytes)
    }

    /// Reads a word of 64 bits.
    pub fn word(self, address: u64) -> Option<u64> {
        self.bytes(address).map(u64::from_ne_bytes)
    }
}

/// The top of a thread's stack.
#[derive(Clone, Debug, Default)]
pub struct Stack {
    /// The address of the first byte: the stack pointer.
    pub from: u64,
    /// The bytes from there on.
    pub bytes: Vec<u8>,
    /// The memory of a sleeping thread, in which words beyond `bytes` are read.
    pub beyond: Option<Memory>,
}

impl Stack {
    /// The word at an address.
    pub fn word(&self, address: u64) -> Option<u64> {
        let here = || {
            let at = usize::try_from(address.checked_sub(self.from)?).ok()?;
            let bytes = self.bytes.get(at..at.checked_add(8)?)?;
            Some(u64::from_ne_bytes(bytes.try_into().ok()?))
        };
        here().or_else(|| self.beyond?.word(address))
    }

    /// The first `words` words, or fewer if there are no more.
    pub fn top(&self, words: usize) -> Vec<u64> {
        let all = self.bytes.as_chunks::<8>().0.iter().take(words);
        all.map(|word| u64::from_ne_bytes(*word)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_up_to_where_it_ends() {
        let own = Memory {
            thread: std::process::id(),
        };
        let known: Vec<u8> = (0..=255).cycle().take(3 * 4096 + 5).collect();
        let address = known.as_ptr().addr() as u64;
        assert_eq!(own.read(address, known.len()), known);
        assert_eq!(own.bytes::<4>(address), Some([0, 1, 2, 3]));
        assert_eq!(own.word(8), None, "nothing is mapped there");
        assert_eq!(own.read(u64::MAX - 3, 16), [0_u8; 0]);
        let stack = Stack {
            from: address,
            bytes: vec![1; 8],
            beyond: None,
        };
        assert_eq!(stack.word(address), Some(0x0101_0101_0101_0101));
        assert_eq!(stack.word(address + 1), None);
        assert_eq!(stack.top(2), [0x0101_0101_0101_0101]);
        assert_eq!(stack.top(0), [0; 0]);
        let beyond = Stack {
            beyond: Some(own),
            ..stack
        };
        assert_eq!(beyond.word(address + 8), Some(0x0f0e_0d0c_0b0a_0908));
    }
}
