//! Records of switches → what threads did while they were on no CPU. Pure.

use rustc_hash::FxHashMap;
use sbt_common::{Taker as Record, UNKNOWN, how, taker};

use super::calls;
use sbt_engine::event::{Away, Event, Reason, Taken, Taker, Tid, Why};

/// Names of takers that come before one return of a thread, at most: the kernel side
/// sends two.
const MAX_TAKERS: usize = 4;

/// Threads that are kept apart.
const MAX_THREADS: usize = 1 << 16;

/// What has been heard of a thread.
#[derive(Default)]
struct Thread {
    /// The number of its next record.
    seq: u32,
    /// Before the return of that number.
    takers: Vec<(u32, Taken)>,
}

/// Puts them together.
#[derive(Default)]
pub struct Switches {
    threads: FxHashMap<Tid, Thread>,
}

impl Switches {
    fn thread(&mut self, tid: Tid) -> &mut Thread {
        // Those that came back once more after their end stay behind. To forget the others
        // too makes one return of each unsure.
        if self.threads.len() >= MAX_THREADS && !self.threads.contains_key(&tid) {
            self.threads.clear();
        }
        self.threads.entry(tid).or_default()
    }

    /// Who ran while a thread was ready, which is about to come back.
    pub fn taker(&mut self, record: &Record) {
        let by = match record.head.layout {
            taker::OWN => Taker::Own,
            taker::KERNEL => Taker::Kernel,
            taker::NOBODY => Taker::Nobody,
            _ => Taker::Other,
        };
        let thread = self.thread(record.head.tid);
        // Of returns that were lost.
        thread.takers.retain(|(seq, _)| *seq == record.seq);
        if thread.takers.len() < MAX_TAKERS {
            let taken = Taken {
                by,
                process: record.process,
                name: super::decode::name(record.comm).into(),
                ns: record.took_ns,
            };
            thread.takers.push((record.seq, taken));
        }
    }

    /// It comes back.
    pub fn back(&mut self, record: &sbt_common::Away, out: &mut Vec<Event>) {
        let thread = self.thread(record.head.tid);
        let seq = record.seq;
        let from_ns = (record.left_ns != 0).then_some(record.left_ns);
        // At 0 it begins anew: nothing was to be seen of it before.
        let seamless = seq == 0 || seq == thread.seq && from_ns.is_some();
        thread.seq = seq.wrapping_add(1);
        let takers = thread.takers.drain(..);
        let takers = takers.filter_map(|(of, taken)| (of == seq).then_some(taken));
        let takers: Box<[Taken]> = takers.collect();
        let why = match record.head.layout {
            how::READY => Why::Ready,
            how::ASLEEP => Why::Asleep(calls::reason(record.head.detail)),
            // Of anything but files the kernel does not say that.
            how::IO => Why::Asleep(Reason::File),
            how::FAULT => Why::Asleep(Reason::Fault),
            how::STOPPED => Why::Asleep(Reason::Stopped),
            _ => Why::Asleep(Reason::Other),
        };
        let whole_ns = from_ns.map_or(u64::MAX, |from| record.time_ns.saturating_sub(from));
        let ready_ns = match (why, record.ready_ns) {
            (Why::Ready, _) => whole_ns,
            (Why::Asleep(_), UNKNOWN) => 0,
            (Why::Asleep(_), ready_ns) => ready_ns.min(whole_ns),
        };
        out.push(Event::Away {
            tid: record.head.tid,
            away: Away {
                from_ns,
                until_ns: record.time_ns,
                ready_ns,
                why,
                seamless,
            },
            takers,
        });
    }

    /// Of threads that may have ended unseen, only these are left.
    pub fn retain(&mut self, lives: impl Fn(Tid) -> bool) {
        self.threads.retain(|tid, _| lives(*tid));
    }

    /// A thread has ended.
    pub fn forget(&mut self, tid: Tid) {
        self.threads.remove(&tid);
    }
}

#[cfg(test)]
#[path = "switches_tests.rs"]
mod tests;
