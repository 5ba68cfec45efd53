//! Recognises records of threads that come after the end of their process.
//!
//! Threads that end together run the program at their ends at the same time. The thread that finds
//! itself the last one reports the end of the process, and the decoder then ends all threads of the
//! process. Another thread may still be sending its own records: it announces itself, reports what
//! barriers held, and ends. Taken for records of a new thread, these would begin with a gap in
//! their numbers, which looks like a loss, and what barriers held would be taken for the target's.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;
use sbt_common::kind;

use super::super::raw::Raw;
use sbt_engine::event::Tid;

/// How long after the end of a process records of its threads may come, ns. A BPF program runs
/// without a break, but a virtual machine may stand still meanwhile.
const KEPT_NS: u64 = 10_000_000_000;

/// How many ended threads and processes are remembered; beyond that the oldest are forgotten.
const MAX_KEPT: usize = 1 << 16;

/// A thread or a process that has ended.
#[derive(Clone, Copy, Debug)]
enum Gone {
    Thread(Tid),
    Process(u32),
}

/// Processes that have ended lately, and the threads that ended with them.
#[derive(Debug, Default)]
pub(super) struct Late {
    /// When each thread ended with its process, ns.
    threads: FxHashMap<Tid, u64>,
    /// When each process ended, ns, by its pid in its own pid namespace.
    processes: FxHashMap<u32, u64>,
    /// All ended threads and processes, the oldest first.
    order: VecDeque<(u64, Gone)>,
}

impl Late {
    /// A process has ended, and these threads with it.
    pub(super) fn end(&mut self, process: u32, threads: &[Tid], time_ns: u64) {
        for tid in threads {
            self.threads.insert(*tid, time_ns);
            self.order.push_back((time_ns, Gone::Thread(*tid)));
        }
        self.processes.insert(process, time_ns);
        self.order.push_back((time_ns, Gone::Process(process)));
        while let Some((ended_ns, gone)) = self.order.front().copied()
            && (time_ns.saturating_sub(ended_ns) > KEPT_NS || self.order.len() > MAX_KEPT)
        {
            self.order.pop_front();
            // The number may have been reused since, and its new owner may have ended, too.
            match gone {
                Gone::Thread(tid) if self.threads.get(&tid) == Some(&ended_ns) => {
                    self.threads.remove(&tid);
                }
                Gone::Process(process) if self.processes.get(&process) == Some(&ended_ns) => {
                    self.processes.remove(&process);
                }
                Gone::Thread(_) | Gone::Process(_) => {}
            }
        }
    }

    /// A process begins: its number no longer means the process that has ended.
    pub(super) fn begin(&mut self, process: u32) {
        self.processes.remove(&process);
    }

    /// Whether a record comes from a thread that has ended with its process. `is_known`: whether a
    /// live thread has this number.
    pub(super) fn is_late(&mut self, raw: &Raw, is_known: impl FnOnce(Tid) -> bool) -> bool {
        if self.order.is_empty() {
            return false;
        }
        let tid = match raw {
            Raw::Thread(record) => {
                let tid = record.head.tid;
                let ended = self.processes.get(&record.ns_tgid).copied();
                // The number may belong to another process by now.
                let is_before = |ended_ns: &u64| (1..=*ended_ns).contains(&record.start_ns);
                if let Some(ended_ns) = ended.filter(is_before) {
                    self.threads.insert(tid, ended_ns);
                    self.order.push_back((ended_ns, Gone::Thread(tid)));
                    return true;
                }
                self.threads.remove(&tid);
                return false;
            }
            Raw::Depart(record) if record.head.kind == kind::EXIT => record.head.tid,
            Raw::Memory(record) => record.head.tid,
            Raw::Counts(record) => record.head.tid,
            Raw::Sums(record) => record.head.tid,
            Raw::Taker(record) => record.head.tid,
            Raw::Away(record) => record.head.tid,
            Raw::Speed(record) => record.head.tid,
            // When a process ends, none of its threads runs the program's own code any more.
            Raw::Arrive(_)
            | Raw::Callers(_)
            | Raw::Condvar(_)
            | Raw::Depart(_)
            | Raw::Init(_)
            | Raw::Make(_)
            | Raw::Made(_)
            | Raw::Mapping(_)
            | Raw::Asleep(_)
            | Raw::Woken(_) => return false,
        };
        self.threads.contains_key(&tid) && !is_known(tid)
    }
}

#[cfg(test)]
mod tests {
    use sbt_common::{Head, Memory, Thread};

    use super::*;

    fn announces(tid: Tid, process: u32, start_ns: u64) -> Raw {
        Raw::Thread(Thread {
            head: Head {
                kind: kind::THREAD,
                tid,
                ..Head::default()
            },
            start_ns,
            ns_tid: tid,
            ns_tgid: process,
            ..Thread::default()
        })
    }

    fn reads(tid: Tid) -> Raw {
        Raw::Memory(Memory {
            head: Head {
                kind: kind::MEMORY,
                tid,
                ..Head::default()
            },
            ..Memory::default()
        })
    }

    #[test]
    fn a_number_that_is_given_again_is_not_late() {
        let mut late = Late::default();
        late.end(6, &[7], 1_000);
        assert!(late.is_late(&reads(7), |_| false));
        assert!(!late.is_late(&reads(8), |_| false));
        assert!(!late.is_late(&reads(7), |_| true));
        // A thread of a process that was forked later.
        assert!(!late.is_late(&announces(7, 9, 900), |_| false));
        assert!(!late.is_late(&reads(7), |_| false));
        // Where forks are not reported with the child's number, the time of birth decides.
        assert!(!late.is_late(&announces(6, 6, 1_001), |_| false));
        late.begin(6);
        assert!(!late.is_late(&announces(6, 6, 900), |_| false));
    }

    #[test]
    fn what_ended_long_ago_is_forgotten() {
        let mut late = Late::default();
        late.end(6, &[7], 1_000);
        late.end(6, &[8], 2_000);
        late.end(9, &[], 1_001 + KEPT_NS);
        assert!(!late.is_late(&reads(7), |_| false));
        // The process ended twice, and the second end is not old yet.
        assert!(late.is_late(&announces(10, 6, 2_000), |_| false));
        late.end(9, &[], 3 * KEPT_NS);
        assert_eq!((late.threads.len(), late.processes.len()), (0, 1));
        assert_eq!(late.order.len(), 1);
    }

    #[test]
    fn a_storm_of_processes_takes_no_more_memory() {
        let mut late = Late::default();
        for process in 0..2 * u32::try_from(MAX_KEPT).unwrap() {
            late.end(process, &[process], 1_000);
        }
        assert_eq!(late.order.len(), MAX_KEPT);
        assert_eq!(late.threads.len() + late.processes.len(), MAX_KEPT);
    }
}
