//! Reads the kernel's account of how long threads were ready, and follows their switches for it: see
//! [`Ready`].

use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, getrlimit};
use sbt_common::{Clocks, UNKNOWN};

use super::Watch;
use crate::source::{
    inject::ready::Ready,
    perf::{
        record::{Record, ThreadEvent},
        run::Run,
    },
};
use sbt_program::clock;

/// The pause between two rounds is so long for each thread. Reading takes 1 or 2 µs, so this costs some
/// 3 % of a CPU at most.
const PAUSE_EACH: Duration = Duration::from_micros(50);

/// The most threads that are read. With more, ready times are unknown.
const MOST_THREADS: usize = 512;

/// Each thread that is read has a file open. They may be one in so many of those that sbt may open.
const PART_OF_FILES: u64 = 64;

/// The fewest threads that are read, however few files sbt may open.
const FEWEST_THREADS: u64 = 16;

/// How long reading a thread takes at most, ns: if it took longer, sbt itself lacked a CPU meanwhile,
/// and it is not known when the kernel gave the value.
const AT_ONCE_NS: u64 = 50_000;

/// How often a thread is read until that has not taken too long.
const TRIES: u32 = 3;

impl Watch {
    /// Follows the switches of threads.
    pub(super) fn follow(&mut self, record: &Record) {
        let Some(ready) = &mut self.ready else {
            return;
        };
        let tid = record.thread;
        let is_before = record.time_ns < self.begun_ns;
        // Earlier times are in the baseline.
        let time_ns = record.time_ns.max(self.begun_ns);
        match record.what {
            ThreadEvent::Started { process, thread }
                if process == self.target && !(is_before && ready.knows(thread)) =>
            {
                ready.begins(thread, time_ns);
            }
            ThreadEvent::Switched { on: true, .. } => ready.gets_cpu(tid, time_ns),
            ThreadEvent::Switched { preempted, .. } => ready.loses_cpu(tid, preempted, time_ns),
            ThreadEvent::Lost(_) if record.among_hits => ready.lose(time_ns),
            ThreadEvent::Named { executed: true, .. } if record.process == self.target => {
                // Another thread may go on under the number of the first.
                ready.forget_others(tid);
                ready.lose(time_ns);
            }
            _ => {}
        }
    }

    /// Reads how long threads were ready, if that is due. All switches before `told_ns` are told. Returns
    /// the time, ns, up to which it is settled how long threads were ready; `None` if nothing has to
    /// wait for that.
    pub(super) fn read_delays(&mut self, told_ns: u64, last: bool) -> Option<u64> {
        let ready = self.ready.as_mut()?;
        let threads = ready.threads();
        if threads.len() > most_threads() {
            ready.lose(told_ns);
            self.usage.close();
            return None;
        }
        let pause = PAUSE_EACH.saturating_mul(u32::try_from(threads.len()).unwrap_or(u32::MAX));
        if last || self.delays_read.elapsed() >= pause {
            self.delays_read = Instant::now();
            let begin_ns = clock::now_ns();
            for tid in threads {
                let mut is_read = false;
                let at_once = (0..TRIES).find_map(|_| {
                    let before_ns = clock::now_ns();
                    let clocks = self.usage.at(self.target, tid.cast_signed(), before_ns);
                    // A kernel that does not account for it says that threads have never run.
                    is_read |= clocks.delay_ns != UNKNOWN && clocks.run_ns > 0;
                    let took_ns = clock::now_ns().saturating_sub(before_ns);
                    (took_ns <= AT_ONCE_NS).then_some(clocks)
                });
                match at_once {
                    _ if !is_read => self.usage.forget(tid.cast_signed()),
                    Some(clocks) => ready.read(tid, clocks.time_ns, clocks.delay_ns),
                    // Of which moment the reading is is not known.
                    None => {}
                }
            }
            ready.has_read(begin_ns, clock::now_ns());
        }
        self.ready_until_ns = self.ready_until_ns.max(ready.settle(told_ns));
        Some(self.ready_until_ns)
    }
}

/// The most threads of which a file may stay open.
fn most_threads() -> usize {
    let files = getrlimit(Resource::RLIMIT_NOFILE).map_or(0, |(files, _)| files);
    let most = (files / PART_OF_FILES).max(FEWEST_THREADS);
    usize::try_from(most).map_or(MOST_THREADS, |most| most.min(MOST_THREADS))
}

/// The clocks of a record.
pub(super) fn clocks(ready: &mut Option<Ready>, tid: u32, run: &Run, time_ns: u64) -> Clocks {
    let ready = ready.as_mut().and_then(|ready| ready.at(tid, time_ns));
    Clocks {
        time_ns,
        run_ns: run.at(time_ns),
        delay_ns: ready.unwrap_or(UNKNOWN),
    }
}
