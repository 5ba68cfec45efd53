//! Turns records of switches into events: what threads did while they were on no CPU. Pure.

use rustc_hash::FxHashMap;
use sbt_common::{Taker as Record, UNKNOWN, how, taker};

use super::calls;
use sbt_engine::event::{Away, Event, LeftCpu, Reason, Taken, Taker, Tid};

/// How many takers one return of a thread names at most. The kernel side sends two.
const MAX_TAKERS: usize = 4;

/// How many threads are remembered. At the limit all are forgotten.
const MAX_THREADS: usize = 1 << 16;

/// What the records have told of a thread.
#[derive(Default)]
struct Thread {
    /// The sequence number that the thread's next return should have.
    seq: u32,
    /// Takers of the CPU, each with the number of the return to which it belongs.
    takers: Vec<(u32, Taken)>,
}

/// Puts the records of each thread together.
#[derive(Default)]
pub struct Switches {
    threads: FxHashMap<Tid, Thread>,
}

impl Switches {
    fn thread(&mut self, tid: Tid) -> &mut Thread {
        // Threads that came back once more after their end stay behind here. After forgetting all
        // threads, each one's next return is not known to be seamless.
        if self.threads.len() >= MAX_THREADS && !self.threads.contains_key(&tid) {
            self.threads.clear();
        }
        self.threads.entry(tid).or_default()
    }

    /// Keeps who ran while this thread was ready; the record of the thread's return follows.
    pub fn taker(&mut self, record: &Record) {
        let by = match record.head.layout {
            taker::OWN => Taker::Own,
            taker::KERNEL => Taker::Kernel,
            taker::NOBODY => Taker::Nobody,
            _ => Taker::Other,
        };
        let thread = self.thread(record.head.tid);
        // Takers of returns that were lost are dropped.
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

    /// The thread is back on a CPU: emits where it was.
    pub fn back(&mut self, record: &sbt_common::Away, out: &mut Vec<Event>) {
        let thread = self.thread(record.head.tid);
        let seq = record.seq;
        let from_ns = (record.left_ns != 0).then_some(record.left_ns);
        // Number 0 is a thread's first return: nothing before it could be lost.
        let seamless = seq == 0 || seq == thread.seq && from_ns.is_some();
        thread.seq = seq.wrapping_add(1);
        let takers = thread.takers.drain(..);
        let takers = takers.filter_map(|(of, taken)| (of == seq).then_some(taken));
        let takers: Box<[Taken]> = takers.collect();
        let why = match record.head.layout {
            how::READY => LeftCpu::Ready,
            how::ASLEEP => LeftCpu::Asleep(calls::reason(record.head.detail)),
            // The kernel sets this for files only.
            how::IO => LeftCpu::Asleep(Reason::File),
            how::FAULT => LeftCpu::Asleep(Reason::Fault),
            how::STOPPED => LeftCpu::Asleep(Reason::Stopped),
            _ => LeftCpu::Asleep(Reason::Other),
        };
        let whole_ns = from_ns.map_or(u64::MAX, |from| record.time_ns.saturating_sub(from));
        let ready_ns = match (why, record.ready_ns) {
            (LeftCpu::Ready, _) => whole_ns,
            (LeftCpu::Asleep(_), UNKNOWN) => 0,
            (LeftCpu::Asleep(_), ready_ns) => ready_ns.min(whole_ns),
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

    /// Forgets threads that may have ended unseen: all for which `lives` is false.
    pub fn retain(&mut self, lives: impl Fn(Tid) -> bool) {
        self.threads.retain(|tid, _| lives(*tid));
    }

    /// Forgets a thread that has ended.
    pub fn forget(&mut self, tid: Tid) {
        self.threads.remove(&tid);
    }
}

#[cfg(test)]
#[path = "switches_tests.rs"]
mod tests;
