//! The use of CPUs as the kernel tells it from outside: control groups, the threads of the target,
//! and the rest of the machine. No privilege is needed.

use std::{
    collections::{BTreeSet, HashSet},
    path::{Path, PathBuf},
};

use sbt_engine::report::{SchedulingReport, StandsReport, TaskReport, scheduling::written_cpus};

mod groups;
mod machine;
mod tasks;

pub use groups::Groups;
use machine::{Machine, Ours};
use tasks::Tasks;

use crate::{clock, process};

/// The most processes of the target that are looked at.
const MOST_PROCESSES: usize = 64;

/// The most threads of the target that one look goes through.
const MOST_THREADS: usize = 128;

/// The most threads that are looked at one by one when they first come to a barrier.
const MOST_SINGLE: u32 = 256;

/// Looks take at most one part in this many of the time.
const SPARED: u64 = 100;

/// The scheduling of a target, as far as known.
pub struct Scheduling {
    /// Where /proc is.
    proc: PathBuf,
    groups: Groups,
    tasks: Tasks,
    machine: Machine,
    /// sbt and the processes that it started for itself.
    own: BTreeSet<u32>,
    /// The number of threads that were looked at one by one.
    single: u32,
    /// No look before this time, ns.
    due_ns: u64,
    /// No look at other processes before this time, ns.
    others_due_ns: u64,
}

impl Scheduling {
    /// Begins with a target. `proc`: where /proc is mounted.
    pub fn new(proc: &Path) -> Self {
        Self {
            proc: proc.into(),
            groups: Groups::new(proc),
            tasks: Tasks::default(),
            machine: Machine::new(tick_ns()),
            own: BTreeSet::new(),
            single: 0,
            due_ns: 0,
            others_due_ns: 0,
        }
    }

    /// Looks at the living processes of the target, unless the last look was a moment ago. `now`:
    /// whether to look in any case.
    pub fn look(&mut self, living: impl Iterator<Item = u32>, now: bool) {
        let begun_ns = clock::now_ns();
        if begun_ns < self.due_ns && !now {
            return;
        }
        // The cost is CPU time: on a busy machine a look takes much longer than that.
        let begun_cpu_ns = clock::thread_cpu_ns();
        let target: HashSet<u32> = living.take(MOST_PROCESSES).collect();
        let own = own_processes(&target);
        self.own.extend(&own);
        let mut most = MOST_THREADS;
        for &pid in &target {
            self.groups.look(&self.proc, pid);
            self.tasks.look(&self.proc, pid, begun_ns, most);
            let threads = usize::try_from(process::threads(pid)).unwrap_or(usize::MAX);
            most = most.saturating_sub(threads);
        }
        self.groups.count();
        let ours = Ours {
            target: &target,
            own: &own,
        };
        let is_busy = self.machine.read(&self.proc, begun_ns, &ours);
        let read_cpu_ns = clock::thread_cpu_ns();
        self.due_ns = begun_ns + (read_cpu_ns - begun_cpu_ns) * SPARED;
        if is_busy && (begun_ns >= self.others_due_ns || now) {
            self.machine.look_at_others(&self.proc, &ours);
            let cost_ns = clock::thread_cpu_ns() - read_cpu_ns;
            self.others_due_ns = begun_ns + cost_ns * SPARED;
        }
    }

    /// Looks at a thread that has come to its first barrier: by then it has set its affinity and
    /// its priority.
    pub fn look_at_thread(&mut self, pid: u32, tid: u32) {
        if self.single < MOST_SINGLE {
            self.single += 1;
            self.tasks
                .look_at_one(&self.proc, (pid, tid), clock::now_ns());
        }
    }

    /// The frozen control group that keeps a process from running, if any.
    pub fn frozen(&self, pid: u32) -> Option<String> {
        self.groups.frozen(&self.proc, pid)
    }

    /// Counts everything from now on.
    pub fn reset(&mut self, living: impl Iterator<Item = u32>) {
        self.look(living, true);
        self.groups.reset();
        self.tasks.reset();
        self.machine.reset();
    }

    /// The report on the scheduling so far. `stopped`: the stops by signals; `frozen`: the frozen
    /// groups, with the last of them.
    pub fn report(
        &self,
        stopped: StandsReport,
        (frozen, frozen_group): (StandsReport, Option<String>),
    ) -> SchedulingReport {
        let tasks = self.tasks.report();
        let first = self.tasks.first_cpus();
        let allowed = tasks.iter().flat_map(TaskReport::allowed);
        let allowed: BTreeSet<u32> = allowed.chain(first.iter().copied()).collect();
        SchedulingReport {
            quotas: self.groups.report(),
            stopped,
            frozen,
            frozen_group,
            first_cpus: written_cpus(&first),
            machine: self.machine.report(&allowed),
            own_pids: self.own.iter().copied().collect(),
            tasks,
        }
    }
}

/// sbt and the processes that it started for itself.
fn own_processes(target: &HashSet<u32>) -> HashSet<u32> {
    let own = std::process::id();
    let helpers = process::children(own);
    let helpers = helpers.into_iter().filter(|pid| !target.contains(pid));
    helpers.chain([own]).collect()
}

/// The length of a clock tick, ns.
fn tick_ns() -> u64 {
    1_000_000_000 / rustix::param::clock_ticks_per_second().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_seen_with_its_threads() {
        let pid = std::process::id();
        let mut scheduling = Scheduling::new(Path::new("/proc"));
        scheduling.look([pid].into_iter(), false);
        let begun_ns = clock::now_ns();
        while clock::now_ns() < begun_ns + 30_000_000 {
            std::hint::spin_loop();
        }
        scheduling.look([pid].into_iter(), true);
        let report = scheduling.report(StandsReport::default(), (StandsReport::default(), None));
        let this = report.tasks.iter().find(|task| task.ran() > Some(0.0));
        let this = this.unwrap();
        assert_eq!(this.pid, pid);
        assert!(!this.allowed().is_empty(), "{this:?}");
        let machine = report.machine.unwrap();
        assert!(machine.looked_ns >= 30_000_000, "{machine:?}");
        assert_eq!(scheduling.frozen(pid), None);
        scheduling.reset([pid].into_iter());
        let report = scheduling.report(StandsReport::default(), (StandsReport::default(), None));
        assert_eq!(report.machine, None);
    }
}
