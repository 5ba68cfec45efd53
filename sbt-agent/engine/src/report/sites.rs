//! Sites, and the phases between them, in a report.

use serde::{Deserialize, Serialize};

use super::{
    BarrierKind, CompensatedReport, LateAwayReport, ParallelismReport, RelatedReport,
    StragglerPattern, StragglerSequence, WaitsReport, WhatIfReport,
    counters::{self, Counted, Counts, DerivedReport},
};
use crate::total::total;

/// A site: a place, or several, from which barriers are called.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SiteReport {
    /// The number of the site.
    pub id: u32,
    /// The name that the user gave to the site, if any.
    pub name: Option<String>,
    /// The function of the site's first place, as far as debug information and symbols tell.
    pub function: Option<String>,
    /// The source file of the first place.
    pub file: Option<String>,
    /// The line of the first place.
    pub line: Option<u32>,
    /// File name of the program or library that contains the function; `?` if unknown.
    pub binary: String,
    /// Return address of the first call seen from the first place, in the file's own numbering (as
    /// `nm` prints it), hexadecimal.
    pub offset: String,
    /// Offset of that address from the start of the function that was called there, hexadecimal;
    /// null if it is unknown.
    pub function_offset: Option<String>,
    /// The functions into which the first place's function was inlined or, as far as sbt looked,
    /// from which it was called. Functions of the language's own library are left out.
    pub callers: Vec<String>,
    /// Functions between the first place's function and the barrier, the innermost first. These
    /// functions only wait, and are inlined into the first place's function or called by it.
    #[serde(default)]
    pub wrappers: Vec<String>,
    /// All places, each as `function file:line` as far as known, else as `binary+0xoffset`, with
    /// `from` a caller if only the caller tells the place apart. There are several places if the
    /// threads call from different lines.
    pub places: Vec<String>,
    /// The ids of the barriers used from this site; at most 64.
    pub barriers: Vec<u32>,
    /// The kind of the site's barriers.
    pub kind: BarrierKind,
    /// Number of complete episodes.
    pub episodes: u64,
    /// Number of incomplete episodes.
    pub incomplete: u64,
    /// Sum of idle time over threads and episodes. Sites are ranked by this time.
    pub lost_ns: u64,
    /// How threads waited during idle and release.
    #[serde(flatten)]
    pub waits: WaitsReport,
    /// `lost_ns` as a percentage of the wall time of the threads that are here at a time; null
    /// without complete episodes.
    pub lost_wall_pct: Option<f64>,
    /// Wall time that perfect balance would save.
    pub gain_ns: u64,
    /// Wall time that other changes would save.
    pub what_if: WhatIfReport,
    /// Time for which the threads that begin parallel regions worked alone while the other threads
    /// were kept waiting, before the regions that end or go on here. No phase's `work_ns` includes
    /// this time. Null if departures and beginnings of regions were not watched.
    pub alone_ns: Option<u64>,
    /// The part of `alone_ns` in which these threads were ready without a CPU; null if that is not
    /// known.
    #[serde(default)]
    pub alone_ready_ns: Option<u64>,
    /// The part of `alone_ns` in which these threads were asleep in the kernel, or stopped by sbt
    /// (`ptrace`); null if that is not known.
    #[serde(default)]
    pub alone_blocked_ns: Option<u64>,
    /// Time for which the other threads were kept waiting meanwhile, summed over threads; null as
    /// `alone_ns`.
    pub between_ns: Option<u64>,
    /// The part of the critical path at this site: work of the last thread to arrive, and
    /// `alone_ns`.
    pub path_ns: u64,
    /// `path_ns` as a percentage of the `path_ns` of all sites; null if those are 0.
    pub path_pct: Option<f64>,
    /// As `path_pct`, with each moment weighted by 1 plus the number of threads that do not work.
    /// It is high where the path runs through work that one thread does alone.
    pub weighted_path_pct: Option<f64>,
    /// Number of busy threads in the phases that end here; null if it is unknown.
    pub parallelism: Option<ParallelismReport>,
    /// Imbalance of the work: 0 if it is even, 100 if one thread does all of it.
    pub imbalance_pct: Option<f64>,
    /// From the last arrival of the previous episode to the last arrival of this one: one value for
    /// each episode.
    pub phase_ns: Option<StatReport>,
    /// From the first to the last arrival: one value for each episode.
    pub barrier_ns: Option<StatReport>,
    /// Waiting for others: one value for each thread and episode.
    pub idle_ns: Option<StatReport>,
    /// From the last arrival to the departure: one value for each thread and episode.
    pub release_ns: Option<StatReport>,
    /// From the previous departure to the arrival: one value for each thread and episode.
    pub work_ns: Option<StatReport>,
    /// Whether the probes were off for spans of time: see `estimated` of the report.
    pub estimated: bool,
    /// Whether arriving and waiting are two calls there, and threads told when they began to wait.
    #[serde(default)]
    pub tells_waits: bool,
    /// The figures as they would be without the cost of watching; null if that is unknown.
    pub compensated: Option<CompensatedReport>,
    /// Values of the counters during work, summed over all threads.
    pub counters: Counts,
    /// Number of intervals of that work in which the counters are known.
    #[serde(default)]
    pub counted: Counted,
    /// Figures that follow from `counters`.
    pub derived: Vec<DerivedReport>,
    /// The thread that arrives last; null without complete episodes, or if the last thread is
    /// unknown in all of them.
    pub straggler: Option<StragglerReport>,
    /// The thread that arrives last at each barrier, if the site has several: for the first 64
    /// barriers, by descending `lost_ns`.
    pub straggler_by_barrier: Vec<BarrierStragglerReport>,
    /// How the counters that were asked for go with who is late here, by descending correlation.
    #[serde(default)]
    pub related: Vec<RelatedReport>,
    /// How the site changed over the run: consecutive episodes in at most 128 buckets of equal size
    /// (the last may hold fewer).
    pub trend: Vec<TrendReport>,
    /// The sums of each thread at the site.
    pub threads: Vec<SiteThreadReport>,
}

impl SiteReport {
    /// The name of the site: the user's name, or all places that it consists of.
    pub fn called(&self) -> String {
        self.name
            .as_deref()
            .map_or_else(|| joined(&self.places), crate::place::printable)
    }

    /// The mean count of a counter before one episode, of all threads together. Intervals of a
    /// thread's work in which the count is unknown are assumed to be like the thread's other
    /// intervals. `None` if the count is unknown in all intervals of a thread.
    pub fn counter_per_phase(&self, name: &str) -> Option<f64> {
        let counted = self.counted.get(name)?;
        let parts = || self.threads.iter().filter(|thread| thread.episodes > 0);
        let apart = total(parts().map(|thread| thread.episodes));
        if !counted.is_partial() || apart < counted.intervals {
            // Of the latter not all threads are kept apart.
            return counters::per_phase(&self.counters, &self.counted, name, self.episodes);
        }
        let each = |thread: &SiteThreadReport| {
            let mean = counters::per_phase(&thread.counters, &thread.counted, name, 1);
            mean.map(|sum| sum / self.episodes as f64)
        };
        let all: Option<f64> = parts().map(each).sum();
        all.filter(|_| self.episodes > 0)
    }
}

/// Names of places in one line. What all have in common is written once: the function, and the
/// callers.
fn joined(places: &[String]) -> String {
    let split = |place: &'_ str| -> Option<[String; 3]> {
        let (own, callers) = place.split_once(" from ").unwrap_or((place, ""));
        let (function, line) = own.rsplit_once(' ')?;
        Some([function, line, callers].map(str::to_owned))
    };
    let parts: Option<Vec<_>> = places.iter().map(|place| split(place)).collect();
    let parts = parts.unwrap_or_default();
    let Some([function, _, callers]) = parts.first() else {
        return places.join(" | ");
    };
    let is_common =
        |[other, _, others_callers]: &[String; 3]| other == function && others_callers == callers;
    if !parts.iter().all(is_common) {
        return places.join(" | ");
    }
    let lines: Vec<&str> = parts.iter().map(|[_, line, _]| line.as_str()).collect();
    let lines = lines.join(" | ");
    if callers.is_empty() {
        format!("{function} {lines}")
    } else {
        format!("{function} {lines} from {callers}")
    }
}

/// Statistics of a stream of durations, ns.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct StatReport {
    /// Number of values.
    pub count: u64,
    /// Sum of the values.
    pub sum: u64,
    /// The smallest value.
    pub min: u64,
    /// The mean value.
    pub mean: u64,
    /// The largest value.
    pub max: u64,
    /// The standard deviation.
    pub stddev: u64,
    /// The median, with an error of at most 1/16.
    pub p50: u64,
    /// The 95th percentile, with an error of at most 1/16.
    pub p95: u64,
    /// The 99th percentile, with an error of at most 1/16.
    pub p99: u64,
}

/// The threads that arrive last at a site.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct StragglerReport {
    /// The pattern of the threads that arrive last. If several barriers are used from here and most
    /// episodes show the same pattern at each barrier, that pattern is reported.
    pub pattern: StragglerPattern,
    /// How last threads follow each other.
    pub sequence: StragglerSequence,
    /// The thread that came last most often, among those with an entry of their own.
    pub thread: u32,
    /// Percentage of the episodes in which this thread came last.
    pub share_pct: f64,
    /// Percentage of the episodes in which the last thread was one of those that share an entry.
    pub unknown_pct: f64,
    /// Largest number of consecutive episodes with the same last thread, whichever thread that was.
    pub longest_run: u64,
    /// The number of times that a thread that had come last also came last in its next episode
    /// here.
    pub repeats: u64,
    /// The number of times that a thread that had come last did not come last in its next episode
    /// here.
    pub changes: u64,
    /// Mean time from the second-to-last arrival to the last.
    pub mean_lead_ns: u64,
    /// The work of the last thread before its arrival, compared with the others: why it was late.
    /// Null if there is no episode that followed another one and whose work is fully known.
    pub late: Option<LateReport>,
}

/// The work of the last thread before its arrival, compared with the other threads: sums over the
/// episodes that followed another one and whose work is fully known. The first episode of the
/// program is left out because its phase contains the program's start.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LateReport {
    /// Number of these episodes.
    pub episodes: u64,
    /// Number of these episodes in which the split of work into `running_ns`, `ready_ns` and
    /// `blocked_ns` is known.
    pub split_episodes: u64,
    /// Mean number of participants.
    pub participants: f64,
    /// Sum of the phase times.
    pub phase_ns: u64,
    /// Waiting for others, summed over all threads.
    pub idle_ns: u64,
    /// Sum of the times from the second-to-last arrival to the last. During that time no other
    /// thread had work.
    pub lead_ns: u64,
    /// Times of the last thread to arrive.
    pub last: LateTimesReport,
    /// Times of the other threads: the sum of each episode's mean.
    pub others: LateTimesReport,
    /// The threads' time off their CPUs; null without `--states full`.
    pub away: Option<LateAwayReport>,
    /// By which factor the last thread's CPU was slower than those of the others: how long a fixed piece of
    /// work took there, just before the arrivals. Null if that was not measured.
    #[serde(default)]
    pub cpu_slower: Option<f64>,
    /// Number of episodes in which the speeds of the CPUs were measured.
    #[serde(default)]
    pub cpu_slower_episodes: u64,
}

/// Work, and its split into states in the `split_episodes`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LateTimesReport {
    /// From the previous departure to the arrival.
    pub work_ns: u64,
    /// The part of the work spent on a CPU; null if it is unknown in all episodes.
    pub running_ns: Option<u64>,
    /// The part of the work spent runnable without a CPU; null if it is unknown in all episodes.
    pub ready_ns: Option<u64>,
    /// The part of the work spent asleep in the kernel; null if it is unknown in all episodes.
    pub blocked_ns: Option<u64>,
}

/// The threads that arrive last at one of a site's barriers.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct BarrierStragglerReport {
    /// The id of the barrier; null if it is no longer listed.
    pub barrier: Option<u32>,
    /// Number of complete episodes of the barrier at this site.
    pub episodes: u64,
    /// Sum of idle time in these episodes.
    pub lost_ns: u64,
    /// The pattern of the threads that arrive last, as in `straggler` of the site.
    pub pattern: StragglerPattern,
    /// The thread that came last most often; null if the last thread is unknown in all episodes.
    pub thread: Option<u32>,
    /// Percentage of the episodes in which this thread came last.
    pub share_pct: f64,
}

/// A bucket of consecutive episodes.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TrendReport {
    /// Number of episodes.
    pub episodes: u64,
    /// Time of the last arrival of the last episode, since the start of watching.
    pub until_ns: u64,
    /// Mean phase time.
    pub phase_ns: Option<u64>,
    /// Mean barrier time.
    pub barrier_ns: u64,
    /// Mean idle time of all threads together.
    pub idle_ns: u64,
    /// Mean number of busy threads; null if it is unknown, and in the trend of a conceptual phase.
    pub mean_busy: Option<f64>,
}

/// The sums of one thread at one site.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SiteThreadReport {
    /// The id of the thread.
    pub thread: u32,
    /// Number of complete episodes.
    pub episodes: u64,
    /// Work in the phases that ended here.
    pub work_ns: Option<u64>,
    /// Waiting for others.
    pub idle_ns: u64,
    /// From the last arrival to the thread's departure.
    pub release_ns: Option<u64>,
    /// How the thread waited during idle and release.
    #[serde(flatten)]
    pub waits: WaitsReport,
    /// The part of `work_ns` spent on a CPU.
    pub running_ns: Option<u64>,
    /// The part of `work_ns` spent runnable without a CPU.
    pub ready_ns: Option<u64>,
    /// The part of `work_ns` spent neither on a CPU nor runnable.
    pub blocked_ns: Option<u64>,
    /// The part of the site's `alone_ns` that this thread worked.
    pub alone_ns: Option<u64>,
    /// The thread's work in episodes in which it came last, and its `alone_ns`.
    pub path_ns: u64,
    /// The thread's normalised processor time.
    pub npt_ns: u64,
    /// Number of episodes in which the thread came last.
    pub last: u64,
    /// Time for which the other threads waited in these episodes, summed over them. Null in reports
    /// of older versions of sbt.
    #[serde(default)]
    pub kept_ns: Option<u64>,
    /// The thread's work in the episodes of `late` of `straggler`, whether it came last or not;
    /// null if there are none.
    #[serde(default)]
    pub later: Option<LaterReport>,
    /// Statistics of the thread's single work, idle and release times.
    pub each: EachReport,
    /// Values of the counters during the thread's work in the phases that ended here.
    pub counters: Counts,
    /// Number of intervals of that work in which the counters are known.
    #[serde(default)]
    pub counted: Counted,
}

/// A thread's work in the episodes that followed another one and whose work is fully known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LaterReport {
    /// Number of these episodes.
    pub episodes: u64,
    /// Work in these episodes.
    pub work_ns: u64,
    /// The part of the work spent on a CPU; null if it is unknown.
    pub running_ns: Option<u64>,
    /// The part of the work spent runnable without a CPU; null if it is unknown.
    pub ready_ns: Option<u64>,
    /// The part of the work spent asleep in the kernel; null if it is unknown.
    pub blocked_ns: Option<u64>,
}

/// A thread's times at a site: one value for each episode.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct EachReport {
    /// Work of the thread.
    pub work_ns: Option<StatReport>,
    /// Waiting of the thread for others.
    pub idle_ns: Option<StatReport>,
    /// Release latency of the thread.
    pub release_ns: Option<StatReport>,
}

/// A phase: what lies between two consecutive episodes.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PhaseReport {
    /// The site of the previous episode; null if no participant came from another episode.
    pub from: Option<u32>,
    /// The site of the episode that ends the phase.
    pub to: u32,
    /// Number of times that the phase was passed.
    pub episodes: u64,
    /// Wall time of the phase.
    pub phase_ns: Option<StatReport>,
    /// The sum of its barrier times, from the first arrival to the last: a part of the sum of `phase_ns`.
    /// Null in reports of older versions.
    #[serde(default)]
    pub barrier_sum_ns: Option<u64>,
    /// Work of each thread in the phase.
    pub work_ns: Option<StatReport>,
    /// Number of busy threads; null if it is unknown.
    pub parallelism: Option<ParallelismReport>,
    /// Values of the counters during that work.
    pub counters: Counts,
    /// Number of intervals of that work in which the counters are known.
    #[serde(default)]
    pub counted: Counted,
}

impl PhaseReport {
    /// The wall time of all its passes, ns.
    pub fn sum_ns(&self) -> u64 {
        self.phase_ns.as_ref().map_or(0, |stat| stat.sum)
    }

    /// The barrier's part of its wall time, percent; `None` if that is unknown.
    pub fn barrier_pct(&self) -> Option<f64> {
        let barrier_ns = self.barrier_sum_ns.filter(|_| self.sum_ns() > 0)?;
        Some(barrier_ns as f64 / self.sum_ns() as f64 * 100.0)
    }

    /// The mean count of a counter in one such phase, of all threads together; `None` if unknown.
    pub fn counter_per_phase(&self, name: &str) -> Option<f64> {
        counters::per_phase(&self.counters, &self.counted, name, self.episodes)
    }
}

#[cfg(test)]
mod tests {
    use super::joined;

    #[test]
    fn what_places_have_in_common_is_written_once() {
        let called = |places: &[&str]| {
            let places: Vec<String> = places.iter().map(|place| (*place).into()).collect();
            joined(&places)
        };
        assert_eq!(called(&["wait b.c:9"]), "wait b.c:9");
        assert_eq!(called(&["wait b.c:9", "wait b.c:7"]), "wait b.c:9 | b.c:7");
        assert_eq!(
            called(&["wait b.c:9 from a.c:1", "wait b.c:7 from a.c:1"]),
            "wait b.c:9 | b.c:7 from a.c:1"
        );
        assert_eq!(
            called(&["wait b.c:9 from a.c:1", "wait b.c:7"]),
            "wait b.c:9 from a.c:1 | wait b.c:7"
        );
        assert_eq!(
            called(&["left a.c:1", "right a.c:2"]),
            "left a.c:1 | right a.c:2"
        );
        assert_eq!(called(&["p+0x10", "p+0x20"]), "p+0x10 | p+0x20");
    }
}
