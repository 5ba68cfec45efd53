//! The threads that meet at barriers, and the other threads of the program, as the scheduler sees
//! them.

use std::collections::{BTreeSet, HashMap};

use super::words;
use crate::report::{
    Policy, Report, SchedulingReport, TaskReport, ThreadReport, scheduling::cpu_list,
};

/// A thread that wants a CPU for this fraction of the time or more is busy.
const BUSY: f64 = 0.2;

/// Looks that are this far apart, ns, tell how busy a thread is: the kernel counts run times at
/// clock ticks on some machines.
const APART_NS: u64 = 30_000_000;

/// How much of a CPU a thread of the usual class with nice value 0 gets beside another one.
const USUAL: f64 = 1024.0;

/// A thread of the program.
#[derive(Clone)]
pub struct Member<'a> {
    pub task: &'a TaskReport,
    /// The thread in the report; `None` if it never comes to a barrier.
    pub thread: Option<&'a ThreadReport>,
    /// The CPUs on which it may run.
    pub allowed: BTreeSet<u32>,
}

impl Member<'_> {
    /// Whether it wants a CPU for a good part of the time. `None` if it is unknown.
    fn is_busy(&self) -> Option<bool> {
        let by_looks = (self.task.looked_ns >= APART_NS).then(|| self.task.wanted());
        let by_events = || {
            let thread = self.thread?;
            let wanted = thread.running_ns? + thread.ready_ns?;
            let spun = thread.waits.spinning_ns.unwrap_or(0);
            let all = thread.work_ns? + thread.idle_ns + thread.release_ns.unwrap_or(0);
            (all > 0).then(|| (wanted + spun) as f64 / all as f64)
        };
        let wanted = by_looks.flatten().or_else(by_events)?;
        Some(wanted >= BUSY)
    }

    /// The share of the time for which it was ready without a CPU, as far as known.
    pub fn ready(&self) -> f64 {
        let by_looks = self
            .task
            .ready_ns
            .filter(|_| self.task.looked_ns >= APART_NS);
        let by_looks = by_looks.map(|ready| ready as f64 / self.task.looked_ns as f64);
        let by_events = || self.thread.and_then(ready_in_work);
        by_looks.or_else(by_events).unwrap_or(0.0)
    }

    /// How much of a CPU it gets beside others, by the kernel's rule: each nice value is worth a
    /// quarter.
    pub fn weight(&self) -> f64 {
        match self.task.policy {
            Policy::Fifo | Policy::RoundRobin | Policy::Deadline => f64::INFINITY,
            Policy::Idle => 3.0,
            _ => USUAL * 1.25_f64.powi(-self.task.nice),
        }
    }

    /// The priority in words.
    pub fn priority(&self) -> String {
        match self.task.policy {
            Policy::Fifo => "scheduling class SCHED_FIFO".into(),
            Policy::RoundRobin => "scheduling class SCHED_RR".into(),
            Policy::Deadline => "scheduling class SCHED_DEADLINE".into(),
            Policy::Idle => "scheduling class SCHED_IDLE".into(),
            _ => format!("nice value {}", self.task.nice),
        }
    }

    /// The thread in a sentence.
    pub fn called(&self, report: &Report) -> String {
        let mut looked = report.waits.iter().flat_map(|looks| &looks.threads);
        let is_it = |tid: u32, pid: u32| (tid, pid) == (self.task.tid, self.task.pid);
        match self.thread {
            Some(thread) => words::who(report, thread.id),
            None => match looked.find(|thread| is_it(thread.tid, thread.pid)) {
                Some(thread) if thread.name == self.task.name => {
                    format!("{} {}", thread.label, thread.name)
                }
                _ => format!("thread `{}` (tid {})", self.task.name, self.task.tid),
            },
        }
    }

    /// The fraction of the time for which it was on a CPU.
    pub fn ran(&self) -> f64 {
        self.task.ran().unwrap_or(0.0)
    }

    /// The fraction of the time in which it wanted a CPU for which it had one; `None` if that is
    /// unknown.
    pub fn got(&self) -> Option<f64> {
        let by_looks = (self.task.looked_ns >= APART_NS).then_some(self.task);
        let by_looks = by_looks.and_then(|task| Some((task.running_ns?, task.ready_ns?)));
        let by_events = || Some((self.thread?.running_ns?, self.thread?.ready_ns?));
        let (running, ready) = by_looks.or_else(by_events)?;
        (running + ready > 0).then(|| running as f64 / (running + ready) as f64)
    }
}

/// The busy threads of a program.
pub struct Team<'a> {
    /// The threads that meet at barriers; all threads if the program has no barriers.
    pub members: Vec<Member<'a>>,
    /// The threads that never come to a barrier.
    pub helpers: Vec<Member<'a>>,
    /// All CPUs on which any thread of the program may run.
    pub available: BTreeSet<u32>,
    /// Percentage of the time for which the threads that meet, busy or not, were ready without a CPU,
    /// and the mean number of CPUs that they wanted, by the looks; `None` if that is unknown. If the
    /// program has no barriers, that of its busy threads.
    pub wanted: Option<Wanted>,
    /// All CPUs on which the threads that meet may run, busy or not; `None` if not all of these
    /// threads were looked at.
    pub cpus: Option<BTreeSet<u32>>,
}

impl<'a> Team<'a> {
    /// Finds the threads of a report among those that were looked at.
    pub fn of(report: &'a Report, scheduling: &'a SchedulingReport) -> Self {
        let meet = report.threads.iter().filter(|thread| thread.arrivals > 0);
        let meet: HashMap<(u32, u32), &ThreadReport> = meet
            .map(|thread| ((thread.tid, thread.pid), thread))
            .collect();
        let all = scheduling.tasks.iter().map(|task| Member {
            task,
            thread: meet.get(&(task.tid, task.pid)).copied(),
            allowed: task.allowed(),
        });
        let all: Vec<Member<'a>> = all.filter(|member| !member.allowed.is_empty()).collect();
        let cpus = |all: &mut dyn Iterator<Item = &Member<'a>>| -> BTreeSet<u32> {
            all.flat_map(|member| member.allowed.clone()).collect()
        };
        let has_barriers = !report.sites.is_empty();
        let is_of_team = |member: &Member<'_>| match member.thread {
            Some(_) => true,
            None => !has_barriers && member.is_busy() == Some(true),
        };
        let found = || all.iter().filter(|member| is_of_team(member));
        let is_whole = if has_barriers {
            found().count() == meet.len() && !meet.is_empty()
        } else {
            found().count() > 0
        };
        let of_members = is_whole.then(|| cpus(&mut found()));
        let wanted = is_whole.then(|| Wanted::of(&mut found())).flatten();
        let mut available = cpus(&mut all.iter());
        available.extend(cpu_list(&scheduling.first_cpus).unwrap_or_default());
        let busy = all
            .into_iter()
            .filter(|member| member.is_busy() == Some(true));
        let (members, helpers) = busy.partition(is_of_team);
        Self {
            members,
            helpers,
            available,
            wanted,
            cpus: of_members,
        }
    }
}

/// How many CPUs threads wanted, and how long they lacked them.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// Percentage of the time for which they were ready without a CPU.
    pub ready_pct: f64,
    /// The mean number of threads that were on a CPU or ready without one.
    pub cpus: f64,
    /// The mean number of threads that were ready without a CPU.
    pub ready_threads: f64,
}

impl Wanted {
    /// By looks at the threads; `None` if these do not tell.
    fn of(members: &mut dyn Iterator<Item = &Member<'_>>) -> Option<Self> {
        let mut sums = [0_u64; 3];
        let mut longest_ns = 0;
        for task in members.map(|member| member.task) {
            let times = [task.looked_ns, task.running_ns?, task.ready_ns?];
            for (sum, time) in sums.iter_mut().zip(times) {
                *sum += time;
            }
            longest_ns = longest_ns.max(task.looked_ns);
        }
        let [looked, running, ready] = sums.map(|sum| sum as f64);
        (longest_ns >= APART_NS).then(|| Self {
            ready_pct: ready / looked * 100.0,
            cpus: (running + ready) / longest_ns as f64,
            ready_threads: ready / longest_ns as f64,
        })
    }
}

/// The share of its work for which a thread was ready without a CPU; `None` if it is unknown.
fn ready_in_work(thread: &ThreadReport) -> Option<f64> {
    let (ready, work) = (thread.ready_ns?, thread.work_ns?);
    (work > 0).then(|| ready as f64 / work as f64)
}

/// The number of CPUs on which the threads that meet may run; `None` if it is unknown.
pub fn cpus_of_team(report: &Report) -> Option<u32> {
    let scheduling = report.run.scheduling.as_ref()?;
    let cpus = Team::of(report, scheduling).cpus?;
    u32::try_from(cpus.len()).ok()
}

/// How many CPUs processes that are not of the program use in the mean; 0 if that is not known.
pub fn others_cpus(report: &Report) -> f64 {
    let scheduling = report.run.scheduling.as_ref();
    let machine = scheduling.and_then(|scheduling| scheduling.machine.as_ref());
    machine.map_or(0.0, |machine| machine.in_cpus(machine.others_ns()))
}
