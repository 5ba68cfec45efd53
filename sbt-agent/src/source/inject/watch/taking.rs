//! Takes what threads have noted and what the kernel reports of their lives, and makes records of both, in
//! the order of their times.

use std::time::{Duration, Instant};

use sbt_common::{Clocks, UNKNOWN, kind};

use super::{
    Item, Watch,
    came::{Came, Gone},
};
use crate::source::{
    inject::{clock::Pair, ring::Noted},
    perf::record::{Record, ThreadEvent},
    ptrace::clocks::told,
    twin::{self, Announcement, Hit, Slot},
};
use sbt_program::arch::Registers;

/// The most records that one look takes from the rings.
const MOST: usize = 65_536;

/// How long after its time stamp a record may become readable, ns. Records wait for that long, so that
/// earlier ones come first.
const LATE_NS: u64 = 2_000_000;

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
            self.tell(if last && !waits { u64::MAX } else { until_ns });
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
        let lives = self.lives.as_mut();
        let lives = lives.map(|lives| lives.take(last)).unwrap_or_default();
        for record in lives {
            self.look_at(&record);
            self.waiting.push((record.time_ns, Item::Life(record)));
        }
        let (count, until, is_complete) = self.read_rings();
        (count, until, is_complete)
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
            if let Some(slot) = self.threads.get_mut(&number) {
                (0..lost.count.min(1 << 16)).for_each(|_| slot.miss());
            }
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
            }
        }
    }

    pub(super) fn enlist(&mut self, tid: u32, born_ns: u64, known: Announcement) {
        if self.threads.len() >= MOST_THREADS {
            return;
        }
        let mut slot = Slot::new((self.target, tid, self.space), born_ns, told);
        slot.known = known;
        self.threads.insert(tid, slot);
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
        if !self.threads.contains_key(&number) {
            // Its beginning was not seen.
            self.enlist(number, 0, Announcement::default());
        }
        let Some(slot) = self.threads.get_mut(&number) else {
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
            now: now(time_ns),
            out: &mut self.out,
        };
        self.programs.run(program, hit);
    }

    fn hear(&mut self, record: &Record, time_ns: u64) {
        let (process, tid) = (record.process, record.thread);
        if process == 0 || tid == 0 {
            // The thread has ended meanwhile, or is in another pid namespace.
            return;
        }
        match record.what {
            ThreadEvent::Started { process, thread } if process == self.target => {
                if !self.threads.contains_key(&thread) {
                    let known = self.threads.get(&tid).map(|slot| slot.known);
                    self.enlist(thread, time_ns, known.unwrap_or_default());
                }
            }
            ThreadEvent::Started { .. } => self.note(CHILDREN),
            ThreadEvent::Ended => self.ended(tid, time_ns),
            ThreadEvent::Named { comm, executed } => {
                if let Some(slot) = self.threads.get_mut(&tid) {
                    slot.known.comm = comm;
                }
                if executed && process == self.target {
                    self.has_executed(tid, time_ns);
                }
            }
            ThreadEvent::Mapped => {
                if let Some(slot) = self.threads.get(&tid) {
                    let now = now(time_ns);
                    twin::tell_mapping(kind::MAPPED, false, 0, slot, now, &mut self.out);
                }
            }
            ThreadEvent::Lost(count) => self.lost += count,
            ThreadEvent::Hit(_) | ThreadEvent::Switched { .. } => {}
        }
    }

    fn ended(&mut self, tid: u32, time_ns: u64) {
        let Some(mut slot) = self.threads.remove(&tid) else {
            return;
        };
        self.numbers.forget(tid);
        twin::tell_end(&mut Hit {
            machine: &Gone(Registers::none()),
            slot: &mut slot,
            now: now(time_ns),
            out: &mut self.out,
        });
    }

    fn has_executed(&mut self, tid: u32, time_ns: u64) {
        self.threads.retain(|other, _| *other == tid);
        self.space += 1;
        if let Some(slot) = self.threads.get_mut(&tid) {
            slot.space = self.space;
            slot.begin_anew();
            let now = now(time_ns);
            twin::tell_mapping(kind::EXEC, false, 0, slot, now, &mut self.out);
        }
    }
}

/// The clocks of a record. How long a thread has run or was ready is not known here.
const fn now(time_ns: u64) -> Clocks {
    Clocks {
        time_ns,
        run_ns: UNKNOWN,
        delay_ns: UNKNOWN,
    }
}
