//! A small machine that runs legal programs: threads, glibc barriers, and the kernel side of sbt
//! with its possible losses. It records the truth.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque},
};

use super::setup::{Memory, Random, Setup, Watch};
use super::truth::{Episode, Part, Thread as TrueThread, Truth};
use crate::event::{CallersId, Clocks, Event, Kind, Round};

/// glibc's limit for `in`, before it is rounded down to a multiple of the count; the counters then
/// restart from 0.
const THRESHOLD: u32 = u32::MAX / 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Step {
    object: u64,
    place: u32,
}

/// A thread; its index is also its number in the truth.
#[derive(Debug, Default)]
struct Thread {
    tid: u32,
    script: VecDeque<Step>,
    at: Option<Step>,
    arrived_ns: u64,
    run_ns: u64,
    delay_ns: u64,
    born_ns: u64,
    /// Run time and run delay when watching the thread began, ns.
    base: (u64, u64),
    done_ns: Option<u64>,
    // What the kernel side stores for the thread.
    announced: bool,
    unwatched: bool,
    records: u32,
    lost: u32,
    trusted: BTreeMap<u64, u64>,
}

#[derive(Debug, Default)]
struct Barrier {
    count: u32,
    entered: u32,
    round: u32,
    left: u32,
    waiting: Vec<(u32, usize)>,
    held_back: Vec<usize>,
}

impl Barrier {
    fn limit(&self) -> u32 {
        THRESHOLD - THRESHOLD % self.count
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Act {
    Read,
    Arrive,
    Enter,
    Turn(u64, u32),
    Depart,
    Exit,
}

/// The result of a run.
#[derive(Debug)]
pub struct Run {
    pub events: Vec<Event>,
    pub truth: Truth,
}

struct Machine<'a> {
    setup: &'a Setup,
    watch: &'a Watch,
    random: Random,
    loss: Random,
    threads: Vec<Thread>,
    barriers: BTreeMap<u64, Barrier>,
    /// The current address of each barrier, and all pairs of address and count ever made.
    addresses: BTreeMap<u64, u64>,
    made: BTreeSet<(u64, u32)>,
    queue: BinaryHeap<Reverse<(u64, u64, usize, Act)>>,
    order: u64,
    trust: u64,
    latest_ns: u64,
    events: Vec<Event>,
    truth: Truth,
    free: BTreeSet<u32>,
}

/// Runs a program.
pub fn run(setup: &Setup, watch: &Watch) -> Run {
    let mut machine = Machine {
        setup,
        watch,
        random: Random(setup.seed),
        loss: Random(!setup.seed),
        threads: Vec::new(),
        barriers: BTreeMap::new(),
        addresses: BTreeMap::new(),
        made: BTreeSet::new(),
        queue: BinaryHeap::new(),
        order: 0,
        trust: 1,
        latest_ns: 0,
        events: Vec::new(),
        truth: Truth::default(),
        free: BTreeSet::new(),
    };
    machine.all();
    Run {
        events: machine.events,
        truth: machine.truth,
    }
}

const TEAM: u64 = 0x1000;
const GLOBAL: u64 = 0x2000;
const POOL: u64 = 0x3000;

impl Machine<'_> {
    fn all(&mut self) {
        let main = self.spawn(0);
        for (number, size) in self.setup.regions.iter().enumerate() {
            let last = number + 1 == self.setup.regions.len();
            self.region(main, *size, last && self.setup.pool);
            if let Some(at) = self.threads[main].done_ns {
                self.latest_ns = self.latest_ns.max(at) + 10;
            }
        }
        let stuck = self.barriers.values().any(|b| !b.waiting.is_empty());
        if !stuck {
            self.exit(main, self.latest_ns + 5);
        }
    }

    fn region(&mut self, main: usize, size: usize, pool: bool) {
        let base = self.latest_ns + self.setup.grain * 4;
        let mut team = vec![main];
        let teams = self.setup.teams.min(size);
        let mut at = base;
        if pool {
            let count = 1 + self.random.below(size as u64);
            self.init(main, &mut at, POOL, u32::try_from(count).unwrap());
        } else {
            for team in 0..teams {
                let count = (size - team).div_ceil(teams);
                let object = TEAM + 0x40 * team as u64;
                self.init(main, &mut at, object, u32::try_from(count).unwrap());
            }
            self.init(main, &mut at, GLOBAL, u32::try_from(size).unwrap());
        }
        for index in 1..size {
            team.push(self.spawn(at + index as u64 * 3));
        }
        let steps: Vec<_> = (0..self.setup.steps)
            .map(|step| (self.random.chance(25), u32::try_from(step).unwrap()))
            .collect();
        for (index, thread) in team.iter().enumerate() {
            let own = u32::from(index == 0 && self.setup.mixed) * 5;
            let length = 1 + self.random.below(6);
            self.threads[*thread].script = if pool {
                (0..length)
                    .map(|_| Step {
                        object: self.addresses[&POOL],
                        place: 90 + u32::try_from(index % 2).unwrap() + own,
                    })
                    .collect()
            } else {
                let team = u32::try_from(index % teams).unwrap();
                steps
                    .iter()
                    .map(|(global, step)| {
                        if *global {
                            Step {
                                object: self.addresses[&GLOBAL],
                                place: 100 + step % 2 + own,
                            }
                        } else {
                            Step {
                                object: self.addresses[&(TEAM + 0x40 * u64::from(team))],
                                place: 10 * (team + 1) + step % 2 + own,
                            }
                        }
                    })
                    .collect()
            };
            self.threads[*thread].at = None;
            self.threads[*thread].done_ns = None;
            let start = self.threads[*thread].born_ns.max(at);
            self.work(*thread, start);
        }
        while let Some(Reverse((time, _, thread, act))) = self.queue.pop() {
            self.latest_ns = self.latest_ns.max(time);
            self.act(time, thread, act);
        }
    }

    fn spawn(&mut self, born_ns: u64) -> usize {
        let fresh = 500 + u32::try_from(self.threads.len()).unwrap();
        let tid = if self.setup.reuse {
            self.free.pop_first().unwrap_or(fresh)
        } else {
            fresh
        };
        let (run_ns, delay_ns) = if self.threads.is_empty() {
            (50, 7)
        } else {
            (0, 0)
        };
        self.threads.push(Thread {
            tid,
            born_ns,
            run_ns,
            delay_ns,
            base: (run_ns, delay_ns),
            ..Thread::default()
        });
        self.truth.threads.push(TrueThread {
            tid,
            born: Clocks {
                time_ns: born_ns,
                run_ns: Some(run_ns),
                delay_ns: Some(delay_ns),
            },
            ended: None,
        });
        self.threads.len() - 1
    }

    fn init(&mut self, thread: usize, at: &mut u64, object: u64, count: u32) {
        let name = object;
        let object = self.addresses.get(&name).copied().unwrap_or(name);
        let kept = self.barriers.get(&object).is_some_and(|b| b.count == count);
        let seen = self.setup.inits && self.watch.losses.is_empty();
        if kept && (!seen || self.random.chance(50)) {
            return;
        }
        // If an object is made anew unseen and looks exactly as before, nothing can tell. So the
        // object is placed elsewhere.
        let again = !self.made.insert((object, count));
        let object = if again && !seen {
            object + 0x10_0000
        } else {
            object
        };
        self.addresses.insert(name, object);
        let first = !self.barriers.contains_key(&object);
        let mut barrier = Barrier {
            count,
            ..Barrier::default()
        };
        if first && self.setup.old {
            let done = barrier.limit() - count * u32::try_from(1 + self.random.below(6)).unwrap();
            (barrier.entered, barrier.round, barrier.left) = (done, done, done);
        }
        self.barriers.insert(object, barrier);
        self.distrust();
        if self.setup.inits {
            let (tid, time_ns) = (self.threads[thread].tid, *at);
            self.emit(
                thread,
                time_ns,
                Event::Init {
                    time_ns,
                    object,
                    kind: Kind::Pthread,
                    tid,
                    count,
                },
            );
        }
        *at += 1;
        self.latest_ns = self.latest_ns.max(*at);
    }

    fn plan(&mut self, time: u64, thread: usize, act: Act) {
        self.order += 1;
        self.queue.push(Reverse((time, self.order, thread, act)));
    }

    /// Works, then goes to the next barrier or ends.
    fn work(&mut self, thread: usize, from: u64) {
        let long = if self.random.chance(10) { 5_000 } else { 200 };
        let grain = self.setup.grain;
        let until = (from + 4 + self.random.below(long)).next_multiple_of(grain);
        let whole = until - from;
        let run = self.random.below(whole);
        let delay = self.random.below(whole - run);
        let next = self.threads[thread].script.pop_front();
        let it = &mut self.threads[thread];
        it.at = next;
        if next.is_none() && thread == 0 {
            // The region is over for this thread: the main thread joins the others.
            it.done_ns = Some(from);
            return;
        }
        it.run_ns += run;
        it.delay_ns += delay;
        let act = if next.is_none() { Act::Exit } else { Act::Read };
        self.plan(until, thread, act);
    }

    fn act(&mut self, time: u64, thread: usize, act: Act) {
        match act {
            Act::Read => {
                let object = self.threads[thread].at.map_or(0, |step| step.object);
                // One BPF program reports both the memory and the arrival, so both are seen or
                // neither.
                self.threads[thread].unwatched = time < self.watch.from_ns;
                self.read(time, thread, object);
                let later = if self.setup.grain == 1 && !self.setup.pool {
                    self.random.below(3)
                } else {
                    0
                };
                if later == 0 {
                    self.act(time, thread, Act::Arrive);
                } else {
                    self.plan(time + later, thread, Act::Arrive);
                }
            }
            Act::Arrive => {
                let Some(step) = self.threads[thread].at else {
                    return;
                };
                self.threads[thread].arrived_ns = time;
                let clocks = self.clocks(thread, time);
                let tid = self.threads[thread].tid;
                let watched = !self.threads[thread].unwatched;
                let seen = watched
                    && self.emit(
                        thread,
                        time,
                        Event::Arrive {
                            tid,
                            clocks,
                            object: step.object,
                            kind: Kind::Pthread,
                            callers: CallersId(step.place),
                        },
                    );
                self.truth.seen += u64::from(seen);
                // In a pool all threads are equally slow, so that stamps have the barrier's order.
                let slow = match self.setup.slow {
                    0 | 1 => self.setup.slow,
                    most => 1 + self.random.below(most),
                };
                if slow == 0 {
                    self.enter(time, thread);
                    return;
                }
                self.plan(time + slow, thread, Act::Enter);
            }
            Act::Enter => self.enter(time, thread),
            Act::Turn(object, to) => self.turn(time, object, to),
            Act::Depart => self.depart(time, thread),
            Act::Exit => self.exit(thread, time),
        }
    }

    fn enter(&mut self, time: u64, thread: usize) {
        let Some(step) = self.threads[thread].at else {
            return;
        };
        let slow = self.random.below(3);
        let Some(barrier) = self.barriers.get_mut(&step.object) else {
            return;
        };
        barrier.entered += 1;
        if barrier.entered > barrier.limit() {
            barrier.held_back.push(thread);
            return;
        }
        barrier.waiting.push((barrier.entered, thread));
        let full = barrier.entered.is_multiple_of(barrier.count);
        let entered = barrier.entered;
        if full {
            self.plan(time + slow, thread, Act::Turn(step.object, entered));
        }
    }

    fn turn(&mut self, time: u64, object: u64, to: u32) {
        let Some(barrier) = self.barriers.get_mut(&object) else {
            return;
        };
        barrier.round = barrier.round.max(to);
        let mut parts = Vec::new();
        let count = barrier.count;
        let waiting = std::mem::take(&mut barrier.waiting);
        for (number, thread) in waiting {
            // The last thread to enter a round turns it over.
            if number <= to && number > to - count {
                parts.push(thread);
            } else {
                barrier.waiting.push((number, thread));
            }
        }
        let episode = Episode {
            object,
            parts: parts
                .iter()
                .map(|thread| Part {
                    thread: *thread,
                    arrived: self.clocks(*thread, self.threads[*thread].arrived_ns),
                    place: self.threads[*thread].at.map_or(0, |step| step.place),
                    gone: None,
                    left: None,
                })
                .collect(),
        };
        self.truth.episodes.push(episode);
        for thread in parts {
            let slow = 1 + self.random.below(40);
            self.plan(time + slow, thread, Act::Depart);
        }
    }

    fn depart(&mut self, time: u64, thread: usize) {
        let object = self.threads[thread].at.map_or(0, |step| step.object);
        let mut retry = Vec::new();
        if let Some(barrier) = self.barriers.get_mut(&object) {
            barrier.left += 1;
            if barrier.left == barrier.limit() {
                (barrier.entered, barrier.round, barrier.left) = (0, 0, 0);
                retry = std::mem::take(&mut barrier.held_back);
            }
        }
        for thread in retry {
            self.plan(time + 1, thread, Act::Enter);
        }
        if self.random.chance(2) {
            self.spin(thread, time);
        }
        let clocks = self.clocks(thread, time);
        let tid = self.threads[thread].tid;
        let seen = self.setup.departures && self.emit(thread, time, Event::Depart { tid, clocks });
        self.truth.left(thread, clocks, seen);
        self.work(thread, time);
    }

    /// Makes a thread spin for a part of its wait.
    fn spin(&mut self, thread: usize, until: u64) {
        let waited = until - self.threads[thread].arrived_ns;
        let run = self.random.below(waited + 1);
        self.threads[thread].run_ns += run;
    }

    fn exit(&mut self, thread: usize, time: u64) {
        let clocks = self.clocks(thread, time);
        let tid = self.threads[thread].tid;
        self.emit(thread, time, Event::Exit { tid, clocks });
        self.truth.threads[thread].ended = Some(clocks);
        self.free.insert(tid);
        self.latest_ns = self.latest_ns.max(time);
    }

    fn clocks(&self, thread: usize, time_ns: u64) -> Clocks {
        Clocks {
            time_ns,
            run_ns: Some(self.threads[thread].run_ns),
            delay_ns: Some(self.threads[thread].delay_ns),
        }
    }

    /// Reads the barrier's memory before an arrival, as `remember` on the kernel side does.
    fn read(&mut self, time_ns: u64, thread: usize, object: u64) {
        let it = &self.threads[thread];
        let refresh = it.records % self.setup.refresh == self.setup.refresh - 1;
        let stale = it.trusted.get(&object) != Some(&self.trust);
        if self.setup.memory == Memory::Opaque || !(refresh || stale) {
            return;
        }
        let tid = it.tid;
        let Some(barrier) = self.barriers.get(&object) else {
            return;
        };
        let round = (self.setup.memory == Memory::Glibc).then(|| Round {
            number: barrier.round,
            arrived: barrier.entered - barrier.round,
        });
        let count = barrier.count;
        let sent = self.emit(
            thread,
            time_ns,
            Event::Memory {
                tid,
                time_ns,
                object,
                count,
                round,
            },
        );
        if sent {
            let trust = self.trust;
            self.threads[thread].trusted.insert(object, trust);
        }
    }

    /// Makes a record of a thread, which may be lost. Returns whether it was sent.
    fn emit(&mut self, thread: usize, time: u64, event: Event) -> bool {
        if time < self.watch.from_ns {
            return false;
        }
        if !self.threads[thread].announced {
            self.threads[thread].trusted.clear();
            if self.is_lost(time) {
                self.distrust();
            } else {
                self.announce(thread);
            }
        }
        self.threads[thread].records += 1;
        if self.is_lost(time) {
            self.threads[thread].lost += 1;
            self.distrust();
            return false;
        }
        let tid = self.threads[thread].tid;
        let count = std::mem::take(&mut self.threads[thread].lost);
        if count > 0 {
            self.events.push(Event::Lost { tid, count });
        }
        self.events.push(event);
        true
    }

    fn announce(&mut self, thread: usize) {
        let it = &mut self.threads[thread];
        it.announced = true;
        let born = it.born_ns >= self.watch.from_ns;
        let since = if born {
            Clocks {
                time_ns: it.born_ns,
                run_ns: Some(it.base.0),
                delay_ns: Some(it.base.1),
            }
        } else {
            // The run time at that moment comes from elsewhere, and is less exact.
            Clocks::at(self.watch.from_ns)
        };
        self.events.push(Event::Thread {
            tid: it.tid,
            shown: (it.tid, 77),
            name: format!("{thread}"),
            since,
            code_start: None,
        });
    }

    fn is_lost(&mut self, time: u64) -> bool {
        let losses = &self.watch.losses;
        let percent = losses
            .iter()
            .find(|(from, to, _)| (*from..*to).contains(&time))
            .map_or(0, |(_, _, percent)| *percent);
        if percent > 0 && self.loss.below(100) < percent {
            self.truth.last_loss_ns = time;
            return true;
        }
        false
    }

    fn distrust(&mut self) {
        self.order += 1;
        self.trust = self.order;
    }
}
