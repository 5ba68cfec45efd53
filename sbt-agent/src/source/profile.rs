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
};

use aya_obj::generated::perf_event_attr;

use super::perf;

/// `PERF_COUNT_SW_CPU_CLOCK`.
const CPU_CLOCK: u64 = 0;

/// `PERF_SAMPLE_TID`, `_TIME`, `_REGS_USER` and `_STACK_USER`.
const SAMPLE: u64 = 1 << 1 | 1 << 2 | 1 << 12 | 1 << 13;

/// rbp, rsp and the instruction pointer, in this order: `PERF_REG_X86_BP` and so on.
const REGISTERS: u64 = 1 << 6 | 1 << 7 | 1 << 8;

/// How much of the stack is copied, bytes.
pub const STACK: u32 = 16 << 10;

/// A sample with all that belongs to it takes at most so many bytes.
const SAMPLE_BYTES: u64 = STACK as u64 + 96;

/// A ring has room for the samples of so long, in parts of a second.
const ROOM: u64 = 2;

/// Bytes of a page. Where there are more the rings are larger.
const PAGE: usize = 4096;

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
    /// Nothing of what the kernel does for the threads is among them.
    only_user: bool,
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
            only_user: false,
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
                Some(libc::EACCES | libc::EPERM) => {
                    open(true).inspect(|_opened| self.only_user = true)
                }
                _ => Err(error),
            })?;
            match self.rings.iter().find(|ring| ring.cpu == cpu) {
                Some(ring) => {
                    perf::control(&event, perf::SET_OUTPUT, ring.records.event().as_raw_fd())?;
                    self.events.push(event);
                }
                None => self.rings.push(Ring::new(event, cpu, hz)?),
            }
        }
        Ok(())
    }

    /// Whether only the threads' own code is sampled, for want of privilege.
    pub const fn is_of_own_code(&self) -> bool {
        self.only_user
    }

    /// Stops for a while, or goes on.
    pub fn switch(&self, on: bool) {
        let rings = self.rings.iter().map(|ring| ring.records.event());
        for event in rings.chain(&self.events) {
            // Of a thread that has ended there is nothing to switch.
            let request = if on { perf::ENABLE } else { perf::DISABLE };
            let _gone = perf::control(event, request, 0);
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
    attr.type_ = perf::SOFTWARE;
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

/// What the kernel writes the samples on a CPU into.
#[derive(Debug)]
struct Ring {
    cpu: u32,
    records: perf::Ring,
}

impl Ring {
    fn new(event: OwnedFd, cpu: u32, hz: u32) -> io::Result<Self> {
        let bytes = u64::from(hz) * SAMPLE_BYTES / ROOM;
        let wanted = usize::try_from(bytes).unwrap_or(usize::MAX) / PAGE + 1;
        let most = wanted.next_power_of_two().clamp(LEAST_PAGES, MOST_PAGES);
        // An ordinary user may not lock as much.
        let fewer = |pages: &usize| (*pages > LEAST_PAGES).then_some(pages / 2);
        let records = perf::Ring::new(event, std::iter::successors(Some(most), fewer))?;
        Ok(Self { cpu, records })
    }

    /// Takes what has been written since; how many samples found no room.
    fn drain(&mut self, samples: &mut Vec<Sample>) -> u64 {
        let mut lost = 0;
        self.records.each(|head, body| match head.kind {
            perf::SAMPLE => samples.extend(sample(body)),
            perf::LOST => lost += word(body, 1).unwrap_or(0),
            _ => {}
        });
        lost
    }
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
}
