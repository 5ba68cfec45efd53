//! The time at which the program began and when it ended, by the times of the events themselves:
//! sbt may notice both much later, because it was stopped or had no CPU. Pure.

use std::collections::HashMap;

use sbt_engine::event::{Event, Tid};

/// Events that tell of the life of the target.
#[derive(Debug, Default)]
pub struct Lifetime {
    target: u32,
    /// Threads of the target that were seen and have not ended; `true` for the first one.
    living: HashMap<Tid, bool>,
    /// The first thread has ended.
    first_ended: bool,
    /// The time at which the target executed a program for the first time, ns.
    executed_ns: Option<u64>,
    /// The last moment at which any watched thread did something or ended, ns.
    last_ns: u64,
    /// A thread of the target has ended.
    has_end: bool,
    /// The time of the latest event of any kind, ns.
    seen_ns: u64,
    /// The target had ended, with all its threads, when watching did.
    pub is_over: bool,
}

impl Lifetime {
    /// Nothing has happened yet. `first_ended`: the target goes on without its first thread.
    pub fn new(target: u32, first_ended: bool) -> Self {
        Self {
            target,
            first_ended,
            ..Self::default()
        }
    }

    /// Takes one event in. Returns the time of the target's first exec, in ns, if the event
    /// is that exec.
    pub fn push(&mut self, event: &Event) -> Option<u64> {
        self.seen_ns = self.seen_ns.max(event.time_ns().unwrap_or(0));
        match event {
            Event::Thread { tid, shown, .. } if self.is_target(shown.1) => {
                self.living.insert(*tid, shown.0 == self.target);
            }
            Event::Exit { tid, clocks } => {
                if let Some(is_first) = self.living.remove(tid) {
                    self.first_ended |= is_first;
                    self.has_end = true;
                }
                self.last_ns = self.last_ns.max(clocks.time_ns);
            }
            Event::Arrive { clocks, .. }
            | Event::Awaits { clocks, .. }
            | Event::Depart { clocks, .. }
            | Event::Region { clocks, .. }
            | Event::Mark { clocks, .. } => self.last_ns = self.last_ns.max(clocks.time_ns),
            Event::Exec {
                time_ns, process, ..
            } if self.is_target(*process) => {
                // The other threads have ended. A later event announces the thread that goes on,
                // with its end at the latest.
                self.living.clear();
                self.first_ended = false;
                self.last_ns = self.last_ns.max(*time_ns);
                if self.executed_ns.is_none() {
                    self.executed_ns = Some(*time_ns);
                    return Some(*time_ns);
                }
            }
            _ => {}
        }
        None
    }

    /// Whether a process is the target: 0 stands for a number that the source does not know.
    fn is_target(&self, process: u32) -> bool {
        [0, self.target].contains(&process)
    }

    /// The time of the latest event, ns; 0 before the first one.
    pub const fn seen_ns(&self) -> u64 {
        self.seen_ns
    }

    /// Whether the target was seen to execute a program.
    pub const fn has_begun(&self) -> bool {
        self.executed_ns.is_some()
    }

    /// The time at which the last thread ended, ns, for a target that is known to have ended: a
    /// later time only if other watched processes were still at work then. `lost`: some events
    /// were. `None` if the end was not seen.
    pub fn end_ns(&self, lost: bool) -> Option<u64> {
        // A thread of which all events were lost is not known at all. The first one always is.
        let all_ended = self.living.is_empty() && (self.first_ended || !lost);
        (self.has_end && all_ended).then_some(self.last_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sbt_engine::event::{CallersId, Clocks, Kind};

    const TARGET: u32 = 7;

    fn thread(tid: Tid, process: u32) -> Event {
        Event::Thread {
            tid,
            shown: (tid, process),
            name: String::new(),
            since: Clocks::at(0),
            code_start: None,
        }
    }

    fn exit(tid: Tid, time_ns: u64) -> Event {
        let clocks = Clocks::at(time_ns);
        Event::Exit { tid, clocks }
    }

    fn exec(process: u32, time_ns: u64) -> Event {
        Event::Exec {
            time_ns,
            process,
            space: 0,
            replaced: false,
        }
    }

    fn arrive(tid: Tid, time_ns: u64) -> Event {
        Event::Arrive {
            tid,
            clocks: Clocks::at(time_ns),
            object: 1,
            kind: Kind::Pthread,
            callers: CallersId(0),
        }
    }

    fn after(events: &[Event]) -> Lifetime {
        let mut lifetime = Lifetime::new(TARGET, false);
        for event in events {
            lifetime.push(event);
        }
        lifetime
    }

    #[test]
    fn the_last_thread_ends_the_program() {
        let mut events = vec![thread(7, 7), thread(8, 7), arrive(8, 10), exit(7, 20)];
        assert_eq!(after(&events).end_ns(false), None, "a thread lives");
        events.push(exit(8, 30));
        assert_eq!(after(&events).end_ns(false), Some(30));
        assert_eq!(after(&events).end_ns(true), Some(30));
        assert_eq!(after(&[]).end_ns(false), None);
    }

    #[test]
    fn the_latest_event_counts_whatever_the_order() {
        assert_eq!(after(&[]).seen_ns(), 0);
        let events = [thread(7, 7), arrive(7, 30), arrive(8, 20)];
        assert_eq!(after(&events).seen_ns(), 30);
    }

    #[test]
    fn an_end_that_was_lost_is_not_known() {
        let known = [thread(7, 7), thread(8, 7), exit(8, 20)];
        assert_eq!(after(&known).end_ns(true), None);
        // Nothing was seen of the first thread.
        let unknown = [thread(8, 7), exit(8, 20)];
        assert_eq!(after(&unknown).end_ns(true), None);
        assert_eq!(after(&unknown).end_ns(false), Some(20));
        let mut joined = Lifetime::new(TARGET, true);
        for event in &unknown {
            joined.push(event);
        }
        assert_eq!(joined.end_ns(true), Some(20), "it had ended before");
    }

    #[test]
    fn the_first_exec_begins_the_program() {
        let mut lifetime = Lifetime::new(TARGET, false);
        assert!(!lifetime.has_begun());
        assert_eq!(lifetime.push(&exec(9, 5)), None, "of another process");
        assert_eq!(lifetime.push(&exec(7, 10)), Some(10));
        assert_eq!(lifetime.push(&exec(7, 20)), None);
        assert!(lifetime.has_begun());
    }

    #[test]
    fn an_exec_is_no_end() {
        let mut events = vec![thread(7, 7), thread(8, 7), exit(7, 10), exec(7, 11)];
        assert_eq!(after(&events).end_ns(true), None);
        events.extend([thread(7, 7), exit(7, 30)]);
        assert_eq!(after(&events).end_ns(true), Some(30));
    }

    #[test]
    fn other_processes_that_are_at_work_are_watched_longer() {
        let mut events = vec![thread(7, 7), thread(9, 9), exit(7, 20)];
        assert_eq!(
            after(&events).end_ns(false),
            Some(20),
            "it did nothing more"
        );
        events.push(arrive(9, 25));
        assert_eq!(after(&events).end_ns(false), Some(25));
        events.push(exit(9, 40));
        assert_eq!(after(&events).end_ns(false), Some(40));
    }
}
