//! Draws threads, their processes, and where their time went.

use super::{
    super::{
        AwayReport, HangReport, ProcessReport, ThreadReport, ThreadTimeReport, UnfinishedReport,
        WaitsReport, counters::Counts, order::Process,
    },
    Draw, ns,
    usage::pct,
};
use crate::{
    event::Kind,
    model::{parts::SplitSum, site::Site, thread::Row, waits::Waits},
    place::printable,
};

impl Draw<'_> {
    pub(super) fn threads(&self) -> Vec<ThreadReport> {
        let paths = self.paths();
        self.order
            .by_index(self.model.threads().rows())
            .into_iter()
            .map(|(id, row)| {
                let counters = self.counts(&row.counts, row.split.running.get());
                let between_ns = self.of_regions(row.between_ns);
                let until_ns = (row.worked_until_ns > 0).then_some(row.worked_until_ns);
                let label = self.order.label(id);
                let seen = self.facts.run.hang.as_ref();
                let name = seen.and_then(|hang| name_seen(&hang.found, id, &label));
                let mut report = thread(id, label, row, counters, paths);
                if let Some(name) = name.filter(|_| row.threads == 1) {
                    name.clone_into(&mut report.name);
                }
                ThreadReport {
                    worked_until_ns: until_ns.map(|ns| self.since_start(ns)),
                    between_ns,
                    own_cost_ns: self.paid(&row.paid),
                    ..report
                }
            })
            .collect()
    }

    /// `ns`, a time that is known only if beginnings of parallel regions are seen. `None` if
    /// departures are not watched and the program has sites of OpenMP.
    pub(super) fn of_regions(&self, ns: u64) -> Option<u64> {
        let is_openmp = |site: &Site| matches!(site.kind, Kind::Gomp | Kind::Kmp);
        let has_regions = || self.model.sites().all().iter().any(is_openmp);
        (self.facts.run.departures != Some(false) || !has_regions()).then_some(ns)
    }

    pub(super) fn processes(&self) -> Vec<ProcessReport> {
        let processes = self.order.processes().iter();
        let report = |process: &Process| ProcessReport {
            id: process.number,
            pid: process.pid,
            rank: process.rank,
            host: None,
        };
        processes.map(report).collect()
    }
}

/// The name that a thread had during a look at a hang, if known. Threads may be renamed, and a
/// report gives each thread one name only.
fn name_seen<'a>(hang: &'a HangReport, id: u32, label: &str) -> Option<&'a str> {
    let mut all = hang.missing.iter().chain(&hang.arrived).chain(&hang.others);
    let found = all.find(|thread| thread.who.thread == Some(id))?;
    let name = found.who.name.strip_prefix(label)?.strip_prefix(' ')?;
    Some(name).filter(|name| !name.is_empty())
}

fn thread(
    id: u32,
    label: String,
    row: &Row,
    counters: Counts,
    (path, weight): (f64, f64),
) -> ThreadReport {
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
        arrivals: row.arrivals + row.unseen,
        episodes: row.episodes,
        last: row.last,
        work_ns: row.work.get(),
        idle_ns: row.idle_ns,
        release_ns: row.release.get(),
        between_ns: None,
        worked_until_ns: None,
        running_ns: running.get(),
        ready_ns: ready.nearly_all(),
        blocked_ns: blocked.nearly_all(),
        begin_running_ns: row.begin.running.get(),
        begin_blocked_ns: row.begin.blocked.get(),
        end_blocked_ns: row.end.blocked.get(),
        away: AwayReport::of(&row.away),
        path_ns: row.path_ns,
        path_pct: pct(row.path_ns as f64, path),
        weighted_path_pct: pct(row.weighted_path_ns, weight),
        npt_ns: ns(row.normalised_ns),
        own_cost_ns: None,
        fixed_work_ns: row.speeds.mean_without_longest_ns(),
        fixed_work_least_ns: row.speeds.least_ns,
        fixed_work_times: row.speeds.times,
        counters,
        waits: waits(row.waits),
    }
}

/// The waits as every part of a report shows them.
pub(super) fn waits(waits: Waits) -> WaitsReport {
    let (spinning_ns, asleep_ns) = (waits.split.running.get(), waits.split.blocked.get());
    WaitsReport {
        spinning_ns,
        asleep_ns,
        spinning_pct: waits.pct(spinning_ns),
        asleep_pct: waits.pct(asleep_ns),
    }
}

pub(super) fn thread_time(
    threads: &[ThreadReport],
    all_waits: Waits,
    unfinished: &[UnfinishedReport],
) -> ThreadTimeReport {
    let sum = |times: &mut dyn Iterator<Item = u64>| times.fold(0, u64::saturating_add);
    let work_ns = sum(&mut threads.iter().filter_map(|thread| thread.work_ns));
    let idle_ns = sum(&mut threads.iter().map(|thread| thread.idle_ns));
    let known = threads.iter().any(|thread| thread.release_ns.is_some());
    let release_ns = sum(&mut threads.iter().filter_map(|thread| thread.release_ns));
    let release_ns = known.then_some(release_ns);
    let known = threads.iter().any(|thread| thread.between_ns.is_some());
    let between_ns = sum(&mut threads.iter().filter_map(|thread| thread.between_ns));
    let between_ns = known.then_some(between_ns);
    let parts = [
        work_ns,
        idle_ns,
        release_ns.unwrap_or(0),
        between_ns.unwrap_or(0),
    ];
    let total_ns = sum(&mut parts.into_iter());
    let pct = |ns: u64| (total_ns > 0).then(|| ns as f64 / total_ns as f64 * 100.0);
    ThreadTimeReport {
        total_ns,
        work_ns,
        idle_ns,
        release_ns,
        between_ns,
        work_pct: pct(work_ns),
        idle_pct: pct(idle_ns),
        release_pct: release_ns.and_then(pct),
        between_pct: between_ns.and_then(pct),
        waits: waits(all_waits),
        unfinished_ns: sum(&mut unfinished.iter().map(|open| open.idle_ns)),
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        report::Report,
        verdict::tests::{MS, Program, runs},
    };

    /// The length of the path through each thread, and through all sites together, ns.
    fn paths(report: &Report) -> (Vec<u64>, u64) {
        let threads = report.threads.iter().map(|thread| thread.path_ns);
        let sites = report.sites.iter().map(|site| site.path_ns);
        (threads.collect(), sites.sum())
    }

    #[test]
    fn the_path_runs_through_the_work_of_whoever_came_last() {
        let mut program = Program::new(3);
        program.meet(0, &[runs(1), runs(2), runs(3)]);
        program.meet(0, &[runs(7), runs(5), runs(6)]);
        program.meet(0, &[runs(4), runs(9), runs(8)]);
        program.meet(1, &[runs(20), runs(19), runs(18)]);
        let report = program.report();
        // The path runs through the work of the last thread to arrive in each episode.
        let (threads, sites_ns) = paths(&report);
        assert_eq!(threads, [27, 9, 3].map(|ms| ms * MS));
        assert_eq!(sites_ns, 39 * MS);
        let shares = report.threads.iter().filter_map(|thread| thread.path_pct);
        let shares: Vec<f64> = shares.collect();
        for (share, expected) in shares.iter().zip([27.0, 9.0, 3.0]) {
            assert!((share - expected / 39.0 * 100.0).abs() < 1e-9, "{shares:?}");
        }
    }

    #[test]
    fn what_a_thread_works_alone_between_regions_is_on_its_path() {
        let mut program = Program::new(2);
        program.alone_ns = Some(5 * MS);
        program.meet(0, &[runs(1), runs(2)]);
        program.meet(0, &[runs(1), runs(3)]);
        program.meet(0, &[runs(4), runs(1)]);
        let (threads, sites_ns) = paths(&program.report());
        // Before the first region no thread was kept waiting.
        assert_eq!(threads, [2 * 5 + 4, 2 + 3].map(|ms| ms * MS));
        assert_eq!(sites_ns, 19 * MS);
    }
}
