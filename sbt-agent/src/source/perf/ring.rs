//! Memory into which the kernel writes the records of an event, or of several.

use std::{
    io,
    os::fd::{AsRawFd as _, OwnedFd},
    ptr::NonNull,
    sync::atomic::{AtomicU64, Ordering},
};

use aya_obj::generated::perf_event_mmap_page;

/// One event's ring. What is not read before it is full is lost, and the kernel counts it.
#[derive(Debug)]
pub struct Ring {
    memory: NonNull<libc::c_void>,
    page: usize,
    pages: usize,
    /// Up to where it has been read.
    read: u64,
    /// Closed after the memory is given back.
    event: OwnedFd,
}

// SAFETY: the memory belongs to the ring, and is looked at through `&mut` alone.
unsafe impl Send for Ring {}

/// One record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// `PERF_RECORD_*`.
    pub kind: u32,
    /// `PERF_RECORD_MISC_*`.
    pub misc: u16,
}

impl Ring {
    /// Maps that of an event. `pages`: how many to have for records, powers of two of which
    /// the first is taken that is to be had.
    ///
    /// # Errors
    /// Those of the kernel: an ordinary user may not lock as much.
    pub fn new(event: OwnedFd, pages: impl IntoIterator<Item = usize>) -> io::Result<Self> {
        let page = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE)
            .ok()
            .flatten()
            .and_then(|size| usize::try_from(size).ok())
            .ok_or(io::ErrorKind::Unsupported)?;
        let mut last = io::Error::from(io::ErrorKind::InvalidInput);
        for pages in pages {
            // SAFETY: a new mapping of an open event, of the size that it asks for.
            let memory = unsafe {
                libc::mmap(
                    std::ptr::null_mut(),
                    page * (1 + pages),
                    libc::PROT_READ | libc::PROT_WRITE,
                    libc::MAP_SHARED,
                    event.as_raw_fd(),
                    0,
                )
            };
            if memory == libc::MAP_FAILED {
                last = io::Error::last_os_error();
                continue;
            }
            return Ok(Self {
                memory: NonNull::new(memory).ok_or(io::ErrorKind::OutOfMemory)?,
                page,
                pages,
                read: 0,
                event,
            });
        }
        Err(last)
    }

    /// The event that it is of.
    pub const fn event(&self) -> &OwnedFd {
        &self.event
    }

    /// Takes what has been written since: each record's kind, and its body.
    pub fn each(&mut self, mut take: impl FnMut(Head, &[u8])) {
        let head = self.memory.cast::<perf_event_mmap_page>().as_ptr();
        // SAFETY: the mapping begins with this structure, which lives as long as it. The
        // kernel writes the first number as one word after the records before it, and
        // reads the second before it writes over what was read.
        let (head, tail) = unsafe {
            (
                AtomicU64::from_ptr((&raw mut (*head).data_head).cast()),
                AtomicU64::from_ptr((&raw mut (*head).data_tail).cast()),
            )
        };
        let written = head.load(Ordering::Acquire);
        // SAFETY: the pages behind the first. What lies between `read` and `written` is
        // not touched by the kernel until the tail says so, and only that is looked at.
        let data = unsafe {
            let start = self.memory.as_ptr().cast::<u8>().add(self.page);
            std::slice::from_raw_parts(start, self.page * self.pages)
        };
        while written - self.read >= 8 {
            let (head, size) = header(data, self.read);
            if size < 8 || size > written - self.read {
                // Damaged: nobody knows where the next one begins.
                self.read = written;
                break;
            }
            take(head, &copied(data, self.read + 8, size - 8));
            self.read += size;
        }
        tail.store(self.read, Ordering::Release);
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and nothing refers to it any more.
        unsafe { libc::munmap(self.memory.as_ptr(), self.page * (1 + self.pages)) };
    }
}

/// Bytes of a ring, which goes on at its beginning.
fn copied(data: &[u8], from: u64, length: u64) -> Vec<u8> {
    let size = data.len();
    let from = usize::try_from(from % size as u64).unwrap_or(0);
    let length = usize::try_from(length).unwrap_or(0).min(size);
    let first = length.min(size - from);
    let mut bytes = data[from..from + first].to_vec();
    bytes.extend_from_slice(&data[..length - first]);
    bytes
}

/// A record's kind, and its size, bytes.
fn header(data: &[u8], at: u64) -> (Head, u64) {
    let bytes = copied(data, at, 8);
    let (kind, misc, size) = (bytes.get(..4), bytes.get(4..6), bytes.get(6..8));
    let number = |bytes: Option<&[u8]>| {
        let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
        bytes.map_or(0, u16::from_ne_bytes)
    };
    let kind = kind.and_then(|bytes| bytes.try_into().ok());
    let head = Head {
        kind: kind.map_or(0, u32::from_ne_bytes),
        misc: number(misc),
    };
    (head, number(size).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_go_on_at_the_beginning_of_the_ring() {
        let data: Vec<u8> = (0..16).collect();
        assert_eq!(copied(&data, 14, 4), [14, 15, 0, 1]);
        assert_eq!(copied(&data, 32, 2), [0, 1]);
        let head = Head { kind: 9, misc: 1 };
        assert_eq!(header(&[9, 0, 0, 0, 1, 0, 24, 0], 0), (head, 24));
    }
}
