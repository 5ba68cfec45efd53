//! Tasks of OpenMP: threads execute them while they are in a barrier, so that waiting and working there
//! are not told apart.

use super::{Report, SiteReport};
use crate::total::total;

/// No barrier takes so long to let its threads go on, ns.
const LONG_NS: u64 = 500_000;

/// If threads are on a CPU for this part of a long release, they work: threads that only spin go on at
/// once.
const PART: f64 = 0.3;

/// Threads that sleep for this percentage of their waits have no tasks to execute.
const ASLEEP: f64 = 70.0;

/// Beside one thread that makes tasks, the others do less than this part of its work outside of the
/// barrier.
const LITTLE: f64 = 0.2;

impl Report {
    /// A figure, ns, that is made from how much threads worked before the barriers of a site; `None`
    /// where they may have executed tasks in these barriers.
    pub fn of_known_work(&self, site: &SiteReport, ns: u64) -> Option<u64> {
        (self.worked_in_barrier_ns(site) == 0).then_some(ns)
    }

    /// The percentage of thread time for which threads may have executed tasks in barriers; `None` if that
    /// is little.
    pub fn worked_in_barriers_pct(&self) -> Option<f64> {
        const LEAST_PCT: f64 = 5.0;
        let sites = self.sites.iter();
        let worked = total(sites.map(|site| self.worked_in_barrier_ns(site)));
        let total_ns = self.thread_time.total_ns.max(1) as f64;
        let pct = worked as f64 / total_ns * 100.0;
        (pct >= LEAST_PCT).then_some(pct)
    }

    /// For how long threads may have executed tasks in the barriers of a site, ns; 0 if it is known
    /// that they waited.
    pub fn worked_in_barrier_ns(&self, site: &SiteReport) -> u64 {
        let is_asleep = site.waits.asleep_pct.is_some_and(|pct| pct >= ASLEEP);
        let has_none = self.run.openmp_tasks == Some(false);
        if !site.kind.is_of_openmp() || is_asleep || has_none {
            return 0;
        }
        let spinning_ns = site.waits.spinning_ns.unwrap_or(0);
        let idle_ns = site.idle_ns.as_ref().map_or(0, |idle| idle.sum);
        let has_tasks = self.run.openmp_tasks == Some(true);
        if let Some(release) = site
            .release_ns
            .as_ref()
            .filter(|release| release.p50 >= LONG_NS)
        {
            let on_cpu_ns = spinning_ns.saturating_sub(idle_ns);
            if has_tasks || on_cpu_ns as f64 >= PART * release.sum as f64 {
                return spinning_ns;
            }
        }
        let late = site.straggler.as_ref().and_then(|last| last.late.as_ref());
        // After one episode nobody is known to be late.
        let works_alone = late
            .is_none_or(|late| (late.others.work_ns as f64) < LITTLE * late.last.work_ns as f64);
        if has_tasks && works_alone {
            spinning_ns
        } else {
            0
        }
    }
}
