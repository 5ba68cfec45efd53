//! What threads did in the course of an episode: the parts from which the sums are made.

use serde::{Deserialize, Serialize};

use super::{
    ids::{SiteId, ThreadId},
    stats::KnownSum,
};
use crate::event::Clocks;

/// What a thread did with the time between two moments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Split {
    /// On a CPU, ns.
    pub running_ns: Option<u64>,
    /// Runnable, but without a CPU, ns.
    pub ready_ns: Option<u64>,
    /// Neither: asleep in the kernel, ns.
    pub blocked_ns: Option<u64>,
}

impl Split {
    /// From the clocks at both ends. The parts never exceed the whole, which
    /// the kernel's own figures may do by the length of an interrupt.
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
    /// On a CPU.
    pub running: KnownSum,
    /// Runnable, but without a CPU.
    pub ready: KnownSum,
    /// Asleep in the kernel.
    pub blocked: KnownSum,
}

impl SplitSum {
    /// Takes one interval in.
    pub fn add(&mut self, split: Split) {
        self.running.add(split.running_ns);
        self.ready.add(split.ready_ns);
        self.blocked.add(split.blocked_ns);
    }
}

/// What a thread did before its present work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Before {
    /// Nothing: it, or the watching, has only begun.
    Start,
    /// It was in an episode of which not all was seen.
    Unknown,
    /// It was in an episode.
    Episode {
        /// Last arrival L, ns.
        last_ns: u64,
        /// Where.
        site: SiteId,
    },
}

/// From where a thread's present work is reckoned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Since {
    /// When it began. The clocks may be those of the arrival before it, where
    /// departures are not traced: a thread does not run in a barrier.
    pub clocks: Clocks,
    /// After what.
    pub before: Before,
}

/// One thread's part in one episode.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// The thread.
    pub row: ThreadId,
    /// `a_i - start_i`, if the start is known.
    pub work_ns: Option<u64>,
    /// `L - a_i`.
    pub idle_ns: u64,
    /// `d_i - L`, if the departure was seen.
    pub release_ns: Option<u64>,
    /// How it waited, likewise.
    pub wait: Option<Wait>,
    /// How the work splits up.
    pub split: Split,
}

/// A complete episode as a whole.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Done {
    /// First arrival F, ns.
    pub first_ns: u64,
    /// Last arrival L, ns.
    pub last_ns: u64,
    /// After which site its phase began, and how long it was, ns; `None` if
    /// that is unknown.
    pub phase: Option<(Option<SiteId>, u64)>,
    /// Who came last, and its lead a_(n) - a_(n-1), ns.
    pub straggler: Option<(ThreadId, u64)>,
    /// What one of its threads worked alone before, while the others were kept waiting
    /// for a parallel region to begin.
    pub alone: Option<Alone>,
}

impl Done {
    /// L - F, ns.
    pub const fn barrier_ns(&self) -> u64 {
        self.last_ns - self.first_ns
    }
}

/// What a thread works between two parallel regions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alone {
    /// Which.
    pub row: ThreadId,
    /// From when, ns.
    pub from_ns: u64,
    /// How it splits up.
    pub split: Split,
    /// Until when, ns: where the next region begins.
    pub to_ns: u64,
    /// How long the others were kept waiting meanwhile, together, ns.
    pub waited_ns: u64,
}

impl Alone {
    /// How long.
    pub const fn ns(&self) -> u64 {
        self.to_ns.saturating_sub(self.from_ns)
    }
}

/// What a thread that arrives has to do with a region that it has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begun {
    /// Which of the members of the episode it is.
    pub index: usize,
    /// Whether its threads have met before.
    pub met: Met,
}

/// Whether the threads of a region have met in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Met {
    /// For the first time; it began then.
    First(Clocks),
    /// They had before.
    Again,
}

/// One thread in one barrier, from its arrival to its departure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// Running: it spun, but for the few microseconds of the barrier's own code and
    /// of the probes on it; with OpenMP it may have executed tasks. Ready: it spun
    /// as well, or had been woken. Blocked: it slept.
    pub split: Split,
    /// Idle and release, ns.
    pub whole_ns: u64,
}

impl Wait {
    /// From the clocks at both ends.
    pub fn between(arrived: Clocks, left: Clocks) -> Self {
        Self {
            split: Split::between(arrived, left),
            whole_ns: left.time_ns.saturating_sub(arrived.time_ns),
        }
    }
}
