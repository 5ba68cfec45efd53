//! What looks at sleeping threads have shown: where threads sleep, for what, and which thread holds
//! that. A look reads what the system tells of each thread at one moment, without stopping it, so
//! numbers of looks stand for shares of time. Pure: others look, here the looks are counted.

use std::collections::{BTreeMap, HashMap, btree_map::Entry};

use serde::{Deserialize, Serialize};

pub use crate::event::ThreadId;

use spins::Spins;
use sums::{FoundSleep, Samples, Summed, Sums};

pub mod duty;
pub mod pace;
mod spins;
pub mod sums;
#[cfg(test)]
mod tests;

/// The most threads that are counted one by one.
const MAX_THREADS: usize = 4096;

/// The most different waits that are kept.
const MAX_WAITS: usize = 4096;

/// The most pairs of a thread and a wait, and of a wait and a holder.
const MAX_PAIRS: usize = 1 << 16;

/// Fewer looks than this show nothing.
pub const FEW: u64 = 8;

/// For what a thread sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Kind {
    /// A mutex, of the C library or of a language.
    Mutex,
    /// A read-write lock.
    RwLock,
    /// An `omp critical` section.
    Critical,
    /// A lock of OpenMP (`omp_set_lock`).
    OmpLock,
    /// A lock inside of the C library's `malloc`, `free` and the like.
    Allocator,
    /// The lock of Python's interpreter.
    Interpreter,
    /// A monitor of Java (`synchronized`).
    Monitor,
    /// A semaphore that has no units left.
    Semaphore,
    /// A condition variable.
    Condvar,
    /// The end of another thread.
    Join,
    /// The end of a child process.
    Child,
    /// The other threads of a barrier, or a runtime's next parallel region.
    Barrier,
    /// A time (`nanosleep` and the like).
    Sleep,
    /// Input or output: a file, a pipe, a socket.
    Io,
    /// News from outside: `poll`, `epoll_wait`, `accept` and the like.
    Poll,
    /// A page of memory.
    Fault,
    /// A lock or a flag for which the thread spins: it does not sleep.
    Spin,
    /// A futex of unknown purpose.
    Futex,
    /// Another system call.
    Other,
}

impl Kind {
    /// Whether one thread keeps others out.
    pub const fn is_lock(self) -> bool {
        matches!(
            self,
            Self::Mutex
                | Self::RwLock
                | Self::Critical
                | Self::OmpLock
                | Self::Allocator
                | Self::Interpreter
                | Self::Monitor
        )
    }
}

/// A place in the code.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CodePlace {
    /// The demangled function; not yet made safe to print.
    pub function: Option<String>,
    /// The source file as the compiler recorded it.
    pub file: Option<String>,
    /// The line, from 1.
    pub line: Option<u32>,
    /// File name of the program or library.
    pub binary: String,
    /// Address in that file's own numbering.
    pub offset: u64,
}

/// A wait of a thread.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Wait {
    /// The id of the process to which the thread belongs.
    pub process: u32,
    /// For what the thread sleeps.
    pub kind: Kind,
    /// The library function that the program called, or else the system call.
    pub call: Option<String>,
    /// What a system call waits for: `standard input`, `/data/in.txt`; not yet made safe to print.
    pub what: Option<String>,
    /// Address of the lock or other object.
    pub object: Option<u64>,
    /// The thread or process whose end is awaited.
    pub awaits: Option<ThreadId>,
    /// Calls of the program's own code, the innermost first; of a library's if there are none.
    pub stack: Vec<CodePlace>,
    /// Whether `stack` is of a library.
    #[serde(default)]
    pub in_library: bool,
}

/// The number of a wait in a [`Tally`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WaitNumber(usize);

/// What one look shows of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Glimpse {
    /// When, `CLOCK_MONOTONIC` ns.
    pub time_ns: u64,
    /// CPU time so far, ns; `None` if the kernel does not tell.
    pub ran_ns: Option<u64>,
    /// Time ready without a CPU so far, ns.
    pub ready_ns: Option<u64>,
    /// Whether the thread sleeps.
    pub asleep: bool,
    /// The wait, if it sleeps and that was found out.
    pub wait: Option<WaitNumber>,
}

/// The beginning of a thread's life, as far as it is watched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Birth {
    /// When it began, `CLOCK_MONOTONIC` ns.
    pub time_ns: u64,
    /// CPU time before, ns.
    pub ran_ns: u64,
    /// Time ready before, ns.
    pub ready_ns: u64,
}

#[derive(Clone, Debug)]
struct Life {
    birth: Birth,
    last: Glimpse,
    name: String,
    looks: u64,
    asleep: u64,
    alone: u64,
}

/// How often, and for how long, a signal kept the program stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stood {
    /// How many times.
    pub times: u64,
    /// The time of all together, at least, ns.
    pub total_ns: u64,
    /// The time of all together, at most, ns.
    pub at_most_ns: u64,
}

/// The looks so far. Memory is bounded.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    looks: u64,
    first_ns: u64,
    last_ns: u64,
    threads: BTreeMap<ThreadId, Life>,
    waits: Vec<Wait>,
    numbers: HashMap<Wait, WaitNumber>,
    pairs: HashMap<(WaitNumber, ThreadId), u64>,
    /// Looks at which a thread held what others waited for, weighted by their number; and the wait
    /// of the holder meanwhile.
    held: HashMap<(WaitNumber, ThreadId, Option<WaitNumber>), u64>,
    /// Looks at threads for which there was no room.
    dropped: u64,
    /// How often the program was seen stopped by a signal, and for how long.
    stopped: Stood,
    /// When a look last saw the program stopped, ns.
    stopped_ns: Option<u64>,
    /// The last look at whether it is stopped, ns.
    asked_ns: Option<u64>,
    /// Where threads were when they went to sleep.
    samples: Samples,
    /// Where looks saw them asleep.
    seen_asleep: Samples,
    /// Where threads were while they ran.
    spins: Spins,
}

/// Between two looks further apart than this a program may have gone on, ns.
const MOST_APART_NS: u64 = 100_000_000;

impl Tally {
    /// Whether a signal keeps the program stopped at a time.
    pub fn stands(&mut self, time_ns: u64, is_stopped: bool) {
        let before_ns = self.asked_ns.replace(time_ns).unwrap_or(time_ns);
        let apart_ns = time_ns.saturating_sub(before_ns);
        let stood = self.stopped_ns.is_some();
        self.stopped_ns = is_stopped.then_some(time_ns);
        self.stopped.times += u64::from(is_stopped && !stood);
        if is_stopped && stood && apart_ns <= MOST_APART_NS {
            self.stopped.total_ns += apart_ns;
        }
        if is_stopped || stood {
            self.stopped.at_most_ns += apart_ns;
        }
    }

    /// A look at all threads begins.
    pub fn look(&mut self, time_ns: u64) {
        self.looks += 1;
        if self.first_ns == 0 {
            self.first_ns = time_ns;
        }
        self.last_ns = time_ns;
    }

    /// The number of a wait; `None` if there is no room for more.
    pub fn number(&mut self, wait: Wait) -> Option<WaitNumber> {
        if let Some(known) = self.numbers.get(&wait) {
            return Some(*known);
        }
        if self.waits.len() >= MAX_WAITS {
            return None;
        }
        let number = WaitNumber(self.waits.len());
        self.waits.push(wait.clone());
        self.numbers.insert(wait, number);
        Some(number)
    }

    /// The wait with a number.
    pub fn wait(&self, number: WaitNumber) -> &Wait {
        &self.waits[number.0]
    }

    /// A thread was seen. `birth`: as far as the thread is new.
    pub fn thread(&mut self, who: ThreadId, birth: Birth, seen: Glimpse) {
        let is_full = self.threads.len() >= MAX_THREADS;
        let life = match self.threads.entry(who) {
            Entry::Occupied(life) => life.into_mut(),
            Entry::Vacant(_) if is_full => {
                self.dropped += 1;
                return;
            }
            Entry::Vacant(room) => room.insert(Life {
                birth,
                last: seen,
                name: String::new(),
                looks: 0,
                asleep: 0,
                alone: 0,
            }),
        };
        life.looks += 1;
        life.asleep += u64::from(seen.asleep);
        life.last = seen;
        let Some(wait) = seen.wait else {
            return;
        };
        let has_room = self.pairs.len() < MAX_PAIRS;
        match self.pairs.get_mut(&(wait, who)) {
            Some(count) => *count += 1,
            None if has_room => {
                self.pairs.insert((wait, who), 1);
            }
            None => self.dropped += 1,
        }
    }

    /// A look saw all threads of the program: counts a thread that was awake while there was no other,
    /// or the others only waited for threads to end.
    pub fn alone(&mut self, seen: &[(ThreadId, Birth, Glimpse)]) {
        let joins = |glimpse: &Glimpse| {
            let wait = glimpse.wait.filter(|_| glimpse.asleep);
            wait.is_some_and(|wait| self.wait(wait).kind == Kind::Join)
        };
        let mut others = seen.iter().filter(|(_, _, glimpse)| !joins(glimpse));
        if let (Some((who, _, glimpse)), None) = (others.next(), others.next())
            && !glimpse.asleep
            && let Some(life) = self.threads.get_mut(who)
        {
            life.alone += 1;
        }
    }

    /// All threads that were seen.
    pub fn threads(&self) -> Vec<ThreadId> {
        self.threads.keys().copied().collect()
    }

    /// The name of a thread.
    pub fn name(&mut self, who: ThreadId, name: &str) {
        if let Some(life) = self.threads.get_mut(&who)
            && life.name != name
        {
            name.clone_into(&mut life.name);
        }
    }

    /// A thread holds what another waits for. `meanwhile`: the holder's own wait, if it sleeps.
    pub fn holds(&mut self, wait: WaitNumber, holder: ThreadId, meanwhile: Option<WaitNumber>) {
        let has_room = self.held.len() < MAX_PAIRS;
        match self.held.get_mut(&(wait, holder, meanwhile)) {
            Some(count) => *count += 1,
            None if has_room => {
                self.held.insert((wait, holder, meanwhile), 1);
            }
            None => self.dropped += 1,
        }
    }

    /// Forgets everything but the threads and waits: counts begin anew at `time_ns`.
    pub fn reset(&mut self, time_ns: u64) {
        let old = std::mem::take(self);
        let lives = old.threads;
        self.waits = old.waits;
        self.numbers = old.numbers;
        self.samples = old.samples;
        self.seen_asleep = old.seen_asleep;
        for (who, life) in lives {
            let birth = Birth {
                time_ns,
                ran_ns: life.last.ran_ns.unwrap_or(0),
                ready_ns: life.last.ready_ns.unwrap_or(0),
            };
            let life = Life {
                birth,
                looks: 0,
                asleep: 0,
                alone: 0,
                ..life
            };
            self.threads.insert(who, life);
        }
    }

    /// The findings. `cpu_ns`: CPU time that the looks have cost sbt. `sums`: what the kernel has
    /// summed up, if it does.
    pub fn found(&self, cpu_ns: u64, sums: Option<&Sums>) -> Found {
        let threads = self.threads.iter().filter(|(_, life)| life.looks > 0);
        let threads = threads.map(|(who, life)| life.found(*who)).collect();
        let mut waits: Vec<FoundWait> = self
            .waits
            .iter()
            .map(|wait| FoundWait {
                wait: wait.clone(),
                threads: Vec::new(),
                holders: Vec::new(),
                sleeps: Vec::new(),
                wakers: Vec::new(),
            })
            .collect();
        let placed = sums.map(|sums| self.place(sums));
        let (summed, placed) = placed.map_or((None, HashMap::new()), |(summed, placed)| {
            (Some(summed), placed)
        });
        for (wait, at) in placed {
            (waits[wait.0].sleeps, waits[wait.0].wakers) = (at.sleeps, at.wakers);
        }
        for (wait, spent) in self.spun(summed.as_ref()) {
            waits[wait.0].sleeps.push(spent);
        }
        for ((wait, who), looks) in &self.pairs {
            waits[wait.0].threads.push((*who, *looks));
        }
        for ((wait, who, meanwhile), looks) in &self.held {
            waits[wait.0].holders.push(FoundHolder {
                who: *who,
                looks: *looks,
                meanwhile: meanwhile.map(|number| self.waits[number.0].clone()),
            });
        }
        waits.retain(|found| !found.threads.is_empty() || !found.sleeps.is_empty());
        for found in &mut waits {
            found.threads.sort_unstable();
            found.holders.sort_by(|a, b| {
                let key = |holder: &FoundHolder| (std::cmp::Reverse(holder.looks), holder.who);
                key(a).cmp(&key(b)).then(a.meanwhile.cmp(&b.meanwhile))
            });
        }
        let key = |found: &FoundWait| std::cmp::Reverse((found.slept_ns(), found.looks()));
        waits.sort_by(|a, b| key(a).cmp(&key(b)).then(a.wait.cmp(&b.wait)));
        waits.truncate(MOST_TOLD);
        Found {
            looks: self.looks,
            span_ns: self.last_ns.saturating_sub(self.first_ns),
            cpu_ns,
            threads,
            waits,
            dropped: self.dropped,
            stopped: self.stopped,
            sums: summed,
        }
    }
}

/// The most waits that are told.
pub const MOST_TOLD: usize = 256;

impl Life {
    fn found(&self, who: ThreadId) -> FoundThread {
        let since = |now: Option<u64>, then: u64| now.map(|now| now.saturating_sub(then));
        FoundThread {
            who,
            name: self.name.clone(),
            looks: self.looks,
            asleep: self.asleep,
            alone: self.alone,
            lived_ns: self.last.time_ns.saturating_sub(self.birth.time_ns),
            ran_ns: since(self.last.ran_ns, self.birth.ran_ns),
            ready_ns: since(self.last.ready_ns, self.birth.ready_ns),
        }
    }
}

/// What the looks have found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// Number of looks at all threads.
    pub looks: u64,
    /// From the first look to the last, ns.
    pub span_ns: u64,
    /// CPU time that the looks cost sbt, ns.
    pub cpu_ns: u64,
    /// The threads, by process and number.
    pub threads: Vec<FoundThread>,
    /// The waits, most looks first.
    pub waits: Vec<FoundWait>,
    /// Looks at threads for which there was no room.
    pub dropped: u64,
    /// How often looks saw the program stopped by a signal, and for how long.
    #[serde(default)]
    pub stopped: Stood,
    /// How the kernel summed up sleeps; `None` if it did not.
    #[serde(default)]
    pub sums: Option<Summed>,
}

/// What the looks have found of a thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FoundThread {
    /// Ids of the thread and its process.
    pub who: ThreadId,
    /// Its name in the kernel, not yet made safe to print.
    pub name: String,
    /// Number of looks at it.
    pub looks: u64,
    /// Number of looks at which it slept.
    pub asleep: u64,
    /// Number of looks at which it was awake and alone: see [`Tally::alone`].
    #[serde(default)]
    pub alone: u64,
    /// How long it was watched: until the last look at it, ns.
    pub lived_ns: u64,
    /// CPU time meanwhile, ns.
    pub ran_ns: Option<u64>,
    /// Time ready without a CPU meanwhile, ns.
    pub ready_ns: Option<u64>,
}

/// A wait, with the threads that were seen in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FoundWait {
    /// The place, kind and object of the wait.
    pub wait: Wait,
    /// Each thread with the number of looks that found it there.
    pub threads: Vec<(ThreadId, u64)>,
    /// The threads that held the object meanwhile, most looks first.
    pub holders: Vec<FoundHolder>,
    /// The sleeps of each thread there, by the kernel's sums.
    #[serde(default)]
    pub sleeps: Vec<FoundSleep>,
    /// The threads that ended these sleeps, with the time of the sleeps, ns; the longest first.
    #[serde(default)]
    pub wakers: Vec<(ThreadId, u64)>,
}

impl FoundWait {
    /// The number of looks that found a thread in this wait.
    pub fn looks(&self) -> u64 {
        self.threads.iter().map(|(_, looks)| looks).sum()
    }

    /// How long all threads slept in this wait, by the kernel's sums, ns.
    pub fn slept_ns(&self) -> u64 {
        self.sleeps.iter().map(|slept| slept.total_ns).sum()
    }
}

/// A holder of an object for which others waited.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FoundHolder {
    /// Ids of the holding thread and its process.
    pub who: ThreadId,
    /// For how many looks of waiting threads it was the holder.
    pub looks: u64,
    /// Its own wait meanwhile, if it slept.
    pub meanwhile: Option<Wait>,
}
