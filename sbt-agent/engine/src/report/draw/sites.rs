//! Draws sites, the last threads to arrive at them, and the phases between them.

use super::{
    super::{
        BarrierStragglerReport, EachReport, LateAwayReport, LateReport, LateTimesReport,
        LaterReport, PhaseReport, SiteReport, SiteThreadReport, StragglerReport,
        counters::derived,
        place_names::{label, labels, others},
    },
    Draw, ns, stat,
    threads::waits,
    usage::{parallelism, pct, what_if},
};
use crate::{
    model::{
        away,
        ids::{SiteId, ThreadId},
        late::{Late, Times},
        site::{AtBarrier, Later, Site, SiteThread},
        stats::KnownSum,
    },
    place::printable,
};

impl Draw<'_> {
    pub(super) fn sites(&self) -> Vec<SiteReport> {
        let paths = self.paths();
        let mut sites: Vec<SiteReport> = (0..)
            .zip(self.model.sites().all())
            .filter(|(id, site)| self.is_in_window(SiteId(*id), site))
            .map(|(id, site)| self.site(id, site, paths))
            .collect();
        sites.sort_by_key(|site| (std::cmp::Reverse(site.lost_ns), site.id));
        sites
    }

    /// Whether threads came to a site in the part of the run that counts.
    fn is_in_window(&self, id: SiteId, site: &Site) -> bool {
        let counts_all = self.facts.run.window.is_none();
        let is_waited_at = || self.model.unfinished().iter().any(|one| one.site == id);
        let is_seen = site.episodes > 0 || site.incomplete > 0 || is_waited_at();
        counts_all || is_seen || self.facts.run.hang.is_some()
    }

    fn site(&self, id: u32, site: &Site, (path, weight): (f64, f64)) -> SiteReport {
        let mine = || {
            let ids = site.places.iter();
            ids.filter_map(|place| self.places.get(place.0 as usize).copied())
        };
        let first = mine()
            .find(|place| !place.of_runtime)
            .or_else(|| mine().next());
        let alone = |part: KnownSum| part.get().and_then(|ns| self.of_regions(ns));
        let others = others(&mine().collect::<Vec<_>>(), &self.places);
        let depth = first.map_or(0, |place| place.naming_frame(&others));
        let address = first.map(|place| place.address(depth));
        let frame = first.and_then(|place| place.frames.get(depth));
        let counters = self.counts(&site.counts, running_ns(site));
        SiteReport {
            id,
            name: self.facts.names.get(id as usize).cloned().flatten(),
            function: frame
                .and_then(|frame| frame.function.as_deref())
                .map(printable),
            file: frame.and_then(|frame| frame.file.as_deref()).map(printable),
            line: frame.and_then(|frame| frame.line),
            binary: address.map_or_else(|| "?".into(), |(binary, _)| printable(binary)),
            offset: address.map_or_else(|| "?".into(), |(_, offset)| format!("{offset:#x}")),
            function_offset: first
                .and_then(|place| place.into_function_at(depth))
                .map(|offset| format!("{offset:#x}")),
            callers: first.map_or_else(Vec::new, |place| {
                (depth + 1..place.frames.len())
                    .filter(|outer| !place.frames[*outer].is_of_library())
                    .map(|outer| label(place, outer))
                    .collect()
            }),
            wrappers: first.map_or_else(Vec::new, |place| {
                (0..depth).map(|inner| label(place, inner)).collect()
            }),
            places: labels(mine(), &self.places),
            barriers: site.barriers.iter().map(|barrier| barrier.0).collect(),
            kind: site.kind.into(),
            episodes: site.episodes,
            incomplete: site.incomplete,
            lost_ns: site.idle.sum(),
            waits: waits(site.waits),
            lost_wall_pct: self.lost_wall_pct(site),
            gain_ns: ns(site.gain_ns),
            what_if: what_if(&site.gains),
            alone_ns: self.of_regions(site.alone_ns.0),
            alone_ready_ns: alone(site.alone_split.ready),
            alone_blocked_ns: alone(site.alone_split.blocked),
            between_ns: self.of_regions(site.alone_ns.1),
            path_ns: site.gains.path_ns,
            path_pct: pct(site.gains.path_ns as f64, path),
            weighted_path_pct: pct(site.gains.weighted_ns, weight),
            parallelism: parallelism(&site.busy),
            imbalance_pct: site.imbalance_pct(),
            phase_ns: stat(&site.phase),
            barrier_ns: stat(&site.barrier),
            idle_ns: stat(&site.idle),
            release_ns: stat(&site.release),
            work_ns: stat(&site.work),
            estimated: self.facts.thinned.is_some(),
            // Until the first thread has told, its arrivals count.
            tells_waits: site.told > 0 && site.told + 2 >= site.episodes,
            compensated: self.compensated_at(id),
            derived: derived(&counters),
            counters,
            counted: self.counted(&site.counts, site.idle.count()),
            straggler: self.straggler(site),
            straggler_by_barrier: self.by_barrier(site),
            related: self.related(&site.related),
            trend: self.trend(&site.trend),
            threads: self
                .order
                .sorted(site.threads.iter().map(|thread| (thread.id, thread)))
                .into_iter()
                .filter(|(_, thread)| thread.episodes > 0)
                .map(|(id, thread)| self.site_thread(id, thread))
                .collect(),
        }
    }

    /// Mean percentage of its wall time that a thread loses at a site. The threads are those of one
    /// team, or, where several teams are at the site at once, the average number of threads there.
    fn lost_wall_pct(&self, site: &Site) -> Option<f64> {
        let team = site.participants as f64 / site.episodes as f64;
        let rows = self.model.threads().rows();
        let lives = site.threads.iter().map(|thread| {
            let row = &rows[thread.id.index()];
            row.idle_ns as f64
                + row.work.get().unwrap_or(0) as f64
                + row.release.get().unwrap_or(0) as f64
                + row.between_ns as f64
        });
        let off_ns = self.facts.thinned.map_or(0, |(_, off_ns)| off_ns);
        let seen_ns = self.facts.run.wall_ns.saturating_sub(off_ns) as f64;
        let all = (team * seen_ns).max(lives.sum());
        (site.episodes > 0 && all > 0.0).then(|| site.idle.sum() as f64 / all * 100.0)
    }

    /// The thread that came last most often, and how often. Threads that share a row are left out.
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
                pattern: pattern.into(),
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
            pattern: site.pattern(shared).into(),
            sequence: site.sequence(shared).into(),
            thread,
            share_pct: share(most),
            unknown_pct: share(unknown.map_or(0, |(_, last)| last)),
            longest_run: site.ledger.longest_run,
            repeats: site.ledger.repeats,
            changes: site.ledger.changes,
            mean_lead_ns: site.ledger.lead_ns / site.episodes,
            late: late(&site.late, &site.late_away),
        })
    }

    pub(super) fn phases(&self) -> Vec<PhaseReport> {
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
                barrier_sum_ns: Some(phase.barrier_ns),
                work_ns: stat(&phase.work),
                parallelism: parallelism(&phase.busy),
                counters: self.sums(&phase.counts),
                counted: self.counted(&phase.counts, phase.intervals),
            })
            .collect();
        phases.sort_by_key(|phase| (phase.from, phase.to));
        phases
    }
}

fn late(late: &Late, away: &away::Late) -> Option<LateReport> {
    let times = |times: &Times| {
        let known = |time: f64| (late.split_episodes > 0).then(|| ns(time));
        LateTimesReport {
            work_ns: ns(times.work),
            running_ns: known(times.running),
            ready_ns: known(times.ready),
            blocked_ns: known(times.blocked),
        }
    };
    let slower = late.slower();
    (late.episodes > 0).then(|| LateReport {
        episodes: late.episodes,
        split_episodes: late.split_episodes,
        participants: late.participants as f64 / late.episodes as f64,
        phase_ns: ns(late.phase),
        idle_ns: ns(late.idle),
        lead_ns: ns(late.lead),
        last: times(&late.last),
        others: times(&late.others),
        away: LateAwayReport::of(away),
        cpu_slower: slower.map(|(factor, _)| factor),
        cpu_slower_episodes: slower.map_or(0, |(_, episodes)| episodes),
    })
}

fn later(later: &Later) -> Option<LaterReport> {
    // A sum over some of the episodes would be too small beside the work in all of them.
    (later.episodes > 0).then(|| LaterReport {
        episodes: later.episodes,
        work_ns: later.work_ns,
        running_ns: later.split.running.nearly_all(),
        ready_ns: later.split.ready.nearly_all(),
        blocked_ns: later.split.blocked.nearly_all(),
    })
}

/// Time on a CPU of the site's threads during their work, ns, as far as it is known.
fn running_ns(site: &Site) -> Option<u64> {
    let threads = site.threads.iter();
    let known = threads.filter_map(|thread| thread.split.running.get());
    known.reduce(u64::saturating_add)
}

impl Draw<'_> {
    fn site_thread(&self, id: u32, thread: &SiteThread) -> SiteThreadReport {
        SiteThreadReport {
            thread: id,
            episodes: thread.episodes,
            work_ns: thread.work.known_sum(),
            idle_ns: thread.idle.sum(),
            release_ns: thread.release.known_sum(),
            waits: waits(thread.waits),
            running_ns: thread.split.running.get(),
            ready_ns: thread.split.ready.nearly_all(),
            blocked_ns: thread.split.blocked.nearly_all(),
            alone_ns: self.of_regions(thread.alone_ns),
            path_ns: thread.path_ns,
            npt_ns: ns(thread.normalised_ns),
            last: thread.last,
            kept_ns: Some(thread.kept_ns),
            later: later(&thread.later),
            each: EachReport {
                work_ns: stat(&thread.work),
                idle_ns: stat(&thread.idle),
                release_ns: stat(&thread.release),
            },
            counters: self.counts(&thread.counts, thread.split.running.get()),
            counted: self.counted(&thread.counts, thread.episodes),
        }
    }
}
