//! Causes that keep processes and threads from running although they do not wait: frozen control
//! groups, CPU quotas, priorities. And which children have ended.

use std::{collections::BTreeMap, path::Path};

use sbt_engine::{hang::scene::ThreadId, words::time};
use sbt_program::{process, scheduling::Groups};

/// Where /proc is.
const PROC: &str = "/proc";

/// The control groups of the processes that are looked at.
pub struct Kept {
    groups: Groups,
}

impl Kept {
    /// Begins to count for these processes.
    pub fn new(processes: &[u32]) -> Self {
        let mut groups = Groups::new(Path::new(PROC));
        for process in processes {
            groups.look(Path::new(PROC), *process);
        }
        Self { groups }
    }

    /// The frozen control groups, by the process that they hold.
    pub fn frozen(&self, processes: &[u32]) -> BTreeMap<u32, String> {
        let group = |process: &u32| self.groups.frozen(Path::new(PROC), *process);
        let all = processes.iter();
        all.filter_map(|process| Some((*process, group(process)?)))
            .collect()
    }

    /// Sentences on quotas that have stopped threads since the beginning.
    pub fn quotas(&mut self) -> Vec<String> {
        self.groups.count();
        let all = self.groups.report().into_iter();
        all.filter(|quota| quota.throttled_periods > 0)
            .map(|quota| {
                format!(
                    "the CPU quota of control group {} ({} CPUs) was used up in {} of {} periods \
                     meanwhile: the kernel stopped its threads for {}, summed over the CPUs",
                    quota.group,
                    (quota.cpus * 100.0).round() / 100.0,
                    quota.throttled_periods,
                    quota.periods,
                    time(quota.throttled_ns),
                )
            })
            .collect()
    }

    /// Whether a quota was used up in most periods since the beginning, as far as [`Self::quotas`]
    /// has counted.
    pub fn is_throttled(&self) -> bool {
        let all = self.groups.report().into_iter();
        let mut all = all.filter(|quota| quota.throttled_periods > 0);
        all.any(|quota| 2 * quota.throttled_periods > quota.periods)
    }
}

/// Says why the scheduler prefers other threads to a thread; `None` if its class and nice value are
/// the usual ones.
pub fn low_priority(thread: ThreadId) -> Option<String> {
    let path = format!("{PROC}/{}/task/{}/stat", thread.process, thread.thread);
    low_priority_of(&process::text(path).ok()?)
}

fn low_priority_of(stat: &str) -> Option<String> {
    // The name may hold blanks and brackets.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<i32>().ok();
    let (nice, policy) = (number(16)?, number(38)?);
    match (policy, nice) {
        (libc::SCHED_IDLE, _) => Some("has the class SCHED_IDLE".into()),
        (libc::SCHED_OTHER | libc::SCHED_BATCH, 1..) => Some(format!("has the nice value {nice}")),
        _ => None,
    }
}

/// Sentences on children that have ended and for which these processes have not waited.
pub fn ended_children(processes: &[u32]) -> Vec<String> {
    /// The most of them.
    const MOST: usize = 3;
    let of = |process: &u32| {
        let parent = *process;
        let children = process::children(parent).into_iter();
        children
            .filter(|child| has_ended(*child))
            .map(move |child| (parent, child))
    };
    let all = processes.iter().flat_map(of).take(MOST);
    all.map(|(parent, child)| {
        format!(
            "process {child}, a child of process {parent}, has ended, and its parent has not yet \
             waited for its end"
        )
    })
    .collect()
}

fn has_ended(process: u32) -> bool {
    let stat = process::text(format!("{PROC}/{process}/stat")).unwrap_or_default();
    let after = stat.rsplit_once(')').map(|(_, after)| after.trim_start());
    after.is_some_and(|after| after.starts_with('Z'))
        && process::first_thread_has_ended(process)
        && !process::goes_on_without_first(process)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn classes_and_nice_values_are_read() {
        let stat = |nice: i32, policy: i32| {
            format!(
                "7 (a) b) S 1 1 1 0 -1 4 0 0 0 0 0 0 0 0 20 {nice} 1 {} {policy} 0",
                "0 ".repeat(20)
            )
        };
        assert_eq!(low_priority_of(&stat(0, 0)), None);
        assert_eq!(low_priority_of(&stat(-5, 0)), None);
        assert_eq!(
            low_priority_of(&stat(19, 0)).as_deref(),
            Some("has the nice value 19")
        );
        assert_eq!(
            low_priority_of(&stat(0, libc::SCHED_IDLE)).as_deref(),
            Some("has the class SCHED_IDLE")
        );
        assert_eq!(low_priority_of(&stat(0, libc::SCHED_FIFO)), None);
        assert_eq!(low_priority_of("7 (a"), None);
    }

    #[test]
    fn a_child_that_nobody_waited_for_is_told() {
        let own = std::process::id();
        let mut child = Command::new("true").spawn().unwrap();
        let about = format!(
            "process {}, a child of process {own}, has ended",
            child.id()
        );
        let told = || {
            let all = ended_children(&[own]);
            all.iter().any(|told| told.starts_with(&about))
        };
        // Other tests have children, too, and only some are told.
        let mut found = false;
        for _ in 0..100 {
            found = found || told();
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let may_be_hidden = ended_children(&[own]).len() > 2;
        child.wait().unwrap();
        assert!(found || may_be_hidden);
        assert!(!told());
    }
}
