//! Samples where the running threads of a process are: their instruction pointers.
//!
//! One software event (`cpu-clock`) a thread: so nothing is sampled of others, and a thread is
//! sampled only while it runs. No thread is stopped, and no counter of the processor is used. Each
//! sample has the registers as the thread's own code left them, also inside of a system call, and
//! the top of its stack.

use std::io;

use perf_event::{Builder, SampleFlag, events::Software};

use crate::kernel::perf::{self, PAGE, Ring};
use sbt_program::arch::Registers;

/// The number of bytes of the stack that are copied: the program's own call of a library that spins
/// may be some hundred bytes up (in LLVM's libomp, where threads wait for their turn, 160).
const STACK: u32 = 384;

/// The number of bytes of the stack that are copied for threads of programs with MPI: Open MPI and MPICH
/// wait for messages up to 1150 bytes from the program's own call.
const DEEP_STACK: u32 = 1280;

/// The number of bytes of the stack that are copied in a look whose samples are read at its end only. A return address is near the top if
/// the function called does next to nothing.
const NEAR_STACK: u32 = 128;

/// Run time between two samples, ns.
const PERIOD_NS: u64 = 3_000_000;

/// Memory for one thread's samples, bytes: some ninety samples, or forty with the long stack. One
/// page more belongs to the kernel. All threads together stay below what an ordinary user may lock.
const ROOM: usize = 4 * PAGE;

/// The largest number of threads that are sampled.
pub const MAX_THREADS: usize = 24;

/// Where a thread was at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Address of the instruction in its own code.
    pub at: u64,
    /// The top of its stack, in words.
    pub stack: Vec<u64>,
}

/// Samples some threads from its creation on.
#[derive(Debug, Default)]
pub struct Sampler {
    threads: Vec<(u32, Ring)>,
}

impl Sampler {
    /// Begins to sample. Threads that cannot be sampled, as those that have ended, are left out.
    ///
    /// # Errors
    /// No thread can be sampled: the last error.
    pub fn begin(threads: &[u32]) -> io::Result<Self> {
        let mut opened = Vec::new();
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for &thread in threads.iter().take(MAX_THREADS) {
            match ring(thread, NEAR_STACK) {
                Ok(ring) => opened.push((thread, ring)),
                Err(error) => last = error,
            }
        }
        if opened.is_empty() {
            return Err(last);
        }
        Ok(Self { threads: opened })
    }

    /// Samples one more thread from now on, if there is room. `is_deep`: whether the program's own calls
    /// may be far up its stack.
    ///
    /// # Errors
    /// The thread cannot be sampled.
    pub fn add(&mut self, thread: u32, is_deep: bool) -> io::Result<()> {
        if self.threads.len() < MAX_THREADS && !self.threads.iter().any(|known| known.0 == thread) {
            let stack = if is_deep { DEEP_STACK } else { STACK };
            self.threads.push((thread, ring(thread, stack)?));
        }
        Ok(())
    }

    /// Takes the samples so far, each with its thread.
    pub fn take(&mut self) -> Vec<(u32, Sample)> {
        let mut samples = Vec::new();
        for (thread, ring) in &mut self.threads {
            let _lost = ring.samples(|sample| {
                samples.extend(Sample::of(sample).map(|sample| (*thread, sample)));
            });
        }
        samples
    }

    /// Ends. Returns the samples, each with its thread.
    pub fn end(mut self) -> Vec<(u32, Sample)> {
        for (_, ring) in &mut self.threads {
            perf::switch(ring.event(), false);
        }
        // A ring has room for the samples of a whole look; a longer look has seen enough.
        self.take()
    }
}

fn ring(thread: u32, stack: u32) -> io::Result<Ring> {
    // Sampling inside of the kernel may be forbidden; then only user code is sampled.
    Ring::new(event(thread, stack).include_kernel(), [ROOM])
        .or_else(|_| Ring::new(&event(thread, stack), [ROOM]))
}

/// The event that samples a thread, in its own code only. `stack`: bytes of its stack.
fn event(thread: u32, stack: u32) -> Builder<'static> {
    let mut event = Builder::new(Software::CPU_CLOCK);
    event.observe_pid(thread.cast_signed()).enabled(true);
    event.sample_period(PERIOD_NS);
    event.sample(SampleFlag::REGS_USER | SampleFlag::STACK_USER);
    event
        .sample_regs_user(Registers::PLACE_IN_SAMPLES)
        .sample_stack_user(stack);
    event
}

impl Sample {
    /// `None` for a thread of the kernel.
    fn of(sample: &perf::Sample<'_>) -> Option<Self> {
        let &[_stack_pointer, at] = &*sample.registers else {
            return None;
        };
        let (words, _) = sample.stack.as_chunks();
        let stack = words.iter().map(|word| u64::from_ne_bytes(*word)).collect();
        Some(Self { at, stack })
    }
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use super::*;
    use crate::kernel::perf::tests::{bytes, decoded};

    #[test]
    fn a_sample_is_read_and_a_short_one_is_none() {
        let read = |words: &[u64]| Sample::of(&decoded(&event(1, STACK), &bytes(words))?);
        let sample = |at, stack| Some(Sample { at, stack });
        assert_eq!(
            read(&[2, 0x7f00, 0x402, 16, 77, 88, 8]),
            sample(0x402, vec![77])
        );
        assert_eq!(read(&[2, 0x7f00, 0x403, 0]), sample(0x403, vec![]));
        assert_eq!(read(&[2, 0x7f00, 0x401, 16, 77]), None);
        assert_eq!(read(&[0, 0]), None, "a thread of the kernel");
    }

    #[test]
    fn a_thread_that_runs_is_seen() {
        let this = nix::unistd::gettid().as_raw().cast_unsigned();
        let sampler = Sampler::begin(&[this]).unwrap();
        // Run time, so that it is long enough however busy the machine is.
        let run_ns = || {
            let clock = nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID;
            let time = std::time::Duration::from(nix::time::clock_gettime(clock).unwrap());
            u64::try_from(time.as_nanos()).unwrap()
        };
        let begun = run_ns();
        while run_ns() - begun < 10 * PERIOD_NS {
            // In user code, which an ordinary user may sample.
            (0..100_000).for_each(|step| _ = black_box(step));
        }
        let taken = sampler.end();
        assert!(taken.len() >= 5, "{taken:?}");
        let is_full =
            |sample: &Sample| sample.at != 0 && sample.stack.len() == NEAR_STACK as usize / 8;
        assert!(taken.iter().all(|(thread, _)| *thread == this));
        assert!(taken.iter().all(|(_, sample)| is_full(sample)), "{taken:?}");
    }
}
