//! Draws the report up from the model and from what the session knows.

use std::rc::Rc;

use super::{
    BarrierReport, BarrierStragglerReport, ConceptualReport, ConceptualThreadReport, EachReport,
    IntervalReport, IntervalThreadReport, MarkReport, MarkThreadReport, OwnCost, PhaseReport,
    ProcessReport, RecognisedReport, Report, SCHEMA, SiteReport, SiteThreadReport, StatReport,
    StragglerReport, ThreadReport, ThreadTimeReport, TrendReport, UnfinishedReport, WarningReport,
    WatchedReport, locks,
    order::{Order, Process},
    place_names::{label, labels, others},
    spin::{self, SpinReport},
};
use crate::{
    event::{MarkId, address},
    model::{
        Model,
        site::{AtBarrier, MAX_PAIRS, MAX_PHASES, MAX_SITES, Site, SiteId, SiteThread, Sites},
        stats::Stat,
        thread::{Row, SplitSum, ThreadId},
        told::Told,
        trend::{Bucket, Trend},
    },
    place::{Place, printable},
    words::without_codes,
};

/// Buckets of a trend in a report, at most.
const BUCKETS: usize = 128;

/// What the session knows and the model does not.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// The name of the source, and how it works.
    pub backend: String,
    /// See [`crate::source::Source::method`].
    pub method: String,
    /// The target's command line.
    pub command: Vec<String>,
    /// Its process id.
    pub pid: u32,
    /// When watching began, `CLOCK_MONOTONIC` ns.
    pub start_ns: u64,
    /// The same moment, ns since 1970.
    pub start_unix_ns: u64,
    /// For how long it was watched, ns.
    pub wall_ns: u64,
    /// Whether it had ended by then.
    pub ended: bool,
    /// How it ended; `None` if it had not, or if we did not start it.
    pub exit_status: Option<u8>,
    /// Whether it had children and waited for one, if that is known.
    pub had_children: Option<bool>,
    /// Whether its children were watched too.
    pub children: bool,
    /// Why no barrier could be found.
    pub none_found_because: Option<String>,
    /// Events lost, wherever.
    pub lost: u64,
    /// Whether departures were watched: at the end, and all the time.
    pub departures: Option<bool>,
    /// Names of sites, by [`SiteId`].
    pub names: Vec<Option<String>>,
    /// Name, beginning and end of each conceptual phase, as written.
    pub conceptual: Vec<[String; 3]>,
    /// Name and place of each mark, as written.
    pub marks: Vec<[String; 2]>,
    /// By site: how often its barrier time was above the limit, the longest
    /// and the limit, ns.
    pub warnings: Vec<(SiteId, u64, u64, u64)>,
    /// Episodes that were asked for one by one.
    pub watched: Option<Vec<Told>>,
    /// How many came before those.
    pub watched_omitted: u64,
    /// What the user should know.
    pub notes: Vec<String>,
    /// Locks, if anybody looked.
    pub locks: Option<Vec<locks::Found>>,
    /// What may be barriers that spin, if anybody looked.
    pub spins: Option<Vec<spin::Found>>,
    /// CPU time that sbt itself used, ns.
    pub own_cpu_ns: u64,
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "durations in ns are positive and far below 2^63"
)]
fn ns(value: f64) -> u64 {
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
    /// By [`crate::model::site::PlaceId`].
    places: Vec<&'a Place>,
    order: Order,
    run: &'a Run,
}

impl Report {
    /// Draws the report up. `places`: by [`crate::model::site::PlaceId`].
    pub fn new(model: &Model, places: &[Rc<Place>], run: Run) -> Self {
        let draw = Draw {
            model,
            places: places.iter().map(AsRef::as_ref).collect(),
            order: Order::new(model),
            run: &run,
        };
        let totals = model.totals();
        let marks = draw.marks();
        let hits: u64 = marks.iter().map(|mark| mark.hits).sum();
        let threads = draw.threads();
        let unfinished = draw.unfinished();
        let because = run.none_found_because.clone();
        let spins = run.spins.as_ref();
        let spins = spins.map(|found| found.iter().map(SpinReport::of).collect::<Vec<_>>());
        Self {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION"),
            arrivals: totals.arrivals,
            episodes: totals.episodes,
            incomplete_episodes: totals.incomplete,
            lost_events: run.lost,
            thread_time: thread_time(&threads, &unfinished),
            threads,
            processes: draw.processes(),
            children: run.children,
            barriers: draw.barriers(),
            sites: draw.sites(),
            phases: draw.phases(),
            conceptual_phases: draw.conceptual(),
            marks,
            intervals: draw.intervals(),
            locks: run
                .locks
                .as_ref()
                .map(|found| locks::reports(found, &draw.places)),
            spin_suspects: spins.clone(),
            warnings: draw.warnings(),
            watched: draw.watched(),
            watched_omitted: run.watched_omitted,
            unfinished,
            efficiency: None,
            verdicts: None,
            hang: None,
            own_cost: OwnCost {
                events: totals.arrivals + totals.departures + hits,
                ns_per_event: None,
                share_pct: None,
                cpu_ns: run.own_cpu_ns,
            },
            backend: run.backend,
            method: run.method,
            command: run.command,
            pid: run.pid,
            start_ns: run.start_ns,
            start_unix_ns: run.start_unix_ns,
            wall_ns: run.wall_ns,
            ended: run.ended,
            exit_status: run.exit_status,
            departures: run.departures,
            had_children: run.had_children,
            none_found_because: because.clone(),
            notes: run
                .notes
                .into_iter()
                .chain(because)
                .chain(spins.iter().flatten().map(|spin| spin.text.clone()))
                .chain(beyond_bounds(model.sites()))
                .map(|note| without_codes(&note))
                .collect(),
        }
    }
}

/// What the bounds on memory have cost: of nothing there is no note.
fn beyond_bounds(sites: &Sites) -> Vec<String> {
    let parts = (sites.unkept_parts > 0).then(|| {
        format!(
            "more than {MAX_PAIRS} pairs of a site and a thread: {} waits of further ones are in \
             the sites' sums, but not in their tables of threads",
            sites.unkept_parts
        )
    });
    let phases = (sites.unkept_phases > 0).then(|| {
        format!(
            "more than {MAX_PHASES} different phases: {} times of further ones are at their sites \
             only",
            sites.unkept_phases
        )
    });
    let full = (sites.all().len() >= MAX_SITES).then(|| {
        format!("{MAX_SITES} sites are kept apart: the last of them stands for all further ones")
    });
    [parts, phases, full].into_iter().flatten().collect()
}

impl Draw<'_> {
    /// Times of the report count from the start of watching.
    fn since_start(&self, time_ns: u64) -> u64 {
        time_ns.saturating_sub(self.run.start_ns)
    }

    fn threads(&self) -> Vec<ThreadReport> {
        self.order
            .by_index(self.model.threads().rows())
            .into_iter()
            .map(|(id, row)| thread(id, self.order.label(id), row))
            .collect()
    }

    fn processes(&self) -> Vec<ProcessReport> {
        let processes = self.order.processes().iter();
        let report = |process: &Process| ProcessReport {
            id: process.number,
            pid: process.pid,
            rank: process.rank,
        };
        processes.map(report).collect()
    }

    fn barriers(&self) -> Vec<BarrierReport> {
        (0..)
            .zip(self.model.barriers().all())
            .filter(|(_, barrier)| barrier.heard_ns > 0)
            .map(|(id, barrier)| BarrierReport {
                id,
                kind: barrier.kind.name(),
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

    fn sites(&self) -> Vec<SiteReport> {
        let mut sites: Vec<SiteReport> = (0..)
            .zip(self.model.sites().all())
            .map(|(id, site)| self.site(id, site))
            .collect();
        sites.sort_by_key(|site| (std::cmp::Reverse(site.lost_ns), site.id));
        sites
    }

    fn site(&self, id: u32, site: &Site) -> SiteReport {
        let mine = || {
            let ids = site.places.iter();
            ids.filter_map(|place| self.places.get(place.0 as usize).copied())
        };
        let first = mine()
            .find(|place| !place.of_runtime)
            .or_else(|| mine().next());
        let others = others(&mine().collect::<Vec<_>>(), &self.places);
        let depth = first.map_or(0, |place| place.naming_frame(&others));
        let address = first.map(|place| place.address(depth));
        let frame = first.and_then(|place| place.frames.get(depth));
        SiteReport {
            id,
            name: self.run.names.get(id as usize).cloned().flatten(),
            function: frame
                .and_then(|frame| frame.function.as_deref())
                .map(printable),
            file: frame.and_then(|frame| frame.file.as_deref()).map(printable),
            line: frame.and_then(|frame| frame.line),
            binary: address.map_or_else(|| "?".into(), |(binary, _)| printable(binary)),
            offset: address.map_or_else(|| "?".into(), |(_, offset)| format!("{offset:#x}")),
            callers: first.map_or_else(Vec::new, |place| {
                (depth + 1..place.frames.len())
                    .filter(|outer| !place.frames[*outer].is_of_library())
                    .map(|outer| label(place, outer))
                    .collect()
            }),
            places: labels(mine(), &self.places),
            barriers: site.barriers.iter().map(|barrier| barrier.0).collect(),
            kind: site.kind.name(),
            episodes: site.episodes,
            incomplete: site.incomplete,
            lost_ns: site.idle.sum(),
            lost_wall_pct: self.lost_wall_pct(site),
            gain_ns: ns(site.gain_ns),
            imbalance_pct: site.imbalance_pct(),
            phase_ns: stat(&site.phase),
            barrier_ns: stat(&site.barrier),
            idle_ns: stat(&site.idle),
            release_ns: stat(&site.release),
            work_ns: stat(&site.work),
            straggler: self.straggler(site),
            straggler_by_barrier: self.by_barrier(site),
            trend: self.trend(&site.trend),
            threads: self
                .order
                .sorted(site.threads.iter().map(|thread| (thread.id, thread)))
                .into_iter()
                .filter(|(_, thread)| thread.episodes > 0)
                .map(|(id, thread)| site_thread(id, thread))
                .collect(),
        }
    }

    /// How much of its wall time a thread loses at a site, in the mean. The
    /// threads are those of one team, or, where several teams are there at once,
    /// as many as there are on average.
    fn lost_wall_pct(&self, site: &Site) -> Option<f64> {
        let team = site.participants as f64 / site.episodes as f64;
        let rows = self.model.threads().rows();
        let lives = site.threads.iter().map(|thread| {
            let row = &rows[thread.id.index()];
            row.idle_ns as f64
                + row.work.get().unwrap_or(0) as f64
                + row.release.get().unwrap_or(0) as f64
        });
        let wall_ns = self.run.wall_ns as f64;
        let all = (team * wall_ns).max(lives.sum());
        (site.episodes > 0 && all > 0.0).then(|| site.idle.sum() as f64 / all * 100.0)
    }

    /// Who came last most often and how often, of those with a row of their own.
    fn most_often(&self, lasts: impl Iterator<Item = (ThreadId, u64)>) -> Option<(u32, u64)> {
        let shared = self.model.threads().shared();
        let known = lasts.filter(|(thread, last)| *last > 0 && Some(*thread) != shared);
        self.order
            .sorted(known)
            .into_iter()
            .max_by_key(|(id, last)| (*last, std::cmp::Reverse(*id)))
    }

    fn by_barrier(&self, site: &Site) -> Vec<BarrierStragglerReport> {
        if site.by_barrier.len() < 2 {
            return Vec::new();
        }
        let report = |(number, at): (&u64, &AtBarrier)| {
            let mut barriers = (0..).zip(self.model.barriers().all());
            let most = self.most_often(at.lasts.iter().map(|(id, last)| (*id, *last)));
            let pattern = site.pattern_at(at, self.model.threads().shared());
            BarrierStragglerReport {
                barrier: barriers
                    .find(|(_, barrier)| barrier.number == *number)
                    .map(|(id, _)| id),
                episodes: at.episodes,
                lost_ns: at.lost_ns,
                pattern: pattern.name(),
                thread: most.map(|(thread, _)| thread),
                share_pct: most.map_or(0, |(_, last)| last) as f64 / at.episodes as f64 * 100.0,
            }
        };
        let mut all: Vec<_> = site.by_barrier.iter().map(report).collect();
        all.sort_by_key(|at| (std::cmp::Reverse(at.lost_ns), at.barrier));
        all
    }

    fn straggler(&self, site: &Site) -> Option<StragglerReport> {
        let shared = self.model.threads().shared();
        let lasts = || site.threads.iter().map(|thread| (thread.id, thread.last));
        let (thread, most) = self.most_often(lasts())?;
        let unknown = lasts().find(|(thread, _)| Some(*thread) == shared);
        let share = |last: u64| last as f64 / site.episodes as f64 * 100.0;
        (site.episodes > 0).then(|| StragglerReport {
            pattern: site.pattern(shared).name(),
            sequence: site.sequence(shared).name(),
            thread,
            share_pct: share(most),
            unknown_pct: share(unknown.map_or(0, |(_, last)| last)),
            longest_run: site.ledger.longest_run,
            repeats: site.ledger.repeats,
            changes: site.ledger.changes,
            mean_lead_ns: site.ledger.lead_ns / site.episodes,
        })
    }

    fn trend(&self, trend: &Trend) -> Vec<TrendReport> {
        let report = |bucket: &Bucket| TrendReport {
            episodes: bucket.episodes,
            until_ns: self.since_start(bucket.last_ns),
            phase_ns: bucket.phase_ns(),
            barrier_ns: bucket.barrier_ns / bucket.episodes.max(1),
            idle_ns: bucket.idle_ns / bucket.episodes.max(1),
        };
        trend.resampled(BUCKETS).iter().map(report).collect()
    }

    fn phases(&self) -> Vec<PhaseReport> {
        let mut phases: Vec<PhaseReport> = self
            .model
            .sites()
            .phases
            .iter()
            .map(|((from, to), phase)| PhaseReport {
                from: from.map(|SiteId(id)| id),
                to: to.0,
                episodes: phase.phase.count(),
                phase_ns: stat(&phase.phase),
                work_ns: stat(&phase.work),
            })
            .collect();
        phases.sort_by_key(|phase| (phase.from, phase.to));
        phases
    }

    fn conceptual(&self) -> Vec<ConceptualReport> {
        let all = self.model.conceptual().all().iter();
        all.zip(&self.run.conceptual)
            .map(|(spans, [name, from, to])| ConceptualReport {
                name: name.clone(),
                from: from.clone(),
                to: to.clone(),
                phase_ns: stat(&spans.done.time),
                unfinished: spans.is_unfinished(),
                abandoned: spans.abandoned,
                episodes: spans.done.episodes,
                work_ns: spans.done.work_ns,
                idle_ns: spans.done.idle_ns,
                trend: self.trend(&spans.done.trend),
                threads: self
                    .order
                    .by_index(&spans.done.threads)
                    .into_iter()
                    .filter(|(_, times)| **times != (0, 0))
                    .map(|(thread, (work_ns, idle_ns))| ConceptualThreadReport {
                        thread,
                        work_ns: *work_ns,
                        idle_ns: *idle_ns,
                    })
                    .collect(),
            })
            .collect()
    }

    fn marks(&self) -> Vec<MarkReport> {
        let all = &self.model.marks().hits;
        (0_u8..)
            .zip(&self.run.marks)
            .map(|(id, [name, at])| {
                let mine = all.iter().filter(|((mark, _), _)| *mark == MarkId(id));
                let threads = self
                    .order
                    .sorted(mine.map(|((_, thread), hits)| (*thread, *hits)));
                MarkReport {
                    id: id.into(),
                    name: name.clone(),
                    at: at.clone(),
                    hits: threads.iter().map(|(_, hits)| hits).sum(),
                    threads: threads
                        .into_iter()
                        .map(|(thread, hits)| MarkThreadReport { thread, hits })
                        .collect(),
                }
            })
            .collect()
    }

    fn intervals(&self) -> Vec<IntervalReport> {
        let all = &self.model.marks().intervals;
        let mut intervals: Vec<_> = all
            .iter()
            .map(|((MarkId(from), MarkId(to)), interval)| IntervalReport {
                from: u32::from(*from),
                to: u32::from(*to),
                time_ns: stat(&interval.time),
                running_ns: interval.split.running.get(),
                ready_ns: interval.split.ready.get(),
                blocked_ns: interval.split.blocked.get(),
                threads: self
                    .order
                    .sorted(
                        interval
                            .threads
                            .iter()
                            .map(|(thread, sums)| (*thread, *sums)),
                    )
                    .into_iter()
                    .map(|(thread, (count, time_ns))| IntervalThreadReport {
                        thread,
                        count,
                        time_ns,
                    })
                    .collect(),
            })
            .collect();
        intervals.sort_by_key(|interval| (interval.from, interval.to));
        intervals
    }

    fn warnings(&self) -> Vec<WarningReport> {
        let all = self.run.warnings.iter();
        all.map(|(site, episodes, worst_ns, limit_ns)| WarningReport {
            site: site.0,
            episodes: *episodes,
            worst_ns: *worst_ns,
            limit_ns: *limit_ns,
        })
        .collect()
    }

    fn watched(&self) -> Option<Vec<WatchedReport>> {
        let watched = self.run.watched.as_ref()?;
        Some(watched.iter().map(|told| self.episode(told)).collect())
    }

    fn episode(&self, told: &Told) -> WatchedReport {
        WatchedReport {
            site: told.site.0,
            index: told.index,
            first_ns: self.since_start(told.done.first_ns),
            last_ns: self.since_start(told.done.last_ns),
            phase_ns: told.done.phase.map(|(_, phase_ns)| phase_ns),
            from: told
                .done
                .phase
                .and_then(|(from, _)| from.map(|SiteId(id)| id)),
            barrier_ns: told.done.barrier_ns(),
            arrivals: told
                .in_order()
                .map(|(gap_ns, arrival)| super::ArrivalReport {
                    thread: self.order.number(arrival.thread),
                    gap_ns,
                    idle_ns: arrival.idle_ns,
                    release_ns: arrival.release_ns,
                    work_ns: arrival.work_ns,
                    since_start_ns: self.since_start(arrival.time_ns),
                    counters: None,
                })
                .collect(),
        }
    }

    fn unfinished(&self) -> Vec<UnfinishedReport> {
        let ids = |threads: &mut dyn Iterator<Item = ThreadId>| {
            threads.map(|thread| self.order.number(thread)).collect()
        };
        let end_ns = self.run.start_ns + self.run.wall_ns;
        let under_way = self.model.under_way();
        let all = self.model.unfinished().iter().chain(&under_way);
        all.filter_map(|open| {
            // The probes come off a little after the end: who came meanwhile
            // was not there yet.
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

fn thread_time(threads: &[ThreadReport], unfinished: &[UnfinishedReport]) -> ThreadTimeReport {
    let sum = |times: &mut dyn Iterator<Item = u64>| times.fold(0, u64::saturating_add);
    let work_ns = sum(&mut threads.iter().filter_map(|thread| thread.work_ns));
    let idle_ns = sum(&mut threads.iter().map(|thread| thread.idle_ns));
    let known = threads.iter().any(|thread| thread.release_ns.is_some());
    let release_ns = sum(&mut threads.iter().filter_map(|thread| thread.release_ns));
    let release_ns = known.then_some(release_ns);
    let total_ns = sum(&mut [work_ns, idle_ns, release_ns.unwrap_or(0)].into_iter());
    let pct = |ns: u64| (total_ns > 0).then(|| ns as f64 / total_ns as f64 * 100.0);
    ThreadTimeReport {
        total_ns,
        work_ns,
        idle_ns,
        release_ns,
        work_pct: pct(work_ns),
        idle_pct: pct(idle_ns),
        release_pct: release_ns.and_then(pct),
        unfinished_ns: sum(&mut unfinished.iter().map(|open| open.idle_ns)),
    }
}

fn thread(id: u32, label: String, row: &Row) -> ThreadReport {
    let SplitSum {
        running,
        ready,
        blocked,
    } = row.split;
    ThreadReport {
        id,
        label,
        tid: row.shown.0,
        pid: row.shown.1,
        name: printable(&row.name),
        threads: row.threads,
        ended: row.ended,
        arrivals: row.arrivals,
        episodes: row.episodes,
        last: row.last,
        work_ns: row.work.get(),
        idle_ns: row.idle_ns,
        release_ns: row.release.get(),
        running_ns: running.get(),
        ready_ns: ready.get(),
        blocked_ns: blocked.get(),
        // Where a thread spins inside a barrier is not yet told apart.
        spinning_ns: None,
    }
}

fn site_thread(id: u32, thread: &SiteThread) -> SiteThreadReport {
    SiteThreadReport {
        thread: id,
        episodes: thread.episodes,
        work_ns: thread.work.known_sum(),
        idle_ns: thread.idle.sum(),
        release_ns: thread.release.known_sum(),
        running_ns: thread.split.running.get(),
        ready_ns: thread.split.ready.get(),
        blocked_ns: thread.split.blocked.get(),
        last: thread.last,
        each: EachReport {
            work_ns: stat(&thread.work),
            idle_ns: stat(&thread.idle),
            release_ns: stat(&thread.release),
        },
        counters: None,
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
