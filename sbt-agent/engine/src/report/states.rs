//! Time of threads off their CPUs, in a report.

use serde::{Deserialize, Serialize};

use super::{BlockedReason, StatesLevel, TakerKind};
use crate::{
    choices::States,
    event::{Reason, Taken, Taker},
    model::{
        Exact,
        away::{Late, Sum, Takers},
    },
    place::printable,
};

/// How closely sbt watched what threads do between barriers.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct StatesReport {
    /// The level of watching.
    pub level: StatesLevel,
    /// With `full`, the number of episodes in which every context switch of the threads was seen:
    /// threads count as `busy` only while on a CPU. Null otherwise.
    pub exact_episodes: Option<u64>,
    /// With `full`, the number of the other episodes: threads count as busy from one barrier to the
    /// next, as always with `light`. Null otherwise.
    pub other_episodes: Option<u64>,
}

impl StatesReport {
    /// Makes the part of a report from the requested level and the model's counts of episodes.
    pub fn new(level: States, exact: Option<Exact>) -> Self {
        Self {
            level: level.into(),
            exact_episodes: exact.map(|exact| exact.episodes),
            other_episodes: exact.map(|exact| exact.others),
        }
    }
}

/// A thread's time off its CPU during its work.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AwayReport {
    /// The reasons for which the thread was blocked, the longest first.
    pub blocked_on: Vec<BlockedReport>,
    /// The tasks that ran while the thread was ready, as far as known, by descending time; at most
    /// 16 entries.
    pub taken_by: Vec<TakerReport>,
    /// Time taken by others than those in `taken_by`.
    pub taken_by_others_ns: u64,
    /// Number of stretches of work that are left out because not every context switch was seen.
    pub unknown: u64,
}

/// How long threads were blocked on something.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct BlockedReport {
    /// The reason for which the threads were blocked.
    pub reason: BlockedReason,
    /// Time blocked.
    pub ns: u64,
}

/// A task that ran on a CPU for which a thread was ready.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TakerReport {
    /// The kind of task.
    pub kind: TakerKind,
    /// The name in the kernel.
    pub name: String,
    /// The process id; null if several processes with this name ran.
    pub pid: Option<u32>,
    /// Time for which it ran.
    pub ns: u64,
}

/// The time of the last thread to arrive off its CPU, compared with the others.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LateAwayReport {
    /// Number of episodes in these sums: those in which every context switch was seen.
    pub episodes: u64,
    /// The reasons for which the last thread was blocked.
    pub last: Vec<BlockedReport>,
    /// The reasons for which the other threads were blocked: the sum of each episode's mean.
    pub others: Vec<BlockedReport>,
    /// The tasks that ran while the last thread was ready, by descending time; at most 16 entries.
    pub taken_by: Vec<TakerReport>,
}

impl TakerReport {
    /// The name in lists: `cc1 (pid 123)`.
    pub fn called(&self) -> String {
        match (self.kind, self.pid) {
            (TakerKind::Own, _) => format!("{} of this program", self.name),
            (TakerKind::Kernel, _) => format!("{} of the kernel", self.name),
            (TakerKind::Idle, _) => "nobody (a quota)".into(),
            (_, Some(pid)) => format!("{} (pid {pid})", self.name),
            (_, None) => format!("{} (several processes)", self.name),
        }
    }
}

fn blocked(times: impl Iterator<Item = u64>) -> Vec<BlockedReport> {
    let all = Reason::ALL.into_iter().zip(times);
    let report = |(reason, ns): (Reason, u64)| BlockedReport {
        reason: reason.into(),
        ns,
    };
    let mut all: Vec<_> = all.filter(|(_, ns)| *ns > 0).map(report).collect();
    all.sort_by_key(|entry| std::cmp::Reverse(entry.ns));
    all
}

fn takers(takers: &Takers) -> (Vec<TakerReport>, u64) {
    let (most, rest_ns) = takers.most();
    let report = |taken: &&Taken| TakerReport {
        kind: taken.by.into(),
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
    /// The part of a report about one thread; `None` if nothing is known.
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
    /// The part of a report about one site; `None` if nothing is known.
    pub fn of(late: &Late) -> Option<Self> {
        (late.episodes > 0).then(|| Self {
            episodes: late.episodes,
            last: blocked(late.last.into_iter()),
            others: blocked(late.others.into_iter().map(super::draw::ns)),
            taken_by: takers(&late.takers).0,
        })
    }
}
