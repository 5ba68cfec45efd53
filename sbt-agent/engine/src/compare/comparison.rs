//! The comparison of two reports as data. The comments of the fields are their documentation, as in
//! [`crate::report`].

use serde::Serialize;

use super::noise::{Sample, Spread};
use crate::report::{StatReport, Word, kinds::kinds};

/// Version of the JSON fields.
pub const SCHEMA: u32 = 1;

/// How changes are told from noise, in words for people.
pub const METHOD: &str = "a change is beyond the noise if it is more than 1 %, and more than two \
    means differ by chance once in 370 times (Welch's test); the error of a mean comes from the \
    means of groups of consecutive episodes, since consecutive episodes are not independent; \
    unknown with fewer than 8 episodes on a side, or if the episodes are too strongly correlated";

/// Two runs side by side. Times are integers in nanoseconds and end in `_ns`; changes are
/// percentages of the value before and end in `_pct`. `null` means unknown or not measured, never
/// 0. Fields may be added.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(title = "sbt diff"))]
pub struct Comparison {
    /// Version of these fields: 1. It changes if a field is removed or changes its meaning.
    pub schema: u32,
    /// Version of sbt.
    pub version: Word,
    /// When a change counts as beyond the noise.
    pub method: Word,
    /// The run before.
    pub before: Side,
    /// The run after.
    pub after: Side,
    /// Remarks on what makes the runs less comparable.
    pub notes: Vec<String>,
    /// How long each run was watched; null for an incomplete recording. There is one value for each
    /// run, so the noise is unknown.
    pub wall_ns: Change,
    /// The efficiencies of both runs.
    pub efficiency: EfficiencyChange,
    /// The counters that were asked for in one of the runs, in the work of all threads.
    pub counters: Vec<CounterChange>,
    /// Sites that both runs have, by descending `cost_ns`.
    pub sites: Vec<SiteChange>,
    /// Phases that both runs have, by descending `cost_ns`.
    pub phases: Vec<PhaseChange>,
    /// Sites and phases of the run before that the run after lacks.
    pub only_before: Vec<Unmatched>,
    /// Sites and phases of the run after that the run before lacks.
    pub only_after: Vec<Unmatched>,
}

/// The name, command and state of a compared run.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Side {
    /// Version of the report's fields.
    pub schema: u32,
    /// Version of sbt that made the report.
    pub version: String,
    /// The target's command line.
    pub command: Vec<String>,
    /// Where the events came from.
    pub backend: String,
    /// Number of threads that came to a barrier.
    pub threads: u64,
    /// Number of complete episodes.
    pub episodes: u64,
    /// Exit status as in the report; null if it is unknown.
    pub exit_status: Option<u8>,
}

/// A figure before and after.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Change {
    /// The value before; the mean if there are several.
    pub before: Option<u64>,
    /// The value after; the mean if there are several.
    pub after: Option<u64>,
    /// Growth as a percentage of the value before; null if a value is unknown, or the value before
    /// is 0.
    pub change_pct: Option<f64>,
    /// Whether the change exceeds the differences between episodes of one run: see `method` at the
    /// top. Null if it cannot be told.
    pub beyond_noise: Option<bool>,
    /// The largest change in either direction that may be chance, as a percentage of the value
    /// before; null if it cannot be told.
    pub noise_pct: Option<f64>,
    /// The difference in standard errors, positive if the value grew; null if it cannot be told,
    /// and if the error is 0.
    pub standard_errors: Option<f64>,
}

/// A share or a ratio before and after.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Shares {
    /// The value before.
    pub before: Option<f64>,
    /// The value after.
    pub after: Option<f64>,
}

/// Efficiencies: 1 is perfect.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct EfficiencyChange {
    /// Useful work as a fraction of what the threads could have done.
    pub parallel: Shares,
    /// How evenly work is spread over the threads.
    pub load_balance: Shares,
    /// The fraction that is left after imbalance which moves between threads.
    pub serialisation: Shares,
    /// The fraction that is left after the cost of the barriers themselves.
    pub transfer: Shares,
}

/// A site that both runs have.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SiteChange {
    /// The name of the site in the report after.
    pub name: String,
    /// The name of the site in the report before; its lines may have moved.
    pub name_before: String,
    /// The id of the site in the report before.
    pub before: u32,
    /// The id of the site in the report after.
    pub after: u32,
    /// False if one run has more similar sites than the other, so that another of them may be
    /// meant.
    pub certain: bool,
    /// Number of complete episodes. A change means that the program did something else; it is no
    /// noise.
    pub episodes: Change,
    /// Mean phase time.
    pub phase_ns: Change,
    /// Mean time from first to last arrival.
    pub barrier_ns: Change,
    /// Sum of idle over threads and episodes.
    pub lost_ns: Change,
    /// Imbalance of the work: 0 if it is even, 100 if one thread does all of it.
    pub imbalance_pct: Shares,
    /// Additional time of all episodes after, compared with as many episodes before.
    pub cost_ns: Option<i64>,
    /// The counters that were asked for, in the work before the site's barriers.
    pub counters: Vec<CounterChange>,
}

kinds! {
    /// What a rate is by.
    closed pub enum RatePer {
        /// For each 1000 instructions.
        Instructions = "1000-instructions",
        /// For each cycle.
        Cycle = "cycle",
        /// For each second on a CPU.
        CpuSecond = "cpu-second",
    }
}

/// A counter before and after, in the work of all threads. There is one sum for each run, so the
/// noise is unknown.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CounterChange {
    /// The name of the counter.
    pub name: String,
    /// The sums; nanoseconds for a counter of time. Null if the counter was not counted.
    pub sum: Change,
    /// How often it counted: the same measure in both runs.
    pub rate: RateChange,
}

/// A rate before and after.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RateChange {
    /// What the rates are by: 1000 instructions if they were counted over the same work, otherwise a
    /// second on a CPU; for instructions a cycle, if cycles were counted. Null if no rate is known.
    pub per: Option<RatePer>,
    /// The rate before.
    pub before: Option<f64>,
    /// The rate after.
    pub after: Option<f64>,
    /// Growth as a percentage of the rate before; null if a rate is unknown, or the rate before is 0.
    pub change_pct: Option<f64>,
}

/// A phase that both runs have.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PhaseChange {
    /// The name after of the site at its beginning; null for a thread's start.
    pub from: Option<String>,
    /// The name after of the site that ends the phase.
    pub to: String,
    /// The ids of both sites in the report before.
    pub before: Ends,
    /// The ids of both sites in the report after.
    pub after: Ends,
    /// Number of times that the phase was passed.
    pub episodes: Change,
    /// Mean wall time.
    pub phase_ns: Change,
    /// Additional time of all passes after, compared with as many passes before.
    pub cost_ns: Option<i64>,
}

/// The sites at both ends of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Ends {
    /// The id of the site at the beginning; null for a thread's start.
    pub from: Option<u32>,
    /// The id of the site that ends the phase.
    pub to: u32,
}

kinds! {
    /// The kinds of what only one of the runs has.
    closed pub enum UnmatchedKind {
        /// A site of barriers.
        Site = "site",
        /// A phase between two sites.
        Phase = "phase",
    }
}

/// A site or a phase that only one of the runs has.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Unmatched {
    /// Whether it is a site or a phase.
    pub what: UnmatchedKind,
    /// The name of the site at the beginning of a phase; null for a site, and for a thread's start.
    pub from: Option<String>,
    /// The name of the site, or of the site that ends the phase.
    pub name: String,
    /// Number of complete episodes.
    pub episodes: u64,
    /// Mean phase time.
    pub phase_ns: Option<u64>,
}

/// Something that got slower by more than the tolerance.
#[derive(Clone, Debug, PartialEq)]
pub enum Slower<'a> {
    /// The whole run. Its noise is unknown: the tolerance alone decides.
    Whole(&'a Change),
    /// A site, by its mean phase time; the change is beyond the noise.
    Site(&'a str, &'a Change),
    /// A phase, by the names of the sites at both ends; the change is beyond the noise.
    Phase(Option<&'a str>, &'a str, &'a Change),
}

impl Change {
    pub(super) fn plain(before: Option<u64>, after: Option<u64>) -> Self {
        let change = |(before, after): (u64, u64)| {
            (before > 0).then(|| (after as f64 / before as f64 - 1.0) * 100.0)
        };
        Self {
            before,
            after,
            change_pct: before.zip(after).and_then(change),
            beyond_noise: None,
            noise_pct: None,
            standard_errors: None,
        }
    }

    pub(super) fn of(
        before: Option<&StatReport>,
        after: Option<&StatReport>,
        spreads: Spreads,
    ) -> Self {
        let mean = |stat: Option<&StatReport>| stat.map(|stat| stat.mean);
        let samples = before.zip(after).and_then(|(before, after)| {
            let before = Sample::new(before, spreads[0])?;
            Some((before, Sample::new(after, spreads[1])?))
        });
        let judged = samples.and_then(|(before, after)| before.against(&after));
        Self {
            beyond_noise: judged.map(|judged| judged.beyond),
            noise_pct: judged.map(|judged| judged.noise_pct),
            standard_errors: judged.and_then(|judged| judged.standard_errors),
            ..Self::plain(mean(before), mean(after))
        }
    }

    /// Whether the value grew by more than this percentage, and beyond the noise.
    pub fn is_slower_by(&self, tolerance_pct: f64) -> bool {
        self.beyond_noise == Some(true) && self.exceeds(tolerance_pct)
    }

    pub(super) fn exceeds(&self, tolerance_pct: f64) -> bool {
        let known = self
            .before
            .zip(self.after)
            .filter(|(before, _)| *before > 0);
        known.is_some_and(|(before, after)| after > tolerated(before, tolerance_pct))
    }
}

/// The largest value within a tolerance in percent.
pub fn tolerated(before: u64, tolerance_pct: f64) -> u64 {
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a value above zero"
    )]
    let most = (before as f64 * (1.0 + tolerance_pct / 100.0)).round() as u64;
    most
}

impl SiteChange {
    /// Removes changes of sums over all episodes, which are unknown if events were lost. Means of
    /// the episodes that were seen stay.
    pub(super) fn forget_sums(&mut self) {
        self.episodes.change_pct = None;
        self.lost_ns.change_pct = None;
        self.cost_ns = None;
        let counters = self.counters.iter_mut();
        counters.for_each(|counter| counter.sum.change_pct = None);
    }
}

impl Comparison {
    /// The parts that became slower by more than this percentage: the whole run, and sites and
    /// phases whose change is beyond the noise.
    pub fn slower_by(&self, tolerance_pct: f64) -> Vec<Slower<'_>> {
        let whole = Some(&self.wall_ns).filter(|wall| wall.exceeds(tolerance_pct));
        let sites = self.sites.iter();
        let sites = sites.filter(|site| site.phase_ns.is_slower_by(tolerance_pct));
        let phases = self.phases.iter();
        let phases = phases.filter(|phase| phase.phase_ns.is_slower_by(tolerance_pct));
        whole
            .map(Slower::Whole)
            .into_iter()
            .chain(sites.map(|site| Slower::Site(&site.name, &site.phase_ns)))
            .chain(
                phases
                    .map(|phase| Slower::Phase(phase.from.as_deref(), &phase.to, &phase.phase_ns)),
            )
            .collect()
    }
}

/// How certain the means of both runs are, as far as known.
pub(super) type Spreads = [Option<Spread>; 2];
