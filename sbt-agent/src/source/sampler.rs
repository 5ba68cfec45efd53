//! Where a process's running threads are: samples of their instruction pointers.
//!
//! One software event (`cpu-clock`) a thread, so nothing is sampled of others, and
//! of a thread only while it runs. Nothing is stopped, and nothing of the processor's
//! counters is used. With each sample come the registers as the thread's own code
//! left them, also from inside of a system call, and the top of its stack.

use std::{
    io,
    os::fd::{AsRawFd as _, OwnedFd},
    ptr::NonNull,
    sync::atomic::{AtomicU64, Ordering},
};

use aya_obj::generated::perf_event_mmap_page;

use super::perf;

/// `PERF_TYPE_SOFTWARE` and `PERF_COUNT_SW_CPU_CLOCK`.
const SOFTWARE: u32 = 1;
const CPU_CLOCK: u64 = 0;

/// `PERF_SAMPLE_REGS_USER` and `PERF_SAMPLE_STACK_USER`.
const SAMPLE: u64 = 1 << 12 | 1 << 13;

/// The stack pointer and the instruction pointer, in this order:
/// `PERF_REG_X86_SP` and `PERF_REG_X86_IP`.
const REGISTERS: u64 = 1 << 7 | 1 << 8;

/// `PERF_RECORD_SAMPLE`.
const RECORD_SAMPLE: u32 = 9;

/// How much of the stack is copied, bytes: a return address is near its top when the
/// function that was called does next to nothing.
const STACK: u32 = 128;

/// A sample is taken after so much run time, ns.
const PERIOD_NS: u64 = 3_000_000;

/// Memory for one thread's samples, in pages: some ninety. The page before is the
/// kernel's. Threads times this stay below what an ordinary user may lock.
const PAGES: usize = 4;

/// Threads that are looked at, at most.
pub const MAX_THREADS: usize = 24;

/// Where a thread was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// The instruction that its own code was at.
    pub at: u64,
    /// The top of its stack.
    pub stack: Vec<u64>,
}

/// The samples of some threads, from its making on.
#[derive(Debug)]
pub struct Sampler {
    threads: Vec<(u32, Ring)>,
}

impl Sampler {
    /// Begins. Threads that cannot be looked at, such as those that have ended, are
    /// left out.
    ///
    /// # Errors
    /// None can be looked at; the error of the last.
    pub fn begin(threads: &[u32]) -> io::Result<Self> {
        let mut opened = Vec::new();
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for &thread in threads.iter().take(MAX_THREADS) {
            match Ring::open(thread) {
                Ok(ring) => opened.push((thread, ring)),
                Err(error) => last = error,
            }
        }
        if opened.is_empty() {
            return Err(last);
        }
        Ok(Self { threads: opened })
    }

    /// Ends, and gives the samples with the threads that they are of.
    pub fn end(self) -> Vec<(u32, Sample)> {
        let all = self.threads.iter();
        all.flat_map(|(thread, ring)| ring.read().into_iter().map(|sample| (*thread, sample)))
            .collect()
    }
}

/// What the kernel writes the samples of a thread into.
#[derive(Debug)]
struct Ring {
    memory: NonNull<libc::c_void>,
    page: usize,
    /// Closed after the memory is given back.
    _event: OwnedFd,
}

impl Ring {
    fn open(thread: u32) -> io::Result<Self> {
        // What a thread does in the kernel may be nobody's to look at; then what it
        // does outside is looked at.
        let event = Self::event(thread, false).or_else(|_| Self::event(thread, true))?;
        let page = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE)
            .ok()
            .flatten()
            .and_then(|size| usize::try_from(size).ok())
            .ok_or(io::ErrorKind::Unsupported)?;
        // SAFETY: a new mapping of an open event, of the size that it asks for.
        let memory = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                page * (1 + PAGES),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                event.as_raw_fd(),
                0,
            )
        };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self {
            memory: NonNull::new(memory).ok_or(io::ErrorKind::OutOfMemory)?,
            page,
            _event: event,
        })
    }

    fn event(thread: u32, only_user: bool) -> io::Result<OwnedFd> {
        let mut attr = perf::attr()?;
        attr.type_ = SOFTWARE;
        attr.config = CPU_CLOCK;
        attr.__bindgen_anon_1.sample_period = PERIOD_NS;
        attr.sample_type = SAMPLE;
        attr.sample_regs_user = REGISTERS;
        attr.sample_stack_user = STACK;
        attr.set_exclude_kernel(u64::from(only_user));
        attr.set_exclude_hv(1);
        perf::open(&attr, thread)
    }

    /// What has been written so far. Nobody has read before, and what finds no room
    /// is not written, so it begins at the beginning.
    fn read(&self) -> Vec<Sample> {
        let head = self.memory.cast::<perf_event_mmap_page>();
        // SAFETY: the mapping begins with this structure; the kernel writes the number
        // as one word, and the samples before it.
        let written = unsafe {
            let head = &raw mut (*head.as_ptr()).data_head;
            AtomicU64::from_ptr(head.cast()).load(Ordering::Acquire)
        };
        let length = usize::try_from(written)
            .unwrap_or(usize::MAX)
            .min(self.page * PAGES);
        // SAFETY: the pages behind the first hold at least so many bytes, which the
        // kernel does not touch again: they have not been declared as read.
        let bytes = unsafe {
            let start = self.memory.as_ptr().cast::<u8>().add(self.page);
            std::slice::from_raw_parts(start, length)
        };
        samples(bytes)
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and nothing refers to it any more.
        unsafe { libc::munmap(self.memory.as_ptr(), self.page * (1 + PAGES)) };
    }
}

/// The samples among records. A damaged record ends them.
fn samples(mut bytes: &[u8]) -> Vec<Sample> {
    let mut found = Vec::new();
    while let Some((head, rest)) = bytes.split_first_chunk::<8>() {
        let kind = u32::from_ne_bytes([head[0], head[1], head[2], head[3]]);
        let size = usize::from(u16::from_ne_bytes([head[6], head[7]]));
        let Some(body) = size.checked_sub(8).and_then(|size| rest.get(..size)) else {
            break;
        };
        if kind == RECORD_SAMPLE {
            found.extend(sample(body));
        }
        bytes = &rest[body.len()..];
    }
    found
}

/// Of the body of a record: which registers (0: none, as in a thread of the kernel),
/// the two, the size of the stack, the stack, and how much of it counts.
fn sample(body: &[u8]) -> Option<Sample> {
    let (words, _) = body.as_chunks::<8>();
    let mut words = words.iter().map(|word| u64::from_ne_bytes(*word));
    if words.next()? == 0 {
        return None;
    }
    let (_stack_pointer, at) = (words.next()?, words.next()?);
    let size = usize::try_from(words.next()?).ok()? / 8;
    let mut stack: Vec<u64> = words.by_ref().take(size).collect();
    let counts = words.next().map_or(0, |bytes| bytes / 8);
    stack.truncate(usize::try_from(counts).ok()?);
    Some(Sample { at, stack })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u32, words: &[u64]) -> Vec<u8> {
        let size = u16::try_from(8 + 8 * words.len()).unwrap_or(0);
        let mut bytes = kind.to_ne_bytes().to_vec();
        bytes.extend([0, 0]);
        bytes.extend(size.to_ne_bytes());
        bytes.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        bytes
    }

    #[test]
    fn samples_are_read_and_other_records_passed() {
        let bytes = [
            record(RECORD_SAMPLE, &[2, 0x7f00, 0x401, 2, 77, 88, 16][..4]),
            record(2, &[1, 2]),
            record(RECORD_SAMPLE, &[2, 0x7f00, 0x402, 16, 77, 88, 8]),
            record(RECORD_SAMPLE, &[0, 0]),
            record(RECORD_SAMPLE, &[2, 0x7f00, 0x403, 0]),
        ]
        .concat();
        let found = samples(&bytes);
        let expected = [(0x401, vec![]), (0x402, vec![77]), (0x403, vec![])];
        let expected = expected.map(|(at, stack)| Sample { at, stack });
        assert_eq!(found, expected);
    }

    #[test]
    fn what_is_cut_off_ends_them() {
        let bytes = record(RECORD_SAMPLE, &[2, 0x7f00, 0x402, 0]);
        for length in 0..bytes.len() {
            assert!(samples(&bytes[..length]).is_empty());
        }
        assert!(samples(&[0; 64]).is_empty());
    }
}
