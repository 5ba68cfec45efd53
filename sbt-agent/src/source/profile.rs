//! Samples where threads are while on a CPU: registers and the top of the stack of their own code,
//! a given number of times for each second of run time.
//!
//! One software event (`cpu-clock`) for each thread and CPU; threads that begin later inherit it.
//! So no thread is missed, and nothing is sampled of others. The kernel writes the samples of one
//! CPU into one ring. No thread is stopped.

use crate::kernel::perf::{self, PAGE};
use sbt_program::{arch::Registers, sample::Sample};
use std::{collections::HashSet, io};

use perf_event::{Builder, Clock, Counter, SampleFlag, events::Software};

/// How much of the stack is copied, bytes.
pub const STACK: u32 = 16 << 10;

/// The largest size of a sample with all its fields, bytes.
const SAMPLE_BYTES: u64 = STACK as u64 + 96;

/// A ring has room for the samples of 1/`ROOM` of a second.
const ROOM: u64 = 2;

/// Smallest and largest size of a ring, bytes.
const LEAST: usize = 32 * PAGE;
const MOST: usize = 8192 * PAGE;

/// How often threads are listed, since new ones may begin meanwhile.
const PASSES: usize = 8;

/// Samples the threads of a process from its creation on.
#[derive(Debug)]
pub struct Profile {
    rings: Vec<Ring>,
    /// All other events, which write into the ring of the first event of their CPU.
    events: Vec<Counter>,
    /// Whether samples inside of the kernel are missing for some thread.
    only_user: bool,
}

impl Profile {
    /// Begins to sample. `threads` lists the threads, and is called until it finds no new ones;
    /// `children`: whether processes that they start are sampled, too.
    ///
    /// # Errors
    /// Errors of the kernel; there is no thread.
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
                    // The thread has ended meanwhile.
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
            // Sampling inside of the kernel may be forbidden.
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

    /// Whether only user code is sampled, for want of privilege.
    pub const fn is_of_own_code(&self) -> bool {
        self.only_user
    }

    /// Pauses or resumes sampling.
    pub fn switch(&mut self, on: bool) {
        let rings = self.rings.iter_mut().map(|ring| ring.records.event());
        for event in rings.chain(&mut self.events) {
            perf::switch(event, on);
        }
    }

    /// Returns the samples since the last call, in the order of time, and how many found no room.
    pub fn drain(&mut self) -> (Vec<Sample>, u64) {
        let (mut samples, mut lost) = (Vec::new(), 0);
        for ring in &mut self.rings {
            lost += ring.drain(&mut samples);
        }
        samples.sort_by_key(|sample| sample.time_ns);
        (samples, lost)
    }
}

/// The event that samples a thread on a CPU.
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
    event
        .sample_regs_user(Registers::FRAME_IN_SAMPLES)
        .sample_stack_user(STACK);
    event
}

/// The ring that the kernel writes the samples on one CPU into.
#[derive(Debug)]
struct Ring {
    cpu: u32,
    records: perf::Ring,
}

impl Ring {
    fn new(event: &Builder<'_>, cpu: u32, hz: u32) -> io::Result<Self> {
        let bytes = u64::from(hz) * SAMPLE_BYTES / ROOM;
        let wanted = usize::try_from(bytes).unwrap_or(MOST).clamp(LEAST, MOST);
        // If an ordinary user may not lock as much, smaller sizes are tried.
        let fewer = |bytes: &usize| (*bytes > LEAST).then_some(bytes / 2);
        let sizes = std::iter::successors(Some(wanted.next_power_of_two()), fewer);
        let records = perf::Ring::new(event, sizes)?;
        Ok(Self { cpu, records })
    }

    /// Appends the samples since the last call. Returns how many found no room.
    fn drain(&mut self, samples: &mut Vec<Sample>) -> u64 {
        self.records
            .samples(|sample| samples.extend(of_thread(sample)))
    }
}

/// Where a thread was, from a sample. `None` for a thread of the kernel.
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
