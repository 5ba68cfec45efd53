//! Counters of stopped threads: what the kernel keeps of them in /proc, and their perf events.
//! Counters that the stops themselves change are not counted.

use std::{cell::RefCell, collections::HashMap, io};

use sbt_common::{Counts, MAX_EVENTS, Reading, Sums, UNKNOWN, kind};

use super::clocks::now_ns;
use crate::{
    kernel::counting,
    source::twin::{Records, head},
};
use sbt_engine::counters::{Counter, CounterKind, Kept, Plan, Source};
use sbt_program::{process, trace::Id};

/// How these counters are counted with ptrace, and a sentence for each that is not.
pub fn plan(asked: &[Counter]) -> (Plan, Vec<String>) {
    let (mut plan, mut notes) = (Plan::default(), Vec::new());
    let mut events = 0;
    for counter in asked {
        let found = match &counter.what {
            CounterKind::Kept(Kept::ContextSwitches | Kept::Migrations) => {
                Err("each breakpoint would add one; --backend ebpf counts them".to_owned())
            }
            CounterKind::Kept(kept) => Ok(counting::kept_source(*kept)),
            _ if events == MAX_EVENTS => Err(format!(
                "at most {MAX_EVENTS} counters that are not free can be read at a time; leave some \
                 out"
            )),
            // Tried on sbt's own thread: what works there works for a target's thread.
            _ => counting::of_thread(counter, 0).map(|_opened| {
                events += 1;
                Source::Event(events - 1)
            }),
        };
        let source = found.unwrap_or_else(|why| {
            notes.push(format!("{counter} is not counted: {why}"));
            Source::Nowhere
        });
        plan.0.push((counter.clone(), source));
    }
    (plan, notes)
}

/// Reports these counters from now on, and no others. Possible are counters that the kernel keeps
/// anyway, and perf events that were asked for at the start. Returns a sentence for each other one.
pub fn choose(plan: &mut Plan, wanted: &[Counter]) -> Vec<String> {
    let (found, mut notes) = self::plan(wanted);
    let place = |plan: &Plan, counter: &Counter| {
        let mut all = plan.0.iter();
        all.position(|(other, _)| other.name == counter.name)
    };
    for (counter, source) in &mut plan.0 {
        // Perf events that were opened for each thread go on.
        let is_event = matches!(source, Source::Event(_));
        if !is_event && !wanted.iter().any(|other| other.name == counter.name) {
            *source = Source::Nowhere;
        }
    }
    for (counter, source) in found.0 {
        match (source, place(plan, &counter)) {
            (Source::Nowhere, _) => {}
            (Source::Event(_), Some(at)) if matches!(plan.0[at].1, Source::Event(_)) => {}
            (Source::Event(_), _) => notes.push(format!(
                "{counter} is not counted: ptrace takes counters at the start only, -e {counter}"
            )),
            (source, Some(at)) => plan.0[at].1 = source,
            (source, None) => plan.0.push((counter, source)),
        }
    }
    notes
}

/// The perf events of a thread.
#[derive(Debug)]
struct Opened {
    /// By their index in the plan; `None` for an event that could not be opened.
    events: RefCell<Vec<Option<perf_event::Counter>>>,
    since_ns: u64,
    /// Whether the thread had not run before.
    whole: bool,
}

/// Counters of all threads.
#[derive(Debug, Default)]
pub struct Counters {
    plan: Plan,
    threads: HashMap<Id, Opened>,
}

impl Counters {
    /// Counters of this plan, with no threads yet.
    pub fn new(plan: Plan) -> Self {
        Self {
            plan,
            threads: HashMap::new(),
        }
    }

    /// Reports the counters of another plan from now on, with the same perf events.
    pub fn choose(&mut self, plan: Plan) {
        self.plan = plan;
    }

    /// Begins to count a thread. `whole`: whether it has not run yet.
    pub fn begin(&mut self, id: Id, whole: bool) {
        let events = self.plan.0.iter().filter_map(|(counter, source)| {
            let thread = id.cast_unsigned();
            let open = || counting::of_thread(counter, thread).ok();
            matches!(source, Source::Event(_)).then(open)
        });
        let events: Vec<_> = events.collect();
        if !events.is_empty() {
            let since_ns = now_ns();
            let opened = Opened {
                events: RefCell::new(events),
                since_ns,
                whole,
            };
            self.threads.insert(id, opened);
        }
    }

    /// Forgets a thread that has ended.
    pub fn forget(&mut self, id: Id) {
        self.threads.remove(&id);
    }

    /// Emits the counters of a thread (of a process), for the record with number `seq` that
    /// follows.
    pub fn tell(&self, (process, id): (u32, Id), seq: u32, time_ns: u64, out: &mut Records) {
        if self.plan.0.is_empty() {
            return;
        }
        let tid = id.cast_unsigned();
        let kept = process::kept_counts_of(process, tid);
        out.push(&Counts {
            head: head(kind::COUNTS, 0, tid, 0),
            time_ns,
            seq,
            reserved: 0,
            values: kept.map(|value| value.unwrap_or(UNKNOWN)),
        });
        let Some(opened) = self.threads.get(&id) else {
            return;
        };
        let mut events = [Reading::default(); MAX_EVENTS];
        for (to, event) in events.iter_mut().zip(&mut *opened.events.borrow_mut()) {
            let read = event.as_mut().and_then(|event| read(event).ok());
            *to = read.unwrap_or(Reading {
                value: UNKNOWN,
                ..Reading::default()
            });
        }
        out.push(&Sums {
            head: head(kind::SUMS, 0, tid, 0),
            time_ns,
            seq,
            whole: u32::from(opened.whole),
            since_ns: opened.since_ns,
            events,
        });
    }
}

fn read(event: &mut perf_event::Counter) -> io::Result<Reading> {
    let read = event.read_count_and_time()?;
    Ok(Reading {
        value: read.count,
        enabled_ns: read.time_enabled,
        running_ns: read.time_running,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stops_would_change_is_not_counted_and_said_so() {
        let asked = sbt_engine::counters::commas("page-faults,cs,task-clock")
            .unwrap()
            .0;
        let (plan, notes) = plan(&asked);
        let sources: Vec<_> = plan.0.iter().map(|(_, source)| *source).collect();
        assert_eq!(
            sources,
            [Source::Task(0, 2), Source::Nowhere, Source::RunTime]
        );
        assert!(
            notes.len() == 1 && notes[0].starts_with("context-switches is not counted: "),
            "{notes:?}"
        );
    }

    #[test]
    fn a_thread_is_told_of_with_what_the_kernel_keeps_of_it() {
        let asked = sbt_engine::counters::commas("page-faults").unwrap().0;
        let counters = Counters::new(plan(&asked).0);
        let mut out = Records::default();
        let own = nix::unistd::gettid().as_raw();
        // Make one page fault at least.
        let mut room = memmap2::MmapMut::map_anon(4096).unwrap();
        room[0] = 1;
        counters.tell((std::process::id(), own), 3, 7, &mut out);
        let mut told = Vec::new();
        crate::source::twin::each(&out.bytes, |record| told.push(record.to_vec()));
        let counts: Counts = sbt_common::read(&told[0]).unwrap();
        assert_eq!((counts.seq, counts.time_ns, told.len()), (3, 7, 1));
        assert!(counts.values[0] > 0 && counts.values[0] != UNKNOWN);
    }

    #[test]
    fn what_perf_events_have_counted_of_a_thread_is_told_with_its_times() {
        // The kernel never has such a fault on x86, and lets everybody count them in user code.
        let asked = sbt_engine::counters::commas("alignment-faults:u")
            .unwrap()
            .0;
        let (plan, notes) = plan(&asked);
        assert_eq!((plan.0[0].1, notes), (Source::Event(0), vec![]));
        let mut counters = Counters::new(plan);
        let own = nix::unistd::gettid().as_raw();
        counters.begin(own, true);
        let mut out = Records::default();
        counters.tell((std::process::id(), own), 3, 7, &mut out);
        let mut told = Vec::new();
        crate::source::twin::each(&out.bytes, |record| told.push(record.to_vec()));
        let sums: Sums = sbt_common::read(&told[1]).unwrap();
        assert_eq!((sums.seq, sums.time_ns, sums.whole), (3, 7, 1));
        let Reading {
            value,
            enabled_ns,
            running_ns,
        } = sums.events[0];
        assert!(value == 0 && enabled_ns > 0, "{value} {enabled_ns}");
        assert_eq!(enabled_ns, running_ns);
        counters.forget(own);
        out.bytes.clear();
        counters.tell((std::process::id(), own), 4, 8, &mut out);
        let mut kinds = 0;
        crate::source::twin::each(&out.bytes, |_| kinds += 1);
        assert_eq!(kinds, 1, "a thread that is gone has no events");
    }
}
