//! The use of CPUs as the kernel tells it from outside: quotas, stops, the threads of the target
//! with their CPUs and priorities, and the other load of the machine's CPUs.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::kinds::kinds;

/// The kernel's account of the CPU time of the target, from looks from outside while the target was
/// watched.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SchedulingReport {
    /// Control groups of the target, and the groups above them, that have a CPU quota.
    pub quotas: Vec<QuotaReport>,
    /// The number of times that a signal was seen to have stopped the target, and for how long at
    /// least.
    pub stopped: StandsReport,
    /// The number of times that a control group was seen to be frozen with the target, and for how
    /// long at least.
    pub frozen: StandsReport,
    /// The frozen control group; null if none was seen.
    pub frozen_group: Option<String>,
    /// Threads of the target, those with most CPU time first; at most 64. The list has also threads
    /// that never come to a barrier.
    pub tasks: Vec<TaskReport>,
    /// The CPUs on which the threads of the target might run when they were first seen.
    pub first_cpus: String,
    /// CPU time on the CPUs that the target may use, by user; null if it is unknown.
    pub machine: Option<MachineReport>,
    /// The processes of sbt.
    pub own_pids: Vec<u32>,
}

/// A control group with a CPU quota.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct QuotaReport {
    /// The path of the group in its hierarchy.
    pub group: String,
    /// The number of CPUs that the quota amounts to.
    pub cpus: f64,
    /// The length of a period, in which the group may use as much CPU time as `cpus` CPUs have.
    pub period_ns: u64,
    /// Number of periods in which the group was active while it was watched.
    pub periods: u64,
    /// Number of those periods in which the kernel stopped the group because it had used its quota.
    pub throttled_periods: u64,
    /// Time for which the kernel stopped the group while it was watched, summed over the CPUs.
    pub throttled_ns: u64,
}

/// How often, and for how long, something stood still.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct StandsReport {
    /// How many times it stood still.
    pub times: u64,
    /// The time of all together, at least.
    pub total_ns: u64,
    /// The time of all together, at most: as if it began right after the look before.
    pub at_most_ns: u64,
}

/// A thread of the target.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TaskReport {
    /// The thread id in sbt's process namespace.
    pub tid: u32,
    /// The process id in sbt's process namespace.
    pub pid: u32,
    /// The name of the thread in the kernel.
    pub name: String,
    /// The CPUs on which the thread may run, as last seen, as in `0-3,8`.
    pub cpus: String,
    /// The nice value, -20 to 19; a thread with a higher one gets less of a CPU.
    pub nice: i32,
    /// The scheduling class.
    pub policy: Policy,
    /// The time between the first and the last look at the thread.
    pub looked_ns: u64,
    /// Time on a CPU in `looked_ns`; null if it is unknown.
    pub running_ns: Option<u64>,
    /// Time runnable without a CPU in `looked_ns`; null if it is unknown.
    pub ready_ns: Option<u64>,
    /// CPU time in the kernel in `looked_ns`, in steps of the kernel's clock (10 ms as a rule): system
    /// calls, page faults, and what watching costs. Null if it is unknown.
    #[serde(default)]
    pub system_ns: Option<u64>,
    /// Page faults that needed no disk, in `looked_ns`; null if it is unknown.
    #[serde(default)]
    pub minor_faults: Option<u64>,
}

kinds! {
    /// A scheduling class of the kernel.
    pub enum Policy {
        /// The usual one (`SCHED_OTHER`).
        Normal = "normal",
        /// `SCHED_BATCH`: as the usual one, for work that may wait a little.
        Batch = "batch",
        /// `SCHED_IDLE`: runs when nothing else wants the CPU.
        Idle = "idle",
        /// `SCHED_FIFO`: runs before all of the usual class, for as long as it wants.
        Fifo = "fifo",
        /// `SCHED_RR`: as `fifo`, in turns with others of the same priority.
        RoundRobin = "rr",
        /// `SCHED_DEADLINE`: runs before all other classes, for a reserved time in each period.
        Deadline = "deadline",
    }
}

/// CPU time on the CPUs that the target may use, while the target was watched: the target's, sbt's and that of others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MachineReport {
    /// The CPUs of the machine that are online.
    pub online: String,
    /// The time between the first and the last look.
    pub looked_ns: u64,
    /// CPU time that was used on those CPUs, by anything.
    pub busy_ns: u64,
    /// CPU time of the target and of its descendants.
    pub target_ns: u64,
    /// CPU time of sbt.
    pub own_ns: u64,
    /// Time for which the hypervisor gave those CPUs to other virtual machines.
    pub stolen_ns: u64,
    /// Other processes that were seen to use a CPU, those with most CPU time first; at most 8. Null
    /// if sbt did not look, because the others used little.
    pub processes: Option<Vec<ForeignReport>>,
}

/// A process that is not the target's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ForeignReport {
    /// The process id in sbt's process namespace.
    pub pid: u32,
    /// The name in the kernel.
    pub name: String,
    /// CPU time while it was watched.
    pub cpu_ns: u64,
}

impl MachineReport {
    /// CPU time that neither the target nor sbt used, on the CPUs that the target may use: at least
    /// this much, since the target may have run elsewhere too.
    pub const fn others_ns(&self) -> u64 {
        self.busy_ns
            .saturating_sub(self.target_ns)
            .saturating_sub(self.own_ns)
    }

    /// The mean number of CPUs that something used which took so much CPU time, ns.
    pub fn in_cpus(&self, ns: u64) -> f64 {
        ns as f64 / self.looked_ns.max(1) as f64
    }
}

impl super::Report {
    /// The most of the threads' sleep that may be none, ns: a hypervisor ran another machine meanwhile. Linux
    /// takes that time from the CPU time of threads (`update_rq_clock_task` in kernel/sched/core.c), so it
    /// is neither running nor ready. 0 if it is unknown.
    pub fn stolen_ns(&self) -> u64 {
        let scheduling = self.run.scheduling.as_ref();
        let machine = scheduling.and_then(|known| known.machine.as_ref());
        machine.map_or(0, |machine| machine.stolen_ns)
    }
}

impl TaskReport {
    /// The CPUs on which the thread may run.
    pub fn allowed(&self) -> BTreeSet<u32> {
        cpu_list(&self.cpus).unwrap_or_default()
    }

    /// Time for which the thread wanted a CPU, as a fraction of the time of the looks; `None` if it
    /// is unknown.
    pub fn wanted(&self) -> Option<f64> {
        let wanted = self.running_ns? + self.ready_ns?;
        (self.looked_ns > 0).then(|| wanted as f64 / self.looked_ns as f64)
    }

    /// Time for which the thread ran, as a fraction of the time of the looks; `None` if it is
    /// unknown.
    pub fn ran(&self) -> Option<f64> {
        (self.looked_ns > 0).then_some(self.running_ns? as f64 / self.looked_ns as f64)
    }
}

/// The most CPUs that a list may name: the kernel's own limit is 8192.
const MOST_CPUS: usize = 8192;

/// The CPUs of a list as the kernel writes it (`0-3,8`); `None` if it is none.
pub fn cpu_list(text: &str) -> Option<BTreeSet<u32>> {
    let mut cpus = BTreeSet::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        let room = MOST_CPUS - cpus.len();
        cpus.extend((first..=last).take(room));
    }
    Some(cpus)
}

/// The list of CPUs as the kernel would write it.
pub fn written_cpus(cpus: &BTreeSet<u32>) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for &cpu in cpus {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == cpu => *last = cpu,
            _ => ranges.push((cpu, cpu)),
        }
    }
    let written = ranges.iter().map(|(first, last)| {
        if first == last {
            first.to_string()
        } else {
            format!("{first}-{last}")
        }
    });
    written.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus_are_read_and_written() {
        for text in ["0", "0-3", "0-3,8", "1,3,5-6"] {
            assert_eq!(written_cpus(&cpu_list(text).unwrap()), text);
        }
        assert_eq!(cpu_list("2,3\n").unwrap(), BTreeSet::from([2, 3]));
        assert_eq!(cpu_list("").unwrap(), BTreeSet::new());
        assert_eq!(cpu_list("all"), None);
        assert_eq!(cpu_list("0-4294967295").unwrap().len(), MOST_CPUS);
        assert_eq!(written_cpus(&BTreeSet::new()), "");
    }

    #[test]
    fn what_others_used_is_what_is_left() {
        let machine = MachineReport {
            online: "0-1".into(),
            looked_ns: 100,
            busy_ns: 150,
            target_ns: 90,
            own_ns: 10,
            stolen_ns: 0,
            processes: None,
        };
        assert_eq!(machine.others_ns(), 50);
        // The target ran on other CPUs too.
        let elsewhere = MachineReport {
            target_ns: 400,
            ..machine
        };
        assert_eq!(elsewhere.others_ns(), 0);
    }
}
