//! The parts of threads in an episode, as they are added up.

use serde::{Deserialize, Serialize};

use super::{
    ids::{SiteId, ThreadId},
    stats::KnownSum,
};
use crate::event::Clocks;

/// How a thread spent the time between two moments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Split {
    /// On a CPU, ns.
    pub running_ns: Option<u64>,
    /// Runnable, but without a CPU, ns.
    pub ready_ns: Option<u64>,
    /// Asleep in the kernel, ns.
    pub blocked_ns: Option<u64>,
}

impl Split {
    /// The split between two readings of a thread's clocks. The parts never exceed the whole,
    /// although the kernel's own figures may do so by the length of an interrupt.
    pub fn between(from: Clocks, to: Clocks) -> Self {
        let whole = to.time_ns.saturating_sub(from.time_ns);
        let delta = |a: Option<u64>, b: Option<u64>| Some(b?.saturating_sub(a?));
        let running_ns = delta(from.run_ns, to.run_ns).map(|run| run.min(whole));
        let ready_ns = delta(from.delay_ns, to.delay_ns)
            .map(|ready| ready.min(whole - running_ns.unwrap_or(0)));
        let blocked_ns = match (running_ns, ready_ns) {
            (Some(running), Some(ready)) => Some(whole - running - ready),
            _ => None,
        };
        Self {
            running_ns,
            ready_ns,
            blocked_ns,
        }
    }
}

/// Sums of [`Split`]s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SplitSum {
    /// Time on a CPU.
    pub running: KnownSum,
    /// Time runnable, but without a CPU.
    pub ready: KnownSum,
    /// Time asleep in the kernel.
    pub blocked: KnownSum,
}

impl SplitSum {
    /// Adds one interval.
    pub fn add(&mut self, split: Split) {
        self.running.add(split.running_ns);
        self.ready.add(split.ready_ns);
        self.blocked.add(split.blocked_ns);
    }
}

/// The origin of a thread's present work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Before {
    /// Nothing: the thread, or the watching, has only just begun.
    Start,
    /// The thread was in an episode that was only partly seen.
    Unknown,
    /// The thread was in an episode.
    Episode {
        /// Last arrival L, ns.
        last_ns: u64,
        /// The site of the episode.
        site: SiteId,
    },
}

/// The moment at which a thread's present work began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Since {
    /// The clocks at that moment. Where departures are not traced, run time and delay are those of
    /// the last arrival: a thread is assumed not to run in a barrier.
    pub clocks: Clocks,
    /// The thread's activity before that moment.
    pub before: Before,
}

/// One thread's part in one episode.
#[derive(Clone, Copy, Debug)]
pub struct EpisodePart {
    /// The thread.
    pub row: ThreadId,
    /// Work before the arrival, `a_i - start_i`, ns; `None` if the start is unknown.
    pub work_ns: Option<u64>,
    /// Idle time, `L - a_i`, ns.
    pub idle_ns: u64,
    /// Release time, `d_i - L`, ns; `None` if the departure was not seen.
    pub release_ns: Option<u64>,
    /// How the thread waited; `None` if the departure was not seen.
    pub wait: Option<Wait>,
    /// The split of the work into running, ready and blocked time.
    pub split: Split,
    /// How long a fixed piece of work took on the thread's CPU, ns, if that was measured.
    pub speed_ns: Option<u32>,
}

/// A complete episode as a whole.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Done {
    /// First arrival F, ns.
    pub first_ns: u64,
    /// Last arrival L, ns.
    pub last_ns: u64,
    /// The site after which the phase began (`None` at the start), and the phase time in ns; `None`
    /// if the beginning is unknown.
    pub phase: Option<(Option<SiteId>, u64)>,
    /// The last thread to arrive, and its lead a_(n) - a_(n-1), ns.
    pub straggler: Option<(ThreadId, u64)>,
    /// The work of one thread alone before, while the others were kept waiting for a parallel
    /// region to begin.
    pub alone: Option<Alone>,
}

impl Done {
    /// Barrier time L - F, ns.
    pub const fn barrier_ns(&self) -> u64 {
        self.last_ns - self.first_ns
    }
}

/// Work of one thread between two parallel regions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alone {
    /// The thread.
    pub row: ThreadId,
    /// The time at which the work began, ns.
    pub from_ns: u64,
    /// The split of the work into running, ready and blocked time.
    pub split: Split,
    /// The time at which the work ended, ns: the next region begins there.
    pub to_ns: u64,
    /// How long the others were kept waiting meanwhile, summed over them, ns.
    pub waited_ns: u64,
}

impl Alone {
    /// Length of the work, ns.
    pub const fn ns(&self) -> u64 {
        self.to_ns.saturating_sub(self.from_ns)
    }
}

/// The region that an arriving thread has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begun {
    /// Index of the thread in the episode's members.
    pub index: usize,
    /// Whether the region's threads have met before.
    pub met: Met,
}

/// Whether the threads of a region have met at a barrier before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Met {
    /// They meet for the first time; the clocks are those at the beginning of the region.
    First(Clocks),
    /// They have met before.
    Again,
}

/// One thread in one barrier, from its arrival to its departure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// How the thread spent the wait. Running: it spun, apart from the few microseconds of the
    /// barrier's own code and the probes; with OpenMP it may have executed tasks. Ready: it spun,
    /// or had been woken. Blocked: it slept.
    pub split: Split,
    /// Length of the wait, idle and release together, ns.
    pub whole_ns: u64,
}

impl Wait {
    /// The wait between the clocks at arrival and departure.
    pub fn between(arrived: Clocks, left: Clocks) -> Self {
        Self {
            split: Split::between(arrived, left),
            whole_ns: left.time_ns.saturating_sub(arrived.time_ns),
        }
    }
}
