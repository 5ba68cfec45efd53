//! What a report says of sites and of the phases between them.

use serde::{Deserialize, Serialize};

use super::Word;

use super::{
    CompensatedReport, LateAwayReport, ParallelismReport, WaitsReport, WhatIfReport,
    counters::{self, Counted, Counts, DerivedReport},
};

/// A site: from where a barrier is called.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SiteReport {
    /// Its number.
    pub id: u32,
    /// The user's name for it, if any.
    pub name: Option<String>,
    /// Of the site's first place, as far as debug information and symbols tell.
    pub function: Option<String>,
    /// Source file of that place.
    pub file: Option<String>,
    /// Line in it.
    pub line: Option<u32>,
    /// File name of the program or library with that function; `?` if unknown.
    pub binary: String,
    /// Return address of the first call seen from there, in that file's own
    /// numbering (as `nm` prints it), hexadecimal.
    pub offset: String,
    /// The same from the start of the function that was called there, hexadecimal; null if
    /// that is not known.
    pub function_offset: Option<String>,
    /// What the first place's function was inlined into or, as far as it was
    /// looked for, called from, without the functions of the language's own
    /// library.
    pub callers: Vec<String>,
    /// By what the first place's function comes from there to the barrier, the innermost
    /// first: functions that only wait, inlined into it or called by it.
    #[serde(default)]
    pub wrappers: Vec<String>,
    /// All places, each as `function file:line` as far as known, else
    /// `binary+0xoffset`, with `from` a caller where only that tells it from
    /// another; several where the threads call from different lines.
    pub places: Vec<String>,
    /// Barriers used from here; at most 64 are named.
    pub barriers: Vec<u32>,
    /// Of its barriers.
    #[serde(deserialize_with = "super::word::read")]
    pub kind: Word,
    /// Complete episodes.
    pub episodes: u64,
    /// Others.
    pub incomplete: u64,
    /// Sum of idle over threads and episodes: what the ranking goes by.
    pub lost_ns: u64,
    /// How that was waited.
    #[serde(flatten)]
    pub waits: WaitsReport,
    /// `lost_ns` of the wall time of the threads that are here at a time; null
    /// without complete episodes.
    pub lost_wall_pct: Option<f64>,
    /// Wall time that perfect balance would save.
    pub gain_ns: u64,
    /// What else would be saved.
    pub what_if: WhatIfReport,
    /// Before the parallel regions that end or go on here, what whoever began them worked
    /// alone while the others were kept waiting: it is in no phase's `work_ns`. Null if
    /// departures were not watched, and with them where regions begin.
    pub alone_ns: Option<u64>,
    /// How long those were kept waiting meanwhile, together; likewise.
    pub between_ns: Option<u64>,
    /// Work of whoever came last, and `alone_ns`: the critical path's part here.
    pub path_ns: u64,
    /// `path_ns` of that of all sites; null if there is none.
    pub path_pct: Option<f64>,
    /// The same, each moment counted as often as threads did not work, and once more: high
    /// where the path runs through what one does alone.
    pub weighted_path_pct: Option<f64>,
    /// How many threads were busy in the phases that end here; null if it is unknown.
    pub parallelism: Option<ParallelismReport>,
    /// 0: even, 100: one thread does it all.
    pub imbalance_pct: Option<f64>,
    /// From the last arrival of the episode before to the last of this: one
    /// value an episode.
    pub phase_ns: Option<StatReport>,
    /// From first to last arrival: one value an episode.
    pub barrier_ns: Option<StatReport>,
    /// Waiting for others: one value a thread and episode.
    pub idle_ns: Option<StatReport>,
    /// From the last arrival to the departure: one value a thread and episode.
    pub release_ns: Option<StatReport>,
    /// From the departure before to the arrival: one value a thread and episode.
    pub work_ns: Option<StatReport>,
    /// The probes were off for spans of time: see `estimated` of the report.
    pub estimated: bool,
    /// What would have been without the cost of watching; null if it is not known.
    pub compensated: Option<CompensatedReport>,
    /// What counters said of that work, of all threads together.
    pub counters: Counts,
    /// Of how many intervals of that work.
    #[serde(default)]
    pub counted: Counted,
    /// What follows from them.
    pub derived: Vec<DerivedReport>,
    /// Who comes last; null without complete episodes, or if it is not known of
    /// any.
    pub straggler: Option<StragglerReport>,
    /// Who comes last by barrier, if there are several: of the first 64, most
    /// `lost_ns` first.
    pub straggler_by_barrier: Vec<BarrierStragglerReport>,
    /// How the site changed over the run: consecutive episodes in at most 128
    /// buckets of equal numbers (the last may hold fewer).
    pub trend: Vec<TrendReport>,
    /// By thread.
    pub threads: Vec<SiteThreadReport>,
}

impl SiteReport {
    /// What it is called: the user's name, or all places that it is called from.
    pub fn called(&self) -> String {
        self.name
            .as_deref()
            .map_or_else(|| self.places.join(" | "), crate::place::printable)
    }

    /// What a counter counted before one episode, of all threads together, mean. In intervals
    /// of work in which it is not known, as much is assumed as in the others of the same
    /// thread. `None` if it is known in none of a thread.
    pub fn counter_per_phase(&self, name: &str) -> Option<f64> {
        let counted = self.counted.get(name)?;
        let parts = || self.threads.iter().filter(|thread| thread.episodes > 0);
        let apart: u64 = parts().map(|thread| thread.episodes).sum();
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

/// Statistics of a stream of durations, ns.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct StatReport {
    /// How many values.
    pub count: u64,
    /// Their sum.
    pub sum: u64,
    /// The least.
    pub min: u64,
    /// The mean.
    pub mean: u64,
    /// The greatest.
    pub max: u64,
    /// The standard deviation.
    pub stddev: u64,
    /// The median, within 1/16.
    pub p50: u64,
    /// What 95 % do not exceed, within 1/16.
    pub p95: u64,
    /// What 99 % do not exceed, within 1/16.
    pub p99: u64,
}

/// Who comes last at a site.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct StragglerReport {
    /// `persistent`: one thread more often than all others together;
    /// `alternating`: a few, at most half of all, or two that take turns;
    /// `rotating`: any of them, at random or in turns;
    /// `none`: too few episodes or too little waiting to tell, or it is not known
    /// who came last. If several barriers are used from here and most episodes
    /// show the same at each, it is that.
    #[serde(deserialize_with = "super::word::read")]
    pub pattern: Word,
    /// How they follow each other. `turns`: `repeats` are less than half as
    /// frequent as by chance; `stretches`: `changes` are; `none`: neither, or too
    /// few episodes to tell.
    #[serde(deserialize_with = "super::word::read")]
    pub sequence: Word,
    /// Who came last most often, of those with an entry of their own.
    pub thread: u32,
    /// In how many of the episodes.
    pub share_pct: f64,
    /// In how many it was one of the threads that share an entry.
    pub unknown_pct: f64,
    /// Most episodes in a row with the same straggler, whoever it was.
    pub longest_run: u64,
    /// How often a thread that had come last did so in its next episode here as
    /// well.
    pub repeats: u64,
    /// How often it did not.
    pub changes: u64,
    /// By how much the last came after the one before it, mean.
    pub mean_lead_ns: u64,
    /// What whoever came last did before, against the others: why it was late. Null if
    /// no episode followed another one with all of its work known.
    pub late: Option<LateReport>,
}

/// What whoever came last did before, against the others: sums over the episodes
/// that followed another one and in which all work is known. The first of the
/// program is none of them, since its phase holds the program's start.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LateReport {
    /// How many they are.
    pub episodes: u64,
    /// In how many of them it is known how work splits up.
    pub split_episodes: u64,
    /// Participants, mean.
    pub participants: f64,
    /// Their phase times.
    pub phase_ns: u64,
    /// Waiting for others, of all threads.
    pub idle_ns: u64,
    /// By how much the last came after the one before it: in that time no other
    /// thread had work.
    pub lead_ns: u64,
    /// Of whoever came last.
    pub last: LateTimesReport,
    /// Of all others, the mean of each episode.
    pub others: LateTimesReport,
    /// What they did while they were on no CPU; null without `--states full`.
    pub away: Option<LateAwayReport>,
}

/// Work, and how it splits up, in the `split_episodes`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LateTimesReport {
    /// From the departure before to the arrival.
    pub work_ns: u64,
    /// Of it, on a CPU; null if that is known of no episode.
    pub running_ns: Option<u64>,
    /// Of it, runnable without a CPU; likewise.
    pub ready_ns: Option<u64>,
    /// Of it, neither: asleep in the kernel; likewise.
    pub blocked_ns: Option<u64>,
}

/// Who comes last at one of a site's barriers.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct BarrierStragglerReport {
    /// Which; null if it is no longer listed.
    pub barrier: Option<u32>,
    /// Its complete episodes at this site.
    pub episodes: u64,
    /// Sum of idle in them.
    pub lost_ns: u64,
    /// As of the site.
    #[serde(deserialize_with = "super::word::read")]
    pub pattern: Word,
    /// Who came last most often; null if that is not known of any.
    pub thread: Option<u32>,
    /// In how many of the episodes.
    pub share_pct: f64,
}

/// Some consecutive episodes.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TrendReport {
    /// How many.
    pub episodes: u64,
    /// When the last of them had all its arrivals, since the start of watching.
    pub until_ns: u64,
    /// Mean phase time.
    pub phase_ns: Option<u64>,
    /// Mean barrier time.
    pub barrier_ns: u64,
    /// Mean idle time of all threads together.
    pub idle_ns: u64,
    /// How many threads were busy on average; null if it is not known, and of what is no
    /// site.
    pub mean_busy: Option<f64>,
}

/// What one thread did at one site.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SiteThreadReport {
    /// Which.
    pub thread: u32,
    /// Complete episodes.
    pub episodes: u64,
    /// In the phases that ended here.
    pub work_ns: Option<u64>,
    /// Waiting for others.
    pub idle_ns: u64,
    /// From the last arrival to its departure.
    pub release_ns: Option<u64>,
    /// How that was waited.
    #[serde(flatten)]
    pub waits: WaitsReport,
    /// Of `work_ns`, on a CPU.
    pub running_ns: Option<u64>,
    /// Of `work_ns`, runnable without a CPU.
    pub ready_ns: Option<u64>,
    /// Of `work_ns`, neither.
    pub blocked_ns: Option<u64>,
    /// Of the site's `alone_ns`, what it worked.
    pub alone_ns: Option<u64>,
    /// Its work where it came last, and `alone_ns`.
    pub path_ns: u64,
    /// Its normalised processor time.
    pub npt_ns: u64,
    /// How often it came last.
    pub last: u64,
    /// The same work, idle and release times one by one.
    pub each: EachReport,
    /// What counters said of its work in the phases that ended here.
    pub counters: Counts,
    /// Of how many intervals of that work.
    #[serde(default)]
    pub counted: Counted,
}

/// A thread's times at a site: one value an episode.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct EachReport {
    /// Its work.
    pub work_ns: Option<StatReport>,
    /// Its waiting.
    pub idle_ns: Option<StatReport>,
    /// Its release latency.
    pub release_ns: Option<StatReport>,
}

/// What lies between two consecutive episodes.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PhaseReport {
    /// The site before; null if no participant came from one.
    pub from: Option<u32>,
    /// The site that ends it.
    pub to: u32,
    /// How often.
    pub episodes: u64,
    /// Wall time.
    pub phase_ns: Option<StatReport>,
    /// Of each thread.
    pub work_ns: Option<StatReport>,
    /// How many were busy; null if it is unknown.
    pub parallelism: Option<ParallelismReport>,
    /// What counters said of that work.
    pub counters: Counts,
    /// Of how many intervals of that work.
    #[serde(default)]
    pub counted: Counted,
}

impl PhaseReport {
    /// What a counter counted in one such phase, of all threads together, mean; `None` if
    /// that is not known.
    pub fn counter_per_phase(&self, name: &str) -> Option<f64> {
        counters::per_phase(&self.counters, &self.counted, name, self.episodes)
    }
}
