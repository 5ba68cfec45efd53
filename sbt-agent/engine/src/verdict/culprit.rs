//! Which thread the others wait for: by the time that they wait for it, and by its work in all of
//! its episodes, whether it came last or not.

use crate::{
    report::{Report, SiteReport, SiteThreadReport, StragglerPattern},
    total::total,
};

/// A share of what others wait for is well above chance if it exceeds chance by this fraction of
/// what is left to all.
const ABOVE_CHANCE: f64 = 0.4;

/// And the others wait for it longer than for all others together.
const MORE_THAN_ALL: f64 = 0.55;

/// By how much a thread's share must exceed chance if it comes last again and again.
const AGAIN: f64 = 1.6;

/// Times of one thread, or the mean of several, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Times {
    /// The whole work.
    pub work: f64,
    /// The parts of the work; all 0 unless they are known.
    pub running: f64,
    /// Ready without a CPU.
    pub ready: f64,
    /// Asleep in the kernel.
    pub blocked: f64,
    /// Whether the parts are known.
    pub is_split: bool,
}

impl Times {
    /// The times for each of a thread's episodes.
    fn each(thread: &SiteThreadReport) -> Option<Self> {
        let Some(later) = thread.later else {
            // A report of an older version, in which the program's start may be included.
            let work = thread.kept_ns.map_or(thread.work_ns, |_| None)?;
            return Some(Self {
                work: work as f64 / thread.episodes.max(1) as f64,
                ..Self::default()
            });
        };
        let each = |ns: u64| ns as f64 / later.episodes.max(1) as f64;
        let parts = (later.running_ns, later.ready_ns, later.blocked_ns);
        let work = each(later.work_ns);
        Some(match parts {
            (Some(running), Some(ready), Some(blocked)) => Self {
                work,
                running: each(running),
                ready: each(ready),
                blocked: each(blocked),
                is_split: true,
            },
            _ => Self {
                work,
                ..Self::default()
            },
        })
    }

    fn mean(all: &[Self]) -> Self {
        let n = all.len().max(1) as f64;
        let sum = |f: fn(&Self) -> f64| all.iter().map(f).sum::<f64>() / n;
        Self {
            work: sum(|times| times.work),
            running: sum(|times| times.running),
            ready: sum(|times| times.ready),
            blocked: sum(|times| times.blocked),
            is_split: all.iter().all(|times| times.is_split),
        }
    }

    /// Work that is not the kernel's doing: time on a CPU, or all work if the parts are unknown.
    pub fn own(&self) -> f64 {
        if self.is_split {
            self.running
        } else {
            self.work
        }
    }
}

/// The thread for which the others wait longest at a site.
#[derive(Clone, Copy, Debug)]
pub struct Culprit {
    /// Its id in the report.
    pub thread: u32,
    /// Its share of what the others wait for, 0 to 1.
    pub share: f64,
    /// Percentage of the episodes in which it comes last.
    pub last_pct: f64,
    /// Its times for each episode, the mean of all of its episodes.
    pub own: Times,
    /// The mean of the others' means.
    pub others: Times,
}

/// The least share, 0 to 1, of what `threads` threads wait for that one of them does not have by
/// chance.
pub fn well_above_chance(threads: usize) -> f64 {
    let chance = 1.0 / threads.max(1) as f64;
    (chance + ABOVE_CHANCE * (1.0 - chance)).max(MORE_THAN_ALL)
}

/// Threads that take part in most episodes of a site: the others belong to other teams.
pub fn members(site: &SiteReport) -> Vec<&SiteThreadReport> {
    let most = site.threads.iter().map(|thread| thread.episodes).max();
    let all = site.threads.iter();
    all.filter(|thread| 2 * thread.episodes > most.unwrap_or(0))
        .collect()
}

impl Culprit {
    /// The culprit of a site, if the others wait for one thread well above chance. It need not have
    /// more work than they have.
    pub fn of(report: &Report, site: &SiteReport) -> Option<Self> {
        let members = members(site);
        // A thread that stands for several is nobody.
        let known = members.iter().filter(|member| {
            report
                .thread(member.thread)
                .is_none_or(|thread| thread.threads == 1)
        });
        let weight = |member: &SiteThreadReport| member.kept_ns.unwrap_or(member.last);
        let most = *known.max_by_key(|member| weight(member))?;
        let all = total(site.threads.iter().map(weight));
        let share = weight(most) as f64 / all.max(1) as f64;
        let last = site.straggler.as_ref();
        let comes_again = last.is_some_and(|last| {
            last.pattern == StragglerPattern::Persistent && last.thread == most.thread
        });
        let enough = well_above_chance(members.len());
        let chance = 1.0 / members.len().max(1) as f64;
        let is_above = share >= enough || comes_again && share >= AGAIN * chance;
        if members.len() < 2 || !is_above {
            return None;
        }
        let others = members.iter().filter(|other| other.thread != most.thread);
        let others: Option<Vec<Times>> = others.map(|other| Times::each(other)).collect();
        Some(Self {
            thread: most.thread,
            share,
            last_pct: most.last as f64 / site.episodes.max(1) as f64 * 100.0,
            own: Times::each(most)?,
            others: Times::mean(&others?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_two_is_chance() {
        for (threads, least) in [(1, 1.0), (2, 0.7), (4, 0.55), (64, 0.55)] {
            assert!(
                (well_above_chance(threads) - least).abs() < 0.01,
                "{threads}"
            );
        }
    }
}
