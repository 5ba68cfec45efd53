//! One look at all threads of the target.

use std::{
    collections::{HashMap, HashSet},
    sync::Mutex,
};

use super::{
    Target,
    files::{self, Files, Room, State, Times},
    locked,
    samples::Open,
    spins::Spins,
};
use crate::{
    inspect::sleepers::{Seen, Sleep, Sleeper, Sleepers},
    source::ebpf::sleeps::Sample,
};
use sbt_engine::looks::{Birth, Glimpse, Tally, ThreadId, WaitNumber};
use sbt_program::{clock, process};

/// The most threads in one look. Of more, each look takes others.
const MOST_THREADS: usize = 256;

/// The most threads whose files are kept open.
const MOST_OPEN: usize = 128;

/// The most processes in one look.
const MOST_PROCESSES: usize = 64;

/// What a look has seen.
#[derive(Clone, Copy, Debug, Default)]
pub struct Looked {
    /// CPU time of all threads so far, ns.
    pub ran_ns: u64,
    /// Whether sbt may look into a process of the target.
    pub is_allowed: bool,
}

/// A thread that is looked at again and again.
struct Task {
    birth: Birth,
    files: Option<Files>,
    looks: u32,
    /// The sleep at the last look, with the number of the thread's turns on a CPU.
    last: Option<(Sleep, Option<u64>)>,
    wait: Option<WaitNumber>,
    sleeper: Option<Sleeper>,
    ran_ns: u64,
}

/// The state kept between looks.
pub struct Round {
    sleepers: Sleepers,
    /// Samples of sleeps.
    samples: Open,
    /// Samples of running threads.
    spins: Spins,
    /// When each process was seen to have executed another program, ns.
    executed: HashMap<u32, u64>,
    tasks: HashMap<ThreadId, Task>,
    threads: Vec<ThreadId>,
    /// Where the code of each process begins.
    processes: HashMap<u32, u64>,
    /// The time of the last look, ns.
    last_ns: u64,
    is_started: bool,
    /// The process that is watched, and whether a signal has stopped it.
    target: u32,
    is_stopped: bool,
    /// CPU time of threads that have ended, ns.
    ended_ns: u64,
    from: usize,
}

impl Round {
    /// `begun_ns`: when the looks began.
    pub fn new(target: &Target, begun_ns: u64) -> Self {
        Self {
            sleepers: Sleepers::new(target.process, &target.files, target.shared.clone()),
            samples: Open::default(),
            spins: Spins::default(),
            executed: HashMap::new(),
            tasks: HashMap::new(),
            threads: Vec::new(),
            processes: HashMap::new(),
            last_ns: begun_ns,
            is_started: target.is_started,
            target: target.process,
            is_stopped: false,
            ended_ns: 0,
            from: 0,
        }
    }

    /// Looks once at all threads of these processes, and counts in `tally`.
    pub fn look(&mut self, processes: &[u32], tally: &Mutex<Tally>) -> Looked {
        let is_allowed = self.list(processes);
        let now_ns = clock::now_ns();
        let count = self.threads.len();
        let mut chosen: Vec<ThreadId> = Vec::with_capacity(count.min(MOST_THREADS));
        chosen
            .extend((0..count.min(MOST_THREADS)).map(|at| self.threads[(self.from + at) % count]));
        if count > MOST_THREADS {
            self.from = (self.from + MOST_THREADS) % count;
        }
        let mut room = Room::default();
        let mut holders: Vec<(WaitNumber, ThreadId)> = Vec::new();
        let mut asleep: HashMap<ThreadId, WaitNumber> = HashMap::new();
        let mut seen: Vec<(ThreadId, Birth, Glimpse)> = Vec::with_capacity(chosen.len());
        for who in chosen {
            let Some((birth, glimpse, holder)) = self.thread(who, now_ns, &mut room, tally) else {
                continue;
            };
            if let Some(wait) = glimpse.wait {
                asleep.insert(who, wait);
                holders.extend(holder.map(|holder| (wait, holder)));
            }
            seen.push((who, birth, glimpse));
        }
        let named: Vec<(ThreadId, String)> = seen
            .iter()
            .filter_map(|(who, _, _)| Some((*who, self.name_if_due(*who)?)))
            .collect();
        self.spins
            .tick(now_ns, &self.threads, &mut self.sleepers, tally);
        let mut tally = locked(tally);
        tally.stands(now_ns, self.is_stopped);
        if !seen.is_empty() {
            tally.look(now_ns);
        }
        for (who, birth, glimpse) in &seen {
            tally.thread(*who, *birth, *glimpse);
        }
        if seen.len() == count && processes.len() == 1 {
            tally.alone(&seen);
        }
        for (wait, holder) in holders {
            tally.holds(wait, holder, asleep.get(&holder).copied());
        }
        for (who, name) in named {
            tally.name(who, &name);
        }
        self.last_ns = now_ns;
        let running: u64 = self.tasks.values().map(|task| task.ran_ns).sum();
        Looked {
            ran_ns: self.ended_ns + running,
            is_allowed,
        }
    }

    /// Takes a sample of the sleeps.
    pub fn sample(&mut self, sample: &Sample, tally: &Mutex<Tally>) {
        if let Sample::Asleep(record) = sample {
            let executed_ns = self.executed.get(&record.process);
            let is_of_older_program = executed_ns.is_some_and(|at| record.time_ns < *at);
            // Of a process that was not looked at yet, the code is not known.
            if is_of_older_program || !self.processes.contains_key(&record.process) {
                return;
            }
        }
        self.samples.take(sample, &mut self.sleepers, tally);
    }

    /// Lists the threads. Returns whether any process may be looked into.
    fn list(&mut self, processes: &[u32]) -> bool {
        let mut threads = Vec::with_capacity(self.threads.len());
        let mut present = HashSet::new();
        let mut stopped = HashSet::new();
        let mut is_allowed = false;
        for &process in processes.iter().take(MOST_PROCESSES) {
            let Some(state) = State::of(process) else {
                continue;
            };
            if !self.sleepers.may(process) {
                continue;
            }
            is_allowed = true;
            present.insert(process);
            let before = self.processes.insert(process, state.code_start);
            if before.is_some_and(|before| before != state.code_start) {
                self.sleepers.executed(process);
                self.executed.insert(process, clock::now_ns());
                for (who, task) in &mut self.tasks {
                    if who.process == process {
                        (task.last, task.wait, task.sleeper) = (None, None, None);
                    }
                }
            }
            if state.is_stopped {
                stopped.insert(process);
            }
            let all = process::thread_ids(process);
            threads.extend(all.map(|thread| ThreadId { process, thread }));
        }
        let gone: Vec<u32> = self
            .processes
            .keys()
            .filter(|process| !present.contains(process))
            .copied()
            .collect();
        for process in gone {
            self.processes.remove(&process);
            self.executed.remove(&process);
            self.sleepers.ended(process);
        }
        threads.sort_unstable();
        if threads != self.threads {
            self.sleepers.set_threads(&threads);
            let alive: HashSet<&ThreadId> = threads.iter().collect();
            let mut ended_ns = 0;
            self.tasks.retain(|who, task| {
                let stays = alive.contains(who);
                ended_ns += if stays { 0 } else { task.ran_ns };
                stays
            });
            self.ended_ns += ended_ns;
        }
        self.is_stopped = stopped.contains(&self.target);
        // A stopped process is neither asleep nor at work.
        threads.retain(|who| !stopped.contains(&who.process));
        self.threads = threads;
        is_allowed
    }

    /// Looks at a thread; `None` if it has ended, or if nothing is known of it now.
    fn thread(
        &mut self,
        who: ThreadId,
        now_ns: u64,
        room: &mut Room,
        tally: &Mutex<Tally>,
    ) -> Option<(Birth, Glimpse, Option<ThreadId>)> {
        let is_full = self.tasks.len() >= MOST_OPEN;
        let is_known = self.tasks.contains_key(&who);
        let task = self.tasks.entry(who).or_insert_with(|| Task {
            birth: Birth::default(),
            files: if is_full { None } else { Files::open(who) },
            looks: 0,
            last: None,
            wait: None,
            sleeper: None,
            ran_ns: 0,
        });
        let opened;
        let files = if let Some(files) = &task.files {
            files
        } else {
            opened = Files::open(who)?;
            &opened
        };
        let seen = Seen::read(files.call(room)?);
        let times = files.times(room);
        if !is_known {
            task.birth = birth(times, self.is_started, self.last_ns, now_ns);
        }
        task.looks += 1;
        let since = |times: Times| times.ran_ns.saturating_sub(task.birth.ran_ns);
        task.ran_ns = times.map_or(task.ran_ns, since);
        let mut glimpse = Glimpse {
            time_ns: now_ns,
            ran_ns: times.map(|times| times.ran_ns),
            ready_ns: times.map(|times| times.ready_ns),
            asleep: false,
            wait: None,
        };
        let birth = task.birth;
        let sleep = match seen {
            Seen::Asleep(sleep) => sleep,
            Seen::Running => {
                (task.last, task.wait, task.sleeper) = (None, None, None);
                return Some((birth, glimpse, None));
            }
            Seen::Unknown => return None,
        };
        let now = (sleep, times.map(|times| times.turns));
        let is_same = now.1.is_some() && task.last == Some(now);
        let holder = if is_same {
            let sleeper = task.sleeper.as_ref();
            sleeper.and_then(|sleeper| self.sleepers.holder(sleeper))
        } else {
            (task.last, task.wait, task.sleeper) = (None, None, None);
            let Some((sleeper, wait, holder)) = self.sleepers.look(who, sleep) else {
                // At a breakpoint it works.
                return Some((birth, glimpse, None));
            };
            // If it has gone on meanwhile, its stack was another's.
            let again = files.call(room).map(Seen::read) == Some(seen);
            if !again || files.times(room).map(|times| times.turns) != now.1 {
                glimpse.asleep = true;
                return Some((birth, glimpse, None));
            }
            task.last = Some(now);
            task.wait = locked(tally).number(wait);
            task.sleeper = sleeper.has_holder.then_some(sleeper);
            holder
        };
        glimpse.asleep = true;
        glimpse.wait = task.wait;
        if let Some(wait) = task.wait {
            locked(tally).saw_asleep(sleep.key(who), wait);
        }
        Some((birth, glimpse, holder.filter(|holder| *holder != who)))
    }

    /// The name of a thread, if it may be new: threads are named soon after their beginning.
    fn name_if_due(&self, who: ThreadId) -> Option<String> {
        let looks = self.tasks.get(&who)?.looks;
        looks.is_power_of_two().then(|| files::name(who)).flatten()
    }
}

/// The beginning of a thread that was not there at the last look, at `last_ns`: as if it had not slept
/// before this one.
fn birth(times: Option<Times>, is_started: bool, last_ns: u64, now_ns: u64) -> Birth {
    let times = times.unwrap_or(Times {
        ran_ns: 0,
        ready_ns: 0,
        turns: 0,
    });
    let since_ns = now_ns.saturating_sub(last_ns);
    let used_ns = times.ran_ns.saturating_add(times.ready_ns);
    if used_ns > since_ns && !is_started {
        // It ran before sbt came.
        return Birth {
            time_ns: now_ns,
            ran_ns: times.ran_ns,
            ready_ns: times.ready_ns,
        };
    }
    Birth {
        time_ns: now_ns.saturating_sub(used_ns),
        ran_ns: 0,
        ready_ns: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_lives_at_least_as_long_as_it_ran() {
        let times = |ran_ns| {
            Some(Times {
                ran_ns,
                ready_ns: 0,
                turns: 1,
            })
        };
        assert_eq!(birth(times(90), true, 1000, 1100).time_ns, 1010);
        assert_eq!(birth(times(10), true, 1000, 1100).time_ns, 1090);
        let old = birth(times(500), false, 1000, 1100);
        assert_eq!((old.time_ns, old.ran_ns), (1100, 500));
    }
}
