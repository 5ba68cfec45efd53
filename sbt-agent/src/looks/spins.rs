//! Samples of running threads, now and then: whether they spin for a lock, a flag or a message.

use std::{
    collections::{HashMap, HashSet},
    sync::Mutex,
};

use super::locked;
use crate::{inspect::sleepers::Sleepers, source::sampler::Sampler};
use sbt_engine::looks::{Tally, ThreadId};
use sbt_program::spin::pieces::Pieces;

/// How long threads are sampled at the beginning, ns, and how long later.
const FIRST_NS: u64 = 300_000_000;
const LATER_NS: u64 = 100_000_000;

/// From the end of one time of sampling to the next, ns.
const PAUSE_NS: u64 = 900_000_000;

/// Ranks of MPI begin by finding each other, and spin meanwhile: for so long after the first rank was seen, ns,
/// threads are sampled as at the beginning, with short pauses.
const BEGIN_NS: u64 = 3_000_000_000;
const SHORT_PAUSE_NS: u64 = 200_000_000;

/// A launcher starts the processes that matter a while after itself: each of so many is sampled from its
/// beginning.
const MOST_PROCESSES: usize = 64;

/// Samples of running threads.
#[derive(Default)]
pub struct Spins {
    /// The sampler while threads are sampled.
    sampler: Option<Sampler>,
    /// The sampled threads, by id; and whether their processes use MPI.
    threads: HashMap<u32, (ThreadId, bool)>,
    /// Where samples were taken so far.
    pieces: Pieces,
    /// The processes that were seen so far; at most `MOST_PROCESSES`.
    processes: HashSet<u32>,
    /// When the first rank of MPI was seen, ns.
    ranks_since_ns: Option<u64>,
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
        let mut has_begun = false;
        for who in threads {
            let may_count = self.processes.len() < MOST_PROCESSES;
            has_begun |= may_count && self.processes.insert(who.process);
        }
        if has_begun && self.sampler.is_none() {
            self.until_ns = 0;
        }
        if self.sampler.is_none() && now_ns >= self.until_ns {
            let long_ns = if self.until_ns == 0 || self.do_ranks_begin(now_ns) {
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
            let known = self.threads.entry(who.thread);
            let (_, is_rank) = *known.or_insert_with(|| (*who, sleepers.uses_mpi(who.process)));
            if is_rank {
                self.ranks_since_ns.get_or_insert(now_ns);
            }
            // A thread may have ended; and another user may not be sampled at all.
            if let Err(error) = sampler.add(who.thread, is_rank) {
                self.is_refused |= error.raw_os_error() != Some(libc::ESRCH);
            }
        }
        for (thread, sample) in sampler.take() {
            let Some((who, is_rank)) = self.threads.get(&thread) else {
                continue;
            };
            let is_often = self.pieces.add(who.process, sample.at);
            let spins = is_often.then(|| sleepers.spins(who.process, sample.at));
            let wait = spins.flatten().or_else(|| {
                // A library of MPI looks for messages in many places.
                let may_get = is_often || *is_rank;
                may_get.then(|| sleepers.gets_lock(who.process, sample.at, &sample.stack))?
            });
            let mut tally = locked(tally);
            let wait = wait.and_then(|wait| tally.number(wait));
            tally.ran(*who, wait);
        }
        if now_ns >= self.until_ns || self.is_refused {
            self.sampler = None;
            self.threads.clear();
            let begins = self.do_ranks_begin(now_ns);
            self.until_ns = now_ns + if begins { SHORT_PAUSE_NS } else { PAUSE_NS };
        }
    }

    /// Whether ranks of MPI were first seen not long ago.
    fn do_ranks_begin(&self, now_ns: u64) -> bool {
        let since_ns = self.ranks_since_ns;
        since_ns.is_some_and(|since_ns| now_ns < since_ns + BEGIN_NS)
    }
}
