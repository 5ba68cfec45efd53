//! The known threads and processes of the target, and the watched places in their memories. Turns
//! the kernel's records into the records that programs make of hits.

use std::{
    collections::{BTreeSet, HashMap},
    io,
    sync::{Arc, Mutex},
    time::Duration,
};

use sbt_common::{Clocks, UNKNOWN, kind};

mod lives;
mod placing;

use super::{
    events::Events,
    explained,
    place::Missed,
    record::{Record, Sample, ThreadEvent},
    run::Run,
    space::{Sampled, Shared, Space},
};
use crate::source::{
    BATCH, Baselines, Files,
    abilities::{Callers, Condvars},
    load::LATE,
    polled::{Look, Polled, Polling, lock},
    ptrace::{
        clocks::told,
        stop::{Stop, StopReason},
    },
    twin::{self, Announcement, Hit, Programs, Records, Slot},
};
use sbt_program::{arch::Registers, clock, files::ProbedFile, process};

/// Pause between two looks at the rings, for a program that has just begun and for later. Short,
/// because memory must be read soon; not shorter, because each look costs.
const SOON: Duration = Duration::from_millis(5);
const LATER: Duration = Duration::from_millis(20);

/// After how many looks the pause becomes longer.
const FIRST: u32 = 200;

/// Stands for an address in events of lives.
const LIFE: u64 = 0;
/// Stands for an address in events of switches.
const SWITCHES: u64 = 1;

/// How many rounds to look for new threads: those that begin while events of lives are opened have
/// inherited them by then.
const ROUNDS: usize = 16;

/// How long a fork may take, ns; mostly it takes much less. Events put on meanwhile may or may not
/// be inherited.
const FORK_NS: u64 = 10_000_000;

/// The subject of an event (an address, [`LIFE`] or [`SWITCHES`]), and its CPU.
type EventKey = (u64, u32);

struct Thread {
    slot: Slot,
    run: Run,
    /// The event that reports each address on each CPU. A thread that began while events were
    /// opened may have two, of which only the first counts.
    tellers: Vec<(EventKey, u64)>,
    /// Whether it has executed a program, and nothing else was heard of it since.
    is_within_exec: bool,
}

impl Thread {
    fn is_told_by(&mut self, of: EventKey, event: u64) -> bool {
        let known = self.tellers.iter().find(|(other, _)| *other == of);
        if let Some((_, teller)) = known {
            return *teller == event;
        }
        self.tellers.push((of, event));
        true
    }
}

/// The state of watching one target.
pub struct Watch {
    target: u32,
    children: bool,
    /// `None` once watching has ended.
    events: Option<Events>,
    /// Events of lives by process; forked processes share them.
    lives: HashMap<u32, Shared>,
    files: Files,
    condvars: bool,
    paused: bool,
    programs: Programs,
    threads: HashMap<u32, Thread>,
    spaces: HashMap<u32, Space>,
    last_space: u32,
    /// A process that is held when it executes its program.
    held: Option<u32>,
    /// The time at which watching began, ns.
    begun_ns: u64,
    /// Processes that may have inherited only some events.
    partial: BTreeSet<u32>,
    /// Records that programs made of hits.
    out: Records,
    /// Records for which the kernel found no room.
    lost: u64,
    /// Sentences for the user.
    notes: Vec<String>,
    /// Wanted groups for which some process had no room.
    missed: Missed,
    /// Processes that have executed a program and are not followed yet.
    executed: Vec<u32>,
    /// How often the rings were looked at.
    looks: u32,
}

impl Watch {
    /// For a process, with nothing watched yet.
    pub fn new(target: u32, events: Events, children: bool) -> Self {
        Self {
            target,
            children,
            events: Some(events),
            lives: HashMap::new(),
            files: Files::default(),
            condvars: true,
            // Until `begin`, since nobody takes events before.
            paused: true,
            programs: Programs::reading_late(),
            threads: HashMap::new(),
            spaces: HashMap::new(),
            last_space: 0,
            held: None,
            begun_ns: 0,
            partial: BTreeSet::new(),
            out: Records::default(),
            lost: 0,
            notes: Vec::new(),
            missed: Missed::default(),
            executed: Vec::new(),
            looks: 0,
        }
    }

    /// Adds and removes rules that find callers.
    pub fn learn(&mut self, changes: &[(sbt_common::Code, Option<sbt_common::Rule>)]) {
        self.programs.walks.learn(changes.iter().copied());
    }

    /// Takes what has happened, and watches newly mapped code. `all`: see [`Events::take`].
    fn listen(&mut self, all: bool) {
        let records = self.events.as_mut().map(|events| events.take(all));
        let mut changed = BTreeSet::new();
        for record in records.into_iter().flatten() {
            self.hear(record, &mut changed);
        }
        changed.extend(&self.partial);
        for process in changed {
            self.try_to_place(process);
        }
        self.partial.clear();
    }

    fn next_space(&mut self) -> u32 {
        self.last_space += 1;
        self.last_space
    }

    fn new_space(&mut self, process: u32, since_ns: u64) {
        let number = self.next_space();
        let space = Space::new(number, since_ns);
        self.spaces.insert(process, space);
        self.programs.walks.renew();
        for thread in self.threads.values_mut() {
            if thread.slot.process == process {
                thread.slot.space = number;
            }
        }
    }

    fn enlist(&mut self, tid: u32, process: u32, space: u32, (born_ns, run): (u64, Run)) {
        let thread = Thread {
            slot: Slot::new((process, tid, space), born_ns, told),
            run,
            tellers: Vec::new(),
            is_within_exec: false,
        };
        self.threads.insert(tid, thread);
    }

    fn hear(&mut self, record: Record, changed: &mut BTreeSet<u32>) {
        if let ThreadEvent::Lost(count) = record.what {
            return self.lose(count);
        }
        let Record {
            time_ns,
            process,
            thread: tid,
            cpu,
            event,
            what,
            among_hits: _,
        } = record;
        if process == 0 || tid == 0 {
            // The thread has ended meanwhile, or is in another pid namespace.
            return;
        }
        if let ThreadEvent::Hit(sample) = &what {
            self.adopt(process, sample.registers.at());
        }
        let number = self.spaces.get(&process).map_or(0, |space| space.number);
        let known = self.threads.get(&tid);
        if known.is_none_or(|thread| thread.slot.process != process) {
            if matches!(what, ThreadEvent::Ended | ThreadEvent::Switched { .. }) {
                return;
            }
            // Its beginning was lost, and with it the end of the thread that had the number before.
            self.enlist(tid, process, number, (0, Run::UNKNOWN));
        }
        let Some(thread) = self.threads.get_mut(&tid) else {
            return;
        };
        let of = match &what {
            ThreadEvent::Hit(sample) => sample.registers.at(),
            ThreadEvent::Switched { .. } => SWITCHES,
            _ => LIFE,
        };
        let is_watched = |space: &Space| space.watches(of, time_ns);
        if let ThreadEvent::Hit(_) = &what
            && !self.spaces.get(&process).is_some_and(is_watched)
        {
            // The address is no longer watched.
            return;
        }
        if !thread.is_told_by((of, cpu), event) {
            return;
        }
        let was_within_exec = thread.is_within_exec;
        if !matches!(what, ThreadEvent::Switched { .. }) {
            thread.is_within_exec = matches!(what, ThreadEvent::Named { executed: true, .. });
        }
        match what {
            ThreadEvent::Hit(sample) => self.hit(tid, time_ns, &sample),
            // Earlier run time is in the baseline.
            ThreadEvent::Switched { on, .. } => thread.run.switch(on, time_ns.max(self.begun_ns)),
            ThreadEvent::Started { process, thread } => {
                self.started(tid, (process, thread), time_ns);
            }
            ThreadEvent::Ended => {
                if !self.goes_on(tid, process, time_ns, was_within_exec) {
                    self.ended(tid, time_ns);
                }
            }
            ThreadEvent::Named { comm, executed } => {
                thread.slot.known.comm = comm;
                if executed {
                    self.executed(tid, time_ns);
                }
            }
            ThreadEvent::Mapped => {
                if changed.insert(process) {
                    self.programs.walks.renew();
                    let (slot, now) = (&thread.slot, now(&thread.run, time_ns));
                    twin::tell_mapping(kind::MAPPED, false, 0, slot, now, &mut self.out);
                }
            }
            ThreadEvent::Lost(_) => {}
        }
    }

    /// Counts lost records. Any thread may have lost them.
    fn lose(&mut self, count: u64) {
        if count == 0 {
            return;
        }
        self.lost += count;
        for thread in self.threads.values_mut() {
            thread.slot.miss(1);
            thread.run = Run::UNKNOWN;
        }
    }

    fn hit(&mut self, tid: u32, time_ns: u64, sample: &Sample) {
        let Some(thread) = self.threads.get_mut(&tid) else {
            return;
        };
        let space = self.spaces.get(&thread.slot.process);
        let hits = space.and_then(|space| space.points.get(&sample.registers.at()));
        let machine = Sampled {
            sample,
            threads: [tid, thread.slot.process],
        };
        let now = now(&thread.run, time_ns);
        for hit in hits.into_iter().flatten() {
            let how = &mut Hit {
                machine: &machine,
                slot: &mut thread.slot,
                now,
                out: &mut self.out,
            };
            self.programs.run(*hit, how);
        }
    }

    fn started(&mut self, by: u32, (process, tid): (u32, u32), time_ns: u64) {
        let known = self.threads.get(&tid);
        if known.is_some_and(|thread| thread.slot.process == process) {
            return;
        }
        let Some(parent) = self.threads.get(&by) else {
            return;
        };
        let (of, space) = (parent.slot.process, parent.slot.space);
        let known = parent.slot.known;
        let born = (time_ns, Run::BORN);
        if process == of {
            self.enlist(tid, process, space, born);
            return self.call(tid, known);
        }
        if !self.children {
            return;
        }
        let now = now(&parent.run, time_ns);
        twin::tell_mapping(kind::FORK, false, process, &parent.slot, now, &mut self.out);
        let number = self.next_space();
        self.copy(of, process, (number, time_ns));
        let space = self.spaces.get(&process);
        if space.is_some_and(|space| time_ns < space.put_ns.saturating_add(FORK_NS)) {
            self.partial.insert(process);
        }
        self.enlist(tid, process, number, born);
        self.call(tid, known);
    }

    /// Sets what a thread is announced as, for the case that it has ended by then.
    fn call(&mut self, tid: u32, known: Announcement) {
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.slot.known = known;
        }
    }

    fn ended(&mut self, tid: u32, time_ns: u64) {
        let Some(mut thread) = self.threads.remove(&tid) else {
            return;
        };
        let process = thread.slot.process;
        let now = now(&thread.run, time_ns);
        // The end of a child that has used no barrier is not reported.
        if process == self.target || thread.slot.announced {
            let sample = Sample {
                registers: Registers::none(),
                stack: Vec::new(),
            };
            let machine = Sampled {
                sample: &sample,
                threads: [tid, process],
            };
            twin::tell_end(&mut Hit {
                machine: &machine,
                slot: &mut thread.slot,
                now,
                out: &mut self.out,
            });
        }
        let mut others = self.threads.values();
        if others.any(|other| other.slot.process == process) {
            return;
        }
        self.spaces.remove(&process);
        self.lives.remove(&process);
        if self.children && process != self.target {
            twin::tell_mapping(kind::END, false, 0, &thread.slot, now, &mut self.out);
        }
    }

    fn executed(&mut self, tid: u32, time_ns: u64) {
        let Some(thread) = self.threads.get(&tid) else {
            return;
        };
        let process = thread.slot.process;
        self.threads
            .retain(|other, thread| *other == tid || thread.slot.process != process);
        let space = self.spaces.get(&process);
        // Otherwise the new program is known already, from when the process was held.
        let is_news = space.is_none_or(|space| space.since_ns < time_ns);
        if is_news && self.held != Some(process) {
            self.new_space(process, time_ns);
            self.executed.push(process);
        }
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.slot.begin_anew();
            thread
                .tellers
                .retain(|((of, _), _)| [LIFE, SWITCHES].contains(of));
            let now = now(&thread.run, time_ns);
            twin::tell_mapping(kind::EXEC, false, 0, &thread.slot, now, &mut self.out);
        }
    }
}

impl Polling for Watch {
    const NAME: &'static str = "perf";
    const METHOD: &'static str = "breakpoints of the processor";
    const MOST_HELD: usize = 16 * BATCH;

    fn begin(&mut self, time_ns: u64, baselines: &Baselines) {
        self.begun_ns = time_ns;
        self.lives.values().for_each(|lives| lives.switch(true));
        self.pause(false);
        for (tid, thread) in &mut self.threads {
            if thread.run.is_unknown() {
                let (run_ns, _) = baselines.get(tid).copied().unwrap_or_default();
                thread.run = Run::existing(run_ns, time_ns);
            }
        }
    }

    fn look(&mut self, last: bool) -> Look {
        self.listen(last);
        if last && let Some(events) = self.events.take() {
            // At the end no record reports lost records any more.
            let unheard = events.closed_lost().saturating_sub(self.lost);
            self.lose(unheard);
        }
        self.looks += 1;
        let events = self.events.as_ref();
        Look {
            bytes: std::mem::take(&mut self.out.bytes),
            lost: self.lost,
            executed: std::mem::take(&mut self.executed),
            descriptors: events.map_or_else(Vec::new, Events::descriptors),
            pause: if self.looks < FIRST { SOON } else { LATER },
        }
    }

    fn attach(watch: &Mutex<Self>, files: &[Arc<ProbedFile>]) -> anyhow::Result<()> {
        lock(watch).watch_files(files).map_err(explained)
    }

    fn follow(&mut self, process: u32) {
        // A child started since watching began has inherited the events, and is reported in the
        // rings.
        self.listen(true);
        if !self.spaces.contains_key(&process) {
            let heard = self.hear_of(process, true);
            let placed = heard.and_then(|()| self.place(process));
            self.note_failure(process, placed);
        }
    }

    fn pause(&mut self, paused: bool) {
        self.paused = paused;
        for (_, events) in self.spaces.values().flat_map(|space| &space.events) {
            events.switch(!paused);
        }
        if !paused {
            for thread in self.threads.values_mut() {
                thread.slot.begin_anew();
            }
        }
    }

    fn leave(watch: &Mutex<Self>) {
        let mut this = lock(watch);
        this.spaces.values_mut().for_each(Space::leave);
        this.lives.clear();
        // No event will be put on any more.
        this.files = Files::default();
    }

    fn end(&mut self) -> Vec<String> {
        let mut notes = std::mem::take(&mut self.notes);
        notes.extend(self.missed.told());
        notes
    }

    fn unseen_marks(&self) -> BTreeSet<u8> {
        self.missed.marks.clone()
    }

    fn condvars(source: &mut Polled<Self>) -> Option<&mut dyn Condvars> {
        Some(source)
    }

    fn callers(source: &mut Polled<Self>) -> Option<&mut dyn Callers> {
        Some(source)
    }

    fn notes(&mut self) -> &mut Vec<String> {
        &mut self.notes
    }

    fn begin_program(&mut self, process: u32, stop: &Stop) -> bool {
        // By now the records tell of its new memory, and of the end of its events if the kernel has
        // ended them.
        self.listen(false);
        if !stop.is_traced() {
            return false;
        }
        // The process is already followed by the caller.
        self.executed.retain(|other| *other != process);
        if self.held.take_if(|held| *held == process).is_some() {
            self.new_space(process, clock::now_ns());
        }
        let known = told(process, process);
        self.call(process, known);
        self.try_to_place(process);
        true
    }

    fn called(&mut self, process: u32, stop: Stop, _has_ended: bool) -> Option<Stop> {
        let registers = stop.registers();
        if registers.is_ok_and(|registers| registers.system_call() == libc::SYS_mmap) {
            self.try_to_place(process);
        }
        Some(stop)
    }

    fn let_run(&mut self, process: u32, stop: Stop) {
        if stop.why() == StopReason::Called {
            self.try_to_place(process);
        }
        stop.begin_call_again();
        stop.let_go(true);
    }

    fn not_followed(&mut self, process: u32, error: &io::Error) {
        match error.raw_os_error() {
            Some(libc::ESRCH) => {}
            _ if process::thread_has_ended(process, process) => self.note(LATE),
            _ => self.note(&format!(
                "sbt could not stop a newly executed program while it was loaded ({error}): its \
                 first barriers may be missing"
            )),
        }
        self.try_to_place(process);
    }
}

/// The clocks of a record. The time that a thread waited for a CPU is not known here.
fn now(run: &Run, time_ns: u64) -> Clocks {
    Clocks {
        time_ns,
        run_ns: run.at(time_ns),
        delay_ns: UNKNOWN,
    }
}
