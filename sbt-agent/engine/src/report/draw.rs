//! Makes a report from the model and from what the session knows.

mod asked;
mod cost;
mod counters;
pub mod functions;
mod related;
mod sites;
mod threads;
mod usage;
mod waits;

use std::rc::Rc;

use super::{
    BarrierReport, Facts, RecognisedReport, Report, SCHEMA, StandsReport, StatReport, StatesReport,
    TrendReport, UnfinishedReport, locks, order::Order, sound, spin::SpinReport,
};
use crate::{
    event::address,
    looks,
    model::{
        Model,
        ids::ThreadId,
        site::MAX_PAIRS,
        sites::{MAX_PHASES, MAX_SITES, Sites},
        stats::Stat,
        trend::{Bucket, Trend},
    },
    place::Place,
    words::without_codes,
};

/// The largest number of buckets in a reported trend.
const BUCKETS: usize = 128;

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "durations in ns are positive and far below 2^63"
)]
pub(super) fn ns(value: f64) -> u64 {
    value.round().max(0.0) as u64
}

fn stat(stat: &Stat) -> Option<StatReport> {
    Some(StatReport {
        count: stat.count(),
        sum: stat.sum(),
        min: stat.min()?,
        mean: ns(stat.mean()?),
        max: stat.max()?,
        stddev: ns(stat.stddev()?),
        p50: ns(stat.quantile(0.50)?),
        p95: ns(stat.quantile(0.95)?),
        p99: ns(stat.quantile(0.99)?),
    })
}

/// Everything that the parts of a report are drawn from.
struct Draw<'a> {
    model: &'a Model,
    /// By [`crate::model::ids::PlaceId`].
    places: Vec<&'a Place>,
    order: Order,
    facts: &'a Facts,
}

impl Report {
    /// Makes a report. `places` is indexed by [`crate::model::ids::PlaceId`].
    pub fn new(model: &Model, places: &[Rc<Place>], facts: Facts) -> Self {
        let draw = Draw {
            model,
            places: places.iter().map(AsRef::as_ref).collect(),
            order: Order::new(model),
            facts: &facts,
        };
        let totals = model.totals();
        let marks = draw.marks();
        let threads = draw.threads();
        let unfinished = draw.unfinished();
        let estimated = facts.thinned.is_some();
        let waits = model.sites().all().iter().map(|site| site.waits).sum();
        let time = threads::thread_time(&threads, waits, &unfinished);
        let because = facts.run.none_found_because.clone();
        let spins = facts.spins.as_ref();
        let spins = spins.map(|found| found.iter().map(SpinReport::of).collect::<Vec<_>>());
        let mut report = Self {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION"),
            arrivals: totals.arrivals + totals.unseen,
            episodes: totals.episodes,
            incomplete_episodes: totals.incomplete,
            // In a recording that breaks off, either number may be the older one.
            lost_events: facts.lost.max(totals.lost),
            fixed_work_shortest_ns: model.shortest().ns(),
            own_cost: draw.own_cost(&time),
            estimated,
            compensated: draw.compensated(),
            thread_time: time,
            threads,
            processes: draw.processes(),
            barriers: draw.barriers(),
            sites: draw.sites(),
            phases: draw.phases(),
            conceptual_phases: draw.conceptual(),
            marks,
            intervals: draw.intervals(),
            locks: facts
                .locks
                .as_ref()
                .map(|found| locks::reports(found, &draw.places)),
            waits: None,
            spin_suspects: spins.clone(),
            counters: draw.counters(),
            warnings: draw.warnings(),
            watched: draw.watched(),
            watched_omitted: facts.watched_omitted,
            unfinished,
            efficiency: draw.efficiency(),
            withheld: facts.withheld.clone(),
            parallelism: usage::parallelism(model.busy()),
            sampling: facts.sampled.as_ref().map(|sampled| sampled.0.clone()),
            functions: facts.sampled.as_ref().map(|sampled| sampled.1.clone()),
            verdicts: None,
            no_verdict_because: None,
            run: facts.run,
            states: StatesReport::new(facts.states, model.exact()),
            incomplete: Vec::new(),
            notes: facts
                .notes
                .into_iter()
                .chain(because)
                .chain(spins.iter().flatten().map(|spin| spin.text.clone()))
                .chain(beyond_bounds(model.sites()))
                .map(|note| without_codes(&note))
                .collect(),
        };
        report.break_off(facts.incomplete);
        let found = facts.waits.as_ref();
        report.waits = found.map(|found| waits::report(found, &report));
        // Looks are more frequent than the session's own.
        if let (Some(scheduling), Some(found)) = (&mut report.run.scheduling, found)
            && found.stopped.total_ns > scheduling.stopped.total_ns
        {
            let looks::Stood {
                times,
                total_ns,
                at_most_ns,
            } = found.stopped;
            scheduling.stopped = StandsReport {
                times,
                total_ns,
                at_most_ns,
            };
        }
        sound(report)
    }
}

/// Notes about data that was left out because of a bound on memory; empty if nothing was left out.
fn beyond_bounds(sites: &Sites) -> Vec<String> {
    let parts = (sites.unkept_parts > 0).then(|| {
        format!(
            "more than {MAX_PAIRS} pairs of a site and a thread: {} waits of further pairs are in \
             the sums of their sites, but not in the tables of threads",
            sites.unkept_parts
        )
    });
    let phases = (sites.unkept_phases > 0).then(|| {
        format!(
            "more than {MAX_PHASES} different phases: {} times of further phases are counted at \
             their sites only",
            sites.unkept_phases
        )
    });
    let full = (sites.all().len() >= MAX_SITES).then(|| {
        format!(
            "sbt distinguishes at most {MAX_SITES} sites: the last of them stands for all \
            further sites"
        )
    });
    [parts, phases, full].into_iter().flatten().collect()
}

impl Draw<'_> {
    /// The time since the start of watching, ns: all times in a report count from there.
    fn since_start(&self, time_ns: u64) -> u64 {
        time_ns.saturating_sub(self.facts.run.start_ns)
    }

    fn barriers(&self) -> Vec<BarrierReport> {
        (0..)
            .zip(self.model.barriers().all())
            .filter(|(_, barrier)| barrier.heard_ns > 0)
            .map(|(id, barrier)| BarrierReport {
                id,
                kind: barrier.kind.into(),
                recognised: barrier.recognised.map(|by| RecognisedReport {
                    rounds: by.rounds,
                    members: by.members,
                    waker_was_member: by.wakers_waited,
                    by_code: by.code,
                }),
                address: format!("{:#x}", address(barrier.key.1)),
                participants: barrier.count,
                episodes: barrier.episodes,
            })
            .collect()
    }

    fn trend(&self, trend: &Trend) -> Vec<TrendReport> {
        let report = |bucket: &Bucket| TrendReport {
            episodes: bucket.episodes,
            until_ns: self.since_start(bucket.last_ns),
            phase_ns: bucket.phase_ns(),
            barrier_ns: bucket.barrier_ns / bucket.episodes.max(1),
            idle_ns: bucket.idle_ns / bucket.episodes.max(1),
            mean_busy: bucket.mean_busy(),
        };
        trend.resampled(BUCKETS).iter().map(report).collect()
    }

    fn unfinished(&self) -> Vec<UnfinishedReport> {
        let ids = |threads: &mut dyn Iterator<Item = ThreadId>| {
            threads.map(|thread| self.order.number(thread)).collect()
        };
        let end_ns = self
            .facts
            .run
            .start_ns
            .saturating_add(self.facts.run.wall_ns);
        let under_way = self.model.under_way();
        let all = self.model.unfinished().iter().chain(&under_way);
        all.filter_map(|open| {
            // Probes are removed a little after the end of watching. Threads that arrive in between
            // had not arrived at the end.
            let there = || open.arrived.iter().filter(|(_, time)| *time <= end_ns);
            let (_, first_ns) = there().next()?;
            let barrier = &self.model.barriers().all()[open.barrier.index()];
            let mut missing = open.missing.clone();
            let later = open.arrived.iter().filter(|(_, time)| *time > end_ns);
            let later = later.filter(|(thread, _)| barrier.last_members.contains(thread));
            missing.extend(later.map(|(thread, _)| *thread));
            missing.sort_unstable();
            Some(UnfinishedReport {
                barrier: open.barrier.0,
                site: open.site.0,
                participants: barrier.count,
                arrived: ids(&mut there().map(|(thread, _)| *thread)),
                missing: ids(&mut missing.into_iter()),
                waiting_ns: end_ns - first_ns,
                idle_ns: there().fold(0, |sum: u64, (_, time)| sum.saturating_add(end_ns - time)),
            })
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_bounds_left_out_is_told() {
        let mut sites = Sites::default();
        assert_eq!(beyond_bounds(&sites), Vec::<String>::new());
        sites.unkept_phases = 7;
        sites.unkept_parts = 12;
        let notes = beyond_bounds(&sites);
        assert_eq!(notes.len(), 2);
        assert!(notes[0].contains(": 12 waits"), "{notes:?}");
        assert!(notes[1].contains(": 7 times"), "{notes:?}");
    }
}
