//! Computes how long threads were ready: able to run, but without a CPU. Pure.
//!
//! The kernel adds up this time for each thread (the run delay), and sbt reads it every few
//! milliseconds. So the growth between two readings is known. *When* the thread was ready follows from
//! its switches between the two readings:
//!
//! - a thread that was preempted was ready until it got a CPU again;
//! - a thread that slept was ready last, after it was woken. That is the rest of the growth. If the
//!   thread slept once, all of the rest belongs there. If it slept several times, the rest may belong
//!   to any of these sleeps: the ready time is unknown from the first of them to the last, unless
//!   what is in doubt is little, see [`most_doubt`].

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

/// A ready time may be wrong by so much, ns, however short the time is in which it lies.
const DOUBT_NS: u64 = 20_000;

/// A ready time may be wrong by one part in so many of the time in which it lies.
const DOUBT_PART: u64 = 100;

/// The ready times of all threads of a program.
#[derive(Debug, Default)]
pub struct Ready {
    threads: FxHashMap<u32, Thread>,
    /// Begin and end of the rounds in which threads were read, ns; of those that are not settled yet.
    rounds: VecDeque<(u64, u64)>,
}

#[derive(Debug)]
struct Thread {
    /// Since when the thread has no CPU, ns, and whether it was preempted; `None` while it has one.
    off: Option<(u64, bool)>,
    /// Times without a CPU that have ended since the last reading that is settled.
    away: VecDeque<Away>,
    /// Time of a reading, ns, and the run delay then. Those that are not settled yet.
    readings: VecDeque<(u64, u64)>,
    /// The part of the run delay that is settled, and the last reading, ns; `None` if the next reading
    /// begins anew.
    settled_ns: Option<(u64, u64)>,
    /// The ready time up to the last step, ns.
    total_ns: u64,
    /// From when on which ready time holds, ns; `None` where it is unknown.
    steps: VecDeque<(u64, Option<u64>)>,
    /// The last step that was taken.
    now: Option<u64>,
}

/// A time without a CPU, ns.
#[derive(Clone, Copy, Debug)]
struct Away {
    from: u64,
    to: u64,
    preempted: bool,
}

impl Away {
    const fn ns(self) -> u64 {
        self.to.saturating_sub(self.from)
    }
}

impl Ready {
    /// The numbers of the threads.
    pub fn threads(&self) -> Vec<u32> {
        self.threads.keys().copied().collect()
    }

    /// Whether a thread is known.
    pub fn knows(&self, tid: u32) -> bool {
        self.threads.contains_key(&tid)
    }

    /// A thread exists, whose run delay was `delay_ns` at `time_ns`, if that is known.
    pub fn exists(&mut self, tid: u32, delay_ns: Option<u64>, time_ns: u64) {
        self.threads.insert(tid, Thread::new(delay_ns, time_ns));
    }

    /// A thread begins.
    pub fn begins(&mut self, tid: u32, time_ns: u64) {
        self.exists(tid, Some(0), time_ns);
    }

    /// A thread has ended, and nothing more is asked about it.
    pub fn forget(&mut self, tid: u32) {
        self.threads.remove(&tid);
    }

    /// All threads but one have ended.
    pub fn forget_others(&mut self, tid: u32) {
        self.threads.retain(|other, _| *other == tid);
    }

    /// A thread has got a CPU. Must be called in the order of time, as [`Ready::loses_cpu`].
    pub fn gets_cpu(&mut self, tid: u32, time_ns: u64) {
        let Some(thread) = self.threads.get_mut(&tid) else {
            return;
        };
        if let Some((from, preempted)) = thread.off.take() {
            thread.away.push_back(Away {
                from,
                to: time_ns,
                preempted,
            });
        }
    }

    /// A thread has lost its CPU. `preempted`: although it could have gone on.
    pub fn loses_cpu(&mut self, tid: u32, preempted: bool, time_ns: u64) {
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.off = Some((time_ns, preempted));
        }
    }

    /// Switches were lost before `time_ns`: ready times are unknown until the next reading.
    pub fn lose(&mut self, time_ns: u64) {
        for thread in self.threads.values_mut() {
            thread.lose(time_ns);
        }
    }

    /// The run delay of a thread was read.
    pub fn read(&mut self, tid: u32, time_ns: u64, delay_ns: u64) {
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.readings.push_back((time_ns, delay_ns));
        }
    }

    /// Threads were read from `begin_ns` to `end_ns`: all those that could be.
    pub fn has_read(&mut self, begin_ns: u64, end_ns: u64) {
        self.rounds.push_back((begin_ns, end_ns));
    }

    /// All switches before `time_ns` are told. Returns the time, ns, up to which ready times are known,
    /// or known to be unknown; 0 if none are yet.
    pub fn settle(&mut self, time_ns: u64) -> u64 {
        let mut until_ns = 0;
        while let Some((begin, end)) = self.rounds.pop_front_if(|(_, end)| *end < time_ns) {
            for thread in self.threads.values_mut() {
                thread.settle(begin, end);
            }
            until_ns = begin;
        }
        until_ns
    }

    /// Nothing more is read: what is not settled is unknown.
    pub fn settle_all(&mut self) {
        self.settle(u64::MAX);
        for thread in self.threads.values_mut() {
            thread.settle(u64::MAX, u64::MAX);
        }
    }

    /// How long a thread was ready before `time_ns`, ns; `None` if that is unknown. Must be called in
    /// the order of time.
    pub fn at(&mut self, tid: u32, time_ns: u64) -> Option<u64> {
        let thread = self.threads.get_mut(&tid)?;
        thread.go_on(time_ns);
        thread.now
    }

    /// Nothing is asked about the time before `time_ns` any more: gives the memory back.
    pub fn has_told(&mut self, time_ns: u64) {
        for thread in self.threads.values_mut() {
            thread.go_on(time_ns.saturating_sub(1));
        }
    }
}

impl Thread {
    fn new(delay_ns: Option<u64>, time_ns: u64) -> Self {
        Self {
            // Whether it has a CPU is unknown. If it has one, it loses that next, and this is overwritten.
            off: Some((time_ns, false)),
            away: VecDeque::new(),
            readings: VecDeque::new(),
            settled_ns: delay_ns.map(|ns| (ns, ns)),
            total_ns: delay_ns.unwrap_or(0),
            steps: VecDeque::new(),
            now: delay_ns,
        }
    }

    fn lose(&mut self, time_ns: u64) {
        if self.settled_ns.take().is_some() {
            // What is not settled stays unknown.
            let first = self.away.front().map_or(time_ns, |away| away.to);
            self.step(first.min(time_ns), None);
        }
        self.away.clear();
        self.readings.clear();
        // As in `new`.
        self.off = Some((time_ns, false));
    }

    /// Takes the steps until a time.
    fn go_on(&mut self, time_ns: u64) {
        while let Some((_, total)) = self.steps.pop_front_if(|(from, _)| *from <= time_ns) {
            self.now = total;
        }
    }

    fn step(&mut self, time_ns: u64, total_ns: Option<u64>) {
        self.steps.push_back((time_ns, total_ns));
    }

    /// Settles the times that have ended by the readings until `end`. What has ended before `begin` is
    /// settled then in any case.
    fn settle(&mut self, begin: u64, end: u64) {
        while let Some((time, delay)) = self.readings.pop_front_if(|(time, _)| *time <= end) {
            self.settle_reading(time, delay);
        }
        while let Some(away) = self.away.pop_front_if(|away| away.to <= begin) {
            // The thread could not be read, as when it has ended.
            self.settled_ns = self
                .settled_ns
                .filter(|_| away.preempted)
                .map(|(settled, last)| {
                    self.total_ns += away.ns();
                    (settled + away.ns(), last)
                });
            let total = self.settled_ns.map(|_| self.total_ns);
            self.step(away.to, total);
        }
    }

    fn settle_reading(&mut self, time: u64, delay: u64) {
        let count = self.away.partition_point(|away| away.to <= time);
        let away: Vec<Away> = self.away.drain(..count).collect();
        let Some((settled, last)) = self.settled_ns else {
            self.settled_ns = Some((delay, delay));
            self.total_ns = self.total_ns.max(delay);
            self.step(time, Some(self.total_ns));
            return;
        };
        let growth = delay.saturating_sub(settled);
        let time_of = |preempted| -> u64 {
            let all = away.iter().copied();
            let of_kind = all.filter(|away| away.preempted == preempted);
            of_kind.map(Away::ns).sum()
        };
        let (preempted, slept) = (time_of(true), time_of(false));
        let rest = growth.saturating_sub(preempted).min(slept);
        let (mut before, mut asleep) = (0, 0);
        let most_doubt = most_doubt(slept);
        for away in &away {
            if away.preempted {
                before += away.ns();
            } else {
                asleep += away.ns();
            }
            // Of the sleeps until here.
            let certain = rest.saturating_sub(slept - asleep);
            let possible = rest.min(asleep);
            let total = self.total_ns + before.min(growth) + part(rest, asleep, slept);
            self.step(away.to, (possible - certain <= most_doubt).then_some(total));
        }
        let found = preempted.min(growth) + rest;
        self.total_ns += found;
        // The kernel adds time at a switch some moments before it tells of the switch, and when a thread
        // that waits is moved to another CPU. So time that found no place may belong to the next switch.
        let left = growth - found;
        let is_away = self.is_away(time);
        let kept = if is_away {
            left
        } else {
            left.min(delay.saturating_sub(last))
        };
        self.settled_ns = Some((delay.max(settled) - kept, delay));
    }

    /// Whether the thread had no CPU at a time that lies before all times that are not settled.
    fn is_away(&self, time: u64) -> bool {
        let from = self.away.front().map(|away| away.from);
        let from = from.or_else(|| self.off.map(|(from, _)| from));
        from.is_some_and(|from| from <= time)
    }
}

/// The largest error, ns, with which ready times still count as known, if all that is known is that they lie in
/// sleeps that took `slept_ns` together. The sum over a whole run is then wrong by one part in [`DOUBT_PART`] at most;
/// a single phase may be told that much too much or too little.
fn most_doubt(slept_ns: u64) -> u64 {
    DOUBT_NS.max(slept_ns / DOUBT_PART)
}

/// The part `of` / `whole` of a number, which is not larger than the whole.
fn part(number: u64, of: u64, whole: u64) -> u64 {
    if whole == 0 {
        return 0;
    }
    let part = u128::from(number) * u128::from(of) / u128::from(whole);
    u64::try_from(part).unwrap_or(number)
}

#[cfg(test)]
#[path = "ready_tests.rs"]
mod tests;
