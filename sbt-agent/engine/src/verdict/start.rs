//! Verdicts on times in which most threads are absent: before the first barrier, between parallel
//! regions, and after the last barrier.

use super::words::{who, whole};
use crate::{
    report::{Figure, PhaseReport, Report, SiteReport, ThreadReport, VerdictKind, VerdictReport},
    words::time,
};

/// Percentage of the wall time from which a serial start is reported. Every program starts with one
/// thread; a serial tenth limits the speed-up of any number of threads to 1 / 0.1 = 10.
const SHARE: f64 = 10.0;

/// A thread that worked for this fraction of the first phase has worked throughout.
const ALL_THROUGH: f64 = 0.9;

/// A first phase shorter than this multiple of the mean phase is an ordinary phase, with ordinary
/// imbalance.
const LONGER: f64 = 4.0;

/// Verdict: threads idle, or do not exist yet, while the program begins.
pub fn serial_start(report: &Report) -> Option<VerdictReport> {
    let first = report.phases.iter().filter(|phase| phase.from.is_none());
    let idle = first.filter_map(|phase| Some((idle_ns(phase)?, phase)));
    let (idle_ns, phase) = idle.max_by(|a, b| a.0.total_cmp(&b.0))?;
    let share_pct = idle_ns / report.run.wall_ns.max(1) as f64 * 100.0;
    let phase_ns = phase.phase_ns.as_ref()?.max;
    if share_pct < SHARE || (phase_ns as f64) < LONGER * usual_ns(report) {
        return None;
    }
    let work = phase.work_ns.as_ref()?;
    let threads = work.count / phase.episodes;
    let worker = (work.max as f64 >= ALL_THROUGH * phase_ns as f64)
        .then(|| worker(report, phase.to, work.max))
        .flatten();
    let whose = worker.map_or_else(
        || "before they begin".to_owned(),
        |worker| format!("while {} works", who(report, worker)),
    );
    let site = report.site(phase.to)?;
    let text = format!(
        "serial start: {threads} threads first meet at {} after {}, and {:.0} % of that time they \
         idle or are not there yet, {whose}; that is {share_pct:.0} % of the wall time: start \
         them earlier, and let them share what is done first",
        site.called(),
        time(phase_ns),
        idle_ns / phase_ns.max(1) as f64 * 100.0,
    );
    Some(VerdictReport {
        kind: VerdictKind::SerialStart,
        site: None,
        thread: worker,
        text,
        evidence: [
            ("share_pct", Figure::Real(share_pct)),
            ("phase_ns", Figure::Whole(phase_ns)),
            ("threads", Figure::Whole(threads)),
        ]
        .into(),
    })
}

/// Verdict: one thread works between parallel regions, and the others are kept waiting for the next
/// region.
pub fn serial_part(report: &Report, site: &SiteReport) -> Option<VerdictReport> {
    let (alone_ns, between_ns) = (site.alone_ns?, site.between_ns?);
    if alone_ns == 0 || site.episodes < super::FEW {
        return None;
    }
    let share_pct = between_ns as f64 / report.thread_time.total_ns.max(1) as f64 * 100.0;
    // If threads lose more by waiting in the region itself, other verdicts report that.
    if share_pct < super::WORTH || site.lost_ns > between_ns {
        return None;
    }
    let wall_pct = alone_ns as f64 / report.seen_ns().max(1) as f64 * 100.0;
    // If that thread hardly works, something else keeps the others: with more threads than CPUs,
    // they have no CPU.
    if wall_pct < super::WORTH {
        return None;
    }
    // Teams may be smaller than the number of threads that are kept between regions.
    let most = site.threads.len().max(2) as f64 - 1.0;
    let others = (between_ns as f64 / alone_ns as f64).min(most);
    let seen = report.seen_called();
    let worker = site.threads.iter().max_by_key(|thread| thread.alone_ns)?;
    let gain_ns = whole(alone_ns as f64 * others / (others + 1.0));
    let text = format!(
        "serial part before {}: {} works alone for {:.0} % of the {seen} while {} kept \
         waiting for the parallel region to begin, {share_pct:.0} % of thread time, up to \
         {} of {} {seen}: divide that work too",
        site.called(),
        who(report, worker.thread),
        wall_pct,
        if others < 1.5 {
            "another is".into()
        } else {
            format!("{others:.0} others are")
        },
        time(gain_ns),
        time(report.seen_ns()),
    );
    Some(VerdictReport {
        kind: VerdictKind::SerialPart,
        site: Some(site.id),
        thread: Some(worker.thread),
        text,
        evidence: [
            ("share_pct", Figure::Real(share_pct)),
            ("gain_ns", Figure::Whole(gain_ns)),
            ("alone_pct", Figure::Real(wall_pct)),
            ("threads", Figure::Real(others + 1.0)),
        ]
        .into(),
    })
}

/// Verdict: threads idle, or are gone, after the last barrier while the program goes on.
pub fn serial_end(report: &Report) -> Option<VerdictReport> {
    // If only watching has ended, the program was in the middle of something. And with threads in a
    // barrier, the last barrier is still to come.
    if !report.run.ended || !report.unfinished.is_empty() {
        return None;
    }
    let last_episode =
        |site: &SiteReport| site.trend.last().map(|bucket| (bucket.until_ns, site.id));
    let (last_ns, site) = report.sites.iter().filter_map(last_episode).max()?;
    let end_ns = report.run.wall_ns.checked_sub(last_ns)?;
    let threads = report.efficiency.as_ref()?.threads;
    let after = |thread: &ThreadReport| {
        let until_ns = thread.worked_until_ns?.min(report.run.wall_ns);
        Some((until_ns.saturating_sub(last_ns), thread.id))
    };
    let after: Vec<(u64, u32)> = report.threads.iter().filter_map(after).collect();
    let busy_ns: u64 = after.iter().map(|(ns, _)| ns).sum();
    let all_ns = end_ns as f64 * f64::from(threads);
    let idle = 1.0 - busy_ns as f64 / all_ns.max(1.0);
    let share_pct = idle * end_ns as f64 / report.run.wall_ns.max(1) as f64 * 100.0;
    if threads < 2 || share_pct < SHARE || (end_ns as f64) < LONGER * usual_ns(report) {
        return None;
    }
    let (most_ns, thread) = after.into_iter().max()?;
    // If none of these threads works throughout, a thread that meets no barrier may work there.
    if (most_ns as f64) < ALL_THROUGH * end_ns as f64 {
        return None;
    }
    let text = format!(
        "serial end: after the last barrier, {}, the program goes on for {}, and {:.0} % of that \
         time its {threads} threads idle or are gone, while {} works; that is {share_pct:.0} % of the wall \
         time: let them share what is done last",
        report.site(site)?.called(),
        time(end_ns),
        idle * 100.0,
        who(report, thread),
    );
    Some(VerdictReport {
        kind: VerdictKind::SerialEnd,
        site: None,
        thread: Some(thread),
        text,
        evidence: [
            ("share_pct", Figure::Real(share_pct)),
            ("end_ns", Figure::Whole(end_ns)),
            ("threads", Figure::Whole(threads.into())),
        ]
        .into(),
    })
}

/// Mean length of the phases that follow another phase, ns; 0 if there are none.
fn usual_ns(report: &Report) -> f64 {
    let later = report.phases.iter().filter(|phase| phase.from.is_some());
    let later = later.filter_map(|phase| phase.phase_ns.as_ref());
    let (sum, count) = later.fold((0.0, 0), |(sum, count), phase| {
        (sum + phase.sum as f64, count + phase.count)
    });
    sum / count.max(1) as f64
}

/// How long a thread did not work in a first phase, ns, averaged over all threads.
fn idle_ns(phase: &PhaseReport) -> Option<f64> {
    let wall = phase.phase_ns.as_ref()?;
    let work = phase.work_ns.as_ref()?;
    let threads = work.count as f64 / wall.count as f64;
    // A single thread has nobody to share with. If several teams pass the phase, this is their
    // mean.
    (threads >= 2.0).then(|| (wall.sum as f64 - work.sum as f64 / threads) / wall.count as f64)
}

/// The thread whose longest work at a site was `work_ns`.
fn worker(report: &Report, site: u32, work_ns: u64) -> Option<u32> {
    let mut threads = report.site(site)?.threads.iter();
    let found = threads.find(|thread| {
        let longest = thread.each.work_ns.as_ref().map(|work| work.max);
        longest == Some(work_ns)
    });
    found.map(|thread| thread.thread)
}
