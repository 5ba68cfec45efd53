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
    /// By counter of the plan: since when it is counted, ns; 0 of what was asked for at the start.
    chosen_ns: Vec<u64>,
    start_ns: u64,
    /// At the start sbt's own program began: there was nothing to count before.
    is_first_exec: bool,
    threads: FxHashMap<Tid, Thread>,
}

impl Counting {
    /// For these counters, counted from `start_ns` on.
    pub fn new(plan: Plan, start_ns: u64) -> Self {
        Self {
            chosen_ns: vec![0; plan.0.len()],
            plan,
            start_ns,
            is_first_exec: false,
            threads: FxHashMap::default(),
        }
    }

    /// Counts these counters from `now_ns` on. Counters of before keep their places in `plan`.
    pub fn choose(&mut self, plan: Plan, now_ns: u64) {
        let was = &self.plan.0;
        let is_new = |at: usize| was.get(at).is_none_or(|(_, was)| *was == Source::Nowhere);
        self.chosen_ns.resize(plan.0.len(), now_ns);
        for (at, chosen_ns) in self.chosen_ns.iter_mut().enumerate() {
            if is_new(at) {
                *chosen_ns = now_ns;
            }
        }
        self.plan = plan;
    }

    /// Sets the time at which the program that sbt has started begins, ns.
    pub fn begin_at(&mut self, start_ns: u64) {
        self.start_ns = start_ns;
        self.is_first_exec = true;
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
            // The first sum is what the thread did from this moment on, if counting began no
            // earlier, and before the thread ran.
            let is_start = self.is_first_exec && since.time_ns == self.start_ns;
            let since_ns = sums
                .filter(|sums| sums.whole != 0 && (is_start || sums.since_ns >= since.time_ns))
                .map(|sums| sums.since_ns);
            let counted = self.plan.0.iter().zip(&self.chosen_ns);
            let reading = counted.map(|((_, source), chosen_ns)| match source {
                Source::RunTime => since.run_ns.map(always),
                Source::Task(from, to) => sum(*from..*to, |at| had[at]),
                Source::Event(_) => {
                    let since_ns = since_ns.filter(|_| *chosen_ns <= since.time_ns);
                    since_ns.map(|since_ns| Count {
                        since_ns,
                        ..Count::default()
                    })
                }
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

    /// What a thread has counted since 150 ns.
    fn sums(whole: u32) -> Sums {
        let mut sums = Sums {
            head: Head {
                tid: 7,
                ..Head::default()
            },
            whole,
            since_ns: 150,
            ..Sums::default()
        };
        sums.events[1] = Raw {
            value: 12,
            enabled_ns: 4,
            running_ns: 2,
        };
        sums
    }

    /// What such a thread had counted when it was first there.
    fn had(mut counting: Counting, since_ns: u64, whole: u32) -> Option<u64> {
        let mut out = Vec::new();
        counting.introduce(7, Clocks::at(since_ns), None);
        counting.sums(&sums(whole));
        counting.at(7, 0, Clocks::at(200), &mut out);
        assert_eq!(values(&out[1]), (200, vec![Some(12)]));
        let (time_ns, had) = values(&out[0]);
        assert_eq!((time_ns, had.len()), (since_ns, 1));
        had[0]
    }

    fn ticks(start_ns: u64) -> Counting {
        Counting::new(plan("msr/tsc/", &[Source::Event(1)]), start_ns)
    }

    #[test]
    fn a_thread_that_is_born_begins_at_zero() {
        for (born_ns, whole, begun) in [(149, 1, Some(0)), (149, 0, None), (151, 1, None)] {
            assert_eq!(had(ticks(100), born_ns, whole), begun, "{born_ns} {whole}");
        }
    }

    /// The programs are attached a moment before watching begins: what a thread counted in that
    /// time is in its first sum.
    #[test]
    fn what_was_counted_before_watching_began_is_not_in_the_first_interval() {
        for (start_ns, begun) in [(149, Some(0)), (150, Some(0)), (151, None)] {
            assert_eq!(had(ticks(start_ns), start_ns, 1), begun, "{start_ns}");
        }
        // A program that sbt starts does nothing before its first exec.
        let mut counting = ticks(100);
        counting.begin_at(160);
        assert_eq!(had(counting, 160, 1), Some(0));
        // Of a thread that is born later, that says nothing.
        let mut counting = ticks(100);
        counting.begin_at(140);
        assert_eq!(had(counting, 160, 1), None);
    }

    #[test]
    fn what_a_thread_did_before_a_counter_was_chosen_is_not_in_the_first_interval() {
        for (born_ns, begun) in [(120, None), (130, Some(0))] {
            let mut counting = Counting::new(plan("msr/tsc/", &[Source::Nowhere]), 100);
            counting.choose(plan("msr/tsc/", &[Source::Event(1)]), 130);
            // Chosen a second time, it is counted as before.
            counting.choose(plan("msr/tsc/", &[Source::Event(1)]), 190);
            assert_eq!(had(counting, born_ns, 1), begun, "{born_ns}");
        }
        let mut counting = Counting::new(Plan::default(), 100);
        counting.choose(plan("msr/tsc/", &[Source::Event(1)]), 130);
        assert_eq!(had(counting, 120, 1), None);
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
