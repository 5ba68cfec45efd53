//! Samples of where threads are while on a CPU: registers and the top of the stack of
//! the thread's own code, a given number of times a second of its run time.
//!
//! One software event (`cpu-clock`) for each thread and CPU, which threads that are born
//! later inherit: so none is missed, and nothing is sampled of others. The kernel writes
//! those of a CPU into one ring; nothing is stopped.

use crate::kernel::perf::{self, PAGE};
use sbt_program::sample::Sample;
use std::{collections::HashSet, io};

use perf_event::{Builder, Clock, Counter, SampleFlag, events::Software};

/// rbp, rsp and the instruction pointer, in this order: `PERF_REG_X86_BP` and so on.
const REGISTERS: u64 = 1 << 6 | 1 << 7 | 1 << 8;

/// How much of the stack is copied, bytes.
pub const STACK: u32 = 16 << 10;

/// A sample with all that belongs to it takes at most so many bytes.
const SAMPLE_BYTES: u64 = STACK as u64 + 96;

/// A ring has room for the samples of so long, in parts of a second.
const ROOM: u64 = 2;

/// Bytes of a ring, at least and at most.
const LEAST: usize = 32 * PAGE;
const MOST: usize = 8192 * PAGE;

/// Passes over the threads, which may be born meanwhile.
const PASSES: usize = 8;

/// Samples of a process from its making on.
#[derive(Debug)]
pub struct Profile {
    rings: Vec<Ring>,
    /// All others write into the rings of the first.
    events: Vec<Counter>,
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
            let mut builder = event(hz, children, thread, cpu);
            // What a thread does in the kernel may be nobody's to look at.
            let event = builder
                .build()
                .or_else(|error| match error.raw_os_error() {
                    Some(libc::EACCES | libc::EPERM) => {
                        let opened = builder.exclude_kernel(true).build();
                        opened.inspect(|_opened| self.only_user = true)
                    }
                    _ => Err(error),
                })?;
            match self.rings.iter().find(|ring| ring.cpu == cpu) {
                Some(ring) => {
                    ring.records.admit(&event)?;
                    self.events.push(event);
                }
                None => self.rings.push(Ring::new(&builder, cpu, hz)?),
            }
        }
        Ok(())
    }

    /// Whether only the threads' own code is sampled, for want of privilege.
    pub const fn is_of_own_code(&self) -> bool {
        self.only_user
    }

    /// Stops for a while, or goes on.
    pub fn switch(&mut self, on: bool) {
        let rings = self.rings.iter_mut().map(|ring| ring.records.event());
        for event in rings.chain(&mut self.events) {
            perf::switch(event, on);
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

/// What samples a thread on a CPU.
fn event(hz: u32, children: bool, thread: u32, cpu: u32) -> Builder<'static> {
    let mut event = Builder::new(Software::CPU_CLOCK);
    event
        .observe_pid(thread.cast_signed())
        .one_cpu(cpu as usize);
    event.inherit(true).inherit_thread(!children);
    event.enabled(true).include_kernel();
    event.sample_period(1_000_000_000 / u64::from(hz.max(1)));
    event.clockid(Clock::MONOTONIC);
    event.sample(SampleFlag::TID | SampleFlag::TIME);
    event.sample(SampleFlag::REGS_USER | SampleFlag::STACK_USER);
    event.sample_regs_user(REGISTERS).sample_stack_user(STACK);
    event
}

/// What the kernel writes the samples on a CPU into.
#[derive(Debug)]
struct Ring {
    cpu: u32,
    records: perf::Ring,
}

impl Ring {
    fn new(event: &Builder<'_>, cpu: u32, hz: u32) -> io::Result<Self> {
        let bytes = u64::from(hz) * SAMPLE_BYTES / ROOM;
        let wanted = usize::try_from(bytes).unwrap_or(MOST).clamp(LEAST, MOST);
        // An ordinary user may not lock as much.
        let fewer = |bytes: &usize| (*bytes > LEAST).then_some(bytes / 2);
        let sizes = std::iter::successors(Some(wanted.next_power_of_two()), fewer);
        let records = perf::Ring::new(event, sizes)?;
        Ok(Self { cpu, records })
    }

    /// Takes what has been written since; how many samples found no room.
    fn drain(&mut self, samples: &mut Vec<Sample>) -> u64 {
        self.records
            .samples(|sample| samples.extend(of_thread(sample)))
    }
}

/// Where a thread was, by a sample of the kernel's. `None`: a thread of the kernel.
fn of_thread(sample: &perf::Sample<'_>) -> Option<Sample> {
    let &[bp, sp, at] = &*sample.registers else {
        return None;
    };
    let (process, thread) = sample.of?;
    Some(Sample {
        process,
        thread,
        time_ns: sample.time_ns?,
        at,
        sp,
        bp,
        stack: sample.stack.to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::perf::tests::{bytes, decoded};

    #[test]
    fn a_sample_is_read_and_a_short_one_is_none() {
        let read = |body: &[u8]| of_thread(&decoded(&event(100, false, 9, 0), body)?);
        let ids = u64::from_ne_bytes([7, 0, 0, 0, 9, 0, 0, 0]);
        let body = bytes(&[ids, 55, 2, 0xb, 0x5, 0x1, 16, 77, 88, 8]);
        let expected = Sample {
            process: 7,
            thread: 9,
            time_ns: 55,
            at: 0x1,
            sp: 0x5,
            bp: 0xb,
            stack: bytes(&[77]),
        };
        assert_eq!(read(&body), Some(expected));
        for length in 0..body.len() {
            assert_eq!(read(&body[..length]), None);
        }
        let without = bytes(&[ids, 55, 2, 0xb, 0, 0x1, 0]);
        let bare = read(&without).unwrap();
        assert_eq!((bare.at, bare.sp, bare.stack), (0x1, 0, vec![]));
        // A thread of the kernel has no registers of its own.
        assert_eq!(read(&bytes(&[ids, 55, 0, 0])), None);
        let huge = bytes(&[ids, 55, 2, 0xb, 0x5, 0x1, u64::MAX]);
        assert_eq!(read(&huge), None);
    }
}
