//! Takes what threads have noted and what the kernel reports of their lives, and makes records of both, in
//! the order of their times.

use std::time::{Duration, Instant};

use procfs::process::{MMapPath, Process};
use sbt_common::{UNKNOWN, kind};

use super::{
    Item, Member, Watch,
    came::{Came, Gone},
    delays::clocks,
};
use crate::source::{
    inject::{clock::Pair, ring::Noted},
    perf::{
        record::{Record, ThreadEvent},
        run::Run,
    },
    polled::Polling as _,
    ptrace::clocks::told,
    twin::{self, Announcement, Hit, Slot},
};
use sbt_program::{arch::Registers, clock, process};

/// The most records that one look takes from the rings.
const MOST: usize = 65_536;

/// How long after its time stamp a record may become readable, ns. Records wait for that long, so that
/// earlier ones come first.
pub(super) const LATE_NS: u64 = 2_000_000;

/// How far apart the writing of a stamp and of the record's number may appear to another CPU, ns.
const APART_NS: u64 = 10_000;

/// How long the last look waits for threads that are in the middle of noting something.
const LAST_WAIT: Duration = Duration::from_millis(100);

/// How long the last look reads while there is more.
const LAST_READ: Duration = Duration::from_secs(2);

/// The most records that wait for earlier ones: the target may write any stamps.
const MOST_WAITING: usize = 1 << 20;

/// The most threads that are remembered: the target may write any numbers into its rings.
const MOST_THREADS: usize = 65_536;

/// How long after the last loss of switches the run times are read again.
const KNOWN_AGAIN: Duration = Duration::from_millis(20);

/// The kernel's code to which functions with a probe at their return go back begins a page.
const PAGE: u64 = 4096;

/// The most callers at the beginning of a page that are looked up.
const MOST_PAGES: usize = 16;

/// The note where another tool has such probes.
const HIDDEN: &str = "another tool has probes at the return of a barrier function (kernel return probes): \
    from where the function is called cannot be seen meanwhile";

/// The note on children.
const CHILDREN: &str = "child processes are not watched with --backend inject; --backend ptrace \
    watches them";

impl Watch {
    /// What is still in the rings is not read any more: it is lost.
    pub(super) fn lose_rest(&mut self) {
        if let Some(inside) = &self.inside {
            let left = inside.reader.left(&*inside.own);
            self.lost = self.lost.saturating_add(left);
        }
    }

    /// Takes what has happened. With `last` everything, at the end of watching. Returns how many
    /// records were noted.
    pub fn pass(&mut self, last: bool) -> usize {
        let begin = Instant::now();
        let mut taken = 0;
        loop {
            let (count, until_ns, is_complete) = self.read(last);
            taken += count;
            let longest = if count > 0 { LAST_READ } else { LAST_WAIT };
            let waits = last && !is_complete && begin.elapsed() < longest;
            let is_end = last && !waits;
            if is_end && let Some(ready) = &mut self.ready {
                ready.settle_all();
            }
            self.tell(if is_end { u64::MAX } else { until_ns });
            if !waits {
                if last {
                    self.lose_rest();
                }
                return taken;
            }
            std::thread::yield_now();
        }
    }

    /// Reads everything that has happened. Returns how many records were noted; the time before which
    /// nothing more can come, ns; and whether no thread is in the middle of noting something.
    fn read(&mut self, last: bool) -> (usize, u64, bool) {
        let told_ns = clock::now_ns().saturating_sub(LATE_NS);
        let lives = self.lives.as_mut();
        let lives = lives.map(|lives| lives.take(last)).unwrap_or_default();
        self.read_run_times();
        for record in lives {
            self.look_at(&record);
            self.follow(&record);
            self.waiting.push((record.time_ns, Item::Life(record)));
        }
        let mut settled = self.read_delays(told_ns, last);
        let (count, until, is_complete) = self.read_rings();
        if self.waiting.len() > MOST_WAITING
            && let Some(ready) = &mut self.ready
            && let Some(until) = settled.take()
        {
            // What is told before that is settled must not seem to be known.
            ready.lose(until);
        }
        (count, until.min(settled.unwrap_or(u64::MAX)), is_complete)
    }

    /// Reads the rings.
    pub(super) fn read_rings(&mut self) -> (usize, u64, bool) {
        let now = Pair::now();
        self.stamps.add(now);
        let until = now.time_ns.saturating_sub(LATE_NS);
        let Some(inside) = &mut self.inside else {
            return (0, until, true);
        };
        let found = inside.reader.read(&*inside.own, now.time_ns, MOST);
        // No stamp that was read is later, and pairs between which times were interpolated stay: so all
        // times are in the order of the stamps.
        let after = Pair::now();
        self.stamps.add(after);
        for lost in &found.lost {
            self.lost = self.lost.saturating_add(lost.count);
            let number = self.numbers.get(self.target, lost.thread);
            if let Some(member) = self.threads.get_mut(&number) {
                member.slot.miss(lost.count);
            }
            self.programs.distrust();
        }
        let count = found.records.len();
        for noted in found.records {
            let time_ns = self.stamps.time_ns(noted.stamp);
            // The target may have written any stamp.
            let time_ns = time_ns.unwrap_or(after.time_ns).min(after.time_ns);
            self.waiting.push((time_ns, Item::Noted(noted)));
        }
        let apart = self.stamps.stamps_in(APART_NS);
        let unfinished = found.unfinished.map(|stamp| {
            let stamp = stamp.saturating_sub(apart);
            self.stamps.time_ns(stamp).unwrap_or(0)
        });
        let is_full = self.waiting.len() > MOST_WAITING;
        let until = until.min(unfinished.filter(|_| !is_full).unwrap_or(u64::MAX));
        (count, until, found.unfinished.is_none())
    }

    /// Makes records of what has happened before a time, in the order of the times.
    fn tell(&mut self, until_ns: u64) {
        // Those of each ring are sorted already; this sort is fast then.
        self.waiting.sort_by_key(|(time_ns, _)| *time_ns);
        let ready = self
            .waiting
            .partition_point(|(time_ns, _)| *time_ns < until_ns);
        let ready: Vec<_> = self.waiting.drain(..ready).collect();
        for (time_ns, item) in ready {
            // What comes too late counts as of now.
            self.last_ns = self.last_ns.max(time_ns);
            match item {
                Item::Noted(noted) => self.noted(&noted, self.last_ns),
                Item::Life(record) => self.hear(&record, self.last_ns),
                Item::Ran(tid, run_ns) => {
                    if let Some(member) = self.threads.get_mut(&tid) {
                        member.run = Run::existing(Some(run_ns), self.last_ns);
                    }
                }
            }
        }
        if let Some(ready) = &mut self.ready {
            ready.has_told(until_ns);
        }
    }

    /// Reads how long threads have run, some time after switches were lost.
    fn read_run_times(&mut self) {
        let is_due = |since: &mut Instant| since.elapsed() >= KNOWN_AGAIN;
        if self.unknown_since.take_if(is_due).is_none() {
            return;
        }
        for tid in self.threads.keys() {
            let clocks = self
                .usage
                .at(self.target, (*tid).cast_signed(), clock::now_ns());
            if clocks.run_ns != UNKNOWN {
                let ran = Item::Ran(*tid, clocks.run_ns);
                self.waiting.push((clocks.time_ns, ran));
            }
        }
        self.usage.close();
    }

    pub(super) fn enlist(&mut self, tid: u32, (born_ns, run): (u64, Run), known: Announcement) {
        if self.threads.len() >= MOST_THREADS {
            return;
        }
        let mut slot = Slot::new((self.target, tid, self.space), born_ns, told);
        slot.known = known;
        self.threads.insert(tid, Member { slot, run });
    }

    /// Looks at a record as soon as it comes, whatever may come before it: a new program must be
    /// watched soon.
    fn look_at(&mut self, record: &Record) {
        if let ThreadEvent::Named { executed: true, .. } = record.what
            && record.process == self.target
            && !self.loads
        {
            self.executed = true;
        }
    }

    fn noted(&mut self, noted: &Noted, time_ns: u64) {
        let Some(place) = self.places.get(noted.place as usize) else {
            // The target has written there.
            self.lost += 1;
            return;
        };
        let (at, capture, program) = (place.at, place.capture, place.program);
        let number = self.numbers.get(self.target, noted.thread);
        if number == 0 {
            self.lost += 1;
            return;
        }
        // Each look at the mappings takes a while, and the target writes these numbers.
        if noted.caller.is_multiple_of(PAGE)
            && self.pages.len() < MOST_PAGES
            && self.pages.insert(noted.caller)
            && is_hidden(self.target, noted.caller)
        {
            self.note(HIDDEN);
        }
        if !self.threads.contains_key(&number) {
            // Its beginning was not seen.
            self.enlist(number, (0, Run::UNKNOWN), Announcement::default());
        }
        let Some(Member { slot, run }) = self.threads.get_mut(&number) else {
            self.lost += 1;
            return;
        };
        let mut registers = Registers::none();
        registers.set_at(at);
        registers.set_stack(noted.stack);
        for (number, value) in [
            (capture.object, noted.object),
            (capture.count, noted.count.into()),
        ] {
            if number != 0 {
                registers.set_numbered(number, value);
            }
        }
        let machine = Came {
            registers,
            noted,
            capture,
        };
        let hit = &mut Hit {
            machine: &machine,
            slot,
            now: clocks(&mut self.ready, number, run, time_ns),
            out: &mut self.out,
        };
        self.programs.run(program, hit);
    }

    fn hear(&mut self, record: &Record, time_ns: u64) {
        let (process, tid) = (record.process, record.thread);
        if let ThreadEvent::Lost(count) = record.what {
            return self.lose(count, record.among_hits);
        }
        if process == 0 || tid == 0 {
            // The thread has ended meanwhile, or is in another pid namespace.
            return;
        }
        match record.what {
            ThreadEvent::Started { process, thread } if process == self.target => {
                if !self.threads.contains_key(&thread) {
                    let known = self.threads.get(&tid).map(|member| member.slot.known);
                    let run = self.born();
                    self.enlist(thread, (time_ns, run), known.unwrap_or_default());
                }
            }
            ThreadEvent::Started { .. } => self.note(CHILDREN),
            ThreadEvent::Ended => self.ended(tid, time_ns),
            ThreadEvent::Named { comm, executed } => {
                if let Some(member) = self.threads.get_mut(&tid) {
                    member.slot.known.comm = comm;
                }
                if executed && process == self.target {
                    self.has_executed(tid, time_ns);
                }
            }
            ThreadEvent::Mapped => {
                if let Some(Member { slot, run }) = self.threads.get(&tid) {
                    let now = clocks(&mut self.ready, tid, run, time_ns);
                    twin::tell_mapping(kind::MAPPED, false, 0, slot, now, &mut self.out);
                }
            }
            ThreadEvent::Switched { on, .. } => {
                if let Some(member) = self.threads.get_mut(&tid) {
                    // Earlier run time is in the baseline.
                    member.run.switch(on, time_ns.max(self.begun_ns));
                }
            }
            ThreadEvent::Hit(_) | ThreadEvent::Lost(_) => {}
        }
    }

    /// Counts lost records. If these are switches, no arrival is lost, but it is not known who has run.
    fn lose(&mut self, count: u64, are_switches: bool) {
        if are_switches {
            let members = self.threads.values_mut();
            members.for_each(|member| member.run = Run::UNKNOWN);
            self.unknown_since = Some(Instant::now());
        } else {
            self.lost = self.lost.saturating_add(count);
        }
    }

    /// The run time of a thread that begins.
    const fn born(&self) -> Run {
        match &self.lives {
            Some(lives) if lives.are_exact() => Run::BORN,
            _ => Run::UNKNOWN,
        }
    }

    fn ended(&mut self, tid: u32, time_ns: u64) {
        let Some(Member { mut slot, run }) = self.threads.remove(&tid) else {
            return;
        };
        self.numbers.forget(tid);
        twin::tell_end(&mut Hit {
            machine: &Gone(Registers::none()),
            slot: &mut slot,
            now: clocks(&mut self.ready, tid, &run, time_ns),
            out: &mut self.out,
        });
        if let Some(ready) = &mut self.ready {
            ready.forget(tid);
        }
    }

    fn has_executed(&mut self, tid: u32, time_ns: u64) {
        self.threads.retain(|other, _| *other == tid);
        self.space += 1;
        if let Some(Member { slot, run }) = self.threads.get_mut(&tid) {
            slot.space = self.space;
            slot.begin_anew();
            let now = clocks(&mut self.ready, tid, run, time_ns);
            twin::tell_mapping(kind::EXEC, false, 0, slot, now, &mut self.out);
        }
    }
}

/// Whether a caller is the code to which the kernel lets functions return that have a probe there.
fn is_hidden(process: u32, caller: u64) -> bool {
    let maps = Process::new_with_root(process::folder(process)).and_then(|found| found.maps());
    maps.is_ok_and(|all| {
        let mut all = all.iter();
        let here = all.find(|map| map.address.0 == caller);
        here.is_some_and(|map| map.pathname == MMapPath::Other("uprobes".into()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::{
        Baselines,
        inject::{keeper::Keeper, lives::Lives, ready::Ready},
    };

    fn watch(process: u32) -> Watch {
        let lives = Lives::of(process, false);
        Watch::new(process, true, lives, Keeper::none())
    }

    #[test]
    fn run_times_are_known_again_some_time_after_switches_were_lost() {
        let own = std::process::id();
        let mut watch = watch(own);
        let since = clock::now_ns();
        watch.begin(since, &Baselines::from([(own, (Some(5), None))]));
        let ran = |watch: &Watch, ns| watch.threads[&own].run.at(since + ns);
        assert_eq!(ran(&watch, 10), 15);
        watch.lose(3, true);
        assert_eq!((watch.lost, ran(&watch, 20)), (0, UNKNOWN));
        watch.read_run_times();
        watch.tell(u64::MAX);
        assert_eq!(ran(&watch, 30), UNKNOWN, "more may be lost");
        std::thread::sleep(KNOWN_AGAIN);
        watch.read_run_times();
        watch.tell(u64::MAX);
        assert_ne!(ran(&watch, 40), UNKNOWN);
        watch.lose(3, false);
        assert_eq!(watch.lost, 3);
    }

    #[test]
    fn records_say_how_long_threads_were_ready() {
        let own = std::process::id();
        let mut watch = watch(own);
        watch.ready = Some(Ready::default());
        let since = clock::now_ns();
        let delay = |watch: &mut Watch, time_ns| {
            let run = Run::UNKNOWN;
            clocks(&mut watch.ready, own, &run, time_ns).delay_ns
        };
        let happens = |watch: &mut Watch, time_ns, what| {
            watch.follow(&Record {
                time_ns,
                process: own,
                thread: own,
                cpu: 0,
                event: 0,
                what,
                among_hits: true,
            });
        };
        watch.begin(since, &Baselines::from([(own, (None, Some(5)))]));
        assert_eq!(delay(&mut watch, since), 5);
        happens(&mut watch, since + 1, ThreadEvent::Lost(1));
        assert_eq!(delay(&mut watch, since + 1), UNKNOWN);
        watch.read_delays(u64::MAX, true);
        let now = clock::now_ns();
        assert_ne!(delay(&mut watch, now), UNKNOWN);
        let (on, preempted) = (false, true);
        happens(&mut watch, now, ThreadEvent::Switched { on, preempted });
        let (on, preempted) = (true, false);
        happens(
            &mut watch,
            now + 70,
            ThreadEvent::Switched { on, preempted },
        );
        let before = delay(&mut watch, now);
        watch.ready.as_mut().unwrap().settle_all();
        assert_eq!(delay(&mut watch, now + 70), before + 70);
    }

    #[test]
    fn ready_times_of_threads_that_a_new_program_begins_at_once_are_known() {
        let own = std::process::id();
        let mut watch = watch(own);
        watch.ready = Some(Ready::default());
        watch.begin(1, &Baselines::new());
        let record = |time_ns, what| Record {
            time_ns,
            process: own,
            thread: own,
            cpu: 0,
            event: 0,
            what,
            among_hits: false,
        };
        let (comm, executed) = ([0; 2], true);
        let execution = record(2, ThreadEvent::Named { comm, executed });
        let (process, thread) = (own, u32::MAX);
        let starts = record(3, ThreadEvent::Started { process, thread });
        // Switches are followed as soon as they are read, records are made some milliseconds later.
        for record in [&execution, &starts] {
            watch.follow(record);
        }
        watch.hear(&execution, 2);
        watch.hear(&starts, 3);
        let run = Run::UNKNOWN;
        assert_eq!(clocks(&mut watch.ready, thread, &run, 4).delay_ns, 0);
    }
}
