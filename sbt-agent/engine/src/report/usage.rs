//! The efficiency of the threads, in a report.

use crate::total::total;
use serde::{Deserialize, Serialize};

/// The efficiencies of POP over the whole run: fractions of 1, of which 0.8 or more counts as good.
/// `parallel` is `load_balance` × `serialisation` × `transfer`.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct EfficiencyReport {
    /// Useful work of all threads / (`threads` × wall time). Work is useful while the thread has a
    /// CPU, or needs none.
    pub parallel: f64,
    /// Mean useful work / largest useful work of a thread. It is small if one thread has more work
    /// than the others over the whole run.
    pub load_balance: f64,
    /// Largest useful work of a thread / `path_ns`. It is small if different threads have more work
    /// at different times, and if parts of the program are serial.
    pub serialisation: f64,
    /// `path_ns` / wall time: what leaving barriers and a lack of CPUs leave of the wall time.
    pub transfer: f64,
    /// The part of the threads' work not spent waiting for a CPU; null if it is unknown.
    pub cpu_availability: Option<f64>,
    /// Useful work of all threads / wall time.
    pub speedup: f64,
    /// Useful work of all threads / the rest of their time; null if there is no rest.
    pub granularity: Option<f64>,
    /// The largest number of threads that took part in barriers at the same time. A thread that
    /// begins after another has ended takes its place.
    pub threads: u32,
    /// The longest path through the phases: how long the run would take with the same work if
    /// barriers took no time.
    pub path_ns: u64,
}

impl super::Report {
    /// The percentage of the work for which threads slept, as for a lock or a disk; that counts as useful
    /// in the efficiencies. `None` if it is not known, or too little to be worth telling.
    pub fn asleep_in_work_pct(&self) -> Option<f64> {
        const WORTH_TELLING: f64 = 5.0;
        if self.run.has_stopped_threads() {
            return None;
        }
        self.efficiency?;
        let known: Option<Vec<(u64, u64)>> = self
            .threads
            .iter()
            .map(|thread| thread.blocked_ns.zip(thread.work_ns))
            .collect();
        let (asleep, work): (Vec<u64>, Vec<u64>) = known?.into_iter().unzip();
        let asleep_ns = total(asleep).saturating_sub(self.stolen_ns());
        let pct = (asleep_ns as f64 / total(work).max(1) as f64 * 100.0).min(100.0);
        (pct >= WORTH_TELLING).then_some(pct)
    }
}

impl EfficiencyReport {
    /// Useful work of all threads, ns, in a run of `wall_ns`.
    pub fn useful_ns(&self, wall_ns: u64) -> f64 {
        // After an exec of another program, the efficiencies are those of the new program alone.
        let their_wall_ns = if self.transfer > 0.0 {
            self.path_ns as f64 / self.transfer
        } else {
            wall_ns as f64
        };
        self.speedup * their_wall_ns
    }
}

/// The number of threads that were busy at a time, which means between barriers and not waiting in
/// one. Only members of each episode count.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ParallelismReport {
    /// Time for which at least one thread was busy: the normalised processor time (Quartz).
    pub busy_ns: u64,
    /// Mean number of busy threads during `busy_ns`.
    pub mean_busy: f64,
    /// Wall time by number of busy threads, without zero times. Above 64, numbers are rounded up
    /// into groups.
    pub times: Vec<BusyReport>,
}

/// Wall time for which a certain number of threads was busy.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct BusyReport {
    /// Number of busy threads.
    pub busy: u32,
    /// Wall time.
    pub ns: u64,
}

/// Wall time that changes at a site would save if the work stays the same. `gain_ns` of the site is
/// the saving of perfect balance.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WhatIfReport {
    /// If the work of the last thread to arrive took 10 % less time, and no other thread changed.
    pub straggler_10_pct_faster_ns: u64,
    /// If the work of the last thread to arrive took 25 % less time, and no other thread changed.
    pub straggler_25_pct_faster_ns: u64,
    /// If the work of the last thread to arrive took 50 % less time, and no other thread changed.
    pub straggler_50_pct_faster_ns: u64,
    /// If all threads could go on at the moment of the last arrival; null if departures were not
    /// watched.
    pub no_release_ns: Option<u64>,
}
