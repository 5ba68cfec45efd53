//! Turns records of counters into readings, each emitted before the event to which it belongs.
//! Pure.

use std::{collections::HashMap, ops::Range};

use rustc_hash::FxHashMap;
use sbt_common::{Counts, Sums, TASK_COUNTS, UNKNOWN};

use sbt_engine::{
    counters::{Plan, Source},
    event::{Clocks, Count, Event, Reading, Tid},
};

/// What the kernel had counted of one thread when watching began, in the order of
/// [`Counts::values`]. `None` if not known.
pub type Kept = [Option<u64>; TASK_COUNTS];

/// Counts at the start of watching, by the number of the thread in its own pid namespace.
pub type KeptCounts = HashMap<u32, Kept>;

/// What has been reported of a thread's counters.
#[derive(Default)]
struct Thread {
    /// When watching this thread began, and its counts then. `None` once this has been emitted.
    begun: Option<(Clocks, Kept)>,
    /// When watching this thread began, ns. Tells it from a later thread of the same number.
    since_ns: u64,
    counts: Option<Counts>,
    sums: Option<Sums>,
}

/// Puts readings together from the records of counters.
#[derive(Default)]
pub struct Counting {
    plan: Plan,
    start_ns: u64,
    threads: FxHashMap<Tid, Thread>,
}

impl Counting {
    /// For these counters, counted from `start_ns` on.
    pub fn new(plan: Plan, start_ns: u64) -> Self {
        Self {
            plan,
            start_ns,
            threads: FxHashMap::default(),
        }
    }

    /// Counts these counters from now on. Counters of before keep their places in `plan`.
    pub fn choose(&mut self, plan: Plan) {
        self.plan = plan;
    }

    /// Sets the time at which the program that sbt has started begins, ns.
    pub fn begin_at(&mut self, start_ns: u64) {
        self.start_ns = start_ns;
    }

    fn is_off(&self) -> bool {
        self.plan.0.is_empty()
    }

    /// A thread is seen for the first time. `had`: its counts by then; `None` if it began while
    /// watched. A thread that is known already does not begin anew.
    pub fn introduce(&mut self, tid: Tid, since: Clocks, had: Option<Kept>) {
        if self.is_off() {
            return;
        }
        let known = self.threads.get(&tid);
        if known.is_some_and(|thread| thread.since_ns == since.time_ns) {
            return;
        }
        let thread = self.threads.entry(tid).or_default();
        *thread = Thread {
            since_ns: since.time_ns,
            begun: Some((since, had.unwrap_or([Some(0); TASK_COUNTS]))),
            ..Thread::default()
        };
    }

    /// Keeps the kernel's counts of a thread for the record that follows.
    pub fn counts(&mut self, record: &Counts) {
        self.threads.entry(record.head.tid).or_default().counts = Some(*record);
    }

    /// Keeps the sums of perf events of a thread for the record that follows.
    pub fn sums(&mut self, record: &Sums) {
        self.threads.entry(record.head.tid).or_default().sums = Some(*record);
    }

    /// Emits the readings that belong to the record of number `seq`.
    pub fn at(&mut self, tid: Tid, seq: u32, clocks: Clocks, out: &mut Vec<Event>) {
        if self.is_off() {
            return;
        }
        let Some(thread) = self.threads.get_mut(&tid) else {
            return;
        };
        let counts = thread.counts.take().filter(|counts| counts.seq == seq);
        let sums = thread.sums.take().filter(|sums| sums.seq == seq);
        if counts.is_none() && sums.is_none() {
            return;
        }
        let told = |clocks: Clocks, reading| Event::Counters {
            tid,
            time_ns: clocks.time_ns,
            reading,
        };
        if let Some((since, had)) = thread.begun.take() {
            // Nothing was counted before the thread, or watching it, began.
            let since_ns = sums
                .filter(|sums| sums.whole != 0 && sums.since_ns >= begin_ns(self.start_ns, since))
                .map(|sums| sums.since_ns);
            let reading = self.plan.0.iter().map(|(_, source)| match source {
                Source::RunTime => since.run_ns.map(always),
                Source::Task(from, to) => sum(*from..*to, |at| had[at]),
                Source::Event(_) => since_ns.map(|since_ns| Count {
                    since_ns,
                    ..Count::default()
                }),
                Source::Nowhere => None,
            });
            out.push(told(since, reading.collect()));
        }
        let known = |value: u64| (value != UNKNOWN).then_some(value);
        let reading: Reading = self
            .plan
            .0
            .iter()
            .map(|(_, source)| match source {
                Source::RunTime => clocks.run_ns.map(always),
                Source::Task(from, to) => {
                    let counts = counts?;
                    sum(*from..*to, |at| known(counts.values[at]))
                }
                Source::Event(at) => {
                    let sums = sums?;
                    // A counter chosen a moment ago is in no record sent before.
                    let event = sums.events.get(*at).filter(|event| event.enabled_ns > 0)?;
                    Some(Count {
                        value: known(event.value)?,
                        enabled_ns: event.enabled_ns,
                        running_ns: event.running_ns,
                        since_ns: sums.since_ns,
                    })
                }
                Source::Nowhere => None,
            })
            .collect();
        out.push(told(clocks, reading));
    }

    /// Forgets a thread that has ended.
    pub fn forget(&mut self, tid: Tid) {
        self.threads.remove(&tid);
    }

    /// Forgets threads that may have ended unseen: all for which `lives` is false.
    pub fn retain(&mut self, lives: impl Fn(Tid) -> bool) {
        self.threads.retain(|tid, _| lives(*tid));
    }
}

/// From which time on perf events must have counted to cover all of a thread, ns: from its birth,
/// or 0 for a thread older than watching, since the program was attached a moment before the start.
fn begin_ns(start_ns: u64, since: Clocks) -> u64 {
    if since.time_ns > start_ns {
        since.time_ns
    } else {
        0
    }
}

/// The value of a counter that counts all the time.
fn always(value: u64) -> Count {
    Count {
        value,
        ..Count::default()
    }
}

fn sum(mut which: Range<usize>, value: impl Fn(usize) -> Option<u64>) -> Option<Count> {
    let sum = which.try_fold(0_u64, |sum, at| Some(sum.saturating_add(value(at)?)));
    sum.map(always)
}

#[cfg(test)]
mod tests {
    use sbt_common::{Head, Reading as Raw};

    use super::*;
    use sbt_engine::counters;

    fn plan(names: &str, sources: &[Source]) -> Plan {
        let all = counters::commas(names).unwrap().0;
        Plan(all.into_iter().zip(sources.iter().copied()).collect())
    }

    fn counts(seq: u32, values: [u64; TASK_COUNTS]) -> Counts {
        Counts {
            head: Head {
                tid: 7,
                ..Head::default()
            },
            seq,
            values,
            ..Counts::default()
        }
    }

    fn values(event: &Event) -> (u64, Vec<Option<u64>>) {
        match event {
            Event::Counters {
                time_ns, reading, ..
            } => {
                let values = reading.iter().map(|count| count.map(|count| count.value));
                (*time_ns, values.collect())
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_reading_belongs_to_the_record_of_its_number() {
        let sources = [Source::Task(0, 2), Source::RunTime, Source::Nowhere];
        let plan = plan("page-faults,task-clock,cycles", &sources);
        let mut counting = Counting::new(plan, 100);
        let mut out = Vec::new();
        counting.introduce(7, Clocks::at(100), Some([Some(3), None, None, None, None]));
        counting.counts(&counts(0, [5, 1, 0, 0, 0]));
        let clocks = Clocks {
            run_ns: Some(40),
            ..Clocks::at(200)
        };
        counting.at(7, 0, clocks, &mut out);
        // A reading is used once; the reading of a lost record is dropped.
        counting.at(7, 1, Clocks::at(300), &mut out);
        counting.counts(&counts(2, [9, 1, 0, 0, 0]));
        counting.at(7, 3, Clocks::at(400), &mut out);
        counting.counts(&counts(4, [9, UNKNOWN, 0, 0, 0]));
        counting.at(7, 4, Clocks::at(500), &mut out);
        let told: Vec<_> = out.iter().map(values).collect();
        assert_eq!(
            told,
            [
                // Unknown, because the counts from before are known in part only.
                (100, vec![None, None, None]),
                (200, vec![Some(6), Some(40), None]),
                (500, vec![None, None, None]),
            ]
        );
    }

    #[test]
    fn a_thread_that_is_born_begins_at_zero() {
        let sources = [Source::Event(1)];
        let mut sums = Sums {
            head: Head {
                tid: 7,
                ..Head::default()
            },
            whole: 1,
            since_ns: 150,
            ..Sums::default()
        };
        sums.events[1] = Raw {
            value: 12,
            enabled_ns: 4,
            running_ns: 2,
        };
        for (born_ns, whole, begun) in [(149, 1, Some(0)), (149, 0, None), (151, 1, None)] {
            let mut counting = Counting::new(plan("msr/tsc/", &sources), 100);
            let mut out = Vec::new();
            counting.introduce(7, Clocks::at(born_ns), None);
            counting.sums(&Sums { whole, ..sums });
            counting.at(7, 0, Clocks::at(200), &mut out);
            assert_eq!(values(&out[0]), (born_ns, vec![begun]));
            assert_eq!(values(&out[1]), (200, vec![Some(12)]));
        }
    }

    #[test]
    fn a_thread_that_announces_itself_again_does_not_begin_anew() {
        let mut counting = Counting::new(plan("minor-faults", &[Source::Task(0, 1)]), 100);
        let mut out = Vec::new();
        for (born_ns, seq) in [(150, 0), (150, 0), (180, 0)] {
            counting.introduce(7, Clocks::at(born_ns), None);
            counting.counts(&counts(seq, [5; TASK_COUNTS]));
            counting.at(7, seq, Clocks::at(200), &mut out);
        }
        let times: Vec<_> = out.iter().map(|event| values(event).0).collect();
        // A later thread with the same number does begin anew.
        assert_eq!(times, [150, 200, 200, 180, 200]);
    }

    #[test]
    fn without_counters_nothing_is_kept() {
        let mut counting = Counting::default();
        counting.introduce(7, Clocks::at(1), None);
        let mut out = Vec::new();
        counting.at(7, 0, Clocks::at(2), &mut out);
        assert!(out.is_empty() && counting.threads.is_empty());
    }
}
