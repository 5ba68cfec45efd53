//! Makes the parts of a report that the user asked for.

use super::{
    super::{
        ArrivalReport, ConceptualReport, ConceptualThreadReport, IntervalReport,
        IntervalThreadReport, MarkReport, MarkThreadReport, WarningReport, WatchedReport,
    },
    Draw, stat,
    usage::efficiency,
};
use crate::{
    event::MarkId,
    model::{ids::SiteId, told::ToldEpisode},
};

impl Draw<'_> {
    pub(super) fn conceptual(&self) -> Vec<ConceptualReport> {
        let all = self.model.conceptual().all().iter();
        all.zip(&self.facts.conceptual)
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
                efficiency: spans.done.within.efficiency().map(efficiency),
                trend: self.trend(&spans.done.trend),
                counters: self.sums(&spans.done.counts),
                threads: self
                    .order
                    .by_index(spans.done.threads.iter().zip(&spans.done.thread_counts))
                    .into_iter()
                    .filter(|(_, (times, _))| **times != (0, 0))
                    .map(
                        |(thread, ((work_ns, idle_ns), counts))| ConceptualThreadReport {
                            thread,
                            work_ns: *work_ns,
                            idle_ns: *idle_ns,
                            counters: self.sums(counts),
                        },
                    )
                    .collect(),
            })
            .collect()
    }

    pub(super) fn marks(&self) -> Vec<MarkReport> {
        let all = &self.model.marks().hits;
        (0_u8..)
            .zip(&self.facts.marks)
            .map(|(id, [name, at])| {
                let mine = all.iter().filter(|((mark, _), _)| *mark == MarkId(id));
                let threads = self
                    .order
                    .sorted(mine.map(|((_, thread), hits)| (*thread, *hits)));
                let is_seen = !self.facts.unseen_marks.contains(&id);
                MarkReport {
                    id: id.into(),
                    name: name.clone(),
                    at: at.clone(),
                    hits: is_seen.then(|| threads.iter().map(|(_, hits)| hits).sum()),
                    threads: threads
                        .into_iter()
                        .map(|(thread, hits)| MarkThreadReport { thread, hits })
                        .collect(),
                }
            })
            .collect()
    }

    pub(super) fn intervals(&self) -> Vec<IntervalReport> {
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
                counters: self.counts(&interval.counts, interval.split.running.get()),
                threads: self
                    .order
                    .sorted(
                        interval
                            .threads
                            .iter()
                            .map(|(thread, mine)| (*thread, mine)),
                    )
                    .into_iter()
                    .map(|(thread, mine)| IntervalThreadReport {
                        thread,
                        count: mine.count,
                        time_ns: mine.time_ns,
                        counters: self.sums(&mine.counts),
                    })
                    .collect(),
            })
            .collect();
        intervals.sort_by_key(|interval| (interval.from, interval.to));
        intervals
    }

    pub(super) fn warnings(&self) -> Vec<WarningReport> {
        let all = self.facts.warnings.iter();
        all.map(|(site, episodes, worst_ns, limit_ns)| WarningReport {
            site: site.0,
            episodes: *episodes,
            worst_ns: *worst_ns,
            limit_ns: *limit_ns,
        })
        .collect()
    }

    pub(super) fn watched(&self) -> Option<Vec<WatchedReport>> {
        let watched = self.facts.watched.as_ref()?;
        Some(watched.iter().map(|told| self.episode(told)).collect())
    }

    fn episode(&self, told: &ToldEpisode) -> WatchedReport {
        WatchedReport {
            site: told.site.0,
            index: told.index,
            number: told.number,
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
                .map(|(gap_ns, arrival)| ArrivalReport {
                    thread: self.order.number(arrival.thread),
                    gap_ns,
                    idle_ns: arrival.idle_ns,
                    release_ns: arrival.release_ns,
                    work_ns: arrival.work_ns,
                    since_start_ns: self.since_start(arrival.time_ns),
                    counters: self.counts_of(arrival.counts.as_deref()),
                })
                .collect(),
        }
    }
}
