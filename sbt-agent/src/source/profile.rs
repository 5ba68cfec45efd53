//! Samples of where threads are while on a CPU: registers and the top of the stack of
//! the thread's own code, a given number of times a second of its run time.
//!
//! One software event (`cpu-clock`) for each thread and CPU, which threads that are born
//! later inherit: so none is missed, and nothing is sampled of others. The kernel writes
//! those of a CPU into one ring; nothing is stopped.

use std::{
    collections::HashSet,
    io,
    os::fd::{AsRawFd as _, OwnedFd},
    ptr::NonNull,
    sync::atomic::{AtomicU64, Ordering},
};

use aya_obj::generated::{perf_event_attr, perf_event_mmap_page};

use super::perf;

/// `PERF_TYPE_SOFTWARE` and `PERF_COUNT_SW_CPU_CLOCK`.
const SOFTWARE: u32 = 1;
const CPU_CLOCK: u64 = 0;

/// `PERF_SAMPLE_TID`, `_TIME`, `_REGS_USER` and `_STACK_USER`.
const SAMPLE: u64 = 1 << 1 | 1 << 2 | 1 << 12 | 1 << 13;

/// rbp, rsp and the instruction pointer, in this order: `PERF_REG_X86_BP` and so on.
const REGISTERS: u64 = 1 << 6 | 1 << 7 | 1 << 8;

/// `PERF_RECORD_LOST` and `PERF_RECORD_SAMPLE`.
const LOST: u32 = 2;
const RECORD_SAMPLE: u32 = 9;

/// `PERF_EVENT_IOC_ENABLE`, `_DISABLE` and `_SET_OUTPUT`.
const ENABLE: libc::Ioctl = 0x2400;
const DISABLE: libc::Ioctl = 0x2401;
const SET_OUTPUT: libc::Ioctl = 0x2405;

/// How much of the stack is copied, bytes.
pub const STACK: u32 = 16 << 10;

/// A sample with all that belongs to it takes at most so many bytes.
const SAMPLE_BYTES: u64 = STACK as u64 + 96;

/// A ring has room for the samples of so long, in parts of a second.
const ROOM: u64 = 2;

/// Pages of a ring, at least and at most.
const LEAST_PAGES: usize = 32;
const MOST_PAGES: usize = 8192;

/// Passes over the threads, which may be born meanwhile.
const PASSES: usize = 8;

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

/// Samples of a process from its making on.
#[derive(Debug)]
pub struct Profile {
    rings: Vec<Ring>,
    /// All others write into the rings of the first.
    events: Vec<OwnedFd>,
}

impl Profile {
    /// Begins. `threads`: of which, asked for anew until no more are found; `children`:
    /// whether also of processes that they start.
    ///
    /// # Errors
    /// Those of the kernel; there is no thread.
    pub fn begin(
        hz: u32,
        children: bool,
        cpus: &[u32],
        threads: impl Fn() -> Vec<u32>,
    ) -> io::Result<Self> {
        let mut this = Self {
            rings: Vec::new(),
            events: Vec::new(),
        };
        let mut known = HashSet::new();
        for _ in 0..PASSES {
            let mut new: Vec<u32> = threads();
            new.retain(|thread| known.insert(*thread));
            if new.is_empty() {
                break;
            }
            for thread in new {
                match this.add(hz, children, cpus, thread) {
                    // It has ended meanwhile.
                    Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                    other => other?,
                }
            }
        }
        if this.rings.is_empty() {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(this)
    }

    fn add(&mut self, hz: u32, children: bool, cpus: &[u32], thread: u32) -> io::Result<()> {
        for &cpu in cpus {
            let open = |only_user| perf::open_at(&attr(hz, children, only_user)?, thread, cpu);
            // What a thread does in the kernel may be nobody's to look at.
            let event = open(false).or_else(|error| match error.raw_os_error() {
                Some(libc::EACCES | libc::EPERM) => open(true),
                _ => Err(error),
            })?;
            match self.rings.iter().find(|ring| ring.cpu == cpu) {
                Some(ring) => {
                    control(&event, SET_OUTPUT, ring.event.as_raw_fd())?;
                    self.events.push(event);
                }
                None => self.rings.push(Ring::new(event, cpu, hz)?),
            }
        }
        Ok(())
    }

    /// Stops for a while, or goes on.
    pub fn switch(&self, on: bool) {
        let rings = self.rings.iter().map(|ring| &ring.event);
        for event in rings.chain(&self.events) {
            // Of a thread that has ended there is nothing to switch.
            let _gone = control(event, if on { ENABLE } else { DISABLE }, 0);
        }
    }

    /// Takes what has been sampled since, in the order of time; how many found no room.
    pub fn drain(&mut self) -> (Vec<Sample>, u64) {
        let (mut samples, mut lost) = (Vec::new(), 0);
        for ring in &mut self.rings {
            lost += ring.drain(&mut samples);
        }
        samples.sort_by_key(|sample| sample.time_ns);
        (samples, lost)
    }
}

fn attr(hz: u32, children: bool, only_user: bool) -> io::Result<perf_event_attr> {
    let mut attr = perf::attr()?;
    attr.type_ = SOFTWARE;
    attr.config = CPU_CLOCK;
    attr.__bindgen_anon_1.sample_period = 1_000_000_000 / u64::from(hz.max(1));
    attr.sample_type = SAMPLE;
    attr.sample_regs_user = REGISTERS;
    attr.sample_stack_user = STACK;
    attr.set_exclude_kernel(u64::from(only_user));
    attr.set_exclude_hv(1);
    attr.set_inherit(1);
    attr.set_inherit_thread(u64::from(!children));
    attr.set_use_clockid(1);
    attr.clockid = libc::CLOCK_MONOTONIC;
    Ok(attr)
}

fn control(event: &OwnedFd, request: libc::Ioctl, argument: i32) -> io::Result<()> {
    // SAFETY: a request of perf events that takes a number.
    let result = unsafe { libc::ioctl(event.as_raw_fd(), request, argument) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// What the kernel writes the samples on a CPU into.
#[derive(Debug)]
struct Ring {
    memory: NonNull<libc::c_void>,
    page: usize,
    pages: usize,
    cpu: u32,
    /// Up to where it has been read.
    read: u64,
    /// Closed after the memory is given back.
    event: OwnedFd,
}

impl Ring {
    fn new(event: OwnedFd, cpu: u32, hz: u32) -> io::Result<Self> {
        let page = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE)
            .ok()
            .flatten()
            .and_then(|size| usize::try_from(size).ok())
            .ok_or(io::ErrorKind::Unsupported)?;
        let bytes = u64::from(hz) * SAMPLE_BYTES / ROOM;
        let wanted = usize::try_from(bytes).unwrap_or(usize::MAX) / page + 1;
        let mut pages = wanted.next_power_of_two().clamp(LEAST_PAGES, MOST_PAGES);
        loop {
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
            if memory != libc::MAP_FAILED {
                return Ok(Self {
                    memory: NonNull::new(memory).ok_or(io::ErrorKind::OutOfMemory)?,
                    page,
                    pages,
                    cpu,
                    read: 0,
                    event,
                });
            }
            // An ordinary user may not lock as much.
            if pages <= LEAST_PAGES {
                return Err(io::Error::last_os_error());
            }
            pages /= 2;
        }
    }

    /// Takes what has been written since; how many samples found no room.
    fn drain(&mut self, samples: &mut Vec<Sample>) -> u64 {
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
        let mut lost = 0;
        while written - self.read >= 8 {
            let [kind, size] = header(data, self.read);
            let size = u64::from(size);
            if size < 8 || size > written - self.read {
                // Damaged: nobody knows where the next one begins.
                self.read = written;
                break;
            }
            let body = copied(data, self.read + 8, size - 8);
            match kind {
                RECORD_SAMPLE => samples.extend(sample(&body)),
                LOST => lost += word(&body, 1).unwrap_or(0),
                _ => {}
            }
            self.read += size;
        }
        tail.store(self.read, Ordering::Release);
        lost
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

/// The kind of a record and its size, bytes.
fn header(data: &[u8], at: u64) -> [u32; 2] {
    let bytes = copied(data, at, 8);
    let (Some(kind), Some(size)) = (bytes.first_chunk(), bytes.last_chunk()) else {
        return [0, 0];
    };
    [u32::from_ne_bytes(*kind), u16::from_ne_bytes(*size).into()]
}

fn word(body: &[u8], index: usize) -> Option<u64> {
    let bytes = body.get(8 * index..8 * index + 8)?;
    Some(u64::from_ne_bytes(bytes.try_into().ok()?))
}

/// Of the body of a record: process and thread, time, which registers (0: none, as in a
/// thread of the kernel), the three, the size of the stack, the stack, and how much of
/// it counts.
fn sample(body: &[u8]) -> Option<Sample> {
    let ids = word(body, 0)?.to_ne_bytes();
    if word(body, 2)? == 0 {
        return None;
    }
    let size = usize::try_from(word(body, 6)?).ok()?;
    let stack = body.get(56..56_usize.checked_add(size)?)?;
    let counts = if size == 0 {
        0
    } else {
        let behind = body.get(56 + size..64 + size)?;
        usize::try_from(u64::from_ne_bytes(behind.try_into().ok()?)).ok()?
    };
    Some(Sample {
        process: u32::from_ne_bytes([ids[0], ids[1], ids[2], ids[3]]),
        thread: u32::from_ne_bytes([ids[4], ids[5], ids[6], ids[7]]),
        time_ns: word(body, 1)?,
        bp: word(body, 3)?,
        sp: word(body, 4)?,
        at: word(body, 5)?,
        stack: stack[..counts.min(size)].to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_read_and_a_short_one_is_none() {
        let words = |words: &[u64]| -> Vec<u8> {
            words.iter().flat_map(|word| word.to_ne_bytes()).collect()
        };
        let ids = u64::from_ne_bytes([7, 0, 0, 0, 9, 0, 0, 0]);
        let body = words(&[ids, 55, 2, 0xb, 0x5, 0x1, 16, 77, 88, 8]);
        let expected = Sample {
            process: 7,
            thread: 9,
            time_ns: 55,
            at: 0x1,
            sp: 0x5,
            bp: 0xb,
            stack: words(&[77]),
        };
        assert_eq!(sample(&body), Some(expected));
        for length in 0..body.len() {
            assert_eq!(sample(&body[..length]), None);
        }
        // A thread of the kernel has no registers of its own.
        assert_eq!(sample(&words(&[ids, 55, 0, 0])), None);
        let huge = words(&[ids, 55, 2, 0xb, 0x5, 0x1, u64::MAX]);
        assert_eq!(sample(&huge), None);
    }

    #[test]
    fn records_go_on_at_the_beginning_of_the_ring() {
        let data: Vec<u8> = (0..16).collect();
        assert_eq!(copied(&data, 14, 4), [14, 15, 0, 1]);
        assert_eq!(copied(&data, 32, 2), [0, 1]);
        assert_eq!(header(&[9, 0, 0, 0, 1, 0, 24, 0], 0), [9, 24]);
    }
}
