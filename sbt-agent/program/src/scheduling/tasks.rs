//! The threads of a target as the scheduler sees them: their CPUs, priorities and times.

use std::{
    collections::{BTreeSet, HashMap},
    fs,
    path::{Path, PathBuf},
};

use procfs::{FromRead as _, process::Stat};
use sbt_engine::{
    place::printable,
    report::{Policy, TaskReport, scheduling::cpu_list},
};

use crate::{process::text, status::Status};

/// The most threads that are kept: of further ones nothing is known.
const MOST_KEPT: usize = 512;

/// The most threads that are reported.
const MOST_REPORTED: usize = 64;

/// Run time and run delay of a thread so far, ns.
type Times = (Option<u64>, Option<u64>);

/// Facts about a thread.
#[derive(Clone, Debug)]
struct Known {
    /// The time at which the kernel created the thread: the number may go to another thread later.
    started: u64,
    name: String,
    /// The CPUs at the first look, and at the last.
    first_cpus: String,
    cpus: String,
    nice: i32,
    policy: Policy,
    first: (u64, Times),
    last: (u64, Times),
    /// CPU time in the kernel, ns, and minor page faults, at the first look and at the last.
    first_kernel: [u64; 2],
    last_kernel: [u64; 2],
}

/// The threads of a target, by process and thread.
#[derive(Clone, Debug, Default)]
pub struct Tasks(HashMap<(u32, u32), Known>);

impl Tasks {
    /// Looks at the first `most` threads of a process.
    pub fn look(&mut self, proc: &Path, pid: u32, now_ns: u64, most: usize) {
        let folder = fs::read_dir(proc.join(format!("{pid}/task")));
        let threads = folder.into_iter().flatten().filter_map(|task| {
            let task = task.ok()?.path();
            Some((task.file_name()?.to_str()?.parse().ok()?, task))
        });
        let threads: Vec<(u32, PathBuf)> = threads.take(most).collect();
        for (tid, task) in threads {
            self.look_at((pid, tid), &task, now_ns);
        }
    }

    /// Looks at one thread.
    pub fn look_at_one(&mut self, proc: &Path, (pid, tid): (u32, u32), now_ns: u64) {
        let task = proc.join(format!("{pid}/task/{tid}"));
        self.look_at((pid, tid), &task, now_ns);
    }

    fn look_at(&mut self, id: (u32, u32), task: &Path, now_ns: u64) {
        let Ok(stat) = Stat::from_file(task.join("stat")) else {
            return;
        };
        // What a thread that has ended tells is not what it had.
        if matches!(stat.state, 'Z' | 'X') {
            return;
        }
        let status = Status::in_folder(task).unwrap_or_default();
        let times = times(&text(task.join("schedstat")).unwrap_or_default());
        let cpus = status.field("Cpus_allowed_list").unwrap_or_default();
        let tick_ns = 1_000_000_000 / procfs::ticks_per_second().max(1);
        let kernel = [stat.stime.saturating_mul(tick_ns), stat.minflt];
        let seen = Known {
            started: stat.starttime,
            name: stat.comm.clone(),
            first_cpus: cpus.into(),
            cpus: cpus.into(),
            nice: i32::try_from(stat.nice).unwrap_or(0),
            policy: policy(stat.policy),
            first: (now_ns, times),
            last: (now_ns, times),
            first_kernel: kernel,
            last_kernel: kernel,
        };
        let has_room = self.0.len() < MOST_KEPT;
        match self.0.get_mut(&id) {
            Some(known) if known.started == seen.started => {
                *known = Known {
                    first: known.first,
                    first_kernel: known.first_kernel,
                    first_cpus: std::mem::take(&mut known.first_cpus),
                    ..seen
                };
            }
            Some(known) => *known = seen,
            None if has_room => {
                self.0.insert(id, seen);
            }
            None => {}
        }
    }

    /// Counts times from the last look on.
    pub fn reset(&mut self) {
        for known in self.0.values_mut() {
            known.first = known.last;
            known.first_kernel = known.last_kernel;
        }
    }

    /// The CPUs on which any thread might run at the first look at it.
    pub fn first_cpus(&self) -> BTreeSet<u32> {
        let lists = self.0.values().map(|known| cpu_list(&known.first_cpus));
        lists.flatten().flatten().collect()
    }

    /// The threads, those with most CPU time first.
    pub fn report(&self) -> Vec<TaskReport> {
        let since = |first: Option<u64>, last: Option<u64>| Some(last?.saturating_sub(first?));
        let mut all: Vec<TaskReport> = self
            .0
            .iter()
            .map(|(&(pid, tid), known)| {
                let ((first_ns, first), (last_ns, last)) = (known.first, known.last);
                let [system_ns, minor_faults] =
                    [0, 1].map(|of| known.last_kernel[of].saturating_sub(known.first_kernel[of]));
                TaskReport {
                    tid,
                    pid,
                    name: printable(&known.name),
                    cpus: known.cpus.clone(),
                    nice: known.nice,
                    policy: known.policy,
                    looked_ns: last_ns.saturating_sub(first_ns),
                    running_ns: since(first.0, last.0),
                    ready_ns: since(first.1, last.1),
                    system_ns: Some(system_ns),
                    minor_faults: Some(minor_faults),
                }
            })
            .collect();
        all.sort_by_key(|task| (std::cmp::Reverse(task.running_ns), task.pid, task.tid));
        all.truncate(MOST_REPORTED);
        all
    }
}

fn times(schedstat: &str) -> Times {
    let mut fields = schedstat.split_whitespace().map(str::parse);
    let mut next = || fields.next().and_then(Result::ok);
    (next(), next())
}

/// The class by its number in linux/sched.h.
const fn policy(number: Option<u32>) -> Policy {
    match number {
        Some(0) => Policy::Normal,
        Some(1) => Policy::Fifo,
        Some(2) => Policy::RoundRobin,
        Some(3) => Policy::Batch,
        Some(5) => Policy::Idle,
        Some(6) => Policy::Deadline,
        _ => Policy::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_tell_their_cpus_and_priorities() {
        let proc = tempfile::tempdir().unwrap();
        let task = proc.path().join("7/task/9");
        fs::create_dir_all(&task).unwrap();
        let write = |name: &str, text: &str| fs::write(task.join(name), text).unwrap();
        let stat = |started: u32, faults: u32| {
            format!(
                "9 (a w) R 1 7 7 0 -1 64 {faults} 0 0 0 5 {faults} 0 0 39 19 2 0 {started} 1000 10 \
                 18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 1 0 5 0 0 0 0 0 0 0 0 0 0 0\n"
            )
        };
        write("stat", &stat(100, 1));
        write("status", "Name:\ta w\nCpus_allowed_list:\t0,2-3\n");
        write("schedstat", "1000 50 7\n");
        let mut tasks = Tasks::default();
        tasks.look(proc.path(), 7, 10, 64);
        write("schedstat", "1600 350 9\n");
        write("stat", &stat(100, 8));
        write("status", "Name:\ta w\nCpus_allowed_list:\t2-3\n");
        tasks.look_at_one(proc.path(), (7, 9), 1010);
        let expected = TaskReport {
            tid: 9,
            pid: 7,
            name: "a w".into(),
            cpus: "2-3".into(),
            nice: 19,
            policy: Policy::Idle,
            looked_ns: 1000,
            running_ns: Some(600),
            ready_ns: Some(300),
            system_ns: Some(7 * 1_000_000_000 / procfs::ticks_per_second()),
            minor_faults: Some(7),
        };
        assert_eq!(tasks.report(), std::slice::from_ref(&expected));
        assert_eq!(tasks.first_cpus(), BTreeSet::from([0, 2, 3]));
        // Another thread has the number now, on a kernel without schedstat.
        write("stat", &stat(200, 1));
        fs::remove_file(task.join("schedstat")).unwrap();
        tasks.look(proc.path(), 7, 2000, 64);
        let other = TaskReport {
            looked_ns: 0,
            running_ns: None,
            ready_ns: None,
            system_ns: Some(0),
            minor_faults: Some(0),
            ..expected
        };
        assert_eq!(tasks.report(), [other]);
        tasks.look(proc.path(), 8, 2000, 64);
        assert_eq!(tasks.report().len(), 1);
    }

    #[test]
    fn classes_have_numbers() {
        assert_eq!(policy(Some(0)), Policy::Normal);
        assert_eq!(policy(Some(1)), Policy::Fifo);
        assert_eq!(policy(Some(3)), Policy::Batch);
        assert_eq!(policy(Some(7)), Policy::Other);
        assert_eq!(policy(None), Policy::Other);
    }
}
