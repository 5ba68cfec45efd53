//! Two reports side by side: what got slower, by how much, and whether the change exceeds the
//! differences between the episodes of one run.
//!
//! Pure functions: `sbt diff` shows the result, and `sbt check --baseline` judges it. The comments
//! of the fields are their documentation, as in [`crate::report`].

use std::{
    cmp::Reverse,
    collections::{HashMap, HashSet},
};

use serde::Serialize;

use crate::{
    report::{PhaseReport, Report, SiteReport, StatReport, Word},
    words::command_line,
};

mod alignment;
pub mod matching;
pub mod noise;
#[cfg(test)]
mod tests;

use matching::Pair;
use noise::{Sample, Spread, spreads};

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
    /// Sites that both runs have, by descending `cost_ns`.
    pub sites: Vec<SiteChange>,
    /// Phases that both runs have, by descending `cost_ns`.
    pub phases: Vec<PhaseChange>,
    /// Sites and phases of the run before that the run after lacks.
    pub only_before: Vec<Alone>,
    /// Sites and phases of the run after that the run before lacks.
    pub only_after: Vec<Alone>,
}

/// One of the two runs.
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
    /// What imbalance that moves between threads leaves.
    pub serialisation: Shares,
    /// What the barriers themselves leave.
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

/// A site or a phase that only one of the runs has.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Alone {
    /// `site` or `phase`.
    pub what: Word,
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
    fn plain(before: Option<u64>, after: Option<u64>) -> Self {
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

    fn of(before: Option<&StatReport>, after: Option<&StatReport>, spreads: Spreads) -> Self {
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

    fn exceeds(&self, tolerance_pct: f64) -> bool {
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
    const fn forget_sums(&mut self) {
        self.episodes.change_pct = None;
        self.lost_ns.change_pct = None;
        self.cost_ns = None;
    }
}

impl Comparison {
    /// What got slower by more than this percentage: the whole run, and sites and phases whose
    /// change is beyond the noise.
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
type Spreads = [Option<Spread>; 2];

/// Compares two reports.
pub fn compare(before: &Report, after: &Report) -> Comparison {
    let matched = matching::sites(before, after);
    let efficiency = |report: &Report, f: fn(&crate::report::EfficiencyReport) -> f64| {
        report.efficiency.as_ref().map(f)
    };
    let shares = |f| Shares {
        before: efficiency(before, f),
        after: efficiency(after, f),
    };
    let mut all = Comparison {
        schema: SCHEMA,
        version: env!("CARGO_PKG_VERSION"),
        method: METHOD,
        before: side(before),
        after: side(after),
        notes: notes(before, after),
        wall_ns: Change::plain(wall_ns(before), wall_ns(after)),
        efficiency: EfficiencyChange {
            parallel: shares(|known| known.parallel),
            load_balance: shares(|known| known.load_balance),
            serialisation: shares(|known| known.serialisation),
            transfer: shares(|known| known.transfer),
        },
        sites: Vec::new(),
        phases: Vec::new(),
        only_before: Vec::new(),
        only_after: Vec::new(),
    };
    all.notes.extend(note_of_doubt(&matched));
    all.sites = matched.iter().map(site).collect();
    all.sites.sort_by_key(|site| Reverse(site.cost_ns));
    if [before, after].iter().any(|report| report.lost_events > 0) {
        all.sites.iter_mut().for_each(SiteChange::forget_sums);
    }
    let ids = || matched.iter().map(|pair| (pair.before.id, pair.after.id));
    let pairs: HashMap<u32, u32> = ids().collect();
    all.phases = phases(before, after, &pairs);
    if [before, after].iter().any(|report| report.lost_events > 0) {
        for phase in &mut all.phases {
            phase.episodes.change_pct = None;
            phase.cost_ns = None;
        }
    }
    all.phases.sort_by_key(|phase| Reverse(phase.cost_ns));
    let (mine, others): (HashSet<u32>, HashSet<u32>) = ids().unzip();
    let (done, others_done) = all
        .phases
        .iter()
        .map(|phase| (phase.before, phase.after))
        .unzip();
    all.only_before = alone(before, &mine, &done);
    all.only_after = alone(after, &others, &others_done);
    all
}

/// How long a run took; `None` for an incomplete recording.
fn wall_ns(report: &Report) -> Option<u64> {
    report.is_complete().then_some(report.run.wall_ns)
}

fn side(report: &Report) -> Side {
    Side {
        schema: report.schema,
        version: report.version.into(),
        command: report.run.command.clone(),
        backend: report.run.backend.clone(),
        threads: threads(report),
        episodes: report.episodes,
        exit_status: report.run.exit_status,
    }
}

fn threads(report: &Report) -> u64 {
    report.threads.iter().map(|thread| thread.threads).sum()
}

fn notes(before: &Report, after: &Report) -> Vec<String> {
    let mut notes = Vec::new();
    if before.run.command != after.run.command {
        let [a, b] = [before, after].map(|report| command_line(&report.run.command));
        notes.push(format!("the commands differ: {a} and {b}"));
    }
    let [a, b] = [before, after].map(threads);
    if a != b {
        notes.push(format!("the numbers of threads differ: {a} and {b}"));
    }
    for (what, a, b) in [
        ("backends", &before.run.backend, &after.run.backend),
        ("ways of watching", &before.run.method, &after.run.method),
    ] {
        if a != b {
            notes.push(format!("the {what} differ: {a} and {b}"));
        }
    }
    if before.schema != after.schema {
        notes.push(format!(
            "the reports have different schemas: {} and {}",
            before.schema, after.schema
        ));
    }
    if before.version != after.version {
        notes.push(format!(
            "different versions of sbt made the reports: {} and {}",
            before.version, after.version
        ));
    }
    if before.run.departures != after.run.departures {
        notes.push(
            "departures were not watched the same way in both runs: without departures, phases \
            begin at the last arrival"
                .into(),
        );
    }
    for (report, which) in [(before, "before"), (after, "after")] {
        if report.estimated {
            notes.push(format!(
                "the run {which} was watched part of the time only; its wall time is that of the \
                whole run"
            ));
        }
        if report.lost_events > 0 {
            notes.push(format!(
                "the run {which} lost {} events: its efficiency is unknown, and its numbers of \
                episodes and sums cannot be compared",
                report.lost_events
            ));
        }
        if let Some(missing) = report.incomplete.first() {
            notes.push(format!(
                "the run {which} is not complete, so its wall time is unknown: {}",
                missing.text
            ));
        }
        match report.run.exit_status {
            None if !report.run.ended && report.is_complete() => notes.push(format!(
                "the run {which} was watched for part of its time: wall times cannot be compared"
            )),
            Some(status) if status > 0 => {
                notes.push(format!("the run {which} ended with exit status {status}"));
            }
            _ => {}
        }
    }
    notes
}

/// A note that matched sites may be different ones.
fn note_of_doubt(matched: &[Pair<'_>]) -> Option<String> {
    const MOST: usize = 3;
    let unsure: Vec<&Pair<'_>> = matched.iter().filter(|pair| !pair.certain).collect();
    let mut names: Vec<String> = unsure
        .iter()
        .take(MOST)
        .map(|pair| format!("{} (was {})", pair.after.called(), pair.before.called()))
        .collect();
    if unsure.len() > MOST {
        names.push(format!("{} more", unsure.len() - MOST));
    }
    (!names.is_empty()).then(|| {
        format!(
            "several sites look alike, so sbt may have paired the wrong ones: {}; give each of \
            them a --name in both runs",
            names.join(", ")
        )
    })
}

fn site(pair: &Pair<'_>) -> SiteChange {
    let Pair {
        before,
        after,
        certain,
    } = *pair;
    let (phase, other) = (before.phase_ns.as_ref(), after.phase_ns.as_ref());
    let phases = of_phases(before, after);
    let barriers = spreads(
        (&before.trend, before.barrier_ns.as_ref()),
        (&after.trend, after.barrier_ns.as_ref()),
        |at| Some(at.barrier_ns),
    );
    SiteChange {
        name: after.called(),
        name_before: before.called(),
        before: before.id,
        after: after.id,
        certain,
        episodes: Change::plain(Some(before.episodes), Some(after.episodes)),
        phase_ns: Change::of(phase, other, phases),
        barrier_ns: Change::of(
            before.barrier_ns.as_ref(),
            after.barrier_ns.as_ref(),
            barriers,
        ),
        lost_ns: Change::plain(Some(before.lost_ns), Some(after.lost_ns)),
        imbalance_pct: Shares {
            before: before.imbalance_pct,
            after: after.imbalance_pct,
        },
        cost_ns: cost_ns(phase, other),
    }
}

/// How certain the mean phase times of a site are in both runs.
fn of_phases(before: &SiteReport, after: &SiteReport) -> Spreads {
    spreads(
        (&before.trend, before.phase_ns.as_ref()),
        (&after.trend, after.phase_ns.as_ref()),
        |at| at.phase_ns,
    )
}

/// Additional time of the episodes after, compared with as many episodes before.
fn cost_ns(before: Option<&StatReport>, after: Option<&StatReport>) -> Option<i64> {
    let (before, after) = before.zip(after)?;
    let each = i128::from(after.mean) - i128::from(before.mean);
    i64::try_from(each.saturating_mul(after.count.into())).ok()
}

fn phases(before: &Report, after: &Report, pairs: &HashMap<u32, u32>) -> Vec<PhaseChange> {
    let later: HashMap<Ends, &PhaseReport> = after
        .phases
        .iter()
        .map(|phase| (ends(phase), phase))
        .collect();
    // By the id of a site before: for both runs, its number of phases and how certain their mean
    // is.
    let sure: HashMap<u32, [Option<(u64, Spread)>; 2]> = before
        .sites
        .iter()
        .filter_map(|site| {
            let other = after.site(*pairs.get(&site.id)?)?;
            let spreads = of_phases(site, other);
            let of = |side: usize, site: &SiteReport| {
                Some((site.phase_ns.as_ref()?.count, spreads[side]?))
            };
            Some((site.id, [of(0, site), of(1, other)]))
        })
        .collect();
    let names: HashMap<u32, String> = after
        .sites
        .iter()
        .map(|site| (site.id, site.called()))
        .collect();
    let name = |id: u32| names.get(&id).cloned().unwrap_or_default();
    let one = |phase: &PhaseReport| {
        let from = match phase.from {
            Some(from) => Some(*pairs.get(&from)?),
            None => None,
        };
        let to = *pairs.get(&phase.to)?;
        let other = *later.get(&Ends { from, to })?;
        let (stat, its) = (phase.phase_ns.as_ref(), other.phase_ns.as_ref());
        // How much episodes depend on each other is known for sites only.
        let spread = |side: usize, stat: Option<&StatReport>| {
            let (of, spread) = sure.get(&phase.to)?[side]?;
            spread.of_some(of, stat?.count)
        };
        let both = [spread(0, stat), spread(1, its)];
        Some(PhaseChange {
            from: from.map(name),
            to: name(to),
            before: ends(phase),
            after: ends(other),
            episodes: Change::plain(Some(phase.episodes), Some(other.episodes)),
            phase_ns: Change::of(stat, its, both),
            cost_ns: cost_ns(stat, its),
        })
    };
    before.phases.iter().filter_map(one).collect()
}

fn ends(phase: &PhaseReport) -> Ends {
    Ends {
        from: phase.from,
        to: phase.to,
    }
}

/// Sites and phases without a counterpart.
fn alone(report: &Report, matched: &HashSet<u32>, done: &HashSet<Ends>) -> Vec<Alone> {
    let mean = |stat: &Option<StatReport>| stat.as_ref().map(|stat| stat.mean);
    let name = |id: u32| report.site(id).map(SiteReport::called).unwrap_or_default();
    let sites = report.sites.iter();
    let sites = sites.filter(|site| !matched.contains(&site.id));
    let sites = sites.map(|site| Alone {
        what: "site",
        from: None,
        name: site.called(),
        episodes: site.episodes,
        phase_ns: mean(&site.phase_ns),
    });
    let phases = report.phases.iter();
    let phases = phases.filter(|phase| !done.contains(&ends(phase)));
    let phases = phases.map(|phase| Alone {
        what: "phase",
        from: phase.from.map(name),
        name: name(phase.to),
        episodes: phase.episodes,
        phase_ns: mean(&phase.phase_ns),
    });
    sites.chain(phases).collect()
}
