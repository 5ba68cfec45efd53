//! Where threads slept and for what, by looks at them.

use serde::{Deserialize, Serialize};

use super::WaitKind;
use crate::{looks::FEW, total::total};

/// Where threads slept and for what. sbt looks at the threads at random moments without stopping
/// them, so shares of looks stand for shares of time, within a few percentage points for some
/// hundred looks. With eBPF the kernel also sums up how long each thread sleeps: these times are
/// exact.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LooksReport {
    /// Number of looks at all threads.
    pub looks: u64,
    /// Time from the first look to the last.
    pub span_ns: u64,
    /// CPU time of sbt that the looks took.
    pub cpu_ns: u64,
    /// Looks at threads that work, all threads together: shares refer to this number. Threads that
    /// only wait for the end of others are left out; so are threads that never came to a barrier,
    /// if others did.
    pub thread_looks: u64,
    /// The threads that were seen, by process and thread id: by looks at where they sleep, or at
    /// their scheduling.
    pub threads: Vec<LookedThreadReport>,
    /// The places where threads slept, most looks first; at most 256.
    pub places: Vec<WaitPlaceReport>,
    /// Who waits for whom outside of barriers: which thread ended the sleep of which, the longest
    /// sleeps first; at most 256. Empty without `sums`.
    #[serde(default)]
    pub pairs: Vec<PairReport>,
    /// How the kernel summed up sleeps; null if it did not, as without eBPF.
    #[serde(default)]
    pub sums: Option<SumsReport>,
}

/// A thread that slept until another one woke it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PairReport {
    /// The name of the thread that slept, in the text report.
    pub waiter: String,
    /// The id of the thread that slept, in sbt's process namespace.
    pub waiter_tid: u32,
    /// The name of the thread that ended the sleep.
    pub waker: String,
    /// The id of the thread that ended the sleep, in sbt's process namespace.
    pub waker_tid: u32,
    /// How long the thread slept until the other thread woke it, all times together.
    pub slept_ns: u64,
    /// `slept_ns` as a percentage of the time in which the sleeps of the thread were summed up.
    pub share_pct: f64,
    /// For what the thread slept longest.
    pub kind: WaitKind,
    /// Where the thread slept longest, in words.
    pub at: String,
}

/// How the kernel summed up sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SumsReport {
    /// For how long sleeps were summed up.
    pub watched_ns: u64,
    /// Time from the beginning of summing to its end. Longer than `watched_ns` where threads sleep so
    /// often that summing would cost too much: then sbt makes pauses.
    pub span_ns: u64,
    /// Number of sleeps.
    pub sleeps: u64,
    /// Time of sleeps whose place is not known.
    pub unplaced_ns: u64,
    /// Number of sleeps for which there was no room.
    pub missed: u64,
}

/// A thread that was looked at.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LookedThreadReport {
    /// The id of the thread in `threads` of the report; null if it is not listed there.
    pub thread: Option<u32>,
    /// The name of the thread in the text report.
    pub label: String,
    /// The thread id in sbt's process namespace.
    pub tid: u32,
    /// The process id in sbt's process namespace.
    pub pid: u32,
    /// The name of the thread in the kernel.
    pub name: String,
    /// Number of looks at the thread; 0 if only its scheduling was looked at.
    pub looks: u64,
    /// Number of these looks at which it slept.
    pub asleep_looks: u64,
    /// Number of these looks at which it was awake while the program had no other thread, or the
    /// others only waited for threads to end.
    #[serde(default)]
    pub alone_looks: u64,
    /// How long the thread was watched: until the last look at it.
    pub watched_ns: u64,
    /// CPU time meanwhile; null if the kernel does not tell.
    pub running_ns: Option<u64>,
    /// Time ready without a CPU meanwhile.
    pub ready_ns: Option<u64>,
    /// Time asleep meanwhile.
    pub blocked_ns: Option<u64>,
}

/// A place where threads slept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WaitPlaceReport {
    /// For what threads slept there.
    pub kind: WaitKind,
    /// The library function that the program called there, or else the system call; null if
    /// unknown.
    pub call: Option<String>,
    /// The object of a system call's wait, if it is always the same: a file, a pipe, a time.
    pub what: Option<String>,
    /// The place, as `function file:line` as far as known, else as `binary+0xoffset`: the innermost
    /// call in the program's own code.
    pub place: String,
    /// Name of the innermost function of the program's own code there.
    pub function: Option<String>,
    /// The source file.
    pub file: Option<String>,
    /// Number of the line in the source file.
    pub line: Option<u32>,
    /// The calls that led there, in the same notation, the most frequent first; at most 3.
    pub callers: Vec<String>,
    /// Whether `place` lies in a library, since no call of the program's own code was found.
    #[serde(default)]
    pub in_library: bool,
    /// Whether the place is inside of a barrier that sbt knows, or in a runtime's wait for work:
    /// not part of the work.
    pub in_barrier: bool,
    /// Number of looks that found a thread there.
    pub looks: u64,
    /// The part of these looks at threads that work, as a percentage of `thread_looks`. If `slept_ns`
    /// is known: the part of it in threads that work, as a percentage of their time.
    pub share_pct: f64,
    /// Number of sleeps there, all threads together; null if the kernel did not sum them up. Of the
    /// kind `spin` the number of samples.
    #[serde(default)]
    pub sleeps: Option<u64>,
    /// How long threads slept there, until they were woken; null if the kernel did not sum that up. Of
    /// the kind `spin` how long they spun, by samples.
    #[serde(default)]
    pub slept_ns: Option<u64>,
    /// The threads, most looks first.
    pub threads: Vec<WaitThreadReport>,
    /// Number of different objects (locks and the like) for which they slept there; 0 if the object
    /// is unknown. One that processes share counts once, if a thread of one woke a thread of another.
    pub objects: u64,
    /// Address of the object if there was one only, hexadecimal.
    pub object: Option<String>,
    /// The threads or processes whose end they awaited.
    pub awaited: Vec<String>,
    /// The threads that held the object meanwhile, most looks first. Known for mutexes of glibc, and
    /// for read-write locks held by a writer.
    pub holders: Vec<HolderReport>,
    /// The threads of the program that woke those which slept there, the longest sleeps first; at most 4.
    /// Empty if the kernel did not tell that for half of the time, and for locks, which have `holders`.
    #[serde(default)]
    pub wakers: Vec<WakerReport>,
}

/// A thread that ended sleeps of others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WakerReport {
    /// The name of the thread in the text report.
    pub label: String,
    /// The thread id in sbt's process namespace.
    pub tid: u32,
    /// How long the others had slept when this thread woke them.
    pub woken_ns: u64,
}

/// A thread that slept at a place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WaitThreadReport {
    /// The name of the thread in the text report.
    pub label: String,
    /// The thread id in sbt's process namespace.
    pub tid: u32,
    /// Number of looks that found the thread there.
    pub looks: u64,
    /// The number as a percentage of the looks at the thread; if `slept_ns` is known, that as a
    /// percentage of the thread's time.
    pub share_pct: f64,
    /// How long the thread slept there; null if the kernel did not sum that up.
    #[serde(default)]
    pub slept_ns: Option<u64>,
}

/// A thread that held what others waited for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct HolderReport {
    /// The name of the thread in the text report.
    pub label: String,
    /// The thread id in sbt's process namespace.
    pub tid: u32,
    /// Number of looks at waiting threads during which it was the holder.
    pub looks: u64,
    /// The number as a percentage of all looks during which the holder was known; if `kept_ns` is
    /// known, that as a percentage of the same of all holders.
    pub share_pct: f64,
    /// How long others slept until this thread released the object and woke them; null if the kernel
    /// did not sum that up.
    #[serde(default)]
    pub kept_ns: Option<u64>,
    /// Where the thread itself was seen waiting for the same object, if that is one place: there it
    /// locks it.
    pub locks_at: Option<String>,
    /// Number of `looks` at which the holder slept itself.
    pub asleep_looks: u64,
    /// Where it slept most often, in a few words.
    pub asleep_in: Option<String>,
}

/// The first few of many names.
fn few(names: &[String]) -> String {
    const MOST: usize = 6;
    if names.len() <= MOST {
        return names.join(", ");
    }
    let (first, rest) = names.split_at(MOST - 1);
    format!("{} and {} others", first.join(", "), rest.len())
}

/// The purpose of a library's function in which threads spin, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gets {
    /// A lock that one thread at a time may hold.
    Lock,
    /// An `omp critical` section.
    Critical,
    /// The turn in an `omp ordered` part.
    Turn,
    /// A message from another rank of an MPI program, or that another rank takes one.
    Message,
}

impl Gets {
    /// The purpose of the function with this name.
    pub fn of(call: &str) -> Self {
        if call.contains("critical") {
            Self::Critical
        } else if call.contains("ordered") {
            Self::Turn
        } else if call.starts_with("MPI_") {
            Self::Message
        } else {
            Self::Lock
        }
    }
}

impl WaitPlaceReport {
    /// For what threads sleep there, in words.
    pub fn called(&self) -> String {
        let callers = self.callers.as_slice();
        let place = match callers {
            [caller] if self.is_wrapper() => format!("{} from {caller}", self.place),
            [one, other] if self.is_wrapper() => format!("{} from {one} and {other}", self.place),
            [one, other, ..] if self.is_wrapper() => {
                format!("{} from {one}, {other} and others", self.place)
            }
            _ => self.place.clone(),
        };
        let what = self.what.as_ref();
        let what = what.map_or_else(String::new, |what| format!(" ({what})"));
        let call = self.call.as_deref();
        let several = self.objects > 1;
        let one = |one: &str, more: &str| {
            if several {
                format!("{} {more}", self.objects)
            } else {
                one.to_owned()
            }
        };
        match self.kind {
            WaitKind::Mutex => format!("{} locked at {place}", one("the mutex", "mutexes")),
            WaitKind::RwLock => {
                let lock = one("the read-write lock", "read-write locks");
                format!("{lock} at {place}")
            }
            WaitKind::Critical => format!("the omp critical section at {place}"),
            WaitKind::OmpLock => {
                format!("{} set at {place}", one("the OpenMP lock", "OpenMP locks"))
            }
            WaitKind::Allocator => format!(
                "a lock of the memory allocator, in {} called from {place}",
                call.unwrap_or("malloc")
            ),
            WaitKind::Interpreter => "the lock of Python's interpreter (GIL)".into(),
            WaitKind::Monitor => "a monitor of Java (`synchronized`)".into(),
            WaitKind::Semaphore => format!("{} at {place}", one("a semaphore", "semaphores")),
            WaitKind::Condvar => {
                let one = one("a condition variable", "condition variables");
                format!("{one} at {place}")
            }
            WaitKind::Join if self.awaited.is_empty() => {
                format!("the end of another thread at {place}")
            }
            WaitKind::Join => format!("the end of {} at {place}", few(&self.awaited)),
            WaitKind::Child => format!("the end of a child process at {place}"),
            WaitKind::Barrier => format!("a barrier or a runtime's next work at {place}"),
            WaitKind::Fault => format!("page faults at {place}"),
            WaitKind::Spin => match call.map(Gets::of) {
                None => format!("a lock or a flag in {place}"),
                Some(Gets::Critical) => format!("the omp critical section at {place}"),
                Some(Gets::Turn) => format!("the turn in the ordered part at {place}"),
                Some(Gets::Message) => {
                    format!("other ranks, in {} at {place}", call.unwrap_or_default())
                }
                Some(Gets::Lock) => {
                    format!("the lock at {place} ({})", call.unwrap_or_default())
                }
            },
            WaitKind::Futex => match call.filter(|call| call.contains("::")) {
                // Known by the function of the language's library that waits.
                Some(call) => {
                    let words = one("a word of memory", "words of memory");
                    format!("{words} to change, in {call} called from {place}")
                }
                None => format!("{} at {place}, purpose unknown", one("a futex", "futexes")),
            },
            WaitKind::Sleep | WaitKind::Io | WaitKind::Poll | WaitKind::Other => match call {
                Some(call) => format!("{call}{what} called from {place}"),
                None => format!("a system call{what} at {place}"),
            },
        }
    }

    /// Whether the place alone says little: a function that only locks or waits for many others, by
    /// its name.
    fn is_wrapper(&self) -> bool {
        let name = self.function.as_deref().unwrap_or_default();
        let name = name.split('<').next().unwrap_or(name);
        let name = name
            .rsplit("::")
            .next()
            .unwrap_or(name)
            .to_ascii_lowercase();
        let parts: Vec<&str> = name.split('_').filter(|part| !part.is_empty()).collect();
        let words = [
            "lock", "acquire", "enter", "mutex", "wait", "get", "put", "pop", "push", "sleep",
            "nap", "delay", "pause", "read", "write", "recv", "send", "take",
        ];
        parts.len() <= 2 && parts.iter().any(|part| words.contains(part))
    }
}

impl WaitPlaceReport {
    /// Less sleep than this, ns, says nothing.
    const LEAST_NS: u64 = 5_000_000;

    /// Whether threads do not sleep there, but spin.
    pub fn spins(&self) -> bool {
        self.kind == WaitKind::Spin
    }

    /// Whether enough was seen to tell of the place.
    pub fn is_known(&self) -> bool {
        self.looks >= FEW || self.slept_ns.is_some_and(|ns| ns >= Self::LEAST_NS)
    }

    /// Whether enough is known of the holders to name them. Nobody holds what threads only wait to be
    /// told of, such as a condition variable, for whose mutex they may wait afterwards.
    pub fn knows_holders(&self) -> bool {
        let has_none = matches!(self.kind, WaitKind::Condvar | WaitKind::Semaphore);
        let looks = total(self.holders.iter().map(|holder| holder.looks));
        let first = self.holders.first();
        !has_none && (looks >= FEW || first.is_some_and(|first| first.kept_ns.is_some()))
    }
}

impl LooksReport {
    /// How long a thread slept at a place, ns: by the sums, or else by the looks.
    pub fn slept_ns(&self, thread: &WaitThreadReport) -> u64 {
        let each_ns = self.span_ns / self.looks.max(1);
        thread.slept_ns.unwrap_or(thread.looks * each_ns)
    }

    /// How many CPUs the threads want at a time, in the mean: those that run and those that are ready to.
    pub fn wanted_at_once(&self) -> f64 {
        let parts = self
            .threads
            .iter()
            .flat_map(|thread| [thread.running_ns, thread.ready_ns]);
        let longest = self.threads.iter().map(|thread| thread.watched_ns).max();
        let span_ns = self.span_ns.max(longest.unwrap_or(0)).max(1);
        total(parts.flatten()) as f64 / span_ns as f64
    }

    /// Whether the threads want as many CPUs at a time as there are, in the mean.
    pub fn want_all(&self, cpus: u32) -> bool {
        self.wanted_at_once() >= f64::from(cpus)
    }

    /// The places in the work of threads, where threads do not wait for each other at a barrier.
    pub fn in_the_work(&self) -> impl Iterator<Item = &WaitPlaceReport> {
        self.places.iter().filter(|place| !place.in_barrier)
    }
}
