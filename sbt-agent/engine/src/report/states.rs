//! What a report says of threads while they are on no CPU.

use serde::{Deserialize, Serialize};

use super::Word;

use crate::{
    choices::States,
    event::{Reason, Taken, Taker},
    model::{
        Exact,
        away::{Late, Sum, Takers},
    },
    place::printable,
};

/// How closely was looked at what threads do between barriers.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct StatesReport {
    /// `light`: running, ready and blocked times. `full`: likewise, blocked on what, and who
    /// took CPUs. `off`: none of these.
    #[serde(deserialize_with = "super::word::read")]
    pub level: Word,
    /// With `full`, episodes of which each switch of their threads was seen: those are
    /// `busy` while they are on a CPU. Null otherwise.
    pub exact_episodes: Option<u64>,
    /// With `full`, episodes of which not: their threads are taken to be busy from one
    /// barrier to the next, as all are with `light`. Null otherwise.
    pub other_episodes: Option<u64>,
}

impl StatesReport {
    /// Of what was asked for, and what became of it.
    pub fn new(level: States, exact: Option<Exact>) -> Self {
        Self {
            level: level.name(),
            exact_episodes: exact.map(|exact| exact.episodes),
            other_episodes: exact.map(|exact| exact.others),
        }
    }
}

/// What a thread did in its work while it was on no CPU.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AwayReport {
    /// Blocked on what, the longest first.
    pub blocked_on: Vec<BlockedReport>,
    /// Who ran while it was ready, as far as it is known; who took most first, at most 16.
    pub taken_by: Vec<TakerReport>,
    /// Taken by others than these.
    pub taken_by_others_ns: u64,
    /// Stretches of work that are not in it: of these not each switch was seen.
    pub unknown: u64,
}

/// For how long threads were blocked on something.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct BlockedReport {
    /// `futex`: locks, condition variables, joins; `file`: files and disks; `page-fault`;
    /// `sleep`: told to; `poll`: one of several descriptors; `stream`: a pipe, socket or
    /// terminal; `child`: the end of a process; `memory`: changing mappings; `stopped`: by
    /// a signal or debugger; `other`.
    #[serde(deserialize_with = "super::word::read")]
    pub reason: Word,
    /// How long.
    pub ns: u64,
}

/// Who ran on a CPU for which a thread was ready.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TakerReport {
    /// `process`: another process; `own`: another thread of the target; `kernel`: a
    /// thread of the kernel; `idle`: nobody, since a quota held the thread back.
    #[serde(deserialize_with = "super::word::read")]
    pub kind: Word,
    /// The kernel's name of it.
    pub name: String,
    /// Its process; null if several of this name did.
    pub pid: Option<u32>,
    /// For how long.
    pub ns: u64,
}

/// What whoever came last did while it was on no CPU, against the others.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LateAwayReport {
    /// Sums over so many episodes: those of which each switch was seen.
    pub episodes: u64,
    /// Whoever came last was blocked on.
    pub last: Vec<BlockedReport>,
    /// The others were, the mean of each episode.
    pub others: Vec<BlockedReport>,
    /// Who ran while whoever came last was ready; who took most first, at most 16.
    pub taken_by: Vec<TakerReport>,
}

impl BlockedReport {
    /// What it is called in sentences.
    pub fn words(&self) -> &'static str {
        let mut all = Reason::ALL.iter();
        all.find(|it| it.name() == self.reason)
            .map_or(self.reason, |it| it.words())
    }
}

impl TakerReport {
    /// What it is called in lists: `cc1 (pid 123)`.
    pub fn called(&self) -> String {
        match (self.kind, self.pid) {
            ("own", _) => format!("{} of this program", self.name),
            ("kernel", _) => format!("{} of the kernel", self.name),
            ("idle", _) => "nobody (a quota)".into(),
            (_, Some(pid)) => format!("{} (pid {pid})", self.name),
            (_, None) => format!("{} (several processes)", self.name),
        }
    }
}

fn blocked(times: impl Iterator<Item = u64>) -> Vec<BlockedReport> {
    let all = Reason::ALL.into_iter().zip(times);
    let report = |(reason, ns): (Reason, u64)| BlockedReport {
        reason: reason.name(),
        ns,
    };
    let mut all: Vec<_> = all.filter(|(_, ns)| *ns > 0).map(report).collect();
    all.sort_by_key(|it| std::cmp::Reverse(it.ns));
    all
}

fn takers(takers: &Takers) -> (Vec<TakerReport>, u64) {
    let (most, rest_ns) = takers.most();
    let report = |taken: &&Taken| TakerReport {
        kind: taken.by.name(),
        name: if taken.by == Taker::Nobody {
            "idle".into()
        } else {
            printable(&taken.name)
        },
        pid: (taken.process != 0).then_some(taken.process),
        ns: taken.ns,
    };
    (most.iter().map(report).collect(), rest_ns)
}

impl AwayReport {
    /// Of a thread; `None` if nothing is known.
    pub fn of(sum: &Sum) -> Option<Self> {
        let (taken_by, taken_by_others_ns) = takers(&sum.takers);
        (sum.known > 0).then(|| Self {
            blocked_on: blocked(sum.asleep.into_iter()),
            taken_by,
            taken_by_others_ns,
            unknown: sum.unknown,
        })
    }
}

impl LateAwayReport {
    /// Of a site; `None` if nothing is known.
    pub fn of(late: &Late) -> Option<Self> {
        (late.episodes > 0).then(|| Self {
            episodes: late.episodes,
            last: blocked(late.last.into_iter()),
            others: blocked(late.others.into_iter().map(super::draw::ns)),
            taken_by: takers(&late.takers).0,
        })
    }
}
