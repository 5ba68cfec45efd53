//! Samples of running threads, now and then: whether they spin for a lock or a flag.

use std::{collections::HashMap, sync::Mutex};

use super::locked;
use crate::{inspect::sleepers::Sleepers, source::sampler::Sampler};
use sbt_engine::looks::{Tally, ThreadId};
use sbt_program::spin::pieces::Pieces;

/// How long threads are sampled at the beginning, ns, and how long later.
const FIRST_NS: u64 = 300_000_000;
const LATER_NS: u64 = 100_000_000;

/// From the end of one time of sampling to the next, ns.
const PAUSE_NS: u64 = 900_000_000;

/// Samples of running threads.
#[derive(Default)]
pub struct Spins {
    /// The sampler while threads are sampled.
    sampler: Option<Sampler>,
    threads: HashMap<u32, ThreadId>,
    /// Where samples were taken so far.
    pieces: Pieces,
    /// Until when the present state lasts, ns.
    until_ns: u64,
    /// Whether the kernel refuses samples to this user.
    is_refused: bool,
}

impl Spins {
    /// Samples these threads too, and counts what was sampled so far.
    pub fn tick(
        &mut self,
        now_ns: u64,
        threads: &[ThreadId],
        sleepers: &mut Sleepers,
        tally: &Mutex<Tally>,
    ) {
        if self.is_refused {
            return;
        }
        // A thread alone waits for no other.
        if threads.len() < 2 {
            self.sampler = None;
            return;
        }
        if self.sampler.is_none() && now_ns >= self.until_ns {
            let long_ns = if self.until_ns == 0 {
                FIRST_NS
            } else {
                LATER_NS
            };
            self.until_ns = now_ns + long_ns;
            self.sampler = Some(Sampler::default());
        }
        let Some(sampler) = &mut self.sampler else {
            return;
        };
        for who in threads {
            // A thread may have ended; and another user may not be sampled at all.
            if let Err(error) = sampler.add(who.thread) {
                self.is_refused |= error.raw_os_error() != Some(libc::ESRCH);
            }
            self.threads.insert(who.thread, *who);
        }
        for (thread, sample) in sampler.take() {
            let Some(who) = self.threads.get(&thread) else {
                continue;
            };
            let wait = if self.pieces.add(who.process, sample.at) {
                sleepers
                    .spins(who.process, sample.at)
                    .or_else(|| sleepers.gets_lock(who.process, sample.at, &sample.stack))
            } else {
                None
            };
            let mut tally = locked(tally);
            let wait = wait.and_then(|wait| tally.number(wait));
            tally.ran(*who, wait);
        }
        if now_ns >= self.until_ns || self.is_refused {
            self.sampler = None;
            self.threads.clear();
            self.until_ns = now_ns + PAUSE_NS;
        }
    }
}
