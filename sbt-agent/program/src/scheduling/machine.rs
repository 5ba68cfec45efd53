//! The processes that use the machine's CPUs: /proc/stat, and the CPU times of processes.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    fs,
    path::Path,
};

use procfs::{FromRead as _, process::Stat};
use sbt_engine::{
    place::printable,
    report::{ForeignReport, MachineReport, scheduling::written_cpus},
};

use crate::process::text;

/// The most other processes that are reported.
const MOST_REPORTED: usize = 8;

/// The most processes that one look goes through.
const MOST_LOOKED_AT: usize = 4096;

/// Others count as using the machine if they use this share of one CPU, in percent: the kernel
/// counts in steps of some milliseconds, and every machine has something to do now and then.
const NOTICED: f64 = 20.0;

/// The time of a CPU so far, in clock ticks: all that it ran, and the part that the hypervisor
/// took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Done {
    busy: u64,
    stolen: u64,
}

/// A reading of the machine's and the target's times.
#[derive(Clone, Debug, Default)]
struct Reading {
    time_ns: u64,
    cpus: BTreeMap<u32, Done>,
    target: u64,
    own: u64,
}

/// A process that is not the target's.
#[derive(Clone, Debug)]
struct Foreign {
    started: u64,
    name: String,
    first: u64,
    last: u64,
}

/// The use of the machine's CPUs. Times are clock ticks inside.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    /// The length of a clock tick, ns.
    tick_ns: u64,
    /// The time of the start of watching since the machine's start, in clock ticks.
    start_ticks: Option<u64>,
    first: Option<Reading>,
    last: Option<Reading>,
    foreign: HashMap<u32, Foreign>,
    has_looked_at_others: bool,
}

/// Processes whose CPU time does not count as that of others.
pub struct Ours<'a> {
    /// The target and its descendants.
    pub target: &'a HashSet<u32>,
    /// sbt and its helpers.
    pub own: &'a HashSet<u32>,
}

impl Machine {
    /// `tick_ns`: the length of a clock tick, ns.
    pub fn new(tick_ns: u64) -> Self {
        Self {
            tick_ns,
            ..Self::default()
        }
    }

    /// Reads the times of the CPUs, the target and sbt. Returns whether others have used CPUs since
    /// the last reading, so that a look at them is worth its cost.
    pub fn read(&mut self, proc: &Path, now_ns: u64, ours: &Ours<'_>) -> bool {
        let Ok(stat) = text(proc.join("stat")) else {
            return false;
        };
        let used = |pids: &HashSet<u32>| {
            let all = pids.iter().filter_map(|pid| stat_of(proc, *pid));
            all.map(|stat| with_children(&stat)).sum::<u64>()
        };
        let before = self.last.take().unwrap_or_default();
        let now = Reading {
            time_ns: now_ns,
            cpus: cpus(&stat),
            // Processes that have ended leave their times to their parents, once those know.
            target: used(ours.target).max(before.target),
            own: used(ours.own).max(before.own),
        };
        if self.first.is_none() {
            self.first = Some(now.clone());
            self.start_ticks = ticks_since_boot(proc, self.tick_ns);
        }
        let ours = (now.target - before.target) + (now.own - before.own);
        let all = busy(&before, &now, None).saturating_sub(ours) * self.tick_ns;
        let passed_ns = now.time_ns.saturating_sub(before.time_ns);
        self.last = Some(now);
        before.time_ns > 0 && all as f64 * 100.0 >= NOTICED * passed_ns as f64
    }

    /// Looks at the CPU times of other processes.
    pub fn look_at_others(&mut self, proc: &Path, ours: &Ours<'_>) {
        let processes = fs::read_dir(proc).into_iter().flatten();
        let processes =
            processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        let is_other = |pid: &u32| !ours.target.contains(pid) && !ours.own.contains(pid);
        for pid in processes.filter(is_other).take(MOST_LOOKED_AT) {
            let Some(stat) = stat_of(proc, pid) else {
                continue;
            };
            let used = stat.utime + stat.stime;
            // What a process used before watching began does not count.
            let is_new = self
                .start_ticks
                .is_some_and(|start| stat.starttime >= start);
            let first = if is_new { 0 } else { used };
            let fresh = || Foreign {
                started: stat.starttime,
                name: stat.comm.clone(),
                first,
                last: used,
            };
            let known = self.foreign.entry(pid).or_insert_with(fresh);
            if known.started == stat.starttime {
                known.last = used;
                known.name.clone_from(&stat.comm);
            } else {
                *known = fresh();
            }
        }
        self.has_looked_at_others = true;
    }

    /// Counts from the last reading on.
    pub fn reset(&mut self) {
        self.first.clone_from(&self.last);
        for known in self.foreign.values_mut() {
            known.first = known.last;
        }
    }

    /// CPU time on the CPUs of a set; of all CPUs if the set is empty. `None` if that is unknown.
    pub fn report(&self, allowed: &BTreeSet<u32>) -> Option<MachineReport> {
        let (first, last) = (self.first.as_ref()?, self.last.as_ref()?);
        let looked_ns = last.time_ns.checked_sub(first.time_ns)?;
        let ns = |ticks: u64| ticks.saturating_mul(self.tick_ns);
        let only = (!allowed.is_empty()).then_some(allowed);
        (looked_ns > 0 && !last.cpus.is_empty()).then(|| MachineReport {
            online: written_cpus(&last.cpus.keys().copied().collect()),
            looked_ns,
            busy_ns: ns(busy(first, last, only)),
            target_ns: ns(last.target - first.target),
            own_ns: ns(last.own - first.own),
            stolen_ns: ns(sum(first, last, only, |done| done.stolen)),
            processes: self.has_looked_at_others.then(|| self.others()),
        })
    }

    fn others(&self) -> Vec<ForeignReport> {
        let report = |(&pid, known): (&u32, &Foreign)| ForeignReport {
            pid,
            name: printable(&known.name),
            cpu_ns: (known.last - known.first).saturating_mul(self.tick_ns),
        };
        let all = self.foreign.iter().map(report);
        let mut all: Vec<_> = all.filter(|foreign| foreign.cpu_ns > 0).collect();
        all.sort_by_key(|foreign| (std::cmp::Reverse(foreign.cpu_ns), foreign.pid));
        all.truncate(MOST_REPORTED);
        all
    }
}

/// CPU time of a process, and of its descendants that have ended, in clock ticks.
fn with_children(stat: &Stat) -> u64 {
    let children = stat.cutime + stat.cstime;
    stat.utime + stat.stime + u64::try_from(children).unwrap_or(0)
}

fn stat_of(proc: &Path, pid: u32) -> Option<Stat> {
    Stat::from_file(proc.join(format!("{pid}/stat"))).ok()
}

/// The time since the machine's start, in clock ticks.
fn ticks_since_boot(proc: &Path, tick_ns: u64) -> Option<u64> {
    let uptime = text(proc.join("uptime")).ok()?;
    let seconds: f64 = uptime.split_whitespace().next()?.parse().ok()?;
    let ticks = std::time::Duration::try_from_secs_f64(seconds).ok()?;
    u64::try_from(ticks.as_nanos() / u128::from(tick_ns.max(1))).ok()
}

/// The time of each CPU so far, from the text of /proc/stat.
fn cpus(stat: &str) -> BTreeMap<u32, Done> {
    let of_a_cpu = |line: &str| {
        let mut words = line.strip_prefix("cpu")?.split_whitespace();
        let cpu: u32 = words.next()?.parse().ok()?;
        let ticks: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
        // user, nice, system, idle, iowait, irq, softirq, steal
        let at = |index: usize| ticks.get(index).copied().unwrap_or(0);
        let done = Done {
            busy: [0, 1, 2, 5, 6].into_iter().map(at).sum(),
            stolen: at(7),
        };
        Some((cpu, done))
    };
    // The first line is the sum of all CPUs: its name has no number.
    let lines = stat.lines().take_while(|line| line.starts_with("cpu"));
    lines
        .filter(|line| !line.starts_with("cpu "))
        .filter_map(of_a_cpu)
        .collect()
}

fn busy(first: &Reading, last: &Reading, only: Option<&BTreeSet<u32>>) -> u64 {
    sum(first, last, only, |done| done.busy)
}

/// How much a figure grew on all CPUs, or only on some.
fn sum(
    first: &Reading,
    last: &Reading,
    only: Option<&BTreeSet<u32>>,
    figure: impl Fn(&Done) -> u64,
) -> u64 {
    let counts = |cpu: &u32| only.is_none_or(|only| only.contains(cpu));
    let all = last.cpus.iter().filter(|(cpu, _)| counts(cpu));
    all.map(|(cpu, done)| {
        let before = first.cpus.get(cpu).map_or(0, &figure);
        figure(done).saturating_sub(before)
    })
    .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: u64 = 10_000_000;

    fn process(proc: &Path, pid: u32, name: &str, [used, of_children, started]: [u64; 3]) {
        fs::create_dir_all(proc.join(pid.to_string())).unwrap();
        let text = format!(
            "{pid} ({name}) R 1 7 7 0 -1 64 1 0 0 0 {used} 0 {of_children} 0 20 0 2 0 {started} \
             1000 10 18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
        );
        fs::write(proc.join(format!("{pid}/stat")), text).unwrap();
    }

    fn machine(proc: &Path, cpu0: u64, cpu1: u64) {
        let text = format!(
            "cpu  9 9 9 9\ncpu0 {cpu0} 0 0 500 3 0 0 5 0 0\ncpu1 0 {cpu1} 0 9 3 0 0 0 0 0\nintr 1\n"
        );
        fs::write(proc.join("stat"), text).unwrap();
    }

    #[test]
    fn what_is_neither_the_targets_nor_of_sbt_is_of_others() {
        let folder = tempfile::tempdir().unwrap();
        let proc = folder.path();
        let (target, own) = (HashSet::from([7]), HashSet::from([3]));
        let ours = Ours {
            target: &target,
            own: &own,
        };
        fs::write(proc.join("uptime"), "20.00 1.00\n").unwrap();
        machine(proc, 1000, 1000);
        process(proc, 7, "target", [10, 0, 1900]);
        process(proc, 3, "sbt", [5, 0, 1800]);
        process(proc, 20, "old", [900, 0, 100]);
        let mut watched = Machine::new(TICK);
        assert!(
            !watched.read(proc, 1_000_000_000, &ours),
            "the first reading"
        );
        watched.look_at_others(proc, &ours);
        // In a second the target uses 60 ticks, of which 20 in a child that has ended, sbt 10, and
        // others 90.
        machine(proc, 1100, 1060);
        process(proc, 7, "target", [50, 20, 1900]);
        process(proc, 3, "sbt", [15, 0, 1800]);
        process(proc, 20, "old", [940, 0, 100]);
        process(proc, 21, "new", [50, 0, 2030]);
        assert!(watched.read(proc, 2_000_000_000, &ours));
        watched.look_at_others(proc, &ours);
        let report = watched.report(&BTreeSet::new()).unwrap();
        let foreign = |pid, name: &str, ticks: u64| ForeignReport {
            pid,
            name: name.into(),
            cpu_ns: ticks * TICK,
        };
        assert_eq!(report.online, "0-1");
        assert_eq!(report.busy_ns, 160 * TICK);
        assert_eq!((report.target_ns, report.own_ns), (60 * TICK, 10 * TICK));
        assert_eq!(report.others_ns(), 90 * TICK);
        let processes = [foreign(21, "new", 50), foreign(20, "old", 40)];
        assert_eq!(report.processes.as_deref(), Some(&processes[..]));
        // Only one CPU is allowed to the target.
        let report = watched.report(&BTreeSet::from([1])).unwrap();
        assert_eq!(report.others_ns(), 0);
        watched.reset();
        assert_eq!(watched.report(&BTreeSet::new()), None);
        // The target has ended, and its time is not that of others.
        fs::remove_dir_all(proc.join("7")).unwrap();
        assert!(!watched.read(proc, 3_000_000_000, &ours));
        let report = watched.report(&BTreeSet::new()).unwrap();
        assert_eq!((report.target_ns, report.others_ns()), (0, 0));
    }

    #[test]
    fn without_proc_nothing_is_known() {
        let folder = tempfile::tempdir().unwrap();
        let none = HashSet::new();
        let ours = Ours {
            target: &none,
            own: &none,
        };
        let mut watched = Machine::new(TICK);
        assert!(!watched.read(folder.path(), 1, &ours));
        assert_eq!(watched.report(&BTreeSet::new()), None);
    }
}
