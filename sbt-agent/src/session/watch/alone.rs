//! The time of the target's first thread while it is the only thread: before the others begin,
//! while there are none, and after they have ended. Only time that is certain counts.

use std::collections::HashSet;

use sbt_engine::{
    event::{Event, Tid},
    report::{AloneReport, FirstThreadReport},
};
use sbt_program::process;

/// The most readings of the first thread's clock: each takes some 10 µs.
const MOST: u32 = 10_000;

/// A reading of the first thread's clock.
#[derive(Clone, Copy, Debug)]
struct Reading {
    /// The time at which the clock was read, ns of the monotonic clock.
    now_ns: u64,
    /// CPU time of the thread until then, ns.
    ran_ns: u64,
}

/// Follows the first thread.
#[derive(Debug)]
pub struct Alone {
    target: u32,
    /// The other threads that live.
    others: HashSet<Tid>,
    readings: u32,
    /// Since when the first thread is alone, and the first reading after that.
    since: Option<(u64, Option<Reading>)>,
    is_first: bool,
    report: FirstThreadReport,
}

impl Alone {
    /// Begins at the start of watching. `begins`: the target has not begun to run its program.
    pub fn new(target: u32, start_ns: u64, begins: bool) -> Self {
        let first = Reading {
            now_ns: start_ns,
            ran_ns: 0,
        };
        Self {
            target,
            others: HashSet::new(),
            readings: 0,
            since: begins.then_some((start_ns, Some(first))),
            is_first: true,
            report: FirstThreadReport::default(),
        }
    }

    /// Takes one event in. `now_ns`: when that happens.
    pub fn push(&mut self, event: &Event, now_ns: impl Fn() -> u64) {
        match event {
            // A thread that takes another name announces itself again.
            Event::Thread {
                tid, shown, since, ..
            } if self.is_other(*shown) && self.others.insert(*tid) && self.others.len() == 1 => {
                let at = self.read(now_ns());
                self.end(since.time_ns, at);
            }
            Event::Exit { tid, clocks } if self.others.remove(tid) && self.others.is_empty() => {
                self.since = Some((clocks.time_ns, self.read(now_ns())));
            }
            Event::Exec {
                time_ns, process, ..
            } if [0, self.target].contains(process) => {
                self.others.clear();
                let at = self.read(now_ns());
                self.since = Some((*time_ns, at));
                self.is_first = true;
                self.report = FirstThreadReport::default();
            }
            _ => {}
        }
    }

    /// The first thread's times alone until `until_ns`, when watching ended.
    pub fn finish(&mut self, until_ns: u64) -> FirstThreadReport {
        let Some((since_ns, first)) = self.since.take() else {
            return self.report;
        };
        // The thread has ended, or all that it does from now on is not watched.
        let last = self.read(until_ns);
        let wall_ns = until_ns.saturating_sub(since_ns);
        let ran_ns = first.zip(last).map(|(first, last)| {
            last.ran_ns
                .saturating_sub(first.ran_ns)
                .min(until_ns.saturating_sub(first.now_ns))
        });
        self.note(wall_ns, ran_ns, true);
        self.report
    }

    fn is_other(&self, (thread, process): (u32, u32)) -> bool {
        process == self.target && thread != self.target
    }

    /// Another thread began at `until_ns`; `last`: a reading a little later.
    fn end(&mut self, until_ns: u64, last: Option<Reading>) {
        let Some((since_ns, first)) = self.since.take() else {
            return;
        };
        let ran_ns = first.zip(last).map(|(first, last)| {
            // It may have run all the time between the other's beginning and the reading.
            let late_ns = last.now_ns.saturating_sub(until_ns);
            last.ran_ns.saturating_sub(first.ran_ns + late_ns)
        });
        self.note(until_ns.saturating_sub(since_ns), ran_ns, false);
    }

    fn note(&mut self, wall_ns: u64, ran_ns: Option<u64>, is_end: bool) {
        let part = if self.is_first {
            &mut self.report.before
        } else if is_end {
            &mut self.report.after
        } else {
            &mut self.report.between
        };
        let sum = part.get_or_insert(AloneReport::default());
        sum.wall_ns += wall_ns;
        sum.running_ns += ran_ns.unwrap_or(0).min(wall_ns);
        self.is_first = false;
    }

    fn read(&mut self, now_ns: u64) -> Option<Reading> {
        self.readings += 1;
        if self.readings > MOST {
            return None;
        }
        process::thread_time_ns(self.target, self.target).map(|ran_ns| Reading { now_ns, ran_ns })
    }
}
